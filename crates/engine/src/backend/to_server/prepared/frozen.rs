//! The statements that are prepared on a backend, as plain data.

use std::collections::BTreeMap;

use sql::LexMode;

use super::{Entry, Prepared, Serves};
use crate::session::SessionTables;
use crate::session::frozen::FrozenDefinition;
use crate::session::statements::DefinitionId;

/// See [`Prepared`].
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenPrepared {
    statements: Vec<FrozenStatement>,
    uses: u64,
}

plain!(struct FrozenPrepared { statements, uses });

/// One statement on the server.
#[derive(Debug, PartialEq)]
struct FrozenStatement {
    definition: FrozenDefinition,
    serves: FrozenServes,
    /// The server's number for the statement.
    id: u32,
    used: u64,
    had_cursor: bool,
}

plain!(struct FrozenStatement { definition, serves, id, used, had_cursor });

/// See [`Serves`]. Types are written out, and not by their place among those of a definition.
#[derive(Debug, PartialEq)]
pub(crate) enum FrozenServes {
    All,
    Typed(Box<[u8]>),
    Own(u32),
}

plain!(enum FrozenServes { 0 => All, 1 => Typed(types), 2 => Own(number) });

impl FrozenServes {
    pub(crate) fn of(serves: Serves, definition: DefinitionId, sessions: &SessionTables) -> Self {
        match serves {
            Serves::All => Self::All,
            Serves::Typed(types) => {
                Self::Typed(Box::from(sessions.definitions.get(definition).types_of(types)))
            }
            Serves::Own(number) => Self::Own(number),
        }
    }

    /// Remembers the types, as they had been remembered, whatever room there is.
    pub(crate) fn thaw(self, definition: DefinitionId, sessions: &mut SessionTables) -> Serves {
        let serves = match self {
            Self::All => Some(Serves::All),
            Self::Typed(types) => {
                sessions.definitions.types(definition, &types, usize::MAX);
                sessions.definitions.types_id(definition, &types).map(Serves::Typed)
            }
            Self::Own(number) => Some(Serves::Own(number)),
        };
        serves.expect("it was among those that are remembered, and so is now")
    }
}

impl Prepared {
    /// Releases the definitions, in the opposite order of [`Self::thawed`].
    pub(in crate::backend) fn freeze(self, sessions: &mut SessionTables) -> FrozenPrepared {
        let Self { statements, uses } = self;
        let freeze = |((definition, serves), entry)| {
            let Entry { held, id, used, had_cursor } = entry;
            let frozen = FrozenDefinition::of(definition, sessions);
            let serves = FrozenServes::of(serves, definition, sessions);
            sessions.release_definition(held);
            FrozenStatement { definition: frozen, serves, id, used, had_cursor }
        };
        let mut statements: Vec<_> = statements.into_iter().rev().map(freeze).collect();
        statements.reverse();
        FrozenPrepared { statements, uses }
    }

    /// Holds the definitions once more.
    pub(in crate::backend) fn thawed(
        frozen: FrozenPrepared,
        sessions: &mut SessionTables,
        server: LexMode,
    ) -> Self {
        let FrozenPrepared { statements, uses } = frozen;
        let thaw = |statement| {
            let FrozenStatement { definition, serves, id, used, had_cursor } = statement;
            let held = definition.thaw(sessions, server);
            let serves = serves.thaw(held.id(), sessions);
            ((held.id(), serves), Entry { held, id, used, had_cursor })
        };
        let statements: BTreeMap<_, _> = statements.into_iter().map(thaw).collect();
        Self { statements, uses }
    }
}
