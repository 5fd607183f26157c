use seam::{Input, Output, Program as _};
use wire::Expect;

use super::*;
use crate::accounts::{Account, Credential};
use crate::backend::{Owner, Phase as BackendPhase};
use crate::client::Running;
use crate::client::commands::command::tests::{connection, engine, open_backends};
use crate::client::ids::PARTS;
use crate::engine::Engine;
use crate::ids::{BackendKey, client_key};
use crate::outside::kills_under_way::LONGEST;
use crate::request::{Request, RequestKind};
use crate::workers::Workers;
use crate::workers::letter::{Killed, Sender};
use crate::workers::onramps::{Census, SLOTS};
use crate::workers::serving::ServedClient;

#[test]
fn kills_of_clients_at_the_beginning_of_a_text_are_found() {
    let first = |text: &str| {
        let found = first_kill(text.as_bytes(), LexMode::default());
        found.map(|(target, rest)| {
            (u64::from(named(target).unwrap()), target.query_only, text[rest..].to_owned())
        })
    };
    let id = u64::from(FIRST_ID);
    assert_eq!(first("kill 1073741824; select 1;"), Some((id, false, String::from("select 1;"))));
    assert_eq!(first("/* a */ KILL QUERY 1073741825 ;kill 5"), Some((id + 1, true, String::from("kill 5"))));
    for other in [
        "kill 1073741823; select 1",
        "kill 2147483648; select 1",
        "kill 1073741824",
        "kill 1073741824; ;",
        "kill 5; select 1",
        "kill /* ; */ 1073741824; select 1",
        "kill 1073741824 -- ; select 1",
        "select ';'; kill 1073741824",
        "kill user 'a;b'; select 1",
        "kill connection_id(); select 1",
    ] {
        let rest = first(other).map(|(_, _, rest)| rest);
        assert!(rest.is_none_or(|rest| rest == ";"), "{other}");
    }
}

/// The part of ids of Onramps without a slot.
const WITHOUT: u32 = FIRST_ID + SLOTS * IDS_OF_SLOT;

fn ids(engine: &Engine) -> Vec<u32> {
    engine.ids.keys.keys().copied().collect()
}

#[test]
fn ids_fit_a_signed_int_and_begin_again_behind_the_last_one() {
    let mut engine = engine(3, Settings::default());
    engine.ids.keys.clear();
    engine.ids.first = 0;
    let key = engine.clients.iter().next().unwrap().0;
    engine.ids.keys.extend([1, 2].map(|place| (WITHOUT + place, key)));
    engine.ids.last = IDS - 2;
    let given = [engine.ids.next(&engine.pool), engine.ids.next(&engine.pool), engine.ids.next(&engine.pool)];
    assert_eq!(given, [WITHOUT + IDS_OF_SLOT - 1, WITHOUT, WITHOUT + 3], "the others are in use");
    engine.pool.workers.onramps.set_slot(SLOTS);
    engine.ids.last = IDS_OF_SLOT - 2;
    assert_eq!(engine.ids.next(&engine.pool), WITHOUT - 1, "the last of the last slot");
    assert_eq!(u64::from(FIRST_ID) + u64::from(PARTS) * u64::from(IDS_OF_SLOT) - 1, i32::MAX as u64);
}

/// An id that somebody remembers of a former start, or of another Onramp with the slot, is hardly one of ours.
#[test]
fn ids_begin_at_another_place_with_each_start() {
    let begin = |seed| {
        let engine = engine(3, Settings { entropy: [seed; 32], ..Settings::default() });
        let ids = ids(&engine);
        assert_eq!([ids[1], ids[2]], [ids[0] + 1, ids[0] + 2]);
        ids[0]
    };
    let begins: std::collections::BTreeSet<_> = (0..100).map(begin).collect();
    assert_eq!(begins.len(), 100);
    let gaps: Vec<_> = begins.iter().zip(begins.iter().skip(1)).map(|(one, next)| next - one).collect();
    assert!(gaps.iter().filter(|&&gap| gap > 10_000).count() > 90, "{gaps:?}");
}

fn renew_ids(engine: &mut Engine, waiting: &[ClientKey]) {
    let renewed = engine.ids.renew(&engine.pool, &mut engine.clients, waiting);
    engine.logins.ids_are_renewed(&renewed);
}

#[test]
fn clients_that_have_come_before_the_slot_was_known_get_ids_of_it() {
    let mut engine = engine(3, Settings::default());
    let keys: Vec<_> = engine.clients.iter().map(|(key, _)| key).collect();
    let before = ids(&engine);
    assert!(before.iter().all(|&id| id > WITHOUT), "{before:?}");
    engine.begin_login(keys[0]);
    renew_ids(&mut engine, &keys);
    assert_eq!(ids(&engine), before, "there is no slot");
    engine.pool.workers.onramps.set_slot(3);
    // That one has come since.
    let id = engine.ids.next(&engine.pool);
    engine.ids.keys.remove(&engine.clients[keys[2]].id);
    engine.ids.keys.insert(id, keys[2]);
    engine.clients[keys[2]].id = id;
    renew_ids(&mut engine, &keys);
    let same = |id| id - WITHOUT + FIRST_ID + 2 * IDS_OF_SLOT;
    let of_clients: Vec<_> = keys.iter().map(|&key| engine.clients[key].id).collect();
    assert_eq!(of_clients, [same(before[0]), same(before[1]), id]);
    assert_eq!(ids(&engine), of_clients);
    let over = engine.now + engine.settings.connect_timeout;
    assert!(engine.logins.next_expired(over, &engine.clients).is_some(), "its time ends as before");
}

#[test]
fn an_id_says_whose_client_it_is() {
    let pool = Pool::new(Workers::new(&Settings::default(), 3), 0);
    pool.workers.onramps.take(Census { present: 2, at_work: 1, saturated: 1, rank: 0, others: 0b10 });
    assert_eq!(pool.peer_of(FIRST_ID), None);
    assert_eq!(pool.peer_of(FIRST_ID + IDS_OF_SLOT + 7), Some(2));
    assert_eq!(pool.peer_of(FIRST_ID + 2 * IDS_OF_SLOT), None, "nobody has that slot");
    pool.workers.onramps.take(Census { present: 17, at_work: 1, saturated: 1, rank: 0, others: 0xffff });
    assert_eq!(pool.peer_of(WITHOUT - 1), Some(SLOTS));
    assert_eq!(pool.peer_of(WITHOUT), None, "that one has no slot");
    assert_eq!(pool.peer_of(i32::MAX as u32), None);
}

#[test]
fn an_id_that_no_client_has_is_the_servers_where_that_has_come_so_far() {
    let mut engine = engine(1, Settings::default());
    let rights = KillRights::of(OwnBy::Account, b"app", &Account::of_test("app", "%", Credential::Empty));
    let one = ids(&engine)[0];
    let none = one + 1;
    let serves = ServedClient::default();
    engine.pool.workers.serving.add(FIRST_ID - 1, &serves);
    assert_eq!(engine.kill_victim(none, true, &rights, Duration::ZERO), KillOutcome::NoSuchClient);
    engine.pool.workers.serving.add(FIRST_ID, &serves);
    let ending = ServerKill { thread_id: u64::from(none), query_only: true };
    assert_eq!(engine.kill_victim(none, true, &rights, Duration::ZERO), KillOutcome::OfServer(ending));
    assert_eq!(
        engine.kill_victim(one, true, &rights, Duration::ZERO),
        KillOutcome::Done,
        "a client comes first"
    );
}

/// A statement that has come behind the KILL of the one before is not the one that is meant.
#[test]
fn a_late_cancel_spares_what_has_come_since() {
    let mut engine = engine(1, Settings::default());
    let rights = KillRights::of(OwnBy::Account, b"app", &Account::of_test("app", "%", Credential::Empty));
    let (&id, &key) = engine.ids.keys.iter().next().unwrap();
    let seconds = |seconds| Instant::START + Duration::from_secs(seconds);
    engine.now = seconds(10);
    let request = Request::query("SELECT 1");
    engine.queue_request(key, request);
    let waits = |engine: &Engine| matches!(engine.clients[key].phase(), Phase::Queued);
    assert!(waits(&engine));
    engine.clients[key].activity.takes_command(seconds(9));
    for (query_only, age, ended) in [(true, 2, false), (true, 1, true)] {
        let outcome = engine.kill_victim(id, query_only, &rights, Duration::from_secs(age));
        assert_eq!((outcome, waits(&engine)), (KillOutcome::Done, !ended), "{age}");
    }
    let other = KillRights::of(OwnBy::Account, b"other", &Account::of_test("other", "%", Credential::Empty));
    let outcome = engine.kill_victim(id, true, &other, Duration::from_secs(2));
    assert_eq!(outcome, KillOutcome::Denied, "nobody hears more than he may");
    assert_eq!(engine.kill_victim(id, false, &rights, Duration::from_secs(2)), KillOutcome::Done);
    assert!(engine.clients.get(key).is_none(), "its client is meant whatever it does");
}

/// The KILL of the client has been asked of the server, which has not ended the client yet.
#[test]
fn a_kill_of_the_statement_does_not_take_back_one_of_its_client() {
    let mut engine = engine(1, Settings::default());
    let client = engine.clients.iter().next().unwrap().0;
    let primary = engine.servers.primary().key;
    let backend = open_backends(&mut engine, &[primary])[0];
    engine.clients[client].set_phase(Phase::Running(Running::OnServer));
    engine.clients[client].backend = Some(backend);
    let mut killed = Vec::new();
    for query_only in [true, false, true] {
        engine.end_for_client(client, query_only);
        killed.push(engine.clients[client].loss.killed);
    }
    assert_eq!(killed, [false, true, true]);
}

/// Has the victim's statement run on one backend. Another one is there, on which nothing runs.
fn run_beside(engine: &mut Engine, victim: ClientKey, text: &[u8]) -> (BackendKey, BackendKey) {
    let primary = engine.servers.primary().key;
    let [runs_on, carrier] = open_backends(engine, &[primary, primary])[..] else { unreachable!() };
    for backend in [runs_on, carrier] {
        engine.servers[backend].set_phase(BackendPhase::Ready);
    }
    engine.servers[runs_on].goes_to(victim);
    engine.clients[victim].backend = Some(runs_on);
    engine.clients[victim].set_phase(Phase::Running(Running::OnServer));
    let owner = Owner::Client { client: victim, command: RequestKind::Query };
    engine.sending().send_own(runs_on, owner, CommandKind::Query, text, Expect::ResultSets, 0);
    (runs_on, carrier)
}

/// A client in a transaction with a statement that runs, and a KILL QUERY of it, which an idle backend is asked to carry out.
struct Interrupted {
    engine: Engine,
    victim: ClientKey,
    pinned: BackendKey,
    carrier: BackendKey,
}

impl Interrupted {
    fn new(peer: bool) -> Self {
        let mut engine = engine(1, Settings::default());
        let (&id, &victim) = engine.ids.keys.iter().next().unwrap();
        let primary = engine.servers.primary().key;
        let (pinned, carrier) = run_beside(&mut engine, victim, b"UPDATE t SET a = 1");
        engine.free_backend(carrier);
        engine.clients[victim].session.status =
            StatusFlags(StatusFlags::AUTOCOMMIT.0 | StatusFlags::IN_TRANS.0);
        if peer {
            let killer = Killer::Peer(primary, Sender { connection: 5, number: 1 });
            let (rights, age) = (KillRights::OF_OPERATOR, Duration::ZERO);
            engine.kill_for_worker(&Kill { from: 1, killer, victim: id, query_only: true, rights, age });
        } else {
            assert!(engine.kill(id, true));
        }
        engine.carry_out_kills();
        let mut interrupted = Self { engine, victim, pinned, carrier };
        interrupted.statement_ends();
        interrupted
    }

    /// Ends the statement by itself: the KILL has not reached it.
    fn statement_ends(&mut self) {
        self.engine.servers[self.pinned].in_flight.clear();
        self.engine.clients[self.victim].set_phase(Phase::Idle);
        let mut commit = Vec::new();
        wire::put_message(&mut commit, &mut 0, b"\x03COMMIT");
        let now = self.engine.now;
        self.engine.handle(now, Input::Bytes { connection: connection(0), bytes: &commit });
    }

    /// Says whether the victim's next statement has been sent, behind a turn at this time.
    fn goes_on_at(&mut self, now: Instant) -> bool {
        self.engine.handle(now, Input::TurnEnd);
        !self.engine.servers[self.pinned].in_flight.is_empty()
    }

    fn server_answers(&mut self) {
        let ok = [7, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0];
        self.engine.backend_bytes(self.carrier, &ok);
    }

    fn told(&mut self) -> Option<(usize, Letter)> {
        std::iter::from_fn(|| self.engine.poll_letter())
            .find(|(_, letter)| matches!(letter, Letter::Killed(_)))
    }
}

/// The next statement would be hit in the place of the one that was meant.
#[test]
fn the_statement_behind_one_that_is_killed_waits_for_the_servers_answer() {
    let mut it = Interrupted::new(false);
    assert!(!it.goes_on_at(Instant::START), "the KILL may hit it");
    assert!(
        matches!(it.engine.clients[it.victim].phase(), Phase::Idle),
        "it holds no permit, and is in no queue"
    );
    it.server_answers();
    assert!(it.goes_on_at(Instant::START));
}

#[test]
fn a_kill_that_the_server_does_not_answer_holds_nothing_up_for_good() {
    let mut it = Interrupted::new(false);
    let end = Instant::START + LONGEST;
    assert!(it.engine.next_timeout().is_some_and(|next| next <= end), "a turn will come");
    it.engine.servers[it.carrier].close_afterwards();
    it.engine.close_backend(it.carrier, "it is lost");
    assert!(!it.goes_on_at(Instant::START + LONGEST / 2), "the server may have read the KILL");
    assert!(it.goes_on_at(end));
    assert!(it.engine.orders.kills_under_way.is_empty());
}

#[test]
fn a_kill_from_elsewhere_is_answered_when_the_server_has_answered() {
    let mut it = Interrupted::new(true);
    it.goes_on_at(Instant::START);
    assert_eq!(it.told(), None);
    it.server_answers();
    let told = it.told();
    let done = matches!(told, Some((1, Letter::Killed(Killed { outcome: KillOutcome::Done, .. }))));
    assert!(done, "{told:?}");
}

/// A client with a statement that runs, and another one that has said KILL of it in front of something else.
struct InFront {
    engine: Engine,
    victim: ClientKey,
    runs_on: BackendKey,
    carrier: BackendKey,
}

/// Says whether the server can be asked at once.
#[derive(Clone, Copy, PartialEq)]
enum Carrier {
    Idle,
    Busy,
}

impl InFront {
    fn new(query_only: bool) -> Self {
        Self::with(query_only, Carrier::Idle)
    }

    fn with(query_only: bool, is: Carrier) -> Self {
        let mut engine = engine(2, Settings::default());
        let (victim, killer) = (client_key(0), client_key(1));
        let (runs_on, carrier) = run_beside(&mut engine, victim, b"DO SLEEP(100)");
        if is == Carrier::Idle {
            engine.free_backend(carrier);
        }
        engine.clients[killer].capabilities |= Capabilities::MULTI_STATEMENTS;
        let kind = if query_only { "QUERY " } else { "" };
        let text = format!("\x03KILL {kind}{}; SELECT 5", engine.clients[victim].id);
        let mut kill = Vec::new();
        wire::put_message(&mut kill, &mut 0, text.as_bytes());
        let now = engine.now;
        engine.handle(now, Input::Bytes { connection: connection(1), bytes: &kill });
        engine.handle(now, Input::TurnEnd);
        Self { engine, victim, runs_on, carrier }
    }

    /// Returns the bytes that were sent for the killer, and to it.
    fn sent(&mut self) -> (String, String) {
        let to_server = std::mem::take(&mut self.engine.servers[self.carrier].out);
        let mut to_killer = Vec::new();
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send { connection: to, bytes } if to == connection(1) => {
                    to_killer.extend_from_slice(bytes);
                }
                _ => {}
            }
        }
        [to_server, to_killer].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).into()
    }

    /// True while the rest of the killer's text has not gone on.
    fn killer_waits(&self) -> bool {
        matches!(self.engine.clients[client_key(1)].phase(), Phase::Killing(_))
    }

    fn carrier_hears(&mut self, answer: &[u8]) {
        let mut bytes = Vec::new();
        wire::put_message(&mut bytes, &mut 1, answer);
        self.engine.backend_bytes(self.carrier, &bytes);
        self.engine.handle(self.engine.now, Input::TurnEnd);
    }
}

/// The server is asked for the KILL alone, and says that it does not know the thread, as that has come to its end meanwhile.
#[test]
fn a_text_goes_on_behind_its_kill_whatever_has_become_of_what_was_meant() {
    for query_only in [false, true] {
        let mut it = InFront::new(query_only);
        let (to_server, to_killer) = it.sent();
        assert!(to_server.contains("KILL ") && !to_server.contains("SELECT"), "{to_server:?}");
        assert_eq!(to_killer, "", "the server has not done it");
        it.carrier_hears(b"\xff\x46\x04#HY000Unknown thread id: 0");
        assert_eq!(it.sent().1, "", "it is no error");
        let request = it.engine.clients[client_key(1)].request.as_ref().expect("the rest follows");
        assert_eq!(request.text(), Some(&b"DO 0;SELECT 5"[..]));
        assert_eq!(it.engine.clients[it.victim].loss.killed, !query_only);
        assert!(it.engine.servers[it.runs_on].is_closed_afterwards());
    }
}

/// There is no backend of the victim's user to ask on for now.
#[test]
fn a_text_goes_on_behind_its_kill_once_the_server_could_be_asked() {
    let mut it = InFront::with(true, Carrier::Busy);
    assert_eq!(it.sent(), Default::default());
    assert!(it.killer_waits(), "what stands behind it might wait for what the KILL ends");
    it.engine.free_backend(it.carrier);
    it.engine.handle(it.engine.now, Input::TurnEnd);
    assert!(it.sent().0.contains("KILL ") && it.killer_waits());
    it.carrier_hears(b"\0\0\0\x02\0\0\0");
    assert!(!it.killer_waits());
}

/// Nor does the text wait for a server that does not answer.
#[test]
fn a_text_goes_on_behind_a_kill_that_the_server_does_not_answer() {
    let mut it = InFront::new(true);
    it.sent();
    it.engine.servers[it.carrier].close_afterwards();
    it.engine.close_backend(it.carrier, "it is lost");
    it.engine.handle(Instant::START + LONGEST / 2, Input::TurnEnd);
    assert!(it.killer_waits(), "the server may be about to read the KILL");
    it.engine.handle(Instant::START + LONGEST, Input::TurnEnd);
    assert!(
        !it.killer_waits() && it.engine.clients[client_key(1)].request.is_some(),
        "the rest waits for a backend"
    );
}

/// There is nothing to wait for then.
#[test]
fn a_victim_that_loses_its_backend_meanwhile_or_goes_leaves_nothing_behind() {
    for goes in [false, true] {
        let mut it = Interrupted::new(true);
        if goes {
            it.engine.client_gone(it.victim); // and its backend with it
        } else {
            it.engine.close_backend(it.pinned, "it is lost");
        }
        it.engine.handle(Instant::START, Input::TurnEnd);
        assert!(it.engine.orders.kills_under_way.is_empty());
        assert!(it.told().is_some(), "what was to be ended has ended");
        assert!(it.engine.clients.get(it.victim).is_none_or(|client| client.input.is_empty()));
    }
}

/// The rest belonged to what the killer has lost: a COMMIT there would be told as done.
#[test]
fn what_stands_behind_a_kill_does_not_go_on_without_the_transaction_that_it_stands_in() {
    let mut it = InFront::new(true);
    it.sent();
    it.engine.clients[client_key(1)].loss.kind = Some(crate::client::LossKind::Transaction);
    it.carrier_hears(b"\0\0\0\x02\0\0\0");
    let (_, to_killer) = it.sent();
    assert!(to_killer.contains('\u{fffd}') && to_killer.contains("#"), "an error: {to_killer:?}");
    assert!(it.engine.clients.get(client_key(1)).is_none_or(|killer| killer.request.is_none()));
}

/// The server's own numbers have come as far as those of clients.
#[test]
fn a_text_whose_kill_names_a_thread_with_a_number_like_a_clients_is_read_once() {
    let mut engine = engine(1, Settings::default());
    let serves = ServedClient::default();
    engine.pool.workers.serving.add(FIRST_ID, &serves);
    let none = ids(&engine)[0] + 1;
    engine.clients[client_key(0)].capabilities |= Capabilities::MULTI_STATEMENTS;
    let mut kill = Vec::new();
    wire::put_message(&mut kill, &mut 0, format!("\x03KILL {none}; SELECT 5").as_bytes());
    engine.handle(engine.now, Input::Bytes { connection: connection(0), bytes: &kill });
    engine.handle(engine.now, Input::TurnEnd);
    let mut told = Vec::new();
    while let Some(output) = engine.poll_output() {
        if let Output::Send { bytes, .. } = output {
            told.extend_from_slice(bytes);
        }
    }
    assert!(String::from_utf8_lossy(&told).contains("Unknown thread id"), "{told:?}");
}
