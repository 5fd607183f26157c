//! How many long statements may run at a time, on all workers of a pool together.
//!
//! `long_permits` of them take permits, so that all other permits are for short statements, whatever comes. Where long
//! statements wait and those that run do not slow each other down, since they wait for a disk or sleep rather than compute,
//! more are tried, beyond the permits; and fewer again once they do slow each other down. While hardly anything else runs, nobody
//! can be hurt by a try: then it goes faster, and what it came to is taken back when others come. The longest-waiting statement goes
//! first, whichever worker it is with.

mod frozen;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seam::Instant;

pub(crate) use frozen::FrozenLongPermits;

use crate::outside::histogram::micros;
use crate::workers::place::Place;

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
    /// Since when no more have run than have permits, in microseconds; [`NOBODY`] where more do.
    few_since: AtomicU64,
    running: AtomicU32,
    /// Where the first long statement of each worker stands.
    wants: Box<[AtomicU64]>,
    /// One has waited since the last measurement.
    crowded: AtomicBool,
    measurement: Mutex<Measurement>,
}

/// The right by which a long statement may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// The statement needs a permit too.
    WithPermit,
    /// Beyond the permits.
    Beyond,
}

/// A long statement that has run to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongEnd {
    /// When it ended.
    pub(crate) at: Instant,
    /// The time that it took.
    pub(crate) time: Duration,
    /// The time that its like takes with few at a time; `None` where nobody knows.
    pub(crate) usual: Option<Duration>,
    /// The time that other statements of its worker have taken since its last such end, from their arrival on.
    pub(crate) others: Pace,
}

/// The time that statements take, and their like with few long ones at a time; microseconds.
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

    /// Says whether it is so many per cent of the usual time, or more.
    fn is_from(self, percent: u32) -> bool {
        u128::from(self.time) * 100 > u128::from(self.usual) * u128::from(percent)
    }
}

/// How long statements take compared with what they took when few ran.
#[derive(Debug, PartialEq)]
struct Measurement {
    /// When the number was changed: statements that began before that say nothing about it.
    changed_at: Instant,
    count: u32,
    long: Pace,
    others: Pace,
    /// The time of all long ones that have ended, those included that say nothing; microseconds.
    all_long: u64,
    /// How many ran beyond the permits before the latest try with more, which is not measured yet.
    tried_from: Option<u32>,
    /// How many ran in all when the latest try failed: the next one goes half of the way there.
    failed_at: Option<u32>,
    /// How many ran beyond the permits when the others were last seen, where more have been tried since.
    in_company: Option<u32>,
    /// So many measurements are left until the next try.
    rest: u32,
    /// And so many there will be if that fails.
    pause: u32,
}

/// A measurement takes so many statements, or as many as run at a time if these are more. The mean of 16 that differ by half
/// either way is off by a tenth at most in four of five cases.
const FEWEST: u32 = 16;

/// They are alone where all others together take less than so many hundredths of their time: health checks and the like.
const ALONE: u32 = 1;

/// So many times as many are tried where they are alone, and twice as many where they are not. From a quarter of 16 permits to 64 it is two
/// steps then.
const STEP_ALONE: u32 = 4;

/// Of other statements, as much as takes a tenth of a second usually shows whether they are slowed down; microseconds.
const ENOUGH: u64 = 100_000;

/// Where nothing is being tried, a pause of the server's disk or the like must not be taken for the long ones' work; microseconds.
const CERTAIN: u64 = 10 * ENOUGH;

/// After a try that failed, the next one comes later and later, from so many measurements on up to this many: where statements compute,
/// each try costs the others something.
const FIRST_PAUSE: u32 = 2;
const LONGEST_PAUSE: u32 = 64;

impl LongPermits {
    pub(crate) fn new(set: u32, most: u32, workers: u32) -> Self {
        Self {
            set: AtomicU32::new(set),
            most: AtomicU32::new(most),
            more: AtomicU32::new(0),
            few_since: AtomicU64::new(0),
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

    /// Says whether [`Self::take`] would succeed now.
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

    /// Says whether no more have run than have permits for so long up to `now`: then a statement that took that time has taken
    /// its usual one.
    pub(crate) fn have_been_few(&self, now: Instant, time: Duration) -> bool {
        self.few_since.load(SeqCst) <= now.as_micros().saturating_sub(micros(time))
    }

    /// One has run to its end, which has not been said to [`Self::give`] yet.
    pub(crate) fn measure(&self, end: &LongEnd, permits: u32) {
        if end.usual.is_none() {
            self.begin_with_few(end.at);
        }
        let mut measurement = self.lock();
        let (more, limit) = (self.more.load(SeqCst), self.limit(permits));
        let mut next = more;
        if end.usual.is_some_and(|usual| measurement.add(end, usual, limit)) {
            let crowded = self.crowded.swap(false, SeqCst);
            let room = self.most.load(SeqCst).saturating_sub(self.with_permit(permits));
            next = measurement.next(more, limit, crowded).min(room);
        }
        if next != more {
            self.more.store(next, SeqCst);
            measurement.changed_at = end.at;
        }
        let few = next == 0 && self.running.load(SeqCst) <= self.with_permit(permits).saturating_add(1);
        match (few, self.few_since.load(SeqCst)) {
            (true, NOBODY) => self.few_since.store(end.at.as_micros(), SeqCst),
            (true, _) => {}
            (false, _) => self.few_since.store(NOBODY, SeqCst),
        }
    }

    /// There are statements of which nobody knows what they take beside few: that has to be seen first.
    pub(crate) fn begin_with_few(&self, now: Instant) {
        if self.more.load(SeqCst) > 0 {
            let mut measurement = self.lock();
            *measurement = Measurement { changed_at: now, ..Measurement::NONE };
            self.more.store(0, SeqCst);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Measurement> {
        self.measurement.lock().unwrap_or_else(PoisonError::into_inner)
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
        changed_at: Instant::START,
        count: 0,
        long: Pace { time: 0, usual: 0 },
        others: Pace { time: 0, usual: 0 },
        all_long: 0,
        tried_from: None,
        failed_at: None,
        in_company: None,
        rest: 0,
        pause: FIRST_PAUSE,
    };

    /// Takes one in. True where enough is known: of the others that they are slowed down is known long before it is known of the
    /// long ones.
    fn add(&mut self, end: &LongEnd, usual: Duration, limit: u32) -> bool {
        self.others.add(end.others.time, end.others.usual);
        self.all_long = self.all_long.saturating_add(micros(end.time));
        if self.others.usual >= ENOUGH {
            let have_come = self.in_company.is_some() && !self.is_alone();
            let sure = self.tried_from.is_some() || self.others.usual >= CERTAIN;
            if have_come || (sure && self.others.is_from(125)) {
                return true;
            }
        }
        if end.at.since(self.changed_at) < end.time {
            return false;
        }
        self.count += 1;
        self.long.add(micros(end.time), micros(usual));
        let enough = if self.is_alone() { limit } else { limit.max(FEWEST) };
        self.count >= enough
    }

    /// Says whether the others take next to nothing, compared with the long ones.
    fn is_alone(&self) -> bool {
        u128::from(self.others.time) * 100 < u128::from(self.all_long) * u128::from(ALONE)
    }

    /// How many may run beyond the permits, after `more`, where `limit` may run in all. Twice as many in all are tried while they
    /// take a tenth longer than usual at most, and more where they are alone, or half of the way to what has failed. Did they compute,
    /// they would take twice as long: as from a quarter longer on, the try has failed. The same holds for other statements.
    fn next(&mut self, more: u32, limit: u32, crowded: bool) -> u32 {
        let tried_from = self.tried_from.take();
        let alone = self.is_alone();
        let (long, others) = (std::mem::take(&mut self.long), std::mem::take(&mut self.others));
        (self.count, self.all_long) = (0, 0);
        if let Some(before) = self.in_company.take_if(|_| !alone) {
            // Nobody knows what the others usually take but beside few.
            (self.rest, self.pause) = (0, FIRST_PAUSE);
            return before.min(more);
        }
        if long.is_from(125) || others.is_from(125) {
            // Where only those with permits run, something else is to blame.
            self.failed_at = tried_from.map(|_| limit);
            if tried_from.is_some() || more > 0 {
                self.rest = self.pause;
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            }
            return tried_from.unwrap_or(more / 2);
        }
        if tried_from.is_some() {
            self.pause = FIRST_PAUSE;
        }
        self.rest = self.rest.saturating_sub(1);
        if long.is_from(110) || others.is_from(110) || !crowded || self.rest > 0 {
            return more;
        }
        self.tried_from = Some(more);
        if alone {
            self.in_company.get_or_insert(more);
        }
        let step = limit.saturating_mul(if alone { STEP_ALONE - 1 } else { 1 });
        // Where there is nothing between the two, what failed is tried once more: it may have been chance.
        let half = self.failed_at.map(|failed| failed.saturating_sub(limit) / 2).filter(|&half| half > 0);
        more.saturating_add(step.min(half.unwrap_or(step)))
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

    /// A statement of a second that took so many milliseconds, and has begun when nothing had changed for long. Others took a fifth of
    /// that.
    fn end(millis: u64) -> LongEnd {
        LongEnd {
            at: Instant::from_micros(1 << 40),
            time: Duration::from_millis(millis),
            usual: Some(SECOND),
            others: Pace { time: 200_000, usual: 200_000 },
        }
    }

    /// So many statements of a second run to their end, one after the other, in so many milliseconds each, while others wait.
    fn run(long: &LongPermits, statements: u32, millis: u64) {
        run_like(long, statements, &end(millis));
    }

    fn run_like(long: &LongPermits, statements: u32, end: &LongEnd) {
        for _ in 0..statements {
            let changed_at = long.measurement.lock().unwrap().changed_at;
            long.crowded.store(true, SeqCst);
            long.measure(&LongEnd { at: changed_at + end.time, ..*end }, 16);
        }
    }

    #[test]
    fn more_run_while_they_do_not_slow_each_other_down() {
        let long = LongPermits::new(4, 20, 1);
        run(&long, 15, 1000);
        assert_eq!(long.limit(16), 4, "not enough is known yet");
        run(&long, 1, 1000);
        assert_eq!(long.limit(16), 8);
        let changed_at = long.measurement.lock().unwrap().changed_at;
        for _ in 0..100 {
            let before = LongEnd { at: changed_at + Duration::from_millis(999), ..end(1000) };
            long.crowded.store(true, SeqCst);
            long.measure(&before, 16);
        }
        run(&long, 15, 1000);
        assert_eq!(long.limit(16), 8, "those that had begun before say nothing");
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
    fn it_is_found_between_what_is_good_and_what_was_too_many() {
        for processors in [5, 6, 7, 11, 23] {
            let long = LongPermits::new(4, 1000, 1);
            let mut limits = Vec::new();
            for _ in 0..5_000 {
                let limit = long.limit(16);
                run(&long, 1, 1000 * u64::from(limit.max(processors)) / u64::from(processors));
                limits.push(limit);
            }
            let most: u32 = limits[4_000..].iter().sum();
            assert!(f64::from(most) / 1_000.0 > 0.8 * f64::from(processors), "{processors}: {limits:?}");
            let too_many = limits[1_000..].iter().filter(|&&limit| limit > 2 * processors).count();
            assert!(too_many < 400, "{processors}: {too_many}");
        }
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
        // 2, 4 ... 64 measurements of 16 between them, and 64 from then on.
        assert!((10..=20).contains(&tries), "{tries}");
    }

    #[test]
    fn what_slows_all_down_where_few_run_delays_no_try() {
        let long = LongPermits::new(4, 20, 1);
        run(&long, 1000, 1300);
        assert_eq!(long.limit(16), 4);
        run(&long, 32, 1000);
        assert!(long.limit(16) > 4);
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
        let short = LongEnd { others: Pace { time: 260_000, usual: 200_000 }, ..end(1000) };
        run_like(&long, 100, &short);
        assert_eq!(long.limit(16), 4);
        run(&long, 2000, 1000);
        assert_eq!(long.limit(16), 20);
        run_like(&long, 1000, &short);
        assert_eq!(long.limit(16), 4);
    }

    /// A health check each second is nobody's company.
    const ALONE: LongEnd = LongEnd {
        at: Instant::START,
        time: SECOND,
        usual: Some(SECOND),
        others: Pace { time: 900, usual: 900 },
    };
    const SECOND: Duration = Duration::from_secs(1);
    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn alone_they_are_soon_as_many_as_come_until_others_do() {
        let long = LongPermits::new(4, 64, 1);
        run_like(&long, 4, &ALONE);
        assert_eq!(long.limit(16), 16);
        run_like(&long, 16, &ALONE);
        assert_eq!(long.limit(16), 64);
        run_like(&long, 1000, &ALONE);
        assert_eq!(long.limit(16), 64);
        let ends = (0..64).take_while(|_| {
            run(&long, 1, 1000);
            long.limit(16) == 64
        });
        assert!(ends.count() < 20, "a fifth is seen soon");
        assert_eq!(long.limit(16), 4);
        run(&long, 16, 1000);
        assert_eq!(long.limit(16), 8, "as many as do not hurt the others");
    }

    #[test]
    fn a_kind_that_nobody_knows_is_seen_beside_few_first() {
        let long = LongPermits::new(4, 64, 1);
        run_like(&long, 20, &ALONE);
        assert_eq!(long.limit(16), 64);
        let places = (1..=6).map(|arrival| long.take(0, Place::low(arrival), 16));
        assert_eq!(places.flatten().count(), 6);
        let now = Instant::START + 60 * SECOND;
        long.measure(&LongEnd { at: now, usual: None, ..ALONE }, 16);
        assert_eq!(long.limit(16), 4);
        long.give();
        assert!(!long.have_been_few(now, Duration::ZERO), "five still run");
        let next = now + SECOND;
        long.measure(&LongEnd { at: next, ..ALONE }, 16);
        assert!(long.have_been_few(next + SECOND, SECOND) && !long.have_been_few(next, SECOND));
    }

    #[test]
    fn alone_they_are_few_where_they_compute() {
        let long = LongPermits::new(4, 64, 1);
        let mut most = 0;
        for _ in 0..1000 {
            let limit = long.limit(16);
            // What is beyond the four costs a little to switch between.
            let time = SECOND * limit / 4 + MILLISECOND * (limit - 4);
            run_like(&long, 1, &LongEnd { time, ..ALONE });
            most = most.max(long.limit(16));
        }
        assert_eq!((most, long.limit(16)), (16, 4));
    }

    #[test]
    fn beyond_the_first_they_take_no_permits() {
        let long = LongPermits::new(1, 20, 1);
        run(&long, 100, 1000);
        let allowed = [1, 2].map(|arrival| long.take(0, Place::low(arrival), 16));
        assert_eq!(allowed, [Some(Allowed::WithPermit), Some(Allowed::Beyond)]);
    }
}
