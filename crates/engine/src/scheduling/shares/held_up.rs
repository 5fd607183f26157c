//! Users with new work that waits for one of their own backends.

use std::collections::{BTreeMap, BTreeSet};

use seam::Instant;

use super::table::Name;
use crate::workers::users::Usage;

/// Users with new work that waits for one of their own backends to become free.
#[derive(Debug, Default)]
pub(super) struct HeldUp {
    /// The users, with the time since which they have been held up.
    pub(super) users: BTreeMap<Name, (Usage, Instant)>,
    /// Users that were found to be held up while dispatching. They are not let go on in the same round, or that would not end.
    pub(super) in_this_round: BTreeSet<Name>,
}

impl HeldUp {
    /// New work of a user waits from now on. Returns since when any has.
    pub(super) fn add(&mut self, user: &Name, usage: Usage, now: Instant) -> Instant {
        let &mut (_, since) = self.users.entry(user.clone()).or_insert((usage, now));
        self.in_this_round.insert(user.clone());
        since
    }

    pub(super) fn remove(&mut self, user: &Name) {
        self.users.remove(user);
    }
}
