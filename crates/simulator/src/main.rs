//! `simulate --seed N` repeats one run, `simulate --seeds COUNT` looks for a run that goes wrong.

use std::process::ExitCode;

use engine::Histogram;
use simulator::checkers::ReadChecks;
use simulator::ledger::Fates;
use simulator::{Outcome, Parameters, run_engine, run_pass_through};

const USAGE: &str =
    "usage: simulate --seed N | --seeds COUNT [--from N] [--steps N] [--workers N] [--cluster [--reads N]] [--pass-through] [--strict] [--quiet]
  --seed N        run one seed and print its trace
  --seeds COUNT   run so many seeds, from --from on (1 if not given), up to the first that fails
  --steps N       happenings before the calm; drawn from the seed if not given
  --workers N     so many engines with common permits in the middle; 1 if not given
  --cluster       several servers, a primary and its replicas, and what befalls them
  --reads N       reads are split in each run, and there is no end of runs before so many reads of what their own
                  login had written have been checked
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
    /// So many checks of reads are wanted; 0 for whatever the seeds give.
    reads: u64,
    pass_through: bool,
    strict: bool,
    keep_going: bool,
    echo: bool,
}

/// What runs have checked of reads that may go to replicas.
#[derive(Default)]
struct Reads {
    checks: ReadChecks,
    waits: Histogram,
    runs: u64,
}

impl Reads {
    fn add(&mut self, outcome: &Outcome) {
        self.checks = self.checks.and(outcome.reads);
        self.waits += &outcome.read_waits;
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
    }
}

impl Arguments {
    fn parameters(&self, seed: u64) -> Parameters {
        let draw = match self.cluster {
            true if self.reads > 0 => Parameters::of_reads,
            true => Parameters::of_cluster,
            false => Parameters::draw,
        };
        let mut parameters = draw(seed, self.steps);
        parameters.habits.strict = self.strict;
        parameters.with_workers(self.workers)
    }
}

fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let mut failures = 0;
    let (mut fates, mut reads) = (Fates::default(), Reads::default());
    for seed in arguments.first..arguments.first.saturating_add(arguments.count) {
        let parameters = arguments.parameters(seed);
        if arguments.count == 1 {
            println!("{parameters}");
        }
        let run = if arguments.pass_through { run_pass_through } else { run_engine };
        let outcome = run(parameters, arguments.echo);
        fates = fates.and(outcome.fates);
        reads.add(&outcome);
        match &outcome.violation {
            None if arguments.count == 1 => summary(seed, &outcome),
            None => {}
            Some(violation) if arguments.keep_going => {
                failures += 1;
                println!("seed {seed}: {violation}");
            }
            Some(violation) => {
                report(seed, &arguments, &outcome, violation);
                return ExitCode::FAILURE;
            }
        }
        if arguments.reads > 0 && reads.checks.own >= arguments.reads {
            break;
        }
    }
    if arguments.cluster {
        println!("{fates:?}");
        reads.print();
    }
    println!("{failures} of {} seeds went wrong", reads.runs);
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(mut given: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments {
        first: 1,
        count: 0,
        steps: 0,
        workers: 1,
        cluster: false,
        reads: 0,
        pass_through: false,
        strict: false,
        keep_going: false,
        echo: false,
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
            "--reads" => arguments.reads = number()?,
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
    let is_whole = arguments.count > 0 && (arguments.cluster || arguments.reads == 0);
    is_whole.then_some(arguments)
}

fn summary(seed: u64, outcome: &Outcome) {
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
}

fn report(seed: u64, arguments: &Arguments, outcome: &Outcome, violation: &str) {
    if !arguments.echo {
        println!("{}", arguments.parameters(seed));
        for line in outcome.trace.last_lines() {
            println!("{line}");
        }
    }
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
    let strict = if arguments.strict { " --strict" } else { "" };
    println!("replay: cargo run -p simulator -- --seed {seed}{steps}{workers}{cluster}{mode}{strict}");
}
