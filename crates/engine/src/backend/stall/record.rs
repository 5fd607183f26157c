//! What is remembered of statements that take longer than their like.

use seam::Instant;

use crate::frozen::Distance;

/// The state of statements that take longer than their like.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    /// When one was last found to.
    pub(crate) latest: Option<Instant>,
    /// Kinds of which several have been running for `long_statement_time` now, by their fingerprints.
    pub(crate) overdue_kinds: Vec<u64>,
    /// When it is looked next for a user who is shut out while other workers hold all permits.
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
    /// Takes all of it out.
    pub(crate) fn freeze(&mut self, now: Instant) -> FrozenStalls {
        let Self { latest, overdue_kinds, look_at } = std::mem::take(self);
        let distance = |at| Distance::of(at, now);
        FrozenStalls { latest: latest.map(distance), overdue_kinds, look_at: look_at.map(distance) }
    }

    /// Puts it in the place of what is there.
    pub(crate) fn thaw(&mut self, frozen: FrozenStalls, now: Instant) {
        let FrozenStalls { latest, overdue_kinds, look_at } = frozen;
        let instant = |at: Distance| at.from(now);
        *self = Self { latest: latest.map(instant), overdue_kinds, look_at: look_at.map(instant) };
    }
}
