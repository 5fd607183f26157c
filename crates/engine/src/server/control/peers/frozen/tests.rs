use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;
use crate::frozen::plain::{bytes_of, read};
use crate::server::control::peers::questions::PeersQuestion;

/// Peers with something in every field.
fn used(now: Instant) -> Peers {
    let mut peers = Peers {
        own: 17,
        slot: Some(2),
        former: Some(3),
        is_behind_other: true,
        is_short_lived: true,
        since: now,
        refused: Some(now),
        peers: BTreeMap::from([(
            1,
            Peer {
                connection: 18,
                is_confirmed: true,
                host: String::from("there"),
                since: now,
                at_work: true,
                saturated: true,
                missed: 2,
            },
        )]),
        strangers: BTreeSet::from([19]),
        holders: vec![Holder { slot: 1, connection: 18, at_work: true, saturated: true }],
        said: BTreeSet::from([Obstacle::NoSlot]),
        ..Peers::default()
    };
    peers.work.look(now, true, &[5, 0]);
    peers.work.look(now + Duration::from_secs(1), true, &[900_000, 7]);
    peers.work.say_at_work(true);
    peers.work.say_saturated(true);
    peers.mail.set_clock(now, now + Duration::from_millis(3), 1_700_000_000_000);
    peers.mail.know(&BTreeSet::from([18]));
    peers.is_asked(now, PeersQuestion::Holders);
    peers.refused = Some(now);
    peers
}

#[test]
fn they_are_known_by_another_clock() {
    let (then, later) = (Instant::from_micros(90_000_000), Instant::from_micros(5_000_000_000));
    let mut peers = used(then);
    let clocks = |peers: &Peers, at: Instant| (peers.mail.earliest(at), peers.mail.latest(at));
    let told = clocks(&peers, then);
    assert_eq!(told.1 - told.0, 3, "it took so long to ask");
    assert!(peers.rest());
    let frozen = peers.freeze(then);
    let shown = |peers: &Peers| format!("{peers:?}");
    assert_eq!(shown(&peers), shown(&Peers::default()), "all of it is taken out");
    let there: FrozenPeers = read(&bytes_of(&frozen)).expect("it is whole");
    assert_eq!(there, frozen);
    let mut same = Peers::default();
    same.thaw(there, then);
    assert_eq!(shown(&same), shown(&used(then)));
    let mut other = Peers::default();
    other.thaw(frozen, later);
    assert_eq!(clocks(&other, later), told, "the server's clock is the same");
    assert_eq!(other.views(later), used(later).views(later));
}
