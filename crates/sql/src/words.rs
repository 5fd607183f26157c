//! What single words of a text tell that [`crate::Classification`] does not say. They are found wherever they stand, in strings and comments too: each
//! caller is told which answer is the careful one.

use crate::classification::Kind;
use crate::steps;

/// These bytes, all of which may be looked at now.
pub(crate) fn all(bytes: &[u8]) -> &[u8] {
    steps::add(bytes.len());
    bytes
}

/// Says whether FOUND_ROWS() follows the result of a statement of this kind: selections do, and those SHOW and DESCRIBE that are selections from
/// INFORMATION_SCHEMA for the server (sql_parse.cc: prepare_schema_table); with MySQL an UPDATE of one table and DO, too. Tried on
/// MariaDB 10.11 and MySQL 9.7.
pub fn counts_rows(kind: Kind, text: &[u8]) -> bool {
    const NO_SELECTION: [&[u8]; 9] = [
        b"create",
        b"grants",
        b"engine",
        b"master",
        b"binary",
        b"binlog",
        b"slave",
        b"processlist",
        b"privileges",
    ];
    let mut words = all(text).split(|b| !b.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    match kind {
        Kind::Select => true,
        Kind::Show => {
            words.nth(1).is_some_and(|word| !NO_SELECTION.iter().any(|no| word.eq_ignore_ascii_case(no)))
        }
        Kind::Explain => {
            words.next().is_some_and(|word| word.len() >= 4 && word[..4].eq_ignore_ascii_case(b"desc"))
        }
        // With a subquery, or more than one table, it depends on how it is executed.
        Kind::Update => !words.any(|word| is_one_of(word, &[b"select", b"join"])),
        // SIGNAL leaves the number as it was.
        Kind::Do => !words.any(|word| is_one_of(word, &[b"select", b"join", b"signal", b"resignal"])),
        // A count of warnings is a SELECT for the servers.
        Kind::ShowDiagnostics => words.nth(1).is_some_and(|word| word.eq_ignore_ascii_case(b"count")),
        _ => false,
    }
}

fn is_one_of(word: &[u8], list: &[&[u8]]) -> bool {
    list.iter().any(|listed| word.eq_ignore_ascii_case(listed))
}

/// Says whether a statement of this kind may set global values, which MySQL's SET PERSIST does too. In doubt it does.
pub fn sets_globals(kind: Kind, text: &[u8]) -> bool {
    let is_scope = |word: &[u8]| is_one_of(word, &[b"global", b"persist"]);
    kind == Kind::Set && all(text).split(|byte| !byte.is_ascii_alphabetic()).any(is_scope)
}

/// Says whether a statement of this kind reads no table, as far as that matters for diagnostics that are kept. In doubt it reads one.
pub fn reads_no_table(kind: Kind, text: &[u8]) -> bool {
    matches!(kind, Kind::Select | Kind::Do) && !says_from(text)
}

/// Says whether the word FROM is there, and not only as a part of FROM_UNIXTIME().
pub fn says_from(text: &[u8]) -> bool {
    all(text)
        .split(|&byte| !(byte.is_ascii_alphanumeric() || byte == b'_'))
        .any(|word| word.eq_ignore_ascii_case(b"from"))
}

/// Says whether a statement of this kind may be an `INSERT ... SELECT` and the like. In doubt it is.
pub fn inserts_selection(kind: Kind, text: &[u8]) -> bool {
    matches!(kind, Kind::Insert | Kind::Replace | Kind::Ddl)
        && all(text).windows(6).any(|word| word.eq_ignore_ascii_case(b"select"))
}

/// What stands between spaces and semicolons, in lower case.
pub fn plain_words(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let words = all(text).split(|byte| byte.is_ascii_whitespace() || *byte == b';');
    words.filter(|word| !word.is_empty()).map(<[u8]>::to_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classification::{LexMode, classify};

    fn kind(text: &str) -> Kind {
        classify(text.as_bytes(), LexMode::default()).kind
    }

    #[test]
    fn a_count_of_warnings_counts_as_a_selection_and_so_may_an_update() {
        let counts = |text: &str| counts_rows(kind(text), text.as_bytes());
        assert!(counts("DO 1") && !counts("SIGNAL SQLSTATE '01234'") && !counts("DO (SELECT 1)"));
        assert!(counts("SHOW COUNT(*) WARNINGS") && counts("show count(*) errors"));
        assert!(
            !counts("SHOW WARNINGS")
                && !counts("SHOW ERRORS LIMIT 1")
                && !counts("GET DIAGNOSTICS @a = NUMBER")
        );
    }

    #[test]
    fn only_a_scope_makes_a_set_global() {
        let sets = |text: &str| sets_globals(kind(text), text.as_bytes());
        for text in
            ["SET GLOBAL sql_mode = ''", "set @@global.time_zone='SYSTEM'", "SET a = 1, PERSIST b = 2"]
        {
            assert!(sets(text), "{text}");
        }
        for text in ["SET sql_mode = ''", "SELECT 'global'", "SET globally = 1", "SET NAMES utf8mb4"] {
            assert!(!sets(text), "{text}");
        }
    }
}
