//! Which statement it is, from its first words.

use crate::body::{self, Stored};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;
use crate::scan::{CallsFrom, Scanner};
use crate::{CharsetSetting, Effects, KillTarget, Kind, Reads, SessionFunction, Whom, set};

/// One statement of a text; what its words do beyond this is with the scanner.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub kind: Kind,
    pub charset: CharsetSetting,
    /// `sql_mode` changes, and with it how later statements of the same text are cut into tokens.
    pub sets_lex_mode: bool,
    pub only_reads: bool,
    /// Its answer follows from its text, the tables and the session state, as far as the text tells.
    pub repeatable: bool,
    /// True if the statement names no table and no view.
    pub without_tables: bool,
    pub releases_connection: bool,
    /// True if the statement may give rows numbers that LAST_INSERT_ID() tells.
    pub inserts: bool,
    /// MariaDB's `SET STATEMENT ... FOR`, or MySQL's hint `SET_VAR`.
    pub sets_for_itself: bool,
}

impl Statement {
    /// No statement at all.
    pub const EMPTY: Self = Self {
        kind: Kind::Empty,
        charset: CharsetSetting::Untouched,
        sets_lex_mode: false,
        only_reads: false,
        repeatable: false,
        without_tables: false,
        releases_connection: false,
        inserts: false,
        sets_for_itself: false,
    };
}

/// Reads one statement up to its semicolon or the end of the text.
pub(crate) fn read(scanner: &mut Scanner<'_>) -> Statement {
    scanner.begin_statement();
    let mut statement = Statement::EMPTY;
    statement.kind = kind(scanner, &mut statement);
    if statement.kind == Kind::Other {
        scanner.add_effect(Effects::UNKNOWN);
    }
    if matches!(statement.kind, Kind::Commit | Kind::Rollback) {
        statement.releases_connection = releases(scanner);
    }
    scanner.finish_statement();
    for name in scanner.take_hinted() {
        set::note_hinted(scanner, name);
        statement.only_reads = false; // the values may change what it does
        // A SET takes no hints, for either server: what it sets stays.
        statement.sets_for_itself |= statement.kind != Kind::Set;
    }
    let remarks = scanner.remarks;
    statement.inserts = match statement.kind {
        Kind::Insert | Kind::Replace | Kind::Load => true,
        // CREATE TABLE ... SELECT, with a column that numbers its rows.
        Kind::Ddl => remarks.has_select,
        _ => false,
    };
    statement.only_reads &= !remarks.more_than_reads && !remarks.may_wait;
    statement.repeatable = statement.only_reads && !remarks.varies;
    statement.without_tables = match statement.kind {
        Kind::Begin | Kind::Commit | Kind::Rollback | Kind::Savepoint | Kind::Use | Kind::Empty => true,
        Kind::Set | Kind::Select | Kind::Do => !remarks.names_tables,
        _ => false,
    };
    statement
}

/// Reads as much of the statement as its kind takes.
fn kind(scanner: &mut Scanner<'_>, statement: &mut Statement) -> Kind {
    statement.only_reads = true;
    while scanner.is_word("set") {
        scanner.bump();
        if !scanner.is_word("statement") {
            if statement.sets_for_itself {
                // What it sets stays, and is not told from what goes back.
                scanner.add_effect(Effects::SESSION_VARIABLE);
            }
            set::read(scanner, statement);
            return Kind::Set;
        }
        if !set::passes_values(scanner) {
            return Kind::Other;
        }
        statement.only_reads = false; // the values may change what it does
        statement.sets_for_itself = true;
    }
    first_words(scanner)
}

fn first_words(scanner: &mut Scanner<'_>) -> Kind {
    if scanner.current.is(b'(') {
        return parenthesised(scanner);
    }
    if scanner.current.kind() != TokenKind::Word {
        return Kind::Other;
    }
    match scanner.keyword {
        Keyword::Select | Keyword::Values | Keyword::Table => return Kind::Select,
        Keyword::With => return with(scanner).unwrap_or_else(|| parenthesised(scanner)),
        Keyword::Update => return Kind::Update,
        Keyword::Delete => return Kind::Delete,
        _ => {}
    }
    let mut word = [0; LONGEST_FIRST_WORD];
    let bytes = scanner.bytes(scanner.current);
    let Some(word) = word.get_mut(..bytes.len()) else { return Kind::Other };
    word.copy_from_slice(bytes);
    word.make_ascii_lowercase();
    data_statement(scanner, word).or_else(|| other_statement(scanner, word)).unwrap_or(Kind::Other)
}

/// `deallocate`.
const LONGEST_FIRST_WORD: usize = 10;

/// Statements about rows and transactions.
fn data_statement(scanner: &mut Scanner<'_>, word: &[u8]) -> Option<Kind> {
    let kind = match word {
        b"insert" => Kind::Insert,
        b"replace" => Kind::Replace,
        b"commit" => Kind::Commit,
        b"savepoint" => Kind::Savepoint,
        // SIGNAL does nothing but fail or warn.
        b"do" | b"signal" | b"resignal" => Kind::Do,
        b"use" => Kind::Use,
        b"explain" | b"describe" | b"desc" => Kind::Explain,
        b"call" => {
            scanner.add_effect(Effects::ROUTINE);
            Kind::Call
        }
        b"begin" => {
            scanner.bump();
            if scanner.is_word("work") {
                scanner.bump();
            }
            // Anything more is a compound statement (BEGIN NOT ATOMIC, Oracle mode).
            if scanner.current.ends_statement() { Kind::Begin } else { Kind::Other }
        }
        b"start" => {
            scanner.bump();
            if scanner.is_word("transaction") { Kind::Begin } else { Kind::Admin }
        }
        b"rollback" => {
            scanner.bump();
            if scanner.is_word("work") {
                scanner.bump();
            }
            if scanner.is_word("to") { Kind::Savepoint } else { Kind::Rollback }
        }
        b"release" => {
            scanner.bump();
            if scanner.is_word("savepoint") { Kind::Savepoint } else { Kind::Other }
        }
        b"load" => {
            scanner.bump();
            if scanner.is_word("index") { Kind::Admin } else { Kind::Load }
        }
        b"handler" => {
            scanner.add_effect(Effects::HANDLER);
            Kind::Handler
        }
        b"xa" => {
            scanner.add_effect(Effects::XA);
            Kind::Xa
        }
        b"show" => show(scanner),
        b"get" => {
            scanner.bump();
            if scanner.is_word("current") || scanner.is_word("stacked") {
                scanner.bump();
            }
            if !scanner.is_word("diagnostics") {
                return Some(Kind::Other);
            }
            scanner.findings.reads |= Reads::DIAGNOSTICS;
            Kind::ShowDiagnostics
        }
        _ => return None,
    };
    Some(kind)
}

/// Definitions, prepared statements and what administrators do.
fn other_statement(scanner: &mut Scanner<'_>, word: &[u8]) -> Option<Kind> {
    let kind = match word {
        b"create" => create(scanner),
        b"drop" => {
            scanner.names_accounts = true;
            scanner.calls_from = CallsFrom::Never;
            scanner.bump();
            if scanner.is_word("prepare") { prepared(scanner, Kind::Deallocate) } else { Kind::Ddl }
        }
        b"alter" => alter(scanner),
        b"rename" | b"truncate" => {
            scanner.names_accounts = true;
            scanner.calls_from = CallsFrom::Never;
            Kind::Ddl
        }
        b"prepare" => prepared(scanner, Kind::Prepare),
        b"execute" => prepared(scanner, Kind::Execute),
        b"deallocate" => prepared(scanner, Kind::Deallocate),
        b"lock" => {
            scanner.add_effect(Effects::LOCK_TABLES);
            Kind::LockTables
        }
        b"unlock" => Kind::UnlockTables,
        b"kill" => kill(scanner),
        b"analyze" => analyze(scanner),
        b"flush" => flush(scanner),
        b"backup" => {
            scanner.add_effect(Effects::LOCK_TABLES);
            Kind::Admin
        }
        b"binlog" => {
            // The format description that one of these brings is kept for the next one.
            scanner.add_effect(Effects::UNKNOWN);
            Kind::Admin
        }
        b"grant" | b"revoke" | b"change" => {
            scanner.names_accounts = true;
            scanner.calls_from = CallsFrom::Never;
            Kind::Admin
        }
        b"optimize" | b"check" | b"checksum" | b"repair" | b"cache" | b"reset" | b"install"
        | b"uninstall" | b"import" | b"help" | b"clone" | b"stop" | b"restart" | b"shutdown" | b"purge" => {
            Kind::Admin
        }
        _ => return None,
    };
    Some(kind)
}

/// `COMMIT [WORK] [AND [NO] CHAIN] [[NO] RELEASE]`.
fn releases(scanner: &mut Scanner<'_>) -> bool {
    let mut negated = false;
    while !scanner.current.ends_statement() {
        if scanner.is_word("release") {
            return !negated;
        }
        negated = scanner.is_word("no");
        scanner.bump();
    }
    false
}

fn prepared(scanner: &mut Scanner<'_>, kind: Kind) -> Kind {
    scanner.add_effect(Effects::TEXT_PREPARE);
    kind
}

fn parenthesised(scanner: &mut Scanner<'_>) -> Kind {
    loop {
        while scanner.current.is(b'(') {
            scanner.bump();
        }
        let kind = match scanner.keyword {
            Keyword::Select | Keyword::Values | Keyword::Table => Some(Kind::Select),
            Keyword::With => with(scanner),
            _ => Some(Kind::Other),
        };
        if let Some(kind) = kind {
            return kind;
        }
    }
}

/// Finds the statement behind the names of a `WITH`; `None` where it stands in parentheses, which are at hand then.
fn with(scanner: &mut Scanner<'_>) -> Option<Kind> {
    let depth = scanner.depth;
    loop {
        scanner.bump();
        if scanner.current.ends_statement() {
            return Some(Kind::Other);
        }
        if scanner.depth != depth {
            continue;
        }
        match scanner.keyword {
            Keyword::Select | Keyword::Values | Keyword::Table => return Some(Kind::Select),
            Keyword::Update => return Some(Kind::Update),
            Keyword::Delete => return Some(Kind::Delete),
            Keyword::Insert => return Some(Kind::Other), // no server takes it yet
            _ if scanner.current.is(b'(') && scanner.previous().is(b')') => return None,
            _ => {}
        }
    }
}

fn show(scanner: &mut Scanner<'_>) -> Kind {
    scanner.names_accounts = true; // SHOW GRANTS FOR u@h
    scanner.bump();
    let warnings = scanner.is_word("warnings");
    let diagnostics = if warnings || scanner.is_word("errors") {
        scanner.bump();
        true
    } else if scanner.is_word("count") {
        scanner.bump();
        scanner.current.is(b'(')
    } else {
        false
    };
    if !diagnostics {
        if scanner.is_word("session") || scanner.is_word("local") {
            scanner.bump();
        }
        if scanner.is_word("variables") {
            scanner.findings.reads |= Reads::WAIT_TIMEOUT;
        }
        return Kind::Show;
    }
    scanner.findings.reads |= Reads::DIAGNOSTICS;
    if warnings && scanner.current.ends_statement() { Kind::ShowWarnings } else { Kind::ShowDiagnostics }
}

/// `CREATE` up to the type of the object; the bodies of routines and views are passed over.
fn create(scanner: &mut Scanner<'_>) -> Kind {
    const OBJECTS: [&str; 13] = [
        "table",
        "index",
        "database",
        "schema",
        "user",
        "role",
        "server",
        "tablespace",
        "logfile",
        "undo",
        "sequence",
        "resource",
        "spatial",
    ];
    scanner.names_accounts = true;
    scanner.calls_from = CallsFrom::Select;
    scanner.bump();
    while !scanner.current.ends_statement() && !OBJECTS.iter().any(|object| scanner.is_word(object)) {
        if scanner.is_word("temporary") {
            scanner.add_effect(Effects::TEMPORARY_TABLE);
        }
        if let Some(stored) = Stored::of(scanner) {
            body::pass(scanner, stored);
            break;
        }
        scanner.bump();
    }
    Kind::Ddl
}

fn alter(scanner: &mut Scanner<'_>) -> Kind {
    scanner.names_accounts = true;
    scanner.calls_from = CallsFrom::Never;
    scanner.bump();
    while !scanner.current.ends_statement() && !scanner.is_word("table") {
        if let Some(stored) = Stored::of(scanner) {
            body::pass(scanner, stored);
            break;
        }
        scanner.bump();
    }
    Kind::Ddl
}

/// MariaDB's `ANALYZE <statement>` executes it, and shows how.
fn analyze(scanner: &mut Scanner<'_>) -> Kind {
    scanner.bump();
    let tables = ["table", "tables", "local", "no_write_to_binlog"].iter().any(|word| scanner.is_word(word));
    if tables {
        scanner.calls_from = CallsFrom::Never; // ... PERSISTENT FOR COLUMNS (a)
        return Kind::Admin;
    }
    if scanner.is_word("format") {
        for _ in 0..3 {
            scanner.bump(); // FORMAT = JSON
        }
    }
    match scanner.keyword {
        Keyword::Insert if scanner.is_word("replace") => Kind::Replace,
        Keyword::Insert => Kind::Insert,
        Keyword::Update => Kind::Update,
        Keyword::Delete => Kind::Delete,
        _ => Kind::Explain,
    }
}

/// `FLUSH TABLES ... WITH READ LOCK` and `FOR EXPORT` hold locks; nothing else in `FLUSH` has these words.
fn flush(scanner: &mut Scanner<'_>) -> Kind {
    while !scanner.current.ends_statement() {
        if scanner.keyword == Keyword::With || scanner.is_word("export") {
            scanner.add_effect(Effects::LOCK_TABLES);
        }
        if scanner.is_word("user_variables") {
            scanner.add_effect(Effects::USER_VARIABLE);
        }
        scanner.bump();
    }
    Kind::Admin
}

/// `KILL [HARD | SOFT] [CONNECTION | QUERY [ID]] [USER] who`.
fn kill(scanner: &mut Scanner<'_>) -> Kind {
    scanner.names_accounts = true;
    scanner.bump();
    let mut query_only = false;
    let mut by_thread = true;
    loop {
        if scanner.is_word("query") {
            query_only = true;
        } else if scanner.is_word("id") || scanner.is_word("user") {
            by_thread = false;
        } else if !["hard", "soft", "connection"].iter().any(|word| scanner.is_word(word)) {
            break;
        }
        scanner.bump();
    }
    let whom = if by_thread { whom_to_kill(scanner) } else { Whom::Other };
    Kind::Kill(KillTarget { query_only, whom })
}

/// The expression with the id of a thread.
fn whom_to_kill(scanner: &mut Scanner<'_>) -> Whom {
    let first = scanner.current;
    if first.ends_statement() {
        return Whom::Other;
    }
    scanner.bump();
    if scanner.current.ends_statement() {
        let bytes = scanner.bytes(first);
        match first.kind() {
            TokenKind::Number => {
                let id = std::str::from_utf8(bytes).ok().and_then(|digits| digits.parse().ok());
                return id.map_or(Whom::Other, Whom::Id);
            }
            TokenKind::Parameter => return Whom::Parameter,
            _ => {}
        }
    }
    scanner.finish_statement();
    let whole = first.start()..scanner.previous().end();
    let call = scanner.findings.calls.last().filter(|call| call.span == whole);
    match call.map(|call| call.function) {
        Some(SessionFunction::ConnectionId) => Whom::Oneself,
        _ => Whom::Other,
    }
}
