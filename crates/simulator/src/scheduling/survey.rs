//! Servers unlike each other, and the limit that finds itself in front of each: beside the best number that could have been given.

use std::fmt::Write as _;
use std::time::Duration;

use engine::Settings;

use super::scenario::{Group, Row, ServerModel, Step, Table, Time};
use super::statement::Action;
use super::{Profile, Scenario, run};

/// A server, its load, and how far away it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Cores of the server.
    pub cores: u32,
    /// What statements do there.
    pub load: Load,
    /// From the pool to the server, in microseconds.
    pub distance: u64,
    /// Others on the same machine have half of the cores.
    pub neighbours: bool,
}

/// What statements do on the server. All take it about 10,000 a second at best, whatever its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// They compute.
    Computes,
    /// They wait for a disk that takes any number at once, 5 ms each, and compute besides.
    WaitsForDisk,
    /// They wait for one of as many disks as there are cores, and hardly compute.
    FewDisks,
}

/// What came out of a case.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The case.
    pub case: Case,
    /// The best number of permits that was tried.
    pub best: u32,
    /// Statements a second with it.
    pub best_rate: f64,
    /// Statements a second with the limit that the pool finds, once it has had [`SETTLED`] seconds.
    pub rate: f64,
    /// After so many seconds it was within a twentieth of the best for the first time; `None` for never.
    pub near_after: Option<u64>,
    /// Of the statements that the best number would have served in the first [`SETTLED`] seconds, so many were not.
    pub lost: f64,
}

/// Statements a second that each server can do at best.
const RATE: u64 = 10_000;

/// What is found then is what is judged.
pub const SETTLED: u64 = 10;

const LENGTH: u64 = 20;

/// Tried in any case; then those between the best and its neighbours.
const NUMBERS: [u32; 10] = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// Within so much of the best number it is as good.
pub(super) const NEAR: f64 = 0.95;

/// How far away servers are, in microseconds: beside the pool, in another zone, in another region, on another continent's edge.
const DISTANCES: [u64; 4] = [50, 1_000, 5_000, 20_000];

impl Load {
    const ALL: [Self; 3] = [Self::Computes, Self::WaitsForDisk, Self::FewDisks];

    fn words(self) -> &'static str {
        match self {
            Self::Computes => "Statements that compute",
            Self::WaitsForDisk => {
                "Statements that compute, and wait 5 ms for a disk that takes any number at once"
            }
            Self::FewDisks => "Statements that wait for one of as many disks as there are cores",
        }
    }
}

impl Case {
    /// All of them.
    pub fn all() -> Vec<Self> {
        let mut cases = Vec::new();
        for load in Load::ALL {
            for cores in [2, 4, 16, 64, 128] {
                cases.extend(DISTANCES.map(|distance| Self { cores, load, distance, neighbours: false }));
            }
        }
        cases
    }

    /// What statements take of a core and of a disk.
    pub(super) fn table(self) -> Table {
        let all = Time::about(u64::from(self.cores) * 1_000_000 / RATE);
        match self.load {
            Load::Computes => Table { cpu: all, wait: Time::NONE },
            Load::WaitsForDisk => Table { cpu: all, wait: Time::about(5_000) },
            Load::FewDisks => Table { cpu: Time::about(20), wait: all },
        }
    }

    fn scenario(self, seconds: u64) -> Scenario {
        let mut server = ServerModel::of_cores(self.cores, &[self.table()]);
        server.sync = Time::NONE;
        server.distance = self.distance;
        server.neighbours = self.neighbours.then_some((Duration::ZERO, Duration::from_secs(seconds)));
        server.disks = (self.load == Load::FewDisks).then_some(self.cores);
        Scenario {
            workers: 2,
            // More than any number of permits that is tried.
            groups: vec![Group::new("clients", 2_000, vec![Step::new("step", Action::Write, 0, Row::Own)])],
            length: Duration::from_secs(seconds),
            adjust,
            ..Scenario::of("survey", "", server)
        }
    }

    /// Statements a second with so many permits.
    fn rate_with(self, permits: u32) -> f64 {
        // A second for its beginning.
        let outcome = run(&self.scenario(4), Profile::Fixed(permits), 1).outcome;
        outcome.class("step").done_between(1, 4) as f64 / 3.0
    }

    /// Looks for the best number, and lets the pool look for it.
    pub fn find(self) -> Found {
        let (best, best_rate) = self.find_best();
        self.compare(best, best_rate)
    }

    /// The best number of permits, and statements a second with it.
    pub(super) fn find_best(self) -> (u32, f64) {
        let rates = NUMBERS.map(|permits| (permits, self.rate_with(permits)));
        let (coarse, _) = best_of(rates);
        let between = [coarse * 3 / 4, coarse * 3 / 2].map(|permits| (permits, self.rate_with(permits)));
        best_of(rates.into_iter().chain(between))
    }

    /// Lets the pool look for it.
    fn compare(self, best: u32, best_rate: f64) -> Found {
        let outcome = run(&self.scenario(LENGTH), Profile::Native, 1).outcome;
        let class = outcome.class("step");
        let between = |from, to| class.done_between(from, to) as f64;
        let is_near = |&second: &u64| between(second, second + 1) >= NEAR * best_rate;
        Found {
            case: self,
            best,
            best_rate,
            rate: between(SETTLED, LENGTH) / (LENGTH - SETTLED) as f64,
            near_after: (0..LENGTH).find(is_near),
            lost: 1.0 - between(0, SETTLED) / (best_rate * SETTLED as f64),
        }
    }
}

impl Found {
    /// Whether it is as good as the best number.
    pub fn is_near(&self) -> bool {
        self.rate >= NEAR * self.best_rate
    }
}

/// A table for each load: by cores and distance, what was found of the best, which number that is, after how many seconds it was near it,
/// and what was lost until it had settled.
pub fn to_markdown(found: &[Found]) -> String {
    let near = found.iter().filter(|found| found.is_near()).count();
    let mut text = format!("{near} of {} are within a twentieth of the best.\n", found.len());
    for load in Load::ALL {
        let of_load: Vec<_> = found.iter().filter(|found| found.case.load == load).collect();
        let _ = write!(text, "\n{}:\n\n| cores |", load.words());
        DISTANCES.iter().for_each(|distance| {
            let _ = write!(text, " {} ms away |", *distance as f64 / 1_000.0);
        });
        let _ = write!(text, "\n| --- |{}", " --- |".repeat(DISTANCES.len()));
        for line in of_load.chunk_by(|one, other| one.case.cores == other.case.cores) {
            let _ = write!(text, "\n| {} |", line[0].case.cores);
            for found in line {
                let Found { best, best_rate, rate, near_after, lost, .. } = found;
                let near_after =
                    near_after.map_or_else(|| "never".to_owned(), |seconds| format!("{seconds} s"));
                let (part, lost) = (100.0 * rate / best_rate, 100.0 * lost);
                let _ = write!(text, " {part:.0} % of {best}; {near_after}; {lost:.0} % |");
            }
        }
        text.push('\n');
    }
    text
}

/// The smallest number that brings as much as any, within a hundredth.
fn best_of(rates: impl IntoIterator<Item = (u32, f64)> + Clone) -> (u32, f64) {
    let most = rates.clone().into_iter().map(|(_, rate)| rate).fold(0.0, f64::max);
    let good = rates.into_iter().filter(|&(_, rate)| rate >= 0.99 * most);
    good.min_by_key(|&(permits, _)| permits).expect("the best is one of them")
}

pub(super) fn adjust(profile: Profile, settings: &mut Settings) {
    if profile == Profile::Native {
        settings.permits = 0;
    }
    // Each statement has a permit of its own.
    settings.statements_in_flight = 1;
}
