//! Closing connections for the program, without losing what it sent last.
//!
//! Two things can keep the last bytes (often an error that explains the close) from the peer. The system may not have
//! taken them yet: then the connection is flushed first. And a socket that is closed with unread bytes sends a reset,
//! on which the peer's system throws away what its program has not read (RFC 9293 section 3.10.4; RFC 2525 section 2.17):
//! then our direction is shut down and the peer is heard out, its bytes discarded, until it closes too.

use std::io;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{Shutdown, connect_unspec, shutdown};
use seam::{ConnectionId, Instant, Signal};

use super::EpollDriver;
use super::connection::{Connection, Phase};
use super::send::send_unsent;
use super::token::Token;
use crate::close_times::{CLOSE_STALL, Flush, HEARD_OUT};
use crate::slots::Slots;

impl EpollDriver {
    /// Closes a connection once all is sent. The program hears no more of it.
    pub(super) fn close(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        match connection.phase {
            Phase::Reading | Phase::Paused if connection.unsent.is_some() => {
                let flush = Flush::begin(self.now, connection.unsent_bytes());
                connection.phase = Phase::Flushing(flush);
                self.close_deadlines.add(flush.deadline, id);
                self.watch(id);
            }
            Phase::Reading | Phase::Paused => self.finish_closing(id),
            // The peer is gone, or the program has not heard yet that it is.
            Phase::Parked | Phase::Failed { .. } => {
                self.connections.remove(id);
            }
            Phase::Connecting { .. } | Phase::Flushing(_) | Phase::Discarding { .. } => {}
        }
    }

    /// Closes a connection at once, with what was sent thrown away. The program hears no more of it.
    pub(super) fn abort(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(id) else { return };
        match connection.phase {
            Phase::Reading | Phase::Paused | Phase::Parked | Phase::Failed { .. } => {
                // What TCP has queued is thrown away with it (tcp_disconnect in net/ipv4/tcp.c). A Unix socket refuses, and has queued nothing:
                // its bytes are with the peer.
                let _ = connect_unspec(&connection.socket);
                self.connections.remove(id);
            }
            // None of the program's yet, or no more.
            Phase::Connecting { .. } | Phase::Flushing(_) | Phase::Discarding { .. } => {}
        }
    }

    /// Goes on with a close.
    pub(super) fn closing_ready(&mut self, id: ConnectionId, ready: EventFlags) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if let Phase::Discarding { .. } = connection.phase {
            return self.finish_closing(id);
        }
        let result = send_unsent(connection, &mut self.counters);
        let gone = result.is_err() || ready.intersects(EventFlags::HUP | EventFlags::ERR);
        if gone {
            self.connections.remove(id);
        } else if connection.unsent_bytes() == 0 {
            connection.unsent = None;
            self.finish_closing(id);
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
                self.connections.remove(id);
            }
        }
    }

    /// When to look at the closes again.
    pub(super) fn next_close_deadline(&mut self) -> Option<Instant> {
        self.close_deadlines.next(|id| self.connections.get(id).and_then(Connection::close_deadline))
    }

    /// After the program has finished: closes everything, and gives the closes under way the time that they have.
    /// [`Signal::Drain`] or [`Signal::Stop`] ends that too.
    pub(super) fn wind_down(&mut self) -> io::Result<()> {
        self.stop_listening();
        self.notices.clear();
        self.connections.retain(Connection::is_closing);
        while let Some(deadline) = self.next_close_deadline() {
            self.wait(Some(deadline.since(self.clock.now())))?;
            let events = std::mem::take(&mut self.events);
            for event in &events {
                match Token::from(event.data) {
                    Token::Connection(id) => self.closing_ready(id, event.flags),
                    Token::Signal => {
                        // Other workers' wakes and reports may still come.
                        let signals = self.mailbox.take();
                        if signals.iter().any(|signal| matches!(signal, Signal::Drain | Signal::Stop)) {
                            self.connections.retain(|_| false);
                        }
                    }
                    Token::Listener(_) => {}
                }
            }
            self.events = events;
            self.give_up_closing();
        }
        Ok(())
    }

    /// All is sent: closes at once if the peer is silent or done, else hears it out.
    fn finish_closing(&mut self, id: ConnectionId) {
        let heard = self.receive_once(id);
        let Some(connection) = self.connections.get_mut(id) else { return };
        match (&mut connection.phase, heard) {
            (Phase::Discarding { heard, .. }, Ok(length @ 1..)) if *heard + length <= HEARD_OUT => {
                *heard += length;
            }
            (Phase::Discarding { .. }, Err(Errno::AGAIN | Errno::INTR)) => {}
            (Phase::Discarding { .. }, _) => {
                self.connections.remove(id);
            }
            (_, Ok(1..)) if shutdown(&connection.socket, Shutdown::Write).is_ok() => {
                let deadline = self.now + CLOSE_STALL;
                connection.phase = Phase::Discarding { deadline, heard: 0 };
                self.close_deadlines.add(deadline, id);
                self.watch(id);
            }
            _ => {
                self.connections.remove(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use crate::Settings;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_peer_that_does_not_read_has_five_seconds() {
        let (mut driver, id, _peer) = closing();
        driver.now = driver.now + 4 * SECOND;
        driver.give_up_closing();
        assert!(driver.connections.get(id).is_some());
        driver.now = driver.now + SECOND;
        driver.give_up_closing();
        assert!(driver.connections.get(id).is_none());
        assert_eq!(driver.counters.closes_abandoned, 1);
        assert_eq!(driver.next_close_deadline(), None);
    }

    #[test]
    fn a_peer_that_reads_slowly_has_a_minute() {
        let (mut driver, id, mut peer) = closing();
        for _ in 0..11 {
            peer.read_exact(&mut vec![0; PIECE]).unwrap();
            driver.closing_ready(id, EventFlags::OUT);
            driver.now = driver.now + 5 * SECOND;
            driver.give_up_closing();
            assert!(driver.connections.get(id).is_some());
        }
        peer.read_exact(&mut vec![0; PIECE]).unwrap();
        driver.closing_ready(id, EventFlags::OUT);
        driver.now = driver.now + 5 * SECOND;
        driver.give_up_closing();
        assert!(driver.connections.get(id).is_none());
        assert_eq!(driver.counters.closes_abandoned, 1);
    }

    #[test]
    fn a_peer_that_is_heard_out_has_five_seconds_from_there() {
        let (mut driver, id, mut peer) = closing();
        io::Write::write_all(&mut peer, b"unread").unwrap();
        driver.now = driver.now + 4 * SECOND;
        let mut all = vec![0; UNSENT];
        for piece in all.chunks_mut(PIECE) {
            peer.read_exact(piece).unwrap();
            driver.closing_ready(id, EventFlags::OUT);
        }
        driver.now = driver.now + 4 * SECOND;
        driver.give_up_closing();
        let phase = driver.connections.get(id).map(|connection| connection.phase);
        assert!(matches!(phase, Some(Phase::Discarding { .. })), "{phase:?}");
        driver.now = driver.now + SECOND;
        driver.give_up_closing();
        assert!(driver.connections.get(id).is_none());
        assert_eq!(driver.counters.closes_abandoned, 0);
    }

    /// More than the kernel holds for a Unix socket, and than the slow reader reads in a minute.
    const UNSENT: usize = 4 << 20;

    /// Less than the kernel holds for a Unix socket, so that reading so much does not wait for the driver.
    const PIECE: usize = 64 << 10;

    /// A driver with one connection that the program has closed, and its peer.
    fn closing() -> (EpollDriver, ConnectionId, UnixStream) {
        let mut driver = EpollDriver::new(Settings::default()).unwrap();
        let (ours, peer) = UnixStream::pair().unwrap();
        let id = driver.connections.insert(Connection::new(ours.into(), Phase::Reading)).unwrap();
        driver.watch(id);
        driver.send(id, &vec![0; UNSENT]);
        driver.close(id);
        (driver, id, peer)
    }
}
