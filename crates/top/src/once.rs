//! Everything once, for scripts and for a look without a terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::format::{clean, utc};
use crate::onramps;
use crate::rows::{Order, cell_of, is_right, lines};
use crate::snapshot::{ONRAMP, Snapshot, Table, Value, escaped};
use crate::tabs::{Column, Tab, WHOSE};

/// As JSON, for people to read as well.
pub fn json(look: &Snapshot) -> String {
    let json = look.to_json();
    // With names of text as keys it always can be written.
    let text = serde_json::to_string_pretty(&json).unwrap_or_else(|_| json.to_string());
    escaped(&text) + "\n"
}

/// As text: the measures, of several Onramps beside each other, then each tab's table with a heading.
pub fn text(look: &Snapshot) -> String {
    let mut out = format!("{} UTC\n", utc(look.at));
    measures(look, &mut out);
    let notes = look.notes();
    if !notes.is_empty() {
        let _ = writeln!(out, "\n# notes");
    }
    for note in notes {
        let whose = if note.onramp.is_empty() { String::new() } else { format!("{}: ", note.onramp) };
        let _ = writeln!(out, "{}", clean(&(whose + note.text)));
    }
    let onramps = onramps::table(look, &BTreeMap::new());
    let several = onramps::are_several(look);
    for tab in Tab::ALL.into_iter().filter(|tab| several || tab.is_asked()) {
        let _ = writeln!(out, "\n# {}", tab.name());
        for trouble in look.troubles_of(tab.name()) {
            let _ = writeln!(out, "{}", clean(&trouble));
        }
        let table = if tab.is_asked() { look.tables.get(tab.name()) } else { Some(&onramps) };
        if let Some(table) = table {
            out.push_str(&table_text(tab, table));
        }
    }
    out
}

fn measures(look: &Snapshot, out: &mut String) {
    if !look.is_of_several() {
        for (name, value) in look.status.iter().chain(&look.options) {
            let _ = writeln!(out, "{:<45} {}", clean(name), clean(value));
        }
        return;
    }
    for part in &look.parts {
        let failure = part.look.as_ref().err().map_or_else(String::new, |failure| format!("  {failure}"));
        let _ = writeln!(out, "{}", clean(&format!("{}  {}{failure}", part.name, part.target)));
    }
    let each = look.each();
    let names: BTreeSet<&String> = each.iter().flat_map(|(_, look)| look.status.keys()).collect();
    let options: BTreeSet<&String> = each.iter().flat_map(|(_, look)| look.options.keys()).collect();
    let width = |name: &str| name.chars().count().max(12);
    let heading: Vec<String> = each.iter().map(|(name, _)| format!("{name:>0$}", width(name))).collect();
    let _ = writeln!(out, "\n{:<45} {}", "", clean(&heading.join(" ")));
    for name in names.into_iter().chain(options) {
        let value = |look: &Snapshot| look.status.get(name).or_else(|| look.options.get(name)).cloned();
        let cell = |(onramp, look): &(&str, &Snapshot)| {
            format!("{:>1$}", value(look).unwrap_or_default(), width(onramp))
        };
        let cells: Vec<String> = each.iter().map(cell).collect();
        let _ = writeln!(out, "{}", clean(format!("{name:<45} {}", cells.join(" ")).trim_end()));
    }
}

fn table_text(tab: Tab, table: &Table) -> String {
    let whose = table.column(ONRAMP).map(|_| &WHOSE);
    let columns: Vec<&Column> = whose.into_iter().chain(tab.columns()).collect();
    let first = usize::from(whose.is_some());
    let mut grid: Vec<Vec<String>> = vec![columns.iter().map(|column| column.title.to_owned()).collect()];
    for line in lines(tab, table, &Order::usual(tab), "") {
        let Some(row) = line.row.and_then(|row| table.rows.get(row)) else {
            grid.push(vec![format!("{}{}", line.branch, clean(&line.note))]);
            continue;
        };
        let value = |name: &str| table.column(name).and_then(|place| row.get(place)).unwrap_or(&Value::Null);
        let mut cells: Vec<String> =
            columns.iter().map(|column| cell_of(&line, column, value(column.name))).collect();
        cells[first].insert_str(0, &line.branch);
        grid.push(cells);
    }
    let width = |place: usize| {
        let whole = grid.iter().filter(|cells| cells.len() == columns.len());
        whole.map(|cells| cells[place].chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut out = String::new();
    for cells in &grid {
        let mut line = String::new();
        for ((cell, column), width) in cells.iter().zip(&columns).zip(&widths) {
            let _ = match is_right(column) {
                true => write!(line, "{cell:>width$} "),
                false => write!(line, "{cell:<width$} "),
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
