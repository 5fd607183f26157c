//! When events begin.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use seam::Instant;

use crate::distribution::Random;

/// Connections that have nothing to do, and what they wait for.
#[derive(Debug)]
pub struct Schedule {
    /// Connections that have not begun since the load began.
    pub starting: Range<u32>,
    /// Waiting for an arrival, or for good when there are no more events; first in, first out, so that all get their
    /// turn.
    pub idle: VecDeque<u32>,
    /// Waiting until a moment; in order, because all wait equally long.
    pub thinking: VecDeque<(Instant, u32)>,
    /// Tries of events that are given up at a moment; in order, because all get equally long. Empty where nobody is
    /// impatient.
    pub patience: VecDeque<(Instant, Try)>,
    /// Open loop only.
    pub arrivals: Option<Arrivals>,
    /// Events that may still begin in the measured time; `None` without a limit.
    pub remaining: Option<u64>,
    /// Events that have begun and not ended.
    pub open: u32,
}

/// One try of an event: the event is begun again on the connection's next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Try {
    /// Which connection.
    pub number: u32,
    /// Its attempt.
    pub attempt: u32,
    /// From when the event's latency counts.
    pub started: Instant,
}

/// All connections begin together, but the statements of 100,000 in one turn would need a buffer of megabytes, and the
/// first answers would wait for the last statement. 4,096 take a few milliseconds.
const STARTS_PER_TURN: u32 = 4096;

impl Schedule {
    /// Nobody waits; `rate` in events per second.
    pub fn new(rate: Option<f64>) -> Self {
        Self {
            starting: 0..0,
            idle: VecDeque::new(),
            thinking: VecDeque::new(),
            patience: VecDeque::new(),
            arrivals: rate.map(Arrivals::new),
            remaining: None,
            open: 0,
        }
    }

    /// Whether another event may begin.
    pub fn may_begin(&self) -> bool {
        self.remaining != Some(0)
    }

    /// The connections that begin in this turn.
    pub fn take_starting(&mut self) -> Range<u32> {
        let Range { start, end } = self.starting;
        let next = end.min(start.saturating_add(STARTS_PER_TURN));
        self.starting = next..end;
        start..next
    }

    /// When something here is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        if !self.starting.is_empty() {
            return Some(Instant::START);
        }
        let thought = self.thinking.front().map(|(due, _)| *due);
        let arrival = match &self.arrivals {
            Some(arrivals) if !self.idle.is_empty() && self.may_begin() => Some(arrivals.next()),
            _ => None,
        };
        let patience = self.patience.front().map(|(until, ..)| *until);
        [thought, arrival, patience].into_iter().flatten().min()
    }
}

/// Moments at which events are due, at random: the gaps are exponentially distributed, as if many independent clients
/// sent them. Moments that have passed wait here, so a server that falls behind does not slow them down.
#[derive(Debug)]
pub struct Arrivals {
    mean_gap: f64,
    /// Microseconds since the driver's start; fractions matter at high rates.
    next: f64,
}

impl Arrivals {
    fn new(rate: f64) -> Self {
        Self { mean_gap: 1_000_000.0 / rate, next: 0.0 }
    }

    /// The first event is due a gap from now.
    pub fn begin(&mut self, now: Instant, random: &mut Random) {
        self.next = now.as_micros() as f64;
        self.advance(random);
    }

    /// The moment of the next event, where it has come; the one after it is next then.
    pub fn take(&mut self, now: Instant, random: &mut Random) -> Option<Instant> {
        let due = self.next();
        if due > now {
            return None;
        }
        self.advance(random);
        Some(due)
    }

    fn next(&self) -> Instant {
        Instant::from_micros(self.next as u64)
    }

    fn advance(&mut self, random: &mut Random) {
        // 1 - fraction is never 0, whose logarithm would be infinite.
        self.next -= (1.0 - random.fraction()).ln() * self.mean_gap;
    }
}

/// Drivers wait in whole milliseconds: an event that begins this little after it was due on a connection that was free
/// is late by the timer's grain, not by the server.
pub const TIMER_GRAIN: Duration = Duration::from_millis(1);

/// From when an event's latency counts: the moment it was due, unless only the timer's grain lies between.
pub fn counted_from(due: Instant, now: Instant) -> Instant {
    if now.since(due) <= TIMER_GRAIN { now } else { due }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_come_at_their_rate() {
        let mut random = Random::new(9);
        let mut arrivals = Arrivals::new(1000.0);
        arrivals.begin(Instant::from_micros(5_000_000), &mut random);
        let end = Instant::from_micros(105_000_000);
        let mut moments = Vec::new();
        while let Some(due) = arrivals.take(end, &mut random) {
            moments.push(due);
        }
        // 100 s at 1000 a second; the count of a Poisson process varies by its root, 316.
        assert!((moments.len() as f64 - 100_000.0).abs() < 5.0 * 316.0, "{}", moments.len());
        assert!(moments.is_sorted() && moments[0] > Instant::from_micros(5_000_000));
        // Exponential gaps: e^-1 of them are longer than the mean.
        let long =
            moments.windows(2).filter(|pair| pair[1].since(pair[0]) > Duration::from_millis(1)).count();
        let share = long as f64 / moments.len() as f64;
        assert!((share - (-1.0_f64).exp()).abs() < 0.01, "{share}");
    }

    #[test]
    fn an_arrival_waits_until_it_is_taken() {
        let mut random = Random::new(1);
        let mut arrivals = Arrivals::new(10.0);
        arrivals.begin(Instant::START, &mut random);
        let due = arrivals.next();
        assert_eq!(arrivals.take(Instant::START, &mut random), None);
        assert_eq!(arrivals.take(due + Duration::from_secs(60), &mut random), Some(due));
    }

    #[test]
    fn lateness_beyond_the_grain_counts() {
        let due = Instant::from_micros(10_000);
        assert_eq!(counted_from(due, due + Duration::from_micros(900)), due + Duration::from_micros(900));
        assert_eq!(counted_from(due, due + Duration::from_micros(1_100)), due);
    }

    #[test]
    fn all_begin_in_as_few_turns_as_it_takes() {
        let mut schedule = Schedule::new(None);
        schedule.starting = 0..10_000;
        assert_eq!(schedule.next_timeout(), Some(Instant::START));
        let turns: Vec<_> = std::iter::repeat_with(|| schedule.take_starting()).take(4).collect();
        assert_eq!(turns, [0..4096, 4096..8192, 8192..10_000, 10_000..10_000]);
        assert_eq!(schedule.next_timeout(), None);
    }

    #[test]
    fn idle_connections_wait_for_arrivals_only_while_events_remain() {
        let mut schedule = Schedule::new(Some(5.0));
        assert_eq!(schedule.next_timeout(), None);
        schedule.idle.push_back(0);
        assert!(schedule.next_timeout().is_some());
        schedule.remaining = Some(0);
        assert_eq!(schedule.next_timeout(), None);
    }
}
