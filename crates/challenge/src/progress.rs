//! What goes on, on the standard error stream: a line that changes on a terminal, and a line for each result.

use std::io::{IsTerminal as _, Write as _};

/// Where the run is.
#[derive(Debug)]
pub(crate) struct Progress {
    of: usize,
    is_terminal: bool,
    /// What is being done, in front of what changes.
    doing: String,
    shown: bool,
}

impl Progress {
    /// A run of so many things.
    pub(crate) fn new(of: usize) -> Self {
        Self { of, is_terminal: std::io::stderr().is_terminal(), doing: String::new(), shown: false }
    }

    /// The run turns to the thing with this number, from 1.
    pub(crate) fn turn_to(&mut self, number: usize, what: &str) {
        self.doing = if self.of == 0 {
            format!("[{number}] {what}")
        } else {
            format!("[{number}/{}] {what}", self.of)
        };
        self.update("");
    }

    /// Something about it has changed. Shown on a terminal only: a file would fill with it.
    pub(crate) fn update(&mut self, state: &str) {
        if !self.is_terminal {
            return;
        }
        let line: String = format!("{}  {state}", self.doing).chars().take(terminal_width() - 1).collect();
        let mut stderr = std::io::stderr().lock();
        // Where it cannot be shown, nobody is there to see it.
        let _ = write!(stderr, "\r\x1b[K{line}");
        let _ = stderr.flush();
        self.shown = true;
    }

    /// The result of what is being done.
    pub(crate) fn result(&mut self, result: &str) {
        let line = format!("{:<48} {result}", self.doing);
        self.say(&line);
    }

    /// A line that stays.
    pub(crate) fn say(&mut self, line: &str) {
        let clear = if std::mem::take(&mut self.shown) { "\r\x1b[K" } else { "" };
        // As above.
        let _ = writeln!(std::io::stderr(), "{clear}{line}");
    }
}

/// Columns, as far as a terminal's line is not to be wrapped.
fn terminal_width() -> usize {
    // The least that anybody uses; what does not fit is only a passing state.
    const NARROW: usize = 80;
    rustix::termios::tcgetwinsize(std::io::stderr()).map_or(NARROW, |size| usize::from(size.ws_col).max(20))
}
