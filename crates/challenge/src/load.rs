//! `onramp bench` as a process of its own: the tables, and one run of load.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::child::{Child, Line, Waited};
use crate::error::{Error, ProgramFault};
use crate::interrupts::Interrupts;
use crate::onramp::forget_our_options;
use crate::options::Options;
use crate::server::{Place, Target};

/// Lines of figures per run: enough that the first and the last one enclose nearly all of the measured time.
const LINES: f64 = 20.0;
/// No more often than that: at 100,000 connections a line is work.
const SHORTEST_INTERVAL: f64 = 0.1;
/// Logins per second below which a run is given up: a tenth of what a busy machine does.
const SLOWEST_LOGINS: f64 = 500.0;
/// What a run may take beside its logins and its time: for programs that start and end.
pub(crate) const SLACK: Duration = Duration::from_secs(30);

/// How long so many clients may take to log in.
pub(crate) fn logging_in(clients: u32) -> Duration {
    Duration::from_secs_f64(f64::from(clients) / SLOWEST_LOGINS)
}

/// Runs the load generator.
pub(crate) struct Bench<'a> {
    /// The program `onramp`.
    pub(crate) program: &'a Path,
    /// The workload and its tables.
    pub(crate) options: &'a Options,
    /// Where it may write.
    pub(crate) folder: &'a Path,
    /// Who may end it.
    pub(crate) interrupts: &'a Interrupts,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Connections.
    pub(crate) connections: u32,
    /// What they do.
    pub(crate) activity: Activity,
}

/// What connections do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Activity {
    /// One statement after the other.
    Load {
        /// How long before it is measured.
        warmup: Duration,
        /// How long it is measured.
        time: Duration,
    },
    /// Nothing, for so long, once they are logged in.
    Silence(Duration),
}

/// What a run says while it goes on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    /// How far the connecting is, or anything else.
    Word(String),
    /// A line of figures.
    Figures {
        /// Queries per second since the last one.
        queries_per_second: f64,
        /// Errors per second since the last one.
        errors_per_second: f64,
        /// Whether nothing is measured yet.
        warming_up: bool,
        /// The load generator's process.
        process: u32,
    },
}

/// How a run ended.
pub(crate) enum Ran {
    /// With its report.
    Done(Value),
    /// With this message.
    Failed(String),
    /// We were asked to end.
    Interrupted,
}

impl Bench<'_> {
    /// Creates the tables and fills them.
    ///
    /// # Errors
    /// The load generator cannot.
    pub(crate) fn prepare(&self, target: &Target, workload: &str) -> Result<(), Error> {
        let options = self.options;
        let mut words = vec![String::from("prepare"), workload.to_owned()];
        words.extend(server_arguments(&target.place, &target.user, options));
        words.extend(table_arguments(options));
        let mut child = self.start(&words, target)?;
        loop {
            match child.wait_for_line() {
                Waited::Ended(status) if status.success() => return Ok(()),
                Waited::Ended(_) => return Err(Error::Program(ProgramFault::Load(last_words(&child)))),
                Waited::Nothing if self.interrupts.came() => return Err(Error::Interrupted),
                Waited::Line(_) | Waited::Nothing => {}
            }
        }
    }

    /// Runs it to its end, and tells `listener` what it says on the way.
    pub(crate) fn run(&self, target: &Target, run: Run, listener: &mut dyn FnMut(&Said)) -> Ran {
        let json = self.folder.join("bench.json");
        let _ = std::fs::remove_file(&json);
        let mut words = run_arguments(&target.place, &target.user, run, self.options);
        words.extend([String::from("--json"), json.display().to_string()]);
        let mut child = match self.start(&words, target) {
            Ok(child) => child,
            Err(error) => return Ran::Failed(error.to_string()),
        };
        let patience = run.length() + SLACK + logging_in(run.connections);
        let deadline = Instant::now() + patience;
        loop {
            match child.wait_for_line() {
                Waited::Line(Line::Output(text)) => {
                    if let Some(said) = figures(&text, child.id()) {
                        listener(&said);
                    }
                }
                Waited::Line(Line::Error(text)) => listener(&Said::Word(text)),
                Waited::Ended(_) => {
                    let is_loaded = matches!(run.activity, Activity::Load { .. });
                    return ended(&json, &child, is_loaded);
                }
                Waited::Nothing if self.interrupts.came() => return Ran::Interrupted,
                Waited::Nothing if Instant::now() >= deadline => {
                    return Ran::Failed(format!(
                        "no end after {} s: {}",
                        patience.as_secs(),
                        last_words(&child)
                    ));
                }
                Waited::Nothing => {}
            }
        }
    }

    /// Starts it with these words.
    pub(crate) fn start(&self, words: &[String], target: &Target) -> Result<Child, Error> {
        let mut command: Command = private_server::tied_to_us(self.program);
        forget_our_options(&mut command);
        command.arg("bench").args(words).env("ONRAMP_BENCH_PASSWORD", target.password.as_str());
        Child::start(command)
    }
}

impl Run {
    fn length(&self) -> Duration {
        match self.activity {
            Activity::Load { warmup, time } => warmup + time,
            Activity::Silence(time) => time,
        }
    }
}

/// What comes after `onramp bench`.
pub(crate) fn run_arguments(place: &Place, user: &str, run: Run, options: &Options) -> Vec<String> {
    let mut words = vec![String::from("run"), options.workload.clone()];
    words.extend(server_arguments(place, user, options));
    words.extend(table_arguments(options));
    words.extend([String::from("--rand-type"), String::from("uniform")]);
    words.extend([String::from("--connections"), run.connections.to_string()]);
    let seconds = |time: Duration| time.as_secs_f64().to_string();
    match run.activity {
        Activity::Load { warmup, time } => {
            words.extend([String::from("--time"), seconds(time), String::from("--warmup"), seconds(warmup)]);
        }
        // An event every three hours, over all connections together: the load generator has no smaller number.
        Activity::Silence(time) => {
            words.extend([
                String::from("--time"),
                seconds(time),
                String::from("--rate"),
                String::from("0.0001"),
            ]);
        }
    }
    let interval = (run.length().as_secs_f64() / LINES).max(SHORTEST_INTERVAL);
    words.extend([String::from("--report-interval"), format!("{interval:.3}")]);
    if let Some(driver) = &options.driver {
        words.extend([String::from("--driver"), driver.clone()]);
    }
    words
}

pub(crate) fn server_arguments(place: &Place, user: &str, options: &Options) -> Vec<String> {
    let mut words = match place {
        Place::Tcp(host, port) => {
            vec![String::from("--host"), host.clone(), String::from("--port"), port.to_string()]
        }
        Place::Unix(path) => vec![String::from("--socket"), path.display().to_string()],
    };
    words.extend([String::from("--user"), user.to_owned(), String::from("--db"), options.db.clone()]);
    words
}

pub(crate) fn table_arguments(options: &Options) -> Vec<String> {
    vec![
        String::from("--tables"),
        options.tables.to_string(),
        String::from("--table-size"),
        options.table_size.to_string(),
    ]
}

fn ended(json: &Path, child: &Child, is_loaded: bool) -> Ran {
    let text = std::fs::read_to_string(json).unwrap_or_default();
    let Ok(report) = serde_json::from_str::<Value>(&text) else { return Ran::Failed(last_words(child)) };
    match report["failure"].as_str() {
        Some(failure) => Ran::Failed(failure.to_owned()),
        None if report["measured"].as_f64().unwrap_or(0.0) <= 0.0 => Ran::Failed(last_words(child)),
        None if is_loaded && report["events"]["total"].as_u64() == Some(0) => {
            Ran::Failed(String::from("no statement was answered in the measured time"))
        }
        None => Ran::Done(report),
    }
}

/// The message with which the load generator ended, else the last that it said.
pub(crate) fn last_words(child: &Child) -> String {
    const PREFIX: &str = "onramp bench: ";
    let message = child.said().iter().rev().find_map(|line| line.strip_prefix(PREFIX));
    // A line of figures explains nothing.
    let last = child.said().iter().rev().find(|line| !line.is_empty() && !line.starts_with("[ "));
    message.or(last.map(String::as_str)).unwrap_or("it said nothing").to_owned()
}

/// `[ 3s ] conns: 100 tps: 9000.00 qps: 9000.00 (r/w/o: ...) ... (warm-up)`
pub(crate) fn figures(line: &str, process: u32) -> Option<Said> {
    line.strip_prefix("[ ")?;
    let figure = |name: &str| line.split_once(name)?.1.split_whitespace().next()?.parse().ok();
    let (queries_per_second, errors_per_second) = (figure(" qps: ")?, figure(" err/s: ")?);
    let warming_up = line.ends_with("(warm-up)");
    Some(Said::Figures { queries_per_second, errors_per_second, warming_up, process })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn lines_of_figures_are_read() {
        let line = "[ 3s ] conns: 100 tps: 8999.50 qps: 9000.25 (r/w/o: 9000.25/0.00/0.00) lat (ms,95%): 12.00 err/s: \
                    1.50 reconn/s: 0.00";
        let expected = |warming_up| {
            Some(Said::Figures {
                queries_per_second: 9000.25,
                errors_per_second: 1.5,
                warming_up,
                process: 7,
            })
        };
        assert_eq!(figures(line, 7), expected(false));
        assert_eq!(figures(&format!("{line} (warm-up)"), 7), expected(true));
        assert_eq!(figures("queries:", 7), None);
        assert_eq!(figures("[ 3s ] conns: 100", 7), None);
    }

    #[test]
    fn a_run_is_asked_for_in_the_words_of_the_load_generator() {
        let options = Options::try_parse_from([
            "onramp challenge",
            "--time",
            "4",
            "--driver",
            "uring",
            "--tables",
            "2",
        ])
        .unwrap();
        let place = Place::Tcp(String::from("127.0.0.1"), 3307);
        let load = Activity::Load { warmup: options.warmup, time: options.time };
        let words =
            run_arguments(&place, "admin", Run { connections: 500, activity: load }, &options).join(" ");
        assert_eq!(
            words,
            "run point_select --host 127.0.0.1 --port 3307 --user admin --db sbtest --tables 2 --table-size 100000 \
             --rand-type uniform --connections 500 --time 4 --warmup 2 --report-interval 0.300 --driver uring"
        );
        let silence = Run { connections: 5, activity: Activity::Silence(Duration::from_secs(5)) };
        let words = run_arguments(&Place::Unix("/s".into()), "a", silence, &options).join(" ");
        assert!(words.contains("--socket /s") && words.contains("--time 5 --rate 0.0001"), "{words}");
    }
}
