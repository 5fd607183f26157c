//! Searches for texts that cost the most for each of their bytes: a piece is repeated, since what is not linear shows in what is long.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use sql::{CodeKind, LexMode, steps_taken};

/// See `crates/sql/tests/steps.rs`, which has the reason.
const PER_BYTE: u64 = 12;

/// Likewise.
const AT_LEAST: u64 = 64;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    before: &'a [u8],
    again: &'a [u8],
    times: u8,
    behind: &'a [u8],
    ansi_quotes: bool,
    no_backslash_escapes: bool,
}

fuzz_target!(|input: Input<'_>| {
    let text = [input.before, &input.again.repeat(1 + usize::from(input.times)), input.behind].concat();
    let (ansi_quotes, no_backslash_escapes) = (input.ansi_quotes, input.no_backslash_escapes);
    let mode = LexMode { ansi_quotes, no_backslash_escapes, ..LexMode::default() };
    is_linear("classify", &text, || drop(sql::classify(&text, mode)));
    is_linear("digest_text", &text, || drop(sql::digest_text(&text, mode, usize::MAX)));
    is_linear("resource_change", &text, || drop(sql::resource_change(&text, mode)));
    is_linear("variable_use", &text, || drop(sql::variable_use(&text, mode)));
    is_linear("pool_set", &text, || drop(sql::pool_set(&text, mode)));
    is_linear("definitions", &text, || drop(sql::definitions(&text, mode)));
    for kind in [CodeKind::Routine, CodeKind::Expression, CodeKind::Table] {
        is_linear("stored_code", &text, || drop(sql::stored_code(kind, b"", &text, mode)));
    }
    is_linear("parameters", &text, || drop(sql::stored_code(CodeKind::Routine, &text, b"", mode)));
});

fn is_linear(name: &str, text: &[u8], read: impl FnOnce()) {
    let before = steps_taken();
    read();
    let taken = steps_taken() - before;
    assert!(
        taken <= AT_LEAST + PER_BYTE * text.len() as u64,
        "{name}: {taken} steps for {} bytes",
        text.len()
    );
}
