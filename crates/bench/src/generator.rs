//! The load itself: a state machine that keeps connections, sends the statements of a workload over them and counts
//! what comes back.
//!
//! A run goes through phases: all connections are made (unless the workload makes its own), all begin together, the
//! warm-up passes uncounted, the measured time passes, statements that are out get a short while to come back.

mod connection;
mod connector;
mod events;
mod logins;
mod opening;
mod schedule;

use std::time::Duration;

use seam::{Address, CloseReason, ConnectionId, Input, Instant, Output, Program, Signal};

use crate::crowd::Crowd;
use crate::errors::{ClientError, ErrorCounts, Failure};
use crate::journal::{End, Fate};
use crate::machine::{ProcessorTime, resident_memory};
use crate::options::RunOptions;
use crate::outbox::Outbox;
use crate::statistics::{Fairness, Period, Statistics};
use crate::workload::Plan;
use crate::workload::encode::Source;
use connection::{Connection, State};
use connector::{Connector, LOGINS_IN_PROGRESS};
use opening::Opening;
use schedule::Schedule;

/// Puts load on a server, as a [`Program`] for a driver. [`Generator::into_outcome`] after the driver's run.
pub struct Generator<'a> {
    options: &'a RunOptions,
    crowd: Crowd,
    /// Connections take these in turn.
    addresses: Vec<Address>,
    plan: Plan,
    connections: Vec<Connection>,
    /// Which connection has which of the driver's slots.
    owners: Vec<u32>,
    source: Source,
    outbox: Outbox,
    statistics: Statistics,
    connector: Connector,
    opening: Opening,
    schedule: Schedule,
    phase: Phase,
    /// Connections that are logged in.
    up: u32,
    /// Since when every attempt has failed.
    failing_since: Option<Instant>,
    outcome: Outcome,
    /// Hears of the run while it goes on.
    tell: Box<dyn FnMut(News<'_>) + 'a>,
}

/// What a run tells while it goes on.
#[derive(Debug)]
pub enum News<'a> {
    /// It connects, and this many stand.
    Connecting {
        /// Logged in.
        up: u32,
    },
    /// The connecting is over, well or not.
    Opened,
    /// The time for a line of figures has come.
    Interval(Interval<'a>),
    /// It is known what has become of a marker (with `--journal`).
    Marker {
        /// What its client knows.
        fate: Fate,
        /// The marker.
        marker: i64,
    },
}

/// The time since the last line of figures.
#[derive(Clone, Copy, Debug)]
pub struct Interval<'a> {
    /// What was counted in it.
    pub period: &'a Period,
    /// How long it was.
    pub passed: Duration,
    /// How long ago the load began.
    pub elapsed: Duration,
    /// Connections that are logged in.
    pub up: u32,
    /// Whether this is before the measured time.
    pub warming_up: bool,
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// All that was counted.
    pub statistics: Statistics,
    /// How long it took until all connections stood, or until that was given up.
    pub connecting: Duration,
    /// How many stood then.
    pub connected: u32,
    /// What went wrong until then.
    pub connecting_errors: ErrorCounts,
    /// What this process held.
    pub memory: Memory,
    /// How long was measured.
    pub measured: Duration,
    /// Processor time of this process in the measured time.
    pub processor: ProcessorTime,
    /// How evenly the connections were served.
    pub fairness: Option<Fairness>,
    /// Events that had begun and not ended when the measured time was over.
    pub unfinished: u32,
    /// How long the oldest of them had been under way.
    pub oldest: Duration,
    /// Connections that waited for one event all through the measured time, in which each would have had three or more
    /// if all had got the same share.
    pub starved: u32,
    /// Open loop: events that were due and had not begun.
    pub not_begun: u64,
    /// What the server calls itself.
    pub server_version: String,
    /// Why the run ended early, unless that was wanted.
    pub failure: Option<Failure>,
    /// Whether Ctrl-C ended it.
    pub interrupted: bool,
}

/// Resident memory of this process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Before the first connection.
    pub before: u64,
    /// When all connections stood and nothing had been sent over them.
    pub connected: u64,
    /// At the end of the measured time.
    pub measured: u64,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The first turn has not come.
    New,
    Connecting {
        since: Instant,
    },
    WarmingUp {
        since: Instant,
        report: Option<Instant>,
    },
    Measuring {
        since: Instant,
        processor: ProcessorTime,
        report: Option<Instant>,
        loaded: Instant,
    },
    /// Statements that are out may come back.
    Finishing {
        deadline: Instant,
        /// None of the connections before this one awaits a reply.
        answered: u32,
    },
    Finished,
}

/// How long statements that are out when the time is over may take. Longer would let a stuck server hold up the report.
const GRACE: Duration = Duration::from_secs(5);

/// When nothing has worked for this long, the run ends.
const NOTHING_WORKS: Duration = Duration::from_secs(10);

/// Where the same share for all is fewer events than this, one that gets none has not been passed over: the longest
/// waits of a busy machine are twice the usual ones.
const EXPECTED_EVENTS: u64 = 3;
/// What part of the measured time is all of it: without a warm-up 100,000 connections do not all begin at once.
const STARVED_SHARE: f64 = 0.9;

/// The owner of a slot that no connection has.
const NOBODY: u32 = u32::MAX;

impl<'a> Generator<'a> {
    /// A run with these options over these addresses. `source` is where the statements' values come from, `tell` hears of it
    /// while it goes on.
    pub fn new(
        options: &'a RunOptions,
        crowd: Crowd,
        addresses: Vec<Address>,
        source: Source,
        tell: impl FnMut(News<'_>) + 'a,
    ) -> Self {
        let workload = options.tables.workload();
        let memory = Memory { before: resident_memory(), ..Memory::default() };
        // In the connect workload the number of connections is the bound.
        let bound = if workload.reconnects() { options.connections } else { LOGINS_IN_PROGRESS };
        Self {
            options,
            crowd,
            addresses,
            plan: workload.plan(),
            connections: std::iter::repeat_with(Connection::new).take(options.connections as usize).collect(),
            owners: Vec::new(),
            source,
            outbox: Outbox::default(),
            statistics: Statistics::default(),
            connector: Connector::new(bound, options.connect_rate),
            opening: Opening::default(),
            schedule: Schedule::new(options.rate),
            phase: Phase::New,
            up: 0,
            failing_since: None,
            outcome: Outcome { memory, ..Outcome::default() },
            tell: Box::new(tell),
        }
    }

    /// What came of it.
    pub fn into_outcome(mut self) -> Outcome {
        self.outcome.fairness =
            Some(Fairness::of(self.connections.iter().map(|connection| connection.events).collect()));
        self.outcome.statistics = self.statistics;
        self.outcome
    }

    fn begin(&mut self, now: Instant) {
        if self.options.tables.workload().reconnects() {
            self.begin_load(now);
            return;
        }
        (0..self.options.connections).for_each(|number| self.connector.enqueue(number));
        self.phase = Phase::Connecting { since: now };
        (self.tell)(News::Connecting { up: 0 });
    }

    /// Everybody begins.
    fn begin_load(&mut self, now: Instant) {
        self.opened(now);
        self.outcome.memory.connected = resident_memory();
        let report = self.next_report(now);
        self.phase = Phase::WarmingUp { since: now, report };
        if self.options.warmup.is_zero() {
            self.begin_measuring(now, report, now);
        }
        if let Some(arrivals) = &mut self.schedule.arrivals {
            arrivals.begin(now, &mut self.source.random);
        }
        if self.options.think_time.is_zero() {
            self.schedule.starting = 0..self.options.connections;
            self.begin_due_events(now);
        } else {
            self.spread_over_think_time(now);
        }
    }

    /// The connecting is over, well or not.
    fn opened(&mut self, now: Instant) {
        if let Phase::Connecting { since } = self.phase {
            self.outcome.connecting = now.since(since);
            self.outcome.connected = self.up;
            (self.tell)(News::Opened);
        }
    }

    /// With a pause after each event the connections would stay in step for ever, so they begin at random moments
    /// within the first pause.
    fn spread_over_think_time(&mut self, now: Instant) {
        let mut moments: Vec<(Instant, u32)> = (0..self.options.connections)
            .map(|number| (now + self.options.think_time.mul_f64(self.source.random.fraction()), number))
            .collect();
        moments.sort_unstable();
        self.schedule.thinking = moments.into();
    }

    fn begin_measuring(&mut self, now: Instant, report: Option<Instant>, loaded: Instant) {
        self.statistics.begin();
        self.phase = Phase::Measuring { since: now, processor: ProcessorTime::now(), report, loaded };
        if self.options.events > 0 {
            self.schedule.remaining = Some(self.options.events.saturating_sub(u64::from(self.schedule.open)));
        }
    }

    fn next_report(&self, now: Instant) -> Option<Instant> {
        (!self.options.report_interval.is_zero()).then(|| now + self.options.report_interval)
    }

    /// What is due by now.
    fn turn_end(&mut self, now: Instant) {
        match self.phase {
            Phase::New => self.begin(now),
            Phase::Connecting { .. } | Phase::Finishing { .. } | Phase::Finished => {}
            Phase::WarmingUp { since, report } => {
                self.give_up_late_events(now);
                self.begin_due_events(now);
                let report = self.report_if_due(now, since, report);
                if let Phase::WarmingUp { report: at, .. } = &mut self.phase {
                    *at = report;
                }
                if now >= since + self.options.warmup {
                    self.begin_measuring(now, report, since);
                }
            }
            Phase::Measuring { since, report, loaded, .. } => {
                self.give_up_late_events(now);
                self.begin_due_events(now);
                let next = self.report_if_due(now, loaded, report);
                if let Phase::Measuring { report: at, .. } = &mut self.phase {
                    *at = next;
                }
                if !self.options.time.is_zero() && now >= since + self.options.time {
                    self.finish(now);
                }
            }
        }
        self.make_connections(now);
        if matches!(self.phase, Phase::Connecting { .. }) {
            self.end_opening(now);
        }
        if let Phase::Finishing { deadline, answered } = &mut self.phase {
            let awaits = |connection: &Connection| connection.state.awaits_reply();
            // Nothing is sent any more, so those that have been passed need not be looked at again.
            let rest = &self.connections[*answered as usize..];
            *answered += rest.iter().position(awaits).unwrap_or(rest.len()) as u32;
            if now >= *deadline || *answered == self.options.connections {
                self.end();
            }
        }
    }

    /// Tells of the last interval where that is due; returns when the next one is.
    fn report_if_due(&mut self, now: Instant, since: Instant, due: Option<Instant>) -> Option<Instant> {
        let due = due?;
        if now < due {
            return Some(due);
        }
        let interval = self.options.report_interval;
        let passed = now.since(due) + interval;
        let warming_up = matches!(self.phase, Phase::WarmingUp { .. });
        (self.tell)(News::Interval(Interval {
            period: &self.statistics.interval,
            passed,
            elapsed: now.since(since),
            up: self.up,
            warming_up,
        }));
        self.statistics.begin_interval();
        // A turn that took longer than an interval leaves lines out rather than writing several at once.
        Some((due + interval).max(now))
    }

    /// The measured time is over.
    fn finish(&mut self, now: Instant) {
        if let Phase::Measuring { since, processor, .. } = self.phase {
            self.outcome.measured = now.since(since);
            self.outcome.processor = ProcessorTime::now().since(processor);
            self.outcome.memory.measured = resident_memory();
            self.count_unfinished(now);
            self.judge();
        }
        if matches!(self.phase, Phase::Finishing { .. } | Phase::Finished) {
            return;
        }
        self.opened(now);
        self.phase = Phase::Finishing { deadline: now + GRACE, answered: 0 };
        for number in 0..self.options.connections {
            if matches!(self.connections[number as usize].state, State::Ready { .. }) {
                self.leave(number);
            }
        }
    }

    /// A run in which nothing came back has measured nothing.
    fn judge(&mut self) {
        let nothing = self.statistics.total.latencies.count() == 0 && self.outcome.unfinished > 0;
        if nothing && !self.outcome.interrupted && self.outcome.failure.is_none() {
            let text = format!("no event ended in the measured time of {:?}", self.outcome.measured);
            self.outcome.failure = Some(Failure::new(ClientError::Lost, text));
        }
    }

    fn count_unfinished(&mut self, now: Instant) {
        let started = self.connections.iter().filter_map(|connection| connection.event);
        self.outcome.unfinished = started.clone().count() as u32;
        self.outcome.oldest = started.map(|started| now.since(started)).max().unwrap_or_default();
        if let Some(arrivals) = &mut self.schedule.arrivals {
            let random = &mut self.source.random;
            self.outcome.not_begun = std::iter::from_fn(|| arrivals.take(now, random)).count() as u64;
        }
        self.count_starved(now);
    }

    fn count_starved(&mut self, now: Instant) {
        let events = self.statistics.total.latencies.count();
        if events < EXPECTED_EVENTS * u64::from(self.options.connections) {
            return;
        }
        let enough = self.outcome.measured.mul_f64(STARVED_SHARE);
        let is_starved = |connection: &&Connection| {
            connection.events == 0 && connection.event.is_some_and(|started| now.since(started) >= enough)
        };
        self.outcome.starved = self.connections.iter().filter(is_starved).count() as u32;
    }

    /// Closes what is still open and lets the driver return.
    fn end(&mut self) {
        self.phase = Phase::Finished;
        for number in 0..self.options.connections {
            if matches!(self.connections[number as usize].state, State::Executing { .. }) {
                self.note_marker(number, End::Lost);
            }
        }
        for connection in &self.connections {
            if let Some(id) = connection.state.connection() {
                self.outbox.close(id);
            }
        }
        self.outbox.finish();
    }

    /// The run cannot go on.
    fn fail(&mut self, now: Instant, failure: Failure) {
        if matches!(self.phase, Phase::Finishing { .. } | Phase::Finished) {
            return;
        }
        self.outcome.failure = Some(failure);
        self.finish(now);
    }

    /// Whether statements are sent and answers counted.
    fn is_running(&self) -> bool {
        matches!(self.phase, Phase::WarmingUp { .. } | Phase::Measuring { .. })
    }

    fn closed(&mut self, now: Instant, id: ConnectionId, reason: CloseReason) {
        let Some(number) = self.owner_of(id) else { return };
        let text = match reason {
            CloseReason::EndOfStream => "the server closed the connection".to_owned(),
            CloseReason::TooMuchHeld => "there is no memory left for what it has sent".to_owned(),
            CloseReason::Failed(errno) => {
                format!("the connection broke: {}", std::io::Error::from_raw_os_error(errno))
            }
        };
        self.lost(now, number, Failure::new(ClientError::Lost, text), logins::Closed::Already);
    }

    fn owner_of(&self, id: ConnectionId) -> Option<u32> {
        let number = *self.owners.get(id.index as usize)?;
        let connection = self.connections.get(number as usize)?;
        (connection.state.connection() == Some(id)).then_some(number)
    }
}

impl Program for Generator<'_> {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Connected { token, connection } => self.connected(token, connection),
            Input::ConnectFailed { token, errno } => self.connect_failed(now, token, errno),
            Input::Bytes { connection, bytes } => {
                if let Some(number) = self.owner_of(connection) {
                    self.receive(now, number, bytes);
                }
            }
            Input::Closed { connection, reason } => self.closed(now, connection, reason),
            Input::Signal(Signal::Drain) => {
                self.outcome.interrupted = true;
                self.finish(now);
            }
            Input::Signal(Signal::Wake | Signal::Report | Signal::Look) => {}
            Input::Signal(Signal::Stop) => {
                self.finish(now);
                self.end();
            }
            Input::TurnEnd => self.turn_end(now),
            Input::Accepted { .. } | Input::Stalled { .. } | Input::Drained { .. } => {}
            Input::Secured { connection, .. } => {
                if let Some(number) = self.owner_of(connection) {
                    self.secured(now, number);
                }
            }
            Input::TlsFailed { connection, reason } => {
                if let Some(number) = self.owner_of(connection) {
                    let failure = Failure::new(ClientError::Lost, format!("TLS: {reason}"));
                    self.lost(now, number, failure, logins::Closed::Already);
                }
            }
            Input::Announced { .. } => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        self.outbox.poll()
    }

    fn next_timeout(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::New => Some(Instant::START),
            Phase::Connecting { .. } => None,
            Phase::WarmingUp { since, report } => earliest([Some(since + self.options.warmup), report]),
            Phase::Measuring { since, report, .. } => {
                let end = (!self.options.time.is_zero()).then(|| since + self.options.time);
                earliest([end, report])
            }
            Phase::Finishing { deadline, .. } => return Some(deadline),
            Phase::Finished => return None,
        };
        earliest([earliest([phase, self.connector.next_timeout()]), self.schedule.next_timeout()])
    }
}

fn earliest(moments: [Option<Instant>; 2]) -> Option<Instant> {
    moments.into_iter().flatten().min()
}

#[cfg(test)]
mod tests;
