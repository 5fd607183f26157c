//! What one event of each workload sends: the steps of its transaction, as sysbench 1.0.20 has them in
//! `oltp_common.lua`, five workloads of our own that check the answers, and one that only takes its time.

pub mod encode;
pub mod statement;
#[cfg(test)]
mod tests;

use std::ops::Range;

use clap::ValueEnum;

use crate::journal::{End, Fate};
use statement::Statement;

/// The workloads by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Workload {
    /// `SELECT c` by primary key (sysbench's oltp_point_select)
    #[value(alias = "oltp_point_select")]
    PointSelect,
    /// `SELECT pad` by primary key (sysbench's old select.lua)
    Select,
    /// `SELECT SUM(k)` of a range (one of oltp_read_only's)
    SumRange,
    /// `UPDATE` of the indexed column by primary key
    #[value(alias = "oltp_update_index")]
    UpdateIndex,
    /// `UPDATE` of a column without index by primary key
    #[value(alias = "oltp_update_non_index")]
    UpdateNonIndex,
    /// The same inside BEGIN and COMMIT
    UpdateNonIndexTrx,
    /// 10 point selects and 4 ranges of 100 rows inside BEGIN and COMMIT
    OltpReadOnly,
    /// oltp_read_only and oltp_write_only in one transaction
    OltpReadWrite,
    /// Two updates, a delete and an insert inside BEGIN and COMMIT
    OltpWriteOnly,
    /// One-row `INSERT`
    #[value(alias = "oltp_insert")]
    Insert,
    /// Connect, log in, `SELECT 1`, disconnect
    Connect,
    /// Transfers between accounts that read back their own writes; `check` compares the sum of balances
    Ledger,
    /// A read, a marker outside of transactions, and a transfer: with --journal it is known what became of each marker, whatever fails
    LedgerMix,
    /// Writes into an account of its own, outside of transactions, and reads that; the answer must be what it has written
    ReadOwnWrites,
    /// A `SELECT` of a text that no other statement sends; the answer must be that text
    Echo,
    /// `SELECT SLEEP(1)`, or as --sleep-time says: a statement that takes its time and none of the processor's
    Sleep,
}

impl Workload {
    /// The name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The tables that an event may touch; what `prepare` creates.
    pub fn tables(self) -> Tables {
        match self {
            Self::Connect | Self::Echo | Self::Sleep => Tables::None,
            Self::Ledger | Self::LedgerMix | Self::ReadOwnWrites => Tables::Ledger,
            _ => Tables::Sbtest,
        }
    }

    /// Whether every event logs in anew.
    pub fn reconnects(self) -> bool {
        self == Self::Connect
    }

    /// The steps of one event.
    pub fn plan(self) -> Plan {
        let mut plan = Plan::default();
        match self {
            Self::PointSelect => plan.push(Draw::TableAndRow, Statement::POINT_SELECT),
            Self::Select => plan.push(Draw::TableAndRow, Statement::SELECT_PAD),
            Self::SumRange => plan.push(Draw::TableAndRow, Statement::SUM_RANGE),
            Self::UpdateIndex => plan.push(Draw::TableAndRow, Statement::UPDATE_INDEX),
            Self::UpdateNonIndex => plan.push(Draw::TableAndRow, Statement::UPDATE_NON_INDEX),
            Self::UpdateNonIndexTrx => {
                plan.transaction(|plan| plan.push(Draw::TableAndRow, Statement::UPDATE_NON_INDEX));
            }
            Self::OltpReadOnly => plan.transaction(Plan::push_reads),
            Self::OltpWriteOnly => plan.transaction(Plan::push_writes),
            Self::OltpReadWrite => plan.transaction(|plan| {
                plan.push_reads();
                plan.push_writes();
            }),
            Self::Insert => plan.push(Draw::TableAndRow, Statement::INSERT),
            Self::Connect => plan.push(Draw::Nothing, Statement::SELECT_ONE),
            Self::Echo => plan.push_checked(Draw::Token, Statement::ECHO, Expected::TokenText),
            Self::Sleep => plan.push(Draw::Nothing, Statement::SLEEP),
            Self::Ledger => plan.transaction(Plan::push_transfer),
            Self::LedgerMix => {
                plan.push(Draw::Row, Statement::READ_ACCOUNT);
                plan.push(Draw::Token, Statement::INSERT_MARKER);
                plan.transaction(Plan::push_transfer);
            }
            Self::ReadOwnWrites => {
                plan.push(Draw::Token, Statement::WRITE_OWN);
                plan.push_checked(Draw::Nothing, Statement::READ_OWN, Expected::Token);
            }
        }
        plan
    }
}

/// Which tables a workload needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// None at all.
    None,
    /// `sbtest1` and on, as sysbench creates them.
    Sbtest,
    /// `ledger` and `ledger_marker`.
    Ledger,
}

/// The steps of one event, and the statements that they name.
#[derive(Debug, Default)]
pub struct Plan {
    /// In the order in which they are sent; each waits for the answer to the one before.
    pub steps: Vec<Step>,
    /// The statements without repetition; [`Step::statement`] counts from 0 in here.
    pub statements: Vec<Statement>,
    /// The steps of its transaction, BEGIN and COMMIT included; empty where it has none.
    pub transaction: Range<usize>,
}

/// One statement of an event.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Its place in [`Plan::statements`].
    pub statement: usize,
    /// What is drawn before it is sent.
    pub draw: Draw,
    /// What the answer must hold.
    pub expected: Expected,
}

/// What is drawn anew before a statement; the rest stays as the steps before it left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Nothing.
    Nothing,
    /// A row of the same table.
    Row,
    /// A table and a row.
    TableAndRow,
    /// The next token of this connection.
    Token,
    /// The next token, two accounts and an amount.
    Transfer,
}

/// What the first row of an answer must be; the check is what finds another connection's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Anything without an error.
    Anything,
    /// One row with the connection's token as a number.
    Token,
    /// One row with the connection's token as a text.
    TokenText,
}

impl Plan {
    fn push(&mut self, draw: Draw, statement: Statement) {
        self.push_checked(draw, statement, Expected::Anything);
    }

    fn push_checked(&mut self, draw: Draw, statement: Statement, expected: Expected) {
        let known = self.statements.iter().position(|other| other.text == statement.text);
        let place = known.unwrap_or_else(|| {
            self.statements.push(statement);
            self.statements.len() - 1
        });
        self.steps.push(Step { statement: place, draw, expected });
    }

    fn transaction(&mut self, body: impl FnOnce(&mut Self)) {
        let begin = self.steps.len();
        self.push(Draw::Nothing, Statement::BEGIN);
        body(self);
        self.push(Draw::Nothing, Statement::COMMIT);
        self.transaction = begin..self.steps.len();
    }

    /// Whether a transaction is open when this step has been answered; `None` for a step that has nothing to do with one.
    pub fn leaves_open(&self, step: usize) -> Option<bool> {
        self.transaction.contains(&step).then_some(step + 1 < self.transaction.end)
    }

    /// Whether a transaction may be open where this step has failed.
    pub fn may_be_open(&self, step: usize) -> bool {
        self.transaction.contains(&step) && step > self.transaction.start
    }

    /// Whether an event leaves markers.
    pub fn has_markers(&self) -> bool {
        (0..self.steps.len()).any(|step| self.leaves_marker(step))
    }

    /// What has become of the connection's marker now that this step has ended so; `None` where that is still open, or has been said,
    /// or there is none.
    pub fn fate(&self, step: usize, end: End) -> Option<Fate> {
        if !self.transaction.contains(&step) {
            return if self.leaves_marker(step) { end.of_last() } else { None };
        }
        let mut steps = self.transaction.clone();
        let drawn = steps.find(|step| matches!(self.steps[*step].draw, Draw::Token | Draw::Transfer))?;
        if step < drawn || !self.transaction.clone().any(|step| self.leaves_marker(step)) {
            None
        } else if step + 1 == self.transaction.end {
            end.of_last()
        } else {
            end.before_last()
        }
    }

    fn leaves_marker(&self, step: usize) -> bool {
        self.statements[self.steps[step].statement].text == Statement::INSERT_MARKER.text
    }

    /// The reads of oltp_read_only: the table is drawn once for all ten point selects.
    fn push_reads(&mut self) {
        const POINT_SELECTS: usize = 10; // sysbench's --point-selects
        for index in 0..POINT_SELECTS {
            let draw = if index == 0 { Draw::TableAndRow } else { Draw::Row };
            self.push(draw, Statement::POINT_SELECT);
        }
        self.push(Draw::TableAndRow, Statement::SIMPLE_RANGE);
        self.push(Draw::TableAndRow, Statement::SUM_RANGE);
        self.push(Draw::TableAndRow, Statement::ORDER_RANGE);
        self.push(Draw::TableAndRow, Statement::DISTINCT_RANGE);
    }

    /// The writes of oltp_write_only: the insert puts back the row that the delete took.
    fn push_writes(&mut self) {
        self.push(Draw::TableAndRow, Statement::UPDATE_INDEX);
        self.push(Draw::TableAndRow, Statement::UPDATE_NON_INDEX);
        self.push(Draw::TableAndRow, Statement::DELETE);
        self.push(Draw::Nothing, Statement::INSERT_ROW);
    }

    /// One transfer: the lower account first, so that two transfers cannot wait for each other's rows.
    fn push_transfer(&mut self) {
        self.push(Draw::Transfer, Statement::WITHDRAW);
        self.push(Draw::Nothing, Statement::DEPOSIT);
        self.push(Draw::Nothing, Statement::INSERT_MARKER);
        self.push_checked(Draw::Nothing, Statement::READ_MARKER, Expected::Token);
        self.push_checked(Draw::Nothing, Statement::READ_WRITER, Expected::Token);
    }
}
