//! The texts of all statements and what goes into their parameters.

/// One statement: a text with `%` for the table's number and `?` for each parameter.
#[derive(Clone, Copy, Debug)]
pub struct Statement {
    /// How it counts in the report.
    pub kind: Kind,
    /// The text.
    pub text: &'static str,
    /// What goes into each `?`, in order.
    pub parameters: &'static [Parameter],
    /// Whether `--prepared` prepares it. BEGIN and COMMIT stay texts: MySQL does not prepare BEGIN (error 1295), and
    /// sysbench then sends it as a text, too.
    pub preparable: bool,
}

/// How sysbench counts a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SELECT.
    Read,
    /// INSERT, UPDATE, DELETE.
    Write,
    /// BEGIN, COMMIT, ROLLBACK.
    Other,
}

/// What goes into a `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// The row that was drawn.
    Row,
    /// The last row of the range that begins with it.
    RangeEnd,
    /// Another row number: the value of the column `k`.
    AnotherRow,
    /// 119 random digits and dashes for the column `c`.
    DigitsForC,
    /// 59 random digits and dashes for the column `pad`.
    DigitsForPad,
    /// The lower account of a transfer.
    LowerAccount,
    /// The higher account of a transfer.
    HigherAccount,
    /// What goes from the lower to the higher account; may be negative.
    Amount,
    /// The account that no other connection touches.
    OwnAccount,
    /// The connection's token as a number.
    Token,
    /// The connection's token as a text.
    TokenText,
    /// Seconds, with a fraction.
    SleepTime,
}

use Parameter::*;

impl Statement {
    /// Opens a transaction.
    pub const BEGIN: Self = Self::bare("BEGIN");
    /// Ends it.
    pub const COMMIT: Self = Self::bare("COMMIT");
    /// Undoes what a failed event has done so far.
    pub const ROLLBACK: Self = Self::bare("ROLLBACK");

    /// `stmt_defs.point_selects` of oltp_common.lua.
    pub const POINT_SELECT: Self = Self::read("SELECT c FROM sbtest% WHERE id=?", &[Row]);
    /// sysbench 0.4's select.lua.
    pub const SELECT_PAD: Self = Self::read("SELECT pad FROM sbtest% WHERE id=?", &[Row]);
    /// `stmt_defs.simple_ranges`.
    pub const SIMPLE_RANGE: Self =
        Self::read("SELECT c FROM sbtest% WHERE id BETWEEN ? AND ?", &[Row, RangeEnd]);
    /// `stmt_defs.sum_ranges`.
    pub const SUM_RANGE: Self =
        Self::read("SELECT SUM(k) FROM sbtest% WHERE id BETWEEN ? AND ?", &[Row, RangeEnd]);
    /// `stmt_defs.order_ranges`.
    pub const ORDER_RANGE: Self =
        Self::read("SELECT c FROM sbtest% WHERE id BETWEEN ? AND ? ORDER BY c", &[Row, RangeEnd]);
    /// `stmt_defs.distinct_ranges`.
    pub const DISTINCT_RANGE: Self =
        Self::read("SELECT DISTINCT c FROM sbtest% WHERE id BETWEEN ? AND ? ORDER BY c", &[Row, RangeEnd]);
    /// `stmt_defs.index_updates`.
    pub const UPDATE_INDEX: Self = Self::write("UPDATE sbtest% SET k=k+1 WHERE id=?", &[Row]);
    /// `stmt_defs.non_index_updates`.
    pub const UPDATE_NON_INDEX: Self = Self::write("UPDATE sbtest% SET c=? WHERE id=?", &[DigitsForC, Row]);
    /// `stmt_defs.deletes`.
    pub const DELETE: Self = Self::write("DELETE FROM sbtest% WHERE id=?", &[Row]);
    /// `stmt_defs.inserts`.
    pub const INSERT_ROW: Self = Self::write(
        "INSERT INTO sbtest% (id, k, c, pad) VALUES (?, ?, ?, ?)",
        &[Row, AnotherRow, DigitsForC, DigitsForPad],
    );
    /// oltp_insert.lua: 0 lets the server choose the id.
    pub const INSERT: Self = Self::write(
        "INSERT INTO sbtest% (id, k, c, pad) VALUES (0, ?, ?, ?)",
        &[Row, DigitsForC, DigitsForPad],
    );

    /// What a fresh connection asks once.
    pub const SELECT_ONE: Self = Self::read("SELECT 1", &[]);
    /// Comes back as it was sent.
    pub const ECHO: Self = Self::read("SELECT ? AS t", &[TokenText]);
    /// One second unless told otherwise: what the pools' users report as long among short ones.
    pub const SLEEP: Self = Self::read("SELECT SLEEP(?)", &[SleepTime]);

    /// Takes the amount from one account, and leaves our token there.
    pub const WITHDRAW: Self = Self::write(
        "UPDATE ledger SET balance=balance - ?, writer=? WHERE id=?",
        &[Amount, Token, LowerAccount],
    );
    /// Adds it to the other.
    pub const DEPOSIT: Self = Self::write(
        "UPDATE ledger SET balance=balance + ?, writer=? WHERE id=?",
        &[Amount, Token, HigherAccount],
    );
    /// Leaves a row that nobody else writes.
    pub const INSERT_MARKER: Self = Self::write("INSERT INTO ledger_marker (writer) VALUES (?)", &[Token]);
    /// Finds that row by the connection's own last insert id.
    pub const READ_MARKER: Self =
        Self::read("SELECT writer FROM ledger_marker WHERE id=LAST_INSERT_ID()", &[]);
    /// The row is locked by our transaction, so the last writer is us.
    pub const READ_WRITER: Self = Self::read("SELECT writer FROM ledger WHERE id=?", &[LowerAccount]);

    /// What an account has.
    pub const READ_ACCOUNT: Self = Self::read("SELECT balance FROM ledger WHERE id=?", &[Row]);

    /// Leaves our token in an account that nobody else touches.
    pub const WRITE_OWN: Self = Self::write("UPDATE ledger SET writer=? WHERE id=?", &[Token, OwnAccount]);
    /// Nobody else has written there since.
    pub const READ_OWN: Self = Self::read("SELECT writer FROM ledger WHERE id=?", &[OwnAccount]);

    const fn bare(text: &'static str) -> Self {
        Self { kind: Kind::Other, text, parameters: &[], preparable: false }
    }

    const fn read(text: &'static str, parameters: &'static [Parameter]) -> Self {
        Self { kind: Kind::Read, text, parameters, preparable: true }
    }

    const fn write(text: &'static str, parameters: &'static [Parameter]) -> Self {
        Self { kind: Kind::Write, text, parameters, preparable: true }
    }

    /// Whether the text names a numbered table, so that it is prepared once per table.
    pub fn names_table(&self) -> bool {
        self.text.contains('%')
    }
}
