//! The aftermath of a statement for the next one of the same client: LAST_INSERT_ID(), ROW_COUNT(), FOUND_ROWS() and the
//! diagnostics. On a direct connection they live in the server; here the client takes them along.

pub(crate) mod frozen;

use std::borrow::Cow;

use wire::{Capabilities, Column, ColumnDescription, ColumnType, ResultSetWriter, StatusFlags};

use super::sql_states::SqlState;
use crate::errors::ServerError;
use crate::ids::BackendKey;
use crate::session::gtid::Gtid;
use crate::steps;

/// A client's latest results, kept from one statement to the next.
#[derive(Clone, Debug)]
pub(crate) struct Aftermath {
    /// LAST_INSERT_ID(), where it is known.
    last_insert_id: u64,
    /// The backend on which LAST_INSERT_ID() would say so by itself.
    insert_id_at: Option<BackendKey>,
    /// Says how sure LAST_INSERT_ID() is. Only the server knows whether it has changed: an OK reports an explicit value for the
    /// column too, which does not change it.
    insert_id: InsertId,
    /// ROW_COUNT(): affected rows, or -1 after a result set or an error.
    pub(super) row_count: i64,
    /// FOUND_ROWS() after the latest result set; `None` where only the server knows.
    pub(super) found_rows: Option<u64>,
    /// `@@last_gtid`; boxed, since few servers have any.
    last_gtid: Option<Box<Gtid>>,
    /// The server's diagnostics of the latest statement.
    pub(super) diagnostics: Diagnostics,
}

/// How sure [`Aftermath::last_insert_id`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InsertId {
    /// The value is known.
    Known,
    /// The backend has to be asked. Its own value was 0 or the client's before, so that 0 means: not changed.
    Unsure {
        /// The id in the OK: the best guess, should the backend be lost before it can be asked.
        reported: u64,
    },
}

plain!(enum InsertId { 0 => Known, 1 => Unsure { reported } });

/// Ends a question for one row, so that it comes whatever sql_select_limit says: that is for selections without a LIMIT.
pub(crate) const WHATEVER_LIMIT: &[u8] = b" LIMIT 1";

/// Asks for LAST_INSERT_ID() and sets it to 0, as it is on every backend that nobody holds.
pub(crate) const ASK_INSERT_ID: &[u8] = b"SELECT LAST_INSERT_ID(),LAST_INSERT_ID(0) LIMIT 1";

/// The same, and FOUND_ROWS() where only the server knows it.
pub(crate) const ASK_FOUND_ROWS: &[u8] = b"SELECT LAST_INSERT_ID(),LAST_INSERT_ID(0),FOUND_ROWS() LIMIT 1";

impl Aftermath {
    /// The aftermath of COM_RESET_CONNECTION and COM_CHANGE_USER, which leave FOUND_ROWS() as it was (seen with MariaDB 10.11 and MySQL 8.0).
    pub(crate) fn of_reset(&self) -> Self {
        let fresh = Self::default();
        Self { found_rows: self.found_rows.or(fresh.found_rows), ..fresh }
    }

    /// The statement has changed no rows.
    pub(crate) fn changed_no_rows(&mut self) {
        self.row_count = 0;
    }

    /// The statement has failed, or returned rows.
    pub(crate) fn has_no_row_count(&mut self) {
        self.row_count = -1;
    }

    /// ROW_COUNT(), as the statement has said it.
    pub(crate) fn changed_rows(&mut self, rows: i64) {
        self.row_count = rows;
    }

    pub(crate) fn row_count(&self) -> i64 {
        self.row_count
    }

    /// The statement has said how many rows it found.
    pub(crate) fn found(&mut self, rows: u64) {
        self.found_rows = Some(rows);
    }

    /// Only the server knows how many rows the statement has found.
    pub(crate) fn found_rows_is_on_server(&mut self) {
        self.found_rows = None;
    }

    /// Says whether FOUND_ROWS() is known without asking the server.
    pub(crate) fn knows_found_rows(&self) -> bool {
        self.found_rows.is_some()
    }

    /// The backend's answer to [`ASK_FOUND_ROWS`], where it has one.
    pub(crate) fn found_rows_told(&mut self, rows: Option<u64>) {
        self.found_rows = rows.or(self.found_rows).or(Some(0));
    }

    /// A statement on this backend may have changed LAST_INSERT_ID(): its OK has reported this id, 0 for none.
    pub(crate) fn insert_id_may_change(&mut self, reported: u64, at: BackendKey) {
        let stands = self.insert_id_stands_at(at);
        // One that failed says nothing of what those before it have left.
        let before = match self.insert_id {
            InsertId::Unsure { reported } => reported,
            InsertId::Known => 0,
        };
        self.insert_id = InsertId::Unsure { reported: if reported > 0 { reported } else { before } };
        self.insert_id_at = stands.then_some(at);
    }

    /// The client's LAST_INSERT_ID() goes ahead of a statement to this backend. It has to be 0 there again before anybody else gets it.
    pub(crate) fn insert_id_sent_to(&mut self, backend: BackendKey) {
        self.insert_id_at = Some(backend);
        self.insert_id = InsertId::Unsure { reported: 0 };
    }

    /// Says whether LAST_INSERT_ID() would be the client's on this backend. It is 0 on one that nobody holds.
    pub(crate) fn insert_id_stands_at(&self, backend: BackendKey) -> bool {
        self.last_insert_id == 0 || self.left_insert_id_at(backend)
    }

    /// Says whether the client's LAST_INSERT_ID() is on this backend.
    pub(crate) fn left_insert_id_at(&self, backend: BackendKey) -> bool {
        self.insert_id_at == Some(backend)
    }

    /// Says whether only the server knows LAST_INSERT_ID().
    pub(crate) fn is_insert_id_unsure(&self) -> bool {
        matches!(self.insert_id, InsertId::Unsure { .. })
    }

    /// LAST_INSERT_ID(), as far as it is known.
    pub(crate) fn last_insert_id(&self) -> u64 {
        self.last_insert_id
    }

    /// The client has no backend any longer on which LAST_INSERT_ID() could stand.
    pub(crate) fn insert_id_leaves(&mut self) {
        self.insert_id_at = None;
    }

    /// MariaDB's tracker has told `@@last_gtid`.
    pub(crate) fn wrote(&mut self, gtid: Gtid) {
        self.last_gtid = Some(Box::new(gtid));
    }

    pub(crate) fn last_gtid(&self) -> Option<&Gtid> {
        self.last_gtid.as_deref()
    }

    /// The server's diagnostics of the latest statement.
    pub(crate) fn diagnostics(&self) -> &Diagnostics {
        &self.diagnostics
    }

    /// Says whether the diagnostics are still on the client's backend.
    pub(crate) fn has_diagnostics_on_backend(&self) -> bool {
        matches!(self.diagnostics, Diagnostics::OnBackend { .. })
    }

    /// The latest statement has left these diagnostics. Returns those before.
    pub(crate) fn leaves(&mut self, diagnostics: Diagnostics) -> Diagnostics {
        std::mem::replace(&mut self.diagnostics, diagnostics)
    }

    /// The texts of the diagnostics are not kept; only their numbers are.
    pub(crate) fn forget_texts(&mut self) {
        let (warnings, errors) = self.diagnostics.counts();
        self.diagnostics = Diagnostics::Counted { warnings, errors };
    }

    /// The backend that had the diagnostics is lost.
    pub(crate) fn lose_texts(&mut self) {
        self.diagnostics.lose_texts();
    }

    /// The backend's answer to [`ASK_INSERT_ID`]. Where the client's own value did not stand there, 0 means: not changed.
    pub(crate) fn insert_id_told(&mut self, value: u64) {
        if value != 0 || self.insert_id_at.is_some() {
            self.last_insert_id = value;
        }
        self.insert_id = InsertId::Known;
        self.insert_id_at = None;
    }

    /// The backend is lost.
    pub(crate) fn insert_id_lost(&mut self) {
        if let InsertId::Unsure { reported: reported @ 1.. } = self.insert_id {
            self.last_insert_id = reported;
        }
        self.insert_id = InsertId::Known;
        self.insert_id_at = None;
    }
}

impl Default for Aftermath {
    /// After a login.
    fn default() -> Self {
        Self {
            last_insert_id: 0,
            insert_id_at: None,
            insert_id: InsertId::Known,
            row_count: 0,
            found_rows: Some(0),
            last_gtid: None,
            diagnostics: Diagnostics::None,
        }
    }
}

/// An answer to SHOW WARNINGS; apart from what is told of it, since each client has room for that, and few have any.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct List(pub(crate) Box<[u8]>);

plain!(struct List { 0 });

impl List {
    pub(crate) fn new(reply: Box<[u8]>) -> Box<Self> {
        Box::new(Self(reply))
    }
}

/// The answer that SHOW WARNINGS would give.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Diagnostics {
    /// Nothing.
    #[default]
    None,
    /// Something, and it is still on the client's backend.
    OnBackend { warnings: u16, errors: u16, sql_state: Option<SqlState> },
    /// The server's answer to SHOW WARNINGS, in packets as this client reads them.
    Saved { warnings: u16, errors: u16, sql_state: Option<SqlState>, reply: Box<List> },
    /// Diagnostics that were not kept: they were too long, those of all clients were too many, the backend that had them was lost, or
    /// others were behind the statement.
    Counted { warnings: u16, errors: u16 },
}

plain!(enum Diagnostics {
    0 => None, 1 => OnBackend { warnings, errors, sql_state },
    2 => Saved { warnings, errors, sql_state, reply }, 3 => Counted { warnings, errors },
});

impl Diagnostics {
    /// `@@warning_count` and `@@error_count`.
    pub(crate) fn counts(&self) -> (u16, u16) {
        match self {
            Self::None => (0, 0),
            Self::OnBackend { warnings, errors, .. }
            | Self::Saved { warnings, errors, .. }
            | Self::Counted { warnings, errors } => (*warnings, *errors),
        }
    }

    /// The SQLSTATE of the last error among them, as its packet has told.
    pub(crate) fn sql_state(&self) -> Option<SqlState> {
        match self {
            Self::OnBackend { sql_state, .. } | Self::Saved { sql_state, .. } => *sql_state,
            Self::None | Self::Counted { .. } => None,
        }
    }

    /// Returns the kept answer to SHOW WARNINGS, as it was when it was saved, where one is known here.
    pub(crate) fn reply(&self, reader: Reader) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::None | Self::OnBackend { .. } => None,
            Self::Saved { reply, .. } => Some(Cow::Borrowed(&reply.0)),
            Self::Counted { warnings, errors } => {
                let text = format!(
                    "{warnings} warnings; their texts were not kept: they were too long, or too many, or lost with \
                     the server's connection, or other statements were behind theirs (statements_in_flight)"
                );
                let level = if *errors > 0 { "Error" } else { "Warning" };
                Some(Cow::Owned(warnings_reply(level, UNKNOWN, text.as_bytes(), reader).into_vec()))
            }
        }
    }

    /// The backend that had it is lost.
    fn lose_texts(&mut self) {
        *self = match std::mem::take(self) {
            Self::OnBackend { warnings: 0, .. } => Self::None,
            Self::OnBackend { warnings, errors, .. } => Self::Counted { warnings, errors },
            elsewhere => elsewhere,
        }
    }

    /// Bytes that it takes beside its own size.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Saved { reply, .. } => size_of::<List>() + reply.0.len(),
            Self::None | Self::OnBackend { .. } | Self::Counted { .. } => 0,
        }
    }

    /// Diagnostics of a short read that failed and that others had followed, so that only its error packet tells.
    pub(crate) fn of_error(error: &ServerError, reader: Reader) -> Self {
        let reply = warnings_reply("Error", error.code, &error.message, reader);
        Self::Saved {
            warnings: 1,
            errors: 1,
            sql_state: SqlState::of(error.sql_state),
            reply: List::new(reply),
        }
    }
}

/// ER_UNKNOWN_ERROR: no code of the server's own would be true.
const UNKNOWN: u16 = 1105;

/// The columns as the servers describe them (mysqld_show_warnings): 7 and 512 characters, not null.
fn warning_columns(reader: Reader) -> [Column<'static>; 3] {
    let text = |name, characters: u32| {
        let decimals = if reader.is_mysql { 31 } else { 39 }; // NOT_FIXED_DEC
        let (collation, length) = (u16::from(reader.collation), characters * u32::from(reader.width));
        let description = ColumnDescription { collation, length, flags: NOT_NULL, decimals };
        Column { name, kind: ColumnType::VarString, description: Some(description) }
    };
    let (length, flags) = (if reader.is_mysql { 5 } else { 4 }, NOT_NULL | UNSIGNED | BINARY);
    let code = ColumnDescription { collation: 63, length, flags, decimals: 0 };
    let code = Column { name: "Code", kind: ColumnType::Long, description: Some(code) };
    [text("Level", 7), code, text("Message", 512)]
}

const NOT_NULL: u16 = 1;
const UNSIGNED: u16 = 32;
const BINARY: u16 = 128;

/// How a client reads answers of our own.
#[derive(Clone, Copy)]
pub(crate) struct Reader {
    pub(crate) status: StatusFlags,
    /// The collation of results, and the most bytes of a character there.
    pub(crate) collation: u8,
    pub(crate) width: u8,
    pub(crate) is_mysql: bool,
    pub(crate) capabilities: Capabilities,
}

impl Reader {
    /// The flags that are about the session and not about the statement before.
    pub(crate) fn status(self) -> StatusFlags {
        StatusFlags(self.status.0 & SESSION_STATUS)
    }
}

/// See [`Reader::status`].
const SESSION_STATUS: u16 =
    StatusFlags::IN_TRANS.0 | StatusFlags::AUTOCOMMIT.0 | StatusFlags::IN_TRANS_READONLY.0 | OF_SQL_MODE;

/// The flags among them that repeat `sql_mode`.
pub(crate) const OF_SQL_MODE: u16 = StatusFlags::NO_BACKSLASH_ESCAPES.0 | ANSI_QUOTES;

/// SERVER_STATUS_ANSI_QUOTES, MariaDB's.
pub(crate) const ANSI_QUOTES: u16 = 1 << 15;

/// A saved answer to SHOW WARNINGS with the status that the session has by now: it may have begun a transaction since.
pub(crate) fn with_status(reply: &[u8], status: StatusFlags) -> Vec<u8> {
    let mut out = reply.to_vec();
    let mut at = 0;
    while let Some((payload_at, end)) = packet_at(&out, at) {
        // An EOF packet has its warnings before the status, the OK packet in its place two zeros (no rows, no id): five bytes
        // of header and these either way. No column and no row of this answer begins like them.
        if let [0xfe, _, _, low, high, ..] = &mut out[payload_at..end] {
            let of_statement = u16::from_le_bytes([*low, *high]) & !SESSION_STATUS;
            [*low, *high] = (of_statement | status.0).to_le_bytes();
        }
        at = end;
    }
    out
}

/// How many rows of a saved answer to SHOW WARNINGS are errors.
pub(crate) fn errors_in(reply: &[u8]) -> u16 {
    let mut errors = 0;
    let mut at = 0;
    while let Some((payload_at, end)) = packet_at(reply, at) {
        errors += u16::from(reply[payload_at..end].starts_with(ERROR));
        at = end;
    }
    errors
}

/// The rows of the diagnostics that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    only_errors: bool,
    /// Rows to pass over, and the most to show behind them.
    offset: u64,
    most: u64,
}

impl Selection {
    /// Reads the LIMIT of `SHOW WARNINGS` and `SHOW ERRORS`, in numbers or absent. Returns `None` for any other text (the
    /// grammar's `opt_limit_clause` in sql_yacc.yy of both servers).
    pub(crate) fn of(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(steps::all(text))
            .ok()?
            .trim_end_matches(|c: char| c == ';' || c.is_ascii_whitespace());
        let text = text.to_ascii_uppercase().replace(',', " , ");
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (only_errors, limit) = match words.as_slice() {
            ["SHOW", "ERRORS", limit @ ..] => (true, limit),
            ["SHOW", "WARNINGS", limit @ ..] => (false, limit),
            _ => return None,
        };
        let (offset, most) = match limit {
            [] => (0, u64::MAX),
            ["LIMIT", most] => (0, most.parse().ok()?),
            ["LIMIT", offset, ",", most] | ["LIMIT", most, "OFFSET", offset] => {
                (offset.parse().ok()?, most.parse().ok()?)
            }
            _ => return None,
        };
        Some(Self { only_errors, offset, most })
    }

    /// Cuts a saved answer to SHOW WARNINGS down to these rows.
    pub(crate) fn from(self, reply: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(reply.len());
        let mut sequence = reply.get(wire::HEADER_LEN - 1).copied().unwrap_or_default();
        let (mut at, mut passed, mut shown) = (0, 0, 0);
        while let Some((payload_at, end)) = packet_at(reply, at) {
            at = end;
            let payload = &reply[payload_at..end];
            if LEVELS.iter().any(|level| payload.starts_with(level)) {
                if (self.only_errors && !payload.starts_with(ERROR)) || shown == self.most {
                    continue;
                }
                if passed < self.offset {
                    passed += 1;
                    continue;
                }
                shown += 1;
            }
            wire::put_message(&mut out, &mut sequence, payload);
        }
        out
    }
}

/// The first bytes of rows, errors first.
pub(super) const LEVELS: [&[u8]; 3] = [ERROR, b"\x07Warning", b"\x04Note"];

/// The first bytes of a row that is an error: its first column is the level. Definitions of columns begin with a catalog's name.
const ERROR: &[u8] = b"\x05Error";

/// The beginning and the end of the payload of the packet at a place; `None` after the last one.
pub(super) fn packet_at(packets: &[u8], at: usize) -> Option<(usize, usize)> {
    let &[a, b, c, _] = packets.get(at..at + wire::HEADER_LEN)? else { return None };
    let payload_at = at + wire::HEADER_LEN;
    let end = payload_at + u32::from_le_bytes([a, b, c, 0]) as usize;
    (end <= packets.len()).then_some((payload_at, end))
}

/// The answer to SHOW WARNINGS where there are none.
pub(crate) fn no_warnings(reader: Reader) -> Vec<u8> {
    let (mut out, mut sequence) = (Vec::new(), 1);
    ResultSetWriter::begin(
        &mut out,
        &mut sequence,
        &warning_columns(reader),
        reader.status(),
        reader.capabilities,
    )
    .finish();
    out
}

/// An answer to SHOW WARNINGS with one row.
fn warnings_reply(level: &str, code: u16, text: &[u8], reader: Reader) -> Box<[u8]> {
    let (mut out, mut sequence) = (Vec::new(), 1);
    let mut rows = ResultSetWriter::begin(
        &mut out,
        &mut sequence,
        &warning_columns(reader),
        reader.status(),
        reader.capabilities,
    );
    rows.row(&[Some(level.as_bytes()), Some(code.to_string().as_bytes()), Some(text)]);
    rows.finish();
    out.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_selected_by_level_and_limit() {
        let levels = [("Note", 1051), ("Error", 1064), ("Warning", 1264), ("Error", 1146)];
        for capabilities in [Capabilities::NONE, Capabilities::DEPRECATE_EOF] {
            let reader = Reader {
                status: StatusFlags::AUTOCOMMIT,
                collation: 45,
                width: 4,
                is_mysql: false,
                capabilities,
            };
            let reply_of = |levels: &[(&str, u16)]| {
                let (mut out, mut sequence) = (Vec::new(), 1);
                let columns = warning_columns(reader);
                let mut rows =
                    ResultSetWriter::begin(&mut out, &mut sequence, &columns, reader.status(), capabilities);
                for (level, code) in levels {
                    rows.row(&[Some(level.as_bytes()), Some(code.to_string().as_bytes()), Some(b"a text")]);
                }
                rows.finish();
                out
            };
            let whole = reply_of(&levels);
            for (text, expected) in [
                ("SHOW ERRORS", &[levels[1], levels[3]][..]),
                ("show  errors limit 1;", &levels[1..2]),
                ("SHOW ERRORS LIMIT 1, 5", &levels[3..]),
                ("SHOW WARNINGS LIMIT 2 OFFSET 1", &levels[1..3]),
                ("SHOW WARNINGS LIMIT 0", &[]),
                ("SHOW WARNINGS LIMIT 9,1", &[]),
                ("SHOW WARNINGS", &levels),
            ] {
                let selected = Selection::of(text.as_bytes()).unwrap().from(&whole);
                assert_eq!(selected, reply_of(expected), "{text}");
            }
        }
        for text in [
            "SHOW WARNINGS LIMIT x",
            "SHOW COUNT(*) ERRORS",
            "SHOW ERRORS /* all */",
            "GET DIAGNOSTICS @a = NUMBER",
        ] {
            assert_eq!(Selection::of(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn errors_are_counted_among_warnings() {
        let reader = Reader {
            status: StatusFlags::AUTOCOMMIT,
            collation: 45,
            width: 4,
            is_mysql: false,
            capabilities: Capabilities::NONE,
        };
        assert_eq!(errors_in(&warnings_reply("Error", 1064, b"Error", reader)), 1);
        assert_eq!(errors_in(&warnings_reply("Warning", 1264, b"Error", reader)), 0);
        assert_eq!(errors_in(&no_warnings(reader)), 0);
    }

    #[test]
    fn a_saved_answer_has_the_status_of_now() {
        let in_transaction = StatusFlags(StatusFlags::AUTOCOMMIT.0 | StatusFlags::IN_TRANS.0);
        for deprecate_eof in [false, true] {
            let capabilities =
                if deprecate_eof { Capabilities::DEPRECATE_EOF } else { Capabilities::CACHE_METADATA };
            let reader = |status| Reader { status, collation: 45, width: 4, is_mysql: false, capabilities };
            let error = b"a text";
            let before = warnings_reply("Error", 1064, error, reader(StatusFlags::AUTOCOMMIT));
            let after = warnings_reply("Error", 1064, error, reader(in_transaction));
            assert_ne!(before, after);
            assert_eq!(with_status(&before, in_transaction), after.to_vec());
            assert_eq!(with_status(&after, StatusFlags::AUTOCOMMIT), before.to_vec());
        }
    }
}
