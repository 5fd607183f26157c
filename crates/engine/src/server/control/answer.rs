//! An answer to a question of the service account.

use std::fmt;

/// Stored code of one kind, with all that the server says along with it: looking through so much takes some ten milliseconds of
/// the worker that does it.
pub(crate) const MOST_CODE: usize = 8 << 20;

/// An answer, kept whole.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) bytes: Vec<u8>,
    pub(crate) error: Option<NoAnswer>,
    /// True of a question about stored code: an answer that is too long is left out.
    pub(super) of_code: bool,
}

/// The reason why a question has no answer, although the connection is fine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The server refuses it, as it does where the service account lacks a right.
    Refused {
        /// The server's number for that.
        code: u16,
        /// The server's words.
        message: String,
    },
    /// Stored code with more than [`MOST_CODE`].
    TooLong,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { code, message } => write!(f, "error {code}: {message}"),
            Self::TooLong => f.write_str("there is too much of it"),
        }
    }
}

impl wire::ReplySink for Kept {
    fn relay(&mut self, bytes: &[u8]) {
        if self.of_code && self.bytes.len() + bytes.len() > MOST_CODE {
            self.bytes.clear();
            self.error.get_or_insert(NoAnswer::TooLong);
        } else if !(self.of_code && self.error.is_some()) {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn event(&mut self, event: wire::ReplyEvent<'_>) {
        if let wire::ReplyEvent::Err(error) = event {
            let message = String::from_utf8_lossy(error.message).into_owned();
            self.error = Some(NoAnswer::Refused { code: error.code, message });
        }
    }
}
