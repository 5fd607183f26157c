//! Everything once, for scripts and for a look without a terminal.

use std::fmt::Write as _;

use crate::format::{clean, utc};
use crate::rows::{Order, cell_of, is_right, lines};
use crate::snapshot::{Snapshot, Table, Value, escaped};
use crate::tabs::Tab;

/// As JSON, for people to read as well.
pub fn json(look: &Snapshot) -> String {
    let json = look.to_json();
    // With names of text as keys it always can be written.
    let text = serde_json::to_string_pretty(&json).unwrap_or_else(|_| json.to_string());
    escaped(&text) + "\n"
}

/// As text: the measures, then each tab's table with a heading.
pub fn text(look: &Snapshot) -> String {
    let mut out = format!("{} UTC\n", utc(look.at));
    for (name, value) in look.status.iter().chain(&look.options) {
        let _ = writeln!(out, "{:<45} {}", clean(name), clean(value));
    }
    let notes = look.notes();
    if !notes.is_empty() {
        let _ = writeln!(out, "\n# notes");
    }
    for note in notes {
        let _ = writeln!(out, "{}", clean(note.text));
    }
    for tab in Tab::ALL {
        let _ = writeln!(out, "\n# {}", tab.name());
        if let Some(trouble) = look.troubles.get(tab.name()) {
            let _ = writeln!(out, "{}", clean(trouble));
        }
        if let Some(table) = look.tables.get(tab.name()) {
            out.push_str(&table_text(tab, table));
        }
    }
    out
}

fn table_text(tab: Tab, table: &Table) -> String {
    let columns = tab.columns();
    let (sort, descending) = tab.order();
    let mut grid: Vec<Vec<String>> = vec![columns.iter().map(|column| column.title.to_owned()).collect()];
    for line in lines(tab, table, &Order { sort, descending }, "") {
        let Some(row) = line.row.and_then(|row| table.rows.get(row)) else {
            grid.push(vec![format!("{}{}", line.branch, clean(&line.note))]);
            continue;
        };
        let value = |name: &str| table.column(name).and_then(|place| row.get(place)).unwrap_or(&Value::Null);
        let mut cells: Vec<String> =
            columns.iter().map(|column| cell_of(&line, column, value(column.name))).collect();
        cells[0].insert_str(0, &line.branch);
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
        for ((cell, column), width) in cells.iter().zip(columns).zip(&widths) {
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
