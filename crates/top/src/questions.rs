//! What is asked of the admin port: a SELECT for each table, with an end to its rows.

use crate::tabs::{Column, Tab};

/// How a table is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Which one.
    pub tab: Tab,
    /// By which of its columns it is ordered.
    pub sort: usize,
    /// Whether the largest values come first.
    pub descending: bool,
    /// What a row has to hold, in any column, whatever the case of ASCII's letters; empty for all rows.
    pub filter: String,
    /// How many rows at most.
    pub rows: u32,
}

impl Question {
    /// The first rows of a tab, as it is ordered at first.
    pub fn usual(tab: Tab, rows: u32) -> Self {
        let (sort, descending) = tab.order();
        Self { tab, sort, descending, filter: String::new(), rows }
    }

    /// As SQL of the admin port.
    pub fn to_sql(&self) -> String {
        let columns = self.tab.columns();
        let list: Vec<String> = columns.iter().map(selected).collect();
        let source = self.tab.source();
        let mut text = format!("SELECT {} FROM {source}", list.join(", "));
        if !self.filter.is_empty() {
            let wanted = quoted(&self.filter.to_ascii_lowercase());
            let tests: Vec<String> = columns
                .iter()
                .map(|column| format!("instr(lower(coalesce({}, '')), {wanted}) > 0", expression(column)))
                .collect();
            let word = if source.contains(" WHERE ") { "AND" } else { "WHERE" };
            text.push_str(&format!(" {word} ({})", tests.join(" OR ")));
        }
        // Where a value is missing it counts as the smallest, as in SQLite.
        let order = columns.get(self.sort).map_or("1", expression);
        let direction = if self.descending { "DESC" } else { "ASC" };
        text.push_str(&format!(" ORDER BY {order} {direction} LIMIT {}", self.rows));
        text
    }
}

/// Counters and measures, whose number is that of their declarations.
pub const STATUS: &str = "SELECT variable_name, variable_value FROM status";

/// What there is to know first, in sentences.
pub const NOTES: &str = "SELECT place, level, about, text FROM notes ORDER BY place";

/// Options that the header shows.
pub const OPTIONS: &str = "SELECT name, coalesce(value, '') AS value FROM options \
     WHERE name IN ('permits', 'permits_min', 'permits_max', 'max_connections', 'max_backends', 'thread_handling')";

/// The texts of some digests.
pub fn texts<'a>(digests: impl Iterator<Item = &'a str>) -> String {
    let list: Vec<String> = digests.map(quoted).collect();
    format!("SELECT digest, text FROM statements WHERE digest IN ({}) AND text IS NOT NULL", list.join(", "))
}

fn expression(column: &Column) -> &'static str {
    column.expression.unwrap_or(column.name)
}

fn selected(column: &Column) -> String {
    match column.expression {
        Some(expression) => format!("{expression} AS {}", column.name),
        None => String::from(column.name),
    }
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
        for tab in Tab::ALL {
            let text = Question::usual(tab, 7).to_sql();
            assert!(text.ends_with(" LIMIT 7"), "{text}");
            assert!(text.starts_with("SELECT "), "{text}");
        }
        let text = Question::usual(Tab::Clients, 7).to_sql();
        assert!(text.contains("ORDER BY coalesce(running_us, queued_us) DESC"), "{text}");
    }

    #[test]
    fn texts_are_asked_for_by_literals() {
        assert!(texts(["ab", "c'd"].into_iter()).contains(r"digest IN ('ab', 'c\'d') AND"));
    }

    #[test]
    fn a_filter_is_a_literal_whatever_is_in_it() {
        let filter = String::from(r"O'Brien\' OR 1=1 -- ");
        let text = Question { filter, ..Question::usual(Tab::Locks, 1) }.to_sql();
        assert!(text.contains(r"'o\'brien\\\' or 1=1 -- '"), "{text}");
        assert!(text.contains("waits_for_thread IS NOT NULL) AND ("), "{text}");
        let text = Question { filter: "x".to_owned(), ..Question::usual(Tab::Queue, 1) }.to_sql();
        assert!(text.contains("FROM queues WHERE ("), "{text}");
    }
}
