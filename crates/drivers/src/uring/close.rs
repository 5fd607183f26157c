//! Closing connections for the program, without losing what it sent last.
//!
//! Two things can keep the last bytes (often an error that explains the close) from the peer. The system may not have
//! taken them yet: then the connection is flushed first. And a socket that is closed with unread bytes sends a reset,
//! on which the peer's system throws away what its program has not read (RFC 9293 section 3.10.4; RFC 2525 section 2.17):
//! then our direction is shut down and the peer is heard out, its bytes discarded, until it closes too.
//!
//! A connection is gone from the table of connections when its last request has ended, so that no completion can be
//! taken for a successor's.

use std::io;

use rustix::io::Errno;
use seam::{ConnectionId, Instant};

use super::connection::{Connection, Phase, Receive};
use super::outbox::Asked;
use super::token::Request;
use super::{Nobody, UringDriver};
use crate::close_times::{CLOSE_STALL, Flush, HEARD_OUT};
use crate::slots::Slots;

impl UringDriver {
    /// Closes a connection once all is sent. The program hears no more of it.
    pub(super) fn close(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        match connection.phase {
            Phase::Reading | Phase::Paused { .. } => {
                connection.held = None;
                if connection.outbox.is_none() {
                    return self.hear_out(id);
                }
                let flush = Flush::begin(self.now, connection.unsent_bytes());
                connection.phase = Phase::Flushing(flush);
                self.close_deadlines.add(flush.deadline, id);
                self.list(id);
            }
            // The peer is gone; the program has not heard yet that it is.
            Phase::Failed { .. } => self.start_closing(id),
            _ => {}
        }
    }

    /// Closes a connection at once, with what was sent thrown away. The program hears no more of it.
    pub(super) fn abort(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(id) else { return };
        if connection.is_open() || matches!(connection.phase, Phase::Failed { .. }) {
            // Ahead of the close, which waits until no request uses the socket. A send that waits for room finds none any more.
            self.rings[usize::from(connection.ring)].disconnect(connection.file);
            self.start_closing(id);
        }
    }

    /// All is sent: asks whether the peer has said anything that was not read. If not, the connection is closed at once.
    pub(super) fn hear_out(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let deadline = self.now + CLOSE_STALL;
        connection.phase = Phase::Discarding { deadline, shut_down: false, heard: 0 };
        self.close_deadlines.add(deadline, id);
        if connection.receive == Receive::Armed {
            connection.receive = Receive::Cancelling;
            self.rings[usize::from(connection.ring)].cancel(Request::Receive, id);
        }
        self.discard(id, true);
    }

    /// Bytes have been thrown away, or there were none.
    pub(super) fn discarded(&mut self, id: ConnectionId, outcome: Result<usize, Errno>) {
        self.other_request_ended(id);
        let Some(connection) = self.connections.get_mut(id) else { return };
        let Phase::Discarding { shut_down, ref mut heard, .. } = connection.phase else { return };
        match outcome {
            Ok(length @ 1..) => {
                self.counters.bytes_received += length as u64;
                *heard += length;
                if *heard > HEARD_OUT {
                    return self.start_closing(id);
                }
                self.heard_while_closing(id);
                self.discard(id, false);
            }
            Err(Errno::INTR) => self.discard(id, !shut_down),
            // The bytes that shut it down came by the request to receive, and there are no more yet.
            Err(Errno::AGAIN) if shut_down => self.discard(id, false),
            _ => self.start_closing(id),
        }
    }

    /// The peer of a connection that is being closed has said something: it is told that nothing more comes, and heard.
    pub(super) fn heard_while_closing(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if let Phase::Discarding { deadline, shut_down: shut_down @ false, .. } = &mut connection.phase {
            *shut_down = true;
            *deadline = self.now + CLOSE_STALL;
            self.close_deadlines.add(*deadline, id);
            connection.others += 1;
            self.rings[usize::from(connection.ring)].shut_down(id, connection.file);
        }
    }

    /// Drops the connections whose time to close is over.
    pub(super) fn give_up_closing(&mut self) {
        let deadline =
            |connections: &Slots<Connection>, id| connections.get(id).and_then(Connection::close_deadline);
        while let Some(id) = self.close_deadlines.take_due(self.now, |id| deadline(&self.connections, id)) {
            let Some(connection) = self.connections.get_mut(id) else { continue };
            let left = connection.unsent_bytes();
            let again = match &connection.phase {
                Phase::Flushing(flush) => flush.again(self.now, left),
                _ => None,
            };
            if let Some(flush) = again {
                connection.phase = Phase::Flushing(flush);
                self.close_deadlines.add(flush.deadline, id);
            } else {
                self.counters.closes_abandoned += u64::from(left > 0);
                self.start_closing(id);
            }
        }
    }

    /// When to look at the closes again.
    pub(super) fn next_close_deadline(&mut self) -> Option<Instant> {
        self.close_deadlines.next(|id| self.connections.get(id).and_then(Connection::close_deadline))
    }

    /// Cancels what is under way for a connection and frees its place in the table.
    pub(super) fn start_closing(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let closing = Phase::Closing { _kept: None };
        let before = match std::mem::replace(&mut connection.phase, closing) {
            before @ (Phase::Connecting(_) | Phase::Identifying(_)) => Some(Box::new(before)),
            // Under way already.
            Phase::Closing { _kept: kept } => {
                connection.phase = Phase::Closing { _kept: kept };
                return;
            }
            _ => None,
        };
        connection.phase = Phase::Closing { _kept: before };
        connection.held = None;
        let ring = &mut self.rings[usize::from(connection.ring)];
        if connection.receive != Receive::Off {
            ring.cancel(Request::Receive, id);
        }
        let asked = connection.outbox.as_ref().map(|outbox| outbox.asked);
        if asked == Some(Asked::Aloud) {
            ring.cancel(Request::Send, id);
        }
        if connection.watched {
            ring.cancel(Request::HangUp, id);
        }
        if connection.others > 0 {
            // Those of the counted requests that may wait for the peer.
            for request in [Request::Connect, Request::Discard] {
                ring.cancel(request, id);
            }
        }
        connection.others += 1;
        ring.close(id, connection.file);
        if asked == Some(Asked::Nothing) {
            self.drop_outbox(id);
        }
    }

    /// One of those requests of a connection has ended that are only counted.
    pub(super) fn other_request_ended(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.others -= 1;
        }
        self.remove_if_done(id);
    }

    /// Forgets a connection that is closed and for which nothing is under way. Its place in the table is free only then: a request to shut
    /// the socket down is carried out by another thread of the kernel, which looks up there whose it is at that moment.
    pub(super) fn remove_if_done(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(id) else { return };
        if matches!(connection.phase, Phase::Closing { .. }) && !connection.has_requests() {
            let (ring, file) = (usize::from(connection.ring), connection.file);
            self.drop_outbox(id);
            self.connections.remove(id);
            self.rings[ring].files.give_back(file);
        }
    }

    /// After the program has finished: closes everything, and gives the closes under way the time that they have.
    /// [`seam::Signal::Drain`] or [`seam::Signal::Stop`] ends that too.
    pub(super) fn wind_down(&mut self) -> io::Result<()> {
        self.stop_listening();
        self.notices.clear();
        self.close_all(Connection::is_closing);
        let mut nobody = Nobody { signalled: false };
        while self.connections.len() > 0 || self.is_accepting() {
            self.prepare();
            let timeout = self.next_close_deadline().map(|deadline| deadline.since(self.clock.now()));
            let timeout = if self.deferred.is_empty() { timeout } else { Some(std::time::Duration::ZERO) };
            self.wait(timeout)?;
            self.hear(&mut nobody);
            if std::mem::take(&mut nobody.signalled) {
                self.close_all(|_| false);
            }
        }
        self.told = false;
        Ok(())
    }

    /// Closes the connections that `keep` does not want.
    fn close_all(&mut self, keep: impl Fn(&Connection) -> bool) {
        for id in self.connections.ids() {
            if self.connections.get(id).is_some_and(|connection| !keep(connection)) {
                self.start_closing(id);
            }
        }
    }

    fn discard(&mut self, id: ConnectionId, now: bool) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.others += 1;
        let room = &raw mut *self.discarded;
        // SAFETY: the room goes with the driver, after its rings, and nobody reads it.
        #[allow(unsafe_code, reason = "the request carries a pointer")]
        unsafe {
            self.rings[usize::from(connection.ring)].discard(id, connection.file, room, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Settings;
    use crate::uring::probe;

    const SECOND: Duration = Duration::from_secs(1);
    const UNSENT: usize = 100;

    #[test]
    fn a_peer_that_does_not_read_has_five_seconds() {
        let Some((mut driver, id)) = closing() else { return };
        driver.now = driver.now + 4 * SECOND;
        driver.give_up_closing();
        assert!(is_flushing(&driver, id));
        driver.now = driver.now + SECOND;
        driver.give_up_closing();
        assert!(!is_flushing(&driver, id));
        assert_eq!(driver.counters.closes_abandoned, 1);
        assert_eq!(driver.next_close_deadline(), None);
    }

    #[test]
    fn a_peer_that_reads_slowly_has_a_minute() {
        let Some((mut driver, id)) = closing() else { return };
        for second in (5..=60).step_by(5) {
            assert!(is_flushing(&driver, id), "given up before {second} seconds");
            let outbox = driver.connections.get_mut(id).and_then(|connection| connection.outbox.as_mut());
            outbox.unwrap().advance(1);
            driver.now = driver.now + 5 * SECOND;
            driver.give_up_closing();
        }
        assert!(!is_flushing(&driver, id));
        assert_eq!(driver.counters.closes_abandoned, 1);
    }

    #[test]
    fn a_peer_that_is_heard_out_has_five_seconds_from_there() {
        let Some((mut driver, id)) = closing() else { return };
        driver.now = driver.now + 4 * SECOND;
        driver.hear_out(id);
        driver.now = driver.now + 4 * SECOND;
        driver.heard_while_closing(id);
        driver.give_up_closing();
        driver.now = driver.now + 4 * SECOND;
        driver.give_up_closing();
        let phase = &driver.connections.get(id).unwrap().phase;
        assert!(matches!(phase, Phase::Discarding { shut_down: true, .. }), "{phase:?}");
        driver.now = driver.now + SECOND;
        driver.give_up_closing();
        let phase = &driver.connections.get(id).unwrap().phase;
        assert!(matches!(phase, Phase::Closing { .. }), "{phase:?}");
    }

    /// A driver whose requests nobody submits, with one connection that the program has closed with bytes unsent.
    fn closing() -> Option<(UringDriver, ConnectionId)> {
        if let Err(reason) = probe() {
            eprintln!("skipped: {reason}");
            return None;
        }
        let mut driver = UringDriver::new(Settings::default()).unwrap();
        let (ring, file) = driver.take_file().unwrap();
        let id = driver.connections.insert(Connection::new(ring, file, Phase::Reading)).unwrap();
        driver.send(id, &[0; UNSENT]);
        driver.close(id);
        Some((driver, id))
    }

    fn is_flushing(driver: &UringDriver, id: ConnectionId) -> bool {
        matches!(driver.connections.get(id).unwrap().phase, Phase::Flushing(_))
    }
}
