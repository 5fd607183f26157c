//! The record of statements that take longer than their kind does.

use seam::Instant;

use crate::frozen::Distance;

/// The record of statements that take longer than their kind does.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    /// Time at which a statement was last found to stall.
    pub(crate) latest: Option<Instant>,
    /// Fingerprints of the kinds of which several statements have been running for `long_statement_time` now.
    pub(in crate::backend) overdue_kinds: Vec<u64>,
    /// Time of the next look for a user who is shut out while other workers hold all permits.
    pub(super) look_at: Option<Instant>,
}

/// [`Stalls`] as plain data ([`crate::frozen`]).
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenStalls {
    latest: Option<Distance>,
    overdue_kinds: Vec<u64>,
    look_at: Option<Distance>,
}

plain!(struct FrozenStalls { latest, overdue_kinds, look_at });

impl Stalls {
    /// Takes the whole record out.
    pub(crate) fn freeze(&mut self, now: Instant) -> FrozenStalls {
        let Self { latest, overdue_kinds, look_at } = std::mem::take(self);
        let distance = |at| Distance::of(at, now);
        FrozenStalls { latest: latest.map(distance), overdue_kinds, look_at: look_at.map(distance) }
    }

    /// Puts a record in the place of the present one.
    pub(crate) fn thaw(&mut self, frozen: FrozenStalls, now: Instant) {
        let FrozenStalls { latest, overdue_kinds, look_at } = frozen;
        let instant = |at: Distance| at.from(now);
        *self = Self { latest: latest.map(instant), overdue_kinds, look_at: look_at.map(instant) };
    }
}
