//! The trace that a statement belongs to, as applications write it into a comment: `/*traceparent='00-...-...-01'*/`, by the
//! specification of sqlcommenter (a comment of `key='value'` pairs, keys and values URL-encoded) and W3C's Trace Context, 3.2.

use memchr::memmem;

use crate::LexMode;
use crate::lexer::{Lexer, TokenKind};
use crate::steps;

const KEY: &[u8] = b"traceparent";

/// Its length: version, trace, span and flags, with a dash between each two.
const LENGTH: usize = 2 + 1 + 32 + 1 + 16 + 1 + 2;

/// A valid `traceparent`: hexadecimal digits in lower case, and dashes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceParent([u8; LENGTH]);

impl TraceParent {
    /// A value that has been decoded; `None` where it is not valid. Of later versions of the form the first four fields are taken, as
    /// these are to stay.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (fields, rest) = value.split_first_chunk::<LENGTH>()?;
        let is_whole = rest.is_empty() || (!value.starts_with(b"00") && rest[0] == b'-');
        let is_form = fields.iter().enumerate().all(|(at, byte)| match at {
            2 | 35 | 52 => *byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        });
        let found = Self(*fields);
        let is_nothing = |id: &str| id.bytes().all(|digit| digit == b'0');
        let valid = is_whole
            && is_form
            && !value.starts_with(b"ff")
            && !is_nothing(found.trace_id())
            && !is_nothing(found.span_id());
        valid.then_some(found)
    }

    /// All of it.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// 32 digits.
    pub fn trace_id(&self) -> &str {
        self.as_str().get(3..35).unwrap_or_default()
    }

    /// 16 digits: what the application was doing when it sent the statement.
    pub fn span_id(&self) -> &str {
        self.as_str().get(36..52).unwrap_or_default()
    }
}

impl std::fmt::Debug for TraceParent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What stands in a comment of `text`; the last one counts, and of comments without a token between them the last is looked at.
/// `None` where there is none, it is not valid, or the lexer is not sure of the text.
pub fn trace_parent(text: &[u8], mode: LexMode) -> Option<TraceParent> {
    steps::add(text.len());
    // Most texts have none, and are not read once more for that.
    memmem::find(text, KEY)?;
    let mut lexer = Lexer::new(text, mode);
    let mut found = None;
    loop {
        let token = lexer.next();
        found = lexer.take_comment().and_then(of_comment).or(found);
        if token.kind() == TokenKind::End {
            return found.filter(|_| !lexer.is_doubtful());
        }
    }
}

/// `comment` is what stands between its signs.
fn of_comment(comment: &[u8]) -> Option<TraceParent> {
    steps::add(comment.len());
    let mut rest = comment.trim_ascii();
    while !rest.is_empty() {
        let equals = rest.iter().position(|&byte| byte == b'=')?;
        let (key, behind) = (&rest[..equals], rest[equals + 1..].trim_ascii_start().strip_prefix(b"'")?);
        let end = value_end(behind)?;
        if key.trim_ascii() == KEY {
            return TraceParent::parse(decoded(&behind[..end], &mut [0; LENGTH + 1]));
        }
        let next = behind[end + 1..].trim_ascii_start();
        rest = next.strip_prefix(b",")?.trim_ascii_start();
    }
    None
}

/// Where the quote is that ends a value; a backslash before a quote makes it a part of that.
fn value_end(value: &[u8]) -> Option<usize> {
    let mut escaped = false;
    value.iter().position(|&byte| {
        let ends = byte == b'\'' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

/// URL-decoded into `space`, as far as that goes. What is no escape stays as it is.
fn decoded<'a>(value: &[u8], space: &'a mut [u8]) -> &'a [u8] {
    let (mut rest, mut length) = (value, 0);
    while let ([first, behind @ ..], true) = (rest, length < space.len()) {
        let escape = behind.first_chunk::<2>().filter(|_| *first == b'%').and_then(hexadecimal);
        space[length] = escape.unwrap_or(*first);
        rest = if escape.is_some() { &behind[2..] } else { behind };
        length += 1;
    }
    &space[..length]
}

fn hexadecimal(digits: &[u8; 2]) -> Option<u8> {
    let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
    u8::try_from(high? * 16 + low?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn of(text: &str) -> Option<String> {
        trace_parent(text.as_bytes(), LexMode::default()).map(|found| String::from(found.as_str()))
    }

    #[test]
    fn it_is_found_in_comments_alone() {
        let valid = Some(String::from(VALID));
        assert_eq!(of(&format!("SELECT 1 /*traceparent='{VALID}'*/")), valid);
        assert_eq!(of(&format!("/* traceparent = '{VALID}' */ SELECT 1 /* x */")), valid);
        assert_eq!(
            of(&format!("SELECT 1 /*action='%2Fa%20b',db_driver='it\\'s',traceparent='{VALID}',x='y'*/;")),
            valid
        );
        assert_eq!(of(&format!("SELECT 1 /*traceparent='{}'*/", VALID.replace('-', "%2d"))), valid);
        for none in [
            format!("SELECT '/*traceparent=''{VALID}''*/'"),
            format!("SELECT \"/*traceparent='{VALID}'*/\""),
            format!("SELECT 1 # /*traceparent='{VALID}'*/"),
            format!("SELECT 1 /*! traceparent='{VALID}' */"),
            format!("SELECT 1 /*+ traceparent='{VALID}' */"),
            format!("SELECT 1 /*xtraceparent='{VALID}'*/"),
            format!("SELECT 1 /*a='traceparent=\\'{VALID}\\''*/"),
            format!("SELECT 1 /*traceparent={VALID}*/"),
            format!("SELECT 1 /*traceparent='{VALID}"),
            format!("SELECT 'x /*traceparent='{VALID}'*/"),
        ] {
            assert_eq!(of(&none), None, "{none}");
        }
    }

    #[test]
    fn the_last_one_counts() {
        let other = VALID.replace("b7-01", "b8-00");
        let text = format!("/*traceparent='{other}'*/ SELECT 1 /*traceparent='{VALID}'*/");
        assert_eq!(of(&text), Some(String::from(VALID)));
        let text = format!("/*traceparent='{other}'*/ SELECT 1 /*traceparent='wrong'*/");
        assert_eq!(of(&text), Some(other));
    }

    #[test]
    fn only_valid_ones_are_taken() {
        let parse = |value: &str| TraceParent::parse(value.as_bytes());
        let found = parse(VALID).unwrap();
        assert_eq!(found.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(found.span_id(), "00f067aa0ba902b7");
        let later = VALID.replacen("00", "01", 1);
        assert!(parse(&later).is_some() && parse(&format!("{later}-what")).is_some());
        for wrong in [
            String::new(),
            VALID[..54].to_owned(),
            format!("{VALID}-more"),
            format!("{later}more"),
            VALID.to_uppercase(),
            VALID.replacen("00", "ff", 1),
            VALID.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            VALID.replace("00f067aa0ba902b7", &"0".repeat(16)),
            VALID.replace("4bf9", "4bf\""),
            VALID.replace('-', "_"),
            VALID.replace("92f", "92\u{e9}"),
        ] {
            assert_eq!(parse(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_odd_is_no_trouble() {
        for text in
            ["/*traceparent='%'*/", "/*traceparent='%4", "/*traceparent=", "/*traceparent*/", "traceparent"]
        {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
