//! Writing names and values into statements of our own.

use crate::LexMode;

/// Appends `name` as an identifier in backticks, which every `sql_mode` reads the same way.
///
/// The result is safe for the character sets a client may use (`character_set_client` cannot be ucs2, utf16 or utf32)
/// except that the multi-byte sets sjis, cp932, gbk, gb18030 and big5 may have a backtick as a trailing byte; where
/// `name` came out of the server in such a set, send it back in that set's connection only.
pub fn quote_identifier(out: &mut Vec<u8>, name: &[u8]) {
    out.push(b'`');
    for &byte in name {
        if byte == b'`' {
            out.push(b'`');
        }
        out.push(byte);
    }
    out.push(b'`');
}

/// Appends `value` as a string literal in single quotes: quotes doubled, and backslashes too where the session's
/// `sql_mode` gives them a meaning.
///
/// The same caution about multi-byte character sets as in [`quote_identifier`] applies to backslashes.
pub fn quote_string(out: &mut Vec<u8>, value: &[u8], mode: LexMode) {
    out.push(b'\'');
    for &byte in value {
        if byte == b'\'' || (byte == b'\\' && !mode.no_backslash_escapes) {
            out.push(byte);
        }
        out.push(byte);
    }
    out.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(value: &str, no_backslash_escapes: bool) -> String {
        let mut out = Vec::new();
        quote_string(&mut out, value.as_bytes(), LexMode { no_backslash_escapes, ..LexMode::default() });
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_quoted_value_ends_where_it_should() {
        assert_eq!(string("a", false), "'a'");
        assert_eq!(string("it's", false), "'it''s'");
        assert_eq!(string(r"\", false), r"'\\'");
        assert_eq!(string(r"\", true), r"'\'");
        assert_eq!(string(r"\'", false), r"'\\'''");
    }

    #[test]
    fn a_quoted_name_doubles_backticks() {
        let mut out = Vec::new();
        quote_identifier(&mut out, b"a`b");
        assert_eq!(out, b"`a``b`");
    }
}
