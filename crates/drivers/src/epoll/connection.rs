//! One connection's state.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use seam::{ConnectionId, Instant};

use super::token::Token;
use crate::close_times::Flush;

/// A socket and where it is in its life. Some 60 bytes while it is idle.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    pub(super) phase: Phase,
    /// The bytes that the system has not taken yet; only there while there are any.
    pub(super) unsent: Option<Box<Unsent>>,
    /// The events that epoll watches for; `None` while the socket is not with epoll at all.
    watched: Option<EventFlags>,
}

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// `connect` is under way; the program does not know the id yet.
    Connecting { token: u64 },
    /// Open, bytes are wanted.
    Reading,
    /// Open, bytes are not wanted. Epoll reports hang-ups and errors all the same.
    Paused,
    /// Paused, and the peer has hung up leaving bytes behind that the program may still want. Away from epoll, which
    /// would report the hang-up without end.
    Parked,
    /// A system call failed; the program hears of it at the start of the next turn.
    Failed { errno: Errno, was_reading: bool },
    /// Closed by the program with bytes unsent.
    Flushing(Flush),
    /// Closed by the program, all is sent, and the peer is being heard out (see `close.rs`).
    Discarding {
        /// Until when.
        deadline: Instant,
        /// Bytes of it that have been thrown away.
        heard: usize,
    },
}

/// Bytes that the system has not taken yet.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    pub(super) bytes: VecDeque<u8>,
    /// The program has been told, or is about to be, that the peer does not keep up.
    pub(super) stalled: bool,
}

impl Unsent {
    /// Bytes of memory held.
    pub(super) fn allocated(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity()
    }
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, phase: Phase) -> Self {
        Self { socket, phase, unsent: None, watched: None }
    }

    /// True while the program may use it.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Reading | Phase::Paused | Phase::Parked)
    }

    /// True after the program has closed it.
    pub(super) fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Flushing(_) | Phase::Discarding { .. })
    }

    /// How many bytes the system has not taken yet.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent.as_ref().map_or(0, |unsent| unsent.bytes.len())
    }

    /// Until when a close may go on before somebody has to look again.
    pub(super) fn close_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Flushing(Flush { deadline, .. }) | Phase::Discarding { deadline, .. } => Some(deadline),
            _ => None,
        }
    }

    /// Has `epoll` watch what the phase wants, in one call or none.
    pub(super) fn watch(&mut self, epoll: &OwnedFd, id: ConnectionId) -> Result<(), Errno> {
        let wanted = self.wanted();
        let token = Token::Connection(id).into();
        match (self.watched, wanted) {
            (watched, wanted) if watched == wanted => {}
            (None, Some(flags)) => epoll::add(epoll, &self.socket, token, flags)?,
            (Some(_), Some(flags)) => epoll::modify(epoll, &self.socket, token, flags)?,
            (_, None) => epoll::delete(epoll, &self.socket)?,
        }
        self.watched = wanted;
        Ok(())
    }

    fn wanted(&self) -> Option<EventFlags> {
        let output = if self.unsent.is_some() { EventFlags::OUT } else { EventFlags::empty() };
        match self.phase {
            Phase::Connecting { .. } | Phase::Flushing(_) => Some(EventFlags::OUT),
            Phase::Reading => Some(EventFlags::IN | output),
            Phase::Paused => Some(output),
            Phase::Parked => None,
            // It is closed before epoll is asked again, so there is nothing to change.
            Phase::Failed { .. } => self.watched,
            Phase::Discarding { .. } => Some(EventFlags::IN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connections_are_small() {
        assert!(size_of::<Connection>() <= 64, "{} bytes", size_of::<Connection>());
    }
}
