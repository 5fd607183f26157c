//! How long a connection that the program has closed may linger.

use std::collections::VecDeque;
use std::time::Duration;

use seam::{ConnectionId, Instant};

/// How long a close may go without its peer taking a byte, and how long the peer is heard out. A peer that is alive
/// takes bytes within round trips, and one lost packet or two are sent again within 5 seconds; one that does not read
/// would otherwise hold a socket and its unsent bytes for as long as it likes, which is how a server is run out of
/// both.
pub(crate) const CLOSE_STALL: Duration = Duration::from_secs(5);

/// How many bytes of a peer that is being heard out are thrown away. Whoever sends a statement that is too long reads why behind it, and
/// one has as much at most by the usual `max_allowed_packet` of MySQL; who sends on is cut off, since each GiB takes a fifth of a second
/// from everybody else.
pub(crate) const HEARD_OUT: usize = 64 << 20;

/// How long a close may take as long as the peer takes bytes at all, or a byte every 5 seconds would do to hold on for
/// ever. MySQL waits as long for a write (`net_write_timeout`).
pub(crate) const CLOSE_TIME: Duration = Duration::from_secs(60);

/// When to look again at connections that the program closed, in order. Deadlines that a connection no longer has stay until their
/// time.
#[derive(Default)]
pub(crate) struct CloseDeadlines(VecDeque<(Instant, ConnectionId)>);

impl CloseDeadlines {
    pub(crate) fn add(&mut self, deadline: Instant, id: ConnectionId) {
        self.0.push_back((deadline, id));
    }

    /// The first that still holds; `of` knows which deadline a connection has.
    pub(crate) fn next(&mut self, of: impl Fn(ConnectionId) -> Option<Instant>) -> Option<Instant> {
        while let Some(&(deadline, id)) = self.0.front() {
            if of(id) == Some(deadline) {
                return Some(deadline);
            }
            self.0.pop_front();
        }
        None
    }

    /// Likewise the connection, where its time is over.
    pub(crate) fn take_due(
        &mut self,
        now: Instant,
        of: impl Fn(ConnectionId) -> Option<Instant>,
    ) -> Option<ConnectionId> {
        self.next(of).filter(|&deadline| deadline <= now)?;
        self.0.pop_front().map(|(_, id)| id)
    }

    /// In bytes.
    pub(crate) fn allocated(&self) -> usize {
        self.0.capacity() * size_of::<(Instant, ConnectionId)>()
    }
}

/// The close of a connection with bytes unsent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flush {
    /// When it is given up unless fewer bytes are unsent than now.
    pub(crate) deadline: Instant,
    /// How many are unsent now.
    pub(crate) unsent: usize,
    /// When it is given up in any case.
    last: Instant,
}

impl Flush {
    pub(crate) fn begin(now: Instant, unsent: usize) -> Self {
        Self { deadline: now + CLOSE_STALL, unsent, last: now + CLOSE_TIME }
    }

    /// Its deadline is over and so many bytes are unsent: how it goes on; `None` where it is given up.
    pub(crate) fn again(self, now: Instant, unsent: usize) -> Option<Self> {
        let goes_on = unsent < self.unsent && now < self.last;
        goes_on.then_some(Self { deadline: now + CLOSE_STALL, unsent, ..self })
    }
}
