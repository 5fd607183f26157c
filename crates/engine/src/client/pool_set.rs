//! A `SET` of the pool's variables.

use sql::{Kind, LexMode, PoolSet, PoolSetError};

use super::Client;
use super::priority::Priority;
use crate::errors::MySqlError;
use crate::request::{Request, RequestKind};

/// What a `SET` of the pool's variables comes to.
pub(super) struct ReadSet {
    /// All that the client will have set after it.
    pub(super) priority: Priority,
    /// What else it sets: only that goes to the server.
    pub(super) rest: Option<Vec<u8>>,
}

impl Client {
    /// Reads a `SET` of the pool's variables, which may be one of several statements in its text.
    pub(super) fn read_pool_set(
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

    /// What it has set is in force from now on, where clients get so many tickets in general.
    pub(crate) fn take_priority(&mut self, priority: Priority, full_tickets: u32) {
        self.priority = priority;
        self.tickets = self.tickets.min(priority.tickets(full_tickets));
    }
}

impl Request {
    /// The rest of a `SET`; its success brings the pool's variables too.
    pub(super) fn rest_of_pool_set(text: &[u8], mode: LexMode, priority: Priority, answer: u8) -> Self {
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
