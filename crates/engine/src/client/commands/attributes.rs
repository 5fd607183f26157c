//! Query attributes of clients: taken off statements as they come, so that the rest of the engine sees statements as all
//! clients send them.

use std::borrow::Cow;

use wire::{Capabilities, CommandKind, NamedValues, PARAMETER_COUNT_AVAILABLE};

use crate::client::Client;
use crate::client::commands::execution::Execution;
use crate::errors::MySqlError;
use crate::request::QueryAttributes;

/// The iteration count in front of the values of COM_STMT_EXECUTE.
const ITERATIONS: usize = 4;

/// COM_QUERY without its attributes.
pub(super) struct PlainQuery<'a> {
    pub(super) text: &'a [u8],
    /// The command as a message.
    pub(super) raw: Cow<'a, [u8]>,
    pub(super) attributes: QueryAttributes,
}

/// COM_STMT_EXECUTE as the rest of the engine sees it.
pub(super) struct PlainExecution<'a> {
    flags: u8,
    values: Values<'a>,
    /// The command as a message.
    pub(super) raw: Cow<'a, [u8]>,
}

enum Values<'a> {
    /// Values with attributes among them, and the parameters' types where the execution says them.
    Attributed(Option<Vec<u8>>),
    /// No values but those of the statement's parameters: the bytes behind the flags.
    Plain(Cow<'a, [u8]>),
}

impl PlainExecution<'_> {
    pub(super) fn execution(&self) -> Execution<'_> {
        let flags = self.flags;
        match &self.values {
            Values::Attributed(types) => Execution::Attributed { flags, types: types.as_deref() },
            Values::Plain(body) => Execution::Once { flags, body },
        }
    }
}

impl Client {
    fn sends_attributes(&self) -> bool {
        self.capabilities.contains(Capabilities::QUERY_ATTRIBUTES)
    }

    /// Takes the attributes off a COM_QUERY; `body` is what follows the command's byte.
    pub(super) fn plain_query<'a>(
        &self,
        body: &'a [u8],
        raw: &'a [u8],
    ) -> Result<PlainQuery<'a>, MySqlError> {
        if !self.sends_attributes() {
            return Ok(PlainQuery { text: body, raw: raw.into(), attributes: QueryAttributes::None });
        }
        let (attributes, text) =
            wire::split_query_attributes(body).map_err(|_| MySqlError::malformed_packet())?;
        let attributes = match attributes {
            None => QueryAttributes::None,
            Some(attributes) => QueryAttributes::OfText(attributes.into()),
        };
        let mut raw = Vec::with_capacity(wire::HEADER_LEN + 1 + text.len());
        let start = wire::begin_packet(&mut raw);
        raw.push(CommandKind::Query as u8);
        raw.extend_from_slice(text);
        wire::end_packet(&mut raw, start, &mut 0);
        Ok(PlainQuery { text, raw: raw.into(), attributes })
    }

    /// Takes what its statement does not need off a COM_STMT_EXECUTE. `parameters` is the number of the statement's
    /// parameters; `None` where there is no statement of this number.
    pub(super) fn plain_execution<'a>(
        &self,
        number: u32,
        (flags, body): (u8, &'a [u8]),
        raw: &'a [u8],
        parameters: Option<usize>,
    ) -> Result<PlainExecution<'a>, MySqlError> {
        let counts = flags & PARAMETER_COUNT_AVAILABLE != 0 || parameters != Some(0);
        let (Some(parameters), true) = (parameters, counts && self.sends_attributes()) else {
            return Ok(uncounted(number, (flags, body), raw));
        };
        let (iterations, values) = body.split_at_checked(ITERATIONS).unwrap_or_default();
        let said = NamedValues::parse(values).map_err(|_| MySqlError::malformed_packet())?;
        if said.count != parameters || said.are_named() {
            let types = said.types.and_then(|types| types.get(..2 * parameters).map(Vec::from));
            return Ok(PlainExecution { flags, values: Values::Attributed(types), raw: raw.into() });
        }
        let flags = flags & !PARAMETER_COUNT_AVAILABLE;
        let mut plain = iterations.to_vec();
        if parameters > 0 {
            plain.extend_from_slice(said.nulls);
            plain.push(u8::from(said.types.is_some()));
            plain.extend_from_slice(said.types.as_deref().unwrap_or_default());
            plain.extend_from_slice(said.values);
        }
        let raw = message(number, flags, &plain).into();
        Ok(PlainExecution { flags, values: Values::Plain(plain.into()), raw })
    }
}

/// Makes an execution that does not count its values, whatever its flags say: between us and the server a count may mean something.
fn uncounted<'a>(number: u32, (flags, body): (u8, &'a [u8]), raw: &'a [u8]) -> PlainExecution<'a> {
    let values = Values::Plain(body.into());
    if flags & PARAMETER_COUNT_AVAILABLE == 0 {
        return PlainExecution { flags, values, raw: raw.into() };
    }
    let flags = flags & !PARAMETER_COUNT_AVAILABLE;
    PlainExecution { flags, values, raw: message(number, flags, body).into() }
}

/// Makes COM_STMT_EXECUTE as a message.
fn message(number: u32, flags: u8, body: &[u8]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(wire::HEADER_LEN + 6 + body.len());
    let start = wire::begin_packet(&mut raw);
    raw.push(CommandKind::StmtExecute as u8);
    raw.extend_from_slice(&number.to_le_bytes());
    raw.push(flags);
    raw.extend_from_slice(body);
    wire::end_packet(&mut raw, start, &mut 0);
    raw
}
