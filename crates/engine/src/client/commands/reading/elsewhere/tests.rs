use seam::{Input, Instant, Output, Program as _};

use super::*;
use crate::accounts::task::{Finding, Task};
use crate::client::commands::command::tests::{connection, engine};
use crate::engine::Engine;
use crate::ids::client_key;
use crate::settings::Settings;

fn command(kind: u8, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    wire::put_message(&mut out, &mut 0, &[&[kind], text.as_bytes()].concat());
    out
}

/// Returns the bytes that the client is sent in a turn with these bytes of it.
fn turn(engine: &mut Engine, bytes: &[u8]) -> Vec<u8> {
    if !bytes.is_empty() {
        engine.handle(Instant::START, Input::Bytes { connection: connection(0), bytes });
    }
    engine.handle(Instant::START, Input::TurnEnd);
    let mut sent = Vec::new();
    while let Some(output) = engine.poll_output() {
        if let Output::Send { bytes, .. } = output {
            sent.extend_from_slice(bytes);
        }
    }
    sent
}

fn read(engine: &mut Engine, task: Task) {
    let Work::Read(text) = task.work else { panic!("it is a text") };
    engine.take_finding(task.number, Finding::Text(text.read()));
}

fn engine_that_reads() -> Engine {
    engine(1, Settings { large_statement_size: 64, ..Settings::default() })
}

/// A large text that is answered here, so that no server is needed.
fn large_begin() -> String {
    format!("BEGIN /*{}*/", "x".repeat(100))
}

#[test]
fn what_comes_behind_a_large_text_waits_for_it() {
    let mut engine = engine_that_reads();
    let commands = [command(3, &large_begin()), command(0x0e, ""), command(3, "BEGIN")].concat();
    assert_eq!(turn(&mut engine, &commands), b"", "a PING would be answered at once");
    let task = engine.poll_task().expect("its text is read elsewhere");
    assert!(
        engine.client_memory.statements.bytes() >= large_begin().len(),
        "and counts as its client's statement"
    );
    read(&mut engine, task);
    let answers = turn(&mut engine, &[]);
    let oks = answers.windows(5).filter(|bytes| bytes[1..] == [0, 0, 1, 0]).count();
    assert_eq!(oks, 3, "all in their order: {answers:?}");
    assert!(engine.poll_task().is_none(), "the last one is short");
    assert_eq!(engine.client_memory.statements.bytes(), 0);
}

#[test]
fn a_text_is_the_same_whoever_reads_it() {
    for text in [
        "SET @a = 1, sql_mode = 'ANSI'",
        "CREATE TEMPORARY TABLE t (a INT) SELECT @x",
        "SELECT GET_LOCK('a', 1)",
        "SELECT 1; DROP TABLE t",
    ] {
        let mut small = engine(1, Settings::default());
        let mut large = engine(1, Settings { large_statement_size: 1, ..Settings::default() });
        turn(&mut small, &command(3, text));
        turn(&mut large, &command(3, text));
        let task = large.poll_task().expect("it is read elsewhere");
        read(&mut large, task);
        turn(&mut large, &[]);
        let [one, other] =
            [&small, &large].map(|engine| engine.clients[client_key(0)].request.as_ref().expect("it waits"));
        assert_eq!(
            (&one.raw, &one.changes.named_resource, &one.changes.variables),
            (&other.raw, &other.changes.named_resource, &other.changes.variables)
        );
        assert_eq!(one.statement, other.statement, "{text}");
        assert_eq!(
            (one.changes.hidden, one.changes.library),
            (other.changes.hidden, other.changes.library),
            "{text}"
        );
        assert_eq!(
            (one.turn.is_urgent(), one.rows.are_counted),
            (other.turn.is_urgent(), other.rows.are_counted),
            "{text}"
        );
    }
}

#[test]
fn nobody_waits_for_the_text_of_a_client_that_has_gone() {
    let mut engine = engine_that_reads();
    turn(&mut engine, &command(3, &large_begin()));
    let task = engine.poll_task().expect("its text is read elsewhere");
    engine.drop_client(client_key(0));
    assert!(!task.is_wanted());
    assert_eq!(engine.client_memory.statements.bytes(), 0);
    read(&mut engine, task);
    assert_eq!(turn(&mut engine, &[]), b"");
}

#[test]
fn a_kill_ends_a_statement_that_is_being_read() {
    let mut engine = engine_that_reads();
    turn(&mut engine, &command(3, &large_begin()));
    let task = engine.poll_task().expect("its text is read elsewhere");
    engine.end_for_client(client_key(0), true);
    let answer = turn(&mut engine, &[]);
    assert!(answer.windows(5).any(|bytes| bytes == b"70100"), "interrupted: {answer:?}");
    assert_eq!(engine.client_memory.statements.bytes(), 0);
    read(&mut engine, task);
    assert_eq!(turn(&mut engine, &[]), b"", "one answer");
    assert_ne!(turn(&mut engine, &command(0x0e, "")), b"", "and its client goes on");
}

/// The text is sent in pieces, so that its buffer is the one that is read: of one packet or two, and with attributes that come off it.
#[test]
fn a_text_that_comes_in_pieces_is_whole() {
    for (length, attributes) in [
        (100_000, None),
        (100_000, Some(&b"\0\x01"[..])),
        (wire::MAX_PAYLOAD + 5, None),
        (wire::MAX_PAYLOAD - 1, None),
    ] {
        let settings = Settings { max_allowed_packet: 2 * wire::MAX_PAYLOAD, ..Settings::default() };
        let mut engine = engine(1, settings);
        engine.servers.primary_mut().facts.as_mut().expect("clients have logged in").max_allowed_packet =
            usize::MAX;
        if attributes.is_some() {
            engine.clients[client_key(0)].capabilities |= Capabilities::QUERY_ATTRIBUTES;
        }
        let text = format!("SELECT '{}'", "x".repeat(length - 9));
        let mut sent = Vec::new();
        let payload = [&[3], attributes.unwrap_or_default(), text.as_bytes()].concat();
        wire::put_message(&mut sent, &mut 0, &payload);
        for piece in sent.chunks(60_000) {
            assert!(engine.poll_task().is_none());
            engine.handle(Instant::START, Input::Bytes { connection: connection(0), bytes: piece });
        }
        assert_eq!(engine.client_memory.statements.bytes(), command(3, &text).len(), "once");
        let task = engine.poll_task().expect("it is read elsewhere");
        read(&mut engine, task);
        turn(&mut engine, &[]);
        let request = engine.clients[client_key(0)].request.as_ref().expect("it waits");
        assert!(request.raw == command(3, &text), "{length}, {attributes:?}");
        assert_eq!(request.answer, if length < wire::MAX_PAYLOAD - 1 { 1 } else { 2 });
    }
}

#[test]
fn what_a_large_text_asks_for_here_is_refused() {
    let mut engine = engine_that_reads();
    for (text, code) in [
        (format!("SET thread_pool_priority='high'{}", " ".repeat(100)), 1235),
        (format!("SHOW COUNT(*) {}WARNINGS", " ".repeat(100)), 1235),
    ] {
        turn(&mut engine, &command(3, &text));
        let task = engine.poll_task().expect("its text is read elsewhere");
        read(&mut engine, task);
        let answer = turn(&mut engine, &[]);
        assert_eq!(answer.get(4..7), Some(&[&[0xff], &u16::to_le_bytes(code)[..]].concat()[..]), "{text}");
        assert_eq!(engine.client_memory.statements.bytes(), 0);
    }
}
