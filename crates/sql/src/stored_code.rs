//! What code that is stored on the server (triggers, routines, views, defaults of columns) may do to the session of whoever makes
//! it run.
//!
//! Its text is looked at like a statement's: for words that matter, not as a parser would. What is not seen to be harmless counts as
//! harmful. What such code may not contain at all is left out: dynamic SQL, LOCK TABLES, FLUSH, the ends of transactions
//! (`sp_get_flags_for_command` in both servers' `sql/sp_head.cc`; manual, "Restrictions on Stored Programs").

use std::collections::BTreeSet;
use std::ops::{BitOr, BitOrAssign};

use memchr::memchr2_iter;

use crate::functions::{Function, function};
use crate::lexer::{Lexer, Token, TokenKind};
use crate::system_variable::{Scope, SystemVariable, without_quotes};
use crate::{LexMode, ServerKind};

/// What stored code may do beside reading and writing tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeEffects(u8);

impl CodeEffects {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// It changes session state by a statement after which the server reports a change: `SET name`, `SET @name`, temporary tables.
    pub const REPORTED: Self = Self(1);
    /// It changes what no report tells of: `SET @@name` without a scope on MariaDB, `INTO @name`, `@name := ...`, named locks,
    /// sequences, or what was not understood.
    pub const SILENT: Self = Self(1 << 1);
    /// It reads user variables.
    pub const READS_VARIABLES: Self = Self(1 << 2);
    /// It reads LAST_INSERT_ID().
    pub const READS_INSERT_ID: Self = Self(1 << 3);
    /// All of these: of code that cannot be read.
    pub const ALL: Self = Self(0b1111);

    /// Whether all members of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The members of either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The members that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether there is no member.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it may leave anything in the session.
    pub const fn changes_session(self) -> bool {
        self.0 & (Self::REPORTED.0 | Self::SILENT.0) != 0
    }
}

impl BitOr for CodeEffects {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl BitOrAssign for CodeEffects {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

/// A name in the form in which names are compared: lower case, and one and the same for all names beyond ASCII, of which nobody
/// knows in which character set they are written.
pub fn folded_name(name: &[u8]) -> Box<[u8]> {
    let mut folded = name.to_vec();
    fold(&mut folded);
    folded.into()
}

fn fold(name: &mut Vec<u8>) {
    if name.is_ascii() {
        name.make_ascii_lowercase();
    } else {
        name.clear();
        name.push(0x80);
    }
}

/// What a text says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredCode {
    /// What it does itself.
    pub effects: CodeEffects,
    /// All words and names in it, folded: it may do what those do of them that are tables, views or routines.
    pub names: BTreeSet<Box<[u8]>>,
}

/// What a body is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeKind {
    /// A trigger or a routine: LAST_INSERT_ID() is as before at its end (manual, "Information Functions").
    Routine,
    /// A view, or a column's default: what it calls, the statement calls itself.
    Expression,
    /// A definition of tables: SET in it is about their columns.
    Table,
}

/// What the body of stored code may do. `parameters` are those of a routine, as they are declared; `mode` is the one that it
/// was created in.
pub fn stored_code(kind: CodeKind, parameters: &[u8], body: &[u8], mode: LexMode) -> StoredCode {
    let (tokens, doubtful) = tokens_of(body, mode);
    let mut declared = parameter_names(parameters, mode);
    declared.extend(declared_names(body, &tokens));
    let mut reader = Reader::new(kind, body, declared);
    for place in 0..tokens.len() {
        reader.take(&tokens, place);
    }
    if doubtful {
        reader.found.effects = CodeEffects::ALL;
    }
    reader.found
}

/// All words and names in a text, folded.
pub fn names(text: &[u8], mode: LexMode, mut take: impl FnMut(&[u8])) {
    let mut lexer = Lexer::new(text, mode);
    let mut name = Vec::new();
    loop {
        let token = lexer.next();
        if token.kind() == TokenKind::End {
            return;
        }
        if read_name(text, token, &mut name) {
            take(&name);
        }
    }
}

/// Whether the letters of a word stand in a text, in either case, alone or within another word. It is much less than to look
/// for it in [`names`], and never overlooks what is there.
pub fn has_letters_of(word: &[u8], text: &[u8]) -> bool {
    let Some(&first) = word.first() else { return true };
    memchr2_iter(first.to_ascii_lowercase(), first.to_ascii_uppercase(), text)
        .any(|start| text[start..].get(..word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word)))
}

/// What a text defines, or defines anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definitions {
    /// Tables and views, folded, without their schemas.
    pub relations: BTreeSet<Box<[u8]>>,
    /// Tables that get triggers, likewise.
    pub triggered: BTreeSet<Box<[u8]>>,
    /// Routines and packages, likewise.
    pub routines: BTreeSet<Box<[u8]>>,
    /// Only tables' own definitions: nothing that holds code, columns aside.
    pub only_tables: bool,
    /// What the definitions of tables do and name; beside others, what all of the text does.
    pub code: StoredCode,
}

/// What CREATE, ALTER and RENAME in a client's text define that stored code can be in; `None` where there is nothing of that.
pub fn definitions(text: &[u8], mode: LexMode) -> Option<Definitions> {
    let (tokens, doubtful) = tokens_of(text, mode);
    let mut found = Definitions { only_tables: true, ..Definitions::default() };
    let mut tables = Vec::new();
    let word_at = |place: usize, word: &str| is_word_at(text, &tokens, place, word);
    for place in 0..tokens.len() {
        let shows = place.checked_sub(1).is_some_and(|before| word_at(before, "show"));
        let begins = !shows && ["create", "alter", "rename"].iter().any(|verb| word_at(place, verb));
        // What is defined stands a few words behind, `DEFINER = 'user'@'host'` among them.
        let what = begins.then(|| {
            let head = (place + 1)..(place + 24).min(tokens.len());
            head.into_iter().find_map(|at| Some((at, Defined::of(text, tokens[at])?)))
        });
        let Some((at, defined)) = what.flatten() else { continue };
        found.only_tables &= defined == Defined::Tables;
        match defined {
            Defined::Tables => {
                let renames = word_at(place, "rename");
                found.relations.extend(names_about(text, &tokens[at..], renames));
                let end = tokens[at..].iter().find(|token| token.is(b';'));
                tables.push(tokens[place].start()..end.map_or(text.len(), |end| end.start()));
            }
            Defined::View => found.relations.extend(name_behind(text, &tokens[at + 1..])),
            Defined::Routine => found.routines.extend(name_behind(text, &tokens[at + 1..])),
            Defined::Trigger => {
                let on = (at + 1..tokens.len()).find(|&at| word_at(at, "on"));
                found.triggered.extend(on.and_then(|on| name_behind(text, &tokens[on + 1..])));
            }
        }
    }
    let defines = !found.relations.is_empty() || !found.triggered.is_empty() || !found.routines.is_empty();
    defines.then(|| {
        if found.only_tables && !doubtful {
            // What stands beside them in the text is not what they do.
            for range in tables {
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

/// The name at the beginning of some tokens, without its schema and what may stand before it.
fn name_behind(text: &[u8], tokens: &[Token]) -> Option<Box<[u8]>> {
    const BEFORE: [&str; 6] = ["body", "if", "not", "exists", "for", "concurrently"];
    let is_before = |token: Token| {
        token.kind() == TokenKind::Word
            && BEFORE.iter().any(|word| is_word(&text[token.start()..token.end()], word))
    };
    let first = tokens.iter().position(|&token| !is_before(token))?;
    let dotted = tokens.get(first + 1).is_some_and(|token| token.is(b'.'));
    name_of(text, *tokens.get(if dotted { first + 2 } else { first })?)
}

/// The names that `CREATE TABLE`, `ALTER TABLE` and `RENAME TABLE` are about: those behind a few words. `renames`: it is the last of
/// these, which has a list.
fn names_about(text: &[u8], tokens: &[Token], renames: bool) -> Vec<Box<[u8]>> {
    let mut names = Vec::new();
    let is = |place: usize, word: &str| is_word_at(text, tokens, place, word);
    for (place, token) in tokens.iter().enumerate() {
        // What is selected for a table is no name of one, whatever it is called.
        if token.is(b';') || is(place, "select") {
            break;
        }
        let renamed = renames || place.checked_sub(1).is_some_and(|before| is(before, "rename"));
        let before = ["table", "tables", "sequence", "rename"].iter().any(|word| is(place, word))
            || renamed && (is(place, "to") || is(place, "as"))
            || renames && token.is(b',');
        let name = before.then(|| name_behind(text, &tokens[place + 1..])).flatten();
        names.extend(name.filter(|name| !matches!(&**name, b"to" | b"as" | b"column" | b"index" | b"key")));
    }
    names
}

fn tokens_of(text: &[u8], mode: LexMode) -> (Vec<Token>, bool) {
    let mut lexer = Lexer::new(text, mode);
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next();
        if token.kind() == TokenKind::End {
            return (tokens, lexer.is_doubtful());
        }
        tokens.push(token);
    }
}

fn is_word(written: &[u8], word: &str) -> bool {
    written.eq_ignore_ascii_case(word.as_bytes())
}

fn is_word_at(text: &[u8], tokens: &[Token], place: usize, word: &str) -> bool {
    tokens.get(place).is_some_and(|token| {
        token.kind() == TokenKind::Word && is_word(&text[token.start()..token.end()], word)
    })
}

/// The name that a token may be, folded.
fn name_of(text: &[u8], token: Token) -> Option<Box<[u8]>> {
    let mut name = Vec::new();
    read_name(text, token, &mut name).then(|| name.into())
}

/// The same, into a buffer; whether it may be one. A number may be the beginning of a name, and a string in double quotes is one
/// in another `sql_mode`.
fn read_name(text: &[u8], token: Token, name: &mut Vec<u8>) -> bool {
    let written = &text[token.start()..token.end()];
    name.clear();
    match token.kind() {
        TokenKind::Word | TokenKind::Number => name.extend_from_slice(written),
        TokenKind::QuotedName => {
            let quote = written.first().copied().unwrap_or_default();
            let mut bytes = without_quotes(written).iter().copied();
            while let Some(byte) = bytes.next() {
                name.push(byte);
                if byte == quote {
                    // A quote in a name is written twice.
                    bytes.next();
                }
            }
        }
        _ => return false,
    }
    fold(name);
    true
}

/// The names of parameters: first of each, or behind IN, OUT or INOUT.
fn parameter_names(parameters: &[u8], mode: LexMode) -> BTreeSet<Box<[u8]>> {
    let (tokens, _) = tokens_of(parameters, mode);
    let mut names = BTreeSet::new();
    let (mut depth, mut expected) = (0_u32, true);
    for &token in &tokens {
        match token.kind() {
            TokenKind::Punctuation(b'(') => depth += 1,
            TokenKind::Punctuation(b')') => depth = depth.saturating_sub(1),
            TokenKind::Punctuation(b',') if depth == 0 => expected = true,
            _ if expected => {
                let name = name_of(parameters, token);
                let direction = name.as_deref().is_some_and(|name| matches!(name, b"in" | b"out" | b"inout"));
                expected = direction;
                names.extend(name.filter(|_| !direction));
            }
            _ => {}
        }
    }
    names
}

/// The names behind DECLARE.
fn declared_names(text: &[u8], tokens: &[Token]) -> Vec<Box<[u8]>> {
    let mut names = Vec::new();
    for place in 0..tokens.len() {
        if !is_word_at(text, tokens, place, "declare") {
            continue;
        }
        let mut at = place + 1;
        while let Some(name) = tokens.get(at).and_then(|&token| name_of(text, token)) {
            names.push(name);
            if !tokens.get(at + 1).is_some_and(|token| token.is(b',')) {
                break;
            }
            at += 2;
        }
    }
    names
}

/// Where in a statement of a body the reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Anywhere.
    Other,
    /// In a statement whose SET names columns, or items of a condition.
    Columns,
    /// Where SET expects what it sets.
    Target,
    /// In the value that is set, within so many parentheses.
    Value(u32),
    /// In a statement that may set each user variable that it names: CALL, GET DIAGNOSTICS.
    Variables,
}

struct Reader<'a> {
    kind: CodeKind,
    text: &'a [u8],
    declared: BTreeSet<Box<[u8]>>,
    place: Place,
    found: StoredCode,
}

impl<'a> Reader<'a> {
    fn new(kind: CodeKind, text: &'a [u8], declared: BTreeSet<Box<[u8]>>) -> Self {
        Self { kind, text, declared, place: Place::Other, found: StoredCode::default() }
    }

    fn take(&mut self, tokens: &[Token], at: usize) {
        let token = tokens[at];
        let text = &self.text[token.start()..token.end()];
        self.found.names.extend(name_of(self.text, token));
        if token.kind() == TokenKind::String && text.first() == Some(&b'"') {
            self.found.names.insert(folded_name(without_quotes(text)));
        }
        if self.place == Place::Target {
            return self.take_target(tokens, at);
        }
        match token.kind() {
            TokenKind::Punctuation(byte) => self.take_punctuation(byte),
            TokenKind::UserVariable => self.take_user_variable(tokens, at),
            TokenKind::SystemVariable
                if SystemVariable::of(text).function() == Some(crate::SessionFunction::LastInsertId) =>
            {
                self.found.effects |= CodeEffects::READS_INSERT_ID;
            }
            TokenKind::Word => self.take_word(tokens, at),
            _ => {}
        }
    }

    fn take_punctuation(&mut self, byte: u8) {
        self.place = match (self.place, byte) {
            (_, b';') => Place::Other,
            (Place::Value(depth), b'(') => Place::Value(depth + 1),
            (Place::Value(depth), b')') => Place::Value(depth.saturating_sub(1)),
            (Place::Value(0), b',') => Place::Target,
            (place, _) => place,
        };
    }

    fn take_user_variable(&mut self, tokens: &[Token], at: usize) {
        let token = tokens[at];
        let before = at.checked_sub(1).map(|before| tokens[before].kind());
        if token.glued() && matches!(before, Some(TokenKind::QuotedName | TokenKind::String)) {
            return; // an account's host
        }
        self.found.effects |= CodeEffects::READS_VARIABLES;
        let assigned = tokens.get(at + 1).is_some_and(|next| next.is(b':'));
        if assigned || self.place == Place::Variables {
            self.found.effects |= CodeEffects::SILENT;
        }
    }

    /// What a SET statement sets.
    fn take_target(&mut self, tokens: &[Token], at: usize) {
        let token = tokens[at];
        let text = &self.text[token.start()..token.end()];
        self.place = Place::Value(0);
        self.found.effects |= match token.kind() {
            TokenKind::UserVariable => CodeEffects::REPORTED,
            TokenKind::SystemVariable if SystemVariable::of(text).scope == Scope::Unsaid => {
                CodeEffects::SILENT
            }
            TokenKind::SystemVariable => CodeEffects::REPORTED,
            TokenKind::Word | TokenKind::QuotedName => {
                let name = name_of(self.text, token).unwrap_or_default();
                let dotted = tokens.get(at + 1).is_some_and(|next| next.is(b'.'));
                match &*name {
                    b"new" if dotted => CodeEffects::NONE,
                    _ if self.declared.contains(&name) => CodeEffects::NONE,
                    b"role" | b"transaction" | b"resource" | b"default" => CodeEffects::SILENT,
                    _ => CodeEffects::REPORTED,
                }
            }
            _ => CodeEffects::SILENT,
        };
    }

    fn take_word(&mut self, tokens: &[Token], at: usize) {
        let token = tokens[at];
        let text = &self.text[token.start()..token.end()];
        let is = |word: &str| is_word(text, word);
        let near =
            |at: Option<usize>, word: &str| at.is_some_and(|at| is_word_at(self.text, tokens, at, word));
        let (before, behind) = (at.checked_sub(1), Some(at + 1));
        let called = tokens.get(at + 1).is_some_and(|next| next.is(b'('));
        if called {
            self.take_call(tokens, at);
        }
        self.take_assignment(tokens, at);
        match text.len() {
            2 if is("do") => self.begin_statement(),
            3 if is("row") => self.begin_statement(),
            3 if is("set") && !called => {
                // A column's type, and CHARACTER SET.
                let of_charset = ["character", "char", "charset"].iter().any(|word| near(before, word));
                let of_columns = self.place == Place::Columns || self.kind == CodeKind::Table;
                if !of_columns && !of_charset {
                    self.place = Place::Target;
                }
            }
            4 if is("then") || is("else") || is("loop") => self.begin_statement(),
            4 if is("call") => self.place = Place::Variables,
            4 if is("into") => self.take_into(&tokens[at + 1..]),
            4 if is("next") && near(behind, "value") => self.found.effects |= CodeEffects::SILENT,
            5 if is("begin") => self.begin_statement(),
            4 if is("load") => self.place = Place::Columns,
            6 if is("signal") || ((is("update") || is("insert")) && !called) => self.place = Place::Columns,
            6 if is("repeat") && !called => self.begin_statement(),
            7 if is("replace") && !called && !near(before, "or") => self.place = Place::Columns,
            7 if is("nextval") => self.found.effects |= CodeEffects::SILENT,
            7 if is("handler") && !near(behind, "for") => self.found.effects |= CodeEffects::SILENT,
            8 if is("resignal") => self.place = Place::Columns,
            9 if is("temporary") => self.found.effects |= CodeEffects::REPORTED,
            11 if is("diagnostics") => self.place = Place::Variables,
            _ => {}
        }
    }

    /// Behind these words another statement may begin. Elsewhere they belong to CASE.
    fn begin_statement(&mut self) {
        if self.place == Place::Columns {
            self.place = Place::Other;
        }
    }

    /// The list behind INTO: of `SELECT` and `FETCH` it is variables, of `INSERT` a table.
    fn take_into(&mut self, tokens: &[Token]) {
        let items = tokens.split(|token| token.is(b','));
        for item in items {
            let is_variable = item.first().is_some_and(|token| token.kind() == TokenKind::UserVariable);
            if is_variable {
                self.found.effects |= CodeEffects::SILENT;
            }
            // A name, or several with dots between them; anything more is not of the list.
            let rest = item.iter().skip(1);
            if is_variable || !item.first().is_some_and(|token| token.is_name()) {
                break;
            }
            if rest.clone().any(|token| !token.is_name() && !token.is(b'.')) || item.len() % 2 == 0 {
                break;
            }
        }
    }

    /// `name := value` of Oracle's mode, which sets system variables, too.
    fn take_assignment(&mut self, tokens: &[Token], at: usize) {
        let follows = |place: usize, byte| tokens.get(place).is_some_and(|token| token.is(byte));
        let of_row = at.checked_sub(1).is_some_and(|before| tokens[before].is(b'.'));
        if follows(at + 1, b':') && follows(at + 2, b'=') && tokens[at + 2].glued() && !of_row {
            let name = name_of(self.text, tokens[at]).unwrap_or_default();
            if !self.declared.contains(&name) {
                self.found.effects |= CodeEffects::SILENT;
            }
        }
    }

    fn take_call(&mut self, tokens: &[Token], at: usize) {
        let token = tokens[at];
        let text = &self.text[token.start()..token.end()];
        let frees = [
            "release_lock",
            "release_all_locks",
            "service_release_locks",
            "version_tokens_unlock",
            "lastval",
        ];
        self.found.effects |= match function(text, false, true, ServerKind::Unknown) {
            Function::NamedLock | Function::Sequence if !frees.iter().any(|word| is_word(text, word)) => {
                CodeEffects::SILENT
            }
            Function::LastInsertId => {
                let sets = tokens.get(at + 2).is_some_and(|next| !next.is(b')'));
                let sets = sets && self.kind == CodeKind::Expression;
                CodeEffects::READS_INSERT_ID | if sets { CodeEffects::SILENT } else { CodeEffects::NONE }
            }
            _ => CodeEffects::NONE,
        };
    }
}

#[cfg(test)]
mod tests;
