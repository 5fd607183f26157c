//! What a run found out, as `report.json` holds it: every figure, and what it takes to get them again.
//!
//! Times are in seconds and latencies in milliseconds; memory is in bytes.

pub(crate) mod chart;
pub(crate) mod failover;
mod failover_page;
pub(crate) mod html;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod text;

use serde::{Deserialize, Serialize};

use crate::knee::Knee;

pub(crate) use failover::{ErrorCount, Failover, Held, Instantaneous, Ledger};

/// The version of the layout of `report.json`. It grows when a reader of an older version would misunderstand.
pub(crate) const SCHEMA: u32 = 1;

/// One run, whole or as far as it came.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// [`SCHEMA`] of the program that wrote it.
    pub(crate) schema: u32,
    /// The version of Onramp.
    pub(crate) version: String,
    /// When the run began, in UTC: `2026-11-22 00:15:00`.
    pub(crate) started: String,
    /// Seconds from the beginning to the end.
    pub(crate) duration: f64,
    /// Why it ended.
    pub(crate) ending: Ending,
    /// What it ran on.
    pub(crate) machine: Machine,
    /// What was measured, and with what.
    pub(crate) setup: Setup,
    /// In the order in which they were measured.
    pub(crate) steps: Vec<Step>,
    /// All clients logged in and silent.
    pub(crate) idle: Option<Idle>,
    /// With `--find-knee`.
    pub(crate) knee: Option<Knee>,
    /// With `--servers`.
    #[serde(default)]
    pub(crate) failover: Option<Box<Failover>>,
    /// What somebody who reads the figures should know: warnings, what was left out.
    pub(crate) notes: Vec<String>,
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how", content = "reason")]
pub(crate) enum Ending {
    /// Everything was tried.
    Complete,
    /// Ctrl-C or SIGTERM.
    Interrupted,
    /// The time limit left no room for the rest.
    TimeLimit,
    /// Something that all steps need did not work.
    Failed(String),
}

/// What it ran on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Cores that a process may use. Server, Onramp and the load generator share them.
    pub(crate) cores: usize,
    /// The processor's name, where the system says it.
    pub(crate) processor: String,
    /// Bytes of memory.
    pub(crate) memory: u64,
    /// System and release.
    pub(crate) kernel: String,
    /// The hard limit of open files; `None` for no limit.
    pub(crate) open_files: Option<u64>,
}

/// What was measured, and with what.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// The server's name and version.
    pub(crate) server: String,
    /// Whether the server was created for the run.
    pub(crate) private_server: bool,
    /// How many there were.
    #[serde(default = "one")]
    pub(crate) servers: u32,
    /// To how many cores it was held; nothing where it had what it got.
    #[serde(default)]
    pub(crate) server_cpus: Option<f64>,
    /// What Onramp said about its driver; empty where it said nothing.
    pub(crate) driver: String,
    /// What each client did.
    pub(crate) workload: String,
    /// Tables.
    pub(crate) tables: u32,
    /// Rows in each.
    pub(crate) table_size: u32,
    /// Seconds measured per step.
    pub(crate) time: f64,
    /// Seconds of load before.
    pub(crate) warmup: f64,
    /// Rounds asked for.
    pub(crate) rounds: u32,
    /// Steps asked for, of Onramp's clients.
    pub(crate) clients: Vec<u32>,
    /// Steps asked for, of direct connections.
    pub(crate) direct: Vec<u32>,
    /// Command lines, one of each kind, without passwords.
    pub(crate) commands: Vec<String>,
}

/// Of a report from before there could be several.
fn one() -> u32 {
    1
}

/// What the clients were connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Series {
    /// Onramp, in front of the server with a thread per connection.
    Onramp,
    /// The server itself, with a thread per connection.
    DirectThreads,
    /// The server itself, with its own thread pool.
    DirectPool,
    /// The server of `--backend` itself, however it shares its threads.
    Direct,
}

impl Series {
    /// In the order of legends and tables.
    pub(crate) const ALL: [Self; 4] = [Self::Onramp, Self::DirectThreads, Self::DirectPool, Self::Direct];

    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Onramp => "Onramp",
            Self::DirectThreads => "direct, a thread each",
            Self::DirectPool => "direct, own pool",
            Self::Direct => "direct",
        }
    }

    /// How the server shares its threads, behind `N connections` in a sentence; empty where nobody knows.
    pub(crate) fn threads(self) -> &'static str {
        match self {
            Self::Onramp | Self::DirectThreads => " and a thread for each",
            Self::DirectPool => " and its own thread pool",
            Self::Direct => "",
        }
    }
}

/// One series at one number of connections, once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Step {
    /// What the clients were connected to.
    pub(crate) series: Series,
    /// From 1.
    pub(crate) round: u32,
    /// How many there were.
    pub(crate) connections: u32,
    /// What came of it.
    pub(crate) outcome: Outcome,
}

/// What came of a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// All connections stood and were measured.
    Measured(Box<Figures>),
    /// This many connections could not be had or held, and why.
    Refused(String),
    /// It was not tried, and why.
    Skipped(String),
}

/// The figures of one step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Over the measured time.
    pub(crate) queries_per_second: f64,
    /// Half of the events took at most this long, in milliseconds.
    pub(crate) p50: f64,
    /// 95 % of them.
    pub(crate) p95: f64,
    /// 99 % of them.
    pub(crate) p99: f64,
    /// How long each client waits where all get the same share: connections / events per second, in milliseconds.
    pub(crate) fair_share: f64,
    /// How p95 compares with that: 1 is perfect.
    pub(crate) p95_over_fair_share: f64,
    /// Seconds until all connections stood.
    pub(crate) connecting: f64,
    /// Errors that clients saw: while connecting and under load, wrong answers and lost connections among them.
    pub(crate) errors: u64,
    /// What the first of them said; empty where there was none.
    pub(crate) error: String,
    /// Clients that waited for one answer all through the measured time, in which each would have had three or more if
    /// all had got the same share. The latencies above do not show them.
    #[serde(default)]
    pub(crate) starved: u64,
    /// Onramp's.
    pub(crate) onramp: Option<Usage>,
    /// The server's; `None` for one that was not started here.
    pub(crate) server: Option<Usage>,
    /// The load generator's.
    pub(crate) load: Option<Usage>,
    /// Cores that everything else on the machine used meanwhile, on average.
    pub(crate) others: Option<f64>,
}

impl Figures {
    /// Whether every client got answers, and no errors.
    pub(crate) fn is_good(&self) -> bool {
        self.errors == 0 && self.starved == 0
    }
}

/// What one process used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Bytes resident at the end of the measured time.
    pub(crate) resident: u64,
    /// The most bytes that were resident since the process began.
    pub(crate) resident_peak: u64,
    /// Seconds of processor time in user space, within `over` seconds of the measured time.
    pub(crate) user: f64,
    /// The same in the kernel.
    pub(crate) system: f64,
    /// Seconds between the two readings of processor time.
    pub(crate) over: f64,
    /// Microseconds of processor time per query, in user space.
    pub(crate) user_per_query: f64,
    /// The same in the kernel.
    pub(crate) system_per_query: f64,
}

impl Usage {
    /// Microseconds of processor time per query.
    pub(crate) fn per_query(&self) -> f64 {
        self.user_per_query + self.system_per_query
    }
}

/// All clients logged in and silent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Idle {
    /// How many there were.
    pub(crate) clients: u32,
    /// Onramp's resident bytes before the first client.
    pub(crate) resident_before: u64,
    /// With all of them.
    pub(crate) resident: u64,
    /// The kernel's memory before and with all of them.
    pub(crate) kernel_before: KernelMemory,
    /// With all of them.
    pub(crate) kernel: KernelMemory,
    /// The sockets that the clients make on this machine: both ends of each connection.
    pub(crate) sockets: u64,
    /// Seconds until all were logged in.
    pub(crate) connecting: f64,
}

impl Idle {
    /// Onramp's own bytes per client.
    pub(crate) fn bytes_per_client(&self) -> f64 {
        per(self.resident.saturating_sub(self.resident_before), u64::from(self.clients))
    }

    /// Bytes of the kernel's per socket; `None` where the sockets are too few to tell them from what else goes on.
    pub(crate) fn kernel_bytes_per_socket(&self) -> Option<f64> {
        /// They make 40 MB or more; what else goes on comes and goes by some.
        const ENOUGH: u64 = 10_000;
        let grown = self.kernel.total().saturating_sub(self.kernel_before.total());
        (self.sockets >= ENOUGH).then(|| per(grown, self.sockets))
    }
}

/// What the kernel uses for sockets, as far as it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KernelMemory {
    /// All of its slab caches, among them sockets, files, directory entries and what watches them: `Slab` of
    /// /proc/meminfo, in bytes.
    pub(crate) slab: u64,
    /// Buffers of TCP sockets: `mem` of /proc/net/sockstat, in bytes.
    pub(crate) buffers: u64,
}

impl KernelMemory {
    /// Both together.
    pub(crate) fn total(&self) -> u64 {
        self.slab + self.buffers
    }
}

fn per(bytes: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { bytes as f64 / count as f64 }
}

impl Report {
    /// Whether everything was tried, and every step through Onramp was reached without an error and with answers for all, or the ledger of
    /// a failover is right.
    pub(crate) fn is_good(&self) -> bool {
        let fine = |step: &Step| match &step.outcome {
            Outcome::Measured(figures) => figures.is_good(),
            // How far the server gets by itself is a result.
            Outcome::Refused(_) | Outcome::Skipped(_) => step.series != Series::Onramp,
        };
        let is_right =
            self.failover.as_ref().map_or(self.setup.servers == 1, |failover| failover.faults().is_empty());
        self.ending == Ending::Complete && self.steps.iter().all(fine) && is_right
    }
}

/// `report.json`: the report, with the verdict that follows from it.
pub(crate) fn to_json(report: &Report) -> String {
    let mut value = serde_json::to_value(report).unwrap_or_default();
    let verdict = summary::verdict(&summary::rows(report));
    if let Some(object) = value.as_object_mut() {
        object.insert(String::from("verdict"), serde_json::to_value(verdict).unwrap_or_default());
        if let Some(failover) = &report.failover {
            object["verdict"]["good"] = report.is_good().into();
            object["verdict"]["faults"] = failover.faults().into();
        }
    }
    format!("{value:#}\n")
}

#[cfg(test)]
pub(crate) mod tests;
