//! Where the body of stored code ends, as far as that is certain.
//!
//! A statement in a body does not run now; a statement behind it does. So words count as the beginning of a block only where no
//! server can take them for anything else (`begin`, `end` and `do` are names, too: `SELECT 1 AS begin`). A body that is no block
//! ends at its first semicolon, and the rest is read as statements: nothing of it is passed over. The end of a block that holds
//! anything unexpected is not known, and the text is [`Effects::UNKNOWN`].

use crate::Effects;
use crate::functions::is_keyword;
use crate::keyword::Keyword;
use crate::lexer::TokenKind;
use crate::scan::{CallsFrom, Scanner};

/// The thing that is defined, by the word that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    Event,
    Routine,
    Trigger,
    /// A view, or what has a body of another kind.
    Other,
}

impl Stored {
    /// Returns the thing that the word at hand defines in a CREATE or ALTER.
    pub(crate) fn of(scanner: &Scanner<'_>) -> Option<Self> {
        const WORDS: [(&str, Stored); 7] = [
            ("event", Stored::Event),
            ("procedure", Stored::Routine),
            ("function", Stored::Routine),
            ("trigger", Stored::Trigger),
            ("view", Stored::Other),
            ("package", Stored::Other),
            ("library", Stored::Other),
        ];
        WORDS.iter().find(|(word, _)| scanner.is_word(word)).map(|&(_, stored)| stored)
    }
}

/// Passes over a definition, whose kind is at hand, to the semicolon behind it or the end.
pub(crate) fn pass(scanner: &mut Scanner<'_>, stored: Stored) {
    // The times of an event are worked out now.
    scanner.in_definition = stored != Stored::Event;
    scanner.calls_from = CallsFrom::Start;
    scanner.bump();
    let has_body = match stored {
        Stored::Event => passes_schedule(scanner),
        Stored::Routine => passes_parameters(scanner),
        Stored::Trigger => passes_event(scanner),
        Stored::Other => false,
    };
    if has_body && !passes_block(scanner) {
        scanner.add_effect(Effects::UNKNOWN);
    }
    scanner.finish_statement();
}

/// Up to the body of an event. False where it has none.
fn passes_schedule(scanner: &mut Scanner<'_>) -> bool {
    while !scanner.current.ends_statement() {
        let begins = scanner.depth == 0 && scanner.is_word("do");
        scanner.bump();
        if begins {
            scanner.in_definition = true;
            return true;
        }
    }
    false
}

/// Up to the body of a trigger.
fn passes_event(scanner: &mut Scanner<'_>) -> bool {
    // FOR is reserved: it stands nowhere else.
    while !scanner.is_word("for") {
        if scanner.current.ends_statement() {
            return false;
        }
        scanner.bump();
    }
    for word in ["for", "each", "row"] {
        if !scanner.is_word(word) {
            return false;
        }
        scanner.bump();
    }
    if scanner.is_word("follows") || scanner.is_word("precedes") {
        scanner.bump();
        scanner.bump();
    }
    true
}

/// Up to the body of a routine. False where it is not of the usual form (Oracle's has its declarations first).
fn passes_parameters(scanner: &mut Scanner<'_>) -> bool {
    while scanner.current.is_name() || scanner.current.is(b'.') {
        scanner.bump();
    }
    if !scanner.current.is(b'(') {
        return false;
    }
    let depth = scanner.depth;
    scanner.bump();
    while scanner.depth > depth && !scanner.current.ends_statement() {
        scanner.bump();
    }
    loop {
        // The names behind these are of character sets.
        let of_charset =
            scanner.is_word("charset") || scanner.is_word("collate") || scanner.previous_is_word("character");
        if of_charset {
            scanner.bump();
            scanner.bump();
        } else if belongs_to_head(scanner) {
            scanner.bump();
        } else {
            return true;
        }
    }
}

/// Says whether the token at hand may stand between the parameters and the body of a routine: its type and its characteristics.
fn belongs_to_head(scanner: &Scanner<'_>) -> bool {
    #[rustfmt::skip] // as many on a line as fit
    const WORDS: &[&str] = &[
        "bigint", "binary", "bit", "blob", "bool", "boolean", "char", "character", "comment", "contains", "data", "date", "datetime",
        "dec", "decimal", "definer", "deterministic", "double", "enum", "fixed", "float", "geometry", "inet4", "inet6", "int",
        "integer", "invoker", "json", "language", "long", "longblob", "longtext", "mediumblob", "mediumint", "mediumtext",
        "modifies", "national", "nchar", "no", "not", "numeric", "precision", "reads", "real", "returns", "security", "signed",
        "smallint", "sql", "text", "time", "timestamp", "tinyblob", "tinyint", "tinytext", "unsigned", "uuid", "varbinary",
        "varchar", "varying", "year", "zerofill",
    ];
    match scanner.current.kind() {
        TokenKind::Word => WORDS.iter().any(|word| scanner.is_word(word)),
        TokenKind::String | TokenKind::Number => true,
        TokenKind::Punctuation(b'(' | b')') => true,
        TokenKind::Punctuation(b',') => scanner.depth > 0,
        _ => false,
    }
}

/// A construct that is open in a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Block,
    CaseStatement,
    CaseExpression,
}

/// The first word of a statement, by what may follow it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    /// THEN ends its condition.
    Branch,
    /// DO ends its condition.
    Loop,
    Declare,
    /// END REPEAT ends its condition.
    Until,
    Other,
}

/// Passes over a body that is a block, up to its END, and over nothing of another one. False where something in it is unexpected.
fn passes_block(scanner: &mut Scanner<'_>) -> bool {
    pass_label(scanner);
    if scanner.keyword != Keyword::Begin {
        return true;
    }
    let mut open = Vec::new();
    let (mut at_start, mut first) = (true, First::Other);
    loop {
        if scanner.current.kind() == TokenKind::End {
            return false;
        }
        if scanner.current.is(b';') {
            scanner.bump();
            (at_start, first) = (true, First::Other);
            continue;
        }
        let begins_next = if at_start {
            pass_label(scanner);
            first = first_word(scanner);
            begins(scanner, &mut open)
        } else {
            goes_on(scanner, &mut open, first)
        };
        match begins_next {
            Some(begins) => at_start = begins,
            None => return false,
        }
        if open.is_empty() {
            return true;
        }
    }
}

/// Takes the first word of a statement. Whether another statement begins behind it; `None` where it is unexpected.
fn begins(scanner: &mut Scanner<'_>, open: &mut Vec<Open>) -> Option<bool> {
    let another = match scanner.keyword {
        Keyword::Begin => {
            open.push(Open::Block);
            true
        }
        Keyword::Case => {
            open.push(Open::CaseStatement);
            false
        }
        Keyword::End => return passes_end(scanner, open, true).then_some(false),
        _ => ["loop", "repeat", "else"].iter().any(|word| scanner.is_word(word)),
    };
    scanner.bump();
    Some(another)
}

/// Takes what follows in it, likewise.
fn goes_on(scanner: &mut Scanner<'_>, open: &mut Vec<Open>, first: First) -> Option<bool> {
    let in_case = open.last() == Some(&Open::CaseExpression);
    let mut another = false;
    match scanner.keyword {
        Keyword::Case => open.push(Open::CaseExpression),
        Keyword::End if first == First::Until && !in_case => {
            scanner.bump();
            if !scanner.is_word("repeat") {
                return None;
            }
        }
        Keyword::End => return passes_end(scanner, open, false).then_some(false),
        // In parentheses these are names, or belong to a CASE.
        _ if scanner.previous().is(b'.') || in_case || scanner.depth > 0 => {}
        _ if scanner.is_word("then") => {
            another = true;
            if first != First::Branch {
                return None;
            }
        }
        _ if scanner.is_word("do") => another = first == First::Loop,
        _ if scanner.is_word("handler") && first == First::Declare => {
            return passes_conditions(scanner).then_some(true);
        }
        _ => {}
    }
    scanner.bump();
    Some(another)
}

fn pass_label(scanner: &mut Scanner<'_>) {
    if scanner.current.is_name() && scanner.following().next() == Some(b":") {
        scanner.bump();
        scanner.bump();
    }
}

fn first_word(scanner: &Scanner<'_>) -> First {
    let is_one_of = |words: &[&str]| words.iter().any(|word| scanner.is_word(word));
    if is_one_of(&["if", "elseif", "elsif", "case", "when"]) {
        First::Branch
    } else if is_one_of(&["while", "for"]) {
        First::Loop
    } else if scanner.is_word("declare") {
        First::Declare
    } else if scanner.is_word("until") {
        First::Until
    } else {
        First::Other
    }
}

/// Passes over an END, the word at hand, with what it ends. False where it may be a name.
fn passes_end(scanner: &mut Scanner<'_>, open: &mut Vec<Open>, at_start: bool) -> bool {
    const ENDS_OF_OTHERS: [&str; 5] = ["if", "loop", "while", "repeat", "for"];
    let last = open.last().copied();
    if (last == Some(Open::CaseExpression)) == at_start || (!at_start && expects_operand(scanner)) {
        return false;
    }
    scanner.bump();
    if at_start && ENDS_OF_OTHERS.iter().any(|word| scanner.is_word(word)) {
        // These words are reserved: no label.
        scanner.bump();
        return true;
    }
    let ends_case = at_start && scanner.keyword == Keyword::Case;
    if at_start && ends_case != (last == Some(Open::CaseStatement)) {
        return false;
    }
    open.pop();
    if ends_case {
        scanner.bump();
    }
    true
}

/// Says whether a name may follow the words read so far: behind an operator.
fn expects_operand(scanner: &Scanner<'_>) -> bool {
    let previous = scanner.previous();
    let is_word = |word: &str| scanner.previous_is_word(word);
    match previous.kind() {
        TokenKind::Word => {
            let operator = is_keyword(scanner.bytes(previous)) && !is_word("null") && !is_word("default");
            operator || ["when", "then", "else", "case", "end"].into_iter().any(is_word)
        }
        TokenKind::Punctuation(byte) => byte != b')',
        _ => false,
    }
}

/// `HANDLER FOR condition, condition`: up to the statement of the handler.
fn passes_conditions(scanner: &mut Scanner<'_>) -> bool {
    scanner.bump();
    if !scanner.is_word("for") {
        return false;
    }
    loop {
        scanner.bump();
        if scanner.is_word("sqlstate") {
            scanner.bump();
            if scanner.is_word("value") {
                scanner.bump();
            }
        } else if scanner.is_word("not") {
            scanner.bump();
        }
        if scanner.current.ends_statement() {
            return false;
        }
        scanner.bump();
        if !scanner.current.is(b',') {
            return true;
        }
    }
}
