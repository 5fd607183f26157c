//! `simulate --seed N` repeats one run, `simulate --seeds COUNT` looks for a run that goes wrong.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::{Histogram, Routed};
use simulator::checkers::ReadChecks;
use simulator::freezing::Frozen;
use simulator::kills::Counts;
use simulator::ledger::Fates;
use simulator::{Outcome, Parameters, Traced, run_engine_traced, run_pass_through};

const USAGE: &str =
    "usage: simulate --seed N | --seeds COUNT [--from N] [--jobs N] [--steps N] [--workers N] [--cluster [--mysql | --group] [--reads N]] [--onramps N] [--freeze N] [--pass-through] [--strict] [--quiet]
  --seed N        run one seed and print its trace
  --seeds COUNT   run so many seeds, from --from on (1 if not given), up to the first that fails
  --jobs N        so many of them at a time, each on a thread of its own; 1 if not given
  --steps N       happenings before the calm; drawn from the seed if not given
  --workers N     so many engines with common permits in the middle; 1 if not given
  --cluster       several servers, a primary and its replicas, and what befalls them
  --mysql         with --cluster: they are MySQLs, which replicate by sets of GTIDs
  --group         with --cluster: they are three MySQLs, the members of one group, which elect their primary themselves
  --onramps N     2 to 4 Onramps in front of one server, or of the cluster's, with so many workers each, and what befalls them
  --reads N       more clients that write and read back at once, with reads split in each run; there is no end of runs before so
                  many reads behind writes have been checked. One is a plain SELECT that a replica answered, or could have: outside of
                  transactions, of a login that holds nothing on a server and was promised its own writes, of a row that this login has
                  written and was told so
  --freeze N      in N of 1,000 turns a client, a backend or what is known of servers becomes plain data and what it was; each seed is run once more
                  without that, and has to go the same way byte for byte
  --pass-through  without the engine: clients straight on the server, to test the simulation itself
  --strict        ask for warnings and row counts at any time, not only right after the statement
  --keep-going    with --seeds: list all seeds that fail
  --quiet         with --seed: no trace unless the run fails";

struct Arguments {
    first: u64,
    count: u64,
    steps: u64,
    workers: u32,
    cluster: bool,
    mysql: bool,
    group: bool,
    /// So many Onramps; 0 for one alone.
    onramps: u8,
    /// So many checks of reads are wanted; 0 for whatever the seeds give.
    reads: u64,
    /// In so many of 1,000 turns a client is frozen and thawed.
    freeze: u64,
    pass_through: bool,
    strict: bool,
    keep_going: bool,
    echo: bool,
    /// So many runs at a time.
    jobs: u32,
}

/// What runs have checked of reads that may go to replicas.
#[derive(Default)]
struct Reads {
    checks: ReadChecks,
    waits: Histogram,
    routed: Routed,
    runs: u64,
}

impl Reads {
    fn add(&mut self, outcome: &Outcome) {
        self.checks = self.checks.and(outcome.reads);
        self.waits += &outcome.read_waits;
        self.routed += &outcome.routed;
        self.runs += 1;
    }

    fn print(&self) {
        let ReadChecks { own, own_on_replicas, own_behind, others } = self.checks;
        println!(
            "{own} reads of what their own login had written ({own_on_replicas} answered by replicas; as {own_behind} were asked, a \
             replica lacked it) and {others} of what others had been told to be written were checked in {} runs",
            self.runs
        );
        println!(
            "{} reads waited for a replica: median {:?}, 99th percentile {:?}, longest {:?} of simulated time",
            self.waits.count(),
            self.waits.quantile(0.5),
            self.waits.quantile(0.99),
            self.waits.max()
        );
        let to_primary = self.routed.not_split.iter().filter(|(_, times)| **times > 0);
        let reasons: Vec<String> = to_primary.map(|(why, times)| format!("{why} {times}")).collect();
        println!(
            "{} statements went to replicas, others to the primary: {}",
            self.routed.sent,
            reasons.join(", ")
        );
    }
}

impl Arguments {
    fn parameters(&self, seed: u64) -> Parameters {
        let parameters = self.of_mariadb(seed).with_freezing(self.freeze);
        match (self.group, self.mysql) {
            (true, _) => parameters.with_group(),
            (false, true) => parameters.with_mysql(),
            (false, false) => parameters,
        }
    }

    fn of_mariadb(&self, seed: u64) -> Parameters {
        if self.onramps > 0 {
            let draw = if self.cluster { Parameters::of_onramps_and_cluster } else { Parameters::of_onramps };
            let mut parameters = draw(seed, self.steps, self.onramps);
            parameters.habits.strict = self.strict;
            return parameters.with_workers(self.workers);
        }
        let draw = match self.cluster {
            true if self.reads > 0 => Parameters::of_reads,
            true => Parameters::of_cluster,
            false => Parameters::draw,
        };
        let mut parameters = draw(seed, self.steps);
        parameters.habits.strict = self.strict;
        parameters.with_workers(self.workers)
    }

    fn run(&self, seed: u64, traced: Traced) -> Outcome {
        match self.pass_through {
            true => run_pass_through(self.parameters(seed), traced == Traced::Echoed),
            false if self.freeze > 0 => self.run_twice(seed, traced),
            false => run_engine_traced(self.parameters(seed), traced),
        }
    }

    /// With clients that are frozen and thawed, and without.
    fn run_twice(&self, seed: u64, traced: Traced) -> Outcome {
        let kept = if traced == Traced::Not { Traced::Kept } else { traced };
        let mut outcome = run_engine_traced(self.parameters(seed), kept);
        let without = run_engine_traced(self.parameters(seed).with_freezing(0), Traced::Kept);
        let [frozen, plain] = [&outcome.trace, &without.trace].map(|trace| (trace.hash(), trace.count()));
        if outcome.violation.is_none() && frozen != plain {
            let text = format!(
                "its trace is another one than without --freeze: {} lines, and {} without",
                frozen.1, plain.1
            );
            outcome.violation = Some(text);
        }
        outcome
    }
}

/// What has come of all runs so far.
#[derive(Default)]
struct Tally {
    fates: Fates,
    killed: Counts,
    reads: Reads,
    frozen: Frozen,
    /// Seeds that went wrong, and why.
    failures: Vec<(u64, String)>,
    /// The latest of them that has ended.
    latest: u64,
}

impl Tally {
    fn add(&mut self, arguments: &Arguments, seed: u64, outcome: Outcome) {
        let tenths = |reads: &Reads| reads.checks.own / (arguments.reads / 10).max(1);
        let before = tenths(&self.reads);
        self.fates = self.fates.and(outcome.fates);
        self.killed = self.killed.and(outcome.killed);
        self.reads.add(&outcome);
        self.frozen = std::mem::take(&mut self.frozen).and(&outcome.frozen);
        self.latest = self.latest.max(seed);
        if arguments.reads > 0 && tenths(&self.reads) > before {
            eprintln!("{} checks, up to seed {}", self.reads.checks.own, self.latest);
        }
        if let Some(violation) = outcome.violation {
            if arguments.keep_going {
                println!("seed {seed}: {violation}");
            }
            self.failures.push((seed, violation));
        }
    }

    /// No run is to begin any more.
    fn is_over(&self, arguments: &Arguments) -> bool {
        let has_all = arguments.reads > 0 && self.reads.checks.own >= arguments.reads;
        has_all || !(arguments.keep_going || self.failures.is_empty())
    }
}

fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if arguments.count == 1 {
        return run_one(&arguments);
    }
    let tally = run_all(&arguments);
    if let Some((seed, _)) = tally.failures.iter().min().filter(|_| !arguments.keep_going) {
        // The same once more, with its trace.
        let outcome = arguments.run(*seed, Traced::Kept);
        println!("{}", arguments.parameters(*seed));
        outcome.trace.last_lines().for_each(|line| println!("{line}"));
        report(*seed, &arguments, &outcome);
        return ExitCode::FAILURE;
    }
    if arguments.cluster {
        println!("{:?}", tally.fates);
        tally.reads.print();
    }
    if arguments.onramps > 0 {
        println!("{:?}", tally.killed);
    }
    if arguments.freeze > 0 {
        println!("{}", tally.frozen);
    }
    println!("{} of {} seeds went wrong", tally.failures.len(), tally.reads.runs);
    if tally.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs all seeds, as many at a time as are wanted.
fn run_all(arguments: &Arguments) -> Tally {
    let next = AtomicU64::new(arguments.first);
    let tally = Mutex::new(Tally::default());
    let end = arguments.first.saturating_add(arguments.count);
    let lock = || tally.lock().expect("a run that panics ends all");
    let work = || {
        while !lock().is_over(arguments) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let outcome = arguments.run(seed, Traced::Not);
            lock().add(arguments, seed, outcome);
        }
    };
    std::thread::scope(|scope| (0..arguments.jobs).for_each(|_| drop(scope.spawn(work))));
    tally.into_inner().expect("likewise")
}

/// Runs a seed and prints its trace.
fn run_one(arguments: &Arguments) -> ExitCode {
    let seed = arguments.first;
    println!("{}", arguments.parameters(seed));
    let outcome = arguments.run(seed, if arguments.echo { Traced::Echoed } else { Traced::Kept });
    if outcome.violation.is_some() {
        if !arguments.echo {
            outcome.trace.last_lines().for_each(|line| println!("{line}"));
        }
        report(seed, arguments, &outcome);
        return ExitCode::FAILURE;
    }
    println!(
        "seed {seed}: {} statements ran ({} sent again), {} answers were right ({} popular ones, of {} executions), {:.3} virtual seconds, {} trace lines, trace hash {:016x}",
        outcome.executed,
        outcome.rescues,
        outcome.answered,
        outcome.popular.0,
        outcome.popular.1,
        outcome.micros as f64 / 1e6,
        outcome.trace.count(),
        outcome.trace.hash()
    );
    if arguments.cluster {
        let mut reads = Reads::default();
        reads.add(&outcome);
        println!("{:?}", outcome.fates);
        reads.print();
    }
    if arguments.onramps > 0 {
        println!("{:?}", outcome.killed);
    }
    if arguments.freeze > 0 {
        println!("{}", outcome.frozen);
    }
    ExitCode::SUCCESS
}

fn parse(mut given: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments {
        first: 1,
        count: 0,
        steps: 0,
        workers: 1,
        cluster: false,
        mysql: false,
        group: false,
        onramps: 0,
        reads: 0,
        freeze: 0,
        pass_through: false,
        strict: false,
        keep_going: false,
        echo: false,
        jobs: 1,
    };
    let mut quiet = false;
    while let Some(argument) = given.next() {
        let mut number = || given.next()?.parse::<u64>().ok();
        match argument.as_str() {
            "--seed" => {
                arguments.first = number()?;
                arguments.count = 1;
                arguments.echo = true;
            }
            "--seeds" => arguments.count = number()?,
            "--from" => arguments.first = number()?,
            "--steps" => arguments.steps = number()?,
            "--workers" => {
                arguments.workers = u32::try_from(number()?).ok().filter(|&workers| workers > 0)?;
            }
            "--cluster" => arguments.cluster = true,
            "--mysql" => arguments.mysql = true,
            "--group" => arguments.group = true,
            "--onramps" => {
                arguments.onramps =
                    u8::try_from(number()?).ok().filter(|onramps| (2..=4).contains(onramps))?;
            }
            "--reads" => arguments.reads = number()?,
            "--freeze" => arguments.freeze = number()?,
            "--jobs" => arguments.jobs = u32::try_from(number()?).ok().filter(|&jobs| jobs > 0)?,
            "--pass-through" => arguments.pass_through = true,
            "--keep-going" => arguments.keep_going = true,
            "--strict" => arguments.strict = true,
            "--quiet" => quiet = true,
            _ => return None,
        }
    }
    arguments.echo &= !quiet;
    if arguments.reads > 0 && arguments.count == 0 {
        arguments.count = u64::MAX;
    }
    let freezes_nobody = arguments.freeze > 0 && arguments.pass_through;
    let several = arguments.onramps > 0 && (arguments.reads > 0 || arguments.pass_through);
    let of_cluster = arguments.reads > 0 || arguments.mysql || arguments.group;
    let is_whole = arguments.count > 0 && (arguments.cluster || !of_cluster) && !several && !freezes_nobody;
    is_whole.then_some(arguments)
}

/// What went wrong, and how to see it again.
fn report(seed: u64, arguments: &Arguments, outcome: &Outcome) {
    let violation = outcome.violation.as_deref().unwrap_or("nothing, this time");
    println!("\nseed {seed} went wrong: {violation}");
    let steps = if arguments.steps == 0 { String::new() } else { format!(" --steps {}", arguments.steps) };
    let workers =
        if arguments.workers == 1 { String::new() } else { format!(" --workers {}", arguments.workers) };
    let mode = if arguments.pass_through { " --pass-through" } else { "" };
    let cluster = match (arguments.cluster, arguments.reads) {
        (true, 0) => " --cluster",
        (true, _) => " --cluster --reads 1",
        (false, _) => "",
    };
    let onramps =
        if arguments.onramps == 0 { String::new() } else { format!(" --onramps {}", arguments.onramps) };
    let mysql = match (arguments.group, arguments.mysql) {
        (true, _) => " --group",
        (false, true) => " --mysql",
        (false, false) => "",
    };
    let freeze =
        if arguments.freeze == 0 { String::new() } else { format!(" --freeze {}", arguments.freeze) };
    let strict = if arguments.strict { " --strict" } else { "" };
    println!(
        "replay: cargo run -p simulator -- --seed {seed}{steps}{workers}{cluster}{mysql}{onramps}{freeze}{mode}{strict}"
    );
}
