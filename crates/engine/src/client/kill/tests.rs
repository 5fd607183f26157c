use super::*;
use crate::accounts::{Account, Credential};
use crate::client::commands::tests::engine;
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

#[test]
fn ids_fit_a_signed_int_and_begin_again_behind_the_last_one() {
    let mut engine = engine(3, Settings::default());
    let ids = |engine: &Engine| engine.client_ids.keys().copied().collect::<Vec<_>>();
    assert_eq!(ids(&engine), [FIRST_ID + 1, FIRST_ID + 2, FIRST_ID + 3]);
    engine.last_client_id = IDS - 2;
    let last = FIRST_ID + IDS_OF_SLOT - 1;
    assert_eq!([engine.next_client_id(), engine.next_client_id()], [last, FIRST_ID]);
    assert_eq!(engine.next_client_id(), FIRST_ID + 4, "the others are in use");
    engine.pool.workers.onramps.set_slot(SLOTS);
    engine.last_client_id = IDS_OF_SLOT - 2;
    assert_eq!(engine.next_client_id(), i32::MAX as u32, "the last of the last slot");
}

#[test]
fn clients_that_have_come_before_the_slot_was_known_get_ids_of_it() {
    let mut engine = engine(3, Settings::default());
    let keys: Vec<_> = engine.clients.iter().map(|(key, _)| key).collect();
    engine.begin_login(keys[0]);
    engine.renew_ids(&keys);
    assert_eq!(engine.clients[keys[0]].id, FIRST_ID + 1, "there is no slot");
    engine.pool.workers.onramps.set_slot(3);
    // That one has come since.
    let id = engine.next_client_id();
    engine.client_ids.remove(&engine.clients[keys[2]].id);
    engine.client_ids.insert(id, keys[2]);
    engine.clients[keys[2]].id = id;
    engine.renew_ids(&keys);
    let first = FIRST_ID + 2 * IDS_OF_SLOT;
    let of_clients: Vec<_> = keys.iter().map(|&key| engine.clients[key].id).collect();
    assert_eq!(of_clients, [first + 1, first + 2, id]);
    assert_eq!(engine.client_ids.keys().copied().collect::<Vec<_>>(), [first + 1, first + 2, id]);
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
}

#[test]
fn an_id_that_no_client_has_is_the_servers_where_that_has_come_so_far() {
    let mut engine = engine(1, Settings::default());
    let rights = Rights::of(&Account::of_test("app", "%", Credential::Empty));
    let (one, none) = (FIRST_ID + 1, FIRST_ID + 2);
    let serves = Serves::default();
    engine.pool.workers.serving.add(FIRST_ID - 1, &serves);
    assert_eq!(engine.kill_victim(none, true, &rights), Outcome::NoSuchClient);
    engine.pool.workers.serving.add(FIRST_ID, &serves);
    let ending = Ending { thread_id: u64::from(none), query_only: true };
    assert_eq!(engine.kill_victim(none, true, &rights), Outcome::OfServer(ending));
    assert_eq!(engine.kill_victim(one, true, &rights), Outcome::Done, "a client comes first");
}
