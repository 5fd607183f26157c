//! Statements that are on their way to a replica, or there.

use std::fmt;

use seam::Instant;
use sql::RowsFound;

use crate::client::memory::bytes_held::Counted;
use crate::request::{About, Request, TEXT_AT};

/// A client with a statement that is on its way to a replica, or there.
pub(crate) struct Lent {
    pub(super) at: At,
    pub(super) since: Instant,
    /// The sequence number of its answer.
    pub(super) answer: u8,
    /// The statement as the client has sent it, for the primary; empty while [`At::Waiting`] has it.
    pub(super) raw: Vec<u8>,
    /// The prepared statement that the client executes, and what is known of its rows; `None` for a text.
    pub(super) about: Option<(About, RowsFound)>,
    pub(super) counted: Counted,
}

/// The place of a statement that is on its way.
pub(super) enum At {
    /// The statement waits for a replica to have what it needs, under this number.
    Waiting { request: Box<Request>, number: u64 },
    /// The reader at this place has it.
    Reader(usize),
}

impl fmt::Debug for Lent {
    /// Writes the client's state without the statement.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            At::Waiting { .. } => write!(f, "Lent(waits since {:?})", self.since),
            At::Reader(place) => write!(f, "Lent(to {place} since {:?})", self.since),
        }
    }
}

impl Lent {
    /// The statement's part of `statement_memory`.
    pub(crate) fn counted(&self) -> &Counted {
        &self.counted
    }

    /// The place of the reader that has it; `None` while it waits for one.
    pub(crate) fn place(&self) -> Option<usize> {
        match self.at {
            At::Waiting { .. } => None,
            At::Reader(place) => Some(place),
        }
    }

    /// The time since which the statement has been on its way.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// The statement's text, where it came with one.
    pub(crate) fn text(&self) -> Option<&[u8]> {
        let (raw, is_execution) = match &self.at {
            At::Waiting { request, .. } => (&request.raw, request.about.is_some()),
            At::Reader(_) => (&self.raw, self.about.is_some()),
        };
        raw.get(TEXT_AT..).filter(|_| !is_execution)
    }

    /// The digest of the statement, while that waits.
    pub(crate) fn fingerprint(&self) -> Option<u64> {
        match &self.at {
            At::Waiting { request, .. } => Some(request.statement.fingerprint).filter(|&it| it != 0),
            At::Reader(_) => None,
        }
    }

    /// Bytes on the heap, the struct included.
    pub(crate) fn bytes(&self) -> usize {
        let waiting = match &self.at {
            At::Waiting { request, .. } => size_of_val(&**request) + request.raw.capacity(),
            At::Reader(_) => 0,
        };
        size_of::<Self>() + self.raw.capacity() + waiting
    }
}
