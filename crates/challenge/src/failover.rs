//! The run with several servers: clients write, the primary is killed, a replica takes its place, and the ledger is drawn up.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::child::{Child, Line, Waited};
use crate::cluster::Cluster;
use crate::error::{Error, Lack, ProgramFault};
use crate::interrupts::Interrupts;
use crate::ledger::{Journal, number};
use crate::load::{self, Bench, Said};
use crate::onramp::{self, Admin, Onramp};
use crate::options::Options;
use crate::private::{Private, free_port};
use crate::progress::Progress;
use crate::report::{Ending, ErrorCount, Failover, Held, Instantaneous, Ledger, Report, text};
use crate::server::{Place, Target};
use crate::sql::Connection;

/// What clients do: a read, a marker outside of transactions, a transfer with a marker inside of one.
pub(crate) const WORKLOAD: &str = "ledger_mix";

/// What each account begins with, as `onramp bench prepare` has it.
const INITIAL_BALANCE: i128 = 1_000;

/// From the end of the primary to the moment at which the operator's script takes another one: a script has to be sure first.
const PROMOTE_AFTER: Duration = Duration::from_secs(3);

/// Seconds between two points of the curve: an outage of seconds has a dozen of them.
const INTERVAL: Duration = Duration::from_millis(250);

/// How long nobody may be served behind a new primary that takes writes before that is the result. Statements wait 20 seconds by default.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a run takes.
pub(crate) struct Drill<'a> {
    /// The command line.
    pub(crate) options: &'a Options,
    /// The program `onramp`.
    pub(crate) program: &'a Path,
    /// What is thrown away afterwards.
    pub(crate) folder: &'a Path,
    /// Who may end it.
    pub(crate) interrupts: &'a Interrupts,
}

/// Why a run has no result.
enum Stop {
    Early(Ending),
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Clients that write, as far as they have said how it goes.
struct Load {
    child: Child,
    journal: PathBuf,
    json: PathBuf,
    /// When the first of them began.
    begun: Option<Instant>,
    curve: Vec<Instantaneous>,
}

/// Moments of a run.
struct Moments {
    begun: Instant,
    killed: Instant,
    writable: Instant,
}

impl Drill<'_> {
    /// Does all of it. The report then has the result, and says how it ended.
    pub(crate) fn run(&self, servers: Vec<Private>, report: &mut Report) {
        let deadline = Instant::now() + self.options.time_limit;
        let mut progress = Progress::new(0);
        report.ending = match self.drill(servers, deadline, &mut progress, report) {
            _ if self.interrupts.came() => Ending::Interrupted,
            Ok(()) => Ending::Complete,
            Err(Stop::Early(ending)) => ending,
            Err(Stop::Error(Error::Interrupted)) => Ending::Interrupted,
            Err(Stop::Error(error)) => Ending::Failed(error.to_string()),
        };
    }

    fn drill(
        &self,
        servers: Vec<Private>,
        deadline: Instant,
        progress: &mut Progress,
        report: &mut Report,
    ) -> Result<(), Stop> {
        let options = self.options;
        let bench =
            Bench { program: self.program, options, folder: self.folder, interrupts: self.interrupts };
        progress.turn_to(1, &format!("creating {} servers", options.servers));
        let mut cluster = Cluster::create(servers, options, &bench, WORKLOAD, self.interrupts)?;
        let version = cluster.version();
        report.setup.server = format!("{} servers, {version}", options.servers);
        progress.say(&format!("{} servers with {version} are ready", options.servers));
        if Instant::now() + 2 * options.time + PROMOTE_AFTER + load::logging_in(options.clients) > deadline {
            return Err(Stop::Early(Ending::TimeLimit));
        }
        let admin = Admin { port: free_port()?, password: cluster.clients().password };
        let mut onramp =
            Onramp::start(self.program, options, &cluster.urls(), Some(&admin), self.interrupts)?;
        report.setup.driver = onramp.driver().to_owned();
        let clients = Target { place: onramp.place().clone(), ..cluster.clients() };
        let clock = (Instant::now(), SystemTime::now());
        let mut load = self.load(&bench, &clients)?;
        let (primary, moments) = self.change_primary(&mut cluster, &mut load, progress)?;
        let json = self.end(&mut load)?;
        let held = held(&admin)?;
        report.notes.extend(unlike(onramp.warnings()).map(|warning| format!("Onramp: {warning}")));
        // So that nothing is on its way any more.
        drop(onramp);
        progress.turn_to(5, "drawing up the ledger");
        let journal = Journal::read(&load.journal)?;
        let ledger = self.ledger(&cluster, primary, &journal)?;
        let failover = failover(options, load, &moments, &journal, clock, &json, held, ledger);
        progress.say(&failover.headline());
        report.failover = Some(Box::new(failover));
        Ok(())
    }

    fn load(&self, bench: &Bench<'_>, clients: &Target) -> Result<Load, Error> {
        let (journal, json) = (self.folder.join("journal"), self.folder.join("bench.json"));
        let mut words = load_arguments(&clients.place, &clients.user, self.options);
        for (option, path) in [("--journal", &journal), ("--json", &json)] {
            words.extend([String::from(option), path.display().to_string()]);
        }
        Ok(Load { child: bench.start(&words, clients)?, journal, json, begun: None, curve: Vec::new() })
    }

    /// From the first client to the time behind the failover.
    fn change_primary(
        &self,
        cluster: &mut Cluster<'_>,
        load: &mut Load,
        progress: &mut Progress,
    ) -> Result<(usize, Moments), Stop> {
        let time = self.options.time;
        let clients = text::grouped(u64::from(self.options.clients));
        progress.turn_to(2, &format!("{clients} clients"));
        let connected = Instant::now() + load::logging_in(self.options.clients) + load::SLACK;
        self.follow(load, connected, progress, |load| load.begun.is_some())?;
        let Some(begun) = load.begun else {
            return Err(Error::Program(ProgramFault::Load(load::last_words(&load.child))).into());
        };
        self.follow(load, begun + time, progress, |_| false)?;
        let killed = Instant::now();
        cluster.kill(0);
        progress.turn_to(3, "the primary is killed");
        self.follow(load, killed + PROMOTE_AFTER, progress, |_| false)?;
        let (primary, writable) = cluster.promote()?;
        progress.turn_to(4, &format!("{} takes writes", Cluster::name(primary)));
        let seconds = writable.duration_since(begun).as_secs_f64();
        let serves = |load: &Load| {
            load.curve.last().is_some_and(|last| last.at > seconds && last.queries_per_second > 0.0)
        };
        self.follow(load, writable + PATIENCE, progress, serves)?;
        self.follow(load, Instant::now() + time, progress, |_| false)?;
        Ok((primary, Moments { begun, killed, writable }))
    }

    /// Takes in what the load says until a moment, or until `is_enough`.
    fn follow(
        &self,
        load: &mut Load,
        until: Instant,
        progress: &mut Progress,
        is_enough: impl Fn(&Load) -> bool,
    ) -> Result<(), Stop> {
        while !is_enough(load) && Instant::now() < until {
            if self.interrupts.came() {
                return Err(Error::Interrupted.into());
            }
            match load.child.wait_for_line() {
                Waited::Line(Line::Output(line)) => load.take_in(&line, progress),
                Waited::Line(Line::Error(line)) => progress.update(&line),
                Waited::Nothing => {}
                Waited::Ended(_) => {
                    return Err(Error::Program(ProgramFault::Load(load::last_words(&load.child))).into());
                }
            }
        }
        Ok(())
    }

    /// Has the clients come to their end, and reads what the load generator says of them.
    fn end(&self, load: &mut Load) -> Result<Value, Error> {
        load.child.interrupt();
        let deadline = Instant::now() + load::SLACK;
        loop {
            match load.child.wait_for_line() {
                Waited::Ended(_) => break,
                Waited::Nothing if self.interrupts.came() => return Err(Error::Interrupted),
                Waited::Nothing if Instant::now() >= deadline => {
                    return Err(Error::Late { of: String::from("the load generator"), wanted: "end" });
                }
                Waited::Line(_) | Waited::Nothing => {}
            }
        }
        let failed = |error| Error::Machine(Lack::File { path: load.json.clone(), error });
        let text = std::fs::read_to_string(&load.json).map_err(failed)?;
        serde_json::from_str(&text).map_err(|error| failed(error.into()))
    }

    /// What is stored in the end, on the new primary and on those that follow it.
    fn ledger(&self, cluster: &Cluster<'_>, primary: usize, journal: &Journal) -> Result<Ledger, Error> {
        let schema = self.options.db.replace('`', "``");
        let of = Cluster::name(primary);
        let mut admin = cluster.connect(primary)?;
        let mut markers = Vec::new();
        let mut strange = None;
        let statement = format!("SELECT writer FROM `{schema}`.ledger_marker");
        cluster.ask(&mut admin, primary, "for the markers", &statement, |row| {
            match number(&of, "for the markers", row.first().and_then(Option::as_ref)) {
                Ok(marker) => markers.push(marker),
                Err(error) => {
                    strange.get_or_insert(error);
                }
            }
        })?;
        if let Some(error) = strange {
            return Err(error);
        }
        let mut ledger = journal.compare(markers);
        let statement = format!("SELECT SUM(balance), COUNT(*) FROM `{schema}`.ledger");
        let row = cluster.first_row(&mut admin, primary, "for the balances", &statement)?;
        let value = |place: usize| row.get(place).and_then(Option::as_ref);
        let sum: i128 = number(&of, "for the balances", value(0))?;
        ledger.accounts = number(&of, "for the balances", value(1))?;
        ledger.off_balance = (sum - i128::from(ledger.accounts) * INITIAL_BALANCE).to_string();
        let statement = format!("SELECT COUNT(*) FROM `{schema}`.ledger_marker");
        for follower in cluster.followers_of(primary) {
            cluster.wait_for_follower(follower, primary)?;
            let mut admin = cluster.connect(follower)?;
            let row = cluster.first_row(&mut admin, follower, "for its markers", &statement)?;
            let count: u64 =
                number(&Cluster::name(follower), "for its markers", row.first().and_then(Option::as_ref))?;
            ledger.replicas += 1;
            ledger.replicas_that_differ += u64::from(count != ledger.stored);
        }
        Ok(ledger)
    }
}

impl Load {
    /// A line of figures is a point of the curve, at the middle of its interval.
    fn take_in(&mut self, line: &str, progress: &mut Progress) {
        let Some(Said::Figures { queries_per_second, errors_per_second, .. }) =
            load::figures(line, self.child.id())
        else {
            return;
        };
        progress.update(&format!("{} statements/s", text::grouped(queries_per_second as u64)));
        let said = self.child.said_at();
        let begun = *self.begun.get_or_insert(said.checked_sub(INTERVAL).unwrap_or(said));
        let at = said.saturating_duration_since(begun).as_secs_f64() - INTERVAL.as_secs_f64() / 2.0;
        self.curve.push(Instantaneous { at, queries_per_second, errors_per_second });
    }
}

/// The first of those that differ by numbers alone: each backend of a killed server has its own.
fn unlike(warnings: &[String]) -> impl Iterator<Item = &String> {
    let mut seen = HashSet::new();
    warnings.iter().filter(move |warning| seen.insert(warning.replace(|c: char| c.is_ascii_digit(), "")))
}

/// What comes after `onramp bench`, but for the files that it leaves.
pub(crate) fn load_arguments(place: &Place, user: &str, options: &Options) -> Vec<String> {
    let mut words = vec![String::from("run"), String::from(WORKLOAD)];
    words.extend(load::server_arguments(place, user, options));
    words.extend(load::table_arguments(options));
    let fixed = [
        // Until it is told to end.
        ("--time", String::from("0")),
        ("--rand-type", String::from("uniform")),
        ("--connections", options.clients.to_string()),
        ("--report-interval", INTERVAL.as_secs_f64().to_string()),
        // Whatever a client is told, it goes on.
        ("--ignore-errors", String::from("all")),
    ];
    words.extend(fixed.into_iter().flat_map(|(option, value)| [option.to_owned(), value]));
    if let Some(driver) = &options.driver {
        words.extend([String::from("--driver"), driver.clone()]);
    }
    words
}

/// What Onramp itself says of its last change of the primary (docs/ADMIN.md, `failovers`).
fn held(admin: &Admin) -> Result<Held, Error> {
    const WANTED: &str = "for its failovers";
    const STATEMENT: &str = "SELECT held, longest_hold_us, rolled_back, unknown, lacks FROM failovers \
                             WHERE to_server <> from_server LIMIT 1";
    let of = "Onramp's admin port";
    let failed = |reason| Error::Answer { of: of.to_owned(), wanted: WANTED, reason };
    let mut connection =
        Connection::to_port(admin.port, onramp::ADMIN_USER, &admin.password).map_err(failed)?;
    let mut first = None;
    connection
        .query(STATEMENT, |row| {
            first.get_or_insert(row);
        })
        .map_err(failed)?;
    // None where it has not found the new primary.
    let Some(row) = first else { return Ok(Held::default()) };
    let value = |place: usize| row.get(place).and_then(Option::as_ref);
    let count = |place: usize| number::<u64>(of, WANTED, value(place));
    Ok(Held {
        statements: count(0)?,
        longest: Duration::from_micros(count(1)?).as_secs_f64(),
        rolled_back: count(2)?,
        in_doubt: count(3)?,
        lacked: value(4).cloned().unwrap_or_default(),
    })
}

#[allow(clippy::too_many_arguments, reason = "all that a run has come to, brought together once")]
fn failover(
    options: &Options,
    load: Load,
    moments: &Moments,
    journal: &Journal,
    clock: (Instant, SystemTime),
    json: &Value,
    held: Held,
    ledger: Ledger,
) -> Failover {
    let seconds = |moment: Instant| moment.saturating_duration_since(moments.begun).as_secs_f64();
    let since_1970 = |moment: Instant| {
        let then = clock.1 + moment.saturating_duration_since(clock.0);
        then.duration_since(UNIX_EPOCH).unwrap_or_default()
    };
    let begun = since_1970(moments.begun);
    let from_begin = |moment: Duration| moment.saturating_sub(begun).as_secs_f64();
    let writable = since_1970(moments.writable);
    let errors = json["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    Failover {
        servers: options.servers,
        clients: options.clients,
        killed: seconds(moments.killed),
        writable: seconds(moments.writable),
        last_before: journal.last_acknowledged_before(writable).map(from_begin),
        back: journal.first_acknowledged_from(writable).map(from_begin),
        curve: load.curve,
        held,
        errors: errors.iter().filter_map(error_count).collect(),
        wrong_answers: json["wrong_answers"].as_u64().unwrap_or(0),
        wrong_answer: json["wrong_answer"].as_str().unwrap_or_default().to_owned(),
        failure: json["failure"].as_str().map(str::to_owned),
        ledger,
    }
}

fn error_count(error: &Value) -> Option<ErrorCount> {
    Some(ErrorCount {
        code: error["code"].as_u64()?,
        count: error["count"].as_u64()?,
        example: error["example"].as_str().unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_that_differ_by_numbers_are_one() {
        let warnings = ["backend 7 closed", "no primary", "backend 8 closed"].map(String::from);
        assert_eq!(unlike(&warnings).collect::<Vec<_>>(), ["backend 7 closed", "no primary"]);
    }
}
