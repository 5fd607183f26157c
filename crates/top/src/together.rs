//! Looks at several Onramps as one: their rows in one table, ordered and cut as one, each with whose it is.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::onramps::pairs;
use crate::questions::Question;
use crate::rows::{compare, sorted_by};
use crate::snapshot::{HOLDER, NOTES, ONRAMP, PEERS, Part, Snapshot, Table, Value};
use crate::tabs::Tab;

/// How many sentences, and how many others that it knows, are kept of one Onramp: it has less than twenty of each, unless somebody else stands in its place.
const MOST_ROWS: usize = 64;

/// What is asked with each look, and what of it.
const ALWAYS: [(&str, &[&str]); 2] = [
    (NOTES, &["place", "level", "about", "text"]),
    (PEERS, &["slot", "own", "connection_id", "host", "at_work", "since_us", "max_backends"]),
];

/// One of several, as it was last looked at.
pub struct Answered<'l> {
    /// What tells it apart from the others.
    pub name: &'l str,
    /// Its admin port, for people.
    pub target: String,
    /// The look, or why there is none.
    pub look: Result<&'l Snapshot, Cow<'l, str>>,
}

/// The whole, with those tables that the questions were about, as they wanted them. `now` is its time where nobody has answered.
pub fn together(answered: &[Answered<'_>], questions: &[Question], now: u64) -> Snapshot {
    let looks: Vec<(&str, &Snapshot)> =
        answered.iter().filter_map(|each| Some((each.name, *each.look.as_ref().ok()?))).collect();
    let of_all = |name: &str| -> Vec<(&str, &Table)> {
        looks.iter().filter_map(|(onramp, look)| Some((*onramp, look.tables.get(name)?))).collect()
    };
    let mut tables = BTreeMap::new();
    for question in questions {
        let columns: Vec<&str> = question.tab.columns().iter().map(|column| column.name).collect();
        if let Some(mut joined) = Joined::of(&of_all(question.tab.name()), &columns, usize::MAX) {
            joined.sort(question);
            let rows = usize::try_from(question.rows).unwrap_or(usize::MAX);
            tables.insert(question.tab.name().to_owned(), joined.table(rows));
        }
    }
    for (name, columns) in ALWAYS {
        if let Some(joined) = Joined::of(&of_all(name), columns, MOST_ROWS) {
            tables.insert(name.to_owned(), joined.table(usize::MAX));
        }
    }
    if let Some(locks) = tables.get(Tab::Locks.name()).map(|locks| across(locks, &pairs(tables.get(PEERS)))) {
        tables.insert(Tab::Locks.name().to_owned(), locks);
    }
    Snapshot {
        at: looks.iter().map(|(_, look)| look.at).max().unwrap_or(now),
        took: looks.iter().map(|(_, look)| look.took).max().unwrap_or(0),
        tables,
        parts: answered.iter().map(part).collect(),
        ..Snapshot::default()
    }
}

/// The table of locks, with holders that are clients of another Onramp in front of the same server: one says which thread of the server it
/// is, and the other whose that thread is. Of one in front of another server the same number would say nothing.
fn across(locks: &Table, pairs: &BTreeSet<(String, String)>) -> Table {
    let mut all = locks.clone();
    all.columns.push(String::from(HOLDER));
    all.rows.iter_mut().for_each(|row| row.push(Value::Null));
    let place = |name: &str| locks.column(name);
    let (Some(onramp), Some(id), Some(thread), Some(client), Some(backend)) =
        (place(ONRAMP), place("id"), place("waits_for_thread"), place("waits_for_client"), place("backend"))
    else {
        return all;
    };
    let mut by_thread: BTreeMap<i64, Vec<(String, Value)>> = BTreeMap::new();
    for row in &locks.rows {
        if let Some(thread) = row[backend].integer() {
            by_thread.entry(thread).or_default().push((row[onramp].text(), row[id].clone()));
        }
    }
    for row in &mut all.rows {
        let (None, Some(thread)) = (row[client].integer(), row[thread].integer()) else { continue };
        let own = row[onramp].text();
        let holders = by_thread.get(&thread).map_or(&[][..], Vec::as_slice);
        let mut found = holders.iter().filter(|(other, _)| pairs.contains(&(own.clone(), other.clone())));
        if let (Some((other, holder)), None) = (found.next(), found.next()) {
            row[client] = holder.clone();
            if let Some(last) = row.last_mut() {
                *last = Value::Text(other.clone());
            }
        }
    }
    all
}

fn part(answered: &Answered<'_>) -> Part {
    let own = |look: &Snapshot| Snapshot {
        at: look.at,
        took: look.took,
        status: look.status.clone(),
        options: look.options.clone(),
        troubles: look.troubles.clone(),
        ..Snapshot::default()
    };
    Part {
        name: answered.name.to_owned(),
        target: answered.target.clone(),
        look: answered.look.clone().map(own).map_err(Cow::into_owned),
    }
}

/// Rows of several tables, none of them copied yet.
struct Joined<'t> {
    columns: Vec<&'t str>,
    rows: Vec<Row<'t>>,
}

/// A row, where its table has each of the columns, and whose it is.
struct Row<'t> {
    onramp: &'t str,
    values: &'t [Value],
    places: std::rc::Rc<Vec<Option<usize>>>,
}

impl<'t> Row<'t> {
    fn value(&self, column: usize) -> &'t Value {
        self.places[column].and_then(|place| self.values.get(place)).unwrap_or(&Value::Null)
    }
}

impl<'t> Joined<'t> {
    /// Of these columns those that one of the tables has at least, and at most so many rows of each. `None` where there is no table.
    fn of(tables: &[(&'t str, &'t Table)], columns: &[&'t str], most: usize) -> Option<Self> {
        if tables.is_empty() {
            return None;
        }
        let is_there = |name: &&str| tables.iter().any(|(_, table)| table.column(name).is_some());
        let columns: Vec<&str> = columns.iter().copied().filter(is_there).collect();
        let mut rows = Vec::new();
        for (onramp, table) in tables {
            let places: Vec<_> = columns.iter().map(|name| table.column(name)).collect();
            let places = std::rc::Rc::new(places);
            let row = |values: &'t Vec<Value>| Row { onramp, values, places: places.clone() };
            rows.extend(table.rows.iter().take(most).map(row));
        }
        Some(Self { columns, rows })
    }

    /// As the question wants them. Equal rows stay in the order of their Onramps.
    fn sort(&mut self, question: &Question) {
        let Some(name) = sorted_by(question.tab, &question.order, true) else { return };
        let place = self.columns.iter().position(|column| *column == name);
        let by = |a: &Row<'_>, b: &Row<'_>| match place {
            Some(place) => compare(a.value(place), b.value(place)),
            None if name == ONRAMP => a.onramp.cmp(b.onramp),
            None => Ordering::Equal,
        };
        let descending = question.order.descending;
        self.rows.sort_by(|a, b| if descending { by(a, b).reverse() } else { by(a, b) });
    }

    /// The first rows, with whose they are in front.
    fn table(&self, most: usize) -> Table {
        let columns = std::iter::once(ONRAMP).chain(self.columns.iter().copied()).map(String::from).collect();
        let row = |row: &Row<'_>| {
            let values = (0..self.columns.len()).map(|column| row.value(column).clone());
            std::iter::once(Value::Text(row.onramp.to_owned())).chain(values).collect()
        };
        Table { columns, rows: self.rows.iter().take(most).map(row).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Order;

    fn look(at: u64, tab: Tab, columns: &[&str], rows: &[&[i64]]) -> Snapshot {
        let row = |row: &&[i64]| row.iter().map(|value| Value::Integer(*value)).collect();
        let table = Table {
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            rows: rows.iter().map(row).collect(),
        };
        let tables = BTreeMap::from([(tab.name().to_owned(), table)]);
        let status = BTreeMap::from([("Queries".to_owned(), at.to_string())]);
        Snapshot { at, took: at, tables, status, ..Snapshot::default() }
    }

    fn answered<'l>(name: &'l str, look: &'l Snapshot) -> Answered<'l> {
        Answered { name, target: "t".to_owned(), look: Ok(look) }
    }

    fn rows(look: &Snapshot, tab: Tab) -> Vec<Vec<String>> {
        look.tables[tab.name()].rows.iter().map(|row| row.iter().map(Value::text).collect()).collect()
    }

    #[test]
    fn rows_of_all_are_ordered_and_cut_as_one() {
        let a = look(5, Tab::Clients, &["id", "busy_us"], &[&[1, 90], &[2, 20]]);
        let b = look(7, Tab::Clients, &["id", "busy_us"], &[&[1, 50], &[2, 10]]);
        let both = [answered("a", &a), answered("b", &b)];
        let whole = together(&both, &[Question::usual(Tab::Clients, 3)], 9);
        assert_eq!(rows(&whole, Tab::Clients), [["a", "1", "90"], ["b", "1", "50"], ["a", "2", "20"]]);
        assert_eq!((whole.at, whole.took, whole.sum("Queries")), (7, 7, Some(12)));
        let order = Order { sort: None, descending: true };
        let by_name = Question { order, ..Question::usual(Tab::Clients, 9) };
        let whole = together(&both, &[by_name], 9);
        let names: Vec<_> = rows(&whole, Tab::Clients).into_iter().map(|row| row[0].clone()).collect();
        assert_eq!(names, ["b", "b", "a", "a"]);
    }

    #[test]
    fn what_one_of_them_lacks_loses_nothing_else() {
        let old = look(1, Tab::Clients, &["busy_us", "id"], &[&[30, 3]]);
        let new = look(1, Tab::Clients, &["id", "busy_us", "server"], &[&[4, 40, 8]]);
        let none = Snapshot::default();
        let all = [answered("new", &new), answered("none", &none), answered("old", &old)];
        let whole = together(&all, &[Question::usual(Tab::Clients, 9), Question::usual(Tab::Pins, 9)], 9);
        assert_eq!(rows(&whole, Tab::Clients), [["new", "4", "40", "8"], ["old", "3", "30", ""]]);
        assert!(!whole.tables.contains_key("pins"));
    }

    #[test]
    fn a_column_that_nobody_asked_for_is_not_taken() {
        // Such as one that says that the row is another Onramp's.
        let hostile = look(1, Tab::Clients, &["onramp", "id", "x"], &[&[7, 1, 2]]);
        let whole = together(&[answered("mine", &hostile)], &[Question::usual(Tab::Clients, 9)], 9);
        assert_eq!(whole.tables["clients"].columns, ["onramp", "id"]);
        assert_eq!(rows(&whole, Tab::Clients), [["mine", "1"]]);
    }

    #[test]
    fn who_does_not_answer_has_its_reason_and_no_rows() {
        let a = look(5, Tab::Clients, &["id"], &[&[1]]);
        let gone = Answered { name: "b", target: "b:1".to_owned(), look: Err("connection refused".into()) };
        let whole = together(&[answered("a", &a), gone], &[Question::usual(Tab::Clients, 9)], 9);
        assert_eq!(whole.parts[1].look, Err("connection refused".to_owned()));
        assert_eq!((rows(&whole, Tab::Clients).len(), whole.each().len()), (1, 1));
        let json = whole.to_json();
        assert_eq!(json["admin_ports"][1]["failure"], "connection refused");
        assert_eq!(json["admin_ports"][0]["status"]["Queries"], 5);
        assert_eq!(json["tables"]["clients"][0]["onramp"], "a");
        let read = Snapshot::from_json(&json).unwrap();
        assert_eq!((read.to_json(), &read.parts), (json, &whole.parts));
    }

    #[test]
    fn who_waits_for_another_onramps_client_says_so_where_they_share_a_server() {
        let columns = ["id", "waits_for_client", "waits_for_thread", "backend"];
        // Nobody has id 0, and thread 0 is none.
        let mut waits = look(1, Tab::Locks, &columns, &[&[1, 0, 40, 30], &[2, 0, 77, 31]]);
        for row in &mut waits.tables.get_mut("locks").unwrap().rows {
            row[1] = Value::Null;
        }
        let holds = look(1, Tab::Locks, &columns, &[&[1, 9, 0, 40]]);
        let know = |look: &Snapshot, own: i64, other: i64| {
            let peer =
                |slot: i64, is_own: bool| [slot, i64::from(is_own), slot + 100].map(Value::Integer).to_vec();
            let columns = ["slot", "own", "connection_id"].map(String::from).to_vec();
            let table = Table { columns, rows: vec![peer(own, true), peer(other, false)] };
            let mut look = look.clone();
            look.tables.insert(PEERS.to_owned(), table);
            look
        };
        let seen = |a: &Snapshot, b: &Snapshot| {
            let whole = together(&[answered("a", a), answered("b", b)], &[Question::usual(Tab::Locks, 9)], 9);
            let table = &whole.tables["locks"];
            let places = ["onramp", "id", "waits_for_client", HOLDER].map(|name| table.column(name).unwrap());
            let text = |row: &Vec<Value>| places.map(|place| row[place].text()).join(" ");
            table.rows.iter().map(text).collect::<Vec<_>>()
        };
        let apart = ["a 1  ", "a 2  ", "b 1 9 "];
        assert_eq!(seen(&know(&waits, 1, 2), &know(&holds, 2, 1)), ["a 1 1 b", "a 2  ", "b 1 9 "]);
        // Each has to know the other.
        assert_eq!(seen(&know(&waits, 1, 2), &know(&holds, 2, 3)), apart);
        assert_eq!(seen(&know(&waits, 1, 3), &know(&holds, 2, 1)), apart);
        assert_eq!(seen(&waits, &holds), apart);
    }

    #[test]
    fn events_of_several_are_ordered_by_time() {
        let event = |number: i64, time: &str| {
            let mut look = look(1, Tab::Events, &["number", "time"], &[&[number, 0]]);
            look.tables.get_mut("events").unwrap().rows[0][1] = Value::Text(time.to_owned());
            look
        };
        let (a, b) = (event(900, "2026-11-28 10:00:00"), event(3, "2026-11-28 10:00:01"));
        let whole = together(&[answered("a", &a), answered("b", &b)], &[Question::usual(Tab::Events, 9)], 9);
        assert_eq!(
            rows(&whole, Tab::Events).iter().map(|row| row[0].as_str()).collect::<Vec<_>>(),
            ["b", "a"]
        );
    }
}
