//! Statements that compute beside others that wait: what each gets by the limit that finds itself, and by any number that could be given.

use std::fmt::Write as _;
use std::time::Duration;

use super::scenario::{Group, Row, ServerModel, Step, Table, Time};
use super::statement::Action;
use super::survey::adjust;
use super::{Profile, Scenario, run};

/// Clients of both kinds in front of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Cores of the server.
    pub cores: u32,
    /// Clients whose statements compute for 0.2 ms.
    pub computing: u32,
    /// Clients whose statements wait for 5 ms, and compute for 0.02.
    pub waiting: u32,
}

/// Statements a second of both kinds.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Of those that compute.
    pub computing: f64,
    /// Of those that wait.
    pub waiting: f64,
}

/// By each fixed number of permits, and by the limit that finds itself.
pub type Columns = Vec<(Option<u32>, Rates)>;

/// Fixed numbers that are tried.
const NUMBERS: [u32; 8] = [8, 16, 32, 64, 128, 256, 512, 896];

/// Before that the limit is looked for, in seconds; after it what is found is judged.
const SETTLED: u64 = 10;

const LENGTH: u64 = 20;

impl Mix {
    /// All of them.
    pub fn all() -> Vec<Self> {
        let of = |cores: u32| {
            [(500, 100), (500, 500), (100, 1_000)].map(|(computing, waiting)| Self {
                cores,
                computing,
                waiting,
            })
        };
        [2, 8, 32].into_iter().flat_map(of).collect()
    }

    fn scenario(self, seconds: u64) -> Scenario {
        let tables = [
            Table { cpu: Time::about(200), wait: Time::NONE },
            Table { cpu: Time::about(20), wait: Time::about(5_000) },
        ];
        let mut server = ServerModel::of_cores(self.cores, &tables);
        server.sync = Time::NONE;
        let group = |name: &'static str, clients, table| {
            Group::new(name, clients, vec![Step::new(name, Action::Write, table, Row::Own)])
        };
        Scenario {
            workers: 2,
            groups: vec![group("computing", self.computing, 0), group("waiting", self.waiting, 1)],
            length: Duration::from_secs(seconds),
            adjust,
            ..Scenario::of("mix", "", server)
        }
    }

    /// What both get by these rules from one second to another.
    fn rates(self, profile: Profile, from: u64, to: u64) -> Rates {
        let outcome = run(&self.scenario(to), profile, 1).outcome;
        let rate = |class| outcome.class(class).done_between(from, to) as f64 / (to - from) as f64;
        Rates { computing: rate("computing"), waiting: rate("waiting") }
    }

    /// What both get by each fixed number, and last by the limit that finds itself.
    pub fn find(self) -> Columns {
        let fixed = NUMBERS.map(|permits| (Some(permits), self.rates(Profile::Fixed(permits), 1, 4)));
        let found = self.rates(Profile::Native, SETTLED, LENGTH);
        fixed.into_iter().chain([(None, found)]).collect()
    }
}

/// A table: a line for each mix, a column for each number.
pub fn to_markdown(found: &[(Mix, Columns)]) -> String {
    let mut text = String::from("| cores, computing + waiting clients |");
    NUMBERS.iter().for_each(|number| {
        let _ = write!(text, " {number} |");
    });
    let _ = writeln!(text, " found |\n| --- |{}", " --- |".repeat(NUMBERS.len() + 1));
    for (mix, columns) in found {
        let _ = write!(text, "| {}, {} + {} |", mix.cores, mix.computing, mix.waiting);
        for (_, rates) in columns {
            let _ = write!(text, " {:.0} + {:.0} |", rates.computing, rates.waiting);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a debug build the engine looks behind each turn whether permits, and the parts of them that are left to others, are as many as what
    /// runs has; with one worker also whether all workers' counts say so.
    #[test]
    fn both_kinds_get_on_beside_each_other_and_no_permit_is_lost() {
        let mix = Mix { cores: 2, computing: 60, waiting: 120 };
        for workers in [1, 2] {
            let scenario = Scenario { workers, ..mix.scenario(4) };
            let rates = |profile| {
                let outcome = run(&scenario, profile, 1).outcome;
                ["computing", "waiting"].map(|class| outcome.class(class).done_between(2, 4))
            };
            let (few, found) = (rates(Profile::Fixed(16)), rates(Profile::Native));
            // Sixteen permits are mostly with statements that wait.
            assert!(found[0] > few[0] && found[1] > few[1], "{workers} workers: {found:?} beside {few:?}");
        }
    }
}
