use super::*;
use crate::frozen::plain::{bytes_of, read};
use crate::scheduling::learned::limit::Served;
use crate::scheduling::learned::way::Way;

fn range() -> Range {
    Range { least: 1, most: 64, start: 8, worth: Worth::Little, division: Division::NONE }
}

/// A server that does as much as its permits are, up to 32 of them, looked at every 10 ms by one meter.
fn load(meter: &Meter<1>, from: Instant, looks: u64) -> (Instant, Vec<u32>) {
    let (way, mut now, mut limits) = (Way::new(), from, Vec::new());
    for _ in 0..looks {
        now = now + Duration::from_millis(10);
        meter.saturated(now, true);
        let [limit] = meter.limits();
        let mut served = Served::default();
        for number in 0..limit.unwrap_or(1).min(32) * 4 {
            served.add(u64::from(number % 3) << 59, Duration::from_millis(3));
        }
        meter.take(now, &served, &way, 1.5, true);
        limits.extend(meter.limits()[0]);
    }
    (now, limits)
}

#[test]
fn a_limit_is_found_as_if_nothing_had_been_between() {
    // At any moment of it: at rest, in the middle of a trial, with trials put aside.
    for looks in (1..600).step_by(23) {
        let [whole, before] = [(), ()].map(|()| Meter::new([Some(range())]));
        let (then, _) = load(&whole, Instant::START, looks);
        load(&before, Instant::START, looks);
        let shown = format!("{before:?}");
        let frozen = before.freeze(then);
        let there: FrozenMeter = read(&bytes_of(&frozen)).expect("it is read");
        assert_eq!(there, frozen);
        assert_eq!(before.limits(), [None], "all of it is taken out");
        // The next process began with another clock.
        let now = then + Duration::from_secs(1000);
        let behind = Meter::<1>::new([None]);
        behind.thaw(there, now);
        let (_, expected) = load(&whole, then, 600);
        assert_eq!(load(&behind, now, 600).1, expected, "frozen after {looks} looks");
        let again = Meter::<1>::new([None]);
        again.thaw(frozen, then);
        assert_eq!(format!("{again:?}"), shown);
    }
}

#[test]
fn a_limit_that_is_given_stays_so() {
    let meter = Meter::new([None, Some(range())]);
    let frozen = meter.freeze(Instant::START);
    let behind = Meter::<2>::new([Some(range()), None]);
    behind.thaw(frozen, Instant::START);
    assert_eq!(behind.limits(), [None, Some(8)]);
}
