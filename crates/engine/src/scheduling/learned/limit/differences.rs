//! Finds out whether one limit is better than another, by measurements in pairs.

/// The worth of a limit: a step up has to bring so much of the gain that it would bring where each permit counts in full, a step
/// down may cost so much of it. Between the two nothing moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// A tenth more permits is worth 0.4 % more work. Where a limit comes to rest by that, 2 to 4 % are left of what none would bring.
    Little,
    /// Twice as many is worth a fifth more work. This is for a limit that is dear by itself, where a server either needs far more of it, or
    /// none.
    Much,
}

impl Worth {
    /// The part of the gain that a step up has to bring, and the part that a step down may lose.
    fn parts(self) -> (f64, f64) {
        match self {
            Self::Little => (0.04, 0.02),
            Self::Much => (0.3, 0.2),
        }
    }
}

/// A difference so far beyond the least that counts needs no more than two measurements that agree (a natural logarithm). Twice
/// of it needs no more than one where the limit is to be the smaller one: a limit that was lowered by mistake is tried again,
/// while a server that drowns needs help soon. Four times of it needs one in any case. On a machine with a speed that varies by
/// as much, the difference has to be [`BEYOND_NOISE`] times that.
const PLAIN: f64 = 0.15;
const BEYOND_NOISE: f64 = 4.0;

/// No measurement is more exact than this.
const LEAST_ERROR: f64 = 0.002;

/// The pairs are looked at whenever so many more have come, and not after each: who looks often enough sees what he wants to.
const LOOK_EVERY: u32 = 4;

/// After so many pairs at a time the rest is left for another time: some two seconds at full speed.
pub(super) const AT_A_TIME: u32 = 12;

/// Pairs beyond which half of them is forgotten: a result from long ago may not hold any more.
const REMEMBERED: u32 = 64;

/// The certainty that a step needs, as quantiles of the normal distribution: seven times in ten upwards, nine times in ten downwards, where no
/// more than what may be lost ([`Worth`]) is at stake by what is asked. More is not better. On a server that gets ever slower by each thread,
/// and never quite stops getting more done, a limit that waits to be sure stays low. That costs more than steps that were of no use. The machine
/// in the model of the tests is faster or slower by a third now and then: there 0.5 loses 1 to 2 %, and 2 loses 11.
const SURE_UPWARDS: f64 = 0.5;
const SURE_DOWNWARDS: f64 = 1.28;

/// The same for being sure that it is not worth it.
const SURE_NOT: f64 = 1.0;

/// The results of pairs of measurements: by how much the logarithm of the speed was larger at the other limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Differences {
    pub(super) count: u32,
    pub(super) sum: f64,
    pub(super) squares: f64,
    pub(super) smallest: f64,
    pub(super) largest: f64,
}

/// The conclusion from them.
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
        if self.count >= REMEMBERED {
            self.count /= 2;
            self.sum /= 2.0;
            self.squares /= 2.0;
        }
        self.count += 1;
        self.sum += difference;
        self.squares += difference * difference;
        self.smallest = self.smallest.min(difference);
        self.largest = self.largest.max(difference);
    }

    /// Decides whether the other limit should take the place of the present one. `noise`: the variation of the machine's speed
    /// from one measurement to the next.
    pub(super) fn verdict(&self, present: u32, other: u32, noise: f64, worth: Worth) -> Verdict {
        if self.count == 0 {
            return Verdict::Open;
        }
        let full = (f64::from(other) / f64::from(present)).ln();
        // Both are positive upwards and negative downwards.
        let (gain, loss) = worth.parts();
        let wanted = if full > 0.0 { gain * full } else { loss * full };
        let plain = PLAIN.max(BEYOND_NOISE * noise);
        if self.largest < wanted - 2.0 * plain || (self.count >= 2 && self.largest < wanted - plain) {
            return Verdict::NotBetter;
        }
        let beyond_doubt = wanted + if full < 0.0 { 2.0 } else { 4.0 } * plain;
        if self.smallest > beyond_doubt || (self.count >= 2 && self.smallest > wanted + plain) {
            return Verdict::Better;
        }
        if self.count % LOOK_EVERY != 0 {
            return Verdict::Open;
        }
        let beyond = self.mean() - wanted;
        let sure = if full > 0.0 { SURE_UPWARDS } else { SURE_DOWNWARDS };
        if beyond > self.uncertainty(sure) {
            Verdict::Better
        } else if -beyond > self.uncertainty(SURE_NOT) {
            Verdict::NotBetter
        } else {
            Verdict::Open
        }
    }

    /// The mean of all of them; there is one at least.
    pub(super) fn mean(&self) -> f64 {
        self.sum / f64::from(self.count)
    }

    /// The amount by which the mean may be wrong, where the mean is to be as sure as this quantile of the normal distribution is.
    fn uncertainty(&self, sure: f64) -> f64 {
        let (count, mean) = (f64::from(self.count), self.mean());
        let variance = (self.squares / count - mean * mean).max(0.0) * count / (count - 1.0);
        let error = (variance / count).sqrt().max(LEAST_ERROR);
        error * student(sure, count - 1.0)
    }
}

/// Student's t for a quantile of the normal distribution (E. A. Cornish and R. A. Fisher's expansion, 1938), which is right to
/// 2 % from three degrees of freedom on for what is asked here.
fn student(normal: f64, freedom: f64) -> f64 {
    let z = normal;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
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
        assert_eq!(of(&[0.6]).verdict(16, 32, 0.0, Worth::Little), Verdict::Open, "one may be luck");
        assert_eq!(of(&[0.6, 0.5]).verdict(16, 32, 0.0, Worth::Little), Verdict::Better);
        assert_eq!(of(&[-0.6]).verdict(16, 8, 0.0, Worth::Little), Verdict::NotBetter);
        assert_eq!(
            of(&[0.6]).verdict(16, 8, 0.0, Worth::Little),
            Verdict::Better,
            "less for the server to do cannot hurt it"
        );
        assert_eq!(of(&[-0.2, -0.25]).verdict(16, 8, 0.0, Worth::Little), Verdict::NotBetter);
    }

    #[test]
    fn on_a_restless_machine_a_plain_difference_is_a_larger_one() {
        assert_eq!(of(&[0.3, 0.3]).verdict(16, 32, 0.1, Worth::Little), Verdict::Open);
        assert_eq!(of(&[0.5, 0.6]).verdict(16, 32, 0.1, Worth::Little), Verdict::Better);
        assert_eq!(of(&[0.6]).verdict(16, 8, 0.1, Worth::Little), Verdict::Open);
        assert_eq!(of(&[-0.3, -0.25]).verdict(16, 8, 0.1, Worth::Little), Verdict::Open);
    }

    #[test]
    fn what_is_as_good_is_better_if_it_is_smaller() {
        let same = of(&[0.0, 0.001, -0.001, 0.0]);
        assert_eq!(same.verdict(16, 8, 0.0, Worth::Little), Verdict::Better);
        assert_eq!(same.verdict(16, 32, 0.0, Worth::Little), Verdict::NotBetter);
        let a_little = [0.02, 0.021, 0.019, 0.02];
        assert_eq!(
            of(&a_little).verdict(16, 32, 0.0, Worth::Little),
            Verdict::NotBetter,
            "not worth twice as many"
        );
        assert_eq!(
            of(&a_little.map(|more| -more)).verdict(32, 16, 0.0, Worth::Little),
            Verdict::NotBetter,
            "nor half as many"
        );
    }

    #[test]
    fn what_is_dear_has_to_bring_more() {
        let a_tenth = [0.1, 0.101, 0.099, 0.1];
        assert_eq!(of(&a_tenth).verdict(4, 8, 0.0, Worth::Little), Verdict::Better);
        assert_eq!(of(&a_tenth).verdict(4, 8, 0.0, Worth::Much), Verdict::NotBetter);
        assert_eq!(of(&a_tenth.map(|more| -more)).verdict(8, 4, 0.0, Worth::Much), Verdict::Better);
        assert_eq!(of(&[0.6, 0.6]).verdict(4, 8, 0.0, Worth::Much), Verdict::Better);
    }

    #[test]
    fn what_cannot_be_told_from_chance_moves_nothing() {
        for (present, other) in [(16, 32), (16, 8)] {
            let mut noisy = Differences::default();
            for _ in 0..2 * REMEMBERED {
                noisy.add(0.3);
                noisy.add(-0.3);
                assert_ne!(
                    noisy.verdict(present, other, 0.0, Worth::Little),
                    Verdict::Better,
                    "{present} to {other}"
                );
            }
        }
    }

    #[test]
    fn what_is_small_is_seen_after_many_pairs() {
        let mut noisy = Differences::default();
        let mut pairs = 0;
        while noisy.verdict(16, 32, 0.0, Worth::Little) == Verdict::Open {
            noisy.add(if pairs % 2 == 0 { 0.3 } else { -0.2 });
            pairs += 1;
        }
        assert_eq!(noisy.verdict(16, 32, 0.0, Worth::Little), Verdict::Better);
        assert!(pairs > AT_A_TIME, "{pairs}");
    }

    #[test]
    fn small_samples_need_more() {
        // Tables of Student's distribution, one-sided 0.975 and 0.90.
        for (normal, freedom, table) in [
            (1.96, 3.0, 3.182),
            (1.96, 15.0, 2.131),
            (SURE_DOWNWARDS, 3.0, 1.638),
            (SURE_DOWNWARDS, 15.0, 1.341),
        ] {
            let found = student(normal, freedom);
            assert!((found / table - 1.0).abs() < 0.02, "{found} for {table}");
        }
    }
}
