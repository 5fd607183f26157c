//! Peers that go while nobody reads.
//!
//! Requests ask for the meaning of a hang-up, since they take no descriptor: there may be none left.

use rustix::io::Errno;
use seam::{CloseReason, ConnectionId, Program};

use super::UringDriver;
use super::connection::{Connection, Phase};

impl UringDriver {
    /// The peer of a paused connection has hung up, or there is an error.
    ///
    /// An error ends the connection. A hang-up without bytes left behind too; with bytes, the program has not read them
    /// yet, so the connection is parked until it does.
    pub(super) fn hung_up(&mut self, id: ConnectionId, outcome: Result<usize, Errno>) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.watched = false;
        if let (Phase::Paused { .. }, Ok(events)) = (&connection.phase, outcome) {
            if events & libc::POLLERR as usize != 0 {
                self.ask_for_error(id);
            } else {
                self.look_for_bytes(id);
            }
        }
        self.list(id);
        self.remove_if_done(id);
    }

    /// The error of a socket is known.
    pub(super) fn told_error<P: Program>(
        &mut self,
        id: ConnectionId,
        outcome: Result<usize, Errno>,
        program: &mut P,
    ) {
        let error = self.socket_errors.remove(&id).map_or(0, |error| error.into_inner());
        self.other_request_ended(id);
        match outcome {
            Ok(_) if error == 0 => self.look_for_bytes(id),
            Ok(_) => self.broken(id, Errno::from_raw_os_error(error), program),
            Err(errno) => self.broken(id, errno, program),
        }
    }

    /// Takes in the answer: there is a byte, or something in its place.
    pub(super) fn peeked<P: Program>(
        &mut self,
        id: ConnectionId,
        outcome: Result<usize, Errno>,
        program: &mut P,
    ) {
        self.other_request_ended(id);
        let Some(connection) = self.connections.get_mut(id) else { return };
        match (outcome, &mut connection.phase) {
            (Ok(0), Phase::Paused { .. }) => self.end(id, CloseReason::EndOfStream, program),
            (Ok(_) | Err(Errno::AGAIN | Errno::INTR), Phase::Paused { parked }) => *parked = true,
            // It reads again, and will find out.
            (Ok(_) | Err(Errno::AGAIN | Errno::INTR), _) => {}
            (Err(errno), _) => self.broken(id, errno, program),
        }
    }

    /// The socket had an error, and has it no longer now that we know of it.
    fn broken<P: Program>(&mut self, id: ConnectionId, errno: Errno, program: &mut P) {
        match self.connections.get(id).map(|connection| &connection.phase) {
            Some(Phase::Paused { .. }) => self.end(id, CloseReason::Failed(errno.raw_os_error()), program),
            // Resumed meanwhile: what the peer said last comes first.
            Some(Phase::Reading) => self.fail(id, errno),
            _ => {}
        }
    }

    fn ask_for_error(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.others += 1;
        let room = self.socket_errors.entry(id).or_default().get();
        // SAFETY: the box stays until the completion has been taken, and nobody looks into it before.
        #[allow(unsafe_code, reason = "the request carries a pointer")]
        unsafe {
            self.rings[usize::from(connection.ring)].socket_error(id, connection.file, room);
        }
    }

    /// Parks a paused connection that has left bytes behind; for one whose bytes nobody has received yet, asks.
    fn look_for_bytes(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let has_bytes = connection.held.as_ref().is_some_and(|held| !held.unread().is_empty());
        let Connection { phase: Phase::Paused { parked }, .. } = connection else { return };
        if has_bytes {
            *parked = true;
            return;
        }
        connection.others += 1;
        let room = (&raw mut *self.discarded).cast();
        // SAFETY: the room goes with the driver, after its rings, and nobody reads it.
        #[allow(unsafe_code, reason = "the request carries a pointer")]
        unsafe {
            self.rings[usize::from(connection.ring)].peek(id, connection.file, room);
        }
    }
}
