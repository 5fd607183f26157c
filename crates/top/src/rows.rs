//! Which rows of a table are shown, in which order, and what stands in each column.

use std::cmp::Ordering;

use crate::format::{clean, count, duration, rate};
use crate::lock_tree;
use crate::snapshot::{ONRAMP, Table, Value};
use crate::tabs::{Column, Kind, Tab};

/// How a table is to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The column that orders it; `None` for the one that says whose a row is.
    pub sort: Option<usize>,
    /// Whether the largest values come first.
    pub descending: bool,
}

impl Order {
    /// As a tab is ordered at first.
    pub fn usual(tab: Tab) -> Self {
        let (sort, descending) = tab.order();
        Self { sort: Some(sort), descending }
    }
}

/// The name of the column that orders a table, of one Onramp or of several.
pub fn sorted_by(tab: Tab, order: &Order, several: bool) -> Option<&'static str> {
    let Some(sort) = order.sort else { return Some(ONRAMP) };
    let name = tab.columns().get(sort)?.name;
    // Each Onramp counts its events from 1.
    Some(if several && (tab, name) == (Tab::Events, "number") { "time" } else { name })
}

/// A line on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The row that it shows; `None` for somebody of whom only a number is known.
    pub row: Option<usize>,
    /// What stands before the first column: the branches of a tree.
    pub branch: String,
    /// What is known where there is no row.
    pub note: String,
    /// How many lines of a tree stand below it.
    pub behind: usize,
}

/// The lines of a tab, from the rows that hold `filter` in any of its columns.
pub fn lines(tab: Tab, table: &Table, order: &Order, filter: &str) -> Vec<Line> {
    let names = tab.columns().iter().map(|column| column.name).chain([ONRAMP]);
    let places: Vec<usize> = names.filter_map(|name| table.column(name)).collect();
    let wanted = filter.to_ascii_lowercase();
    let holds = |row: &[Value]| {
        wanted.is_empty()
            || places.iter().any(|place| row[*place].text().to_ascii_lowercase().contains(&wanted))
    };
    let mut shown: Vec<usize> = (0..table.rows.len()).filter(|row| holds(&table.rows[*row])).collect();
    let sorted_by = sorted_by(tab, order, table.column(ONRAMP).is_some());
    if let Some(place) = sorted_by.and_then(|name| table.column(name)) {
        let by = |row: &usize| &table.rows[*row][place];
        // Equal rows stay in the order in which they came.
        shown.sort_by(|a, b| {
            let ascending = compare(by(a), by(b));
            if order.descending { ascending.reverse() } else { ascending }
        });
    }
    if tab == Tab::Locks {
        return lock_tree::lines(table, &shown, sorted_by == Some(BLOCKS) && order.descending);
    }
    shown
        .into_iter()
        .map(|row| Line { row: Some(row), branch: String::new(), note: String::new(), behind: 0 })
        .collect()
}

/// As SQLite orders values: nothing, numbers, texts.
pub fn compare(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Null => 0,
        Value::Integer(_) | Value::Real(_) => 1,
        Value::Text(_) => 2,
    };
    match (a, b) {
        (Value::Integer(a), Value::Integer(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        _ => match (real(a), real(b)) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => rank(a).cmp(&rank(b)),
        },
    }
}

fn real(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Real(number) => Some(*number),
        Value::Null | Value::Text(_) => None,
    }
}

/// The column that says that others wait for somebody. A tree knows how many, and shows that in its place.
pub const BLOCKS: &str = "blocks_others";

/// What a line's row shows in a column.
pub fn cell_of(line: &Line, column: &Column, value: &Value) -> String {
    match column.name == BLOCKS && line.behind > 0 {
        true => line.behind.to_string(),
        false => cell(column, value),
    }
}

/// A value as a column shows it; nothing in it moves a cursor.
pub fn cell(column: &Column, value: &Value) -> String {
    match (column.kind, value) {
        (_, Value::Null) => String::new(),
        (Kind::Count, Value::Integer(number)) => count(*number),
        (Kind::Time, Value::Integer(us)) => duration(*us),
        (Kind::Rate, value) => real(value).map_or_else(|| clean(&value.text()), rate),
        (Kind::Flag, Value::Integer(0)) => String::new(),
        (Kind::Flag, Value::Integer(_)) => String::from("yes"),
        (_, value) => clean(&value.text()),
    }
}

/// Whether a column's values stand at its right end, as numbers do.
pub fn is_right(column: &Column) -> bool {
    matches!(column.kind, Kind::Count | Kind::Rate | Kind::Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let row =
            |id: i64, user: &str, busy: Value| vec![Value::Integer(id), Value::Text(user.to_owned()), busy];
        Table {
            columns: ["id", "user", "busy_us"].map(String::from).to_vec(),
            rows: vec![
                row(1, "app", Value::Null),
                row(2, "Report", Value::Integer(5)),
                row(3, "app", Value::Integer(70_000)),
            ],
        }
    }

    fn shown(order: &Order, filter: &str) -> Vec<usize> {
        lines(Tab::Clients, &table(), order, filter).iter().filter_map(|line| line.row).collect()
    }

    #[test]
    fn rows_are_ordered_as_sqlite_does() {
        let usual = Order::usual(Tab::Clients);
        assert_eq!(shown(&usual, ""), [2, 1, 0]);
        assert_eq!(shown(&Order { descending: false, ..usual }, ""), [0, 1, 2]);
        // By a column that the snapshot does not have: as they came.
        for sort in [Some(6), Some(99), None] {
            assert_eq!(shown(&Order { sort, descending: true }, ""), [0, 1, 2]);
        }
    }

    #[test]
    fn filters_look_into_every_column() {
        let order = Order { sort: Some(0), descending: false };
        assert_eq!(shown(&order, "rePORT"), [1]);
        assert_eq!(shown(&order, "7000"), [2]);
        assert!(shown(&order, "nobody").is_empty());
    }

    #[test]
    fn values_are_shown_by_their_kind() {
        let column = |name: &str| Tab::Clients.columns().iter().find(|column| column.name == name).unwrap();
        assert_eq!(cell(column("busy_us"), &Value::Integer(70_000)), "70.0ms");
        assert_eq!(cell(column("holds_locks"), &Value::Integer(1)), "yes");
        assert_eq!(cell(column("holds_locks"), &Value::Integer(0)), "");
        assert_eq!(cell(column("user"), &Value::Text("a\x1b[2J".to_owned())), "a?[2J");
        assert_eq!(cell(column("id"), &Value::Integer(1_073_741_825)), "1073741825");
    }
}
