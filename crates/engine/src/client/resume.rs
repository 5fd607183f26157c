//! The clients that go on with what they have sent ahead.

use crate::ids::ClientKey;

/// Clients that may have sent ahead, by their slots.
#[derive(Default)]
pub(crate) struct Resume {
    now: Vec<ClientKey>,
    /// Clients that go on in the next turn.
    later: Vec<ClientKey>,
}

impl Resume {
    /// Lets a client go on in this turn.
    pub(crate) fn push(&mut self, client: ClientKey) {
        self.now.push(client);
    }

    /// Lets a client go on in the next turn: the client has had its share of this one.
    pub(super) fn push_later(&mut self, client: ClientKey) {
        self.later.push(client);
    }

    /// Lets a client go on nowhere. Says whether it was to go on in the next turn. Between two turns, no client is left
    /// that goes on in this one.
    pub(super) fn forget(&mut self, client: ClientKey) -> bool {
        let before = self.later.len();
        self.later.retain(|&later| later != client);
        self.later.len() < before
    }

    pub(crate) fn pop(&mut self) -> Option<ClientKey> {
        self.now.pop()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.now.is_empty()
    }

    /// Moves the clients of the next turn to this one.
    pub(crate) fn begin_later(&mut self) {
        self.now.append(&mut self.later);
        self.now.sort_unstable();
        self.now.dedup();
    }
}
