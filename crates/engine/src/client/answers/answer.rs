//! Answers of our own to clients.

use seam::{CompressionSide, Instant};
use sql::{Classification, Kind};
use wire::{EofPacket, OkPacket, StatusFlags};

use crate::backend::InFlight;
use crate::client::commands::diagnostics::{SavedDiagnostics, Shown};
use crate::client::commands::known_answers::FoundAnswer;
use crate::client::commands::pool_set::ReadSet;
use crate::client::memory::bytes_held::ClientMemory;
use crate::client::resume::Resume;
use crate::client::session::trackers::told;
use crate::client::{Client, Phase};
use crate::errors::{MySqlError, ServerError};
use crate::ids::{BackendKey, ClientKey, Table};
use crate::io::Io;
use crate::outside::named::Limit;
use crate::outside::views::Views;
use crate::readers::guests::Guests;
use crate::request::{Request, RequestKind};
use crate::server::Server;
use crate::servers::Servers;
use crate::session::aftermath::{Diagnostics, Reader};
use crate::session::known_answers::KnownQuestion;
use crate::session::trackers::told_of_unstarted;
use crate::session::{SessionTables, Sessions};
use crate::settings::Settings;

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

    /// Sends an error in the place of a greeting: sequence number 0 and, as the servers have it, no SQLSTATE
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
    /// Notes that a statement was answered here which the server would have executed without a table. MySQL's list of warnings is empty then.
    fn answered_here(&mut self, server: &Server) {
        if !server.is_mariadb() {
            self.session.aftermath.leaves(Diagnostics::None);
        }
    }

    /// Notes that the client's open transaction has gone with its backend, and was not committed.
    fn is_rolled_back(&mut self) {
        self.backend = None;
        self.end_statement();
        self.loss.kind = None;
        self.session.is_rolled_back();
        self.transaction.is_rolled_back();
        self.session.aftermath.insert_id_lost();
    }

    /// Says how the client reads warnings that are told here in the name of this server.
    pub(crate) fn reader_of(&self, sessions: &Sessions, server: &Server) -> Reader {
        let reader = self.reader();
        let Some((session, facts)) = self.session.id().zip(server.facts.as_ref()) else {
            return reader;
        };
        let (collation, width) = facts.collation_of_results(&sessions.state(session).charset);
        Reader { collation, width, is_mysql: !facts.is_mariadb(), ..reader }
    }
}

/// The part of a statement that goes to the server, where the statement may be answered here.
pub(in crate::client) enum ToServer {
    /// The whole statement, as it is.
    AsItIs,
    /// This request in the statement's place.
    Instead(Box<Request>),
    /// Nothing: the statement's client has its answer.
    Nothing,
}

/// A login that a server's error ends: the packet, and the reason in it.
pub(crate) struct RefusedLogin {
    pub(in crate::client) error: Vec<u8>,
    pub(in crate::client) reason: String,
}

/// The clients that get answers from here, and the state that answers follow from and change.
pub(crate) struct Answers<'a> {
    pub(crate) now: Instant,
    pub(crate) settings: &'a Settings,
    pub(crate) clients: &'a mut Table<ClientKey, Client>,
    pub(crate) sessions: &'a mut SessionTables,
    pub(crate) servers: &'a mut Servers,
    /// Set in a reader. An error for a guest's client goes back with the guest.
    pub(crate) guests: Option<&'a mut Guests>,
    pub(crate) client_memory: &'a mut ClientMemory,
    pub(crate) views: &'a mut Views,
    pub(crate) resume: &'a mut Resume,
    pub(crate) io: &'a mut Io,
}

impl Answers<'_> {
    /// Sends an OK packet with this sequence number.
    pub(crate) fn ok(&mut self, client: ClientKey, sequence: u8) {
        self.ok_and_say(client, sequence, &[]);
    }

    /// Sends an OK packet likewise, with this as its `info`.
    fn ok_and_say(&mut self, client: ClientKey, sequence: u8, info: &[u8]) {
        let status = self.clients[client].reader().status();
        self.this_ok(client, sequence, &OkPacket { info, ..OkPacket::plain(status) });
    }

    /// Sends an OK packet likewise, and tells what the client wants to hear of these changes of its session.
    fn ok_and_tell(&mut self, client: ClientKey, sequence: u8, info: &[u8], changes: &[u8]) {
        let facts = self.servers.primary().facts.as_ref();
        let told = told(&self.clients[client], facts, &self.sessions.states).map(|told| told.of(changes));
        match told.filter(|told| !told.is_empty()) {
            None => self.ok_and_say(client, sequence, info),
            Some(told) => {
                let status = self.clients[client].reader().status().with(StatusFlags::SESSION_STATE_CHANGED);
                let ok = OkPacket { info, session_changes: &told, ..OkPacket::plain(status) };
                self.this_ok(client, sequence, &ok);
            }
        }
    }

    pub(crate) fn this_ok(&mut self, client: ClientKey, sequence: u8, ok: &OkPacket<'_>) {
        let mut payload = Vec::new();
        ok.put(&mut payload, true);
        self.io.send_packet_to(self.clients[client].connection, sequence, &payload);
    }

    /// Answers a statement, where that can be done here. The text of a large statement, which has been read elsewhere, is not looked at.
    pub(in crate::client) fn instead_of_server(
        &mut self,
        key: ClientKey,
        request: &mut Request,
        text: &[u8],
        full_tickets: u32,
    ) -> ToServer {
        let (statement, answer) = (&request.statement, request.answer);
        let is_large = request.found_ahead.is_some();
        match statement.kind {
            _ if statement.sets_pool_variable && is_large => {
                let error = MySqlError::pool_variable_too_long(self.settings.large_statement_size);
                self.error(key, answer, &error);
                ToServer::Nothing
            }
            _ if statement.sets_pool_variable => {
                self.set_pool_variables(key, text, (statement.several, full_tickets), answer)
            }
            _ if self.transaction_command(key, statement, answer) => ToServer::Nothing,
            _ if !is_large && self.known(key, statement, text, answer, &mut request.remember) => {
                ToServer::Nothing
            }
            // What stands behind them in the same text has to be run as well.
            Kind::ShowWarnings if !statement.several => {
                let shown = self.saved_diagnostics(key).warnings();
                self.show(key, shown, answer)
            }
            Kind::ShowDiagnostics if !statement.several => {
                let text = Some(text).filter(|_| !is_large);
                let shown = self.saved_diagnostics(key).asked_for(text, answer);
                self.show(key, shown, answer)
            }
            _ => ToServer::AsItIs,
        }
    }

    /// Answers a statement that begins or ends a transaction, where no backend has to hear of it. False where a backend has to.
    pub(in crate::client) fn transaction_command(
        &mut self,
        key: ClientKey,
        statement: &Classification,
        answer: u8,
    ) -> bool {
        let Some(command) = statement.transaction else { return false };
        let (sessions, server) = (&self.sessions.states, self.servers.primary());
        let client = &mut self.clients[key];
        let Some(before) = client.begin_or_end_late(self.settings, sessions, server, command) else {
            return false;
        };
        client.answered_here(server);
        let tells = told(client, server.facts.as_ref(), sessions).filter(|told| told.hears());
        let told = told_of_unstarted(before, client.session.unstarted().is_some());
        let told = told.filter(|_| !server.is_mariadb() && tells.is_some());
        let status = client.reader().status();
        match &told {
            None => self.ok(key, answer),
            Some(session_changes) => {
                let status = status.with(StatusFlags::SESSION_STATE_CHANGED);
                self.this_ok(key, answer, &OkPacket { session_changes, ..OkPacket::plain(status) });
            }
        }
        true
    }

    /// Answers a statement with the answer that is known for it. False where the server has to be asked; `remember` is
    /// then set where the server's answer is to be remembered.
    fn known(
        &mut self,
        key: ClientKey,
        statement: &Classification,
        text: &[u8],
        answer: u8,
        remember: &mut Option<KnownQuestion>,
    ) -> bool {
        let client = &mut self.clients[key];
        match self.sessions.known_answer(self.settings, client, statement, text, answer) {
            FoundAnswer::Nothing => return false,
            FoundAnswer::NotYet(question) => {
                *remember = Some(question);
                return false;
            }
            FoundAnswer::Show(packets) => {
                client.answered_here(self.servers.primary());
                self.io.outbox.send(client.connection, &packets);
            }
            FoundAnswer::Set(changes) => {
                client.answered_here(self.servers.primary());
                self.ok_and_tell(key, answer, &[], &changes);
            }
        }
        self.views.totals.answered_sets += 1;
        true
    }

    /// Carries out a `SET` of the pool's variables. These are understood here, and only the rest of the `SET` goes to
    /// the server. `full_tickets` is the number of tickets that a client gets in general.
    fn set_pool_variables(
        &mut self,
        key: ClientKey,
        text: &[u8],
        (several, full_tickets): (bool, u32),
        answer: u8,
    ) -> ToServer {
        let client = &mut self.clients[key];
        let mode = client.lex_mode(&self.sessions.states, self.servers.primary());
        match client.read_pool_set(text, mode, several) {
            Ok(ReadSet { priority, rest: Some(rest) }) => {
                return ToServer::Instead(Box::new(Request::rest_of_pool_set(&rest, mode, priority, answer)));
            }
            Ok(ReadSet { priority, rest: None }) => {
                client.take_priority(priority, full_tickets);
                client.session.aftermath.changed_no_rows();
                self.ok(key, answer);
            }
            Err(error) => self.error(key, answer, &error),
        }
        ToServer::Nothing
    }

    /// Sends what the servers send where they say `my_eof`: an EOF packet, or its successor.
    pub(crate) fn eof(&mut self, client: ClientKey, sequence: u8) {
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

    /// Says how a client reads warnings that are told here.
    pub(crate) fn reader(&self, client: ClientKey) -> Reader {
        self.clients[client].reader_of(&self.sessions.states, self.servers.primary())
    }

    /// Answers a request with the server's own error. Where the request was about a login's schema, the error ends the login.
    pub(crate) fn server_error(
        &mut self,
        client: ClientKey,
        request: &Request,
        error: &ServerError,
    ) -> Option<RefusedLogin> {
        if self.guests.is_some() {
            self.error_of_guest(client, &MySqlError::replica_refuses(error));
            return None;
        }
        let login = request.command == RequestKind::LoginSchema;
        let mut payload = Vec::new();
        wire::ErrPacket { code: error.code, sql_state: error.sql_state, message: &error.message }
            .put(&mut payload);
        self.io.send_packet_to(self.clients[client].connection, request.answer, &payload);
        let reason = || String::from_utf8_lossy(&error.message).into_owned();
        login.then(|| RefusedLogin { error: payload, reason: reason() })
    }

    /// Notes what a server's error leaves behind. The error is about to be told.
    pub(crate) fn note_server_error(&mut self, client: ClientKey, error: &ServerError) {
        let reader = self.reader(client);
        self.clients[client].session.aftermath.has_no_row_count();
        self.keep_diagnostics(client, Diagnostics::of_error(error, reader));
    }

    /// Tells a client that its open transaction has gone with its backend, uncommitted. The client hears what a
    /// deadlock's victim hears, and goes on.
    pub(crate) fn rolled_back(&mut self, key: ClientKey, sequence: u8) {
        self.clients[key].is_rolled_back();
        self.clients.server_keeps_up(key, &mut self.io.outbox);
        self.error(key, sequence, &MySqlError::rolled_back());
        self.resume.push(key);
    }

    /// Notes an error that would be told to a guest's client.
    pub(crate) fn error_of_guest(&mut self, key: ClientKey, error: &MySqlError) {
        if let Some(guests) = &mut self.guests {
            guests.note_error(key, error);
        }
        if let Some(client) = self.clients.get(key)
            && matches!(client.phase(), Phase::Idle)
        {
            self.resume.push(key);
        }
    }

    /// Sends an error packet with this sequence number.
    pub(crate) fn error(&mut self, client: ClientKey, sequence: u8, error: &MySqlError) {
        if self.guests.is_some() {
            return self.error_of_guest(client, error);
        }
        let reader = self.reader(client);
        let state = &mut self.clients[client];
        let connection = state.connection;
        // What the server would remember of an error of its own.
        let kept = ServerError::from(error);
        state.session.aftermath.has_no_row_count();
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
        let left = state.note_aftermath((client, key), self.servers, sessions, request, statement);
        if let Some(diagnostics) = left {
            self.keep_diagnostics(client, diagnostics);
        }
    }

    /// Keeps the diagnostics that a client's statement has left, within the bound for all clients.
    pub(crate) fn keep_diagnostics(&mut self, key: ClientKey, diagnostics: Diagnostics) {
        let limit = self.settings.kept_warnings_memory;
        if self.client_memory.keep_diagnostics(self.clients, key, diagnostics, limit) {
            self.views.limit_reached(self.now, Limit::KeptWarningsMemory, limit as u64);
        }
    }

    /// Returns the diagnostics of a client's statement before, about which the client asks.
    fn saved_diagnostics(&self, key: ClientKey) -> SavedDiagnostics<'_> {
        let (settings, sessions) = (self.settings, &self.sessions.states);
        SavedDiagnostics { client: &self.clients[key], settings, sessions, servers: self.servers }
    }

    /// Tells the client the diagnostics that it asks for, where the server does not have to.
    fn show(&mut self, key: ClientKey, shown: Shown, answer: u8) -> ToServer {
        match shown {
            Shown::ByServer => return ToServer::AsItIs,
            Shown::Packets(reply) => {
                let client = &mut self.clients[key];
                client.session.aftermath.has_no_row_count();
                self.io.outbox.send(client.connection, &reply);
            }
            Shown::Refusal => self.error(key, answer, &MySqlError::diagnostics_moved()),
            Shown::AnswerTo(request) => return ToServer::Instead(request),
            Shown::NoSuchCondition(diagnostics) => {
                let status = self.clients[key].reader().status();
                self.this_ok(key, answer, &OkPacket { warnings: 1, ..OkPacket::plain(status) });
                self.clients[key].session.aftermath.has_no_row_count();
                self.keep_diagnostics(key, diagnostics);
            }
        }
        ToServer::Nothing
    }

    /// Sends the OK that ends a login or a COM_CHANGE_USER, with this proof of our certificate. Traffic behind the end
    /// of a login may be compressed.
    pub(in crate::client) fn login(&mut self, key: ClientKey, sequence: u8, proof: &[u8]) {
        let schema = self.clients[key].schema_of_login(&self.sessions.states);
        self.ok_and_tell(key, sequence, proof, &schema);
        let client = &mut self.clients[key];
        let ended = client.login.end();
        if let Some(login) = &ended {
            let left = login.until.since(self.now);
            self.views.measures.logins.record(self.settings.connect_timeout.saturating_sub(left));
        }
        // It may have sent ahead.
        self.resume.push(key);
        if let Some(compression) = ended.and_then(|login| login.compression) {
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
