use std::time::Duration;

use super::*;
use crate::scheduling::learned::digests::tests::execution;
use crate::scheduling::learned::history::Traces;
use crate::settings::Settings;
use crate::workers::Workers;

const KIND: u64 = 7;
const NO_PLACE: u64 = 9;

fn scheduling(digests_size: u32) -> Scheduling {
    let settings = Settings { digests_size, ..Settings::default() };
    let workers = Workers::new(&settings, 1);
    Scheduling::new(&settings, workers, 0)
}

/// A worker's knowledge with something in every field.
fn learned(now: Instant) -> Scheduling {
    let mut scheduling = scheduling(1);
    scheduling.digests.add(now, KIND, Some(String::from("select ?")));
    for millis in 20..150 {
        scheduling.digests.record(now, &execution(KIND, millis));
        scheduling.digests.record(now, &execution(NO_PLACE, millis));
        scheduling.history.record(KIND, Duration::from_micros(50), 100, Traces::Nothing);
    }
    scheduling.digests.record_coalesced(KIND, 3);
    scheduling.digests.note_stuck(now, KIND);
    scheduling.digests.usual_long_time(KIND, Duration::from_secs(2), true);
    scheduling.digests.usual_response(KIND, 30_000, true);
    scheduling.history.note_large(KIND);
    scheduling.others_pace.add(5, 3);
    scheduling
}

fn through_bytes(frozen: &FrozenLearned) -> FrozenLearned {
    let there: FrozenLearned = read(&bytes_of(frozen)).expect("what was frozen is read");
    assert_eq!(&there, frozen);
    there
}

#[test]
fn another_worker_knows_what_was_learned() {
    let (then, now) = (Instant::from_micros(90_000_000), Instant::from_micros(5_000_000_000));
    let mut from = learned(then);
    let mut to = scheduling(1);
    let shown = |digests: &crate::scheduling::learned::digests::Digests| {
        format!("{:?}", digests.iter().map(|digest| (digest.text.clone(), digest.cost())).collect::<Vec<_>>())
    };
    let before = (shown(&from.digests), from.digests.p99(KIND), from.digests.spares(KIND));
    let frozen = through_bytes(&from.freeze_learned(then));
    to.thaw_learned(frozen, now);
    assert_eq!((shown(&to.digests), to.digests.p99(KIND), to.digests.spares(KIND)), before);
    assert!(before.2 > 0, "it mostly waits");
    assert!(to.digests.may_be_stuck(now + Duration::from_secs(9), KIND));
    assert!(!to.digests.may_be_stuck(now + Duration::from_secs(10), KIND), "by the clock of the new one");
    assert!(to.digests.knows_long_time(KIND) && !to.digests.is_news(KIND));
    assert_eq!(to.digests.usual_response(KIND, 1, false), 30_000);
    assert!(to.history.is_harmless(KIND) && to.history.is_large(KIND));
    assert_eq!(to.others_pace, Pace { time: 5, usual: 3 });
    // What was taken out there is all that there was.
    assert_eq!(from.digests.len(), 0);
    assert!(!from.history.is_harmless(KIND));
}

#[test]
fn what_finds_no_place_any_more_is_counted_with_the_others() {
    let now = Instant::from_micros(90_000_000);
    let mut from = scheduling(2);
    for kind in [1, 2] {
        from.digests.add(now, kind, None);
        from.digests.record(now, &execution(kind, 10));
    }
    let mut to = scheduling(1);
    to.thaw_learned(through_bytes(&from.freeze_learned(now)), now);
    let counted: Vec<_> = to.digests.iter().map(|digest| (digest.fingerprint, digest.count)).collect();
    assert_eq!(counted, [(Some(1), 1), (None, 1)]);
}
