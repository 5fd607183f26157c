//! Which statements are prepared on a backend.

use std::collections::BTreeMap;

use crate::statements::DefinitionId;

/// The statements that are prepared on a backend, by what they are. One serves all clients; one with an open cursor belongs
/// to the client that opened it, by its own number for the statement.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    statements: BTreeMap<(DefinitionId, Option<u32>), Entry>,
    /// Counts uses, so that the one that was used longest ago is known.
    uses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The server's number for it.
    id: u32,
    used: u64,
}

impl Prepared {
    /// The server's number for a statement: the client's own where it has one, else the common one.
    pub(crate) fn find(&mut self, definition: DefinitionId, own: u32) -> Option<u32> {
        self.uses += 1;
        let uses = self.uses;
        let key = (definition, Some(own));
        let key = if self.statements.contains_key(&key) { key } else { (definition, None) };
        let entry = self.statements.get_mut(&key)?;
        entry.used = uses;
        Some(entry.id)
    }

    /// Whether there is one for all clients.
    pub(crate) fn has(&self, definition: DefinitionId) -> bool {
        self.statements.contains_key(&(definition, None))
    }

    /// Whether there is one for this statement of a client, be it its own or the common one.
    pub(crate) fn serves(&self, definition: DefinitionId, own: u32) -> bool {
        self.has(definition) || self.has_own(definition, own)
    }

    /// Whether there is one that is this client's alone.
    pub(crate) fn has_own(&self, definition: DefinitionId, own: u32) -> bool {
        self.statements.contains_key(&(definition, Some(own)))
    }

    /// A statement has been prepared; gives the server's number of the one whose place it takes.
    pub(crate) fn insert(&mut self, definition: DefinitionId, own: Option<u32>, id: u32) -> Option<u32> {
        self.uses += 1;
        let entry = Entry { id, used: self.uses };
        self.statements.insert((definition, own), entry).map(|before| before.id)
    }

    /// Takes a statement out: the server's number for it.
    pub(crate) fn remove(&mut self, definition: DefinitionId, own: Option<u32>) -> Option<u32> {
        self.statements.remove(&(definition, own)).map(|entry| entry.id)
    }

    /// The common statement becomes a client's own, since it has a cursor now.
    pub(crate) fn give_to(&mut self, definition: DefinitionId, own: u32) {
        if !self.statements.contains_key(&(definition, Some(own)))
            && let Some(entry) = self.statements.remove(&(definition, None))
        {
            self.statements.insert((definition, Some(own)), entry);
        }
    }

    /// The other way round. Gives the server's number where there is a common one already: it has to be closed.
    pub(crate) fn take_back(&mut self, definition: DefinitionId, own: u32) -> Option<u32> {
        let entry = self.statements.remove(&(definition, Some(own)))?;
        if self.has(definition) {
            return Some(entry.id);
        }
        self.statements.insert((definition, None), entry);
        None
    }

    /// Takes out the common statement that was used longest ago.
    pub(crate) fn remove_oldest(&mut self) -> Option<(DefinitionId, u32)> {
        let common = self.statements.iter().filter(|((_, own), _)| own.is_none());
        let (&(definition, _), _) = common.min_by_key(|(_, entry)| entry.used)?;
        self.remove(definition, None).map(|id| (definition, id))
    }

    /// How many common statements there are.
    pub(crate) fn common(&self) -> usize {
        self.statements.keys().filter(|(_, own)| own.is_none()).count()
    }

    /// The connection has been reset, or is gone: none is left. What they were, once for each.
    pub(crate) fn clear(&mut self) -> Vec<DefinitionId> {
        std::mem::take(&mut self.statements).into_keys().map(|(definition, _)| definition).collect()
    }

    /// Bytes on the heap. The nodes of a B-tree are at least half full.
    pub(crate) fn bytes(&self) -> usize {
        self.statements.len() * 2 * size_of::<(DefinitionId, Option<u32>, Entry)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Statement;
    use crate::session::{SessionState, Sessions};
    use crate::statements::{Definitions, Template};

    fn definitions() -> [DefinitionId; 3] {
        let (mut sessions, mut definitions) = (Sessions::default(), Definitions::default());
        let session = sessions.hold(SessionState::default());
        [&b"SELECT 1"[..], b"SELECT 2", b"SELECT 3"].map(|text| {
            let statement = Statement::none();
            let template = Template {
                statement,
                collation: None,
                counts_rows: true,
                inserts_selection: false,
                without_tables: true,
            };
            definitions.hold(session, text.into(), 0, template).0
        })
    }

    #[test]
    fn the_one_used_longest_ago_goes_first() {
        let [one, two, three] = definitions();
        let mut prepared = Prepared::default();
        for (id, definition) in [(11, one), (12, two), (13, three)] {
            assert_eq!(prepared.insert(definition, None, id), None);
        }
        assert_eq!(prepared.find(one, 1), Some(11));
        assert_eq!(prepared.insert(two, None, 14), Some(12), "a new one takes the place of the old one");
        assert_eq!(prepared.remove_oldest(), Some((three, 13)));
        assert_eq!(prepared.remove_oldest(), Some((one, 11)));
        assert_eq!((prepared.common(), prepared.find(three, 1)), (1, None));
    }

    #[test]
    fn a_statement_with_a_cursor_is_its_clients_own() {
        let [one, two, _] = definitions();
        let mut prepared = Prepared::default();
        prepared.insert(one, None, 11);
        prepared.give_to(one, 5);
        assert!(!prepared.has(one) && prepared.serves(one, 5) && !prepared.serves(one, 6));
        assert_eq!(prepared.remove_oldest(), None, "it is not closed under its client");
        prepared.insert(one, None, 12);
        assert_eq!([prepared.find(one, 5), prepared.find(one, 6)], [Some(11), Some(12)]);
        assert_eq!(prepared.take_back(one, 5), Some(11), "there is a common one meanwhile");
        prepared.insert(two, Some(7), 13);
        assert_eq!((prepared.take_back(two, 7), prepared.find(two, 8)), (None, Some(13)));
    }
}
