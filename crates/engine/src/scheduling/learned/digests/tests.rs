use super::*;
use crate::outside::waits::{Holdups, Lack, WaitReason, Waits};

pub(crate) fn execution(fingerprint: u64, millis: u64) -> EndedExecution {
    EndedExecution {
        fingerprint,
        time: Duration::from_millis(millis),
        waited: Duration::ZERO,
        rows_sent: 0,
        rows_affected: 0,
        error: false,
        round_trip: Duration::ZERO,
        few: true,
    }
}

/// Digests with `fingerprint` seen, and executions of so many milliseconds.
fn after(fingerprint: u64, millis: impl IntoIterator<Item = u64>) -> Digests {
    let mut digests = Digests::new(10);
    digests.add(Instant::START, fingerprint, None);
    for millis in millis {
        digests.record(Instant::START, &execution(fingerprint, millis));
    }
    digests
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn all_is_counted_under_its_digest() {
    let mut digests = Digests::new(10);
    let at = Instant::from_micros;
    assert!(digests.is_news(7));
    digests.add(at(5), 7, Some(String::from("select ?")));
    assert!(!digests.is_news(7));
    let one = EndedExecution {
        waited: Duration::from_millis(3),
        rows_sent: 2,
        rows_affected: 1,
        error: true,
        ..execution(7, 10)
    };
    digests.record(at(10), &one);
    digests.record(at(20), &execution(7, 30));
    let [digest] = &digests.iter().collect::<Vec<_>>()[..] else { panic!("one digest") };
    assert_eq!((digest.fingerprint, digest.text.as_deref()), (Some(7), Some("select ?")));
    assert_eq!((digest.count, digest.errors, digest.rows_sent, digest.rows_affected), (2, 1, 2, 1));
    assert_eq!((digest.first_seen, digest.last_seen), (at(5), at(20)));
    let millis = |times: Times| [times.sum(), times.min(), times.max()].map(|time| time.as_millis());
    assert_eq!(millis(digest.execution), [40, 10, 30]);
    assert_eq!(millis(digest.wait), [3, 0, 3]);
    let half = digest.quantile(0.5).as_secs_f64() * 1000.0;
    assert!((half - 10.0).abs() <= 10.0 / 8.0, "{half}");
    assert_eq!(digest.quantile(1.0), Duration::from_millis(30), "never beyond the longest");
}

#[test]
fn what_finds_no_place_is_counted_together() {
    let mut digests = Digests::new(2);
    for fingerprint in 1..=5 {
        digests.add(Instant::START, fingerprint, None);
        digests.record(Instant::START, &execution(fingerprint, 1));
    }
    let found: Vec<_> = digests.iter().map(|digest| (digest.fingerprint, digest.count)).collect();
    assert_eq!(found, [(Some(1), 1), (Some(2), 1), (None, 3)]);
    assert!(!digests.is_news(6), "there is no room");
    assert_eq!(digests.len(), 2);
    digests.clear();
    assert!(digests.is_empty() && digests.iter().next().is_none());
}

#[test]
fn many_are_found_again() {
    let mut digests = Digests::new(10_000);
    // Fingerprints that all want the same slot.
    let fingerprint = |n: u64| (n << 40) | 1;
    for n in 1..=10_000 {
        digests.add(Instant::START, fingerprint(n), None);
    }
    for n in 1..=10_000 {
        digests.record(Instant::START, &execution(fingerprint(n), n));
    }
    assert!(digests.iter().all(|digest| digest.count == 1 && digest.fingerprint.is_some()));
    assert!(digests.bytes() < 10_000 * 1024);
}

#[test]
fn the_p99_needs_some_executions() {
    assert_eq!(after(7, [5; 19]).p99(7), None);
    assert_eq!(after(7, [5; 20]).p99(7), Some(Duration::from_millis(5)));
    assert_eq!(after(7, [5; 20]).p99(8), None);
}

#[test]
fn one_execution_that_was_unlucky_changes_nothing() {
    let digests = after(7, std::iter::repeat_n(2, 100).chain([5000]));
    assert_eq!(digests.p99(7), Some(Duration::from_millis(2)));
    assert!(!digests.is_long(7, SECOND));
}

#[test]
fn a_kind_that_became_slow_is_noticed_at_the_second() {
    let mut digests = after(7, [2; 1000]);
    digests.record(Instant::START, &execution(7, 1000));
    assert!(!digests.is_long(7, SECOND));
    digests.record(Instant::START, &execution(7, 1500));
    assert!(digests.is_long(7, SECOND));
    assert_eq!(digests.p99(7), Some(SECOND));
}

#[test]
fn a_kind_that_became_fast_is_noticed_within_two_generations() {
    let mut digests = after(7, [2000; 1000]);
    let mut needed = 0;
    while digests.is_long(7, SECOND) {
        digests.record(Instant::START, &execution(7, 2));
        needed += 1;
    }
    assert!((2..=2 * u32::from(GENERATION)).contains(&needed), "{needed}");
}

#[test]
fn a_new_kind_is_long_after_two_executions() {
    assert!(!after(7, [1000]).is_long(7, SECOND));
    assert!(after(7, [1000, 1000]).is_long(7, SECOND));
    assert!(!after(7, [1000, 999]).is_long(7, SECOND));
    assert!(!after(7, [1000, 1000]).is_long(8, SECOND));
}

#[test]
fn a_digest_costs_some_hundreds_of_bytes() {
    assert!(size_of::<Digest>() <= 448, "{}", size_of::<Digest>());
}

/// A hundred million statements of a thousand kinds, in a full table: what each costs here and in the histograms of waits, at
/// its arrival, its start and its end. Each second that
/// this takes is ten nanoseconds for each of them. `cargo test --release -p engine -- --ignored a_hundred_million_statements`
#[test]
#[ignore = "measures; says nothing without optimisation"]
fn a_hundred_million_statements() {
    const STATEMENTS: u64 = 100_000_000;
    let fingerprint = |n: u64| (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut digests = Digests::new(10_000);
    (0..10_000).for_each(|n| digests.add(Instant::START, fingerprint(n), None));
    let (mut waits, mut holdups) = (Waits::default(), Holdups::default());
    for n in 0..STATEMENTS {
        let now = Instant::from_micros(n);
        // In no order that the processor could guess.
        let fingerprint = fingerprint((n.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % 1000);
        let arrival = holdups.arrival(now, false);
        holdups.note(now, (n % 16 < 8).then_some(Lack::Permit), None);
        let now = now + Duration::from_micros(100);
        waits.record(WaitReason::LowQueue, Duration::from_micros(100));
        holdups.parts_since(&arrival, now).for_each(|(reason, time)| waits.record(reason, time));
        assert!(!digests.is_long(fingerprint, SECOND) && !digests.is_news(fingerprint));
        let time = Duration::from_micros(50 + (n.wrapping_mul(n)) % 1024);
        digests.record(Instant::START, &EndedExecution { time, ..execution(fingerprint, 0) });
    }
    assert_eq!(digests.iter().map(|digest| digest.count).sum::<u64>(), STATEMENTS);
}
