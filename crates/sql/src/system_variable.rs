//! System variables as they are written: the scope and the name.

use crate::{PoolVariable, SessionFunction, TrackerVariable};

/// The scope written before a system variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Unsaid,
    Session,
    /// `GLOBAL`, `PERSIST`, `PERSIST_ONLY`.
    Global,
}

impl Scope {
    /// The scope that a word means.
    pub fn of(word: &[u8]) -> Option<Self> {
        let is = |known: &[u8]| word.eq_ignore_ascii_case(known);
        if is(b"session") || is(b"local") {
            Some(Self::Session)
        } else if is(b"global") || is(b"persist") || is(b"persist_only") {
            Some(Self::Global)
        } else {
            None
        }
    }
}

/// A `@@variable`, taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemVariable<'a> {
    pub scope: Scope,
    /// Without quotes; empty where only a scope was written.
    pub name: &'a [u8],
}

impl<'a> SystemVariable<'a> {
    /// Takes the bytes of a [`crate::lexer::TokenKind::SystemVariable`] apart.
    pub fn of(token: &'a [u8]) -> Self {
        let name = token.get(2..).unwrap_or_default();
        let dot = name.iter().position(|&byte| byte == b'.').unwrap_or(name.len());
        match Scope::of(&name[..dot]) {
            Some(scope) => Self { scope, name: without_quotes(name.get(dot + 1..).unwrap_or_default()) },
            None => Self { scope: Scope::Unsaid, name: without_quotes(name) },
        }
    }

    /// The rest stands after a blank or a comment.
    pub fn is_cut_short(self) -> bool {
        self.name.is_empty()
    }

    /// Returns the trace of the last statement that it reads, or the client's own setting.
    pub fn function(self) -> Option<SessionFunction> {
        let is = |known: &[u8]| self.name.eq_ignore_ascii_case(known);
        match self.name.len() {
            8 if is(b"identity") => Some(SessionFunction::LastInsertId),
            9 if is(b"last_gtid") => Some(SessionFunction::LastGtid),
            11 if is(b"error_count") => Some(SessionFunction::ErrorCount),
            13 if is(b"warning_count") => Some(SessionFunction::WarningCount),
            14 if is(b"last_insert_id") => Some(SessionFunction::LastInsertId),
            16 if is(b"pseudo_thread_id") => Some(SessionFunction::ConnectionId),
            _ => (PoolVariable::of(self.name).map(SessionFunction::Pool))
                .or_else(|| TrackerVariable::of(self.name).map(SessionFunction::Tracker)),
        }
    }
}

/// A name without the quotes around it, if there are any.
pub(crate) fn without_quotes(name: &[u8]) -> &[u8] {
    match name {
        [b'`', inner @ .., b'`'] | [b'"', inner @ .., b'"'] | [b'\'', inner @ .., b'\''] => inner,
        _ => name,
    }
}
