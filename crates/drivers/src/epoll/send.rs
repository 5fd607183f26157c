//! Sending, and keeping what the system does not take.

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendFlags, send};
use seam::{ConnectionId, Input, Program};

use super::connection::{Connection, Unsent};
use super::{EpollDriver, Notice};
use crate::Counters;

impl EpollDriver {
    /// Sends at once if nothing waits before it; keeps what is left.
    pub(super) fn send(&mut self, id: ConnectionId, bytes: &[u8]) {
        if let Some(sent) = self.send_now(id, bytes) {
            self.keep(id, |unsent| unsent.bytes.extend(&bytes[sent..]));
        }
    }

    /// The same with bytes that are ours to keep.
    pub(super) fn send_whole(&mut self, id: ConnectionId, bytes: Vec<u8>) {
        let Some(sent) = self.send_now(id, &bytes) else { return };
        self.keep(id, |unsent| {
            if unsent.bytes.is_empty() {
                // No copy: a vector becomes a ring as it is, and its front goes by moving the beginning.
                unsent.bytes = bytes.into();
                unsent.bytes.drain(..sent);
            } else {
                unsent.bytes.extend(&bytes[sent..]);
            }
        });
    }

    /// How many bytes the system has taken at once, where some are left to be kept.
    fn send_now(&mut self, id: ConnectionId, bytes: &[u8]) -> Option<usize> {
        let connection = self.connections.get_mut(id).filter(|connection| connection.is_open())?;
        if bytes.is_empty() {
            return None;
        }
        if connection.unsent.is_some() {
            return Some(0);
        }
        match send_once(connection, bytes, &mut self.counters) {
            Ok(sent) if sent == bytes.len() => None,
            Ok(sent) => Some(sent),
            Err(Errno::AGAIN) => Some(0),
            Err(errno) => {
                self.fail(id, errno);
                None
            }
        }
    }

    fn keep(&mut self, id: ConnectionId, keep: impl FnOnce(&mut Unsent)) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let unsent = connection.unsent.get_or_insert_default();
        keep(unsent);
        if !unsent.stalled && unsent.bytes.len() > self.settings.high_water {
            unsent.stalled = true;
            self.notices.push_back(Notice::Stalled { connection: id });
        }
        self.watch(id);
    }

    /// Sends what is kept, as far as the system takes it.
    pub(super) fn flush<P: Program>(&mut self, id: ConnectionId, program: &mut P) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if !connection.is_open() {
            return;
        }
        if let Err(errno) = send_unsent(connection, &mut self.counters) {
            return self.fail(id, errno);
        }
        let left = connection.unsent_bytes();
        let drained = left <= self.settings.low_water
            && connection.unsent.as_mut().is_some_and(|unsent| std::mem::take(&mut unsent.stalled));
        if left == 0 {
            connection.unsent = None;
            self.watch(id);
        }
        let slow = connection_is_stalled(self.connections.get_mut(id));
        if slow {
            program.handle(self.now, Input::Stalled { connection: id });
        }
        if drained {
            program.handle(self.now, Input::Drained { connection: id });
        }
    }
}

fn connection_is_stalled(connection: Option<&mut Connection>) -> bool {
    connection.and_then(|connection| connection.unsent.as_ref()).is_some_and(|unsent| unsent.stalled)
}

/// Sends from the kept bytes until the system takes no more, and leaves what it did not take.
pub(super) fn send_unsent(connection: &mut Connection, counters: &mut Counters) -> Result<(), Errno> {
    let Some(mut unsent) = connection.unsent.take() else { return Ok(()) };
    let mut result = Ok(());
    // At most two rounds take all: the bytes lie in a ring.
    while let (piece @ [_, ..], _) = unsent.bytes.as_slices() {
        let length = piece.len();
        match send_once(connection, piece, counters) {
            Ok(sent) => {
                unsent.bytes.drain(..sent);
                if sent < length {
                    break;
                }
            }
            Err(Errno::AGAIN) => break,
            Err(errno) => {
                result = Err(errno);
                break;
            }
        }
    }
    connection.unsent = Some(unsent);
    result
}

/// One `send`; without a signal to the process where the peer has gone.
fn send_once(connection: &Connection, bytes: &[u8], counters: &mut Counters) -> Result<usize, Errno> {
    counters.sends += 1;
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = retry_on_intr(|| send(&connection.socket, bytes, flags))?;
    counters.bytes_sent += sent as u64;
    Ok(sent)
}
