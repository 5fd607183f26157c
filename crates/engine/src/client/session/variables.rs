//! User variables with known values, because they were set to literals: they follow their client from backend to
//! backend.
//!
//! Anything that runs code that is stored on the server may read them. So they are made right ahead of every statement
//! but plain reads, also for clients that have none: a variable that another client has left is NULL then.

use std::rc::Rc;

use sql::{Effects, Kind, Reads, VariableUse};

use crate::backend::Backend;
use crate::client::Client;
use crate::ids::BackendKey;
use crate::request::{Request, RequestKind};
use crate::servers::Servers;
use crate::session::user_variables::difference;
use crate::session::{Charset, Sessions};

impl Request {
    /// Says whether the request may read user variables, itself or in code that is stored on the server. A request that asks for the diagnostics
    /// of the statement before and for nothing else does not. Such a request would find the diagnostics of a `SET` that went ahead of it.
    fn may_read_variables(&self) -> bool {
        !self.statement.plain_read
            && !self.asks_for_diagnostics_alone()
            && self.command != RequestKind::LoginSchema
            && !self.resets_session()
    }

    /// Says whether the request asks for diagnostics alone. Where it uses a table or a view as well, code that is
    /// stored there may read variables.
    fn asks_for_diagnostics_alone(&self) -> bool {
        let statement = &self.statement;
        let uses_nothing_else = matches!(statement.kind, Kind::ShowWarnings | Kind::ShowDiagnostics)
            || (statement.kind == Kind::Select && self.rows.without_tables);
        statement.reads.contains(Reads::DIAGNOSTICS)
            && uses_nothing_else
            && statement.effects.is_empty()
            && !statement.several
    }

    /// Returns the effects that make the server report a change of state. Reading a variable and executing a statement
    /// by name do not: a report behind one of these means that a trigger has set something.
    pub(crate) fn explained_effects(&self) -> Effects {
        let effects = self.statement.effects;
        match self.changes.variables.as_deref() {
            _ if self.statement.kind == Kind::Execute => {
                effects.without(Effects::TEXT_PREPARE.union(Effects::USER_VARIABLE))
            }
            Some(VariableUse::Reads) => effects.without(Effects::USER_VARIABLE),
            _ => effects,
        }
    }
}

/// A client's variables behind a statement of its own.
pub(crate) enum VariablesBehind {
    /// The variables are as they were before.
    Same,
    /// The statement has set some, which are known.
    Set,
    /// Nobody knows the variables any more.
    Unknown,
}

impl Client {
    /// Returns the text that has to go ahead of the request so that it finds its client's variables. Empty where they stand.
    pub(crate) fn variables_ahead(
        &self,
        servers: &Servers,
        backend: BackendKey,
        request: &Request,
    ) -> Vec<u8> {
        if !request.may_read_variables() {
            return Vec::new();
        }
        difference(
            &self.session.variables,
            &servers[backend].session.variables,
            servers.of(backend).is_mariadb(),
        )
    }

    /// Notes the client's variables behind a statement that has ended on a backend.
    pub(crate) fn note_variables(
        &mut self,
        backend: &mut Backend,
        sessions: &Sessions,
        request: &Request,
        failed: bool,
    ) -> VariablesBehind {
        let Some(VariableUse::Sets(sets)) = request.changes.variables.as_deref() else {
            return VariablesBehind::Same;
        };
        if failed {
            return VariablesBehind::Unknown;
        }
        let before = self.session.variables.as_deref().cloned().unwrap_or_default();
        let session = self.session.id().expect("a client with requests has logged in");
        let Some(variables) = before.with(sets, &sessions.state(session).charset) else {
            return VariablesBehind::Unknown;
        };
        let variables = Some(Rc::new(variables));
        backend.session.variables = variables.clone();
        self.session.variables = variables;
        VariablesBehind::Set
    }

    /// Says whether the client has variables with literals that would mean something else under another character set.
    pub(crate) fn variables_depend_on(&self, before: &Charset, after: &Charset) -> bool {
        let strings = self.session.variables.as_ref().is_some_and(|variables| variables.has_strings());
        strings && before != after
    }
}

impl Backend {
    /// Notes that the variables that had to go ahead of a client's request stand on the backend.
    pub(crate) fn variables_stand(&mut self, client: &Client, request: &Request) {
        if request.may_read_variables() {
            self.session.variables = client.session.variables.clone();
        }
    }
}
