//! The answer about a statement.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::lexer::{Lexer, TokenKind};
use crate::scan::Scanner;
use crate::statement::{self, Statement};
use crate::{Effects, PoolVariable, Reads, TrackerVariable, TransactionCommand, digest, transaction_command};

/// The settings that change how a text is read: the parts of the session's `sql_mode` and of `character_set_client` that decide
/// how it is cut into tokens, and the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LexMode {
    /// `ANSI_QUOTES`: double quotes enclose identifiers.
    pub ansi_quotes: bool,
    /// `NO_BACKSLASH_ESCAPES`: a backslash in a string is an ordinary character.
    pub no_backslash_escapes: bool,
    /// The byte of the non-breaking blank in the client's single-byte character set, where the servers take it for a blank.
    pub high_blank: Option<u8>,
    /// The server that built-in functions are those of.
    pub server: ServerKind,
    /// Its version, 101114 for 10.11.14. With 0 whatever any version has built in counts.
    pub version: u32,
}

/// Which kind of server reads a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ServerKind {
    /// One or the other: what either has built in counts as built in.
    #[default]
    Unknown,
    /// MariaDB.
    MariaDb,
    /// MySQL and Percona Server.
    MySql,
}

/// The effects of a text, over all statements in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classification {
    /// Which statement it is; the first where there are several.
    pub kind: Kind,
    /// The traces that it leaves on its connection: the union over all statements.
    pub effects: Effects,
    /// The traces of its predecessor that it reads: the union over all statements.
    pub reads: Reads,
    /// More than one statement, or not sure.
    pub several: bool,
    /// How many they are at least, without one that is only a comment at the end.
    pub statements: u32,
    /// One [`Kind::Select`] that only reads: no effects, no reads of session state, no locking clause, nothing written to
    /// a file, and no function that is there to wait.
    pub plain_read: bool,
    /// True of a [`Self::plain_read`] whose every function is built in and deterministic, and that reads no variable. At one
    /// moment everybody with the same rights and session state gets the same answer, as far as the text tells. Functions that a
    /// view calls are not seen.
    pub repeatable: bool,
    /// A hash of the normalised text; the same for statements that differ in their literals only. Stable over runs.
    pub fingerprint: u64,
    /// Where the session's last results are read; in the order of the text. Empty costs no allocation.
    pub calls: Vec<SessionCall>,
    /// The change of the session's character sets.
    pub charset: CharsetSetting,
    /// No statement of the text names a table or a view, as far as its words tell: of [`Kind::Set`], [`Kind::Select`], [`Kind::Do`]
    /// and what is about transactions and schemas. Routines that it calls are in `effects`.
    pub without_tables: bool,
    /// `LAST_INSERT_ID(expr)` is called: the statement decides what the next `LAST_INSERT_ID()` says.
    pub sets_last_insert_id: bool,
    /// A `SET` of a variable of the thread pool, see [`crate::pool_set`].
    pub sets_pool_variable: bool,
    /// `COMMIT RELEASE`, `ROLLBACK RELEASE`: the server closes the connection afterwards.
    pub releases_connection: bool,
    /// The last result set of the text is that of a [`Kind::Select`], if there is one: behind it stand statements without.
    pub rows_of_select: bool,
    /// A comment stands behind the last semicolon, which the servers answer like one statement more.
    pub comment_at_end: bool,
    /// One of the statements is [`Kind::Insert`], [`Kind::Replace`] or [`Kind::Load`], or creates a table from a selection: rows may
    /// get numbers that LAST_INSERT_ID() tells.
    pub inserts: bool,
    /// `EXECUTE`, `PREPARE`, `CALL` or `AGAINST` stands in it: a syntax error may be one of what these have the server parse, behind
    /// what the text has done before (`BEGIN NOT ATOMIC ... EXECUTE IMMEDIATE ... END`; the search terms of InnoDB's full-text indexes).
    pub parses_while_it_runs: bool,
    /// The session variables that it sets.
    pub variables: SetVariables,
    /// It begins or ends a transaction, and does nothing else.
    pub transaction: Option<TransactionCommand>,
}

/// The session variables that a text sets, by their names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetVariables {
    /// All of them.
    pub all: BTreeSet<Box<[u8]>>,
    /// Those of them without a report of the server that could be relied on: MariaDB's tracker passes over `SET @@name = value`, and
    /// tells of the values in `SET STATEMENT` but not always that they have gone back; MySQL's tells of those in the hint `SET_VAR`,
    /// which have.
    pub unreported: BTreeSet<Box<[u8]>>,
    /// One statement, `SET STATEMENT ... FOR` or with the hint `SET_VAR`: they have their former values at its end.
    pub for_its_duration: bool,
}

impl Classification {
    /// That of a command without a text, which leaves and reads nothing.
    #[must_use]
    pub fn none() -> Self {
        Self {
            kind: Kind::Other,
            effects: Effects::NONE,
            reads: Reads::NONE,
            several: false,
            statements: 1,
            plain_read: false,
            repeatable: false,
            fingerprint: 0,
            calls: Vec::new(),
            charset: CharsetSetting::Untouched,
            without_tables: false,
            sets_last_insert_id: false,
            sets_pool_variable: false,
            releases_connection: false,
            rows_of_select: false,
            comment_at_end: false,
            inserts: false,
            parses_while_it_runs: false,
            variables: SetVariables::default(),
            transaction: None,
        }
    }

    /// The bytes on the heap for it: they may be more than the text has. The nodes of a B-tree are at least half full.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let names = self.variables.all.iter().chain(&self.variables.unreported);
        names.map(|name| name.len() + 2 * size_of::<Box<[u8]>>()).sum::<usize>()
            + self.calls.len() * size_of::<SessionCall>()
    }

    /// Says whether it may write to tables: of those that cannot, no trigger runs.
    #[must_use]
    pub fn may_write(&self) -> bool {
        self.several || !matches!(self.kind, Kind::Select | Kind::Show | Kind::Do)
    }
}

/// Which statement it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Blanks and comments.
    Empty,
    /// `SELECT`, `WITH ... SELECT`, `VALUES`, `TABLE`, also in parentheses.
    Select,
    /// `INSERT`, also in MariaDB's `ANALYZE <statement>`, as the three below.
    Insert,
    /// `REPLACE`.
    Replace,
    /// `UPDATE`, `WITH ... UPDATE`.
    Update,
    /// `DELETE`, `WITH ... DELETE`.
    Delete,
    /// `CALL`.
    Call,
    /// `DO`, `SIGNAL`, `RESIGNAL`.
    Do,
    /// `SET` in all its forms but MariaDB's `SET STATEMENT ... FOR`, which has the kind of its inner statement.
    Set,
    /// `USE`.
    Use,
    /// `SHOW`, but for the two below.
    Show,
    /// Exactly `SHOW WARNINGS`.
    ShowWarnings,
    /// `SHOW ERRORS`, `SHOW WARNINGS LIMIT`, `SHOW COUNT(*) WARNINGS`, `GET DIAGNOSTICS`.
    ShowDiagnostics,
    /// `EXPLAIN`, `DESCRIBE`, `DESC`, MariaDB's `ANALYZE <statement>` of one that selects.
    Explain,
    /// `BEGIN [WORK]`, `START TRANSACTION`.
    Begin,
    /// `COMMIT`.
    Commit,
    /// `ROLLBACK`, but not to a savepoint.
    Rollback,
    /// `SAVEPOINT`, `RELEASE SAVEPOINT`, `ROLLBACK TO`.
    Savepoint,
    /// `LOCK TABLES`, `LOCK INSTANCE`.
    LockTables,
    /// `UNLOCK TABLES`, `UNLOCK INSTANCE`.
    UnlockTables,
    /// `CREATE`, `ALTER`, `DROP`, `RENAME`, `TRUNCATE`, accounts included.
    Ddl,
    /// `PREPARE`.
    Prepare,
    /// `EXECUTE`, `EXECUTE IMMEDIATE`.
    Execute,
    /// `DEALLOCATE PREPARE`, `DROP PREPARE`.
    Deallocate,
    /// `HANDLER`.
    Handler,
    /// `LOAD DATA`, `LOAD XML`.
    Load,
    /// `KILL`.
    Kill(KillTarget),
    /// `XA`.
    Xa,
    /// Statements of administrators: `ANALYZE`, `OPTIMIZE`, `CHECK`, `REPAIR TABLE`, `GRANT`, `REVOKE`, `FLUSH`, `RESET`, ...
    Admin,
    /// Anything else; the effects hold [`Effects::UNKNOWN`].
    Other,
}

/// The victim of a `KILL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KillTarget {
    /// `KILL QUERY`: the statement ends, the connection stays.
    pub query_only: bool,
    /// By what the connection is named.
    pub whom: Whom,
}

/// See [`KillTarget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// A plain number.
    Id(u64),
    /// `CONNECTION_ID()`, and nothing more.
    Oneself,
    /// A lone `?` of a prepared statement.
    Parameter,
    /// `KILL USER`, MariaDB's `KILL QUERY ID`, any other expression: only the server knows.
    Other,
}

/// A function or variable with something that the last statement left behind, or of which the client has a value of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionCall {
    /// Which.
    pub function: SessionFunction,
    /// Its bytes in the text: from the name to the closing parenthesis, or the variable from its `@@` on.
    pub span: Range<usize>,
    /// The item of the outermost select list in which it stands, where that has no alias for certain: the column has its name from
    /// this text, so that another one in the place of the call needs `` AS `the original text` ``.
    pub names_item: Option<Range<usize>>,
    /// An earlier statement of the same text leaves behind what this asks for: only the server knows it then.
    pub left_by_text: bool,
}

/// See [`SessionCall`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionFunction {
    /// `ROW_COUNT()`.
    RowCount,
    /// `FOUND_ROWS()`.
    FoundRows,
    /// `CONNECTION_ID()`, `@@pseudo_thread_id`.
    ConnectionId,
    /// `LAST_INSERT_ID()` without an argument, `@@identity`, `@@last_insert_id`.
    LastInsertId,
    /// `@@warning_count`.
    WarningCount,
    /// `@@error_count`.
    ErrorCount,
    /// `@@thread_pool_...`, as far as clients set it for themselves.
    Pool(PoolVariable),
    /// MariaDB's `@@last_gtid`.
    LastGtid,
    /// `@@session_track_...`: their values on a backend are not the client's.
    Tracker(TrackerVariable),
}

/// A text's effect on the session's character sets. Session trackers report the three `character_set_*` variables but not the
/// `collation_connection` that goes with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CharsetSetting {
    /// Nothing.
    #[default]
    Untouched,
    /// `SET NAMES x [COLLATE y]` and nothing else.
    Names {
        /// `x` is UTF-8, of three bytes or four.
        utf8: bool,
        /// Where `y` is in the text, without quotes.
        collation: Option<Range<usize>>,
    },
    /// `SET [SESSION] collation_connection = literal` and nothing else.
    CollationConnection,
    /// Something else of how values are converted, not of how texts are read: ask the server.
    UnsureConversion,
    /// `SET character_set_client = x`, `SET CHARACTER SET x`, or more than one of these settings, of which that of
    /// `character_set_client` is by name: ask the server.
    Named,
    /// Something else: ask the server.
    Unsure,
}

impl CharsetSetting {
    /// Says whether only the server knows the outcome.
    #[must_use]
    pub fn is_unsure(&self) -> bool {
        matches!(self, Self::Unsure | Self::UnsureConversion | Self::Named)
    }

    /// Says whether the server may read the next text in another way: by another `character_set_client`.
    pub(crate) fn changes_reading(&self) -> bool {
        matches!(self, Self::Unsure | Self::Named | Self::Names { .. })
    }
}

/// Finds the effects of `text`, the argument of a COM_QUERY or COM_STMT_PREPARE.
///
/// `mode` must be the session's: with another one the ends of strings are found elsewhere. Nor can the answer be relied on
/// where `character_set_client` has characters that end in the byte of a backslash or backtick (big5, cp932, gb18030, gbk,
/// sjis).
pub fn classify(text: &[u8], mode: LexMode) -> Classification {
    let mut scanner = Scanner::new(text, mode);
    let mut first: Option<Statement> = None;
    let (mut left, mut reading, mut rows_of_select) = (Left::default(), Reading::default(), false);
    let mut several = scanner.current.is(b';'); // an empty first statement is an error of its own
    let (mut releases_connection, mut inserts, mut without_tables) = (false, false, true);
    let mut last_semicolon = None;
    while scanner.current.kind() != TokenKind::End {
        if scanner.current.is(b';') {
            last_semicolon = Some(scanner.current.end());
            scanner.bump();
            continue;
        }
        last_semicolon = None;
        let calls_before = scanner.findings.calls.len();
        reading.statements += u32::from(!scanner.is_doubtful() && !reading.may_differ(text));
        let next = statement::read(&mut scanner);
        for call in &mut scanner.findings.calls[calls_before..] {
            call.left_by_text = left.holds(call.function);
        }
        left.take(next.kind);
        if !has_no_rows(next.kind) {
            rows_of_select = next.kind == Kind::Select;
        }
        reading.take(&next, mode);
        releases_connection |= next.releases_connection;
        without_tables &= next.without_tables;
        inserts |= next.inserts;
        several |= first.is_some();
        first.get_or_insert(next);
    }
    scanner.bump(); // the end settles what waits for it
    several |= scanner.is_doubtful();
    let may_differ = several && reading.may_differ(text);
    add_effects_of_whole(&mut scanner, mode, several, may_differ);
    let first = first.unwrap_or(Statement::EMPTY);
    let (fingerprint, findings) = (scanner.fingerprint(), scanner.findings);
    let (effects, reads, mut calls) = (findings.effects, findings.reads, findings.calls);
    calls.shrink_to_fit();
    let nothing_else = effects.is_empty() && reads.is_empty() && !findings.sets_last_insert_id;
    let plain_read = !several && nothing_else && first.kind == Kind::Select && first.only_reads;
    let begins_or_ends = matches!(first.kind, Kind::Begin | Kind::Commit | Kind::Rollback);
    let is_transaction_command = begins_or_ends && !several && effects.is_empty();
    Classification {
        kind: first.kind,
        effects,
        reads,
        several,
        statements: reading.statements,
        plain_read,
        repeatable: plain_read && first.repeatable,
        fingerprint,
        calls,
        charset: if several && reading.charset { CharsetSetting::Unsure } else { first.charset },
        without_tables,
        sets_last_insert_id: findings.sets_last_insert_id,
        sets_pool_variable: findings.sets_pool_variable,
        releases_connection,
        rows_of_select,
        comment_at_end: last_semicolon.is_some_and(|end| !text[end..].trim_ascii().is_empty()),
        inserts,
        parses_while_it_runs: findings.parses_while_it_runs,
        variables: SetVariables {
            all: findings.assigned,
            unreported: findings.unreported,
            for_its_duration: !several && first.sets_for_itself,
        },
        transaction: is_transaction_command.then(|| transaction_command(text)).flatten(),
    }
}

/// Adds what only the whole text tells.
fn add_effects_of_whole(scanner: &mut Scanner<'_>, mode: LexMode, several: bool, may_differ: bool) {
    if scanner.is_doubtful() || may_differ {
        scanner.add_effect(Effects::UNKNOWN);
    }
    if several && scanner.findings.sets_trackers {
        // What the others do then goes unreported.
        scanner.add_effect(Effects::SESSION_VARIABLE);
    }
    let run_texts = Effects::TEXT_PREPARE.union(Effects::UNKNOWN);
    if !scanner.findings.effects.intersection(run_texts).is_empty() && may_set_role(scanner.text, mode) {
        // What they may do to the role outlives a reset of the session.
        scanner.add_effect(Effects::ROLE);
    }
}

/// So many places of the word are looked at, since a comment behind each may go on to the end of the text.
const MOST_ROLES: usize = 16;

/// Says whether `SET ROLE` may stand in a text, in a string of it too: not in `SELECT role_id`, nor in `UPDATE t SET role = 1`.
fn may_set_role(text: &[u8], mode: LexMode) -> bool {
    let find = |word: &'static [u8]| {
        let same = move |found: &[u8]| found.eq_ignore_ascii_case(word);
        text.windows(word.len()).enumerate().filter(move |(_, found)| same(found)).map(|(start, _)| start)
    };
    let Some(set) = find(b"set").next() else { return false };
    let of_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let mut roles = find(b"role").skip_while(|&role| role < set).filter_map(|role| {
        let behind = &text[role + b"role".len()..];
        let is_word = !text[..role].last().is_some_and(of_word) && !behind.first().is_some_and(of_word);
        is_word.then_some(behind)
    });
    let some = roles.by_ref().take(MOST_ROLES).any(|behind| !Lexer::new(behind, mode).next().is(b'='));
    some || roles.next().is_some()
}

/// The changes by a text's statements in how the servers read the statements behind them.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    /// How many there are, up to where that is not sure any more. A text has fewer than its bytes, of which it has less than 2^32.
    statements: u32,
    /// Any of the character sets.
    charset: bool,
    /// `character_set_client`, in which texts are read.
    client_charset: bool,
    /// That, to one that is not named.
    unsure_client_charset: bool,
    sql_mode: bool,
    /// See [`Self::reads_alike`], once it has been asked for.
    alike: Option<bool>,
}

impl Reading {
    fn take(&mut self, statement: &Statement, mode: LexMode) {
        self.charset |= statement.charset != CharsetSetting::Untouched;
        // The bytes of ASCII are the same signs in UTF-8, and the others are no blanks.
        let utf8 = matches!(statement.charset, CharsetSetting::Names { utf8: true, .. });
        let alike = utf8 && mode.high_blank.is_none();
        self.client_charset |= statement.charset.changes_reading() && !alike;
        self.unsure_client_charset |= statement.charset == CharsetSetting::Unsure;
        self.sql_mode |= statement.sets_lex_mode;
    }

    /// Says whether the following statements may be others than the lexer reads. In all character sets but swe7 the bytes of
    /// ASCII are the same signs, and in `filename`, which some servers take, `@006c` is a letter.
    fn may_differ(&mut self, text: &[u8]) -> bool {
        self.sql_mode || self.unsure_client_charset || (self.client_charset && !self.reads_alike(text))
    }

    /// Says whether any named character set has the text read in the same way.
    fn reads_alike(&mut self, text: &[u8]) -> bool {
        let unlike = || [&b"swe7"[..], b"filename"].iter().any(|name| crate::has_letters_of(name, text));
        *self.alike.get_or_insert_with(|| text.is_ascii() && !unlike())
    }
}

/// Says whether a statement of this kind never answers with rows.
fn has_no_rows(kind: Kind) -> bool {
    use Kind::{Begin, Commit, Ddl, Do, Rollback, Savepoint, Set, Update, Use};
    matches!(kind, Begin | Commit | Ddl | Do | Rollback | Savepoint | Set | Update | Use)
}

/// The traces of a text's statements for a later one in it.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    row_count: bool,
    found_rows: bool,
    warnings: bool,
    trackers: bool,
    gtid: bool,
}

impl Left {
    /// A statement of this kind has been read.
    fn take(&mut self, kind: Kind) {
        let reads = matches!(kind, Kind::Select | Kind::Show | Kind::Explain | Kind::Call | Kind::Execute);
        let writes = [Kind::Insert, Kind::Replace, Kind::Update, Kind::Delete, Kind::Load, Kind::Ddl];
        self.row_count = true;
        self.found_rows |= reads;
        // SET and what is about transactions may leave the list as it was.
        self.warnings |= reads || writes.contains(&kind);
        self.trackers |= kind == Kind::Set;
        self.gtid |= commits(kind);
    }

    /// Says whether one of them has left the value that the function asks for.
    fn holds(self, function: SessionFunction) -> bool {
        match function {
            SessionFunction::RowCount => self.row_count,
            SessionFunction::FoundRows => self.found_rows,
            SessionFunction::WarningCount | SessionFunction::ErrorCount => self.warnings,
            SessionFunction::Tracker(_) => self.trackers,
            SessionFunction::LastGtid => self.gtid,
            SessionFunction::ConnectionId | SessionFunction::LastInsertId | SessionFunction::Pool(_) => false,
        }
    }
}

/// Says whether a statement of this kind may commit something.
fn commits(kind: Kind) -> bool {
    use Kind::{
        Deallocate, Empty, Explain, Prepare, Savepoint, Select, Show, ShowDiagnostics, ShowWarnings, Use,
    };
    !matches!(
        kind,
        Deallocate
            | Empty
            | Explain
            | Prepare
            | Savepoint
            | Select
            | Show
            | ShowDiagnostics
            | ShowWarnings
            | Use
    )
}

/// `text` for the eyes of operators: normalised, literals as `?`, at most `limit` bytes.
pub fn digest_text(text: &[u8], mode: LexMode, limit: usize) -> String {
    digest::digest_text(text, mode, limit)
}
