//! `onramp trial`: `onramp serve` with a backend for each client, which watches what a pool would have made of them.
//!
//! It serves until it is told to end, since clients must not be cut because a time is over: the report is written when that time is
//! over, at SIGUSR1, and once more at the end.

mod afar;
mod file;

use std::fmt;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant, UNIX_EPOCH};

use admin::Unanswered;
use trial::{NoTable, Report, Source, Table, Watch};

use crate::Failure;
use crate::control::Control;
use crate::serve;

/// What a trial differs from `onramp serve` in.
const AS_BEFORE: [&str; 2] = ["--thread-handling", "one-thread-per-connection"];

/// How long is watched where nobody says so: most loads have shown what they do in an hour.
const USUAL_TIME: Duration = Duration::from_secs(3600);

/// The next look comes so many times as long after one as it took: whoever watches takes a fiftieth of a processor at most.
const REST: u32 = 50;

/// The shortest and the longest time between looks. Shorter ones tell nothing new of what a pool needs; a longer one would miss what
/// comes and goes.
const SHORTEST_REST: Duration = Duration::from_millis(100);
const LONGEST_REST: Duration = Duration::from_secs(5);

/// The end waits so long for the last report: a look at 100,000 clients takes a second.
const LAST_REPORT: Duration = Duration::from_secs(5);

const HELP: &str = "\
Usage: onramp trial [--for TIME] [--json FILE] [--html FILE] [options of onramp serve]
       onramp trial --from ADDRESS [--for TIME] [--json FILE] [--html FILE] [--user NAME] [--password-file FILE]
                    [--tls] [--tls-ca FILE]

Serves as onramp serve does, with one backend for each client and nothing that waits (thread_handling =
one-thread-per-connection), and watches: how many backends a pool would have needed, what would have pinned
clients, what limits would have refused, and where clients would notice a difference.

After TIME the report is printed, and it goes on serving until it is told to end (Ctrl-C, SIGTERM): clients are
not cut because the time is over. At the end, and at SIGUSR1, the report is printed again, with all that was seen.

  --for TIME     when the first report is due: 10m, 2h [default: 1h]
  --json FILE    each report as JSON, in the place of the one before
  --html FILE    likewise as a page that needs nothing else

With --from it serves nobody, but watches an Onramp that runs, over its admin port (`admin_listen`), and ends with
the report. The password comes from --password-file or ONRAMP_ADMIN_PASSWORD.

All further options are those of `onramp serve` (onramp help serve), but for thread_handling.

Exit codes: 0 an orderly end, 1 it could not start or write, 2 wrong options.
";

/// Runs `onramp trial` with the words after that.
pub(crate) fn command(words: &[String]) -> ExitCode {
    if words.iter().any(|word| word == "--help" || word == "-h") {
        return crate::print(HELP);
    }
    let Read { plan, from, mut rest } = match Plan::read(words) {
        Ok(read) => read,
        Err(wrong) => return crate::usage_error(&wrong.to_string()),
    };
    if let Err(message) = plan.can_write() {
        eprintln!("onramp: {message}");
        return ExitCode::FAILURE;
    }
    if let Some(address) = from {
        return afar::command(&plan, &address, &rest);
    }
    rest.extend(AS_BEFORE.map(String::from));
    serve::serve_with(&rest, Some(plan))
}

/// What is wanted of a trial.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    time: Duration,
    json: Option<PathBuf>,
    html: Option<PathBuf>,
}

/// What the words after `onramp trial` say.
#[derive(Debug)]
struct Read {
    plan: Plan,
    /// The admin port of an Onramp that is watched from afar.
    from: Option<String>,
    /// Words for `onramp serve`, or about that admin port.
    rest: Vec<String>,
}

/// Words that make no plan.
#[derive(Debug)]
enum WrongWords {
    /// This option is what a trial differs in.
    OfTrial(String),
    /// Nothing stands behind this option.
    NoValue(String),
    /// What stands behind `--for` is no time.
    NoTime {
        /// As it was given.
        given: String,
        /// Why not.
        wrong: config::NoValue,
    },
}

impl fmt::Display for WrongWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfTrial(flag) => write!(f, "{flag}: a trial is {}", AS_BEFORE.join(" ")),
            Self::NoValue(flag) => write!(f, "{flag}: a value is missing"),
            Self::NoTime { given, wrong } => write!(f, "--for {given}: {wrong}"),
        }
    }
}

/// Why a report could not be written when it is due.
#[derive(Debug)]
enum Unwritable {
    /// This file takes none.
    File {
        /// The option that names it.
        flag: &'static str,
        /// The path.
        path: PathBuf,
        /// In the system's words.
        error: io::Error,
    },
    /// Two reports are to be in this file.
    Same(PathBuf),
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { flag, path, error } => write!(f, "{flag} {}: {error}", path.display()),
            Self::Same(path) => {
                write!(f, "--json and --html are the same file, {}: give each its own", path.display())
            }
        }
    }
}

impl Plan {
    fn read(words: &[String]) -> Result<Read, WrongWords> {
        let mut plan = Self { time: USUAL_TIME, json: None, html: None };
        let (mut from, mut rest) = (None, Vec::new());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (flag, value) = match word.split_once('=') {
                Some((flag, value)) => (flag, Some(value)),
                None => (word.as_str(), None),
            };
            if flag.replace('_', "-") == AS_BEFORE[0] {
                return Err(WrongWords::OfTrial(flag.to_owned()));
            }
            if !["--for", "--json", "--html", "--from"].contains(&flag) {
                rest.push(word.clone());
                continue;
            }
            let value = value.or_else(|| words.next().map(String::as_str));
            let value = value.ok_or_else(|| WrongWords::NoValue(flag.to_owned()))?;
            match flag {
                "--for" => {
                    plan.time = config::time(value)
                        .map_err(|wrong| WrongWords::NoTime { given: value.to_owned(), wrong })?;
                }
                "--json" => plan.json = Some(value.into()),
                "--from" => from = Some(String::from(value)),
                _ => plan.html = Some(value.into()),
            }
        }
        Ok(Read { plan, from, rest })
    }

    /// Says at the start what would fail in an hour.
    fn can_write(&self) -> Result<(), Unwritable> {
        for (flag, path) in [("--json", &self.json), ("--html", &self.html)] {
            let Some(path) = path else { continue };
            file::check(path).map_err(|error| Unwritable::File { flag, path: path.clone(), error })?;
        }
        match (&self.json, &self.html) {
            (Some(json), Some(html)) if file::are_same(json, html) => Err(Unwritable::Same(html.clone())),
            _ => Ok(()),
        }
    }

    /// Says whether all of it could be written.
    fn write(&self, report: &Report) -> bool {
        let mut stdout = io::stdout();
        let told = stdout.write_all(report.to_text().as_bytes()).and_then(|()| stdout.flush());
        let json = self.json.as_deref().map(|path| (path, report.to_json()));
        let html = self.html.as_deref().map(|path| (path, report.to_html()));
        let mut all = match told {
            Ok(()) => true,
            // A reader that has gone is no error of ours.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => true,
            Err(error) => {
                tracing::error!("trial: the report could not be written to the standard output: {error}");
                false
            }
        };
        for (path, text) in json.into_iter().chain(html) {
            match file::write(path, text.as_bytes()) {
                Ok(()) => tracing::info!("trial: the report is in {}", path.display()),
                Err(error) => {
                    all = false;
                    tracing::error!("trial: the report could not be written to {}: {error}", path.display());
                }
            }
        }
        all
    }
}

/// What the thread that watches is told.
enum Order {
    Report,
    /// A last report, and to say whether it could be written.
    End(SyncSender<bool>),
}

/// The thread that watches, as the one that serves sees it.
pub(crate) struct Watching(SyncSender<Order>);

impl Watching {
    /// Begins to watch.
    ///
    /// # Errors
    /// Where the system has no more threads.
    pub(crate) fn start(plan: Plan, control: Arc<Control>) -> Result<Self, Failure> {
        // Orders are few; one that waits already says the same as another.
        let (orders, given) = sync_channel(1);
        let watch = move || watch(&plan, &mut Own(control), &given, Serving::Here);
        std::thread::Builder::new()
            .name(String::from("trial"))
            .spawn(watch)
            .map_err(|error| format!("no thread for the trial: {error}"))?;
        Ok(Self(orders))
    }

    /// Has a report written.
    pub(crate) fn report(&self) {
        let _ = self.0.try_send(Order::Report);
    }

    /// How much later than otherwise the program ends for it, at most.
    pub(crate) const fn longest_end(&self) -> Duration {
        LAST_REPORT
    }

    /// Has the last one written, while the workers still answer, and waits for it.
    ///
    /// # Errors
    /// Where it could not be written, or not in time.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let (done, written) = sync_channel(1);
        let told = self.0.send(Order::End(done)).is_ok().then(|| written.recv_timeout(LAST_REPORT));
        match told {
            Some(Ok(true)) => Ok(()),
            Some(Err(_)) => Err("trial: the last report was not ready in time".into()),
            // The log says why.
            Some(Ok(false)) | None => Err("trial: the last report could not be written".into()),
        }
    }
}

/// Who serves the clients that are watched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Serving {
    /// This program, which goes on when the time is over.
    Here,
    /// Another one.
    Elsewhere,
}

/// Looks until it is told to end, or nobody needs it any more; says whether there is a report.
fn watch(plan: &Plan, source: &mut dyn Source, orders: &Receiver<Order>, serving: Serving) -> bool {
    let mut watch = Watch::new(now());
    let mut due = Some(Instant::now() + plan.time);
    loop {
        let began = Instant::now();
        // What could not be seen is counted, and in the report.
        let _ = watch.look(now(), source);
        let mut rest = (began.elapsed() * REST).clamp(SHORTEST_REST, LONGEST_REST);
        if let Some(at) = due {
            if at <= Instant::now() {
                due = None;
                let written = report(plan, &watch, source);
                if serving == Serving::Elsewhere {
                    return written;
                }
                tracing::info!("trial: the time is over; serving goes on until it is told to end");
                continue;
            }
            rest = rest.min(at.saturating_duration_since(Instant::now()));
        }
        match orders.recv_timeout(rest) {
            Ok(Order::Report) => drop(report(plan, &watch, source)),
            Ok(Order::End(done)) => {
                let _ = watch.look(now(), source);
                let written = report(plan, &watch, source);
                let _ = done.send(written);
                return written;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

fn report(plan: &Plan, watch: &Watch, source: &mut dyn Source) -> bool {
    match Report::of(watch, source, env!("CARGO_PKG_VERSION")) {
        Ok(report) => plan.write(&report),
        Err(reason) => {
            tracing::error!("trial: there is no report: {reason}");
            false
        }
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    u64::try_from(UNIX_EPOCH.elapsed().unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// This program, asked as the admin port asks it.
struct Own(Arc<Control>);

impl Source for Own {
    fn ask(&mut self, question: &str) -> Result<Table, NoTable> {
        match admin::ask(&*self.0, question) {
            Ok(admin::Answer { columns, rows, .. }) => Ok(Table { columns, rows }),
            Err(Unanswered::Refused { message, .. }) => Err(NoTable::Refused(message)),
            Err(Unanswered::Incomplete(warning)) => Err(NoTable::Incomplete(warning)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Read, WrongWords> {
        Plan::read(&words.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn its_own_options_are_told_from_those_of_serve() {
        let words = "--backend mysql://a@b/ --for 10m --json=x.json --listen 127.0.0.1:0 --html y";
        let Read { plan, from, rest } = read(words).unwrap();
        let (json, html) = (Some("x.json".into()), Some("y".into()));
        assert_eq!(plan, Plan { time: Duration::from_secs(600), json, html });
        assert_eq!((from, rest.join(" ").as_str()), (None, "--backend mysql://a@b/ --listen 127.0.0.1:0"));
        assert_eq!(read("--from db1:5 --user me").unwrap().from.as_deref(), Some("db1:5"));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (words, part) in [
            ("--for", "--for: a value is missing"),
            ("--for soon", "--for soon"),
            ("--thread_handling=pool-of-threads", "--thread_handling: a trial is"),
        ] {
            assert!(read(words).unwrap_err().to_string().contains(part), "{words}");
        }
        let plan = Plan { time: USUAL_TIME, json: Some("/nowhere/at/all".into()), html: None };
        assert!(plan.can_write().unwrap_err().to_string().contains("/nowhere/at/all"));
    }
}
