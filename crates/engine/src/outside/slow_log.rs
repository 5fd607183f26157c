//! Statements that took long, for whoever looks for the reason: each becomes a line of the slow log.
//!
//! What is known of a statement only while it starts (its text, the permits in use) is kept with it from then on, where the log is
//! on. Where it is off nothing is kept, and its end costs a comparison of two times.

use std::collections::VecDeque;
use std::time::Duration;

use seam::{Instant, Peer};
use sql::{Effects, TraceParent};

use crate::backend::{InFlight, Owner};
use crate::engine::Engine;
use crate::ids::{BackendKey, ClientKey};
use crate::outside::named::Queue;
use crate::outside::shown_text::{hides_its_text, lossy, may_hold_password};
use crate::outside::waits::WaitReason;
use crate::request::{Request, RequestKind};

/// Of a text as it was sent so many bytes are kept at most, where that is wanted: enough to run most statements again, and as much as
/// a statement costs anyway.
const LONGEST_TEXT: usize = 4096;

/// Statements that may wait to be fetched. They are fetched behind each turn, so that only one with more of them drops any.
const MOST_WAITING: usize = 256;

settings! {
    /// Which statements are worth a line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SlowLogSettings / SlowLogChange {
        /// The time at the server, until the client has taken the answer, from which on a statement is slow; zero for none.
        pub statement_time: Duration = Duration::ZERO, live;
        /// The wait before its start from which on a statement is slow; zero for none.
        pub wait_time: Duration = Duration::ZERO, live;
        /// Whether texts are given as they were sent, too.
        pub literals: bool = false, live;
        /// How many lines there may be in a second, from 1. Each worker has an even share, of 1 at least.
        // 100 kB/s: a day of overload is 9 GB at most, and its reasons are in the first few lines.
        pub per_second: u32 = 100, live;
    }
}

impl SlowLogSettings {
    fn is_on(&self) -> bool {
        !self.statement_time.is_zero() || !self.wait_time.is_zero()
    }

    fn is_slow(&self, waited: Duration, took: Duration) -> bool {
        (!self.statement_time.is_zero() && took >= self.statement_time)
            || (!self.wait_time.is_zero() && waited >= self.wait_time)
    }
}

/// A statement that was slow, or waited long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowStatement {
    /// The id that the client saw in its greeting.
    pub client: u32,
    /// Where it is.
    pub peer: Peer,
    /// As whom it has logged in; what is not UTF-8 is shown as U+FFFD, here as in all texts.
    pub user: String,
    /// Its default schema.
    pub schema: Option<String>,
    /// Which command it is: `query`, `prepare`, `execute` or `other`.
    pub command: &'static str,
    /// The hash of its normalised text, where it has one.
    pub digest: Option<u64>,
    /// The normalised text, without literals; `None` where it is not known, see [`crate::Digest::text`].
    pub text: Option<String>,
    /// The text as it was sent, its first 4,096 bytes, where that is wanted and it can hold no password of an account.
    pub sent_text: Option<String>,
    /// How long it waited for its start.
    pub waited: Duration,
    /// In which queue.
    pub queue: Queue,
    /// For what it waited longest, and how long, as far as that is known.
    pub wait_reason: Option<(WaitReason, Duration)>,
    /// How long the server had it, to the end of its answer; zero where it did not start.
    pub took: Duration,
    /// How it ended.
    pub end: SlowEnd,
    /// Rows of result sets.
    pub rows_sent: u64,
    /// Rows changed.
    pub rows_affected: u64,
    /// The code of the error that was its answer.
    pub error: Option<u16>,
    /// Permits in use, this statement's included, and how many there were, at its start; `None` where the log was off then.
    pub permits: Option<(u32, u32)>,
    /// The backend's id on the server; `None` where it did not start.
    pub backend: Option<u32>,
    /// It shared its backend with other short reads.
    pub shared: bool,
    /// It was answered by the execution of another one, whose times at the server these are.
    pub coalesced: bool,
    /// The trace that it belongs to, where a comment in its text says so.
    pub trace: Option<TraceParent>,
    /// Others of this worker that have had no line since the last, since there were too many of them.
    pub left_out: u64,
}

/// How a slow statement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowEnd {
    /// It was answered by the server.
    Answered,
    /// Its client went before that.
    ClientGone,
    /// Its backend was lost.
    BackendLost,
    /// It was answered with an error of Onramp's before it started.
    Cancelled,
}

impl SlowEnd {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::ClientGone => "client_gone",
            Self::BackendLost => "backend_lost",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The lines of a worker.
#[derive(Debug, Default)]
pub(crate) struct SlowLog {
    waiting: VecDeque<SlowStatement>,
    left_out: u64,
    /// The second that is under way, and how many lines there were in it.
    second: u64,
    lines: u32,
}

impl SlowLog {
    /// Whether there may be one more line now.
    fn may_write(&mut self, now: Instant, per_second: u32) -> bool {
        let second = now.as_micros() / 1_000_000;
        if second != self.second {
            (self.second, self.lines) = (second, 0);
        }
        let may = self.lines < per_second && self.waiting.len() < MOST_WAITING;
        self.lines += u32::from(may);
        self.left_out += u64::from(!may);
        may
    }
}

/// What is known of a statement only while it starts.
#[derive(Debug)]
pub(crate) struct AtStart {
    wait_reason: Option<(WaitReason, Duration)>,
    permits: Option<(u32, u32)>,
    trace: Option<TraceParent>,
    sent_text: Option<String>,
}

impl AtStart {
    /// On the heap.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.sent_text.as_ref().map_or(0, String::len)
    }
}

/// How an execution went.
#[derive(Clone, Copy)]
struct Outcome {
    backend: Option<u32>,
    end: SlowEnd,
    took: Duration,
    rows_sent: u64,
    rows_affected: u64,
    error: Option<u16>,
    shared: bool,
    coalesced: bool,
}

impl Engine {
    /// The oldest statement that is worth a line of the slow log, and has not been fetched; to be asked for behind each turn.
    pub fn poll_slow(&mut self) -> Option<SlowStatement> {
        let own = self.views.reports.slow.waiting.pop_front();
        own.or_else(|| self.readers.engines_mut().find_map(Self::poll_slow))
    }

    /// A statement starts, or begins to be answered by another one.
    pub(crate) fn note_slow_start(&self, client: ClientKey, request: &mut Request) {
        if self.settings.slow_log.is_on() {
            let permits = Some((self.pool.workers.running(), self.pool.workers.permits()));
            request.at_start = Some(Box::new(self.at_start(client, request, permits)));
        }
    }

    fn at_start(&self, client: ClientKey, request: &Request, permits: Option<(u32, u32)>) -> AtStart {
        let waits = self.now > request.turn.arrival.at;
        let parts = waits.then(|| self.scheduling.holdups.parts_since(&request.turn.arrival, self.now));
        // Large texts are read by other threads, once.
        let text = request.text().filter(|text| text.len() <= self.settings.large_statement_size);
        let has_text = matches!(request.command, RequestKind::Query | RequestKind::Prepare);
        let text = text.filter(|_| has_text && request.found_ahead.is_none());
        AtStart {
            wait_reason: parts.into_iter().flatten().max_by_key(|(_, waited)| *waited),
            permits,
            trace: text.and_then(|text| sql::trace_parent(text, self.lex_mode(client))),
            sent_text: text.filter(|_| self.settings.slow_log.literals).and_then(|text| sent(request, text)),
        }
    }

    /// An answer is complete, after this time at the server.
    pub(crate) fn note_slow_end(&mut self, backend: BackendKey, statement: &InFlight, took: Duration) {
        if !self.settings.slow_log.is_on() {
            return;
        }
        let thread = self.servers.get(backend).map_or(0, |backend| backend.login.thread_id);
        self.note_slow(thread, statement, took, SlowEnd::Answered);
    }

    /// A statement on the backend with this id has come to such an end, with all that wait for its answer.
    pub(crate) fn note_slow(&mut self, thread: u32, statement: &InFlight, took: Duration, end: SlowEnd) {
        if !self.settings.slow_log.is_on() {
            return;
        }
        let Some(client) = client_of(statement.owner) else { return };
        let outcome = Outcome::of(thread, statement, took, end);
        if self.settings.slow_log.is_slow(statement.waited, took) {
            self.write_slow(client, outcome);
        }
        let followers = statement.group.as_deref().map_or_else(Vec::new, |group| self.followers(group));
        for follower in followers {
            let waited = self.clients[follower].request.as_ref().map(|request| request.turn.waited);
            if waited.is_some_and(|waited| self.settings.slow_log.is_slow(waited, took)) {
                self.write_slow(follower, Outcome { coalesced: true, ..outcome });
            }
        }
    }

    /// The client of a statement has gone while the server has it.
    pub(crate) fn note_slow_abandoned(&mut self, client: ClientKey, backend: BackendKey) {
        if !self.settings.slow_log.is_on() {
            return;
        }
        let Some(backend) = self.servers.get(backend) else { return };
        let mut statements = backend.in_flight.iter().enumerate();
        let found = statements.find(|(_, statement)| client_of(statement.owner) == Some(client));
        let Some((place, statement)) = found else { return };
        // Behind another one it has not begun.
        let took = if place == 0 { self.now.since(backend.first.since) } else { Duration::ZERO };
        let outcome = Outcome::of(backend.login.thread_id, statement, took, SlowEnd::ClientGone);
        if self.settings.slow_log.is_slow(statement.waited, took) {
            self.write_slow(client, outcome);
        }
    }

    /// A statement that waits will not start: its client is told so by this error, or has gone.
    pub(crate) fn note_slow_wait(&mut self, client: ClientKey, error: Option<u16>) {
        if !self.settings.slow_log.is_on() || error.is_some_and(|error| self.goes_to_primary(error)) {
            return;
        }
        let now = self.now;
        let request = self.clients[client].request.as_deref_mut();
        let Some(request) = request.filter(|request| is_client_s(request.command)) else { return };
        request.turn.waited = now.since(request.turn.arrival.at);
        if self.settings.slow_log.is_slow(request.turn.waited, Duration::ZERO) {
            let end = if error.is_some() { SlowEnd::Cancelled } else { SlowEnd::ClientGone };
            self.write_slow(client, Outcome { error, ..Outcome::before_start(end) });
        }
    }

    fn write_slow(&mut self, client: ClientKey, outcome: Outcome) {
        self.views.totals.slow_statements += 1;
        let share = (self.settings.slow_log.per_second / self.pool.workers.count()).max(1);
        if !self.views.reports.slow.may_write(self.now, share) {
            self.views.totals.slow_left_out += 1;
            return;
        }
        let Some(slow) = self.slow_statement(client, outcome) else { return };
        let left_out = std::mem::take(&mut self.views.reports.slow.left_out);
        self.views.reports.slow.waiting.push_back(SlowStatement { left_out, ..slow });
    }

    fn slow_statement(&self, key: ClientKey, outcome: Outcome) -> Option<SlowStatement> {
        let client = &self.clients[key];
        let request = client.request.as_deref()?;
        let fingerprint = Some(request.fingerprint()).filter(|&fingerprint| fingerprint != 0);
        let late = request.at_start.is_none().then(|| self.at_start(key, request, None));
        let at_start = request.at_start.as_deref().or(late.as_ref())?;
        let identity = client.identity.map(|identity| self.logins.identities.identity(identity));
        let session = client.session.id.map(|session| self.sessions.states.state(session));
        Some(SlowStatement {
            client: client.id,
            peer: client.peer,
            user: identity.map(|identity| lossy(&identity.user)).unwrap_or_default(),
            schema: session.and_then(|state| state.schema.as_deref()).map(lossy),
            command: match request.command {
                RequestKind::Query => "query",
                RequestKind::Prepare => "prepare",
                RequestKind::Execute => "execute",
                _ => "other",
            },
            digest: fingerprint,
            text: fingerprint
                .and_then(|fingerprint| self.scheduling.digests.text(fingerprint))
                .map(String::from),
            sent_text: at_start.sent_text.clone(),
            waited: request.turn.waited,
            queue: Queue::of(request.turn.lane),
            wait_reason: at_start.wait_reason,
            took: outcome.took,
            end: outcome.end,
            rows_sent: outcome.rows_sent,
            rows_affected: outcome.rows_affected,
            error: outcome.error,
            permits: at_start.permits,
            backend: outcome.backend,
            shared: outcome.shared,
            coalesced: outcome.coalesced,
            trace: at_start.trace,
            left_out: 0,
        })
    }
}

impl Outcome {
    fn of(thread: u32, statement: &InFlight, took: Duration, end: SlowEnd) -> Self {
        let summary = &statement.summary;
        Self {
            backend: Some(thread).filter(|&thread| thread > 0),
            end,
            took,
            rows_sent: summary.counts.sent,
            rows_affected: summary.counts.changed,
            error: summary.error.as_ref().map(|error| error.code),
            shared: statement.shared,
            coalesced: false,
        }
    }

    fn before_start(end: SlowEnd) -> Self {
        Self {
            backend: None,
            end,
            took: Duration::ZERO,
            rows_sent: 0,
            rows_affected: 0,
            error: None,
            shared: false,
            coalesced: false,
        }
    }
}

/// Whose statement it is, where it is one that a client has asked for and that ends: replicas read the binary log without an end.
fn client_of(owner: Owner) -> Option<ClientKey> {
    match owner {
        Owner::Client { client, command } if is_client_s(command) => Some(client),
        _ => None,
    }
}

fn is_client_s(command: RequestKind) -> bool {
    use RequestKind::{Execute, Other, Prepare, Query, ResetConnection};
    matches!(command, Query | Prepare | Execute | Other | ResetConnection)
}

/// The text as it was sent, unless it may hold a password of an account, or the lexer is not sure what it holds.
fn sent(request: &Request, text: &[u8]) -> Option<String> {
    let statement = &request.statement;
    let shown = &text[..text.len().min(LONGEST_TEXT)];
    let hidden = hides_its_text(statement.kind, request.command)
        || statement.several
        || statement.effects.contains(Effects::UNKNOWN)
        || may_hold_password(text, shown);
    (!hidden).then(|| lossy(shown))
}

#[cfg(test)]
mod tests {
    use sql::LexMode;
    use wire::Expect;

    use super::*;
    use crate::request::Statement;

    #[test]
    fn either_time_is_enough_and_zero_is_none() {
        let of = |statement, wait| SlowLogSettings {
            statement_time: Duration::from_millis(statement),
            wait_time: Duration::from_millis(wait),
            ..SlowLogSettings::default()
        };
        let slow = |settings: SlowLogSettings, waited, took| {
            settings.is_slow(Duration::from_millis(waited), Duration::from_millis(took))
        };
        assert!(!of(0, 0).is_on() && !slow(of(0, 0), 1000, 1000));
        assert!(of(10, 0).is_on() && slow(of(10, 0), 0, 10) && !slow(of(10, 0), 1000, 9));
        assert!(of(0, 10).is_on() && slow(of(0, 10), 10, 0) && !slow(of(0, 10), 9, 1000));
    }

    #[test]
    fn a_second_has_so_many_lines_and_the_rest_is_counted() {
        let mut log = SlowLog::default();
        let mut written = |millis: u64, count: u32| {
            let now = Instant::from_micros(millis * 1000);
            (0..count).filter(|_| log.may_write(now, 3)).count()
        };
        assert_eq!([written(1000, 5), written(1999, 2), written(2000, 2), written(2001, 2)], [3, 0, 2, 1]);
        assert_eq!(log.left_out, 5);
    }

    /// What is given of a text with its literals.
    fn sent_of(text: &str) -> Option<String> {
        let statement = Statement::of_text(text.as_bytes(), LexMode::default());
        let command = RequestKind::Query;
        let request =
            Request::with_text(Vec::new(), Expect::ResultSets, command, text.as_bytes(), statement, 1);
        sent(&request, text.as_bytes())
    }

    #[test]
    fn texts_that_may_hold_a_password_are_not_given() {
        assert_eq!(sent_of("SELECT 'x', 5").as_deref(), Some("SELECT 'x', 5"));
        for text in [
            "CREATE USER bob IDENTIFIED BY 'secret'",
            "ALTER USER bob IDENTIFIED BY 'secret'",
            "GRANT ALL ON *.* TO bob IDENTIFIED BY 'secret'",
            "SET PASSWORD = 'secret'",
            "SET PASSWORD FOR bob = PASSWORD('secret')",
            "CHANGE MASTER TO MASTER_PASSWORD = 'secret'",
            "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (PASSWORD 'secret')",
            "SET @statement = 'CREATE USER bob IDENTIFIED BY ''secret'''",
            "SELECT 'CREATE USER bob IDENTIFIED BY ''secret''' INTO @statement",
            "PREPARE s FROM 'SET PASSWORD = ''secret'''",
            "EXECUTE IMMEDIATE 'SET PASSWORD = ''secret'''",
            "SELECT 1; SELECT 'secret'",
            "EXPLAIN SELECT PASSWORD('secret')",
            "SELECT 'secret",
            "SELECT /*!80000 1, */ 'secret'",
        ] {
            assert_eq!(sent_of(text), None, "{text}");
        }
    }

    #[test]
    fn long_texts_are_cut() {
        let text = format!("SELECT '{}'", "é".repeat(LONGEST_TEXT));
        let given = sent_of(&text).unwrap();
        assert!(
            given.len() <= LONGEST_TEXT + "\u{fffd}".len()
                && text.starts_with(given.trim_end_matches('\u{fffd}'))
        );
        let beyond = format!("SELECT '{}', PASSWORD('secret')", "x".repeat(LONGEST_TEXT));
        assert!(sent_of(&beyond).is_some_and(|given| !given.contains("secret")));
    }
}
