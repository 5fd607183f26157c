//! The part of the permits that long statements may have, common to all workers of a pool.
//!
//! A statement whose like has been long takes one of these beside its permit, and keeps it to its end, whether or not it
//! lends its permit meanwhile. So all other permits are for short statements, whatever comes. The longest-waiting statement
//! gets the next one, whichever worker it is with.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use crate::workers::Place;

/// Nobody waits for one.
const NOBODY: u64 = u64::MAX;

/// How many long statements run, and who waits to run one more.
#[derive(Debug)]
pub(crate) struct LongPermits {
    /// As many as there may be; 0 for a quarter of the permits.
    set: AtomicU32,
    running: AtomicU32,
    /// Where the first long statement of each worker stands.
    wants: Box<[AtomicU64]>,
}

impl LongPermits {
    pub(crate) fn new(set: u32, workers: u32) -> Self {
        let wants = (0..workers).map(|_| AtomicU64::new(NOBODY)).collect();
        Self { set: AtomicU32::new(set), running: AtomicU32::new(0), wants }
    }

    /// How many of so many permits long statements may have, at least one.
    pub(crate) fn limit(&self, permits: u32) -> u32 {
        let limit = match self.set.load(SeqCst) {
            0 => permits / 4,
            set => set.min(permits),
        };
        limit.max(1)
    }

    /// As many as there may be from now on; 0 for a quarter of the permits.
    pub(crate) fn change(&self, set: u32) {
        self.set.store(set, SeqCst);
    }

    /// Those not in use, of so many permits.
    pub(crate) fn free(&self, permits: u32) -> u32 {
        self.limit(permits).saturating_sub(self.running.load(SeqCst))
    }

    /// Takes one for the statement at `place`, unless all are in use or promised to statements of other workers that have
    /// waited longer.
    pub(crate) fn take(&self, worker: usize, place: Place, permits: u32) -> bool {
        let may = |running: u32| self.may_take(worker, place.order(), permits, running).then(|| running + 1);
        self.running.fetch_update(SeqCst, SeqCst, may).is_ok()
    }

    /// Whether [`Self::take`] would succeed now.
    pub(crate) fn may_have(&self, worker: usize, place: Place, permits: u32) -> bool {
        self.may_take(worker, place.order(), permits, self.running.load(SeqCst))
    }

    fn may_take(&self, worker: usize, place: u64, permits: u32, running: u32) -> bool {
        let others = self.wants.iter().enumerate().filter(|&(other, _)| other != worker);
        let older = others.filter(|(_, wants)| wants.load(SeqCst) < place);
        let promised = u32::try_from(older.count()).expect("fewer than workers");
        running.saturating_add(promised) < self.limit(permits)
    }

    /// Gives one back.
    pub(crate) fn give(&self) {
        let before = self.running.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "a permit is given back once");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_permits_but_at_least_one() {
        let limit = |set, permits| LongPermits::new(set, 1).limit(permits);
        assert_eq!([limit(0, 16), limit(0, 7), limit(0, 3), limit(5, 16), limit(5, 3)], [4, 1, 1, 5, 3]);
    }

    #[test]
    fn it_goes_to_the_worker_that_has_waited_longer() {
        let long = LongPermits::new(1, 2);
        let (old, young) = (Place::low(1), Place::low(2));
        assert!(long.take(0, young, 16) && !long.take(1, old, 16));
        long.want(1, Some(old));
        assert_eq!(long.could_use(1, 16), None, "none is free");
        long.give();
        assert_eq!(long.could_use(1, 16), Some(old.order()));
        assert!(!long.take(0, young, 16), "it is promised");
        assert!(long.may_have(1, old, 16) && long.take(1, old, 16));
        long.want(1, None);
        assert_eq!((long.could_use(1, 16), long.free(16)), (None, 0));
    }
}
