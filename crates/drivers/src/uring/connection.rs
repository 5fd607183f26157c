//! One connection's state.

use std::cell::UnsafeCell;

use rustix::io::Errno;
use seam::{CloseReason, Instant, ListenerId};

use super::outbox::Outbox;
use super::socket_address::SocketAddress;
use crate::close_times::Flush;

/// A socket in a ring's table, where it is in its life, and which requests are under way for it.
#[derive(Debug)]
pub(super) struct Connection {
    /// The ring that has the socket.
    pub(super) ring: u16,
    /// Its place in the ring's table.
    pub(super) file: u16,
    pub(super) receive: Receive,
    /// A request to be told of a hang-up is under way.
    pub(super) watched: bool,
    /// Requests under way that are neither to receive, nor to send, nor to be told of a hang-up.
    pub(super) others: u8,
    /// True if the connection is on the driver's list of connections to look at before the turn is over.
    pub(super) listed: bool,
    /// Arrivals that wait for a later turn.
    pub(super) deferred: u16,
    /// The last turn in which the program was given bytes, and how many.
    pub(super) given: Given,
    pub(super) phase: Phase,
    /// The bytes that arrived while the connection was paused.
    pub(super) held: Option<Box<Held>>,
    /// The bytes that the system has not taken yet; only there while there are any or a request is under way.
    pub(super) outbox: Option<Box<Outbox>>,
}

/// The request to receive, which brings arrivals until it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receive {
    /// There is none.
    Off,
    /// The request is under way.
    Armed,
    /// The request is under way, and so is its cancellation.
    Cancelling,
    /// One for what is there now, after a failure, is under way.
    Last,
}

/// Bytes given to the program in one turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Given {
    pub(super) turn: u32,
    pub(super) bytes: u32,
}

/// Where a connection is in its life.
#[derive(Debug)]
pub(super) enum Phase {
    /// `connect` is under way; the program does not know the id yet.
    Connecting(Box<Connecting>),
    /// A peer of a Unix socket is in, but not known yet; the program does not know the id yet.
    Identifying(Box<Identifying>),
    /// Open, bytes are wanted.
    Reading,
    /// Open, bytes are not wanted.
    Paused {
        /// The peer has hung up leaving bytes behind that the program may still want: no need to watch for that.
        parked: bool,
    },
    /// A system call failed; the program hears of it after what the peer said last.
    Failed {
        errno: Errno,
        was_reading: bool,
        /// Bytes that came when they were asked for since; `usize::MAX` once that was all.
        heard: usize,
    },
    /// Closed by the program with bytes unsent.
    Flushing(Flush),
    /// Closed by the program, all is sent, and the peer is being heard out (see `close.rs`).
    Discarding {
        /// Until when.
        deadline: Instant,
        /// The peer has said something since, so that our direction has been shut down.
        shut_down: bool,
        /// Bytes of it that have been thrown away.
        heard: usize,
    },
    /// Nobody wants it any more: what is under way has been cancelled, and the place in the table is being freed.
    Closing {
        /// The phase before, where the kernel may still use what belongs to it.
        _kept: Option<Box<Phase>>,
    },
}

/// The memory that a connection needs until it stands.
#[derive(Debug)]
pub(super) struct Connecting {
    /// The program's name for it.
    pub(super) token: u64,
    /// Read by the kernel while the requests are under way.
    pub(super) remote: SocketAddress,
    /// Read by the kernel while the requests are under way.
    pub(super) local: SocketAddress,
    /// The ports to choose ours from, where the remote one is among those that the kernel chooses from: read by it while the
    /// requests are under way.
    pub(super) ports: Option<u32>,
}

/// The facts about a peer of a Unix socket.
#[derive(Debug)]
pub(super) struct Identifying {
    pub(super) listener: ListenerId,
    /// Written by the kernel while the request is under way.
    pub(super) credentials: UnsafeCell<libc::ucred>,
}

/// The bytes that arrived while the connection was paused.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) bytes: Vec<u8>,
    /// How many of the bytes the program has been given since.
    pub(super) given: usize,
    pub(super) end: Option<CloseReason>,
    /// There is a notice that the program wants it.
    pub(super) noticed: bool,
}

impl Held {
    /// Returns the bytes that the program has not been given yet.
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.given..]
    }
}

impl Connection {
    pub(super) fn new(ring: u16, file: u16, phase: Phase) -> Self {
        Self {
            ring,
            file,
            receive: Receive::Off,
            watched: false,
            others: 0,
            listed: false,
            deferred: 0,
            given: Given::default(),
            phase,
            held: None,
            outbox: None,
        }
    }

    /// True while the program may use it.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Reading | Phase::Paused { .. })
    }

    /// True after the program has closed it.
    pub(super) fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Flushing(_) | Phase::Discarding { .. } | Phase::Closing { .. })
    }

    /// How many bytes the system has not taken yet.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.outbox.as_ref().map_or(0, |outbox| outbox.unsent())
    }

    /// Until when a close may go on before somebody has to look again.
    pub(super) fn close_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Flushing(Flush { deadline, .. }) | Phase::Discarding { deadline, .. } => Some(deadline),
            _ => None,
        }
    }

    /// True while the kernel may still write to, or read from, something of this connection's.
    pub(super) fn has_requests(&self) -> bool {
        self.receive != Receive::Off
            || self.watched
            || self.others > 0
            || self.outbox.as_ref().is_some_and(|outbox| outbox.is_in_flight())
    }

    /// Bytes of memory held besides the connection itself: (to send, received).
    pub(super) fn allocated(&self) -> (usize, usize) {
        let sending = self.outbox.as_ref().map_or(0, |outbox| outbox.allocated());
        let held = self.held.as_ref().map_or(0, |held| size_of::<Held>() + held.bytes.capacity());
        (sending, held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connections_are_small() {
        assert!(size_of::<Connection>() <= 80, "{} bytes", size_of::<Connection>());
    }
}
