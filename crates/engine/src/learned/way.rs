//! Statements that are on their way to a server that is far away, or whose answer is, take no place there.
//!
//! A permit is held from a statement's start to its answer. With 20 ms to the server and back each is idle for most of that, and how many are
//! right depends on the way more than on the server. So what is found ([`super::limit`]) is how many may be *at the server*, and as many more
//! may run as are on their way: by J. Little's law so many as end in the time that the way takes, there and back. This grows by what may be
//! at the server with each way there and back, until that is busy; a window of TCP grows in the same manner (L. Brakmo and L. Peterson,
//! TCP Vegas, 1995).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use seam::Instant;

use crate::outside::histogram::micros;

/// Nobody knows it yet.
const UNKNOWN: u64 = u64::MAX;

/// A shorter way is nothing beside the threads that have to be woken at its ends; microseconds.
const FAR: u64 = 500;

/// It is counted for so long at least: with fewer statements the number would jump; microseconds.
const COUNTED_FOR: u64 = 10_000;

/// The way to the server, and what is on it.
#[derive(Debug)]
pub(crate) struct Way {
    /// The shortest time in which anything has come back, in microseconds.
    round_trip: AtomicU64,
    /// Permits that have been given back.
    given_back: AtomicU64,
    /// How many these were when it was last counted, and when that was.
    counted: AtomicU64,
    counted_at: AtomicU64,
    on_the_way: AtomicU32,
    /// So many times in a row it has not become more.
    steady: AtomicU32,
}

/// It is counted so many times before it is taken for steady: the server's answers come in waves.
const STEADY: u32 = 4;

impl Way {
    pub(crate) fn new() -> Self {
        Self {
            round_trip: AtomicU64::new(UNKNOWN),
            given_back: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            counted_at: AtomicU64::new(0),
            on_the_way: AtomicU32::new(0),
            steady: AtomicU32::new(0),
        }
    }

    /// A connection has been set up in this time, or a statement answered.
    pub(crate) fn note(&self, time: Duration) {
        let time = micros(time);
        // Mostly it is longer than others, and reading leaves the cache line with all workers.
        if time < self.round_trip.load(SeqCst) {
            self.round_trip.fetch_min(time, SeqCst);
        }
    }

    /// How long it takes there and back; nothing where the server is near.
    pub(crate) fn round_trip(&self) -> Duration {
        match self.round_trip.load(SeqCst) {
            UNKNOWN | ..FAR => Duration::ZERO,
            far => Duration::from_micros(far),
        }
    }

    /// A statement has ended that had a permit of its own.
    pub(crate) fn permit_given_back(&self) {
        self.given_back.fetch_add(1, SeqCst);
    }

    /// Whether it has been about the same number lately: before that one cannot tell what another limit would do.
    pub(crate) fn is_steady(&self) -> bool {
        self.round_trip().is_zero() || self.steady.load(SeqCst) >= STEADY
    }

    /// How many statements are on their way.
    pub(crate) fn on_the_way(&self, now: Instant) -> u32 {
        let round_trip = micros(self.round_trip());
        if round_trip == 0 {
            return 0;
        }
        let (at, now) = (self.counted_at.load(SeqCst), now.as_micros());
        let elapsed = now.saturating_sub(at);
        // The worker that comes first counts.
        if elapsed >= round_trip.max(COUNTED_FOR)
            && self.counted_at.compare_exchange(at, now, SeqCst, SeqCst).is_ok()
        {
            let count = self.given_back.load(SeqCst);
            let ended = count.saturating_sub(self.counted.swap(count, SeqCst));
            let on_the_way = ended.saturating_mul(round_trip) / elapsed;
            self.change(u32::try_from(on_the_way).unwrap_or(u32::MAX));
        }
        self.on_the_way.load(SeqCst)
    }
}

impl Way {
    /// More is taken at once, fewer little by little: that is the least of a wave, as often as not.
    fn change(&self, counted: u32) {
        let before = self.on_the_way.load(SeqCst);
        let next = if counted > before { counted } else { before - (before - counted).div_ceil(4) };
        self.on_the_way.store(next, SeqCst);
        // A tenth more is a wave.
        let more = next > before.saturating_add(before / 10);
        self.steady.store(if more { 0 } else { self.steady.load(SeqCst).saturating_add(1) }, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    #[test]
    fn as_many_are_on_the_way_as_end_meanwhile() {
        let way = Way::new();
        (0..100).for_each(|_| way.permit_given_back());
        assert_eq!(way.on_the_way(at(10_000)), 0, "nobody knows how long it is");
        way.note(Duration::from_micros(499));
        assert_eq!((way.on_the_way(at(20_000)), way.round_trip()), (0, Duration::ZERO), "it is near");
        assert!(way.is_steady());

        let way = Way::new();
        way.note(Duration::from_millis(41));
        way.note(Duration::from_millis(40));
        way.note(Duration::from_millis(50));
        (0..100).for_each(|_| way.permit_given_back());
        assert_eq!(way.on_the_way(at(39_999)), 0, "too early to say");
        assert_eq!(way.on_the_way(at(50_000)), 80);
        (0..40).for_each(|_| way.permit_given_back());
        assert_eq!(way.on_the_way(at(89_999)), 80);
        assert_eq!(way.on_the_way(at(90_000)), 70, "a quarter of the way down");
        let later = (1..60).map(|times| way.on_the_way(at(90_000 + times * 40_000)));
        assert_eq!(later.last(), Some(0), "nothing has ended");
    }

    #[test]
    fn it_is_steady_once_it_becomes_more_no_longer() {
        let way = Way::new();
        way.note(Duration::from_millis(10));
        let mut now = 0;
        let mut count = |ended: u32| {
            now += 10_000;
            (0..ended).for_each(|_| way.permit_given_back());
            way.on_the_way(at(now));
            way.is_steady()
        };
        let seen = [10, 20, 40, 80, 85, 80, 85, 80, 100].map(&mut count);
        assert_eq!(seen, [false, false, false, false, false, false, false, true, false]);
    }
}
