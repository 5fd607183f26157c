//! Servers whose load turns into another one, and which others on the same machine take cores from for a while: how soon the limit that finds
//! itself follows, beside the best number for each of these times.

use std::fmt::Write as _;
use std::time::Duration;

use super::scenario::{Group, Row, ServerModel, Step, Time};
use super::statement::Action;
use super::survey::{Case, Load, NEAR, adjust};
use super::{Profile, Scenario, run};

/// A server, and how far away it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// Cores of the server.
    pub cores: u32,
    /// From the pool to the server, in microseconds.
    pub distance: u64,
}

/// What came out of one of the times between two turns.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The best number of permits for it that was tried.
    pub best: u32,
    /// Statements a second with it.
    pub best_rate: f64,
    /// Statements a second with the limit that the pool finds, without the first [`SETTLED`] seconds.
    pub rate: f64,
    /// After so many seconds it was within a twentieth of the best for the first time; `None` for never.
    pub near_after: Option<u64>,
}

/// Seconds from one turn to the next.
const TIME: u64 = 30;

/// What is found behind these is what is judged.
pub const SETTLED: u64 = 10;

/// What happens one after the other, in the words of a table's head, and whether others have half of the cores meanwhile.
const TIMES: [(&str, Load, bool); 4] = [
    ("computing", Load::Computes, false),
    ("then waiting for a disk", Load::WaitsForDisk, false),
    ("then computing beside others", Load::Computes, true),
    ("then alone again", Load::Computes, false),
];

/// At which of [`TIMES`] the others come.
const BESIDE_OTHERS: u64 = 2;

impl Course {
    /// All of them: beside the pool, and in another region.
    pub fn all() -> Vec<Self> {
        let cores = [2, 4, 16, 64, 128];
        cores.into_iter().flat_map(|cores| [50, 5_000].map(|distance| Self { cores, distance })).collect()
    }

    fn case(self, load: Load, neighbours: bool) -> Case {
        Case { cores: self.cores, load, distance: self.distance, neighbours }
    }

    fn scenario(self) -> Scenario {
        let loads = TIMES.map(|(_, load, neighbours)| self.case(load, neighbours));
        let mut server = ServerModel::of_cores(self.cores, &loads.map(Case::table));
        server.sync = Time::NONE;
        server.distance = self.distance;
        let seconds = |time| Duration::from_secs(TIME * time);
        server.neighbours = Some((seconds(BESIDE_OTHERS), seconds(BESIDE_OTHERS + 1)));
        let group = |(time, (name, ..)): (u16, (&'static str, Load, bool))| Group {
            from: seconds(u64::from(time)),
            until: seconds(u64::from(time) + 1),
            // More than any number of permits that is tried.
            ..Group::new(name, 2_000, vec![Step::new(name, Action::Write, time, Row::Own)])
        };
        Scenario {
            workers: 2,
            groups: (0..).zip(TIMES).map(group).collect(),
            length: seconds(TIMES.len() as u64),
            adjust,
            ..Scenario::of("turns", "", server)
        }
    }

    /// Looks for the best number for each time, and lets the pool look for it all along.
    pub fn find(self) -> [Found; TIMES.len()] {
        let outcome = run(&self.scenario(), Profile::Native, 1).outcome;
        let mut begins = 0;
        TIMES.map(|(name, load, neighbours)| {
            let (best, best_rate) = self.case(load, neighbours).find_best();
            let between = |from, to| outcome.class(name).done_between(from, to) as f64;
            let is_near = |second: &u64| between(begins + second, begins + second + 1) >= NEAR * best_rate;
            let found = Found {
                best,
                best_rate,
                rate: between(begins + SETTLED, begins + TIME) / (TIME - SETTLED) as f64,
                near_after: (0..TIME).find(is_near),
            };
            begins += TIME;
            found
        })
    }
}

/// A table: by server and time, what was found of the best, which number that is, and after how many seconds it was near it.
pub fn to_markdown(found: &[(Course, [Found; TIMES.len()])]) -> String {
    let mut text = String::from("| cores, distance |");
    for (words, ..) in TIMES {
        let _ = write!(text, " {words} |");
    }
    let _ = write!(text, "\n| --- |{}", " --- |".repeat(TIMES.len()));
    for (Course { cores, distance }, times) in found {
        let _ = write!(text, "\n| {cores}, {} ms |", *distance as f64 / 1_000.0);
        for Found { best, best_rate, rate, near_after } in times {
            let near_after = near_after.map_or_else(|| "never".to_owned(), |seconds| format!("{seconds} s"));
            let _ = write!(text, " {:.0} % of {best}; {near_after} |", 100.0 * rate / best_rate);
        }
    }
    text.push('\n');
    text
}
