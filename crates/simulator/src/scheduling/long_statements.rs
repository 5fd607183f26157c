//! Statements that take a second, alone and beside short ones: what each kind gets by limits that find themselves, by the best pair of limits
//! that could have been given, and where all run at once.

use std::fmt::Write as _;
use std::time::Duration;

use engine::Settings;

use super::scenario::{Group, Row, ServerModel, Step, Table, Time};
use super::statement::Action;
use super::{Outcome, Profile, Scenario, run};

/// Clients in front of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Cores of the server.
    pub cores: u32,
    /// Clients whose statements sleep for a second.
    pub sleepers: u32,
    /// Clients whose statements compute for a second.
    pub scans: u32,
    /// Clients whose reads take 2 ms of a core.
    pub readers: u32,
}

/// Statements a second: of long ones and of reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Of the long ones.
    pub long: f64,
    /// Of the reads.
    pub reads: f64,
}

/// What came out of a load.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Where all run at once, as on a server without a pool.
    pub at_once: Rates,
    /// The best pair: permits, and long statements among those that have one.
    pub pair: (u32, u32),
    /// By that.
    pub by_pair: Rates,
    /// By limits that find themselves, from one second of [`SECONDS`] to the next.
    pub found: [Rates; SECONDS.len() - 1],
}

/// Fixed numbers of permits that are tried.
const PERMITS: [u32; 3] = [16, 64, 128];

/// And of long statements, as far as permits go.
const LONG: [u32; 4] = [4, 16, 64, 128];

/// What limits find is looked at between these.
pub const SECONDS: [u64; 4] = [0, 5, 10, 30];

/// Fixed limits are looked at between these: some statements of a second are over by then.
const FIXED: (u64, u64) = (4, 10);

const LONG_ONES: &str = "long";
const READS: &str = "reads";

impl Load {
    /// All of them.
    pub fn all() -> Vec<Self> {
        let of = |cores, sleepers, scans, readers| Self { cores, sleepers, scans, readers };
        vec![
            of(64, 64, 0, 0),
            of(64, 0, 64, 0),
            of(64, 1_000, 0, 0),
            of(64, 0, 0, 500),
            of(64, 32, 0, 32),
            of(64, 64, 0, 500),
            of(64, 0, 64, 500),
            of(2, 32, 0, 32),
            of(2, 64, 0, 500),
            of(2, 0, 8, 500),
        ]
    }

    fn scenario(self, seconds: u64) -> Scenario {
        let second = Time::micros(1_000_000);
        let tables = [
            Table { cpu: Time::about(20), wait: second },
            Table { cpu: second, wait: Time::NONE },
            Table { cpu: Time::about(2_000), wait: Time::NONE },
        ];
        let group = |name: &'static str, clients, table| {
            Group::new(name, clients, vec![Step::new(name, Action::Read, table, Row::Own)])
        };
        let groups = [
            group(LONG_ONES, self.sleepers, 0),
            group(LONG_ONES, self.scans, 1),
            group(READS, self.readers, 2),
        ];
        Scenario {
            workers: 2,
            groups: groups.into_iter().filter(|group| group.clients > 0).collect(),
            length: Duration::from_secs(seconds),
            adjust,
            ..Scenario::of("long", "", ServerModel::of_cores(self.cores, &tables))
        }
    }

    fn rates(self, outcome: &Outcome, from: u64, to: u64) -> Rates {
        let rate = |class, clients| match clients {
            0 => 0.0,
            _ => outcome.class(class).done_between(from, to) as f64 / (to - from) as f64,
        };
        Rates { long: rate(LONG_ONES, self.sleepers + self.scans), reads: rate(READS, self.readers) }
    }

    fn rates_with(self, permits: u32, long: u32) -> Rates {
        let outcome = run(&self.scenario(FIXED.1), Profile::Pair { permits, long }, 1).outcome;
        self.rates(&outcome, FIXED.0, FIXED.1)
    }

    /// Looks for the best pair, and lets the pool look for it.
    ///
    /// # Panics
    ///
    /// If no pair is tried.
    pub fn find(self) -> Found {
        let all = self.sleepers + self.scans + self.readers;
        let of =
            |permits| LONG.into_iter().filter(move |&long| long <= permits).map(move |long| (permits, long));
        let pairs = PERMITS.into_iter().flat_map(of);
        let rated: Vec<_> = pairs.map(|pair| (pair, self.rates_with(pair.0, pair.1))).collect();
        let most = rated.iter().map(|(_, rates)| rates.product()).fold(0.0, f64::max);
        // The smallest that brings as much as any, within a hundredth.
        let best = rated.into_iter().find(|(_, rates)| rates.product() >= 0.99 * most);
        let (pair, by_pair) = best.expect("the best is one of them");
        let outcome = run(&self.scenario(SECONDS[SECONDS.len() - 1]), Profile::Native, 1).outcome;
        let found = std::array::from_fn(|part| self.rates(&outcome, SECONDS[part], SECONDS[part + 1]));
        Found { at_once: self.rates_with(all, all), pair, by_pair, found }
    }

    fn words(self) -> String {
        let kinds = [(self.sleepers, "sleepers"), (self.scans, "scans"), (self.readers, "readers")];
        let there = kinds.into_iter().filter(|&(clients, _)| clients > 0);
        let words: Vec<_> = there.map(|(clients, kind)| format!("{clients} {kind}")).collect();
        format!("{} cores, {}", self.cores, words.join(" + "))
    }
}

impl Rates {
    /// What a choice between two kinds is judged by: neither gains more by a share than the other loses by the same.
    fn product(self) -> f64 {
        // A kind that is not there counts for nothing.
        let rate = |rate: f64| if rate > 0.0 { rate } else { 1.0 };
        rate(self.long) * rate(self.reads)
    }

    fn words(self) -> String {
        match self.reads {
            0.0 => format!("{:.1}", self.long),
            reads => format!("{:.1} + {reads:.0}", self.long),
        }
    }
}

/// A table: a line for each load.
pub fn to_markdown(found: &[(Load, Found)]) -> String {
    let mut text = String::from("| load | all at once | the best pair |");
    SECONDS.windows(2).for_each(|part| {
        let _ = write!(text, " found, seconds {} to {} |", part[0], part[1]);
    });
    let _ = writeln!(text, "\n| --- |{}", " --- |".repeat(SECONDS.len() + 1));
    for (load, found) in found {
        let (permits, long) = found.pair;
        let _ = write!(text, "| {} | {} ", load.words(), found.at_once.words());
        let _ = write!(text, "| {} ({permits}, {long}) |", found.by_pair.words());
        found.found.iter().for_each(|rates| {
            let _ = write!(text, " {} |", rates.words());
        });
        text.push('\n');
    }
    text
}

fn adjust(profile: Profile, settings: &mut Settings) {
    if profile == Profile::Native {
        settings.permits = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleepers_alone_get_as_much_as_where_all_run_at_once() {
        let load = Load { cores: 64, sleepers: 64, scans: 0, readers: 0 };
        let outcome = run(&load.scenario(15), Profile::Native, 1).outcome;
        let found = load.rates(&outcome, 10, 15);
        let at_once = load.rates_with(64, 64);
        assert!(found.long >= 0.95 * at_once.long, "{found:?} beside {at_once:?}");
        // And the fixed pair is one: four at a time are no more than that.
        assert!(load.rates_with(64, 4).long < 5.0);
    }

    /// They end in waves, which must not be taken for what more permits bring: with these the reads would hold each other up. And those that
    /// start need no permit, so that they do not wait for one behind half a second of reads.
    #[test]
    fn sleepers_beside_many_readers_of_few_cores_get_as_much_as_where_all_run_at_once() {
        let load = Load { cores: 2, sleepers: 64, scans: 0, readers: 500 };
        let outcome = run(&load.scenario(30), Profile::Native, 1).outcome;
        let (found, by_pair) = (load.rates(&outcome, 10, 30), load.rates_with(128, 128));
        assert!(
            found.long >= 0.95 * f64::from(load.sleepers) && found.reads >= 0.9 * by_pair.reads,
            "{found:?} beside {by_pair:?}"
        );
    }

    /// With four permits, which are enough for the reads, long statements begin with one.
    #[test]
    fn few_reads_do_not_keep_sleepers_few() {
        let load = Load { cores: 2, sleepers: 32, scans: 0, readers: 32 };
        for seed in [1, 2] {
            let outcome = run(&load.scenario(20), Profile::Native, seed).outcome;
            let found = load.rates(&outcome, 10, 20);
            assert!(found.long >= 0.95 * f64::from(load.sleepers), "{found:?}");
        }
    }

    /// They follow each other on as many backends as are found to be right, each of which has a permit: these must not be found to be too few
    /// for that.
    #[test]
    fn short_reads_alone_keep_all_cores_busy() {
        let load = Load { cores: 64, sleepers: 0, scans: 0, readers: 500 };
        let outcome = run(&load.scenario(8), Profile::Native, 1).outcome;
        // A core does 500 of them a second.
        let most = f64::from(64 * 500);
        let found = load.rates(&outcome, 6, 8).reads;
        assert!(found >= 0.9 * most, "{found} of {most}");
    }
}
