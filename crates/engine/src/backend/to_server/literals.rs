//! The client's own values take the place of the calls in its text that ask for them.
//!
//! The length of the rewritten text is known when the statement arrives: the values change with statements of the same client alone, and
//! that client has no other on its way. So the statement is refused then, or counts with its new length from then on.

use sql::{SessionCall, SessionFunction};

use crate::client::Client;
use crate::errors::MySqlError;
use crate::request::{Request, RequestKind};
use crate::server::Server;
use crate::servers::Servers;
use crate::session::Sessions;
use crate::session::literals::{Literals, Rewriting};
use crate::settings::Settings;

/// Most calls of one text that become literals. Each takes some ten nanoseconds several times, in which a worker does nothing else. No
/// insert of many rows that asks for CONNECTION_ID() in each row has more.
const MOST_CALLS: usize = 1 << 17;

impl Server {
    /// Checks that the server takes a command of so many bytes.
    pub(crate) fn check_length(&self, settings: &Settings, length: usize) -> Result<(), MySqlError> {
        let limit = self.max_allowed_packet(settings);
        if length < limit { Ok(()) } else { Err(MySqlError::literals_too_long(limit)) }
    }

    /// Returns the bound on a command's bytes: the option, or the server's variable of that name where that is less.
    pub(crate) fn max_allowed_packet(&self, settings: &Settings) -> usize {
        let servers = self.facts.as_ref().map_or(usize::MAX, |facts| facts.max_allowed_packet);
        settings.max_allowed_packet.min(servers)
    }
}

impl Client {
    /// Counts the bytes by which a request grows. An error where it would be longer than any statement may be.
    pub(crate) fn count_literals(
        &self,
        servers: &Servers,
        settings: &Settings,
        request: &mut Request,
    ) -> Result<(), MySqlError> {
        let which = match request.command {
            // A prepared statement will be asked again and again: its answers must stay the server's.
            RequestKind::Prepare => Literals::ConnectionId,
            _ => Literals::All,
        };
        // It is set ahead of a statement, however often that asks for it.
        let others = |call: &&SessionCall| call.function != SessionFunction::LastInsertId;
        if request.statement.calls.iter().filter(others).nth(MOST_CALLS).is_some() {
            return Err(MySqlError::too_many_calls(MOST_CALLS));
        }
        let (Some(rewriting), Some(text)) =
            (self.rewriting(servers, settings, request, which), request.text())
        else {
            return Ok(());
        };
        let is_large = request.changes.template.as_ref().is_some_and(|template| template.large.is_some());
        if is_large && request.statement.calls.iter().any(|call| Literals::OfPrepared.has(call.function)) {
            return Err(MySqlError::large_and_mixed());
        }
        let length = rewriting.length();
        // The command's byte, and what goes ahead of a text.
        servers[servers.serving(self)].check_length(settings, length + 1 + request.attributes.bytes())?;
        request.bytes.growth = length.saturating_sub(text.len());
        Ok(())
    }

    /// Puts literals in the place of calls, where the client carries the answer with it.
    pub(super) fn rewrite_calls(
        &self,
        servers: &Servers,
        sessions: &Sessions,
        settings: &Settings,
        request: &mut Request,
    ) {
        let prepares = request.command == RequestKind::Prepare;
        let there = self.session.aftermath.has_diagnostics_on_backend();
        // A SET ahead of it takes their place.
        let stay = |backend| there && self.variables_ahead(servers, backend, request).is_empty();
        let which = match prepares {
            true => Literals::ConnectionId,
            false if self.backend.is_some_and(stay) => Literals::AllButDiagnostics,
            false => Literals::All,
        };
        let Some(rewriting) = self.rewriting(servers, settings, request, which) else { return };
        let mut raw = Vec::with_capacity(wire::HEADER_LEN + 1 + rewriting.length());
        let start = wire::begin_packet(&mut raw);
        raw.push(request.raw[wire::HEADER_LEN]);
        rewriting.put(&mut raw);
        wire::end_packet(&mut raw, start, &mut 0);
        request.raw = raw;
        request.bytes.growth = 0;
        // They were places in the text as the client has sent it. Executions ask for the others.
        let others = |call: &SessionCall| Literals::OfPrepared.has(call.function);
        request.statement.calls = if prepares && request.statement.calls.iter().any(others) {
            sql::classify(&request.whole_text(), self.lex_mode(sessions, servers.primary())).calls
        } else {
            Vec::new()
        };
    }

    fn rewriting<'a>(
        &self,
        servers: &Servers,
        settings: &Settings,
        request: &'a Request,
        which: Literals,
    ) -> Option<Rewriting<'a>> {
        if request.statement.calls.is_empty() || request.prepared {
            return None;
        }
        let facts = servers.primary().facts.as_ref();
        let own = |function| self.own_literal(function, facts, settings);
        self.session.aftermath.rewriting(request.text()?, &request.statement.calls, self.id, own, which)
    }
}
