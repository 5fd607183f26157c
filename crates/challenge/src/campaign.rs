//! The run itself: one item after the other, until all are done, time is up, or somebody ends it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use private_server::ThreadHandling;
use serde_json::Value;

use crate::error::Error;
use crate::interrupts::Interrupts;
use crate::knee::{self, Next, Point};
use crate::load::{Activity, Bench, Ran, Run, Said};
use crate::onramp::Onramp;
use crate::options::Options;
use crate::plan::{self, Item, SILENCE};
use crate::process_usage::{MachineReading, Reading};
use crate::progress::Progress;
use crate::report::{Ending, Figures, Idle, KernelMemory, Outcome, Report, Series, Step, Usage, text};
use crate::server::{Server, Target};

/// The search for the knee begins with this many: below, a server with a few cores has idle ones.
const FIRST_OF_SEARCH: u32 = 1;

/// Everything that a run needs, and what it has found out.
pub(crate) struct Campaign<'a> {
    options: &'a Options,
    program: &'a Path,
    interrupts: &'a Interrupts,
    bench: Bench<'a>,
    server: Server,
    progress: Progress,
    deadline: Instant,
    /// Where a series has come to its end, and why.
    refused: BTreeMap<Series, (u32, String)>,
    report: &'a mut Report,
}

/// Why a run ends before its last item.
enum Stop {
    Interrupted,
    Failed(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        match error {
            Error::Interrupted => Self::Interrupted,
            error => Self::Failed(error.to_string()),
        }
    }
}

impl<'a> Campaign<'a> {
    /// Nothing happens yet.
    pub(crate) fn new(
        options: &'a Options,
        program: &'a Path,
        folder: &'a Path,
        interrupts: &'a Interrupts,
        server: Server,
        report: &'a mut Report,
    ) -> Self {
        Self {
            options,
            program,
            interrupts,
            bench: Bench { program, options, folder, interrupts },
            server,
            progress: Progress::new(0),
            deadline: Instant::now() + options.time_limit,
            refused: BTreeMap::new(),
            report,
        }
    }

    /// Does all of it. The report then says how it ended.
    pub(crate) fn run(&mut self) {
        let done = self
            .prepare()
            .and_then(|()| if self.options.find_knee { self.find_knee() } else { self.measure_all() });
        self.server.stop();
        self.report.ending = match done {
            _ if self.interrupts.came() => Ending::Interrupted,
            Err(Stop::Interrupted) => Ending::Interrupted,
            Err(Stop::Failed(reason)) => Ending::Failed(reason),
            Ok(ending) => ending,
        };
    }

    fn prepare(&mut self) -> Result<(), Stop> {
        let private = matches!(self.server, Server::Private(_));
        self.progress
            .turn_to(0, if private { "creating a private server" } else { "looking for the server" });
        self.ensure(ThreadHandling::OneThreadPerConnection)?;
        self.report.setup.server = self.server.version().unwrap_or_default();
        if private || self.options.prepare {
            let tables = text::grouped(u64::from(self.options.tables) * u64::from(self.options.table_size));
            self.progress.turn_to(0, &format!("filling the tables with {tables} rows"));
            let target = self.server.target();
            self.bench.prepare(&target, &self.options.workload)?;
        }
        let server =
            if private { self.report.setup.server.clone() } else { String::from("the given server") };
        self.progress.say(&format!("{server} is ready"));
        Ok(())
    }

    fn measure_all(&mut self) -> Result<Ending, Stop> {
        let items = plan::items(self.options);
        self.progress = Progress::new(items.len());
        let mut ending = Ending::Complete;
        for (index, item) in items.iter().copied().enumerate() {
            if self.interrupts.came() {
                return Err(Stop::Interrupted);
            }
            self.progress.turn_to(index + 1, &name(item));
            let left = self.deadline.saturating_duration_since(Instant::now());
            if !plan::fits(item, &items[index + 1..], left, self.options) {
                ending = Ending::TimeLimit;
                self.leave_out(item);
                continue;
            }
            match item {
                Item::Step { series, round, connections } => self.step(series, round, connections)?,
                Item::Idle { clients } => self.idle(clients)?,
            }
        }
        Ok(ending)
    }

    fn leave_out(&mut self, item: Item) {
        let reason = format!("--time-limit of {} s", self.options.time_limit.as_secs());
        self.progress.result(&format!("left out: {reason}"));
        if let Item::Step { series, round, connections } = item {
            self.report.steps.push(Step { series, round, connections, outcome: Outcome::Skipped(reason) });
        }
    }

    /// Measures a step, unless the series has ended before.
    fn step(&mut self, series: Series, round: u32, connections: u32) -> Result<(), Stop> {
        let outcome = match self.refused.get(&series) {
            Some((at, _)) if connections >= *at => {
                Outcome::Skipped(format!("{} connections were refused before", text::grouped(u64::from(*at))))
            }
            _ => self.measure(series, connections)?,
        };
        self.progress.result(&text::outcome(&outcome));
        if let Outcome::Refused(reason) = &outcome {
            self.refused.insert(series, (connections, reason.clone()));
        }
        self.report.steps.push(Step { series, round, connections, outcome });
        Ok(())
    }

    fn find_knee(&mut self) -> Result<Ending, Stop> {
        let series = match (self.options.direct, &self.server) {
            (false, _) => Series::Onramp,
            (true, Server::Private(_)) => Series::DirectThreads,
            (true, Server::Given(_)) => Series::Direct,
        };
        let last = self.options.most_clients();
        let mut points = Vec::new();
        let mut ending = Ending::Complete;
        let mut asked = knee::next(&points, FIRST_OF_SEARCH, last);
        while let Next::Measure(connections) = asked {
            let item = Item::Step { series, round: 1, connections };
            self.progress.turn_to(points.len() + 1, &name(item));
            if item.estimate(self.options) > self.deadline.saturating_duration_since(Instant::now()) {
                ending = Ending::TimeLimit;
                asked = knee::of(&points);
                break;
            }
            self.step(series, 1, connections)?;
            asked = match self.report.steps.last().map(|step| &step.outcome) {
                Some(Outcome::Measured(figures)) => {
                    points.push(Point {
                        connections,
                        throughput: figures.queries_per_second,
                        latency: figures.p95,
                    });
                    knee::next(&points, FIRST_OF_SEARCH, last)
                }
                _ => knee::of(&points),
            };
        }
        match asked {
            Next::Found(knee) => self.report.knee = Some(knee),
            Next::Nothing | Next::Measure(_) => ending = end_without_knee(ending, &self.report.steps),
        }
        Ok(ending)
    }

    fn measure(&mut self, series: Series, connections: u32) -> Result<Outcome, Stop> {
        let handling = match series {
            Series::DirectPool => ThreadHandling::PoolOfThreads,
            Series::Onramp | Series::DirectThreads | Series::Direct => ThreadHandling::OneThreadPerConnection,
        };
        self.ensure(handling)?;
        let mut target = self.server.target();
        let mut onramp = None;
        if series == Series::Onramp {
            let started = self.start_onramp()?;
            target.place = started.place().clone();
            onramp = Some(started);
        }
        let activity = Activity::Load { warmup: self.options.warmup, time: self.options.time };
        let processes =
            Processes { onramp: onramp.as_ref().map(Onramp::process), server: self.server.process() };
        let (ran, window) = self.load(&target, Run { connections, activity }, processes);
        if let Some(onramp) = &mut onramp {
            self.note(onramp);
        }
        match ran {
            Ran::Interrupted => Err(Stop::Interrupted),
            Ran::Failed(message) => Ok(Outcome::Refused(message)),
            Ran::Done(json) => {
                if self.report.setup.server.is_empty() {
                    self.report.setup.server = json["server_version"].as_str().unwrap_or_default().to_owned();
                }
                Ok(Outcome::Measured(Box::new(figures(&json, connections, &window))))
            }
        }
    }

    /// Runs the load, and reads what the processes use where the measured time begins and where it ends.
    fn load(&mut self, target: &Target, run: Run, processes: Processes) -> (Ran, Window) {
        let mut window = Window::default();
        let progress = &mut self.progress;
        let ran = self.bench.run(target, run, &mut |said| match said {
            Said::Word(word) => progress.update(word),
            Said::Figures { queries_per_second, warming_up, process, .. } => {
                let state = if *warming_up { ", warming up" } else { "" };
                progress.update(&format!("{} queries/s{state}", text::grouped(*queries_per_second as u64)));
                window.read(processes, *process, *warming_up);
            }
        });
        (ran, window)
    }

    fn idle(&mut self, clients: u32) -> Result<(), Stop> {
        self.ensure(ThreadHandling::OneThreadPerConnection)?;
        let mut target = self.server.target();
        let mut onramp = self.start_onramp()?;
        target.place = onramp.place().clone();
        // The kernel frees the sockets of the step before in the background.
        std::thread::sleep(Duration::from_secs(1));
        let kernel_before = KernelMemory::now();
        let resident_before = Reading::of(onramp.process()).map_or(0, |reading| reading.resident);
        let mut during = None;
        let process = onramp.process();
        let progress = &mut self.progress;
        let run = Run { connections: clients, activity: Activity::Silence(SILENCE) };
        let ran = self.bench.run(&target, run, &mut |said| match said {
            Said::Word(word) => progress.update(word),
            Said::Figures { .. } => {
                progress.update("all are logged in");
                during = Reading::of(process).map(|reading| (reading.resident, KernelMemory::now()));
            }
        });
        self.note(&mut onramp);
        match (ran, during) {
            (Ran::Interrupted, _) => return Err(Stop::Interrupted),
            (Ran::Done(json), Some((resident, kernel))) => {
                let idle = Idle {
                    clients,
                    resident_before,
                    resident,
                    kernel_before,
                    kernel,
                    // Both ends are on this machine.
                    sockets: 2 * u64::from(clients),
                    connecting: json["connecting"].as_f64().unwrap_or(0.0),
                };
                self.progress.result(&text::idle(&idle));
                self.report.idle = Some(idle);
            }
            (Ran::Done(_), None) => self.idle_failed("the load generator gave no figures"),
            (Ran::Failed(message), _) => self.idle_failed(&message),
        }
        Ok(())
    }

    fn idle_failed(&mut self, reason: &str) {
        self.progress.result(reason);
        self.remark(format!("silent clients were not measured: {reason}"));
    }

    fn start_onramp(&mut self) -> Result<Onramp, Stop> {
        let url = self.server.url();
        Onramp::start(self.program, self.options, &url, None, self.interrupts).map_err(Stop::from)
    }

    /// Keeps what Onramp said about itself.
    fn note(&mut self, onramp: &mut Onramp) {
        self.report.setup.driver = onramp.driver().to_owned();
        for warning in onramp.warnings() {
            self.remark(format!("Onramp: {warning}"));
        }
    }

    /// A few of each: a thousand refused clients are one line.
    fn remark(&mut self, note: String) {
        const MOST: usize = 20;
        if self.report.notes.len() < MOST && !self.report.notes.contains(&note) {
            self.report.notes.push(note);
        }
    }

    fn ensure(&mut self, handling: ThreadHandling) -> Result<(), Stop> {
        Ok(self.server.ensure(handling, self.interrupts)?)
    }
}

/// Whose use of the machine is read, beside the load generator's.
#[derive(Clone, Copy, Debug)]
struct Processes {
    onramp: Option<u32>,
    server: Option<u32>,
}

/// Readings at the beginning and the end of the measured time.
#[derive(Default)]
struct Window {
    onramp: Span<Reading>,
    server: Span<Reading>,
    load: Span<Reading>,
    machine: Span<MachineReading>,
}

/// Two readings.
struct Span<R> {
    begin: Option<R>,
    end: Option<R>,
}

impl<R> Default for Span<R> {
    fn default() -> Self {
        Self { begin: None, end: None }
    }
}

impl Window {
    fn read(&mut self, processes: Processes, load: u32, warming_up: bool) {
        self.machine.add(MachineReading::now(), warming_up);
        self.onramp.add(processes.onramp.and_then(Reading::of), warming_up);
        self.server.add(processes.server.and_then(Reading::of), warming_up);
        self.load.add(Reading::of(load), warming_up);
    }

    /// Cores that everything else on the machine used.
    fn others(&self) -> Option<f64> {
        let (begin, end) = self.machine.both()?;
        let ours = [&self.onramp, &self.server, &self.load]
            .map(|span| span.both().map_or(0.0, |(begin, end)| Reading::cores(begin, end)));
        Some((MachineReading::cores(begin, end)? - ours.iter().sum::<f64>()).max(0.0))
    }
}

impl<R> Span<R> {
    /// The beginning is the last reading of the warm-up, or, without one, the first.
    fn add(&mut self, reading: Option<R>, warming_up: bool) {
        let Some(reading) = reading else { return };
        if warming_up || self.begin.is_none() {
            self.begin = Some(reading);
        } else {
            self.end = Some(reading);
        }
    }

    fn both(&self) -> Option<(&R, &R)> {
        Some((self.begin.as_ref()?, self.end.as_ref()?))
    }
}

impl Span<Reading> {
    fn usage(&self, queries_per_second: f64) -> Option<Usage> {
        self.both().map(|(begin, end)| Reading::usage(begin, end, queries_per_second))
    }
}

/// A search that was not cut short and has measured nothing was for nothing.
fn end_without_knee(ending: Ending, steps: &[Step]) -> Ending {
    match (ending, steps.last()) {
        (Ending::Complete, Some(step)) => {
            Ending::Failed(format!("nothing was measured; {}", text::outcome(&step.outcome)))
        }
        (ending, _) => ending,
    }
}

/// From the load generator's report.
fn figures(json: &Value, connections: u32, window: &Window) -> Figures {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let queries_per_second = number(&json["queries"]["per_second"]);
    let events_per_second = number(&json["events"]["per_second"]);
    let errors = json["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let wrong = json["wrong_answers"].as_u64().unwrap_or(0);
    let connecting = json["connecting_errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let count = |errors: &[Value]| errors.iter().filter_map(|error| error["count"].as_u64()).sum::<u64>();
    let example = |errors: &[Value]| {
        errors.first().and_then(|error| error["example"].as_str()).unwrap_or_default().to_owned()
    };
    let error = match json["wrong_answer"].as_str() {
        _ if !errors.is_empty() => example(errors),
        Some(wrong) => wrong.to_owned(),
        None if !connecting.is_empty() => format!("while connecting: {}", example(connecting)),
        None => String::new(),
    };
    let fair_share =
        if events_per_second > 0.0 { f64::from(connections) / events_per_second * 1000.0 } else { 0.0 };
    let p95 = number(&json["latency"]["p95"]);
    Figures {
        queries_per_second,
        p50: number(&json["latency"]["p50"]),
        p95,
        p99: number(&json["latency"]["p99"]),
        fair_share,
        p95_over_fair_share: if fair_share > 0.0 { p95 / fair_share } else { 0.0 },
        connecting: number(&json["connecting"]),
        errors: wrong + count(errors) + count(connecting),
        error,
        starved: json["starved"].as_u64().unwrap_or(0),
        onramp: window.onramp.usage(queries_per_second),
        server: window.server.usage(queries_per_second),
        load: window.load.usage(queries_per_second),
        others: window.others(),
    }
}

fn name(item: Item) -> String {
    match item {
        Item::Step { series, connections, .. } => {
            format!("{}, {} {}", series.name(), text::grouped(u64::from(connections)), clients(series))
        }
        Item::Idle { clients } => format!("Onramp, {} silent clients", text::grouped(u64::from(clients))),
    }
}

fn clients(series: Series) -> &'static str {
    if series == Series::Onramp { "clients" } else { "connections" }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn starved_clients_are_read() {
        assert_eq!(figures(&json!({ "starved": 32 }), 100, &Window::default()).starved, 32);
    }

    fn counted(report: &Value) -> (u64, String) {
        let figures = figures(report, 100, &Window::default());
        (figures.errors, figures.error)
    }

    #[test]
    fn all_that_a_client_saw_as_an_error_counts() {
        assert_eq!(counted(&json!({ "wrong_answer": null })), (0, String::new()));
        let reset = json!([{ "code": 2013, "count": 3, "example": "reset" }]);
        assert_eq!(
            counted(&json!({ "connecting_errors": reset })),
            (3, String::from("while connecting: reset"))
        );
        let wrong = json!({ "connecting_errors": reset, "wrong_answers": 2, "wrong_answer": "5 for 6" });
        assert_eq!(counted(&wrong), (5, String::from("5 for 6")));
        let deadlock = json!([{ "code": 1213, "count": 4, "example": "deadlock" }]);
        let both = json!({ "connecting_errors": reset, "errors": deadlock });
        assert_eq!(counted(&both), (7, String::from("deadlock")));
    }

    #[test]
    fn a_search_that_measured_nothing_has_failed() {
        let refused = Outcome::Refused(String::from("Too many connections."));
        let step = [Step { series: Series::DirectThreads, round: 1, connections: 1, outcome: refused }];
        assert_eq!(
            end_without_knee(Ending::Complete, &step),
            Ending::Failed(String::from("nothing was measured; refused: Too many connections."))
        );
        assert_eq!(end_without_knee(Ending::TimeLimit, &[]), Ending::TimeLimit);
    }
}
