//! From the server back to the client: relays an answer, and draws the consequences at its end, also for clients that wait for the same
//! answer ([`crate::coalescing`]).

use std::borrow::Cow;
use std::time::Duration;

use wire::{ReplyEvent, ReplySink, StatusFlags};

use super::preparing::LARGEST_ANSWER;
use super::unreported_variables::SessionOnBackend;
use super::{Change, InFlight, Owner, Phase, Summary};
use crate::client::Client;
use crate::client::buffered_answer::LARGEST_HELD;
use crate::client::known_answers::LARGEST_REMEMBERED;
use crate::client::trackers::told;
use crate::cluster::refusal::is_refusal_by_role;
use crate::coalescing::Coalescing;
use crate::coalescing::followers::followers_of;
use crate::coalescing::group::Group;
use crate::engine::Engine;
use crate::errors::{MySqlError, ServerError};
use crate::ids::{BackendKey, ClientKey};
use crate::outbox::Outbox;
use crate::outside::named::{ClosedFor, Limit};
use crate::request::{Request, RequestKind};
use crate::session::aftermath::Diagnostics;
use crate::session::known_answers::Question;
use crate::session::trackers::{self, Told};
use crate::shares::Parties;

/// An answer whose client has gone is read to its end up to this size, since a new backend costs more than that.
const LARGEST_UNWANTED: u64 = 1 << 20;

/// Answers to our own questions are small: the warnings of one statement (max_error_count, 64 by default).
pub(super) const LARGEST_KEPT: usize = 64 << 10;

/// Takes what a reply reader finds to its places.
struct Relay<'a> {
    outbox: &'a mut Outbox,
    /// The client's connection; `None` where the answer is for us or for nobody.
    to: Option<seam::ConnectionId>,
    /// How many bytes are kept here.
    keep: usize,
    /// They go to the client at the end, from here, if there are no more than that.
    holds: bool,
    group: Option<&'a mut Group>,
    /// What the client hears of changes of its session.
    told: Option<Told<'a>>,
    /// The changes are kept here as they come.
    keeps_changes: bool,
    /// That the server takes no writes is not for the client, whose statement goes to another one.
    withholds: Withholds,
    summary: &'a mut Summary,
}

impl Client {
    /// How much of the answer to its statement is looked at here.
    fn keeps(&self) -> usize {
        match self.request.as_ref().and_then(|request| request.remember.as_ref()) {
            _ if self.awaits_lock() => LARGEST_KEPT,
            _ if self.holds_answer() => LARGEST_HELD,
            Some(Question::Show(_)) => LARGEST_REMEMBERED,
            _ => 0,
        }
    }

    /// Whether the answer to its statement is held until it is whole.
    fn holds_answer(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.held.is_some() || request.kills.is_some())
    }

    /// Whether what its statement changes of the session is remembered.
    fn keeps_changes(&self) -> bool {
        let remember = self.request.as_ref().and_then(|request| request.remember.as_ref());
        matches!(remember, Some(Question::Set(_)))
    }
}

/// ER_QUERY_INTERRUPTED, MariaDB's ER_CONNECTION_KILLED and ER_STATEMENT_TIMEOUT, and MySQL's ER_QUERY_TIMEOUT.
const ENDED: [u16; 4] = [1317, 1927, 1969, 3024];

/// Errors that a client does not hear.
#[derive(Clone, Copy)]
enum Withholds {
    Nothing,
    /// Those by which a server says that it takes no writes.
    Refusals,
    /// All of the statement itself, but that it was interrupted: that is meant for the client.
    Errors,
}

impl ReplySink for Relay<'_> {
    fn relay(&mut self, bytes: &[u8]) {
        if self.summary.withheld {
            return;
        }
        let all_kept = self.summary.has_kept_all();
        self.summary.relayed += bytes.len() as u64;
        if self.summary.kept.len() + bytes.len() <= self.keep {
            self.summary.kept.extend_from_slice(bytes);
            if self.holds && all_kept {
                return;
            }
        }
        if let Some(connection) = self.to.filter(|_| self.holds && all_kept && !self.summary.kept.is_empty())
        {
            // More than is held: what there is goes ahead.
            self.outbox.send(connection, &std::mem::take(&mut self.summary.kept));
        }
        if let Some(group) = &mut self.group {
            group.collect(bytes);
        } else if let Some(connection) = self.to {
            self.outbox.send(connection, bytes);
        }
    }

    fn told<'c>(&mut self, changes: &'c [u8]) -> Cow<'c, [u8]> {
        let told = self.told.map_or(Cow::Borrowed(&[][..]), |told| told.of(changes));
        if !told.is_empty() {
            let mut length = Vec::new();
            wire::put_lenenc_bytes(&mut length, &told);
            // The length of an empty info stands before it.
            self.summary.told += 1 + length.len() as u64;
        }
        told
    }

    fn event(&mut self, event: ReplyEvent<'_>) {
        let summary = &mut *self.summary;
        match event {
            ReplyEvent::Ok(ok) => {
                summary.take_status(ok.status);
                summary.warnings = ok.warnings;
                if ok.header == 0x00 {
                    summary.affected_rows = ok.affected_rows;
                    summary.counts.changed = summary.counts.changed.saturating_add(ok.affected_rows);
                    summary.counts.copied = number_behind(b"Records: ", ok.info);
                    summary.counts.matched = number_behind(b"Rows matched: ", ok.info);
                    summary.counts.results = summary.counts.results.saturating_add(1);
                    summary.counts.rows = None;
                }
                if ok.last_insert_id != 0 {
                    summary.last_insert_id = ok.last_insert_id;
                }
                if self.keeps_changes {
                    summary.raw_changes = trackers::without_counter(ok.session_changes);
                }
                summary.take_changes(ok.session_changes);
            }
            ReplyEvent::Eof(eof) => {
                summary.take_status(eof.status);
                summary.warnings = eof.warnings;
            }
            ReplyEvent::Err(error) | ReplyEvent::PreludeErr(error) => {
                summary.prelude_failed = matches!(event, ReplyEvent::PreludeErr(_));
                let is_first = summary.relayed == 0;
                summary.withheld = is_first
                    && match self.withholds {
                        Withholds::Nothing => false,
                        Withholds::Refusals => is_refusal_by_role(error.code, error.message),
                        Withholds::Errors => !summary.prelude_failed && !ENDED.contains(&error.code),
                    };
                summary.error = Some(ServerError {
                    code: error.code,
                    sql_state: error.sql_state,
                    message: error.message.to_vec(),
                });
            }
            ReplyEvent::PreludeOk(_) => summary.preludes_done += 1,
            ReplyEvent::LocalInfile { sequence } => summary.file.asked = Some(sequence),
            ReplyEvent::LogBegins => summary.log_begun = true,
            ReplyEvent::ResultSetEnd { rows } => {
                summary.counts.results = summary.counts.results.saturating_add(1);
                summary.counts.rows = Some(rows);
                summary.counts.sent = summary.counts.sent.saturating_add(rows);
                summary.counts.found = Some(rows);
            }
            ReplyEvent::Metadata(digest) => summary.metadata = Some(digest),
            ReplyEvent::Prepared { statement, parameters, .. } => {
                summary.counts.rows = None;
                summary.prepared = Some((statement, parameters));
            }
        }
    }
}

/// The first number in `Records: 3  Duplicates: 0  Warnings: 0` (ER_INSERT_INFO) or `Rows matched: 3  Changed: 1  Warnings: 0`
/// (ER_UPDATE_INFO).
fn number_behind(words: &[u8], info: &[u8]) -> Option<u64> {
    let number = info.strip_prefix(words)?.split(|b| !b.is_ascii_digit()).next()?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

impl Summary {
    /// How many results there were, an error among them.
    pub(crate) fn answers(&self) -> u32 {
        self.counts.results.saturating_add(u32::from(self.error.is_some()))
    }

    fn take_status(&mut self, status: StatusFlags) {
        self.status = Some(status);
        self.in_read_only |= status.contains(StatusFlags::IN_TRANS_READONLY);
    }

    fn take_changes(&mut self, raw: &[u8]) {
        for change in wire::session_changes(raw).flatten() {
            match change {
                // A change of every statement's would make none harmless, and none may share a backend then.
                wire::SessionChange::SystemVariable { name: trackers::COUNTER, .. } => {}
                wire::SessionChange::SystemVariable { name, value } => {
                    self.changes.push(Change::Variable { name: name.into(), value: value.into() });
                }
                wire::SessionChange::Schema(name) => self.changes.push(Change::Schema(name.into())),
                wire::SessionChange::StateChange => self.changes.push(Change::State),
                _ => {}
            }
        }
    }
}

impl Engine {
    /// Bytes of the server on a backend, cut anywhere: each belongs to the first statement in flight.
    pub(crate) fn backend_bytes(&mut self, key: BackendKey, mut bytes: &[u8]) {
        if matches!(self.servers[key].phase(), Phase::LoggingIn(_)) {
            return self.backend_login_bytes(key, bytes);
        }
        while !bytes.is_empty() && self.servers.contains(key) {
            let Some(statement) = self.servers[key].in_flight.front() else {
                return self.unasked_bytes(key, bytes);
            };
            let (to, keep) = self.goes_to(statement.owner);
            let withholds = self.withholds(statement);
            let share = self.pool.held_answer_memory(&self.settings);
            let kept = self.servers.may_keep(key, keep, bytes.len(), share);
            if kept.lacks_memory {
                let limit = self.settings.held_answer_memory as u64;
                self.views.limit_reached(self.now, Limit::HeldAnswerMemory, limit);
            }
            let server = self.servers.of_mut(key);
            let statement = server.backends[key].in_flight.front_mut().expect("it is there");
            let client =
                statement.owner.client().filter(|_| to.is_some()).map(|client| &self.clients[client]);
            let mut relay = Relay {
                outbox: &mut self.io.outbox,
                to,
                keep: kept.bytes,
                holds: client.is_some_and(Client::holds_answer),
                group: statement.group.as_deref_mut().filter(|_| to.is_some()),
                told: client.and_then(|client| told(client, server.facts.as_ref(), &self.sessions.states)),
                keeps_changes: client.is_some_and(Client::keeps_changes),
                withholds,
                summary: &mut statement.summary,
            };
            let progress = match statement.reader.read(bytes, &mut relay) {
                Ok(progress) => progress,
                Err(error) => {
                    return self.close_backend(key, &format!("the server broke the protocol: {error}"));
                }
            };
            bytes = &bytes[progress.consumed..];
            let reply_size = self.settings.coalescing.reply_size;
            if statement.group.as_ref().is_some_and(|group| group.outgrown(reply_size)) {
                self.coalescing().dissolve_group(key);
            }
            let backend = &mut self.servers[key];
            if progress.done {
                let statement = backend.in_flight.pop_front().expect("it was the first");
                backend.locks.waits = false;
                let took = self.now.since(std::mem::replace(&mut backend.first.since, self.now));
                if std::mem::take(&mut backend.first.is_alone) {
                    self.pool.workers.way.note(took);
                }
                self.statement_ended(key, statement, took);
            } else {
                self.statement_goes_on(key);
            }
        }
    }

    /// Which errors of the server its client does not hear, since the statement goes elsewhere.
    fn withholds(&self, statement: &InFlight) -> Withholds {
        let of_client = matches!(
            statement.owner,
            Owner::Client { command: RequestKind::Query | RequestKind::Execute, .. }
        );
        match self.is_reader() {
            // What a replica lacks, or has in another way, the primary may have.
            true if of_client => Withholds::Errors,
            false if self.may_go_elsewhere(statement) => Withholds::Refusals,
            _ => Withholds::Nothing,
        }
    }

    /// The client that hears an answer as it comes, and how much of it is kept here.
    fn goes_to(&self, owner: Owner) -> (Option<seam::ConnectionId>, usize) {
        match owner {
            Owner::Client { client, .. } if owner.is_heard() => {
                let client = &self.clients[client];
                (Some(client.connection), client.keeps())
            }
            // The client has a number of its own for the statement, and the server may have to be asked again.
            Owner::Client { command: RequestKind::Prepare, .. } => (None, LARGEST_ANSWER),
            Owner::Client { .. } | Owner::Abandoned => (None, 0),
            _ => (None, LARGEST_KEPT),
        }
    }

    /// The server speaks out of turn: it says why it is about to close (a shutdown, a timeout).
    fn unasked_bytes(&mut self, key: BackendKey, bytes: &[u8]) {
        let said = bytes.get(wire::HEADER_LEN..).filter(|payload| payload.first() == Some(&0xff));
        let reason = match said.and_then(|payload| wire::ErrPacket::parse(payload).ok()) {
            Some(error) => format!("the server said: {}", String::from_utf8_lossy(error.message)),
            None => String::from("the server sent bytes that answer nothing"),
        };
        self.close_backend(key, &reason);
    }

    /// The answer is not complete: a file may have been asked for, or nobody may want the rest.
    fn statement_goes_on(&mut self, key: BackendKey) {
        let backend = &mut self.servers[key];
        let alone = backend.in_flight.len() == 1;
        let Some(statement) = backend.in_flight.front_mut() else { return };
        match statement.owner {
            Owner::Client { client, command } => {
                if let Some(sequence) = statement.summary.file.asked.take() {
                    let shift = statement.reader.sequence_shift_to_backend();
                    let next = sequence.wrapping_add(1).wrapping_sub(shift);
                    self.clients[client].upload(false, next);
                    self.servers[key].lend_permit(&mut self.scheduling.scheduler);
                    self.resume.push(client);
                } else if command == RequestKind::BinlogDump && statement.summary.log_begun {
                    // What the client has sent meanwhile may follow.
                    if self.clients[client].begin_log() {
                        self.resume.push(client);
                    }
                }
            }
            Owner::Abandoned if statement.summary.file.asked.is_some() => {
                self.close_backend(
                    key,
                    "its client went away before LOAD DATA LOCAL INFILE asked for the file",
                );
            }
            Owner::Abandoned if alone && statement.summary.relayed > LARGEST_UNWANTED => {
                self.close_backend(key, "its client went away in the middle of a large result");
            }
            _ => {}
        }
    }

    /// Counts a statement for its user and schema, where anybody wants to know.
    fn tally(&mut self, statement: &InFlight, took: Duration) {
        let Owner::Client { client, .. } = statement.owner else { return };
        if self.settings.metrics_top == 0 {
            return;
        }
        let Some(client) = self.clients.get(client) else { return };
        let user = client.identity.map(|identity| &*self.logins.identities.identity(identity).user);
        let session = client.session.id.map(|session| self.sessions.states.state(session));
        let schema = session.and_then(|session| session.schema.as_deref());
        self.views.tallies.note(user.unwrap_or_default(), schema.unwrap_or_default(), took);
    }

    /// An answer is complete.
    fn statement_ended(&mut self, key: BackendKey, mut statement: InFlight, took: Duration) {
        self.servers.of_mut(key).lock_wait_ended(self.now, key, &mut self.scheduling.waits);
        let (clients, sessions) = (&self.clients, &self.sessions.states);
        let (settings, in_use) = (&self.settings, self.servers.backends_in_use());
        let kind = || statement.kind(clients, sessions);
        if self.scheduling.note_progress(self.now, settings, &self.pool, in_use, kind) {
            let (scheduling, parties, clients, servers) = self.queues();
            scheduling.leave_contended_lanes(&parties, clients, servers);
        }
        self.note_history(&statement, took);
        if let Some(command) = statement.owner.command() {
            let error = statement.summary.error.as_ref().map(|error| error.code);
            self.views.measures.note_ended(command, error, took);
        }
        self.tally(&statement, took);
        let (views, around) = self.slow_log();
        views.note_slow_end(&around, key, &statement, took);
        if statement.shared {
            self.servers.of_mut(key).rescues.answered();
            self.servers.of_mut(key).take_over_emptied(key, &mut statement, &self.clients);
        }
        let (settings, workers) = (&self.settings, &self.pool.workers);
        self.scheduling.note_long(self.now, settings, workers, &self.servers, (key, &statement), took);
        let owner = statement.owner.client().and_then(|client| self.clients.get(client));
        if let Some(backend) = self.servers.get_mut(key) {
            backend.note_diagnostics_area(owner.map(|client| client.id), &statement.summary);
            // Whoever was slow has its answer now, and what follows is for somebody else.
            backend.read_again(&mut self.io.outbox);
        }
        match statement.owner {
            Owner::Client { client, command } if statement.summary.withheld && self.is_reader() => {
                self.guest_refused(key, client, command, &mut statement);
            }
            Owner::Client { client, .. } if statement.summary.withheld => {
                self.refused_by_role(key, client, &mut statement);
            }
            Owner::Client { client, command } => match statement.group.take() {
                Some(group) => self.group_ended(key, client, &mut statement, group),
                None => {
                    let (servers, summary) = (&mut self.servers, &statement.summary);
                    match self.clients[client].ends_behind_answer(key, servers, summary) {
                        Some(reason) => self.close_client(client, ClosedFor::BackendLost, reason),
                        None => self.client_statement_ended(key, client, command, &mut statement),
                    }
                }
            },
            Owner::Setup => self.backend_set_up(key, &statement.summary),
            Owner::ApplyState { client } => self.state_applied(key, client, &statement),
            Owner::ApplyDefinition { client } => self.definition_state_applied(key, client, &statement),
            Owner::Prepare { client } => self.prepared_ahead(key, client, &mut statement),
            Owner::SaveDiagnostics { client } => {
                self.diagnostics_saved(key, client, &mut statement.summary);
                if let Some(group) = &statement.group {
                    self.share_diagnostics(client, group);
                }
            }
            Owner::SaveInsertId { client } => self.insert_id_saved(key, client, &statement.summary),
            Owner::ReadStatus { client } => self.status_told(key, client, &mut statement.summary),
            Owner::ReadVariables { client } => self.unreported_answered(key, client, &mut statement.summary),
            Owner::Reset => self.backend_was_reset(key, &statement.summary),
            Owner::RestoreWaitTimeout => self.wait_timeout_restored(key, &statement.summary),
            Owner::Closing => self.servers.of_mut(key).closing_ended(&mut self.pool),
            Owner::Abandoned => self.abandoned_ended(key, &statement),
            Owner::SetOption => {}
        }
        self.backend_rests(key);
    }

    /// Where nothing is left in flight: the permit goes back, and a backend that nobody holds becomes free.
    pub(crate) fn backend_rests(&mut self, key: BackendKey) {
        if self.servers.get(key).is_none_or(|backend| !backend.in_flight.is_empty() || !backend.is_ready()) {
            return;
        }
        self.kill_answered(key);
        let kept = self.scheduling.scheduler.keeps_permits()
            && self.servers[key].holder.is_some_and(|client| self.clients[client].in_transaction());
        if !kept {
            self.servers[key].give_permit(&mut self.scheduling.scheduler);
        }
        if std::mem::take(&mut self.servers[key].runs_long) {
            self.scheduling.scheduler.finish_long();
        }
        self.servers.contender_rests(key, &self.clients);
        self.servers.of_mut(key).sharing.remove(key);
        if self.servers[key].holder.is_none() {
            self.free_backend(key);
        }
    }

    /// A client's session and the backend on which its statement has run.
    pub(super) fn session_on(&mut self, key: BackendKey, own: ClientKey) -> SessionOnBackend<'_> {
        let Self { clients, servers, sessions, client_memory, .. } = self;
        SessionOnBackend { own, client: &mut clients[own], key, servers, sessions, client_memory }
    }

    /// Clients whose reads run together.
    pub(crate) fn coalescing(&mut self) -> Coalescing<'_> {
        let Self { now, settings, pool, logins, sessions, scheduling, clients, client_memory, .. } = self;
        let parties = Parties::new(*now, settings, pool, logins, sessions);
        let (servers, outbox) = (&mut self.servers, &mut self.io.outbox);
        Coalescing { parties, scheduling, clients, client_memory, servers, outbox }
    }

    /// A statement that has run for too long is about to be ended: the others that wait for its answer are told so.
    pub(crate) fn end_group(&mut self, backend_key: BackendKey, error: &MySqlError) {
        for follower in self.servers.followers_behind(backend_key, &self.clients) {
            self.cancel_queued(follower, error);
        }
    }

    /// The request of a follower that is answered with the leader, its wait counted.
    fn take_answered(&mut self, key: ClientKey) -> Option<Box<Request>> {
        self.coalescing().count_wait(key);
        self.take_request(key)
    }

    /// The reply to a group's statement is complete.
    pub(crate) fn group_ended(
        &mut self,
        key: BackendKey,
        leader: ClientKey,
        statement: &mut InFlight,
        group: Box<Group>,
    ) {
        let followers = followers_of(&self.clients, &group);
        if statement.summary.prelude_failed {
            self.client_statement_ended(key, leader, RequestKind::Query, statement);
            // What failed for the leader would have failed for each of them.
            for follower in followers {
                if let Some(request) = self.take_answered(follower) {
                    self.prelude_failed(key, follower, &request, &statement.summary);
                }
            }
        } else if statement.summary.preludes_done < statement.preludes {
            self.statement_lost(leader, false);
            self.group_lost(&group);
            self.close_backend(key, "the server lost a part of a text of several statements");
        } else {
            for &member in std::iter::once(&leader).chain(&followers) {
                self.io.outbox.send(self.clients[member].connection, &group.reply);
            }
            self.client_statement_ended(key, leader, RequestKind::Query, statement);
            self.followers_answered(key, leader, statement, group, &followers);
        }
    }

    /// Gives each follower the statement's aftermath. Its warnings are being asked for where the leader asks for its own.
    fn followers_answered(
        &mut self,
        key: BackendKey,
        leader: ClientKey,
        statement: &mut InFlight,
        mut group: Box<Group>,
        followers: &[ClientKey],
    ) {
        let count = followers.len() as u64;
        self.scheduling.digests.record_coalesced(statement.fingerprint, count);
        self.views.totals.coalesced += count;
        // In case that the warnings cannot be had.
        statement.shared = true;
        for &follower in followers {
            let Some(request) = self.take_answered(follower) else { continue };
            if let Some(status) = statement.summary.status {
                let about_statement = [
                    StatusFlags::MORE_RESULTS_EXISTS,
                    StatusFlags::SESSION_STATE_CHANGED,
                    // The backend's, should a function in a view have opened one: its backend is closed then.
                    StatusFlags::IN_TRANS,
                ];
                self.clients[follower].session.status =
                    about_statement.into_iter().fold(status, StatusFlags::without);
            }
            self.note_aftermath(key, follower, &request, statement);
        }
        let backend = self.servers.get_mut(key).filter(|_| !followers.is_empty());
        let asks = backend.and_then(|backend| backend.in_flight.back_mut());
        match asks.filter(|last| last.owner == Owner::SaveDiagnostics { client: leader }) {
            Some(asks) => {
                group.reply = Vec::new();
                asks.group = Some(group);
            }
            None => {
                for &follower in followers {
                    self.follower_rests(follower);
                }
            }
        }
    }

    /// The server's answer to SHOW WARNINGS after a group's statement, which is the followers' too.
    pub(crate) fn share_diagnostics(&mut self, leader: ClientKey, group: &Group) {
        let saved = self.clients.get(leader).map(|leader| leader.session.aftermath.diagnostics.clone());
        for follower in followers_of(&self.clients, group) {
            if let Some(saved @ (Diagnostics::Saved { .. } | Diagnostics::Counted { .. })) = &saved {
                self.keep_diagnostics(follower, saved.clone());
            }
            self.follower_rests(follower);
        }
    }

    /// The backend was lost in the middle of it, or is not to be trusted. Whether the statement ran, nobody knows.
    pub(crate) fn group_lost(&mut self, group: &Group) {
        for follower in followers_of(&self.clients, group) {
            match self.clients[follower].request.is_some() {
                true => {
                    self.coalescing().count_wait(follower);
                    self.statement_lost(follower, false);
                }
                // It has had its answer, and waited for the warnings.
                false => self.follower_rests(follower),
            }
        }
    }

    fn follower_rests(&mut self, key: ClientKey) {
        let client = &mut self.clients[key];
        client.end_statement();
        client.activity.last_heard = self.now;
        self.resume.push(key);
        self.drain_client(key);
    }
}
