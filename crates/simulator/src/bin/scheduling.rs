//! `scheduling`: the thread pool's scenarios under each profile, on the terminal, as JSON, and as the page in docs.

#![allow(
    clippy::disallowed_methods,
    reason = "the clock tells how long a run took, and nothing that is written depends on it"
)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use simulator::scheduling::accounts;
use simulator::scheduling::long_statements::{self, Load};
use simulator::scheduling::mixes::{self, Mix};
use simulator::scheduling::report::table::Table;
use simulator::scheduling::report::{json, page};
use simulator::scheduling::scenarios::{self, Scale};
use simulator::scheduling::survey::{self, Case};
use simulator::scheduling::turns::{self, Course};
use simulator::scheduling::{self, Profile, Run, Scenario};

const USAGE: &str = "usage: scheduling [--small] [--seed N] [--profile NAME]... [--json FILE] [--docs FOLDER] [SCENARIO]...
       scheduling --survey | --turns | --mixes | --long | --accounts
  --small         with fewer clients and less time
  --seed N        1 if not given
  --profile NAME  only this one; may be repeated
  --json FILE     writes all figures
  --docs FOLDER   writes FOLDER/SCHEDULING.md, its pictures in FOLDER/scheduling and FOLDER/scheduling.json anew
  --survey        looks for the best number of permits on servers unlike each other, and what is found, on all cores
  --turns         the same where a server's load turns into another one, and others take cores for a while
  --mixes         what statements that compute and others that wait get beside each other
  --long          what statements of a second get, alone and beside short ones
  --accounts      logins on the server for each statement, with few and many accounts
  SCENARIO        only these; `scheduling --list` names them";

struct Arguments {
    scale: Scale,
    seed: u64,
    profiles: Vec<Profile>,
    names: Vec<String>,
    json: Option<PathBuf>,
    docs: Option<PathBuf>,
    list: bool,
    survey: bool,
    turns: bool,
    mixes: bool,
    long: bool,
    accounts: bool,
}

fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if arguments.survey {
        let found = on_all_cores(&Case::all(), |case| case.find());
        print!("{}", survey::to_markdown(&found));
        return ExitCode::SUCCESS;
    }
    if arguments.turns {
        let found = on_all_cores(&Course::all(), |course| (course, course.find()));
        print!("{}", turns::to_markdown(&found));
        return ExitCode::SUCCESS;
    }
    if arguments.mixes {
        let found = on_all_cores(&Mix::all(), |mix| (mix, mix.find()));
        print!("{}", mixes::to_markdown(&found));
        return ExitCode::SUCCESS;
    }
    if arguments.long {
        let found = on_all_cores(&Load::all(), |load| (load, load.find()));
        print!("{}", long_statements::to_markdown(&found));
        return ExitCode::SUCCESS;
    }
    if arguments.accounts {
        let found = on_all_cores(&accounts::Case::all(), |case| case.find(5, arguments.seed));
        print!("{}", accounts::to_markdown(&found));
        return ExitCode::SUCCESS;
    }
    let mut scenarios = scenarios::all(arguments.scale);
    scenarios.retain(|scenario| {
        arguments.names.is_empty() || arguments.names.iter().any(|name| name == scenario.name)
    });
    if arguments.list {
        scenarios.iter().for_each(|scenario| println!("{:16} {}", scenario.name, scenario.title));
        return ExitCode::SUCCESS;
    }
    let runs: Vec<_> = scenarios.into_iter().map(|scenario| run(&arguments, scenario)).collect();
    match write(&arguments, &runs) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scheduling: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut given: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments {
        scale: Scale::Full,
        seed: 1,
        profiles: Vec::new(),
        names: Vec::new(),
        json: None,
        docs: None,
        list: false,
        survey: false,
        turns: false,
        mixes: false,
        long: false,
        accounts: false,
    };
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--small" => arguments.scale = Scale::Small,
            "--list" => arguments.list = true,
            "--survey" => arguments.survey = true,
            "--turns" => arguments.turns = true,
            "--mixes" => arguments.mixes = true,
            "--long" => arguments.long = true,
            "--accounts" => arguments.accounts = true,
            "--seed" => arguments.seed = given.next()?.parse().ok()?,
            "--profile" => {
                let name = given.next()?;
                let others = [Profile::OldestFirst, Profile::Bounded, Profile::Fair];
                let mut known = Profile::POOLS.into_iter().chain(others);
                arguments.profiles.push(known.find(|profile| profile.name() == name)?);
            }
            "--json" => arguments.json = Some(given.next()?.into()),
            "--docs" => arguments.docs = Some(given.next()?.into()),
            name if !name.starts_with('-')
                && scenarios::all(Scale::Small).iter().any(|known| known.name == name) =>
            {
                arguments.names.push(argument);
            }
            _ => return None,
        }
    }
    Some(arguments)
}

/// What is found in each case, looked for on all cores.
fn on_all_cores<C: Copy + Sync, F: Debug + Send>(cases: &[C], find: impl Fn(C) -> F + Sync) -> Vec<F> {
    let next = AtomicUsize::new(0);
    let found: Mutex<BTreeMap<usize, F>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&case) = cases.get(place) else { break };
                    let result = find(case);
                    eprintln!("{result:?}");
                    found.lock().expect("nobody panics with it").insert(place, result);
                }
            });
        }
    });
    found.into_inner().expect("nobody panics with it").into_values().collect()
}

fn run(arguments: &Arguments, scenario: Scenario) -> (Scenario, Vec<Run>) {
    println!("{} ({})\n", scenario.title, scenario.name);
    let mut results = Vec::new();
    let mut profiles = Profile::of(&scenario);
    profiles.retain(|profile| arguments.profiles.is_empty() || arguments.profiles.contains(profile));
    for profile in profiles {
        let begun = Instant::now();
        let result = scheduling::run(&scenario, profile, arguments.seed);
        eprintln!(
            "{} under {}: {:.1} s, {} turns, {} MB at most so far",
            scenario.name,
            profile.name(),
            begun.elapsed().as_secs_f64(),
            result.outcome.turns,
            peak_memory() / 1000
        );
        for unknown in &result.outcome.unknown {
            eprintln!("the modelled server does not know: {unknown}");
        }
        results.push(result);
    }
    println!("{}", Table::of_figures(&results).to_text());
    println!("{}", Table::of_classes(&results).to_text());
    (scenario, results)
}

fn write(arguments: &Arguments, runs: &[(Scenario, Vec<Run>)]) -> std::io::Result<()> {
    let all = json::document(arguments.seed, runs);
    if let Some(file) = &arguments.json {
        std::fs::write(file, &all)?;
    }
    let Some(docs) = &arguments.docs else { return Ok(()) };
    let pictures = docs.join("scheduling");
    std::fs::create_dir_all(&pictures)?;
    for (scenario, results) in runs {
        std::fs::write(pictures.join(format!("{}.svg", scenario.name)), page::picture(scenario, results))?;
    }
    std::fs::write(docs.join("scheduling.json"), all)?;
    let file = docs.join("SCHEDULING.md");
    let before = std::fs::read_to_string(&file)?;
    let after = page::with_section(&before, &page::section(arguments.seed, runs));
    let after =
        after.ok_or_else(|| std::io::Error::other("docs/SCHEDULING.md has no place for the figures"))?;
    std::fs::write(file, after)
}

/// Kilobytes of memory that this process has had at most; zero where the system does not say.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
