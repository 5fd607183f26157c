//! Sending, and keeping what the system does not take.

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendFlags, send};
use seam::{ConnectionId, Input, Program};

use super::connection::Connection;
use super::{EpollDriver, Notice};
use crate::Counters;

impl EpollDriver {
    /// Sends at once if nothing waits before it; keeps what is left.
    pub(super) fn send(&mut self, id: ConnectionId, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if bytes.is_empty() || !connection.is_open() {
            return;
        }
        let mut rest = bytes;
        if connection.unsent.is_none() {
            match send_once(connection, bytes, &mut self.counters) {
                Ok(sent) if sent == bytes.len() => return,
                Ok(sent) => rest = &bytes[sent..],
                Err(Errno::AGAIN) => {}
                Err(errno) => return self.fail(id, errno),
            }
        }
        let unsent = connection.unsent.get_or_insert_default();
        unsent.bytes.extend(rest);
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
