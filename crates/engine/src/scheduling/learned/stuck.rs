//! Says whether statements of a kind may be stuck: one of them was, a while ago.
//!
//! A statement that waits for a lock holds up those behind it on its backend. So a kind that does so now and then shares a backend with its like
//! alone. From outside, a thread of the server that found no core for 20 ms looks the same. On a machine with all cores in use, one of some
//! hundred thousand reads meets that. If that counted as much as a lock of seconds, all kinds would always be taken for such. So the time for
//! which it counts follows from how long it was.

use std::time::Duration;

use seam::Instant;

use crate::frozen::Distance;
use crate::scheduling::learned::history::REMEMBERED;

/// The factor of the time for which a statement that was stuck is remembered after its end. A kind that is stuck again and again, each
/// time as soon as it is forgotten, holds up others for a ninth of the time.
const TIMES: u32 = 8;

/// Knowledge of the statements of one kind that were stuck.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stuck {
    /// The time at which a statement was last found stuck that had not ended, as far as is known since.
    found: Option<Instant>,
    /// The time until which statements that were stuck and have ended are remembered.
    until: Instant,
}

/// [`Stuck`] as plain data ([`crate::frozen`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FrozenStuck {
    found: Option<Distance>,
    until: Distance,
}

plain!(struct FrozenStuck { found, until });

impl Stuck {
    pub(super) fn freeze(self, now: Instant) -> FrozenStuck {
        let Self { found, until } = self;
        FrozenStuck { found: found.map(|at| Distance::of(at, now)), until: Distance::of(until, now) }
    }
}

impl FrozenStuck {
    pub(super) fn thaw(self, now: Instant) -> Stuck {
        let Self { found, until } = self;
        Stuck { found: found.map(|at| at.from(now)), until: until.from(now) }
    }
}

impl Stuck {
    /// Notes that a statement is stuck, and has not ended.
    pub(super) fn found(&mut self, now: Instant) {
        self.found = Some(now);
    }

    /// Notes that a stuck statement has ended, and has taken so long.
    pub(super) fn ended(&mut self, now: Instant, time: Duration) {
        // What was found before this one began is another one.
        self.found = self.found.filter(|&at| now.since(at) > time);
        self.until = self.until.max(now + time.min(REMEMBERED / TIMES) * TIMES);
    }

    /// Says whether the next one may be.
    pub(super) fn may_be(&self, now: Instant) -> bool {
        now < self.until || self.found.is_some_and(|at| now.since(at) < REMEMBERED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant::from_micros(1_000 * millis)
    }

    #[test]
    fn it_is_remembered_by_how_long_it_took() {
        let mut stuck = Stuck::default();
        assert!(!stuck.may_be(at(0)));
        stuck.ended(at(20), Duration::from_millis(20));
        assert!(stuck.may_be(at(179)) && !stuck.may_be(at(180)));
        stuck.ended(at(5_000), Duration::from_secs(5));
        stuck.ended(at(5_001), Duration::from_millis(20));
        assert!(stuck.may_be(at(14_999)) && !stuck.may_be(at(15_000)), "a short one takes nothing back");
    }

    #[test]
    fn one_that_has_not_ended_counts_until_it_has() {
        let mut stuck = Stuck::default();
        stuck.found(at(20));
        assert!(stuck.may_be(at(10_019)) && !stuck.may_be(at(10_020)));
        stuck.found(at(20_020));
        stuck.ended(at(20_025), Duration::from_millis(25));
        assert!(stuck.may_be(at(20_224)) && !stuck.may_be(at(20_225)));
        stuck.found(at(30_020));
        stuck.ended(at(31_025), Duration::from_millis(25));
        assert!(stuck.may_be(at(40_019)), "another one hangs since before that began");
    }
}
