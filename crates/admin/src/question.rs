//! A question of the program itself, without a connection.

use std::time::Instant;

use crate::database::{self, Caller, TIME_LIMIT, Taker};
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

/// Runs a SELECT in SQLite's dialect over the tables of `pool`, under the bounds of a statement of the admin port.
///
/// # Errors
/// What is wrong with the statement, the bound that it reached, or which workers have not answered in time: rows are missing then.
pub fn ask(pool: &dyn Pool, question: &str) -> Result<Answer, String> {
    let caller =
        Caller { user: String::new(), schema: Some(Schema::Onramp), connection: 0, version: VERSION };
    let deadline = Instant::now() + TIME_LIMIT;
    let begin = |columns| Answer { columns, ..Answer::default() };
    let fill = |rows: &mut Rows<'_>| {
        catalog::fill(rows, VERSION, pool);
        pool.fill(rows);
    };
    let asked = database::select_into(question, &caller, deadline, fill, begin);
    let (answer, warnings) = asked.map_err(|error| error.message)?;
    match warnings.first() {
        Some(warning) => Err(warning.clone()),
        None => Ok(answer),
    }
}
