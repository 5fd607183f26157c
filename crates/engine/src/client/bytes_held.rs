//! Bytes that many hold together, counted with each of them.

use std::time::Duration;

use seam::Instant;

use crate::ids::ClientRef;

/// Where nobody is left that could be closed, all clients are not gone through again before this.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What all holders have together.
#[derive(Debug, Default)]
pub(crate) struct BytesHeld(usize);

/// What one holder has of a [`BytesHeld`], in bytes. It is given back before its holder goes: [`crate::invariants`] looks for what is left behind.
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

    /// The holder has so many now, whatever it had before. Beyond 4 GiB no more are counted: a command has 1 GiB at most.
    pub(crate) fn set(&mut self, counted: &mut Counted, bytes: usize) {
        self.give_back(counted);
        counted.0 = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.0 += counted.bytes();
    }

    pub(crate) fn add(&mut self, counted: &mut Counted, bytes: usize) {
        self.set(counted, counted.bytes() + bytes);
    }

    /// The holder has none any more.
    pub(crate) fn give_back(&mut self, counted: &mut Counted) {
        self.0 -= std::mem::take(counted).bytes();
    }
}

/// The memory of clients, by what bounds it, and when those who hold most of it were last looked for.
#[derive(Debug, Default)]
pub(crate) struct ClientMemory {
    /// When nobody was found the last time.
    pub(super) nobody_at: Option<Instant>,
    /// What counts against `statement_memory`: statements under way, and what is not whole yet.
    pub(crate) statements: BytesHeld,
    /// What clients have sent that have not logged in: it counts against `login_memory`.
    pub(crate) logins: BytesHeld,
    /// What the layer below holds of clients' TLS handshakes, as it has said.
    pub(crate) handshakes: usize,
    /// What clients have set and hold, the states of their sessions aside.
    pub(crate) sessions: BytesHeld,
    /// Clients of which that is more than one may have.
    pub(super) beyond_share: Vec<ClientRef>,
    /// When clients were last looked through for who holds most of it.
    sessions_looked_at: Option<Instant>,
    /// No fewer bytes than the warnings have that are kept for clients.
    pub(crate) diagnostics: usize,
}

impl ClientMemory {
    /// All clients are not gone through again at once where those that hold most are in the middle of something.
    pub(super) fn may_look_for_sessions(&mut self, now: Instant) -> bool {
        let may = self.sessions_looked_at.is_none_or(|at| now == at || now.since(at) >= LOOK_AGAIN / 10);
        if may {
            self.sessions_looked_at = Some(now);
        }
        may
    }
}
