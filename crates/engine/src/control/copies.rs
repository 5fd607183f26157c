//! Copies of the server's accounts: which one is in use, and when the next one is read.

use std::time::Duration;

use seam::Instant;

use super::defaults::SHORTEST_REFRESH;
use super::state::{Control, State};
use crate::learned::lock_waits::told::LockWaits;

impl Control {
    /// The number of the copy that an attempt which comes in now may be refused by: one that is asked for later.
    pub(crate) fn next_accounts_copy(&self) -> u64 {
        self.asked + 1
    }

    /// The number of the copy in use.
    pub(crate) fn accounts_copy(&self) -> u64 {
        self.came
    }

    /// Says whether a fresh copy can be had soon.
    pub(crate) fn can_refresh(&self) -> bool {
        matches!(self.state, State::Idle | State::Asking { .. })
    }

    pub(crate) fn ask_for_accounts(&mut self) {
        self.wanted = true;
    }

    /// The time at which the accounts are to be read next.
    pub(crate) fn next_refresh(&self, every: Duration) -> Option<Instant> {
        let pause = if self.wanted { SHORTEST_REFRESH } else { every };
        matches!(self.state, State::Idle).then_some(self.last_copy + pause)
    }
}

impl Control {
    /// Takes the lock waits that have been found; the next to be found are these.
    pub(crate) fn take_lock_waits(&mut self, next: LockWaits) -> LockWaits {
        std::mem::replace(&mut self.lock_waits, next)
    }
}
