//! The reach of names, in each schema.

use std::collections::{BTreeMap, BTreeSet};

use sql::CodeEffects;

/// The reach of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) reads: CodeEffects,
    pub(super) writes: CodeEffects,
}

impl Reach {
    pub(super) fn of(effects: CodeEffects) -> Self {
        Self { reads: effects, writes: effects }
    }

    pub(super) fn all(self) -> CodeEffects {
        self.reads | self.writes
    }

    pub(super) fn with(self, other: Self) -> Self {
        Self { reads: self.reads | other.reads, writes: self.writes | other.writes }
    }

    /// Says whether reads, or writes, may have effects here that no report tells of, and may not there.
    fn hides_more_than(self, other: Self) -> bool {
        let silent = |effects: CodeEffects| effects.contains(CodeEffects::SILENT);
        silent(self.reads) && !silent(other.reads) || silent(self.writes) && !silent(other.writes)
    }
}

/// The reach of one name in different schemas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// Whichever is meant.
    everywhere: Reach,
    by_schema: BTreeMap<Box<[u8]>, Reach>,
    /// The reach in any of the schemas.
    pub(super) all: Reach,
}

impl Places {
    pub(super) fn within(&self, schema: &[u8]) -> Reach {
        self.everywhere.with(self.by_schema.get(schema).copied().unwrap_or_default())
    }

    pub(super) fn within_any(&self, schemas: &BTreeSet<&[u8]>) -> Reach {
        schemas.iter().fold(self.everywhere, |reach, schema| reach.with(self.within(schema)))
    }

    pub(super) fn has(&self, schema: Option<&[u8]>, reach: Reach) -> bool {
        let known =
            schema.map_or(self.everywhere, |schema| self.by_schema.get(schema).copied().unwrap_or_default());
        known.with(reach) == known
    }

    pub(super) fn add(&mut self, schema: Option<&[u8]>, reach: Reach) {
        let known = match schema {
            Some(schema) if !self.by_schema.contains_key(schema) => {
                self.by_schema.entry(schema.into()).or_default()
            }
            Some(schema) => self.by_schema.get_mut(schema).expect("it is there"),
            None => &mut self.everywhere,
        };
        *known = known.with(reach);
        self.all = self.all.with(reach);
    }

    /// The reach in each schema.
    pub(super) fn reaches(&self) -> impl Iterator<Item = Reach> {
        std::iter::once(self.everywhere).chain(self.by_schema.values().copied())
    }

    pub(super) fn hides_more_than(&self, before: Option<&Self>) -> bool {
        let nothing = Self::default();
        let before = before.unwrap_or(&nothing);
        self.everywhere.hides_more_than(before.everywhere)
            || self.by_schema.iter().any(|(schema, reach)| reach.hides_more_than(before.within(schema)))
    }
}

pub(super) type ByName = BTreeMap<Box<[u8]>, Places>;

/// The reach of all names.
#[derive(Debug, Default)]
pub(super) struct Reached {
    /// The reach of each relation that a statement, or other code, names.
    pub(super) relations: ByName,
    /// Beside these, the reach of each routine that code calls.
    pub(super) routines: ByName,
    /// The schemas that have some relation.
    pub(super) schemas: BTreeSet<Box<[u8]>>,
    /// True where some routine may change the session.
    pub(super) routines_change: bool,
    /// The effects of all relations together.
    pub(super) any: CodeEffects,
}

impl Reached {
    pub(super) fn new(relations: ByName, routines: ByName) -> Self {
        let all = |places: &Places| places.all.all();
        let schemas = relations.values().flat_map(|places| places.by_schema.keys().cloned()).collect();
        let routines_change = routines.values().any(|places| all(places).changes_session());
        let any = relations.values().fold(CodeEffects::NONE, |any, places| any | all(places));
        Self { relations, routines, schemas, routines_change, any }
    }
}

/// A map with another one over it, which has whole entries in place of those below.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layers<'a> {
    pub(super) base: &'a ByName,
    pub(super) over: &'a ByName,
}

impl<'a> Layers<'a> {
    pub(super) fn get(self, name: &[u8]) -> Option<&'a Places> {
        self.over.get(name).or_else(|| self.base.get(name))
    }

    pub(super) fn get_key_value(self, name: &[u8]) -> Option<(&'a [u8], &'a Places)> {
        let found = self.over.get_key_value(name).or_else(|| self.base.get_key_value(name));
        found.map(|(name, places)| (&**name, places))
    }

    /// The names, each once.
    pub(super) fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a Places)> {
        self.over_and(Some(self.base))
    }

    /// Returns the names that may lead to more than in others. Where both have one base, these are the names that lie over it.
    pub(super) fn beside(self, others: Layers<'_>) -> impl Iterator<Item = (&'a [u8], &'a Places)> {
        self.over_and(Some(self.base).filter(|base| !std::ptr::eq(*base, others.base)))
    }

    fn over_and(self, base: Option<&'a ByName>) -> impl Iterator<Item = (&'a [u8], &'a Places)> {
        let base = base.into_iter().flatten().filter(move |(name, _)| !self.over.contains_key(&**name));
        self.over.iter().chain(base).map(|(name, places)| (&**name, places))
    }
}

impl PartialEq for Layers<'_> {
    fn eq(&self, others: &Self) -> bool {
        let has = |one: Self, others: Self| {
            one.beside(others).all(|(name, places)| others.get(name) == Some(places))
        };
        has(*self, *others) && has(*others, *self)
    }
}
