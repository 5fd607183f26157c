//! Session variables with values that only the server knows: its trackers tell nothing of them, or too much.
//!
//! Onramp asks for them before anybody else gets the backend. They are also asked for before a statement is prepared there in another
//! state, since the client's own state has to be set again behind that. Until then the client keeps its backend, and so its values.

use std::collections::BTreeSet;

use sql::{Classification, Effects, Kind, TrackerVariable};
use wire::{Capabilities, Expect, StatusFlags};

use crate::backend::from_server::beliefs::{
    Belief, MAY_SET, UNREPORTED_SCHEMA, assigned_beside_list, belief, belief_in_schema, told_by_status,
    unreported,
};
use crate::backend::from_server::own_answers::rows_of;
use crate::backend::{Afterwards, Summary, TrackedChange};
use crate::client::Client;
use crate::client::memory::bytes_held::ClientMemory;
use crate::ids::{BackendKey, ClientKey};
use crate::request::{Request, RequestKind};
use crate::server::control::facts::Facts;
use crate::server::stored_code::Hidden;
use crate::servers::Servers;
use crate::session::aftermath::WHATEVER_LIMIT;
use crate::session::pins::Pins;
use crate::session::trackers::sets_list;
use crate::session::unreported::SCHEMA;
use crate::session::{SessionState, SessionTables};

/// Says whether triggers of tables may run in a statement with variables of its own.
fn may_fire_triggers(statement: &Classification) -> bool {
    use Kind::{Delete, Insert, Load, Replace, Update};
    matches!(statement.kind, Insert | Replace | Update | Delete | Load)
        && statement.variables.for_its_duration
}

/// Says whether a statement that has failed may have changed its session by stored code.
fn may_have_changed_session(request: &Request) -> bool {
    let statement = &request.statement;
    // Of others nobody knows what is left, or what the server has yet to say of it.
    let alone = !statement.several && !statement.variables.for_its_duration && statement.effects.is_empty();
    let plain = alone && statement.kind != Kind::Other;
    !plain || request.changes.hidden.may_change_session()
}

/// Says whether stored code may have run in a request without an effect that tells of it: triggers, and functions that views, defaults and
/// virtual columns call.
fn may_have_run_code(request: &Request) -> bool {
    use Kind::{Ddl, Delete, Do, Execute, Insert, Load, Other, Replace, Select, Update};
    let executes = matches!(request.command, RequestKind::Query | RequestKind::Execute);
    let kind = request.statement.kind;
    executes
        && (request.statement.several
            || matches!(
                kind,
                Insert | Replace | Update | Delete | Load | Select | Do | Ddl | Execute | Other
            ))
}

/// The changes of the session by a statement, as far as they are known, and the variables that are left to ask for.
struct Findings<'a> {
    request: &'a Request,
    before: &'a SessionState,
    failed: bool,
    /// The session state, where it is another one than before.
    state: Option<SessionState>,
    /// Names of variables, and [`SCHEMA`], that the state is right about. Below are the names that have to be asked for.
    settled: BTreeSet<Box<[u8]>>,
    unreported: BTreeSet<Box<[u8]>>,
    /// Names of variables that were reported, believed or not.
    reported: BTreeSet<Box<[u8]>>,
    trackers: Vec<(TrackerVariable, Box<[u8]>)>,
    schema_told: bool,
    /// True where the server says that something has changed, and not what.
    something: bool,
}

impl<'a> Findings<'a> {
    fn new(request: &'a Request, before: &'a SessionState, failed: bool) -> Self {
        Self {
            request,
            before,
            failed,
            state: None,
            settled: BTreeSet::new(),
            unreported: BTreeSet::new(),
            reported: BTreeSet::new(),
            trackers: Vec::new(),
            schema_told: false,
            something: false,
        }
    }

    /// Takes in a change that the server reports.
    fn take_in(&mut self, change: TrackedChange) {
        match change {
            TrackedChange::Variable { name, value } => {
                let name: Box<[u8]> = name.to_ascii_lowercase().into();
                let belief = belief(&self.request.statement, &name, self.failed);
                if belief != Belief::Over {
                    if let Some(tracker) = TrackerVariable::of(&name) {
                        self.trackers.push((tracker, value));
                    } else {
                        self.state().set_variable(&name, &value);
                    }
                    self.note(name.clone(), belief);
                }
                self.reported.insert(name);
            }
            TrackedChange::Schema(name) => {
                let belief = belief_in_schema(self.request, self.before.schema.as_deref(), self.failed);
                if belief != Belief::Over {
                    self.schema_told = true;
                    self.state().schema = (!name.is_empty()).then_some(name);
                    self.note(SCHEMA.into(), belief);
                }
            }
            TrackedChange::State => self.something = true,
        }
    }

    /// Takes in changes that follow from the statement itself. `vague`: the server may report a variable under another one's name.
    fn take_in_unreported(&mut self, vague: bool, status: Option<StatusFlags>) {
        let statement = &self.request.statement;
        if let Some(collation) = self.request.changes.collation.as_ref().filter(|_| !self.failed) {
            let charset = &mut self.state().charset;
            // Which character set `utf8` is hangs on old_mode, which is set by the same SET later on.
            charset.collation = match collation.strip_prefix(b"utf8_") {
                Some(rest) => [&charset.connection, &b"_"[..], rest].concat().into(),
                None => collation.clone(),
            };
        }
        self.unreported.extend(unreported(statement, &self.reported, self.failed));
        if self.has_set_list() {
            self.unreported.extend(assigned_beside_list(statement, &self.reported));
        }
        if !vague || !self.is_done() {
            return;
        }
        for name in &statement.variables.all {
            if self.reported.contains(name) {
                continue;
            }
            match told_by_status(statement, name, status) {
                Some(value) => {
                    self.state().set_variable(name, value);
                    self.note(name.clone(), Belief::True);
                }
                None => self.note(name.clone(), Belief::Doubtful),
            }
        }
    }

    /// Says whether the statement has set the list of variables that the server reports.
    fn has_set_list(&self) -> bool {
        sets_list(&self.request.statement) && self.is_done()
    }

    /// Says whether the statement may have set anything. A SET that fails alone has set nothing.
    fn is_done(&self) -> bool {
        !self.failed || self.request.statement.several
    }

    fn state(&mut self) -> &mut SessionState {
        self.state.get_or_insert_with(|| self.before.clone())
    }

    fn note(&mut self, name: Box<[u8]>, belief: Belief) {
        let into = if belief == Belief::True { &mut self.settled } else { &mut self.unreported };
        into.insert(name);
    }
}

/// A client's session and the backend on which its statement has run. Changes of the one are noted on the other.
pub(in crate::backend) struct SessionOnBackend<'a> {
    pub(super) own: ClientKey,
    pub(in crate::backend) client: &'a mut Client,
    pub(in crate::backend) key: BackendKey,
    pub(in crate::backend) servers: &'a mut Servers,
    pub(in crate::backend) sessions: &'a mut SessionTables,
    pub(super) client_memory: &'a mut ClientMemory,
}

impl SessionOnBackend<'_> {
    /// Takes in the changes of session state by the statement, by the server's own word. True where the server reports a change that nothing
    /// explains.
    pub(super) fn take_in_changes(&mut self, request: &Request, summary: &mut Summary) -> bool {
        if self.client.leaves_other_transactions(&self.sessions.states, request, summary) {
            let backend = &mut self.servers[self.key];
            backend.afterwards = backend.afterwards.max(Afterwards::Reset);
        }
        let changes = std::mem::take(&mut summary.changes);
        let backend = &mut self.servers[self.key];
        self.client.note_wait_timeouts(backend, &request.statement, &changes);
        self.client.note_last_gtid(request, &changes);
        let tells_schema = changes.iter().any(|change| matches!(change, TrackedChange::Schema(_)));
        if tells_schema {
            self.servers.of_mut(self.key).note_rights_taken_up(self.key);
        }
        let vague = self.servers.of(self.key).facts.as_ref().is_some_and(Facts::has_vague_trackers);
        // Code of another schema changes to that and back.
        let by_schema = tells_schema && (request.chooses_schema() || request.changes.hidden.certain);
        // Nothing of the text explains what code that it names may have done beside it.
        let explained = !request.changes.hidden.effects.changes_session()
            && (by_schema || self.explains_changes(request, vague));
        let session = self.client.session.id().expect("a client with requests has logged in");
        let before = self.sessions.states.state(session);
        let mut findings = Findings::new(request, before, summary.error.is_some());
        changes.into_iter().for_each(|change| findings.take_in(change));
        findings.take_in_unreported(vague, summary.status);
        let sets_list = findings.has_set_list();
        let Findings { state, settled, unreported, trackers, schema_told, something, .. } = findings;
        self.client.session.note_unreported(&settled, unreported);
        if let Some(state) = state {
            self.move_session(state, schema_told);
        }
        for (tracker, value) in trackers {
            self.set_tracker(tracker, &value);
        }
        self.servers[self.key].session.trackers &= !sets_list;
        let unexplained = something && !explained;
        if unexplained && tells_schema && self.executes_elsewhere(request) {
            // Nearly always that is all. To pin for what code that nobody can read might have done beside it would take their backends
            // from all who execute like this, until the server has been read or for good.
            let backend = &mut self.servers[self.key];
            backend.afterwards = backend.afterwards.max(Afterwards::Reset);
            return false;
        }
        unexplained
    }

    /// Sets the value of a client's tracker, on its backend too.
    fn set_tracker(&mut self, tracker: TrackerVariable, value: &[u8]) {
        let Some(facts) = &self.servers.primary().facts else { return };
        let as_ours = self.client.set_tracker(facts, tracker, value);
        self.servers[self.key].session.trackers &= as_ours;
        self.client_memory.count_session(self.own, self.client);
    }

    /// Says whether the request executes a statement that was prepared in another schema. The server goes into that schema for it, and back.
    /// Nothing is known of the changes by its code.
    fn executes_elsewhere(&self, request: &Request) -> bool {
        let executes =
            request.command == RequestKind::Execute && !request.changes.hidden.effects.changes_session();
        let Some(about) = request.about.as_deref().filter(|_| executes) else { return false };
        let schema_of = |session| self.sessions.states.state(session).schema.as_deref();
        let own = self.client.session.id().expect("a client with requests has logged in");
        schema_of(self.sessions.definitions.get(about.definition).session()) != schema_of(own)
    }

    /// Says whether a change that the server does not name is one of those that are known of the statement.
    fn explains_changes(&self, request: &Request, vague: bool) -> bool {
        let statement = &request.statement;
        // MySQL reports that a temporary table has been changed or dropped.
        let of_table = statement.kind == Kind::Ddl && self.client.holds_tables();
        // What stored code has set there cannot be told from the reports.
        let runs_code = !statement.effects.intersection(MAY_SET).is_empty();
        // Nor what a view has called whose code nobody can read.
        let no_view = statement.without_tables || request.changes.hidden.certain;
        let sets = matches!(statement.kind, Kind::Set | Kind::Use) && !(vague && runs_code)
            || !statement.variables.unreported.is_empty() && !may_fire_triggers(statement)
            || !statement.variables.all.is_empty() && !runs_code;
        (sets && no_view) || !request.explained_effects().is_empty() || of_table
    }

    /// Takes in the state behind a statement with an error packet, which said nothing of it: the state comes with the next answer. A change that
    /// is reported beyond the variables in doubt was made by stored code before the statement failed.
    pub(super) fn take_in_rest(&mut self, in_doubt: &BTreeSet<Box<[u8]>>, summary: &mut Summary) {
        if let Some(status) = summary.status {
            let ended = self.client.in_transaction() && !status.contains(StatusFlags::IN_TRANS);
            self.client.session.status_told(status);
            if ended
                && self.servers.of(self.key).facts.as_ref().is_some_and(Facts::begins_again_after_deadlocks)
            {
                let backend = &mut self.servers[self.key];
                backend.afterwards = backend.afterwards.max(Afterwards::Reset);
            }
        }
        let was_in_doubt = |change: &TrackedChange| matches!(change, TrackedChange::Variable { name, .. } if in_doubt.contains(&*name.to_ascii_lowercase()));
        let in_doubt_anyway = summary.changes.iter().any(was_in_doubt);
        let tells_schema = summary.changes.iter().any(|change| matches!(change, TrackedChange::Schema(_)));
        let failed = std::mem::replace(&mut self.servers[self.key].session.failed, Hidden::NOTHING);
        let mut request = Request::plain(Vec::new(), Expect::Simple, RequestKind::Other);
        request.changes.hidden = failed;
        let explained = in_doubt_anyway && !failed.effects.changes_session();
        if !self.take_in_changes(&request, summary) || explained {
            return;
        }
        if tells_schema && !failed.effects.changes_session() {
            // As where such a statement succeeds: nearly always the way to the code's schema and back is all.
            let backend = &mut self.servers[self.key];
            backend.afterwards = backend.afterwards.max(Afterwards::Reset);
        } else {
            self.client.session.pinned_for(Pins::STATE_CHANGE);
        }
    }

    /// Notes that a statement has failed. MariaDB reports changes that stored code made before that with a later SET. A result set that ends
    /// with an EOF reports nothing at all. So the next client of the backend would find the changes there. Where it is known that no code
    /// can have changed anything, there are none.
    pub(super) fn note_failed(&mut self, request: &Request) {
        self.servers[self.key].session.failed = request.changes.hidden;
        let told = self.servers.of(self.key).facts.as_ref().is_some_and(|facts| !facts.is_mariadb())
            && self.servers[self.key].login.capabilities.contains(Capabilities::DEPRECATE_EOF);
        let may_have_changed = may_have_changed_session(request) || self.is_in_unreported_schema();
        let may_be = may_have_run_code(request) && may_have_changed;
        // Not even behind ER_PARSE_ERROR is it known that nothing has run: a trigger may have searched for a text with a word too many, or
        // signalled it.
        if !told && may_be {
            let backend = &mut self.servers[self.key];
            backend.afterwards = backend.afterwards.max(Afterwards::Reset);
        }
    }

    /// Says whether the client is in the schema that code of another schema goes back to without a report.
    fn is_in_unreported_schema(&self) -> bool {
        let session = self.client.session.id().expect("a client with requests has logged in");
        let schema = self.sessions.states.state(session).schema.as_deref();
        schema.is_some_and(|schema| schema.eq_ignore_ascii_case(UNREPORTED_SCHEMA))
    }

    /// Returns the question for the variables in doubt, where there are any.
    pub(super) fn question(&self) -> Option<Vec<u8>> {
        let unreported = self.client.session.unreported()?;
        // FOUND_ROWS() does not survive the question; MySQL warns of it, so that it is asked for where it has to be.
        let known = self.client.session.aftermath.knows_found_rows();
        let mut text = if known { b"SELECT 0".to_vec() } else { b"SELECT FOUND_ROWS()".to_vec() };
        for name in unreported {
            // As bytes, which no character_set_results converts.
            text.extend_from_slice(if **name == *SCHEMA { b",CAST(" } else { b",CAST(@@session." });
            text.extend_from_slice(name); // letters, digits and underscores
            text.extend_from_slice(b" AS BINARY)");
        }
        text.extend_from_slice(WHATEVER_LIMIT);
        Some(text)
    }

    /// Takes in the answer to that question.
    pub(super) fn take_in_answer(&mut self, summary: &mut Summary) {
        let asked = self.client.session.take_unreported();
        self.take_in_rest(&asked, summary);
        let row = rows_of(&summary.kept_answer).into_iter().next().unwrap_or_default();
        if let Some((found, values)) = row.split_first().filter(|(_, values)| values.len() == asked.len()) {
            self.client.session.note_unreported(&asked, BTreeSet::new());
            let aftermath = &mut self.client.session.aftermath;
            if !aftermath.knows_found_rows() {
                let rows = found.as_deref().and_then(|rows| std::str::from_utf8(rows).ok()?.parse().ok());
                aftermath.found_rows_told(rows);
            }
            let session = self.client.session.id().expect("a client with requests has logged in");
            let mut state: SessionState = self.sessions.states.state(session).clone();
            for (name, value) in asked.iter().zip(values) {
                match (TrackerVariable::of(name), value) {
                    (Some(tracker), Some(value)) => self.set_tracker(tracker, value),
                    // MySQL takes NULL for the list, and goes on by the one before.
                    (Some(_), None) => {}
                    (None, value) if **name == *SCHEMA => {
                        state.schema = value.as_deref().map(Box::from);
                    }
                    (None, value) => {
                        let value = value.as_deref().unwrap_or_default();
                        self.client.note_wait_timeout(&mut self.servers[self.key], name, value);
                        state.set_variable(name, value);
                    }
                }
            }
            self.move_session(state, asked.contains(SCHEMA));
        } else {
            let message = summary.error.as_ref().map_or(&b""[..], |error| &error.message);
            let rest = without_named(asked.clone(), message);
            self.client.session.question_refused(asked.len(), rest);
        }
    }

    /// Changes the client's session state, on its backend too.
    ///
    /// The backend is in the same schema where the server has just told that schema, else in its former one. Behind a USE that failed the
    /// former one may differ from its client's.
    pub(super) fn move_session(&mut self, state: SessionState, told: bool) {
        let before = self.client.session.id().map(|session| &self.sessions.states.state(session).charset);
        if before.is_some_and(|before| self.client.variables_depend_on(before, &state.charset)) {
            self.client.session.pinned_for(Effects::USER_VARIABLE.into());
        }
        let found = &self.sessions.states.state(self.servers[self.key].session.id()).schema;
        let elsewhere = (!told && *found != state.schema)
            .then(|| SessionState { schema: found.clone(), ..state.clone() });
        let states = &mut self.sessions.states;
        let session = states.hold(state);
        let id = session.id();
        self.client.session.becomes(session, states);
        let session = match elsewhere {
            None => states.hold_again(id),
            Some(state) => states.hold(state),
        };
        self.servers.set_backend_session(self.key, session, states);
    }
}

/// Returns the variables without those that an error message of the server names in quotes. There is no such variable, or it is a global
/// one, so that setting it has failed too.
fn without_named(mut names: BTreeSet<Box<[u8]>>, message: &[u8]) -> BTreeSet<Box<[u8]>> {
    names.retain(|name| !message.split(|&byte| byte == b'\'').any(|word| word.eq_ignore_ascii_case(name)));
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::unreported::cannot_wait;

    fn statement(text: &str) -> Classification {
        sql::classify(text.as_bytes(), sql::LexMode::default())
    }

    #[test]
    fn trackers_and_the_schema_are_asked_for_at_once() {
        let of = |name: &[u8]| Some(Box::new([Box::from(name)].into_iter().collect()));
        assert!(cannot_wait(&of(b"session_track_schema")) && cannot_wait(&of(SCHEMA)));
        assert!(!cannot_wait(&of(b"time_zone")) && !cannot_wait(&None));
    }

    #[test]
    fn stored_code_may_run_where_no_lexer_sees_it() {
        let may = |text: &str| {
            let mut request = Request::query(text);
            request.statement = statement(text);
            may_have_run_code(&request)
        };
        assert!(may("INSERT INTO t VALUES (1)") && may("SELECT * FROM v") && may("DO 1; COMMIT"));
        assert!(!may("SET time_zone = 'nowhere'") && !may("BEGIN") && !may("SAVEPOINT s"));
        assert!(may_fire_triggers(&statement("SET STATEMENT sql_mode = '' FOR DELETE FROM t")));
        assert!(!may_fire_triggers(&statement("SET STATEMENT sql_mode = '' FOR SELECT 1")));
    }

    #[test]
    fn what_the_server_refuses_to_tell_is_not_asked_again() {
        let names = || [b"max_connections"[..].into(), b"sql_mode"[..].into()].into_iter().collect();
        let message = b"Variable 'max_connections' is a GLOBAL variable";
        assert_eq!(without_named(names(), message).into_iter().collect::<Vec<_>>(), [b"sql_mode"[..].into()]);
        assert_eq!(without_named(names(), b"Query execution was interrupted").len(), 2);
    }
}
