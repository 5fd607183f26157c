//! `simulate --seed N` repeats one run, `simulate --seeds COUNT` looks for a run that goes wrong.

use std::process::ExitCode;

use simulator::ledger::Fates;
use simulator::{Outcome, Parameters, run_engine, run_pass_through};

const USAGE: &str =
    "usage: simulate --seed N | --seeds COUNT [--from N] [--steps N] [--workers N] [--cluster] [--pass-through] [--strict] [--quiet]
  --seed N        run one seed and print its trace
  --seeds COUNT   run so many seeds, from --from on (1 if not given), up to the first that fails
  --steps N       happenings before the calm; drawn from the seed if not given
  --workers N     so many engines with common permits in the middle; 1 if not given
  --cluster       several servers, a primary and its replicas, and what befalls them
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
    pass_through: bool,
    strict: bool,
    keep_going: bool,
    echo: bool,
}

impl Arguments {
    fn parameters(&self, seed: u64) -> Parameters {
        let draw = if self.cluster { Parameters::of_cluster } else { Parameters::draw };
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
    let mut fates = Fates::default();
    for seed in arguments.first..arguments.first + arguments.count {
        let parameters = arguments.parameters(seed);
        if arguments.count == 1 {
            println!("{parameters}");
        }
        let run = if arguments.pass_through { run_pass_through } else { run_engine };
        let outcome = run(parameters, arguments.echo);
        fates = fates.and(outcome.fates);
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
    }
    if arguments.cluster {
        println!("{fates:?}");
    }
    println!("{} of {} seeds went wrong", failures, arguments.count);
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(mut given: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments {
        first: 1,
        count: 0,
        steps: 0,
        workers: 1,
        cluster: false,
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
            "--pass-through" => arguments.pass_through = true,
            "--keep-going" => arguments.keep_going = true,
            "--strict" => arguments.strict = true,
            "--quiet" => quiet = true,
            _ => return None,
        }
    }
    arguments.echo &= !quiet;
    (arguments.count > 0).then_some(arguments)
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
    let cluster = if arguments.cluster { " --cluster" } else { "" };
    let strict = if arguments.strict { " --strict" } else { "" };
    println!("replay: cargo run -p simulator -- --seed {seed}{steps}{workers}{cluster}{mode}{strict}");
}
