use std::time::Duration;

use seam::{Input, Instant, Output, Program};
use wire::Capabilities;

use crate::client::commands::command::tests::{connection, engine};
use crate::engine::Engine;
use crate::server::control::facts::Facts;
use crate::server::login::Established;
use crate::settings::Settings;

const LIMIT: usize = 1 << 20;

/// Half a statement of so many bytes.
fn half(bytes: usize) -> Vec<u8> {
    [&[0xff, 0xff, 0x7f, 0, 3][..], &vec![b'x'; bytes - 5]].concat()
}

fn say(engine: &mut Engine, client: u32, bytes: &[u8]) {
    let now = engine.now;
    engine.handle(now, Input::Bytes { connection: connection(client), bytes });
}

/// The clients that are told that there is no memory, and those that are closed.
fn ended(engine: &mut Engine) -> (Vec<u32>, Vec<u32>) {
    let (mut told, mut closed) = (Vec::new(), Vec::new());
    while let Some(output) = engine.poll_output() {
        match output {
            // ER_OUT_OF_RESOURCES, 1041.
            Output::Send { connection, bytes } if bytes.get(4..7) == Some(&[0xff, 0x11, 0x04]) => {
                told.push(connection.index);
            }
            Output::Close { connection } => closed.push(connection.index),
            _ => {}
        }
    }
    (told, closed)
}

fn settings() -> Settings {
    Settings { statement_memory: LIMIT, ..Settings::default() }
}

#[test]
fn whoever_holds_most_has_to_go_for_others() {
    let mut engine = engine(8, settings());
    for (client, bytes) in [(0, 300_000), (1, 200_000), (2, 400_000), (3, 100_000)] {
        say(&mut engine, client, &half(bytes));
    }
    assert_eq!(ended(&mut engine), (vec![], vec![]));
    let mut query = Vec::new();
    wire::put_message(&mut query, &mut 0, &[b"\x03SELECT '", &vec![b'x'; 60_000][..], b"'"].concat());
    say(&mut engine, 4, &query);
    assert_eq!(ended(&mut engine), (vec![2], vec![2]), "until a quarter is free");
    assert_eq!(engine.figures().snapshot().waiting, 1);
}

#[test]
fn whoever_is_the_greatest_itself_has_to_go() {
    let mut engine = engine(2, settings());
    say(&mut engine, 0, &half(200_000));
    say(&mut engine, 1, &half(900_000));
    assert_eq!(ended(&mut engine), (vec![1], vec![1]));
}

#[test]
fn where_statements_wait_the_latest_is_refused() {
    let mut engine = engine(8, settings());
    let mut query = Vec::new();
    wire::put_message(&mut query, &mut 0, &[b"\x03SELECT '", &vec![b'x'; 250_000][..], b"'"].concat());
    for client in 0..4 {
        say(&mut engine, client, &query);
    }
    assert_eq!(ended(&mut engine), (vec![], vec![]));
    say(&mut engine, 4, &query);
    assert_eq!(ended(&mut engine), (vec![4], vec![]));
}

#[test]
fn attributes_of_statements_that_wait_count_with_them() {
    let mut engine = engine(8, settings());
    let keys: Vec<_> = engine.clients.iter().map(|(key, _)| key).collect();
    for key in keys {
        engine.clients[key].capabilities |= Capabilities::QUERY_ATTRIBUTES;
    }
    // One of MYSQL_TYPE_STRING, without a name.
    let attributes =
        [&b"\x03\x01\x01\x00\x01\xfe\x00\x00\xfd\x90\xd0\x03"[..], &vec![b'x'; 250_000][..]].concat();
    let mut query = Vec::new();
    wire::put_message(&mut query, &mut 0, &[&attributes[..], b"SELECT 1"].concat());
    for client in 0..4 {
        say(&mut engine, client, &query);
    }
    assert_eq!(ended(&mut engine), (vec![], vec![]));
    assert_eq!(engine.figures().snapshot().waiting, 4);
    say(&mut engine, 4, &query);
    assert_eq!(ended(&mut engine), (vec![4], vec![]));
}

/// The clients are another worker's trouble: their own worker looks for them now and then.
#[test]
fn the_quiet_are_found_without_being_missed() {
    let mut engine = engine(4, settings());
    for client in 0..3 {
        say(&mut engine, client, &half(320_000));
    }
    engine.handle(Instant::START, Input::TurnEnd);
    assert_eq!(ended(&mut engine), (vec![], vec![]));
    let later = Instant::START + Duration::from_secs(1);
    engine.handle(later, Input::Bytes { connection: connection(2), bytes: b"x" });
    engine.handle(later, Input::TurnEnd);
    assert_eq!(ended(&mut engine), (vec![1], vec![1]), "of two that are quiet, one");
}

#[test]
fn those_that_go_on_are_found_where_they_are_missed() {
    let mut engine = engine(4, settings());
    let later = Instant::START + Duration::from_secs(1);
    for client in 0..3 {
        engine.handle(later, Input::Bytes { connection: connection(client), bytes: &half(320_000) });
    }
    engine.handle(later, Input::TurnEnd);
    assert_eq!(ended(&mut engine), (vec![], vec![]), "nobody is quiet");
    say(&mut engine, 3, &half(100_000));
    assert_eq!(ended(&mut engine), (vec![2], vec![2]));
}

#[test]
fn the_quiet_go_before_those_that_hold_more() {
    let mut engine = engine(4, settings());
    say(&mut engine, 0, &half(320_000));
    let later = Instant::START + Duration::from_secs(1);
    engine.handle(later, Input::TurnEnd);
    for client in [1, 2] {
        say(&mut engine, client, &half(370_000));
    }
    assert_eq!(ended(&mut engine), (vec![0], vec![0]));
}

/// An engine that greets each client that comes.
fn greeting(settings: Settings) -> Engine {
    let server = vec![seam::Address::Unix("/nowhere".into())];
    let mut engine = Engine::new(Settings { server, ..settings });
    engine.servers.primary_mut().facts =
        Some(Facts::new(&Established::of_test("11.4-MariaDB", Capabilities(u64::MAX))));
    engine
}

/// A client that comes and sends so many bytes of a login request.
fn begin_login(engine: &mut Engine, client: u32, bytes: usize) {
    let (now, peer) = (engine.now, seam::Peer::Unix { uid: 0 });
    let listener = seam::ListenerId(0);
    engine.handle(now, Input::Accepted { connection: connection(client), listener, peer });
    let request = [&[0x00, 0x3e, 0, 1][..], &vec![b'x'; bytes - 4]].concat();
    say(engine, client, &request);
}

#[test]
fn unfinished_logins_that_hold_most_and_longest_have_to_go() {
    let mut engine = greeting(Settings { login_memory: 100_000, ..Settings::default() });
    for client in 1..=30 {
        begin_login(&mut engine, client, 100);
    }
    for (client, bytes) in
        [(31, 12_000), (32, 15_000), (33, 14_000), (34, 5000), (35, 14_000), (36, 13_000), (37, 12_000)]
    {
        begin_login(&mut engine, client, bytes);
    }
    assert_eq!(ended(&mut engine), (vec![], vec![]));
    begin_login(&mut engine, 38, 13_000);
    assert_eq!(ended(&mut engine), (vec![32, 33], vec![32, 33]), "until a quarter is free");
    // Of small ones those that began first, who have had their time.
    for client in 40..140 {
        begin_login(&mut engine, client, 1900);
    }
    let (told, closed) = ended(&mut engine);
    assert_eq!(told, closed);
    let large = [35, 36, 38, 31, 37, 34];
    assert_eq!(closed[..6], large);
    assert!(
        closed[6..].is_sorted() && closed[6] == 1 && closed.iter().all(|&client| client < 120),
        "{closed:?}"
    );
    assert!(engine.client_memory.logins.bytes() <= 100_000);
    assert_eq!(engine.client_memory.statements.bytes(), 0);
}

#[test]
fn what_goes_is_counted_off() {
    let mut engine = greeting(Settings::default());
    for client in 1..=3 {
        begin_login(&mut engine, client, 5000);
    }
    assert!(
        engine.client_memory.logins.bytes() >= 15_000
            && engine.holders_of_memory().memory().logins == engine.client_memory.logins.bytes()
    );
    let reason = seam::CloseReason::EndOfStream;
    engine.handle(Instant::START, Input::Closed { connection: connection(1), reason });
    // The rest of a request that cannot be read.
    say(&mut engine, 2, &vec![b'x'; 0x3e00 - 5000 + 4]);
    say(&mut engine, 3, &vec![b'x'; 20_000]);
    assert_eq!(engine.client_memory.logins.bytes(), 0);
}
