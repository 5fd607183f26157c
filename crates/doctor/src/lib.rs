//! `onramp doctor`: what limits this machine, and the server, for so many clients, and the command that lifts it.
//!
//! A straight line: [`Machine`] reads the system once, [`examine()`] judges it without looking at anything else, and one of
//! three ways of printing shows the [`Finding`]s: a table, JSON, or a file for `/etc/sysctl.d`. Programs that are about to
//! start ask [`short()`].
//!
//! | module | holds |
//! |---|---|
//! | `machine` | everything that is read from `/proc` and `/sys` |
//! | `checks` | the judgement: one function for each limit |
//! | `finding`, `remedy` | what a check says |
//! | `server` | the questions to a server |
//! | `command_line`, `print` | the program |

#![forbid(unsafe_code)]
// The rest of the workspace takes the system as input. Here it is looked at.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program that asks the system and a server, off the data path"
)]

mod checks;
mod command_line;
mod finding;
mod machine;
mod no_answer;
mod print;
mod remedy;
mod request;
mod server;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser as _;
use drivers::DriverChoice;

use command_line::{CommandLine, Output};

pub use checks::examine;
pub use finding::{Amount, Check, Finding, Verdict};
pub use machine::Machine;
pub use no_answer::NoAnswer;
pub use remedy::Remedy;
pub use request::{Request, Role};
pub use server::ServerAnswer;

/// Nothing is short.
pub const FINE: u8 = 0;
/// Something is short.
pub const SHORT: u8 = 1;
/// Options that cannot be used.
pub const WRONG_OPTIONS: u8 = 2;

/// What is short on this machine for what is about to start, worst first; each has a [`std::fmt::Display`] of one line. The request's driver
/// is the one that runs already: where that is io_uring, no filter of system calls stands against it.
///
/// Reads a few dozen small files and does nothing else: no network, no attempt to use io_uring. What cannot be read is not
/// reported.
pub fn short(request: &Request) -> Vec<Finding> {
    let mut machine = Machine::here();
    if request.driver == DriverChoice::Uring {
        machine = machine.with_uring(Ok(()));
    }
    let mut findings = examine(&machine, request);
    findings.retain(|finding| finding.verdict == Verdict::Short);
    findings
}

/// The command line of `onramp doctor`: manual pages and completions are made of it.
pub fn command_line() -> clap::Command {
    <CommandLine as clap::CommandFactory>::command().name("doctor")
}

/// Runs the words after `onramp doctor`, prints what it has to say, and returns the exit code of [`status`].
pub fn run(arguments: &[String]) -> ExitCode {
    let colours = print::table::wanted_colours();
    let mut out = Vec::new();
    let code = status(arguments, colours, &mut out);
    // A reader that has gone (`| head`) is no error of ours.
    let _ = std::io::stdout().write_all(&out);
    ExitCode::from(code)
}

/// Like [`run`], into a buffer and with the exit code as a number: [`FINE`], [`SHORT`] or [`WRONG_OPTIONS`]. What is wrong
/// with the options goes to the standard error stream.
pub fn status(arguments: &[String], colours: bool, out: &mut Vec<u8>) -> u8 {
    let words = std::iter::once("onramp doctor").chain(arguments.iter().map(String::as_str));
    let command_line = match CommandLine::try_parse_from(words) {
        Ok(command_line) => command_line,
        Err(error) => {
            // Where it cannot be printed, nobody is there to read it.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(WRONG_OPTIONS);
        }
    };
    let machine = match look(&command_line) {
        Ok(machine) => machine,
        Err(message) => {
            eprintln!("onramp doctor: {message}");
            return WRONG_OPTIONS;
        }
    };
    let request = command_line.request();
    let findings = examine(&machine, &request);
    let text = match command_line.output() {
        Output::Table => print::table::render(&machine, &request, &findings, colours),
        Output::Json => print::json::render(&machine, &request, &findings),
        Output::Sysctl => print::sysctl::render(&request, &findings),
    };
    out.extend_from_slice(text.as_bytes());
    if findings.iter().any(|finding| finding.verdict == Verdict::Short) { SHORT } else { FINE }
}

/// Everything that the options ask to look at.
fn look(command_line: &CommandLine) -> Result<Machine, config::Error> {
    let backend = command_line.backend()?;
    let mut machine = match &command_line.root {
        None => Machine::here().with_uring(drivers::probe_uring()),
        Some(root) => Machine::read(root),
    };
    if let Some(backend) = backend {
        machine = machine.with_server(server::ask(&backend));
    }
    Ok(machine)
}
