//! Errors in bytes from a peer.

use std::fmt;

/// Bytes that this crate cannot take. The peer is at fault in all of them but [`Self::TooLarge`], which says that a
/// bound of the reader was reached. The connection is of no use afterwards: the position in the stream is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The packet ends before a field of it does.
    Truncated {
        /// The packet that was read.
        what: &'static str,
    },
    /// A field holds something that the protocol does not allow there.
    Malformed {
        /// The part that was wrong.
        what: &'static str,
    },
    /// The packets are not counted up one by one: bytes were lost or belong to something else.
    WrongSequence {
        /// The number that was due.
        expected: u8,
        /// The number in the header.
        found: u8,
    },
    /// Correct, but from a version of the protocol that this crate does not speak (before 4.1).
    Unsupported {
        /// The field that was asked for.
        what: &'static str,
    },
    /// A message is longer than the reader was told to take.
    TooLarge {
        /// The bound, in bytes of payload.
        limit: usize,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { what } => write!(f, "{what} ends too early"),
            Self::Malformed { what } => write!(f, "malformed packet: {what}"),
            Self::WrongSequence { expected, found } => {
                write!(f, "packets out of order: number {expected} was due, {found} came")
            }
            Self::Unsupported { what } => write!(f, "not supported: {what}"),
            Self::TooLarge { limit } => write!(f, "message is larger than {limit} bytes"),
        }
    }
}

impl std::error::Error for WireError {}
