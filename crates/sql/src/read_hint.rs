//! Where a client wants a read to go: a comment in front of a statement, `/* onramp: primary */`.

/// What a client says of its reads, by a comment or by the variable `onramp_reads`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadHint {
    /// They go to the server that takes writes.
    Primary,
    /// They may go to a replica that has what the session has written.
    Session,
    /// They may go to a replica that has what anybody had been told to be written when they came.
    Global,
    /// They may go to any replica.
    Eventual,
}

/// The words, by the numbers that stand for them where a variable is set to one.
pub const READ_HINTS: [(&str, ReadHint); 4] = [
    ("primary", ReadHint::Primary),
    ("session", ReadHint::Session),
    ("global", ReadHint::Global),
    ("eventual", ReadHint::Eventual),
];

/// The hint that a text begins with: the first thing in it, blanks aside, in a comment of its own. Others say nothing.
pub fn read_hint(text: &[u8]) -> Option<ReadHint> {
    let comment = text.trim_ascii_start().strip_prefix(b"/*")?;
    // Longer ones are somebody's notes, which nobody needs to search for their end.
    const LONGEST: usize = 64;
    let comment = &comment[..comment.len().min(LONGEST)];
    let end = comment.windows(2).position(|pair| pair == b"*/")?;
    let (name, word) = std::str::from_utf8(&comment[..end]).ok()?.split_once(':')?;
    let is_ours = name.trim().eq_ignore_ascii_case("onramp");
    let known = READ_HINTS.iter().find(|(known, _)| word.trim().eq_ignore_ascii_case(known));
    known.filter(|_| is_ours).map(|&(_, hint)| hint)
}

/// The schemas that each server has of its own, and that no replica gets from another.
const SYSTEM_SCHEMAS: [&[u8]; 4] = [b"information_schema", b"performance_schema", b"mysql", b"sys"];

/// Whether this is the name of a schema that each server has of its own.
pub fn is_system_schema(name: &[u8]) -> bool {
    SYSTEM_SCHEMAS.iter().any(|schema| name.eq_ignore_ascii_case(schema))
}

/// Whether a text may name something in such a schema: its name stands there, and a dot behind it. It may stand in a string, or be a part
/// of another name.
pub fn may_name_system_schema(text: &[u8]) -> bool {
    let names = |dot: usize| {
        let before = text[..dot].trim_ascii_end();
        let before = before.strip_suffix(b"`").or_else(|| before.strip_suffix(b"\"")).unwrap_or(before);
        let ends_with = |schema: &[u8]| {
            before.len() >= schema.len() && before[before.len() - schema.len()..].eq_ignore_ascii_case(schema)
        };
        // Between the name and the dot may stand a comment.
        before.ends_with(b"*/") || SYSTEM_SCHEMAS.iter().any(|schema| ends_with(schema))
    };
    memchr::memchr_iter(b'.', text).any(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_of_the_server_are_found_however_they_are_written() {
        for text in [
            "SELECT * FROM information_schema.TABLES",
            "SELECT * FROM INFORMATION_SCHEMA . TABLES",
            "SELECT * FROM `mysql`.user",
            "SELECT * FROM \"sys\" .version",
            "SELECT performance_schema.threads.NAME FROM t",
            "SELECT * FROM mysql/* here */.user",
        ] {
            assert!(may_name_system_schema(text.as_bytes()), "{text}");
        }
        for text in ["SELECT a.b FROM shop.orders AS a", "SELECT 1.5 FROM t", "SELECT mysql FROM t", ""] {
            assert!(!may_name_system_schema(text.as_bytes()), "{text}");
        }
        assert!(is_system_schema(b"MySQL") && !is_system_schema(b"mysql2"));
    }

    #[test]
    fn a_hint_is_the_first_comment_and_nothing_else() {
        assert_eq!(read_hint(b"/* onramp: primary */ SELECT 1"), Some(ReadHint::Primary));
        assert_eq!(read_hint(b" \n/*ONRAMP:Eventual*/SELECT 1"), Some(ReadHint::Eventual));
        for text in [
            &b"SELECT 1 /* onramp: primary */"[..],
            b"/* onramp: somewhere */ SELECT 1",
            b"/* onramp primary */ SELECT 1",
            b"/*! onramp: primary */ SELECT 1",
            b"/*+ onramp: primary */ SELECT 1",
            b"/* other: primary */ SELECT 1",
            b"/* onramp: primary",
            b"/* \xff: primary */",
            b"/*",
            b"",
        ] {
            assert_eq!(read_hint(text), None, "{}", String::from_utf8_lossy(text));
        }
    }
}
