//! The bytes that a client has sent ahead of their turn.

use std::ops::Deref;

use zeroize::Zeroize;

/// Bytes from which on the buffer of a command grows by a part of itself, and does not double. The allocator moves so much without copying it.
const DOUBLES_UP_TO: usize = 1 << 20;
const GROWS_BY: usize = 8;

/// Bytes of a client that nobody has read yet. Most clients have none, and take little room for them.
#[derive(Debug, Default)]
pub(crate) struct SentAhead(Option<Box<Unread>>);

/// A compressed packet of 16 KiB can open to 16 MiB of short commands, and one command is read at a time. The bytes
/// behind it are moved up only once more than half of all are read, so that each byte is moved once.
#[derive(Debug, Default)]
struct Unread {
    bytes: Vec<u8>,
    /// Bytes that are read: at most half of all.
    read: usize,
}

impl SentAhead {
    pub(in crate::client) fn of(bytes: Vec<u8>) -> Self {
        Self((!bytes.is_empty()).then(|| Box::new(Unread { bytes, read: 0 })))
    }

    /// Takes in more bytes.
    pub(in crate::client) fn push(&mut self, more: &[u8]) {
        let unread = self.0.get_or_insert_default();
        unread.make_room(more.len());
        unread.bytes.extend_from_slice(more);
    }

    /// Passes the first bytes, which are read.
    pub(in crate::client) fn pass(&mut self, count: usize) {
        let Some(unread) = &mut self.0 else { return };
        unread.read += count;
        if unread.read > unread.bytes.len() / 2 {
            unread.forget_read();
        }
    }

    /// Overwrites the first bytes: a password may be among them.
    pub(in crate::client) fn wipe(&mut self, count: usize) {
        if let Some(unread) = &mut self.0 {
            unread.bytes[unread.read..][..count].zeroize();
        }
    }

    /// Returns the first bytes, in the memory where they are, and the bytes behind them.
    pub(in crate::client) fn split(self, count: usize) -> (Vec<u8>, Self) {
        let mut first = self.into_bytes();
        let behind = first.split_off(count);
        (first, Self::of(behind))
    }

    /// Returns all bytes that are not read.
    pub(in crate::client) fn into_bytes(self) -> Vec<u8> {
        self.0.map_or(Vec::new(), |mut unread| {
            unread.forget_read();
            unread.bytes
        })
    }

    /// Returns how many bytes there is memory for, read ones included.
    pub(crate) fn capacity(&self) -> usize {
        self.0.as_ref().map_or(0, |unread| unread.bytes.capacity())
    }
}

impl Unread {
    fn forget_read(&mut self) {
        self.bytes.drain(..std::mem::take(&mut self.read));
    }

    /// Makes room for what has come of a command, and for no more than what its headers say will come.
    fn make_room(&mut self, more: usize) {
        if self.bytes.capacity() - self.bytes.len() >= more {
            return;
        }
        self.forget_read();
        let length = self.bytes.len();
        let room = if length < DOUBLES_UP_TO { length } else { length / GROWS_BY };
        let to_come =
            wire::message_len_hint(&self.bytes).map_or(more, |needed| needed.saturating_sub(length));
        self.bytes.reserve_exact(more.max(room.min(to_come)));
    }
}

impl Deref for SentAhead {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |unread| &unread.bytes[unread.read..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_of(ahead: &SentAhead) -> usize {
        ahead.0.as_ref().map_or(0, |unread| unread.read)
    }

    #[test]
    fn what_is_read_is_no_more_there_and_stays_in_memory_for_a_while() {
        let mut ahead = SentAhead::of((0..10).collect());
        ahead.pass(4);
        assert_eq!((&ahead[..], read_of(&ahead)), (&[4, 5, 6, 7, 8, 9][..], 4));
        ahead.push(&[10, 11]);
        assert_eq!(
            (&ahead[..], read_of(&ahead)),
            (&[4, 5, 6, 7, 8, 9, 10, 11][..], 0),
            "it had to be moved anyway"
        );
        ahead.pass(3);
        assert_eq!((&ahead[..], read_of(&ahead)), (&[7, 8, 9, 10, 11][..], 3));
        ahead.pass(1);
        let (first, behind) = ahead.split(3);
        assert_eq!((&first[..], &behind[..]), (&[8, 9, 10][..], &[11][..]));
    }

    #[test]
    fn each_byte_is_moved_once_however_short_commands_are() {
        let mut ahead = SentAhead::of(vec![0; 1 << 20]);
        let mut moved = 0;
        while !ahead.is_empty() {
            let before = read_of(&ahead);
            ahead.pass(1);
            moved += if read_of(&ahead) <= before { ahead.len() } else { 0 };
        }
        assert!(moved <= 1 << 20, "{moved}");
    }

    #[test]
    fn a_password_is_overwritten_where_it_is() {
        let mut ahead = SentAhead::of(vec![7; 10]);
        ahead.pass(2);
        ahead.wipe(3);
        assert_eq!(ahead.0.unwrap().bytes, [7, 7, 0, 0, 0, 7, 7, 7, 7, 7]);
    }
}
