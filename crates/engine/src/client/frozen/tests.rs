use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::rc::Rc;

use seam::{Instant, TlsSession, TlsVersion};
use sql::{LexMode, ResourceChange, VariableUse};
use wire::Expect;

use super::*;
use crate::backend::to_server::prepared::Serves;
use crate::client::answers::held_answer::HeldFor;
use crate::client::commands::command::tests;
use crate::client::commands::statement_counters::Counter;
use crate::client::commands::statements::{ClientStatements, LongData, Slot};
use crate::cluster::sent_before::SentBefore;
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::frozen::plain::{bytes_of, read};
use crate::ids::{ClientKey, client_key};
use crate::request::{About, Action, QueryAttributes, Request, RequestChanges, RequestKind};
use crate::server::stored_code::{Base, Hidden, Known};
use crate::session::Charset;
use crate::session::aftermath::{Diagnostics, List};
use crate::session::gtid::Gtid;
use crate::session::known_answers::KnownQuestion;
use crate::settings::Settings;

const SECOND: u64 = 1_000_000;

/// An engine with clients that have logged in.
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

/// Gives a client something in every place, but for the places of a backend.
fn give_it_everything(engine: &mut Engine, key: ClientKey) {
    let now = Instant::from_micros(50 * SECOND);
    let mut state = SessionState { schema: Some((*b"shop").into()), ..SessionState::default() };
    state.set_variable(b"time_zone", b"+01:00");
    let held = engine.sessions.states.hold(state.clone());
    let template = Request::of_prepare(b"SELECT ?, ROW_COUNT() FROM t", LexMode::default(), 1);
    let template = *template.changes.template.expect("what prepares has one");
    let session = engine.sessions.states.hold(state);
    let definition =
        engine.sessions.hold_definition(session, (*b"SELECT ?, ROW_COUNT() FROM t").into(), 1, template);
    let client = &mut engine.clients[key];
    client.session.becomes(held, &mut engine.sessions.states);
    client.capabilities = Capabilities::DEPRECATE_EOF;
    client.login.scramble = [7; 20];
    client.tickets = 3;
    client.wrote = now;
    client.loss.wants_end = true;
    client.backpressure.paused = true;
    client.session.unstarted = Some(Unstarted::new(true, StatusFlags::IN_TRANS));
    client.transaction.since = now;
    client.transaction.contends = true;
    client.activity.last_heard = now;
    client.input = SentAhead::of(b"\x05\0\0\0\x03DO".to_vec());
    engine.client_memory.statements.set(&mut client.memory.statements, client.input.len());
    client.session.wait_timeout = NonZeroU32::new(77);
    client.session.unreported = Some(Box::new(BTreeSet::from([(*b"x").into()])));
    client.session.named_resources = Some(Box::default());
    client.session.trackers = Some(Box::default());
    client.session.variables = Some(Rc::new(UserVariables::default()));
    client.session.aftermath.has_no_row_count();
    client.session.aftermath.wrote(Gtid::parse(b"0-1-5").unwrap());
    let reply = List::new((*b"reply").into());
    client.session.aftermath.leaves(Diagnostics::Saved { warnings: 2, errors: 1, sql_state: None, reply });
    engine.client_memory.diagnostics += client.session.aftermath.diagnostics().bytes();
    let mut statements = ClientStatements::default();
    let (id, again) = (definition.id(), engine.sessions.definitions.hold_again(definition.id()));
    statements.add(definition, false);
    statements.add(again, true);
    (0..2).for_each(|_| engine.sessions.statement_added(id));
    let mut counted = Counted::default();
    engine.client_memory.statements.add(&mut counted, 9);
    let mut open = statements.slots.iter_mut().filter_map(Slot::open_mut);
    let [first, second] = [open.next(), open.next()].map(|it| it.expect("it has been added"));
    first.types = Some(engine.sessions.definitions.types(id, b"\x08\0", usize::MAX));
    first.long_data = Some(Box::new(LongData::Pieces { commands: b"123456789".to_vec(), counted }));
    second.long_data = Some(Box::new(LongData::Wrong(MySqlError::statement_memory(5))));
    client.session.statements = Some(Box::new(statements));
    client.count(Counter::Execute);
    engine.client_memory.count_session(key, &mut engine.clients[key]);
}

/// Returns the counts of all clients, and how much there is of what they share.
fn counted(engine: &Engine) -> [usize; 7] {
    let memory = &engine.client_memory;
    let sessions = &engine.sessions;
    [
        memory.statements.bytes(),
        memory.sessions.bytes(),
        memory.diagnostics,
        sessions.states.len(),
        sessions.definitions.text_bytes(),
        sessions.statement_count() as usize,
        engine.logins.identities.holders(engine.clients[client_key(1)].identity().expect("it stays")),
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
    assert_eq!(other.thaw_client(later, there, Aside::default()), Ok(key));
    assert_eq!(counted(&other), full);
    let client = &other.clients[key];
    assert_eq!(client.activity.last_heard, Instant::from_micros(990 * SECOND), "ten seconds ago, as before");
    assert_eq!(client.schema(&other.sessions.states), Some(&b"shop"[..]));
    let (again, _) = other.freeze_client(later, key).expect("it is idle");
    assert_eq!(again, frozen, "nothing of it is lost");
}

/// A statement that has something in every place.
fn full_request(engine: &Engine, key: ClientKey) -> Request {
    let statements = engine.clients[key].session.statements.as_deref();
    let definition = statements.and_then(|all| all.definition(1)).expect("the client has prepared one");
    let types = engine.sessions.definitions.types_id(definition, b"\x08\0").expect("it has types");
    let template = Request::of_prepare(b"SELECT 7, ?", LexMode::default(), 1).changes.template;
    let mut request = Request::query("SET @a = 5");
    request.expect = Expect::Rows;
    request.command = RequestKind::Execute;
    request.statement = sql::classify(b"SELECT DATABASE() FROM t", LexMode::default());
    request.answer = 3;
    request.bytes.growth = 11;
    request.changes = RequestChanges {
        collation: Some((*b"utf8mb4_bin").into()),
        named_resource: Some(Box::new(ResourceChange::TakesLock((*b"lock").into()))),
        variables: Some(Box::new(VariableUse::Sets(vec![((*b"a").into(), (*b"5").into())]))),
        priority: Some(Priority::default()),
        template,
        globals: true,
        hidden: Hidden::WORST,
        library: None,
        becomes: None,
    };
    request.rows.are_counted = true;
    request.rows.without_tables = true;
    request.turn.begins_transaction(true);
    request.turn.starts();
    request.turn.wait_for_room(Instant::from_micros(70 * SECOND));
    request.prepared = true;
    request.tries.prepares = 2;
    request.tries.came_back = true;
    request.tries.sent_before = SentBefore::Lost;
    request.attributes = QueryAttributes::OfText((*b"attributes").into());
    let action = Action::Execute { cursor: true, long_data: true };
    let about = About { number: 1, definition, serves: Serves::Typed(types), stays: true, action };
    request.about = Some(Box::new(about));
    request.remember = Some(KnownQuestion::Show((*b"SELECT @@a").into()));
    request
}

#[test]
fn a_statement_that_waits_is_what_it_was() {
    let [mut one, mut other] = [(); 2].map(|()| engine(2));
    let key = client_key(0);
    let (then, later) = (Instant::from_micros(60 * SECOND), Instant::from_micros(1_000 * SECOND));
    give_it_everything(&mut one, key);
    (one.now, other.now) = (then, later);
    let request = full_request(&one, key);
    one.queue_request(key, request);
    let full = counted_but_identities(&one);
    let (frozen, _) = one.freeze_client(then, key).expect("it waits in a queue");
    assert!(frozen.waits().is_some());
    assert_eq!(counted_but_identities(&one)[..2], [0, 0], "it has left nothing behind");
    assert_eq!(one.scheduling.scheduler.waiting(), 0);
    other.client_gone(key);
    // How many have arrived goes along with what workers share.
    assert_eq!(other.pool.workers.arrival(), 0);
    let there = read::<FrozenClient>(&bytes_of(&frozen)).expect("they are whole");
    assert_eq!(there, frozen);
    assert_eq!(other.thaw_client(later, there, Aside::default()), Ok(key));
    assert_eq!(counted_but_identities(&other), full);
    assert!(matches!(other.clients[key].phase(), Phase::Queued));
    assert_eq!(other.scheduling.scheduler.oldest_in_need(), Some((key, later)), "it came just now");
    let request = other.clients[key].request.as_ref().expect("it waits");
    assert_eq!((request.turn.arrived_at(), request.server_answer()), (later, 1));
    let (again, _) = other.freeze_client(later, key).expect("it waits in a queue");
    assert_eq!(again, frozen, "nothing of it is lost");
}

/// See [`counted`].
fn counted_but_identities(engine: &Engine) -> [usize; 4] {
    let (memory, sessions) = (&engine.client_memory, &engine.sessions);
    let statements = memory.statements.bytes();
    [statements, memory.sessions.bytes(), sessions.states.len(), sessions.definitions.text_bytes()]
}

/// Returns the clients that wait, in the order of the queue.
fn queue(engine: &Engine) -> Vec<u32> {
    let waiting = engine.scheduling.scheduler.first_in_need(usize::MAX);
    waiting.into_iter().map(|key| engine.clients[key].id).collect()
}

#[test]
fn those_that_wait_keep_their_order() {
    const CLIENTS: u32 = 6;
    // One more, who has the account.
    let engine = || engine(CLIENTS + 1);
    let (mut one, mut other) = (engine(), engine());
    for (millis, place) in (1..).zip([3, 0, 5, 1, 4, 2]) {
        one.now = Instant::from_micros(1_000 * millis);
        one.queue_request(client_key(place), Request::query("SELECT 1"));
    }
    let order = queue(&one);
    assert_eq!(order.len(), CLIENTS as usize);
    // Each by itself, in the place where it stands.
    let now = one.now;
    for place in 0..CLIENTS {
        let outcome = one.freeze_and_thaw_client(now, place as usize);
        assert_eq!(outcome, Some(Ok(true)));
        assert_eq!(queue(&one), order, "{place}");
    }
    // And all of them, for another process, in their order.
    let keys = one.scheduling.scheduler.first_in_need(usize::MAX);
    let frozen: Vec<_> =
        keys.into_iter().map(|key| one.freeze_client(now, key).expect("it waits").0).collect();
    assert_eq!(one.scheduling.scheduler.waiting(), 0);
    (0..CLIENTS).for_each(|place| other.client_gone(client_key(place)));
    for frozen in frozen {
        let there = read(&bytes_of(&frozen)).expect("they are whole");
        other.thaw_client(now, there, Aside::default()).expect("all of it is known there");
    }
    assert_eq!(queue(&other), order);
}

/// Four clients with reads that may run together with so many others.
fn coalescing_engine(most: u32) -> Engine {
    let mut settings = Settings::default();
    settings.coalescing.reads = true;
    settings.coalescing.most = most;
    let mut engine = tests::engine(4, settings);
    engine.views.measures.logged_in = 4;
    // Nothing is stored that a read could run.
    let known = Known { routines: true, triggers: true, views: true, columns: true };
    engine.pool.workers.stored_code.take(Base::default(), known, &[]);
    for place in 0..4 {
        // Texts are read as the server does.
        let charset = Charset::of_login(b"utf8mb4", b"");
        let held = engine.sessions.states.hold(SessionState { charset, ..SessionState::default() });
        engine.clients[client_key(place)].session.becomes(held, &mut engine.sessions.states);
    }
    engine
}

fn queue_read(engine: &mut Engine, place: u32) {
    let mut request = Request::query("SELECT 1 FROM t");
    request.statement = sql::classify(b"SELECT 1 FROM t", LexMode::default());
    engine.queue_request(client_key(place), request);
}

/// Beside a group that was full, a client that comes later does as it does where nobody was frozen.
#[test]
fn groups_stay_as_full_as_they_were() {
    let then = |gone: &[u32], freezes: Option<usize>| {
        let mut engine = coalescing_engine(1);
        (0..3).for_each(|place| queue_read(&mut engine, place));
        let phase = |engine: &Engine, place| format!("{:?}", engine.clients[client_key(place)].phase());
        let before = [0, 1, 2].map(|place| phase(&engine, place).starts_with("Following"));
        assert_eq!(before, [false, true, false]);
        gone.iter().for_each(|&place| engine.client_gone(client_key(place)));
        if let Some(place) = freezes {
            assert_eq!(engine.freeze_and_thaw_client(engine.now, place), Some(Ok(true)));
        }
        queue_read(&mut engine, 3);
        phase(&engine, 3)
    };
    // Its group was full, and is empty now.
    assert_eq!(then(&[1, 0], None), "Queued");
    assert_eq!(then(&[1, 0], Some(0)), "Queued");
    // One that has gone still takes a place, until the group runs.
    let beside = then(&[1], None);
    assert!(beside.starts_with("Following"), "{beside}");
    assert_eq!(then(&[1], Some(0)), beside);
}

#[test]
fn those_that_wait_for_one_answer_still_do() {
    let (mut one, mut other) = (coalescing_engine(3), coalescing_engine(3));
    let now = one.now;
    (0..3).for_each(|place| queue_read(&mut one, place));
    let phases = |engine: &Engine| {
        let of = |key| format!("{:?}", engine.clients[key].phase());
        [0, 1, 2].map(client_key).map(of)
    };
    let before = phases(&one);
    assert!(
        before[0] == "Queued" && before[1..].iter().all(|phase| phase.starts_with("Following")),
        "{before:?}"
    );
    for place in 0..3 {
        assert_eq!(one.freeze_and_thaw_client(now, place), Some(Ok(true)));
        assert_eq!(phases(&one), before);
    }
    let leads = |engine: &Engine| engine.scheduling.coalescer.leads_others(&engine.clients, client_key(0));
    assert!(leads(&one));
    // Followers first, since whoever leads has to be there to say whom they follow.
    let mut freeze = |place| one.freeze_client(now, client_key(place)).expect("it waits").0;
    let [second, third, first] = [1, 2, 0].map(&mut freeze);
    let ids = [&first, &second, &third].map(|frozen| frozen.id);
    (0..3).rev().for_each(|place| other.client_gone(client_key(place)));
    let mut thaw = |frozen: &FrozenClient| {
        let there = read(&bytes_of(frozen)).expect("it is whole");
        other.thaw_client(now, there, Aside::default())
    };
    assert_eq!(thaw(&second), Err(NotThawed::UnknownLeader));
    let there = [&first, &second, &third].map(|frozen| thaw(frozen).expect("all of it is known there"));
    assert_eq!(there, [0, 1, 2].map(client_key));
    assert_eq!(ids, there.map(|key| other.clients[key].id));
    assert!(leads(&other));
    assert_eq!(queue(&other), [ids[0]]);
    // The leader goes, and the next one takes its place.
    other.client_gone(client_key(0));
    assert_eq!(queue(&other), [ids[1]]);
}

#[test]
fn what_is_more_than_plain_data_stays_where_it_waits() {
    let mut engine = engine(1);
    let key = client_key(0);
    let mut why = |request: Request| {
        engine.queue_request(key, request);
        let outcome = engine.freeze_and_thaw_client(engine.now, 0);
        engine.cancel_queued(key, &MySqlError::interrupted());
        outcome.expect("there is a client")
    };
    assert_eq!(why(Request::query("SELECT 1")), Ok(true));
    assert_eq!(why(Request::query("KILL 5").urgently()), Err(NotFrozen::Waits));
    let held = Request { held_for: Some(HeldFor::Counters), ..Request::query("SHOW STATUS") };
    assert_eq!(why(held), Err(NotFrozen::Waits));
    let counts = Request { counts_for_primary: Some(Instant::START), ..Request::query("SELECT 1") };
    assert_eq!(why(counts), Err(NotFrozen::Waits));
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
    assert_eq!(why(Phase::Idle), Some(Ok(false)));
    assert_eq!(why(Phase::AwaitingServer), Some(Err(NotFrozen::NotGreeted)));
    assert_eq!(why(Phase::Queued), Some(Err(NotFrozen::Waits)));
    assert_eq!(why(Phase::Settling), Some(Err(NotFrozen::Runs)));
    engine.clients[key].set_phase(Phase::Idle);
    let session = TlsSession { version: TlsVersion::V1_3, cipher: "", peer: None, own_fingerprint: None };
    engine.clients[key].security = Security::Tls(Box::new(session));
    assert_eq!(engine.freeze_and_thaw_client(now, 5), Some(Err(NotFrozen::IsEncrypted)));
    assert!(engine.clients.contains(key));
}
