//! Finds how a statement uses user variables, where that can be said for certain.

use crate::LexMode;
use crate::lexer::{Lexer, Token, TokenKind};

/// See [`variable_use`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariableUse {
    /// They are read only.
    Reads,
    /// `SET @name = literal, ...` and nothing else: names in lower case (the servers compare them without regard to case), and
    /// the literals as they are to be written again. A literal of ASCII without quotes or backslashes in it is read the same in
    /// every `sql_mode`; the collation of a string is the session's.
    Sets(Vec<Assignment>),
}

/// A variable's name and its literal, see [`VariableUse::Sets`].
pub type Assignment = (Box<[u8]>, Box<[u8]>);

/// The first words of statements that write variables by `:=` or `INTO` only.
const MAY_READ: [&str; 10] =
    ["select", "insert", "replace", "update", "delete", "with", "do", "create", "prepare", "execute"];

/// Finds how `text`, the argument of a COM_QUERY, uses user variables; `None` where it writes them in another way than
/// [`VariableUse::Sets`], or may. It is one statement, and calls nothing that is not built in. `mode` must be the session's.
pub fn variable_use(text: &[u8], mode: LexMode) -> Option<VariableUse> {
    // Code for some servers only.
    if memchr::memmem::find(text, b"/*!").is_some() || memchr::memmem::find(text, b"/*M!").is_some() {
        return None;
    }
    let mut lexer = Lexer::new(text, mode);
    let first = lexer.next();
    let bytes = |token: Token| &text[token.start()..token.end()];
    let is = |token: Token, word: &str| {
        token.kind() == TokenKind::Word && bytes(token).eq_ignore_ascii_case(word.as_bytes())
    };
    let found = if is(first, "set") {
        VariableUse::Sets(assignments(text, &mut lexer)?)
    } else if first.is(b'(') || MAY_READ.iter().any(|word| is(first, word)) {
        let inserts = is(first, "insert") || is(first, "replace");
        only_reads(text, &mut lexer, inserts).then_some(VariableUse::Reads)?
    } else {
        return None;
    };
    (!lexer.is_doubtful()).then_some(found)
}

/// No assignment stands in the rest, and no `INTO` but that of an insert.
fn only_reads(text: &[u8], lexer: &mut Lexer<'_>, inserts: bool) -> bool {
    let mut intos = 0;
    loop {
        let token = lexer.next();
        match token.kind() {
            TokenKind::End => return intos <= u32::from(inserts),
            TokenKind::Punctuation(b':') => return false,
            TokenKind::Word if text[token.start()..token.end()].eq_ignore_ascii_case(b"into") => intos += 1,
            _ => {}
        }
    }
}

/// Assignments of one statement that are told: as many as anybody has a use for, and a bound for what is kept of a text.
const MOST_ASSIGNMENTS: usize = 256;

/// Bytes of their names and literals, likewise.
const MOST_BYTES: usize = 16 << 10;

/// Names and literals to the end of the text.
fn assignments(text: &[u8], lexer: &mut Lexer<'_>) -> Option<Vec<Assignment>> {
    let mut found = Vec::new();
    let mut bytes = 0;
    loop {
        let target = lexer.next();
        if target.kind() != TokenKind::UserVariable {
            return None;
        }
        let name = name(&text[target.start()..target.end()])?;
        let mut sign = lexer.next();
        if sign.is(b':') {
            sign = lexer.next();
        }
        if !sign.is(b'=') {
            return None;
        }
        let literal = literal(text, lexer)?;
        bytes += name.len() + literal.len();
        if found.len() == MOST_ASSIGNMENTS || bytes > MOST_BYTES {
            return None;
        }
        found.push((name, literal));
        let mut next = lexer.next();
        if next.is(b',') {
            continue;
        }
        while next.is(b';') {
            next = lexer.next();
        }
        return (next.kind() == TokenKind::End).then_some(found);
    }
}

/// `@name` or `` @`name` `` without its signs: letters, digits, `_`, `.` and `$`, at most 64 (`MAX_NAME`).
fn name(token: &[u8]) -> Option<Box<[u8]>> {
    let bare = token.strip_prefix(b"@")?;
    let quoted = bare.first().is_some_and(|byte| b"`'\"".contains(byte));
    let bare = if quoted { bare.get(1..bare.len() - 1)? } else { bare };
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.$".contains(byte);
    let fits = !bare.is_empty() && bare.len() <= 64 && bare.iter().all(plain);
    fits.then(|| bare.to_ascii_lowercase().into())
}

fn literal(text: &[u8], lexer: &mut Lexer<'_>) -> Option<Box<[u8]>> {
    let mut token = lexer.next();
    let negative = token.is(b'-');
    if negative {
        token = lexer.next();
    }
    let bytes = &text[token.start()..token.end()];
    match token.kind() {
        TokenKind::Number if negative => Some([b"-", bytes].concat().into()),
        TokenKind::Number => Some(bytes.into()),
        _ if negative => None,
        TokenKind::Word => {
            let word = bytes.to_ascii_uppercase();
            matches!(&*word, b"NULL" | b"TRUE" | b"FALSE").then(|| word.into())
        }
        TokenKind::String if matches!(bytes, [b'\'' | b'"', ..]) => {
            let bare = bytes.get(1..bytes.len() - 1)?;
            let plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\'' | b'"' | b'\\');
            // An empty one is NULL in the mode EMPTY_STRING_IS_NULL.
            (!bare.is_empty() && bare.iter().all(plain)).then(|| [b"'", bare, b"'"].concat().into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<VariableUse> {
        variable_use(text.as_bytes(), LexMode::default())
    }

    fn sets(pairs: &[(&str, &str)]) -> Option<VariableUse> {
        let boxed = |text: &str| text.as_bytes().into();
        Some(VariableUse::Sets(pairs.iter().map(|(name, value)| (boxed(name), boxed(value))).collect()))
    }

    #[test]
    fn literals_are_carried() {
        assert_eq!(found("SET @A = 1"), sets(&[("a", "1")]));
        assert_eq!(
            found("set @a := -1.5, @`b.c`='it is', @d = null;"),
            sets(&[("a", "-1.5"), ("b.c", "'it is'"), ("d", "NULL")])
        );
        assert_eq!(
            found("SET @a = \"x\", @b = 0x41, @c = TRUE"),
            sets(&[("a", "'x'"), ("b", "0x41"), ("c", "TRUE")])
        );
        for text in [
            "SET @a = @b",
            "SET @a = 1 + 1",
            "SET @a = 1, sql_mode = ''",
            "SET sql_mode = '', @a = 1",
            "SET @a = ''",
            "SET @a = 'it''s'",
            r"SET @a = 'a\'b'",
            "SET @a = 'é'",
            "SET @a = 'a' 'b'",
            "SET @a = _latin1'a'",
            "SET @a = N'a'",
            "SET @a = -'1'",
            "SET @a = (SELECT 1)",
            "SET @`a b` = 1",
            "SET @a = 1; SELECT 1",
            "SET @a /*! = 1 */",
            "SET STATEMENT a = 1 FOR SELECT @a",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn reading_is_told_from_writing() {
        for text in [
            "SELECT @a, t.b FROM t WHERE c = @d",
            "INSERT INTO t VALUES (@a, ':=')",
            "(SELECT @a)",
            "EXECUTE s USING @a",
            "UPDATE t SET a = @a",
        ] {
            assert_eq!(found(text), Some(VariableUse::Reads), "{text}");
        }
        for text in [
            "SELECT @a := 1",
            "SELECT 1 INTO @a",
            "INSERT INTO t SELECT 1 INTO @a",
            "CALL p(@a)",
            "LOAD DATA INFILE 'x' INTO TABLE t (@a)",
            "GET DIAGNOSTICS @a = ROW_COUNT",
            "FETCH c INTO @a",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn assignments_have_a_bound() {
        let set =
            |count, value: &str| found(&format!("SET {}", vec![format!("@a={value}"); count].join(",")));
        assert!(set(MOST_ASSIGNMENTS, "1").is_some());
        assert_eq!(set(MOST_ASSIGNMENTS + 1, "1"), None);
        assert_eq!(set(1, &format!("'{}'", "x".repeat(MOST_BYTES))), None);
    }
}
