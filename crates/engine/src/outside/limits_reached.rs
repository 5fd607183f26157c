//! Limits that are reached: counted each time, said now and then.

use std::time::Duration;

use seam::Instant;

/// A limit that was reached.
pub(crate) struct LimitReached {
    /// The time at which that was last an event.
    said: Instant,
    /// The value of the option then.
    pub(super) limit: u64,
    pub(super) times: u64,
}

/// A line about the same thing is repeated this often.
pub(crate) const SAY_AGAIN: Duration = Duration::from_secs(60);

impl LimitReached {
    /// A limit with this value, before it has been counted.
    pub(super) fn new(now: Instant, limit: u64) -> Self {
        Self { said: now, limit, times: 0 }
    }

    /// Notes that the limit is reached once more. Returns true where that is to be said.
    pub(super) fn note(&mut self, now: Instant, limit: u64) -> bool {
        self.times += 1;
        self.limit = limit;
        let is_news = self.times == 1 || now.since(self.said) >= SAY_AGAIN;
        if is_news {
            self.said = now;
        }
        is_news
    }
}
