//! How many long statements may run at a time, on all workers of a pool together.
//!
//! `long_permits` of them take permits, so that all other permits are for short statements, whatever comes. Where long
//! statements wait and those that run do not slow each other down, since they wait for a disk or sleep rather than compute,
//! more are tried, beyond the permits; and fewer again once they do slow each other down. While hardly anything else runs, nobody
//! can be hurt by a try: then it goes faster, and what it came to is taken back when others come. The longest-waiting statement goes
//! first, whichever worker it is with.

mod frozen;
mod measurement;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seam::Instant;

pub(crate) use frozen::FrozenLongPermits;
use measurement::Measurement;
pub(crate) use measurement::Pace;

use crate::outside::histogram::micros;
use crate::workers::place::QueuePlace;

/// Nobody waits for a long permit.
const NOBODY: u64 = u64::MAX;

/// How many long statements run, and who waits to run one more.
#[derive(Debug)]
pub(crate) struct LongPermits {
    /// The number that take permits; 0 for a quarter of these.
    set: AtomicU32,
    /// The number of long statements that may run at all.
    most: AtomicU32,
    /// The number that may run beyond those with permits, as of now.
    more: AtomicU32,
    /// The time since which no more have run than have permits, in microseconds; [`NOBODY`] where more do.
    few_since: AtomicU64,
    running: AtomicU32,
    /// The number of these that take no permit.
    beyond: AtomicU32,
    wants: Box<[Want]>,
    /// True where a long statement has waited since the last measurement.
    crowded: AtomicBool,
    measurement: Mutex<Measurement>,
}

/// The long statement that one worker waits to start.
#[derive(Debug)]
struct Want {
    /// The place of the worker's first long statement.
    place: AtomicU64,
    /// True where that statement could start without a permit, if no more ran so than may.
    without_permit: AtomicBool,
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
    /// The time at which the statement ended.
    pub(crate) at: Instant,
    /// The time that it took.
    pub(crate) time: Duration,
    /// The time that its like takes with few at a time; `None` where nobody knows.
    pub(crate) usual: Option<Duration>,
    /// The time that other statements of its worker have taken since its last such end, from their arrival on.
    pub(crate) others: Pace,
}

impl LongPermits {
    pub(crate) fn new(set: u32, most: u32, workers: u32) -> Self {
        Self {
            set: AtomicU32::new(set),
            most: AtomicU32::new(most),
            more: AtomicU32::new(0),
            few_since: AtomicU64::new(0),
            running: AtomicU32::new(0),
            beyond: AtomicU32::new(0),
            wants: (0..workers).map(|_| Want::nothing()).collect(),
            crowded: AtomicBool::new(false),
            measurement: Mutex::new(Measurement::NONE),
        }
    }

    /// Other bounds from now on.
    pub(crate) fn change(&self, set: u32, most: u32) {
        self.set.store(set, SeqCst);
        self.most.store(most, SeqCst);
    }

    /// The number that may run now, where there are so many permits.
    pub(crate) fn limit(&self, permits: u32) -> u32 {
        let with_permit = self.with_permit(permits);
        let most = self.most.load(SeqCst).max(with_permit);
        with_permit.saturating_add(self.more.load(SeqCst)).min(most)
    }

    /// The number of so many permits that long statements may have, at least one.
    fn with_permit(&self, permits: u32) -> u32 {
        let part = match self.set.load(SeqCst) {
            0 => permits / 4,
            set => set.min(permits),
        };
        part.max(1)
    }

    /// The number that may start now, where there are so many permits.
    pub(crate) fn free(&self, permits: u32) -> u32 {
        self.limit(permits).saturating_sub(self.running.load(SeqCst))
    }

    /// Lets the statement at `place` start, unless as many run as may, or others of other workers have waited longer.
    pub(crate) fn take(&self, worker: usize, place: QueuePlace, permits: u32) -> Option<Allowed> {
        let may = |running: u32| self.may_take(worker, place.order(), permits, running).then(|| running + 1);
        let before = self.running.fetch_update(SeqCst, SeqCst, may).ok()?;
        if before.saturating_sub(self.beyond.load(SeqCst)) < self.with_permit(permits) {
            return Some(Allowed::WithPermit);
        }
        self.beyond.fetch_add(1, SeqCst);
        Some(Allowed::Beyond)
    }

    /// Lets the statement at `place` start without a permit. Returns false where it may not.
    pub(crate) fn take_beyond(&self, worker: usize, place: QueuePlace, permits: u32) -> bool {
        let may = |running: u32| self.may_take(worker, place.order(), permits, running).then(|| running + 1);
        if self.running.fetch_update(SeqCst, SeqCst, may).is_err() {
            return false;
        }
        // Counted behind the other: who comes in between takes it for one that has a permit, and needs none himself.
        let more = self.more.load(SeqCst);
        let room = |beyond: u32| (beyond < more).then(|| beyond + 1);
        let started = self.beyond.fetch_update(SeqCst, SeqCst, room).is_ok();
        if !started {
            self.running.fetch_sub(1, SeqCst);
        }
        started
    }

    /// Says whether [`Self::take`] would succeed now.
    pub(crate) fn may_have(&self, worker: usize, place: QueuePlace, permits: u32) -> bool {
        let may = self.may_take(worker, place.order(), permits, self.running.load(SeqCst));
        if !may && !self.crowded.load(SeqCst) {
            self.crowded.store(true, SeqCst);
        }
        may
    }

    /// Says whether [`Self::take_beyond`] would succeed now.
    pub(crate) fn may_have_beyond(&self, worker: usize, place: QueuePlace, permits: u32) -> bool {
        self.has_room_beyond() && self.may_have(worker, place, permits)
    }

    fn has_room_beyond(&self) -> bool {
        self.beyond.load(SeqCst) < self.more.load(SeqCst)
    }

    fn may_take(&self, worker: usize, place: u64, permits: u32, running: u32) -> bool {
        let others = self.wants.iter().enumerate().filter(|&(other, _)| other != worker);
        let older = others.filter(|(_, want)| want.place.load(SeqCst) < place);
        let promised = u32::try_from(older.count()).expect("fewer than workers");
        running.saturating_add(promised) < self.limit(permits)
    }

    /// Gives back the right by which a long statement had started, which does not run any more.
    pub(crate) fn give(&self, allowed: Allowed) {
        if allowed == Allowed::Beyond {
            let before = self.beyond.fetch_sub(1, SeqCst);
            debug_assert!(before > 0, "it is counted while it runs");
        }
        let before = self.running.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "a permit is given back once");
    }

    /// Says whether no more have run than have permits for so long up to `now`: then a statement that took that time has taken
    /// its usual one.
    pub(crate) fn have_been_few(&self, now: Instant, time: Duration) -> bool {
        self.few_since.load(SeqCst) <= now.as_micros().saturating_sub(micros(time))
    }

    /// Measures a statement that has run to its end, and that [`Self::give`] has not heard of yet.
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
            next = measurement.next(end, more, limit, crowded).min(room);
            // What the bound leaves no room for is no try.
            measurement.tried_from.take_if(|_| next == more);
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

    /// Has statements run with few beside them first, where their times with few are not known.
    pub(crate) fn begin_with_few(&self, now: Instant) {
        if self.more.load(SeqCst) > 0 {
            let mut measurement = self.lock();
            *measurement = Measurement { changed_at: now, begun_at: now, ..Measurement::NONE };
            self.more.store(0, SeqCst);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Measurement> {
        self.measurement.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says where the first long statement of a worker stands, and whether it waits for nothing but room beside those without a permit.
    pub(crate) fn want(&self, worker: usize, place: Option<QueuePlace>, without_permit: bool) {
        let (place, want) = (place.map_or(NOBODY, QueuePlace::order), &self.wants[worker]);
        // Most of the time there is none, and reading leaves the cache line with all of them.
        if want.place.load(SeqCst) != place {
            want.place.store(place, SeqCst);
        }
        if want.without_permit.load(SeqCst) != without_permit {
            want.without_permit.store(without_permit, SeqCst);
        }
    }

    /// The place of the statement for which a worker would get one now; `None` where it has none, or would get none.
    pub(crate) fn could_use(&self, worker: usize, permits: u32) -> Option<u64> {
        let wants = self.wants[worker].place.load(SeqCst);
        let may_have = || self.may_take(worker, wants, permits, self.running.load(SeqCst));
        (wants != NOBODY && may_have()).then_some(wants)
    }

    /// The same for one that starts without a permit.
    pub(crate) fn could_use_beyond(&self, worker: usize, permits: u32) -> Option<u64> {
        let could = self.wants[worker].without_permit.load(SeqCst) && self.has_room_beyond();
        self.could_use(worker, permits).filter(|_| could)
    }
}

impl Want {
    const fn nothing() -> Self {
        Self { place: AtomicU64::new(NOBODY), without_permit: AtomicBool::new(false) }
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
        let (old, young) = (QueuePlace::low(1), QueuePlace::low(2));
        assert_eq!(long.take(0, young, 16), Some(Allowed::WithPermit));
        assert_eq!(long.take(1, old, 16), None);
        long.want(1, Some(old), false);
        assert_eq!(long.could_use(1, 16), None, "none is free");
        long.give(Allowed::WithPermit);
        assert_eq!(long.could_use(1, 16), Some(old.order()));
        assert_eq!(long.take(0, young, 16), None, "it is promised");
        assert!(long.may_have(1, old, 16) && long.take(1, old, 16).is_some());
        long.want(1, None, false);
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

    /// Runs so many statements of a second to their end, one after the other, in so many milliseconds each, while others wait.
    fn run(long: &LongPermits, statements: u32, millis: u64) {
        run_like(long, statements, &end(millis));
    }

    fn run_like(long: &LongPermits, statements: u32, end: &LongEnd) {
        for _ in 0..statements {
            let at = {
                let measurement = long.measurement.lock().unwrap();
                let since = measurement.changed_at.max(measurement.begun_at);
                since + end.time + end.time * measurement.count / long.limit(16)
            };
            long.crowded.store(true, SeqCst);
            long.measure(&LongEnd { at, ..*end }, 16);
        }
    }

    #[test]
    fn more_run_while_they_do_not_slow_each_other_down() {
        let long = LongPermits::new(4, 20, 1);
        run(&long, 3, 1000);
        assert_eq!(long.limit(16), 4, "not enough is known yet");
        run(&long, 1, 1000);
        assert_eq!(long.limit(16), 8);
        let changed_at = long.measurement.lock().unwrap().changed_at;
        for _ in 0..100 {
            let before = LongEnd { at: changed_at + Duration::from_millis(999), ..end(1000) };
            long.crowded.store(true, SeqCst);
            long.measure(&before, 16);
        }
        run(&long, 7, 1000);
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
    fn where_their_times_differ_more_of_them_are_waited_for() {
        let long = LongPermits::new(4, 20, 1);
        for time in [1000, 1200, 800, 1000, 900, 1150, 850, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000] {
            run(&long, 1, time);
            assert_eq!(long.limit(16), 4);
        }
        run(&long, 1, 1000);
        assert_eq!(long.limit(16), 8);
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
            let mean = f64::from(most) / 1_000.0;
            assert!(mean > 0.8 * f64::from(processors), "{processors}: {mean}");
            let too_many = limits[1_000..].iter().filter(|&&limit| limit > 2 * processors).count();
            assert!(too_many < 400, "{processors}: {too_many}");
        }
    }

    #[test]
    fn tries_that_fail_become_rare() {
        let long = LongPermits::new(4, 1000, 1);
        let (mut tries, mut trying, mut now) = (0, Duration::ZERO, Instant::START);
        for _ in 0..10_000 {
            let before = long.limit(16);
            run(&long, 1, if before > 4 { 2000 } else { 1000 });
            let then = std::mem::replace(&mut now, long.measurement.lock().unwrap().begun_at);
            if before > 4 {
                trying += now.since(then);
            }
            tries += u32::from(long.limit(16) > before);
            assert!(long.limit(16) <= 8);
        }
        let hundredths = trying.as_secs() * 100 / (now.as_micros() / 1_000_000);
        assert!(tries > 6 && hundredths < 3, "{tries} tries take {trying:?} of {now:?}");
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
    fn what_is_bad_at_the_bound_is_no_try_that_failed() {
        let long = LongPermits::new(4, 20, 1);
        run(&long, 2000, 1000);
        assert_eq!(long.limit(16), 20);
        let later = Instant::START + 3600 * SECOND;
        for _ in 0..20 {
            long.crowded.store(true, SeqCst);
            long.measure(&LongEnd { at: later, ..end(1200) }, 16);
        }
        long.change(4, 40);
        run_like(&long, 40, &LongEnd { at: later, ..end(1000) });
        assert_eq!(long.limit(16), 40, "no pause as long as the time at the bound");
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

    /// A hundred statements run at a time, which makes no difference to how long a try takes.
    #[test]
    fn a_try_is_over_the_sooner_the_more_the_others_lose_by_it() {
        let step = 10 * MILLISECOND;
        for (percent, millis) in [(200, 140), (150, 400), (130, 1000)] {
            let long = LongPermits::new(4, 20, 1);
            run(&long, 4, 1000);
            assert_eq!(long.limit(16), 8);
            let changed_at = long.measurement.lock().unwrap().changed_at;
            let others = Pace { time: 10_000 * percent, usual: 1_000_000 };
            let fails = (1..).find(|&count| {
                long.measure(&LongEnd { at: changed_at + step * count, others, ..end(1000) }, 16);
                long.limit(16) == 4
            });
            assert_eq!(fails, Some(millis / 10), "{percent} % of their time");
        }
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
        run(&long, 4, 1000);
        assert_eq!(long.limit(16), 8, "as many as do not hurt the others");
    }

    #[test]
    fn a_kind_that_nobody_knows_is_seen_beside_few_first() {
        let long = LongPermits::new(4, 64, 1);
        run_like(&long, 20, &ALONE);
        assert_eq!(long.limit(16), 64);
        let places = (1..=6).map(|arrival| long.take(0, QueuePlace::low(arrival), 16));
        assert_eq!(places.flatten().count(), 6);
        let now = Instant::START + 60 * SECOND;
        long.measure(&LongEnd { at: now, usual: None, ..ALONE }, 16);
        assert_eq!(long.limit(16), 4);
        long.give(Allowed::WithPermit);
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
    fn as_many_as_were_found_to_hurt_nobody_take_no_permits() {
        let long = LongPermits::new(1, 20, 1);
        run(&long, 4, 1000);
        let place = |arrival| QueuePlace::low(arrival);
        assert_eq!(long.limit(16), 2);
        assert!(long.take_beyond(0, place(1), 16) && !long.take_beyond(0, place(2), 16));
        assert_eq!([2, 3].map(|arrival| long.take(0, place(arrival), 16)), [Some(Allowed::WithPermit), None]);
        long.give(Allowed::WithPermit);
        assert!(long.may_have(0, place(3), 16) && !long.may_have_beyond(0, place(3), 16));
        long.want(0, Some(place(3)), true);
        assert!(long.could_use(0, 16).is_some() && long.could_use_beyond(0, 16).is_none());
        assert_eq!(long.take(0, place(3), 16), Some(Allowed::WithPermit), "one without a permit runs on");
        long.give(Allowed::Beyond);
        assert!(long.may_have_beyond(0, place(4), 16) && long.could_use_beyond(0, 16).is_some());
        assert_eq!(long.take(0, place(4), 16), Some(Allowed::Beyond), "both permits of theirs are in use");
    }
}
