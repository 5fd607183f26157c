//! Who is connected next: a queue, a bound on logins in progress, a rate, and waiting times after failures.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use seam::Instant;

/// The order of connects.
#[derive(Debug)]
pub struct Connector {
    queue: VecDeque<u32>,
    retries: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Connection and attempt, in the order of their deadlines.
    deadlines: VecDeque<(Instant, u32, u32)>,
    in_progress: u32,
    bound: u32,
    /// Between two connects, in microseconds; 0 without a rate.
    gap: f64,
    /// Before this moment no connect begins; microseconds since the driver's start.
    next_allowed: f64,
}

/// Logins in progress at the same time. Both servers' default backlog (`back_log`) is 80 or more, and a login takes
/// about a millisecond: enough to keep a server busy, few enough not to overrun its backlog by much.
pub const LOGINS_IN_PROGRESS: u32 = 256;

/// How long a connect and login may take: what servers give clients (`connect_timeout`).
pub const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A connect may begin this much earlier than the rate says after a pause, so that the timer's grain does not lower the
/// rate.
const CATCH_UP_MICROS: f64 = 10_000.0;

impl Connector {
    /// At most `bound` logins in progress, at most `rate` new connections a second.
    pub fn new(bound: u32, rate: Option<f64>) -> Self {
        Self {
            queue: VecDeque::new(),
            retries: BinaryHeap::new(),
            deadlines: VecDeque::new(),
            in_progress: 0,
            bound,
            gap: rate.map_or(0.0, |rate| 1_000_000.0 / rate),
            next_allowed: 0.0,
        }
    }

    /// A connection wants to be made.
    pub fn enqueue(&mut self, number: u32) {
        self.queue.push_back(number);
    }

    /// A connection wants to be made again, after `failures` failures in a row.
    pub fn retry(&mut self, now: Instant, number: u32, failures: u32) {
        self.retries.push(Reverse((now + back_off(failures), number)));
    }

    /// The next connection to make; count on it being in progress until [`Connector::settled`].
    pub fn next(&mut self, now: Instant) -> Option<u32> {
        while let Some(Reverse((due, number))) = self.retries.peek().copied() {
            if due > now {
                break;
            }
            self.retries.pop();
            self.queue.push_back(number);
        }
        let micros = now.as_micros() as f64;
        if self.in_progress >= self.bound || self.next_allowed > micros {
            return None;
        }
        let number = self.queue.pop_front()?;
        self.next_allowed = self.next_allowed.max(micros - CATCH_UP_MICROS) + self.gap;
        self.in_progress += 1;
        Some(number)
    }

    /// An attempt has begun, with a deadline.
    pub fn began(&mut self, now: Instant, number: u32, attempt: u32) {
        self.deadlines.push_back((now + LOGIN_TIMEOUT, number, attempt));
    }

    /// An attempt is over, well or not.
    pub fn settled(&mut self) {
        self.in_progress -= 1;
    }

    /// An attempt whose deadline has passed; it may have been settled long ago.
    pub fn expired(&mut self, now: Instant) -> Option<(u32, u32)> {
        let (deadline, number, attempt) = *self.deadlines.front()?;
        if deadline > now {
            return None;
        }
        self.deadlines.pop_front();
        Some((number, attempt))
    }

    /// When something here is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        let retry = self.retries.peek().map(|Reverse((due, _))| *due);
        let deadline = self.deadlines.front().map(|(due, ..)| *due);
        let paced = (!self.queue.is_empty() && self.in_progress < self.bound)
            .then(|| Instant::from_micros(self.next_allowed as u64 + 1));
        [retry, deadline, paced].into_iter().flatten().min()
    }
}

/// 10 ms, doubled for each failure in a row up to a second: a server that restarts is found soon, and one that is down
/// is not flooded.
fn back_off(failures: u32) -> Duration {
    Duration::from_millis(10).saturating_mul(1 << failures.min(7)).min(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    #[test]
    fn logins_in_progress_are_bounded() {
        let mut connector = Connector::new(2, None);
        (0..3).for_each(|number| connector.enqueue(number));
        assert_eq!(
            [connector.next(at(0)), connector.next(at(0)), connector.next(at(0))],
            [Some(0), Some(1), None]
        );
        connector.settled();
        assert_eq!(connector.next(at(0)), Some(2));
        assert_eq!(connector.next_timeout(), None);
    }

    #[test]
    fn the_rate_holds_over_a_second() {
        let mut connector = Connector::new(u32::MAX, Some(100.0));
        (0..1000).for_each(|number| connector.enqueue(number));
        // A clock that ticks every 3 ms does not fit the gap of 10 ms, and must not lower the rate.
        let begun: usize = (0..=333)
            .map(|tick| std::iter::from_fn(|| connector.next(at(10_000_000 + tick * 3000))).count())
            .sum();
        assert!((100..=102).contains(&begun), "{begun}");
        assert!(connector.next_timeout().is_some());
    }

    #[test]
    fn retries_wait_longer_each_time() {
        let mut connector = Connector::new(8, None);
        connector.retry(at(0), 5, 0);
        connector.retry(at(0), 6, 30);
        assert_eq!(connector.next_timeout(), Some(at(10_000)));
        assert_eq!(connector.next(at(9_999)), None);
        assert_eq!(connector.next(at(10_000)), Some(5));
        assert_eq!(connector.next_timeout(), Some(at(1_000_000)));
        assert_eq!(connector.next(at(1_000_000)), Some(6));
    }

    #[test]
    fn deadlines_pass_in_order() {
        let mut connector = Connector::new(8, None);
        connector.began(at(0), 1, 4);
        connector.began(at(5), 2, 1);
        assert_eq!(connector.expired(at(9_999_999)), None);
        assert_eq!(connector.expired(at(10_000_000)), Some((1, 4)));
        assert_eq!(connector.expired(at(10_000_000)), None);
    }
}
