//! How many long statements may run at a time, on all workers of a pool together.
//!
//! `long_permits` of them take permits, so that all other permits are for short statements, whatever comes. Where long
//! statements wait and those that run do not slow each other down, since they wait for a disk or sleep rather than compute,
//! more are tried, beyond the permits; and fewer again once they do slow each other down. The longest-waiting statement
//! goes first, whichever worker it is with.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::outside::histogram::micros;
use crate::workers::Place;

/// Nobody waits for one.
const NOBODY: u64 = u64::MAX;

/// How many long statements run, and who waits to run one more.
#[derive(Debug)]
pub(crate) struct LongPermits {
    /// How many take permits; 0 for a quarter of these.
    set: AtomicU32,
    /// As many as may run at all.
    most: AtomicU32,
    /// How many may run beyond those with permits, as of now.
    more: AtomicU32,
    running: AtomicU32,
    /// Where the first long statement of each worker stands.
    wants: Box<[AtomicU64]>,
    /// One has waited since the last measurement.
    crowded: AtomicBool,
    measurement: Mutex<Measurement>,
}

/// What a long statement is allowed to start with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// It needs a permit too.
    WithPermit,
    /// Beyond the permits.
    Beyond,
}

/// A long statement that has run to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongEnd {
    /// What it took.
    pub(crate) time: Duration,
    /// What its like takes with few at a time.
    pub(crate) usual: Duration,
    /// What other statements of its worker have taken since its last such end, from their arrival on.
    pub(crate) others: Pace,
}

/// What statements take, and their like with few long ones at a time; microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    pub(crate) time: u64,
    pub(crate) usual: u64,
}

impl Pace {
    pub(crate) fn add(&mut self, time: u64, usual: u64) {
        self.time = self.time.saturating_add(time);
        self.usual = self.usual.saturating_add(usual);
    }

    /// Whether it is so many per cent of the usual time, or more.
    fn is_from(self, percent: u32) -> bool {
        u128::from(self.time) * 100 > u128::from(self.usual) * u128::from(percent)
    }
}

/// How long statements take compared with what they took when few ran.
#[derive(Debug)]
struct Measurement {
    /// Statements that began before the latest change, at most: they say nothing about it.
    to_skip: u32,
    count: u32,
    long: Pace,
    others: Pace,
    /// How many ran beyond the permits before the latest try with more, which is not measured yet.
    tried_from: Option<u32>,
    /// So many measurements are left until the next try.
    rest: u32,
    /// And so many there will be if that fails.
    pause: u32,
}

/// A measurement takes so many statements, or as many as run at a time if these are more. The mean of 16 that differ by half
/// either way is off by a tenth at most in four of five cases.
const FEWEST: u32 = 16;

/// Of other statements, as much as takes a tenth of a second usually shows whether they are slowed down; microseconds.
const ENOUGH: u64 = 100_000;

/// After a try that failed, the next one comes later and later, up to this many measurements: where statements compute, each
/// try costs the others something.
const LONGEST_PAUSE: u32 = 64;

impl LongPermits {
    pub(crate) fn new(set: u32, most: u32, workers: u32) -> Self {
        Self {
            set: AtomicU32::new(set),
            most: AtomicU32::new(most),
            more: AtomicU32::new(0),
            running: AtomicU32::new(0),
            wants: (0..workers).map(|_| AtomicU64::new(NOBODY)).collect(),
            crowded: AtomicBool::new(false),
            measurement: Mutex::new(Measurement::NONE),
        }
    }

    /// Other bounds from now on.
    pub(crate) fn change(&self, set: u32, most: u32) {
        self.set.store(set, SeqCst);
        self.most.store(most, SeqCst);
    }

    /// How many may run now, where there are so many permits.
    pub(crate) fn limit(&self, permits: u32) -> u32 {
        let with_permit = self.with_permit(permits);
        let most = self.most.load(SeqCst).max(with_permit);
        with_permit.saturating_add(self.more.load(SeqCst)).min(most)
    }

    /// How many of so many permits they may have, at least one.
    fn with_permit(&self, permits: u32) -> u32 {
        let part = match self.set.load(SeqCst) {
            0 => permits / 4,
            set => set.min(permits),
        };
        part.max(1)
    }

    /// How many more may start, where there are so many permits.
    pub(crate) fn free(&self, permits: u32) -> u32 {
        self.limit(permits).saturating_sub(self.running.load(SeqCst))
    }

    /// Lets the statement at `place` start, unless as many run as may, or others of other workers have waited longer.
    pub(crate) fn take(&self, worker: usize, place: Place, permits: u32) -> Option<Allowed> {
        let may = |running: u32| self.may_take(worker, place.order(), permits, running).then(|| running + 1);
        let before = self.running.fetch_update(SeqCst, SeqCst, may).ok()?;
        Some(if before < self.with_permit(permits) { Allowed::WithPermit } else { Allowed::Beyond })
    }

    /// Whether [`Self::take`] would succeed now.
    pub(crate) fn may_have(&self, worker: usize, place: Place, permits: u32) -> bool {
        let may = self.may_take(worker, place.order(), permits, self.running.load(SeqCst));
        if !may && !self.crowded.load(SeqCst) {
            self.crowded.store(true, SeqCst);
        }
        may
    }

    fn may_take(&self, worker: usize, place: u64, permits: u32, running: u32) -> bool {
        let others = self.wants.iter().enumerate().filter(|&(other, _)| other != worker);
        let older = others.filter(|(_, wants)| wants.load(SeqCst) < place);
        let promised = u32::try_from(older.count()).expect("fewer than workers");
        running.saturating_add(promised) < self.limit(permits)
    }

    /// One does not run any more.
    pub(crate) fn give(&self) {
        let before = self.running.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "a permit is given back once");
    }

    /// Whether no more run than have permits: then they take their usual time.
    pub(crate) fn are_few(&self) -> bool {
        self.more.load(SeqCst) == 0
    }

    /// One has run to its end.
    pub(crate) fn measure(&self, end: &LongEnd, permits: u32) {
        let mut measurement = self.measurement.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = self.limit(permits);
        if !measurement.add(end, limit) {
            return;
        }
        let crowded = self.crowded.swap(false, SeqCst);
        let more = self.more.load(SeqCst);
        let room = self.most.load(SeqCst).saturating_sub(self.with_permit(permits));
        let next = measurement.next(more, limit, crowded).min(room);
        self.more.store(next, SeqCst);
        measurement.to_skip = if next == more { 0 } else { limit };
    }

    /// Says where the first long statement of a worker stands.
    pub(crate) fn want(&self, worker: usize, place: Option<Place>) {
        let place = place.map_or(NOBODY, Place::order);
        // Most of the time there is none, and reading leaves the cache line with all of them.
        if self.wants[worker].load(SeqCst) != place {
            self.wants[worker].store(place, SeqCst);
        }
    }

    /// The place of the statement for which a worker would get one now; `None` where it has none, or would get none.
    pub(crate) fn could_use(&self, worker: usize, permits: u32) -> Option<u64> {
        let wants = self.wants[worker].load(SeqCst);
        let may_have = || self.may_take(worker, wants, permits, self.running.load(SeqCst));
        (wants != NOBODY && may_have()).then_some(wants)
    }
}

impl Measurement {
    const NONE: Self = Self {
        to_skip: 0,
        count: 0,
        long: Pace { time: 0, usual: 0 },
        others: Pace { time: 0, usual: 0 },
        tried_from: None,
        rest: 0,
        pause: 1,
    };

    /// Takes one in. True where enough is known: of the others that they are slowed down is known long before it is known of the
    /// long ones.
    fn add(&mut self, end: &LongEnd, limit: u32) -> bool {
        self.others.add(end.others.time, end.others.usual);
        if self.tried_from.is_some() && self.others.usual >= ENOUGH && self.others.is_from(125) {
            return true;
        }
        if self.to_skip > 0 {
            self.to_skip -= 1;
            return false;
        }
        self.count += 1;
        self.long.add(micros(end.time), micros(end.usual));
        self.count >= limit.max(FEWEST)
    }

    /// How many may run beyond the permits, after `more`, where `limit` may run in all. Twice as many in all are tried while they
    /// take a tenth longer than usual at most. Did they compute, they would take twice as long: as from a quarter longer on,
    /// the try has failed. The same holds for other statements.
    fn next(&mut self, more: u32, limit: u32, crowded: bool) -> u32 {
        let tried_from = self.tried_from.take();
        let (long, others) = (std::mem::take(&mut self.long), std::mem::take(&mut self.others));
        self.count = 0;
        if long.is_from(125) || others.is_from(125) {
            self.rest = self.pause;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            return tried_from.unwrap_or(more / 2);
        }
        if tried_from.is_some() {
            self.pause = 1;
        }
        self.rest = self.rest.saturating_sub(1);
        if long.is_from(110) || others.is_from(110) || !crowded || self.rest > 0 {
            return more;
        }
        self.tried_from = Some(more);
        more.saturating_add(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_permits_but_at_least_one() {
        let limit = |set, permits| LongPermits::new(set, 0, 1).limit(permits);
        assert_eq!([limit(0, 16), limit(0, 7), limit(0, 3), limit(5, 16), limit(5, 3)], [4, 1, 1, 5, 3]);
    }

    #[test]
    fn it_goes_to_the_worker_that_has_waited_longer() {
        let long = LongPermits::new(1, 0, 2);
        let (old, young) = (Place::low(1), Place::low(2));
        assert_eq!(long.take(0, young, 16), Some(Allowed::WithPermit));
        assert_eq!(long.take(1, old, 16), None);
        long.want(1, Some(old));
        assert_eq!(long.could_use(1, 16), None, "none is free");
        long.give();
        assert_eq!(long.could_use(1, 16), Some(old.order()));
        assert_eq!(long.take(0, young, 16), None, "it is promised");
        assert!(long.may_have(1, old, 16) && long.take(1, old, 16).is_some());
        long.want(1, None);
        assert_eq!((long.could_use(1, 16), long.free(16)), (None, 0));
    }

    /// A statement of a second that took so many milliseconds.
    fn end(millis: u64) -> LongEnd {
        LongEnd {
            time: Duration::from_millis(millis),
            usual: Duration::from_secs(1),
            others: Pace { time: 1000, usual: 1000 },
        }
    }

    /// So many statements of a second run to their end, in so many milliseconds each, while others wait.
    fn run(long: &LongPermits, statements: u32, millis: u64) {
        for _ in 0..statements {
            long.crowded.store(true, SeqCst);
            long.measure(&end(millis), 16);
        }
    }

    #[test]
    fn more_run_while_they_do_not_slow_each_other_down() {
        let long = LongPermits::new(4, 20, 1);
        run(&long, 15, 1000);
        assert_eq!(long.limit(16), 4, "not enough is known yet");
        run(&long, 1, 1000);
        assert_eq!(long.limit(16), 8);
        // Those that had begun before say nothing: four, and sixteen more.
        run(&long, 19, 1000);
        assert_eq!(long.limit(16), 8);
        run(&long, 1, 1000);
        assert_eq!(long.limit(16), 16);
        run(&long, 1000, 1000);
        assert_eq!(long.limit(16), 20, "there is a bound");
        run(&long, 100, 1200);
        assert_eq!(long.limit(16), 20, "neither good nor bad");
        run(&long, 1000, 1300);
        assert_eq!(long.limit(16), 4);
    }

    #[test]
    fn tries_that_fail_become_rare() {
        let long = LongPermits::new(4, 1000, 1);
        let mut tries = 0;
        for _ in 0..10_000 {
            let before = long.limit(16);
            run(&long, 1, if before > 4 { 2000 } else { 1000 });
            tries += u32::from(long.limit(16) > before);
            assert!(long.limit(16) <= 8);
        }
        // 1, 2, 4 ... 64 measurements of 16 between them, and 64 from then on.
        assert!((10..=20).contains(&tries), "{tries}");
    }

    #[test]
    fn where_none_waits_none_is_added() {
        let long = LongPermits::new(4, 20, 1);
        for _ in 0..100 {
            long.measure(&end(1000), 16);
        }
        assert_eq!(long.limit(16), 4);
    }

    #[test]
    fn none_is_added_at_the_expense_of_the_others() {
        let long = LongPermits::new(4, 20, 1);
        let short = LongEnd { others: Pace { time: 1300, usual: 1000 }, ..end(1000) };
        for _ in 0..100 {
            long.crowded.store(true, SeqCst);
            long.measure(&short, 16);
        }
        assert_eq!(long.limit(16), 4);
        run(&long, 2000, 1000);
        assert_eq!(long.limit(16), 20);
        for _ in 0..1000 {
            long.measure(&short, 16);
        }
        assert_eq!(long.limit(16), 4);
    }

    #[test]
    fn beyond_the_first_they_take_no_permits() {
        let long = LongPermits::new(1, 20, 1);
        run(&long, 100, 1000);
        let allowed = [1, 2].map(|arrival| long.take(0, Place::low(arrival), 16));
        assert_eq!(allowed, [Some(Allowed::WithPermit), Some(Allowed::Beyond)]);
    }
}
