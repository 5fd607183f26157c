//! Answers of our own to clients.

use seam::CompressionSide;
use wire::{EofPacket, OkPacket, StatusFlags};

use super::Client;
use super::diagnostics::{SavedDiagnostics, Shown};
use super::known_answers::Known;
use super::pool_set::ReadSet;
use super::trackers::told;
use crate::backend::InFlight;
use crate::engine::Engine;
use crate::errors::{MySqlError, ServerError};
use crate::ids::{BackendKey, ClientKey};
use crate::io::Io;
use crate::outside::named::{ClosedFor, Limit};
use crate::request::statement::Statement;
use crate::request::{Request, RequestKind};
use crate::server::Server;
use crate::session::Sessions;
use crate::session::aftermath::{Diagnostics, Reader};
use crate::session::known_answers::Question;
use crate::session::trackers::told_of_unstarted;

impl Io {
    pub(crate) fn send_packet_to(
        &mut self,
        connection: seam::ConnectionId,
        mut sequence: u8,
        payload: &[u8],
    ) {
        let mut packet = Vec::with_capacity(wire::HEADER_LEN + payload.len());
        wire::put_message(&mut packet, &mut sequence, payload);
        self.outbox.send(connection, &packet);
    }

    /// An error in the place of a greeting: sequence number 0 and, as the servers have it, no SQLSTATE
    /// (net_send_error_packet before the capabilities are known).
    pub(crate) fn send_early_error(&mut self, connection: seam::ConnectionId, error: &MySqlError) {
        let packet = wire::ErrPacket {
            code: error.code,
            sql_state: *error.sql_state,
            message: error.message.as_bytes(),
        };
        let mut payload = Vec::new();
        packet.put_early(&mut payload);
        self.send_packet_to(connection, 0, &payload);
    }
}

impl Client {
    /// A statement is answered here that the server would have executed without a table: MySQL's list of warnings is empty then.
    fn answered_here(&mut self, server: &Server) {
        if !server.is_mariadb() {
            self.session.aftermath.diagnostics = Diagnostics::None;
        }
    }

    /// How it reads warnings that are told here in the name of this server.
    pub(crate) fn reader_of(&self, sessions: &Sessions, server: &Server) -> Reader {
        let reader = self.reader();
        let Some((session, facts)) = self.session.id.zip(server.facts.as_ref()) else {
            return reader;
        };
        let (collation, width) = facts.collation_of_results(&sessions.state(session).charset);
        Reader { collation, width, is_mysql: !facts.is_mariadb(), ..reader }
    }
}

impl Engine {
    /// An OK packet with this sequence number.
    pub(crate) fn answer_ok(&mut self, client: ClientKey, sequence: u8) {
        self.answer_ok_and_say(client, sequence, &[]);
    }

    /// Likewise, with this as its `info`.
    pub(crate) fn answer_ok_and_say(&mut self, client: ClientKey, sequence: u8, info: &[u8]) {
        let status = self.clients[client].reader().status();
        self.answer_this_ok(client, sequence, &OkPacket { info, ..OkPacket::plain(status) });
    }

    /// Likewise, with what the client wants to hear of these changes of its session.
    pub(crate) fn answer_ok_and_tell(
        &mut self,
        client: ClientKey,
        sequence: u8,
        info: &[u8],
        changes: &[u8],
    ) {
        let told = told(&self.clients[client], self.servers.primary().facts.as_ref(), &self.sessions.states)
            .map(|told| told.of(changes));
        match told.filter(|told| !told.is_empty()) {
            None => self.answer_ok_and_say(client, sequence, info),
            Some(told) => {
                let status = self.clients[client].reader().status().with(StatusFlags::SESSION_STATE_CHANGED);
                let ok = OkPacket { info, session_changes: &told, ..OkPacket::plain(status) };
                self.answer_this_ok(client, sequence, &ok);
            }
        }
    }

    pub(crate) fn answer_this_ok(&mut self, client: ClientKey, sequence: u8, ok: &OkPacket<'_>) {
        let mut payload = Vec::new();
        ok.put(&mut payload, true);
        self.io.send_packet_to(self.clients[client].connection, sequence, &payload);
    }

    /// Answers a statement that begins or ends a transaction, where no backend has to hear of it. False where one has to.
    pub(super) fn answer_transaction_command(
        &mut self,
        key: ClientKey,
        statement: &Statement,
        answer: u8,
    ) -> bool {
        let Some(command) = statement.transaction else { return false };
        let (sessions, server) = (&self.sessions.states, self.servers.primary());
        let client = &mut self.clients[key];
        let Some(before) = client.begin_or_end_late(&self.settings, sessions, server, command) else {
            return false;
        };
        client.answered_here(server);
        let tells = told(client, server.facts.as_ref(), sessions).filter(|told| told.hears());
        let told = told_of_unstarted(before, client.transaction.unstarted.is_some());
        let told = told.filter(|_| !server.is_mariadb() && tells.is_some());
        let status = client.reader().status();
        match &told {
            None => self.answer_ok(key, answer),
            Some(session_changes) => {
                let status = status.with(StatusFlags::SESSION_STATE_CHANGED);
                self.answer_this_ok(key, answer, &OkPacket { session_changes, ..OkPacket::plain(status) });
            }
        }
        true
    }

    /// Answers a statement whose answer is known. False where the server has to be asked; `remember` is then set where its
    /// answer is to be remembered.
    pub(super) fn answer_known(
        &mut self,
        key: ClientKey,
        statement: &Statement,
        text: &[u8],
        answer: u8,
        remember: &mut Option<Question>,
    ) -> bool {
        let client = &mut self.clients[key];
        match self.sessions.known_answer(&self.settings, client, statement, text, answer) {
            Known::Nothing => return false,
            Known::NotYet(question) => {
                *remember = Some(question);
                return false;
            }
            Known::Show(packets) => {
                client.answered_here(self.servers.primary());
                self.io.outbox.send(client.connection, &packets);
            }
            Known::Set(changes) => {
                client.answered_here(self.servers.primary());
                self.answer_ok_and_tell(key, answer, &[], &changes);
            }
        }
        self.views.totals.answered_sets += 1;
        true
    }

    /// A `SET` of the pool's variables: understood here, and only what else stands in it goes to the server.
    pub(super) fn set_pool_variables(&mut self, key: ClientKey, text: &[u8], several: bool, answer: u8) {
        let mode = self.lex_mode(key);
        match self.clients[key].read_pool_set(text, mode, several) {
            Ok(ReadSet { priority, rest: Some(rest) }) => {
                self.queue_request(key, Request::rest_of_pool_set(&rest, mode, priority, answer));
            }
            Ok(ReadSet { priority, rest: None }) => {
                let full = self.scheduling.scheduler.full_tickets();
                let client = &mut self.clients[key];
                client.take_priority(priority, full);
                client.session.aftermath.row_count = 0;
                self.answer_ok(key, answer);
            }
            Err(error) => self.answer_error(key, answer, &error),
        }
    }

    /// What the servers send where they say `my_eof`: an EOF packet, or its successor.
    pub(crate) fn answer_eof(&mut self, client: ClientKey, sequence: u8) {
        let client = &self.clients[client];
        let mut payload = Vec::new();
        if client.deprecate_eof() {
            OkPacket {
                header: 0xfe,
                affected_rows: 0,
                last_insert_id: 0,
                status: client.reader().status(),
                warnings: 0,
                info: &[],
                session_changes: &[],
            }
            .put(&mut payload, false);
        } else {
            EofPacket { warnings: 0, status: client.reader().status() }.put(&mut payload);
        }
        self.io.send_packet_to(client.connection, sequence, &payload);
    }

    /// How a client reads warnings that are told here.
    pub(crate) fn reader(&self, client: ClientKey) -> Reader {
        self.clients[client].reader_of(&self.sessions.states, self.servers.primary())
    }

    /// The server's own error, as the answer to a request or, where it was about a login's schema, to the login, which it ends.
    pub(crate) fn answer_server_error(&mut self, client: ClientKey, request: &Request, error: &ServerError) {
        if self.is_reader() {
            return self.note_error_of_guest(client, &MySqlError::replica_refuses(error));
        }
        let login = request.command == RequestKind::LoginSchema;
        let sequence = if login { self.clients[client].login.sequence } else { request.answer };
        let mut payload = Vec::new();
        wire::ErrPacket { code: error.code, sql_state: error.sql_state, message: &error.message }
            .put(&mut payload);
        self.io.send_packet_to(self.clients[client].connection, sequence, &payload);
        if login {
            let reason = String::from_utf8_lossy(&error.message).into_owned();
            self.schema_refused(client, &payload, &reason);
            self.close_client(client, ClosedFor::LoginRefused, &reason);
        }
    }

    /// The schema is there for the client that asked: those that waited with it are logged in.
    pub(crate) fn schema_allowed(&mut self, asked: ClientKey) {
        for key in self.logins.end_schema_check(asked, &self.clients) {
            self.clients[key].end_login();
            self.answer_login(key, self.clients[key].login.sequence);
            self.resume.push(key);
        }
    }

    /// The client that asked gets this error as the end of its login: so do those that waited with it.
    pub(crate) fn schema_refused(&mut self, asked: ClientKey, error: &[u8], reason: &str) {
        for key in self.logins.end_schema_check(asked, &self.clients) {
            let client = &self.clients[key];
            self.io.send_packet_to(client.connection, client.login.sequence, error);
            self.close_client(key, ClosedFor::LoginRefused, reason);
        }
    }

    /// An error packet with this sequence number.
    pub(crate) fn answer_error(&mut self, client: ClientKey, sequence: u8, error: &MySqlError) {
        if self.is_reader() {
            return self.note_error_of_guest(client, error);
        }
        let reader = self.reader(client);
        let state = &mut self.clients[client];
        let connection = state.connection;
        // What the server would remember of an error of its own.
        let kept = ServerError::from(error);
        state.session.aftermath.row_count = -1;
        let diagnostics = Diagnostics::of_error(&kept, reader);
        self.keep_diagnostics(client, diagnostics);
        self.io.send_packet_to(connection, sequence, &error.packet());
    }

    /// Notes what a statement leaves behind, for its client's next one.
    pub(crate) fn note_aftermath(
        &mut self,
        key: BackendKey,
        client: ClientKey,
        request: &Request,
        statement: &InFlight,
    ) {
        let (state, sessions) = (&mut self.clients[client], &self.sessions.states);
        let left = state.note_aftermath((client, key), &mut self.servers, sessions, request, statement);
        if let Some(diagnostics) = left {
            self.keep_diagnostics(client, diagnostics);
        }
    }

    /// What a client's statement has left, within the bound of what is kept for all.
    pub(crate) fn keep_diagnostics(&mut self, key: ClientKey, diagnostics: Diagnostics) {
        let limit = self.settings.kept_warnings_memory;
        if self.client_memory.keep_diagnostics(&mut self.clients, key, diagnostics, limit) {
            self.views.limit_reached(self.now, Limit::KeptWarningsMemory, limit as u64);
        }
    }

    /// What is known of a client's statement before, about which it asks.
    pub(super) fn saved_diagnostics(&self, key: ClientKey) -> SavedDiagnostics<'_> {
        let (settings, sessions) = (&self.settings, &self.sessions.states);
        SavedDiagnostics { client: &self.clients[key], settings, sessions, servers: &self.servers }
    }

    /// Tells it. False where the server has to.
    pub(super) fn show_diagnostics(&mut self, key: ClientKey, shown: Shown, answer: u8) -> bool {
        match shown {
            Shown::ByServer => return false,
            Shown::Packets(reply) => {
                let client = &mut self.clients[key];
                client.session.aftermath.row_count = -1;
                self.io.outbox.send(client.connection, &reply);
            }
            Shown::Refusal => self.answer_error(key, answer, &MySqlError::diagnostics_moved()),
            Shown::AnswerTo(request) => self.queue_request(key, *request),
            Shown::NoSuchCondition(diagnostics) => {
                let status = self.clients[key].reader().status();
                self.answer_this_ok(key, answer, &OkPacket { warnings: 1, ..OkPacket::plain(status) });
                self.clients[key].session.aftermath.row_count = -1;
                self.keep_diagnostics(key, diagnostics);
            }
        }
        true
    }

    /// The OK that ends a login or a COM_CHANGE_USER. What follows the former may be compressed.
    pub(crate) fn answer_login(&mut self, key: ClientKey, sequence: u8) {
        let proof = self.clients[key].certificate_proof(&self.logins.identities, self.servers.primary());
        let schema = self.clients[key].schema_of_login(&self.sessions.states);
        self.answer_ok_and_tell(key, sequence, &proof, &schema);
        let client = &mut self.clients[key];
        if let Some(until) = client.login.until.take() {
            let left = until.since(self.now);
            self.views.measures.logins.record(self.settings.connect_timeout.saturating_sub(left));
        }
        // It may have sent ahead.
        self.resume.push(key);
        if let Some(compression) = client.login.compression.take() {
            // A client need not wait for the OK: what it has sent ahead is compressed, too, and nobody has opened it.
            let ahead = std::mem::take(&mut client.input);
            self.client_memory.statements.give_back(&mut client.memory.statements);
            self.client_memory.logins.give_back(&mut client.memory.login);
            self.io.outbox.start_compression(client.connection, compression, CompressionSide::Server);
            if !ahead.is_empty() {
                self.io.unread(client.connection, &ahead);
            }
        }
    }
}
