//! When to look again.

use std::time::{Duration, Instant};

/// A look that took long is followed by so many times its time without one, so that the workers answer for a fifth of the time at most.
const REST: u32 = 4;

/// A login that was denied is tried again after so long: each try is a line in the log of whoever is asked, and a password that was wrong is
/// seldom right a second later.
const DENIED: Duration = Duration::from_secs(30);

/// When the next look is due, and whether one is under way.
pub struct Clock {
    interval: Duration,
    due: Instant,
    /// Since when an answer is waited for.
    asked: Option<Instant>,
    /// Whether something else is wanted than was asked for last.
    hurries: bool,
    /// Whether the latest login was.
    is_denied: bool,
}

impl Clock {
    /// Due at once.
    pub fn new(interval: Duration) -> Self {
        Self { interval, due: Instant::now(), asked: None, hurries: false, is_denied: false }
    }

    /// Whether to ask now; then it counts as asked.
    pub fn ask(&mut self) -> bool {
        let now = Instant::now();
        let asks = self.asked.is_none() && ((self.hurries && !self.is_denied) || now >= self.due);
        if asks {
            self.asked = Some(now);
            self.hurries = false;
        }
        asks
    }

    /// How long it is until the next look is due.
    pub fn rest(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// Since when an answer is waited for.
    pub fn asked(&self) -> Option<Instant> {
        self.asked
    }

    /// The answer has come. Who did not answer did no work either, and is asked again soon.
    pub fn answered(&mut self, is_look: bool) {
        self.is_denied = false;
        if let Some(asked) = self.asked.take() {
            let took = asked.elapsed();
            self.due = if is_look { next(asked, took, self.interval) } else { asked + took + self.interval };
        }
    }

    /// The answer has come that the login is denied. It is tried again much later, whatever else is wanted meanwhile.
    pub fn denied(&mut self) {
        self.asked = None;
        self.due = Instant::now() + self.interval.max(DENIED);
        self.is_denied = true;
    }

    /// As soon as no answer is waited for.
    pub fn at_once(&mut self) {
        self.hurries = true;
    }
}

/// When to look again after a look that was asked for then and took so long.
fn next(asked: Instant, took: Duration, interval: Duration) -> Instant {
    asked + interval.max(took.saturating_mul(REST + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_look_is_followed_by_a_rest() {
        let (asked, interval) = (Instant::now(), Duration::from_secs(1));
        let after = |took: u64| next(asked, Duration::from_millis(took), interval) - asked;
        assert_eq!(after(10), Duration::from_secs(1));
        assert_eq!(after(2_000), Duration::from_secs(10));
    }

    #[test]
    fn one_look_at_a_time() {
        let mut clock = Clock::new(Duration::from_secs(3600));
        assert!(clock.ask() && !clock.ask());
        clock.answered(true);
        assert!(!clock.ask());
        clock.at_once();
        assert!(clock.ask());
        // What is wanted while an answer is waited for, is asked for behind it.
        clock.at_once();
        assert!(!clock.ask());
        clock.answered(true);
        assert!(clock.ask());
        clock.answered(true);
        assert!(!clock.ask());
    }

    #[test]
    fn a_denied_login_is_not_tried_again_at_once() {
        let mut clock = Clock::new(Duration::from_millis(200));
        assert!(clock.ask());
        clock.denied();
        clock.at_once();
        assert!(!clock.ask() && clock.rest() > Duration::from_secs(20));
        clock.due = Instant::now();
        assert!(clock.ask());
        clock.answered(true);
        clock.at_once();
        assert!(clock.ask());
    }
}
