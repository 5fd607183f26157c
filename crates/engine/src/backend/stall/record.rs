//! What is remembered of statements that take longer than their like.

use seam::Instant;

/// The state of statements that take longer than their like.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    /// When one was last found to.
    pub(crate) latest: Option<Instant>,
    /// Kinds of which several have been running for `long_statement_time` now, by their fingerprints.
    pub(crate) overdue_kinds: Vec<u64>,
    /// When it is looked next for a user who is shut out while other workers hold all permits.
    pub(super) look_at: Option<Instant>,
}
