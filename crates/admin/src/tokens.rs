//! Cuts a statement into tokens, by MySQL's rules for quotes, comments and variables.

/// One token. Comments are none: they only separate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// A name or keyword, or a number.
    Word(&'a str),
    /// A string, without its quotes and escapes.
    Text(String),
    /// A name in backticks, without them.
    Name(String),
    /// `@@scope.name` or `@@name`.
    SystemVariable {
        /// The word before the point, if any.
        scope: Option<&'a str>,
        /// The variable.
        name: &'a str,
    },
    /// `@name`.
    UserVariable,
    /// Any other character, or two that belong together.
    Symbol(&'a str),
}

/// A token with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed<'a> {
    pub(crate) token: Token<'a>,
    /// True if something that separates stands before it.
    pub(crate) apart: bool,
}

impl Token<'_> {
    /// Says whether this is the keyword, in any case.
    pub(crate) fn is(&self, keyword: &str) -> bool {
        matches!(self, Token::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    /// Says whether this is the symbol.
    pub(crate) fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self, Token::Symbol(found) if *found == symbol)
    }

    /// Returns its text as a name or value; `None` for symbols and variables.
    pub(crate) fn said(&self) -> Option<&str> {
        match self {
            Token::Word(word) => Some(word),
            Token::Text(text) | Token::Name(text) => Some(text),
            Token::SystemVariable { .. } | Token::UserVariable | Token::Symbol(_) => None,
        }
    }
}

/// Cuts `text`. A semicolon at its end is left out. `None` where a quote or comment is not closed.
pub(crate) fn tokens(text: &str) -> Option<Vec<Placed<'_>>> {
    let mut cutter = Cutter { text, at: 0 };
    let mut found: Vec<Placed<'_>> = Vec::new();
    loop {
        let apart = cutter.skip_separators()?;
        if cutter.rest().is_empty() {
            break;
        }
        found.push(Placed { token: cutter.token()?, apart });
    }
    while found.last().is_some_and(|last| last.token.is_symbol(";")) {
        found.pop();
    }
    Some(found)
}

struct Cutter<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cutter<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Passes over blanks and comments. Returns whether there were any.
    fn skip_separators(&mut self) -> Option<bool> {
        let start = self.at;
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start().len();
            self.at += blanks;
            let rest = self.rest();
            // Two dashes are a comment where a blank or nothing follows: the manual's "Comments".
            let dashes = rest
                .strip_prefix("--")
                .is_some_and(|after| after.is_empty() || after.starts_with(char::is_whitespace));
            if rest.starts_with('#') || dashes {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(inside) = rest.strip_prefix("/*") {
                self.at += 2 + inside.find("*/")? + 2;
            } else {
                return Some(self.at > start);
            }
        }
    }

    fn token(&mut self) -> Option<Token<'a>> {
        let rest = self.rest();
        let first = rest.chars().next()?;
        match first {
            '\'' | '"' => self.quoted(first, true).map(Token::Text),
            '`' => self.quoted(first, false).map(Token::Name),
            '@' => Some(self.variable()),
            _ if is_word(first) => Some(Token::Word(self.word())),
            _ => {
                let pairs = ["<=>", "<=", ">=", "<>", "!=", "||", "&&", ":=", "->>", "->"];
                let pair = pairs.into_iter().find(|pair| rest.starts_with(pair));
                let length = pair.map_or(first.len_utf8(), str::len);
                self.at += length;
                Some(Token::Symbol(&rest[..length]))
            }
        }
    }

    /// A name, or a number such as 1.5.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let number = rest.starts_with(|c: char| c.is_ascii_digit());
        let ends = |c: char| !(is_word(c) || (number && c == '.'));
        let length = rest.find(ends).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn variable(&mut self) -> Token<'a> {
        let system = self.rest().starts_with("@@");
        self.at += if system { 2 } else { 1 };
        let first = self.word();
        if !system {
            return Token::UserVariable;
        }
        if !self.rest().starts_with('.') {
            return Token::SystemVariable { scope: None, name: first };
        }
        self.at += 1;
        Token::SystemVariable { scope: Some(first), name: self.word() }
    }

    /// A quote inside is doubled or, in strings, stands behind a backslash.
    fn quoted(&mut self, quote: char, backslashes: bool) -> Option<String> {
        let rest = self.rest();
        let mut text = String::new();
        let mut characters = rest.char_indices().skip(1).peekable();
        while let Some((at, character)) = characters.next() {
            if character == '\\' && backslashes {
                let (_, escaped) = characters.next()?;
                push_escaped(&mut text, escaped);
            } else if character != quote {
                text.push(character);
            } else if characters.peek().is_some_and(|(_, next)| *next == quote) {
                characters.next();
                text.push(quote);
            } else {
                self.at += at + quote.len_utf8();
                return Some(text);
            }
        }
        None
    }
}

/// The manual's "Special Character Escape Sequences". `\%` and `\_` stay as they are, for LIKE.
fn push_escaped(text: &mut String, escaped: char) {
    match escaped {
        'n' => text.push('\n'),
        't' => text.push('\t'),
        'r' => text.push('\r'),
        '0' => text.push('\0'),
        'b' => text.push('\u{8}'),
        'Z' => text.push('\u{1a}'),
        '%' | '_' => text.extend(['\\', escaped]),
        other => text.push(other),
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<Token<'_>> {
        tokens(text).unwrap().into_iter().map(|placed| placed.token).collect()
    }

    #[test]
    fn strings_lose_their_quotes_and_escapes() {
        assert_eq!(cut(r"'it''s' 'a\'b\n' "), [Token::Text("it's".into()), Token::Text("a'b\n".into())]);
        assert_eq!(cut("\"x\" `a``b`"), [Token::Text("x".into()), Token::Name("a`b".into())]);
        assert_eq!(cut(r"'50\%'"), [Token::Text(r"50\%".into())]);
    }

    #[test]
    fn comments_and_the_last_semicolon_are_left_out() {
        assert_eq!(cut("/* hello; */ KILL -- now\n 5 # done\n;;"), [Token::Word("KILL"), Token::Word("5")]);
        assert_eq!(cut("5--1").len(), 4, "not a comment: {:?}", cut("5--1"));
        assert_eq!(cut(" /* nothing */ "), []);
    }

    #[test]
    fn variables_are_one_token() {
        let name = "version_comment";
        assert_eq!(cut("@@version_comment"), [Token::SystemVariable { scope: None, name }]);
        assert_eq!(
            cut("@@GLOBAL.permits @x"),
            [Token::SystemVariable { scope: Some("GLOBAL"), name: "permits" }, Token::UserVariable]
        );
    }

    #[test]
    fn what_is_not_closed_is_refused() {
        for text in ["'abc", "\"a\\\"", "`x", "SELECT /* 1", "'a\\"] {
            assert_eq!(tokens(text), None, "{text}");
        }
    }

    #[test]
    fn every_cut_of_a_statement_is_taken() {
        let text = "SELECT 'ä\\'', \"b\", `c`, @@d.e, @f, 1.5 <=> 2 /* g */ -- h\n FROM x";
        for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
            let _ = tokens(&text[..end]);
        }
        assert_eq!(cut(text).len(), 16);
    }
}
