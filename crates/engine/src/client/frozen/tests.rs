use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::rc::Rc;

use seam::{Instant, TlsSession, TlsVersion};

use super::*;
use crate::client::commands::tests;
use crate::client::statement_counters::Counter;
use crate::client::statements::{ClientStatements, LongData};
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::frozen::plain::{bytes_of, read};
use crate::ids::{ClientKey, client_key};
use crate::request::Request;
use crate::session::aftermath::List;
use crate::settings::Settings;

const SECOND: u64 = 1_000_000;

/// With clients that have logged in.
fn engine(clients: u32) -> Engine {
    let mut engine = tests::engine(clients, Settings::default());
    engine.views.measures.logged_in = clients;
    engine
}

#[test]
fn instants_are_distances_and_meet_another_clock() {
    let at = Instant::from_micros;
    for (instant, now, then, there) in [(7, 10, 110, 107), (15, 10, 110, 115), (2, 10, 5, 0), (10, 10, 0, 0)]
    {
        assert_eq!(Distance::of(at(instant), at(now)).from(at(then)), at(there));
    }
}

/// A client that has something in every place, but for what is of a backend.
fn give_it_everything(engine: &mut Engine, key: ClientKey) {
    let now = Instant::from_micros(50 * SECOND);
    let mut state = SessionState { schema: Some((*b"shop").into()), ..SessionState::default() };
    state.set_variable(b"time_zone", b"+01:00");
    let held = engine.sessions.states.hold(state.clone());
    let template = Request::of_prepare(b"SELECT ?, ROW_COUNT() FROM t", sql::LexMode::default(), 1);
    let template = *template.changes.template.expect("what prepares has one");
    let session = engine.sessions.states.hold(state);
    let (definition, _) =
        engine.sessions.definitions.hold(session, (*b"SELECT ?, ROW_COUNT() FROM t").into(), 1, template);
    let client = &mut engine.clients[key];
    let before = client.session.id.replace(held).expect("it has logged in");
    engine.sessions.states.release(before);
    client.capabilities = Capabilities::DEPRECATE_EOF;
    client.login.scramble = [7; 20];
    client.login.until = Some(now);
    client.tickets = 3;
    client.wrote = now;
    client.loss.wants_end = true;
    client.backpressure.paused = true;
    client.transaction.since = now;
    client.transaction.contends = true;
    client.activity.last_heard = now;
    client.input = b"\x05\0\0\0\x03DO".to_vec();
    engine.client_memory.statements.set(&mut client.memory.statements, client.input.len());
    client.session.wait_timeout = NonZeroU32::new(77);
    client.session.unreported = Some(Box::new(BTreeSet::from([(*b"x").into()])));
    client.session.named_resources = Some(Box::default());
    client.session.trackers = Some(Box::default());
    client.session.variables = Some(Rc::new(UserVariables::default()));
    client.session.aftermath.row_count = -1;
    client.session.aftermath.last_gtid = Gtid::parse(b"0-1-5").map(Box::new);
    let reply = List::new((*b"reply").into());
    client.session.aftermath.diagnostics =
        Diagnostics::Saved { warnings: 2, errors: 1, sql_state: None, reply };
    engine.client_memory.diagnostics += client.session.aftermath.diagnostics.bytes();
    let mut statements = ClientStatements::default();
    statements.add(definition, false);
    engine.sessions.definitions.hold_again(definition);
    statements.add(definition, true);
    for statement in &mut statements.statements {
        engine.sessions.definitions.client_statement_added(statement.definition);
    }
    engine.sessions.statement_count += 2;
    let mut counted = Counted::default();
    engine.client_memory.statements.add(&mut counted, 9);
    statements.statements[0].types =
        Some(engine.sessions.definitions.types(definition, b"\x08\0", usize::MAX));
    statements.statements[0].long_data =
        Some(Box::new(LongData::Pieces { commands: b"123456789".to_vec(), counted }));
    statements.statements[1].long_data = Some(Box::new(LongData::Wrong(MySqlError::statement_memory(5))));
    client.session.statements = Some(Box::new(statements));
    client.count(Counter::Execute);
    engine.client_memory.count_session(key, &mut engine.clients[key]);
}

/// What is counted of all clients, and how much there is of what they share.
fn counted(engine: &Engine) -> [usize; 7] {
    let memory = &engine.client_memory;
    let sessions = &engine.sessions;
    [
        memory.statements.bytes(),
        memory.sessions.bytes(),
        memory.diagnostics,
        sessions.states.len(),
        sessions.definitions.text_bytes(),
        sessions.statement_count as usize,
        engine.logins.identities.holders(engine.clients[client_key(1)].identity.expect("it stays")),
    ]
}

#[test]
fn a_client_goes_on_in_another_engine_with_another_clock_as_it_was() {
    let [mut one, mut other] = [(); 2].map(|()| engine(2));
    let empty = counted(&one);
    let key = client_key(0);
    give_it_everything(&mut one, key);
    let full = counted(&one);
    let (then, later) = (Instant::from_micros(60 * SECOND), Instant::from_micros(1_000 * SECOND));
    let (frozen, _) = one.freeze_client(then, key).expect("it is idle");
    let without = counted(&one);
    assert_eq!((without[0], without[1], without[2], without[5]), (0, 0, 0, 0), "it has left nothing behind");
    assert_eq!(without[6], empty[6] - 1);
    // Whoever has the place in the other engine has gone, and is another one.
    other.client_gone(key);
    let there = read::<FrozenClient>(&bytes_of(&frozen)).expect("they are whole");
    assert_eq!(there, frozen);
    assert_eq!(other.thaw_client(later, there, false), Ok(key));
    assert_eq!(counted(&other), full);
    let client = &other.clients[key];
    assert_eq!(client.activity.last_heard, Instant::from_micros(990 * SECOND), "ten seconds ago, as before");
    assert_eq!(client.schema(&other.sessions.states), Some(&b"shop"[..]));
    let (again, _) = other.freeze_client(later, key).expect("it is idle");
    assert_eq!(again, frozen, "nothing of it is lost");
}

#[test]
fn who_is_in_the_middle_of_something_stays() {
    let mut engine = engine(1);
    let key = client_key(0);
    let now = Instant::from_micros(SECOND);
    let mut why = |phase| {
        engine.clients[key].set_phase(phase);
        engine.freeze_and_thaw_client(now, 5)
    };
    assert_eq!(why(Phase::Idle), Some(Ok(())));
    assert_eq!(why(Phase::AwaitingServer), Some(Err(NotFrozen::NotGreeted)));
    assert_eq!(why(Phase::Queued), Some(Err(NotFrozen::Waits)));
    assert_eq!(why(Phase::Settling), Some(Err(NotFrozen::Runs)));
    engine.clients[key].set_phase(Phase::Idle);
    let session = TlsSession { version: TlsVersion::V1_3, cipher: "", peer: None, own_fingerprint: None };
    engine.clients[key].security = Security::Tls(Box::new(session));
    assert_eq!(engine.freeze_and_thaw_client(now, 5), Some(Err(NotFrozen::IsEncrypted)));
    assert!(engine.clients.contains(key));
}
