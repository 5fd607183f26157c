//! Which process a new backend leads to, where the primary is one of a group.
//!
//! A process that is started anew is in no group at first, and may take writes that its group never gets. It takes backends as soon as it is
//! there, and which worker hears first that the connections to the one before have ended nobody promises. So a backend is used once the
//! connection of the server's check has answered something that was asked after the backend had come about: the process that was
//! found to be the primary was alive by then, and it alone takes connections at its address. No clock is needed: each backend gets a number as
//! it is connected, and with each question the first worker notes the last number that was given.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// What workers tell each other of that.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    /// The primary is one of a group.
    is_wanted: AtomicBool,
    /// The number of the last backend that was connected.
    connected: AtomicU64,
    /// Backends up to this number lead to the primary's process, or to one that has gone.
    proved: AtomicU64,
}

impl Proof {
    /// A backend has been connected: its number; `None` where it may be used at once.
    pub(crate) fn connected(&self) -> Option<u64> {
        self.is_wanted.load(SeqCst).then(|| self.connected.fetch_add(1, SeqCst) + 1)
    }

    /// Which backends may be used. Whoever looks takes up the choice of a primary behind that: it may be another one's backends that are meant.
    pub(crate) fn proved(&self) -> u64 {
        // Where the primary is none of a group any more, nobody waits for that.
        if self.is_wanted.load(SeqCst) { self.proved.load(SeqCst) } else { u64::MAX }
    }

    /// Whether backends have to be proved.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted.load(SeqCst)
    }

    /// Backends that come from now on have to be proved, or need not be.
    pub(super) fn want(&self, is_wanted: bool) {
        self.is_wanted.store(is_wanted, SeqCst);
    }

    /// The number of the last backend that may wait.
    pub(super) fn asked_for(&self) -> u64 {
        self.connected.load(SeqCst)
    }

    /// Backends up to this number may be used. True where that is news.
    pub(super) fn proves(&self, number: u64) -> bool {
        self.proved.swap(number, SeqCst) < number
    }
}
