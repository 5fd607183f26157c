//! Places in the order of all queues.

use super::permits::Extra;

/// The distance between the places of one queue and those of the next: arrivals never count so far.
const CLASS: u64 = 1 << 61;

/// The place of a statement in the order of all workers' queues: by queue, then by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueuePlace(pub(super) u64);

impl QueuePlace {
    /// The place behind all others: no arrival counts so far.
    pub(crate) const LAST: Self = Self(4 * CLASS - 1);

    /// The place of a client that others wait for.
    pub(crate) fn blocking(arrival: u64) -> Self {
        Self(arrival)
    }

    /// The place of a client that holds something others may wait for.
    pub(crate) fn resource_change(arrival: u64) -> Self {
        Self(arrival | CLASS)
    }

    /// The place of an open transaction's statement.
    pub(crate) fn high(arrival: u64) -> Self {
        Self(arrival | (2 * CLASS))
    }

    /// The place of any other statement.
    pub(crate) fn low(arrival: u64) -> Self {
        Self(arrival | (3 * CLASS))
    }

    /// The permits that the statement there may take.
    pub(super) fn extra(self) -> Extra {
        match self.0 / CLASS {
            0 => Extra::Any,
            1 => Extra::Kept,
            _ => Extra::None,
        }
    }

    /// Says whether this is a place in the holding queue.
    pub(crate) fn is_holding(self) -> bool {
        self.0 / CLASS == 1
    }

    /// Less is earlier.
    pub(crate) fn order(self) -> u64 {
        self.0
    }
}
