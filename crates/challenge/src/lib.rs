//! `onramp challenge`: 100,000 clients on one machine, in one command, and the report that shows what came of it.
//!
//! A straight line: options, then a server of our own in a temporary folder ([`private_server`]), its tables, and step
//! after step: Onramp or the server itself, and one load generator, each a process that nothing else runs in. At the end
//! a table, `report.json` and `report.html`.
//!
//! | module | holds |
//! |---|---|
//! | `options` | the command line |
//! | `error` | why something could not be done, by whose affair it is |
//! | `limits` | what is short on this machine |
//! | `plan` | what is measured, in which order, and what gives way when time runs out |
//! | `campaign` | doing it |
//! | `failover` | in its place, with several servers: the primary is killed while clients go on |
//! | `cluster`, `sql` | these servers, and what an operator's script does with them |
//! | `ledger` | what clients were told of their writes, held against what is stored |
//! | `server`, `private`, `onramp`, `load`, `child` | the programs: the server under test, Onramp, the load generator |
//! | `process_usage`, `kernel_memory`, `machine` | what is read from /proc |
//! | `knee` | the search for the number of connections that is of use |
//! | `report` | what was found out: JSON, table, page with charts |

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program that starts programs and reads the clock, far from the data path"
)]

mod campaign;
mod child;
mod cluster;
mod cpu_share;
mod error;
mod failover;
mod interrupts;
mod kernel_memory;
mod knee;
mod ledger;
mod limits;
mod load;
mod machine;
mod onramp;
mod options;
mod plan;
mod private;
mod process_usage;
mod progress;
mod report;
mod scratch;
mod server;
mod sql;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use campaign::Campaign;
use cluster::Cluster;
use error::{Error, Lack};
use failover::Drill;
use interrupts::Interrupts;
use load::{Activity, Run};
use options::Options;
use report::{Ending, Machine, Report, Setup};
use scratch::Scratch;
use server::{Place, Server};

/// Options that cannot be used.
const WRONG_OPTIONS: u8 = 2;

/// The command line of `onramp challenge`: manual pages and completions are made of it.
pub fn command_line() -> clap::Command {
    <Options as clap::CommandFactory>::command().name("challenge")
}

/// Runs the words after `onramp challenge`: 0 where every step through Onramp was reached without errors, 1 where not, 2
/// for options that cannot be used. Everything that it starts has ended when it returns.
pub fn run(arguments: &[String]) -> ExitCode {
    let words = std::iter::once("onramp challenge").chain(arguments.iter().map(String::as_str));
    let options = match Options::read(words.map(str::to_owned)) {
        Ok(Ok(options)) => options,
        Ok(Err(error)) => {
            eprintln!("onramp challenge: {error}");
            return ExitCode::from(WRONG_OPTIONS);
        }
        Err(error) => {
            // Where it cannot be printed, nobody is there to read it.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(WRONG_OPTIONS));
        }
    };
    match challenge(&options) {
        Ok(report) if report.is_good() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("onramp challenge: {error}");
            if error.is_of_options() { ExitCode::from(WRONG_OPTIONS) } else { ExitCode::FAILURE }
        }
    }
}

fn challenge(options: &Options) -> Result<Report, Error> {
    let begin = Instant::now();
    let program = std::env::current_exe().map_err(|error| Error::Machine(Lack::Program(error)))?;
    // Before an hour of work, not after it.
    std::fs::create_dir_all(&options.report).map_err(|error| unwritable(&options.report, error))?;
    let short = limits::look(options)?;
    for line in &short {
        eprintln!("short: {line}");
    }
    let interrupts = Interrupts::watch()?;
    let scratch = Scratch::create(options.work_directory.as_deref())?;
    let folder = scratch.path();
    let mut report = blank_report(options);
    report.notes.extend(short.into_iter().map(|line| format!("short on this machine: {line}")));
    if options.servers > 1 {
        let servers = Cluster::servers(options, folder)?;
        Drill { options, program: &program, folder, interrupts: &interrupts }.run(servers, &mut report);
    } else {
        let server = Server::new(options, folder)?;
        Campaign::new(options, &program, folder, &interrupts, server, &mut report).run();
    }
    report.duration = begin.elapsed().as_secs_f64();
    let files = write(&report, &options.report)?;
    let files: String = files.iter().map(|path| format!("{}\n", path.display())).collect();
    // A reader that has gone (`| head`) is no error of ours.
    let _ = write!(std::io::stdout(), "\n{}\n{files}", report::table::render(&report));
    Ok(report)
}

fn blank_report(options: &Options) -> Report {
    let fails_over = options.servers > 1;
    Report {
        schema: report::SCHEMA,
        version: String::from(env!("CARGO_PKG_VERSION")),
        started: machine::now_in_utc(),
        duration: 0.0,
        ending: Ending::Complete,
        machine: Machine::describe(),
        setup: Setup {
            server: String::new(),
            private_server: options.backend.is_none(),
            servers: options.servers,
            server_cpus: options.server_cpus,
            driver: String::new(),
            workload: if fails_over { String::from(failover::WORKLOAD) } else { options.workload.clone() },
            tables: options.tables,
            table_size: options.table_size,
            time: options.time.as_secs_f64(),
            warmup: options.warmup.as_secs_f64(),
            rounds: options.rounds,
            clients: if fails_over { vec![options.clients] } else { options.steps.clone() },
            direct: if options.skip_direct || fails_over { Vec::new() } else { options.direct_steps.clone() },
            commands: commands(options),
        },
        steps: Vec::new(),
        idle: None,
        knee: None,
        failover: None,
        notes: Vec::new(),
    }
}

/// The command lines as they are run, with words for what changes.
fn commands(options: &Options) -> Vec<String> {
    let place = Place::Tcp(String::from("127.0.0.1"), 0);
    let activity = Activity::Load { warmup: options.warmup, time: options.time };
    let bench = if options.servers > 1 {
        failover::load_arguments(&place, "USER", options).join(" ")
    } else {
        load::run_arguments(&place, "USER", Run { connections: 0, activity }, options).join(" ")
    };
    let bench = bench.replace("--port 0", "--port PORT").replace("--connections 0", "--connections N");
    vec![
        format!("ONRAMP_BACKEND=mysql://... onramp {}", onramp::arguments(options).join(" ")),
        format!("ONRAMP_BENCH_PASSWORD=... onramp bench {bench}"),
    ]
}

/// Writes both files and says where they are.
fn write(report: &Report, folder: &Path) -> Result<[PathBuf; 2], Error> {
    let files = [folder.join("report.json"), folder.join("report.html")];
    let texts = [report::to_json(report), report::html::render(report)];
    for (path, text) in files.iter().zip(texts) {
        std::fs::write(path, text).map_err(|error| unwritable(path, error))?;
    }
    Ok(files)
}

fn unwritable(path: &Path, error: std::io::Error) -> Error {
    Error::Machine(Lack::Report { path: path.into(), error })
}
