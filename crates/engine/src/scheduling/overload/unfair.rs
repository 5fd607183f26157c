//! New work that has been put behind others for too long: `unfair_wait_limit`.
//!
//! How long statements wait says nothing of overload by itself: each client has one at a time, so that a queue is as long as there are
//! clients, and where 15,000 take their turns at a slow server each of them waits as long as that takes, again and again. Nobody wants
//! errors for that. What waits much longer than that has been passed over: its user brings a crowd and others have their shares, or
//! newer statements go first because clients hang up. It is told then, rather than never.
//!
//! How long everybody's turn takes is what waits by what has started lately (J. Little, "A proof for the queuing formula", 1961).
//! Only time counts in which new work starts at all: nobody is passed over while the pool is paused, the server restarts or everything
//! stands behind a lock.

use std::time::Duration;

use seam::Instant;

use crate::ids::ClientKey;
use crate::scheduling::Scheduling;
use crate::scheduling::scheduler::lane::Class;
use crate::settings::Settings;

/// A statement that has waited for so many times everybody's turn has been passed over: the order of turns is not exact, nor is
/// the pace.
const TIMES_A_TURN: u32 = 2;

/// How often it is looked again at who has waited for the limit, but not yet for that.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Scheduling {
    /// How long new work may be passed over, where some has been for longer than `unfair_wait_limit`.
    pub(crate) fn unfair_patience(&mut self, now: Instant, settings: &Settings) -> Option<Duration> {
        let (_, since) = self.oldest_unfair(settings)?;
        let limit = settings.overload.unfair_wait_limit;
        if since + limit > now {
            return None;
        }
        let waiting = self.scheduler.takes_room() + self.shares.waiting(Class::Short);
        let turn = self.new_work.starts_lately.turn_of(now, waiting)?;
        Some(limit.max(turn.saturating_mul(TIMES_A_TURN)))
    }

    /// The time at which [`Self::unfair_patience`] has something to say.
    pub(super) fn next_unfair(&self, now: Instant, settings: &Settings) -> Option<Instant> {
        let (_, since) = self.oldest_unfair(settings)?;
        let due = since + settings.overload.unfair_wait_limit;
        Some(if due > now { due } else { now + LOOK_AGAIN })
    }

    /// The oldest new work that no other rule makes wait, and since when it could have been started. Who has given users other shares
    /// or limits has said who waits.
    pub(super) fn oldest_unfair(&self, settings: &Settings) -> Option<(ClientKey, Instant)> {
        if settings.overload.unfair_wait_limit.is_zero() || !settings.shares_by_crowding() {
            return None;
        }
        let both =
            self.scheduler.oldest_plain(Class::Short).into_iter().chain(self.shares.oldest(Class::Short));
        let (client, since) = both.min_by_key(|&(_, since)| since)?;
        Some((client, since.max(self.new_work.starts_lately.moves_since)))
    }
}
