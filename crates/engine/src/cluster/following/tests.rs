use std::time::Duration;

use seam::{Address, Input, Instant, Output, Program};
use wire::{CommandKind, Expect, StatusFlags};

use crate::backend::login::refused::ServerRefusal;
use crate::backend::{Owner, Permit, Phase as BackendPhase, Summary};
use crate::client::commands::command::tests::{asked_for, connection, engine, open_backends};
use crate::client::{Phase, Running};
use crate::cluster::refusal::tests::request;
use crate::cluster::testing::{two_servers, writes};
use crate::engine::Engine;
use crate::ids::{BackendKey, client_key};
use crate::io::Role;
use crate::request::RequestKind;
use crate::session::SessionState;
use crate::settings::Settings;

/// Takes in a server's answer to its checks at this time.
fn seen(engine: &mut Engine, at: u64, place: usize, writable: bool) {
    engine.now = Instant::from_micros(at);
    engine.cluster.seen(engine.now, place, writes(place, writable));
}

#[test]
fn the_limit_of_a_new_primary_starts_low() {
    let settings = Settings { permits_min: 100, ..two_servers() };
    let mut engine = Engine::new(settings.clone());
    // What has been found stays, as far as it may.
    engine.change_settings(&Settings { permits_min: 4, ..settings });
    let permits = |engine: &Engine| engine.pool.workers.permits();
    seen(&mut engine, 1, 0, true);
    seen(&mut engine, 1, 1, false);
    engine.cluster_turn();
    assert_eq!(permits(&engine), 100, "the first one is what it was found on");
    seen(&mut engine, 2, 0, false);
    engine.cluster_turn();
    seen(&mut engine, 3, 0, true);
    engine.cluster_turn();
    assert_eq!(permits(&engine), 100, "it is the same one again");
    seen(&mut engine, 4, 0, false);
    seen(&mut engine, 4, 1, true);
    engine.cluster_turn();
    assert_eq!(permits(&engine), 16);
}

/// Of two servers the first is the primary. The client holds a resting backend there, connection 1. On another one, connection 2, a
/// command is in flight.
pub(in crate::cluster) fn with_backends() -> Engine {
    let mut engine = engine(1, Settings::default());
    engine.settings.server = two_servers().server;
    engine.settings.cluster.several = true;
    engine.pool.workers.chosen.set(Some(0), false);
    engine.cluster_turn();
    let primary = engine.servers.primary().key;
    let keys = open_backends(&mut engine, &[primary; 2]);
    for (&key, index) in keys.iter().zip(1..) {
        engine.servers[key].connection = Some(connection(index));
        engine.servers[key].set_phase(BackendPhase::Ready);
        engine.io.set_role(connection(index), Role::Backend(key));
    }
    engine.servers[keys[0]].goes_to(client_key(0));
    engine.clients[client_key(0)].backend = Some(keys[0]);
    engine.sending().reset(keys[1]);
    while engine.poll_output().is_some() {}
    engine
}

/// Returns how a client stands, and the number of bytes it was sent. The server is lost while this was in flight for it and answered in part.
fn answered_in_part(owner: Owner, reads: Expect, answer: &[u8]) -> (bool, usize) {
    let mut engine = with_backends();
    let client = client_key(0);
    let key = engine.clients[client].backend.expect("it holds one");
    engine.clients[client].request = Some(Box::new(request("UPDATE t SET a = 1")));
    match owner {
        Owner::Client { .. } => engine.clients[client].set_phase(Phase::Running(Running::OnServer)),
        _ => engine.clients[client].set_phase(Phase::Preparing),
    }
    engine.sending().send_own(key, owner, CommandKind::Query, b"UPDATE t SET a = 1", reads, 0);
    engine.handle(Instant::START, Input::Bytes { connection: connection(1), bytes: answer });
    assert!(engine.servers[key].in_flight[0].summary.relayed > 0, "the answer has begun");
    while engine.poll_output().is_some() {}
    engine.pool.workers.chosen.set(None, false);
    engine.cluster_turn();
    let mut sent = 0;
    while let Some(output) = engine.poll_output() {
        if let Output::Send { connection: to, bytes } = output
            && to == connection(0)
        {
            sent += bytes.len();
        }
    }
    (engine.clients.get(client).is_some_and(|client| matches!(client.phase(), Phase::Queued)), sent)
}

/// The answer to a step ahead of a statement is nobody's but ours, so that the statement waits for the next primary.
#[test]
fn what_is_lost_ahead_of_a_statement_leaves_it_waiting() {
    let client = client_key(0);
    // COM_STMT_PREPARE's OK, whose parameter is not described yet, and the number of a result set's columns.
    let prepared: &[u8] = &[12, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    let columns: &[u8] = &[1, 0, 0, 1, 1];
    assert_eq!(answered_in_part(Owner::Prepare { client }, Expect::Prepare, prepared), (true, 0));
    for owner in [Owner::ApplyState { client }, Owner::ApplyDefinition { client }] {
        assert_eq!(answered_in_part(owner, Expect::ResultSets, columns), (true, 0), "{owner:?}");
    }
    let own = Owner::Client { client, command: RequestKind::Query };
    let (waits, _) = answered_in_part(own, Expect::ResultSets, columns);
    assert!(!waits, "the client has got a part of it");
}

/// A node of Galera that has lost the others refuses to say whether it has functions.
#[test]
fn a_lost_read_waits_for_what_the_next_primary_says_of_itself_not_the_former_one() {
    for says in [true, false] {
        let mut engine = with_backends();
        let client = client_key(0);
        let key = engine.clients[client].backend.expect("it holds one");
        let mut read = request("SELECT a FROM t");
        (read.statement.plain_read, read.raw) = (true, vec![1, 0, 0, 0, 3]);
        engine.clients[client].request = Some(Box::new(read));
        engine.clients[client].session.status_told(StatusFlags::AUTOCOMMIT);
        // With no character set it would be taken for one that keeps its backend.
        let mut state = SessionState::default();
        state.charset.client = (*b"utf8mb4").into();
        let held = engine.sessions.states.hold(state);
        engine.clients[client].session.becomes(held, &mut engine.sessions.states);
        engine.clients[client].set_phase(Phase::Running(Running::OnServer));
        let owner = Owner::Client { client, command: RequestKind::Query };
        engine.sending().send_own(key, owner, CommandKind::Query, b"SELECT a FROM t", Expect::ResultSets, 0);
        engine.pool.workers.chosen.set(None, false);
        engine.cluster_turn();
        let waits = |engine: &Engine| matches!(engine.clients[client].phase(), Phase::Queued);
        assert!(waits(&engine), "it is to be repeated");
        engine.primary_is_known(says);
        assert!(
            waits(&engine) && !engine.following.knows_primary(engine.settings.cluster.several),
            "{says}: that is of the former one"
        );
        engine.pool.workers.chosen.set(Some(1), false);
        engine.cluster_turn();
        engine.primary_is_known(says);
        assert_eq!(
            (waits(&engine), engine.following.knows_primary(engine.settings.cluster.several)),
            (says, true)
        );
    }
}

/// A group's former primary does so that has been left out, and has ended its clients' connections.
#[test]
fn who_waits_for_a_server_that_lets_nobody_in_waits_for_the_next_primary() {
    for (several, code) in [(true, 3032), (true, 1053), (false, 3032), (true, 1045)] {
        let mut engine = with_backends();
        engine.settings.cluster.several = several;
        let primary = engine.servers.primary().key;
        let client = client_key(0);
        let held = engine.clients[client].backend.take().expect("it holds one");
        engine.servers[held].leaves_holder();
        let all: Vec<_> = engine.servers.primary().backends.iter().map(|(key, _)| key).collect();
        all.into_iter().for_each(|key| engine.close_backend(key, ""));
        let key = open_backends(&mut engine, &[primary])[0];
        let identity = engine.servers[key].account.identity();
        let former = engine.clients[client].logs_out().expect("all have logged in");
        engine.release_identity(former);
        engine.clients[client].logs_in(engine.logins.identities.hold_again(identity));
        engine.clients[client].request = Some(Box::new(request("SELECT 1")));
        engine.clients[client].set_phase(Phase::Queued);
        let message = String::from("The server is currently in offline mode");
        engine.backend_refused(key, ServerRefusal { code, message });
        let waits = several && code != 1045;
        assert_eq!(matches!(engine.clients[client].phase(), Phase::Queued), waits, "{several} {code}");
        assert_eq!(engine.servers.primary().reachability.is_down(), waits);
    }
}

/// The end of either connection.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Closed(u32),
    Aborted(u32),
}

/// Runs a turn in which another choice is known, and returns the connections that end.
fn chosen(engine: &mut Engine, place: Option<usize>, may_end: bool) -> Vec<End> {
    engine.pool.workers.chosen.set(place, may_end);
    engine.cluster_turn();
    ends(engine)
}

fn ends(engine: &mut Engine) -> Vec<End> {
    let mut ends = Vec::new();
    while let Some(output) = engine.poll_output() {
        match output {
            Output::Close { connection } => ends.push(End::Closed(connection.index)),
            Output::Abort { connection } => ends.push(End::Aborted(connection.index)),
            _ => {}
        }
    }
    ends.retain(|end| matches!(end, End::Closed(1 | 2) | End::Aborted(1 | 2)));
    ends
}

#[test]
fn what_is_in_flight_on_a_lost_primary_is_thrown_away_as_another_one_is_known() {
    let mut engine = with_backends();
    assert_eq!(chosen(&mut engine, Some(1), false), [End::Closed(1), End::Aborted(2)]);
}

#[test]
fn what_becomes_of_it_follows_from_who_is_the_primary_next() {
    for (next, end) in [(1, End::Aborted(2)), (0, End::Closed(2))] {
        let mut engine = with_backends();
        assert_eq!(chosen(&mut engine, None, false), [End::Closed(1)]);
        assert_eq!(engine.servers.backend_count(), 0);
        // Somebody else has given up, too.
        assert_eq!(chosen(&mut engine, None, false), []);
        assert_eq!(chosen(&mut engine, Some(next), false), [end]);
        assert_eq!(chosen(&mut engine, Some(1), false), []);
    }
    let mut engine = with_backends();
    chosen(&mut engine, None, false);
    engine.handle(Instant::START, Input::Signal(seam::Signal::Stop));
    assert_eq!(ends(&mut engine), [End::Aborted(2)], "nobody will choose any more");
}

#[test]
fn what_runs_on_a_server_that_is_up_has_its_time() {
    let mut engine = with_backends();
    assert_eq!(chosen(&mut engine, Some(1), true), [End::Closed(1)]);
    engine.now = engine.now + engine.settings.cluster.hold;
    engine.cluster_turn();
    assert_eq!(ends(&mut engine), [End::Aborted(2)]);
}

/// A client holds one backend, and a command is in flight on the other one.
#[test]
fn at_the_former_address_of_a_server_what_is_there_ends_and_nothing_begins() {
    let mut engine = with_backends();
    engine.settings.cluster.several = false;
    let to = Address::Unix("/elsewhere".into());
    engine.move_server(0, &to);
    assert_eq!(ends(&mut engine), []);
    let keys: Vec<_> = engine.servers.backends().map(|(key, _)| key).collect();
    assert!(keys.iter().all(|&key| engine.following.is_former(false, engine.servers[key].place())));
    assert!(
        !engine.following.knows_primary(engine.settings.cluster.several),
        "what the new one is has to be found out"
    );
    engine.control_turn();
    let mut asked = false;
    while let Some(output) = engine.poll_output() {
        asked |= matches!(output, Output::Connect { address, .. } if address == to);
    }
    assert!(asked, "the service account goes there");
    engine.clients[client_key(0)].backend = None;
    engine.servers[keys[0]].leaves_holder();
    engine.free_backend(keys[0]);
    assert_eq!(ends(&mut engine), [End::Closed(1)]);
    engine.move_server(0, &to);
    assert!(engine.poll_output().is_none(), "it is there already");
}

#[test]
fn an_idle_backend_at_the_former_address_is_closed() {
    let mut engine = with_backends();
    engine.settings.cluster.several = false;
    let key = engine.clients[client_key(0)].backend.take().expect("it holds one");
    engine.servers[key].leaves_holder();
    engine.free_backend(key);
    engine.move_server(0, &Address::Unix("/elsewhere".into()));
    assert_eq!(ends(&mut engine), [End::Closed(1)]);
}

#[test]
fn what_runs_at_the_former_address_takes_no_permit_of_those_for_the_new_one() {
    let mut engine = with_backends();
    engine.settings.cluster.several = false;
    let key = engine.clients[client_key(0)].backend.expect("it holds one");
    let begin = |engine: &mut Engine| {
        engine.scheduling.scheduler.resume();
        let (now, scheduler) = (engine.now, &mut engine.scheduling.scheduler);
        engine.servers[key].begin_with_permit(now, scheduler, true, 0);
    };
    begin(&mut engine);
    assert_eq!(engine.scheduling.scheduler.running(), 1);
    engine.move_server(0, &Address::Unix("/elsewhere".into()));
    assert_eq!((engine.servers[key].permit(), engine.scheduling.scheduler.running()), (Permit::Lent, 0));
    // Its client had been slow to take the answer, and takes it again.
    engine.servers[key].take_permit_back(&mut engine.scheduling.scheduler);
    assert_eq!(engine.scheduling.scheduler.running(), 0);
    engine.servers[key].give_permit(&mut engine.scheduling.scheduler);
    begin(&mut engine);
    assert_eq!((engine.servers[key].permit(), engine.scheduling.scheduler.running()), (Permit::Lent, 0));
}

/// The former address may be silent, and say so much later.
#[test]
fn what_comes_of_an_attempt_at_the_former_address_says_nothing_of_the_new_one() {
    let mut engine = with_backends();
    engine.settings.cluster.several = false;
    engine.control_turn();
    let former = asked_for(&mut engine);
    engine.move_server(0, &Address::Unix("/elsewhere".into()));
    engine.control_turn();
    let new = asked_for(&mut engine);
    assert!(former.len() == 1 && new.len() == 1 && former != new, "{former:?}, {new:?}");
    let now = engine.now;
    engine.handle(now, Input::ConnectFailed { token: former[0], errno: 111 });
    assert!(!engine.servers.primary().reachability.is_down());
    engine.handle(now, Input::Connected { token: former[0], connection: connection(9) });
    assert!(engine.servers.primary().control.connection().is_none());
    engine.handle(now, Input::Connected { token: new[0], connection: connection(8) });
    assert_eq!(engine.servers.primary().control.connection(), Some(connection(8)));
}

/// Clients wait for the server, and are not to be kept waiting until their time is over.
#[test]
fn an_only_server_that_moves_is_found_out_while_onramp_is_about_to_end_too() {
    let mut engine = with_backends();
    engine.settings.cluster.several = false;
    engine.orders.drain_until(engine.now + engine.settings.shutdown_timeout);
    engine.control_turn();
    assert_eq!(asked_for(&mut engine).len(), 0, "nothing is new there");
    engine.move_server(0, &Address::Unix("/elsewhere".into()));
    engine.control_turn();
    assert_eq!(asked_for(&mut engine).len(), 1);
}

#[test]
fn what_is_in_flight_at_the_former_address_is_thrown_away_as_the_new_one_is_the_primary() {
    let mut engine = with_backends();
    assert_eq!(chosen(&mut engine, None, false), [End::Closed(1)]);
    engine.move_server(0, &Address::Unix("/elsewhere".into()));
    assert_eq!(chosen(&mut engine, Some(0), false), [End::Aborted(2)]);
}

/// The answer to the setup of a backend of the clients' account.
fn set_up() -> Summary {
    let mut kept = Vec::new();
    let mut sequence = 0;
    wire::put_message(&mut kept, &mut sequence, &[1]);
    wire::put_message(
        &mut kept,
        &mut sequence,
        b"\x03def\0\0\0\x03who\0\x0c\x2d\0\xff\0\0\0\xfd\0\0\x1f\0\0",
    );
    wire::put_message(&mut kept, &mut sequence, b"\x05app@%");
    wire::put_message(&mut kept, &mut sequence, b"\xfe\0\0\x02\0\0\0");
    Summary { kept_answer: kept, ..Summary::default() }
}

/// A worker that has opened a backend and logged it in. The primary is one of a group or is not. Returns also the number of the last backend
/// before that one.
fn with_new_backend(is_of_group: bool) -> (Engine, BackendKey, u64) {
    let mut engine = with_backends();
    let primary = engine.servers.primary().key;
    engine.pool.workers.chosen.proof.want(is_of_group);
    engine.cluster_turn();
    let before: Vec<_> = engine.servers.backends().map(|(key, _)| key).collect();
    let key = open_backends(&mut engine, &[primary]).into_iter().find(|key| !before.contains(key));
    let key = key.expect("it has just been opened");
    let asked = engine.pool.workers.chosen.proof.asked_for();
    let token = engine.servers[key].token;
    engine.handle(Instant::START, Input::Connected { token, connection: connection(3) });
    engine.servers[key].set_phase(BackendPhase::SettingUp);
    engine.backend_set_up(key, &set_up());
    (engine, key, asked)
}

/// Says whether the backend may be used once its login is over. Says the same once the primary's check has answered a question that was put
/// before the backend was connected, and one that was put after.
fn used(is_of_group: bool) -> [bool; 3] {
    let (mut engine, key, asked) = with_new_backend(is_of_group);
    let mut seen = Vec::new();
    for proved in [0, asked, engine.pool.workers.chosen.proof.asked_for()] {
        engine.pool.workers.chosen.proof.proves(proved);
        engine.cluster_turn();
        seen.push(engine.servers[key].is_idle());
    }
    seen.try_into().expect("three")
}

/// The backend's process may be another one than the primary's was, and another worker would hear of that first.
#[test]
fn a_backend_of_a_groups_primary_is_used_once_that_is_known_to_have_been_alive_later() {
    assert_eq!(used(true), [false, false, true]);
    assert_eq!(used(false), [true; 3], "no other server's");
}

/// The server has answered all questions on that connection.
#[test]
fn a_backend_that_nobody_proves_is_not_said_to_have_no_answer() {
    let (mut engine, key, _) = with_new_backend(true);
    engine.servers.primary_mut().reachability.answered();
    let limit = engine.settings.backend_connect_timeout;
    engine.now = Instant::START + limit;
    let told = engine.why_no_backend().lack(key.server()).error.message;
    engine.handle(Instant::START + 2 * limit, Input::TurnEnd);
    assert!(engine.servers.get_mut(key).is_none(), "it is given up");
    for reason in [&*told, engine.servers.primary().reachability.reason()] {
        assert!(reason.contains("its check has not answered within backend_connect_timeout"), "{reason}");
    }
}

/// No backend could be opened for the statement as long as there was no primary.
#[test]
fn what_a_statement_has_waited_for_a_primary_does_not_count_once_there_is_one() {
    let mut engine = with_backends();
    let (hold, timeout) = (engine.settings.cluster.hold, engine.settings.backend_connect_timeout);
    engine.pool.workers.chosen.set(None, false);
    engine.cluster_turn();
    let waits_until = |engine: &Engine| {
        let primary = &engine.servers.primary().reachability;
        engine.following.waits_until(Instant::START, &engine.settings, primary)
    };
    assert_eq!(waits_until(&engine), Instant::START + hold);
    let found = Instant::START + timeout + Duration::from_secs(1);
    engine.now = found;
    engine.pool.workers.chosen.set(Some(0), false);
    engine.cluster_turn();
    assert_eq!(waits_until(&engine), Instant::START + hold, "it is not reached yet");
    engine.servers.primary_mut().reachability.answered();
    engine.cluster_turn();
    assert_eq!(waits_until(&engine), found + timeout);
}
