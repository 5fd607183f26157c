//! How far a long step is: a bar on a terminal, else a line now and then. Both go to standard error, so that standard
//! output holds results only.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// One step with a known length.
pub struct Progress {
    title: String,
    length: u64,
    done: u64,
    display: Display,
}

enum Display {
    Bar(ProgressBar),
    /// When the last line was written, or the step began.
    Lines(Instant),
}

/// Steps that are over sooner need no line; a file that holds the lines of longer ones stays readable.
const BETWEEN_LINES: Duration = Duration::from_secs(2);

impl Progress {
    /// Begins a step of `length` units.
    pub fn new(title: &str, length: u64) -> Self {
        let display = if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(length);
            if let Ok(style) =
                ProgressStyle::with_template("{msg} {bar:40} {human_pos} of {human_len} ({eta})")
            {
                bar.set_style(style);
            }
            bar.set_message(title.to_owned());
            Display::Bar(bar)
        } else {
            Display::Lines(Instant::now())
        };
        Self { title: title.to_owned(), length, done: 0, display }
    }

    /// `units` more are done, as far as there are that many.
    pub fn advance(&mut self, units: u64) {
        self.reach(self.length.min(self.done + units));
    }

    /// So many units are done by now.
    pub fn reach(&mut self, done: u64) {
        self.done = done;
        match &mut self.display {
            Display::Bar(bar) => bar.set_position(self.done),
            Display::Lines(written) if written.elapsed() >= BETWEEN_LINES => {
                *written = Instant::now();
                eprintln!("{}: {} of {}", self.title, self.done, self.length);
            }
            Display::Lines(_) => {}
        }
    }
}

impl Drop for Progress {
    /// Takes the bar away: what comes next writes on a clean line.
    fn drop(&mut self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }
}
