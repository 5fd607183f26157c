//! The table of a tab.

use super::pen::Pen;
use crate::format::clean;
use crate::rows::{BLOCKS, Line, cell_of, is_right};
use crate::snapshot::{Table, Value};
use crate::tabs::{Column, WHOSE};
use crate::view::View;

/// A column on the screen.
struct Placed {
    /// Its place among those of the tab; `None` for the one that says whose a row is.
    number: Option<usize>,
    column: &'static Column,
    x: u16,
    width: u16,
}

/// Draws the headings and as many rows as go between two lines.
pub fn draw(pen: &mut Pen<'_>, view: &View, top: u16, end: u16) {
    if top >= end {
        return;
    }
    let placed = placed(view, pen.width());
    headings(pen, view, &placed, top);
    let Some(table) = view.table() else {
        let troubles = view.look.as_ref().map_or_else(Vec::new, |look| look.troubles_of(view.tab.name()));
        let text = if troubles.is_empty() { String::from("asking ...") } else { clean(&troubles.join("  ")) };
        if top + 1 < end {
            pen.text(0, top + 1, pen.width(), &text, pen.plain());
        }
        return;
    };
    let lines = view.lines();
    let room = usize::from(end - top - 1);
    if lines.is_empty() && room > 0 {
        let text = if view.filter.is_empty() { "nothing" } else { "nothing that the filter lets through" };
        pen.text(0, top + 1, pen.width(), text, pen.plain());
    }
    let selected = view.cursor().line.min(lines.len().saturating_sub(1));
    let first = (selected + 1).saturating_sub(room);
    for (y, (number, line)) in (top + 1..end).zip(lines.iter().enumerate().skip(first)) {
        row(pen, &placed, table, line, y);
        if number == selected {
            pen.fill(y, pen.bar());
        }
    }
}

/// Of a last column that is a text so much is kept free, where the terminal has [`WIDE`] columns: what a statement is says more than
/// what the columns before it do.
const TEXT: u16 = 24;
/// See [`TEXT`].
const WIDE: u16 = 60;

/// Whose a row is, where there are several, and the first column always, those behind it from the shift on, as long as they have room;
/// the last one takes what is left.
fn placed(view: &View, width: u16) -> Vec<Placed> {
    let (columns, shift) = (view.tab.columns(), view.cursor().shift);
    let last = columns.len() - 1;
    let reserved = if columns[last].width >= WIDE && width >= WIDE { TEXT + 1 } else { 0 };
    let mut placed: Vec<Placed> = Vec::new();
    let (mut x, mut full) = (0, false);
    if let Some(look) = view.look.as_ref().filter(|look| look.is_of_several()) {
        // As wide as the longest name.
        let longest = look.parts.iter().map(|part| part.name.chars().count()).max().unwrap_or(0);
        let longest = u16::try_from(longest).unwrap_or(u16::MAX).max(WHOSE.width).min(width);
        placed.push(Placed { number: None, column: &WHOSE, x: 0, width: longest });
        x = longest.saturating_add(1);
    }
    for (number, column) in columns.iter().enumerate().filter(|(number, _)| *number == 0 || *number > shift) {
        full |= number != last && number > 0 && x + column.width + reserved > width;
        if (full && (number != last || reserved == 0)) || x >= width {
            continue;
        }
        let width = if number == last { width - x } else { column.width.min(width - x) };
        placed.push(Placed { number: Some(number), column, x, width });
        x += width + 1;
    }
    placed
}

fn headings(pen: &mut Pen<'_>, view: &View, placed: &[Placed], y: u16) {
    pen.fill(y, pen.heading());
    for Placed { number, column, x, width } in placed {
        let title = match (view.order().sort == *number, view.order().descending) {
            (false, _) => column.title.to_owned(),
            (true, true) => format!("{}↓", column.title),
            (true, false) => format!("{}↑", column.title),
        };
        put(pen, *x, y, *width, &title, is_right(column), pen.heading());
    }
}

fn row(pen: &mut Pen<'_>, placed: &[Placed], table: &Table, line: &Line, y: u16) {
    let Some(row) = line.row.and_then(|row| table.rows.get(row)) else {
        pen.text(0, y, pen.width(), &format!("{}{}", line.branch, clean(&line.note)), pen.plain());
        return;
    };
    for Placed { number, column, x, width } in placed {
        let value = table.column(column.name).and_then(|place| row.get(place)).unwrap_or(&Value::Null);
        let text = cell_of(line, column, value);
        let text = if *number == Some(0) { format!("{}{text}", line.branch) } else { text };
        let urgent = column.name == BLOCKS && !text.is_empty();
        let style = if urgent { pen.warning() } else { pen.plain() };
        put(pen, *x, y, *width, &text, is_right(column), style);
    }
}

fn put(
    pen: &mut Pen<'_>,
    x: u16,
    y: u16,
    width: u16,
    text: &str,
    right: bool,
    style: ratatui_core::style::Style,
) {
    let length = u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
    let before = if right { width.saturating_sub(length) } else { 0 };
    pen.text(x + before, y, width - before, text, style);
}
