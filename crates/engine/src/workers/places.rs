//! Places for backends: `max_backends` for all workers together, or what the server allows, or as many as it takes.
//!
//! A place is the right to one backend, open or being opened. Where all are taken, a worker that lacks one says so, and
//! another closes a backend of its own and grants it the place.
//!
//! The server may take fewer than `max_backends`: it refuses with ER_CON_COUNT_ERROR (its `max_connections` is reached, by
//! us or by others). As many as stand then are what it has room for, until it has been tried again.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use seam::Instant;

use crate::frozen::Distance;

/// The places for backends that the workers of one pool share.
#[derive(Debug)]
pub(crate) struct Places {
    /// How many there may be at most.
    most: AtomicU32,
    /// How many the server was last seen to take; `u32::MAX` where it has refused none lately.
    room: AtomicU32,
    /// The time at which the server last refused a place, or one more was tried: microseconds of the workers' clocks, which started together.
    room_changed: AtomicU64,
    /// Backends that are open, being opened, or granted.
    taken: AtomicU32,
    seats: Box<[Seat]>,
}

/// The number of places where no number is given, until the server has been asked. This fits the servers' default of 151 connections.
pub(crate) const FIRST: u32 = 128;

/// A worker's part.
#[derive(Debug, Default)]
struct Seat {
    /// True if the worker has statements and may not open a backend for them: as many as may be are open.
    lacks: AtomicBool,
    /// The time since which the worker's statements have waited for a backend: microseconds of the workers' clocks, and one more; 0 where none
    /// does.
    waits: AtomicU64,
    /// Backends that it has open, or is opening.
    backends: AtomicU32,
    /// How many it may open beyond those: the places of backends that others have closed for it.
    granted: AtomicU32,
}

/// How many backends there may be, as plain data ([`crate::frozen`]). How many there are follows from these, and from what waits.
#[derive(Debug, PartialEq)]
pub(super) struct FrozenPlaces {
    most: u32,
    /// `None` where the server has refused none lately.
    room: Option<u32>,
    room_changed: Distance,
}

plain!(struct FrozenPlaces { most, room, room_changed });

impl Places {
    /// Takes that out.
    pub(super) fn freeze(&self, now: Instant) -> FrozenPlaces {
        let Self { most, room, room_changed, taken: _, seats: _ } = self;
        let room = room.swap(u32::MAX, SeqCst);
        FrozenPlaces {
            most: most.swap(0, SeqCst),
            room: (room != u32::MAX).then_some(room),
            room_changed: Distance::of_micros(room_changed.swap(0, SeqCst), now),
        }
    }

    /// Puts it in the place of what is there.
    pub(super) fn thaw(&self, frozen: &FrozenPlaces, now: Instant) {
        let &FrozenPlaces { most, room, room_changed } = frozen;
        self.most.store(most, SeqCst);
        self.room.store(room.unwrap_or(u32::MAX), SeqCst);
        self.room_changed.store(room_changed.micros_from(now), SeqCst);
    }
}

/// How a worker came by a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The place was free.
    Free,
    /// Another worker has closed a backend for it, a moment ago: the server may not know yet.
    Granted,
    /// The place was that of an idle backend, which changes its account.
    Changed,
}

/// How long after a refusal the server is asked for one more: connections of others end all the time, so not long.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The part of its room by which the server is asked for more at a time, as a divisor: the server refuses a fifth of
/// what we have at most, and ten times the room is found within twelve seconds.
const STEP: u32 = 4;

impl Places {
    /// Makes so many places at most, for so many workers.
    pub(crate) fn new(most: u32, workers: u32) -> Self {
        Self {
            most: AtomicU32::new(most),
            room: AtomicU32::new(u32::MAX),
            room_changed: AtomicU64::new(0),
            taken: AtomicU32::new(0),
            seats: (0..workers).map(|_| Seat::default()).collect(),
        }
    }

    /// How many there may be now.
    pub(crate) fn limit(&self) -> u32 {
        self.most().min(self.room.load(SeqCst))
    }

    /// How many there may be, whether or not the server has just refused some.
    pub(crate) fn most(&self) -> u32 {
        self.most.load(SeqCst)
    }

    /// Sets the number of places from now on.
    pub(crate) fn change_most(&self, most: u32) {
        self.most.store(most, SeqCst);
    }

    /// Says whether there are more backends than there may be: the server, or its other users, want some back.
    pub(crate) fn are_too_many(&self) -> bool {
        let granted = || self.seats.iter().map(|seat| seat.granted.load(SeqCst)).sum::<u32>();
        self.taken() > self.limit() && self.taken() > self.limit().saturating_add(granted())
    }

    /// Says whether the server has refused a backend lately.
    pub(crate) fn server_is_full(&self) -> bool {
        self.room.load(SeqCst) != u32::MAX
    }

    /// Takes a place; up to `beyond` more than there may be.
    pub(crate) fn take(&self, now: Instant, worker: usize, beyond: u32) -> Option<Origin> {
        let seat = &self.seats[worker];
        let less = |granted: u32| granted.checked_sub(1);
        let origin = if seat.granted.fetch_update(SeqCst, SeqCst, less).is_ok() {
            Origin::Granted
        } else if self.take_free(beyond) || (self.try_for_more(now) && self.take_free(beyond)) {
            Origin::Free
        } else {
            return None;
        };
        seat.backends.fetch_add(1, SeqCst);
        Some(origin)
    }

    fn take_free(&self, beyond: u32) -> bool {
        let limit = self.limit().saturating_add(beyond);
        self.taken.fetch_update(SeqCst, SeqCst, |taken| (taken < limit).then(|| taken + 1)).is_ok()
    }

    /// Gives a place back; the first worker to come takes it.
    pub(crate) fn give(&self, worker: usize) {
        let before = self.taken.fetch_sub(1, SeqCst);
        self.seats[worker].backends.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "a backend is closed once");
    }

    /// Notes that the server has refused a backend, and that its place has been given back. Returns true where no backend stands.
    pub(crate) fn refused(&self, now: Instant) -> bool {
        let taken = self.taken.load(SeqCst);
        self.room.fetch_min(taken.max(1), SeqCst);
        self.room_changed.store(now.as_micros(), SeqCst);
        taken == 0
    }

    /// Assumes that the server takes more again, some time after it refused. True where it is worth trying.
    fn try_for_more(&self, now: Instant) -> bool {
        let (room, changed) = (self.room.load(SeqCst), self.room_changed.load(SeqCst));
        if room == u32::MAX || now.since(Instant::from_micros(changed)) < TRY_AGAIN {
            return false;
        }
        // Only one of the workers takes the step.
        if self.room_changed.compare_exchange(changed, now.as_micros(), SeqCst, SeqCst).is_err() {
            return false;
        }
        let more = room.saturating_add((room / STEP).max(1));
        self.room.store(if more >= self.most() { u32::MAX } else { more }, SeqCst);
        true
    }

    /// Keeps a place for a worker that lacks one. The granting worker closes a backend of its own at once.
    pub(crate) fn grant(&self, to: usize) {
        self.taken.fetch_add(1, SeqCst);
        self.seats[to].granted.fetch_add(1, SeqCst);
    }

    /// Gives back what was granted and is not needed any more.
    pub(crate) fn return_grants(&self, worker: usize) {
        if self.seats[worker].granted.load(SeqCst) > 0 {
            let granted = self.seats[worker].granted.swap(0, SeqCst);
            self.taken.fetch_sub(granted, SeqCst);
        }
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> u32 {
        self.taken.load(SeqCst)
    }

    /// Says whether all places are taken.
    pub(crate) fn are_full(&self) -> bool {
        self.taken.load(SeqCst) >= self.limit()
    }

    /// Says whether this worker has more backends than its even share: others may have the rest of them.
    pub(crate) fn has_more_than_its_share(&self, worker: usize) -> bool {
        let workers = u32::try_from(self.seats.len()).expect("made from a u32");
        self.seats[worker].backends.load(SeqCst) > self.limit() / workers
    }

    /// Says whether this worker needs a backend that it may not open. True where that is news.
    pub(crate) fn lack(&self, worker: usize, lacks: bool) -> bool {
        let seat = &self.seats[worker].lacks;
        lacks != seat.load(SeqCst) && seat.swap(lacks, SeqCst) != lacks && lacks
    }

    /// Says whether another worker needs a backend.
    pub(crate) fn somebody_lacks(&self, worker: usize) -> bool {
        self.others(worker).any(|(_, seat)| seat.lacks.load(SeqCst))
    }

    /// Says since when this worker's statements have waited for a backend.
    pub(crate) fn note_wait(&self, worker: usize, since: Option<Instant>) {
        let since = since.map_or(0, |since| since.as_micros() + 1);
        if self.seats[worker].waits.load(SeqCst) != since {
            self.seats[worker].waits.store(since, SeqCst);
        }
    }

    /// The time since which statements of any worker have waited.
    pub(crate) fn somebody_waits_since(&self) -> Option<Instant> {
        let waits = self.seats.iter().filter_map(|seat| seat.waits.load(SeqCst).checked_sub(1));
        waits.min().map(Instant::from_micros)
    }

    /// A worker that needs a backend, for one of the others to do something about it: it says so again where that was not
    /// enough.
    pub(crate) fn who_lacks(&self, worker: usize) -> Option<usize> {
        let (first, seat) = self.others(worker).find(|(_, seat)| seat.lacks.load(SeqCst))?;
        seat.lacks.swap(false, SeqCst).then_some(first)
    }

    /// All workers but this one.
    fn others(&self, worker: usize) -> impl Iterator<Item = (usize, &Seat)> {
        self.seats.iter().enumerate().filter(move |&(other, _)| other != worker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_micros(5_000_000);

    fn two_of_two_workers() -> Places {
        let places = Places::new(2, 2);
        assert_eq!(places.take(NOW, 0, 0), Some(Origin::Free));
        assert_eq!(places.take(NOW, 0, 0), Some(Origin::Free));
        places
    }

    #[test]
    fn the_bound_holds_for_all_together() {
        let places = two_of_two_workers();
        assert!(places.take(NOW, 0, 0).is_none() && places.take(NOW, 1, 0).is_none() && places.are_full());
        assert!(places.take(NOW, 1, 1).is_some(), "one more for what is urgent");
    }

    #[test]
    fn a_lack_is_answered_by_one_worker() {
        let places = two_of_two_workers();
        assert!(places.lack(0, true));
        assert!(!places.lack(0, true), "said already");
        assert_eq!(places.who_lacks(0), None);
        assert_eq!(places.who_lacks(1), Some(0));
        assert_eq!(places.who_lacks(1), None);
    }

    #[test]
    fn a_place_that_was_granted_is_nobody_elses() {
        let places = two_of_two_workers();
        assert!(places.has_more_than_its_share(0));
        places.grant(1);
        places.give(0);
        assert!(!places.has_more_than_its_share(0));
        assert_eq!(places.take(NOW, 0, 0), None);
        assert_eq!(places.take(NOW, 1, 0), Some(Origin::Granted));
        places.give(1);
        places.grant(1);
        places.return_grants(1);
        assert_eq!(places.take(NOW, 0, 0), Some(Origin::Free));
    }

    #[test]
    fn what_the_server_takes_is_the_limit_until_it_is_tried_again() {
        let places = Places::new(100, 2);
        for _ in 0..12 {
            assert!(places.take(NOW, 0, 0).is_some());
        }
        for _ in 0..2 {
            places.give(0);
            assert!(!places.refused(NOW));
        }
        assert!(places.server_is_full() && places.are_full());
        assert_eq!(places.limit(), 10);
        assert_eq!(places.take(NOW, 1, 0), None);
        assert!(places.has_more_than_its_share(0), "of what there is");
        let later = NOW + TRY_AGAIN;
        assert!(places.take(later, 1, 0).is_some() && places.take(later, 1, 0).is_some());
        assert_eq!(places.take(later, 1, 0), None, "a step at a time");
        let mut at = later;
        while places.server_is_full() {
            at = at + TRY_AGAIN;
            assert!(places.take(at, 1, 0).is_some());
        }
        assert_eq!(places.limit(), 100);
    }

    #[test]
    fn a_server_that_takes_none_is_still_tried() {
        let places = Places::new(2, 1);
        assert!(places.take(NOW, 0, 0).is_some());
        places.give(0);
        assert!(places.refused(NOW), "nothing stands");
        assert_eq!(places.limit(), 1);
        assert!(places.take(NOW, 0, 0).is_some());
    }
}
