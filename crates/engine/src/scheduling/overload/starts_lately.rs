//! How fast new work has started lately.

use std::time::Duration;

use seam::Instant;

/// The statements that have started in each of the latest seconds.
#[derive(Debug)]
pub(crate) struct StartsLately {
    starts: [u32; SECONDS],
    /// The latest second in which something has started.
    second: u64,
    latest: Instant,
    /// The time since which something has started all the time.
    pub(super) moves_since: Instant,
    /// The time until which the pool was paused, or the server was not there.
    held_until: Instant,
}

/// Seconds of starts that make a pace: as long as the usual limit.
const SECONDS: usize = 10;

/// The time without a start after which the queue stands.
const STANDS_STILL: Duration = Duration::from_secs(1);

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

    /// The time from which on the wait of a statement counts that came at `since`.
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

    /// The time until each of so many statements has had its turn; `None` where nothing starts.
    pub(super) fn turn_of(&mut self, now: Instant, waiting: usize) -> Option<Duration> {
        self.go_on_to(now);
        let starts = self.starts.iter().sum::<u32>();
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        (starts > 0 && now.since(self.latest) < STANDS_STILL)
            .then(|| Duration::from_secs(SECONDS as u64).saturating_mul(waiting) / starts)
    }
}

/// The place of a second in the list.
fn place(second: u64) -> usize {
    usize::try_from(second % SECONDS as u64).expect("less than ten")
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
