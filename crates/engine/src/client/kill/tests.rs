use super::*;
use crate::accounts::{Account, Credential};
use crate::client::commands::tests::{engine, open_backends};
use crate::settings::Settings;
use crate::workers::Workers;
use crate::workers::onramps::Census;
use crate::workers::serving::Serves;

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
    engine.client_ids.keys().copied().collect()
}

#[test]
fn ids_fit_a_signed_int_and_begin_again_behind_the_last_one() {
    let mut engine = engine(3, Settings::default());
    engine.client_ids.clear();
    engine.first_client_id = 0;
    let key = engine.clients.iter().next().unwrap().0;
    engine.client_ids.extend([1, 2].map(|place| (WITHOUT + place, key)));
    engine.last_client_id = IDS - 2;
    let given = [engine.next_client_id(), engine.next_client_id(), engine.next_client_id()];
    assert_eq!(given, [WITHOUT + IDS_OF_SLOT - 1, WITHOUT, WITHOUT + 3], "the others are in use");
    engine.pool.workers.onramps.set_slot(SLOTS);
    engine.last_client_id = IDS_OF_SLOT - 2;
    assert_eq!(engine.next_client_id(), WITHOUT - 1, "the last of the last slot");
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

#[test]
fn clients_that_have_come_before_the_slot_was_known_get_ids_of_it() {
    let mut engine = engine(3, Settings::default());
    let keys: Vec<_> = engine.clients.iter().map(|(key, _)| key).collect();
    let before = ids(&engine);
    assert!(before.iter().all(|&id| id > WITHOUT), "{before:?}");
    engine.begin_login(keys[0]);
    engine.renew_ids(&keys);
    assert_eq!(ids(&engine), before, "there is no slot");
    engine.pool.workers.onramps.set_slot(3);
    // That one has come since.
    let id = engine.next_client_id();
    engine.client_ids.remove(&engine.clients[keys[2]].id);
    engine.client_ids.insert(id, keys[2]);
    engine.clients[keys[2]].id = id;
    engine.renew_ids(&keys);
    let same = |id| id - WITHOUT + FIRST_ID + 2 * IDS_OF_SLOT;
    let of_clients: Vec<_> = keys.iter().map(|&key| engine.clients[key].id).collect();
    assert_eq!(of_clients, [same(before[0]), same(before[1]), id]);
    assert_eq!(ids(&engine), of_clients);
    let (_, waits) = engine.logins.by_deadline[0];
    assert!(engine.clients.find(waits).is_some(), "its time ends as before");
}

#[test]
fn an_id_says_whose_client_it_is() {
    let pool = Pool::new(Workers::new(&Settings::default(), 3), 0);
    pool.workers.onramps.take(Census { present: 2, at_work: 1, rank: 0, others: 0b10 });
    assert_eq!(pool.peer_of(FIRST_ID), None);
    assert_eq!(pool.peer_of(FIRST_ID + IDS_OF_SLOT + 7), Some(2));
    assert_eq!(pool.peer_of(FIRST_ID + 2 * IDS_OF_SLOT), None, "nobody has that slot");
    pool.workers.onramps.take(Census { present: 17, at_work: 1, rank: 0, others: 0xffff });
    assert_eq!(pool.peer_of(WITHOUT - 1), Some(SLOTS));
    assert_eq!(pool.peer_of(WITHOUT), None, "that one has no slot");
    assert_eq!(pool.peer_of(i32::MAX as u32), None);
}

#[test]
fn an_id_that_no_client_has_is_the_servers_where_that_has_come_so_far() {
    let mut engine = engine(1, Settings::default());
    let rights = Rights::of(OwnBy::Account, b"app", &Account::of_test("app", "%", Credential::Empty));
    let one = ids(&engine)[0];
    let none = one + 1;
    let serves = Serves::default();
    engine.pool.workers.serving.add(FIRST_ID - 1, &serves);
    assert_eq!(engine.kill_victim(none, true, &rights, Duration::ZERO), Outcome::NoSuchClient);
    engine.pool.workers.serving.add(FIRST_ID, &serves);
    let ending = Ending { thread_id: u64::from(none), query_only: true };
    assert_eq!(engine.kill_victim(none, true, &rights, Duration::ZERO), Outcome::OfServer(ending));
    assert_eq!(engine.kill_victim(one, true, &rights, Duration::ZERO), Outcome::Done, "a client comes first");
}

/// A statement that has come behind the KILL of the one before is not the one that is meant.
#[test]
fn a_late_cancel_spares_what_has_come_since() {
    let mut engine = engine(1, Settings::default());
    let rights = Rights::of(OwnBy::Account, b"app", &Account::of_test("app", "%", Credential::Empty));
    let (&id, &key) = engine.client_ids.iter().next().unwrap();
    let seconds = |seconds| Instant::START + Duration::from_secs(seconds);
    engine.now = seconds(10);
    let request = Request::query("SELECT 1");
    engine.queue_request(key, request);
    let waits = |engine: &Engine| matches!(engine.clients[key].phase(), Phase::Queued);
    assert!(waits(&engine));
    engine.clients[key].takes_command(seconds(9));
    for (query_only, age, ended) in [(true, 2, false), (true, 1, true)] {
        let outcome = engine.kill_victim(id, query_only, &rights, Duration::from_secs(age));
        assert_eq!((outcome, waits(&engine)), (Outcome::Done, !ended), "{age}");
    }
    let other = Rights::of(OwnBy::Account, b"other", &Account::of_test("other", "%", Credential::Empty));
    let outcome = engine.kill_victim(id, true, &other, Duration::from_secs(2));
    assert_eq!(outcome, Outcome::Denied, "nobody hears more than he may");
    assert_eq!(engine.kill_victim(id, false, &rights, Duration::from_secs(2)), Outcome::Done);
    assert!(engine.clients.get(key).is_none(), "its client is meant whatever it does");
}

/// The first has been asked of the server, which has not ended the client yet.
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
        killed.push(engine.clients[client].killed);
    }
    assert_eq!(killed, [false, true, true]);
}
