//! The statements that a client has prepared, by the numbers that it knows.

use std::rc::Rc;

use crate::client::commands::statement_counters::Counters;
use crate::client::memory::bytes_held::Counted;
use crate::errors::MySqlError;
use crate::session::SessionState;
use crate::session::statements::{DefinitionHold, DefinitionId, Template};

/// MariaDB's name for the statement that was prepared last (`LAST_STMT_ID`, sql_prepare.cc).
const LAST: u32 = u32::MAX;

/// The statements that a client has prepared.
#[derive(Default)]
pub(crate) struct ClientStatements {
    /// The number of the latest one. A failed attempt takes a number too, as on the servers.
    pub(in crate::client) last_number: u32,
    /// The number that [`LAST`] stands for.
    pub(in crate::client) last: Option<u32>,
    /// The statements in the order of their numbers. The place of a closed one stays until more than half are closed: were all
    /// behind it moved up each time, closing a hundred thousand from the first on would take half a minute.
    pub(in crate::client) slots: Vec<Slot>,
    /// The number of places whose statement is closed.
    pub(in crate::client) closed: usize,
    /// The number of statements that have an open cursor.
    pub(in crate::client) open_cursors: usize,
    /// The definition that is executed in the place of a statement that asks what the one before it has left: the same with literals.
    pub(crate) answered: Option<DefinitionHold>,
    /// Counts of all that the client has asked for.
    pub(in crate::client) counters: Counters,
}

/// A place among a client's statements.
pub(in crate::client) enum Slot {
    Open(ClientStatement),
    /// The statement of this number is closed.
    Closed(u32),
}

/// One prepared statement of a client.
pub(crate) struct ClientStatement {
    pub(in crate::client) number: u32,
    pub(in crate::client) held: DefinitionHold,
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

impl Slot {
    fn number(&self) -> u32 {
        match self {
            Self::Open(statement) => statement.number,
            Self::Closed(number) => *number,
        }
    }

    fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_))
    }

    /// Returns the statement, where it is not closed.
    pub(in crate::client) fn into_open(self) -> Option<ClientStatement> {
        if let Self::Open(statement) = self { Some(statement) } else { None }
    }

    fn open(&self) -> Option<&ClientStatement> {
        if let Self::Open(statement) = self { Some(statement) } else { None }
    }

    pub(in crate::client) fn open_mut(&mut self) -> Option<&mut ClientStatement> {
        if let Self::Open(statement) = self { Some(statement) } else { None }
    }
}

impl ClientStatements {
    /// Makes the statements of a client that has brought one along, of this number.
    pub(in crate::client) fn with(number: u32, held: DefinitionHold, types: Option<Rc<[u8]>>) -> Self {
        let statement = ClientStatement { types, ..ClientStatement::new(number, held) };
        Self { last_number: number, slots: vec![Slot::Open(statement)], ..Self::default() }
    }

    /// Returns the statements that are not closed.
    fn open(&self) -> impl Iterator<Item = &ClientStatement> {
        self.slots.iter().filter_map(Slot::open)
    }

    /// Returns the definitions of the statements, each as often as the client holds it.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = DefinitionId> {
        self.open().map(ClientStatement::definition).chain(self.answered.as_ref().map(DefinitionHold::id))
    }

    /// Adds a statement that has been prepared. Returns its number.
    pub(crate) fn add(&mut self, held: DefinitionHold, stays: bool) -> u32 {
        let number = self.next_number();
        self.last = Some(number);
        let statement = Slot::Open(ClientStatement { stays, ..ClientStatement::new(number, held) });
        // At the end, but for a client that has come to the last number there is.
        let place = self.slots.partition_point(|other| other.number() < number);
        if let Some(closed) = self.slots.get_mut(place).filter(|other| other.number() == number) {
            *closed = statement;
            self.closed -= 1;
            return number;
        }
        if self.slots.len() == self.slots.capacity() {
            // Not twice as many: with tens of thousands of clients a half that is empty is more than copying costs.
            self.slots.reserve_exact((self.slots.len() / 8).max(4));
        }
        self.slots.insert(place, statement);
        number
    }

    /// Returns the next number that no statement has, and that means nothing else.
    fn next_number(&mut self) -> u32 {
        loop {
            self.last_number = self.last_number.wrapping_add(1);
            let number = self.last_number;
            if number != 0 && number != LAST && self.get(number).is_none() {
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
        self.slots.binary_search_by_key(&number, Slot::number).ok()
    }

    /// Returns the definition of the statement of this number.
    pub(crate) fn definition(&self, number: u32) -> Option<DefinitionId> {
        self.get(number).map(ClientStatement::definition)
    }

    fn get(&self, number: u32) -> Option<&ClientStatement> {
        self.slots[self.place(number)?].open()
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut ClientStatement> {
        let place = self.place(number)?;
        self.slots[place].open_mut()
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
        let statement = std::mem::replace(&mut self.slots[place], Slot::Closed(number)).into_open()?;
        self.open_cursors -= usize::from(statement.cursor_is_open);
        self.closed += 1;
        while self.slots.last().is_some_and(Slot::is_closed) {
            self.slots.pop();
            self.closed -= 1;
        }
        if self.closed > self.slots.len() / 2 {
            self.slots.retain(|slot| !slot.is_closed());
            self.closed = 0;
        }
        Some(statement)
    }

    /// Takes all statements, which are the client's no more.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = ClientStatement> + use<> {
        (self.closed, self.open_cursors) = (0, 0);
        std::mem::take(&mut self.slots).into_iter().filter_map(Slot::into_open)
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
        let slots = self.slots.capacity() * size_of::<Slot>();
        size_of::<Self>() + slots + self.long_data_bytes()
    }

    /// Returns the bytes of long data that wait for their execution.
    pub(crate) fn long_data_bytes(&self) -> usize {
        self.open().map(|statement| bytes_of(statement.long_data.as_deref())).sum()
    }
}

impl ClientStatement {
    fn new(number: u32, held: DefinitionHold) -> Self {
        Self {
            number,
            held,
            types: None,
            long_data: None,
            metadata: None,
            cursor_is_open: false,
            stays: false,
        }
    }

    /// Returns the definition that the client has prepared.
    pub(in crate::client) fn definition(&self) -> DefinitionId {
        self.held.id()
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

    /// Has clients prepare the same statement again and again.
    fn holder() -> impl FnMut() -> DefinitionHold {
        let mut sessions = SessionTables::default();
        move || {
            let session = sessions.states.hold(SessionState::default());
            let template = Template::plain(Classification::none());
            sessions.hold_definition(session, (*b"DO 1").into(), 0, template)
        }
    }

    /// Statements behind a closed one are not moved up for each that is closed.
    #[test]
    fn what_is_closed_is_nobodys_and_goes_by_halves() {
        let (mut hold, mut statements) = (holder(), ClientStatements::default());
        let numbers: Vec<_> = (0..1_000).map(|_| statements.add(hold(), false)).collect();
        statements.note_cursor(1_000, true);
        let mut moved = 0;
        for &number in &numbers {
            assert!(statements.has_open_cursor());
            let before = statements.slots.len();
            assert_eq!(statements.remove(number).map(|closed| closed.number), Some(number));
            assert!(statements.definition(number).is_none() && statements.remove(number).is_none());
            let left = (1_000 - number) as usize;
            assert_eq!(statements.slots.len() - statements.closed, left);
            assert!(statements.closed <= statements.slots.len() / 2);
            moved += if statements.slots.len() < before { left } else { 0 };
        }
        assert!(!statements.has_open_cursor() && statements.slots.is_empty());
        assert!(moved <= 1_000, "{moved}");
    }

    #[test]
    fn a_number_that_is_given_anew_is_one_statement() {
        let (mut hold, mut statements) = (holder(), ClientStatements::default());
        for _ in 0..4 {
            statements.add(hold(), false);
        }
        statements.remove(2);
        statements.last_number = 1;
        assert_eq!(statements.add(hold(), true), 2);
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
        let (mut hold, mut statements) = (holder(), ClientStatements::default());
        assert_eq!([statements.add(hold(), false), statements.add(hold(), false)], [1, 2]);
        statements.last_number = u32::MAX - 2;
        let numbers: Vec<_> = (0..3).map(|_| statements.add(hold(), false)).collect();
        assert_eq!(numbers, [u32::MAX - 1, 3, 4], "0 and LAST mean no statement, and 1 and 2 are in use");
        statements.last_number = u32::MAX - 1;
        statements.remove(1);
        statements.note_failure();
        assert_eq!(statements.add(hold(), false), 5);
        assert!([2, 3, 4, 5, u32::MAX - 1].iter().all(|&number| statements.get_mut(number).is_some()));
    }
}
