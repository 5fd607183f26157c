//! The keywords that matter wherever in a statement they stand.

/// The keywords that matter anywhere in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyword {
    None,
    As,
    Begin,
    Case,
    Delete,
    End,
    For,
    In,
    /// `INSERT`, `REPLACE`.
    Insert,
    /// Between `INSERT` and its table.
    InsertModifier,
    Into,
    Lock,
    Next,
    /// `EXECUTE`, `PREPARE`, `CALL`, `AGAINST`: behind them a server parses while a statement runs.
    Parses,
    Previous,
    Procedure,
    Recursive,
    Select,
    /// Between `SELECT` and its first column.
    SelectOption,
    /// Ends a select list: `FROM`, `WHERE`, `ORDER` and so on.
    SelectPart,
    From,
    Share,
    SqlCalcFoundRows,
    Table,
    Update,
    Value,
    Values,
    With,
}

/// Which of them a word is.
pub(crate) fn keyword(word: &[u8]) -> Keyword {
    let is = |known: &[u8]| word.eq_ignore_ascii_case(known);
    // Length and first letter leave one comparison for most words.
    match (word.len(), word.first().map_or(0, u8::to_ascii_lowercase)) {
        (2, b'a') if is(b"as") => Keyword::As,
        (2, b'i') if is(b"in") => Keyword::In,
        (3, b'a') if is(b"all") => Keyword::SelectOption,
        (3, b'e') if is(b"end") => Keyword::End,
        (3, b'f') if is(b"for") => Keyword::For,
        (4, b'c') if is(b"call") => Keyword::Parses,
        (4, b'c') if is(b"case") => Keyword::Case,
        (4, b'f') if is(b"from") => Keyword::From,
        (4, b'i') if is(b"into") => Keyword::Into,
        (4, b'l') if is(b"lock") => Keyword::Lock,
        (4, b'n') if is(b"next") => Keyword::Next,
        (4, b'w') if is(b"with") => Keyword::With,
        (5, b'b') if is(b"begin") => Keyword::Begin,
        (5, b'g') if is(b"group") => Keyword::SelectPart,
        (5, b'l') if is(b"limit") => Keyword::SelectPart,
        (5, b'o') if is(b"order") => Keyword::SelectPart,
        (5, b's') if is(b"share") => Keyword::Share,
        (5, b't') if is(b"table") => Keyword::Table,
        (5, b'u') if is(b"union") => Keyword::SelectPart,
        (5, b'v') if is(b"value") => Keyword::Value,
        (5, b'w') if is(b"where") => Keyword::SelectPart,
        (6, b'd') if is(b"delete") => Keyword::Delete,
        (6, b'e') if is(b"except") => Keyword::SelectPart,
        (6, b'h') if is(b"having") => Keyword::SelectPart,
        (6, b'i') if is(b"ignore") => Keyword::InsertModifier,
        (6, b'i') if is(b"insert") => Keyword::Insert,
        (6, b's') if is(b"select") => Keyword::Select,
        (6, b'u') if is(b"update") => Keyword::Update,
        (6, b'v') if is(b"values") => Keyword::Values,
        (7, b'a') if is(b"against") => Keyword::Parses,
        (7, b'd') if is(b"delayed") => Keyword::InsertModifier,
        (7, b'e') if is(b"execute") => Keyword::Parses,
        (7, b'p') if is(b"prepare") => Keyword::Parses,
        (7, b'r') if is(b"replace") => Keyword::Insert,
        (8, b'd') if is(b"distinct") => Keyword::SelectOption,
        (8, b'p') if is(b"previous") => Keyword::Previous,
        (9, b'i') if is(b"intersect") => Keyword::SelectPart,
        (9, b'p') if is(b"procedure") => Keyword::Procedure,
        (9, b'r') if is(b"recursive") => Keyword::Recursive,
        (9, b's') if is(b"sql_cache") => Keyword::SelectOption,
        (11, b'd') if is(b"distinctrow") => Keyword::SelectOption,
        (12, b'l') if is(b"low_priority") => Keyword::InsertModifier,
        (12, b's') if is(b"sql_no_cache") => Keyword::SelectOption,
        (13, b'h') if is(b"high_priority") => Keyword::InsertModifier,
        (13, b's') if is(b"straight_join") => Keyword::SelectOption,
        (14, b's') if is(b"sql_big_result") => Keyword::SelectOption,
        (16, b's') if is(b"sql_small_result") => Keyword::SelectOption,
        (17, b's') if is(b"sql_buffer_result") => Keyword::SelectOption,
        (19, b's') if is(b"sql_calc_found_rows") => Keyword::SqlCalcFoundRows,
        _ => Keyword::None,
    }
}
