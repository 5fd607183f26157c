//! What is counted during a run.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::errors::{ErrorCounts, Failure};
use crate::workload::statement::Kind;

/// Latencies from 1 microsecond to 1 hour with 3 significant digits.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    const LOWEST: u64 = 1;
    const HIGHEST: u64 = 3_600_000_000;
    const DIGITS: u8 = 3;

    /// One more. Below and above the range counts as its end.
    pub fn record(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(micros.clamp(Self::LOWEST, Self::HIGHEST));
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency in milliseconds that a share of all did not pass; `share` from 0 to 1. 0 when there are none.
    pub fn quantile(&self, share: f64) -> f64 {
        milliseconds(self.0.value_at_quantile(share))
    }

    /// The longest, in milliseconds.
    pub fn max(&self) -> f64 {
        milliseconds(self.0.max())
    }

    /// The average, in milliseconds.
    pub fn mean(&self) -> f64 {
        self.0.mean() / 1000.0
    }

    /// Forgets all.
    pub fn reset(&mut self) {
        self.0.reset();
    }
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(Self::LOWEST, Self::HIGHEST, Self::DIGITS);
        Self(histogram.expect("the bounds are in order and the digits at most 5"))
    }
}

fn milliseconds(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

/// Statements that were answered without an error, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queries {
    /// SELECT.
    pub read: u64,
    /// INSERT, UPDATE, DELETE.
    pub write: u64,
    /// BEGIN, COMMIT, ROLLBACK.
    pub other: u64,
}

impl Queries {
    /// One more.
    pub fn record(&mut self, kind: Kind) {
        match kind {
            Kind::Read => self.read += 1,
            Kind::Write => self.write += 1,
            Kind::Other => self.other += 1,
        }
    }

    /// How many in all.
    pub fn total(self) -> u64 {
        self.read + self.write + self.other
    }
}

/// The figures of one period: the measured time, or the time since the last line of figures.
#[derive(Clone, Debug, Default)]
pub struct Period {
    /// Of events, from start (or due time) to end.
    pub latencies: Latencies,
    /// Statements.
    pub queries: Queries,
    /// Errors of all kinds.
    pub errors: u64,
    /// Connections that had to be opened again.
    pub reconnects: u64,
    /// Rows that came back.
    pub rows: u64,
}

impl Period {
    fn reset(&mut self) {
        // The histogram keeps its memory.
        self.latencies.reset();
        self.queries = Queries::default();
        self.errors = 0;
        self.reconnects = 0;
        self.rows = 0;
    }
}

/// All that is counted.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// The measured time.
    pub total: Period,
    /// Since the last line of figures.
    pub interval: Period,
    /// By number.
    pub errors: ErrorCounts,
    /// Answers that were not what the workload expects, with an example.
    pub mismatches: u64,
    /// The first of them.
    pub mismatch: Option<String>,
}

impl Statistics {
    /// An event is done.
    pub fn record_event(&mut self, latency: Duration) {
        self.total.latencies.record(latency);
        self.interval.latencies.record(latency);
    }

    /// A statement was answered.
    pub fn record_query(&mut self, kind: Kind, rows: u32) {
        for period in [&mut self.total, &mut self.interval] {
            period.queries.record(kind);
            period.rows += u64::from(rows);
        }
    }

    /// Something failed.
    pub fn record_error(&mut self, failure: &Failure) {
        self.errors.record(failure);
        self.total.errors += 1;
        self.interval.errors += 1;
    }

    /// A connection was opened again.
    pub fn record_reconnect(&mut self) {
        self.total.reconnects += 1;
        self.interval.reconnects += 1;
    }

    /// An answer was not what it should be.
    pub fn record_mismatch(&mut self, text: impl FnOnce() -> String) {
        self.mismatches += 1;
        self.mismatch.get_or_insert_with(text);
    }

    /// The measured time begins. Mismatches stay: they are wrong at any time.
    pub fn begin(&mut self) {
        self.total.reset();
        self.errors = ErrorCounts::default();
    }

    /// A line of figures has been written.
    pub fn begin_interval(&mut self) {
        self.interval.reset();
    }
}

/// How evenly the connections were served: events of the least, the middle and the most served one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fairness {
    /// The fewest events of a connection.
    pub min: u64,
    /// Half of the connections had as many or fewer.
    pub median: u64,
    /// The most events of a connection.
    pub max: u64,
}

impl Fairness {
    /// Of these counts, one per connection.
    pub fn of(mut events: Vec<u64>) -> Self {
        events.sort_unstable();
        let at = |index: usize| events.get(index).copied().unwrap_or(0);
        Self {
            min: at(0),
            median: at(events.len().saturating_sub(1) / 2),
            max: at(events.len().saturating_sub(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_known_latencies() {
        let mut latencies = Latencies::default();
        for micros in 1..=10_000 {
            latencies.record(Duration::from_micros(micros));
        }
        assert_eq!(latencies.count(), 10_000);
        // Three significant digits: off by a thousandth at most.
        for (share, expected) in [(0.5, 5.0), (0.95, 9.5), (0.999, 9.99), (1.0, 10.0)] {
            let found = latencies.quantile(share);
            assert!((found / expected - 1.0).abs() < 0.001, "{share}: {found}");
        }
        assert!((latencies.mean() - 5.0005).abs() < 0.005);
    }

    #[test]
    fn latencies_out_of_range_count_as_its_ends() {
        let mut latencies = Latencies::default();
        latencies.record(Duration::ZERO);
        latencies.record(Duration::from_secs(100_000));
        assert_eq!(latencies.count(), 2);
        assert!((latencies.max() / 3_600_000.0 - 1.0).abs() < 0.001);
    }

    #[test]
    fn the_measured_time_begins_at_zero() {
        let mut statistics = Statistics::default();
        statistics.record_event(Duration::from_millis(1));
        statistics.record_query(Kind::Read, 3);
        statistics.record_error(&Failure { code: 1213, text: "Deadlock".to_owned() });
        statistics.record_mismatch(|| "first".to_owned());
        statistics.begin();
        statistics.record_query(Kind::Write, 0);
        assert_eq!(statistics.total.latencies.count(), 0);
        assert_eq!(statistics.total.queries, Queries { read: 0, write: 1, other: 0 });
        assert_eq!((statistics.total.rows, statistics.total.errors, statistics.errors.total()), (0, 0, 0));
        assert_eq!(statistics.interval.queries.total(), 2, "the interval goes on");
        statistics.record_mismatch(|| "second".to_owned());
        assert_eq!((statistics.mismatches, statistics.mismatch.as_deref()), (2, Some("first")));
    }

    #[test]
    fn fairness_is_that_of_the_sorted_counts() {
        assert_eq!(Fairness::of(vec![5, 1, 9]), Fairness { min: 1, median: 5, max: 9 });
        assert_eq!(Fairness::of(vec![4]), Fairness { min: 4, median: 4, max: 4 });
        assert_eq!(Fairness::of(vec![2, 1]), Fairness { min: 1, median: 1, max: 2 });
    }
}
