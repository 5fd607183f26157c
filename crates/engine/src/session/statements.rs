//! Definitions of prepared statements: what a client has prepared, apart from the backends on which that has been done.
//!
//! A statement's meaning is its text and the session state in which it is prepared: the servers resolve names in the
//! default schema of that moment, and read the text with its sql_mode and character sets. Equal ones are stored once,
//! however many clients have them, so that they also need one statement on each backend.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::server::stored_code::LargeDefinition;
use crate::session::{SessionHold, SessionId, SessionTables};
use sql::{Classification, Kind, RowsFound, SessionCall};

/// The number of a stored definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DefinitionId(u32);

/// A hold on a stored definition. Whoever gives the hold up gives it to [`SessionTables::release_definition`], and has it no more: nobody
/// can give up one twice. A hold that nobody has given up is found where holds are counted (`engine/invariants.rs`).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a hold that nobody gives up keeps its definition for ever"]
pub(crate) struct DefinitionHold(DefinitionId);

impl DefinitionHold {
    /// Returns the number of the definition, which says no more than that once the hold is given up.
    pub(crate) fn id(&self) -> DefinitionId {
        self.0
    }
}

/// The number of a list of types among those of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TypesId(u16);

/// A prepared statement apart from any backend.
pub(crate) struct Definition {
    /// The text as the server gets it.
    pub(crate) text: Rc<[u8]>,
    /// The hold on the session state in which it is prepared, without what makes no difference to that.
    pub(super) held: SessionHold,
    /// The number of parameters of the statement.
    pub(crate) parameters: u16,
    /// The effects of its execution, as of a text.
    pub(crate) template: Template,
    /// Types of parameters as clients have sent them: most send the same ones.
    pub(super) types: Vec<Rc<[u8]>>,
    pub(super) holders: u32,
}

/// The lexer's findings about a text, and what else is found out along with them.
#[derive(Clone)]
pub(crate) struct Template {
    pub(crate) statement: Classification,
    /// See [`crate::request::Request`].
    pub(crate) collation: Option<Box<[u8]>>,
    pub(crate) counts_rows: bool,
    pub(crate) found: RowsFound,
    pub(crate) inserts_selection: bool,
    pub(crate) without_tables: bool,
    /// The places where the text asks for what the client carries. The statement, which each execution has a copy of, does not say this again.
    pub(crate) calls: Vec<SessionCall>,
    /// True where the text has the word DATABASE or SCHEMA in it.
    pub(crate) mentions_schema: bool,
    /// The findings in a large text.
    pub(crate) large: Option<Arc<LargeDefinition>>,
}

impl SessionTables {
    /// Holds a definition. The definition takes over the hold on its session state.
    pub(crate) fn hold_definition(
        &mut self,
        held: SessionHold,
        text: Rc<[u8]>,
        parameters: u16,
        template: Template,
    ) -> DefinitionHold {
        let (definition, unused) = self.definitions.hold(held, text, parameters, template);
        if let Some(session) = unused {
            self.states.release(session);
        }
        definition
    }

    /// Gives up one hold on a definition, and with the last one the definition's own hold on its session state.
    pub(crate) fn release_definition(&mut self, definition: DefinitionHold) {
        if let Some(session) = self.definitions.release(definition) {
            self.states.release(session);
        }
    }
}

impl Definition {
    /// Returns the number of the session state in which the statement is prepared.
    pub(crate) fn session(&self) -> SessionId {
        self.held.id()
    }

    /// The types of this number.
    pub(crate) fn types_of(&self, TypesId(place): TypesId) -> &[u8] {
        &self.types[usize::from(place)]
    }
}

impl Template {
    /// A template without calls, of a text that has been read.
    #[cfg(test)]
    pub(crate) fn plain(statement: Classification) -> Self {
        Self {
            statement,
            collation: None,
            counts_rows: false,
            found: RowsFound::default(),
            inserts_selection: false,
            without_tables: false,
            calls: Vec::new(),
            mentions_schema: false,
            large: None,
        }
    }

    /// Returns the template of its executions, which come without a text.
    pub(crate) fn without_calls(&self) -> Self {
        let (statement, collation) = (self.statement.clone(), self.collation.clone());
        Self { statement, collation, calls: Vec::new(), large: self.large.clone(), ..*self }
    }

    /// Bytes on the heap: what has been found in the text.
    pub(crate) fn bytes(&self) -> usize {
        self.statement.heap_bytes() + self.calls.len() * size_of::<SessionCall>()
    }

    /// Says whether it is DDL: it defines tables, or anything else.
    pub(crate) fn defines(&self) -> bool {
        self.statement.kind == Kind::Ddl
    }
}

/// Lists of types that are remembered for all clients of a definition. Where values decide about types (integers of the
/// smallest type that fits) there may be more, and then each client keeps its own.
const MOST_TYPES: usize = 64;

/// All definitions in use, each stored once and counted.
#[derive(Default)]
pub(crate) struct Definitions {
    entries: slab::Slab<Definition>,
    ids: BTreeMap<(SessionId, Rc<[u8]>), DefinitionId>,
    /// Bytes of texts and of the findings in them, of lists of types, and of what each client's statement may take for its own list.
    text_bytes: usize,
}

impl Definitions {
    /// Holds a definition. The definition takes over the hold on its session state, which comes back for the caller to release where the
    /// definition was there already.
    fn hold(
        &mut self,
        held: SessionHold,
        text: Rc<[u8]>,
        parameters: u16,
        template: Template,
    ) -> (DefinitionHold, Option<SessionHold>) {
        let name = (held.id(), text);
        if let Some(&id) = self.ids.get(&name) {
            return (self.hold_again(id), Some(held));
        }
        let (_, text) = &name;
        self.text_bytes += text.len() + template.bytes();
        let text = Rc::clone(text);
        let types = Vec::new();
        let definition = Definition { text, held, parameters, template, types, holders: 1 };
        let index = self.entries.insert(definition);
        let id = DefinitionId(u32::try_from(index).expect("fewer definitions than memory has bytes"));
        self.ids.insert(name, id);
        (DefinitionHold(id), None)
    }

    /// Holds a definition once more that is held already.
    pub(crate) fn hold_again(&mut self, id: DefinitionId) -> DefinitionHold {
        self.entries[id.0 as usize].holders += 1;
        DefinitionHold(id)
    }

    /// Gives up one hold on a definition. The last one frees the definition, and gets back the session state to release.
    fn release(&mut self, DefinitionHold(id): DefinitionHold) -> Option<SessionHold> {
        let entry = &mut self.entries[id.0 as usize];
        entry.holders -= 1;
        if entry.holders > 0 {
            return None;
        }
        let entry = self.entries.remove(id.0 as usize);
        let types = entry.types.iter().map(|types| types.len()).sum::<usize>();
        self.text_bytes -= entry.text.len() + entry.template.bytes() + types;
        self.ids.remove(&(entry.held.id(), entry.text));
        Some(entry.held)
    }

    pub(crate) fn get(&self, id: DefinitionId) -> &Definition {
        &self.entries[id.0 as usize]
    }

    /// A client has a statement of this definition: it may keep a list of types of its own.
    pub(super) fn client_statement_added(&mut self, id: DefinitionId) {
        self.text_bytes += self.types_bytes(id);
    }

    /// The client has it no more, and gives up its hold on the definition next.
    pub(super) fn client_statement_removed(&mut self, id: DefinitionId) {
        self.text_bytes -= self.types_bytes(id);
    }

    fn types_bytes(&self, id: DefinitionId) -> usize {
        2 * usize::from(self.get(id).parameters)
    }

    /// Stores these types once where others send the same and all together do not exceed `memory`.
    pub(crate) fn types(&mut self, id: DefinitionId, types: &[u8], memory: usize) -> Rc<[u8]> {
        let room = self.text_bytes + types.len() <= memory;
        let known = &mut self.entries[id.0 as usize].types;
        if let Some(types) = known.iter().find(|known| ***known == *types) {
            return Rc::clone(types);
        }
        let types: Rc<[u8]> = types.into();
        if room && known.len() < MOST_TYPES {
            known.push(Rc::clone(&types));
            self.text_bytes += types.len();
        }
        types
    }

    /// The number of these types, where they are among those that are remembered for all.
    pub(crate) fn types_id(&self, id: DefinitionId, types: &[u8]) -> Option<TypesId> {
        let place = self.get(id).types.iter().position(|known| **known == *types)?;
        u16::try_from(place).ok().map(TypesId)
    }

    /// The number of holders of each definition, and the session state that the definition holds.
    pub(crate) fn holder_counts(&self) -> BTreeMap<DefinitionId, (u32, SessionId)> {
        let id = |index| DefinitionId(u32::try_from(index).expect("fewer definitions than memory has bytes"));
        self.entries.iter().map(|(index, it)| (id(index), (it.holders, it.session()))).collect()
    }

    /// The number of definitions.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of all texts and lists of types: what is bounded.
    pub(crate) fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    /// Bytes of all definitions. The nodes of a B-tree are at least half full.
    pub(crate) fn bytes(&self) -> usize {
        let names = self.ids.len() * 2 * size_of::<(SessionId, Rc<[u8]>, DefinitionId)>();
        self.entries.capacity() * size_of::<Definition>() + names + self.text_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{SessionState, Sessions};

    fn template() -> Template {
        Template::plain(Classification::none())
    }

    #[test]
    fn equal_definitions_are_stored_once_and_freed_with_the_last_holder() {
        let (mut sessions, mut definitions) = (Sessions::default(), Definitions::default());
        let mut session = || sessions.hold(SessionState::default());
        let (first, unused) = definitions.hold(session(), (*b"SELECT ?").into(), 1, template());
        assert_eq!(unused, None);
        let (second, unused) = definitions.hold(session(), (*b"SELECT ?").into(), 1, template());
        assert_eq!((&first, unused), (&second, Some(session())));
        let (other, _) = definitions.hold(session(), (*b"SELECT 2").into(), 0, template());
        assert!(other != first && definitions.len() == 2 && definitions.text_bytes() == 16);
        assert_eq!(definitions.release(first), None);
        assert_eq!(definitions.release(second), Some(session()));
        assert_eq!((definitions.len(), definitions.text_bytes()), (1, 8));
    }

    #[test]
    fn types_are_shared_up_to_a_bound() {
        let (mut sessions, mut definitions) = (Sessions::default(), Definitions::default());
        let session = sessions.hold(SessionState::default());
        let (held, _) = definitions.hold(session, (*b"SELECT ?").into(), 1, template());
        let id = held.id();
        let first = definitions.types(id, &[8, 0], 1 << 20);
        assert!(Rc::ptr_eq(&first, &definitions.types(id, &[8, 0], 1 << 20)));
        for kind in 0..200 {
            assert_eq!(*definitions.types(id, &[kind, 1], 1 << 20), [kind, 1]);
        }
        assert_eq!(definitions.get(id).types.len(), MOST_TYPES);
        assert_eq!(definitions.text_bytes(), 8 + 2 * MOST_TYPES);
        assert!(definitions.release(held).is_some());
        assert_eq!(definitions.text_bytes(), 0);
    }

    #[test]
    fn types_of_clients_statements_are_bounded_too() {
        let (mut sessions, mut definitions) = (Sessions::default(), Definitions::default());
        let session = sessions.hold(SessionState::default());
        let (held, _) = definitions.hold(session, (*b"SELECT ?").into(), 100, template());
        let id = held.id();
        definitions.client_statement_added(id);
        assert_eq!(definitions.text_bytes(), 8 + 200);
        assert_eq!(*definitions.types(id, &[8; 200], 8 + 200), [8; 200]);
        assert_eq!(definitions.types_id(id, &[8; 200]), None, "there was no room to remember them for all");
        definitions.types(id, &[8; 200], 8 + 400);
        assert!(definitions.types_id(id, &[8; 200]).is_some());
        definitions.client_statement_removed(id);
        assert!(definitions.release(held).is_some());
        assert_eq!(definitions.text_bytes(), 0);
    }
}
