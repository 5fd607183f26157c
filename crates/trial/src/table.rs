//! The answer to a question, and who answers.

use std::fmt;

/// Rows as the admin port gives them: each value as text, `None` for NULL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, each with a value for every column.
    pub rows: Vec<Vec<Option<String>>>,
}

/// Who answers questions in the admin port's SQL.
pub trait Source {
    /// # Errors
    /// Why there is no answer, or not all of it.
    fn ask(&mut self, question: &str) -> Result<Table, NoTable>;
}

/// Why there is no answer. Sentences are those of whoever was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoTable {
    /// The Onramp cannot be reached, or the connection to it has broken: the next question may be answered.
    Unreachable(String),
    /// The Onramp refuses the question, and will do so again.
    Refused(String),
    /// Some of its workers have not answered in time, so that rows are missing.
    Incomplete(String),
}

impl fmt::Display for NoTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Unreachable(reason) | Self::Refused(reason) | Self::Incomplete(reason)) = self;
        f.write_str(reason)
    }
}

impl std::error::Error for NoTable {}

/// A row whose values are asked for by the names of their columns.
#[derive(Clone, Copy)]
pub(crate) struct Row<'t> {
    table: &'t Table,
    values: &'t [Option<String>],
}

impl Table {
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|values| Row { table: self, values })
    }
}

impl<'t> Row<'t> {
    /// The value; `None` where it is NULL, or no such column was asked for.
    pub(crate) fn text(&self, column: &str) -> Option<&'t str> {
        let place = self.table.columns.iter().position(|name| name == column)?;
        self.values.get(place)?.as_deref()
    }

    /// The value as a number; 0 where it is none.
    pub(crate) fn number(&self, column: &str) -> u64 {
        self.optional(column).unwrap_or(0)
    }

    pub(crate) fn optional(&self, column: &str) -> Option<u64> {
        self.text(column)?.parse().ok()
    }

    pub(crate) fn is_set(&self, column: &str) -> bool {
        self.number(column) != 0
    }
}
