//! Differential fuzzing: random programs of session-changing statements on N clients over M < N backends, against N direct
//! connections to a twin of the server. Every packet of every reply is compared; what may differ is in
//! `differences.rs`, each with its reason.
//!
//! The servers are MariaDB's or MySQL's: programs are told in either dialect ([`dialect`]).
//!
//! In some programs one step follows the other, whosever it is; in others all clients go on at once, each in its own
//! order. A program that shows a difference is made small, printed, and written to a file, which `--replay` runs again.
//! The files in `kept/` run first.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it talks to servers over sockets and waits for them"
)]

mod connection;
mod dialect;
mod differences;
mod errors;
mod flags;
mod leaks;
mod method;
mod options;
mod orders;
mod program;
mod random;
mod run;
mod shrink;
mod sites;
mod statements;
mod step;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser as _;

use crate::differences::{Reason, Tally};
use crate::options::Options;
use crate::program::{Move, Program};
use crate::run::{Bench, Difference, run};
use crate::shrink::shrink;
use crate::sites::{Folder, Server};

/// What ends a run, or keeps a program from being run: it is said, and nobody looks into it.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Time to make one failing program small. Every try takes a second or less.
const SHRINKING: Duration = Duration::from_secs(60);

/// Of programs longer than this only the steps of the client that saw the difference are printed.
const LONGEST_TOLD: usize = 40;

/// A program that could not be run is told of and passed over; after so many there is nothing to go on with.
const MOST_TROUBLES: usize = 20;

/// A line tells how far a run is, so often.
const TELLING: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let mut options = Options::parse();
    // Programs run in folders of their own.
    options.onramp = std::path::absolute(&options.onramp).unwrap_or(options.onramp);
    match if options.leaks { leaks::search(&options) } else { fuzz(&options) } {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Whether no program showed a difference.
fn fuzz(options: &Options) -> Result<bool, Failure> {
    let folder = Folder::new()?;
    let (direct, behind) = std::thread::scope(|scope| {
        let start = |name: &str| Server::start(&folder.0.join(name), &options.server_directory, &[]);
        let behind = scope.spawn(move || start("behind"));
        let direct = start("direct");
        (direct, behind.join().expect("it does not panic"))
    });
    let (direct, behind) = (direct?, behind?);
    let bench = Bench {
        onramp: (!options.twins).then_some(&*options.onramp),
        folder: &folder.0,
        direct: &direct,
        behind: &behind,
    };
    let mut session = Session {
        bench,
        options,
        tally: Tally::new(),
        began: Instant::now(),
        programs: 0,
        steps: 0,
        failed: Vec::new(),
        seen: Vec::new(),
        troubles: Vec::new(),
    };
    session.kept()?;
    if options.replay.is_none() {
        session.seeds()?;
    }
    session.summary();
    Ok(session.failed.is_empty() && session.troubles.is_empty())
}

struct Session<'a> {
    bench: Bench<'a>,
    options: &'a Options,
    tally: Tally,
    began: Instant,
    programs: u64,
    steps: usize,
    /// The names of the programs that differed.
    failed: Vec<String>,
    /// What differed, as it was and made small.
    seen: Vec<Difference>,
    /// What kept programs from being run.
    troubles: Vec<String>,
}

impl Session<'_> {
    /// The programs in files: the one to replay, or all that are kept.
    fn kept(&mut self) -> Result<(), Failure> {
        let mut files = match (&self.options.replay, &self.options.kept) {
            (Some(file), _) => vec![file.clone()],
            (None, Some(folder)) => files(folder)?,
            (None, None) => Vec::new(),
        };
        files.sort();
        for file in files {
            let name = file.display().to_string();
            let text = std::fs::read_to_string(&file).map_err(|error| format!("{name}: {error}"))?;
            let program = Program::read(&text).map_err(|error| format!("{name}: {error}"))?;
            self.one(&name, &program)?;
        }
        Ok(())
    }

    fn seeds(&mut self) -> Result<(), Failure> {
        let end = Instant::now() + self.options.duration;
        let mut left = self.options.programs;
        let mut seed = self.options.seed;
        let mut told = self.began;
        let goes_on = |left: Option<u64>| left.map_or_else(|| Instant::now() < end, |left| left > 0);
        while goes_on(left) && self.failed.len() < self.options.stop_at {
            let program = Program::draw(seed, self.options.steps, self.options.clients);
            let program = if self.bench.direct.is_mysql() { dialect::for_mysql(program) } else { program };
            if !(program.setting.at_once && self.options.in_order) {
                if let Err(trouble) = self.one(&format!("seed {seed}"), &program) {
                    self.trouble(format!("seed {seed} could not be run: {trouble}"))?;
                }
                left = left.map(|left| left - 1);
            }
            seed += 1;
            if told.elapsed() >= TELLING {
                told = Instant::now();
                println!("{}", self.so_far());
            }
        }
        Ok(())
    }

    /// Notes what kept a program from being run; an error where that happens too often.
    fn trouble(&mut self, trouble: String) -> Result<(), Failure> {
        if self.troubles.len() == MOST_TROUBLES {
            return Err(trouble.into());
        }
        println!("{trouble}");
        self.troubles.push(trouble);
        Ok(())
    }

    fn one(&mut self, name: &str, program: &Program) -> Result<(), Failure> {
        self.programs += 1;
        self.steps += program.moves.len();
        let Some(difference) = run(&self.bench, program, &mut self.tally)? else { return Ok(()) };
        self.failed.push(name.to_owned());
        if self.options.replay.is_some() {
            tell(program, &difference);
            return Ok(());
        }
        let file = self.options.found.join(format!("{}.txt", name.replace([' ', '/'], "-")));
        let write = |program: &Program| {
            std::fs::create_dir_all(&self.options.found)
                .and_then(|()| std::fs::write(&file, program.write()))
                .map_err(|error| format!("{}: {error}", file.display()))
        };
        write(program)?;
        if self.seen.iter().any(|seen| seen.is_like(&difference)) {
            println!("{name} differs like one before");
        } else {
            // What does not happen each time may not happen again.
            println!("{name} differs; making it small ...\n  {}", difference.what);
            let (small, smaller) = shrink(&self.bench, program, &difference, SHRINKING)?;
            tell(&small, &smaller);
            write(&small)?;
            self.seen.extend([difference, smaller]);
        }
        println!("  again: differential --replay {}", file.display());
        Ok(())
    }

    fn so_far(&self) -> String {
        let Self { programs, steps, .. } = self;
        let (seconds, failed) = (self.began.elapsed().as_secs(), self.failed.len());
        format!("{programs} programs, {steps} steps in {seconds} s, {failed} with differences")
    }

    fn summary(&self) {
        println!("{}", self.so_far());
        for name in self.failed.iter().chain(&self.troubles) {
            println!("  {name}");
        }
        for (reason, count) in &self.tally {
            println!("  allowed: {reason:?} {count} times");
        }
        let reasons = [
            Reason::OwnId,
            Reason::StatementId,
            Reason::ReplacedByValue,
            Reason::CollationOfConnection,
            Reason::OrderOfChanges,
            Reason::ChangesToldLater,
            Reason::KnownAtTheEnd,
            Reason::Statistics,
            Reason::NeverSet,
            Reason::FieldsOfNoSchema,
            Reason::RefusedBeforeItsValues,
            Reason::FlagsOfSqlMode,
            Reason::WarningsOfLogin,
            Reason::WordsForNoTable,
            Reason::OtherWarnings,
        ];
        for reason in reasons.iter().filter(|reason| !self.tally.contains_key(reason)) {
            println!("  allowed: {reason:?}, which was not needed");
        }
    }
}

/// The program up to the difference, and the difference.
fn tell(program: &Program, difference: &Difference) {
    println!("  {:?}, {} clients", program.setting, program.logins.len());
    let last = difference.place.unwrap_or(program.moves.len());
    let failing = difference.place.and_then(|place| program.moves.get(place)).map(|own| own.client);
    for (place, Move { client, section, step }) in program.moves.iter().enumerate().take(last + 1) {
        if last > LONGEST_TOLD && failing != Some(*client) {
            continue;
        }
        let section = section.map(|section| format!(" ({section})")).unwrap_or_default();
        println!("  {place:4}: client {client}{section}: {}", step.write().replace('\t', " "));
    }
    println!("  {}", difference.what);
}

fn files(folder: &PathBuf) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect())
}
