//! Sending: one request at a time for each connection.

use rustix::io::Errno;
use seam::{ConnectionId, Input, Program};

use super::UringDriver;
use super::connection::Phase;

impl UringDriver {
    /// Keeps the bytes until the turn is over; what a connection sends in one turn is one request.
    pub(super) fn send(&mut self, id: ConnectionId, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if bytes.is_empty() || !connection.is_open() {
            return;
        }
        let outbox = connection.outbox.get_or_insert_with(|| self.outboxes.take());
        let before = outbox.unsent();
        outbox.push(bytes);
        // Only those that pass the mark: the system may take them all before the program has to know.
        let high_water = self.settings.high_water;
        if !outbox.stalled && before <= high_water && outbox.unsent() > high_water {
            self.crowded.push(id);
        }
        if !outbox.in_flight {
            self.list(id);
        }
    }

    /// Asks for what is next to be sent, unless a request is under way.
    pub(super) fn send_next(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if !matches!(connection.phase, Phase::Reading | Phase::Paused { .. } | Phase::Flushing { .. }) {
            return;
        }
        let Some(outbox) = connection.outbox.as_mut().filter(|outbox| !outbox.in_flight) else { return };
        if outbox.next().is_empty() {
            return;
        }
        outbox.in_flight = true;
        self.counters.sends += 1;
        let ring = &mut self.rings[usize::from(connection.ring)];
        // SAFETY: these bytes neither move nor change until the outbox advances, and the outbox stays with the
        // connection until all its requests have ended.
        #[allow(unsafe_code, reason = "the request carries a pointer")]
        unsafe {
            ring.send(id, connection.file, outbox.next(), outbox.crowded);
        }
    }

    /// A request to send has ended.
    pub(super) fn sent<P: Program>(
        &mut self,
        id: ConnectionId,
        outcome: Result<usize, Errno>,
        program: &mut P,
    ) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let Some(outbox) = &mut connection.outbox else { return };
        let sent = match outcome {
            Ok(sent) => sent,
            Err(Errno::INTR | Errno::AGAIN) => 0,
            Err(errno) => {
                outbox.in_flight = false;
                self.drop_outbox(id);
                self.fail(id, errno);
                return self.remove_if_done(id);
            }
        };
        self.counters.bytes_sent += sent as u64;
        let was_crowded = outbox.crowded;
        outbox.advance(sent);
        let (left, was_stalled) = (outbox.unsent(), outbox.stalled);
        let is_drained = was_stalled && left <= self.settings.low_water;
        outbox.stalled = was_stalled && !is_drained;
        if let (Phase::Flushing { unsent, .. }, false) = (&mut connection.phase, was_crowded) {
            // Where there was room, the system took them: that says nothing about the peer.
            *unsent = left;
        }
        let is_open = connection.is_open();
        let is_flushed = left == 0 && matches!(connection.phase, Phase::Flushing { .. });
        if left == 0 {
            self.drop_outbox(id);
        } else {
            self.list(id);
        }
        if is_flushed {
            self.hear_out(id);
        }
        if is_open && is_drained {
            self.tell(program, Input::Drained { connection: id });
        } else if is_open && was_stalled {
            self.tell(program, Input::Stalled { connection: id });
        }
        self.remove_if_done(id);
    }

    /// Tells that a connection's peer does not keep up, unless the system has taken the bytes since.
    pub(super) fn report_stall<P: Program>(&mut self, id: ConnectionId, program: &mut P) {
        let Some(connection) = self.connections.get_mut(id).filter(|connection| connection.is_open()) else {
            return;
        };
        let Some(outbox) = &mut connection.outbox else { return };
        if outbox.unsent() > self.settings.high_water && !outbox.stalled {
            outbox.stalled = true;
            self.tell(program, Input::Stalled { connection: id });
        }
    }

    /// Puts a connection's outbox back into the pool, with what is in it.
    pub(super) fn drop_outbox(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if let Some(outbox) = connection.outbox.take() {
            self.outboxes.give_back(outbox);
        }
    }
}
