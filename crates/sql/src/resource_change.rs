//! Finds the things that a connection holds by name and that a statement takes or gives back: temporary tables, named locks,
//! table locks, prepared statements in text, handlers.
//!
//! Only statements in their plain forms are read. Of anything else nobody learns what it left, and [`resource_change`] says so.

use crate::lexer::{Lexer, Token, TokenKind};
use crate::{CharsetSetting, Classification, Kind, LexMode, classify};

/// The change by a statement in the things that its client holds, once it has succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceChange {
    /// Nothing is taken, given back or renamed.
    Unchanged,
    /// `CREATE [OR REPLACE] TEMPORARY TABLE [IF NOT EXISTS] name ...`.
    CreatesTable(TableName),
    /// `DROP [TEMPORARY] TABLE [IF EXISTS] name, ...`: those of the names that are temporary tables, and others.
    DropsTables(Vec<TableName>),
    /// `LOCK TABLES`, `FLUSH TABLES name, ... WITH READ LOCK` or `FOR EXPORT`.
    LocksTables,
    /// `FLUSH TABLES WITH READ LOCK`, which the begin of a transaction does not give back.
    LocksAllTables,
    /// `LOCK INSTANCE FOR BACKUP`.
    LocksInstance,
    /// `UNLOCK TABLES`: both of the former.
    UnlocksTables,
    /// `UNLOCK INSTANCE`.
    UnlocksInstance,
    /// `SELECT GET_LOCK('name', seconds)` or `DO GET_LOCK(...)`: taken once more where the answer is 1.
    TakesLock(Box<[u8]>),
    /// `SELECT RELEASE_LOCK('name')` or `DO RELEASE_LOCK('name')`: held once less.
    FreesLock(Box<[u8]>),
    /// `SELECT RELEASE_ALL_LOCKS()` or `DO RELEASE_ALL_LOCKS()`.
    FreesAllLocks,
    /// `PREPARE name FROM ...`.
    Prepares {
        /// In lower case: the servers compare these names without regard to case.
        name: Box<[u8]>,
        /// Where it is a literal, and executing it leaves nothing behind but by stored code.
        text: Option<PreparedText>,
    },
    /// `EXECUTE name ...`.
    Executes(Box<[u8]>),
    /// `EXECUTE IMMEDIATE` of a literal whose execution leaves nothing behind but by stored code.
    ExecutesHarmless(PreparedText),
    /// `DEALLOCATE PREPARE name`, `DROP PREPARE name`.
    Deallocates(Box<[u8]>),
    /// `HANDLER table OPEN [[AS] name]`.
    OpensHandler(Box<[u8]>),
    /// `HANDLER name CLOSE`.
    ClosesHandler(Box<[u8]>),
}

/// A statement in a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedText {
    /// Without its quotes.
    pub text: Box<[u8]>,
    /// How it is read.
    pub mode: LexMode,
}

/// A table as it is written, quotes aside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableName {
    /// `None` stands for the session's default schema.
    pub schema: Option<Box<[u8]>>,
    /// Its name.
    pub table: Box<[u8]>,
}

/// No name that the servers accept is longer, in bytes: 64 characters (`NAME_CHAR_LEN`), here of ASCII.
const LONGEST_NAME: usize = 64;

/// More tables in one DROP are not told apart: nobody keeps the names of as many (`MOST_NAMES` of the engine's named_resources).
const MOST_DROPPED: usize = 1024;

/// Finds how `text`, the argument of a COM_QUERY, changes the things that its client holds; `None` where it is not a single
/// statement in one of the forms of [`ResourceChange`]. `mode` must be the session's.
///
/// Names are ASCII and without quotes in them: with any other bytes it depends on the character set which name they are. Their
/// keeper compares them byte by byte, which at worst takes two names of one thing for two.
pub fn resource_change(text: &[u8], mode: LexMode) -> Option<ResourceChange> {
    let mut reader = Reader::new(text, mode)?;
    let found = statement(&mut reader)?;
    reader.ends().then_some(found)
}

fn statement(reader: &mut Reader<'_>) -> Option<ResourceChange> {
    match reader.choose(&[
        "select",
        "do",
        "create",
        "drop",
        "alter",
        "truncate",
        "lock",
        "unlock",
        "flush",
        "prepare",
        "execute",
        "deallocate",
        "handler",
    ])? {
        "select" | "do" => function(reader),
        "create" => create(reader),
        "drop" => drop(reader),
        "alter" => alter(reader),
        "truncate" => reader.rest(ResourceChange::Unchanged),
        "lock" => lock(reader),
        "unlock" if reader.word("instance") => Some(ResourceChange::UnlocksInstance),
        "unlock" => reader.tables().then_some(ResourceChange::UnlocksTables),
        "flush" => flush(reader),
        "prepare" => prepare(reader),
        "execute" => execute(reader),
        "deallocate" => reader.word("prepare").then(|| deallocate(reader))?,
        _ => handler(reader),
    }
}

/// `GET_LOCK(name, seconds) [[AS] alias]` and its kin, alone.
fn function(reader: &mut Reader<'_>) -> Option<ResourceChange> {
    let called = reader.choose(&["get_lock", "release_lock", "release_all_locks"])?;
    reader.punctuation(b'(').then_some(())?;
    let found = match called {
        "get_lock" => {
            let name = reader.string()?;
            reader.punctuation(b',').then_some(())?;
            let _ = reader.punctuation(b'-');
            reader.number().then_some(ResourceChange::TakesLock(name))?
        }
        "release_lock" => ResourceChange::FreesLock(reader.string()?),
        _ => ResourceChange::FreesAllLocks,
    };
    reader.punctuation(b')').then_some(())?;
    if reader.word("as") || reader.current.is_name() {
        reader.bump();
    }
    Some(found)
}

fn create(reader: &mut Reader<'_>) -> Option<ResourceChange> {
    if reader.word("or") {
        reader.word("replace").then_some(())?;
    }
    if !reader.word("temporary") {
        // Whatever else it creates: the text is one statement without effects of its own.
        return reader.rest(ResourceChange::Unchanged);
    }
    reader.word("table").then_some(())?;
    if reader.word("if") {
        (reader.word("not") && reader.word("exists")).then_some(())?;
    }
    let name = reader.table_name()?;
    reader.rest(ResourceChange::CreatesTable(name))
}

fn drop(reader: &mut Reader<'_>) -> Option<ResourceChange> {
    if reader.word("prepare") {
        return deallocate(reader);
    }
    let temporary = reader.word("temporary");
    if !reader.tables() {
        return if temporary { None } else { reader.rest(ResourceChange::Unchanged) };
    }
    if reader.word("if") {
        reader.word("exists").then_some(())?;
    }
    let mut names = vec![reader.table_name()?];
    while reader.punctuation(b',') {
        (names.len() < MOST_DROPPED).then_some(())?;
        names.push(reader.table_name()?);
    }
    let _ = reader.word("restrict") || reader.word("cascade");
    Some(ResourceChange::DropsTables(names))
}

/// A temporary table keeps its name unless that word is there.
fn alter(reader: &mut Reader<'_>) -> Option<ResourceChange> {
    while !reader.current.ends_statement() {
        if reader.word("rename") {
            return None;
        }
        reader.bump();
    }
    Some(ResourceChange::Unchanged)
}

fn lock(reader: &mut Reader<'_>) -> Option<ResourceChange> {
    if reader.word("instance") {
        return (reader.word("for") && reader.word("backup")).then_some(ResourceChange::LocksInstance);
    }
    reader.tables().then_some(())?;
    reader.rest(ResourceChange::LocksTables)
}

fn flush(reader: &mut Reader<'_>) -> Option<ResourceChange> {
    let _ = reader.word("no_write_to_binlog") || reader.word("local");
    reader.tables().then_some(())?;
    if reader.word("with") {
        return (reader.word("read") && reader.word("lock")).then_some(ResourceChange::LocksAllTables);
    }
    reader.table_name()?;
    while reader.punctuation(b',') {
        reader.table_name()?;
    }
    let locks = match reader.choose(&["with", "for"])? {
        "with" => reader.word("read") && reader.word("lock"),
        _ => reader.word("export"),
    };
    locks.then_some(ResourceChange::LocksTables)
}

fn prepare(reader: &mut Reader<'_>) -> Option<ResourceChange> {
    let name = reader.name()?.to_ascii_lowercase().into();
    reader.word("from").then_some(())?;
    let text = reader.harmless_text();
    reader.rest(ResourceChange::Prepares { name, text })
}

fn execute(reader: &mut Reader<'_>) -> Option<ResourceChange> {
    if reader.word("immediate") {
        let text = reader.harmless_text()?;
        return reader.rest(ResourceChange::ExecutesHarmless(text));
    }
    let name = reader.name()?.to_ascii_lowercase().into();
    reader.rest(ResourceChange::Executes(name))
}

fn deallocate(reader: &mut Reader<'_>) -> Option<ResourceChange> {
    Some(ResourceChange::Deallocates(reader.name()?.to_ascii_lowercase().into()))
}

fn handler(reader: &mut Reader<'_>) -> Option<ResourceChange> {
    let TableName { schema, table } = reader.table_name()?;
    match reader.choose(&["open", "read", "close"])? {
        "open" => {
            let named = reader.word("as") || reader.current.is_name();
            Some(ResourceChange::OpensHandler(if named { reader.name()? } else { table }))
        }
        "read" => reader.rest(ResourceChange::Unchanged),
        _ => schema.is_none().then_some(ResourceChange::ClosesHandler(table)),
    }
}

/// Goes through a text word by word.
struct Reader<'a> {
    text: &'a [u8],
    mode: LexMode,
    lexer: Lexer<'a>,
    /// The token at hand.
    current: Token,
}

impl<'a> Reader<'a> {
    /// `None` where a part of the text is code for some servers only.
    fn new(text: &'a [u8], mode: LexMode) -> Option<Self> {
        if memchr::memmem::find(text, b"/*!").or_else(|| memchr::memmem::find(text, b"/*M!")).is_some() {
            return None;
        }
        let mut lexer = Lexer::new(text, mode);
        let current = lexer.next();
        Some(Self { text, mode, lexer, current })
    }

    fn bump(&mut self) {
        self.current = self.lexer.next();
    }

    fn bytes(&self) -> &'a [u8] {
        &self.text[self.current.start()..self.current.end()]
    }

    /// Passes over the word, where it is at hand.
    fn word(&mut self, word: &str) -> bool {
        let found =
            self.current.kind() == TokenKind::Word && self.bytes().eq_ignore_ascii_case(word.as_bytes());
        if found {
            self.bump();
        }
        found
    }

    /// Passes over the one of the words that is at hand.
    fn choose(&mut self, words: &[&'static str]) -> Option<&'static str> {
        words.iter().copied().find(|word| self.word(word))
    }

    fn tables(&mut self) -> bool {
        self.word("table") || self.word("tables")
    }

    fn punctuation(&mut self, byte: u8) -> bool {
        let found = self.current.is(byte);
        if found {
            self.bump();
        }
        found
    }

    fn number(&mut self) -> bool {
        let found = self.current.kind() == TokenKind::Number;
        if found {
            self.bump();
        }
        found
    }

    /// A name, without its quotes.
    fn name(&mut self) -> Option<Box<[u8]>> {
        let bytes = self.bytes();
        let bare = match self.current.kind() {
            TokenKind::Word => bytes,
            TokenKind::QuotedName => bytes.get(1..bytes.len() - 1)?,
            _ => return None,
        };
        let found = is_plain(bare).then(|| bare.into());
        self.bump();
        found
    }

    fn table_name(&mut self) -> Option<TableName> {
        let first = self.name()?;
        if !self.punctuation(b'.') {
            return Some(TableName { schema: None, table: first });
        }
        Some(TableName { schema: Some(first), table: self.name()? })
    }

    /// A string in quotes and nothing else before or in them.
    fn string(&mut self) -> Option<Box<[u8]>> {
        let bytes = self.bytes();
        let quoted = self.current.kind() == TokenKind::String && matches!(bytes, [b'\'' | b'"', ..]);
        let bare = bytes.get(1..bytes.len().checked_sub(1)?).filter(|bare| quoted && is_plain(bare))?;
        self.bump();
        Some(bare.into())
    }

    /// The literal at hand, where it leaves nothing behind as a statement. Texts with quotes or escapes in them are not looked
    /// into.
    fn harmless_text(&mut self) -> Option<PreparedText> {
        let bytes = self.bytes();
        let quoted = self.current.kind() == TokenKind::String && matches!(bytes, [b'\'' | b'"', ..]);
        let bare = bytes.get(1..bytes.len().saturating_sub(1)).filter(|_| quoted)?;
        let quote = bytes[0];
        let plain = !bare.iter().any(|&byte| byte == quote || byte == b'\\');
        let mode = self.mode;
        self.bump();
        // It may only be a part of an expression.
        let is_all = self.current.ends_statement() || self.bytes().eq_ignore_ascii_case(b"using");
        let harmless = plain && is_all && is_harmless(&classify(bare, mode));
        harmless.then(|| PreparedText { text: bare.into(), mode })
    }

    /// Passes over the rest of the statement.
    fn rest(&mut self, found: ResourceChange) -> Option<ResourceChange> {
        while !self.current.ends_statement() {
            self.bump();
        }
        Some(found)
    }

    /// Says whether nothing follows, and all was read as every server reads it.
    fn ends(&mut self) -> bool {
        while self.current.is(b';') {
            self.bump();
        }
        self.current.kind() == TokenKind::End && !self.lexer.is_doubtful()
    }
}

/// Letters, digits and signs of ASCII, but no quote and no backslash.
fn is_plain(name: &[u8]) -> bool {
    let plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\'' | b'"' | b'`' | b'\\');
    !name.is_empty() && name.len() <= LONGEST_NAME && name.iter().all(plain)
}

/// Says whether a statement that is executed by name leaves as little behind as if it had come by itself. DDL might rename a
/// temporary table. The effects of a SET that the server does not report are asked for only where the SET itself is seen.
fn is_harmless(statement: &Classification) -> bool {
    use Kind::{Delete, Do, Explain, Insert, Replace, Select, Set, Show, Update};
    statement.effects.is_empty()
        && statement.variables.unreported.is_empty()
        && !statement.several
        && !statement.sets_pool_variable
        && statement.charset == CharsetSetting::Untouched
        && matches!(statement.kind, Select | Insert | Replace | Update | Delete | Do | Set | Show | Explain)
}

#[cfg(test)]
mod tests;
