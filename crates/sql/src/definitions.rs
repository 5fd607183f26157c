//! Finds definitions that stored code can be in: CREATE, ALTER and RENAME, wherever they stand in a client's text.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::lexer::{Lexer, Token, TokenKind};
use crate::stored_code::{has_letters_of, is_word, is_word_at, name_of, tokens_of};
use crate::{CodeKind, LexMode, StoredCode, steps, stored_code};

/// A name with the schema that is written before it, folded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QualifiedName {
    /// `None` for that of the session.
    pub schema: Option<Box<[u8]>>,
    /// The last part.
    pub name: Box<[u8]>,
}

/// The things that a text defines, or defines anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definitions {
    /// Tables and views.
    pub relations: BTreeSet<QualifiedName>,
    /// Tables that get triggers.
    pub triggered: BTreeSet<QualifiedName>,
    /// Routines and packages.
    pub routines: BTreeSet<QualifiedName>,
    /// The schemas that it may go to by USE on the way, folded.
    pub uses: BTreeSet<Box<[u8]>>,
    /// Only tables' own definitions: nothing that holds code, columns aside.
    pub only_tables: bool,
    /// The effects of the definitions of tables, and the names in them; beside other definitions, the effects of all of the text.
    pub code: StoredCode,
}

/// The answer to whether a text defines things that stored code can be in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Defines {
    /// It defines none.
    Nothing,
    /// It defines these.
    These(Definitions),
    /// It may define some, and has more than [`MOST_TOKENS`].
    TooMuch,
}

/// The words that a definition begins with.
const VERBS: [&str; 3] = ["create", "alter", "rename"];

/// Tokens of a text in which definitions are looked for. They take 16 bytes each, and the names among them more: of a text of 64 MiB of commas
/// they would take a gigabyte. A table with 1,000 partitions has 10,000.
pub const MOST_TOKENS: usize = 1 << 18;

/// Finds the things that stored code can be in and that CREATE, ALTER and RENAME in a client's text define.
pub fn definitions(text: &[u8], mode: LexMode) -> Defines {
    if !VERBS.iter().any(|verb| has_letters_of(verb.as_bytes(), text)) {
        return Defines::Nothing;
    }
    match has_verb(text, mode) {
        (false, _) => return Defines::Nothing,
        (true, count) if count > MOST_TOKENS => return Defines::TooMuch,
        (true, _) => {}
    }
    definitions_of_few(text, mode).map_or(Defines::Nothing, Defines::These)
}

/// Says whether one of the verbs stands in a text as a word that does not follow SHOW, and how many tokens the text has.
fn has_verb(text: &[u8], mode: LexMode) -> (bool, usize) {
    let mut lexer = Lexer::new(text, mode);
    let (mut found, mut shows, mut count) = (false, false, 0);
    loop {
        let token = lexer.next();
        if token.kind() == TokenKind::End {
            return (found, count);
        }
        count += 1;
        let word = &text[token.start()..token.end()];
        let is_plain = token.kind() == TokenKind::Word;
        found |= is_plain && !shows && VERBS.iter().any(|verb| is_word(word, verb));
        shows = is_plain && is_word(word, "show");
    }
}

fn definitions_of_few(text: &[u8], mode: LexMode) -> Option<Definitions> {
    let (tokens, doubtful) = tokens_of(text, mode);
    let mut reader = DefinitionReader::new(text, &tokens);
    let word_at = |place: usize, word: &str| is_word_at(text, &tokens, place, word);
    for place in 0..tokens.len() {
        let shows = place.checked_sub(1).is_some_and(|before| word_at(before, "show"));
        if !shows && VERBS.iter().any(|verb| word_at(place, verb)) {
            reader.take(place);
        }
    }
    let DefinitionReader { mut found, statements, .. } = reader;
    let used = (1..tokens.len()).filter(|&place| word_at(place - 1, "use"));
    found.uses = used.filter_map(|place| name_of(text, tokens[place])).collect();
    let defines = !found.relations.is_empty() || !found.triggered.is_empty() || !found.routines.is_empty();
    defines.then(|| {
        if found.only_tables && !doubtful {
            // What stands beside them in the text is not what they do.
            for range in statements {
                let code = stored_code(CodeKind::Table, b"", &text[range], mode);
                found.code.effects |= code.effects;
                found.code.names.extend(code.names);
            }
        } else {
            // A view's text may be in it; what a routine restores is not worth telling apart for a moment.
            found.code = stored_code(CodeKind::Expression, b"", text, mode);
        }
        found
    })
}

/// Reads what the definitions of a text are about. Many may begin in one statement, where the text is nonsense or code: what one
/// has read the next does not read again.
struct DefinitionReader<'a> {
    text: &'a [u8],
    tokens: &'a [Token],
    found: Definitions,
    /// The statements that define tables, in bytes.
    statements: Vec<Range<usize>>,
    /// The first word at or behind the place that was looked from last that says what is defined.
    object: usize,
    /// The one that was taken in last.
    last: usize,
    /// Where the names of tables have been read up to, of a RENAME and of others.
    renamed_to: usize,
    named_to: usize,
    /// The first ON at or behind the place that was looked from last.
    on: usize,
}

impl<'a> DefinitionReader<'a> {
    fn new(text: &'a [u8], tokens: &'a [Token]) -> Self {
        let found = Definitions { only_tables: true, ..Definitions::default() };
        let statements = Vec::new();
        Self { text, tokens, found, statements, object: 0, last: 0, renamed_to: 0, named_to: 0, on: 0 }
    }

    /// Takes in what the word at this place begins.
    fn take(&mut self, place: usize) {
        let seen = self.object;
        self.object = seen.max(place + 1);
        while self.tokens.get(self.object).is_some_and(|&token| Defined::of(self.text, token).is_none()) {
            self.object += 1;
        }
        steps::add(self.object - seen);
        // What is defined stands a few words behind, `DEFINER = 'user'@'host'` among them.
        if self.object >= self.tokens.len().min(place + 24) {
            return;
        }
        let at = self.object;
        let Some(defined) = Defined::of(self.text, self.tokens[at]) else { return };
        let again = std::mem::replace(&mut self.last, at) == at;
        self.found.only_tables &= defined == Defined::Tables;
        match defined {
            Defined::Tables => self.take_tables(place, at),
            _ if again => {} // the one before was about it, too
            Defined::View => {
                self.found.relations.extend(name_behind(self.text, &self.tokens[at + 1..]));
            }
            Defined::Routine => {
                self.found.routines.extend(name_behind(self.text, &self.tokens[at + 1..]));
            }
            Defined::Trigger => self.take_trigger(at),
        }
    }

    fn take_tables(&mut self, place: usize, at: usize) {
        let renames = is_word_at(self.text, self.tokens, place, "rename");
        let read_to = if renames { self.renamed_to } else { self.renamed_to.max(self.named_to) };
        if at >= read_to {
            let (names, length) = names_about(self.text, &self.tokens[at..], renames);
            self.found.relations.extend(names);
            *(if renames { &mut self.renamed_to } else { &mut self.named_to }) = at + length;
        }
        let start = self.tokens[place].start();
        if self.statements.last().is_none_or(|last| last.end <= start) {
            let end = self.tokens[at..].iter().find(|token| token.is(b';'));
            self.statements.push(start..end.map_or(self.text.len(), |end| end.start()));
        }
    }

    fn take_trigger(&mut self, at: usize) {
        let seen = self.on;
        self.on = seen.max(at + 1);
        while self.on < self.tokens.len() && !is_word_at(self.text, self.tokens, self.on, "on") {
            self.on += 1;
        }
        steps::add(self.on - seen);
        if seen != self.on {
            let behind = self.tokens.get(self.on + 1..).unwrap_or_default();
            self.found.triggered.extend(name_behind(self.text, behind));
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Defined {
    Tables,
    View,
    Routine,
    Trigger,
}

impl Defined {
    fn of(text: &[u8], token: Token) -> Option<Self> {
        const WORDS: [(&str, Defined); 8] = [
            ("function", Defined::Routine),
            ("package", Defined::Routine),
            ("procedure", Defined::Routine),
            ("table", Defined::Tables),
            ("tables", Defined::Tables),
            ("trigger", Defined::Trigger),
            ("view", Defined::View),
            ("sequence", Defined::Tables),
        ];
        let word = (token.kind() == TokenKind::Word).then(|| &text[token.start()..token.end()])?;
        WORDS.iter().find(|(known, _)| is_word(word, known)).map(|&(_, defined)| defined)
    }
}

/// The name at the beginning of some tokens, without what may stand before it.
fn name_behind(text: &[u8], tokens: &[Token]) -> Option<QualifiedName> {
    const BEFORE: [&str; 6] = ["body", "if", "not", "exists", "for", "concurrently"];
    let is_before = |token: Token| {
        token.kind() == TokenKind::Word
            && BEFORE.iter().any(|word| is_word(&text[token.start()..token.end()], word))
    };
    let first = tokens.iter().position(|&token| !is_before(token))?;
    steps::add(1 + first);
    let name = |place: usize| tokens.get(place).and_then(|&token| name_of(text, token));
    let is_dot = |place: usize| tokens.get(place).is_some_and(|token| token.is(b'.'));
    // `.name` is in the session's schema, too.
    let first = if is_dot(first) { first + 1 } else { first };
    let schema = if is_dot(first + 1) { name(first) } else { None };
    Some(QualifiedName { name: name(if is_dot(first + 1) { first + 2 } else { first })?, schema })
}

/// The names that `CREATE TABLE`, `ALTER TABLE` and `RENAME TABLE` are about: those behind a few words. `renames`: it is the last of
/// these, which has a list. Beside them the number of tokens up to where it stopped.
fn names_about(text: &[u8], tokens: &[Token], renames: bool) -> (Vec<QualifiedName>, usize) {
    let mut names = Vec::new();
    let mut length = tokens.len();
    let is = |place: usize, word: &str| is_word_at(text, tokens, place, word);
    for (place, token) in tokens.iter().enumerate() {
        // What is selected for a table is no name of one, whatever it is called.
        if token.is(b';') || is(place, "select") {
            length = place;
            break;
        }
        let renamed = renames || place.checked_sub(1).is_some_and(|before| is(before, "rename"));
        let before = ["table", "tables", "sequence", "rename"].iter().any(|word| is(place, word))
            || renamed && (is(place, "to") || is(place, "as"))
            || renames && token.is(b',');
        let name = before.then(|| name_behind(text, &tokens[place + 1..])).flatten();
        names.extend(
            name.filter(|found| !matches!(&*found.name, b"to" | b"as" | b"column" | b"index" | b"key")),
        );
    }
    steps::add(length);
    (names, length)
}
