//! Limits that are reached: counted each time, said now and then.

use std::time::Duration;

use seam::Instant;

use crate::outside::event::Event;
use crate::outside::named::Limit;
use crate::outside::views::Views;

/// A limit that was reached.
pub(crate) struct LimitReached {
    /// When that was last an event.
    said: Instant,
    /// Its value, then.
    pub(crate) limit: u64,
    pub(crate) times: u64,
}

/// A line about the same thing is repeated this often.
pub(crate) const SAY_AGAIN: Duration = Duration::from_secs(60);

impl Views {
    /// Says that a limit was reached, unless it was said a moment ago.
    pub(crate) fn limit_reached(&mut self, now: Instant, option: Limit, limit: u64) {
        let fresh = LimitReached { said: now, limit, times: 0 };
        let reached = self.limits_reached.entry(option).or_insert(fresh);
        reached.times += 1;
        reached.limit = limit;
        if reached.times == 1 || now.since(reached.said) >= SAY_AGAIN {
            reached.said = now;
            self.event(Event::LimitReached { option, limit });
        }
    }
}
