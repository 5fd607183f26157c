use std::sync::Arc;
use std::time::Duration;

use seam::{Address, ConnectionId, Input, Instant, Output, Peer, Program};

use super::*;
use crate::accounts::secret::Secret;
use crate::accounts::{Account, Credential};
use crate::backend::pool::building::AsWhom;
use crate::client::Client;
use crate::ids::{BackendKey, ServerKey, client_key};
use crate::server::control::facts::Facts;
use crate::server::login::Established;
use crate::session::SessionState;
use crate::session::aftermath::Diagnostics;
use crate::settings::Settings;
use crate::workers::Workers;

/// Clients that have logged in and have said nothing yet, in front of a server that is away.
pub(crate) fn engine(clients: u32, settings: Settings) -> Engine {
    engine_among(1, clients, settings)
}

/// The first of so many workers. All clients are its own.
pub(crate) fn engine_among(workers: u32, clients: u32, settings: Settings) -> Engine {
    let server = vec![Address::Unix("/nowhere".into())];
    let settings = Settings { server, max_connections: clients, ..settings };
    let workers = Workers::new(&settings, workers);
    let mut engine = Engine::join(settings, workers, 0);
    engine.servers.primary_mut().facts =
        Some(Facts::new(&Established::of_test("11.4-MariaDB", Capabilities(u64::MAX))));
    let account = Arc::new(Account::of_test("app", "%", Credential::Empty));
    for index in 0..clients {
        assert!(engine.pool.workers.take_client());
        let (id, peer) = (engine.ids.next(&engine.pool), Peer::Tcp(([10, 0, 0, 1], 1024).into()));
        let mut client = Client::new(connection(index), peer, id, Instant::START);
        client.logs_in(engine.logins.identities.hold(&account, b"app", Secret::None));
        client.session.begins(engine.sessions.states.hold(SessionState::default()));
        client.set_phase(Phase::Idle);
        let key = engine.clients.insert(client);
        engine.ids.come(id, key);
        engine.io.set_role(connection(index), crate::io::Role::Client(key));
    }
    engine
}

/// Opens backends for the first client on these servers.
pub(crate) fn open_backends(engine: &mut Engine, servers: &[ServerKey]) -> Vec<BackendKey> {
    let client = &engine.clients[client_key(0)];
    let whom = AsWhom {
        identity: client.identity().expect("it has logged in"),
        class: client.class(),
        collation: 45,
    };
    for &server in servers {
        let origin = engine.pool.take_place(Instant::START).expect("there is room for some");
        engine.building().open(server, Some(whom), origin);
    }
    engine.servers.backends().map(|(key, _)| key).collect()
}

/// Returns the tokens of the connections that are asked for.
pub(crate) fn asked_for(engine: &mut Engine) -> Vec<u64> {
    let mut tokens = Vec::new();
    while let Some(output) = engine.poll_output() {
        if let Output::Connect { token, .. } = output {
            tokens.push(token);
        }
    }
    tokens
}

pub(crate) fn connection(index: u32) -> ConnectionId {
    ConnectionId { index, generation: 1 }
}

/// Runs a turn with these bytes of the first client. Returns how many bytes the client was sent, and says whether it is read from.
fn turn(engine: &mut Engine, bytes: &[u8], reads: &mut bool) -> usize {
    if !bytes.is_empty() {
        engine.handle(Instant::START, Input::Bytes { connection: connection(0), bytes });
    }
    engine.handle(Instant::START, Input::TurnEnd);
    let mut sent = 0;
    while let Some(output) = engine.poll_output() {
        match output {
            Output::Send { bytes, .. } => sent += bytes.len(),
            Output::PauseReading { .. } => *reads = false,
            Output::ResumeReading { .. } => *reads = true,
            _ => {}
        }
    }
    sent
}

/// A few bytes that ask for a thousand times as many: what is answered here comes in turns, and no more where it is not taken.
#[test]
fn what_is_answered_here_is_bounded() {
    const REPLY: usize = 50_000;
    let mut engine = engine(1, Settings::default());
    let reply = vec![7; REPLY].into_boxed_slice();
    engine.clients[client_key(0)].session.aftermath.leaves(Diagnostics::Saved {
        warnings: 1,
        errors: 0,
        sql_state: None,
        reply: crate::session::aftermath::List::new(reply),
    });
    let mut asked = Vec::new();
    for _ in 0..10_000 {
        wire::put_message(&mut asked, &mut 0, b"\x03SHOW WARNINGS");
    }
    let mut reads = true;
    let mut sent = turn(&mut engine, &asked, &mut reads);
    assert!((1..=2 * (ANSWERED_AT_ONCE + REPLY)).contains(&sent), "{sent} bytes at once");
    assert!(!reads, "there is enough to do");
    assert_eq!(engine.next_timeout(), Some(Instant::START), "it goes on at once");
    let more = turn(&mut engine, &[], &mut reads);
    assert!((1..=ANSWERED_AT_ONCE + REPLY).contains(&more), "{more} bytes in the next turn");
    sent += more;
    // The client takes none of it: nothing more is made.
    engine.handle(Instant::START, Input::Stalled { connection: connection(0) });
    assert_eq!(turn(&mut engine, &[], &mut reads), 0);
    assert_eq!(turn(&mut engine, &[], &mut reads), 0);
    engine.handle(Instant::START, Input::Drained { connection: connection(0) });
    let mut turns = 0;
    while !reads {
        sent += turn(&mut engine, &[], &mut reads);
        turns += 1;
        assert!(turns <= 10_000, "{sent} bytes so far");
    }
    while engine.next_timeout() == Some(Instant::START) {
        sent += turn(&mut engine, &[], &mut reads);
    }
    assert_eq!(sent, 10_000 * REPLY);
    assert!(engine.clients[client_key(0)].input.is_empty() && reads);
}

/// Commands without an answer take time all the same.
#[test]
fn what_is_not_answered_is_bounded_too() {
    let mut engine = engine(1, Settings::default());
    let mut closes = Vec::new();
    for _ in 0..100_000 {
        wire::put_message(&mut closes, &mut 0, b"\x19\x01\0\0\0");
    }
    let mut reads = true;
    turn(&mut engine, &closes, &mut reads);
    assert!(engine.clients[client_key(0)].input.len() > closes.len() / 2 && !reads);
    while engine.next_timeout() == Some(Instant::START) {
        turn(&mut engine, &[], &mut reads);
    }
    assert!(engine.clients[client_key(0)].input.is_empty() && reads);
}

/// A client that has not logged in makes us hold no more than a login takes, whatever it waits for.
#[test]
fn what_is_sent_ahead_of_a_login_is_bounded() {
    for len in [LARGEST_LOGIN, 2 * LARGEST_LOGIN] {
        let mut engine = engine(1, Settings::default());
        let identity = engine.clients[client_key(0)].logs_out().unwrap();
        engine.release_identity(identity);
        engine.clients[client_key(0)].set_phase(Phase::Login(Login::Refused((Instant::START, 0))));
        let mut reads = true;
        for piece in vec![b'z'; len].chunks(1000) {
            if engine.clients.contains(client_key(0)) {
                turn(&mut engine, piece, &mut reads);
                // A driver that is told to pause keeps what it has received already.
                assert!(
                    reads
                        && engine
                            .clients
                            .get(client_key(0))
                            .is_none_or(|client| client.input.len() <= 4 + LARGEST_LOGIN)
                );
            }
        }
        assert_eq!(engine.clients.contains(client_key(0)), len == LARGEST_LOGIN);
    }
}

/// A `connect_timeout` that was lowered holds for each client that is logging in, whatever logins there were before.
#[test]
fn a_shorter_connect_timeout_holds_at_once() {
    let long = Settings { connect_timeout: Duration::from_secs(300), ..Settings::default() };
    let mut engine = engine(3, long);
    for number in [0, 1] {
        engine.clients[client_key(number)].set_phase(Phase::Login(Login::Greeted));
        engine.begin_login(client_key(number));
    }
    // One has ended.
    assert!(engine.clients[client_key(0)].login.end().is_some());
    engine.clients[client_key(0)].set_phase(Phase::Idle);
    let short = Settings { connect_timeout: Duration::from_secs(2), ..engine.settings.clone() };
    engine.change_settings(&short);
    engine.clients[client_key(2)].set_phase(Phase::Login(Login::Greeted));
    engine.begin_login(client_key(2));
    for (seconds, left) in [(1, [true, true, true]), (3, [true, false, false])] {
        engine.handle(Instant::START + Duration::from_secs(seconds), Input::TurnEnd);
        while engine.poll_output().is_some() {}
        assert_eq!(
            [0, 1, 2].map(|number| engine.clients.contains(client_key(number))),
            left,
            "after {seconds} s"
        );
    }
}
