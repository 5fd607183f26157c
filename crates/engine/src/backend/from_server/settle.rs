//! The consequences of an answer's end: for the client's session state, for its next statement, and for its backend. And the consequences
//! for a client where its backend is lost.

use sql::Effects;
use wire::{CommandKind, Expect};

use crate::backend::pool::cleaning::behind_pins;
use crate::backend::to_server::preparing::{Prepared, PreparedAgain};
use crate::backend::{Afterwards, InFlight, Owner, Summary};
use crate::client::Phase;
use crate::client::backend_lost::{AfterLoss, Hears};
use crate::client::commands::prepared::PreparedStatements;
use crate::client::session::priority::Priority;
use crate::client::session::variables::VariablesBehind;
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::ids::{BackendKey, ClientKey};
use crate::outside::named::ClosedFor;
use crate::request::{Request, RequestKind};
use crate::session::SessionState;
use crate::session::aftermath::{ASK_FOUND_ROWS, ASK_INSERT_ID, Diagnostics, List};
use crate::session::pins::Pins;
use crate::workers::letter::Letter;

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
            self.session_on(key, client).preludes_stand(statement, statement.chooses_schema);
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
            self.prepared().note_cursor(key, client, about, summary);
        }
        let (state, sessions) = (&self.clients[client], &self.sessions.states);
        let mut pins = state.pins_of(&request, &self.settings, &self.servers, sessions);
        pins |= if unexplained { Pins::STATE_CHANGE } else { Pins::NONE };
        self.note_state(key, client, &request, pins, summary);
        self.clients[client].note_ended(self.now, &request);
        self.answers().note_aftermath(key, client, &request, statement);
        if let Some(before) = before {
            let (state, summary) = (&self.clients[client], &statement.summary);
            self.sessions.remember_answer(state, &mut request, before, summary);
        }
        let ends = self.clients[client].ends_connection(&self.sessions.states, &request);
        if statement.summary.error.is_none() && ends {
            self.servers[key].afterwards = Afterwards::Close;
            self.drop_client(client);
        } else if command == RequestKind::LoginSchema {
            self.login_schema_checked(key, client, &request, &statement.summary);
        } else {
            self.settle(key, client, statement.summary.error.is_some());
        }
        if let Some(about) = &request.about {
            self.prepared().drop_doubtful(key, about, &statement.summary);
        }
    }

    /// Borrows the statements that clients have prepared, on the server and on backends.
    pub(crate) fn prepared(&mut self) -> PreparedStatements<'_> {
        let Self { now, settings, pool, clients, sessions, servers, client_memory, views, .. } = self;
        let now = *now;
        PreparedStatements { now, settings, pool, clients, sessions, servers, client_memory, views }
    }

    /// Goes on behind the session state of a definition, which was sent: the definition may be prepared now.
    pub(crate) fn definition_state_applied(
        &mut self,
        key: BackendKey,
        client: ClientKey,
        statement: &InFlight,
    ) {
        if statement.summary.error.is_none() {
            if self.clients[client].loss.killed {
                return self.close_client(client, ClosedFor::Killed, "killed");
            }
            if self.prepared().state_of_definition_stands(key, client) {
                self.send_request(client, key);
            }
            return;
        }
        let Some(state) = self.prepared().refused_schema(key, client, &statement.summary) else {
            // The backend's state is anybody's guess now, and so is what the client held there.
            let Some(request) = self.take_request(client) else { return };
            return self.preparation_lost(key, client, &request, &statement.summary);
        };
        // The execution fails with the server's reason; nothing of the client's is lost.
        if self.clients[client].loss.killed {
            return self.close_client(client, ClosedFor::Killed, "killed");
        }
        self.prepared().state_stands(key, state);
        self.execution_refused(key, client, statement);
    }

    /// Goes on behind a preparation ahead of an execution, done or not.
    pub(crate) fn prepared_ahead(&mut self, key: BackendKey, client: ClientKey, statement: &InFlight) {
        match self.prepared().prepared_again(key, client, &statement.summary) {
            PreparedAgain::GoesOn => {}
            PreparedAgain::Refused => return self.execution_refused(key, client, statement),
            PreparedAgain::Waits | PreparedAgain::Unwanted => return,
            PreparedAgain::Unsaid => {
                self.statement_lost(client, false);
                return self.close_backend(key, "it prepared a statement and did not say which");
            }
        }
        if self.clients[client].loss.killed {
            return self.close_client(client, ClosedFor::Killed, "killed");
        }
        self.send_request(client, key);
    }

    /// Fails an execution with the server's reason, since its statement could not be prepared again.
    fn execution_refused(&mut self, key: BackendKey, client: ClientKey, statement: &InFlight) {
        let Some(request) = self.take_request(client) else { return };
        let error = statement.summary.error.clone().expect("a refusal has an error");
        self.answer_server_error(client, &request, &error);
        self.clients[client].note_ended(self.now, &request);
        self.answers().note_aftermath(key, client, &request, statement);
        self.settle(key, client, true);
    }

    /// Fails an execution, since a step ahead of its preparation has failed.
    fn preparation_lost(&mut self, key: BackendKey, client: ClientKey, request: &Request, summary: &Summary) {
        let error = summary.error.clone().expect("a failure has an error");
        self.servers[key].afterwards = Afterwards::Close;
        self.answer_server_error(client, request, &error);
        let Some(state) = self.clients.get(client) else { return };
        if state.loss.killed || state.in_transaction() || !state.session.pins().is_empty() {
            let why = "its session state or transaction was lost";
            return self.close_client(client, ClosedFor::BackendLost, why);
        }
        self.let_go(key, client);
    }

    /// Sends a client the answer to its own COM_STMT_PREPARE. `None` where the command is not over, since the server had no room.
    fn prepare_ended(
        &mut self,
        key: BackendKey,
        client: ClientKey,
        mut request: Box<Request>,
        summary: &mut Summary,
    ) -> Option<Box<Request>> {
        let prepared = self.prepared().answer_to_prepare(key, client, &mut request, summary);
        if let Prepared::Ended(answer) = prepared {
            self.io.outbox.send(self.clients[client].connection, &answer);
            return Some(request);
        }
        self.client_memory.put_request_back(&mut self.clients[client], request);
        if matches!(prepared, Prepared::Waits) {
            self.prepared().wait_for_room(key, client);
        } else {
            self.clients[client].try_again();
            self.send_request(client, key);
        }
        None
    }

    /// Notes that a client has closed a statement, and with it perhaps its last cursor: then it needs its backend no more.
    pub(crate) fn cursor_closed_between_statements(&mut self, client: ClientKey) {
        self.prepared().note_cursors(client);
        let Some(key) = self.clients[client].backend else { return };
        if self.clients[client].session.pins().is_empty() && self.servers[key].in_flight.is_empty() {
            self.settle(key, client, false);
            self.backend_rests(key);
        }
    }

    /// Notes the changes of a client's variables, pins and status by a statement that pins for these reasons.
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
        self.clients[client].note_status(request, summary);
        let (state, counts) = (&mut self.clients[client], &mut self.views.pin_counts);
        state.note_metadata_locks(self.servers.primary(), counts, request);
    }

    /// Sends a client the answer that was held to its end, as the client is to see it. The statement is counted before.
    fn answer_as_seen(&mut self, client: ClientKey, request: &mut Request, summary: &mut Summary) {
        if !summary.prelude_failed {
            self.clients[client].count_ended(request, summary);
        }
        let whole = summary.has_kept_all() && !summary.prelude_failed;
        if let Some(held) = request.held_for.take().filter(|_| whole) {
            let state = &mut self.clients[client];
            let seen = state.answer_as_seen(&self.pool, held, summary.error.is_some(), &summary.kept_answer);
            self.io.outbox.send(state.connection, &seen);
        } else if request.kills.is_some() && whole {
            self.answer_kill(client, request.answer, summary);
        }
    }

    /// Tells the client why a prelude has failed. The backend's state is anybody's guess then.
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
        if state.in_transaction() || !state.session.pins().is_empty() {
            return self.close_client(
                client,
                ClosedFor::BackendLost,
                "its session state or transaction was lost",
            );
        }
        let session = state.session.id().expect("a client with requests has logged in");
        let Some(without) = self.sessions.states.state(session).without_refused(&error) else {
            let reason = "its session state cannot be set again";
            return self.close_client(client, ClosedFor::BackendLost, reason);
        };
        let without = self.sessions.states.hold(without);
        self.clients[client].session.becomes(without, &mut self.sessions.states);
        self.let_go(key, client);
    }

    /// Goes on behind the client's session state, which was sent apart: its statement may follow.
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
        self.session_on(key, client).preludes_stand(statement, chooses_schema);
        if let Some(request) = self.client_memory.lift_request(&mut self.clients[client]) {
            self.servers[key].variables_stand(&self.clients[client], &request);
            self.client_memory.put_request_back(&mut self.clients[client], request);
        }
        self.send_request(client, key);
    }

    /// Notes that COM_RESET_CONNECTION went through to the client's backend: both are as after a login.
    fn client_was_reset(
        &mut self,
        key: BackendKey,
        client: ClientKey,
        request: &mut Request,
        summary: &Summary,
    ) {
        let pins = self.clients[client].session.pins();
        self.forget_state(client);
        self.backend_was_reset(key, summary);
        // What is left in spite of that is for nobody else; the role is as it was, and the client's.
        let backend = &mut self.servers[key];
        if behind_pins(pins) == Afterwards::Close {
            backend.afterwards = Afterwards::Close;
        }
        self.clients[client].session.keeps_role_of(pins);
        if self.settings.thread_handling == crate::ThreadHandling::OneThreadPerConnection {
            self.clients[client].session.pinned_for(Pins::THREAD_HANDLING);
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
        self.servers.session_was_reset(key, &mut self.sessions.states);
        self.servers.forget_prepared_on(key, &mut self.sessions, &mut self.pool);
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
        self.logins.schemas.is_allowed(self.now, &self.clients[client], &self.sessions.states);
        self.answer_login(client, request.answer);
        self.schema_allowed(client);
        self.settle(key, client, false);
    }

    /// Decides after the answer: keep the backend, save its aftermath, or let it go.
    pub(crate) fn settle(&mut self, key: BackendKey, client: ClientKey, error: bool) {
        let state = &mut self.clients[client];
        if state.loss.killed {
            return self.close_client(client, ClosedFor::Killed, "killed");
        }
        let in_transaction = state.in_transaction();
        let shared = self.servers[key].holder != Some(client);
        // Nobody has known that its id would have to stand there.
        let asks_id =
            state.session.aftermath.is_insert_id_unsure() && !state.session.aftermath.left_insert_id_at(key);
        let on_backend = state.session.aftermath.has_diagnostics_on_backend();
        if !shared && !state.session.pins().is_empty() {
            let has_to_ask = state.session.has_to_ask() || asks_id;
            if !error && has_to_ask && on_backend {
                return self.save_diagnostics(key, client);
            }
            if !error && state.session.has_to_ask() {
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
        let ask = error || !in_transaction || asks_id || state.session.unreported().is_some();
        if !shared && ask && on_backend {
            return self.save_diagnostics(key, client);
        }
        if !shared && state.session.unreported().is_some() {
            state.settle();
            self.ask_unreported(key, client);
            return;
        }
        if !shared && in_transaction && !asks_id {
            return self.hold_on(client);
        }
        let unknown =
            state.session.aftermath.is_insert_id_unsure() || !state.session.aftermath.knows_found_rows();
        if !shared && unknown {
            return self.ask_insert_id(key, client);
        }
        if in_transaction || !state.session.pins().is_empty() || state.session.unreported().is_some() {
            // A read that others shared has opened a transaction after all, or a view that it names has called what changes the session:
            // nobody else may fall into that. What is not in the session state is lost to the client, too.
            state.session.loses_what_only_backend_has();
            self.servers[key].afterwards = Afterwards::Close;
        }
        self.let_go(key, client);
    }

    /// Asks the backend for the diagnostics of the client's last statement.
    fn save_diagnostics(&mut self, key: BackendKey, client: ClientKey) {
        self.clients[client].settle();
        let owner = Owner::SaveDiagnostics { client };
        self.sending().send_own(key, owner, CommandKind::Query, b"SHOW WARNINGS", Expect::ResultSets, 0);
    }

    /// Asks the backend for LAST_INSERT_ID(), and for FOUND_ROWS() where nobody else knows it.
    fn ask_insert_id(&mut self, key: BackendKey, client: ClientKey) {
        let state = &mut self.clients[client];
        state.settle();
        let text = if state.session.aftermath.knows_found_rows() { ASK_INSERT_ID } else { ASK_FOUND_ROWS };
        let owner = Owner::SaveInsertId { client };
        self.sending().send_own(key, owner, CommandKind::Query, text, Expect::ResultSets, 0);
    }

    fn hold_on(&mut self, client: ClientKey) {
        let now = self.now;
        let state = &mut self.clients[client];
        state.end_statement();
        state.activity.goes_on(now);
        self.resume.push(client);
        self.clients.server_keeps_up(client, &mut self.io.outbox);
        self.drain_client(client);
    }

    /// Parts the client from its backend, which it needs no more.
    pub(crate) fn let_go(&mut self, key: BackendKey, client: ClientKey) {
        if self.servers[key].holder == Some(client) {
            self.servers[key].holder = None;
        }
        let now = self.now;
        let Some(state) = self.clients.get_mut(client) else { return };
        state.activity.goes_on(now);
        state.backend = None;
        state.transaction.blocks_nobody();
        state.session.aftermath.insert_id_leaves();
        state.end_statement();
        self.resume.push(client);
        self.clients.server_keeps_up(client, &mut self.io.outbox);
        self.drain_client(client);
    }

    pub(crate) fn diagnostics_saved(&mut self, key: BackendKey, client: ClientKey, summary: &mut Summary) {
        let state = &mut self.clients[client];
        let sql_state = state.session.aftermath.diagnostics().sql_state();
        let (warnings, errors) = state.session.aftermath.diagnostics().counts();
        let whole = summary.error.is_none() && summary.has_kept_all();
        if whole {
            let reply = std::mem::take(&mut summary.kept_answer).into_boxed_slice();
            // max_error_count bounds what is kept, not what is counted; an error packet tells of one condition.
            let warnings =
                warnings.max(summary.counts.rows.map_or(0, |rows| u16::try_from(rows).unwrap_or(u16::MAX)));
            let errors = errors.max(crate::session::aftermath::errors_in(&reply));
            self.answers().keep_diagnostics(
                client,
                Diagnostics::Saved { warnings, errors, sql_state, reply: List::new(reply) },
            );
        } else {
            state.session.aftermath.forget_texts();
            if summary.error.is_some() {
                // Killed, most likely: nobody has said whether a transaction is open.
                self.servers[key].afterwards = Afterwards::Close;
            }
        }
        let in_doubt = self.clients[client].session.unreported().cloned().unwrap_or_default();
        self.session_on(key, client).take_in_rest(&in_doubt, summary);
        self.settle(key, client, false);
    }

    pub(crate) fn insert_id_saved(&mut self, key: BackendKey, client: ClientKey, summary: &Summary) {
        if !self.clients[client].take_insert_id(summary) {
            // Killed, most likely: nobody may find the id there.
            self.servers[key].afterwards = Afterwards::Close;
        }
        self.settle(key, client, false);
    }

    /// Asks how a transaction stands behind an error. A ping leaves all else on the backend as it is, FOUND_ROWS() included.
    pub(crate) fn ask_status(&mut self, key: BackendKey, client: ClientKey) {
        self.clients[client].settle();
        self.sending().send_own(key, Owner::ReadStatus { client }, CommandKind::Ping, b"", Expect::Simple, 0);
    }

    /// Asks a client's backend for the variables in doubt.
    pub(crate) fn ask_unreported(&mut self, key: BackendKey, client: ClientKey) {
        if let Some(text) = self.session_on(key, client).question() {
            let owner = Owner::ReadVariables { client };
            self.sending().send_own(key, owner, CommandKind::Query, &text, Expect::ResultSets, 0);
        }
    }

    /// Takes the server's word about how a transaction stands behind an error.
    pub(super) fn status_told(&mut self, key: BackendKey, client: ClientKey, summary: &mut Summary) {
        if summary.error.is_some() {
            // Killed, most likely: nobody has said whether a transaction is open.
            self.servers[key].afterwards = Afterwards::Close;
        }
        let in_doubt = self.clients[client].session.unreported().cloned().unwrap_or_default();
        self.session_on(key, client).take_in_rest(&in_doubt, summary);
        self.settle(key, client, false);
    }

    /// Takes the server's answer about session variables of a client that only the server knows.
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

    /// Sets the client's session state to that behind a reset: a fresh login's, its schema aside.
    pub(crate) fn forget_state(&mut self, client: ClientKey) {
        self.prepared().forget_all(client);
        let facts = self.servers.primary().facts.as_ref().expect("nobody logs in before the server is known");
        let state = &mut self.clients[client];
        let charset = facts.charset_of_reset(state.login.collation);
        state.session.reset(facts.fresh_status());
        self.client_memory.sessions.give_back(&mut state.memory.session);
        state.priority = Priority::default();
        let Some(session) = state.session.id() else { return };
        let schema = self.sessions.states.state(session).schema.clone();
        let fresh = self.sessions.states.hold(SessionState { schema, charset, ..SessionState::default() });
        self.clients[client].session.becomes(fresh, &mut self.sessions.states);
    }

    /// Tells the client of a statement that was lost with the server. Nobody knows whether or how far it ran, so it is not sent again.
    pub(crate) fn statement_lost(&mut self, key: ClientKey, begun: bool) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let (hears, sequence) = client.lose_statement(begun);
        self.clients.server_keeps_up(key, &mut self.io.outbox);
        self.take_request(key);
        let lost = ClosedFor::BackendLost;
        match hears {
            Hears::Nothing => {
                self.close_client(key, lost, "its backend was lost in the middle of a statement");
            }
            Hears::Killed => {
                self.answers().error(key, sequence, &MySqlError::killed());
                self.close_client(key, ClosedFor::Killed, "killed");
            }
            Hears::Loss { transaction, ends } => {
                self.answers().error(key, sequence, &MySqlError::server_lost(transaction));
                if ends {
                    self.close_client(key, lost, "its backend was lost with its transaction or state");
                } else {
                    self.clients[key].session.aftermath.insert_id_leaves();
                    self.resume.push(key);
                }
            }
        }
    }

    /// Tells a client of the loss of its backend between two statements.
    pub(in crate::backend) fn holder_lost(&mut self, key: ClientKey) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let held = client.lose_held_backend();
        if held == AfterLoss::Log {
            let why = "the server closed the connection of this replica";
            return self.close_client(key, ClosedFor::BackendLost, why);
        }
        self.clients.server_keeps_up(key, &mut self.io.outbox);
        match held {
            AfterLoss::Log | AfterLoss::Idle => {}
            AfterLoss::Answered => self.resume.push(key),
            AfterLoss::NextStatement(lost) => {
                self.scheduling.scheduler.remove(key);
                let answer = self.take_request(key).map_or(1, |request| request.answer);
                self.clients[key].cancel();
                self.answer_lost(key, lost, answer);
            }
        }
    }
}
