//! Closing connections for the program, without losing what it sent last.
//!
//! Two things can keep the last bytes (often an error that explains the close) from the peer. The system may not have
//! taken them yet: then the connection is flushed first. And a socket that is closed with unread bytes sends a reset,
//! on which the peer's system throws away what its program has not read (RFC 9293 section 3.10.4; RFC 2525 section 2.17):
//! then our direction is shut down and the peer is heard out, its bytes discarded, until it closes too.

use std::io;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::net::{Shutdown, shutdown};
use seam::{ConnectionId, Instant};

use super::EpollDriver;
use super::connection::{Connection, Phase};
use super::send::send_unsent;
use super::token::Token;

/// How long a close may take before the connection is dropped. A peer that is alive takes its last bytes within round
/// trips, and one lost packet or two are sent again within 5 seconds; one that does not read would otherwise hold a
/// descriptor and its unsent bytes for as long as it likes, which is how a server is run out of both.
const CLOSE_TIME: Duration = Duration::from_secs(5);

impl EpollDriver {
    /// Closes a connection once all is sent. The program hears no more of it.
    pub(super) fn close(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        match connection.phase {
            Phase::Reading | Phase::Paused if connection.unsent.is_some() => {
                connection.phase = Phase::Flushing;
                self.close_deadlines.push_back((self.now + CLOSE_TIME, id));
                self.watch(id);
            }
            Phase::Reading | Phase::Paused => self.finish_closing(id),
            // The peer is gone, or the program has not heard yet that it is.
            Phase::Parked | Phase::Failed { .. } => {
                self.connections.remove(id);
            }
            Phase::Connecting { .. } | Phase::Flushing | Phase::Discarding => {}
        }
    }

    /// Goes on with a close.
    pub(super) fn closing_ready(&mut self, id: ConnectionId, ready: EventFlags) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.phase == Phase::Discarding {
            return self.finish_closing(id);
        }
        let result = send_unsent(connection, &mut self.counters);
        let gone = result.is_err() || ready.intersects(EventFlags::HUP | EventFlags::ERR);
        if gone {
            self.connections.remove(id);
        } else if connection.unsent.as_ref().is_none_or(|unsent| unsent.bytes.is_empty()) {
            connection.unsent = None;
            self.finish_closing(id);
        }
    }

    /// Drops the connections whose time to close is over.
    pub(super) fn give_up_closing(&mut self) {
        while let Some(&(deadline, id)) = self.close_deadlines.front() {
            if deadline > self.now {
                break;
            }
            self.close_deadlines.pop_front();
            if self.connections.remove(id).is_some_and(|connection| connection.unsent.is_some()) {
                self.counters.closes_abandoned += 1;
            }
        }
    }

    /// When the next close is given up.
    pub(super) fn next_close_deadline(&mut self) -> Option<Instant> {
        while let Some(&(deadline, id)) = self.close_deadlines.front() {
            if self.connections.get(id).is_some() {
                return Some(deadline);
            }
            self.close_deadlines.pop_front();
        }
        None
    }

    /// After the program has finished: closes everything, and gives the closes under way the time that they have. A
    /// signal ends that too.
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
                    Token::Signal => self.connections.retain(|_| false),
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
        let already_discarding = connection.phase == Phase::Discarding;
        match heard {
            Ok(1..) if already_discarding => {}
            Ok(1..) if shutdown(&connection.socket, Shutdown::Write).is_ok() => {
                if connection.phase != Phase::Flushing {
                    self.close_deadlines.push_back((self.now + CLOSE_TIME, id));
                }
                connection.phase = Phase::Discarding;
                self.watch(id);
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) if already_discarding => {}
            _ => {
                self.connections.remove(id);
            }
        }
    }
}
