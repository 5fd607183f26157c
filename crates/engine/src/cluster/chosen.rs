//! Which address the primary has, as all workers know it, and what the last change of it has cost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seam::Instant;

/// What the first worker has found, and the others follow. A few atomic numbers, as all that workers share.
#[derive(Debug)]
pub(crate) struct Chosen {
    /// How often it was changed, and in the lower half the place, from 1; 0 for none.
    word: AtomicU64,
    /// The server that was it before is up: what runs there may come to its end.
    may_end: AtomicBool,
    /// Why there is none, for people.
    why: Mutex<Arc<str>>,
    /// When a server has last refused a statement, although it was the primary, in microseconds; 0 for never.
    refused: AtomicU64,
    pub(crate) tally: Tally,
}

/// A choice, and its number: two of the same place are told apart by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) number: u32,
    pub(crate) place: Option<usize>,
}

/// What became of clients since the start, and the longest wait since there was last no primary.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    held: AtomicU64,
    longest: AtomicU64,
    rolled_back: AtomicU64,
    unknown: AtomicU64,
}

/// The same as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Statements that waited and went to the new primary.
    pub(crate) held: u64,
    /// How long the one that waited longest did.
    pub(crate) longest: Duration,
    /// Transactions that were open, and of which the clients were told that they are rolled back.
    pub(crate) rolled_back: u64,
    /// Statements of which nobody knows whether they ran.
    pub(crate) unknown: u64,
}

impl Default for Chosen {
    fn default() -> Self {
        Self {
            word: AtomicU64::new(0),
            may_end: AtomicBool::new(false),
            why: Mutex::new(Arc::from("not all servers have been asked yet")),
            refused: AtomicU64::new(0),
            tally: Tally::default(),
        }
    }
}

impl Chosen {
    pub(crate) fn get(&self) -> Choice {
        let word = self.word.load(SeqCst);
        let place = usize::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
        Choice { number: u32::try_from(word >> 32).unwrap_or(0), place: place.checked_sub(1) }
    }

    /// The primary is there from now on, or nowhere. `may_end` says whether what runs on the former one may come to its end.
    pub(crate) fn set(&self, place: Option<usize>, may_end: bool) {
        self.may_end.store(may_end, SeqCst);
        let place = place.map_or(0, |place| place as u64 + 1);
        let number = (self.word.load(SeqCst) >> 32) + 1;
        self.word.store(number << 32 | place, SeqCst);
    }

    /// A worker has been refused a statement on it as of this choice: nobody is the primary until the server has been asked again.
    /// False where another choice has been made meanwhile.
    pub(crate) fn doubt(&self, now: Instant, choice: Choice) -> bool {
        let word = |choice: Choice| {
            u64::from(choice.number) << 32 | choice.place.map_or(0, |place| place as u64 + 1)
        };
        let none = word(Choice { number: choice.number.wrapping_add(1), place: None });
        let is_it =
            choice.place.is_some() && self.word.compare_exchange(word(choice), none, SeqCst, SeqCst).is_ok();
        if is_it {
            self.may_end.store(true, SeqCst);
            self.refused.store(now.as_micros().max(1), SeqCst);
            self.say(Arc::from(
                "the primary has refused a statement: it is read-only, or its cluster goes on without it",
            ));
        }
        is_it
    }

    /// When the last doubt came up; the first worker takes it.
    pub(crate) fn take_doubt(&self) -> Option<Instant> {
        match self.refused.swap(0, SeqCst) {
            0 => None,
            at => Some(Instant::from_micros(at)),
        }
    }

    pub(crate) fn may_end(&self) -> bool {
        self.may_end.load(SeqCst)
    }

    pub(crate) fn say(&self, why: Arc<str>) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Why there is no primary.
    pub(crate) fn why(&self) -> Arc<str> {
        Arc::clone(&self.why.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Counts {
    /// What has been counted since these.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            held: self.held.saturating_sub(before.held),
            longest: self.longest,
            rolled_back: self.rolled_back.saturating_sub(before.rolled_back),
            unknown: self.unknown.saturating_sub(before.unknown),
        }
    }
}

impl Tally {
    /// There is no primary any more.
    pub(crate) fn begin(&self) {
        self.longest.store(0, SeqCst);
    }

    /// So many statements of a worker go on, the oldest of which has waited for so long.
    pub(crate) fn held(&self, statements: u64, longest: Duration) {
        self.held.fetch_add(statements, SeqCst);
        let longest = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        self.longest.fetch_max(longest, SeqCst);
    }

    pub(crate) fn rolled_back(&self) {
        self.rolled_back.fetch_add(1, SeqCst);
    }

    pub(crate) fn unknown(&self) {
        self.unknown.fetch_add(1, SeqCst);
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            held: self.held.load(SeqCst),
            longest: Duration::from_micros(self.longest.load(SeqCst)),
            rolled_back: self.rolled_back.load(SeqCst),
            unknown: self.unknown.load(SeqCst),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_ends_the_choice_that_it_is_about_and_no_other() {
        let chosen = Chosen::default();
        assert_eq!(chosen.get().place, None);
        chosen.set(Some(0), true);
        let first = chosen.get();
        assert_eq!(first.place, Some(0));
        assert!(chosen.doubt(Instant::from_micros(7), first));
        assert_eq!(chosen.get().place, None);
        assert_eq!(chosen.take_doubt(), Some(Instant::from_micros(7)));
        assert_eq!(chosen.take_doubt(), None);
        chosen.set(Some(1), true);
        assert!(!chosen.doubt(Instant::from_micros(9), first), "that was before");
        assert_eq!(chosen.get().place, Some(1));
    }

    #[test]
    fn each_change_has_a_number_of_its_own() {
        let chosen = Chosen::default();
        chosen.set(Some(3), false);
        let first = chosen.get();
        chosen.set(None, false);
        chosen.set(Some(3), false);
        assert_eq!(chosen.get().place, first.place);
        assert_ne!(chosen.get(), first);
    }
}
