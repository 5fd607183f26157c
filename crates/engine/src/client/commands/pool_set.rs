//! A `SET` of the pool's variables.

use sql::{Kind, LexMode, PoolSet, PoolSetError};

use crate::client::Client;
use crate::client::session::priority::Priority;
use crate::errors::MySqlError;
use crate::request::{Request, RequestKind};

/// A `SET` of the pool's variables, as it was read.
pub(in crate::client) struct ReadSet {
    /// All values that the client will have set for itself after the `SET`.
    pub(in crate::client) priority: Priority,
    /// The rest of the `SET`: only that goes to the server.
    pub(in crate::client) rest: Option<Vec<u8>>,
}

impl Client {
    /// Reads a `SET` of the pool's variables. `several` says whether it is one of several statements in its text, which is an error.
    pub(in crate::client) fn read_pool_set(
        &self,
        text: &[u8],
        mode: LexMode,
        several: bool,
    ) -> Result<ReadSet, MySqlError> {
        if several {
            return Err(MySqlError::pool_variable_mixed());
        }
        let PoolSet { assignments, rest } = sql::pool_set(text, mode).map_err(|error| match error {
            PoolSetError::Global(name) => MySqlError::pool_variable_global(&name),
            PoolSetError::NotLiteral(variable) => MySqlError::pool_variable_literal(variable.name()),
            PoolSetError::Mixed => MySqlError::pool_variable_mixed(),
        })?;
        let mut priority = self.priority;
        for (variable, value) in &assignments {
            priority.set(*variable, value)?;
        }
        Ok(ReadSet { priority, rest })
    }

    /// Puts the client's own values in force from now on. `full_tickets` is the number of tickets that clients get in general.
    pub(crate) fn take_priority(&mut self, priority: Priority, full_tickets: u32) {
        self.priority = priority;
        self.tickets = self.tickets.min(priority.tickets(full_tickets));
    }
}

impl Request {
    /// Makes the request of the rest of a `SET`. Its success brings the pool's variables too.
    pub(in crate::client) fn rest_of_pool_set(
        text: &[u8],
        mode: LexMode,
        priority: Priority,
        answer: u8,
    ) -> Self {
        let payload = [&[wire::CommandKind::Query as u8], text].concat();
        let mut raw = Vec::with_capacity(wire::HEADER_LEN + payload.len());
        wire::put_message(&mut raw, &mut 0, &payload);
        let statement = sql::classify(text, mode);
        debug_assert!(statement.kind == Kind::Set, "a SET less some of its assignments");
        let (expect, command) = (wire::Expect::ResultSets, RequestKind::Query);
        let mut request = Self::with_text(raw, expect, command, text, statement, answer);
        request.changes.priority = Some(priority);
        request
    }
}
