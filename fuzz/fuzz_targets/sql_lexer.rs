//! What the lexer says about any text: it never stops at one, what it points at is there, and comments say nothing.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use sql::{
    CharsetSetting, Classification, GetDiagnostics, LexMode, Offset, RowsFound, SessionCall, SessionFunction,
    classify, digest_text, quote_identifier, quote_string,
};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    /// Taken as it is.
    text: &'a [u8],
    /// Written with blanks between them, and again with comments.
    tokens: Vec<Token<'a>>,
    /// Which comments, used over and over.
    comments: [u8; 4],
}

#[derive(Arbitrary, Debug)]
enum Token<'a> {
    /// One of [`WORDS`].
    Known(u8),
    Name(&'a str),
    Quoted(&'a [u8]),
    String(&'a [u8]),
    Number(u32),
    Punctuation(u8),
}

/// Words and signs on which the answer turns.
const WORDS: [&str; 64] = [
    "SELECT",
    "SET",
    "NAMES",
    "COLLATE",
    "FROM",
    "WHERE",
    "INSERT",
    "INTO",
    "VALUES",
    "UPDATE",
    "DELETE",
    "WITH",
    "AS",
    "CREATE",
    "TEMPORARY",
    "TABLE",
    "OR",
    "REPLACE",
    "PROCEDURE",
    "BEGIN",
    "END",
    "CASE",
    "IF",
    "COMMIT",
    "ROLLBACK",
    "TO",
    "RELEASE",
    "START",
    "TRANSACTION",
    "READ",
    "ONLY",
    "KILL",
    "QUERY",
    "SHOW",
    "COUNT",
    "WARNINGS",
    "ERRORS",
    "LIMIT",
    "GET",
    "DIAGNOSTICS",
    "FOR",
    "STATEMENT",
    "LOCK",
    "FLUSH",
    "CALL",
    "DO",
    "USE",
    "SESSION",
    "GLOBAL",
    "DEFAULT",
    "last_insert_id",
    "row_count",
    "found_rows",
    "connection_id",
    "get_lock",
    "sleep",
    "sql_mode",
    "@@warning_count",
    "@@session.error_count",
    "@@identity",
    "@a",
    "@@global.sql_mode",
    "utf8mb4",
    "SQL_CALC_FOUND_ROWS",
];

/// They begin and end with a blank, so that what stands beside them stays apart.
const COMMENTS: [&str; 6] = [" /* ; ' ( */ ", "\n", " # \" (\n", " -- ` '\n", " /**/ /***/ ", " --\t;\n "];

fuzz_target!(|input: Input<'_>| {
    for ansi_quotes in [false, true] {
        for no_backslash_escapes in [false, true] {
            let mode = LexMode { ansi_quotes, no_backslash_escapes, ..LexMode::default() };
            assert_sound(input.text, mode);
            assert_comments_say_nothing(&input, mode);
        }
    }
    assert_words_are_read(input.text);
    assert_words_are_read(&written(&input.tokens, &[" "], LexMode::default()));
});

/// What is read beside the classification is read of any text, and in few steps.
fn assert_words_are_read(text: &[u8]) {
    let kind = classify(text, LexMode::default()).kind;
    let before = sql::steps_taken();
    let _ = (sql::counts_rows(kind, text), sql::sets_globals(kind, text), sql::inserts_selection(kind, text));
    assert!(!sql::reads_no_table(kind, text) || !sql::says_from(text));
    if let RowsFound::Limited { offset: Offset::Of(1..), .. } = RowsFound::of_text(text) {
        assert!(sql::plain_words(text).count() > 1, "an offset stands behind LIMIT");
    }
    let asked = GetDiagnostics::of(text).map_or(0, |asked| asked.targets.len());
    assert!(asked <= text.len() / 4, "@a=b is the shortest of {asked}");
    let steps = sql::steps_taken() - before;
    assert!(steps <= 16 * text.len() as u64, "{steps} steps for {} bytes", text.len());
}

fn assert_sound(text: &[u8], mode: LexMode) {
    let found = classify(text, mode);
    assert_eq!(found, classify(text, mode), "the answer depends on the text alone");
    let mut end = 0;
    for call in &found.calls {
        assert!(end <= call.span.start && call.span.end <= text.len(), "calls follow each other in the text");
        end = call.span.end;
        assert_names(call, &text[call.span.clone()]);
        if let Some(item) = &call.names_item {
            assert!(
                item.start <= call.span.start && end <= item.end,
                "the item holds the call: {item:?}, {:?}",
                call.span
            );
            assert!(item.end <= text.len(), "the item is of the text: {item:?}");
        }
    }
    if let CharsetSetting::Names { collation: Some(span), .. } = &found.charset {
        assert!(span.start <= span.end && span.end <= text.len());
    }
    if found.plain_read {
        assert!(found.effects.is_empty() && found.reads.is_empty() && !found.several);
    }
    if !found.several {
        assert_calls_can_be_replaced(text, &found, mode);
    }
    let whole = digest_text(text, mode, usize::MAX);
    for limit in [0, 1, 7, text.len()] {
        let digest = digest_text(text, mode, limit);
        assert!(digest.len() <= limit && whole.starts_with(&digest), "{digest:?} of {whole:?}");
    }
}

/// What a call points at is that function, with its parentheses, or that variable.
fn assert_names(call: &SessionCall, piece: &[u8]) {
    let name;
    let names: &[&str] = match call.function {
        SessionFunction::RowCount => &["row_count"],
        SessionFunction::FoundRows => &["found_rows"],
        SessionFunction::ConnectionId => &["connection_id", "pseudo_thread_id"],
        SessionFunction::LastInsertId => &["last_insert_id", "identity"],
        SessionFunction::WarningCount => &["warning_count"],
        SessionFunction::ErrorCount => &["error_count"],
        SessionFunction::LastGtid => &["last_gtid"],
        SessionFunction::Pool(variable) => {
            name = [variable.name()];
            &name
        }
        SessionFunction::Tracker(variable) => {
            name = [variable.name()];
            &name
        }
    };
    let lower = String::from_utf8_lossy(piece).to_ascii_lowercase();
    assert!(names.iter().any(|name| lower.contains(name)), "{:?} at {lower:?}", call.function);
    assert!(lower.starts_with("@@") || lower.ends_with(')'), "{:?} at {lower:?}", call.function);
}

/// With literals in the places of the calls, as the engine writes them, no call is left.
fn assert_calls_can_be_replaced(text: &[u8], found: &Classification, mode: LexMode) {
    let mut replaced = text.to_vec();
    for call in found.calls.iter().rev() {
        replaced.splice(call.span.clone(), *b"0");
    }
    let again = classify(&replaced, mode);
    assert!(again.calls.is_empty(), "{:?} left in {:?}", again.calls, String::from_utf8_lossy(&replaced));
    // The id of a KILL may have been a call.
    assert_eq!(std::mem::discriminant(&again.kind), std::mem::discriminant(&found.kind));
    assert_eq!((again.effects, again.several), (found.effects, found.several));
}

fn assert_comments_say_nothing(input: &Input<'_>, mode: LexMode) {
    let plain = written(&input.tokens, &[" "], mode);
    let comments = input.comments.map(|comment| COMMENTS[usize::from(comment) % COMMENTS.len()]);
    let commented = written(&input.tokens, &comments, mode);
    assert_sound(&plain, mode);
    assert_eq!(
        without_places(classify(&plain, mode)),
        without_places(classify(&commented, mode)),
        "{:?}",
        String::from_utf8_lossy(&commented)
    );
    assert_eq!(digest_text(&plain, mode, usize::MAX), digest_text(&commented, mode, usize::MAX));
}

/// Everything but where things are, whether a comment ends them, and what is only said of a text with none but plain comments.
fn without_places(mut found: Classification) -> Classification {
    for call in &mut found.calls {
        call.span = 0..0;
        call.names_item = call.names_item.take().map(|_| 0..0);
    }
    if let CharsetSetting::Names { collation: Some(span), .. } = &mut found.charset {
        *span = 0..0;
    }
    found.comment_at_end = false;
    found.transaction = None;
    found
}

fn written(tokens: &[Token<'_>], between: &[&str], mode: LexMode) -> Vec<u8> {
    let mut text = Vec::new();
    for (token, blank) in tokens.iter().zip(between.iter().cycle()) {
        match token {
            Token::Known(word) => text.extend_from_slice(WORDS[usize::from(*word) % WORDS.len()].as_bytes()),
            Token::Name(name) => text.extend(name.bytes().filter(u8::is_ascii_alphanumeric)),
            Token::Quoted(name) => quote_identifier(&mut text, name),
            Token::String(value) => quote_string(&mut text, value, mode),
            Token::Number(number) => text.extend_from_slice(number.to_string().as_bytes()),
            // Other bytes would begin a string or a comment, which goes on behind the blank.
            Token::Punctuation(sign) => text.push(b"(),.;=+-*/<>!:|?"[usize::from(*sign) % 16]),
        }
        text.extend_from_slice(blank.as_bytes());
    }
    text
}
