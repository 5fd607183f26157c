//! The onramp program: a thread pool for any MySQL server.
//!
//! `serve` is a straight line: options, then limits, sockets, the private server if there is none, the workers, each
//! with an engine on a driver, and at last the wait for signals ([`serve`]).

// The rest of the workspace takes time, names and processes as input. They come from here.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the program that talks to the system, off the data path"
)]

mod accept_queues;
mod addresses;
mod admin_port;
mod arguments;
mod ask;
mod check;
mod control;
mod core_dumps;
mod crowd;
mod ending;
mod handshakes;
mod happening;
mod health;
mod helpers;
mod history;
mod http_port;
#[cfg(debug_assertions)]
mod injected;
mod json_line;
mod kinds;
mod logging;
mod manual;
mod memory;
mod names;
mod open_files;
mod program;
mod reads;
mod serve;
mod slow_log;
mod supervisor;
mod tls_files;
mod trial;
mod workers;

use std::io::Write as _;
use std::process::ExitCode;

/// What ends the program, or keeps a part of it from starting: it is said, and nobody looks into it.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Options or arguments that cannot be used.
const EXIT_USAGE: u8 = 2;

const USAGE: &str = "\
Usage: onramp <COMMAND>

A thread pool for any MySQL server: clients connect here, few connections go to the server.

Commands:
  serve          serve clients; starts a private server where no --backend is given
  trial          serve as before, one backend for each client, and tell what a pool would make of the load
  top            what a running Onramp does, live, over its admin port
  bench          load generator for any MySQL server or proxy
  doctor         what limits this machine, and the command that lifts it
  health         whether the Onramp beside it is well: for the checks of containers
  challenge      100,000 clients on this machine, with and without Onramp: a report with charts
  docs           print what packages and pages are made of: options, configuration, man, completions
  help           print this text

Options:
  -V, --version  print the version
  -h, --help     print this text; also after a command
";

/// The commands of [`USAGE`], and the one that is there for those who are used to it. [`manual`] has the first of them with their options.
const COMMANDS: [&str; 10] =
    ["serve", "trial", "top", "bench", "doctor", "health", "challenge", "docs", "help", "version"];

fn main() -> ExitCode {
    let mut arguments = Vec::new();
    for argument in std::env::args_os().skip(1) {
        match argument.into_string() {
            Ok(argument) => arguments.push(argument),
            Err(argument) => return usage_error(&format!("{argument:?} is not UTF-8 text")),
        }
    }
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => {
            eprint!("{USAGE}");
            ExitCode::from(EXIT_USAGE)
        }
        ["help" | "--help" | "-h"] => print(USAGE),
        ["version" | "--version" | "-V"] => print(&format!("onramp {}\n", env!("CARGO_PKG_VERSION"))),
        ["help", "serve"] => print(&config::help()),
        ["serve", ..] => serve::command(&arguments[1..]),
        ["help", "trial"] => trial::command(&[String::from("--help")]),
        ["trial", ..] => trial::command(&arguments[1..]),
        ["help", "top"] => top::run(&[String::from("--help")]),
        ["top", ..] => top::run(&arguments[1..]),
        ["help", "bench"] => bench::run(&[String::from("help")]),
        ["bench", ..] => bench::run(&arguments[1..]),
        ["help", "doctor"] => doctor::run(&[String::from("--help")]),
        ["doctor", ..] => doctor::run(&arguments[1..]),
        ["help", "health"] => health::command(&[String::from("--help")]),
        ["health", ..] => health::command(&arguments[1..]),
        ["help", "challenge"] => challenge::run(&[String::from("--help")]),
        ["challenge", ..] => challenge::run(&arguments[1..]),
        ["docs", "options"] => print(&config::reference_page()),
        ["docs", "configuration"] => print(&config::default_file()),
        ["docs", "man"] => manual::page(None),
        ["docs", "man", command] => manual::page(Some(command)),
        ["docs", "completions", shell] => manual::completions(shell),
        ["docs", ..] => usage_error(
            "there are onramp docs options, docs configuration, docs man [COMMAND] and docs completions bash|zsh|fish",
        ),
        ["help", "help" | "docs" | "version"] => print(USAGE),
        ["help", command, ..] => unknown_command(command),
        [command, ..] => unknown_command(command),
    }
}

fn unknown_command(command: &str) -> ExitCode {
    match config::nearest(command, COMMANDS) {
        Some(name) => usage_error(&format!("unknown command {command:?}; did you mean {name}?")),
        None => usage_error(&format!("unknown command {command:?}; `onramp help` lists them all")),
    }
}

/// Prints to the standard output stream. A reader that has gone (`| head`) is no error of ours.
fn print(text: &str) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn usage_error(message: &str) -> ExitCode {
    eprintln!("onramp: {message}");
    ExitCode::from(EXIT_USAGE)
}
