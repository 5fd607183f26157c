//! What is asked of the admin port: a SELECT for each table, with an end to its rows.

use std::collections::BTreeSet;

use crate::rows::Order;
use crate::tabs::{Column, Tab};

/// How a table is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Which one.
    pub tab: Tab,
    /// How it is ordered.
    pub order: Order,
    /// What a row has to hold, in any column, whatever the case of ASCII's letters; empty for all rows.
    pub filter: String,
    /// How many rows at most.
    pub rows: u32,
}

impl Question {
    /// The first rows of a tab, as it is ordered at first.
    pub fn usual(tab: Tab, rows: u32) -> Self {
        Self { tab, order: Order::usual(tab), filter: String::new(), rows }
    }

    /// As it is asked of one of several Onramps, by its name: where that holds what is filtered by, all its rows do.
    pub fn of(&self, onramp: Option<&str>) -> Self {
        let wanted = self.filter.to_ascii_lowercase();
        let is_named = onramp.is_some_and(|name| name.to_ascii_lowercase().contains(&wanted));
        Self { filter: if is_named { String::new() } else { self.filter.clone() }, ..self.clone() }
    }

    /// As SQL of the admin port, of what it has.
    pub fn to_sql(&self, has: &Has) -> String {
        let columns = self.tab.columns();
        let list: Vec<String> = columns.iter().filter_map(|column| selected(column, has)).collect();
        let source = self.tab.source();
        let list = if list.is_empty() { String::from("NULL") } else { list.join(", ") };
        let mut text = format!("SELECT {list} FROM {source}");
        if !self.filter.is_empty() {
            let wanted = quoted(&self.filter.to_ascii_lowercase());
            let found = columns.iter().filter_map(|column| expression(column, has));
            let tests: Vec<String> = found
                .map(|expression| format!("instr(lower(coalesce({expression}, '')), {wanted}) > 0"))
                .collect();
            let word = if source.contains(" WHERE ") { "AND" } else { "WHERE" };
            let tests = if tests.is_empty() { String::from("0") } else { tests.join(" OR ") };
            text.push_str(&format!(" {word} ({tests})"));
        }
        // Where a value is missing it counts as the smallest, as in SQLite. Where whose a row is orders them, all are the same one's.
        let usual = Order::usual(self.tab);
        let Order { sort, descending } = if self.order.sort.is_none() { &usual } else { &self.order };
        let sorted_by = sort.and_then(|sort| columns.get(sort));
        let order = sorted_by.and_then(|column| expression(column, has)).unwrap_or("1");
        let direction = if *descending { "DESC" } else { "ASC" };
        text.push_str(&format!(" ORDER BY {order} {direction} LIMIT {}", self.rows));
        text
    }

    /// What says which columns the table has.
    pub fn describe(&self) -> String {
        let table = self.tab.source().split(' ').next().unwrap_or_default();
        format!("DESCRIBE {table}")
    }
}

/// What an Onramp has of what is asked for. An older or newer one may lack some of it; without a word about that it has all.
#[derive(Clone, Debug, Default)]
pub struct Has {
    /// The columns of the table, where it does not have all.
    pub columns: Option<BTreeSet<String>>,
    /// Whether it lacks what columns that are made by SQL are made of.
    pub no_expressions: bool,
}

/// Counters and measures, whose number is that of their declarations.
pub const STATUS: &str = "SELECT variable_name, variable_value FROM status";

/// What there is to know first, in sentences.
pub const NOTES: &str = "SELECT place, level, about, text FROM notes ORDER BY place";

/// The Onramps that it knows in front of its server, and how many backends it may have.
pub const PEERS: &str = "SELECT slot, own, connection_id, host, at_work, since_us, \
     (SELECT bound FROM limits WHERE option = 'max_backends' LIMIT 1) AS max_backends FROM peers ORDER BY slot";

/// Options that the header shows.
pub const OPTIONS: &str = "SELECT name, coalesce(value, '') AS value FROM options \
     WHERE name IN ('permits', 'permits_min', 'permits_max', 'max_connections', 'max_backends', 'thread_handling')";

/// The texts of some digests.
pub fn texts<'a>(digests: impl Iterator<Item = &'a str>) -> String {
    let list: Vec<String> = digests.map(quoted).collect();
    format!("SELECT digest, text FROM statements WHERE digest IN ({}) AND text IS NOT NULL", list.join(", "))
}

/// What makes a column; `None` where it cannot be made.
fn expression(column: &Column, has: &Has) -> Option<&'static str> {
    match column.expression {
        Some(_) if has.no_expressions => None,
        Some(expression) => Some(expression),
        None if has.columns.as_ref().is_some_and(|columns| !columns.contains(column.name)) => None,
        None => Some(column.name),
    }
}

fn selected(column: &Column, has: &Has) -> Option<String> {
    let expression = expression(column, has)?;
    Some(if expression == column.name {
        expression.to_owned()
    } else {
        format!("{expression} AS {}", column.name)
    })
}

/// As a literal in MySQL's way, in which the admin port reads statements: a backslash escapes, too.
fn quoted(text: &str) -> String {
    let mut literal = String::from("'");
    for character in text.chars().filter(|character| *character != '\0') {
        if matches!(character, '\'' | '\\') {
            literal.push('\\');
        }
        literal.push(character);
    }
    literal.push('\'');
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_has_an_end_to_its_rows() {
        for tab in Tab::ALL.into_iter().filter(|tab| tab.is_asked()) {
            let text = Question::usual(tab, 7).to_sql(&Has::default());
            assert!(text.ends_with(" LIMIT 7"), "{text}");
            assert!(text.starts_with("SELECT "), "{text}");
        }
        let text = Question::usual(Tab::Clients, 7).to_sql(&Has::default());
        assert!(text.contains("ORDER BY coalesce(running_us, queued_us) DESC"), "{text}");
        let order = Order { sort: None, descending: false };
        assert_eq!(Question { order, ..Question::usual(Tab::Clients, 7) }.to_sql(&Has::default()), text);
    }

    #[test]
    fn what_a_table_lacks_is_not_asked_for() {
        let columns = Some(BTreeSet::from(["id", "user"].map(String::from)));
        let order = Order { sort: Some(2), descending: true };
        let question = Question { order, filter: "x".to_owned(), ..Question::usual(Tab::Clients, 3) };
        let sql = |columns, no_expressions| question.to_sql(&Has { columns, no_expressions });
        let text = sql(columns.clone(), false);
        assert!(text.starts_with(
            "SELECT id, user, coalesce(running_us, queued_us) AS busy_us, NULL AS text FROM clients WHERE ("
        ));
        assert!(!text.contains("address") && text.ends_with("ORDER BY 1 DESC LIMIT 3"), "{text}");
        assert!(sql(columns, true).starts_with("SELECT id, user FROM clients"));
        assert!(
            sql(Some(BTreeSet::new()), true).starts_with("SELECT NULL FROM clients WHERE (0) ORDER BY 1")
        );
        assert_eq!(Question::usual(Tab::Locks, 3).describe(), "DESCRIBE clients");
    }

    #[test]
    fn a_filter_may_name_an_onramp() {
        let question = Question { filter: "B2".to_owned(), ..Question::usual(Tab::Queue, 1) };
        assert_eq!(question.of(Some("db2")).filter, "");
        assert_eq!(question.of(Some("db1")), question);
        assert_eq!(question.of(None), question);
    }

    #[test]
    fn texts_are_asked_for_by_literals() {
        assert!(texts(["ab", "c'd"].into_iter()).contains(r"digest IN ('ab', 'c\'d') AND"));
    }

    #[test]
    fn a_filter_is_a_literal_whatever_is_in_it() {
        let filter = String::from(r"O'Brien\' OR 1=1 -- ");
        let text = Question { filter, ..Question::usual(Tab::Locks, 1) }.to_sql(&Has::default());
        assert!(text.contains(r"'o\'brien\\\' or 1=1 -- '"), "{text}");
        assert!(text.contains("waits_for_thread IS NOT NULL) AND ("), "{text}");
        let text =
            Question { filter: "x".to_owned(), ..Question::usual(Tab::Queue, 1) }.to_sql(&Has::default());
        assert!(text.contains("FROM queues WHERE ("), "{text}");
    }
}
