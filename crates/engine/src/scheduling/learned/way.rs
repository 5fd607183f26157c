//! Statements on their way to a server that is far away take no place there, and neither do those with an answer on its way back.
//!
//! A permit is held from a statement's start to its answer. With 20 ms to the server and back each is idle for most of that, and how many are
//! right depends on the way more than on the server. So what is found ([`super::limit`]) is how many may be *at the server*, and as many more
//! may run as are on their way: by J. Little's law so many as start in the time that the way takes, there and back. This grows by what may be
//! at the server with each way there and back, until that is busy; a window of TCP grows in the same manner (L. Brakmo and L. Peterson,
//! TCP Vegas, 1995).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use seam::Instant;

use crate::frozen::Distance;
use crate::outside::histogram::micros;

/// The round trip is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// A shorter way is nothing beside the threads that have to be woken at its ends; microseconds.
const FAR: u64 = 500;

/// The count lasts for so long at least: with fewer statements the number would jump; microseconds.
const COUNTED_FOR: u64 = 10_000;

/// A sixteenth of a decrease is taken off each time: answers come in waves, and there has to be room for the crests. In the
/// model of servers that are far away a quarter or a half loses a tenth more.
const FEWER: u32 = 16;

/// The number is counted so many times before it is taken for steady: the server's answers come in waves.
const STEADY: u32 = 4;

/// The way to the server, and what is on it.
#[derive(Debug)]
pub(crate) struct Way {
    /// The shortest time in which anything has come back, in microseconds.
    round_trip: AtomicU64,
    /// Statements that have started with a permit of their own: as many as end, in the long run.
    started: AtomicU64,
    /// The number of these when they were last counted, and the time of that.
    counted: AtomicU64,
    counted_at: AtomicU64,
    on_the_way: AtomicU32,
    /// Counts in a row that have not become more.
    steady: AtomicU32,
}

/// [`Way`] as plain data ([`crate::frozen`]).
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenWay {
    /// The round trip in microseconds; `None` where nobody knows it.
    round_trip: Option<u64>,
    started: u64,
    counted: u64,
    counted_at: Distance,
    on_the_way: u32,
    steady: u32,
}

plain!(struct FrozenWay { round_trip, started, counted, counted_at, on_the_way, steady });

impl Way {
    /// Takes all of it out.
    pub(crate) fn freeze(&self, now: Instant) -> FrozenWay {
        let Self { round_trip, started, counted, counted_at, on_the_way, steady } = self;
        let round_trip = round_trip.swap(UNKNOWN, SeqCst);
        FrozenWay {
            round_trip: (round_trip != UNKNOWN).then_some(round_trip),
            started: started.swap(0, SeqCst),
            counted: counted.swap(0, SeqCst),
            counted_at: Distance::of_micros(counted_at.swap(0, SeqCst), now),
            on_the_way: on_the_way.swap(0, SeqCst),
            steady: steady.swap(0, SeqCst),
        }
    }

    /// Puts it in the place of what is there.
    pub(crate) fn thaw(&self, frozen: &FrozenWay, now: Instant) {
        let &FrozenWay { round_trip, started, counted, counted_at, on_the_way, steady } = frozen;
        self.round_trip.store(round_trip.unwrap_or(UNKNOWN), SeqCst);
        self.started.store(started, SeqCst);
        self.counted.store(counted, SeqCst);
        self.counted_at.store(counted_at.micros_from(now), SeqCst);
        self.on_the_way.store(on_the_way, SeqCst);
        self.steady.store(steady, SeqCst);
    }
}

impl Way {
    pub(crate) fn new() -> Self {
        Self {
            round_trip: AtomicU64::new(UNKNOWN),
            started: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            counted_at: AtomicU64::new(0),
            on_the_way: AtomicU32::new(0),
            steady: AtomicU32::new(0),
        }
    }

    /// A statement has been answered in this time that was in flight alone. The shortest of all says how far away the server is, as well as
    /// it can be known: what accepts connections may stand before it.
    pub(crate) fn note(&self, time: Duration) {
        let time = micros(time);
        // Mostly it is longer than others, and reading leaves the cache line with all workers.
        if time < self.round_trip.load(SeqCst) {
            self.round_trip.fetch_min(time, SeqCst);
        }
    }

    /// The server is away: it may come back elsewhere.
    pub(crate) fn forget(&self) {
        self.round_trip.store(UNKNOWN, SeqCst);
        self.on_the_way.store(0, SeqCst);
    }

    /// The time of the way there and back; zero where the server is near.
    pub(crate) fn round_trip(&self) -> Duration {
        match self.round_trip.load(SeqCst) {
            UNKNOWN | ..FAR => Duration::ZERO,
            far => Duration::from_micros(far),
        }
    }

    /// A statement starts with a permit of its own.
    pub(crate) fn note_start(&self) {
        self.started.fetch_add(1, SeqCst);
    }

    /// Says whether the number has been about the same lately: before that one cannot tell what another limit would do.
    pub(crate) fn is_steady(&self) -> bool {
        self.round_trip().is_zero() || self.steady.load(SeqCst) >= STEADY
    }

    /// How many statements are on their way, as of the latest count.
    pub(crate) fn on_the_way(&self) -> u32 {
        if self.round_trip().is_zero() { 0 } else { self.on_the_way.load(SeqCst) }
    }

    /// Counts them, where that is due.
    pub(crate) fn count(&self, now: Instant) {
        let round_trip = micros(self.round_trip());
        if round_trip == 0 {
            return;
        }
        let (at, now) = (self.counted_at.load(SeqCst), now.as_micros());
        let elapsed = now.saturating_sub(at);
        // The worker that comes first counts.
        if elapsed >= round_trip.max(COUNTED_FOR)
            && self.counted_at.compare_exchange(at, now, SeqCst, SeqCst).is_ok()
        {
            let count = self.started.load(SeqCst);
            let started = count.saturating_sub(self.counted.swap(count, SeqCst));
            let on_the_way = started.saturating_mul(round_trip) / elapsed;
            self.change(u32::try_from(on_the_way).unwrap_or(u32::MAX));
        }
    }

    /// Takes up a larger count at once, and a smaller one little by little.
    fn change(&self, counted: u32) {
        let before = self.on_the_way.load(SeqCst);
        let next = if counted > before { counted } else { before - (before - counted).div_ceil(FEWER) };
        self.on_the_way.store(next, SeqCst);
        // A tenth more is a wave.
        let more = next > before.saturating_add(before / 10);
        self.steady.store(if more { 0 } else { self.steady.load(SeqCst).saturating_add(1) }, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many are on the way once this time has come, and so many statements have started before.
    fn on_the_way(way: &Way, started: u32, micros: u64) -> u32 {
        (0..started).for_each(|_| way.note_start());
        way.count(Instant::from_micros(micros));
        way.on_the_way()
    }

    #[test]
    fn as_many_are_on_the_way_as_start_meanwhile() {
        let way = Way::new();
        assert_eq!(on_the_way(&way, 100, 10_000), 0, "nobody knows how long it is");
        way.note(Duration::from_micros(499));
        assert_eq!((on_the_way(&way, 0, 20_000), way.round_trip()), (0, Duration::ZERO), "it is near");
        assert!(way.is_steady());

        let way = Way::new();
        [41, 40, 50].iter().for_each(|&millis| way.note(Duration::from_millis(millis)));
        assert_eq!(on_the_way(&way, 100, 39_999), 0, "too early to say");
        assert_eq!(on_the_way(&way, 0, 50_000), 80);
        assert_eq!(on_the_way(&way, 40, 89_999), 80);
        assert_eq!(on_the_way(&way, 0, 90_000), 77, "a sixteenth of the way down");
        let later = (1..100).map(|times| on_the_way(&way, 0, 90_000 + times * 40_000));
        assert_eq!(later.last(), Some(0), "nothing starts");
        assert!(on_the_way(&way, 1_000, 9_000_000) > 0);
        way.forget();
        assert_eq!((way.on_the_way(), way.round_trip()), (0, Duration::ZERO));
    }

    #[test]
    fn it_is_steady_once_it_becomes_more_no_longer() {
        let way = Way::new();
        way.note(Duration::from_millis(10));
        let mut now = 0;
        let seen = [10, 20, 40, 80, 85, 80, 85, 80, 100].map(|started| {
            now += 10_000;
            on_the_way(&way, started, now);
            way.is_steady()
        });
        assert_eq!(seen, [false, false, false, false, false, false, false, true, false]);
    }
}
