//! What the text of a SELECT tells of FOUND_ROWS() behind it, beyond the rows that its answer has.

/// How the number of rows in the answer leads to that of FOUND_ROWS(). Seen with MariaDB 10.11 and MySQL 8.0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Found {
    /// They are the same.
    #[default]
    Sent,
    /// It ends with a LIMIT in numbers: the rows that were passed over count as well.
    Limited {
        /// How many were to be passed over. There may be fewer than that, where none was sent.
        offset: u64,
        /// Whether it may be a UNION and its like, of which MariaDB counts all rows, as if without the LIMIT.
        united: bool,
    },
    /// VALUES, which is nothing that counts on MariaDB.
    Values,
}

impl Found {
    /// Of the text of a SELECT or VALUES, the last of its statements. What has comments, or anything else behind its LIMIT, counts as
    /// without one.
    pub(crate) fn of_text(text: &[u8]) -> Self {
        let starts_with_values = text.get(..6).is_some_and(|word| word.eq_ignore_ascii_case(b"values"));
        if starts_with_values {
            return Self::Values;
        }
        let Some(offset) = offset_at_end(text) else { return Self::Sent };
        let has = |part: &[u8]| text.windows(part.len()).any(|bytes| bytes.eq_ignore_ascii_case(part));
        if has(b"--") || has(b"#") || has(b"/*") {
            return Self::Sent;
        }
        let united = has(b"union") || has(b"except") || has(b"intersect") || has(b"minus");
        Self::Limited { offset, united }
    }
}

/// The offset of the `LIMIT n`, `LIMIT m, n` or `LIMIT n OFFSET m` that a text ends with.
fn offset_at_end(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_end();
    let text = text.strip_suffix(b";").unwrap_or(text).trim_ascii_end();
    let (text, last) = number_at_end(text)?;
    if let Some(text) = text.strip_suffix(b",") {
        let (text, offset) = number_at_end(text.trim_ascii_end())?;
        return word_at_end(text, b"limit").map(|_| offset);
    }
    match word_at_end(text, b"offset") {
        Some(text) => {
            let (text, _) = number_at_end(text.trim_ascii_end())?;
            word_at_end(text, b"limit").map(|_| last)
        }
        None => word_at_end(text, b"limit").map(|_| 0),
    }
}

/// The text in front of a number, without blanks at its end, and the number.
fn number_at_end(text: &[u8]) -> Option<(&[u8], u64)> {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (text, digits) = text.split_at(text.len() - digits);
    Some((text.trim_ascii_end(), std::str::from_utf8(digits).ok()?.parse().ok()?))
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
    fn limits_at_the_end_are_read() {
        let limited = |offset, united| Found::Limited { offset, united };
        for (text, found) in [
            ("SELECT * FROM t ORDER BY c LIMIT 2,1", limited(2, false)),
            ("select * from t limit 20 , 10 ; ", limited(20, false)),
            ("SELECT a FROM t LIMIT 10\nOFFSET 40", limited(40, false)),
            ("SELECT a FROM t LIMIT 10", limited(0, false)),
            ("SELECT a FROM t UNION SELECT b FROM t LIMIT 1", limited(0, true)),
            ("VALUES (1),(2)", Found::Values),
            ("SELECT a FROM t", Found::Sent),
            ("SELECT a FROM t LIMIT ?,?", Found::Sent),
            ("SELECT a FROM t WHERE b = (SELECT c FROM u LIMIT 2,1)", Found::Sent),
            ("SELECT a FROM t -- LIMIT 2,1", Found::Sent),
            ("SELECT a FROM t ORDER BY my_limit 2,1", Found::Sent),
            ("SELECT 'limit 2,1'", Found::Sent),
            ("SELECT 1,2", Found::Sent),
            ("SELECT a LIMIT 99999999999999999999,1", Found::Sent),
            ("2,1", Found::Sent),
            ("", Found::Sent),
        ] {
            assert_eq!(Found::of_text(text.as_bytes()), found, "{text}");
        }
    }
}
