//! What a text costs is linear in its length: no reader of texts takes more than [`PER_BYTE`] steps for each byte.

// Without debug assertions nothing is counted, so that nothing could fail.
#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test stops at the first surprise")]

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;
use sql::{CodeKind, LexMode, ServerKind, steps_taken};

/// A step is a token or a byte. The lexer looks twice at the bytes of most tokens, the classifier ahead of some, and a definition's
/// text is read once for what it defines and once for what that does.
const PER_BYTE: u64 = 12;

/// For the few looks that even an empty text takes.
const AT_LEAST: u64 = 64;

type Reader = fn(&[u8], LexMode);

/// Everything that reads a text of a client or of the server.
const READERS: [(&str, Reader); 13] = [
    ("classify", |text, mode| drop(sql::classify(text, mode))),
    ("digest_text", |text, mode| drop(sql::digest_text(text, mode, usize::MAX))),
    ("resource_change", |text, mode| drop(sql::resource_change(text, mode))),
    ("variable_use", |text, mode| drop(sql::variable_use(text, mode))),
    ("plain_set", |text, _| drop(sql::plain_set(text))),
    ("shown_variables", |text, _| drop(sql::shown_variables(text))),
    ("pool_set", |text, mode| drop(sql::pool_set(text, mode))),
    ("transaction_command", |text, _| _ = sql::transaction_command(text)),
    ("trace_parent", |text, mode| _ = sql::trace_parent(text, mode)),
    ("definitions", |text, mode| drop(sql::definitions(text, mode))),
    ("names", |text, mode| sql::names(text, mode, |_| {})),
    ("stored_code", |text, mode| {
        for kind in [CodeKind::Routine, CodeKind::Expression, CodeKind::Table] {
            drop(sql::stored_code(kind, b"", text, mode));
        }
    }),
    ("parameters", |text, mode| drop(sql::stored_code(CodeKind::Routine, text, b"", mode))),
];

const MODES: [LexMode; 2] = [
    LexMode {
        ansi_quotes: false,
        no_backslash_escapes: false,
        high_blank: None,
        server: ServerKind::Unknown,
        version: 0,
    },
    LexMode {
        ansi_quotes: true,
        no_backslash_escapes: true,
        high_blank: Some(0xa0),
        server: ServerKind::MySql,
        version: 80_031,
    },
];

#[track_caller]
fn is_linear(text: &[u8], modes: &[LexMode]) {
    for (name, reader) in READERS {
        for &mode in modes {
            let before = steps_taken();
            reader(text, mode);
            let taken = steps_taken() - before;
            let allowed = AT_LEAST + PER_BYTE * text.len() as u64;
            let begin = String::from_utf8_lossy(&text[..text.len().min(200)]);
            assert!(taken <= allowed, "{name} takes {taken} steps for {} bytes: {begin}...", text.len());
        }
    }
}

/// Runs with as little stack as a thread may have: what reads a text must not go down into it.
fn with_a_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(256 << 10).spawn(test).unwrap().join().unwrap();
}

/// All that stands in quotes in the crate's sources: every word that is known to a reader, and the texts of its tests.
fn words() -> Vec<Vec<u8>> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut words = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name != "tests.rs") {
                let source = std::fs::read_to_string(path).unwrap();
                // Whole texts stand in the tests only.
                let code = source.split("#[cfg(test)]").next().unwrap_or_default();
                let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
                let pieces =
                    code.flat_map(|line| line.split('"').skip(1).step_by(2)).filter(|word| !word.is_empty());
                words.extend(pieces.map(|word| word.as_bytes().to_vec()));
            }
        }
    }
    assert!(words.contains(&b"straight_join"[..]) && words.contains(&b"release_lock"[..]));
    words.extend(OPENERS.iter().map(|opener| opener.as_bytes().to_vec()));
    words.into_iter().collect()
}

/// What opens comments, quotes, parentheses, blocks, and what a reader may look for in vain.
const OPENERS: &[&str] = &[
    "/*",
    "/*!",
    "/*!50000",
    "/*M!",
    "/*+",
    "*/",
    "/*traceparent='",
    "/*traceparent='%2d'*/",
    "='\\',",
    "/*+ SET_VAR(",
    "/*+ SET_VAR(a=1) */",
    "SET_VAR(",
    "SET_VAR(`",
    "-- ",
    "#",
    "\n",
    "'",
    "\"",
    "`",
    "\\",
    "''",
    "x'",
    "@",
    "@@",
    "@`",
    "@@`",
    "@@a.",
    "(",
    ")",
    ")(",
    "(WITH a()",
    "WITH a()(",
    ";",
    ",",
    ".",
    "=",
    ":=",
    "?",
    "\0",
    "\u{a0}",
    "$$",
    "1e1",
    "1e",
    "1.",
    ".1",
    "0x",
    "1e1a",
    "-",
    "+",
    "--",
    "a,",
    "a.",
    "if",
    "into a,",
    "declare,",
    "declare a,",
    "set statement a=1 for",
    "create table",
    "create view if",
    "create trigger",
    "rename table a to b,",
    "begin",
    "case",
    "end",
    "DO @@identity;",
    "values",
    "values (",
    "set char ",
    "set a=1,",
    "@a=1,",
    "@@session_track_schema,",
    "row_count(),",
];

#[test]
fn texts_that_took_seconds() {
    let hints = ["SELECT ".into(), "/*+ SET_VAR(a=1) */".repeat(2000), " values".repeat(4000)].concat();
    for text in [
        format!("SELECT /*+ {}*/ 1", "SET_VAR(".repeat(8000)),
        "CREATE TABLE ".repeat(4000),
        "DO @@identity;".repeat(4000),
        hints,
    ] {
        is_linear(text.as_bytes(), &MODES);
    }
}

#[test]
fn every_word_again_and_again() {
    with_a_small_stack(|| {
        for word in words() {
            for (between, mode) in [" ", ",", ";", "("].into_iter().zip(MODES.into_iter().cycle()) {
                let unit = [&word[..], between.as_bytes()].concat();
                is_linear(&unit.repeat(2000 / unit.len() + 1), &[mode]);
            }
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// A text's cost grows with what is repeated in it; what stands before and behind decides which reader looks at it.
    #[test]
    fn any_words_again_and_again(
        before in prop::collection::vec(prop::sample::select(words()), 0..4),
        again in prop::collection::vec(prop::sample::select(words()), 1..5),
        behind in prop::collection::vec(prop::sample::select(words()), 0..3),
        blank in prop::sample::select(vec![" ", ""]),
    ) {
        let mut text = before.join(blank.as_bytes());
        text.extend_from_slice(blank.as_bytes());
        let unit = [again.join(blank.as_bytes()), blank.into()].concat();
        text.extend(unit.repeat(3000 / unit.len() + 1));
        text.extend(behind.join(blank.as_bytes()));
        is_linear(&text, &MODES);
    }

    #[test]
    fn any_bytes(text in prop::collection::vec(any::<u8>(), 0..2000)) {
        is_linear(&text, &MODES);
    }
}
