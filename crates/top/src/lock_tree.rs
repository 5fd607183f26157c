//! Who waits for whom, as a tree: below each holder those who wait for it.

use std::collections::{BTreeMap, BTreeSet};

use crate::rows::Line;
use crate::snapshot::Table;

/// Beyond this depth branches are drawn no further to the right: a screen ends somewhere.
const DEEPEST: usize = 8;

/// The lines of the rows `shown`, in their order among each other, each below the one that it waits for. A holder that is no client
/// of this Onramp, or is not among the rows, gets a line without a row. `most_blocking_first` puts those first below whom most stand.
pub fn lines(table: &Table, shown: &[usize], most_blocking_first: bool) -> Vec<Line> {
    let number = |row: usize, column: &str| table.rows[row][table.column(column)?].integer();
    let by_id: BTreeMap<i64, usize> =
        shown.iter().filter_map(|&row| Some((number(row, "id")?, row))).collect();
    let mut waiting: BTreeMap<Holder, Vec<usize>> = BTreeMap::new();
    let mut roots = Vec::new();
    for &row in shown {
        match Holder::of(number(row, "waits_for_client"), number(row, "waits_for_thread")) {
            None => roots.push(Holder::client(number(row, "id"))),
            Some(holder) => {
                if !waiting.contains_key(&holder) && !holder.is_in(&by_id) {
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
        tree.add(Holder::client(number(row, "id")), 0);
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

/// Who is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Client(i64),
    /// By its thread id on the server.
    Thread(i64),
}

impl Holder {
    fn of(client: Option<i64>, thread: Option<i64>) -> Option<Self> {
        client.map(Self::Client).or(thread.map(Self::Thread))
    }

    /// Rows have an id; one that has none stands for nobody.
    fn client(id: Option<i64>) -> Self {
        Self::Client(id.unwrap_or(0))
    }

    fn is_in(self, by_id: &BTreeMap<i64, usize>) -> bool {
        matches!(self, Self::Client(id) if by_id.contains_key(&id))
    }
}

struct Tree<'a> {
    by_id: &'a BTreeMap<i64, usize>,
    waiting: &'a BTreeMap<Holder, Vec<usize>>,
    table: &'a Table,
    seen: BTreeSet<Holder>,
    lines: Vec<Line>,
    /// How deep each line stands.
    depths: Vec<usize>,
}

impl Tree<'_> {
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
    fn add(&mut self, root: Holder, depth: usize) {
        let mut stack = vec![(root, depth)];
        while let Some((holder, depth)) = stack.pop() {
            if !self.seen.insert(holder) {
                continue;
            }
            let row = match holder {
                Holder::Client(id) => self.by_id.get(&id).copied(),
                Holder::Thread(_) => None,
            };
            let note = match (row, holder) {
                (Some(_), _) => String::new(),
                (None, Holder::Client(id)) => format!("client {id}, of which no more is known"),
                (None, Holder::Thread(id)) => format!("thread {id} of the server, no client of this Onramp"),
            };
            self.lines.push(Line { row, branch: branch(depth), note, behind: 0 });
            self.depths.push(depth);
            let below = self.waiting.get(&holder).map_or(&[][..], Vec::as_slice);
            let id = |row: &usize| {
                self.table.column("id").and_then(|place| self.table.rows[*row][place].integer())
            };
            stack.extend(below.iter().rev().map(|row| (Holder::client(id(row)), depth + 1)));
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
    use crate::snapshot::Value;

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
