//! The order in which new work starts: the oldest first, or, while clients hang up on it, the newest (`adaptive_lifo`).
//!
//! First come, first served is the order that everybody expects. But where clients lose patience it is the worst order there is.
//! The queue grows until it is as long as they wait. Then each statement that starts has used up its client's patience, and runs
//! for nobody; the client asks again, and keeps the queue as long as it is. A statement from the other end of the queue has just
//! come, and its client has the answer in time. The others would not have been served either, and cost the server nothing. (B.
//! Maurer, "Fail at Scale", ACM Queue 13, 2015, calls it adaptive LIFO, and goes by the length of the queue. Here the harm turns
//! it on.)
//!
//! Only *new work* (see [`super::bounds`]) is turned round, each queue for itself. A queue goes before others by the place of its
//! oldest statement, whichever of them starts: so the order between queues and workers is the same as ever. What has waited for
//! `prio_kickup_timer`, and for twice as long as those who hang up, gets one of eight starts, the oldest first, and the rest where
//! nothing newer waits.

#[cfg(test)]
mod tests;

use std::time::Duration;

use seam::Instant;

/// The order in a queue of new work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// The latest departures, the last one in the lowest bit: 1 where the client had lost patience.
    departures: u32,
    /// The time until which the newest goes first; the clock's start where the oldest does.
    newest_until: Instant,
    /// Starts of newer ones, one after the other.
    newest_in_a_row: u32,
    /// The longest time that clients which hang up have waited.
    patience: Duration,
}

/// The least wait after which a client that hangs up has lost patience: programs end, and are ended, at any time. Time limits
/// below a tenth of a second are not for waiting in queues.
const PATIENCE: Duration = Duration::from_millis(100);

/// The newest goes first as soon as an eighth of the latest 32 departures was in vain: that an eighth of the server is at stake
/// is worth a change of order, and fewer may be chance.
const BEGINS: u32 = 4;

/// The newest goes on to go first while a sixteenth was in vain, so that the order does not go to and fro at the limit.
const GOES_ON: u32 = 2;

/// The longest time for which the newest go first after the last statement that was in vain. Otherwise they do for as long as
/// that one had waited: a client that has not hung up by then has more patience. Few wait in vain for longer than this.
const LONGEST: Duration = Duration::from_secs(10);

/// After so many newer ones it is the turn of the oldest, if that has waited too long: seven eighths of the server are still for
/// clients that will hear the answer. Too long is `prio_kickup_timer`, and twice as long as clients wait that hang up: one that
/// is a little older than that is about to hang up, or has just done so.
const NEWEST_IN_A_ROW: u32 = 7;

impl Order {
    /// Says whether the newest goes first now.
    pub(crate) fn is_newest_first(&self, now: Instant) -> bool {
        now < self.newest_until
    }

    /// The time until which the newest goes first, where it has at all.
    pub(crate) fn newest_until(&self) -> Option<Instant> {
        Some(self.newest_until).filter(|&until| until != Instant::START)
    }

    /// Says whether it is the turn of one that has waited too long.
    pub(crate) fn is_turn_of_oldest(&self) -> bool {
        self.newest_in_a_row >= NEWEST_IN_A_ROW
    }

    /// The wait from which on a statement has waited too long, `kick_up` at least.
    pub(crate) fn too_long(&self, now: Instant, kick_up: Duration) -> Duration {
        if self.is_newest_first(now) { kick_up.max(2 * self.patience) } else { kick_up }
    }

    /// A statement starts: the oldest, which had waited too long, or another.
    pub(crate) fn started(&mut self, oldest_overdue: bool) {
        self.departures <<= 1;
        self.newest_in_a_row = if oldest_overdue { 0 } else { self.newest_in_a_row.saturating_add(1) };
    }

    /// A client does not want its statement any more, which has waited for so long in the queue, and for little else.
    pub(crate) fn abandoned(&mut self, now: Instant, waited: Duration) {
        if !self.is_newest_first(now) && self.newest_until != Instant::START {
            // What was known then is about another time. The oldest keeps its turn.
            *self = Self { newest_in_a_row: self.newest_in_a_row, ..Self::default() };
        }
        let in_vain = waited >= PATIENCE;
        self.departures = self.departures << 1 | u32::from(in_vain);
        let enough = if self.is_newest_first(now) { GOES_ON } else { BEGINS };
        if in_vain {
            self.patience = self.patience.max(waited.min(LONGEST));
        }
        if in_vain && self.departures.count_ones() >= enough {
            self.newest_until = self.newest_until.max(now + waited.min(LONGEST));
        }
    }
}

/// Queues with an order of their own: what is abandoned in one says nothing about the others.
pub(super) const ORDERS: usize = 3;
