//! The schemas that each server has of its own, and that no replica gets from another.

const SYSTEM_SCHEMAS: [&[u8]; 4] = [b"information_schema", b"performance_schema", b"mysql", b"sys"];

/// Whether this is the name of a schema that each server has of its own.
pub fn is_system_schema(name: &[u8]) -> bool {
    SYSTEM_SCHEMAS.iter().any(|schema| name.eq_ignore_ascii_case(schema))
}

/// Whether a text may name something in such a schema: its name stands there, and a dot behind it. It may stand in a string, or be a part
/// of another name.
pub fn may_name_system_schema(text: &[u8]) -> bool {
    let names = |dot: usize| {
        let before = without_blanks_behind(&text[..dot]);
        let before = before.strip_suffix(b"`").or_else(|| before.strip_suffix(b"\"")).unwrap_or(before);
        let ends_with = |schema: &[u8]| {
            before.len() >= schema.len() && before[before.len() - schema.len()..].eq_ignore_ascii_case(schema)
        };
        // Between the name and the dot may stand a comment, one to the end of a line included.
        before.ends_with(b"*/")
            || (text[before.len()..dot].contains(&b'\n') && may_hold_line_comment(before))
            || SYSTEM_SCHEMAS.iter().any(|schema| ends_with(schema))
    };
    memchr::memchr_iter(b'.', text).any(names)
}

/// The servers take a vertical tab for a blank, too (my_isspace).
fn without_blanks_behind(text: &[u8]) -> &[u8] {
    let last = text.iter().rposition(|byte| !matches!(byte, b' ' | 9..=13));
    &text[..last.map_or(0, |last| last + 1)]
}

/// Whether the last line of a text may end in a comment.
fn may_hold_line_comment(text: &[u8]) -> bool {
    let line = &text[memchr::memrchr(b'\n', text).map_or(0, |end| end + 1)..];
    line.contains(&b'#') || memchr::memmem::find(line, b"--").is_some()
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
            "SELECT * FROM mysql\x0b.user",
            "SELECT * FROM mysql/* here */.user",
            "SELECT * FROM mysql -- here\n.user",
            "SELECT * FROM `mysql` # here\n\n . user",
            "SELECT * FROM mysql\r\n-- here\r\n-- and there\r\n.user",
        ] {
            assert!(may_name_system_schema(text.as_bytes()), "{text}");
        }
        for text in [
            "SELECT a.b FROM shop.orders AS a",
            "SELECT a\n.b -- c\nFROM shop.orders AS a",
            "SELECT 1.5 FROM t",
            "SELECT mysql FROM t",
            "",
        ] {
            assert!(!may_name_system_schema(text.as_bytes()), "{text}");
        }
        assert!(is_system_schema(b"MySQL") && !is_system_schema(b"mysql2"));
    }
}
