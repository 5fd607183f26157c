//! An answer to a question of the service account.

use super::Control;
use crate::learned::lock_waits::LockWaits;

/// Stored code of one kind, with all that the server says along with it: looking through so much takes some ten milliseconds of
/// the worker that does it.
const MOST_CODE: usize = 8 << 20;

/// An answer, kept whole.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) bytes: Vec<u8>,
    pub(crate) error: Option<String>,
    /// True of a question about stored code: an answer that is too long is left out.
    pub(crate) of_code: bool,
}

impl wire::ReplySink for Kept {
    fn relay(&mut self, bytes: &[u8]) {
        if self.of_code && self.bytes.len() + bytes.len() > MOST_CODE {
            self.bytes.clear();
            self.error.get_or_insert_with(|| String::from("there is too much of it"));
        } else if !(self.of_code && self.error.is_some()) {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn event(&mut self, event: wire::ReplyEvent<'_>) {
        if let wire::ReplyEvent::Err(error) = event {
            self.error = Some(format!("error {}: {}", error.code, String::from_utf8_lossy(error.message)));
        }
    }
}

impl Control {
    /// What has been found of lock waits; the next to be found are these.
    pub(crate) fn take_lock_waits(&mut self, next: LockWaits) -> LockWaits {
        std::mem::replace(&mut self.lock_waits, next)
    }
}
