//! The `SET` statement: which of its assignments session trackers report in a form that can be replayed.

use std::ops::Range;

use crate::keyword::Keyword;
use crate::lexer::TokenKind;
use crate::pool;
use crate::scan::Scanner;
use crate::statement::Statement;
use crate::system_variable::{Scope, SystemVariable, without_quotes};
use crate::{CharsetSetting, Effects, TrackerVariable};

/// Reads what follows the first word of a `SET`.
pub(crate) fn read(scanner: &mut Scanner<'_>, statement: &mut Statement) {
    if let Some(effect) = special_form(scanner) {
        return scanner.add_effect(effect);
    }
    let mut assignments = 0;
    let (mut changes_reading, mut named) = (false, true);
    loop {
        let charset = assignment(scanner, statement);
        assignments += 1;
        changes_reading |= charset.changes_reading();
        named &= charset != CharsetSetting::Unsure;
        if charset != CharsetSetting::Untouched {
            statement.charset = charset;
        }
        if !scanner.current.is(b',') {
            break;
        }
        scanner.bump();
    }
    if !scanner.current.ends_statement() {
        scanner.add_effect(Effects::UNKNOWN);
    }
    if assignments > 1 && statement.charset != CharsetSetting::Untouched {
        statement.charset = match changes_reading {
            true if named => CharsetSetting::Named,
            true => CharsetSetting::Unsure,
            false => CharsetSetting::UnsureConversion,
        };
    }
}

/// The values of MariaDB's `SET STATEMENT a = 1, b = 2 FOR statement`, which go back when the statement ends: passes over them, from
/// the second word on, to where the statement begins. False where none does.
pub(crate) fn passes_values(scanner: &mut Scanner<'_>) -> bool {
    let depth = scanner.depth;
    scanner.bump();
    let mut begins = true;
    while !(scanner.keyword == Keyword::For && scanner.depth == depth) {
        if scanner.current.ends_statement() {
            return false;
        }
        if begins {
            // MariaDB reports the values, and that they have gone back only now and then.
            let name = without_quotes(scanner.bytes(scanner.current));
            note_unreported(scanner, name);
            if has_prefix(name, "session_track_") || has_prefix(name, "optimizer_trace") {
                // What the statement does besides goes unreported; and the trace is kept for a later statement.
                scanner.add_effect(Effects::SESSION_VARIABLE);
            }
        }
        begins = scanner.current.is(b',') && scanner.depth == depth;
        scanner.bump();
    }
    scanner.bump();
    true
}

/// A variable that MySQL's hint SET_VAR sets for a statement. It goes back by being set: the clock stands still behind
/// `SET_VAR(timestamp = 4)`, and an insert_id is left for the next statement (seen with 9.7.4).
pub(crate) fn note_hinted(scanner: &mut Scanner<'_>, name: &[u8]) {
    note_unreported(scanner, name);
    if cannot_be_replayed(name) {
        scanner.add_effect(Effects::SESSION_VARIABLE);
    }
}

/// The server does not say what becomes of this variable. One that cannot be asked for keeps its session where it is.
fn note_unreported(scanner: &mut Scanner<'_>, name: &[u8]) {
    match plain_variable_name(name) {
        Some(name) => scanner.note_name(|findings| &mut findings.unreported, name),
        None => scanner.add_effect(Effects::SESSION_VARIABLE),
    }
}

/// The name in lower case, as a question for its value can name it. No server has a variable whose name begins with a digit, and
/// behind `@@` one would not be read as a name.
fn plain_variable_name(name: &[u8]) -> Option<Box<[u8]>> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let begins = name.first().is_some_and(|first| !first.is_ascii_digit());
    let fits = begins && name.len() <= LONGEST_NAME && name.iter().all(plain);
    fits.then(|| name.to_ascii_lowercase().into())
}

/// Of a variable, in bytes (`NAME_LEN` of both servers is 64 characters).
const LONGEST_NAME: usize = 64;

/// The forms that are no assignments, as far as they stand alone; the effect they have.
fn special_form(scanner: &mut Scanner<'_>) -> Option<Effects> {
    if scanner.current.kind() != TokenKind::Word {
        return None;
    }
    let word = scanner.bytes(scanner.current);
    let mut ahead = scanner.following();
    let next = ahead.next().unwrap_or_default();
    let is = |bytes: &[u8], known: &str| bytes.eq_ignore_ascii_case(known.as_bytes());
    if is(word, "transaction") && !is(next, "=") && !is(next, ":") {
        return Some(Effects::NEXT_TRANSACTION);
    }
    if is(word, "role") {
        return Some(Effects::ROLE);
    }
    if is(word, "default") && is(next, "role") {
        scanner.names_accounts = true;
        return Some(Effects::NONE);
    }
    // The connection's thread and user are no more its session's than the role is.
    if is(word, "resource") && is(next, "group") || is(word, "session") && is(next, "authorization") {
        return Some(Effects::ROLE.union(Effects::SESSION_VARIABLE));
    }
    // SET SESSION TRANSACTION sets variables that are tracked.
    (Scope::of(word).is_some() && is(next, "transaction") && !is(ahead.next().unwrap_or_default(), "="))
        .then_some(Effects::NONE)
}

/// Reads one assignment, up to its comma.
fn assignment(scanner: &mut Scanner<'_>, statement: &mut Statement) -> CharsetSetting {
    match scanner.current.kind() {
        TokenKind::UserVariable => {
            scanner.bump();
            value(scanner);
            CharsetSetting::Untouched
        }
        TokenKind::SystemVariable => {
            let variable = SystemVariable::of(scanner.bytes(scanner.current));
            scanner.pass_target();
            let target = Target { scope: variable.scope, name: variable.name, with_at_signs: true };
            system_variable(scanner, statement, target)
        }
        TokenKind::Word if scanner.is_word("names") => names(scanner),
        TokenKind::Word if is_character_set(scanner) => character_set(scanner),
        TokenKind::Word if scanner.is_word("password") => {
            scanner.names_accounts = true;
            skip_value(scanner);
            CharsetSetting::Untouched
        }
        TokenKind::Word | TokenKind::QuotedName => plain_name(scanner, statement),
        _ => {
            scanner.add_effect(Effects::UNKNOWN);
            skip_value(scanner);
            CharsetSetting::Unsure
        }
    }
}

/// `CHARACTER SET x`, `CHAR SET x`, `CHARSET x`.
fn is_character_set(scanner: &Scanner<'_>) -> bool {
    scanner.is_word("charset")
        || ((scanner.is_word("character") || scanner.is_word("char"))
            && scanner.following().next().is_some_and(|word| word.eq_ignore_ascii_case(b"set")))
}

/// `CHARSET charset`, `CHARACTER SET charset`, `CHAR SET charset`, and each with DEFAULT.
fn character_set(scanner: &mut Scanner<'_>) -> CharsetSetting {
    if !scanner.is_word("charset") {
        scanner.bump();
    }
    scanner.bump();
    if charset_name(scanner).is_some() {
        scanner.bump();
        if scanner.current.is(b',') || scanner.current.ends_statement() {
            return CharsetSetting::Named;
        }
    }
    skip_value(scanner);
    CharsetSetting::Unsure
}

/// `[GLOBAL | SESSION | ...] name[.name] = value`.
fn plain_name(scanner: &mut Scanner<'_>, statement: &mut Statement) -> CharsetSetting {
    let mut scope = Scope::Unsaid;
    if scanner.current.kind() == TokenKind::Word {
        if let Some(said) = Scope::of(scanner.bytes(scanner.current)) {
            scope = said;
            scanner.bump();
        }
    }
    if !scanner.current.is_name() {
        scanner.add_effect(Effects::UNKNOWN);
        skip_value(scanner);
        return CharsetSetting::Unsure;
    }
    let mut name = scanner.bytes(scanner.current);
    scanner.bump();
    if scanner.current.is(b'.') {
        scanner.bump();
        name = b""; // a key cache's or a component's variable: none of those that matter
        scanner.bump();
    }
    let name = without_quotes(name);
    system_variable(scanner, statement, Target { scope, name, with_at_signs: false })
}

/// The variable that is assigned to.
#[derive(Clone, Copy)]
struct Target<'a> {
    scope: Scope,
    name: &'a [u8],
    /// Written as `@@name`.
    with_at_signs: bool,
}

/// Reads from the equals sign on.
fn system_variable(
    scanner: &mut Scanner<'_>,
    statement: &mut Statement,
    target: Target<'_>,
) -> CharsetSetting {
    let is = |known: &str| target.name.eq_ignore_ascii_case(known.as_bytes());
    scanner.findings.sets_pool_variable |= pool::is_ours(target.scope, target.name);
    if target.scope == Scope::Global {
        value(scanner);
        return CharsetSetting::Untouched;
    }
    if let Some(name) = plain_variable_name(target.name) {
        scanner.note_name(|findings| &mut findings.assigned, name);
    }
    let of_transaction = ["transaction_isolation", "tx_isolation", "transaction_read_only", "tx_read_only"];
    if target.with_at_signs && target.scope == Scope::Unsaid {
        // MariaDB's tracker says nothing about `SET @@name = value` (OPT_DEFAULT), though it is the session's value that
        // changes; `SET name`, `SET SESSION name` and `SET @@session.name` are reported.
        if of_transaction.into_iter().any(is) {
            scanner.add_effect(Effects::NEXT_TRANSACTION);
        } else if !cannot_be_replayed(target.name) {
            note_unreported(scanner, target.name);
        }
    }
    statement.sets_lex_mode |= is("sql_mode");
    let value = value(scanner);
    if let Some(tracker) = TrackerVariable::of(target.name) {
        let as_on_backends = tracker != TrackerVariable::SystemVariables && value == Value::On;
        scanner.findings.sets_trackers |= !as_on_backends;
    }
    if cannot_be_replayed(target.name) {
        scanner.add_effect(Effects::SESSION_VARIABLE);
    }
    if is("sql_auto_is_null") && value != Value::Off {
        // `WHERE id IS NULL` then reads the last insert id.
        scanner.add_effect(Effects::SESSION_VARIABLE);
    }
    // The servers' lexers go by character_set_client alone (`THD::charset`).
    let of_conversions = ["character_set_results", "character_set_connection", "collation_connection"];
    if is("collation_connection") && matches!(value, Value::Name | Value::Literal) {
        CharsetSetting::CollationConnection
    } else if of_conversions.into_iter().any(is) {
        CharsetSetting::UnsureConversion
    } else if is("character_set_client") {
        if value == Value::Name { CharsetSetting::Named } else { CharsetSetting::Unsure }
    } else {
        CharsetSetting::Untouched
    }
}

/// Session variables whose value, set again on another connection, would not mean the same.
fn cannot_be_replayed(name: &[u8]) -> bool {
    const NAMES: [&str; 18] = [
        "character_set_database", // until the next USE
        "collation_database",
        "default_collation_for_utf8mb4", // what SET NAMES means, also in the same SET
        "character_set_collations",      // likewise, of MariaDB since 11.2
        "system_versioning_asof",        // its text means another moment in another time zone
        "timestamp",
        "insert_id",
        "last_insert_id",
        "identity",
        "rand_seed1",
        "rand_seed2",
        "sql_log_bin",
        "server_id",
        "skip_replication",
        "require_row_format", // cannot be switched off again
        "original_commit_timestamp",
        "original_server_version",
        "immediate_server_version",
    ];
    // The last one has the server keep the texts of statements, for a later one of the same client.
    const PREFIXES: [&str; 6] = ["pseudo_", "gtid_", "wsrep_", "profiling", "debug", "optimizer_trace"];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
        || PREFIXES.iter().any(|prefix| has_prefix(name, prefix))
}

fn has_prefix(name: &[u8], prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}

/// The value that is assigned, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    /// `0`, `OFF`, `FALSE`, `DEFAULT`.
    Off,
    /// `1`, `ON`, `TRUE`.
    On,
    /// One word or string that may be a character set's name, see [`charset_name`].
    Name,
    /// Another word or string.
    Literal,
    Other,
}

/// Reads `= value` or `:= value`. Without an equals sign it is no assignment: `SET a = 1, ROLE x` is one of MariaDB's forms.
fn value(scanner: &mut Scanner<'_>) -> Value {
    if scanner.current.is(b':') {
        scanner.bump();
    }
    if !scanner.current.is(b'=') {
        scanner.add_effect(Effects::UNKNOWN);
        skip_value(scanner);
        return Value::Other;
    }
    scanner.bump();
    let first = scanner.current;
    let bytes = scanner.bytes(first);
    let is_name = charset_name(scanner).is_some();
    let is_one_of = |known: &[&str]| known.iter().any(|known| bytes.eq_ignore_ascii_case(known.as_bytes()));
    let (is_off, is_on) = (is_one_of(&["0", "off", "false", "default"]), is_one_of(&["1", "on", "true"]));
    if first.ends_statement() {
        return Value::Other;
    }
    scanner.bump();
    let alone = scanner.current.is(b',') || scanner.current.ends_statement();
    if !alone {
        skip_value(scanner);
        return Value::Other;
    }
    match first.kind() {
        TokenKind::Word | TokenKind::Number if is_off => Value::Off,
        TokenKind::Word | TokenKind::Number if is_on => Value::On,
        TokenKind::Word | TokenKind::String | TokenKind::QuotedName if is_name => Value::Name,
        TokenKind::Word | TokenKind::String | TokenKind::QuotedName => Value::Literal,
        _ => Value::Other,
    }
}

/// Goes on to the comma or the end.
fn skip_value(scanner: &mut Scanner<'_>) {
    while !(scanner.current.ends_statement() || (scanner.current.is(b',') && scanner.depth == 0)) {
        scanner.bump();
    }
}

/// `NAMES charset [COLLATE collation]`, `NAMES DEFAULT`.
fn names(scanner: &mut Scanner<'_>) -> CharsetSetting {
    scanner.bump();
    if scanner.current.is(b'=') || scanner.current.is(b':') {
        value(scanner); // a variable of that name would be unknown, but that is for the server to say
        return CharsetSetting::Unsure;
    }
    let Some(name) = charset_name(scanner) else {
        skip_value(scanner);
        return CharsetSetting::Unsure;
    };
    let utf8 = [&b"utf8mb4"[..], b"utf8", b"utf8mb3"].iter().any(|known| known.eq_ignore_ascii_case(name));
    scanner.bump();
    let mut collation = None;
    if scanner.is_word("collate") {
        scanner.bump();
        if !scanner.is_word("default") {
            collation = literal(scanner);
            if collation.is_none() {
                skip_value(scanner);
                return CharsetSetting::Unsure;
            }
        }
        scanner.bump();
    }
    if scanner.current.is(b',') || scanner.current.ends_statement() {
        return CharsetSetting::Names { utf8, collation };
    }
    skip_value(scanner);
    CharsetSetting::Unsure
}

/// The name of a character set, where it stands there as it is. Not the default, which is a global value with a collation that nobody
/// tells, nor one that a backslash may hide (`'swe\7'`).
fn charset_name<'a>(scanner: &Scanner<'a>) -> Option<&'a [u8]> {
    let name = &scanner.text[literal(scanner)?];
    let plain = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    (plain && !name.is_empty() && !scanner.is_word("default")).then_some(name)
}

/// Where the word or string at hand is, without its quotes.
fn literal(scanner: &Scanner<'_>) -> Option<Range<usize>> {
    let token = scanner.current;
    match token.kind() {
        TokenKind::Word => Some(token.start()..token.end()),
        TokenKind::String | TokenKind::QuotedName if token.end() - token.start() >= 2 => {
            Some(token.start() + 1..token.end() - 1)
        }
        _ => None,
    }
}
