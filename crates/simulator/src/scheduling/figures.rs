//! What a run of a scenario found.

use std::collections::BTreeMap;

/// Values below this have a bucket each; above it each doubling has so many, which is a precision of 3 %.
const STEPS: u64 = 32;

/// How often which time was seen, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    longest: u64,
}

impl Histogram {
    /// Counts a time.
    pub fn record(&mut self, micros: u64) {
        let bucket = bucket(micros);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
        self.longest = self.longest.max(micros);
    }

    /// How many were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The longest, exactly.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// The time that so many of 1,000 do not exceed, up to 3 % too high; zero where none was counted.
    pub fn per_mille(&self, share: u64) -> u64 {
        let rank = (self.total * share).div_ceil(1000).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_end(bucket).min(self.longest);
            }
        }
        self.longest
    }
}

fn bucket(value: u64) -> usize {
    if value < STEPS {
        return usize::try_from(value).expect("small");
    }
    let doublings = u64::from(value.ilog2() - STEPS.ilog2());
    usize::try_from(doublings * STEPS + (value >> doublings)).expect("a few thousand buckets")
}

fn upper_end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket;
    }
    let doublings = bucket / STEPS - 1;
    let step = bucket % STEPS + STEPS;
    ((step + 1) << doublings) - 1
}

/// Width of the windows in which completions are counted: fine enough for "within two seconds".
pub const WINDOW: u64 = 100_000;

/// What became of statements of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub name: &'static str,
    /// From sending to the beginning on the server.
    pub waited: Histogram,
    /// From sending to the answer.
    pub response: Histogram,
    /// Answered with an error, by its number.
    pub errors: BTreeMap<u16, u64>,
    /// Given up by the client.
    pub given_up: u64,
    /// Without an answer at the end of the run. Those that had not begun have their waiting up to then counted.
    pub unanswered: u64,
    /// Of those that were answered: how many in each window of the run, from the first statement on.
    pub answered: Vec<u32>,
    /// The longest response of those that were sent in each window, the unanswered ones with their time so far.
    pub slowest: Vec<u64>,
}

impl Class {
    /// How many were answered without an error.
    pub fn done(&self) -> u64 {
        self.response.total()
    }

    /// How many were answered with an error.
    pub fn refused(&self) -> u64 {
        self.errors.values().sum()
    }

    /// The longest response, or time so far of one that was not answered, in microseconds.
    pub fn slowest_response(&self) -> u64 {
        self.slowest.iter().copied().max().unwrap_or(0)
    }

    /// How many were answered without an error between two times, in seconds from the first statement on.
    pub fn done_between(&self, from: u64, to: u64) -> u64 {
        let window = |seconds: u64| usize::try_from(seconds * 1_000_000 / WINDOW).expect("a short run");
        let all = &self.answered;
        all[window(from).min(all.len())..window(to).min(all.len())]
            .iter()
            .map(|&count| u64::from(count))
            .sum()
    }

    /// How long after a time, in seconds, statements were still sent whose response took longer than so many
    /// microseconds; in seconds.
    pub fn slow_until(&self, from: u64, bound: u64) -> f64 {
        let first = usize::try_from(from * 1_000_000 / WINDOW).expect("a short run");
        let slow = self.slowest.iter().skip(first).rposition(|&slowest| slowest > bound);
        slow.map_or(0.0, |last| (last + 1) as f64 * WINDOW as f64 / 1e6)
    }

    pub(super) fn note(&mut self, sent: u64, answered: Option<u64>, response: u64) {
        let slot = |at: u64| usize::try_from(at / WINDOW).expect("a short run");
        if let Some(answered) = answered {
            let slot = slot(answered);
            if self.answered.len() <= slot {
                self.answered.resize(slot + 1, 0);
            }
            self.answered[slot] += 1;
        }
        let slot = slot(sent);
        if self.slowest.len() <= slot {
            self.slowest.resize(slot + 1, 0);
        }
        self.slowest[slot] = self.slowest[slot].max(response);
    }
}

/// What a run found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The classes, in the order of the scenario.
    pub classes: Vec<Class>,
    /// How long was measured, in microseconds.
    pub measured: u64,
    /// Statements that began on the server.
    pub begun: u64,
    /// Those among them whose client had gone before.
    pub for_nobody: u64,
    /// Those among them whose client went before it had the answer.
    pub left: u64,
    /// Logins that stood.
    pub logins: u64,
    /// The longest login, in microseconds.
    pub longest_login: u64,
    /// Logins that were refused.
    pub refused_logins: u64,
    /// Connections of clients' accounts that logged in on the server.
    pub server_logins: u64,
    /// Connections that changed their account there.
    pub server_changes: u64,
    /// Connections to the server at most.
    pub backends: u64,
    /// Turns of all workers.
    pub turns: u64,
    /// Texts that the modelled server did not know.
    pub unknown: Vec<String>,
}

impl Outcome {
    /// The class of this name.
    ///
    /// # Panics
    ///
    /// Where the scenario has none.
    pub fn class(&self, name: &str) -> &Class {
        self.classes.iter().find(|class| class.name == name).expect("a class of the scenario")
    }

    /// Statements of all classes that were answered without an error, per second.
    pub fn goodput(&self) -> f64 {
        self.classes.iter().map(Class::done).sum::<u64>() as f64 / (self.measured as f64 / 1e6)
    }

    /// Statements of one class that were answered without an error, per second.
    pub fn rate(&self, class: &str) -> f64 {
        self.class(class).done() as f64 / (self.measured as f64 / 1e6)
    }
}

/// What a scenario is about, in one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// What it is.
    pub name: &'static str,
    /// The number.
    pub value: f64,
    /// Of what.
    pub unit: Unit,
}

/// How a figure is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// A factor.
    Times,
    /// Of 100.
    Percent,
    /// Statements per second.
    PerSecond,
    /// A plain count.
    Count,
}

impl Figure {
    /// A time that was counted in microseconds.
    pub fn seconds(name: &'static str, micros: u64) -> Self {
        Self { name, value: micros as f64 / 1e6, unit: Unit::Seconds }
    }

    /// A share of a whole; none of nothing.
    pub fn percent(name: &'static str, part: f64, whole: f64) -> Self {
        let value = if whole > 0.0 { 100.0 * part / whole } else { 0.0 };
        Self { name, value, unit: Unit::Percent }
    }

    /// How many times one is the other; zero where there is nothing to compare with.
    pub fn times(name: &'static str, value: f64, reference: f64) -> Self {
        let value = if reference > 0.0 { value / reference } else { 0.0 };
        Self { name, value, unit: Unit::Times }
    }

    /// Statements per second.
    pub fn per_second(name: &'static str, value: f64) -> Self {
        Self { name, value, unit: Unit::PerSecond }
    }

    /// A count.
    pub fn count(name: &'static str, value: u64) -> Self {
        Self { name, value: value as f64, unit: Unit::Count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        let mut last = 0;
        for value in 0..100_000 {
            let at = bucket(value);
            assert!(at == last || at == last + 1, "{value}");
            assert!(upper_end(at) >= value && bucket(upper_end(at)) == at, "{value}");
            last = at;
        }
    }

    #[test]
    fn shares_are_found_within_their_precision() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|value| histogram.record(value * 100));
        assert_eq!((histogram.total(), histogram.longest()), (1000, 100_000));
        assert!((50_000..51_600).contains(&histogram.per_mille(500)));
        assert_eq!(histogram.per_mille(1000), 100_000);
        assert_eq!(Histogram::default().per_mille(500), 0);
    }

    #[test]
    fn slowness_is_told_by_when_it_was_sent() {
        let mut class = Class::default();
        class.note(0, Some(100), 100);
        class.note(3_050_000, None, 9_000_000);
        class.note(5_000_000, Some(5_000_100), 100);
        assert!((class.slow_until(3, 1_000_000) - 0.1).abs() < 1e-9);
        assert!(class.slow_until(4, 1_000_000) < 1e-9);
        assert_eq!((class.done_between(0, 1), class.done_between(1, 9)), (1, 1));
    }
}
