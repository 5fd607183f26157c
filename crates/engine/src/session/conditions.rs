//! `GET DIAGNOSTICS`, answered from the server's own answer to SHOW WARNINGS, which is kept for the client.

use sql::{Assignment, DiagnosticsItem, GetDiagnostics};

use super::Charset;
use super::aftermath::{LEVELS, packet_at};
use super::sql_states::{SqlState, state_of};
use crate::errors::ServerError;

/// ER_DA_INVALID_CONDITION_NUMBER: the statement succeeds, and leaves it behind what was there.
const NO_SUCH_CONDITION: (u16, &str) = (1758, "Invalid condition number");

/// The variables may be set to so many bytes in all, where a message counts once for each that is set to it. Each of the few items that there
/// are takes less than 1 KiB once.
const MOST_SET: usize = 64 << 10;

/// A row of an answer to SHOW WARNINGS.
struct Condition<'a> {
    is_error: bool,
    code: u16,
    message: &'a [u8],
}

/// The aftermath of the client's last statement, see [`super::aftermath::Aftermath`].
pub(crate) struct LastStatement<'a> {
    /// The answer to SHOW WARNINGS; `None` where there is nothing.
    pub(crate) reply: Option<&'a [u8]>,
    /// The SQLSTATE of the last error there.
    pub(crate) sql_state: Option<SqlState>,
    pub(crate) row_count: i64,
    pub(crate) charset: &'a Charset,
    pub(crate) is_mariadb: bool,
}

/// See [`LastStatement::answer`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DiagnosticsAnswer {
    /// Variables and the expressions that they are to be set to.
    Sets(Vec<Assignment>),
    /// There is no such condition.
    NoSuchCondition,
}

impl LastStatement<'_> {
    /// `None` where what is kept does not tell, or it would take too much to say it again and again.
    pub(crate) fn answer(&self, asked: &GetDiagnostics) -> Option<DiagnosticsAnswer> {
        if asked.condition == Some(0) {
            return Some(DiagnosticsAnswer::NoSuchCondition);
        }
        let conditions = self.reply.map_or_else(|| Some(Vec::new()), conditions)?;
        let condition = match asked.condition {
            None => None,
            Some(number) => match usize::from(number).checked_sub(1).and_then(|at| conditions.get(at)) {
                None => return Some(DiagnosticsAnswer::NoSuchCondition),
                found => found,
            },
        };
        let last_error = conditions.iter().rfind(|condition| condition.is_error);
        let is_last =
            |condition: &Condition<'_>| last_error.is_some_and(|last| std::ptr::eq(last, condition));
        let state = |condition: &Condition<'_>| {
            let told = self.sql_state.filter(|_| is_last(condition));
            told.map(SqlState::text).or_else(|| state_of(condition.code, self.is_mariadb).copied())
        };
        let mut sets = Vec::with_capacity(asked.targets.len());
        let mut length = 0;
        for (name, item) in &asked.targets {
            let value = match (item, condition) {
                (DiagnosticsItem::RowCount, _) => self.row_count.to_string(),
                (DiagnosticsItem::Number, _) | (_, None) => unsigned(conditions.len()),
                (DiagnosticsItem::Code, Some(condition)) => unsigned(condition.code.into()),
                (DiagnosticsItem::State, Some(condition)) => string(&state(condition)?),
                (DiagnosticsItem::Message, Some(condition)) => string(condition.text(self.charset)?),
            };
            length += value.len();
            if length > MOST_SET {
                return None;
            }
            sets.push((name.clone(), value.into_bytes().into()));
        }
        Some(DiagnosticsAnswer::Sets(sets))
    }
}

impl Condition<'_> {
    /// The message, where that is known to be in UTF-8 as the server's own, which has no characters of four bytes.
    fn text(&self, charset: &Charset) -> Option<&[u8]> {
        let is_utf8 = matches!(&*charset.results, b"" | b"utf8" | b"utf8mb3" | b"utf8mb4");
        let text = std::str::from_utf8(self.message).ok()?;
        let told = text.is_ascii() || (is_utf8 && text.chars().all(|letter| letter.len_utf8() < 4));
        told.then_some(self.message)
    }
}

/// The form in which the servers set a variable to a number there.
fn unsigned(number: usize) -> String {
    format!("CAST({number} AS UNSIGNED)")
}

/// Writes a string in the character set of the servers' own names, as they set a variable there. MySQL warns where a text calls
/// that set by its name.
fn string(text: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let mut literal = String::from("CONCAT(LEFT(VERSION(),0),_utf8mb4 X'");
    literal
        .extend(text.iter().flat_map(|&byte| [byte >> 4, byte & 15]).map(|half| DIGITS[usize::from(half)]));
    literal.push_str("')");
    literal
}

/// The text that sets variables so.
pub(crate) fn set_text(sets: &[Assignment]) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in sets {
        text.extend_from_slice(if text.is_empty() { b"SET @" } else { b",@" });
        text.extend_from_slice(name); // letters, digits, and signs that need no quotes
        text.push(b'=');
        text.extend_from_slice(value);
    }
    text
}

/// The error for a question about a condition that is not there.
pub(crate) fn no_such_condition() -> ServerError {
    let (code, message) = NO_SUCH_CONDITION;
    ServerError { code, sql_state: *b"35000", message: message.into() }
}

/// An answer to SHOW WARNINGS with one error more.
pub(crate) fn with_error(reply: &[u8], error: &ServerError) -> Box<[u8]> {
    let mut row = Vec::new();
    for field in [b"Error", error.code.to_string().as_bytes(), &error.message] {
        wire::put_lenenc_bytes(&mut row, field);
    }
    let (mut out, mut at) = (Vec::with_capacity(reply.len() + row.len() + wire::HEADER_LEN), 0);
    let mut sequence = reply.get(wire::HEADER_LEN - 1).copied().unwrap_or_default();
    while let Some((payload_at, end)) = packet_at(reply, at) {
        at = end;
        if end == reply.len() {
            wire::put_message(&mut out, &mut sequence, &row);
        }
        wire::put_message(&mut out, &mut sequence, &reply[payload_at..end]);
    }
    out.into_boxed_slice()
}

/// `None` where one cannot be read.
fn conditions(reply: &[u8]) -> Option<Vec<Condition<'_>>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some((payload_at, end)) = packet_at(reply, at) {
        at = end;
        let payload = &reply[payload_at..end];
        let Some(level) = LEVELS.iter().position(|level| payload.starts_with(level)) else { continue };
        let row = wire::parse_text_row(payload).ok()?;
        let &[_, Some(code), Some(message)] = &row[..] else { return None };
        let code = std::str::from_utf8(code).ok()?.parse().ok()?;
        found.push(Condition { is_error: level == 0, code, message });
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use wire::{Capabilities, StatusFlags};

    use super::*;
    use crate::session::aftermath::{Diagnostics, Reader};

    const READER: Reader = Reader {
        status: StatusFlags::AUTOCOMMIT,
        collation: 45,
        width: 4,
        is_mysql: false,
        capabilities: Capabilities::NONE,
    };

    fn error(code: u16, message: &str) -> ServerError {
        ServerError { code, sql_state: *b"45001", message: message.into() }
    }

    /// The diagnostics of two errors, the second one the statement's.
    fn two_errors() -> Box<[u8]> {
        let Diagnostics::Saved { reply, .. } = Diagnostics::of_error(&error(1366, "first"), READER) else {
            panic!("an error is kept")
        };
        with_error(&reply.0, &error(1644, "zweiter F\u{e4}ller"))
    }

    fn answer(text: &str, reply: Option<&[u8]>, results: &str) -> Option<String> {
        let charset = Charset { results: results.as_bytes().into(), ..Charset::default() };
        let sql_state = SqlState::of(*b"45001");
        let left = LastStatement { reply, sql_state, row_count: -1, charset: &charset, is_mariadb: true };
        Some(match left.answer(&GetDiagnostics::of(text.as_bytes())?)? {
            DiagnosticsAnswer::Sets(sets) => String::from_utf8(set_text(&sets)).unwrap(),
            DiagnosticsAnswer::NoSuchCondition => String::from("no such condition"),
        })
    }

    #[test]
    fn variables_are_set_to_what_is_kept() {
        let reply = two_errors();
        let asked = |text: &str| answer(text, Some(&reply), "utf8mb4").unwrap();
        assert_eq!(
            asked("get diagnostics @N = number , @`b.c`=ROW_COUNT ;"),
            "SET @n=CAST(2 AS UNSIGNED),@b.c=-1"
        );
        assert_eq!(
            asked("GET CURRENT DIAGNOSTICS CONDITION 1 @s = RETURNED_SQLSTATE, @e = MYSQL_ERRNO"),
            "SET @s=CONCAT(LEFT(VERSION(),0),_utf8mb4 X'3232303037'),@e=CAST(1366 AS UNSIGNED)"
        );
        assert_eq!(
            asked("GET DIAGNOSTICS CONDITION 2 @s = RETURNED_SQLSTATE"),
            "SET @s=CONCAT(LEFT(VERSION(),0),_utf8mb4 X'3435303031')",
            "as its error packet says"
        );
        assert!(asked("GET DIAGNOSTICS CONDITION 2 @m = MESSAGE_TEXT").contains("46c3a46c6c6572"));
        for number in ["0", "3"] {
            let text = format!("GET DIAGNOSTICS CONDITION {number} @m = MESSAGE_TEXT");
            assert_eq!(asked(&text), "no such condition");
        }
        assert_eq!(answer("GET DIAGNOSTICS @n = NUMBER", None, "").unwrap(), "SET @n=CAST(0 AS UNSIGNED)");
    }

    #[test]
    fn a_message_is_not_said_a_thousand_times() {
        let message = "x".repeat(512);
        let Diagnostics::Saved { reply, .. } = Diagnostics::of_error(&error(1644, &message), READER) else {
            panic!("an error is kept")
        };
        let asked = |times: usize| {
            let text = format!("GET DIAGNOSTICS CONDITION 1 {}", vec!["@m=MESSAGE_TEXT"; times].join(","));
            answer(&text, Some(&reply.0), "utf8mb4")
        };
        let told = asked(60).unwrap();
        assert_eq!(told.matches(&"78".repeat(512)).count(), 60);
        assert_eq!(asked(64), None, "more than 64 KiB");
    }

    #[test]
    fn what_is_not_kept_is_not_told() {
        let reply = two_errors();
        let in_latin1 = |text: &str| answer(text, Some(&reply), "latin1");
        assert_eq!(in_latin1("GET DIAGNOSTICS CONDITION 2 @m = MESSAGE_TEXT"), None);
        assert!(in_latin1("GET DIAGNOSTICS CONDITION 1 @m = MESSAGE_TEXT").is_some());
    }
}
