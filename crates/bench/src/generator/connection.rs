//! One client connection of a run: small, because there may be a hundred thousand.

use seam::{ConnectionId, Instant};

use crate::reply::ReplyReader;
use crate::workload::encode::{Prepared, Subject};
use login::Login;

/// A connection, whether it stands or not.
#[derive(Debug)]
pub struct Connection {
    /// Where it is in its life.
    pub state: State,
    /// Reads the reply that is awaited.
    pub reply: ReplyReader,
    /// What its statements are about.
    pub subject: Subject,
    /// Its statements with `--prepared`: each statement of the plan for each table; else empty.
    pub prepared: Box<[Prepared]>,
    /// The event that it is at, with the moment from which its latency counts. Stays over a lost connection: the event
    /// is then begun again.
    pub event: Option<Instant>,
    /// The place of the current statement in the plan.
    pub step: u16,
    /// Events done in the measured time.
    pub events: u64,
    /// Counts the connects, so that the answer to one that was given up is not taken for the next one's.
    pub attempt: u32,
    /// Failures since the last login; before the load begins, failures in all.
    pub failures: u16,
    /// How far down the list of addresses it is from its own, whose ports were used up.
    pub detours: u16,
}

/// Where a connection is in its life.
#[derive(Debug)]
pub enum State {
    /// Not there; the connector has it, or in the connect workload its next event will.
    Down,
    /// Asked of the driver.
    Connecting,
    /// Greeting and authentication.
    LoggingIn {
        /// The connection.
        connection: ConnectionId,
        /// How far it is.
        login: Box<Login>,
    },
    /// The statement that gives it its session state is with the server.
    Beginning {
        /// The connection.
        connection: ConnectionId,
    },
    /// The statements are being prepared, one after the other.
    Preparing {
        /// The connection.
        connection: ConnectionId,
        /// The place in [`Connection::prepared`] of the one that is being prepared.
        next: usize,
    },
    /// Nothing is asked of the server.
    Ready {
        /// The connection.
        connection: ConnectionId,
    },
    /// A statement of the plan is with the server.
    Executing {
        /// The connection.
        connection: ConnectionId,
    },
    /// A ROLLBACK is with the server; the event is begun again after it.
    RollingBack {
        /// The connection.
        connection: ConnectionId,
    },
}

impl Connection {
    /// A connection that is still to be made.
    pub fn new() -> Self {
        Self {
            state: State::Down,
            reply: ReplyReader::new(true),
            subject: Subject::default(),
            prepared: Box::default(),
            event: None,
            step: 0,
            events: 0,
            attempt: 0,
            failures: 0,
            detours: 0,
        }
    }
}

impl State {
    /// The driver's connection, where there is one.
    pub fn connection(&self) -> Option<ConnectionId> {
        match self {
            Self::Down | Self::Connecting => None,
            Self::LoggingIn { connection, .. }
            | Self::Beginning { connection }
            | Self::Preparing { connection, .. }
            | Self::Ready { connection }
            | Self::Executing { connection }
            | Self::RollingBack { connection } => Some(*connection),
        }
    }

    /// Whether the connector counts it as in progress.
    pub fn in_progress(&self) -> bool {
        matches!(
            self,
            Self::Connecting | Self::LoggingIn { .. } | Self::Beginning { .. } | Self::Preparing { .. }
        )
    }

    /// Whether a reply is awaited that ends an event's statement.
    pub fn awaits_reply(&self) -> bool {
        matches!(self, Self::Executing { .. } | Self::RollingBack { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_small() {
        assert!(size_of::<Connection>() <= 160, "{}", size_of::<Connection>());
    }
}
