//! The statements that are prepared on a backend.

pub(crate) mod frozen;

use std::collections::BTreeMap;

use crate::session::statements::{DefinitionHold, DefinitionId, TypesId};

/// The statements that are prepared on a backend, by their definitions and the clients that they serve.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    statements: BTreeMap<(DefinitionId, Serves), Entry>,
    /// Number of uses so far, so that the statement used longest ago is known.
    uses: u64,
}

/// The executions that one of the server's statements is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Serves {
    /// Executions of any client. With its first execution the statement becomes [`Self::Typed`] on MySQL.
    All,
    /// Executions with parameters of these types. MySQL keeps the types of a statement's first execution, and converts later values
    /// to them (sql_prepare.cc: check_parameter_types).
    Typed(TypesId),
    /// Executions of one client, by its own number for the statement. The client has a cursor, types that nobody knows, or another session
    /// state than that of the definition.
    Own(u32),
}

#[derive(Debug)]
struct Entry {
    held: DefinitionHold,
    /// The server's number for the statement.
    id: u32,
    used: u64,
    had_cursor: bool,
}

/// A statement that has been taken out, and that the server is to close.
#[derive(Debug, PartialEq)]
#[must_use = "it stays on the server, and its definition with it"]
pub(crate) struct Removed {
    pub(super) held: DefinitionHold,
    /// The server's number for the statement.
    pub(super) id: u32,
}

impl From<Entry> for Removed {
    fn from(Entry { held, id, .. }: Entry) -> Self {
        Self { held, id }
    }
}

impl Prepared {
    /// Returns the server's number for a statement, and notes its use.
    pub(crate) fn find(&mut self, definition: DefinitionId, serves: Serves) -> Option<u32> {
        self.uses += 1;
        let uses = self.uses;
        let entry = self.statements.get_mut(&(definition, serves))?;
        entry.used = uses;
        Some(entry.id)
    }

    /// Returns the definition of each statement, each as often as there is a statement of it.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = DefinitionId> {
        self.statements.keys().map(|&(definition, _)| definition)
    }

    /// Says whether there is such a statement.
    pub(crate) fn has(&self, definition: DefinitionId, serves: Serves) -> bool {
        self.statements.contains_key(&(definition, serves))
    }

    /// Notes that a client's own statement is executed with a cursor.
    pub(crate) fn asked_for_cursor(&mut self, definition: DefinitionId, number: u32) {
        if let Some(entry) = self.statements.get_mut(&(definition, Serves::Own(number))) {
            entry.had_cursor = true;
        }
    }

    /// Says whether the statement may have had a cursor.
    pub(crate) fn had_cursor(&self, definition: DefinitionId, serves: Serves) -> bool {
        self.statements.get(&(definition, serves)).is_some_and(|entry| entry.had_cursor)
    }

    /// Notes that a statement has been prepared. Returns the one in the same place before.
    pub(crate) fn insert(&mut self, held: DefinitionHold, serves: Serves, id: u32) -> Option<Removed> {
        self.uses += 1;
        let place = (held.id(), serves);
        let entry = Entry { held, id, used: self.uses, had_cursor: false };
        self.statements.insert(place, entry).map(Removed::from)
    }

    /// Takes a statement out.
    pub(crate) fn remove(&mut self, definition: DefinitionId, serves: Serves) -> Option<Removed> {
        self.statements.remove(&(definition, serves)).map(Removed::from)
    }

    /// Has a statement serve other executions from now on. Returns it where there is a statement for these already.
    pub(crate) fn turn(&mut self, definition: DefinitionId, from: Serves, to: Serves) -> Option<Removed> {
        if from == to {
            return None;
        }
        let entry = self.statements.remove(&(definition, from))?;
        if self.has(definition, to) {
            return Some(entry.into());
        }
        self.statements.insert((definition, to), entry);
        None
    }

    /// Takes out the statement that was used longest ago, of those that are not a client's own.
    pub(crate) fn remove_oldest(&mut self) -> Option<Removed> {
        let common = self.statements.iter().filter(|((_, serves), _)| !serves.is_own());
        let (&(definition, serves), _) = common.min_by_key(|(_, entry)| entry.used)?;
        self.remove(definition, serves)
    }

    /// Returns the number of statements that are not a client's own.
    pub(crate) fn common(&self) -> usize {
        self.statements.keys().filter(|(_, serves)| !serves.is_own()).count()
    }

    /// Takes all statements out, since the connection has been reset or is gone. Returns the hold on the definition of each.
    pub(crate) fn clear(&mut self) -> impl ExactSizeIterator<Item = DefinitionHold> + use<> {
        std::mem::take(&mut self.statements).into_values().map(|entry| entry.held)
    }

    /// Returns the number of statements.
    pub(crate) fn count(&self) -> usize {
        self.statements.len()
    }

    /// Returns the bytes on the heap. The nodes of a B-tree are at least half full.
    pub(crate) fn bytes(&self) -> usize {
        self.statements.len() * 2 * size_of::<(DefinitionId, Serves, Entry)>()
    }
}

impl Serves {
    fn is_own(self) -> bool {
        matches!(self, Self::Own(_))
    }
}

#[cfg(test)]
mod tests {
    use sql::Classification;

    use super::*;
    use crate::session::statements::Template;
    use crate::session::{SessionState, SessionTables};

    /// What a test does with the statements of three definitions.
    #[derive(Default)]
    struct Bench {
        sessions: SessionTables,
        prepared: Prepared,
    }

    impl Bench {
        fn new() -> (Self, [DefinitionId; 3]) {
            let mut bench = Self::default();
            let definitions = [&b"SELECT 1"[..], b"SELECT 2", b"SELECT 3"].map(|text| {
                let template = Template::plain(Classification::none());
                let session = bench.sessions.states.hold(SessionState::default());
                // Nobody gives this one up: the definitions stay until the end of the test.
                bench.sessions.hold_definition(session, text.into(), 0, template).id()
            });
            (bench, definitions)
        }

        /// Returns the server's number of the statement before.
        fn insert(&mut self, definition: DefinitionId, serves: Serves, id: u32) -> Option<u32> {
            let held = self.sessions.definitions.hold_again(definition);
            self.prepared.insert(held, serves, id).map(|before| before.id)
        }

        fn turn(&mut self, definition: DefinitionId, from: Serves, to: Serves) -> Option<u32> {
            self.prepared.turn(definition, from, to).map(|surplus| surplus.id)
        }

        fn remove_oldest(&mut self) -> Option<(DefinitionId, u32)> {
            self.prepared.remove_oldest().map(|oldest| (oldest.held.id(), oldest.id))
        }
    }

    #[test]
    fn the_one_used_longest_ago_goes_first() {
        let (mut bench, [one, two, three]) = Bench::new();
        for (id, definition) in [(11, one), (12, two), (13, three)] {
            assert_eq!(bench.insert(definition, Serves::All, id), None);
        }
        assert_eq!(bench.prepared.find(one, Serves::All), Some(11));
        assert_eq!(bench.insert(two, Serves::All, 14), Some(12), "a new one takes the place of the old one");
        assert_eq!(bench.remove_oldest(), Some((three, 13)));
        assert_eq!(bench.remove_oldest(), Some((one, 11)));
        assert_eq!((bench.prepared.common(), bench.prepared.find(three, Serves::All)), (1, None));
    }

    #[test]
    fn a_statement_with_a_cursor_is_its_clients_own() {
        let (mut bench, [one, two, _]) = Bench::new();
        bench.insert(one, Serves::All, 11);
        assert_eq!(bench.turn(one, Serves::All, Serves::Own(5)), None);
        assert!(!bench.prepared.has(one, Serves::All) && bench.prepared.has(one, Serves::Own(5)));
        assert_eq!(bench.remove_oldest(), None, "it is not closed under its client");
        bench.insert(one, Serves::All, 12);
        assert_eq!(bench.turn(one, Serves::Own(5), Serves::All), Some(11), "there is a common one meanwhile");
        bench.insert(two, Serves::Own(7), 13);
        assert_eq!(bench.turn(two, Serves::Own(7), Serves::All), None);
        assert_eq!(bench.prepared.find(two, Serves::All), Some(13));
    }
}
