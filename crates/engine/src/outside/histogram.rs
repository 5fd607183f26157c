//! Histograms of times, in buckets that grow with the time: of fixed size, and with the same relative error everywhere.
//!
//! Each power of two is cut into equally wide buckets (log-linear, as HdrHistogram does it). The middle of a bucket stands
//! for all that fell into it.

use std::ops::AddAssign;
use std::time::Duration;

/// Buckets to each power of two: the middle of one is at most 1/16 away from what it stands for.
const FINE: u32 = 3;

/// The end of the times that are told apart, as a power of two of microseconds: 2^36 are 19 hours, more than `wait_timeout`.
const FINE_END: u32 = 36;

const FINE_BUCKETS: usize = buckets(FINE, FINE_END);

/// A histogram of times in microseconds, with a relative error of at most 1/16. 2.2 kB, whatever is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64; FINE_BUCKETS]>,
    count: u64,
    /// Microseconds.
    sum: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; FINE_BUCKETS]), count: 0, sum: 0, max: 0 }
    }
}

impl Histogram {
    /// Counts one time.
    pub fn record(&mut self, time: Duration) {
        let micros = micros(time);
        self.counts[bucket(micros, FINE).min(FINE_BUCKETS - 1)] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(micros);
        self.max = self.max.max(micros);
    }

    /// The number of times that have been counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of the times.
    pub fn sum(&self) -> Duration {
        Duration::from_micros(self.sum)
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        Duration::from_micros(self.max)
    }

    /// The time that this share of all, from 0 to 1, does not exceed; zero where nothing has been counted.
    pub fn quantile(&self, share: f64) -> Duration {
        let counts = self.counts.iter().copied();
        let found = quantile(counts, self.count, share).map_or(0, |bucket| middle(bucket, FINE));
        Duration::from_micros(found.min(self.max))
    }

    /// How many were below so many microseconds, as a power of two: exactly.
    pub fn below(&self, power: u32) -> u64 {
        let end = bucket(1_u64.checked_shl(power).unwrap_or(u64::MAX), FINE).min(FINE_BUCKETS);
        self.counts[..end].iter().sum()
    }

    /// Returns the times that were recorded since `before`, an earlier copy of the same histogram. The longest is that of all.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        for (count, earlier) in since.counts.iter_mut().zip(before.counts.iter()) {
            *count = count.saturating_sub(*earlier);
        }
        since.count = since.counts.iter().sum();
        since.sum = self.sum.saturating_sub(before.sum);
        since
    }

    /// The buckets that hold something, shortest first: the longest time that belongs into each, and how many did.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let held = self.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        held.map(|(bucket, &count)| (Duration::from_micros(lowest(bucket + 1, FINE) - 1), count))
    }
}

impl AddAssign<&Self> for Histogram {
    /// Several workers together.
    fn add_assign(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts.iter()) {
            *count += more;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }
}

/// Buckets to each power of two of the small histogram: at most 1/8 away.
const SMALL: u32 = 2;

/// The unit of the small histogram, as a power of two of microseconds: 16 µs, a few of which the fastest statement takes.
const SMALL_UNIT: u32 = 4;

/// 2^32 µs are 71 minutes.
const SMALL_END: u32 = 32;

const SMALL_BUCKETS: usize = buckets(SMALL, SMALL_END - SMALL_UNIT);

/// A histogram for those who keep thousands of them: 216 bytes. Its numbers are relative: where one of them is full, all are
/// halved, so that what is long ago counts less and less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SmallHistogram {
    counts: [u16; SMALL_BUCKETS],
}

plain!(struct SmallHistogram { counts });

impl Default for SmallHistogram {
    fn default() -> Self {
        Self { counts: [0; SMALL_BUCKETS] }
    }
}

impl AddAssign<&Self> for SmallHistogram {
    /// Both together; where a number would not fit, all are halved first.
    fn add_assign(&mut self, other: &Self) {
        let both = || self.counts.iter().zip(&other.counts).map(|(&a, &b)| u32::from(a) + u32::from(b));
        let shift = u32::from(both().any(|sum| sum > u32::from(u16::MAX)));
        let halved = both().map(|sum| u16::try_from(sum >> shift).expect("half of two of them"));
        let counts: Vec<u16> = halved.collect();
        self.counts.copy_from_slice(&counts);
    }
}

impl SmallHistogram {
    pub(crate) fn record(&mut self, micros: u64) {
        let bucket = bucket(micros >> SMALL_UNIT, SMALL).min(SMALL_BUCKETS - 1);
        if self.counts[bucket] == u16::MAX {
            for count in &mut self.counts {
                *count /= 2;
            }
        }
        self.counts[bucket] += 1;
    }

    /// Returns the quantile of [`Histogram::quantile`], in microseconds.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let counts = self.counts.iter().map(|&count| u64::from(count));
        let found = quantile(counts.clone(), counts.sum(), share);
        // Half of a unit stands for less than one.
        found.map_or(0, |bucket| (middle(bucket, SMALL) << SMALL_UNIT) + (1 << (SMALL_UNIT - 1)))
    }
}

/// The microseconds of a time that a clock of ours has measured.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// How many buckets there are for values below `1 << end`.
const fn buckets(fineness: u32, end: u32) -> usize {
    ((end - fineness + 1) << fineness) as usize
}

/// The bucket of a value, with `1 << fineness` of them to each power of two. Values below that have one each.
fn bucket(value: u64, fineness: u32) -> usize {
    let shift = (value | 1).ilog2().saturating_sub(fineness);
    // The highest bit of what is left by the shift adds one row, unless there is none.
    ((u64::from(shift) << fineness) + (value >> shift)) as usize
}

/// The lowest value of a bucket.
fn lowest(bucket: usize, fineness: u32) -> u64 {
    let row = (bucket >> fineness).saturating_sub(1);
    (bucket as u64 - ((row as u64) << fineness)) << row
}

fn middle(bucket: usize, fineness: u32) -> u64 {
    lowest(bucket, fineness).midpoint(lowest(bucket + 1, fineness) - 1)
}

/// The bucket that holds the value which `share` of `total` do not exceed.
fn quantile(counts: impl Iterator<Item = u64>, total: u64, share: f64) -> Option<usize> {
    // Beyond 2^53 of them, one more or less says nothing.
    let rank = ((share.clamp(0.0, 1.0) * total as f64).ceil() as u64).clamp(1, total.max(1));
    let mut passed = 0;
    for (bucket, count) in counts.enumerate() {
        passed += count;
        if passed >= rank {
            return Some(bucket);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_empty_one_has_no_quantiles() {
        assert_eq!(Histogram::default().quantile(0.99), Duration::ZERO);
        assert_eq!(SmallHistogram::default().quantile(0.99), 0);
    }

    #[test]
    fn quantiles_are_those_of_what_was_counted() {
        let mut histogram = Histogram::default();
        for millis in 1..=1000 {
            histogram.record(Duration::from_millis(millis));
        }
        for (share, exact) in [(0.0, 1.0), (0.5, 500.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1000.0)] {
            let found = histogram.quantile(share).as_secs_f64() * 1000.0;
            assert!((found - exact).abs() <= exact / 16.0, "{share}: {found} instead of {exact}");
        }
        assert_eq!(histogram.max(), Duration::from_secs(1));
        assert_eq!(histogram.sum(), Duration::from_micros(500_500_000));
        assert_eq!(histogram.buckets().map(|(_, count)| count).sum::<u64>(), 1000);
    }

    #[test]
    fn nothing_is_too_long_to_be_counted() {
        let mut histogram = Histogram::default();
        histogram.record(Duration::MAX);
        assert_eq!(histogram.count(), 1);
        let mut small = SmallHistogram::default();
        small.record(u64::MAX);
        assert!(small.quantile(0.5) >= (1 << SMALL_END) / 8 * 7);
    }

    #[test]
    fn powers_of_two_are_exact() {
        let mut histogram = Histogram::default();
        for micros in [0, 127, 128, 129, 255, 256, 1 << 25] {
            histogram.record(Duration::from_micros(micros));
        }
        assert_eq!(
            [0, 7, 8, 9, 25, 26, 63, 64].map(|power| histogram.below(power)),
            [1, 2, 5, 6, 6, 7, 7, 7]
        );
    }

    #[test]
    fn two_together_are_as_one() {
        let (mut one, mut other, mut both) = Default::default();
        for (n, micros) in [3, 5, 8, 13, 2000, 40_000_000].into_iter().enumerate() {
            let time = Duration::from_micros(micros);
            let half: &mut Histogram = if n % 2 == 0 { &mut one } else { &mut other };
            half.record(time);
            Histogram::record(&mut both, time);
        }
        one += &other;
        assert_eq!(one, both);
    }

    #[test]
    fn two_small_ones_together_keep_their_proportions() {
        let (mut one, mut other) = (SmallHistogram::default(), SmallHistogram::default());
        for _ in 0..u16::MAX {
            one.record(100);
            other.record(100);
            other.record(1_000_000);
        }
        one += &other;
        assert!(one.quantile(0.6) < 200);
        assert!(one.quantile(0.7) > 800_000);
    }

    #[test]
    fn what_is_long_ago_counts_less() {
        let mut small = SmallHistogram::default();
        for _ in 0..u32::from(u16::MAX) * 3 {
            small.record(1_000_000);
        }
        for _ in 0..u32::from(u16::MAX) * 3 {
            small.record(100);
        }
        assert!(small.quantile(0.5) < 200);
    }

    proptest! {
        #[test]
        fn a_bucket_stands_for_what_is_in_it(value in 0u64..1 << FINE_END) {
            let number = bucket(value, FINE);
            prop_assert!(number < FINE_BUCKETS);
            prop_assert!(lowest(number, FINE) <= value && value < lowest(number + 1, FINE));
            prop_assert!(middle(number, FINE).abs_diff(value) <= value / 16);
        }

        #[test]
        fn the_small_one_is_less_exact(micros in 128u64..1 << SMALL_END) {
            let mut small = SmallHistogram::default();
            small.record(micros);
            prop_assert!(small.quantile(0.5).abs_diff(micros) <= micros / 8 + (1 << SMALL_UNIT));
        }
    }
}
