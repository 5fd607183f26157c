//! Receiving, pausing, and the ends that come from the other side.

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, sockopt};
use seam::{CloseReason, ConnectionId, Input, Program};

use super::EpollDriver;
use super::connection::Phase;

impl EpollDriver {
    /// One `recv` for one readable connection; what is left comes in the next turn, after everybody else's.
    pub(super) fn receive<P: Program>(&mut self, id: ConnectionId, program: &mut P) {
        match self.receive_once(id) {
            Ok(0) => self.end(id, CloseReason::EndOfStream, program),
            Ok(length) => {
                let bytes = &self.receive_buffer[..length];
                program.handle(self.now, Input::Bytes { connection: id, bytes });
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => self.end(id, CloseReason::Failed(errno.raw_os_error()), program),
        }
    }

    /// Fills the buffer from a connection: how many bytes there were, 0 at the end of the stream.
    pub(super) fn receive_once(&mut self, id: ConnectionId) -> Result<usize, Errno> {
        let Some(connection) = self.connections.get(id) else { return Err(Errno::AGAIN) };
        self.counters.receives += 1;
        let (length, _) = recv(&connection.socket, &mut *self.receive_buffer, RecvFlags::DONTWAIT)?;
        self.counters.bytes_received += length as u64;
        Ok(length)
    }

    /// Stops asking for bytes. An end of stream behind unread bytes is not noticed until reading goes on; a reset is,
    /// and so is a peer that is gone altogether.
    pub(super) fn pause_reading(&mut self, id: ConnectionId) {
        self.change_reading(id, Phase::Reading, Phase::Paused);
    }

    /// Asks for bytes again.
    pub(super) fn resume_reading(&mut self, id: ConnectionId) {
        self.change_reading(id, Phase::Paused, Phase::Reading);
        self.change_reading(id, Phase::Parked, Phase::Reading);
    }

    /// Epoll reports these two without being asked, on every turn, so something has to be done about them.
    ///
    /// An error ends the connection. A hang-up without bytes left behind too; with bytes, the program has not read them
    /// yet, so the connection is parked until it does.
    pub(super) fn hang_up_while_paused<P: Program>(
        &mut self,
        id: ConnectionId,
        ready: EventFlags,
        program: &mut P,
    ) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.phase != Phase::Paused {
            return;
        }
        if ready.contains(EventFlags::ERR) {
            if let Ok(Err(errno)) | Err(errno) = sockopt::socket_error(&connection.socket) {
                return self.end(id, CloseReason::Failed(errno.raw_os_error()), program);
            }
        }
        let mut first = [0; 1];
        match recv(&connection.socket, &mut first, RecvFlags::DONTWAIT | RecvFlags::PEEK) {
            Ok((_, 0)) => self.end(id, CloseReason::EndOfStream, program),
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {
                connection.phase = Phase::Parked;
                self.watch(id);
            }
            Err(errno) => self.end(id, CloseReason::Failed(errno.raw_os_error()), program),
        }
    }

    /// Marks a connection as failed, to be reported at the start of the next turn: here the program may be in the middle
    /// of its outputs.
    pub(super) fn fail(&mut self, id: ConnectionId, errno: Errno) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        match connection.phase {
            Phase::Reading | Phase::Paused | Phase::Parked => {
                let was_reading = connection.phase == Phase::Reading;
                connection.phase = Phase::Failed { errno, was_reading };
                connection.unsent = None;
                self.notices.push_back(super::Notice::Failed { connection: id });
            }
            // Nobody is left to tell.
            Phase::Flushing(_) | Phase::Discarding { .. } => {
                self.connections.remove(id);
            }
            // Told already, or told by `finish_connecting`.
            Phase::Failed { .. } | Phase::Connecting { .. } => {}
        }
    }

    /// Reports a failed connection, after what the peer said last: a server explains in an error packet why it hangs up,
    /// and a send that fails is often how we find out. One buffer holds such a packet, and a peer that talks on and on
    /// is not heard out.
    pub(super) fn report_failure<P: Program>(&mut self, id: ConnectionId, program: &mut P) {
        let Some(connection) = self.connections.get(id) else { return };
        let Phase::Failed { errno, was_reading } = connection.phase else { return };
        if was_reading {
            if let Ok(length @ 1..) = self.receive_once(id) {
                let bytes = &self.receive_buffer[..length];
                program.handle(self.now, Input::Bytes { connection: id, bytes });
            }
        }
        self.end(id, CloseReason::Failed(errno.raw_os_error()), program);
    }

    /// Closes the socket and says so.
    fn end<P: Program>(&mut self, id: ConnectionId, reason: CloseReason, program: &mut P) {
        self.connections.remove(id);
        program.handle(self.now, Input::Closed { connection: id, reason });
    }

    fn change_reading(&mut self, id: ConnectionId, from: Phase, to: Phase) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.phase == from {
            connection.phase = to;
            self.watch(id);
        }
    }
}
