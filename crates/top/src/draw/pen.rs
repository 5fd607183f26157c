//! Writing into a screen of any size: what is beyond its edges is not written.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};

/// Writes into an area, and knows how things look with colours and without.
pub struct Pen<'b> {
    buffer: &'b mut Buffer,
    area: Rect,
    colours: bool,
}

impl<'b> Pen<'b> {
    /// In this area of the buffer.
    pub fn new(buffer: &'b mut Buffer, area: Rect, colours: bool) -> Self {
        let area = area.intersection(buffer.area);
        Self { buffer, area, colours }
    }

    /// Columns of the area.
    pub fn width(&self) -> u16 {
        self.area.width
    }

    /// Writes a text of at most `width` columns.
    pub fn text(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) {
        if x >= self.area.width || y >= self.area.height {
            return;
        }
        let width = width.min(self.area.width - x);
        self.buffer.set_stringn(self.area.x + x, self.area.y + y, text, usize::from(width), style);
    }

    /// Writes a text over a line, to its end in this style.
    pub fn line(&mut self, y: u16, text: &str, style: Style) {
        self.fill(y, style);
        self.text(0, y, self.area.width, text, style);
    }

    /// Gives a line a style.
    pub fn fill(&mut self, y: u16, style: Style) {
        if y < self.area.height {
            let line = Rect { x: self.area.x, y: self.area.y + y, width: self.area.width, height: 1 };
            self.buffer.set_style(line, style);
        }
    }

    fn coloured(&self, style: Style, colour: Color) -> Style {
        if self.colours { style.fg(colour) } else { style }
    }

    /// For all else.
    pub fn plain(&self) -> Style {
        Style::new()
    }

    /// For what is looked for.
    pub fn strong(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// For headings.
    pub fn heading(&self) -> Style {
        self.coloured(Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED), Color::Cyan)
    }

    /// For the tab and the row that are selected, and the line at the bottom.
    pub fn bar(&self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// For what may need somebody.
    pub fn warning(&self) -> Style {
        self.coloured(Style::new().add_modifier(Modifier::BOLD), Color::Red)
    }
}

/// A text in lines of at most so many characters, between words where there are any.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 0 && last + 1 + word.chars().count() > width {
            lines.push(String::new());
        }
        for (number, character) in word.chars().enumerate() {
            let Some(line) = lines.last_mut() else { break };
            if number == 0 && !line.is_empty() {
                line.push(' ');
            }
            if line.chars().count() < width {
                line.push(character);
            } else {
                lines.push(String::from(character));
            }
        }
    }
    lines
}
