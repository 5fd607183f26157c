use std::time::Duration;

use super::*;
use crate::scheduling::learned::limit::Served;
use crate::scheduling::learned::long_permits::{LongEnd, Pace};
use crate::settings::Settings;
use crate::workers::onramps::Census;

fn settings() -> Settings {
    Settings {
        permits: 0,
        max_backends: 0,
        shared_backends: 0,
        statements_in_flight: 0,
        ..Settings::default()
    }
}

/// A pool in which something has been found of everything.
fn used(now: Instant) -> std::sync::Arc<Workers> {
    let workers = Workers::new(&settings(), 2);
    workers.way.note(Duration::from_millis(20));
    workers.way.count(Instant::from_micros(now.as_micros() - 40_000));
    (0..100).for_each(|_| workers.way.note_start());
    workers.adapt_limits(now, &mut Served::default());
    workers.change_places(&settings(), 77);
    workers.places.refused(now);
    workers.onramps.take(Census { present: 3, at_work: 2, saturated: 2, rank: 1, others: 0b101 });
    workers.onramps.set_slot(2);
    workers.onramps.set_clock(now, 1_700_000_000_000);
    workers.onramps.wait();
    let long = |usual| LongEnd {
        at: now,
        time: Duration::from_secs(2),
        usual: Some(usual),
        others: Pace { time: 4, usual: 3 },
    };
    workers.measure_long(&long(Duration::from_secs(3)));
    assert!(workers.may_ask_for_lock_waits(now, Duration::from_secs(1)));
    workers.prolong_crowding(now + Duration::from_secs(2));
    workers.prolong_shutting_out(now, now + Duration::from_secs(3));
    workers.note_saturation(0, now, true, false);
    (0..5).for_each(|_| _ = workers.arrival());
    workers
}

#[test]
fn another_pool_knows_what_was_found() {
    let (then, now) = (Instant::from_micros(90_000_000), Instant::from_micros(5_000_000_000));
    let workers = used(then);
    let before = (workers.permits(), workers.places.most(), workers.places.limit());
    let frozen = workers.freeze(then);
    let there: FrozenWorkers = read(&bytes_of(&frozen)).expect("what was frozen is read");
    assert_eq!(there, frozen);
    let behind = Workers::new(&settings(), 2);
    behind.thaw(there, now);
    assert_eq!((behind.permits(), behind.places.most(), behind.places.limit()), before);
    assert_eq!(behind.way.round_trip(), Duration::from_millis(20));
    assert!(behind.way.on_the_way() > 0);
    assert_eq!((behind.onramps.slot(), behind.onramps.present(), behind.onramps.at_work()), (Some(2), 3, 2));
    assert!(behind.onramps.is_of_another(3) && behind.onramps.have_waited());
    assert_eq!(behind.lock_waits_due(Duration::from_secs(1)), now + Duration::from_secs(1));
    assert_eq!(behind.crowded_until(), now + Duration::from_secs(2));
    let later = now + Duration::from_millis(2_999);
    assert!(behind.shut_a_user_out(later) && !behind.shut_a_user_out(now + Duration::from_secs(3)));
    assert_eq!(behind.arrivals(), 5);
    assert_eq!(
        behind.saturated_for(later)[0] - behind.saturated_for(now)[0],
        2_999_000,
        "they go on waiting"
    );
    behind.onramps.wait();
    // And once more: nothing of it is lost on the way.
    assert_eq!(behind.freeze(now), frozen);
}
