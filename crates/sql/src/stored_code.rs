//! Finds the possible effects of code that is stored on the server (triggers, routines, views, defaults of columns) on the
//! session of the client that makes it run.
//!
//! Its text is looked at like a statement's: for words that matter, not as a parser would. What is not seen to be harmless counts as
//! harmful. What such code may not contain at all is left out: dynamic SQL, LOCK TABLES, FLUSH, the ends of transactions
//! (`sp_get_flags_for_command` in both servers' `sql/sp_head.cc`; manual, "Restrictions on Stored Programs").

use std::collections::BTreeSet;
use std::ops::{BitOr, BitOrAssign};

use memchr::memchr2_iter;

use crate::LexMode;
use crate::functions::{Function, function};
use crate::lexer::{Lexer, Token, TokenKind};
use crate::system_variable::{Scope, SystemVariable, without_quotes};

/// The possible effects of stored code beside reading and writing tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeEffects(u8);

impl CodeEffects {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// The code changes session state by a statement after which the server reports a change: `SET name`, `SET @name`, temporary
    /// tables.
    pub const REPORTED: Self = Self(1);
    /// The code changes state that no report tells of: `SET @@name` without a scope on MariaDB, `INTO @name`, `@name := ...`,
    /// named locks, sequences, or something that was not understood.
    pub const SILENT: Self = Self(1 << 1);
    /// The code reads user variables.
    pub const READS_VARIABLES: Self = Self(1 << 2);
    /// The code reads LAST_INSERT_ID().
    pub const READS_INSERT_ID: Self = Self(1 << 3);

    /// The bits, one for each member.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Those of these bits; `None` where one of them is no member's.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & !Self::ALL.0 == 0 { Some(Self(bits)) } else { None }
    }
    /// The code takes or gives up a role, which in MySQL outlasts the code. It is silent, too.
    pub const ROLE: Self = Self(1 << 4);
    /// All of these: of code that cannot be read.
    pub const ALL: Self = Self(0b1_1111);

    /// Says whether all members of `other` are in this set.
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

    /// Says whether there is no member.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Says whether the code may leave anything in the session.
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

/// The findings in the text of stored code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredCode {
    /// The effects of the text itself.
    pub effects: CodeEffects,
    /// All words and names in it, folded: it may do what those do of them that are tables, views or routines.
    pub names: BTreeSet<Box<[u8]>>,
}

/// The kind of code that a body belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeKind {
    /// A trigger or a routine: LAST_INSERT_ID() is as before at its end (manual, "Information Functions").
    Routine,
    /// A view, or a column's default: what it calls, the statement calls itself.
    Expression,
    /// A definition of tables: SET in it is about their columns.
    Table,
}

/// Finds the possible effects of the body of stored code. `parameters` are those of a routine, as they are declared; `mode` is
/// the one that it was created in.
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

/// Says whether the letters of a word stand in a text, in either case, alone or within another word. That costs much less than to
/// look for it in [`names`], and never overlooks a word that is there.
pub fn has_letters_of(word: &[u8], text: &[u8]) -> bool {
    let Some(&first) = word.first() else { return true };
    memchr2_iter(first.to_ascii_lowercase(), first.to_ascii_uppercase(), text)
        .any(|start| text[start..].get(..word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word)))
}

pub(crate) fn tokens_of(text: &[u8], mode: LexMode) -> (Vec<Token>, bool) {
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

pub(crate) fn is_word(written: &[u8], word: &str) -> bool {
    written.eq_ignore_ascii_case(word.as_bytes())
}

pub(crate) fn is_word_at(text: &[u8], tokens: &[Token], place: usize, word: &str) -> bool {
    tokens.get(place).is_some_and(|token| {
        token.kind() == TokenKind::Word && is_word(&text[token.start()..token.end()], word)
    })
}

/// The name that a token may be, folded.
pub(crate) fn name_of(text: &[u8], token: Token) -> Option<Box<[u8]>> {
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

/// The names behind DECLARE, which may be one of them itself.
fn declared_names(text: &[u8], tokens: &[Token]) -> Vec<Box<[u8]>> {
    let mut names = Vec::new();
    let (mut is_name, mut behind_name) = (false, false);
    for (place, &token) in tokens.iter().enumerate() {
        let name = is_name.then(|| name_of(text, token)).flatten();
        let was_behind = std::mem::replace(&mut behind_name, name.is_some());
        is_name = was_behind && token.is(b',') || is_word_at(text, tokens, place, "declare");
        names.extend(name);
    }
    names
}

fn is_called(tokens: &[Token], at: usize) -> bool {
    tokens.get(at + 1).is_some_and(|next| next.is(b'('))
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
    into: IntoList,
    found: StoredCode,
}

/// Where in lists behind INTO the reader is: of `SELECT` and `FETCH` they are variables, of `INSERT` a table. `INTO` may be the name
/// of an item, too, so that it can be in several places at once.
#[derive(Clone, Copy, Debug, Default)]
struct IntoList {
    /// An item begins.
    at_item: bool,
    /// Behind so many names and dots of an item that it may end.
    behind_item: bool,
    /// Behind one more.
    within_item: bool,
}

impl IntoList {
    /// The word is there.
    fn begins(&mut self) {
        self.at_item = true;
    }

    /// Goes on; whether the token is a variable of a list. An item is a name, or several with dots between them; anything more is
    /// not of the list.
    fn takes_variable(&mut self, token: Token) -> bool {
        let before = std::mem::take(self);
        let is_part = token.is_name() || token.is(b'.');
        self.at_item = before.behind_item && token.is(b',');
        self.behind_item = before.at_item && token.is_name() || before.within_item && is_part;
        self.within_item = before.behind_item && is_part;
        before.at_item && token.kind() == TokenKind::UserVariable
    }
}

impl<'a> Reader<'a> {
    fn new(kind: CodeKind, text: &'a [u8], declared: BTreeSet<Box<[u8]>>) -> Self {
        let (place, into) = (Place::Other, IntoList::default());
        Self { kind, text, declared, place, into, found: StoredCode::default() }
    }

    fn take(&mut self, tokens: &[Token], at: usize) {
        let token = tokens[at];
        let text = &self.text[token.start()..token.end()];
        if self.into.takes_variable(token) {
            self.found.effects |= CodeEffects::SILENT;
        }
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
            TokenKind::Word => {
                self.take_name(tokens, at);
                self.take_word(tokens, at);
            }
            TokenKind::QuotedName => self.take_name(tokens, at),
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

    /// Takes in the variable that a SET statement sets.
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
                    b"role" => CodeEffects::SILENT | CodeEffects::ROLE,
                    b"transaction" | b"resource" | b"default" => CodeEffects::SILENT,
                    _ => CodeEffects::REPORTED,
                }
            }
            _ => CodeEffects::SILENT,
        };
    }

    /// A word or a name in quotes, which calls a function that comes with the server, too.
    fn take_name(&mut self, tokens: &[Token], at: usize) {
        if is_called(tokens, at) {
            self.take_call(tokens, at);
        }
        self.take_assignment(tokens, at);
    }

    fn take_word(&mut self, tokens: &[Token], at: usize) {
        let token = tokens[at];
        let text = &self.text[token.start()..token.end()];
        let is = |word: &str| is_word(text, word);
        let near =
            |at: Option<usize>, word: &str| at.is_some_and(|at| is_word_at(self.text, tokens, at, word));
        let (before, behind) = (at.checked_sub(1), Some(at + 1));
        let called = is_called(tokens, at);
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
            4 if is("into") => self.into.begins(),
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
        let quoted = tokens[at].kind() == TokenKind::QuotedName;
        let name = name_of(self.text, tokens[at]).unwrap_or_default();
        let frees = [
            "release_lock",
            "release_all_locks",
            "service_release_locks",
            "version_tokens_unlock",
            "lastval",
        ];
        self.found.effects |= match function(&name, quoted, true, LexMode::default()) {
            Function::NamedLock | Function::Sequence if !frees.iter().any(|word| is_word(&name, word)) => {
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
