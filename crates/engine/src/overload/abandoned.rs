//! Statements that nobody waits for any more.

use seam::Instant;

use crate::ids::BackendKey;

/// A statement that runs on after its client has gone.
pub(crate) struct Abandoned {
    /// The statement's backend, which has this token unless it is another one by now.
    pub(crate) backend: BackendKey,
    pub(super) token: u64,
    pub(super) since: Instant,
}
