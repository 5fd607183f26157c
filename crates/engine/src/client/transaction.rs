//! What is known of a client's transaction.

use seam::Instant;
use wire::StatusFlags;

/// What is known of a client's transaction: of the open one, or of the one that its latest statement was by itself.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// When it began.
    pub(crate) since: Instant,
    /// The client has begun it, and no backend knows of that yet.
    pub(crate) unstarted: Option<Unstarted>,
    /// The place in the order of all arrivals at which it began.
    pub(crate) began: u64,
    /// It may have changed or locked something.
    pub(crate) holds_locks: bool,
    /// Others wait for what it holds.
    pub(crate) blocks_others: bool,
    /// It has, or the one before it had, a statement of a contended kind, see [`crate::backend::contended`].
    pub(crate) contends: bool,
}

impl Transaction {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            since: now,
            unstarted: None,
            began: 0,
            holds_locks: false,
            blocks_others: false,
            contends: false,
        }
    }
}

/// A transaction that a client has begun, and no server knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unstarted {
    /// `START TRANSACTION READ ONLY`.
    read_only: bool,
    /// The flags that the answer to it has had.
    status: StatusFlags,
}

plain!(struct Unstarted { read_only, status });

impl Unstarted {
    /// One whose answer has had these flags; whether it was a `START TRANSACTION READ ONLY`.
    pub(super) fn new(read_only: bool, status: StatusFlags) -> Self {
        Self { read_only, status }
    }

    /// What begins it on a server.
    pub(crate) fn text(self) -> &'static [u8] {
        if self.read_only { b"START TRANSACTION READ ONLY" } else { b"START TRANSACTION" }
    }

    /// Whether it may change nothing.
    pub(crate) fn only_reads(self) -> bool {
        self.status.contains(StatusFlags::IN_TRANS_READONLY)
    }

    /// The status flags that tell of it.
    pub(crate) fn status(self) -> StatusFlags {
        self.status
    }
}
