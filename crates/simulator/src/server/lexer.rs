//! Splits the simulation's SQL into lexemes. Knows what the virtual statements use, no more.

/// One lexeme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lexeme {
    /// A keyword or a bare name, in lower case.
    Word(String),
    /// A string literal, unescaped (hexadecimal ones too).
    Text(String),
    /// A name in backticks.
    Name(String),
    /// Digits, with sign and point where they belong to a literal.
    Number(String),
    /// `@name`.
    UserVariable(String),
    /// `@@name`, `@@session.name`; in lower case, without the scope.
    SystemVariable {
        /// Whether the scope is GLOBAL.
        global: bool,
        /// The name.
        name: String,
    },
    /// Any other character.
    Symbol(char),
}

/// A lexeme with its place in the text.
#[derive(Clone, Debug)]
pub struct Piece {
    /// What.
    pub lexeme: Lexeme,
    /// First byte.
    pub start: usize,
    /// Byte after the last.
    pub end: usize,
}

/// The lexemes of a text, without blanks and comments; `None` where a quote or comment does not end.
pub fn pieces(text: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        let rest = &text[at..];
        if next.is_whitespace() {
            at += next.len_utf8();
        } else if rest.starts_with("/*") {
            at += rest.find("*/")? + 2;
        } else if rest.starts_with('#') || rest.starts_with("-- ") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else {
            let (lexeme, length) = lexeme(rest, next)?;
            pieces.push(Piece { lexeme, start: at, end: at + length });
            at += length;
        }
    }
    Some(pieces)
}

/// The lexeme at the front and its length.
fn lexeme(rest: &str, first: char) -> Option<(Lexeme, usize)> {
    if let Some(after) = rest.strip_prefix("@@") {
        let mut length = word_length(after);
        let mut name = after[..length].to_ascii_lowercase();
        let mut global = false;
        if matches!(name.as_str(), "session" | "local" | "global") && after[length..].starts_with('.') {
            global = name == "global";
            let tail = &after[length + 1..];
            name = tail[..word_length(tail)].to_ascii_lowercase();
            length += 1 + name.len();
        }
        return Some((Lexeme::SystemVariable { global, name }, 2 + length));
    }
    if let Some(after) = rest.strip_prefix('@') {
        let length = word_length(after);
        return Some((Lexeme::UserVariable(after[..length].to_owned()), 1 + length));
    }
    if let Some(digits) = rest.strip_prefix("0x") {
        let length = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
        return Some((Lexeme::Text(from_hex(&digits[..length])?), 2 + length));
    }
    if let Some(digits) = rest.strip_prefix("x'") {
        let length = digits.find('\'')?;
        return Some((Lexeme::Text(from_hex(&digits[..length])?), 3 + length));
    }
    match first {
        '\'' => quoted(rest, '\'').map(|(text, length)| (Lexeme::Text(text), length)),
        '`' => quoted(rest, '`').map(|(text, length)| (Lexeme::Name(text), length)),
        '0'..='9' => {
            let length = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
            Some((Lexeme::Number(rest[..length].to_owned()), length))
        }
        _ if word_length(rest) > 0 => {
            let length = word_length(rest);
            Some((Lexeme::Word(rest[..length].to_ascii_lowercase()), length))
        }
        symbol => Some((Lexeme::Symbol(symbol), symbol.len_utf8())),
    }
}

fn word_length(text: &str) -> usize {
    text.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$')).count()
}

/// A quoted text with doubled quotes undone. Backslashes stay: nobody here uses them.
fn quoted(rest: &str, quote: char) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character != quote {
            text.push(character);
        } else if characters.next_if(|(_, next)| *next == quote).is_some() {
            text.push(quote);
        } else {
            return Some((text, at + 1));
        }
    }
    None
}

fn from_hex(digits: &str) -> Option<String> {
    let bytes: Option<Vec<u8>> =
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect();
    String::from_utf8(bytes?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_literals_and_comments_are_told_apart() {
        let found: Vec<Lexeme> =
            pieces("SELECT /* c */ 'it''s', @@SESSION.sql_mode, @tag, `a b`, 0x4142, 12 -- end")
                .unwrap()
                .into_iter()
                .map(|piece| piece.lexeme)
                .filter(|lexeme| *lexeme != Lexeme::Symbol(','))
                .collect();
        assert_eq!(
            found,
            [
                Lexeme::Word("select".into()),
                Lexeme::Text("it's".into()),
                Lexeme::SystemVariable { global: false, name: "sql_mode".into() },
                Lexeme::UserVariable("tag".into()),
                Lexeme::Name("a b".into()),
                Lexeme::Text("AB".into()),
                Lexeme::Number("12".into()),
            ]
        );
    }

    #[test]
    fn an_open_quote_or_comment_is_an_error() {
        assert!(pieces("SELECT 'open").is_none());
        assert!(pieces("SELECT /* open").is_none());
    }
}
