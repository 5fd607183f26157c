//! The instances of Aurora, by the table that each of them has of all (`information_schema.replica_host_status`).
//!
//! Rows stay there of instances that have been deleted or renamed, and of the cluster that this one is a copy of. The writer's own lag is
//! a number without a meaning since Aurora 1.23 and 2.09. A reader that has fallen behind knows old rows alone. So a row counts by its
//! age. Answers of people's servers are in `aurora/recorded.txt`, for the tests.

use std::time::Duration;

use crate::backend::from_server::own_answers::{Named, NamedRow};

/// Asks for the table, with the age of each row by the server's own clock. The name of that column is ours.
pub(super) const INSTANCES: &str = "SELECT SERVER_ID, SESSION_ID, REPLICA_LAG_IN_MILLISECONDS, \
    TIMESTAMPDIFF(MICROSECOND, LAST_UPDATE_TIMESTAMP, NOW(6)) AS AGE FROM information_schema.replica_host_status";

/// Sets the session's time zone. The times in the table are of UTC, or of that zone: nobody says which. Now they are the same.
pub(super) const UTC: &str = "SET time_zone = '+00:00'";

/// The session's name of the instance that writes.
const WRITER: &str = "MASTER_SESSION_ID";

/// A writer that nothing has been heard of for this time may be another cluster's. A failover takes a minute at most, as a rule, and drivers
/// wait for three or for five.
const HOLDS: Duration = Duration::from_secs(180);

/// Rows come about once a second. A row older than this has not come since, and was true then.
const COMES: Duration = Duration::from_secs(3);

/// An instance, by its own table of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Aurora {
    /// Name of the instance that writes, by the table; empty where it does not say.
    pub(super) writer: String,
    /// The instance's own name.
    own: String,
    /// How far the instance is behind the writer, where that is known.
    pub(super) lag: Option<Duration>,
}

impl Aurora {
    /// Makes an instance of this name, of which nothing else is known yet.
    pub(crate) fn new(own: String) -> Self {
        Self { own, ..Self::default() }
    }

    /// Says whether this instance is the one that writes, by its table.
    pub(crate) fn is_writer(&self) -> bool {
        self.writer.eq_ignore_ascii_case(&self.own)
    }

    /// Takes in the answer to [`INSTANCES`].
    pub(crate) fn take(&mut self, kept: &[u8]) {
        let table = Named::of(kept);
        let rows: Vec<Row> = table.rows().map(Row::of).collect();
        let own = rows.iter().filter(|row| row.name.eq_ignore_ascii_case(&self.own)).min_by_key(age_of);
        self.writer = writer_of(&rows, own.is_some());
        self.lag = own.and_then(Row::behind);
    }
}

/// A row of the table.
struct Row {
    name: String,
    writes: bool,
    lag: Option<Duration>,
    /// Microseconds since the instance was heard of; less than nothing where clocks differ.
    age: Option<i64>,
}

impl Row {
    fn of(row: NamedRow<'_>) -> Self {
        let milliseconds: Option<f64> = row.text("REPLICA_LAG_IN_MILLISECONDS").parse().ok();
        Self {
            name: row.text("SERVER_ID"),
            writes: row.text("SESSION_ID") == WRITER,
            lag: milliseconds.and_then(|lag| Duration::try_from_secs_f64(lag / 1e3).ok()),
            age: row.text("AGE").parse().ok(),
        }
    }

    /// Returns how far the instance is behind the writer. The lag of an instance that writes, or wrote when it was last heard of, means nothing.
    fn behind(&self) -> Option<Duration> {
        let (lag, age) = (self.lag?, since(self.age?));
        let since = if age > COMES { age } else { Duration::ZERO };
        (!self.writes).then(|| lag.saturating_add(since))
    }
}

/// Returns the age by which rows of one instance, or of several writers, are compared: the youngest counts. A row without a time is the oldest.
fn age_of(row: &&Row) -> i64 {
    row.age.unwrap_or(i64::MAX)
}

fn since(age: i64) -> Duration {
    Duration::from_micros(u64::try_from(age).unwrap_or(0))
}

/// Returns the name of the writer; empty where the rows do not say. There may be two writers for a while behind a change, and for ever in a
/// copy of another cluster. The one heard of last counts. Of two heard of at the same moment neither does, so that they have to say
/// themselves whether they take writes.
///
/// An instance without a row of itself has just begun, and old rows are of another cluster. An instance with such a row may have been cut
/// off as a writer: its last news counts for as long as it hears nothing else.
fn writer_of(rows: &[Row], has_own: bool) -> String {
    let holds = |row: &Row| has_own || row.age.is_none_or(|age| since(age) <= HOLDS);
    let writers = || rows.iter().filter(|row| row.writes && holds(row));
    let Some(last) = writers().min_by_key(age_of) else { return String::new() };
    let is_other = |row: &&Row| age_of(row) == age_of(&last) && !row.name.eq_ignore_ascii_case(&last.name);
    if writers().any(|row| is_other(&row)) { String::new() } else { last.name.clone() }
}

#[cfg(test)]
#[path = "aurora/tests.rs"]
mod tests;
