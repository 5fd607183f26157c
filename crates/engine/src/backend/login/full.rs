//! A server that takes no more connections, and other errors with which servers refuse all.

use seam::Instant;

use crate::frozen::Distance;

/// ER_CON_COUNT_ERROR: the server lives but takes no more connections.
pub(crate) const SERVER_FULL: u16 = 1040;

/// ER_SERVER_SHUTDOWN.
pub(crate) const SHUTDOWN: u16 = 1053;

/// ER_SERVER_OFFLINE_MODE: from a member that its group has left out.
pub(crate) const OFFLINE: u16 = 3032;

/// A server's refusal of a backend for want of room.
#[derive(Debug)]
pub(crate) struct ServerFull {
    /// Time from which the server may be asked again.
    pub(crate) until: Instant,
    /// Number of granted places in a row that the server has refused.
    pub(crate) tries: u32,
}

/// [`ServerFull`] as plain data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FrozenFull {
    until: Distance,
    tries: u32,
}

plain!(struct FrozenFull { until, tries });

impl ServerFull {
    pub(crate) fn freeze(self, now: Instant) -> FrozenFull {
        let Self { until, tries } = self;
        FrozenFull { until: Distance::of(until, now), tries }
    }

    pub(crate) fn thawed(frozen: FrozenFull, now: Instant) -> Self {
        let FrozenFull { until, tries } = frozen;
        Self { until: until.from(now), tries }
    }
}
