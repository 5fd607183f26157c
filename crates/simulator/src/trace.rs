//! What happened in a run, as lines: the last ones are kept for a failure, all of them are hashed.

use std::collections::VecDeque;
use std::fmt;

/// How many lines a failure shows: enough for the story of one statement among a dozen clients.
const KEPT: usize = 400;

/// FNV-1a's 64-bit parameters; nothing depends on the hash but that equal traces have equal ones.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x100_0000_01b3;

/// What becomes of the trace of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traced {
    /// It goes to standard output.
    Echoed,
    /// Its end is kept.
    Kept,
    /// There is none.
    Not,
}

/// The trace of one run.
#[derive(Debug)]
pub struct Trace {
    lines: VecDeque<String>,
    hash: u64,
    count: u64,
    echo: bool,
    /// Nobody wants to know.
    is_off: bool,
}

impl Trace {
    /// An empty trace. With `echo`, each line also goes to standard output at once.
    pub fn new(echo: bool) -> Self {
        Self { lines: VecDeque::new(), hash: OFFSET, count: 0, echo, is_off: false }
    }

    /// One that stays empty: a run that goes wrong goes the same way once more, and most of the time of one that does not is that of its trace.
    pub fn off() -> Self {
        Self { is_off: true, ..Self::new(false) }
    }

    /// Adds a line.
    pub fn line(&mut self, micros: u64, text: fmt::Arguments<'_>) {
        if self.is_off {
            return;
        }
        let line = format!("{:>12.6}s {text}", micros as f64 / 1e6);
        // Eight bytes a time: this is the hottest loop of an unoptimised build.
        for word in line.as_bytes().chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            self.hash = (self.hash ^ u64::from_le_bytes(bytes)).wrapping_mul(PRIME).rotate_left(29);
        }
        self.count += 1;
        if self.echo {
            println!("{line}");
        }
        if self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// A hash over all lines: two runs with the same hash went the same way.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How many lines there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The last lines, oldest first.
    pub fn last_lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}

/// Shows bytes of the protocol: printable ones as they are, the rest as dots, long ones cut.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Enough for a statement of the simulation with its token.
        const LIMIT: usize = 120;
        for &byte in self.0.iter().take(LIMIT) {
            let shown = if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' };
            write!(f, "{shown}")?;
        }
        if self.0.len() > LIMIT {
            write!(f, "... ({} bytes)", self.0.len())?;
        }
        Ok(())
    }
}
