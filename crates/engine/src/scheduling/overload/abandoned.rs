//! Statements that nobody waits for any more.

use seam::Instant;

use crate::ids::BackendKey;

/// Statements that are to be ended as soon as that can be.
#[derive(Default)]
pub(crate) struct ToBeEnded {
    /// Statements that have lost their client.
    pub(super) abandoned: Vec<Abandoned>,
    /// Backends on which a statement is to be ended by KILL QUERY as soon as that hits nobody else.
    pub(super) cancelled: Vec<BackendKey>,
}

impl ToBeEnded {
    /// Takes out the statements that have lost their client.
    pub(crate) fn take_abandoned(&mut self) -> Vec<Abandoned> {
        std::mem::take(&mut self.abandoned)
    }

    /// A statement that has lost its client goes on for now.
    pub(crate) fn goes_on(&mut self, abandoned: Abandoned) {
        self.abandoned.push(abandoned);
    }

    /// Takes out the backends with a statement that is to be ended by KILL QUERY.
    pub(crate) fn take_cancelled(&mut self) -> Vec<BackendKey> {
        std::mem::take(&mut self.cancelled)
    }
}

/// A statement that runs on after its client has gone.
pub(crate) struct Abandoned {
    /// The statement's backend, which has this token unless it is another one by now.
    pub(crate) backend: BackendKey,
    pub(super) token: u64,
    pub(super) since: Instant,
}
