//! Query attributes of clients: taken off statements as they come, so that the rest of the engine sees statements as all
//! clients send them.

use wire::{Capabilities, CommandKind, NamedValues, PARAMETER_COUNT_AVAILABLE};

use super::execution::Execution;
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::ids::ClientKey;
use crate::request::QueryAttributes;

/// The iteration count in front of the values of COM_STMT_EXECUTE.
const ITERATIONS: usize = 4;

impl Engine {
    pub(super) fn sends_attributes(&self, key: ClientKey) -> bool {
        self.clients[key].capabilities.contains(Capabilities::QUERY_ATTRIBUTES)
    }

    /// COM_QUERY; `body` is what follows the command's byte.
    pub(super) fn query_command(&mut self, key: ClientKey, body: &[u8], raw: &[u8], answer: u8) {
        if !self.sends_attributes(key) {
            return self.query(key, body, raw, answer, QueryAttributes::None);
        }
        let Ok((attributes, text)) = wire::split_query_attributes(body) else {
            return self.answer_error(key, answer, &MySqlError::malformed_packet());
        };
        let attributes = match attributes {
            None => QueryAttributes::None,
            Some(attributes) => QueryAttributes::OfText(attributes.into()),
        };
        let mut raw = Vec::with_capacity(wire::HEADER_LEN + 1 + text.len());
        let start = wire::begin_packet(&mut raw);
        raw.push(CommandKind::Query as u8);
        raw.extend_from_slice(text);
        wire::end_packet(&mut raw, start, &mut 0);
        self.query(key, text, &raw, answer, attributes);
    }

    /// COM_STMT_EXECUTE.
    pub(super) fn execute_command(
        &mut self,
        key: ClientKey,
        number: u32,
        (flags, body): (u8, &[u8]),
        raw: &[u8],
        answer: u8,
    ) {
        let definition = self.client_statement(key, number).map(|statement| statement.definition);
        let parameters =
            definition.map(|definition| usize::from(self.sessions.definitions.get(definition).parameters));
        let counts = flags & PARAMETER_COUNT_AVAILABLE != 0 || parameters != Some(0);
        let (Some(parameters), true) = (parameters, counts && self.sends_attributes(key)) else {
            return self.execute_plain(key, number, (flags, body), raw, answer);
        };
        let (iterations, values) = body.split_at_checked(ITERATIONS).unwrap_or_default();
        let Ok(said) = NamedValues::parse(values) else {
            return self.answer_error(key, answer, &MySqlError::malformed_packet());
        };
        if said.count != parameters || said.are_named() {
            let types = said.types.as_deref().and_then(|types| types.get(..2 * parameters));
            return self.execute(key, number, Execution::Attributed { flags, types }, raw, answer);
        }
        let flags = flags & !PARAMETER_COUNT_AVAILABLE;
        let mut plain = iterations.to_vec();
        if parameters > 0 {
            plain.extend_from_slice(said.nulls);
            plain.push(u8::from(said.types.is_some()));
            plain.extend_from_slice(said.types.as_deref().unwrap_or_default());
            plain.extend_from_slice(said.values);
        }
        let raw = execution(number, flags, &plain);
        self.execute(key, number, Execution::Once { flags, body: &plain }, &raw, answer);
    }

    /// An execution whose values are not counted, whatever its flags say: between us and the server they may mean something.
    fn execute_plain(
        &mut self,
        key: ClientKey,
        number: u32,
        (flags, body): (u8, &[u8]),
        raw: &[u8],
        answer: u8,
    ) {
        if flags & PARAMETER_COUNT_AVAILABLE == 0 {
            return self.execute(key, number, Execution::Once { flags, body }, raw, answer);
        }
        let flags = flags & !PARAMETER_COUNT_AVAILABLE;
        let raw = execution(number, flags, body);
        self.execute(key, number, Execution::Once { flags, body }, &raw, answer);
    }
}

/// COM_STMT_EXECUTE as a message.
fn execution(number: u32, flags: u8, body: &[u8]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(wire::HEADER_LEN + 6 + body.len());
    let start = wire::begin_packet(&mut raw);
    raw.push(CommandKind::StmtExecute as u8);
    raw.extend_from_slice(&number.to_le_bytes());
    raw.push(flags);
    raw.extend_from_slice(body);
    wire::end_packet(&mut raw, start, &mut 0);
    raw
}
