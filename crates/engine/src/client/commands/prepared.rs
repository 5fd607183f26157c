//! A client's prepared statements, and its commands about them.
//!
//! A client's numbers are its own, and stand for definitions ([`crate::session::statements`]). COM_STMT_PREPARE always
//! goes to a server; the client gets the server's answer with its own number in it. COM_STMT_EXECUTE goes to the
//! backend that serves the client. The statement is prepared there first if it is not yet (`backend/to_server/preparing.rs`).
//!
//! Onramp keeps here what a server keeps with a statement between commands. The types of its parameters are sent with
//! each execution. The pieces of COM_STMT_SEND_LONG_DATA go ahead of the next one. An open cursor stays on its backend,
//! and the client with it.

use std::rc::Rc;

use seam::Instant;
use sql::{Classification, KillTarget, Kind, RowsFound, Whom};
use wire::{Capabilities, ClientMetadata, Expect};

use crate::backend::to_server::prepared::Serves;
use crate::client::Client;
use crate::client::commands::attributes::PlainExecution;
use crate::client::commands::execution::Execution;
use crate::client::commands::statement_counters::{Counter, Counters};
use crate::client::commands::statements::{ClientStatement, ClientStatements, LentStatement, LongData};
use crate::client::memory::bytes_held::{ClientMemory, Counted};
use crate::errors::MySqlError;
use crate::ids::{ClientKey, Table};
use crate::outside::named::Limit;
use crate::outside::views::Views;
use crate::pool::Pool;
use crate::request::{About, Action, QueryAttributes, Request, RequestChanges, RequestKind, RequestRows};
use crate::server::Server;
use crate::server::control::facts::Facts;
use crate::servers::Servers;
use crate::session::SessionTables;
use crate::session::literals::Literals;
use crate::session::pins::Pins;
use crate::session::statements::DefinitionId;
use crate::settings::Settings;

impl Server {
    fn unknown_prepared_statement(&self, number: u32, function: &'static str) -> MySqlError {
        MySqlError::unknown_prepared_statement(number, self.looked_up_by(function))
    }

    /// Returns the function that complains of what is not there. MySQL since 8.0 looks all of it up in one place.
    fn looked_up_by(&self, function: &'static str) -> &'static str {
        let in_one_place = self.facts.as_ref().is_some_and(Facts::is_mysql_since_8);
        if in_one_place { "mysql_stmt_precheck" } else { function }
    }
}

impl SessionTables {
    /// Makes an execution, as it has come from its client. Calls in its text are left out of the template: `answered_definition` sees to them.
    pub(crate) fn execution(&self, about: About, found: RowsFound, message: Vec<u8>, answer: u8) -> Request {
        let template = self.definitions.get(about.definition).template.without_calls();
        Request {
            answer,
            statement: template.statement,
            changes: RequestChanges { collation: template.collation, ..RequestChanges::default() },
            rows: RequestRows {
                are_counted: template.counts_rows,
                found,
                inserts_selection: template.inserts_selection,
                without_tables: template.without_tables,
            },
            about: Some(Box::new(about)),
            ..Request::plain(message, Expect::ResultSets, RequestKind::Execute)
        }
    }
}

/// An execution that has begun, before it is known whether it is for a server.
pub(super) struct Begun {
    number: u32,
    definition: DefinitionId,
    /// See [`About::stays`].
    stays: bool,
    /// The statement that is executed.
    pub(super) statement: Classification,
    /// The victim of the statement, where it is a KILL.
    pub(super) kills: Option<KillTarget>,
}

/// The statements that clients have prepared, their sessions, and the backends on which they are prepared.
pub(crate) struct PreparedStatements<'a> {
    pub(crate) now: Instant,
    pub(crate) settings: &'a Settings,
    pub(crate) pool: &'a mut Pool,
    pub(crate) clients: &'a mut Table<ClientKey, Client>,
    pub(crate) sessions: &'a mut SessionTables,
    pub(crate) servers: &'a mut Servers,
    pub(crate) client_memory: &'a mut ClientMemory,
    pub(crate) views: &'a mut Views,
}

impl PreparedStatements<'_> {
    /// Returns the statement that a lent client executes.
    pub(crate) fn lend(&mut self, key: ClientKey, about: About) -> LentStatement {
        let statement = self.client_statement(key, about.number).expect("it was found a moment ago");
        // It hears of its columns from somebody else, so that nobody here knows what it has heard last.
        statement.metadata = None;
        let types = statement.types.clone();
        let definition = self.sessions.definitions.get(about.definition);
        LentStatement {
            text: Rc::clone(&definition.text),
            session: self.sessions.states.state(definition.session()).clone(),
            parameters: definition.parameters,
            template: definition.template.clone(),
            types,
        }
    }

    /// Takes in the statement that a client has brought along. Returns what its execution is about here.
    pub(crate) fn take_lent(&mut self, key: ClientKey, lent: LentStatement, about: About) -> About {
        let session = self.sessions.states.hold(lent.session);
        let held = self.sessions.hold_definition(session, lent.text, lent.parameters, lent.template);
        let definition = held.id();
        let definitions = &mut self.sessions.definitions;
        let serves = match (about.serves, &lent.types) {
            (Serves::Typed(_), Some(types)) => {
                definitions.types(definition, types, self.settings.prepared_statement_memory);
                definitions.types_id(definition, types).map_or(Serves::Own(about.number), Serves::Typed)
            }
            (serves, _) => serves,
        };
        self.sessions.statement_added(definition);
        let statements = ClientStatements::with(about.number, held, lent.types);
        self.clients[key].session.statements = Some(Box::new(statements));
        About { definition, serves, ..about }
    }

    /// Returns the client's statement of this number, as the client names it.
    pub(crate) fn client_statement(&mut self, key: ClientKey, number: u32) -> Option<&mut ClientStatement> {
        let is_mariadb = self.servers.primary().facts.as_ref().is_some_and(Facts::is_mariadb);
        self.clients[key].statement_mut(number, is_mariadb)
    }

    /// Says why a statement cannot be prepared, where there is no room for one of this length.
    pub(super) fn lack_of_room(&mut self, request: &Request, length: usize) -> Result<(), MySqlError> {
        let most = self.settings.max_prepared_stmt_count.div_ceil(self.pool.workers.count());
        if self.sessions.statement_count() >= most {
            let limit = self.settings.max_prepared_stmt_count;
            self.views.limit_reached(self.now, Limit::MaxPreparedStmtCount, u64::from(limit));
            return Err(MySqlError::too_many_prepared_statements(limit));
        }
        let found = request.changes.template.as_ref().map_or(0, |template| template.bytes());
        self.make_room_for_text(length + found + request.statement.heap_bytes())
    }

    /// Returns COM_STMT_EXECUTE, less what its statement does not need.
    pub(super) fn plain_execution<'a>(
        &mut self,
        key: ClientKey,
        number: u32,
        sent: (u8, &'a [u8]),
        raw: &'a [u8],
    ) -> Result<PlainExecution<'a>, MySqlError> {
        let definition = self.client_statement(key, number).map(|statement| statement.definition());
        let parameters =
            definition.map(|definition| usize::from(self.sessions.definitions.get(definition).parameters));
        self.clients[key].plain_execution(number, sent, raw, parameters)
    }

    /// Begins COM_STMT_EXECUTE and COM_STMT_BULK_EXECUTE, which may be answered without a server.
    pub(super) fn begin_execution(
        &mut self,
        key: ClientKey,
        number: u32,
        execution: Execution<'_>,
    ) -> Result<Begun, MySqlError> {
        let is_mariadb = self.servers.primary().is_mariadb();
        if !execution.is_spoken(self.clients[key].capabilities, is_mariadb) {
            return Err(match is_mariadb {
                true => MySqlError::not_to_be_prepared(),
                false => MySqlError::unknown_command(),
            });
        }
        let Some(statement) = self.client_statement(key, number) else {
            return Err(self.servers.primary().unknown_prepared_statement(number, "mysqld_stmt_execute"));
        };
        let (number, definition, stays) = (statement.number, statement.definition(), statement.stays);
        let types = statement.types.clone();
        if !matches!(statement.long_data.as_deref(), Some(LongData::Wrong(_))) {
            self.clients[key].count(Counter::Execute);
        }
        let statement = self.sessions.definitions.get(definition).template.statement.clone();
        let kills = match statement.kind {
            Kind::Kill(target) if !matches!(execution, Execution::Bulk { .. }) => {
                let parameter = || execution.number(types.as_deref());
                let whom = match target.whom {
                    Whom::Parameter => parameter().map_or(Whom::Other, Whom::Id),
                    whom => whom,
                };
                Some(KillTarget { whom, ..target })
            }
            _ => None,
        };
        Ok(Begun { number, definition, stays, statement, kills })
    }

    /// Says what was wrong with values that came ahead of an execution.
    pub(super) fn check_long_data(&mut self, key: ClientKey, begun: &Begun) -> Result<(), MySqlError> {
        let sent = self.client_statement(key, begun.number);
        match sent.and_then(|statement| statement.long_data.as_deref()) {
            Some(LongData::Wrong(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Makes the request of an execution that is for a server.
    pub(super) fn execution(
        &mut self,
        key: ClientKey,
        begun: &Begun,
        (execution, raw): (Execution<'_>, &[u8]),
        answer: u8,
    ) -> Result<Request, MySqlError> {
        let Begun { number, definition, stays, .. } = *begun;
        let answered = self.answered_definition(key, definition)?;
        let mut message = self.take_long_data(key, number);
        let long_data = !message.is_empty();
        let begins = message.len();
        let mut serves = self.clients[key].put_execution(
            &mut self.sessions.definitions,
            self.settings.prepared_statement_memory,
            self.servers.primary().is_mariadb(),
            number,
            (execution, raw),
            &mut message,
        );
        let stays = stays && answered.is_none();
        if stays || self.is_in_another_state(key, definition) {
            serves = Serves::Own(number);
        }
        let found = self.sessions.definitions.get(definition).template.found;
        let found = self.found_by(key, number, execution, found, long_data);
        if answered.is_some() {
            serves = Serves::All;
            // It would have to be kept for the cursor; without one the rows come at once, as clients expect it of statements
            // that have none.
            execution.ask_for_no_cursor(&mut message[begins..]);
        }
        let cursor = execution.asks_for_cursor() && answered.is_none();
        let definition = answered.unwrap_or(definition);
        let action = Action::Execute { cursor, long_data };
        let about = About { number, definition, serves, stays, action };
        let mut request = self.sessions.execution(about, found, message, answer);
        if execution.is_attributed() {
            request.attributes = QueryAttributes::AmongValues;
        }
        Ok(request)
    }

    /// Takes the commands with long data that came ahead of an execution.
    fn take_long_data(&mut self, key: ClientKey, number: u32) -> Vec<u8> {
        let long_data = self.client_statement(key, number).and_then(|statement| statement.long_data.take());
        let Some(LongData::Pieces { commands, mut counted }) = long_data.map(|long_data| *long_data) else {
            return Vec::new();
        };
        self.client_memory.statements.give_back(&mut counted);
        commands
    }

    /// Tells what an execution's rows say of FOUND_ROWS(), by its values where its LIMIT has parameters. No value is
    /// read where some came as long data.
    fn found_by(
        &mut self,
        key: ClientKey,
        number: u32,
        execution: Execution<'_>,
        found: RowsFound,
        long_data: bool,
    ) -> RowsFound {
        let Some(statement) = self.client_statement(key, number) else { return found };
        let (definition, types) = (statement.definition(), statement.types.clone());
        let parameters = usize::from(self.sessions.definitions.get(definition).parameters);
        let last =
            |before| execution.last_number(parameters, before, types.as_deref()).filter(|_| !long_data);
        found.given(last)
    }

    /// Says whether the client is in another state than the definition's, so that nobody else may have what comes of
    /// its execution. A server that prepares a statement again by itself (MySQL behind other types, both behind DDL)
    /// does so in the state of the client that executes it.
    fn is_in_another_state(&self, key: ClientKey, definition: DefinitionId) -> bool {
        let definition = self.sessions.definitions.get(definition);
        let prepared_in = self.sessions.states.state(definition.session());
        let own = self.clients[key].session.id().expect("a client with statements has logged in");
        !self.sessions.states.state(own).reads_like(prepared_in, definition.template.defines())
    }

    /// Returns the definition that is executed in the place of one that asks for ROW_COUNT() and its like. Only the
    /// backend of the statement before could tell these, so they are literals there.
    fn answered_definition(
        &mut self,
        key: ClientKey,
        definition: DefinitionId,
    ) -> Result<Option<DefinitionId>, MySqlError> {
        self.forget_answered(key);
        let asked = self.sessions.definitions.get(definition);
        let client = &self.clients[key];
        let facts = self.servers.primary().facts.as_ref();
        let own = |function| client.own_literal(function, facts, self.settings);
        let calls = &asked.template.calls;
        let (text, which) = (Rc::clone(&asked.text), Literals::OfPrepared);
        let Some(rewriting) = client.session.aftermath.rewriting(&text, calls, client.id, own, which) else {
            return Ok(None);
        };
        let length = rewriting.length();
        self.servers.primary().check_length(self.settings, length + 1)?;
        let mut text = Vec::with_capacity(length);
        rewriting.put(&mut text);
        self.make_room_for_text(length)?;
        let asked = self.sessions.definitions.get(definition);
        let (session, parameters, template) =
            (asked.session(), asked.parameters, asked.template.without_calls());
        let session = self.sessions.states.hold_again(session);
        let answered = self.sessions.hold_definition(session, text.into(), parameters, template);
        let definition = answered.id();
        self.clients[key].session.statements.get_or_insert_default().answered = Some(answered);
        Ok(Some(definition))
    }

    /// Forgets the definition with literals: its execution is over, or will not be.
    pub(crate) fn forget_answered(&mut self, key: ClientKey) {
        let statements = self.clients[key].session.statements.as_mut();
        if let Some(answered) = statements.and_then(|statements| statements.answered.take()) {
            self.sessions.release_definition(answered);
        }
    }

    /// Returns the digest of the columns that a client with CACHE_METADATA has heard of, for the statement that it
    /// executes. The columns of a CALL are described each time (should_send_column_info).
    pub(crate) fn known_metadata(&mut self, key: ClientKey, request: &Request) -> Option<ClientMetadata> {
        let about = request.about.as_deref().filter(|_| request.command == RequestKind::Execute)?;
        let caches = self.clients[key].capabilities.contains(Capabilities::CACHE_METADATA);
        if !caches || request.statement.kind == Kind::Call {
            return None;
        }
        let charset = self.digest_of_charset(key);
        let metadata = self.client_statement(key, about.number)?.metadata;
        Some(ClientMetadata::Known(metadata.map(|metadata| metadata ^ charset)))
    }

    /// Returns the digest of the client's `character_set_client`. Under another one a client has other columns, so to
    /// say (`metadata_columns_changed` in MariaDB's `sql/protocol.cc`).
    fn digest_of_charset(&self, key: ClientKey) -> u64 {
        let Some(session) = self.clients[key].session.id() else { return 0 };
        let name = &self.sessions.states.state(session).charset.client;
        // Names of character sets have far fewer than eight letters that tell them apart.
        name.iter().fold(0, |digest: u64, &byte| digest.rotate_left(8) ^ u64::from(byte))
    }

    /// Notes that a client has been told of a statement's columns.
    pub(crate) fn note_metadata(&mut self, key: ClientKey, number: u32, digest: u64) {
        let charset = self.digest_of_charset(key);
        if let Some(statement) = self.client_statement(key, number) {
            statement.metadata = Some(digest ^ charset);
        }
    }

    /// Keeps COM_STMT_SEND_LONG_DATA, which has no answer: the next execution says what is wrong with it. True where more is kept than before.
    pub(super) fn send_long_data(&mut self, key: ClientKey, number: u32, parameter: u16, raw: &[u8]) -> bool {
        let counted = self.clients[key].count_if_mariadb(self.servers.primary(), Counter::SendLongData);
        let Some(statement) = self.client_statement(key, number) else { return false };
        let definition = statement.definition();
        if parameter >= self.sessions.definitions.get(definition).parameters {
            let error = MySqlError::wrong_arguments(
                self.servers.primary().looked_up_by("mysqld_stmt_send_long_data"),
            );
            self.long_data_is_wrong(key, number, error);
            return false;
        }
        if !counted {
            self.clients[key].count(Counter::SendLongData);
        }
        let is_mariadb = self.servers.primary().facts.as_ref().is_some_and(Facts::is_mariadb);
        let statement =
            self.clients[key].statement_mut(number, is_mariadb).expect("it was found a moment ago");
        let none = || Box::new(LongData::Pieces { commands: Vec::new(), counted: Counted::default() });
        let LongData::Pieces { commands, counted } = &mut **statement.long_data.get_or_insert_with(none)
        else {
            return false;
        };
        commands.extend_from_slice(raw);
        self.client_memory.statements.add(counted, raw.len());
        true
    }

    /// Forgets the values that were sent ahead. The next execution says why.
    pub(in crate::client) fn long_data_is_wrong(&mut self, key: ClientKey, number: u32, error: MySqlError) {
        let Some(statement) = self.client_statement(key, number) else { return };
        let wrong = Box::new(LongData::Wrong(error));
        let before = statement.long_data.replace(wrong);
        self.count_off_long_data(before);
    }

    /// Forgets the values that were sent ahead: they are for no execution any more.
    fn forget_long_data(&mut self, key: ClientKey, number: u32) {
        let Some(statement) = self.client_statement(key, number) else { return };
        let before = statement.long_data.take();
        self.count_off_long_data(before);
    }

    fn count_off_long_data(&mut self, long_data: Option<Box<LongData>>) {
        if let Some(LongData::Pieces { mut counted, .. }) = long_data.map(|long_data| *long_data) {
            self.client_memory.statements.give_back(&mut counted);
        }
    }

    /// Behind the last row of a cursor, forgets the values that were sent ahead. An error stays (sql_prepare.cc, `reset_stmt_params`).
    pub(crate) fn forget_values_sent_ahead(&mut self, key: ClientKey, number: u32) {
        let statement = self.client_statement(key, number);
        let wrong =
            statement.is_some_and(|found| matches!(found.long_data.as_deref(), Some(LongData::Wrong(_))));
        if !wrong {
            self.forget_long_data(key, number);
        }
    }

    /// Returns the request of COM_STMT_FETCH. There is one only where a cursor is open, which keeps the client on its backend.
    pub(super) fn fetch(
        &mut self,
        key: ClientKey,
        number: u32,
        raw: &[u8],
        answer: u8,
    ) -> Result<Request, MySqlError> {
        let counted = self.clients[key].count_if_mariadb(self.servers.primary(), Counter::Fetch);
        let Some(statement) = self.client_statement(key, number) else {
            return Err(self.servers.primary().unknown_prepared_statement(number, "mysqld_stmt_fetch"));
        };
        let (about, open) = (statement.about(Action::Fetch), statement.cursor_is_open);
        if !counted {
            self.clients[key].count(Counter::Fetch);
        }
        let is_mariadb = self.servers.primary().facts.as_ref().is_none_or(Facts::is_mariadb);
        let fetch = if open { self.for_its_backend(key, about, Expect::Rows, raw, answer) } else { None };
        fetch.ok_or_else(|| MySqlError::no_open_cursor(number, is_mariadb))
    }

    /// Carries out COM_STMT_RESET. Values that are kept here are forgotten; the returned request closes an open cursor where it is.
    pub(super) fn reset(
        &mut self,
        key: ClientKey,
        number: u32,
        raw: &[u8],
        answer: u8,
    ) -> Result<Option<Request>, MySqlError> {
        let counted = self.clients[key].count_if_mariadb(self.servers.primary(), Counter::Reset);
        let Some(statement) = self.client_statement(key, number) else {
            return Err(self.servers.primary().unknown_prepared_statement(number, "mysqld_stmt_reset"));
        };
        let about = statement.about(Action::Reset);
        let own = statement.cursor_is_open || statement.stays;
        if !counted {
            self.clients[key].count(Counter::Reset);
        }
        self.forget_long_data(key, number);
        let reset = if own { self.for_its_backend(key, about, Expect::Simple, raw, answer) } else { None };
        if reset.is_none() {
            self.clients[key].session.aftermath.changed_no_rows();
        }
        Ok(reset)
    }

    /// Returns the request of a command about a statement, for the client's backend. `None` where that has no such statement.
    fn for_its_backend(
        &mut self,
        key: ClientKey,
        about: About,
        expect: Expect,
        raw: &[u8],
        answer: u8,
    ) -> Option<Request> {
        let backend = self.clients[key].backend?;
        let id = self.servers[backend].session.prepared.find(about.definition, about.serves)?;
        let mut raw = raw.to_vec();
        put_statement_id(&mut raw, id);
        let about = Some(Box::new(about));
        Some(Request { answer, about, ..Request::plain(raw, expect, RequestKind::Other) })
    }

    /// Carries out COM_STMT_CLOSE, which has no answer. Statements on backends stay there for others. True where that has closed a cursor.
    pub(in crate::client) fn close(&mut self, key: ClientKey, number: u32) -> bool {
        let Some(statement) = self.client_statement(key, number) else { return false };
        let number = statement.number;
        let statements = self.clients[key].session.statements.as_mut().expect("it holds the statement");
        let Some(statement) = statements.remove(number) else { return false };
        self.clients[key].count(Counter::Close);
        if (statement.cursor_is_open || statement.stays)
            && let Some(backend) = self.clients[key].backend
        {
            self.close_own(backend, statement.definition(), number);
        }
        self.count_off_long_data(statement.long_data);
        self.sessions.statement_removed(statement.held);
        statement.cursor_is_open
    }

    /// Forgets all that was prepared, for COM_RESET_CONNECTION, another user, or the end.
    pub(crate) fn forget_all(&mut self, key: ClientKey) {
        let Some(statements) = self.clients[key].session.statements.as_mut() else { return };
        // Numbers go on: none is given twice.
        statements.last = None;
        statements.counters = Counters::default();
        let answered = statements.answered.take();
        for statement in statements.take_all() {
            self.count_off_long_data(statement.long_data);
            self.sessions.statement_removed(statement.held);
        }
        if let Some(answered) = answered {
            self.sessions.release_definition(answered);
        }
    }

    /// Notes whether the client holds its backend for a cursor, which follows from its statements.
    pub(crate) fn note_cursors(&mut self, key: ClientKey) {
        let client = &mut self.clients[key];
        let open = client.session.statements.as_ref().is_some_and(|statements| statements.has_open_cursor());
        client.session.pins = if open {
            client.session.pins.with(Pins::CURSOR)
        } else {
            client.session.pins.without(Pins::CURSOR)
        };
    }
}

impl ClientStatement {
    fn about(&self, action: Action) -> About {
        let serves = Serves::Own(self.number);
        About { number: self.number, definition: self.definition(), serves, stays: self.stays, action }
    }
}

/// Writes the server's number of a statement into commands about it: it stands behind the command's byte in all of them.
pub(crate) fn put_statement_id(raw: &mut [u8], id: u32) {
    let mut at = 0;
    let mut begins = true;
    while let Some(&[a, b, c, _]) = raw[at..].first_chunk::<{ wire::HEADER_LEN }>() {
        let length = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
        let place = at + wire::HEADER_LEN + 1;
        if begins && let Some(bytes) = raw.get_mut(place..place + 4) {
            bytes.copy_from_slice(&id.to_le_bytes());
        }
        // A full packet goes on in the next one.
        begins = length < wire::MAX_PAYLOAD;
        at += wire::HEADER_LEN + length;
        if at >= raw.len() {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_written_into_each_command() {
        let mut raw = Vec::new();
        wire::put_message(&mut raw, &mut 0, b"\x18\x01\0\0\0\0\0piece");
        wire::put_message(&mut raw, &mut 0, &[0x17, 1, 0, 0, 0, 0, 1, 0, 0, 0]);
        put_statement_id(&mut raw, 0x0102_0304);
        let mut expected = Vec::new();
        wire::put_message(&mut expected, &mut 0, b"\x18\x04\x03\x02\x01\0\0piece");
        wire::put_message(&mut expected, &mut 0, &[0x17, 4, 3, 2, 1, 0, 1, 0, 0, 0]);
        assert_eq!(raw, expected);
    }

    #[test]
    fn a_message_of_several_packets_holds_the_number_once() {
        let mut payload = vec![7; wire::MAX_PAYLOAD + 100];
        payload[0] = 0x17;
        let mut raw = Vec::new();
        wire::put_message(&mut raw, &mut 0, &payload);
        put_statement_id(&mut raw, 9);
        payload[1..5].copy_from_slice(&[9, 0, 0, 0]);
        let mut expected = Vec::new();
        wire::put_message(&mut expected, &mut 0, &payload);
        assert!(raw == expected);
    }
}
