//! What the text of a SELECT tells of FOUND_ROWS() behind it, beyond the rows that its answer has.

use crate::words::all;

/// How the number of rows in the answer leads to that of FOUND_ROWS(). Seen with MariaDB 10.11 and MySQL 8.0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowsFound {
    /// They are the same.
    #[default]
    Sent,
    /// It ends with a LIMIT in numbers or parameters: the rows that were passed over count as well.
    Limited {
        /// How many were to be passed over. There may be fewer than that, where none was sent.
        offset: Offset,
        /// Whether it may be a UNION and its like, of which MariaDB counts all rows, as if without the LIMIT.
        united: bool,
    },
    /// VALUES, which is nothing that counts on MariaDB.
    Values,
}

/// An offset of LIMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offset {
    /// A number.
    Of(u64),
    /// The value of the last parameter.
    Last,
    /// The value of the parameter before the last.
    LastButOne,
}

impl RowsFound {
    /// The same where the values of parameters are known: that of the last one is `last(0)`, of the one before that `last(1)`.
    pub fn given(self, last: impl Fn(usize) -> Option<u64>) -> Self {
        let Self::Limited { offset, united } = self else { return self };
        let offset = match offset {
            Offset::Of(_) => Some(offset),
            Offset::Last => last(0).map(Offset::Of),
            Offset::LastButOne => last(1).map(Offset::Of),
        };
        Self::Limited { offset: offset.unwrap_or(Offset::Last), united }
    }

    /// Says whether only the server knows, since the offset is a parameter that cannot be read.
    pub fn is_unknown(self) -> bool {
        matches!(self, Self::Limited { offset: Offset::Last | Offset::LastButOne, .. })
    }

    /// Says whether only the server knows behind an answer of so many rows.
    pub fn is_unsure(self, rows: u64, is_mariadb: bool) -> bool {
        let Self::Limited { offset, united } = self else { return false };
        self.is_unknown() || (united && is_mariadb) || (rows == 0 && offset != Offset::Of(0))
    }

    /// Of the text of a SELECT or VALUES, the last of its statements. What has comments, or anything else behind its LIMIT, counts as
    /// without one.
    pub fn of_text(text: &[u8]) -> Self {
        let starts_with_values = text.get(..6).is_some_and(|word| word.eq_ignore_ascii_case(b"values"));
        if starts_with_values {
            return Self::Values;
        }
        let Some(offset) = offset_at_end(text) else { return Self::Sent };
        let has = |part: &[u8]| all(text).windows(part.len()).any(|bytes| bytes.eq_ignore_ascii_case(part));
        if has(b"--") || has(b"#") || has(b"/*") {
            return Self::Sent;
        }
        let united = has(b"union") || has(b"except") || has(b"intersect") || has(b"minus");
        Self::Limited { offset, united }
    }
}

/// The offset of the `LIMIT n`, `LIMIT m, n` or `LIMIT n OFFSET m` that a text ends with.
fn offset_at_end(text: &[u8]) -> Option<Offset> {
    let text = text.trim_ascii_end();
    let text = text.strip_suffix(b";").unwrap_or(text).trim_ascii_end();
    let (text, last) = value_at_end(text)?;
    if let Some(text) = text.strip_suffix(b",") {
        let (text, offset) = value_at_end(text.trim_ascii_end())?;
        word_at_end(text, b"limit")?;
        let behind = offset == Offset::Last && last == Offset::Last;
        return Some(if behind { Offset::LastButOne } else { offset });
    }
    match word_at_end(text, b"offset") {
        Some(text) => {
            let (text, _) = value_at_end(text.trim_ascii_end())?;
            word_at_end(text, b"limit").map(|_| last)
        }
        None => word_at_end(text, b"limit").map(|_| Offset::Of(0)),
    }
}

/// The text in front of a number or a parameter's sign, without blanks at its end, and the number.
fn value_at_end(text: &[u8]) -> Option<(&[u8], Offset)> {
    if let Some(text) = text.strip_suffix(b"?") {
        return Some((text.trim_ascii_end(), Offset::Last));
    }
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (text, digits) = text.split_at(text.len() - digits);
    if !text.last().is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b',') {
        // Something else than a LIMIT, as nearly always.
        return None;
    }
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((text.trim_ascii_end(), Offset::Of(number)))
}

/// The text in front of a word.
fn word_at_end<'t>(text: &'t [u8], word: &[u8]) -> Option<&'t [u8]> {
    let (before, last) = text.split_at_checked(text.len().checked_sub(word.len())?)?;
    let apart = before.last().is_none_or(|byte| !byte.is_ascii_alphanumeric() && !b"_$`@.".contains(byte));
    (apart && last.eq_ignore_ascii_case(word)).then_some(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_the_values_of_parameters() {
        let found = |text: &str| RowsFound::of_text(text.as_bytes());
        let given = |text, values: [Option<u64>; 2]| found(text).given(|place| values[place]);
        let of = |offset| RowsFound::Limited { offset: Offset::Of(offset), united: false };
        assert_eq!(given("SELECT a FROM t LIMIT ?, ?", [Some(10), Some(40)]), of(40));
        assert_eq!(given("SELECT a FROM t LIMIT ? OFFSET ?", [Some(10), Some(40)]), of(10));
        assert_eq!(given("SELECT a FROM t LIMIT 3, ?", [None, None]), of(3));
        let unknown = given("SELECT a FROM t LIMIT ?, ?", [Some(10), None]);
        assert!(unknown.is_unknown() && !of(10).is_unknown());
        assert_eq!(given("SELECT a FROM t", [None, None]), RowsFound::Sent);
    }

    #[test]
    fn limits_at_the_end_are_read() {
        let limited = |offset, united| RowsFound::Limited { offset: Offset::Of(offset), united };
        let by_parameter = |offset| RowsFound::Limited { offset, united: false };
        for (text, found) in [
            ("SELECT * FROM t ORDER BY c LIMIT 2,1", limited(2, false)),
            ("select * from t limit 20 , 10 ; ", limited(20, false)),
            ("SELECT a FROM t LIMIT 10\nOFFSET 40", limited(40, false)),
            ("SELECT a FROM t LIMIT 10", limited(0, false)),
            ("SELECT a FROM t UNION SELECT b FROM t LIMIT 1", limited(0, true)),
            ("VALUES (1),(2)", RowsFound::Values),
            ("SELECT a FROM t", RowsFound::Sent),
            ("SELECT a FROM t LIMIT ?", limited(0, false)),
            ("SELECT a FROM t LIMIT ?,?", by_parameter(Offset::LastButOne)),
            ("SELECT a FROM t LIMIT ?, 5", by_parameter(Offset::Last)),
            ("SELECT a FROM t LIMIT 5,?;", limited(5, false)),
            ("SELECT a FROM t LIMIT ? OFFSET ?", by_parameter(Offset::Last)),
            ("SELECT a FROM t LIMIT ? OFFSET 3", limited(3, false)),
            ("SELECT a FROM t WHERE b = (SELECT c FROM u LIMIT 2,1)", RowsFound::Sent),
            ("SELECT a FROM t -- LIMIT 2,1", RowsFound::Sent),
            ("SELECT a FROM t ORDER BY my_limit 2,1", RowsFound::Sent),
            ("SELECT 'limit 2,1'", RowsFound::Sent),
            ("SELECT 1,2", RowsFound::Sent),
            ("SELECT a LIMIT 99999999999999999999,1", RowsFound::Sent),
            ("2,1", RowsFound::Sent),
            ("", RowsFound::Sent),
        ] {
            assert_eq!(RowsFound::of_text(text.as_bytes()), found, "{text}");
        }
    }
}
