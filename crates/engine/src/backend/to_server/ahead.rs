//! The preludes that go ahead of a client's request on a backend, so that the request runs in its client's session state.

use sql::Reads;
use wire::StatusFlags;

use crate::backend::from_server::unreported_variables::SessionOnBackend;
use crate::backend::{InFlight, PreludeEffects};
use crate::client::Client;
use crate::errors::ServerError;
use crate::ids::BackendKey;
use crate::request::{Request, RequestKind};
use crate::servers::Servers;
use crate::session::{SessionState, SessionTables};
use crate::settings::Settings;

/// ER_BAD_DB_ERROR and ER_DBACCESS_DENIED_ERROR: the schema was dropped, or the right to use it was taken. The client hears the error once
/// and then has no schema, so that it can choose another.
const SCHEMA_GONE: [u16; 2] = [1049, 1044];

/// ER_QUERY_INTERRUPTED, MariaDB's ER_STATEMENT_TIMEOUT, MySQL's ER_QUERY_TIMEOUT and ER_USER_LIMIT_REACHED: a KILL QUERY or a limit
/// hit a prelude.
const INTERRUPTED: [u16; 4] = [1317, 1969, 3024, 1226];

/// The preludes of a request.
#[derive(Default)]
pub(crate) struct Ahead {
    pub(super) texts: Vec<Vec<u8>>,
    /// Number of texts that set the client's session state.
    of_state: usize,
    pub(super) effects: PreludeEffects,
    /// True where the client's `wait_timeout` is among the texts.
    pub(super) sets_wait_timeout: bool,
    /// True where the preludes have to be sent apart from the request, in a text of their own.
    pub(super) alone: bool,
}

impl Ahead {
    pub(super) fn is_state_alone(&self) -> bool {
        self.texts.len() == self.of_state
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub(super) fn count(&self) -> u8 {
        u8::try_from(self.texts.len()).expect("nine kinds of statements go ahead")
    }
}

impl Client {
    /// Returns the preludes that make the backend fit the request. Empty where the backend fits already.
    pub(super) fn preludes(
        &self,
        settings: &Settings,
        sessions: &SessionTables,
        servers: &Servers,
        backend_key: BackendKey,
        request: &Request,
    ) -> Ahead {
        let (session, backend) = (&self.session, &servers[backend_key]);
        let mut ahead = Ahead::default();
        if request.resets_session() {
            return ahead;
        }
        if !backend.session.trackers {
            ahead.texts.push(crate::backend::to_server::own_statement::TRACKERS_ON.as_bytes().to_vec());
        }
        if backend.must_be_cleared(self.id, request) {
            ahead.effects.clear = true;
            ahead.texts.push(crate::backend::from_server::diagnostics_area::CLEAR.to_vec());
        }
        if session.id() != Some(backend.session.id()) || sessions.others_come(backend) {
            let wanted = sessions.states.state(session.id().expect("a client with requests has logged in"));
            let found = sessions.found_on(backend);
            ahead.alone = found.iter().any(|found| wanted.changes_behind_text(found));
            // A request for another schema has no use for the present one, which may have been dropped.
            let other = found.iter().any(|found| wanted.schema != found.schema);
            ahead.effects.schema = other && wanted.schema.is_some() && !request.chooses_schema();
            let texts =
                crate::backend::to_server::difference::statements(wanted, &found, ahead.effects.schema);
            ahead.of_state = texts.len();
            ahead.texts.extend(texts);
        }
        let variables = self.variables_ahead(servers, backend_key, request);
        if !variables.is_empty() {
            ahead.texts.push(variables);
        }
        let pins = !self.pins_of(request, settings, servers, &sessions.states).is_empty();
        if let Some(set) = self.wait_timeout_ahead(backend, request, pins) {
            ahead.sets_wait_timeout = true;
            ahead.texts.push(set);
        }
        // A pin makes the backend the client's own: LAST_INSERT_ID() has to be right there from now on. So it has to be
        // ahead of an insert that may or may not change it, where the next statement will be asked there too. On a backend
        // that nobody holds it is 0.
        // LAST_INSERT_ID(0) cannot be told from no change where 0 stood before.
        let reads_id =
            request.statement.reads.contains(Reads::LAST_INSERT_ID) || request.statement.sets_last_insert_id;
        let inserts = request.statement.inserts;
        // Without autocommit an insert may begin a transaction itself.
        let autocommit = session.status().contains(StatusFlags::AUTOCOMMIT);
        let begun = self.in_transaction() || self.session.unstarted().is_some() || !autocommit;
        let needed = pins || reads_id || (inserts && begun);
        let there = session.aftermath.insert_id_stands_at(backend_key);
        if needed && !there {
            ahead.effects.set_insert_id = true;
            ahead
                .texts
                .push(format!("SET last_insert_id={}", session.aftermath.last_insert_id()).into_bytes());
        }
        // Preparing a statement has no part in a transaction, but for being refused in one that only reads.
        let prepares = request.command == RequestKind::Prepare;
        if let Some(unstarted) =
            self.session.unstarted().filter(|unstarted| !prepares || unstarted.only_reads())
        {
            ahead.effects.begin = true;
            ahead.texts.push(unstarted.text().to_vec());
        }
        ahead
    }
}

impl SessionOnBackend<'_> {
    /// Notes that the preludes of a statement have been carried out: its BEGIN, the clearing of what others have left, the session state.
    /// `chooses_schema`: the statement is about to choose another schema, so the preludes did not set the state's own.
    pub(in crate::backend) fn preludes_stand(&mut self, statement: &InFlight, chooses_schema: bool) {
        let effects = statement.prelude_effects;
        if effects.schema {
            // Also where the schema was there before: USE takes up its rights anew.
            self.servers.of_mut(self.key).note_rights_taken_up(self.key);
        }
        if effects.begin {
            self.client.session.transaction_started();
        }
        if effects.clear {
            self.servers[self.key].diagnostics_area_is_cleared(self.client.id);
        }
        self.state_stands(effects.set_insert_id, chooses_schema);
    }

    fn state_stands(&mut self, insert_id: bool, without_schema: bool) {
        let key = self.key;
        let session = self.client.session.id().expect("a client with requests has logged in");
        let session = if without_schema {
            let schema = self.sessions.states.state(self.servers[key].session.id()).schema.clone();
            let state = SessionState { schema, ..self.sessions.states.state(session).clone() };
            self.sessions.states.hold(state)
        } else {
            self.sessions.states.hold_again(session)
        };
        self.servers.set_backend_session(key, session, &mut self.sessions.states);
        self.servers[key].session.trackers = true;
        if insert_id {
            self.client.session.aftermath.insert_id_sent_to(key);
        }
    }
}

impl SessionState {
    /// Returns the state without the part that this error says cannot be set. `None` where nobody knows which part that is.
    pub(in crate::backend) fn without_refused(&self, error: &ServerError) -> Option<Self> {
        let mut without = self.clone();
        if SCHEMA_GONE.contains(&error.code) {
            without.schema = None;
        } else if !INTERRUPTED.contains(&error.code) && !without.forget_named(&error.message) {
            return None;
        }
        Some(without)
    }
}
