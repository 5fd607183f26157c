//! Definitions of prepared statements as plain data, for their holders.
//!
//! A definition goes by value, with what the lexer has found in its text: that depends on how the text was read then, and on what it was
//! before Onramp's own literals came into it. Of a large text the names are looked for again, since they are as long as the text.

use std::sync::Arc;

use sql::{Classification, LexMode, RowsFound};

use super::statements::{Definition, DefinitionHold, DefinitionId, Template};
use super::{SessionState, SessionTables};
use crate::server::stored_code::LargeDefinition;

/// See [`Definition`].
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenDefinition {
    text: Box<[u8]>,
    state: SessionState,
    parameters: u16,
    template: FrozenTemplate,
}

plain!(struct FrozenDefinition { text, state, parameters, template });

/// See [`Template`].
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenTemplate {
    statement: Classification,
    collation: Option<Box<[u8]>>,
    counts_rows: bool,
    found: RowsFound,
    inserts_selection: bool,
    without_tables: bool,
    calls: Vec<sql::SessionCall>,
    mentions_schema: bool,
    is_large: bool,
}

plain!(struct FrozenTemplate {
    statement, collation, counts_rows, found, inserts_selection, without_tables, calls, mentions_schema, is_large,
});

impl FrozenDefinition {
    /// Copies a definition. Its holder goes on holding it.
    pub(crate) fn of(id: DefinitionId, sessions: &SessionTables) -> Self {
        // Lists of types go with those who have sent them.
        let Definition { text, held, parameters, template, types: _, holders: _ } =
            sessions.definitions.get(id);
        Self {
            text: Box::from(&**text),
            state: sessions.states.state(held.id()).clone(),
            parameters: *parameters,
            template: FrozenTemplate::of(template.clone()),
        }
    }

    /// Holds it once more; `server` is how the server reads texts where a session does not say otherwise.
    pub(crate) fn thaw(self, sessions: &mut SessionTables, server: LexMode) -> DefinitionHold {
        let Self { text, state, parameters, template } = self;
        let session = sessions.states.hold(state);
        let mode = sessions.states.lex_mode(session.id(), server);
        let template = template.thaw(|| LargeDefinition::of_text(&text, mode));
        sessions.hold_definition(session, text.into(), parameters, template)
    }
}

impl FrozenTemplate {
    pub(crate) fn of(template: Template) -> Self {
        let Template {
            statement,
            collation,
            counts_rows,
            found,
            inserts_selection,
            without_tables,
            calls,
            mentions_schema,
            large,
        } = template;
        Self {
            statement,
            collation,
            counts_rows,
            found,
            inserts_selection,
            without_tables,
            calls,
            mentions_schema,
            is_large: large.is_some(),
        }
    }

    /// Makes a template of a text that is not large.
    pub(crate) fn thaw_small(self) -> Template {
        self.thaw(|| LargeDefinition::of_text(&[], LexMode::default()))
    }

    fn thaw(self, large: impl FnOnce() -> LargeDefinition) -> Template {
        let Self {
            statement,
            collation,
            counts_rows,
            found,
            inserts_selection,
            without_tables,
            calls,
            mentions_schema,
            is_large,
        } = self;
        Template {
            statement,
            collation,
            counts_rows,
            found,
            inserts_selection,
            without_tables,
            calls,
            mentions_schema,
            large: is_large.then(|| Arc::new(large())),
        }
    }
}
