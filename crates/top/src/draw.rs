//! The screen, from the view: nothing is asked and nothing changes here, and any size of terminal is fine.

mod header;
mod pen;
mod table;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use crate::format::clean;
use crate::view::{HELP, Kill, Mode, Source, View};
use pen::{Pen, wrapped};

/// Lines that a question may take: who is killed stands in it in full up to here.
const QUESTION_LINES: usize = 5;

/// Draws everything. `now` is the time in milliseconds since 1970.
pub fn draw(view: &View, now: u64, area: Rect, buffer: &mut Buffer) {
    let mut pen = Pen::new(buffer, area, view.colours);
    if view.mode == Mode::Help {
        return help(&mut pen);
    }
    let foot = foot(view, usize::from(area.width));
    let lines = u16::try_from(foot.len()).unwrap_or(0).min(area.height);
    let end = area.height - lines;
    let top = header::draw(&mut pen, view, now, end);
    table::draw(&mut pen, view, top, end);
    for (number, line) in (end..).zip(&foot) {
        pen.line(number, line, pen.bar());
    }
}

/// How many lines the table has on a screen of this size.
pub fn page(height: u16) -> usize {
    // Where there are sentences in the header; a page less than the screen has is no loss.
    usize::from(height).saturating_sub(usize::from(header::LINES + header::SENTENCES) + 2).max(1)
}

fn foot(view: &View, width: usize) -> Vec<String> {
    if let Mode::Question(kill) = &view.mode {
        let mut lines = wrapped(&question(kill), width);
        lines.truncate(QUESTION_LINES);
        return lines;
    }
    if let Mode::Filter(_) = &view.mode {
        return vec![format!("filter: {}_   Enter: keep it  Esc: leave it", view.filter)];
    }
    if let Some(message) = &view.message {
        let mut lines = wrapped(&clean(message), width);
        lines.truncate(QUESTION_LINES);
        return lines;
    }
    let keys = match view.source {
        Source::Live { .. } => "q quit  h help  Tab tabs  < > sort  I reverse  / filter  Z pause  k kill",
        Source::Replay { .. } => "q quit  h help  Tab tabs  [ ] { } back, forward  Space play  / filter",
    };
    vec![keys.to_owned()]
}

fn question(kill: &Kill) -> String {
    let Kill { client, who, .. } = kill;
    let of = kill.onramp.as_ref().map_or_else(String::new, |onramp| format!(" of {}", clean(onramp)));
    if kill.query_only {
        return format!("End the statement of client {client}{of} ({who})?  y: yes, any other key: no");
    }
    format!(
        "KILL client {client}{of} ({who})? Its connection is closed, its transaction rolled back.  y: yes, any other key: no"
    )
}

fn help(pen: &mut Pen<'_>) {
    pen.line(0, "onramp top: keys (any key goes back)", pen.heading());
    let mut line = 2;
    for (keys, what) in HELP {
        // Narrow terminals have what a key does below it.
        if pen.width() >= 70 {
            pen.text(2, line, 28, keys, pen.strong());
            pen.text(30, line, pen.width(), what, pen.plain());
            line += 1;
        } else {
            pen.text(0, line, pen.width(), keys, pen.strong());
            pen.text(2, line + 1, pen.width(), what, pen.plain());
            line += 2;
        }
    }
}

#[cfg(test)]
mod tests;
