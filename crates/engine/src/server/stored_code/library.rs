//! The names that lead to code that does more than read and write tables.
//!
//! A library has two layers. What the server had when it was read is its base: that is made on another thread than a worker's.
//! Over it lies what definitions have added that went through here since, which takes no look at what they do not lead to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use sql::{CodeEffects, LexMode, PreparedText};

use super::base::{Base, MOST_PAIRS};
use super::reach::{Layers, Reach, Reached};
use super::{Hidden, Known, Names, Object, SYS, is_sys};
use crate::steps;

/// The prefix of a schema's name that is written as its folder is (`MYSQL50_TABLE_NAME_PREFIX` in both servers' `sql_table.h`).
const AS_A_FOLDER: &[u8] = b"#mysql50#";

/// The meaning of a name without a schema in a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope<'a> {
    /// A name in the session's default schema, or in the one in which the statement was prepared.
    In([Option<&'a [u8]>; 2]),
    /// A name in any schema: nobody knows in which one the statement was prepared.
    Anywhere,
}

impl Scope<'_> {
    fn is_sys(self) -> bool {
        matches!(self, Self::In(schemas) if schemas.into_iter().any(is_sys))
    }
}

/// The names that lead to code that does more than read and write tables.
#[derive(Default)]
pub(crate) struct Library {
    base: Arc<Base>,
    over: Reached,
    known: Known,
}

impl Library {
    /// The server's code with these changes to it.
    pub(super) fn new<'a>(base: &Arc<Base>, changes: impl Iterator<Item = &'a Object>, known: Known) -> Self {
        Self { base: Arc::clone(base), over: base.reached_with(changes.collect()), known }
    }

    fn relations(&self) -> Layers<'_> {
        Layers { base: &self.base.reached.relations, over: &self.over.relations }
    }

    fn routines(&self) -> Layers<'_> {
        Layers { base: &self.base.reached.routines, over: &self.over.routines }
    }

    fn routines_change(&self) -> bool {
        self.base.reached.routines_change || self.over.routines_change
    }

    /// The name of a schema in which there is such code.
    fn schema(&self, name: &[u8]) -> Option<&[u8]> {
        let found = self.over.schemas.get(name).or_else(|| self.base.reached.schemas.get(name));
        found.map(|schema| &**schema)
    }

    /// Says whether the library is the same with these pieces of code and without: they do nothing, nor does anything that they
    /// may name.
    pub(super) fn is_the_same_without(&self, objects: &[Object]) -> bool {
        let leads_on =
            |name: &[u8]| self.relations().get(name).is_some() || self.routines().get(name).is_some();
        objects.iter().all(|Object { code, .. }| {
            steps::add(1 + code.names.len());
            code.effects.is_empty() && !code.names.iter().any(|name| leads_on(name))
        })
    }

    /// Returns the possible effects of a statement of this text by stored code. `writes`: true if it may write to tables.
    pub(crate) fn hidden(&self, text: &[u8], mode: LexMode, writes: bool, scope: Scope<'_>) -> Hidden {
        self.hidden_by(writes, scope, |add| {
            // On most servers there is no such code, and looking for one word is much less than cutting the text into all.
            let is_more_there = self.base.reached.relations.len() > 1 || !self.over.relations.is_empty();
            if is_more_there || sql::has_letters_of(SYS, text) {
                sql::names(text, mode, add);
            }
        })
    }

    /// The same of a text with these names in it.
    pub(crate) fn hidden_by_names(&self, names: &Names, writes: bool, scope: Scope<'_>) -> Hidden {
        self.hidden_by(writes, scope, |add| names.0.iter().for_each(|name| add(name)))
    }

    fn hidden_by(&self, writes: bool, scope: Scope<'_>, names: impl FnOnce(&mut dyn FnMut(&[u8]))) -> Hidden {
        let (mut found, mut meant) = (BTreeMap::new(), BTreeSet::new());
        let relations = self.relations();
        let mut anywhere = matches!(scope, Scope::Anywhere);
        let mut add = |name: &[u8]| {
            if let Some((name, places)) = relations.get_key_value(name) {
                found.insert(name, places);
            }
            meant.extend(self.schema(name));
            anywhere |= name.starts_with(AS_A_FOLDER);
        };
        if scope.is_sys() {
            add(SYS);
        }
        names(&mut add);
        if let (Scope::In(own), false) = (scope, found.is_empty()) {
            for schema in own.into_iter().flatten().map(sql::folded_name) {
                anywhere |= schema.starts_with(AS_A_FOLDER);
                meant.extend(self.schema(&schema));
            }
        }
        anywhere |= found.len() * meant.len() > MOST_PAIRS;
        let reaches =
            found.values().map(|places| if anywhere { places.all } else { places.within_any(&meant) });
        let reach = reaches.fold(Reach::default(), Reach::with);
        let effects = if writes { reach.all() } else { reach.reads };
        let Known { routines, triggers, views, .. } = self.known;
        let certain = routines && (views || !self.routines_change()) && (triggers || !writes);
        Hidden { effects, certain }
    }

    /// The same of a statement that is executed by its text.
    pub(crate) fn hidden_in_text(&self, prepared: &PreparedText) -> Hidden {
        let PreparedText { text, mode } = prepared;
        self.hidden(text, *mode, sql::classify(text, *mode).may_write(), Scope::Anywhere)
    }

    /// Says whether a name leads to something.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.relations().get(name).is_some()
    }

    /// Returns the possible effects of statements by any name.
    pub(super) fn any(&self) -> CodeEffects {
        self.base.reached.any | self.over.any
    }

    /// Says whether some name leads to effects that no report tells of, and did not before.
    pub(super) fn hides_more_than(&self, before: &Self) -> bool {
        let before = before.relations();
        self.relations().beside(before).any(|(name, places)| places.hides_more_than(before.get(name)))
    }

    /// Returns the possible effects of statements by names that lead to more here than in `before`.
    pub(super) fn beyond(&self, before: &Self) -> CodeEffects {
        let before = before.relations();
        let more = self.relations().beside(before).filter(|(name, places)| before.get(name) != Some(*places));
        more.fold(CodeEffects::NONE, |effects, (_, places)| effects | places.all.all())
    }

    /// How many names of the server's users lead to code that may change the session.
    pub(crate) fn changing_names(&self) -> u64 {
        let names = self.relations().iter().filter(|(name, _)| *name != SYS);
        names
            .flat_map(|(_, places)| places.reaches())
            .map(|reach| u64::from(reach.all().changes_session()))
            .sum()
    }

    /// How many kinds of code could not be read.
    pub(crate) fn unreadable(&self) -> u64 {
        let Known { routines, triggers, views, columns } = self.known;
        [routines, triggers, views, columns].iter().map(|&known| u64::from(!known)).sum()
    }
}

impl fmt::Debug for Library {
    /// Writes no layers: equal libraries may differ in these.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("known", &self.known).finish_non_exhaustive()
    }
}

impl PartialEq for Library {
    fn eq(&self, other: &Self) -> bool {
        let (relations, routines) = (self.relations(), self.routines());
        self.known == other.known && relations == other.relations() && routines == other.routines()
    }
}
