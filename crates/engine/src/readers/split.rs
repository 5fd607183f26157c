//! The reads that may go to a replica, and what the replica has to have by then.

use seam::Instant;
use sql::{Kind, ReadHint};
use wire::StatusFlags;

use super::routing::NotSplit;
use crate::backend::to_server::message::LARGEST_JOINED;
use crate::client::Client;
use crate::logins::Logins;
use crate::pool::Pool;
use crate::request::{QueryAttributes, Request, RequestKind};
use crate::servers::Servers;
use crate::session::SessionTables;
use crate::settings::Settings;

impl SessionTables {
    /// The text that a request sends or has had prepared; `None` where it is of several packets.
    fn text_of<'a>(&'a self, request: &'a Request) -> Option<&'a [u8]> {
        match request.about.as_deref() {
            Some(about) => Some(&self.definitions.get(about.definition).text),
            None => request.text(),
        }
    }
}

/// A client that sends a statement, and what is looked at to find out whether a replica may answer it.
pub(super) struct Splitting<'a> {
    pub(super) now: Instant,
    pub(super) settings: &'a Settings,
    pub(super) pool: &'a mut Pool,
    pub(super) client: &'a Client,
    pub(super) logins: &'a Logins,
    pub(super) sessions: &'a SessionTables,
    pub(super) servers: &'a mut Servers,
}

impl Splitting<'_> {
    /// Returns the time up to which a read has to see all that was written, where it may go to a replica.
    ///
    /// # Errors
    /// Why it is for the primary.
    pub(super) fn needs_of(&mut self, request: &mut Request) -> Result<Instant, NotSplit> {
        if let Some(why) = self.is_for_primary(request) {
            return Err(why);
        }
        let client = self.client;
        let hint = self.sessions.text_of(request).and_then(sql::read_hint);
        match hint.unwrap_or_else(|| client.priority.reads(&self.settings.reads)) {
            ReadHint::Primary => Err(NotSplit::AsWanted),
            ReadHint::Session => Ok(client.wrote),
            ReadHint::Global => Ok(self.now),
            // Nobody had written anything by then.
            ReadHint::Eventual => Ok(Instant::START),
        }
    }

    /// The reason why a statement is for the primary alone, whatever replicas there are; `None` where it may go to one.
    fn is_for_primary(&mut self, request: &mut Request) -> Option<NotSplit> {
        let statement = &request.statement;
        let is_usual = request.command == RequestKind::Query || request.is_plain_execution();
        if !is_usual || !statement.plain_read || statement.kind != Kind::Select {
            return Some(NotSplit::NoPlainRead);
        }
        let of_session = !statement.calls.is_empty()
            || statement.variables.for_its_duration
            || request.changes.variables.is_some()
            || request.remember.is_some()
            || request.attributes != QueryAttributes::None;
        if of_session || statement.without_tables {
            return Some(NotSplit::OfSession);
        }
        if self.sessions.text_of(request).is_none_or(sql::may_name_system_schema) {
            return Some(NotSplit::OfServer);
        }
        if request.rows.found.is_unknown()
            || request.found_ahead.is_some()
            || request.raw.len() > LARGEST_JOINED
        {
            return Some(NotSplit::NoPlainRead);
        }
        // There too its client would keep the backend, and what it leaves on it.
        let keeps = || {
            (!self.client.pins_of(request, self.settings, self.servers, &self.sessions.states).is_empty())
                .then_some(NotSplit::HoldsState)
        };
        if let Some(why) = self.is_bound().or_else(keeps) {
            return Some(why);
        }
        // On a replica a function could write, in the name of whoever may do so in spite of read_only.
        let refresh = self.settings.accounts_refresh;
        if !self.servers.primary_mut().rescues.has_no_functions(self.now, refresh) {
            return Some(NotSplit::Functions);
        }
        let (client, primary) = (self.client, self.servers.primary());
        self.pool.note_hidden_code(client, self.sessions, primary, request);
        if request.changes.hidden.may_change_session() || !request.changes.hidden.effects.is_empty() {
            return Some(NotSplit::StoredCode);
        }
        // The reader looks for itself: the server's code may not have come to it yet.
        request.changes.library = None;
        None
    }

    /// The reason why all statements of a client are for the primary at present.
    fn is_bound(&self) -> Option<NotSplit> {
        let client = self.client;
        let is_open = client.in_transaction()
            || client.session.unstarted().is_some()
            || !client.session.status().contains(StatusFlags::AUTOCOMMIT);
        if is_open {
            return Some(NotSplit::Transaction);
        }
        let is_free = client.backend.is_none()
            && client.session.pins().is_empty()
            && client.session.unreported().is_none()
            && client.session.named_resources.is_none()
            && client.session.trackers.is_none()
            && client.loss.kind.is_none()
            && client.session.statements.as_ref().is_none_or(|statements| statements.answered.is_none());
        let state = client.session.id().map(|session| self.sessions.states.state(session));
        // What it writes does not get to any replica, and its reads are to see it.
        let unlogged: [&[u8]; 2] = [b"sql_log_bin", b"wsrep_on"];
        let is_logged =
            state.is_some_and(|state| !unlogged.iter().any(|&name| state.variables.contains_key(name)));
        let by_password = client.identity().is_some_and(|identity| {
            self.logins.identities.identity(identity).account.credential.delegated().is_none()
        });
        let is_in_system = state.and_then(|state| state.schema.as_deref()).is_some_and(sql::is_system_schema);
        if is_in_system {
            return Some(NotSplit::OfServer);
        }
        (!(is_free && is_logged && by_password)).then_some(NotSplit::HoldsState)
    }
}
