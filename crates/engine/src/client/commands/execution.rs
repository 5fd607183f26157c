//! The parts of executions of a prepared statement behind its number: of COM_STMT_EXECUTE, and of
//! COM_STMT_BULK_EXECUTE, which MariaDB has for several lists of values at once.
//!
//! A server keeps the types of a statement's parameters from one execution to the next. Onramp keeps them for each
//! client, and puts them into executions that do not say them.

use wire::{BULK_SENDS_TYPES, BULK_UNIT_RESULTS, Capabilities, CommandKind};

use crate::backend::to_server::prepared::Serves;
use crate::client::Client;
use crate::client::commands::statements::ClientStatement;
use crate::session::statements::Definitions;

/// The flag of COM_STMT_EXECUTE for a cursor. The servers open a cursor for no other type (sql_prepare.cc: `mysqld_stmt_execute`).
const CURSOR_TYPE_READ_ONLY: u8 = 1;

/// The place of the flags: behind the header, the command's byte and the statement's number.
const FLAGS_AT: usize = wire::HEADER_LEN + 5;

/// Bytes of the iteration count behind the flags of COM_STMT_EXECUTE.
const ITERATIONS: usize = 4;

/// MYSQL_TYPE_NULL, of which no value is sent.
const TYPE_NULL: u8 = 6;

/// An execution as its client has sent it.
#[derive(Clone, Copy)]
pub(crate) enum Execution<'a> {
    /// COM_STMT_EXECUTE.
    Once { flags: u8, body: &'a [u8] },
    /// COM_STMT_EXECUTE with query attributes among its values, and the types of its parameters where it says them. The
    /// message is sent as it came.
    Attributed { flags: u8, types: Option<&'a [u8]> },
    /// COM_STMT_BULK_EXECUTE.
    Bulk { flags: u16, body: &'a [u8] },
}

/// The parts of an execution that are about its parameters.
struct Parts<'a> {
    /// The bytes before the one that says whether types follow: the iteration count and the bitmap of NULLs. Empty for
    /// a bulk execution, which says it by a flag, and for one with attributes.
    head: Vec<u8>,
    types: Option<&'a [u8]>,
    values: &'a [u8],
}

impl<'a> Execution<'a> {
    /// Says whether a client may ask for this execution (`mysqld_stmt_bulk_execute` in MariaDB's `sql/sql_prepare.cc`).
    /// The server may have been replaced by a MySQL since the client's login.
    pub(crate) fn is_spoken(self, capabilities: Capabilities, is_mariadb: bool) -> bool {
        let Self::Bulk { flags, .. } = self else { return true };
        let known = match capabilities.contains(Capabilities::BULK_UNIT_RESULTS) {
            true => BULK_SENDS_TYPES | BULK_UNIT_RESULTS,
            false => BULK_SENDS_TYPES,
        };
        is_mariadb && capabilities.contains(Capabilities::BULK_OPERATIONS) && flags & !known == 0
    }

    /// Says whether a server takes this for an execution of a statement without parameters.
    pub(crate) fn is_whole_without_parameters(self) -> bool {
        matches!(self, Self::Once { body, .. } if body.len() >= ITERATIONS) || self.is_attributed()
    }

    pub(crate) fn is_attributed(self) -> bool {
        matches!(self, Self::Attributed { .. })
    }

    pub(crate) fn asks_for_cursor(self) -> bool {
        matches!(self, Self::Once { flags, .. } | Self::Attributed { flags, .. } if flags & CURSOR_TYPE_READ_ONLY != 0)
    }

    /// Takes the wish for a cursor out of the execution's message.
    pub(crate) fn ask_for_no_cursor(self, message: &mut [u8]) {
        if self.asks_for_cursor()
            && let Some(flags) = message.get_mut(FLAGS_AT)
        {
            *flags &= !CURSOR_TYPE_READ_ONLY;
        }
    }

    /// Returns the value of the only parameter where that is an integer: of MYSQL_TYPE_LONG or MYSQL_TYPE_LONGLONG, as ids are sent.
    pub(crate) fn number(self, known: Option<&[u8]>) -> Option<u64> {
        let parts = self.split(1)?;
        match (parts.types.or(known)?, parts.values.len()) {
            ([3, _], 4) => Some(u64::from(u32::from_le_bytes(parts.values.try_into().ok()?))),
            ([8, _], 8) => Some(u64::from_le_bytes(parts.values.try_into().ok()?)),
            _ => None,
        }
    }

    /// Returns the value of the last parameter, or of one so many before it, where all from there on are integers and it is not negative.
    pub(crate) fn last_number(self, parameters: usize, before: usize, known: Option<&[u8]>) -> Option<u64> {
        let parts = self.split(parameters).filter(|_| matches!(self, Self::Once { .. }))?;
        let types = parts.types.or(known)?;
        let nulls = parts.head.get(ITERATIONS..)?;
        let mut values = parts.values;
        for place in (0..parameters).rev().take(before + 1) {
            let (kind, is_unsigned) = (*types.get(2 * place)?, *types.get(2 * place + 1)? != 0);
            let width = match kind {
                1 => 1, // MYSQL_TYPE_TINY, SHORT, LONG and LONGLONG
                2 => 2,
                3 => 4,
                8 => 8,
                _ => return None,
            };
            if nulls[place / 8] >> (place % 8) & 1 == 1 {
                return None;
            }
            let (rest, value) = values.split_at(values.len().checked_sub(width)?);
            values = rest;
            let mut bytes = [0; 8];
            bytes[..width].copy_from_slice(value);
            if place + before + 1 == parameters {
                let negative = !is_unsigned && value.last().is_some_and(|&byte| byte >= 0x80);
                return (!negative).then_some(u64::from_le_bytes(bytes));
            }
        }
        None
    }

    /// Splits the execution into its parts. `None` where there are no parameters, or too little is there.
    fn split(self, parameters: usize) -> Option<Parts<'a>> {
        if parameters == 0 {
            return None;
        }
        let (head, says_types, rest) = match self {
            Self::Once { body, .. } => {
                let (head, rest) = body.split_at_checked(ITERATIONS + parameters.div_ceil(8))?;
                let (&says_types, rest) = rest.split_first()?;
                (head, says_types != 0, rest)
            }
            Self::Bulk { flags, body } => (&body[..0], flags & BULK_SENDS_TYPES != 0, body),
            Self::Attributed { types, .. } => (&[][..], true, types?),
        };
        let (types, values) = match says_types {
            true => rest.split_at_checked(2 * parameters).map(|(types, values)| (Some(types), values))?,
            false => (None, rest),
        };
        Some(Parts { head: head.to_vec(), types, values })
    }

    /// Returns the execution's payload, with these types in it.
    fn with_types(self, number: u32, parts: &Parts<'_>, types: &[u8]) -> Vec<u8> {
        let number = number.to_le_bytes();
        match self {
            Self::Once { flags, .. } | Self::Attributed { flags, .. } => {
                let command = CommandKind::StmtExecute as u8;
                [&[command], &number[..], &[flags], &parts.head, &[1], types, parts.values].concat()
            }
            Self::Bulk { flags, .. } => {
                let flags = (flags | BULK_SENDS_TYPES).to_le_bytes();
                let command = CommandKind::StmtBulkExecute as u8;
                [&[command], &number[..], &flags, types, parts.values].concat()
            }
        }
    }
}

/// Says whether bytes can be types of parameters. Each type is a number, and a byte that says whether it is unsigned
/// (protocol_classic.cc: `parse_packet`, `signed_bit`).
fn are_types(said: &[u8]) -> bool {
    const UNSIGNED: u8 = 0x80;
    said.chunks_exact(2).all(|kind| kind[1] & !UNSIGNED == 0)
}

/// Returns the types that an execution says, with those of earlier ones for parameters of the type NULL, which are marked as NULL.
fn with_types_of_nulls(said: &[u8], known: &[u8], nulls: &mut [u8]) -> Vec<u8> {
    let mut types = said.to_vec();
    for (place, kind) in types.chunks_exact_mut(2).enumerate() {
        if kind[0] == TYPE_NULL && known[2 * place] != TYPE_NULL {
            kind.copy_from_slice(&known[2 * place..2 * place + 2]);
            nulls[place / 8] |= 1 << (place % 8);
        }
    }
    types
}

impl Client {
    /// Returns the client's statement of this number, as the client names it.
    pub(super) fn statement_mut(&mut self, number: u32, is_mariadb: bool) -> Option<&mut ClientStatement> {
        self.session.statements.as_mut()?.named(number, is_mariadb)
    }

    /// Appends an execution that says its parameters' types. Returns which of a backend's statements it can have.
    /// `memory` is the number of bytes of types that are kept, of all clients together.
    pub(crate) fn put_execution(
        &mut self,
        definitions: &mut Definitions,
        memory: usize,
        is_mariadb: bool,
        number: u32,
        (execution, raw): (Execution<'_>, &[u8]),
        out: &mut Vec<u8>,
    ) -> Serves {
        let statement = self.statement_mut(number, is_mariadb).expect("it was found a moment ago");
        let (definition, known) = (statement.definition(), statement.types.clone());
        let parameters = usize::from(definitions.get(definition).parameters);
        let Some(mut parts) = execution.split(parameters) else {
            // Without parameters, or too short for what it should hold: then the server says what is wrong.
            out.extend_from_slice(raw);
            return if parameters == 0 { Serves::All } else { Serves::Own(number) };
        };
        let types = match (&known, parts.types) {
            (_, Some(said)) if !is_mariadb && !are_types(said) => {
                // An execution without enough values: MySQL refuses it, and goes on with the types of those before.
                out.extend_from_slice(raw);
                return Serves::Own(number);
            }
            (None, None) => {
                out.extend_from_slice(raw);
                return Serves::Own(number);
            }
            (Some(known), None) => known.to_vec(),
            // MySQL goes on with the type that was there where a NULL has none.
            (Some(known), Some(said)) if !is_mariadb && matches!(execution, Execution::Once { .. }) => {
                with_types_of_nulls(said, known, &mut parts.head[ITERATIONS..])
            }
            (_, Some(said)) => said.to_vec(),
        };
        if parts.types.is_some_and(|said| *said == *types) {
            out.extend_from_slice(raw);
        } else {
            wire::put_message(out, &mut 0, &execution.with_types(number, &parts, &types));
        }
        if known.is_none_or(|known| *known != *types) {
            let shared = definitions.types(definition, &types, memory);
            let statement = self.statement_mut(number, is_mariadb).expect("it was found a moment ago");
            statement.types = Some(shared);
        }
        if is_mariadb {
            return Serves::All;
        }
        definitions.types_id(definition, &types).map_or(Serves::Own(number), Serves::Typed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_and_put_in() {
        let once = Execution::Once { flags: 0, body: &[1, 0, 0, 0, 0, 0, 7, 0, 0, 0] };
        let parts = once.split(1).unwrap();
        assert_eq!((parts.types, parts.values), (None, &[7, 0, 0, 0][..]));
        assert_eq!(once.number(Some(&[3, 0])), Some(7));
        let with_types = once.with_types(2, &parts, &[3, 0]);
        assert_eq!(with_types, [0x17, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 0, 7, 0, 0, 0]);
        let again = Execution::Once { flags: 0, body: &with_types[6..] };
        assert_eq!(again.split(1).unwrap().types, Some(&[3, 0][..]));

        let bulk = Execution::Bulk { flags: 0, body: &[0, 7, 0, 0, 0, 1] };
        let parts = bulk.split(1).unwrap();
        let with_types = bulk.with_types(2, &parts, &[3, 0]);
        assert_eq!(with_types, [0xfa, 2, 0, 0, 0, 128, 0, 3, 0, 0, 7, 0, 0, 0, 1]);
        let again = Execution::Bulk { flags: BULK_SENDS_TYPES, body: &with_types[7..] };
        assert_eq!(again.split(1).unwrap().types, Some(&[3, 0][..]));

        assert!(once.split(0).is_none() && Execution::Once { flags: 0, body: &[1, 0] }.split(1).is_none());
        assert!(Execution::Bulk { flags: BULK_SENDS_TYPES, body: &[3] }.split(1).is_none());
    }

    #[test]
    fn the_last_values_are_read() {
        // A string, an INT and a BIGINT.
        let types = [0xfd, 0, 3, 0, 8, 0];
        let values = [&b"\x02it"[..], &7_u32.to_le_bytes(), &40_u64.to_le_bytes()].concat();
        let body = |nulls, values: &[u8]| [&[1, 0, 0, 0, nulls, 0][..], values].concat();
        let number =
            |body: &[u8], before| Execution::Once { flags: 0, body }.last_number(3, before, Some(&types));
        let whole = body(0, &values);
        assert_eq!([0, 1, 2].map(|before| number(&whole, before)), [Some(40), Some(7), None]);
        assert_eq!(number(&body(0b100, &values[..7]), 0), None, "NULL");
        let negative = [&values[..7], &(-1_i64).to_le_bytes()].concat();
        assert_eq!(number(&body(0, &negative), 0), None);
        assert_eq!(number(&body(0, &negative), 1), Some(7));
        assert_eq!(number(&body(0, b"\x02it"), 0), None, "cut short");
        assert_eq!(Execution::Once { flags: 0, body: &whole }.last_number(3, 0, None), None);
    }

    #[test]
    fn what_is_no_type_is_known() {
        assert!(are_types(&[0xfd, 0, 8, 0x80]) && !are_types(&[0xfd, 0, 3, b'3']));
    }

    #[test]
    fn bulk_executions_are_for_those_who_agreed_to_them() {
        let bulk = |flags| Execution::Bulk { flags, body: &[] };
        let (bulks, units) = (Capabilities::BULK_OPERATIONS, Capabilities::BULK_UNIT_RESULTS);
        assert!(bulk(BULK_SENDS_TYPES).is_spoken(bulks, true) && !bulk(0).is_spoken(units, true));
        assert!(!bulk(BULK_UNIT_RESULTS).is_spoken(bulks, true));
        assert!(bulk(BULK_UNIT_RESULTS).is_spoken(bulks | units, true));
        assert!(!bulk(1).is_spoken(bulks | units, true));
        assert!(!bulk(BULK_SENDS_TYPES).is_spoken(bulks, false), "MySQL has none");
    }
}
