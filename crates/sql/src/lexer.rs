//! Cuts a statement into tokens the way the servers do (`sql/sql_lex.cc`, `lex_one_token`).

use memchr::{memchr, memchr2, memmem};

use crate::{LexMode, hint, steps};

/// A piece of the text.
///
/// In two machine words of different size, so that copies go through registers: a copy of separate small fields reads
/// back, in one load, what several stores have just written, and waits for them (a quarter of the cycles of
/// [`crate::classify`], measured).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The first byte, and above it the byte after the last one.
    place: u64,
    /// The kind, the byte of a punctuation, and whether it is glued; a byte each.
    tag: u32,
}

/// The kind of a [`Token`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A keyword or a name without quotes.
    Word,
    /// A name in backticks, or in double quotes under `ANSI_QUOTES`.
    QuotedName,
    /// A string in any of its forms.
    String,
    /// A number in any of its forms.
    Number,
    /// `?` in a statement to prepare.
    Parameter,
    /// `@name`, or the host part of an account.
    UserVariable,
    /// `@@name`, `@@scope.name`.
    SystemVariable,
    /// Any other byte.
    Punctuation(u8),
    /// The end of the text.
    End,
}

impl Token {
    /// The token that stands before the first one.
    pub const NONE: Self = Self::new(TokenKind::End, 0, 0, false);

    const fn new(kind: TokenKind, start: usize, end: usize, glued: bool) -> Self {
        let kind = match kind {
            TokenKind::Word => 0,
            TokenKind::QuotedName => 1,
            TokenKind::String => 2,
            TokenKind::Number => 3,
            TokenKind::Parameter => 4,
            TokenKind::UserVariable => 5,
            TokenKind::SystemVariable => 6,
            TokenKind::End => 7,
            TokenKind::Punctuation(byte) => 8 | (byte as u32) << 8,
        };
        // Lexer::new has seen to it that positions fit.
        Self { place: start as u64 | (end as u64) << 32, tag: kind | (glued as u32) << 16 }
    }

    pub fn kind(self) -> TokenKind {
        match self.tag & 0xff {
            0 => TokenKind::Word,
            1 => TokenKind::QuotedName,
            2 => TokenKind::String,
            3 => TokenKind::Number,
            4 => TokenKind::Parameter,
            5 => TokenKind::UserVariable,
            6 => TokenKind::SystemVariable,
            7 => TokenKind::End,
            _ => TokenKind::Punctuation((self.tag >> 8) as u8),
        }
    }

    /// Its first byte.
    pub fn start(self) -> usize {
        self.place as u32 as usize
    }

    /// The byte after its last one.
    pub fn end(self) -> usize {
        (self.place >> 32) as usize
    }

    /// Nothing, not even a blank, stands between it and the token before.
    pub fn glued(self) -> bool {
        self.tag >> 16 != 0
    }

    pub fn is(self, punctuation: u8) -> bool {
        self.kind() == TokenKind::Punctuation(punctuation)
    }

    pub fn is_name(self) -> bool {
        matches!(self.kind(), TokenKind::Word | TokenKind::QuotedName)
    }

    /// Nothing of the statement is left.
    pub fn ends_statement(self) -> bool {
        self.kind() == TokenKind::End || self.is(b';')
    }
}

/// Yields tokens; never fails. Where servers may disagree about the text, it says so in [`Lexer::is_doubtful`].
#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    mode: LexMode,
    position: usize,
    /// Between `/*!` and its `*/`.
    in_code_comment: bool,
    doubtful: bool,
    last: Last,
    last_end: usize,
    /// Session variables that optimizer hints set, as they are written there.
    hinted: Vec<&'a [u8]>,
    /// What stands in the latest comment, hints and code aside.
    comment: Option<&'a [u8]>,
}

/// The token before, as far as it decides how a dot or a digit is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Name,
    Dot,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Blank,
    Letter,
    Digit,
    Quote,
    At,
    Hash,
    Dash,
    Slash,
    Star,
    Dot,
    Question,
    Nul,
    Other,
}

/// The servers' `state_map`, in the classes that matter here. Bytes from 0x80 on belong to names in every character set
/// but for a few signs, with which no server accepts the statement, and the non-breaking blank ([`LexMode::high_blank`]).
static CLASSES: [Class; 256] = classes();

const fn classes() -> [Class; 256] {
    let mut table = [Class::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b' ' | 9..=13 => Class::Blank, // my_isspace: tab, line feed, vertical tab, form feed, carriage return
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | 0x80..=0xff => Class::Letter,
            b'0'..=b'9' => Class::Digit,
            b'\'' | b'"' | b'`' => Class::Quote,
            b'@' => Class::At,
            b'#' => Class::Hash,
            b'-' => Class::Dash,
            b'/' => Class::Slash,
            b'*' => Class::Star,
            b'.' => Class::Dot,
            b'?' => Class::Question,
            0 => Class::Nul,
            _ => Class::Other,
        };
        byte += 1;
    }
    table
}

fn belongs_to_name(byte: u8) -> bool {
    matches!(CLASSES[usize::from(byte)], Class::Letter | Class::Digit)
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a [u8], mode: LexMode) -> Self {
        // Four times what max_allowed_packet can be; what is beyond is not looked at, and doubtful.
        let (text, beyond) = text.split_at(text.len().min(u32::MAX as usize));
        Self {
            text,
            mode,
            position: 0,
            in_code_comment: false,
            doubtful: !beyond.is_empty(),
            last: Last::Other,
            last_end: usize::MAX,
            hinted: Vec::new(),
            comment: None,
        }
    }

    /// Something was seen that servers or versions read in different ways, or that has no end.
    pub fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// Session variables that optimizer hints before the latest token set, since this was asked last.
    pub fn take_hinted(&mut self) -> Vec<&'a [u8]> {
        std::mem::take(&mut self.hinted)
    }

    /// What stands in the latest comment before the latest token, unless this was asked since: of `/* ... */` alone.
    pub fn take_comment(&mut self) -> Option<&'a [u8]> {
        self.comment.take()
    }

    /// One that goes ahead from here, with what was found so far left behind.
    pub fn ahead(&self) -> Self {
        Self { hinted: Vec::new(), ..*self }
    }

    /// The next token; [`TokenKind::End`] for ever at the end.
    pub fn next(&mut self) -> Token {
        let before = self.position;
        let token = self.cut();
        steps::add(1 + self.position - before);
        token
    }

    fn cut(&mut self) -> Token {
        loop {
            let start = self.position;
            let Some(&byte) = self.text.get(start) else {
                self.doubtful |= self.in_code_comment;
                return self.token(TokenKind::End, start, start);
            };
            match CLASSES[usize::from(byte)] {
                Class::Blank => self.position += 1,
                Class::Letter => return self.word(start),
                Class::Digit => return self.number(start),
                Class::Quote => return self.quoted(start, byte),
                Class::At => return self.at(start),
                Class::Dot => return self.dot(start),
                Class::Question => return self.token(TokenKind::Parameter, start, start + 1),
                Class::Hash => self.skip_line(),
                Class::Dash if self.starts_line_comment(start) => self.skip_line(),
                Class::Slash if self.peek(1) == Some(b'*') => self.comment(start),
                Class::Star if self.in_code_comment && self.peek(1) == Some(b'/') => {
                    self.in_code_comment = false;
                    self.position += 2;
                }
                class => {
                    // The servers' lexers end at a zero byte in some states and go on in others.
                    self.doubtful |= class == Class::Nul;
                    return self.token(TokenKind::Punctuation(byte), start, start + 1);
                }
            }
        }
    }

    fn token(&mut self, kind: TokenKind, start: usize, end: usize) -> Token {
        if let Some(blank) = self.mode.high_blank
            && !matches!(kind, TokenKind::String | TokenKind::QuotedName)
        {
            // What is taken for one name here is two for the servers.
            self.doubtful |= memchr(blank, &self.text[start..end]).is_some();
        }
        let glued = start == self.last_end;
        self.position = end;
        self.last_end = end;
        self.last = match kind {
            TokenKind::Word | TokenKind::QuotedName => Last::Name,
            TokenKind::Punctuation(b'.') => Last::Dot,
            _ => Last::Other,
        };
        Token::new(kind, start, end, glued)
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.position + ahead).copied()
    }

    /// The end of the run of name bytes that goes through `from`.
    fn name_end(&self, from: usize) -> usize {
        let rest = &self.text[from..];
        let length = rest.iter().position(|&byte| !belongs_to_name(byte)).unwrap_or(rest.len());
        steps::add(length);
        from + length
    }

    fn word(&mut self, start: usize) -> Token {
        let end = self.name_end(start);
        let introduces_string = end - start == 1 && matches!(self.text[start] | 0x20, b'n' | b'x' | b'b');
        if introduces_string && self.text.get(end) == Some(&b'\'') {
            let end = self.quote_end(end + 1, b'\'', !self.mode.no_backslash_escapes);
            return self.token(TokenKind::String, start, end);
        }
        // `$tag$ ... $tag$` is a string since MySQL 9 and a name before.
        self.doubtful |= self.text[start] == b'$';
        self.token(TokenKind::Word, start, end)
    }

    /// A number, or a name that begins with a digit.
    fn number(&mut self, start: usize) -> Token {
        let mut end = self.name_end(start);
        if self.last == Last::Dot && self.last_end == start {
            return self.token(TokenKind::Word, start, end);
        }
        let digits = start + self.text[start..end].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == end {
            if self.text.get(end) == Some(&b'.') {
                end = self.fraction_end(end + 1);
            }
            return self.token(TokenKind::Number, start, end);
        }
        let word = &self.text[start..end];
        if let Some(exponent) = exponent_end(self.text, digits) {
            return self.token(TokenKind::Number, start, exponent); // `1e1from t` goes on with `from`
        }
        let is_number = match word {
            [b'0', b'x', hex @ ..] => !hex.is_empty() && hex.iter().all(u8::is_ascii_hexdigit),
            [b'0', b'b', bits @ ..] => {
                !bits.is_empty() && bits.iter().all(|byte| matches!(byte, b'0' | b'1'))
            }
            _ => false,
        };
        self.token(if is_number { TokenKind::Number } else { TokenKind::Word }, start, end)
    }

    /// The end of a number whose part behind the dot begins at `from`.
    fn fraction_end(&self, from: usize) -> usize {
        let rest = &self.text[from..];
        let digits = from + rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        exponent_end(self.text, digits).unwrap_or(digits)
    }

    fn dot(&mut self, start: usize) -> Token {
        let after_name = self.last == Last::Name && self.last_end == start;
        if !after_name && self.peek(1).is_some_and(|byte| byte.is_ascii_digit()) {
            let end = self.fraction_end(start + 1);
            return self.token(TokenKind::Number, start, end);
        }
        self.token(TokenKind::Punctuation(b'.'), start, start + 1)
    }

    fn quoted(&mut self, start: usize, quote: u8) -> Token {
        let is_name = quote == b'`' || (quote == b'"' && self.mode.ansi_quotes);
        let end = self.quote_end(start + 1, quote, !is_name && !self.mode.no_backslash_escapes);
        if is_name {
            // A zero byte ends a quoted name in some versions.
            self.doubtful |= memchr(0, &self.text[start..end]).is_some();
        }
        self.token(if is_name { TokenKind::QuotedName } else { TokenKind::String }, start, end)
    }

    /// The byte after the quote that ends what begins at `from`.
    fn quote_end(&mut self, from: usize, quote: u8, escapes: bool) -> usize {
        let mut position = from;
        loop {
            let rest = self.text.get(position..).unwrap_or_default();
            let found = if escapes { memchr2(quote, b'\\', rest) } else { memchr(quote, rest) };
            let Some(found) = found else {
                self.doubtful = true;
                return self.text.len();
            };
            position += found + 1;
            let escapes_next = escapes && rest[found] == b'\\';
            let doubled = !escapes_next && self.text.get(position) == Some(&quote);
            if !escapes_next && !doubled {
                return position;
            }
            position += 1;
        }
    }

    fn at(&mut self, start: usize) -> Token {
        match self.peek(1) {
            Some(b'@') => {
                let end = self.system_variable_end(start + 2);
                self.token(TokenKind::SystemVariable, start, end)
            }
            Some(quote @ (b'\'' | b'"' | b'`')) => {
                let is_name = quote == b'`' || (quote == b'"' && self.mode.ansi_quotes);
                let end = self.quote_end(start + 2, quote, !is_name && !self.mode.no_backslash_escapes);
                self.token(TokenKind::UserVariable, start, end)
            }
            _ => {
                // MY_LEX_HOSTNAME: letters, digits, dot, underscore, dollar.
                let rest = &self.text[start + 1..];
                let length = rest
                    .iter()
                    .position(|&byte| !belongs_to_name(byte) && byte != b'.')
                    .unwrap_or(rest.len());
                self.token(TokenKind::UserVariable, start, start + 1 + length)
            }
        }
    }

    /// The end of `scope.name`, each part perhaps quoted, from the byte after `@@` on.
    fn system_variable_end(&mut self, from: usize) -> usize {
        let mut position = from;
        loop {
            position = match self.text.get(position) {
                Some(&quote) if quote == b'`' || (quote == b'"' && self.mode.ansi_quotes) => {
                    self.quote_end(position + 1, quote, false)
                }
                _ => self.name_end(position),
            };
            if self.text.get(position) != Some(&b'.') {
                return position;
            }
            position += 1;
        }
    }

    /// `--` begins a comment only before a blank, a control character or the end.
    fn starts_line_comment(&mut self, start: usize) -> bool {
        if self.text.get(start + 1) != Some(&b'-') {
            return false;
        }
        let Some(&after) = self.text.get(start + 2) else { return true };
        // The non-breaking blank counts where the client's character set has one.
        self.doubtful |= after >= 0x80;
        after == b' ' || after.is_ascii_control()
    }

    fn skip_line(&mut self) {
        let rest = &self.text[self.position..];
        let length = memchr2(b'\n', 0, rest).unwrap_or(rest.len());
        self.position += length; // a zero byte is met again as a token
    }

    fn comment(&mut self, start: usize) {
        let after = &self.text[start + 2..];
        self.doubtful |= self.in_code_comment; // what nesting means has changed between versions
        if let Some(code) = after.strip_prefix(b"!") {
            self.code_comment(start + 3, code, false);
        } else if let Some(code) = after.strip_prefix(b"M!") {
            self.code_comment(start + 4, code, true);
        } else {
            let length = memmem::find(after, b"*/");
            self.doubtful |= length.is_none();
            let inside = &after[..length.unwrap_or(after.len())];
            // MySQL reads quotes in an optimizer hint, MariaDB before 12 takes it for a comment.
            if inside.first() == Some(&b'+') {
                steps::add(inside.len());
                self.doubtful |= !quotes_are_closed(inside);
                self.hinted.extend(hint::variables(inside));
            } else {
                self.comment = Some(inside);
            }
            self.position = start + 2 + length.map_or(after.len(), |length| length + 2);
        }
    }

    /// Enters a comment whose content some servers execute. All that are supported (MySQL from 5.7, MariaDB from 10.6) do
    /// so where no version is given or one below 5.7.0: MariaDB leaves 50700 to 99999 to MySQL.
    fn code_comment(&mut self, content: usize, code: &[u8], mariadb_only: bool) {
        let digits = code.iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
        let length = if digits < 5 { 0 } else { digits };
        let version = code[..length].iter().fold(0, |version, digit| version * 10 + u32::from(digit - b'0'));
        self.doubtful |= mariadb_only || version >= 50_700;
        self.in_code_comment = true;
        self.position = content + length;
    }
}

/// The end of an exponent that begins at `from`, if there is one.
fn exponent_end(text: &[u8], from: usize) -> Option<usize> {
    if !matches!(text.get(from), Some(b'e' | b'E')) {
        return None;
    }
    let signed = usize::from(matches!(text.get(from + 1), Some(b'+' | b'-')));
    let first = from + 1 + signed;
    let digits = text[first.min(text.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then_some(first + digits)
}

fn quotes_are_closed(text: &[u8]) -> bool {
    let mut open = None;
    for &byte in text {
        match open {
            Some(quote) if byte == quote => open = None,
            None if matches!(byte, b'\'' | b'"' | b'`') => open = Some(byte),
            _ => {}
        }
    }
    open.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str, mode: LexMode) -> (Vec<(TokenKind, &str)>, bool) {
        let mut lexer = Lexer::new(text.as_bytes(), mode);
        let mut found = Vec::new();
        loop {
            let token = lexer.next();
            if token.kind() == TokenKind::End {
                return (found, lexer.is_doubtful());
            }
            found.push((token.kind(), &text[token.start()..token.end()]));
        }
    }

    #[track_caller]
    fn certain(text: &str, expected: &[(TokenKind, &str)]) {
        assert_eq!(tokens(text, LexMode::default()), (expected.to_vec(), false), "{text}");
    }

    use TokenKind::{Number, Parameter, Punctuation, QuotedName, String, SystemVariable, UserVariable, Word};

    #[test]
    fn names_and_numbers() {
        certain("a1 1a _é$", &[(Word, "a1"), (Word, "1a"), (Word, "_é$")]);
        certain("1 0x1F 0b01 1e5", &[(Number, "1"), (Number, "0x1F"), (Number, "0b01"), (Number, "1e5")]);
        certain("1. .5 1.5e-3 1e+5", &[(Number, "1."), (Number, ".5"), (Number, "1.5e-3"), (Number, "1e+5")]);
        certain("1e1from", &[(Number, "1e1"), (Word, "from")]);
        certain("1e 0x 0b2", &[(Word, "1e"), (Word, "0x"), (Word, "0b2")]);
        certain("t.1f", &[(Word, "t"), (Punctuation(b'.'), "."), (Word, "1f")]);
        certain("1-1", &[(Number, "1"), (Punctuation(b'-'), "-"), (Number, "1")]);
    }

    #[test]
    fn quotes() {
        certain(r"'a''b' 'a\'b' '\\'", &[(String, "'a''b'"), (String, r"'a\'b'"), (String, r"'\\'")]);
        certain(
            "N'a' x'41' B'1' _utf8'a'",
            &[(String, "N'a'"), (String, "x'41'"), (String, "B'1'"), (Word, "_utf8"), (String, "'a'")],
        );
        certain(r"`a``b\` ?", &[(QuotedName, r"`a``b\`"), (Parameter, "?")]);
        let ansi = LexMode { ansi_quotes: true, ..LexMode::default() };
        assert_eq!(tokens(r#""a\" 'x'"#, ansi), (vec![(QuotedName, r#""a\""#), (String, "'x'")], false));
        let plain = LexMode { no_backslash_escapes: true, ..LexMode::default() };
        assert_eq!(tokens(r"'\' 'x'", plain), (vec![(String, r"'\'"), (String, "'x'")], false));
    }

    #[test]
    fn variables() {
        certain(
            "@a.b @`a b` @'x' @",
            &[(UserVariable, "@a.b"), (UserVariable, "@`a b`"), (UserVariable, "@'x'"), (UserVariable, "@")],
        );
        certain(
            "@@x @@session.`x`,",
            &[(SystemVariable, "@@x"), (SystemVariable, "@@session.`x`"), (Punctuation(b','), ",")],
        );
    }

    #[test]
    fn comments() {
        certain(
            "a # b\nc -- d\n--e",
            &[(Word, "a"), (Word, "c"), (Punctuation(b'-'), "-"), (Punctuation(b'-'), "-"), (Word, "e")],
        );
        certain("a/* ' */b/**/c --", &[(Word, "a"), (Word, "b"), (Word, "c")]);
        certain("/*!40101 SET*//*! x */ /*+ SET_VAR(a='b') */", &[(Word, "SET"), (Word, "x")]);
    }

    #[test]
    fn doubt() {
        for text in [
            "'a",
            "`a",
            "/* a",
            "/*!40101 a",
            "/*!80000 a */",
            "/*!401011 a */",
            "/*M!100100 a */",
            "/*! a /* b */ */",
            "/*+ ' */",
            "\0",
            "# a \0 b",
            "$$ a $$",
            "--\u{a0}",
        ] {
            assert!(tokens(text, LexMode::default()).1, "{text:?}");
        }
    }
}
