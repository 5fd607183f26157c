use std::time::Duration;

use seam::{Input, Program as _};
use sql::Classification;
use wire::{CommandKind, Expect};

use super::*;
use crate::backend::to_server::prepared::Serves;
use crate::backend::{Permit, Phase as BackendPhase};
use crate::client::commands::command::tests::{connection, engine, open_backends};
use crate::engine::Engine;
use crate::ids::client_key;
use crate::request::RequestKind;
use crate::session::statements::Template;
use crate::settings::Settings;

/// A client that prepares a statement on a server without room. Prepared statements are on another backend, behind a statement in flight.
struct Full {
    engine: Engine,
    own: BackendKey,
    busy: BackendKey,
    now: Instant,
}

impl Full {
    fn new() -> Self {
        let mut engine = engine(1, Settings::default());
        engine.servers.primary_mut().reachability.answered();
        let primary = engine.servers.primary().key;
        let [own, busy] = open_backends(&mut engine, &[primary, primary])[..] else { unreachable!() };
        for backend in [own, busy] {
            engine.servers[backend].set_phase(BackendPhase::Ready);
        }
        // Nothing of the client's session is missing there.
        let session = engine.clients[client_key(0)].session.id().expect("it has logged in");
        let held = engine.sessions.states.hold_again(session);
        engine.servers.set_backend_session(own, held, &mut engine.sessions.states);
        engine.servers[own].session.trackers = true;
        engine.free_backend(own);
        let (owner, text) = (Owner::Abandoned, b"DO SLEEP(9)");
        engine.sending().send_own(busy, owner, CommandKind::Query, text, Expect::ResultSets, 0);
        let session = engine.servers[busy].session.id();
        let held = engine.sessions.states.hold_again(session);
        let template = Template::plain(Classification::none());
        let definition = engine.sessions.hold_definition(held, b"SELECT 1"[..].into(), 0, template);
        assert_eq!(engine.servers[busy].session.prepared.insert(definition, Serves::All, 7), None);
        engine.servers.of_mut(busy).prepared_statement_room.taken += 1;
        let mut prepare = Vec::new();
        wire::put_message(&mut prepare, &mut 0, b"\x16SELECT 2");
        let mut it = Self { engine, own, busy, now: Instant::START };
        it.engine.handle(it.now, Input::Bytes { connection: connection(0), bytes: &prepare });
        it.turn();
        it
    }

    fn turn(&mut self) {
        self.engine.handle(self.now, Input::TurnEnd);
        while self.engine.poll_output().is_some() {}
    }

    /// Has the server refuse for want of room, as often as it is asked. Returns the number of times.
    fn is_refused(&mut self) -> usize {
        let mut answer = Vec::new();
        wire::put_message(&mut answer, &mut 1, b"\xff\xb5\x05#42000no room");
        let mut times = 0;
        let prepares =
            |it: &InFlight| matches!(it.owner, Owner::Client { command: RequestKind::Prepare, .. });
        while self.engine.servers[self.own].in_flight.front().is_some_and(prepares) {
            self.engine.backend_bytes(self.own, &answer);
            self.turn();
            times += 1;
        }
        times
    }

    /// Has the server answer the statement in flight on the other backend.
    fn busy_one_ends(&mut self) {
        self.engine.backend_bytes(self.busy, &[7, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
        self.turn();
    }

    fn waits(&self) -> bool {
        let client = &self.engine.clients[client_key(0)];
        matches!(client.phase(), Phase::Queued) && self.engine.servers[self.own].permit() == Permit::None
    }
}

#[test]
fn a_statement_waits_without_a_permit_until_the_server_has_come_to_what_was_closed() {
    let mut it = Full::new();
    assert!((2..20).contains(&it.is_refused()));
    assert!(it.waits());
    assert_eq!(it.engine.clients[client_key(0)].backend, None, "others may have it meanwhile");
    it.turn();
    assert!(it.waits(), "nothing has changed");
    it.busy_one_ends();
    assert!(!it.waits() && it.engine.clients[client_key(0)].backend.is_some(), "it is tried again");
}

#[test]
fn a_statement_waits_no_longer_than_room_is_hoped_for() {
    let mut it = Full::new();
    it.is_refused();
    let end = it.engine.timer(crate::timers::list::Timer::EndOfDelay);
    assert_eq!(end, Some(it.now + MADE_WITHIN));
    it.now = it.now + (MADE_WITHIN - Duration::from_micros(1));
    it.turn();
    assert!(it.waits());
    it.now = it.now + Duration::from_micros(1);
    it.turn();
    assert_eq!(it.is_refused(), usize::from(TRIES) - 1);
    assert!(it.engine.clients[client_key(0)].request.is_none(), "it has had the server's error");
}

/// Its transaction is open on that backend. Nobody else may have the backend, and the client cannot go on elsewhere.
#[test]
fn who_is_in_a_transaction_keeps_the_backend_while_the_statement_waits() {
    let mut it = Full::new();
    let client = &mut it.engine.clients[client_key(0)];
    client.session.status_told(wire::StatusFlags(client.session.status().0 | wire::StatusFlags::IN_TRANS.0));
    it.is_refused();
    assert!(it.waits());
    assert_eq!(it.engine.clients[client_key(0)].backend, Some(it.own));
    it.busy_one_ends();
    assert!(!it.waits() && !it.engine.servers[it.own].in_flight.is_empty());
}

#[test]
fn a_client_that_goes_or_a_backend_that_is_lost_leaves_nothing_behind() {
    let mut it = Full::new();
    it.is_refused();
    it.engine.client_gone(client_key(0));
    it.engine.close_backend(it.busy, "it is lost");
    it.turn();
    let room = &it.engine.servers.primary().prepared_statement_room;
    assert!(!room.stands_behind(it.now));
    assert_eq!((room.next_end(it.now), room.taken), (None, 0));
}

/// A COM_STMT_CLOSE would stand in the stream of the file, which the server may ask for at any time.
#[test]
fn nothing_is_closed_where_a_client_may_be_sending_a_file() {
    for (text, is_left_alone) in [
        ("LOAD DATA LOCAL INFILE 'f' INTO TABLE t", true),
        ("SELECT 1; LOAD DATA LOCAL INFILE 'f' INTO TABLE t", true),
        ("INSERT INTO t VALUES (1)", false),
    ] {
        let mut engine = engine(1, Settings::default());
        engine.servers.primary_mut().reachability.answered();
        let primary = engine.servers.primary().key;
        let [key] = open_backends(&mut engine, &[primary])[..] else { unreachable!() };
        engine.servers[key].set_phase(BackendPhase::Ready);
        let session = engine.clients[client_key(0)].session.id().expect("it has logged in");
        let held = engine.sessions.states.hold_again(session);
        engine.servers.set_backend_session(key, held, &mut engine.sessions.states);
        engine.servers[key].session.trackers = true;
        let held = engine.sessions.states.hold_again(session);
        let template = Template::plain(Classification::none());
        let definition = engine.sessions.hold_definition(held, b"SELECT 1"[..].into(), 0, template);
        assert_eq!(engine.servers[key].session.prepared.insert(definition, Serves::All, 7), None);
        engine.servers.of_mut(key).prepared_statement_room.taken += 1;
        engine.free_backend(key);
        engine.clients[client_key(0)].capabilities |= wire::Capabilities::MULTI_STATEMENTS;
        let mut query = Vec::new();
        wire::put_message(&mut query, &mut 0, &[b"\x03", text.as_bytes()].concat());
        engine.handle(Instant::START, Input::Bytes { connection: connection(0), bytes: &query });
        engine.handle(Instant::START, Input::TurnEnd);
        assert_eq!(engine.servers[key].in_flight.len(), 1, "{text}");
        let Engine { servers, clients, sessions, .. } = &mut engine;
        servers.of_mut(key).make_room(Instant::START, clients, sessions, None);
        assert_eq!(engine.servers[key].session.prepared.common(), usize::from(is_left_alone), "{text}");
    }
}
