//! `SET` of the pool's own variables: those that a client may set for itself, by the names that Percona's, MariaDB's and
//! MySQL's thread pools know, and Onramp's own.

use std::ops::Range;

use crate::LexMode;
use crate::lexer::{Lexer, Token, TokenKind};
use crate::system_variable::{Scope, SystemVariable, without_quotes};

/// A variable of the thread pool, or of Onramp, with a value for each client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolVariable {
    /// Percona Server's `thread_pool_high_prio_mode`: `transactions`, `statements` or `none`.
    HighPrioMode,
    /// Percona Server's `thread_pool_high_prio_tickets`: 0 to 4294967295.
    HighPrioTickets,
    /// MariaDB's `thread_pool_priority`: `high`, `low` or `auto`.
    Priority,
    /// MySQL's `thread_pool_high_priority_connection`: 0 or 1.
    HighPriorityConnection,
    /// Onramp's own `onramp_reads`: a word of [`crate::READ_HINTS`].
    Reads,
}

impl PoolVariable {
    const ALL: [Self; 5] = [
        Self::HighPrioMode,
        Self::HighPrioTickets,
        Self::Priority,
        Self::HighPriorityConnection,
        Self::Reads,
    ];

    /// The name by which clients know it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HighPrioMode => "thread_pool_high_prio_mode",
            Self::HighPrioTickets => "thread_pool_high_prio_tickets",
            Self::Priority => "thread_pool_priority",
            Self::HighPriorityConnection => "thread_pool_high_priority_connection",
            Self::Reads => "onramp_reads",
        }
    }

    /// The variable of this name, in any case.
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        let may_be = has_our_prefix(name);
        Self::ALL.into_iter().find(|known| may_be && name.eq_ignore_ascii_case(known.name().as_bytes()))
    }
}

/// The value that a variable is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolValue {
    /// `DEFAULT`.
    Default,
    /// A number without a sign that 64 bits hold.
    Number(u64),
    /// A word, a string without its quotes, or any other number, as it was written.
    Text(String),
}

/// The pool's assignments of a `SET`, apart from the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSet {
    /// In the order of the text; at least one.
    pub assignments: Vec<(PoolVariable, PoolValue)>,
    /// A `SET` of the other variables, where there are any.
    pub rest: Option<Vec<u8>>,
}

/// Why a `SET` with a variable of the pool cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolSetError {
    /// `SET GLOBAL` and its like, of this variable.
    Global(String),
    /// The value is no literal, or no value at all.
    NotLiteral(PoolVariable),
    /// The other assignments cannot be told from the pool's with certainty.
    Mixed,
}

/// Takes a `SET` apart for which [`crate::Classification::sets_pool_variable`] holds and `several` does not.
///
/// # Errors
///
/// See [`PoolSetError`]; then nothing of the statement should be carried out.
pub fn pool_set(text: &[u8], mode: LexMode) -> Result<PoolSet, PoolSetError> {
    let mut reader = Reader::new(text, mode);
    let mut assignments = Vec::new();
    let mut others: Vec<Range<usize>> = Vec::new();
    reader.bump(); // SET
    loop {
        let start = reader.current.start();
        let target = reader.target()?;
        match target {
            Some(variable) => assignments.push((variable, reader.value(variable)?)),
            None => {
                reader.skip_assignment();
                // Nothing at all, where a comma follows at once.
                others.push(start..reader.previous_end.max(start));
            }
        }
        if !reader.current.is(b',') {
            break;
        }
        reader.bump();
    }
    if others.is_empty() {
        return Ok(PoolSet { assignments, rest: None });
    }
    // `GLOBAL` holds for what follows it as well, and a comment may be code that begins in one assignment and ends in
    // another.
    let unsure = reader.global_said || memchr::memmem::find(text, b"/*").is_some();
    if unsure || !reader.current.ends_statement() {
        return Err(PoolSetError::Mixed);
    }
    let others: Vec<_> = others.into_iter().map(|span| &text[span]).collect();
    Ok(PoolSet { assignments, rest: Some([b"SET ", others.join(&b", "[..]).as_slice()].concat()) })
}

/// Says whether an assignment to this is the pool's business: no server behind it is asked.
pub(crate) fn is_ours(scope: Scope, name: &[u8]) -> bool {
    match scope {
        Scope::Global => has_our_prefix(name),
        Scope::Session | Scope::Unsaid => PoolVariable::of(name).is_some(),
    }
}

/// Whether a variable is the thread pool's or Onramp's, as far as its name tells.
fn has_our_prefix(name: &[u8]) -> bool {
    let begins =
        |prefix: &[u8]| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    begins(b"thread_pool_") || begins(b"onramp_")
}

/// The tokens of a `SET`.
struct Reader<'a> {
    text: &'a [u8],
    lexer: Lexer<'a>,
    current: Token,
    previous_end: usize,
    /// The word GLOBAL or one of its like has been seen, which holds for the assignments behind it too (MySQL's manual,
    /// "SET Syntax for Variable Assignment").
    global_said: bool,
    global_holds: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a [u8], mode: LexMode) -> Self {
        let mut lexer = Lexer::new(text, mode);
        let current = lexer.next();
        Self { text, lexer, current, previous_end: 0, global_said: false, global_holds: false }
    }

    fn bump(&mut self) {
        self.previous_end = self.current.end();
        self.current = self.lexer.next();
    }

    fn bytes(&self) -> &'a [u8] {
        &self.text[self.current.start()..self.current.end()]
    }

    /// The variable of the pool that is assigned to here; `None` leaves the reader somewhere in another assignment.
    fn target(&mut self) -> Result<Option<PoolVariable>, PoolSetError> {
        let (scope, name) = match self.current.kind() {
            TokenKind::SystemVariable => {
                let variable = SystemVariable::of(self.bytes());
                (variable.scope, variable.name)
            }
            TokenKind::Word | TokenKind::QuotedName => self.plain_target(),
            _ => return Ok(None),
        };
        if !is_ours(scope, name) {
            return Ok(None);
        }
        match (scope, PoolVariable::of(name)) {
            (Scope::Session | Scope::Unsaid, Some(variable)) => {
                self.bump();
                Ok(Some(variable))
            }
            _ => Err(PoolSetError::Global(String::from_utf8_lossy(name).to_ascii_lowercase())),
        }
    }

    /// `[GLOBAL | SESSION | ...] name`.
    fn plain_target(&mut self) -> (Scope, &'a [u8]) {
        let said = Some(self.bytes()).filter(|_| self.current.kind() == TokenKind::Word).and_then(Scope::of);
        if let Some(scope) = said {
            self.global_holds = scope == Scope::Global;
            self.global_said |= self.global_holds;
            self.bump();
        }
        let name = if self.current.is_name() { without_quotes(self.bytes()) } else { b"" };
        let scope = if self.global_holds { Scope::Global } else { said.unwrap_or(Scope::Unsaid) };
        (scope, name)
    }

    /// Reads `= literal` or `:= literal`.
    fn value(&mut self, variable: PoolVariable) -> Result<PoolValue, PoolSetError> {
        if self.current.is(b':') {
            self.bump();
        }
        if !self.current.is(b'=') {
            return Err(PoolSetError::NotLiteral(variable));
        }
        self.bump();
        let sign = if self.current.is(b'-') { "-" } else { "" };
        if self.current.is(b'-') || self.current.is(b'+') {
            self.bump();
        }
        let bytes = self.bytes();
        let text = |bytes: &[u8]| PoolValue::Text(format!("{sign}{}", String::from_utf8_lossy(bytes)));
        let value = match self.current.kind() {
            TokenKind::Word if bytes.eq_ignore_ascii_case(b"default") => PoolValue::Default,
            TokenKind::Word | TokenKind::String | TokenKind::QuotedName => text(without_quotes(bytes)),
            TokenKind::Number => match std::str::from_utf8(bytes).map(str::parse) {
                Ok(Ok(number)) if sign.is_empty() => PoolValue::Number(number),
                _ => text(bytes),
            },
            _ => return Err(PoolSetError::NotLiteral(variable)),
        };
        self.bump();
        if self.current.is(b',') || self.current.ends_statement() {
            Ok(value)
        } else {
            Err(PoolSetError::NotLiteral(variable))
        }
    }

    /// Goes on to the comma outside of parentheses, or to the end.
    fn skip_assignment(&mut self) {
        let mut depth = 0_usize;
        while !(self.current.ends_statement() || (self.current.is(b',') && depth == 0)) {
            match self.current.kind() {
                TokenKind::Punctuation(b'(') => depth += 1,
                TokenKind::Punctuation(b')') => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.bump();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify;

    fn read(text: &str) -> Result<PoolSet, PoolSetError> {
        let mode = LexMode::default();
        assert!(classify(text.as_bytes(), mode).sets_pool_variable, "{text}");
        pool_set(text.as_bytes(), mode)
    }

    #[track_caller]
    fn one(text: &str, variable: PoolVariable, value: PoolValue) {
        assert_eq!(read(text), Ok(PoolSet { assignments: vec![(variable, value)], rest: None }), "{text}");
    }

    fn text(value: &str) -> PoolValue {
        PoolValue::Text(value.to_owned())
    }

    #[test]
    fn every_way_to_write_it() {
        use PoolVariable::{HighPrioMode, HighPrioTickets, HighPriorityConnection, Priority};
        for scope in ["", "SESSION ", "local ", "@@", "@@session.", "@@LOCAL."] {
            one(&format!("SET {scope}thread_pool_priority = high;"), Priority, text("high"));
        }
        one("set Thread_Pool_High_Prio_Mode := 'none'", HighPrioMode, text("none"));
        one("SET `thread_pool_high_prio_mode`=\"statements\"", HighPrioMode, text("statements"));
        one("SET thread_pool_high_prio_tickets=0", HighPrioTickets, PoolValue::Number(0));
        one("SET thread_pool_high_prio_tickets=-1", HighPrioTickets, text("-1"));
        one("SET thread_pool_high_prio_tickets=DEFAULT", HighPrioTickets, PoolValue::Default);
        one("SET thread_pool_high_priority_connection=ON", HighPriorityConnection, text("ON"));
        let two = read("SET thread_pool_priority=low, @@session.thread_pool_high_prio_mode=2").unwrap();
        assert_eq!(two.assignments, [(Priority, text("low")), (HighPrioMode, PoolValue::Number(2))]);
    }

    #[test]
    fn others_are_left_as_they_are() {
        let mixed = "SET NAMES utf8mb4, thread_pool_priority=low, sql_mode=CONCAT(@@sql_mode, ',ANSI') -- x";
        let rest = read(mixed).unwrap().rest.unwrap();
        assert_eq!(rest, b"SET NAMES utf8mb4, sql_mode=CONCAT(@@sql_mode, ',ANSI')");
        for text in [
            "SET GLOBAL a=1, SESSION thread_pool_priority=low",
            "SET a=1 /*!50000 , thread_pool_priority=low */",
        ] {
            assert_eq!(read(text), Err(PoolSetError::Mixed), "{text}");
        }
    }

    #[test]
    fn an_assignment_that_is_missing_is_for_the_server_to_refuse() {
        assert_eq!(read("SET ,thread_pool_priority=low").unwrap().rest.unwrap(), b"SET ");
    }

    #[test]
    fn what_is_not_for_clients() {
        for text in [
            "SET GLOBAL thread_pool_size=4",
            "SET @@global.thread_pool_size=4",
            "SET PERSIST thread_pool_size=4",
            "SET thread_pool_priority=low, GLOBAL thread_pool_size=4",
        ] {
            assert_eq!(read(text), Err(PoolSetError::Global("thread_pool_size".into())), "{text}");
        }
        for text in ["SET GLOBAL a=1, thread_pool_priority=low", "SET GLOBAL Thread_Pool_Priority=low"] {
            assert_eq!(read(text), Err(PoolSetError::Global("thread_pool_priority".into())), "{text}");
        }
        for text in
            ["SET thread_pool_priority=@a", "SET thread_pool_priority=1+1", "SET thread_pool_priority high"]
        {
            assert_eq!(read(text), Err(PoolSetError::NotLiteral(PoolVariable::Priority)), "{text}");
        }
    }

    #[test]
    fn other_variables_are_none_of_ours() {
        for text in ["SET thread_pool_size=4", "SET @thread_pool_priority=1", "SET autocommit=1", "SELECT 1"]
        {
            assert!(!classify(text.as_bytes(), LexMode::default()).sets_pool_variable, "{text}");
        }
    }
}
