use std::time::Duration;

use wire::Capabilities;

use super::*;
use crate::backend::to_server::prepared_statement_room::state::PreparedStatementRoom;
use crate::ids::ServerKey;
use crate::server::login::Established;

/// A server with something known in every field.
fn known(now: Instant) -> Server {
    let mut server = Server::new(ServerKey::at(1));
    let facts = |version| Some(Facts::new(&Established::of_test(version, Capabilities(u64::MAX))));
    server.facts = facts("11.4-MariaDB");
    server.pending_facts = facts("11.8-MariaDB");
    server.reachability.withheld_at = Some(now);
    server.reachability.failed(now, String::from("it is away"), Some(2));
    server.full = Some(ServerFull { until: now + Duration::from_secs(1), tries: 3 });
    server.rescues.found_functions(now, Some(0));
    assert!(server.rescues.has_no_functions(now, Duration::ZERO), "and asks again");
    let kind = (7, Some((*b"shop").into()));
    server.contention.note(now, BTreeMap::from([(kind, (4, 3))]));
    server.blockers.insert(5, Blocker { waits: 1, ..Blocker::default() });
    server.lock_waits_denied = Some(now);
    server.opening.took(Duration::from_millis(3), false);
    server.opening.took(Duration::from_millis(1), true);
    server.opening.affinity.place_taken(now);
    server.prepared_statement_room = PreparedStatementRoom::being_made(now);
    server.prepared_statement_room.taken = 0;
    server.control.defaults.are_asked_for(now);
    server
}

#[test]
fn it_is_known_by_another_clock() {
    let (then, later) = (Instant::from_micros(90_000_000), Instant::from_micros(5_000_000_000));
    let mut server = known(then);
    let bytes = bytes_of(&server.freeze(then));
    assert_eq!(server.shown(), Server::new(ServerKey::at(1)).shown(), "all of it is taken out");
    assert!(server.facts.is_none() && server.pending_facts.is_none());
    let [mut same, mut other] = [(); 2].map(|()| Server::new(ServerKey::at(1)));
    same.thaw(read(&bytes).expect("it is whole"), then);
    assert_eq!(same.shown(), known(then).shown());
    other.thaw(read(&bytes).expect("it is whole"), later);
    assert_eq!(other.full.as_ref().map(|full| full.until), Some(later + Duration::from_secs(1)));
    assert_eq!(other.lock_waits_denied, Some(later));
    assert_eq!(other.facts.as_ref().map(|facts| facts.version.text()), Some(&b"11.4-MariaDB"[..]));
    assert!(bytes_of(&other.freeze(later)) == bytes, "nothing of it is lost");
}
