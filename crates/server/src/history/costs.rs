//! Which digests cost most in each minute of the last day.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use engine::DigestCost;

use super::{MINUTES, millis};

/// Of each minute so many are kept for each measure: a chart's peak has one or two causes.
const TOP: usize = 5;

/// By what digests are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Time on the server.
    Time,
    /// Time before that.
    Wait,
    /// Executions that ended in an error.
    Errors,
}

impl Measure {
    pub(crate) const ALL: [Self; 3] = [Self::Time, Self::Wait, Self::Errors];

    fn of(self, cost: &DigestCost) -> u64 {
        match self {
            Self::Time => cost.time,
            Self::Wait => cost.wait,
            Self::Errors => cost.errors,
        }
    }
}

/// What a digest has cost in some minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Costly {
    pub(crate) fingerprint: u64,
    /// Microseconds, or errors.
    pub(crate) cost: f32,
    pub(crate) count: f32,
}

struct Minute {
    /// When it ended, in milliseconds since 1970.
    at: u64,
    top: [[Costly; TOP]; Measure::ALL.len()],
}

/// See the module.
#[derive(Default)]
pub(super) struct Costs {
    minutes: VecDeque<Minute>,
    /// What all had cost when they were last looked at: 40 bytes each. At the start nothing.
    before: HashMap<u64, DigestCost>,
}

impl Costs {
    /// Takes in what they have cost by now, each worker's apart.
    pub(super) fn add(&mut self, at: Duration, costs: &[DigestCost]) {
        let mut now: HashMap<u64, DigestCost> = HashMap::with_capacity(costs.len());
        for cost in costs {
            let known = now.entry(cost.fingerprint).or_default();
            known.fingerprint = cost.fingerprint;
            known.count += cost.count;
            known.errors += cost.errors;
            known.time += cost.time;
            known.wait += cost.wait;
        }
        let since: Vec<_> = now.values().map(|cost| since(cost, &self.before)).collect();
        if self.minutes.len() == MINUTES {
            self.minutes.pop_front();
        }
        let top = Measure::ALL.map(|measure| top(&since, measure));
        self.minutes.push_back(Minute { at: millis(at), top });
        self.before = now;
    }

    /// Those that have cost most since they were last taken in; `costs` are what all have cost by now, all workers together.
    pub(super) fn since(&self, measure: Measure, costs: &[DigestCost]) -> Vec<Costly> {
        let since: Vec<_> = costs.iter().map(|cost| since(cost, &self.before)).collect();
        top(&since, measure).into_iter().filter(|costly| costly.cost > 0.0).collect()
    }

    /// The one that has cost most in the minute that had ended at `at`, in milliseconds since 1970; it was taken in within `behind` of
    /// that.
    pub(super) fn dearest(&self, measure: Measure, at: u64, behind: u64) -> Option<Costly> {
        let place = self.minutes.partition_point(|minute| minute.at < at);
        let minute = self.minutes.get(place).filter(|minute| minute.at < at + behind)?;
        Some(minute.top[measure as usize][0]).filter(|costly| costly.cost > 0.0)
    }

    /// Those that have cost most in the minutes that ended within, dearest first. What was not among the first of a minute does not
    /// count for that minute.
    pub(super) fn top(&self, measure: Measure, from: u64, to: u64) -> Vec<Costly> {
        let mut all: BTreeMap<u64, Costly> = BTreeMap::new();
        for minute in self.minutes.iter().filter(|minute| (from..=to).contains(&minute.at)) {
            for costly in minute.top[measure as usize].iter().filter(|costly| costly.cost > 0.0) {
                let known = all.entry(costly.fingerprint).or_default();
                known.fingerprint = costly.fingerprint;
                known.cost += costly.cost;
                known.count += costly.count;
            }
        }
        let mut all: Vec<_> = all.into_values().collect();
        all.sort_by(|one, other| other.cost.total_cmp(&one.cost));
        all
    }
}

fn since(cost: &DigestCost, before: &HashMap<u64, DigestCost>) -> DigestCost {
    let before = before.get(&cost.fingerprint).copied().unwrap_or_default();
    DigestCost {
        fingerprint: cost.fingerprint,
        count: cost.count.saturating_sub(before.count),
        errors: cost.errors.saturating_sub(before.errors),
        time: cost.time.saturating_sub(before.time),
        wait: cost.wait.saturating_sub(before.wait),
    }
}

fn top(costs: &[DigestCost], measure: Measure) -> [Costly; TOP] {
    let mut found = [Costly::default(); TOP];
    for cost in costs {
        let costly =
            Costly { fingerprint: cost.fingerprint, cost: measure.of(cost) as f32, count: cost.count as f32 };
        // The last is the cheapest.
        if costly.cost > found[TOP - 1].cost {
            found[TOP - 1] = costly;
            found.sort_by(|one, other| other.cost.total_cmp(&one.cost));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(fingerprint: u64, time: u64, errors: u64) -> DigestCost {
        DigestCost { fingerprint, time, errors, count: 1, wait: 0 }
    }

    #[test]
    fn the_dearest_of_a_minute_are_those_that_grew() {
        let mut costs = Costs::default();
        let at = |minute: u64| Duration::from_secs(60 * minute);
        costs.add(at(1), &[cost(1, 1_000_000, 0), cost(2, 5, 0)]);
        assert_eq!(costs.top(Measure::Time, 0, u64::MAX)[0].cost, 1_000_000.0, "since the start");
        // Of two workers.
        costs.add(at(2), &[cost(1, 1_000_000, 0), cost(2, 20, 0), cost(2, 30, 1), cost(3, 7, 0)]);
        let names = |from, to| -> Vec<u64> {
            costs
                .top(Measure::Time, millis(at(from)), millis(at(to)))
                .iter()
                .map(|one| one.fingerprint)
                .collect()
        };
        assert_eq!(names(2, 2), [2, 3]);
        assert!(names(0, 0).is_empty());
        let top = costs.top(Measure::Time, millis(at(2)), u64::MAX);
        assert_eq!((top[0].cost, top[0].count), (45.0, 1.0));
        let later = [cost(2, 51, 1), cost(9, 3, 0)];
        assert_eq!(
            costs.since(Measure::Time, &later).iter().map(|one| one.fingerprint).collect::<Vec<_>>(),
            [9, 2]
        );
        assert_eq!(costs.top(Measure::Errors, 0, u64::MAX)[0].fingerprint, 2);
        let dearest =
            |second: u64| costs.dearest(Measure::Time, second * 1000, 30_000).map(|one| one.fingerprint);
        assert_eq!([29, 31, 60, 91, 120, 121].map(dearest), [None, Some(1), Some(1), Some(2), Some(2), None]);
        assert!(costs.top(Measure::Wait, 0, u64::MAX).is_empty());
    }

    #[test]
    fn many_digests_leave_few_and_the_dearest() {
        let mut costs = Costs::default();
        costs.add(Duration::ZERO, &[]);
        let many: Vec<_> = (0..10_000).map(|number| cost(number, number * 7919 % 10_007, 0)).collect();
        costs.add(Duration::from_secs(60), &many);
        let mut all: Vec<_> = many.iter().map(|one| one.time).collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        let top: Vec<_> = costs.top(Measure::Time, 0, u64::MAX).iter().map(|one| one.cost as u64).collect();
        assert_eq!(top, all[..TOP]);
    }
}
