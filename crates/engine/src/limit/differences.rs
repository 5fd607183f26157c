//! Whether one limit is better than another, by measurements in pairs.

/// A step up has to bring so much of what it would where each permit counts in full, a step down may cost so much of it:
/// with a tenth more permits, 0.4 % more work is worth it. Where a limit comes to rest by that, 2 to 4 % are left of what
/// none would bring. Between the two nothing moves.
const WORTH: f64 = 0.04;
const LOSS: f64 = 0.02;

/// A difference so far beyond what counts needs no more than two measurements that agree (a natural logarithm). Twice of it
/// needs no more than one where the limit is to be the smaller one: what is given up by mistake is tried again, while a
/// server that drowns needs help soon.
const PLAIN: f64 = 0.15;

/// No measurement is more exact than this.
const LEAST_ERROR: f64 = 0.002;

/// After so many pairs it is decided as it stands: some two seconds at full speed.
const MOST: u32 = 12;

/// What pairs of measurements have said: by how much the logarithm of the speed was larger at the other limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Differences {
    count: u32,
    sum: f64,
    squares: f64,
    smallest: f64,
    largest: f64,
}

/// What follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Better,
    NotBetter,
    /// Another pair is needed.
    Open,
}

impl Default for Differences {
    fn default() -> Self {
        Self { count: 0, sum: 0.0, squares: 0.0, smallest: f64::INFINITY, largest: f64::NEG_INFINITY }
    }
}

impl Differences {
    pub(super) fn add(&mut self, difference: f64) {
        self.count += 1;
        self.sum += difference;
        self.squares += difference * difference;
        self.smallest = self.smallest.min(difference);
        self.largest = self.largest.max(difference);
    }

    /// Whether the other limit should take the place of the present one.
    pub(super) fn verdict(&self, present: u32, other: u32) -> Verdict {
        if self.count == 0 {
            return Verdict::Open;
        }
        let full = (f64::from(other) / f64::from(present)).ln();
        // Both are positive upwards and negative downwards.
        let wanted = if full > 0.0 { WORTH * full } else { LOSS * full };
        let mean = self.sum / f64::from(self.count);
        if self.largest < wanted - 2.0 * PLAIN || (self.count >= 2 && self.largest < wanted - PLAIN) {
            return Verdict::NotBetter;
        }
        let relief = full < 0.0 && self.smallest > wanted + 2.0 * PLAIN;
        if relief || (self.count >= 2 && self.smallest > wanted + PLAIN) {
            return Verdict::Better;
        }
        let decided = if mean > wanted { Verdict::Better } else { Verdict::NotBetter };
        match self.count {
            MOST.. => decided,
            3.. if (mean - wanted).abs() > self.uncertainty(mean) => decided,
            _ => Verdict::Open,
        }
    }

    /// By how much the mean may be wrong, but for one time in twenty to each side.
    fn uncertainty(&self, mean: f64) -> f64 {
        let count = f64::from(self.count);
        let variance = (self.squares / count - mean * mean).max(0.0) * count / (count - 1.0);
        let error = (variance / count).sqrt().max(LEAST_ERROR);
        // Student's t for 0.95, which 1.65 + 2.5 / degrees of freedom comes near to from two on.
        error * (1.65 + 2.5 / (count - 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(differences: &[f64]) -> Differences {
        let mut all = Differences::default();
        differences.iter().for_each(|&difference| all.add(difference));
        all
    }

    #[test]
    fn plain_differences_are_seen_at_once() {
        assert_eq!(of(&[0.6]).verdict(16, 32), Verdict::Open, "one may be luck");
        assert_eq!(of(&[0.6, 0.5]).verdict(16, 32), Verdict::Better);
        assert_eq!(of(&[-0.6]).verdict(16, 8), Verdict::NotBetter);
        assert_eq!(of(&[0.6]).verdict(16, 8), Verdict::Better, "less for the server to do cannot hurt it");
        assert_eq!(of(&[-0.2, -0.25]).verdict(16, 8), Verdict::NotBetter);
    }

    #[test]
    fn what_is_as_good_is_better_if_it_is_smaller() {
        let same = of(&[0.0, 0.001, -0.001]);
        assert_eq!(same.verdict(16, 8), Verdict::Better);
        assert_eq!(same.verdict(16, 32), Verdict::NotBetter);
        let a_little = [0.02, 0.021, 0.019];
        assert_eq!(of(&a_little).verdict(16, 32), Verdict::NotBetter, "not worth twice as many");
        assert_eq!(of(&a_little.map(|more| -more)).verdict(32, 16), Verdict::NotBetter, "nor half as many");
    }

    #[test]
    fn noise_takes_more_measurements_but_not_for_ever() {
        let mut noisy = of(&[0.3, -0.2, 0.25, -0.15]);
        assert_eq!(noisy.verdict(16, 32), Verdict::Open);
        for _ in 0..4 {
            noisy.add(0.3);
            noisy.add(-0.25);
        }
        assert_ne!(noisy.verdict(16, 32), Verdict::Open);
    }
}
