//! What became of each marker, as its client knows it: what a server has in the end is held against that.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::errors::ClientError;

/// What a client knows of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The server has said that it is stored.
    Acknowledged,
    /// The server has said that it is not, or the client left before it asked for that.
    Refused,
    /// It may be stored or not: the connection was lost in between.
    Unknown,
}

impl Fate {
    /// As it is written.
    pub fn letter(self) -> char {
        match self {
            Self::Acknowledged => 'a',
            Self::Refused => 'r',
            Self::Unknown => 'u',
        }
    }
}

/// How a statement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With an answer that is no error.
    Answered,
    /// With this error.
    Failed(u16),
    /// Without an answer: the connection is gone.
    Lost,
    /// With an answer, and the client goes no further: its connection is closed.
    Left,
}

impl End {
    /// Of the statement that stores the marker for good.
    pub(crate) fn of_last(self) -> Option<Fate> {
        Some(match self {
            Self::Answered => Fate::Acknowledged,
            // A proxy that has lost its server says so by this number: the statement may have run.
            Self::Failed(code) if code == ClientError::Lost as u16 => Fate::Unknown,
            Self::Failed(_) => Fate::Refused,
            Self::Lost => Fate::Unknown,
            // Said as it was answered.
            Self::Left => return None,
        })
    }

    /// Of a statement before that, in its transaction.
    pub(crate) fn before_last(self) -> Option<Fate> {
        match self {
            Self::Answered => None,
            Self::Failed(_) | Self::Lost | Self::Left => Some(Fate::Refused),
        }
    }
}

/// The file: a line for each marker, with microseconds since 1970, the fate's letter and the marker.
pub struct Journal {
    file: BufWriter<File>,
    failed: Option<std::io::Error>,
}

impl Journal {
    /// An empty one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path) -> std::io::Result<Self> {
        Ok(Self { file: BufWriter::new(File::create(path)?), failed: None })
    }

    /// One more line. What goes wrong is said at the end.
    pub fn note(&mut self, fate: Fate, marker: i64) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
        if let Err(error) = writeln!(self.file, "{at} {} {marker}", fate.letter()) {
            self.failed.get_or_insert(error);
        }
    }

    /// All lines are in the file.
    ///
    /// # Errors
    /// Some are not.
    pub fn finish(mut self) -> std::io::Result<()> {
        match self.failed {
            Some(error) => Err(error),
            None => self.file.flush(),
        }
    }
}
