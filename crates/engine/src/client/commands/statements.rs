//! The statements that a client has prepared, by the numbers that it knows.

use std::rc::Rc;

use crate::client::commands::statement_counters::Counters;
use crate::client::memory::bytes_held::Counted;
use crate::errors::MySqlError;
use crate::session::SessionState;
use crate::session::statements::{DefinitionId, Template};

/// MariaDB's name for the statement that was prepared last (`LAST_STMT_ID`, sql_prepare.cc).
const LAST: u32 = u32::MAX;

/// The statements that a client has prepared.
#[derive(Default)]
pub(crate) struct ClientStatements {
    /// The number of the latest one. A failed attempt takes a number too, as on the servers.
    pub(in crate::client) last_number: u32,
    /// The number that [`LAST`] stands for.
    pub(in crate::client) last: Option<u32>,
    /// The statements in the order of their numbers. A closed one stays until more than half are closed: were all
    /// behind it moved up each time, closing a hundred thousand from the first on would take half a minute.
    pub(in crate::client) statements: Vec<ClientStatement>,
    /// The number of statements that are closed.
    pub(in crate::client) closed: usize,
    /// The number of statements that have an open cursor.
    pub(in crate::client) open_cursors: usize,
    /// The definition that is executed in the place of a statement that asks what the one before it has left: the same with literals.
    pub(crate) answered: Option<DefinitionId>,
    /// Counts of all that the client has asked for.
    pub(in crate::client) counters: Counters,
}

/// One prepared statement of a client.
pub(crate) struct ClientStatement {
    pub(in crate::client) number: u32,
    pub(in crate::client) definition: DefinitionId,
    /// The types of its parameters, as the latest execution said them, two bytes each.
    pub(in crate::client) types: Option<Rc<[u8]>>,
    pub(in crate::client) long_data: Option<Box<LongData>>,
    /// The digest of the column definitions that the client has had for the statement last, where it wants to be spared
    /// the same, and of its character set then.
    pub(in crate::client) metadata: Option<u64>,
    /// Set by [`ClientStatements::note_cursor`].
    pub(crate) cursor_is_open: bool,
    /// See [`crate::request::About::stays`].
    pub(in crate::client) stays: bool,
    /// True where the statement is closed, and is none any more.
    pub(in crate::client) is_closed: bool,
}

/// Data that have come with COM_STMT_SEND_LONG_DATA since the latest execution.
pub(in crate::client) enum LongData {
    Pieces {
        /// The commands as they came.
        commands: Vec<u8>,
        /// Bytes that the commands take of `statement_memory`.
        counted: Counted,
    },
    /// The error of a command that was wrong: each execution says so, until COM_STMT_RESET.
    Wrong(MySqlError),
}

/// A prepared statement of a client that is lent, as plain data ([`crate::readers`]).
pub(crate) struct LentStatement {
    pub(super) text: Rc<[u8]>,
    /// The session state in which it is prepared.
    pub(crate) session: SessionState,
    pub(super) parameters: u16,
    pub(super) template: Template,
    pub(in crate::client) types: Option<Rc<[u8]>>,
}

impl ClientStatements {
    /// Makes the statements of a client that has brought one along, of this number.
    pub(in crate::client) fn with(number: u32, definition: DefinitionId, types: Option<Rc<[u8]>>) -> Self {
        let statement = ClientStatement { types, ..ClientStatement::new(number, definition) };
        Self { last_number: number, statements: vec![statement], ..Self::default() }
    }

    /// Returns the definitions of the statements, each as often as the client holds it.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = DefinitionId> {
        let open = self.statements.iter().filter(|statement| !statement.is_closed);
        open.map(|statement| statement.definition).chain(self.answered)
    }

    /// Adds a statement that has been prepared. Returns its number.
    pub(crate) fn add(&mut self, definition: DefinitionId, stays: bool) -> u32 {
        let number = self.next_number();
        self.last = Some(number);
        let statement = ClientStatement { stays, ..ClientStatement::new(number, definition) };
        // At the end, but for a client that has come to the last number there is.
        let place = self.statements.partition_point(|other| other.number < number);
        if let Some(closed) = self.statements.get_mut(place).filter(|other| other.number == number) {
            *closed = statement;
            self.closed -= 1;
            return number;
        }
        if self.statements.len() == self.statements.capacity() {
            // Not twice as many: with tens of thousands of clients a half that is empty is more than copying costs.
            self.statements.reserve_exact((self.statements.len() / 8).max(4));
        }
        self.statements.insert(place, statement);
        number
    }

    /// Returns the next number that no statement has, and that means nothing else.
    fn next_number(&mut self) -> u32 {
        loop {
            self.last_number = self.last_number.wrapping_add(1);
            let number = self.last_number;
            if number != 0 && number != LAST && self.place(number).is_none() {
                return number;
            }
        }
    }

    /// Notes that a statement could not be prepared.
    pub(crate) fn note_failure(&mut self) {
        self.next_number();
        self.last = None;
    }

    fn place(&self, number: u32) -> Option<usize> {
        let found = self.statements.binary_search_by_key(&number, |statement| statement.number).ok();
        found.filter(|&place| !self.statements[place].is_closed)
    }

    /// Returns the definition of the statement of this number.
    pub(crate) fn definition(&self, number: u32) -> Option<DefinitionId> {
        self.place(number).map(|place| self.statements[place].definition)
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut ClientStatement> {
        self.place(number).map(|place| &mut self.statements[place])
    }

    /// Returns the statement of this number, as the client names it.
    pub(in crate::client) fn named(&mut self, number: u32, is_mariadb: bool) -> Option<&mut ClientStatement> {
        let number = if number == LAST && is_mariadb { self.last? } else { number };
        self.get_mut(number)
    }

    pub(in crate::client) fn remove(&mut self, number: u32) -> Option<ClientStatement> {
        if self.last == Some(number) {
            self.last = None;
        }
        let place = self.place(number)?;
        let closed = ClientStatement {
            is_closed: true,
            ..ClientStatement::new(number, self.statements[place].definition)
        };
        let statement = std::mem::replace(&mut self.statements[place], closed);
        self.open_cursors -= usize::from(statement.cursor_is_open);
        self.closed += 1;
        while self.statements.last().is_some_and(|last| last.is_closed) {
            self.statements.pop();
            self.closed -= 1;
        }
        if self.closed > self.statements.len() / 2 {
            self.statements.retain(|statement| !statement.is_closed);
            self.closed = 0;
        }
        Some(statement)
    }

    /// Takes all statements, which are the client's no more.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = ClientStatement> + use<> {
        (self.closed, self.open_cursors) = (0, 0);
        std::mem::take(&mut self.statements).into_iter().filter(|statement| !statement.is_closed)
    }

    /// Notes that the statement of this number has an open cursor now, or none.
    pub(crate) fn note_cursor(&mut self, number: u32, is_open: bool) {
        if let Some(statement) = self.get_mut(number) {
            let was_open = std::mem::replace(&mut statement.cursor_is_open, is_open);
            self.open_cursors = self.open_cursors + usize::from(is_open) - usize::from(was_open);
        }
    }

    pub(super) fn has_open_cursor(&self) -> bool {
        self.open_cursors > 0
    }

    /// Returns the bytes on the heap. What several clients share is not counted.
    pub(crate) fn bytes(&self) -> usize {
        let statements = self.statements.capacity() * size_of::<ClientStatement>();
        size_of::<Self>() + statements + self.long_data_bytes()
    }

    /// Returns the bytes of long data that wait for their execution.
    pub(crate) fn long_data_bytes(&self) -> usize {
        self.statements.iter().map(|statement| bytes_of(statement.long_data.as_deref())).sum()
    }
}

impl ClientStatement {
    fn new(number: u32, definition: DefinitionId) -> Self {
        Self {
            number,
            definition,
            types: None,
            long_data: None,
            metadata: None,
            cursor_is_open: false,
            stays: false,
            is_closed: false,
        }
    }
}

/// Returns the bytes of the long data that have come.
fn bytes_of(long_data: Option<&LongData>) -> usize {
    if let Some(LongData::Pieces { counted, .. }) = long_data { counted.bytes() } else { 0 }
}

#[cfg(test)]
mod tests {
    use sql::Classification;

    use super::*;
    use crate::session::statements::Template;
    use crate::session::{SessionState, SessionTables};

    fn definition() -> DefinitionId {
        let mut sessions = SessionTables::default();
        let session = sessions.states.hold(SessionState::default());
        let template = Template::plain(Classification::none());
        sessions.hold_definition(session, (*b"DO 1").into(), 0, template)
    }

    /// Statements behind a closed one are not moved up for each that is closed.
    #[test]
    fn what_is_closed_is_nobodys_and_goes_by_halves() {
        let (definition, mut statements) = (definition(), ClientStatements::default());
        let numbers: Vec<_> = (0..1_000).map(|_| statements.add(definition, false)).collect();
        statements.note_cursor(1_000, true);
        let mut moved = 0;
        for &number in &numbers {
            assert!(statements.has_open_cursor());
            let before = statements.statements.len();
            assert_eq!(statements.remove(number).map(|closed| closed.number), Some(number));
            assert!(statements.definition(number).is_none() && statements.remove(number).is_none());
            let left = (1_000 - number) as usize;
            assert_eq!(statements.statements.len() - statements.closed, left);
            assert!(statements.closed <= statements.statements.len() / 2);
            moved += if statements.statements.len() < before { left } else { 0 };
        }
        assert!(!statements.has_open_cursor() && statements.statements.is_empty());
        assert!(moved <= 1_000, "{moved}");
    }

    #[test]
    fn a_number_that_is_given_anew_is_one_statement() {
        let (definition, mut statements) = (definition(), ClientStatements::default());
        for _ in 0..4 {
            statements.add(definition, false);
        }
        statements.remove(2);
        statements.last_number = 1;
        assert_eq!(statements.add(definition, true), 2);
        assert!(statements.get_mut(2).is_some_and(|again| again.stays) && statements.closed == 0);
        statements.note_cursor(2, true);
        statements.note_cursor(2, true);
        statements.note_cursor(3, false);
        assert_eq!(statements.open_cursors, 1);
        assert_eq!(statements.take_all().count(), 4);
        assert!(!statements.has_open_cursor());
    }

    #[test]
    fn numbers_begin_anew_behind_the_last_one_and_none_is_given_twice() {
        let (definition, mut statements) = (definition(), ClientStatements::default());
        assert_eq!([statements.add(definition, false), statements.add(definition, false)], [1, 2]);
        statements.last_number = u32::MAX - 2;
        let numbers: Vec<_> = (0..3).map(|_| statements.add(definition, false)).collect();
        assert_eq!(numbers, [u32::MAX - 1, 3, 4], "0 and LAST mean no statement, and 1 and 2 are in use");
        statements.last_number = u32::MAX - 1;
        statements.remove(1);
        statements.note_failure();
        assert_eq!(statements.add(definition, false), 5);
        assert!([2, 3, 4, 5, u32::MAX - 1].iter().all(|&number| statements.get_mut(number).is_some()));
    }
}
