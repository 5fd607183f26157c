//! A client's transaction, as far as it is known.

use seam::Instant;
use wire::StatusFlags;

/// A client's transaction, as far as it is known: the open one, or the one that its latest statement was by itself.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// The time at which the transaction began. It says something while the server's flags tell of a transaction.
    pub(in crate::client) since: Instant,
    /// The place in the order of all arrivals at which the transaction began.
    pub(in crate::client) began: u64,
    pub(in crate::client) locks: Locks,
    /// True where the transaction has, or the one before it had, a statement of a contended kind, see [`crate::backend::scheduling::contended`].
    pub(in crate::client) contends: bool,
}

/// The locks of a transaction. The next transaction has none at its beginning.
#[derive(Debug, Default)]
pub(in crate::client) struct Locks {
    /// True where the transaction may have changed or locked something.
    pub(in crate::client) held: bool,
    /// True where others wait for what the transaction holds.
    pub(in crate::client) awaited: bool,
}

impl Transaction {
    pub(in crate::client) fn new(now: Instant) -> Self {
        Self { since: now, began: 0, locks: Locks::default(), contends: false }
    }

    /// A transaction begins.
    pub(crate) fn begins(&mut self, now: Instant) {
        self.since = now;
    }

    /// Returns the time at which the transaction began.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// A statement is of a contended kind, or of another one.
    pub(crate) fn note_kind(&mut self, contended: bool) {
        self.contends |= contended;
    }

    /// Another transaction begins. Says whether the one before had a statement of a contended kind.
    pub(crate) fn take_contends(&mut self) -> bool {
        std::mem::take(&mut self.contends)
    }

    /// A statement arrives at this place in the order of all arrivals, and finds its client with no locks.
    pub(in crate::client) fn arrives(&mut self, began: u64) {
        (self.began, self.locks) = (began, Locks::default());
    }

    /// The transaction has gone, and was not committed.
    pub(in crate::client) fn is_rolled_back(&mut self) {
        self.locks = Locks::default();
    }

    /// A statement of the transaction may change or lock something, or it does neither.
    pub(in crate::client) fn note_locks(&mut self, may_lock: bool) {
        self.locks.held |= may_lock;
    }

    /// The server was asked whether others wait for what the transaction holds. Returns true where it blocks them since then.
    pub(crate) fn note_others(&mut self, wait: bool) -> bool {
        std::mem::replace(&mut self.locks.awaited, wait) != wait && wait
    }

    /// The client holds nothing any longer.
    pub(crate) fn blocks_nobody(&mut self) {
        self.locks.awaited = false;
    }

    /// Says whether others wait for what the transaction holds.
    pub(crate) fn blocks_others(&self) -> bool {
        self.locks.awaited
    }

    /// Says whether the transaction may have changed or locked something.
    pub(crate) fn holds_locks(&self) -> bool {
        self.locks.held
    }

    /// Returns the place in the order of all arrivals at which the transaction began.
    pub(crate) fn began(&self) -> u64 {
        self.began
    }
}

/// A transaction that a client has begun, and no server knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unstarted {
    /// True for `START TRANSACTION READ ONLY`.
    read_only: bool,
    /// The flags that the answer to it has had.
    status: StatusFlags,
}

plain!(struct Unstarted { read_only, status });

impl Unstarted {
    /// Makes a transaction that was begun with an answer of these flags. `read_only` says whether it was a `START TRANSACTION READ ONLY`.
    pub(in crate::client) fn new(read_only: bool, status: StatusFlags) -> Self {
        Self { read_only, status }
    }

    /// Returns the text that begins the transaction on a server.
    pub(crate) fn text(self) -> &'static [u8] {
        if self.read_only { b"START TRANSACTION READ ONLY" } else { b"START TRANSACTION" }
    }

    /// Says whether the transaction may change nothing.
    pub(crate) fn only_reads(self) -> bool {
        self.status.contains(StatusFlags::IN_TRANS_READONLY)
    }

    /// Returns the status flags that tell of the transaction.
    pub(crate) fn status(self) -> StatusFlags {
        self.status
    }
}
