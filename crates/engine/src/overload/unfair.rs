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
use crate::scheduler::lane::Class;
use crate::scheduling::Scheduling;
use crate::settings::Settings;

/// The statements that have started in each of the latest seconds.
#[derive(Debug)]
pub(crate) struct StartsLately {
    starts: [u32; SECONDS],
    /// The latest second in which something has started.
    second: u64,
    latest: Instant,
    /// Since then something has started all the time.
    moves_since: Instant,
    /// Until then the pool was paused, or the server was not there.
    held_until: Instant,
}

/// So many seconds of starts are a pace: as long as the usual limit.
const SECONDS: usize = 10;

/// Where nothing has started for so long, the queue stands.
const STANDS_STILL: Duration = Duration::from_secs(1);

/// A statement that has waited for so many times everybody's turn has been passed over: the order of turns is not exact, nor is
/// the pace.
const TIMES_A_TURN: u32 = 2;

/// How often it is looked again at who has waited for the limit, but not yet for that.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

const MICROS: u64 = 1_000_000;

impl StartsLately {
    pub(crate) const NONE: Self = Self {
        starts: [0; SECONDS],
        second: 0,
        latest: Instant::START,
        moves_since: Instant::START,
        held_until: Instant::START,
    };

    /// New work starts.
    pub(super) fn note(&mut self, now: Instant) {
        if now.since(self.latest) >= STANDS_STILL {
            self.moves_since = now;
        }
        self.latest = now;
        self.go_on_to(now);
        self.starts[place(self.second)] += 1;
    }

    /// The pool is paused, or the server is not there: what waits does not wait for the server.
    pub(crate) fn hold(&mut self, now: Instant) {
        self.held_until = now;
    }

    /// From when on the wait of what came then counts.
    pub(super) fn counted_from(&self, since: Instant) -> Instant {
        since.max(self.held_until)
    }

    fn go_on_to(&mut self, now: Instant) {
        let second = now.as_micros() / MICROS;
        for passed in self.second + 1..=second.min(self.second + SECONDS as u64) {
            self.starts[place(passed)] = 0;
        }
        self.second = self.second.max(second);
    }

    /// How long it takes until each of so many has had its turn; `None` where nothing starts.
    fn turn_of(&mut self, now: Instant, waiting: usize) -> Option<Duration> {
        self.go_on_to(now);
        let starts = self.starts.iter().sum::<u32>();
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        (starts > 0 && now.since(self.latest) < STANDS_STILL)
            .then(|| Duration::from_secs(SECONDS as u64).saturating_mul(waiting) / starts)
    }
}

/// Where a second has its place.
fn place(second: u64) -> usize {
    usize::try_from(second % SECONDS as u64).expect("less than ten")
}

impl Scheduling {
    /// How long new work may be passed over, where some has been for longer than `unfair_wait_limit`.
    pub(super) fn unfair_patience(&mut self, now: Instant, settings: &Settings) -> Option<Duration> {
        let (_, since) = self.oldest_unfair(settings)?;
        let limit = settings.overload.unfair_wait_limit;
        if since + limit > now {
            return None;
        }
        let waiting = self.scheduler.takes_room() + self.shares.waiting(Class::Short);
        let turn = self.new_work.starts_lately.turn_of(now, waiting)?;
        Some(limit.max(turn.saturating_mul(TIMES_A_TURN)))
    }

    /// When [`Self::unfair_patience`] has something to say.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1000)
    }

    #[test]
    fn a_turn_takes_as_long_as_what_waits_at_the_pace_of_the_latest_seconds() {
        let mut pace = StartsLately::NONE;
        assert_eq!(pace.turn_of(at(0), 100), None, "nothing has started");
        for millis in (0..20_000).step_by(10) {
            pace.note(at(millis));
        }
        assert_eq!(pace.turn_of(at(19_999), 3_000), Some(Duration::from_secs(30)));
        assert_eq!(pace.moves_since, at(0));
    }

    #[test]
    fn time_in_which_nothing_starts_does_not_count() {
        let mut pace = StartsLately::NONE;
        pace.note(at(500));
        assert_eq!(pace.turn_of(at(1_600), 10), None);
        pace.note(at(60_000));
        assert_eq!(pace.moves_since, at(60_000));
        assert_eq!(
            pace.turn_of(at(60_000), 3),
            Some(Duration::from_secs(30)),
            "what was before is forgotten"
        );
    }
}
