//! The lanes, and what a statement brings along into one.

/// Where a statement waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Blocking,
    Holding,
    High,
    Low,
    /// The lane of statements whose like has been long.
    Long,
    /// The lane of statements whose like wait for locks at present.
    Contended,
    /// The lane of statements that have moved from the low lane to the high one, and hold no backend.
    KickedUp,
}

/// All lanes.
pub(super) const LANES: [Lane; 7] =
    [Lane::Blocking, Lane::Holding, Lane::High, Lane::Low, Lane::Long, Lane::Contended, Lane::KickedUp];

/// The things that a statement's client holds and that others may wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) in_transaction: bool,
    /// True if the client has changed or locked something, in its transaction or beyond.
    pub(crate) holds_locks: bool,
    /// Others are known to wait for that.
    pub(crate) blocks_others: bool,
    /// The place in the order of all arrivals of the first statement of its transaction, or of this one.
    pub(crate) began: u64,
}
