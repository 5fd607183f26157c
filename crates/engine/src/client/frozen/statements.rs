//! A client's prepared statements, as plain data.

use super::Common;
use crate::client::commands::statement_counters::Counters;
use crate::client::commands::statements::{ClientStatement, ClientStatements, LongData, Slot};
use crate::client::memory::bytes_held::Counted;
use crate::errors::MySqlError;
use crate::session::frozen::FrozenDefinition;

/// See [`ClientStatements`].
#[derive(Debug, PartialEq)]
pub(super) struct FrozenStatements {
    last_number: u32,
    last: Option<u32>,
    statements: Vec<FrozenStatement>,
    counters: Counters,
}

plain!(struct FrozenStatements { last_number, last, statements, counters });

/// See [`ClientStatement`].
#[derive(Debug, PartialEq)]
struct FrozenStatement {
    number: u32,
    definition: FrozenDefinition,
    types: Option<Box<[u8]>>,
    long_data: Option<FrozenLongData>,
    metadata: Option<u64>,
    cursor_is_open: bool,
    stays: bool,
}

plain!(struct FrozenStatement { number, definition, types, long_data, metadata, cursor_is_open, stays });

/// See [`LongData`].
#[derive(Debug, PartialEq)]
enum FrozenLongData {
    Pieces { commands: Box<[u8]>, counted: usize },
    Wrong(MySqlError),
}

plain!(enum FrozenLongData { 0 => Pieces { commands, counted }, 1 => Wrong(error) });

impl ClientStatements {
    /// Makes plain data of the statements. They are given back in the opposite order of [`FrozenStatements::thaw`], so
    /// that a definition that nobody else holds is found again by the same number.
    pub(super) fn freeze(self, common: &mut Common<'_>) -> FrozenStatements {
        let Self { last_number, last, slots, closed: _, open_cursors: _, answered, counters } = self;
        // Its execution is over, and the next one begins by forgetting it.
        if let Some(answered) = answered {
            common.sessions.release_definition(answered);
        }
        let open = slots.into_iter().rev().filter_map(Slot::into_open);
        let mut frozen: Vec<_> = open.map(|statement| statement.freeze(common)).collect();
        frozen.reverse();
        FrozenStatements { last_number, last, statements: frozen, counters }
    }
}

impl FrozenStatements {
    pub(super) fn thaw(self, common: &mut Common<'_>) -> ClientStatements {
        let Self { last_number, last, statements, counters } = self;
        let open_cursors = statements.iter().filter(|statement| statement.cursor_is_open).count();
        let slots = statements.into_iter().map(|statement| Slot::Open(statement.thaw(common))).collect();
        ClientStatements { last_number, last, slots, closed: 0, open_cursors, answered: None, counters }
    }
}

impl ClientStatement {
    fn freeze(self, common: &mut Common<'_>) -> FrozenStatement {
        let Self { number, held, types, long_data, metadata, cursor_is_open, stays } = self;
        let long_data = long_data.map(|long_data| match *long_data {
            LongData::Pieces { commands, mut counted } => {
                let bytes = counted.bytes();
                common.memory.statements.give_back(&mut counted);
                FrozenLongData::Pieces { commands: commands.into_boxed_slice(), counted: bytes }
            }
            LongData::Wrong(error) => FrozenLongData::Wrong(error),
        });
        let definition = FrozenDefinition::of(held.id(), common.sessions);
        common.sessions.statement_removed(held);
        FrozenStatement {
            number,
            definition,
            types: types.map(|types| Box::from(&*types)),
            long_data,
            metadata,
            cursor_is_open,
            stays,
        }
    }
}

impl FrozenStatement {
    fn thaw(self, common: &mut Common<'_>) -> ClientStatement {
        let Self { number, definition, types, long_data, metadata, cursor_is_open, stays } = self;
        let facts = common.servers.primary().facts.as_ref();
        let server = facts.map_or_else(Default::default, |facts| facts.lex_mode);
        let held = definition.thaw(common.sessions, server);
        common.sessions.statement_added(held.id());
        let types = types.map(|types| {
            common.sessions.definitions.types(held.id(), &types, common.prepared_statement_memory)
        });
        let long_data = long_data.map(|long_data| {
            Box::new(match long_data {
                FrozenLongData::Pieces { commands, counted: bytes } => {
                    let mut counted = Counted::default();
                    common.memory.statements.add(&mut counted, bytes);
                    LongData::Pieces { commands: commands.into_vec(), counted }
                }
                FrozenLongData::Wrong(error) => LongData::Wrong(error),
            })
        });
        ClientStatement { number, held, types, long_data, metadata, cursor_is_open, stays }
    }
}
