//! Finds a standing delay: a queue that does not come from a burst, since it does not go away.
//!
//! The estimate is CoDel's (RFC 8289, section 4): what counts is not how long statements wait but how long the luckiest one
//! has waited. Where each statement that started within an interval had waited longer than the target, the delay stands.
//! A server that pauses for a moment has a long queue too, and when it goes on works that off; nothing is refused for it.
//!
//! The answer to it is not CoDel's. CoDel's control law drops one packet after interval / sqrt(count), which is made for senders
//! that send half as much once a single packet is lost. At ten times the capacity of 10,000 statements a second it would have
//! refused 25 statements after the first second and 90,000 after a minute, where 90,000 come too many each second. Clients of a
//! database do not slow down for others' errors. So while the delay stands, each statement is refused as soon as it has waited
//! for the target. That refuses exactly as many as come too many, and those that start have waited less. The delay ends when
//! nothing has had to be refused for an interval. (B. Maurer, "Fail at Scale", ACM Queue 13, 2015, uses the same pair of time
//! limits for requests.)
//!
//! Each worker looks at its own queues. Since permits go to the statement that came first, on whatever worker, all see the same
//! delay.

use std::time::Duration;

use seam::Instant;

/// The state of the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delay {
    /// The delay does not stand. A statement has waited for less than the target lately, or since `above_since` none has.
    Passing { above_since: Option<Instant> },
    /// The delay stands. The latest refusal was at `refused`.
    Standing { refused: Instant },
}

impl Delay {
    pub(crate) const NONE: Self = Self::Passing { above_since: None };

    pub(crate) fn is_standing(self) -> bool {
        matches!(self, Self::Standing { .. })
    }

    /// A statement starts that has waited longer than the target, or not.
    pub(crate) fn note_start(&mut self, now: Instant, above: bool, interval: Duration) {
        match self {
            Self::Passing { above_since } if !above => *above_since = None,
            Self::Passing { above_since } => {
                let since = *above_since.get_or_insert(now);
                if now.since(since) >= interval {
                    *self = Self::Standing { refused: now };
                }
            }
            Self::Standing { .. } => {}
        }
    }

    /// A statement was refused because it had waited too long.
    pub(crate) fn note_refusal(&mut self, now: Instant) {
        if let Self::Standing { refused } = self {
            *refused = now;
        }
    }

    /// Ends the standing delay once nothing has had to be refused for an interval.
    pub(crate) fn pass(&mut self, now: Instant, interval: Duration) {
        if let Self::Standing { refused } = *self
            && now.since(refused) >= interval
        {
            *self = Self::NONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1000)
    }

    #[test]
    fn one_short_wait_within_the_interval_says_that_it_was_a_burst() {
        let mut delay = Delay::NONE;
        for millis in (0..500).step_by(10) {
            delay.note_start(at(millis), millis % 90 != 0, INTERVAL);
            assert!(!delay.is_standing(), "{millis}");
        }
    }

    #[test]
    fn it_stands_after_an_interval_without_a_short_wait_and_until_nothing_is_refused() {
        let mut delay = Delay::NONE;
        delay.note_start(at(0), true, INTERVAL);
        delay.note_start(at(99), true, INTERVAL);
        assert!(!delay.is_standing());
        delay.note_start(at(100), true, INTERVAL);
        assert!(delay.is_standing());
        delay.note_refusal(at(150));
        delay.note_start(at(200), false, INTERVAL);
        delay.pass(at(249), INTERVAL);
        assert!(delay.is_standing(), "those that start wait little because others are refused");
        delay.pass(at(250), INTERVAL);
        assert_eq!(delay, Delay::NONE);
    }

    #[test]
    fn a_pause_of_the_server_is_no_standing_delay() {
        let mut delay = Delay::NONE;
        // Nothing starts for a second; then the queue is worked off in less than an interval.
        for millis in 1000..1090 {
            delay.note_start(at(millis), true, INTERVAL);
        }
        delay.note_start(at(1090), false, INTERVAL);
        delay.note_start(at(1150), true, INTERVAL);
        assert!(!delay.is_standing());
    }
}
