//! The instances of Aurora, by the table that each of them has of all (`information_schema.replica_host_status`).
//!
//! Rows stay there of instances that have been deleted or renamed, and of the cluster that this one is a copy of; the writer's own lag has
//! been a number without a meaning since Aurora 1.23 and 2.09; a reader that has fallen behind knows old rows alone. So a row counts by its
//! age. What people's servers have answered is in `aurora/recorded.txt`, for the tests.

use std::time::Duration;

use crate::backend::own_answers::{Named, NamedRow};

/// How old a row is the server says by its own clock. The name of the column is ours.
pub(super) const INSTANCES: &str = "SELECT SERVER_ID, SESSION_ID, REPLICA_LAG_IN_MILLISECONDS, \
    TIMESTAMPDIFF(MICROSECOND, LAST_UPDATE_TIMESTAMP, NOW(6)) AS AGE FROM information_schema.replica_host_status";

/// The times in the table are of UTC, or of the session's time zone: nobody says which. In this one they are the same.
pub(super) const UTC: &str = "SET time_zone = '+00:00'";

/// The session's name of the instance that writes.
const WRITER: &str = "MASTER_SESSION_ID";

/// A writer that nothing has been heard of for so long may be another cluster's. A failover takes a minute at most, as a rule, and drivers wait for
/// three or for five.
const HOLDS: Duration = Duration::from_secs(180);

/// Rows come about once a second. One that is older than a few of these has not come since, and what it says was true then.
const COMES: Duration = Duration::from_secs(3);

/// An instance, by what it knows of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Aurora {
    /// The one that writes, as it has heard; empty where it does not say.
    pub(crate) writer: String,
    /// Its own name.
    pub(crate) own: String,
    /// How far it is behind the writer, where that is known.
    pub(crate) lag: Option<Duration>,
}

impl Aurora {
    /// One of this name, of which nothing else is known yet.
    pub(crate) fn new(own: String) -> Self {
        Self { own, ..Self::default() }
    }

    /// Whether it is the one that writes, as it has heard.
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
    /// How long ago the instance was heard of, in microseconds; less than nothing where clocks differ.
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

    /// How far the instance is behind the writer. The lag of one that writes, or has written when it was last heard of, means nothing.
    fn behind(&self) -> Option<Duration> {
        let (lag, age) = (self.lag?, since(self.age?));
        let since = if age > COMES { age } else { Duration::ZERO };
        (!self.writes).then(|| lag.saturating_add(since))
    }
}

/// Of several rows of an instance, and of several writers, the one heard of last counts: the youngest. One without a time is older than all.
fn age_of(row: &&Row) -> i64 {
    row.age.unwrap_or(i64::MAX)
}

fn since(age: i64) -> Duration {
    Duration::from_micros(u64::try_from(age).unwrap_or(0))
}

/// Behind a change of the writer there may be two of it for a while, and in a copy of a cluster that of the other one for ever: the one heard of
/// last counts. Of two that were heard of at the same moment neither does, so that they have to say themselves whether they take writes.
///
/// Whose table has no row of itself has just begun, and old rows are of another cluster. Whose table has one may have been cut off as a writer:
/// what it has heard last counts for as long as it hears nothing else.
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
