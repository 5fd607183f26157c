//! How far a long step is: a bar on a terminal, else a line at every tenth of the way. Both go to standard error, so that
//! standard output holds results only.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;

/// One step with a known length.
pub struct Progress {
    title: String,
    length: u64,
    done: u64,
    display: Display,
}

enum Display {
    Bar(ProgressBar),
    /// How many tenths have been written.
    Lines(u64),
}

impl Progress {
    /// Begins a step of `length` units, at least one.
    pub fn new(title: &str, length: u64) -> Self {
        let length = length.max(1);
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
            Display::Lines(0)
        };
        Self { title: title.to_owned(), length, done: 0, display }
    }

    /// `units` more are done.
    pub fn advance(&mut self, units: u64) {
        self.done += units;
        match &mut self.display {
            Display::Bar(bar) => bar.set_position(self.done),
            Display::Lines(written) => {
                let tenths = tenths(self.done, self.length);
                if tenths > *written {
                    *written = tenths;
                    eprintln!("{}: {} of {}", self.title, self.done, self.length);
                }
            }
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

fn tenths(done: u64, length: u64) -> u64 {
    (u128::from(done) * 10 / u128::from(length)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_at_tenths() {
        assert_eq!(tenths(0, 100), 0);
        assert_eq!(tenths(9, 100), 0);
        assert_eq!(tenths(10, 100), 1);
        assert_eq!(tenths(100, 100), 10);
        assert_eq!(tenths(u64::MAX, u64::MAX), 10);
    }
}
