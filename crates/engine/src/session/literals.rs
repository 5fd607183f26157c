//! The literals that take the place of calls in a text, where the client carries the answer with it.
//!
//! A literal may be longer than its call by far, and a text has as many calls as it likes. So the length is known before anything
//! is written.

use std::ops::Range;

use sql::{SessionCall, SessionFunction};

use super::aftermath::Aftermath;
use crate::steps;

/// The calls that become literals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Literals {
    /// All calls with a known answer: in a text that is executed once.
    All,
    /// The same where the backend still has the diagnostics: it may count more than an error packet has told.
    AllButDiagnostics,
    /// The calls in a text that is prepared: only those with the same answer for all its executions.
    ConnectionId,
    /// The calls in a prepared text that is executed: those about what the client's last statement has left.
    OfPrepared,
}

impl Literals {
    /// Says whether this function is among them.
    pub(crate) fn has(self, function: SessionFunction) -> bool {
        use SessionFunction::{ConnectionId, ErrorCount, FoundRows, LastGtid, RowCount, WarningCount};
        match self {
            Self::All => true,
            Self::AllButDiagnostics => !matches!(function, WarningCount | ErrorCount),
            Self::ConnectionId => function == ConnectionId,
            Self::OfPrepared => {
                matches!(function, RowCount | FoundRows | WarningCount | ErrorCount | LastGtid)
            }
        }
    }
}

impl Aftermath {
    /// Returns the literal for a call, where its value is known without asking the server. The literal has the type, the length
    /// and the flags that the call has on both servers (`Item_func_row_count` and its like); a plain value would have those of
    /// its digits.
    fn literal(
        &self,
        call: &[u8],
        function: SessionFunction,
        client_id: u32,
        own: impl Fn(SessionFunction) -> Option<String>,
    ) -> Option<String> {
        let (warnings, errors) = self.diagnostics.counts();
        // The result of a bit function is as wide as can be; that of ROUND has no digit more than a BIGINT in expressions around it.
        let signed = |value: i128| format!("ROUND(CAST({value}|0 AS SIGNED))");
        Some(match function {
            SessionFunction::ConnectionId if call.starts_with(b"@@") => variable(client_id),
            // MariaDB's has a type by the number of the digits, ten as in all ids of clients.
            SessionFunction::ConnectionId => format!("CAST({client_id} AS UNSIGNED)"),
            SessionFunction::RowCount => signed(self.row_count.into()),
            SessionFunction::FoundRows => signed(self.found_rows?.into()),
            SessionFunction::WarningCount => variable(warnings.into()),
            SessionFunction::ErrorCount => variable(errors.into()),
            SessionFunction::Pool(_) | SessionFunction::Tracker(_) | SessionFunction::LastGtid => {
                // Two strings in a row would be one.
                return own(function).map(|own| if own.starts_with('\'') { format!("({own})") } else { own });
            }
            // Set on the backend ahead of the statement instead, so that the type stays what it is.
            SessionFunction::LastInsertId => return None,
        })
    }

    /// The text with literals in the place of those calls that `which` names; `None` where nothing changes. `own` tells
    /// variables that are the client's alone.
    pub(crate) fn rewriting<'t>(
        &self,
        text: &'t [u8],
        calls: &'t [SessionCall],
        client_id: u32,
        own: impl Fn(SessionFunction) -> Option<String>,
        which: Literals,
    ) -> Option<Rewriting<'t>> {
        let mut rewriting = Rewriting { text, calls, literals: Vec::new() };
        for call in calls.iter().filter(|call| which.has(call.function)) {
            let name = rewriting.name(call);
            steps::add(1 + rewriting.literals.len());
            if rewriting.literals.iter().all(|(known, _)| *known != name) {
                let literal = self.literal(&text[call.span.clone()], call.function, client_id, &own);
                rewriting.literals.push((name, literal));
            }
        }
        calls.iter().any(|call| rewriting.literal(call).is_some()).then_some(rewriting)
    }
}

/// A text, and what takes the place of calls in it.
pub(crate) struct Rewriting<'t> {
    text: &'t [u8],
    calls: &'t [SessionCall],
    /// Literals that are made once each: there are a few dozen at most. `None` for calls that stay.
    literals: Vec<(Name, Option<String>)>,
}

/// A literal's key: the function, and true if it is asked as a variable.
type Name = (SessionFunction, bool);

impl Rewriting<'_> {
    /// The length of the text that it becomes.
    pub(crate) fn length(&self) -> usize {
        let mut length = Length::default();
        self.write(&mut length);
        length.bytes
    }

    /// Appends that text.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        self.write(out);
    }

    fn name(&self, call: &SessionCall) -> Name {
        (call.function, self.text[call.span.start..].starts_with(b"@@"))
    }

    fn literal(&self, call: &SessionCall) -> Option<&str> {
        let name = self.name(call);
        let (_, literal) = self.literals.iter().find(|(known, _)| *known == name)?;
        literal.as_deref().filter(|_| !call.left_by_text)
    }

    fn write(&self, sink: &mut impl Sink) {
        let mut rewritten = Rewritten { text: self.text, sink, copied: 0, unnamed: None };
        steps::add(self.text.len() + self.calls.len());
        for call in self.calls {
            if let Some(literal) = self.literal(call) {
                rewritten.put(call, literal);
            }
        }
        rewritten.go_on_to(self.text.len());
    }
}

/// The place that a text is written into.
trait Sink {
    fn put(&mut self, bytes: &[u8]);
    /// Returns the byte that was put last.
    fn last(&self) -> Option<&u8>;
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn last(&self) -> Option<&u8> {
        <[u8]>::last(self)
    }
}

/// The length that the text gets.
#[derive(Default)]
struct Length {
    bytes: usize,
    last: Option<u8>,
}

impl Sink for Length {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.last = bytes.last().copied().or(self.last);
    }

    fn last(&self) -> Option<&u8> {
        self.last.as_ref()
    }
}

/// Writes a whole number as the value of a system variable: unsigned, as wide as can be, and it may be NULL.
pub(crate) fn variable(value: u32) -> String {
    format!("NULLIF({value}|0,NULL)")
}

/// A text on its way to another one.
struct Rewritten<'t, S> {
    text: &'t [u8],
    sink: &'t mut S,
    /// The length of the text that has been copied.
    copied: usize,
    /// The item of the select list at hand, which gave its column a name.
    unnamed: Option<Range<usize>>,
}

impl<S: Sink> Rewritten<'_, S> {
    fn put(&mut self, call: &SessionCall, literal: &str) {
        let span = call.span.clone();
        self.go_on_to(span.start);
        // `SELECT@@warning_count`, `CONNECTION_ID()AS id`: what stood apart by its signs stays apart.
        if self.sink.last().is_some_and(belongs_to_word) {
            self.sink.put(b" ");
        }
        self.sink.put(literal.as_bytes());
        self.copied = span.end;
        let is_name = |item: &Range<usize>| *item == span || is_a_name(&self.text[item.clone()]);
        self.unnamed = call.names_item.clone().filter(is_name);
        if self.unnamed.is_none() {
            self.stay_apart();
        }
    }

    /// Copies the text up to a place; the item at hand gets its name back where it ends before.
    fn go_on_to(&mut self, end: usize) {
        if let Some(item) = self.unnamed.take_if(|item| item.end <= end) {
            self.sink.put(&self.text[self.copied..item.end]);
            self.sink.put(b" AS ");
            let mut name = Vec::with_capacity(item.len() + 2);
            sql::quote_identifier(&mut name, &self.text[item.clone()]);
            self.sink.put(&name);
            self.copied = item.end;
            self.stay_apart();
        }
        self.sink.put(&self.text[self.copied..end]);
        self.copied = end;
    }

    fn stay_apart(&mut self) {
        if self.text.get(self.copied).is_some_and(belongs_to_word) {
            self.sink.put(b" ");
        }
    }
}

/// Says whether an expression's own text becomes its column's name. The servers leave out comments, and have other rules for long
/// ones (`Item::set_name`, 64 characters in a table); bytes outside of ASCII may be converted.
fn is_a_name(expression: &[u8]) -> bool {
    steps::add(expression.len().min(64));
    let has = |pair: &[u8]| expression.windows(2).any(|two| two == pair);
    expression.len() <= 64
        && expression.is_ascii()
        && !expression.contains(&b'#')
        && !has(b"/*")
        && !has(b"--")
}

/// Says whether a byte would go on with the word or number next to it.
fn belongs_to_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(rewriting: &Rewriting<'_>) -> String {
        let mut text = Vec::new();
        rewriting.put(&mut text);
        assert_eq!(text.len(), rewriting.length());
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn literals_stay_apart_from_what_was_glued_to_the_call() {
        let rewrite = |text: &str| {
            let calls = sql::classify(text.as_bytes(), sql::LexMode::default()).calls;
            let own = |_| Some(String::from("'time_zone'"));
            let found = Aftermath::default().rewriting(text.as_bytes(), &calls, 77, own, Literals::All);
            written(&found.unwrap())
        };
        for (text, rewritten) in [
            ("SELECT CONNECTION_ID()AS x", "SELECT CAST(77 AS UNSIGNED) AS x"),
            ("SELECT@@warning_count", "SELECT NULLIF(0|0,NULL) AS `@@warning_count`"),
            ("SELECT 1 WHERE 1=CONNECTION_ID()OR 1", "SELECT 1 WHERE 1=CAST(77 AS UNSIGNED) OR 1"),
            (
                "SELECT CONNECTION_ID()+ROW_COUNT()FROM t",
                "SELECT CAST(77 AS UNSIGNED)+ROUND(CAST(0|0 AS SIGNED)) AS `CONNECTION_ID()+ROW_COUNT()` FROM t",
            ),
            ("SELECT HEX(ROW_COUNT()), 1", "SELECT HEX(ROUND(CAST(0|0 AS SIGNED))) AS `HEX(ROW_COUNT())`, 1"),
            ("SELECT HEX(/**/ROW_COUNT()), 1", "SELECT HEX(/**/ROUND(CAST(0|0 AS SIGNED))), 1"),
            ("SELECT @@pseudo_thread_id", "SELECT NULLIF(77|0,NULL) AS `@@pseudo_thread_id`"),
            ("SELECT @@session_track_system_variables 'v'", "SELECT ('time_zone') 'v'"),
        ] {
            assert_eq!(rewrite(text), rewritten);
        }
    }

    #[test]
    fn calls_become_literals_and_columns_keep_their_names() {
        let text = b"SELECT ROW_COUNT(), CONNECTION_ID()+1";
        let calls = sql::classify(text, sql::LexMode::default()).calls;
        let mut aftermath = Aftermath::default();
        aftermath.has_no_row_count();
        let own = |_| None;
        let rewritten = aftermath.rewriting(text, &calls, 77, own, Literals::All).unwrap();
        assert_eq!(
            written(&rewritten),
            "SELECT ROUND(CAST(-1|0 AS SIGNED)) AS `ROW_COUNT()`, CAST(77 AS UNSIGNED)+1 AS `CONNECTION_ID()+1`"
        );
        let rewritten = aftermath.rewriting(text, &calls, 77, own, Literals::ConnectionId).unwrap();
        assert_eq!(written(&rewritten), "SELECT ROW_COUNT(), CAST(77 AS UNSIGNED)+1 AS `CONNECTION_ID()+1`");
        let rewritten = aftermath.rewriting(text, &calls, 77, own, Literals::AllButDiagnostics).unwrap();
        assert_eq!(
            written(&rewritten),
            "SELECT ROUND(CAST(-1|0 AS SIGNED)) AS `ROW_COUNT()`, CAST(77 AS UNSIGNED)+1 AS `CONNECTION_ID()+1`"
        );
        assert!(!Literals::AllButDiagnostics.has(SessionFunction::WarningCount));
        let gtid = sql::classify(b"SELECT @@last_gtid", sql::LexMode::default()).calls;
        let own = |_| Some(String::from("'0-1-5'"));
        let rewritten =
            aftermath.rewriting(b"SELECT @@last_gtid", &gtid, 77, own, Literals::OfPrepared).unwrap();
        assert_eq!(written(&rewritten), "SELECT ('0-1-5') AS `@@last_gtid`");
        let own = |_| None;
        let rewritten = aftermath.rewriting(text, &calls, 77, own, Literals::OfPrepared).unwrap();
        let expected = "SELECT ROUND(CAST(-1|0 AS SIGNED)) AS `ROW_COUNT()`, CONNECTION_ID()+1";
        assert_eq!(written(&rewritten), expected);
        assert!(aftermath.rewriting(b"SELECT 1", &[], 77, own, Literals::All).is_none());
    }
}
