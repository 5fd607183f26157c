//! `onramp bench`: a load generator for any MySQL server or proxy, on the tables of sysbench.
//!
//! One thread, one event loop, thousands of connections: a client-side state machine (`generator`) that a driver runs,
//! as the server side does. From the outside in:
//!
//! | module | holds |
//! |---|---|
//! | `options` | the command line |
//! | `run` | a run from its beginning to its report |
//! | `target`, `local_addresses` | where connections go to, and where they come from so that ports suffice |
//! | `limits`, `machine` | whether there are descriptors enough; what is used of the machine |
//! | `script`, `prepare` | lists of statements over a few connections: making, dropping and checking tables |
//! | `generator` | the load: connections, events, phases of a run |
//! | `workload`, `distribution` | what an event sends, and about which rows |
//! | `journal` | what became of each marker that clients left |
//! | `reply` | the protocol: finding where a reply ends (getting in is the crate `login`'s) |
//! | `statistics`, `report` | what is counted and what is printed |
//! | `trouble` | why a command did not do what it should |

#![forbid(unsafe_code)]
// A state machine takes its time as input, and so does `generator`. Around it this crate is a program: it reads the
// clock for a seed, watches signals on a thread and reads the environment.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a program around its state machine")]

mod crowd;
mod distribution;
mod errors;
mod generator;
mod interrupts;
mod journal;
mod limits;
mod local_addresses;
mod machine;
mod options;
mod outbox;
mod prepare;
mod progress;
mod reply;
mod report;
mod run;
mod script;
mod statistics;
mod target;
mod trouble;
mod workload;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser as _;
use drivers::{Driver, DriverChoice};
use seam::Address;

use errors::{ClientError, Failure};
use login::Credentials;
use options::{Action, CommandLine, ServerOptions, TableOptions};
use script::{Stage, execute};
use target::{NoTarget, Target};
use trouble::{NoResult, Trouble};

/// The command line of `onramp bench`: manual pages and completions are made of it.
pub fn command_line() -> clap::Command {
    <CommandLine as clap::CommandFactory>::command().name("bench")
}

/// Runs the words after `onramp bench`, prints what it has to say, and returns the exit code of [`status`].
pub fn run(args: &[String]) -> ExitCode {
    ExitCode::from(status(args))
}

/// Like [`run()`], with the exit code as a number: 0 done, 1 the run or a check failed, 2 wrong options.
pub fn status(args: &[String]) -> u8 {
    let words = std::iter::once("onramp bench").chain(args.iter().map(String::as_str));
    let command_line = match CommandLine::try_parse_from(words) {
        Ok(command_line) => command_line,
        Err(error) => {
            // Where it cannot be printed, nobody is there to read it.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(WRONG_OPTIONS);
        }
    };
    let result = match command_line.action {
        Action::Prepare(options) => prepare_tables(&options),
        Action::Run(options) => run::run_load(&options),
        Action::Cleanup(options) => drop_tables(&options),
        Action::Check(options) => check_ledger(&options),
    };
    match result {
        Ok(()) => DONE,
        Err(trouble) => {
            eprintln!("onramp bench: {trouble}");
            if matches!(trouble, Trouble::Options(_)) { WRONG_OPTIONS } else { FAILED }
        }
    }
}

const DONE: u8 = 0;
const FAILED: u8 = 1;
const WRONG_OPTIONS: u8 = 2;

/// Prints to the standard output stream. A reader that has gone (`| head`) is no error of ours.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn prepare_tables(options: &TableOptions) -> Result<(), Trouble> {
    options.check()?;
    let credentials = credentials(&options.server, None);
    let address = first_answering(&options.server, &credentials)?;
    Ok(prepare::prepare(options, &address, &credentials, seed(options))?)
}

fn drop_tables(options: &TableOptions) -> Result<(), Trouble> {
    let credentials = credentials(&options.server, None);
    let address = first_answering(&options.server, &credentials)?;
    Ok(prepare::cleanup(options, &address, &credentials)?)
}

fn check_ledger(options: &ServerOptions) -> Result<(), Trouble> {
    let credentials = credentials(options, None);
    let address = first_answering(options, &credentials)?;
    if prepare::check(&options.db, &address, &credentials)? {
        return Ok(());
    }
    Err(NoResult::WrongSum.into())
}

/// The address of the first target.
fn first_answering(options: &ServerOptions, credentials: &Credentials) -> Result<Address, Trouble> {
    let mut addresses = answering(options, credentials, "SELECT 1")?;
    let first = addresses.swap_remove(0);
    Ok(target::spread(std::slice::from_ref(&first), &options.local_address).pop().unwrap_or(first))
}

/// For each target the address that lets us in and answers `probe`. A name may have addresses on which nobody listens;
/// any answer, a refusal too, ends the search.
fn answering(
    options: &ServerOptions,
    credentials: &Credentials,
    probe: &str,
) -> Result<Vec<Address>, Trouble> {
    let targets = target::resolve(options)?;
    targets.iter().map(|target| answering_candidate(target, options, credentials, probe)).collect()
}

fn answering_candidate(
    target: &Target,
    options: &ServerOptions,
    credentials: &Credentials,
    probe: &str,
) -> Result<Address, Trouble> {
    let mut last = None;
    for candidate in &target.candidates {
        let bound = target::spread(std::slice::from_ref(candidate), &options.local_address);
        let address = bound.first().unwrap_or(candidate);
        match execute(address, credentials, 1, vec![Stage::single(probe)]) {
            Ok(_) => return Ok(candidate.clone()),
            Err(failure) if failure.code == ClientError::Connect as u16 => last = Some(failure),
            Err(failure) => return Err(failure.into()),
        }
    }
    Err(last.map_or_else(|| NoTarget::NoAddress(target.name.clone()).into(), Trouble::from))
}

fn credentials(options: &ServerOptions, schema: Option<&str>) -> Credentials {
    Credentials::new(&options.user, options.password.reveal(), schema, options.socket.is_some())
}

/// The seed that was given, or one from the clock.
fn seed(options: &TableOptions) -> u64 {
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    options.seed.unwrap_or_else(clock)
}

/// For a few connections, as scripts have them: one driver is as good as another, and this one is always there.
fn new_driver() -> Result<Driver, Failure> {
    Driver::open(DriverChoice::Epoll, drivers::Settings::default())
        .map(|opened| opened.driver)
        .map_err(|error| Failure::new(ClientError::Lost, format!("no event loop: {error}")))
}
