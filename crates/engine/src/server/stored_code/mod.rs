//! Finds the effects of code that is stored on the server behind a statement's text: triggers, functions that views call,
//! defaults of columns.
//!
//! The service account reads it ([`questions`]), and reads it again where the server's counts of definitions change ([`watch`]).
//! [`Library`] says which tables and views lead to code that does more than read and write tables; a statement that names none of
//! them can have done nothing of the kind. Definitions that go through Onramp are known before they reach the server.
//!
//! A name is looked for in the schemas that the statement may mean: the session's own, and those of which it says a name. So nobody's
//! code is taken for that of others, who are in schemas of their own.

mod base;
pub(crate) mod frozen;
mod library;
mod of_statements;
pub(crate) mod questions;
mod reach;
pub(crate) mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sql::{CodeEffects, Defines, Definitions, LexMode, StoredCode};

pub(crate) use base::Base;
pub(crate) use library::{Library, Scope};

/// The schema that holds the servers' own objects. They are not read: their effects are known.
const SYS: &[u8] = b"sys";

/// Says whether a session is in that schema.
pub(crate) fn is_sys(schema: Option<&[u8]>) -> bool {
    schema.is_some_and(|schema| schema.eq_ignore_ascii_case(SYS))
}

/// Functions that views of [`SYS`] call set and read user variables (`format_statement` and its like, in both servers' `scripts/sys_schema`).
const SYS_EFFECTS: CodeEffects = CodeEffects::REPORTED.union(CodeEffects::READS_VARIABLES);

/// Definitions at a time that are told apart. With more, nothing counts as known until the server has been read again.
const MOST_CHANGES: usize = 1000;

/// Names in definitions up to which these are told apart, counted for each definition: all definitions are looked at again whenever one
/// begins or is over. That takes a worker some milliseconds.
const MOST_NAMES: usize = 20_000;

/// The event at which a piece of stored code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    /// The piece runs where other code names it: a routine.
    Called,
    /// The piece runs where something is written to its table: a trigger, or a column's default.
    Written,
    /// The piece runs where its view, or a column that is computed, is read or written to.
    Used,
    /// The time at which the piece runs is not known.
    Anyhow,
}

/// A piece of stored code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    runs: Runs,
    /// Folded, as all names here; `None` where any may be meant.
    schema: Option<Box<[u8]>>,
    /// The routine, or the table or view by which it is reached.
    name: Box<[u8]>,
    code: StoredCode,
    /// The default schemas in which it may have been defined: what it names without one may be there, too.
    defaults: Vec<Box<[u8]>>,
}

/// Says how much of the server's code could be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) routines: bool,
    pub(crate) triggers: bool,
    pub(crate) views: bool,
    pub(crate) columns: bool,
}

/// All names in a text, so that it need not be looked through again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Names(BTreeSet<Box<[u8]>>);

impl Names {
    /// Bytes of the names that are kept: a long text repeats a few, as rows of values do.
    const MOST: usize = 16 << 10;

    /// `None` where there are too many.
    pub(crate) fn of_text(text: &[u8], mode: LexMode) -> Option<Self> {
        let (mut names, mut bytes) = (BTreeSet::new(), 0);
        sql::names(text, mode, |name| {
            if bytes <= Self::MOST && !names.contains(name) {
                bytes += name.len() + 2 * size_of::<Box<[u8]>>();
                names.insert(name.into());
            }
        });
        (bytes <= Self::MOST).then_some(Self(names))
    }
}

/// A definition in a text that stored code can be in.
#[derive(Debug)]
pub(crate) enum Defined {
    Nothing,
    These(Definitions),
    /// The text defines more than is told apart.
    TooMuch,
}

impl Defined {
    pub(crate) fn of_text(text: &[u8], mode: LexMode) -> Self {
        let found = match sql::definitions(text, mode) {
            Defines::Nothing => return Self::Nothing,
            Defines::TooMuch => return Self::TooMuch,
            Defines::These(found) => found,
        };
        let names = [&found.triggered, &found.relations, &found.routines]
            .iter()
            .map(|names| names.len())
            .sum::<usize>();
        // A name without a schema may be meant in each that the text goes to, or in one of two default schemas: each is a piece of its own.
        let pieces = names.saturating_mul(2 + found.uses.len());
        match pieces.saturating_mul(1 + found.code.names.len()) {
            0..=MOST_NAMES => Self::These(found),
            _ => Self::TooMuch,
        }
    }
}

/// The findings in a large prepared text that each execution would look for in it.
#[derive(Debug)]
pub(crate) struct LargeDefinition {
    names: Option<Names>,
    defines: Defined,
}

impl LargeDefinition {
    pub(crate) fn of_text(text: &[u8], mode: LexMode) -> Self {
        Self { names: Names::of_text(text, mode), defines: Defined::of_text(text, mode) }
    }
}

/// The possible effects of a statement through stored code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hidden {
    /// Effects by code that is known.
    pub(crate) effects: CodeEffects,
    /// True where the statement may have run no other code.
    pub(crate) certain: bool,
}

plain!(struct Hidden { effects, certain });

impl Hidden {
    /// The effects of a statement that runs no stored code.
    pub(crate) const NOTHING: Self = Self { effects: CodeEffects::NONE, certain: true };
    /// The effects of a statement that nobody has looked into.
    pub(crate) const WORST: Self = Self { effects: CodeEffects::ALL, certain: false };

    /// Says whether the statement may have changed the session.
    pub(crate) fn may_change_session(self) -> bool {
        !self.certain || self.effects.changes_session()
    }

    /// Says whether the statement has changed the session for all that is known, and the server does not say how.
    pub(crate) fn is_silent(self) -> bool {
        self.effects.contains(CodeEffects::SILENT)
    }
}

/// The server's stored code, as all workers know it.
#[derive(Debug, Default)]
pub(crate) struct SharedCode {
    /// Counts the libraries.
    version: AtomicU64,
    /// True where some definition that was under way is over.
    wanted: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The server's code, as the server told it last.
    read: Arc<Base>,
    known: Known,
    /// Definitions that went through here and are not in that.
    changes: BTreeMap<u64, Change>,
    unknown: Unknown,
    last_change: u64,
    library: Arc<Library>,
    /// The possible effects of statements that were sent by the library before this one.
    beyond: CodeEffects,
}

#[derive(Debug, PartialEq)]
struct Change {
    objects: Vec<Object>,
    ended: bool,
}

/// Definitions that are not told apart: too many, or in too long a text. They are counted.
#[derive(Debug, Default, PartialEq)]
struct Unknown {
    under_way: u32,
    begun: u64,
    /// Definitions among these that had begun and were over when the server's present code was read.
    read: u64,
    /// The same number for the reading that is under way.
    in_reading: Option<u64>,
}

impl Unknown {
    fn is_known_by_now(&self) -> bool {
        self.read == self.begun
    }

    fn begin_reading(&mut self) {
        self.in_reading = (self.under_way == 0).then_some(self.begun);
    }

    fn end_reading(&mut self) {
        self.read = self.in_reading.take().unwrap_or(self.read);
    }
}

impl State {
    /// The library as of now.
    fn make_library(&self) -> Library {
        Library::new(
            &self.read,
            self.changes.values().flat_map(|change| &change.objects),
            self.known_by_now(),
        )
    }

    fn known_by_now(&self) -> Known {
        if self.unknown.is_known_by_now() { self.known } else { Known::default() }
    }

    /// The names in all changes.
    fn names(&self) -> usize {
        self.changes.values().map(|change| names_of(&change.objects)).sum()
    }
}

/// The names of pieces of code, and in them.
fn names_of(objects: &[Object]) -> usize {
    objects.iter().map(|object| 1 + object.code.names.len()).sum()
}

impl SharedCode {
    /// The number of the latest library.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(SeqCst)
    }

    /// The latest library, with its number and with what is new in it.
    pub(crate) fn library(&self) -> (u64, Arc<Library>, CodeEffects) {
        let state = self.state();
        (self.version(), Arc::clone(&state.library), state.beyond)
    }

    /// True where some definition has gone through here since the server was last read.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(SeqCst)
    }

    /// The server is about to be read: the changes that will be in the answer.
    pub(crate) fn begin_reading(&self) -> Vec<u64> {
        self.wanted.store(false, SeqCst);
        let mut state = self.state();
        state.unknown.begin_reading();
        state.changes.iter().filter(|(_, change)| change.ended).map(|(&number, _)| number).collect()
    }

    /// Takes in a reading of the server. True where some name leads to effects that no report tells of, and did not for all that
    /// was known: a client that has named it may have left something.
    pub(crate) fn take(&self, read: Base, known: Known, covered: &[u64]) -> bool {
        let mut state = self.state();
        let before = Arc::clone(&state.library);
        state.read = Arc::new(read);
        state.known = known;
        for number in covered {
            state.changes.remove(number);
        }
        state.unknown.end_reading();
        self.renew(&mut state);
        state.library.hides_more_than(&before)
    }

    /// Forgets the library: the server's code is not known any more, or not yet.
    pub(crate) fn forget(&self) {
        let mut state = self.state();
        state.known = Known::default();
        self.renew(&mut state);
    }

    fn renew(&self, state: &mut State) {
        let library = state.make_library();
        if library != *state.library {
            state.beyond = library.beyond(&state.library);
            state.library = Arc::new(library);
            self.version.fetch_add(1, SeqCst);
        }
    }

    fn end_change(&self, number: Option<u64>) {
        let mut state = self.state();
        match number {
            None => state.unknown.under_way -= 1,
            Some(number) => match state.changes.get_mut(&number) {
                Some(change) => change.ended = true,
                None => return,
            },
        }
        self.wanted.store(true, SeqCst);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in between can panic and leave it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A definition of stored code that is under way; over when it is dropped.
pub(crate) struct CodeChange {
    shared: Arc<SharedCode>,
    /// The number of the definition; `None` where it is not told apart from others.
    number: Option<u64>,
}

impl CodeChange {
    /// Makes it known, before the server hears of it.
    pub(crate) fn begin(shared: &Arc<SharedCode>, objects: Vec<Object>) -> Self {
        let mut state = shared.state();
        if state.changes.len() >= MOST_CHANGES || state.names() + names_of(&objects) > MOST_NAMES {
            drop(state);
            return Self::begin_of_unknown(shared);
        }
        state.last_change += 1;
        let number = state.last_change;
        // A look at all definitions that are not read yet, for each that leads to nothing, would be felt.
        let is_the_same = state.library.is_the_same_without(&objects);
        state.changes.insert(number, Change { objects, ended: false });
        if !is_the_same {
            shared.renew(&mut state);
        }
        drop(state);
        Self { shared: Arc::clone(shared), number: Some(number) }
    }

    /// The same of too many definitions to tell them apart: until they are over and the server has been read, no code counts as known.
    pub(crate) fn begin_of_unknown(shared: &Arc<SharedCode>) -> Self {
        let mut state = shared.state();
        let is_the_first = state.unknown.is_known_by_now();
        state.unknown.begun += 1;
        state.unknown.under_way += 1;
        if is_the_first {
            shared.renew(&mut state);
        }
        drop(state);
        Self { shared: Arc::clone(shared), number: None }
    }

    /// The server has refused it, but for what the text may have defined before in these schemas.
    pub(crate) fn refused(self, stood: &[Box<[u8]>]) {
        let shared = &self.shared;
        let mut state = shared.state();
        let Some(number) = self.number else { return };
        let objects = state.changes.get(&number).map_or(&[][..], |change| &change.objects);
        let is_the_same = state.library.is_the_same_without(objects);
        if let Some(change) = state.changes.get_mut(&number).filter(|_| !stood.is_empty()) {
            change
                .objects
                .retain(|object| object.schema.as_ref().is_none_or(|schema| stood.contains(schema)));
        } else {
            state.changes.remove(&number);
        }
        if !is_the_same {
            shared.renew(&mut state);
        }
    }
}

impl Drop for CodeChange {
    fn drop(&mut self) {
        self.shared.end_change(self.number);
    }
}

#[cfg(test)]
mod tests;
