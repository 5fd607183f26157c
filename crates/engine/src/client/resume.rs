//! Which clients go on with what they have sent ahead.

use crate::ids::ClientKey;

/// Clients that may have sent ahead, by their slots.
#[derive(Default)]
pub(crate) struct Resume {
    now: Vec<ClientKey>,
    /// In the next turn.
    later: Vec<ClientKey>,
}

impl Resume {
    /// It goes on in this turn.
    pub(crate) fn push(&mut self, client: ClientKey) {
        self.now.push(client);
    }

    /// It goes on in the next turn: it has had its share of this one.
    pub(super) fn push_later(&mut self, client: ClientKey) {
        self.later.push(client);
    }

    /// It goes on nowhere. Returns whether it was to in the next turn; in this one nobody is any more between two turns.
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

    /// What was for the next turn is for this one.
    pub(crate) fn begin_later(&mut self) {
        self.now.append(&mut self.later);
        self.now.sort_unstable();
        self.now.dedup();
    }
}
