//! The best limits for mixes of statements, so that a load that comes back finds its limit at once.
//!
//! Where statements that wait give way to statements that compute, or the other way round, the best limit is another one by factors, and
//! the way there by steps takes many seconds, each of them slow. A mix is known by what part of the work its kinds are.

/// The kinds of statements fall into so many drawers, by their digests: the few kinds that make most of a load seldom share one.
pub(super) const DRAWERS: usize = 32;

/// Mixes of which half of the work or more is of other kinds are different ones. Below that, the share of one kind may come and go by chance.
const DIFFERENCE: f64 = 0.5;

/// Measurements in a row that have to tell of another mix: statements that ended in one of them may have waited for a change for long.
const IN_A_ROW: u32 = 2;

/// Mixes that are remembered, the latest: more than a day has jobs that differ.
const REMEMBERED: usize = 16;

/// The time that ended statements take as a rule, in microseconds, by drawer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsualTimes(pub(super) [u64; DRAWERS]);

impl UsualTimes {
    /// Adds one more statement, of the kind with this fingerprint.
    pub(super) fn add(&mut self, fingerprint: u64, micros: u64) {
        self.0[drawer(fingerprint)] += micros;
    }

    /// The parts of the work by drawer, where there is any.
    pub(super) fn parts(self) -> impl Iterator<Item = (usize, u64)> {
        self.0.into_iter().enumerate().filter(|&(_, work)| work > 0)
    }

    /// Returns the work that has come since that.
    pub(super) fn since(self, before: Self) -> Self {
        // The clocks of workers differ by a turn, so that what is counted may seem to go back.
        Self(std::array::from_fn(|drawer| self.0[drawer].saturating_sub(before.0[drawer])))
    }

    pub(super) fn sum(self) -> u64 {
        self.0.iter().sum()
    }

    /// The part of each drawer.
    fn shares(self) -> Option<Shares> {
        let sum = self.sum();
        (sum > 0).then(|| Shares(self.0.map(|work| work as f64 / sum as f64)))
    }
}

impl From<[u64; DRAWERS]> for UsualTimes {
    fn from(work: [u64; DRAWERS]) -> Self {
        Self(work)
    }
}

fn drawer(fingerprint: u64) -> usize {
    // Five bits of a hash, whichever.
    (fingerprint >> 59) as usize
}

/// The drawers' parts of the work; together 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shares(pub(super) [f64; DRAWERS]);

impl Shares {
    /// The part of the work that is of other kinds, from 0 to 1.
    fn differ_from(&self, other: &Self) -> f64 {
        self.0.iter().zip(other.0).map(|(here, there)| (here - there).abs()).sum::<f64>() / 2.0
    }

    /// An average over about the last ten.
    fn drift_to(&mut self, other: &Self) {
        for (share, latest) in self.0.iter_mut().zip(other.0) {
            *share += (latest - *share) / 10.0;
        }
    }
}

/// A mix, and the limit that was best for it, where one was ever reached.
#[derive(Debug, PartialEq)]
pub(super) struct Known {
    pub(super) shares: Shares,
    pub(super) best: Option<u32>,
}

/// The mixes that have been seen lately.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Mixes {
    /// The present one first, then those before it.
    pub(super) known: Vec<Known>,
    /// Measurements in a row that have told of another mix.
    pub(super) others: u32,
}

/// The mix is another one from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The best limit for it, where one is known.
    pub(super) best: Option<u32>,
}

impl Mixes {
    /// Notes the best limit for the mix that was measured last, unless that mix was another one than the present.
    pub(super) fn note_best(&mut self, best: u32) {
        if let Some(present) = self.known.first_mut().filter(|_| self.others == 0) {
            present.best = Some(best);
        }
    }

    /// Changes each limit that is known.
    pub(super) fn change_each(&mut self, change: impl Fn(u32) -> u32) {
        for known in &mut self.known {
            known.best = known.best.map(&change);
        }
    }

    /// A measurement has ended, in which so much was done.
    pub(super) fn measured(&mut self, work: UsualTimes) -> Option<Change> {
        let shares = work.shares()?;
        let Some(present) = self.known.first_mut() else {
            self.known.push(Known { shares, best: None });
            return None;
        };
        if present.shares.differ_from(&shares) < DIFFERENCE {
            present.shares.drift_to(&shares);
            self.others = 0;
            return None;
        }
        self.others += 1;
        if self.others < IN_A_ROW {
            return None;
        }
        self.others = 0;
        let place = self.known.iter().position(|known| known.shares.differ_from(&shares) < DIFFERENCE);
        let before = place.map(|place| self.known.remove(place));
        let change = Change { best: before.as_ref().and_then(|known| known.best) };
        self.known.truncate(REMEMBERED - 1);
        self.known.insert(0, before.unwrap_or(Known { shares, best: None }));
        Some(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(kind: u64) -> u64 {
        kind << 59
    }

    /// Measurements in which the kinds have these parts.
    fn measure(mixes: &mut Mixes, parts: &[(u64, u64)], times: u32, best: u32) -> Vec<Change> {
        let mut changes = Vec::new();
        for _ in 0..times {
            let mut work = UsualTimes::default();
            for &(kind, part) in parts {
                work.add(fingerprint(kind), part);
            }
            let change = mixes.measured(work);
            if change.is_none() {
                mixes.note_best(best);
            }
            changes.extend(change);
        }
        changes
    }

    #[test]
    fn a_mix_that_comes_back_is_known() {
        let mut mixes = Mixes::default();
        assert_eq!(measure(&mut mixes, &[(1, 90), (2, 10)], 20, 8), []);
        assert_eq!(measure(&mut mixes, &[(3, 100)], 20, 200), [Change { best: None }]);
        assert_eq!(measure(&mut mixes, &[(1, 70), (2, 30)], 20, 9), [Change { best: Some(8) }]);
        assert_eq!(measure(&mut mixes, &[(3, 80), (2, 20)], 20, 7), [Change { best: Some(200) }]);
        assert_eq!(measure(&mut mixes, &[(1, 80), (2, 20)], 2, 7), [Change { best: Some(9) }]);
    }

    #[test]
    fn one_measurement_alone_changes_nothing() {
        let mut mixes = Mixes::default();
        for _ in 0..50 {
            assert_eq!(measure(&mut mixes, &[(1, 1)], 3, 8), []);
            assert_eq!(measure(&mut mixes, &[(2, 1)], 1, 8), []);
        }
    }

    #[test]
    fn what_changes_little_by_little_is_the_same() {
        let mut mixes = Mixes::default();
        for part in 0..=100 {
            assert_eq!(measure(&mut mixes, &[(1, 100 - part), (2, part)], 3, 8), []);
        }
    }

    #[test]
    fn few_are_remembered() {
        let mut mixes = Mixes::default();
        for round in 0..3 {
            for kind in 0..32 {
                let changes = measure(&mut mixes, &[(kind, 1)], 3, 8);
                assert_eq!(changes.len(), usize::from(round + kind > 0));
                assert!(changes.iter().all(|change| change.best.is_none()), "forgotten meanwhile");
            }
        }
        assert_eq!(mixes.known.len(), REMEMBERED);
    }
}
