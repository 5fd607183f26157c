//! What holds for any text.

use proptest::prelude::*;
use sql::{CharsetSetting, Classification, LexMode, classify, digest_text};

const STATEMENTS: &[&str] = &[
    "SELECT c FROM sbtest1 WHERE id = 5000",
    "SELECT LAST_INSERT_ID ( ) , @@warning_count FROM t FOR UPDATE",
    "INSERT INTO d . t ( a , b ) VALUES ( 1 , 'x' ) , ( 2 , f ( 3 ) )",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET @a = 1 , SESSION sql_mode = ''",
    "CREATE OR REPLACE TEMPORARY TABLE t ( a INT )",
    "CREATE DEFINER = `u`@`h` PROCEDURE p ( ) BEGIN SELECT @a ; END",
    "FLUSH TABLES t WITH READ LOCK",
    "KILL QUERY 5",
    "SHOW COUNT ( * ) WARNINGS",
    "WITH a ( b ) AS ( SELECT 1 ) , c ( d ) AS ( SELECT 2 ) SELECT GET_LOCK ( 'a' , 1 )",
    "START TRANSACTION READ ONLY ; ROLLBACK TO SAVEPOINT a",
    "SET STATEMENT max_statement_time = 1 FOR SELECT NEXT VALUE FOR s",
];

/// Everything but where things are.
fn without_places(mut found: Classification) -> Classification {
    for call in &mut found.calls {
        call.span = 0..0;
        call.names_item = call.names_item.take().map(|_| 0..0);
    }
    if let CharsetSetting::Names { collation: Some(span), .. } = &mut found.charset {
        *span = 0..0;
    }
    found
}

fn modes() -> impl Strategy<Value = LexMode> {
    (any::<bool>(), any::<bool>(), prop::sample::select(vec![None, Some(0xa0), Some(0xff)])).prop_map(
        |(ansi_quotes, no_backslash_escapes, high_blank)| LexMode {
            ansi_quotes,
            no_backslash_escapes,
            high_blank,
            ..LexMode::default()
        },
    )
}

/// Pieces that matter to the lexer, in any order.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "SELECT ",
        "SET ",
        "@",
        "@@",
        "a",
        "1",
        "'",
        "\"",
        "`",
        "\\",
        "/*",
        "/*!",
        "/*!50000",
        "/*M!",
        "/*+",
        "*/",
        "--",
        "-- ",
        "#",
        "\n",
        ";",
        "(",
        ")",
        ",",
        ".",
        "=",
        ":",
        "WITH ",
        "AS ",
        "names ",
        "collate ",
        "row_count",
        "last_insert_id()",
        "INSERT ",
        "INTO ",
        "CREATE ",
        "PROCEDURE ",
        "BEGIN ",
        "END ",
        "CASE ",
        "global.",
        "\0",
        "\u{a0}",
        "e",
        "0x",
        "$",
        "KILL ",
        "FOR ",
        "STATEMENT ",
        "+",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat().into_bytes())
}

fn holds(text: &[u8], mode: LexMode) {
    let found = classify(text, mode);
    for call in &found.calls {
        assert!(call.span.start < call.span.end && call.span.end <= text.len());
    }
    if let CharsetSetting::Names { collation: Some(span), .. } = &found.charset {
        assert!(span.start <= span.end && span.end <= text.len());
    }
    assert!(!found.plain_read || (found.effects.is_empty() && found.reads.is_empty() && !found.several));
    for limit in [0, 5, text.len()] {
        assert!(digest_text(text, mode, limit).len() <= limit);
    }
}

proptest! {
    #[test]
    fn any_bytes(text in prop::collection::vec(any::<u8>(), 0..200), mode in modes()) {
        holds(&text, mode);
    }

    #[test]
    fn any_pieces(text in pieces(), mode in modes()) {
        holds(&text, mode);
    }

    #[test]
    fn case_and_comments_say_nothing(
        statement in prop::sample::select(STATEMENTS),
        upper in prop::collection::vec(any::<bool>(), 64),
        blanks in prop::collection::vec(prop::sample::select(vec![" ", "\n", "\t/* ; ' */", " # '\n", " -- \"\n ", "/**/ "]), 64),
    ) {
        let mut text = String::new();
        for ((word, upper), blank) in statement.split(' ').zip(&upper).zip(&blanks) {
            let quoted = word.contains('`');
            text += &if *upper && !quoted { word.to_uppercase() } else { word.to_lowercase() };
            text += blank;
        }
        let changed = without_places(classify(text.as_bytes(), LexMode::default()));
        let original = without_places(classify(statement.as_bytes(), LexMode::default()));
        prop_assert_eq!(&changed, &original, "{}", text);
    }
}
