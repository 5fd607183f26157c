//! Prepares statements on backends: for a client that asks for it, and again ahead of an execution on another backend.
//!
//! A statement is prepared in the session state of the client that prepared it first. The client's present state may differ from that
//! in a part that matters. Then the first state goes ahead of COM_STMT_PREPARE, and the present one follows it. Each is answered before
//! the next is sent, so that nothing runs in a state that could not be set.

use std::rc::Rc;

use sql::{Effects, Reads};
use wire::{Capabilities, CommandKind, StatusFlags};

use crate::backend::Summary;
use crate::backend::to_server::prepared::{Removed, Serves};
use crate::backend::to_server::prepared_statement_room::WithoutRoom;
use crate::client::commands::prepared::PreparedStatements;
use crate::errors::{MySqlError, ServerError};
use crate::ids::{BackendKey, ClientKey, ServerKey};
use crate::outside::named::Limit;
use crate::pool::Pool;
use crate::request::{About, Action, Request, RequestKind};
use crate::server::Server;
use crate::servers::Servers;
use crate::session::literals::Literals;
use crate::session::statements::{DefinitionHold, DefinitionId};
use crate::session::{SessionState, SessionTables};
use crate::settings::Settings;

/// ER_MAX_PREPARED_STMT_COUNT_REACHED: the server has no room for one more.
const NO_ROOM: u16 = 1461;

/// ER_WRONG_ARGUMENTS.
const WRONG_ARGUMENTS: u16 = 1210;

/// ER_MALFORMED_PACKET: MySQL's error where values are missing.
const MALFORMED: u16 = 1835;

/// ER_UNSUPPORTED_PS.
const UNSUPPORTED: u16 = 1295;

/// ER_NEED_REPREPARE: the server has given up preparing the statement anew by itself. ER_UNKNOWN_STMT_HANDLER: it does not know the statement.
const USELESS: [u16; 2] = [1615, 1243];

/// ER_BAD_DB_ERROR and ER_DBACCESS_DENIED_ERROR: USE has changed nothing.
const SCHEMA_REFUSED: [u16; 2] = [1049, 1044];

/// Largest answer to COM_STMT_PREPARE that is kept until it is whole, in bytes, unless `held_answer_memory` is used up. It has at most 65,535
/// parameters, which the servers describe in 24 bytes each, and 4,096 columns.
pub(crate) const LARGEST_ANSWER: usize = 8 << 20;

impl Server {
    /// Returns the definition that has to be prepared on this backend before the request can be executed there.
    pub(crate) fn lacking_definition(
        &self,
        backend_key: BackendKey,
        request: &Request,
    ) -> Option<DefinitionId> {
        let about = request.about.as_deref().filter(|_| request.command == RequestKind::Execute)?;
        let found = self.statement_for(backend_key, about);
        found.is_none().then_some(about.definition)
    }

    /// Returns the statement of a backend that an execution can have.
    pub(crate) fn statement_for(&self, backend_key: BackendKey, about: &About) -> Option<Serves> {
        let prepared = &self.backends[backend_key].session.prepared;
        let own = Serves::Own(about.number);
        let any = [own, about.serves, Serves::All];
        let choice = if about.serves == own { &any[..1] } else { &any[..] };
        let without_cursor = matches!(about.action, Action::Execute { cursor: false, .. });
        choice.iter().copied().find(|&serves| {
            let spoiled = without_cursor && !about.stays && prepared.had_cursor(about.definition, serves);
            prepared.has(about.definition, serves) && !spoiled
        })
    }

    /// Makes an error of the answer to COM_STMT_PREPARE, since there was no room for it. Returns the client's answer.
    fn refuse_to_prepare(
        &mut self,
        settings: &Settings,
        key: BackendKey,
        request: &Request,
        summary: &mut Summary,
    ) -> Vec<u8> {
        if let Some((id, _)) = summary.prepared.take() {
            self.close_prepared(key, id);
        }
        let error = MySqlError::held_answer_memory(settings.held_answer_memory);
        let mut answer = Vec::new();
        wire::put_message(&mut answer, &mut request.answer.clone(), &error.packet());
        summary.error = Some(ServerError::from(&error));
        summary.refused_here = true;
        answer
    }

    /// Sends COM_STMT_CLOSE, which has no answer.
    pub(in crate::backend) fn close_prepared(&mut self, key: BackendKey, id: u32) {
        let mut packet = Vec::new();
        let mut payload = vec![CommandKind::StmtClose as u8];
        payload.extend_from_slice(&id.to_le_bytes());
        wire::put_message(&mut packet, &mut 0, &payload);
        self.put_to_backend(key, &packet);
    }
}

/// The next step towards a statement that is not prepared yet on a backend.
pub(super) enum ToPrepare {
    /// Prepare the statement, by this text.
    Statement(Rc<[u8]>),
    /// Set the client's session state, in which the statement may be prepared too.
    StateOfClient,
    /// Set the session state in which the statement has to be prepared, by this text of so many statements.
    State(Vec<u8>, u8),
}

/// The fate of a statement that was prepared ahead of an execution.
pub(in crate::backend) enum PreparedAgain {
    /// The execution goes on: the statement is there, or is tried once more.
    GoesOn,
    /// The execution waits for room on the server.
    Waits,
    /// The server has refused the statement.
    Refused,
    /// The server has said neither.
    Unsaid,
    /// There is no execution any more.
    Unwanted,
}

/// The fate of a client's own COM_STMT_PREPARE.
pub(in crate::backend) enum Prepared {
    /// The command is over, with this answer for its client.
    Ended(Vec<u8>),
    /// The server had no room for the statement, and it is tried once more.
    TriedAgain,
    /// The command waits for room on the server.
    Waits,
}

impl PreparedStatements<'_> {
    /// Returns the next step towards a statement that is not prepared yet. `has_ahead`: a part of its client's session state is missing.
    pub(super) fn next_to_prepare(
        &self,
        key: ClientKey,
        backend_key: BackendKey,
        definition: DefinitionId,
        has_ahead: bool,
    ) -> ToPrepare {
        let asked = self.sessions.definitions.get(definition);
        let wanted = self.sessions.states.state(asked.session());
        let defines = asked.template.defines();
        let client = self.clients[key].session.id().expect("a client with requests has logged in");
        let found = self.sessions.states.state(self.servers[backend_key].session.id());
        if found.prepares_like(wanted, defines) {
            return ToPrepare::Statement(Rc::clone(&asked.text));
        }
        if has_ahead && self.sessions.states.state(client).prepares_like(wanted, defines) {
            return ToPrepare::StateOfClient;
        }
        let target = self.state_to_prepare(key, backend_key, definition);
        let texts = crate::backend::to_server::difference::statements(
            &target,
            &[found],
            target.schema != found.schema,
        );
        let preludes = u8::try_from(texts.len()).expect("three statements at most");
        ToPrepare::State(texts.join(&b';'), preludes)
    }

    /// Notes that the session state for a client's definition stands on its backend. False where the client does not need it any more.
    pub(in crate::backend) fn state_of_definition_stands(
        &mut self,
        key: BackendKey,
        client: ClientKey,
    ) -> bool {
        let Some(about) = self.about(client) else { return false };
        let state = self.state_to_prepare(client, key, about.definition);
        self.state_stands(key, state);
        // The client's own state may have stood before, and does no more.
        if let Some(request) = &mut self.clients[client].request {
            request.prepared = false;
        }
        true
    }

    /// Notes a backend's session state.
    pub(in crate::backend) fn state_stands(&mut self, key: BackendKey, state: SessionState) {
        let session = self.sessions.states.hold(state);
        self.servers.set_backend_session(key, session, &mut self.sessions.states);
    }

    /// Takes the answer to a preparation ahead of an execution.
    pub(in crate::backend) fn prepared_again(
        &mut self,
        key: BackendKey,
        client: ClientKey,
        summary: &Summary,
    ) -> PreparedAgain {
        let Some(about) = self.about(client) else { return PreparedAgain::Unwanted };
        match (&summary.error, summary.prepared) {
            (Some(error), _) if error.code != NO_ROOM => PreparedAgain::Refused,
            (Some(_), _) => match self.without_room(key, client) {
                WithoutRoom::TriedAgain(_) => PreparedAgain::GoesOn,
                WithoutRoom::Waits => {
                    self.wait_for_room(key, client);
                    PreparedAgain::Waits
                }
                WithoutRoom::Refused => PreparedAgain::Refused,
            },
            (None, Some((id, _))) => {
                let own = Serves::Own(about.number);
                let serves = if about.serves == own { own } else { Serves::All };
                self.keep_prepared(key, about.definition, serves, id);
                PreparedAgain::GoesOn
            }
            (None, None) => PreparedAgain::Unsaid,
        }
    }

    /// Decides about a request with a statement that the server had no room for, and counts the attempt.
    fn becomes_without_room(&mut self, key: BackendKey, request: &mut Request) -> WithoutRoom {
        let (server, tables) = (self.servers.of_mut(key), (&*self.clients, &mut *self.sessions));
        let becomes = server.without_room(self.now, self.pool, tables, key, request);
        if let WithoutRoom::TriedAgain(tries) = becomes {
            request.tries.prepares = tries;
        }
        becomes
    }

    /// Decides likewise about the request that a client holds.
    fn without_room(&mut self, key: BackendKey, client: ClientKey) -> WithoutRoom {
        let Some(mut request) = self.clients[client].request.take() else { return WithoutRoom::Refused };
        let becomes = self.becomes_without_room(key, &mut request);
        self.clients[client].request = Some(request);
        becomes
    }

    /// Returns the answer to a client's own COM_STMT_PREPARE, with the client's number for the statement, where there is one.
    pub(in crate::backend) fn answer_to_prepare(
        &mut self,
        key: BackendKey,
        client: ClientKey,
        request: &mut Request,
        summary: &mut Summary,
    ) -> Prepared {
        let whole = summary.has_kept_all();
        let mut answer = std::mem::take(&mut summary.kept_answer);
        if !whole {
            answer = self.servers.of_mut(key).refuse_to_prepare(self.settings, key, request, summary);
        }
        match (&summary.error, summary.prepared) {
            (None, Some((id, parameters))) => {
                let number = self.note_prepared(key, client, request, (id, parameters));
                // Behind the header and the byte that says OK.
                let place = wire::HEADER_LEN + 1;
                answer[place..place + 4].copy_from_slice(&number.to_le_bytes());
                let caches = self.clients[client].capabilities.contains(Capabilities::CACHE_METADATA);
                if let Some(digest) = caches.then(|| wire::digest_of_prepared(&answer)).flatten() {
                    self.note_metadata(client, number, digest);
                }
            }
            (error, _) => {
                let lacks_room = error.as_ref().is_some_and(|error| error.code == NO_ROOM);
                self.clients[client].session.statements.get_or_insert_default();
                if lacks_room {
                    match self.becomes_without_room(key, request) {
                        WithoutRoom::TriedAgain(_) => return Prepared::TriedAgain,
                        WithoutRoom::Waits => return Prepared::Waits,
                        WithoutRoom::Refused => {}
                    }
                }
                self.clients[client].session.statements.get_or_insert_default().note_failure();
            }
        }
        Prepared::Ended(answer)
    }

    /// Notes that a client has prepared a statement, with the server's number and so many parameters. Returns the client's number.
    fn note_prepared(
        &mut self,
        key: BackendKey,
        client: ClientKey,
        request: &Request,
        (id, parameters): (u32, u16),
    ) -> u32 {
        self.clients[client].session.statements.get_or_insert_default();
        let held = self.definition_of(client, request, parameters);
        let pins = self.clients[client].pins_of(request, self.settings, self.servers, &self.sessions.states);
        let stays = pins.keeps_prepared();
        let definition = held.id();
        self.sessions.statement_added(definition);
        let number = self.clients[client].session.statements.get_or_insert_default().add(held, stays);
        let serves = if stays { Serves::Own(number) } else { Serves::All };
        self.keep_prepared(key, definition, serves, id);
        number
    }

    /// Returns the session state in which a definition is prepared for a client on its backend.
    fn state_to_prepare(
        &self,
        key: ClientKey,
        backend_key: BackendKey,
        definition: DefinitionId,
    ) -> SessionState {
        let client = self.clients[key].session.id().expect("a client with requests has logged in");
        let definition = self.sessions.definitions.get(definition);
        let wanted = self.sessions.states.state(definition.session());
        let found = self.sessions.states.state(self.servers[backend_key].session.id());
        self.sessions.states.state(client).to_prepare(wanted, found, definition.template.defines())
    }

    /// Returns the backend's state where the server has refused the definition's default schema and nothing else.
    pub(in crate::backend) fn refused_schema(
        &self,
        key: BackendKey,
        client: ClientKey,
        summary: &Summary,
    ) -> Option<SessionState> {
        let refused = summary.error.as_ref().is_some_and(|error| SCHEMA_REFUSED.contains(&error.code));
        let about = self.about(client).filter(|_| refused && !summary.prelude_failed)?;
        let mut state = self.state_to_prepare(client, key, about.definition);
        let found = self.sessions.states.state(self.servers[key].session.id());
        (state.schema != found.schema).then(|| {
            state.schema.clone_from(&found.schema);
            state
        })
    }

    fn about(&self, client: ClientKey) -> Option<About> {
        self.clients[client].request.as_ref()?.about.as_deref().copied()
    }

    /// Holds the definition that a client has prepared.
    fn definition_of(&mut self, client: ClientKey, request: &Request, parameters: u16) -> DefinitionHold {
        let session = self.clients[client].session.id().expect("a client with requests has logged in");
        let mut template = request.changes.template.as_deref().expect("what prepares has one").clone();
        template.calls.clone_from(&request.statement.calls);
        let state = self.sessions.states.state(session).for_preparing(template.defines());
        let session = self.sessions.states.hold(state);
        let text = request.text().map_or_else(|| request.whole_text().into(), Into::into);
        self.sessions.hold_definition(session, text, parameters, template)
    }

    /// Keeps a statement that stands on a backend. Closes an older one in the same place, and the one used longest ago where there are too
    /// many.
    fn keep_prepared(&mut self, key: BackendKey, definition: DefinitionId, serves: Serves, id: u32) {
        let held = self.sessions.definitions.hold_again(definition);
        self.servers.of_mut(key).prepared_statement_room.taken += 1;
        if let Some(before) = self.servers[key].session.prepared.insert(held, serves, id) {
            self.prepared_is_closed(key, before);
        }
        while self.servers[key].session.prepared.common() > self.settings.backend_prepared_statements as usize
        {
            if !self.servers.of_mut(key).close_oldest(self.sessions, key) {
                break;
            }
        }
        // Others prepare statements on the server too, and each worker.
        let servers =
            self.servers.of(key).facts.as_ref().map_or(u32::MAX, |facts| facts.max_prepared_stmt_count);
        let most = (servers / 4 * 3 / self.pool.workers.count()).max(1) as usize;
        // Two for one that is new: cursors, which nobody can close, must not cost the others all of theirs at once.
        for _ in 0..2 {
            if self.servers.of(key).prepared_statement_room.taken > most {
                self.close_where_most_are(Some(key.server()));
            }
        }
    }

    /// Closes the statement that was used longest ago on the backend with most of them, of this server or of all. False where none can be
    /// closed.
    fn close_where_most_are(&mut self, on: Option<ServerKey>) -> bool {
        let is_there = |key: BackendKey| on.is_none_or(|server| server == key.server());
        let may_go = self.servers.backends().filter(|&(key, _)| {
            is_there(key) && !self.servers.of(key).is_to_be_left_alone(self.clients, key)
        });
        let most = may_go.max_by_key(|(_, backend)| backend.session.prepared.common());
        most.map(|(key, _)| key).is_some_and(|key| self.servers.of_mut(key).close_oldest(self.sessions, key))
    }

    /// Closes statements that no client has any more, or that can be prepared again, until their definitions leave room for `more` bytes of
    /// text. An error where clients have too many themselves.
    pub(crate) fn make_room_for_text(&mut self, more: usize) -> Result<(), MySqlError> {
        let memory = self.settings.prepared_statement_memory;
        while self.sessions.definitions.text_bytes() + more > memory {
            if !self.close_where_most_are(None) {
                self.views.limit_reached(self.now, Limit::PreparedStatementMemory, memory as u64);
                return Err(MySqlError::prepared_statement_memory(memory));
            }
        }
        Ok(())
    }

    fn prepared_is_closed(&mut self, key: BackendKey, removed: Removed) {
        self.servers.of_mut(key).prepared_is_closed(self.sessions, key, removed);
    }

    /// Returns the server's number for the statement that a request executes, which is prepared there.
    pub(crate) fn id_on(&mut self, backend_key: BackendKey, about: &About) -> Option<u32> {
        let found = self.servers.of(backend_key).statement_for(backend_key, about)?;
        let wants_cursor = matches!(about.action, Action::Execute { cursor: true, .. });
        let own = Serves::Own(about.number);
        let serves = match found {
            Serves::Own(_) => own,
            _ if wants_cursor => own,
            _ => about.serves,
        };
        let is_mysql = self.servers.of(backend_key).facts.as_ref().is_some_and(|facts| !facts.is_mariadb());
        let prepared = &mut self.servers[backend_key].session.prepared;
        let surplus = prepared.turn(about.definition, found, serves);
        if wants_cursor && is_mysql {
            // Before it has one: the execution may fail, or its client go before it ends.
            prepared.asked_for_cursor(about.definition, about.number);
        }
        let id = prepared.find(about.definition, serves);
        // One that a client has just prepared is not needed beside the one that serves it already.
        if serves != Serves::All
            && about.serves != Serves::All
            && let Some(unused) = prepared.remove(about.definition, Serves::All)
        {
            self.prepared_is_closed(backend_key, unused);
        }
        if let Some(surplus) = surplus {
            self.prepared_is_closed(backend_key, surplus);
        }
        id
    }

    /// Notes whether a cursor is open behind an execution, a fetch or a reset.
    pub(crate) fn note_cursor(
        &mut self,
        key: BackendKey,
        client: ClientKey,
        about: &About,
        summary: &Summary,
    ) {
        if let Some(digest) = summary.metadata {
            self.note_metadata(client, about.number, digest);
        }
        let was_open =
            self.client_statement(client, about.number).is_some_and(|statement| statement.cursor_is_open);
        let open = match (about.action, &summary.error, summary.status) {
            // An execution closes it once it has its values (Prepared_statement::execute_loop, set_parameters).
            (Action::Execute { .. }, Some(error), _) if has_wrong_values(error) => was_open,
            // Behind what has no columns, a stored function has left the flag, as it may have left LAST_ROW_SENT here. Behind rows,
            // as those of EXPLAIN, there is none either, and MySQL 9.7.4 crashes where it is asked for more.
            (Action::Execute { cursor, .. }, None, Some(status)) => {
                cursor && status.contains(StatusFlags::CURSOR_EXISTS) && summary.counts.rows == Some(0)
            }
            (Action::Fetch, None, Some(status)) => !status.contains(StatusFlags::LAST_ROW_SENT),
            // Nothing that a fetch runs into closes a cursor for certain.
            (Action::Fetch, ..) => true,
            (Action::Reset, Some(_), _) => true,
            _ => false,
        };
        let answered = self.clients[client].session.statements.as_ref().and_then(|all| all.answered.as_ref());
        if answered.map(DefinitionHold::id) == Some(about.definition) {
            // Its literals were for this execution.
            if let Some(unused) = self.servers[key].session.prepared.remove(about.definition, Serves::All) {
                self.prepared_is_closed(key, unused);
            }
            return self.forget_answered(client);
        }
        if let Some(statements) = &mut self.clients[client].session.statements {
            statements.note_cursor(about.number, open);
        }
        if about.action == Action::Fetch && !open {
            // The servers forget it behind the last row (sql_prepare.cc: mysqld_stmt_fetch, reset_stmt_params).
            self.forget_values_sent_ahead(client, about.number);
        }
        if !open && !about.stays {
            let own = Serves::Own(about.number);
            let prepared = &mut self.servers[key].session.prepared;
            // What has had a cursor answers an execution without one by an OK in the place of rows (seen with MySQL 9.7.4); and
            // what was its client's own from the start may have types that nobody knows, or have been prepared in another state.
            let unused = match about.serves == own || prepared.had_cursor(about.definition, own) {
                true => prepared.remove(about.definition, own),
                false => prepared.turn(about.definition, own, about.serves),
            };
            if let Some(unused) = unused {
                self.prepared_is_closed(key, unused);
            }
        }
        self.note_cursors(client);
    }

    /// Closes a statement that an execution's failure leaves in doubt on the server. It is prepared again when it is needed. To be called once
    /// nobody asks the backend about the failure any more.
    pub(crate) fn drop_doubtful(&mut self, key: BackendKey, about: &About, summary: &Summary) {
        let Action::Execute { long_data, .. } = about.action else { return };
        let doubtful = summary.error.as_ref().is_some_and(|error| long_data || USELESS.contains(&error.code));
        if doubtful && self.servers.contains(key) {
            let serves = if matches!(about.serves, Serves::Own(_)) { Serves::All } else { about.serves };
            let prepared = &mut self.servers[key].session.prepared;
            if let Some(doubtful) = prepared.remove(about.definition, serves) {
                self.prepared_is_closed(key, doubtful);
            }
        }
    }

    /// Closes a client's own statement with an open cursor on the server.
    pub(crate) fn close_own(&mut self, key: BackendKey, definition: DefinitionId, number: u32) {
        if let Some(own) = self.servers[key].session.prepared.remove(definition, Serves::Own(number)) {
            self.prepared_is_closed(key, own);
        }
    }
}

impl Servers {
    /// Forgets all that is prepared on a backend, gone with its session.
    pub(in crate::backend) fn forget_prepared_on(
        &mut self,
        key: BackendKey,
        sessions: &mut SessionTables,
        pool: &mut Pool,
    ) {
        for definition in self[key].session.prepared.clear() {
            self.of_mut(key).prepared_statement_room.taken -= 1;
            sessions.release_definition(definition);
        }
        self.of_mut(key).all_is_closed(pool, key);
    }
}

/// Says whether a prepared text has to be executed where it was prepared. So it is where the text reads values that only the server of the
/// statement before knows, and no literal can stand for them. `in_schema`: there was a default schema. `keeps_types`: user variables keep
/// the type of the preparation (MySQL's manual, "User-Defined Variables", since 8.0.22), so that another client's preparation differs.
/// Such a statement is its client's own until that closes it, since it cannot be prepared again.
pub(crate) fn stays(request: &Request, in_schema: bool, keeps_types: bool) -> bool {
    let reads = request.statement.reads;
    // Calls become literals when it is executed.
    let moved = [Reads::ROW_COUNT, Reads::FOUND_ROWS, Reads::DIAGNOSTICS];
    let calls = request.statement.calls.iter().any(|call| Literals::OfPrepared.has(call.function));
    let template = request.changes.template.as_ref();
    let names_variables =
        template.is_some_and(|template| template.statement.effects.contains(Effects::USER_VARIABLE));
    // No backend can be left without a schema once it has one.
    (keeps_types && names_variables)
        || (!calls && moved.into_iter().any(|read| reads.contains(read)))
        || (!in_schema && template.is_some_and(|template| template.mentions_schema))
}

/// Says whether an execution had values that do not fit its statement, or several for a statement that takes one
/// (`Prepared_statement::execute_bulk_loop`). Nothing has happened then.
fn has_wrong_values(error: &ServerError) -> bool {
    [UNSUPPORTED, MALFORMED].contains(&error.code)
        || (error.code == WRONG_ARGUMENTS && error.message.ends_with(b"mysqld_stmt_execute"))
}
