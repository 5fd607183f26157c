//! `onramp top`: what a running Onramp does, live, over its admin port. From the outside in:
//!
//! | module | holds |
//! |---|---|
//! | `options`, `targets` | the command line; where admin ports are, and short names for them |
//! | `live`, `replay` | the loops of the two kinds of screens, and recording without a screen |
//! | `terminal` | taking the terminal and giving it back |
//! | `asked`, `clock` | all admin ports that are asked, and when each is the next time |
//! | `poller`, `connection` | a thread that asks, and MySQL's protocol to the admin port |
//! | `remote` | an admin port for others that ask it |
//! | `texts` | what kinds of statements clients are at |
//! | `questions`, `tabs` | what is asked, and what each tab shows of it |
//! | `snapshot`, `recording` | a look, as a line of JSON and back; files of them |
//! | `together`, `onramps` | looks at several Onramps as one, and the table of them |
//! | `view` | what is looked at and how: looks and keys in, actions out |
//! | `rows`, `lock_tree`, `format` | which rows are shown in which order, and how values read |
//! | `draw`, `once` | the view as a screen; a look as text or JSON |
//! | `trouble` | what ends the program |
//!
//! From `snapshot` on down all is a function of its input: no clock, no terminal, no connection.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program with a terminal and a socket"
)]

mod asked;
mod clock;
mod connection;
mod draw;
mod format;
#[cfg(debug_assertions)]
mod injected;
mod live;
mod lock_tree;
mod once;
mod onramps;
mod options;
mod poller;
mod questions;
mod recording;
mod remote;
mod replay;
mod rows;
mod snapshot;
mod tabs;
mod targets;
mod terminal;
mod texts;
mod together;
mod trouble;
mod view;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;

pub use connection::Failure;
pub use remote::{NoAnswer, NoRemote, Remote, Rows};

use connection::Place;
use options::{Options, Wanted};
use snapshot::Snapshot;
use terminal::Screen;
use trouble::Trouble;

/// Options that cannot be used.
const WRONG_OPTIONS: u8 = 2;

/// The command line of `onramp top`: manual pages and completions are made of it.
pub fn command_line() -> clap::Command {
    <Options as clap::CommandFactory>::command().name("top")
}

/// Runs the words after `onramp top`. Exit codes: 0 done, 1 the admin port, the terminal or a file cannot be used, 2 wrong options.
pub fn run(args: &[String]) -> ExitCode {
    let words = std::iter::once("onramp top").chain(args.iter().map(String::as_str));
    let options = match Options::try_parse_from(words) {
        Ok(options) => options,
        Err(error) => {
            // Where it cannot be printed, nobody is there to read it.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(WRONG_OPTIONS));
        }
    };
    let needs_terminal = !options.once && options.record.is_none();
    if needs_terminal && !Screen::is_there() {
        eprintln!(
            "onramp top: the screens need a terminal; --once prints everything once, --record writes to a file"
        );
        return ExitCode::from(WRONG_OPTIONS);
    }
    let wanted = match options.wanted() {
        Ok(wanted) => wanted,
        Err(reason) => {
            eprintln!("onramp top: {}", format::clean(&reason.to_string()));
            return ExitCode::from(WRONG_OPTIONS);
        }
    };
    match command(&options, wanted) {
        Ok(code) => code,
        Err(reason) => {
            eprintln!("onramp top: {}", format::clean(&reason.to_string()));
            ExitCode::FAILURE
        }
    }
}

fn command(options: &Options, wanted: Vec<Wanted>) -> Result<ExitCode, Trouble> {
    if let Some(file) = &options.replay {
        return replay::show(file).map(|()| ExitCode::SUCCESS);
    }
    let place = |wanted| Place::new(options, wanted).map(Arc::new);
    let places: Vec<Arc<Place>> = wanted.into_iter().map(place).collect::<Result<_, _>>()?;
    if options.once {
        let look = asked::once(&places, &live::all_questions(options.rows))?;
        print(&if options.json { once::json(&look) } else { once::text(&look) });
        return Ok(say_missing(&look));
    }
    let recorder = live::recorder(options)?;
    match recorder {
        Some(mut recorder) if !Screen::is_there() => live::record(options, &places, &mut recorder)?,
        recorder => live::show(options, &places, recorder)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Says which of several admin ports could not be used; whoever looks at nothing but the exit code is to know of it, too.
fn say_missing(look: &Snapshot) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for part in &look.parts {
        if let Err(failure) = &part.look {
            eprintln!("onramp top: {}", format::clean(&format!("{}: {failure}", part.target)));
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// Whether the user has not asked for none (<https://no-color.org>: the variable is there and not empty), nor has a terminal without any.
fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|value| value != "dumb")
}

/// Prints to the standard output stream. A reader that has gone (`| head`) is no error of ours.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
