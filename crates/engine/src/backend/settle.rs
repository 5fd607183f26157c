//! What the end of an answer means: for the client's session state, for its next statement, and for its backend.

use std::time::Duration;

use sql::{Effects, TransactionCommand};
use wire::{CommandKind, Expect, StatusFlags};

use super::own_answers::rows_of;
use super::pool::behind_pins;
use super::{Afterwards, InFlight, Owner, Summary};
use crate::client::Phase;
use crate::client::priority::Priority;
use crate::client::variables::VariablesBehind;
use crate::control::facts::Facts;
use crate::engine::Engine;
use crate::ids::{BackendKey, ClientKey};
use crate::learned::digests::Execution;
use crate::learned::history::Left;
use crate::outside::named::ClosedFor;
use crate::request::{Request, RequestKind};
use crate::session::aftermath::{ASK_FOUND_ROWS, ASK_INSERT_ID, Diagnostics, InsertId, List, OF_SQL_MODE};
use crate::session::pins::Pins;
use crate::session::unreported::cannot_wait;
use crate::session::{Charset, SessionState};
use crate::stored_code::Hidden;
use crate::workers::letter::Letter;

/// ER_BAD_DB_ERROR and ER_DBACCESS_DENIED_ERROR: the schema was dropped, or the right to it taken. The client hears it once and
/// then has none, so that it can choose another.
const SCHEMA_GONE: [u16; 2] = [1049, 1044];

/// Effects of statements of which one may have several results.
const ANSWERS_OFTEN: Effects = Effects::ROUTINE.union(Effects::TEXT_PREPARE).union(Effects::UNKNOWN);

/// ER_QUERY_INTERRUPTED, MariaDB's ER_STATEMENT_TIMEOUT, MySQL's ER_QUERY_TIMEOUT and ER_USER_LIMIT_REACHED: a KILL QUERY or a limit
/// hit what went ahead of the statement.
const INTERRUPTED: [u16; 4] = [1317, 1969, 3024, 1226];

impl Engine {
    pub(crate) fn client_statement_ended(
        &mut self,
        key: BackendKey,
        client: ClientKey,
        command: RequestKind,
        statement: &mut InFlight,
    ) {
        let Some(mut request) = self.take_request(client) else { return };
        let summary = &mut statement.summary;
        self.answer_as_seen(client, &mut request, summary);
        if command == RequestKind::Prepare {
            let Some(ended) = self.prepare_ended(key, client, request, summary) else { return };
            request = ended;
        }
        let preludes = statement.preludes;
        if summary.prelude_failed {
            return self.prelude_failed(key, client, &request, summary);
        }
        if preludes > 0 {
            if summary.preludes_done < preludes {
                return self.close_backend(key, "the server lost a part of a text of several statements");
            }
            self.preludes_stand(key, client, statement, statement.chooses_schema);
        }
        self.servers[key].variables_stand(&self.clients[client], &request);
        let summary = &mut statement.summary;
        if request.was_taken_for_one(summary) {
            // A lexer's mistake: nobody knows what the others of its statements have left.
            request.statement.several = true;
            request.statement.effects |= Effects::UNKNOWN;
        }
        if let Some(priority) = request.changes.priority.filter(|_| summary.error.is_none()) {
            let full = self.scheduling.scheduler.full_tickets();
            self.clients[client].take_priority(priority, full);
        }
        let (server, defines) = (self.servers.of_mut(key), statement.code_change.is_some());
        server.note_hidden_code_at_end(&self.pool, key, &mut request, defines);
        // What it defines is there by now, or will not be.
        self.sessions.definition_answered(&self.clients[client], &request, statement);
        let summary = &mut statement.summary;
        match &summary.error {
            Some(_) => self.session_on(key, client).note_failed(&request),
            None if request.changes.globals => {
                // Every worker looks without waiting for `accounts_refresh`.
                self.servers.defaults_are_wanted();
                self.pool.write_to_others(&Letter::DefaultsChanged);
            }
            None => {}
        }
        let before = self.sessions.state_to_remember(&self.clients[client], &request);
        let unexplained = self.session_on(key, client).take_in_changes(&request, summary);
        if request.resets_session() && summary.error.is_none() {
            return self.client_was_reset(key, client, &mut request, summary);
        }
        if let Some(about) = &request.about {
            self.note_cursor(key, client, about, summary);
        }
        let mut pins = self.pins_of(client, &request);
        if unexplained {
            pins |= Pins::STATE_CHANGE;
        }
        self.note_state(key, client, &request, pins, summary);
        self.note_ended(client, &request);
        self.note_aftermath(key, client, &request, statement);
        if let Some(before) = before {
            let (state, summary) = (&self.clients[client], &statement.summary);
            self.sessions.remember_answer(state, &mut request, before, summary);
        }
        if statement.summary.error.is_none() && self.ends_connection(client, &request) {
            self.servers[key].afterwards = Afterwards::Close;
            self.drop_client(client);
        } else if command == RequestKind::LoginSchema {
            self.login_schema_checked(key, client, &request, &statement.summary);
        } else {
            self.settle(key, client, statement.summary.error.is_some());
        }
        if let Some(about) = &request.about {
            self.drop_doubtful(key, about, &statement.summary);
        }
    }

    /// What a statement that pins for these reasons has changed of its client's variables, pins and status.
    fn note_state(
        &mut self,
        key: BackendKey,
        client: ClientKey,
        request: &Request,
        mut pins: Pins,
        summary: &Summary,
    ) {
        let (state, failed) = (&mut self.clients[client], summary.error.is_some());
        match state.note_variables(&mut self.servers[key], &self.sessions.states, request, failed) {
            VariablesBehind::Same => {}
            VariablesBehind::Set => self.client_memory.count_session(client, state),
            VariablesBehind::Unknown => pins |= Effects::USER_VARIABLE.into(),
        }
        if state.note_pins(&self.sessions.states, &mut self.views.pin_counts, request, pins, summary) {
            self.client_memory.count_session(client, state);
        }
        self.note_status(client, request, summary);
        let (state, counts) = (&mut self.clients[client], &mut self.views.pin_counts);
        state.note_metadata_locks(self.servers.primary(), counts, request);
    }

    /// An answer that was held to its end goes to its client, as that is to see it. What its statement counts for stands before.
    fn answer_as_seen(&mut self, client: ClientKey, request: &mut Request, summary: &mut Summary) {
        if !summary.prelude_failed {
            self.clients[client].count_ended(request, summary);
        }
        let whole = summary.has_kept_all() && !summary.prelude_failed;
        if let Some(held) = request.held.take().filter(|_| whole) {
            let state = &mut self.clients[client];
            let seen = state.answer_as_seen(&self.pool, held, summary.error.is_some(), &summary.kept);
            self.io.outbox.send(state.connection, &seen);
        } else if request.kills.is_some() && whole {
            self.answer_kill(client, request.answer, summary);
        }
    }

    /// What the server says of the session in its answer: the flags that are about more than the answer itself.
    fn note_status(&mut self, client: ClientKey, request: &Request, summary: &Summary) {
        let Some(status) = summary.status else { return };
        let status =
            status.without(StatusFlags::MORE_RESULTS_EXISTS).without(StatusFlags::SESSION_STATE_CHANGED);
        // What it says of sql_mode was true for the statement alone.
        let own = if request.statement.sets_for_itself { OF_SQL_MODE } else { 0 };
        let state = &mut self.clients[client];
        state.session.status = StatusFlags((status.0 & !own) | (state.session.status.0 & own));
    }

    /// What went ahead of a statement has been done: its BEGIN, the clearing of what others have left, the session state. The
    /// state's schema does not stand where the statement was about to choose another.
    fn preludes_stand(
        &mut self,
        key: BackendKey,
        client: ClientKey,
        statement: &InFlight,
        chooses_schema: bool,
    ) {
        let effects = statement.prelude_effects;
        if effects.schema {
            // Also where the schema was there before: USE takes up its rights anew.
            self.servers.of_mut(key).note_rights_taken_up(key);
        }
        if effects.begin {
            self.clients[client].transaction_started();
        }
        if effects.clear {
            self.servers[key].diagnostics_area_is_cleared(self.clients[client].id);
        }
        self.state_stands(key, client, effects.set_insert_id, chooses_schema);
    }

    fn state_stands(&mut self, key: BackendKey, client: ClientKey, insert_id: bool, without_schema: bool) {
        let mut session = self.clients[client].session.id.expect("a client with requests has logged in");
        self.sessions.states.hold_again(session);
        if without_schema {
            let schema = self.sessions.states.state(self.servers[key].session.id).schema.clone();
            let state = SessionState { schema, ..self.sessions.states.state(session).clone() };
            self.sessions.states.release(session);
            session = self.sessions.states.hold(state);
        }
        self.servers.set_backend_session(key, session, &mut self.sessions.states);
        self.sessions.states.release(session);
        self.servers[key].session.trackers = true;
        if insert_id {
            // It has to be 0 again before anybody else gets the backend.
            let aftermath = &mut self.clients[client].session.aftermath;
            aftermath.insert_id_at = Some(key);
            aftermath.insert_id = InsertId::Unsure { reported: 0 };
        }
    }

    /// What went ahead of a statement has failed: the client hears why, and the backend's state is anybody's guess.
    pub(crate) fn prelude_failed(
        &mut self,
        key: BackendKey,
        client: ClientKey,
        request: &Request,
        summary: &Summary,
    ) {
        let error = summary.error.clone().expect("a failure has an error");
        self.servers[key].afterwards = Afterwards::Close;
        self.answer_server_error(client, request, &error);
        let Some(state) = self.clients.get(client) else { return };
        if state.loss.killed {
            return self.close_client(client, ClosedFor::Killed, "killed");
        }
        if self.is_reader() {
            // The session state is the primary's affair, and the statement has not run.
            return self.let_go(key, client);
        }
        if state.in_transaction() || !state.session.pins.is_empty() {
            return self.close_client(
                client,
                ClosedFor::BackendLost,
                "its session state or transaction was lost",
            );
        }
        let session = state.session.id.expect("a client with requests has logged in");
        let mut without = self.sessions.states.state(session).clone();
        if SCHEMA_GONE.contains(&error.code) {
            without.schema = None;
        } else if !INTERRUPTED.contains(&error.code) && !without.forget_named(&error.message) {
            return self.close_client(
                client,
                ClosedFor::BackendLost,
                "its session state cannot be set again",
            );
        }
        self.clients[client].session.id = Some(self.sessions.states.hold(without));
        self.sessions.states.release(session);
        self.let_go(key, client);
    }

    /// The client's state was sent apart; now its statement may follow.
    pub(crate) fn state_applied(&mut self, key: BackendKey, client: ClientKey, statement: &InFlight) {
        if statement.summary.error.is_some() {
            let Some(request) = self.take_request(client) else { return };
            return self.prelude_failed(key, client, &request, &statement.summary);
        }
        if self.clients[client].loss.killed {
            return self.close_client(client, ClosedFor::Killed, "killed");
        }
        let chooses_schema =
            self.clients[client].request.as_ref().is_some_and(|request| request.chooses_schema());
        self.preludes_stand(key, client, statement, chooses_schema);
        if let Some(request) = self.client_memory.lift_request(&mut self.clients[client]) {
            self.servers[key].variables_stand(&self.clients[client], &request);
            self.client_memory.put_request_back(&mut self.clients[client], request);
        }
        self.send_request(client, key);
    }

    /// COM_RESET_CONNECTION went through to the client's backend: both are as after a login.
    fn client_was_reset(
        &mut self,
        key: BackendKey,
        client: ClientKey,
        request: &mut Request,
        summary: &Summary,
    ) {
        let pins = self.clients[client].session.pins;
        self.forget_state(client);
        self.backend_was_reset(key, summary);
        // What is left in spite of that is for nobody else; the role is as it was, and the client's.
        let backend = &mut self.servers[key];
        if behind_pins(pins) == Afterwards::Close {
            backend.afterwards = Afterwards::Close;
        }
        self.clients[client].session.pins = pins.effects().intersection(Effects::ROLE).into();
        if self.settings.thread_handling == crate::ThreadHandling::OneThreadPerConnection {
            self.clients[client].session.pins |= Pins::THREAD_HANDLING;
        }
        self.settle(key, client, false);
        if let Some(attempt) = request.changes.becomes.take().filter(|_| self.clients.contains(client)) {
            self.become_user(client, attempt);
        }
    }

    pub(crate) fn backend_was_reset(&mut self, key: BackendKey, summary: &Summary) {
        if summary.error.is_some() {
            return self.close_backend(key, "it could not be reset");
        }
        // Where there are none, there is nothing to turn on again.
        let has_none = self.servers.of(key).facts.as_ref().is_some_and(|facts| !facts.has_trackers());
        let backend = &mut self.servers[key];
        backend.session.trackers = has_none;
        backend.session.variables = None;
        backend.session.wait_timeout = None;
        backend.session.failed = Hidden::NOTHING;
        let charset = backend.login.charset.clone();
        // MySQL brings back the global character sets instead of the login's: which, nobody says, so all are set again.
        let charset = if self.servers.of(key).facts.as_ref().is_some_and(Facts::is_mariadb) {
            charset
        } else {
            Charset::default()
        };
        // It is in its schema still, but the character set of that has gone (`THD::init` of both servers), until the next USE: an
        // empty name has one go ahead of whoever's statement is next.
        let schema =
            self.sessions.states.state(self.servers[key].session.id).schema.as_ref().map(|_| Box::default());
        let session = self.sessions.states.hold(SessionState { schema, charset, ..SessionState::default() });
        self.sessions.states.release(std::mem::replace(&mut self.servers[key].session.id, session));
        self.forget_prepared(key);
    }

    fn login_schema_checked(
        &mut self,
        key: BackendKey,
        client: ClientKey,
        request: &Request,
        summary: &Summary,
    ) {
        if let Some(error) = &summary.error {
            return self.answer_server_error(client, request, error);
        }
        self.logins.remember_schema(self.now, &self.clients[client], &self.sessions.states);
        self.answer_login(client, self.clients[client].login.sequence);
        self.schema_allowed(client);
        self.settle(key, client, false);
    }

    /// After the answer: keep the backend, save what it knows, or let it go.
    pub(crate) fn settle(&mut self, key: BackendKey, client: ClientKey, error: bool) {
        let state = &mut self.clients[client];
        if state.loss.killed {
            return self.close_client(client, ClosedFor::Killed, "killed");
        }
        let in_transaction = state.in_transaction();
        let shared = self.servers[key].holder != Some(client);
        // Nobody has known that its id would have to stand there.
        let asks_id = matches!(state.session.aftermath.insert_id, InsertId::Unsure { .. })
            && state.session.aftermath.insert_id_at != Some(key);
        let on_backend = matches!(state.session.aftermath.diagnostics, Diagnostics::OnBackend { .. });
        if !shared && !state.session.pins.is_empty() {
            let has_to_ask = cannot_wait(&state.session.unreported) || asks_id;
            if !error && has_to_ask && on_backend {
                return self.save_diagnostics(key, client);
            }
            if !error && cannot_wait(&state.session.unreported) {
                state.settle();
                self.ask_unreported(key, client);
                return;
            }
            return match error {
                true => self.ask_status(key, client),
                false if asks_id => self.ask_insert_id(key, client),
                false => self.hold_on(client),
            };
        }
        // After an error nobody has said whether the transaction is still open: the answer to SHOW WARNINGS does.
        // In a transaction they stay there, unless a question of ours would take their place.
        let ask = error || !in_transaction || asks_id || state.session.unreported.is_some();
        if !shared && ask && on_backend {
            return self.save_diagnostics(key, client);
        }
        if !shared && state.session.unreported.is_some() {
            state.settle();
            self.ask_unreported(key, client);
            return;
        }
        if !shared && in_transaction && !asks_id {
            return self.hold_on(client);
        }
        let unknown = state.session.aftermath.insert_id != InsertId::Known
            || state.session.aftermath.found_rows.is_none();
        if !shared && unknown {
            return self.ask_insert_id(key, client);
        }
        if in_transaction || !state.session.pins.is_empty() || state.session.unreported.is_some() {
            // A read that others shared has opened a transaction after all, or a view that it names has called what changes the session:
            // nobody else may fall into that. What is not in the session state is lost to the client, too.
            state.session.pins = Pins::NONE;
            state.session.unreported = None;
            self.servers[key].afterwards = Afterwards::Close;
        }
        self.let_go(key, client);
    }

    /// Asks the backend for the diagnostics of the client's last statement.
    fn save_diagnostics(&mut self, key: BackendKey, client: ClientKey) {
        self.clients[client].settle();
        let owner = Owner::SaveDiagnostics { client };
        self.send_own(key, owner, CommandKind::Query, b"SHOW WARNINGS", Expect::ResultSets, 0);
    }

    /// Asks the backend for LAST_INSERT_ID(), and for FOUND_ROWS() where nobody else knows it.
    fn ask_insert_id(&mut self, key: BackendKey, client: ClientKey) {
        let state = &mut self.clients[client];
        state.settle();
        let text = if state.session.aftermath.found_rows.is_none() { ASK_FOUND_ROWS } else { ASK_INSERT_ID };
        self.send_own(key, Owner::SaveInsertId { client }, CommandKind::Query, text, Expect::ResultSets, 0);
    }

    fn hold_on(&mut self, client: ClientKey) {
        let now = self.now;
        let state = &mut self.clients[client];
        state.end_statement();
        state.activity.last_heard = now;
        self.resume.push(client);
        self.clients.server_keeps_up(client, &mut self.io.outbox);
        self.drain_client(client);
    }

    /// The client needs its backend no more.
    pub(crate) fn let_go(&mut self, key: BackendKey, client: ClientKey) {
        if self.servers[key].holder == Some(client) {
            self.servers[key].holder = None;
        }
        let now = self.now;
        let Some(state) = self.clients.get_mut(client) else { return };
        state.activity.last_heard = now;
        state.backend = None;
        state.transaction.blocks_others = false;
        state.session.aftermath.insert_id_at = None;
        state.end_statement();
        self.resume.push(client);
        self.clients.server_keeps_up(client, &mut self.io.outbox);
        self.drain_client(client);
    }

    pub(crate) fn diagnostics_saved(&mut self, key: BackendKey, client: ClientKey, summary: &mut Summary) {
        let state = &mut self.clients[client];
        let sql_state = state.session.aftermath.diagnostics.sql_state();
        let (warnings, errors) = state.session.aftermath.diagnostics.counts();
        let whole = summary.error.is_none() && summary.has_kept_all();
        if whole {
            let reply = std::mem::take(&mut summary.kept).into_boxed_slice();
            // max_error_count bounds what is kept, not what is counted; an error packet tells of one condition.
            let warnings =
                warnings.max(summary.counts.rows.map_or(0, |rows| u16::try_from(rows).unwrap_or(u16::MAX)));
            let errors = errors.max(crate::session::aftermath::errors_in(&reply));
            self.keep_diagnostics(
                client,
                Diagnostics::Saved { warnings, errors, sql_state, reply: List::new(reply) },
            );
        } else {
            state.session.aftermath.diagnostics = Diagnostics::Counted { warnings, errors };
            if summary.error.is_some() {
                // Killed, most likely: nobody has said whether a transaction is open.
                self.servers[key].afterwards = Afterwards::Close;
            }
        }
        let in_doubt = self.clients[client].session.unreported.as_deref().cloned().unwrap_or_default();
        self.session_on(key, client).take_in_rest(&in_doubt, summary);
        self.settle(key, client, false);
    }

    pub(crate) fn insert_id_saved(&mut self, key: BackendKey, client: ClientKey, summary: &Summary) {
        let row = rows_of(&summary.kept).into_iter().next().unwrap_or_default();
        let number = |field: Option<&Option<Vec<u8>>>| -> Option<u64> {
            std::str::from_utf8(field?.as_deref()?).ok()?.parse().ok()
        };
        let aftermath = &mut self.clients[client].session.aftermath;
        aftermath.found_rows = number(row.get(2)).or(aftermath.found_rows).or(Some(0));
        match number(row.first()) {
            Some(value) => aftermath.insert_id_told(value),
            None => {
                // Killed, most likely: nobody may find the id there.
                aftermath.insert_id_lost();
                self.servers[key].afterwards = Afterwards::Close;
            }
        }
        self.settle(key, client, false);
    }

    /// Asks how a transaction stands behind an error. A ping leaves all else on the backend as it is, FOUND_ROWS() included.
    pub(crate) fn ask_status(&mut self, key: BackendKey, client: ClientKey) {
        self.clients[client].settle();
        self.send_own(key, Owner::ReadStatus { client }, CommandKind::Ping, b"", Expect::Simple, 0);
    }

    /// Asks a client's backend for what is in doubt.
    pub(crate) fn ask_unreported(&mut self, key: BackendKey, client: ClientKey) {
        if let Some(text) = self.session_on(key, client).question() {
            let owner = Owner::ReadVariables { client };
            self.send_own(key, owner, CommandKind::Query, &text, Expect::ResultSets, 0);
        }
    }

    /// The server has said how a transaction stands behind an error.
    pub(super) fn status_told(&mut self, key: BackendKey, client: ClientKey, summary: &mut Summary) {
        if summary.error.is_some() {
            // Killed, most likely: nobody has said whether a transaction is open.
            self.servers[key].afterwards = Afterwards::Close;
        }
        let in_doubt = self.clients[client].session.unreported.as_deref().cloned().unwrap_or_default();
        self.session_on(key, client).take_in_rest(&in_doubt, summary);
        self.settle(key, client, false);
    }

    /// The server has said what a client's session variables are that only it knows.
    pub(super) fn unreported_answered(&mut self, key: BackendKey, client: ClientKey, summary: &mut Summary) {
        self.session_on(key, client).take_in_answer(summary);
        if matches!(self.clients[client].phase(), Phase::Settling) {
            return self.settle(key, client, false);
        }
        if self.clients[client].loss.killed {
            return self.close_client(client, ClosedFor::Killed, "killed");
        }
        self.send_request(client, key);
    }

    /// What the next statement of this kind may be trusted with.
    pub(crate) fn note_history(&mut self, statement: &InFlight, took: Duration) {
        // What went ahead of it has failed: it did not run.
        if statement.fingerprint == 0 || statement.summary.prelude_failed {
            return;
        }
        let summary = &statement.summary;
        self.count_execution(statement, took, summary.error.is_some());
        let left = match summary.warnings {
            1.. => Left::Warnings,
            0 if summary.error.is_some() || !summary.changes.is_empty() => Left::Something,
            0 => Left::Nothing,
        };
        self.scheduling.history.record(statement.fingerprint, took, summary.relayed, left);
    }

    /// Counts an execution under its digest.
    pub(crate) fn count_execution(&mut self, statement: &InFlight, time: Duration, error: bool) {
        let execution = Execution {
            fingerprint: statement.fingerprint,
            time,
            waited: statement.waited,
            rows_sent: statement.summary.counts.sent,
            rows_affected: statement.summary.counts.changed,
            error,
            round_trip: self.pool.workers.way.round_trip(),
            few: self.pool.workers.are_permits_free(),
        };
        let digest = self.scheduling.digests.record(self.now, &execution);
        if self.pool.workers.measures_limits() {
            self.scheduling.served.add(statement.fingerprint, digest.mean());
        }
    }

    /// The client's session state becomes that behind a reset: a fresh login's, its schema aside.
    pub(crate) fn forget_state(&mut self, client: ClientKey) {
        self.forget_statements(client);
        self.clients[client].transaction.unstarted = None;
        let facts = self.servers.primary().facts.as_ref().expect("nobody logs in before the server is known");
        let state = &mut self.clients[client];
        let charset = facts.charset_of_reset(state.login.collation);
        state.session.reset(facts.fresh_status());
        self.client_memory.sessions.give_back(&mut state.memory.session);
        state.priority = Priority::default();
        let Some(session) = state.session.id else { return };
        let schema = self.sessions.states.state(session).schema.clone();
        let fresh = self.sessions.states.hold(SessionState { schema, charset, ..SessionState::default() });
        self.sessions.states.release(session);
        self.clients[client].session.id = Some(fresh);
    }
}

impl Engine {
    /// Whether the server closes the connection behind a statement that has succeeded.
    fn ends_connection(&self, client: ClientKey, request: &Request) -> bool {
        let session = self.clients[client].session.id.map(|session| self.sessions.states.state(session));
        let plain_end = matches!(
            request.statement.transaction,
            Some(TransactionCommand::Commit | TransactionCommand::Rollback)
        );
        request.statement.releases_connection
            || (plain_end && session.is_some_and(SessionState::ends_with_transactions))
    }
}

impl Request {
    /// A text of one statement, as far as the lexer could tell, has had the answers of several.
    fn was_taken_for_one(&self, summary: &Summary) -> bool {
        self.command == RequestKind::Query
            && !self.statement.several
            && self.statement.effects.intersection(ANSWERS_OFTEN).is_empty()
            && summary.answers() > 1 + u32::from(self.statement.comment_at_end)
    }
}
