//! Which statements were slow, and what is told of each.

use std::time::Duration;

use seam::Instant;
use sql::Effects;

use super::{AtStart, SlowEnd, SlowStatement};
use crate::backend::{InFlight, Owner};
use crate::client::Client;
use crate::ids::{BackendKey, ClientKey, Table};
use crate::logins::Logins;
use crate::outside::named::Queue;
use crate::outside::shown_text::{hides_its_text, lossy, may_hold_password};
use crate::outside::views::Views;
use crate::pool::Pool;
use crate::request::{Request, RequestKind};
use crate::scheduling::Scheduling;
use crate::scheduling::coalescing::followers::followers_of;
use crate::servers::Servers;
use crate::session::SessionTables;
use crate::settings::Settings;

/// Bytes of a text that are kept at most as it was sent, where that is wanted: enough to run most statements again, and as much as a
/// statement costs anyway.
const LONGEST_TEXT: usize = 4096;

/// Parts of the engine that are looked at, and not changed, where a statement may be worth a line.
pub(crate) struct Surroundings<'a> {
    pub(crate) now: Instant,
    pub(crate) settings: &'a Settings,
    pub(crate) pool: &'a Pool,
    pub(crate) clients: &'a Table<ClientKey, Client>,
    pub(crate) servers: &'a Servers,
    pub(crate) logins: &'a Logins,
    pub(crate) sessions: &'a SessionTables,
    pub(crate) scheduling: &'a Scheduling,
}

/// How an execution went.
#[derive(Clone, Copy)]
struct Outcome {
    /// The time that the statement waited for its start; `None` where the request knows.
    waited: Option<Duration>,
    backend: Option<u32>,
    end: SlowEnd,
    took: Duration,
    rows_sent: u64,
    rows_affected: u64,
    error: Option<u16>,
    shared: bool,
    coalesced: bool,
}

impl Surroundings<'_> {
    /// A statement starts, or begins to be answered by another one.
    pub(crate) fn note_slow_start(&self, client: ClientKey, request: &mut Request) {
        if self.settings.slow_log.is_on() {
            let permits = Some((self.pool.workers.running(), self.pool.workers.permits()));
            request.at_start = Some(Box::new(self.at_start(client, request, permits)));
        }
    }

    fn at_start(&self, client: ClientKey, request: &Request, permits: Option<(u32, u32)>) -> AtStart {
        let waits = self.now > request.turn.arrived_at();
        let parts = waits.then(|| self.scheduling.holdups.parts_since(request.turn.arrival(), self.now));
        // Large texts are read by other threads, once.
        let text = request.text().filter(|text| text.len() <= self.settings.large_statement_size);
        let has_text = matches!(request.command, RequestKind::Query | RequestKind::Prepare);
        let text = text.filter(|_| has_text && request.found_ahead.is_none());
        let mode = || self.clients[client].lex_mode(&self.sessions.states, self.servers.primary());
        AtStart {
            wait_reason: parts.into_iter().flatten().max_by_key(|(_, waited)| *waited),
            permits,
            trace: text.and_then(|text| sql::trace_parent(text, mode())),
            sent_text: text.filter(|_| self.settings.slow_log.literals).and_then(|text| sent(request, text)),
        }
    }

    fn slow_statement(&self, key: ClientKey, outcome: Outcome) -> Option<SlowStatement> {
        let client = &self.clients[key];
        let request = client.request.as_deref()?;
        let fingerprint = Some(request.fingerprint()).filter(|&fingerprint| fingerprint != 0);
        let late = request.at_start.is_none().then(|| self.at_start(key, request, None));
        let at_start = request.at_start.as_deref().or(late.as_ref())?;
        let identity = client.identity().map(|identity| self.logins.identities.identity(identity));
        let session = client.session.id().map(|session| self.sessions.states.state(session));
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
            waited: outcome.waited.unwrap_or(request.turn.waited()),
            queue: Queue::of(request.turn.lane()),
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

impl Views {
    /// The oldest statement that is worth a line of the slow log, and has not been fetched.
    pub(crate) fn next_slow(&mut self) -> Option<SlowStatement> {
        self.reports.slow_log.waiting.pop_front()
    }

    /// An answer is complete, after this time at the server.
    pub(crate) fn note_slow_end(
        &mut self,
        around: &Surroundings<'_>,
        backend: BackendKey,
        statement: &InFlight,
        took: Duration,
    ) {
        if around.settings.slow_log.is_on() {
            let thread = around.servers.get(backend).map_or(0, |backend| backend.login.thread_id);
            self.note_slow(around, thread, statement, took, SlowEnd::Answered);
        }
    }

    /// A statement on the backend with this id has come to such an end, with all that wait for its answer.
    pub(crate) fn note_slow(
        &mut self,
        around: &Surroundings<'_>,
        thread: u32,
        statement: &InFlight,
        took: Duration,
        end: SlowEnd,
    ) {
        let slow_log = &around.settings.slow_log;
        let Some(client) = client_of(statement.owner).filter(|_| slow_log.is_on()) else { return };
        let outcome = Outcome::of(thread, statement, took, end);
        if slow_log.is_slow(statement.waited, took) {
            self.write_slow(around, client, outcome);
        }
        let group = statement.group();
        for follower in group.map_or_else(Vec::new, |group| followers_of(around.clients, group)) {
            let waited = around.clients[follower].request.as_ref().map(|request| request.turn.waited());
            if waited.is_some_and(|waited| slow_log.is_slow(waited, took)) {
                self.write_slow(around, follower, Outcome { coalesced: true, ..outcome });
            }
        }
    }

    /// The client of a statement has gone while the server has it.
    pub(crate) fn note_slow_abandoned(
        &mut self,
        around: &Surroundings<'_>,
        client: ClientKey,
        backend: BackendKey,
    ) {
        if !around.settings.slow_log.is_on() {
            return;
        }
        let Some(backend) = around.servers.get(backend) else { return };
        let mut statements = backend.in_flight.iter().enumerate();
        let found = statements.find(|(_, statement)| client_of(statement.owner) == Some(client));
        let Some((place, statement)) = found else { return };
        // Behind another one it has not begun.
        let took = if place == 0 { around.now.since(backend.first.since) } else { Duration::ZERO };
        let outcome = Outcome::of(backend.login.thread_id, statement, took, SlowEnd::ClientGone);
        if around.settings.slow_log.is_slow(statement.waited, took) {
            self.write_slow(around, client, outcome);
        }
    }

    /// A statement that waits will not start: its client is told so by this error, or has gone.
    pub(crate) fn note_slow_wait(
        &mut self,
        around: &Surroundings<'_>,
        client: ClientKey,
        error: Option<u16>,
    ) {
        let request = around.clients[client].request.as_deref();
        let Some(request) = request.filter(|request| is_client_s(request.command)) else { return };
        let waited = around.now.since(request.turn.arrived_at());
        let slow_log = &around.settings.slow_log;
        if slow_log.is_on() && slow_log.is_slow(waited, Duration::ZERO) {
            let end = if error.is_some() { SlowEnd::Cancelled } else { SlowEnd::ClientGone };
            self.write_slow(around, client, Outcome { error, ..Outcome::before_start(waited, end) });
        }
    }

    fn write_slow(&mut self, around: &Surroundings<'_>, client: ClientKey, outcome: Outcome) {
        self.totals.slow_statements += 1;
        let share = (around.settings.slow_log.per_second / around.pool.workers.count()).max(1);
        let log = &mut self.reports.slow_log;
        if !log.may_write(around.now, share) {
            self.totals.slow_left_out += 1;
            return;
        }
        let Some(slow) = around.slow_statement(client, outcome) else { return };
        let left_out = std::mem::take(&mut log.left_out);
        log.waiting.push_back(SlowStatement { left_out, ..slow });
    }
}

impl Outcome {
    fn of(thread: u32, statement: &InFlight, took: Duration, end: SlowEnd) -> Self {
        let summary = &statement.summary;
        Self {
            waited: None,
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

    fn before_start(waited: Duration, end: SlowEnd) -> Self {
        Self {
            waited: Some(waited),
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

/// The client that asked for a statement, where that is one with an end: replicas read the binary log without an end.
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

    /// The text with its literals, as far as it is given.
    fn sent_of(text: &str) -> Option<String> {
        let statement = sql::classify(text.as_bytes(), LexMode::default());
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
