//! A question of the program itself, without a connection.

use std::fmt;
use std::time::Instant;

use crate::database::{self, Caller, TIME_LIMIT, Taker};
use crate::errors::SqlError;
use crate::reply::Cell;
use crate::session::VERSION;
use crate::{Pool, Rows, Schema, catalog};

/// What a question was answered with: each value as text, `None` for NULL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, each with a value for every column.
    pub rows: Vec<Vec<Option<String>>>,
    bytes: usize,
}

impl Taker for Answer {
    fn take<'a>(&mut self, cells: impl Iterator<Item = Cell<'a>>) {
        let row: Vec<Option<String>> = cells.map(text).collect();
        self.bytes += row.iter().flatten().map(String::len).sum::<usize>();
        self.rows.push(row);
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

fn text(cell: Cell<'_>) -> Option<String> {
    match cell {
        Cell::Null => None,
        Cell::Integer(integer) => Some(integer.to_string()),
        Cell::Real(real) => Some(real.to_string()),
        Cell::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    }
}

/// Why a question is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The statement: there is something wrong with it, or it has reached a bound of statements of the admin port.
    Refused {
        /// MySQL's number for that.
        code: u16,
        /// What it is, for people.
        message: String,
    },
    /// Workers have not answered in time, so that rows are missing. The sentence names them.
    Incomplete(String),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { message, .. } => f.write_str(message),
            Self::Incomplete(warning) => f.write_str(warning),
        }
    }
}

impl std::error::Error for Unanswered {}

/// Runs a SELECT in SQLite's dialect over the tables of `pool`, under the bounds of a statement of the admin port.
///
/// # Errors
/// Why there are no rows, or not all of them.
pub fn ask(pool: &dyn Pool, question: &str) -> Result<Answer, Unanswered> {
    let caller =
        Caller { user: String::new(), schema: Some(Schema::Onramp), connection: 0, version: VERSION };
    let deadline = Instant::now() + TIME_LIMIT;
    let begin = |columns| Answer { columns, ..Answer::default() };
    let fill = |rows: &mut Rows<'_>| {
        catalog::fill(rows, VERSION, pool);
        pool.fill(rows);
    };
    let asked = database::select_into(question, &caller, deadline, fill, begin);
    let refused = |error: SqlError| Unanswered::Refused { code: error.code, message: error.message };
    let (answer, warnings) = asked.map_err(refused)?;
    match warnings.into_iter().next() {
        Some(warning) => Err(Unanswered::Incomplete(warning)),
        None => Ok(answer),
    }
}
