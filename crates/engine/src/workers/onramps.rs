//! How many Onramps are in front of the server, as all workers know it: the first one counts them ([`crate::server::control::peers`]).

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use seam::Instant;

use crate::scheduling::learned::limit::Division;

/// The number of slots, from 1. Ids of clients have a part for each ([`crate::client::commands::kill`]). More programs of this kind in front of
/// one server would not share its connections in any good way.
pub(crate) const SLOTS: u32 = 16;

/// The length of the turn in which one of the Onramps at work may try other limits: what two of them try at the same time would tell
/// neither anything. A trial takes a second or two.
const TURN: Duration = Duration::from_secs(3);

/// The last part of a turn, in which no Onramp begins to try.
const LAST: Duration = Duration::from_secs(1);

/// The Onramps in front of the server, this one included.
#[derive(Debug)]
pub(crate) struct Onramps {
    /// The number of Onramps.
    present: AtomicU32,
    /// The number of them that have had statements waiting lately; this one counts in any case.
    at_work: AtomicU32,
    /// The number of them that have statements waiting much of the time; this one counts in any case.
    saturated: AtomicU32,
    /// The rank of this one among those at work, from 0.
    rank: AtomicU32,
    /// The server's clock at the beginning of ours, in milliseconds since 1970.
    clock: AtomicU64,
    /// The slot of this one; 0 where it has none.
    slot: AtomicU32,
    /// The slots of the others, a bit each.
    others: AtomicU32,
    /// True where statements of ours have waited for what is shared out since somebody asked.
    has_waited: AtomicBool,
}

/// [`Onramps`] as plain data ([`crate::frozen`]).
#[derive(Debug, PartialEq)]
pub(super) struct FrozenOnramps {
    census: Census,
    slot: u32,
    /// The time that [`Onramps::clock`] gives for the moment of freezing.
    clock: u64,
    has_waited: bool,
}

plain!(struct FrozenOnramps { census, slot, clock, has_waited });
plain!(struct Census { present, at_work, saturated, rank, others });

impl Onramps {
    /// Takes it out.
    pub(super) fn freeze(&self, now: Instant) -> FrozenOnramps {
        let Self { present, at_work, saturated, rank, clock, slot, others, has_waited } = self;
        let census = Census {
            present: present.swap(1, SeqCst),
            at_work: at_work.swap(1, SeqCst),
            saturated: saturated.swap(1, SeqCst),
            rank: rank.swap(0, SeqCst),
            others: others.swap(0, SeqCst),
        };
        FrozenOnramps {
            census,
            slot: slot.swap(0, SeqCst),
            clock: clock.swap(0, SeqCst).wrapping_add(millis_of(now)),
            has_waited: has_waited.swap(false, SeqCst),
        }
    }

    /// Takes them up.
    pub(super) fn thaw(&self, frozen: &FrozenOnramps, now: Instant) {
        let &FrozenOnramps { census, slot, clock, has_waited } = frozen;
        self.take(census);
        self.set_slot(slot);
        self.set_clock(now, clock);
        self.has_waited.store(has_waited, SeqCst);
    }
}

/// The counts of Onramps in front of the server, and their slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) present: u32,
    pub(crate) at_work: u32,
    pub(crate) saturated: u32,
    pub(crate) rank: u32,
    /// The slots of the others, a bit each, the lowest for 1.
    pub(crate) others: u32,
}

impl Default for Onramps {
    /// This Onramp alone.
    fn default() -> Self {
        Self {
            present: AtomicU32::new(1),
            at_work: AtomicU32::new(1),
            saturated: AtomicU32::new(1),
            rank: AtomicU32::new(0),
            clock: AtomicU64::new(0),
            slot: AtomicU32::new(0),
            others: AtomicU32::new(0),
            has_waited: AtomicBool::new(false),
        }
    }
}

impl Onramps {
    pub(crate) fn present(&self) -> u32 {
        self.present.load(SeqCst)
    }

    /// The number of Onramps by which the permits of the server are divided.
    pub(crate) fn at_work(&self) -> u32 {
        self.at_work.load(SeqCst)
    }

    /// The numbers of Onramps that the server is divided among.
    pub(crate) fn division(&self) -> Division {
        Division { at_work: self.at_work(), saturated: self.saturated.load(SeqCst) }
    }

    /// The slot of this one, from 1.
    pub(crate) fn slot(&self) -> Option<u32> {
        Some(self.slot.load(SeqCst)).filter(|&slot| slot > 0)
    }

    pub(crate) fn set_slot(&self, slot: u32) {
        self.slot.store(slot, SeqCst);
    }

    /// Says whether the slot is another Onramp's.
    pub(crate) fn is_of_another(&self, slot: u32) -> bool {
        (1..=SLOTS).contains(&slot) && self.others.load(SeqCst) & (1 << (slot - 1)) != 0
    }

    /// Takes in what has been counted. True where that changes what this one may have of the permits.
    pub(crate) fn take(&self, census: Census) -> bool {
        self.present.store(census.present, SeqCst);
        self.others.store(census.others, SeqCst);
        self.rank.store(census.rank, SeqCst);
        let before = self.division();
        self.at_work.store(census.at_work, SeqCst);
        self.saturated.store(census.saturated, SeqCst);
        self.division() != before
    }

    /// The server's clock says so many milliseconds since 1970. It is the only one that all Onramps have.
    pub(crate) fn set_clock(&self, now: Instant, millis: u64) {
        self.clock.store(millis.wrapping_sub(millis_of(now)), SeqCst);
    }

    /// Says whether other limits may be tried now, by the server's clock.
    pub(crate) fn may_try(&self, now: Instant) -> bool {
        let at_work = u64::from(self.at_work());
        if at_work == 1 {
            return true;
        }
        let at = self.clock.load(SeqCst).wrapping_add(millis_of(now));
        let turn = u64::try_from(TURN.as_millis()).expect("seconds");
        let is_ours = at / turn % at_work == u64::from(self.rank.load(SeqCst));
        is_ours && Duration::from_millis(at % turn) < TURN - LAST
    }

    /// A turn has ended with statements that wait.
    pub(crate) fn wait(&self) {
        // Most of the time it is known, and reading leaves the cache line with all workers.
        if !self.has_waited.load(SeqCst) {
            self.has_waited.store(true, SeqCst);
        }
    }

    /// Says whether statements have waited since this was asked last.
    pub(crate) fn have_waited(&self) -> bool {
        self.has_waited.swap(false, SeqCst)
    }
}

/// Milliseconds since the driver started.
pub(crate) fn millis_of(now: Instant) -> u64 {
    now.as_micros() / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_after_the_other_tries() {
        let at = |millis| Instant::START + Duration::from_millis(millis);
        let all: Vec<_> = (0..3)
            .map(|rank| {
                let onramps = Onramps::default();
                assert!((0..20).all(|second| onramps.may_try(at(second * 1000))), "alone it may at any time");
                // Each has begun at another time.
                onramps.set_clock(at(700 * u64::from(rank)), 1_000_000_000);
                assert!(onramps.take(Census { present: 4, at_work: 3, saturated: 1, rank, others: 0b111 }));
                onramps
            })
            .collect();
        let mut tried = [0; 3];
        for millis in (0..9_000).step_by(100) {
            let may: Vec<_> =
                (0..3).filter(|&rank| all[rank].may_try(at(millis + 700 * rank as u64))).collect();
            assert!(may.len() <= 1, "{may:?} at {millis}");
            may.iter().for_each(|&rank| tried[rank] += 1);
        }
        assert_eq!(tried, [20; 3], "two seconds of three each");
    }

    #[test]
    fn slots_of_others_are_known() {
        let onramps = Onramps::default();
        assert!(!onramps.take(Census {
            present: 3,
            at_work: 1,
            saturated: 1,
            rank: 0,
            others: 0b1000_0000_0000_0010
        }));
        let others: Vec<_> = (0..=SLOTS + 1).filter(|&slot| onramps.is_of_another(slot)).collect();
        assert_eq!(others, [2, 16]);
        assert_eq!(onramps.slot(), None);
        onramps.set_slot(3);
        assert_eq!(onramps.slot(), Some(3));
        onramps.wait();
        assert_eq!([onramps.have_waited(), onramps.have_waited()], [true, false]);
    }
}
