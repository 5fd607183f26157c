//! Bytes that many holders have together, counted with each of them.

use std::time::Duration;

use seam::Instant;

use crate::ids::ClientRef;

/// The time before all clients are gone through again, where none was left that could be closed.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Bytes that all holders have together.
#[derive(Debug, Default)]
pub(crate) struct BytesHeld(usize);

/// Bytes that one holder has of a [`BytesHeld`]. The holder gives them back before it goes: [`crate::invariants`] looks for what is left behind.
#[derive(Debug, Default)]
pub(crate) struct Counted(u32);

impl Counted {
    pub(crate) fn bytes(&self) -> usize {
        self.0 as usize
    }
}

impl BytesHeld {
    pub(crate) fn bytes(&self) -> usize {
        self.0
    }

    /// Sets the number of bytes that the holder has now, whatever it had before. Beyond 4 GiB no more are counted: a command has 1 GiB at most.
    pub(crate) fn set(&mut self, counted: &mut Counted, bytes: usize) {
        self.give_back(counted);
        counted.0 = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.0 += counted.bytes();
    }

    pub(crate) fn add(&mut self, counted: &mut Counted, bytes: usize) {
        self.set(counted, counted.bytes() + bytes);
    }

    /// Gives back all that the holder has.
    pub(crate) fn give_back(&mut self, counted: &mut Counted) {
        self.0 -= std::mem::take(counted).bytes();
    }
}

/// The memory of clients, by what bounds it, and the times at which its largest holders were last looked for.
#[derive(Debug, Default)]
pub(crate) struct ClientMemory {
    /// The time at which last no client was found that could be closed.
    pub(super) nobody_at: Option<Instant>,
    /// Bytes that count against `statement_memory`: statements under way, and what is not whole yet.
    pub(crate) statements: BytesHeld,
    /// Bytes that clients have sent before they have logged in. They count against `login_memory`.
    pub(crate) logins: BytesHeld,
    /// Bytes that the layer below holds of clients' TLS handshakes, as it has said.
    pub(crate) handshakes: usize,
    /// Bytes that clients have set and hold, the states of their sessions aside.
    pub(crate) sessions: BytesHeld,
    /// Clients that hold more of `sessions` than one client may have.
    pub(in crate::client) beyond_share: Vec<ClientRef>,
    /// The time at which clients were last looked through for the largest holders of `sessions`.
    sessions_looked_at: Option<Instant>,
    /// Bytes of the warnings that are kept for clients, or more: those of clients that have gone may still count.
    pub(crate) diagnostics: usize,
}

impl ClientMemory {
    /// Says whether all clients may be gone through again. They may not at once, where the largest holders are in the middle of something.
    pub(in crate::client) fn may_look_for_sessions(&mut self, now: Instant) -> bool {
        let may = self.sessions_looked_at.is_none_or(|at| now == at || now.since(at) >= LOOK_AGAIN / 10);
        if may {
            self.sessions_looked_at = Some(now);
        }
        may
    }
}
