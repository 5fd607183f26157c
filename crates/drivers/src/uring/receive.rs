//! Receiving, pausing, and the ends that come from the other side.

use rustix::io::Errno;
use seam::{CloseReason, ConnectionId, Input, Program};

use super::connection::{Connection, Given, Phase, Receive};
use super::ring::Completion;
use super::token::Request;
use super::{Notice, UringDriver};

/// Something that arrived and that its connection has had too much before to hear of in this turn.
#[derive(Debug)]
pub(super) struct Deferred {
    connection: ConnectionId,
    arrival: Arrival,
}

/// The thing that came from the other side.
#[derive(Clone, Copy, Debug)]
enum Arrival {
    /// In a buffer that is to be given back.
    Bytes {
        ring: u16,
        buffer: u16,
        length: usize,
    },
    End(CloseReason),
}

/// The treatment of an arrival.
enum Fate {
    Given,
    /// Until the next turn.
    Deferred,
    /// Until the connection is resumed.
    Held,
    Dropped,
}

impl UringDriver {
    /// The request to receive has brought something, or has ended.
    pub(super) fn received<P: Program>(
        &mut self,
        id: ConnectionId,
        completion: &Completion,
        program: &mut P,
    ) {
        let has_ended = !completion.more();
        if let Some(connection) = self.connections.get_mut(id).filter(|_| has_ended) {
            if let (Phase::Failed { heard, .. }, Receive::Last) = (&mut connection.phase, connection.receive)
            {
                *heard = match completion.outcome() {
                    Ok(length @ 1..) => heard.saturating_add(length),
                    // There was no buffer, or nothing was tried: it is asked for again.
                    Err(Errno::NOBUFS | Errno::INTR) => *heard,
                    Ok(_) | Err(_) => usize::MAX,
                };
            }
            connection.receive = Receive::Off;
        }
        match (completion.outcome(), completion.buffer()) {
            (Ok(length @ 1..), Some(buffer)) => {
                self.counters.receives += 1;
                self.counters.bytes_received += length as u64;
                self.counters.rearms += u64::from(has_ended);
                self.arrive(id, Arrival::Bytes { ring: completion.ring, buffer, length }, program);
            }
            (Ok(_), buffer) => {
                if let Some(buffer) = buffer {
                    self.rings[usize::from(completion.ring)].buffers.give_back(buffer);
                }
                self.arrive(id, Arrival::End(CloseReason::EndOfStream), program);
            }
            (Err(Errno::NOBUFS), _) => {
                self.counters.buffers_exhausted += 1;
                self.counters.rearms += 1;
            }
            (Err(Errno::CANCELED | Errno::INTR | Errno::AGAIN), _) => {}
            (Err(errno), _) => {
                self.arrive(id, Arrival::End(CloseReason::Failed(errno.raw_os_error())), program);
            }
        }
        if has_ended {
            self.list(id);
            self.remove_if_done(id);
        }
    }

    /// Tells what was left over from the turn before, as far as each connection's share of this turn goes.
    pub(super) fn deliver_deferred<P: Program>(&mut self, program: &mut P) {
        for _ in 0..self.deferred.len() {
            let Some(Deferred { connection: id, arrival }) = self.deferred.pop_front() else { return };
            if let Some(connection) = self.connections.get_mut(id) {
                connection.deferred -= 1;
            }
            self.arrive(id, arrival, program);
            // The request to receive may have ended behind it.
            self.list(id);
        }
    }

    /// Stops giving bytes. An end of stream behind unread bytes is not noticed until reading goes on; a reset is, and so
    /// is a peer that is gone altogether.
    pub(super) fn pause_reading(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if let Phase::Reading = connection.phase {
            connection.phase = Phase::Paused { parked: false };
            self.list(id);
        }
    }

    /// Gives bytes again, first those that came meanwhile.
    pub(super) fn resume_reading(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if let Phase::Paused { .. } = connection.phase {
            connection.phase = Phase::Reading;
            if let Some(held) = connection.held.as_mut().filter(|held| !held.noticed) {
                held.noticed = true;
                self.notices.push_back(Notice::Resumed { connection: id });
            }
            self.list(id);
        }
    }

    /// Gives what came while a connection was paused: in each turn as much as of anything else, and its end in a turn of
    /// its own, as [`fate`] does with what comes now.
    pub(super) fn give_held<P: Program>(&mut self, id: ConnectionId, program: &mut P) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let Some(mut held) = connection.held.take() else { return };
        held.noticed = false;
        if !matches!(connection.phase, Phase::Reading | Phase::Failed { was_reading: true, .. }) {
            connection.held = Some(held);
            return;
        }
        let share = held.unread().len().min(self.settings.receive_buffer);
        if share > 0 {
            let bytes = u32::try_from(share).unwrap_or(u32::MAX);
            connection.given = Given { turn: self.turn, bytes };
            self.tell(program, Input::Bytes { connection: id, bytes: &held.unread()[..share] });
            held.given += share;
        } else if let Some(reason) = held.end {
            return self.end(id, reason, program);
        }
        let is_done = held.unread().is_empty() && held.end.is_none();
        if let Some(connection) = self.connections.get_mut(id).filter(|_| !is_done) {
            held.noticed = true;
            connection.held = Some(held);
            self.notices.push_back(Notice::Resumed { connection: id });
        }
        self.list(id);
    }

    /// Marks a connection as failed, to be reported in a later turn, after what the peer said last: a server explains in
    /// an error packet why it hangs up, and a send that fails is often how we find out. What it said may be waiting behind
    /// the arrivals of others, or not be received at all yet, for want of a buffer.
    pub(super) fn fail(&mut self, id: ConnectionId, errno: Errno) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        match connection.phase {
            Phase::Reading | Phase::Paused { .. } => {
                let was_reading = matches!(connection.phase, Phase::Reading);
                connection.phase = Phase::Failed { errno, was_reading, heard: 0 };
                if was_reading {
                    self.list(id);
                } else {
                    self.failed.push(id);
                }
            }
            // Nobody is left to tell.
            Phase::Flushing(_) | Phase::Discarding { .. } => self.start_closing(id),
            _ => {}
        }
    }

    /// Reports a failed connection.
    pub(super) fn report_failure<P: Program>(&mut self, id: ConnectionId, program: &mut P) {
        let Some(connection) = self.connections.get(id) else { return };
        let Phase::Failed { errno, .. } = connection.phase else { return };
        self.end(id, CloseReason::Failed(errno.raw_os_error()), program);
    }

    /// Brings a connection's requests in line with what the program wants of it.
    pub(super) fn align(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.listed = false;
        let ring = &mut self.rings[usize::from(connection.ring)];
        match (&connection.phase, connection.receive) {
            (Phase::Reading, Receive::Off) if connection.deferred == 0 && connection.held.is_none() => {
                connection.receive = Receive::Armed;
                ring.receive(id, connection.file);
            }
            (Phase::Paused { parked: false }, Receive::Off)
                if !connection.watched && connection.others == 0 =>
            {
                connection.watched = true;
                ring.watch_hang_up(id, connection.file);
            }
            (Phase::Failed { was_reading: true, heard, .. }, Receive::Off)
                if connection.deferred == 0 && connection.held.is_none() =>
            {
                // A peer that talks on and on is not heard out: it has as much as in a turn.
                if *heard >= self.settings.receive_buffer {
                    self.failed.push(id);
                } else {
                    connection.receive = Receive::Last;
                    ring.receive_last(id, connection.file);
                }
            }
            (
                Phase::Paused { .. }
                | Phase::Failed { was_reading: true, .. }
                | Phase::Flushing(_)
                | Phase::Discarding { .. },
                Receive::Armed,
            ) => {
                connection.receive = Receive::Cancelling;
                ring.cancel(Request::Receive, id);
            }
            _ => {}
        }
        self.send_next(id);
    }

    /// Tells that a connection has ended, and closes it.
    pub(super) fn end<P: Program>(&mut self, id: ConnectionId, reason: CloseReason, program: &mut P) {
        self.start_closing(id);
        self.tell(program, Input::Closed { connection: id, reason });
    }

    fn arrive<P: Program>(&mut self, id: ConnectionId, arrival: Arrival, program: &mut P) {
        let limit = self.settings.receive_buffer;
        let fate = match self.connections.get_mut(id) {
            Some(connection) => fate(connection, arrival, self.turn, limit),
            None => Fate::Dropped,
        };
        match (fate, arrival) {
            (Fate::Given, Arrival::Bytes { ring, buffer, length }) => {
                let buffers = &mut self.rings[usize::from(ring)].buffers;
                let bytes = buffers.filled(buffer, length);
                self.told = true;
                program.handle(self.now, Input::Bytes { connection: id, bytes });
                buffers.give_back(buffer);
            }
            (Fate::Given, Arrival::End(reason)) => self.end(id, reason, program),
            (Fate::Deferred, _) => {
                let Some(connection) = self.connections.get_mut(id) else { return };
                connection.deferred += 1;
                self.deferred.push_back(Deferred { connection: id, arrival });
            }
            (Fate::Held, _) => self.hold(id, arrival),
            (Fate::Dropped, Arrival::Bytes { ring, buffer, .. }) => {
                self.rings[usize::from(ring)].buffers.give_back(buffer);
                self.heard_while_closing(id);
            }
            (Fate::Dropped, Arrival::End(_)) => {}
        }
    }

    fn hold(&mut self, id: ConnectionId, arrival: Arrival) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let held = connection.held.get_or_insert_default();
        match arrival {
            Arrival::Bytes { ring, buffer, length } => {
                let buffers = &mut self.rings[usize::from(ring)].buffers;
                held.bytes.extend_from_slice(buffers.filled(buffer, length));
                buffers.give_back(buffer);
            }
            Arrival::End(reason) => held.end = Some(reason),
        }
    }
}

/// In one turn a connection is given no more than the settings say, so that others have theirs, and its end only where
/// it was given nothing else: what the program does about the last bytes comes first.
fn fate(connection: &mut Connection, arrival: Arrival, turn: u32, limit: usize) -> Fate {
    let is_error = matches!(arrival, Arrival::End(CloseReason::Failed(_)));
    match (&connection.phase, arrival) {
        (Phase::Reading, _) | (Phase::Failed { was_reading: true, .. }, Arrival::Bytes { .. })
            if connection.held.is_some() =>
        {
            return Fate::Held;
        }
        (Phase::Paused { .. }, _) => return if is_error { Fate::Given } else { Fate::Held },
        (Phase::Reading, _) | (Phase::Failed { was_reading: true, .. }, Arrival::Bytes { .. }) => {}
        _ => return Fate::Dropped,
    }
    let given = &mut connection.given;
    if given.turn != turn {
        given.turn = turn;
        given.bytes = 0;
    }
    let all = match arrival {
        Arrival::Bytes { length, .. } => length.saturating_add(given.bytes as usize),
        Arrival::End(_) => usize::MAX,
    };
    if given.bytes == 0 || all <= limit {
        given.bytes = u32::try_from(all).unwrap_or(u32::MAX);
        Fate::Given
    } else {
        // What comes behind it in this turn has to stay behind it.
        given.bytes = u32::MAX;
        Fate::Deferred
    }
}
