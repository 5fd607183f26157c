//! The normalised form of a statement: literals as `?`, lists of literals and rows of them as one, words in lower case,
//! comments and blanks gone. Hashed it is the fingerprint, written out it is the digest text.

use crate::LexMode;
use crate::lexer::{Lexer, Token, TokenKind};

/// The digest text of `text`: for operators, at most `limit` bytes.
pub(crate) fn digest_text(text: &[u8], mode: LexMode, limit: usize) -> String {
    let mut lexer = Lexer::new(text, mode);
    let mut normaliser = Normaliser::new(Written::default());
    loop {
        let token = lexer.next();
        normaliser.push(text, token);
        if token.kind() == TokenKind::End || normaliser.sink.text.len() > limit {
            break;
        }
    }
    // A character is four bytes at most: one that is cut here stands beyond the limit.
    let written = normaliser.sink.text.get(..limit.saturating_add(4)).unwrap_or(&normaliser.sink.text);
    let mut written = String::from_utf8_lossy(written).into_owned();
    while written.len() > limit {
        written.pop();
    }
    written
}

/// Takes what is left of a statement after normalising.
pub(crate) trait Sink {
    /// A word as it stands in the text; its case says nothing.
    fn word(&mut self, word: &[u8]);
    /// Anything else, as it is.
    fn verbatim(&mut self, piece: &[u8]);
}

/// Reduces a stream of tokens to its normalised form.
#[derive(Clone, Debug)]
pub(crate) struct Normaliser<S> {
    pub sink: S,
    list: List,
    /// A sign that belongs to the number behind it, if one follows.
    sign: Option<u8>,
    before: Before,
    /// Held back: at the end of the text it says nothing.
    semicolon: bool,
}

/// The last token, as far as it decides whether a sign after it is an operator.
#[derive(Clone, Copy, Debug)]
enum Before {
    Operand,
    Operator,
    /// From here to there in the text; only a sign makes a look at it necessary.
    Word(usize, usize),
}

/// Where in a list of literals we are. What a state calls held has not gone to the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Outside,
    /// After `(`.
    Open,
    /// After `?`; `row`: that one is all there is in its parentheses so far.
    Literal {
        row: bool,
    },
    /// The same, and a held `,`.
    Comma {
        row: bool,
    },
    /// After `(?)`.
    Row,
    /// The same, and a held `,`.
    RowComma,
    /// The same, and a held `,(`.
    NextOpen,
    /// The same, and a held `,(?`.
    NextLiteral,
    /// The same, and a held `,(?,`.
    NextComma,
}

impl<S: Sink> Normaliser<S> {
    pub fn new(sink: S) -> Self {
        Self { sink, list: List::Outside, sign: None, before: Before::Operator, semicolon: false }
    }

    /// Takes the next token of `text`; the last one must be [`TokenKind::End`].
    pub fn push(&mut self, text: &[u8], token: Token) {
        let piece = &text[token.start()..token.end()];
        if self.semicolon && !token.ends_statement() {
            self.semicolon = false;
            self.sink.verbatim(b";");
        }
        match token.kind() {
            TokenKind::End => {
                self.give_sign();
                self.leave_list();
            }
            TokenKind::Punctuation(b';') => {
                self.give_sign();
                self.leave_list();
                self.semicolon = true;
            }
            TokenKind::Punctuation(sign @ (b'-' | b'+'))
                if self.sign.is_none() && !self.is_after_operand(text) =>
            {
                self.sign = Some(sign);
                return;
            }
            TokenKind::Number => {
                self.sign = None;
                self.literal();
            }
            TokenKind::String | TokenKind::Parameter => {
                self.give_sign();
                self.literal();
            }
            TokenKind::Word if self.in_list() && piece.eq_ignore_ascii_case(b"null") => {
                self.give_sign();
                self.literal();
            }
            TokenKind::Punctuation(byte) => {
                self.give_sign();
                self.punctuation(byte);
            }
            TokenKind::Word | TokenKind::SystemVariable | TokenKind::UserVariable => {
                self.give_sign();
                self.leave_list();
                self.sink.word(piece);
            }
            _ => {
                self.give_sign();
                self.leave_list();
                self.sink.verbatim(piece);
            }
        }
        self.before = match token.kind() {
            TokenKind::Punctuation(byte) if byte != b')' => Before::Operator,
            TokenKind::Word => Before::Word(token.start(), token.end()),
            _ => Before::Operand,
        };
    }

    fn is_after_operand(&self, text: &[u8]) -> bool {
        match self.before {
            Before::Operand => true,
            Before::Operator => false,
            Before::Word(start, end) => !precedes_sign(&text[start..end]),
        }
    }

    /// A `NULL` here is a value, not part of `IS NULL`.
    fn in_list(&self) -> bool {
        matches!(self.list, List::Open | List::Comma { .. } | List::NextOpen | List::NextComma)
    }

    fn literal(&mut self) {
        self.list = match self.list {
            List::Literal { row: _ } => List::Literal { row: false }, // 'a' 'b'
            List::Comma { row } => List::Literal { row },
            List::NextOpen | List::NextComma => List::NextLiteral,
            list => {
                let row = list == List::Open;
                self.leave_list();
                self.sink.verbatim(b"?");
                List::Literal { row }
            }
        };
    }

    fn punctuation(&mut self, byte: u8) {
        self.list = match (self.list, byte) {
            (List::Literal { row }, b',') => List::Comma { row },
            (List::Row, b',') => List::RowComma,
            (List::RowComma, b'(') => List::NextOpen,
            (List::NextLiteral, b',') => List::NextComma,
            (List::NextLiteral, b')') => List::Row,
            (list, _) => {
                self.leave_list();
                self.sink.verbatim(&[byte]);
                match (list, byte) {
                    (List::Literal { row: true }, b')') => List::Row,
                    (_, b'(') => List::Open,
                    _ => List::Outside,
                }
            }
        };
    }

    fn give_sign(&mut self) {
        if let Some(sign) = self.sign.take() {
            self.leave_list();
            self.sink.verbatim(&[sign]);
        }
    }

    /// Hands on what is held.
    fn leave_list(&mut self) {
        let held: &[&[u8]] = match self.list {
            List::Comma { .. } | List::RowComma => &[b","],
            List::NextOpen => &[b",", b"("],
            List::NextLiteral => &[b",", b"(", b"?"],
            List::NextComma => &[b",", b"(", b"?", b","],
            List::Outside | List::Open | List::Literal { .. } | List::Row => &[],
        };
        for piece in held {
            self.sink.verbatim(piece);
        }
        self.list = List::Outside;
    }
}

/// Words after which a sign belongs to the number behind it.
fn precedes_sign(word: &[u8]) -> bool {
    const WORDS: [&[u8]; 16] = [
        b"and",
        b"between",
        b"by",
        b"div",
        b"else",
        b"in",
        b"interval",
        b"like",
        b"limit",
        b"mod",
        b"not",
        b"or",
        b"select",
        b"then",
        b"when",
        b"where",
    ];
    matches!(word.len(), 2..=8) && WORDS.iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// The fingerprint: eight bytes at a time are folded in with a rotation and a multiplication, and mixed at the end.
/// The constants are fixed, so that fingerprints of different runs and machines compare.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    /// The hash of what was taken so far.
    pub fn value(&self) -> u64 {
        // The finaliser of MurmurHash3: every bit of the input changes half of the output.
        let mut hash = self.0;
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^ (hash >> 33)
    }

    fn fold(&mut self, bits: u64) {
        // 2^64 divided by the golden ratio, the usual odd multiplier.
        self.0 = (self.0.rotate_left(5) ^ bits).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// `case_bit` is set in every byte: 0x20 makes letters lower case and keeps digits and underscores apart.
    fn fold_bytes(&mut self, bytes: &[u8], case_bit: u8) {
        let mask = u64::from_le_bytes([case_bit; 8]);
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let eight = chunk.try_into().expect("chunks_exact gives eight bytes");
            self.fold(u64::from_le_bytes(eight) | mask);
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(chunks.remainder()) {
            *to = from | case_bit;
        }
        self.fold(u64::from_le_bytes(last));
        self.fold(bytes.len() as u64); // so that "ab", "c" and "a", "bc" differ
    }
}

impl Sink for Fingerprint {
    fn word(&mut self, word: &[u8]) {
        self.fold_bytes(word, 0x20);
    }

    fn verbatim(&mut self, piece: &[u8]) {
        if let [byte] = piece {
            self.fold(u64::from(*byte) << 8 | 1); // one multiplication for punctuation
        } else {
            self.fold_bytes(piece, 0);
        }
    }
}

/// The digest text.
#[derive(Clone, Debug, Default)]
struct Written {
    text: Vec<u8>,
}

impl Written {
    fn separate(&mut self, next: &[u8]) {
        let Some(&last) = self.text.last() else { return };
        if !matches!(last, b'(' | b'.') && !matches!(next, b")" | b"." | b"," | b";") {
            self.text.push(b' ');
        }
    }
}

impl Sink for Written {
    fn word(&mut self, word: &[u8]) {
        self.separate(word);
        self.text.extend(word.iter().map(u8::to_ascii_lowercase));
    }

    fn verbatim(&mut self, piece: &[u8]) {
        self.separate(piece);
        self.text.extend(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn normal(text: &str, expected: &str) {
        assert_eq!(digest_text(text.as_bytes(), LexMode::default(), 1000), expected);
    }

    #[test]
    fn literals_become_question_marks() {
        normal("SELECT c FROM sbtest1 WHERE id=5000", "select c from sbtest1 where id = ?");
        normal("select 1,'a', x'41' /* b */ , -1, 1-1", "select ? - ?");
        normal("WHERE a IS NULL AND b = -5 AND c = - d", "where a is null and b = ? and c = - d");
        normal("f(NULL, 1)", "f (?)");
        normal("`A`.b", "`A`.b");
    }

    #[test]
    fn lists_and_rows_become_one() {
        normal("a;;b", "a; b");
        normal("a; ; ", "a");
        normal("a IN (1, 2, 3) AND b", "a in (?) and b");
        normal("VALUES (1,'a'),(2,'b'), (3, NULL)", "values (?)");
        normal("VALUES (1,'a'),(2,now())", "values (?), (?, now ())");
        normal("VALUES (1),(2", "values (?), (?");
        normal("VALUES (a),(2)", "values (a), (?)");
        normal("VALUES (1),x", "values (?), x");
        normal("VALUES (1),(x)", "values (?), (x)");
        normal("VALUES (1),(1,", "values (?), (?,");
    }

    #[test]
    fn the_text_stays_within_its_limit() {
        assert_eq!(digest_text("select é".as_bytes(), LexMode::default(), 8), "select ");
        assert_eq!(digest_text(b"select \xff", LexMode::default(), 8), "select ");
        assert_eq!(digest_text(b"select a", LexMode::default(), 0), "");
    }

    #[test]
    fn the_fingerprint_is_the_same_on_every_machine() {
        let mut fingerprint = Fingerprint::default();
        fingerprint.word(b"SELECT");
        let upper = fingerprint.value();
        let mut fingerprint = Fingerprint::default();
        fingerprint.word(b"select");
        assert_eq!(upper, fingerprint.value());
        fingerprint.verbatim(b"?");
        assert_ne!(upper, fingerprint.value());
    }
}
