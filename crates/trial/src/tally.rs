//! A number that is seen again and again: how much of the time it had each of its values.

use std::collections::BTreeMap;

/// How long a number had each of its values, in milliseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    // As many as the number has had values: no more than there are clients.
    time: BTreeMap<u32, u64>,
    whole: u64,
}

impl Tally {
    /// It has had this value for so long.
    pub(crate) fn add(&mut self, value: u32, milliseconds: u64) {
        *self.time.entry(value).or_default() += milliseconds;
        self.whole += milliseconds;
    }

    pub(crate) fn max(&self) -> u32 {
        self.time.keys().next_back().copied().unwrap_or(0)
    }

    /// The value that it did not exceed for this share of the time, from 0 to 1.
    pub(crate) fn quantile(&self, share: f64) -> u32 {
        let wanted = share * self.whole as f64;
        let mut so_far = 0.0;
        for (&value, &time) in &self.time {
            so_far += time as f64;
            if so_far >= wanted {
                return value;
            }
        }
        self.max()
    }

    pub(crate) fn mean(&self) -> f64 {
        let sum: f64 = self.time.iter().map(|(&value, &time)| f64::from(value) * time as f64).sum();
        if self.whole == 0 { 0.0 } else { sum / self.whole as f64 }
    }

    /// For which share of the time it was above a value, from 0 to 1.
    pub(crate) fn above(&self, bound: u32) -> f64 {
        let time: u64 = self.time.iter().filter(|&(&value, _)| value > bound).map(|(_, time)| time).sum();
        if self.whole == 0 { 0.0 } else { time as f64 / self.whole as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_time() {
        let mut tally = Tally::default();
        assert_eq!((tally.max(), tally.quantile(0.99), tally.mean(), tally.above(0)), (0, 0, 0.0, 0.0));
        tally.add(2, 985);
        tally.add(40, 10);
        tally.add(7, 5);
        assert_eq!(
            (tally.max(), tally.quantile(0.5), tally.quantile(0.99), tally.quantile(1.0)),
            (40, 2, 7, 40)
        );
        assert!((tally.mean() - 2.405).abs() < 1e-9);
        assert!((tally.above(7) - 0.01).abs() < 1e-9);
    }
}
