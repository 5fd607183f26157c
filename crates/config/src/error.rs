//! Errors in options: the fault, and the place where it was said.

use std::fmt;
use std::path::PathBuf;

/// A configuration that cannot be used. Never holds a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Where it was said.
    pub place: Place,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the command line, by this flag.
    Flag(String),
    /// On the command line, elsewhere.
    CommandLine,
    /// In this environment variable.
    Environment(String),
    /// In the file.
    File {
        /// Its path as it was given.
        path: PathBuf,
        /// The line, from 1; 0 for the file as a whole.
        line: usize,
    },
    /// In no single place: two values do not go together.
    Together,
}

impl Error {
    pub(crate) fn new(place: Place, message: impl Into<String>) -> Self {
        Self { place, message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Flag(flag) => write!(f, "{flag}: {}", self.message),
            Place::Environment(name) => write!(f, "{name}: {}", self.message),
            Place::File { path, line: 0 } => write!(f, "{}: {}", path.display(), self.message),
            Place::File { path, line } => write!(f, "{}:{line}: {}", path.display(), self.message),
            Place::CommandLine | Place::Together => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}
