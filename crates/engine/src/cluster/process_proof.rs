//! Proves which process a new backend leads to, where the primary is a member of a group.
//!
//! A process that is started anew is in no group at first, and may take writes that its group never gets. It takes backends as soon as it
//! is there. Nobody promises which worker hears first that the connections to the process before have ended. So a backend is used once the
//! connection of the server's check has answered a question that was put after the backend was connected. The process that was found to be
//! the primary was alive by then, and it alone takes connections at its address. No clock is needed: each backend gets a number as it
//! is connected, and with each question the first worker notes the last number.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// The state of proofs that workers share.
#[derive(Debug, Default)]
pub(crate) struct ProcessProof {
    /// True where the primary is a member of a group.
    is_wanted: AtomicBool,
    /// Number of the last backend that was connected.
    connected: AtomicU64,
    /// Number up to which backends lead to the primary's process, or to one that has gone.
    proved: AtomicU64,
}

impl ProcessProof {
    /// Returns the number of a backend that has been connected; `None` where it may be used at once.
    pub(crate) fn connected(&self) -> Option<u64> {
        self.is_wanted.load(SeqCst).then(|| self.connected.fetch_add(1, SeqCst) + 1)
    }

    /// Returns the number up to which backends may be used. Read before the choice of a primary: the number may be about another one's backends.
    pub(crate) fn proved(&self) -> u64 {
        // Where the primary is none of a group any more, nobody waits for that.
        if self.is_wanted.load(SeqCst) { self.proved.load(SeqCst) } else { u64::MAX }
    }

    /// Says whether backends have to be proved.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted.load(SeqCst)
    }

    /// Sets whether backends that come from now on have to be proved.
    pub(super) fn want(&self, is_wanted: bool) {
        self.is_wanted.store(is_wanted, SeqCst);
    }

    /// Returns the number of the last backend that may wait.
    pub(super) fn asked_for(&self) -> u64 {
        self.connected.load(SeqCst)
    }

    /// Sets the number up to which backends may be used. True where that is news.
    pub(super) fn proves(&self, number: u64) -> bool {
        self.proved.swap(number, SeqCst) < number
    }
}
