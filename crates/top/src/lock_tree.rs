//! Who waits for whom, as a tree: below each holder those who wait for it.

use std::collections::{BTreeMap, BTreeSet};

use crate::rows::Line;
use crate::snapshot::{HOLDER, ONRAMP, Table, Value};

/// Beyond this depth branches are drawn no further to the right: a screen ends somewhere.
const DEEPEST: usize = 8;

/// The lines of the rows `shown`, in their order among each other, each below the one that it waits for, which may be another Onramp's
/// client. A holder that is no client of this Onramp, or is not among the rows, gets a line without a row. `most_blocking_first` puts those first below whom most stand.
pub fn lines(table: &Table, shown: &[usize], most_blocking_first: bool) -> Vec<Line> {
    let client = |row: usize| Holder::client(whose(table, row, ONRAMP), number(table, row, "id"));
    let by_id: BTreeMap<Holder<'_>, usize> = shown.iter().map(|&row| (client(row), row)).collect();
    let mut waiting: BTreeMap<Holder<'_>, Vec<usize>> = BTreeMap::new();
    let mut roots = Vec::new();
    for &row in shown {
        match Holder::that_blocks(table, row) {
            None => roots.push(client(row)),
            Some(holder) => {
                if !waiting.contains_key(&holder) && !by_id.contains_key(&holder) {
                    roots.push(holder);
                }
                waiting.entry(holder).or_default().push(row);
            }
        }
    }
    let mut tree = Tree {
        by_id: &by_id,
        waiting: &waiting,
        table,
        seen: BTreeSet::new(),
        lines: Vec::new(),
        depths: Vec::new(),
    };
    for root in roots {
        tree.add(root, 0);
    }
    // Who waits in a circle, which the server has not broken yet, is below no root.
    for &row in shown {
        tree.add(client(row), 0);
    }
    tree.count();
    let Tree { lines, depths, .. } = tree;
    if most_blocking_first { by_number_behind(lines, &depths) } else { lines }
}

/// Each root with all below it, those first that have most below them.
fn by_number_behind(lines: Vec<Line>, depths: &[usize]) -> Vec<Line> {
    let mut trees: Vec<Vec<Line>> = Vec::new();
    for (line, depth) in lines.into_iter().zip(depths) {
        match trees.last_mut().filter(|_| *depth > 0) {
            Some(tree) => tree.push(line),
            None => trees.push(vec![line]),
        }
    }
    trees.sort_by_key(|tree| std::cmp::Reverse(tree.len()));
    trees.into_iter().flatten().collect()
}

fn number(table: &Table, row: usize, column: &str) -> Option<i64> {
    table.rows[row][table.column(column)?].integer()
}

/// The Onramp that a column names; empty where one is looked at.
fn whose<'t>(table: &'t Table, row: usize, column: &str) -> &'t str {
    match table.column(column).map(|place| &table.rows[row][place]) {
        Some(Value::Text(name)) => name,
        _ => "",
    }
}

/// Who is waited for, and whose client that is, or who sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder<'t> {
    Client(&'t str, i64),
    /// By its thread id on the server.
    Thread(&'t str, i64),
}

impl<'t> Holder<'t> {
    /// The one that a row waits for.
    fn that_blocks(table: &'t Table, row: usize) -> Option<Self> {
        let own = whose(table, row, ONRAMP);
        if let Some(client) = number(table, row, "waits_for_client") {
            let other = whose(table, row, HOLDER);
            return Some(Self::Client(if other.is_empty() { own } else { other }, client));
        }
        number(table, row, "waits_for_thread").map(|thread| Self::Thread(own, thread))
    }

    /// Rows have an id; one that has none stands for nobody.
    fn client(onramp: &'t str, id: Option<i64>) -> Self {
        Self::Client(onramp, id.unwrap_or(0))
    }

    /// What is known of one that has no row.
    fn note(self) -> String {
        match self {
            Self::Client("", id) => format!("client {id}, of which no more is known"),
            Self::Client(onramp, id) => format!("client {id} of {onramp}, of which no more is known"),
            Self::Thread("", id) => format!("thread {id} of the server, no client of this Onramp"),
            Self::Thread(onramp, id) => format!("thread {id} of the server, no client of {onramp}"),
        }
    }
}

struct Tree<'a> {
    by_id: &'a BTreeMap<Holder<'a>, usize>,
    waiting: &'a BTreeMap<Holder<'a>, Vec<usize>>,
    table: &'a Table,
    seen: BTreeSet<Holder<'a>>,
    lines: Vec<Line>,
    /// How deep each line stands.
    depths: Vec<usize>,
}

impl<'a> Tree<'a> {
    /// Notes with each line how many stand below it.
    fn count(&mut self) {
        let mut above: Vec<usize> = Vec::new();
        for (place, depth) in self.depths.iter().chain([&0]).enumerate() {
            while let Some(&ended) = above.last().filter(|line| self.depths[**line] >= *depth) {
                self.lines[ended].behind = place - ended - 1;
                above.pop();
            }
            above.push(place);
        }
    }

    /// A holder and all below it, each once. Not by recursion: ten thousand may wait one behind the other.
    fn add(&mut self, root: Holder<'a>, depth: usize) {
        let mut stack = vec![(root, depth)];
        while let Some((holder, depth)) = stack.pop() {
            if !self.seen.insert(holder) {
                continue;
            }
            let row = self.by_id.get(&holder).copied();
            let note = if row.is_some() { String::new() } else { holder.note() };
            self.lines.push(Line { row, branch: branch(depth), note, behind: 0 });
            self.depths.push(depth);
            let below = self.waiting.get(&holder).map_or(&[][..], Vec::as_slice);
            let client =
                |row: &usize| Holder::client(whose(self.table, *row, ONRAMP), number(self.table, *row, "id"));
            stack.extend(below.iter().rev().map(|row| (client(row), depth + 1)));
        }
    }
}

fn branch(depth: usize) -> String {
    match depth {
        0 => String::new(),
        depth => format!("{}`- ", "   ".repeat(depth.min(DEEPEST) - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of id, the client and the thread that is waited for; 0 is nobody.
    fn drawn(rows: &[(i64, i64, i64)]) -> Vec<String> {
        let number = |number: i64| if number == 0 { Value::Null } else { Value::Integer(number) };
        let table = Table {
            columns: ["id", "waits_for_client", "waits_for_thread"].map(String::from).to_vec(),
            rows: rows.iter().map(|row| vec![number(row.0), number(row.1), number(row.2)]).collect(),
        };
        let shown: Vec<usize> = (0..rows.len()).collect();
        let text = |line: &Line| {
            let id = line.row.map_or_else(|| line.note.clone(), |row| rows[row].0.to_string());
            format!("{}{id}", line.branch)
        };
        lines(&table, &shown, true).iter().map(text).collect()
    }

    #[test]
    fn waiters_stand_below_their_holders() {
        assert_eq!(
            drawn(&[(1, 2, 9), (2, 0, 0), (3, 1, 8), (4, 2, 9), (5, 0, 0)]),
            ["2", "`- 1", "   `- 3", "`- 4", "5"]
        );
    }

    #[test]
    fn strangers_have_a_line_of_their_own() {
        assert_eq!(
            drawn(&[(1, 0, 77), (2, 0, 77), (3, 42, 0)]),
            [
                "thread 77 of the server, no client of this Onramp",
                "`- 1",
                "`- 2",
                "client 42, of which no more is known",
                "`- 3"
            ]
        );
    }

    #[test]
    fn holders_may_be_another_onramps_clients() {
        let text = |text: &str| if text.is_empty() { Value::Null } else { Value::Text(text.to_owned()) };
        let row = |(onramp, id, client, holder): &(&str, i64, i64, &str)| {
            let client = if *client == 0 { Value::Null } else { Value::Integer(*client) };
            vec![text(onramp), Value::Integer(*id), client, text(holder)]
        };
        // Both have a client 1.
        let rows = [("a", 1, 2, "b"), ("b", 1, 2, ""), ("b", 2, 0, ""), ("a", 3, 1, ""), ("a", 4, 9, "b")];
        let table = Table {
            columns: ["onramp", "id", "waits_for_client", "waits_for_onramp"].map(String::from).to_vec(),
            rows: rows.iter().map(row).collect(),
        };
        let drawn: Vec<String> = lines(&table, &[0, 1, 2, 3, 4], true)
            .iter()
            .map(|line| match line.row {
                Some(row) => format!("{}{} {}", line.branch, rows[row].0, rows[row].1),
                None => line.note.clone(),
            })
            .collect();
        assert_eq!(
            drawn,
            ["b 2", "`- a 1", "   `- a 3", "`- b 1", "client 9 of b, of which no more is known", "`- a 4"]
        );
    }

    #[test]
    fn circles_and_long_chains_come_to_an_end() {
        assert_eq!(drawn(&[(1, 2, 0), (2, 1, 0), (3, 3, 0)]), ["1", "`- 2", "3"]);
        let chain: Vec<_> = (1..=10_000).map(|id| (id, if id == 1 { 0 } else { id - 1 }, 0)).collect();
        assert_eq!(drawn(&chain).len(), 10_000);
    }

    #[test]
    fn a_table_without_these_columns_is_no_tree() {
        let table = Table { columns: vec!["user".to_owned()], rows: vec![vec![Value::Null]] };
        assert_eq!(lines(&table, &[0], true).len(), 1);
    }
}
