//! What a text costs here is linear in its length, and of a large one a worker reads next to nothing.

use std::collections::BTreeSet;

use proptest::prelude::*;
use seam::{Input, Instant, Program as _};
use sql::LexMode;

use super::*;
use crate::accounts::task::{Finding, Work};
use crate::client::commands::command::tests::{connection, engine};
use crate::engine::Engine;
use crate::server::stored_code::LargeDefinition;
use crate::session::aftermath::Selection;
use crate::settings::Settings;

/// All that looks at a text together: `sql` takes up to twelve for each of its looks, mostly less (`sql/tests/steps.rs`), and the engine has a
/// dozen of its own that take one.
const PER_BYTE: u64 = 40;

/// Of a large text a worker counts what was found in it, and how long it gets with literals in it.
const PER_BYTE_OF_LARGE: u64 = 3;

/// For the few looks that even an empty text takes.
const AT_LEAST: u64 = 200;

const QUERY: u8 = 3;
const PREPARE: u8 = 0x16;

/// Where the words stand that mean something to the readers.
const SOURCES: [&str; 18] = [
    include_str!("../../../sql/src/body.rs"),
    include_str!("../../../sql/src/definitions.rs"),
    include_str!("../../../sql/src/functions.rs"),
    include_str!("../../../sql/src/get_diagnostics.rs"),
    include_str!("../../../sql/src/resource_change.rs"),
    include_str!("../../../sql/src/rows_found.rs"),
    include_str!("../../../sql/src/words.rs"),
    include_str!("../../../sql/src/keyword.rs"),
    include_str!("../../../sql/src/pool.rs"),
    include_str!("../../../sql/src/scan.rs"),
    include_str!("../../../sql/src/set.rs"),
    include_str!("../../../sql/src/statement.rs"),
    include_str!("../../../sql/src/stored_code.rs"),
    include_str!("../../../sql/src/system_variable.rs"),
    include_str!("../../../sql/src/tracker.rs"),
    include_str!("../client/answers/buffered_answer.rs"),
    include_str!("../client/commands/process_list.rs"),
    include_str!("../request.rs"),
];

/// All that stands in quotes there.
fn words() -> Vec<Vec<u8>> {
    let mut words = BTreeSet::new();
    for source in SOURCES {
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let quoted = code.flat_map(|line| line.split('"').skip(1).step_by(2));
        words.extend(
            quoted.filter(|word| !word.is_empty() && word.len() < 40).map(|word| word.as_bytes().to_vec()),
        );
    }
    assert!(words.contains(&b"straight_join"[..]) && words.contains(&b"processlist"[..]));
    words.extend(MORE.iter().map(|word| word.as_bytes().to_vec()));
    words.into_iter().collect()
}

const MORE: &[&str] = &[
    "KILL 1073741824;",
    "KILL QUERY 1073741825 ;",
    "kill",
    "SET thread_pool_priority='high',",
    "CONNECTION_ID(),",
    "ROW_COUNT(),",
    "@@warning_count+",
    "@@session_track_schema,",
    "LIMIT 1,",
    "SHOW COUNT(*) WARNINGS",
    "SHOW STATUS",
    "PREPARE a FROM '",
    "EXECUTE a",
    "EXECUTE IMMEDIATE '",
    "@a:=1,",
    "CREATE TABLE a(a int);",
    "CREATE PROCEDURE a() b();",
    "DROP TABLE a,",
    ";",
    "'",
    "`",
    "(",
    "/*",
    "*/",
    "--",
    "#",
    "\n",
];

fn command(kind: u8, text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    wire::put_message(&mut out, &mut 0, &[&[kind], text].concat());
    out
}

fn turn(engine: &mut Engine, bytes: &[u8]) {
    if !bytes.is_empty() {
        engine.handle(Instant::START, Input::Bytes { connection: connection(0), bytes });
    }
    engine.handle(Instant::START, Input::TurnEnd);
    while engine.poll_output().is_some() {}
}

/// What is done for each thing that a client can send with this text.
fn is_linear(text: &[u8]) {
    let holds = |name: &str, taken: u64, per_byte: u64| {
        let allowed = AT_LEAST + per_byte * text.len() as u64;
        let begin = String::from_utf8_lossy(&text[..text.len().min(200)]);
        assert!(taken <= allowed, "{name}: {taken} steps for {} bytes: {begin}...", text.len());
    };
    let steps_of = |work: &mut dyn FnMut()| {
        let before = taken();
        work();
        taken() - before
    };
    for kind in [QUERY, PREPARE] {
        let mut small = engine(2, Settings::default());
        holds("a small text", steps_of(&mut || turn(&mut small, &command(kind, text))), PER_BYTE);
        let mut large = engine(2, Settings { large_statement_size: 0, ..Settings::default() });
        holds("what a worker does first", steps_of(&mut || turn(&mut large, &command(kind, text))), 0);
        let Some(task) = large.poll_task() else { continue };
        let Work::Read(text) = task.work else { panic!("it is a text") };
        let (mut text, mut read) = (Some(text), None);
        let taken = steps_of(&mut || read = text.take().map(|text| text.read()));
        holds("another thread", taken, PER_BYTE);
        let mut read = read.map(Finding::Text);
        let taken = steps_of(&mut || {
            large.take_finding(task.number, read.take().expect("it is read once"));
            turn(&mut large, b"");
        });
        holds("what a worker does then", taken, PER_BYTE_OF_LARGE);
    }
    holds(
        "a prepared text",
        steps_of(&mut || drop(LargeDefinition::of_text(text, LexMode::default()))),
        PER_BYTE,
    );
    holds("a list that is shown", steps_of(&mut || _ = Selection::of(text)), PER_BYTE);
}

#[test]
fn texts_that_were_slow() {
    for text in [
        "SELECT row_count(),row_count()".repeat(100),
        "KILL 1073741824;".repeat(2000),
        format!("KILL {}1073741824;SELECT 1", " ".repeat(10_000)),
        format!("SHOW COUNT(*) {}WARNINGS", "/* */".repeat(3000)),
        format!("SET thread_pool_priority='high'{}", ",thread_pool_priority='low'".repeat(500)),
        format!("SET @@autocommit=1{}", ",@@autocommit=1".repeat(1000)),
    ] {
        is_linear(text.as_bytes());
    }
}

#[test]
fn every_word_again_and_again() {
    for (word, between) in words().iter().zip([" ", ",", ";", "("].iter().cycle()) {
        let unit = [&word[..], between.as_bytes()].concat();
        is_linear(&unit.repeat(1500 / unit.len() + 1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_words_again_and_again(
        before in prop::collection::vec(prop::sample::select(words()), 0..4),
        again in prop::collection::vec(prop::sample::select(words()), 1..4),
        behind in prop::collection::vec(prop::sample::select(words()), 0..3),
        blank in prop::sample::select(vec![" ", ""]),
    ) {
        let unit = [again.join(blank.as_bytes()), blank.into()].concat();
        let again = unit.repeat(2000 / unit.len() + 1);
        let blank = blank.as_bytes();
        is_linear(&[&before.join(blank), blank, &again, &behind.join(blank)].concat());
    }
}
