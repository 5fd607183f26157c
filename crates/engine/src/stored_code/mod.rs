//! What code that is stored on the server may do behind a statement's text: triggers, functions that views call, defaults of columns.
//!
//! The service account reads it ([`questions`]), and reads it again where the server's counts of definitions change ([`watch`]).
//! [`Library`] says which tables and views lead to code that does more than read and write tables; a statement that names none of
//! them can have done nothing of the kind. Definitions that go through Onramp are known before they reach the server.
//!
//! Names are compared without their schemas, so that at worst a statement is taken for one that runs such code.

pub(crate) mod questions;
pub(crate) mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sql::{CodeEffects, Definitions, LexMode, PreparedText, Reads, StoredCode};

use crate::request::{Request, Statement};
use crate::steps;
use crate::workers::Workers;

/// The schema whose objects are the servers' own. They are not read: what they do is known.
const SYS: &[u8] = b"sys";

/// Whether a session is in that schema.
pub(crate) fn is_sys(schema: Option<&[u8]>) -> bool {
    schema.is_some_and(|schema| schema.eq_ignore_ascii_case(SYS))
}

/// Functions that views of [`SYS`] call set and read user variables (`format_statement` and its like, in both servers' `scripts/sys_schema`).
const SYS_EFFECTS: CodeEffects = CodeEffects::REPORTED.union(CodeEffects::READS_VARIABLES);

/// More definitions at a time than this are not told apart: then nothing counts as known until the server has been read again.
const MOST_CHANGES: usize = 1000;

/// Nor are they where these have more names in them, counted for each definition: all are looked at, again and again, while any is
/// under way. It takes a worker ten milliseconds.
const MOST_NAMES: usize = 100_000;

/// When a piece of stored code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    /// Where other code names it: a routine.
    Called,
    /// Where something is written to its table: a trigger, or a column's default.
    Written,
    /// Where its view is read or written to, or a column that is computed.
    Used,
    /// Not known.
    Anyhow,
}

/// A piece of stored code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) runs: Runs,
    /// The routine, or the table or view by which it is reached; folded.
    pub(crate) name: Box<[u8]>,
    pub(crate) code: StoredCode,
}

/// What is reached by a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reach {
    reads: CodeEffects,
    writes: CodeEffects,
}

impl Reach {
    fn all(self) -> CodeEffects {
        self.reads | self.writes
    }

    fn with(self, other: Self) -> Self {
        Self { reads: self.reads | other.reads, writes: self.writes | other.writes }
    }
}

/// What of the server's code could be read.
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
    /// So many bytes of them are kept: what is long repeats a few, as rows of values do.
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

/// What a text defines that stored code can be in.
#[derive(Debug)]
pub(crate) enum Defined {
    Nothing,
    These(Definitions),
    /// More than is told apart.
    TooMuch,
}

impl Defined {
    pub(crate) fn of_text(text: &[u8], mode: LexMode) -> Self {
        let Some(found) = sql::definitions(text, mode) else { return Self::Nothing };
        let names = [&found.triggered, &found.relations, &found.routines]
            .iter()
            .map(|names| names.len())
            .sum::<usize>();
        match names.saturating_mul(1 + found.code.names.len()) {
            0..=MOST_NAMES => Self::These(found),
            _ => Self::TooMuch,
        }
    }
}

/// What each execution of a large prepared text would look for in it.
#[derive(Debug)]
pub(crate) struct LargeDefinition {
    pub(crate) names: Option<Names>,
    pub(crate) defines: Defined,
}

impl LargeDefinition {
    pub(crate) fn of_text(text: &[u8], mode: LexMode) -> Self {
        Self { names: Names::of_text(text, mode), defines: Defined::of_text(text, mode) }
    }
}

/// What a statement may have done through stored code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hidden {
    /// By code that is known.
    pub(crate) effects: CodeEffects,
    /// There is no other code that it may have run.
    pub(crate) certain: bool,
}

impl Hidden {
    /// Of what runs no stored code.
    pub(crate) const NOTHING: Self = Self { effects: CodeEffects::NONE, certain: true };
    /// Of what nobody has looked into.
    pub(crate) const WORST: Self = Self { effects: CodeEffects::ALL, certain: false };

    /// Whether it may have changed the session.
    pub(crate) fn may_change_session(self) -> bool {
        !self.certain || self.effects.changes_session()
    }

    /// Whether it has changed the session for all that is known, and the server does not say how.
    pub(crate) fn is_silent(self) -> bool {
        self.effects.contains(CodeEffects::SILENT)
    }
}

impl Request {
    /// Takes in what it may do by stored code, as of this version of what is known.
    pub(crate) fn take_hidden(&mut self, hidden: Hidden, version: u64) {
        self.library = Some(version);
        self.hidden = hidden;
        if !hidden.effects.is_empty() {
            self.statement.plain_read = false;
            self.statement.repeatable = false;
        }
        if hidden.effects.contains(CodeEffects::READS_INSERT_ID) {
            self.statement.reads |= Reads::LAST_INSERT_ID;
        }
    }
}

/// Takes in what a piece of code leads to, by what is known of the names in it. Whether its own name leads to more now.
fn take_in<'a>(
    object: &'a Object,
    relations: &mut BTreeMap<Box<[u8]>, Reach>,
    routines: &mut BTreeMap<&'a [u8], CodeEffects>,
) -> bool {
    let own = object.code.effects;
    let mut reach = Reach { reads: own, writes: own };
    for name in &object.code.names {
        reach = reach.with(relations.get(name).copied().unwrap_or_default());
        let called = routines.get(&**name).copied().unwrap_or_default();
        reach = reach.with(Reach { reads: called, writes: called });
    }
    let all = reach.all();
    if all.is_empty() {
        return false;
    }
    let mut more = false;
    if matches!(object.runs, Runs::Called | Runs::Anyhow) {
        let effects = routines.entry(&object.name).or_default();
        more |= *effects != *effects | all;
        *effects |= all;
    }
    let reach = match object.runs {
        // A text that seems to call a built-in function may call it.
        Runs::Called if sql::may_be_stored_too(&object.name) => Reach { reads: all, writes: all },
        Runs::Called => return more,
        Runs::Written => Reach { reads: CodeEffects::NONE, writes: all },
        Runs::Used => Reach { reads: reach.reads, writes: all },
        Runs::Anyhow => Reach { reads: all, writes: all },
    };
    let known = relations.entry(object.name.clone()).or_default();
    more |= *known != known.with(reach);
    *known = known.with(reach);
    more
}

/// Which names lead to code that does more than read and write tables.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Library {
    relations: BTreeMap<Box<[u8]>, Reach>,
    known: Known,
    /// Some routine may change the session.
    routines_change: bool,
}

impl Library {
    fn new<'a>(objects: impl Iterator<Item = &'a Object>, known: Known) -> Self {
        let objects: Vec<_> = objects.collect();
        let mut relations = BTreeMap::from([(SYS.into(), Reach { reads: SYS_EFFECTS, writes: SYS_EFFECTS })]);
        let mut routines: BTreeMap<&[u8], CodeEffects> = BTreeMap::new();
        let mut mentions: BTreeMap<&[u8], Vec<usize>> =
            objects.iter().map(|object| (&*object.name, Vec::new())).collect();
        for (place, object) in objects.iter().enumerate() {
            for name in &object.code.names {
                if let Some(mentioning) = mentions.get_mut(&**name) {
                    mentioning.push(place);
                }
            }
        }
        // What a piece does goes on to what names it. So that is looked at again behind each change, of which there are as many as kinds
        // of effects, however deep calls are nested.
        let mut waiting: Vec<_> = (0..objects.len()).rev().collect();
        let mut waits = vec![true; objects.len()];
        while let Some(place) = waiting.pop() {
            waits[place] = false;
            let object = objects[place];
            steps::add(1 + object.code.names.len());
            if take_in(object, &mut relations, &mut routines) {
                for &mentioning in mentions.get(&*object.name).into_iter().flatten() {
                    if !std::mem::replace(&mut waits[mentioning], true) {
                        waiting.push(mentioning);
                    }
                }
            }
        }
        let routines_change = routines.values().any(|effects| effects.changes_session());
        Self { relations, known, routines_change }
    }

    /// What a statement of this text may do by stored code. `writes`: it may write to tables.
    pub(crate) fn hidden(&self, text: &[u8], mode: LexMode, writes: bool, schema: Option<&[u8]>) -> Hidden {
        self.hidden_by(writes, schema, |add| {
            // On most servers there is no such code, and looking for one word is much less than cutting the text into all.
            if self.relations.len() > 1 || sql::has_letters_of(SYS, text) {
                sql::names(text, mode, add);
            }
        })
    }

    /// The same of a text with these names in it.
    pub(crate) fn hidden_by_names(&self, names: &Names, writes: bool, schema: Option<&[u8]>) -> Hidden {
        self.hidden_by(writes, schema, |add| names.0.iter().for_each(|name| add(name)))
    }

    fn hidden_by(
        &self,
        writes: bool,
        schema: Option<&[u8]>,
        names: impl FnOnce(&mut dyn FnMut(&[u8])),
    ) -> Hidden {
        let mut effects = CodeEffects::NONE;
        let mut add = |name: &[u8]| {
            if let Some(reach) = self.relations.get(name) {
                effects |= if writes { reach.all() } else { reach.reads };
            }
        };
        if is_sys(schema) {
            add(SYS);
        }
        names(&mut add);
        let Known { routines, triggers, views, .. } = self.known;
        let certain = routines && (views || !self.routines_change) && (triggers || !writes);
        Hidden { effects, certain }
    }

    /// The same of a statement that is executed by its text.
    pub(crate) fn hidden_in_text(&self, prepared: &PreparedText, schema: Option<&[u8]>) -> Hidden {
        let PreparedText { text, mode } = prepared;
        self.hidden(text, *mode, Statement::of_text(text, *mode).may_write(), schema)
    }

    /// Whether a name leads to something.
    fn has(&self, name: &[u8]) -> bool {
        self.relations.contains_key(name)
    }

    /// What statements may do by any name.
    fn any(&self) -> CodeEffects {
        self.beyond(&Self::default())
    }

    /// Whether some name leads to what no report tells of, and did not before.
    fn hides_more_than(&self, before: &Self) -> bool {
        let hides = |reach: &Reach| reach.all().contains(CodeEffects::SILENT);
        self.relations
            .iter()
            .any(|(name, reach)| hides(reach) && !before.relations.get(name).is_some_and(hides))
    }

    /// What statements may do by names that lead to more here than in `before`.
    fn beyond(&self, before: &Self) -> CodeEffects {
        let more = self.relations.iter().filter(|(name, reach)| before.relations.get(*name) != Some(*reach));
        more.fold(CodeEffects::NONE, |effects, (_, reach)| effects | reach.all())
    }

    /// How many names of the server's users lead to code that may change the session.
    pub(crate) fn changing_names(&self) -> u64 {
        let names = self.relations.iter().filter(|(name, _)| ***name != *SYS);
        names.map(|(_, reach)| u64::from(reach.all().changes_session())).sum()
    }

    /// How many kinds of code could not be read.
    pub(crate) fn unreadable(&self) -> u64 {
        let Known { routines, triggers, views, columns } = self.known;
        [routines, triggers, views, columns].iter().map(|&known| u64::from(!known)).sum()
    }
}

/// The server's stored code, as all workers know it.
#[derive(Debug, Default)]
pub(crate) struct SharedCode {
    /// Counts the libraries.
    version: AtomicU64,
    /// Some definition that was under way is over.
    wanted: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// As the server said it last.
    read: Vec<Object>,
    known: Known,
    /// Definitions that went through here and are not in that.
    changes: BTreeMap<u64, Change>,
    last_change: u64,
    library: Arc<Library>,
    /// What statements may do that were sent with the library before it in mind.
    beyond: CodeEffects,
}

#[derive(Debug)]
struct Change {
    objects: Vec<Object>,
    /// It defines more than that.
    unknown: bool,
    ended: bool,
}

impl State {
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

    /// Some definition has gone through here since the server was last read.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(SeqCst)
    }

    /// The server is about to be read: the changes that will be in the answer.
    pub(crate) fn begin_reading(&self) -> Vec<u64> {
        self.wanted.store(false, SeqCst);
        let state = self.state();
        state.changes.iter().filter(|(_, change)| change.ended).map(|(&number, _)| number).collect()
    }

    /// The server has been read. Whether some name leads to what no report tells of, and did not for all that was known: whoever has
    /// named it may have left something.
    pub(crate) fn take(&self, read: Vec<Object>, known: Known, covered: &[u64]) -> bool {
        let mut state = self.state();
        let before = Arc::clone(&state.library);
        state.read = read;
        state.known = known;
        for number in covered {
            state.changes.remove(number);
        }
        self.renew(&mut state);
        state.library.hides_more_than(&before)
    }

    /// It is not known any more, or not yet, what the server has.
    pub(crate) fn forget(&self) {
        let mut state = self.state();
        state.known = Known::default();
        self.renew(&mut state);
    }

    fn renew(&self, state: &mut State) {
        let told_apart = state.changes.len() < MOST_CHANGES
            && state.names() <= MOST_NAMES
            && !state.changes.values().any(|change| change.unknown);
        let known = if told_apart { state.known } else { Known::default() };
        let objects = state.read.iter().chain(state.changes.values().flat_map(|change| &change.objects));
        let library = Library::new(objects, known);
        if library != *state.library {
            state.beyond = library.beyond(&state.library);
            state.library = Arc::new(library);
            self.version.fetch_add(1, SeqCst);
        }
    }

    fn end_change(&self, number: u64) {
        if let Some(change) = self.state().changes.get_mut(&number) {
            change.ended = true;
            self.wanted.store(true, SeqCst);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in between can panic and leave it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A definition of stored code that is under way; over when it is dropped.
pub(crate) struct CodeChange {
    workers: Arc<Workers>,
    number: u64,
}

impl CodeChange {
    /// Makes it known, before the server hears of it.
    pub(crate) fn begin(workers: &Arc<Workers>, objects: Vec<Object>) -> Self {
        Self::begin_with(workers, objects, false)
    }

    /// The same of too many definitions to tell them apart: until they are over and the server has been read, no code counts as known.
    pub(crate) fn begin_of_unknown(workers: &Arc<Workers>) -> Self {
        Self::begin_with(workers, Vec::new(), true)
    }

    fn begin_with(workers: &Arc<Workers>, objects: Vec<Object>, unknown: bool) -> Self {
        let shared = &workers.stored_code;
        let mut state = shared.state();
        state.last_change += 1;
        let number = state.last_change;
        // Beyond the bound nothing is told apart any more, so that what it is does not matter.
        let few = state.changes.len() < MOST_CHANGES && state.names() + names_of(&objects) <= MOST_NAMES;
        let (objects, unknown) = if few { (objects, unknown) } else { (Vec::new(), true) };
        state.changes.insert(number, Change { objects, unknown, ended: false });
        shared.renew(&mut state);
        drop(state);
        Self { workers: Arc::clone(workers), number }
    }
}

impl Drop for CodeChange {
    fn drop(&mut self) {
        self.workers.stored_code.end_change(self.number);
    }
}

#[cfg(test)]
mod tests;
