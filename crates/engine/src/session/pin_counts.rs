//! Why statements were not multiplexed: counts by reason, and which statements caused pins.
//!
//! Under `thread_handling = one-thread-per-connection` nothing is multiplexed, and the counts say what would be.

use std::collections::BTreeMap;

use crate::scheduling::learned::digests::Digests;
use crate::session::pins::Pins;

/// Kinds of statements are counted apart from each other up to so many, about 100 bytes each; the rest is counted together.
const MOST_CAUSES: usize = 1000;

/// The counts of one worker's pins.
#[derive(Debug, Default)]
pub(crate) struct PinCounts {
    reasons: BTreeMap<&'static str, Reason>,
    /// Counts by reason and digest, which is 0 for the rest.
    causes: BTreeMap<(&'static str, u64), u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Reason {
    times: u64,
    statements: u64,
}

/// The counts, for tables.
#[derive(Clone, Debug, Default)]
pub struct PinReport {
    /// The reasons that there have been.
    pub reasons: Vec<PinReason>,
    /// The causes: one for each reason and kind of statement.
    pub causes: Vec<PinCause>,
}

/// A reason to pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinReason {
    /// The reason's name.
    pub reason: &'static str,
    /// The number of times that a client was pinned for it.
    pub times: u64,
    /// Statements that ran on their client's own backend for this reason, perhaps among others.
    pub statements: u64,
}

/// A kind of statement that pins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinCause {
    /// The reason's name.
    pub reason: &'static str,
    /// The digest; `None` for the rest and for what has none.
    pub fingerprint: Option<u64>,
    /// The normalised text, where it is known.
    pub text: Option<Box<str>>,
    /// The number of times that it pinned its client for this reason.
    pub times: u64,
}

impl PinCounts {
    /// A client is pinned for these reasons from now on.
    pub(crate) fn pinned(&mut self, pins: Pins, fingerprint: u64) {
        // Nearly always: no statement that pins nothing has to look through the names of all reasons.
        if pins.is_empty() {
            return;
        }
        for reason in pins.names() {
            self.reasons.entry(reason).or_default().times += 1;
            let full = self.causes.len() >= MOST_CAUSES;
            let known = !full || self.causes.contains_key(&(reason, fingerprint));
            *self.causes.entry((reason, if known { fingerprint } else { 0 })).or_default() += 1;
        }
    }

    /// A statement runs on its client's own backend for these reasons.
    pub(crate) fn kept(&mut self, pins: Pins) {
        for reason in pins.names() {
            self.reasons.entry(reason).or_default().statements += 1;
        }
    }

    /// How often a client was pinned, by reason.
    pub(crate) fn times(&self) -> BTreeMap<&'static str, u64> {
        self.reasons.iter().map(|(&reason, count)| (reason, count.times)).collect()
    }

    /// Bytes of it; the nodes of a B-tree are at least half full.
    pub(crate) fn bytes(&self) -> usize {
        let causes = self.causes.len() * size_of::<((&str, u64), u64)>();
        2 * (causes + self.reasons.len() * size_of::<(&str, Reason)>())
    }
}

impl PinReport {
    /// Makes the report of one worker, which has seen these digests.
    pub(crate) fn new(counts: &PinCounts, digests: &Digests) -> Self {
        let reason = |(&reason, count): (&&'static str, &Reason)| PinReason {
            reason,
            times: count.times,
            statements: count.statements,
        };
        let cause = |(&(reason, fingerprint), &times): (&(&'static str, u64), &u64)| PinCause {
            reason,
            fingerprint: (fingerprint != 0).then_some(fingerprint),
            text: digests.text(fingerprint).map(Into::into),
            times,
        };
        Self {
            reasons: counts.reasons.iter().map(reason).collect(),
            causes: counts.causes.iter().map(cause).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use sql::Effects;

    use super::*;

    #[test]
    fn kinds_are_bounded_and_nothing_is_lost() {
        let mut counts = PinCounts::default();
        let pins = Pins::from(Effects::XA);
        for fingerprint in 1..=5000 {
            counts.pinned(pins, fingerprint);
        }
        counts.pinned(pins, 7);
        counts.kept(pins);
        assert_eq!(counts.causes.len(), MOST_CAUSES + 1, "and one for the rest");
        assert_eq!(counts.causes[&("xa", 7)], 2);
        assert_eq!(counts.causes.values().sum::<u64>(), 5001);
        assert_eq!((counts.reasons["xa"].times, counts.reasons["xa"].statements), (5001, 1));
    }
}
