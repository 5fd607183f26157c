//! Which names lead to code that does more than read and write tables.

use std::collections::{BTreeMap, BTreeSet};

use sql::{CodeEffects, LexMode, PreparedText};

use super::{Hidden, Known, Names, Object, Runs, SYS, SYS_EFFECTS, is_sys};
use crate::request::Statement;
use crate::steps;

/// Names are looked up one by one in all schemas that may be meant as long as these are no more pairs; beyond that each name stands for
/// whatever has it, anywhere. It takes a millisecond, and usual statements have a handful.
const MOST_PAIRS: usize = 10_000;

/// What stands before a schema's name that is written as its folder is (`MYSQL50_TABLE_NAME_PREFIX` in both servers' `sql_table.h`).
const AS_A_FOLDER: &[u8] = b"#mysql50#";

/// What is reached by a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reach {
    reads: CodeEffects,
    writes: CodeEffects,
}

impl Reach {
    fn of(effects: CodeEffects) -> Self {
        Self { reads: effects, writes: effects }
    }

    fn all(self) -> CodeEffects {
        self.reads | self.writes
    }

    fn with(self, other: Self) -> Self {
        Self { reads: self.reads | other.reads, writes: self.writes | other.writes }
    }

    /// Whether reads, or writes, may do here what no report tells of, and may not there.
    fn hides_more_than(self, other: Self) -> bool {
        let silent = |effects: CodeEffects| effects.contains(CodeEffects::SILENT);
        silent(self.reads) && !silent(other.reads) || silent(self.writes) && !silent(other.writes)
    }
}

/// What is reached by one name in different schemas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Places {
    /// Whichever is meant.
    everywhere: Reach,
    by_schema: BTreeMap<Box<[u8]>, Reach>,
    /// In any of them.
    all: Reach,
}

impl Places {
    fn within(&self, schema: &[u8]) -> Reach {
        self.everywhere.with(self.by_schema.get(schema).copied().unwrap_or_default())
    }

    fn within_any(&self, schemas: &BTreeSet<&[u8]>) -> Reach {
        schemas.iter().fold(self.everywhere, |reach, schema| reach.with(self.within(schema)))
    }

    /// Whether that is more than before.
    fn add(&mut self, schema: Option<&[u8]>, reach: Reach) -> bool {
        let known = match schema {
            Some(schema) if !self.by_schema.contains_key(schema) => {
                self.by_schema.entry(schema.into()).or_default()
            }
            Some(schema) => self.by_schema.get_mut(schema).expect("it is there"),
            None => &mut self.everywhere,
        };
        let before = *known;
        *known = known.with(reach);
        let more = *known != before;
        self.all = self.all.with(reach);
        more
    }

    /// Each schema apart.
    fn reaches(&self) -> impl Iterator<Item = Reach> {
        std::iter::once(self.everywhere).chain(self.by_schema.values().copied())
    }

    fn hides_more_than(&self, before: Option<&Self>) -> bool {
        let nothing = Self::default();
        let before = before.unwrap_or(&nothing);
        self.everywhere.hides_more_than(before.everywhere)
            || self.by_schema.iter().any(|(schema, reach)| reach.hides_more_than(before.within(schema)))
    }
}

type ByName = BTreeMap<Box<[u8]>, Places>;

/// What a statement may mean by a name without a schema.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope<'a> {
    /// What is in the session's default schema, or in the one in which the statement was prepared.
    In([Option<&'a [u8]>; 2]),
    /// Nobody knows where it was prepared.
    Anywhere,
}

impl Scope<'_> {
    fn is_sys(self) -> bool {
        matches!(self, Self::In(schemas) if schemas.into_iter().any(is_sys))
    }
}

/// Which names lead to code that does more than read and write tables.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Library {
    /// What statements, and other code, reach by naming it.
    relations: ByName,
    /// What code reaches besides by calling it.
    routines: ByName,
    /// In which there is such code.
    schemas: BTreeSet<Box<[u8]>>,
    known: Known,
    /// Some routine may change the session.
    routines_change: bool,
}

/// A library that is being made.
#[derive(Default)]
struct Making {
    relations: ByName,
    routines: ByName,
}

impl Making {
    /// Takes in what a piece of code leads to, by what is known of the names in it. Whether its own name leads to more now. `meant`: the
    /// schemas in which it looks.
    fn take_in(&mut self, object: &Object, meant: &BTreeSet<&[u8]>) -> bool {
        let mut reach = Reach::of(object.code.effects);
        let few = object.code.names.len() * meant.len() <= MOST_PAIRS;
        let found = |places: &Places| if few { places.within_any(meant) } else { places.all };
        for name in &object.code.names {
            reach = reach.with(self.relations.get(name).map(found).unwrap_or_default());
            let called = self.routines.get(name).map(found).unwrap_or_default();
            reach = reach.with(Reach::of(called.all()));
        }
        let all = reach.all();
        if all.is_empty() {
            return false;
        }
        let schema = object.schema.as_deref();
        let mut more = false;
        if matches!(object.runs, Runs::Called | Runs::Anyhow) {
            more |= entry(&mut self.routines, &object.name).add(schema, Reach::of(all));
        }
        let reach = match object.runs {
            // A text that seems to call a built-in function may call it.
            Runs::Called if sql::may_be_stored_too(&object.name) => Reach::of(all),
            Runs::Called => return more,
            Runs::Written => Reach { reads: CodeEffects::NONE, writes: all },
            Runs::Used => Reach { reads: reach.reads, writes: all },
            Runs::Anyhow => Reach::of(all),
        };
        entry(&mut self.relations, &object.name).add(schema, reach) || more
    }
}

fn entry<'a>(map: &'a mut ByName, name: &[u8]) -> &'a mut Places {
    map.entry(name.into()).or_default()
}

impl Library {
    pub(super) fn new<'a>(objects: impl Iterator<Item = &'a Object>, known: Known) -> Self {
        let objects: Vec<_> = objects.collect();
        let mut making = Making::default();
        entry(&mut making.relations, SYS).add(None, Reach::of(SYS_EFFECTS));
        let schemas: BTreeSet<&[u8]> = objects.iter().filter_map(|object| object.schema.as_deref()).collect();
        let mut mentions: BTreeMap<&[u8], Vec<usize>> =
            objects.iter().map(|object| (&*object.name, Vec::new())).collect();
        let mut meant = Vec::with_capacity(objects.len());
        for (place, object) in objects.iter().enumerate() {
            let own = object.schema.iter().chain(&object.defaults).map(|schema| &**schema);
            let mut schemas_of: BTreeSet<&[u8]> = own.collect();
            for name in &object.code.names {
                if let Some(mentioning) = mentions.get_mut(&**name) {
                    mentioning.push(place);
                }
                schemas_of.extend(schemas.get(&**name));
            }
            meant.push(schemas_of);
        }
        // What a piece does goes on to what names it. So that is looked at again behind each change, of which there are as many as kinds
        // of effects, however deep calls are nested.
        let mut waiting: Vec<_> = (0..objects.len()).rev().collect();
        let mut waits = vec![true; objects.len()];
        while let Some(place) = waiting.pop() {
            waits[place] = false;
            let object = objects[place];
            steps::add(1 + object.code.names.len());
            if making.take_in(object, &meant[place]) {
                for &mentioning in mentions.get(&*object.name).into_iter().flatten() {
                    if !std::mem::replace(&mut waits[mentioning], true) {
                        waiting.push(mentioning);
                    }
                }
            }
        }
        let Making { relations, routines } = making;
        let routines_change = routines.values().any(|places| places.all.all().changes_session());
        let schemas = relations.values().flat_map(|places| places.by_schema.keys().cloned()).collect();
        Self { relations, routines, schemas, known, routines_change }
    }

    /// Whether the library is the same with these pieces of code and without: they do nothing, nor does anything that they may name.
    pub(super) fn is_the_same_without(&self, objects: &[Object]) -> bool {
        let leads_on = |name: &[u8]| self.relations.contains_key(name) || self.routines.contains_key(name);
        objects.iter().all(|Object { code, .. }| {
            steps::add(1 + code.names.len());
            code.effects.is_empty() && !code.names.iter().any(|name| leads_on(name))
        })
    }

    /// What a statement of this text may do by stored code. `writes`: it may write to tables.
    pub(crate) fn hidden(&self, text: &[u8], mode: LexMode, writes: bool, scope: Scope<'_>) -> Hidden {
        self.hidden_by(writes, scope, |add| {
            // On most servers there is no such code, and looking for one word is much less than cutting the text into all.
            if self.relations.len() > 1 || sql::has_letters_of(SYS, text) {
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
        let mut anywhere = matches!(scope, Scope::Anywhere);
        let mut add = |name: &[u8]| {
            if let Some((name, places)) = self.relations.get_key_value(name) {
                found.insert(&**name, places);
            }
            meant.extend(self.schemas.get(name).map(|schema| &**schema));
            anywhere |= name.starts_with(AS_A_FOLDER);
        };
        if scope.is_sys() {
            add(SYS);
        }
        names(&mut add);
        if let (Scope::In(own), false) = (scope, found.is_empty()) {
            for schema in own.into_iter().flatten().map(sql::folded_name) {
                anywhere |= schema.starts_with(AS_A_FOLDER);
                meant.extend(self.schemas.get(&schema).map(|schema| &**schema));
            }
        }
        anywhere |= found.len() * meant.len() > MOST_PAIRS;
        let reaches =
            found.values().map(|places| if anywhere { places.all } else { places.within_any(&meant) });
        let reach = reaches.fold(Reach::default(), Reach::with);
        let effects = if writes { reach.all() } else { reach.reads };
        let Known { routines, triggers, views, .. } = self.known;
        let certain = routines && (views || !self.routines_change) && (triggers || !writes);
        Hidden { effects, certain }
    }

    /// The same of a statement that is executed by its text.
    pub(crate) fn hidden_in_text(&self, prepared: &PreparedText) -> Hidden {
        let PreparedText { text, mode } = prepared;
        self.hidden(text, *mode, Statement::of_text(text, *mode).may_write(), Scope::Anywhere)
    }

    /// Whether a name leads to something.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.relations.contains_key(name)
    }

    /// What statements may do by any name.
    pub(super) fn any(&self) -> CodeEffects {
        self.beyond(&Self::default())
    }

    /// Whether some name leads to what no report tells of, and did not before.
    pub(super) fn hides_more_than(&self, before: &Self) -> bool {
        self.relations.iter().any(|(name, places)| places.hides_more_than(before.relations.get(name)))
    }

    /// What statements may do by names that lead to more here than in `before`.
    pub(super) fn beyond(&self, before: &Self) -> CodeEffects {
        let more =
            self.relations.iter().filter(|(name, places)| before.relations.get(*name) != Some(*places));
        more.fold(CodeEffects::NONE, |effects, (_, places)| effects | places.all.all())
    }

    /// How many names of the server's users lead to code that may change the session.
    pub(crate) fn changing_names(&self) -> u64 {
        let names = self.relations.iter().filter(|(name, _)| ***name != *SYS);
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
