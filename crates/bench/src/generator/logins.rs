//! How the connections of a run come about, and what happens when one is lost.

use rustix::io::Errno;
use seam::{ConnectionId, Instant};

use super::connection::State;
use super::connector::LOGIN_TIMEOUT;
use super::{Generator, NOBODY, NOTHING_WORKS, News, Phase};
use crate::errors::{ClientError, Failure, IgnoreErrors};
use crate::journal::End;
use crate::reply::{Ending, Expect, ReplyReader};
use crate::script::{connect_failure, unexpected_bytes};
use crate::workload::encode::{Prepared, put_prepare};
use login::{Login, Session};

/// Who ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The driver has said that it is gone.
    Already,
    /// It stands and is of no use.
    ByUs,
}

/// While all connections are made, one of them may fail this often in a row: a server whose backlog overflows for a
/// moment resets some.
const FAILURES_AT_START: u16 = 8;

impl Generator<'_> {
    /// Begins as many connects as may begin, and gives up those that take too long.
    pub(super) fn make_connections(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Finishing { .. } | Phase::Finished) {
            return;
        }
        while let Some((number, attempt)) = self.connector.expired(now) {
            let connection = &self.connections[number as usize];
            if connection.attempt == attempt && connection.state.in_progress() {
                let text = format!("no login within {LOGIN_TIMEOUT:?}");
                self.login_refused(now, number, Failure::new(ClientError::Handshake, text));
            }
        }
        while let Some(number) = self.connector.next(now) {
            let connection = &mut self.connections[number as usize];
            connection.attempt = connection.attempt.wrapping_add(1);
            connection.state = State::Connecting;
            self.connector.began(now, number, connection.attempt);
            let token = token(number, connection.attempt);
            let address = self.addresses[self.address_of(number)].clone();
            self.outbox.connect(token, address);
        }
    }

    /// The place of the address that a connection uses.
    fn address_of(&self, number: u32) -> usize {
        let detours = self.connections[number as usize].detours as usize;
        (number as usize + detours) % self.addresses.len()
    }

    pub(super) fn connected(&mut self, token: u64, id: ConnectionId) {
        let Some(number) = self.asked_for(token) else {
            // Given up meanwhile.
            self.outbox.close(id);
            return;
        };
        self.connections[number as usize].state =
            State::LoggingIn { connection: id, login: Box::new(Login::default()) };
        let slot = id.index as usize;
        if slot >= self.owners.len() {
            self.owners.resize(slot + 1, NOBODY);
        }
        self.owners[slot] = number;
    }

    pub(super) fn connect_failed(&mut self, now: Instant, token: u64, errno: i32) {
        let Some(number) = self.asked_for(token) else { return };
        if errno == Errno::ADDRNOTAVAIL.raw_os_error() && self.make_detour(number) {
            return;
        }
        let failure = connect_failure(&self.addresses[self.address_of(number)], errno);
        if matches!(self.phase, Phase::Connecting { .. }) && !is_passing(errno) {
            self.outcome.connecting_errors.record(&failure);
            return self.fail(now, failure);
        }
        self.lost(now, number, failure, Closed::Already);
    }

    /// Where one address has no port left, another may have one. False after a round over all of them.
    fn make_detour(&mut self, number: u32) -> bool {
        let connection = &mut self.connections[number as usize];
        connection.detours += 1;
        if connection.detours as usize >= self.addresses.len() {
            connection.detours = 0;
            return false;
        }
        connection.state = State::Down;
        self.connector.settled();
        self.connector.enqueue(number);
        true
    }

    /// The connection that waits for the answer with this token.
    fn asked_for(&self, token: u64) -> Option<u32> {
        let number = token as u32;
        let connection = self.connections.get(number as usize)?;
        let waits =
            matches!(connection.state, State::Connecting) && connection.attempt == (token >> 32) as u32;
        waits.then_some(number)
    }

    /// Bytes came on a connection.
    pub(super) fn receive(&mut self, now: Instant, number: u32, bytes: &[u8]) {
        let connection = &mut self.connections[number as usize];
        match &mut connection.state {
            State::LoggingIn { connection: id, login } => {
                let id = *id;
                let credentials = &self.crowd.member(number);
                match self.outbox.send(id, |out| login.read(bytes, credentials, out)) {
                    Ok(None) if login.starts_tls() => self.outbox.start_tls(id),
                    Ok(None) => {}
                    Ok(Some(session)) => self.logged_in(now, number, id, session),
                    Err(error) => self.login_refused(now, number, error.into()),
                }
            }
            State::Beginning { .. }
            | State::Preparing { .. }
            | State::Executing { .. }
            | State::RollingBack { .. } => match connection.reply.read(bytes) {
                Ok(None) => {}
                Ok(Some(consumed)) if consumed == bytes.len() => self.replied(now, number),
                Ok(Some(consumed)) => self.confused(now, number, &bytes[consumed..]),
                Err(error) => {
                    let failure = Failure::new(ClientError::Malformed, error.to_string());
                    self.statistics.record_mismatch(|| format!("connection {number}: {failure}"));
                    self.lost(now, number, failure, Closed::ByUs);
                }
            },
            State::Ready { .. } => self.confused(now, number, bytes),
            State::Down | State::Connecting => {}
        }
    }

    /// TLS stands on a connection.
    pub(super) fn secured(&mut self, now: Instant, number: u32) {
        let State::LoggingIn { connection, login } = &mut self.connections[number as usize].state else {
            return;
        };
        let credentials = &self.crowd.member(number);
        if let Err(failure) = self.outbox.send(*connection, |out| login.secured(credentials, out)) {
            self.login_refused(now, number, failure.into());
        }
    }

    /// Bytes that are no answer to anything: the server's reason for closing, or somebody else's answer.
    fn confused(&mut self, now: Instant, number: u32, bytes: &[u8]) {
        let failure = unexpected_bytes(bytes);
        if failure.code == ClientError::Malformed as u16 {
            self.statistics.record_mismatch(|| format!("connection {number}: {failure}"));
        }
        self.lost(now, number, failure, Closed::ByUs);
    }

    fn replied(&mut self, now: Instant, number: u32) {
        let state = &mut self.connections[number as usize].state;
        match *state {
            State::Beginning { connection } => self.has_begun(now, number, connection),
            State::Preparing { connection, next } => self.statement_prepared(now, number, connection, next),
            State::Executing { connection } => {
                *state = State::Ready { connection };
                self.statement_done(now, number);
            }
            State::RollingBack { connection } => {
                *state = State::Ready { connection };
                self.rolled_back(now, number);
            }
            // Only these four await a reply.
            State::Down | State::Connecting | State::LoggingIn { .. } | State::Ready { .. } => {}
        }
    }

    /// A login that a server refuses, or leaves without an answer, at the start will be refused again; later the server
    /// may be full for a while.
    fn login_refused(&mut self, now: Instant, number: u32, failure: Failure) {
        if !matches!(self.phase, Phase::Connecting { .. }) {
            return self.lost(now, number, failure, Closed::ByUs);
        }
        self.outcome.connecting_errors.record(&failure);
        if !failure.is_of_capacity() {
            // It is the same for all of them.
            let text =
                format!("{} (connection {} of {})", failure.text, self.up + 1, self.options.connections);
            return self.fail(now, Failure { text, ..failure });
        }
        let connection = &mut self.connections[number as usize];
        if let Some(id) = connection.state.connection() {
            self.outbox.close(id);
        }
        connection.state = State::Down;
        self.connector.settled();
        self.give_up(now, failure);
    }

    fn logged_in(&mut self, now: Instant, number: u32, id: ConnectionId, session: Session) {
        let connection = &mut self.connections[number as usize];
        connection.reply = ReplyReader::new(session.deprecate_eof);
        if self.outcome.server_version.is_empty() {
            self.outcome.server_version = session.server_version;
        }
        if self.options.prepared {
            let tables = self.options.tables.tables as usize;
            connection.prepared =
                vec![Prepared::default(); self.plan.statements.len() * tables].into_boxed_slice();
        }
        let Some(text) = self.crowd.begins_with(number) else { return self.prepare_next(now, number, id, 0) };
        self.outbox.send_command(id, |out| {
            out.push(wire::CommandKind::Query as u8);
            out.extend_from_slice(text.as_bytes());
        });
        connection.reply.start(Expect::Results);
        connection.state = State::Beginning { connection: id };
    }

    /// The statement that gives a connection its session state has been answered.
    fn has_begun(&mut self, now: Instant, number: u32, id: ConnectionId) {
        if let Ending::Error(error) = self.connections[number as usize].reply.ending() {
            let failure = Failure::from(error);
            return self.login_refused(now, number, failure);
        }
        self.prepare_next(now, number, id, 0);
    }

    /// Prepares the first statement from place `next` on that is to be prepared; after the last, the connection is up.
    fn prepare_next(&mut self, now: Instant, number: u32, id: ConnectionId, next: usize) {
        let running = self.is_running();
        let connection = &mut self.connections[number as usize];
        let tables = self.options.tables.tables as usize;
        for place in next..connection.prepared.len() {
            let statement = &self.plan.statements[place / tables];
            let table = place % tables;
            if !statement.preparable || table > 0 && !statement.names_table() {
                continue;
            }
            self.outbox.send_command(id, |out| put_prepare(out, statement, table as u32 + 1));
            connection.reply.start(Expect::Prepare);
            connection.state = State::Preparing { connection: id, next: place };
            return;
        }
        self.connector.settled();
        self.opening.made();
        // Until the load begins failures add up: a server that lets a connection in and drops it, again and again, must
        // come to an end.
        if running && std::mem::take(&mut connection.failures) > 0 {
            self.statistics.record_reconnect();
        }
        connection.state = State::Ready { connection: id };
        let waits = connection.event.is_some();
        self.up += 1;
        match self.phase {
            Phase::Connecting { .. } => (self.tell)(News::Connecting { up: self.up }),
            Phase::Finishing { .. } | Phase::Finished => self.leave(number),
            _ if waits => self.send_first(now, number),
            _ => {}
        }
    }

    fn statement_prepared(&mut self, now: Instant, number: u32, id: ConnectionId, place: usize) {
        let connection = &mut self.connections[number as usize];
        if let Ending::Error(error) = connection.reply.ending() {
            let failure = Failure::from(error);
            return self.login_refused(now, number, failure);
        }
        connection.prepared[place].id = connection.reply.prepared();
        self.prepare_next(now, number, id, place + 1);
    }

    /// A connection is gone, or of no use. It is made again while the run goes on.
    pub(super) fn lost(&mut self, now: Instant, number: u32, failure: Failure, closed: Closed) {
        if matches!(self.connections[number as usize].state, State::Executing { .. }) {
            self.note_marker(number, End::Lost);
        }
        let connection = &mut self.connections[number as usize];
        if connection.state.in_progress() {
            self.connector.settled();
        } else {
            self.up -= 1;
        }
        if let (Some(id), Closed::ByUs) = (connection.state.connection(), closed) {
            self.outbox.close(id);
        }
        connection.state = State::Down;
        connection.failures = connection.failures.saturating_add(1);
        let failures = connection.failures;
        if self.is_running() {
            let tolerated = self.options.ignore_errors != IgnoreErrors::None;
            if !self.record_failure(now, failure, tolerated) {
                return;
            }
        } else if matches!(self.phase, Phase::Connecting { .. }) {
            self.outcome.connecting_errors.record(&failure);
            if failures > FAILURES_AT_START {
                return self.give_up(now, failure);
            }
        } else {
            return;
        }
        self.connector.retry(now, number, u32::from(failures) - 1);
    }

    /// Counts an error. False where the run ends because of it.
    pub(super) fn record_failure(&mut self, now: Instant, failure: Failure, tolerated: bool) -> bool {
        self.statistics.record_error(&failure);
        let since = *self.failing_since.get_or_insert(now);
        if !tolerated {
            self.fail(now, failure);
            return false;
        }
        if now.since(since) >= NOTHING_WORKS {
            let text =
                format!("nothing has worked for {NOTHING_WORKS:?}; the last error was: {}", failure.text);
            self.fail(now, Failure { text, ..failure });
            return false;
        }
        true
    }
}

/// Number and attempt in one: the answer to an attempt that was given up is told from the current one's.
fn token(number: u32, attempt: u32) -> u64 {
    u64::from(attempt) << 32 | u64::from(number)
}

/// Errors of connecting that pass when a backlog has room again.
fn is_passing(errno: i32) -> bool {
    [Errno::AGAIN, Errno::CONNRESET, Errno::TIMEDOUT, Errno::INTR]
        .iter()
        .any(|passing| passing.raw_os_error() == errno)
}
