//! The reach of the server's own code, and what definitions add to that.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use sql::{CodeEffects, StoredCode};

use super::reach::{ByName, Layers, Places, Reach, Reached};
use super::{Object, Runs, SYS, SYS_EFFECTS};
use crate::steps;

/// Names are looked up one by one in all schemas that may be meant as long as these are no more pairs; beyond that each name stands for
/// whatever has it, anywhere. It takes a millisecond, and usual statements have a handful.
pub(super) const MOST_PAIRS: usize = 10_000;

/// The server's code, as it was read, and what it leads to. To make it takes a second where there are tens of thousands of pieces.
#[derive(Debug)]
pub(crate) struct Base {
    /// All names and words in it, in order.
    words: Vec<Word>,
    pieces: Vec<Piece>,
    /// The names in the pieces, of one piece after the other.
    names: Vec<u32>,
    /// The schemas that have pieces.
    schemas: BTreeSet<Box<[u8]>>,
    pub(super) reached: Reached,
}

#[derive(Debug)]
struct Word {
    name: Box<[u8]>,
    /// The pieces that name it.
    named_in: Vec<u32>,
}

/// An [`Object`], with the places of its names in place of them: there are few different ones.
#[derive(Debug)]
struct Piece {
    runs: Runs,
    schema: Option<u32>,
    name: u32,
    effects: CodeEffects,
    /// A part of [`Base::names`], in order.
    names: Range<u32>,
}

impl Piece {
    fn names(&self) -> Range<usize> {
        self.names.start as usize..self.names.end as usize
    }
}

/// A piece of either kind.
struct Code<'a> {
    runs: Runs,
    schema: Option<&'a [u8]>,
    name: &'a [u8],
    effects: CodeEffects,
    names: Vec<&'a [u8]>,
    defaults: &'a [Box<[u8]>],
}

impl Default for Base {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Base {
    /// Makes a base of the server's pieces.
    pub(super) fn new(objects: impl IntoIterator<Item = Object>) -> Self {
        let mut numbers = Numbers::default();
        let (mut pieces, mut names, mut schemas) = (Vec::new(), Vec::new(), BTreeSet::new());
        // One after the other: in this form they are a tenth of what they are in the other.
        for Object { runs, schema, name, code, .. } in objects {
            let begin = number(names.len());
            names.extend(code.names.into_iter().map(|name| numbers.of(name)));
            let names = begin..number(names.len());
            schemas.extend(schema.clone());
            let (schema, name) = (schema.map(|schema| numbers.of(schema)), numbers.of(name));
            pieces.push(Piece { runs, schema, name, effects: code.effects, names });
        }
        let mut words = numbers.put_in_order(&mut pieces, &mut names);
        for (place, piece) in pieces.iter().enumerate() {
            for &name in &names[piece.names()] {
                words[name as usize].named_in.push(number(place));
            }
        }
        let mut of_the_servers_own = Places::default();
        of_the_servers_own.add(None, Reach::of(SYS_EFFECTS));
        let reached = Reached::new(BTreeMap::from([(SYS.into(), of_the_servers_own)]), ByName::new());
        let mut base = Self { words, pieces, names, schemas, reached };
        let mut making = Making::over(&base, Vec::new());
        making.take_all((0..base.pieces.len()).rev().collect());
        let (mut relations, routines) = (making.relations, making.routines);
        for (name, places) in std::mem::take(&mut base.reached.relations) {
            relations.entry(name).or_insert(places);
        }
        base.reached = Reached::new(relations, routines);
        base
    }

    /// The pieces of which this is made, but for the schemas in which each may have been defined: they say nothing of what a server has.
    pub(super) fn objects(&self) -> impl Iterator<Item = Object> {
        self.pieces.iter().map(|piece| {
            let names = self.names[piece.names()].iter().map(|&name| self.word(name).into());
            Object {
                runs: piece.runs,
                schema: piece.schema.map(|schema| self.word(schema).into()),
                name: self.word(piece.name).into(),
                code: StoredCode { effects: piece.effects, names: names.collect() },
                defaults: Vec::new(),
            }
        })
    }

    /// Returns the names that lead to more, or to something else, with these pieces beside those of the server.
    pub(super) fn reached_with(&self, changes: Vec<&Object>) -> Reached {
        let mut making = Making::over(self, changes);
        let of_changes = self.pieces.len()..self.pieces.len() + making.changes.len();
        making.take_all(of_changes.rev().collect());
        Reached::new(making.relations, making.routines)
    }

    fn word(&self, number: u32) -> &[u8] {
        &self.words[number as usize].name
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        self.words.binary_search_by(|word| (*word.name).cmp(name)).ok()
    }

    /// The pieces that may mean what has this name in that schema: not all that have the word in them, or a view by the name of a
    /// keyword would make everybody's be looked at.
    fn may_mean(&self, schema: Option<&[u8]>, name: &[u8]) -> impl Iterator<Item = usize> {
        let named_in = self.find(name).map_or(&[][..], |name| &self.words[name].named_in);
        let in_schema = schema.map(|schema| self.find(schema).map(number));
        let means = move |piece: &Piece| {
            let Some(schema) = in_schema else { return true };
            let names = &self.names[piece.names()];
            let all_is_meant = names.len() * names.len() >= MOST_PAIRS;
            all_is_meant
                || schema.is_some_and(|schema| {
                    piece.schema == Some(schema) || names.binary_search(&schema).is_ok()
                })
        };
        let pieces = named_in.iter().map(|&piece| piece as usize);
        pieces.filter(move |&piece| means(&self.pieces[piece]))
    }

    fn code(&self, piece: &Piece) -> Code<'_> {
        Code {
            runs: piece.runs,
            schema: piece.schema.map(|schema| self.word(schema)),
            name: self.word(piece.name),
            effects: piece.effects,
            names: self.names[piece.names()].iter().map(|&name| self.word(name)).collect(),
            defaults: &[],
        }
    }
}

/// Words with numbers, as they come.
#[derive(Default)]
struct Numbers(BTreeMap<Box<[u8]>, u32>);

impl Numbers {
    fn of(&mut self, word: Box<[u8]>) -> u32 {
        let next = number(self.0.len());
        *self.0.entry(word).or_insert(next)
    }

    /// The words in order, and their places in place of the numbers.
    fn put_in_order(self, pieces: &mut [Piece], names: &mut [u32]) -> Vec<Word> {
        let mut places = vec![0; self.0.len()];
        for (place, &word) in self.0.values().enumerate() {
            places[word as usize] = number(place);
        }
        let to_place = |word: &mut u32| *word = places[*word as usize];
        names.iter_mut().for_each(to_place);
        for piece in pieces {
            to_place(&mut piece.name);
            piece.schema.as_mut().map(to_place);
        }
        self.0.into_keys().map(|name| Word { name, named_in: Vec::new() }).collect()
    }
}

/// The number of a word or a piece.
fn number(place: usize) -> u32 {
    u32::try_from(place).expect("the answers that they were in have a few MiB")
}

/// A reach while it is found out: by the pieces of a base, and by changes, which have their places behind those.
struct Making<'a> {
    base: &'a Base,
    changes: Vec<&'a Object>,
    /// The changes in which a name stands.
    named_in: BTreeMap<&'a [u8], Vec<usize>>,
    schemas_of_changes: BTreeSet<&'a [u8]>,
    relations: ByName,
    routines: ByName,
}

impl<'a> Making<'a> {
    fn over(base: &'a Base, changes: Vec<&'a Object>) -> Self {
        let mut named_in: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (place, object) in changes.iter().enumerate() {
            for name in &object.code.names {
                named_in.entry(name).or_default().push(base.pieces.len() + place);
            }
        }
        let schemas_of_changes = changes.iter().filter_map(|object| object.schema.as_deref()).collect();
        let (relations, routines) = (ByName::new(), ByName::new());
        Self { base, changes, named_in, schemas_of_changes, relations, routines }
    }

    fn code(&self, place: usize) -> Code<'a> {
        if let Some(piece) = self.base.pieces.get(place) {
            return self.base.code(piece);
        }
        let object = self.changes[place - self.base.pieces.len()];
        Code {
            runs: object.runs,
            schema: object.schema.as_deref(),
            name: &object.name,
            effects: object.code.effects,
            names: object.code.names.iter().map(|name| &**name).collect(),
            defaults: &object.defaults,
        }
    }

    /// Takes in these, and what names them, the last one first. What a piece does goes on to what names it. So that is looked at again
    /// behind each change, of which there are as many as kinds of effects, however deep calls are nested.
    fn take_all(&mut self, mut waiting: Vec<usize>) {
        let mut waits: BTreeSet<_> = waiting.iter().copied().collect();
        while let Some(place) = waiting.pop() {
            waits.remove(&place);
            let code = self.code(place);
            steps::add(1 + code.names.len());
            if self.take_in(&code) {
                let of_base = self.base.may_mean(code.schema, code.name);
                let of_changes = self.named_in.get(code.name).into_iter().flatten().copied();
                waiting.extend(of_base.chain(of_changes).filter(|&place| waits.insert(place)));
            }
        }
    }

    /// Takes in what a piece of code leads to, by what is known of the names in it. Returns true where its own name leads to more now.
    fn take_in(&mut self, code: &Code<'_>) -> bool {
        let relations = Layers { base: &self.base.reached.relations, over: &self.relations };
        let routines = Layers { base: &self.base.reached.routines, over: &self.routines };
        let found: Vec<_> = code.names.iter().map(|name| (relations.get(name), routines.get(name))).collect();
        let mut reach = Reach::of(code.effects);
        if found.iter().any(|(relation, routine)| relation.is_some() || routine.is_some()) {
            let meant = self.meant(code);
            let few = code.names.len() * meant.len() <= MOST_PAIRS;
            let within = |places: &Places| if few { places.within_any(&meant) } else { places.all };
            for (relation, routine) in found {
                reach = reach.with(relation.map(within).unwrap_or_default());
                reach = reach.with(Reach::of(routine.map(within).unwrap_or_default().all()));
            }
        }
        let all = reach.all();
        if all.is_empty() {
            return false;
        }
        let Self { base, relations, routines, .. } = self;
        let mut more = false;
        if matches!(code.runs, Runs::Called | Runs::Anyhow) {
            more |= add(&base.reached.routines, routines, code, Reach::of(all));
        }
        let reach = match code.runs {
            // A text that seems to call a built-in function may call it.
            Runs::Called if sql::may_be_stored_too(code.name) => Reach::of(all),
            Runs::Called => return more,
            Runs::Written => Reach { reads: CodeEffects::NONE, writes: all },
            Runs::Used => Reach { reads: reach.reads, writes: all },
            Runs::Anyhow => Reach::of(all),
        };
        add(&base.reached.relations, relations, code, reach) || more
    }

    /// The schemas in which it looks: its own, and those that it names.
    fn meant<'c>(&self, code: &'c Code<'_>) -> BTreeSet<&'c [u8]> {
        let is_schema =
            |name: &[u8]| self.base.schemas.contains(name) || self.schemas_of_changes.contains(name);
        let own = code.schema.into_iter().chain(code.defaults.iter().map(|schema| &**schema));
        own.chain(code.names.iter().copied().filter(|name| is_schema(name))).collect()
    }
}

/// Adds to what a piece's name leads to. Returns true where that is more than before.
fn add(base: &ByName, over: &mut ByName, code: &Code<'_>, reach: Reach) -> bool {
    let known = Layers { base, over }.get(code.name);
    if known.is_some_and(|known| known.has(code.schema, reach)) {
        return false;
    }
    let known = known.cloned().unwrap_or_default();
    over.entry(code.name.into()).or_insert(known).add(code.schema, reach);
    true
}
