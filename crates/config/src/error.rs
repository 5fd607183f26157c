//! Errors in options: the fault, and the place where it was said.

use std::fmt;
use std::path::PathBuf;

use crate::NoValue;
use crate::options::FILE_OPTION;
use crate::together::Conflict;

/// A configuration that cannot be used. Never holds a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Where it was said.
    pub place: Place,
    /// What is wrong with it.
    pub fault: Fault,
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
    /// In this file of the folder of credentials.
    Credential(String),
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

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is no such option.
    UnknownOption {
        /// As it was given, where that is not said by the place.
        name: Option<String>,
        /// What may be meant, as it is written there.
        instead: Instead,
    },
    /// It is about what no option can be.
    Misplaced(Misplaced),
    /// Nothing stands behind the flag.
    Missing {
        /// The flag with a value.
        example: String,
    },
    /// The flag was given before.
    Twice,
    /// The value is not UTF-8.
    NoText,
    /// The value is none.
    Value {
        /// The option, where that is not said by the place.
        option: Option<&'static str>,
        /// Why.
        reason: NoValue,
    },
    /// The file cannot be read.
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// In the system's words.
        reason: String,
    },
    /// The file is no TOML, and why.
    NoToml(String),
    /// Two values do not go together.
    Conflict(Conflict),
}

/// What may be meant by the name of no option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instead {
    /// This one.
    Option(String),
    /// The two addresses, as they are called there: that for clients, and that of the server.
    Addresses {
        /// For clients.
        listen: &'static str,
        /// Of the server.
        backend: &'static str,
    },
    /// Nobody knows.
    Nothing,
}

/// What stands where it cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misplaced {
    /// A word of the command line that is no flag: the how manyth. It may be a URL with a password.
    Word(usize),
    /// A section in the file.
    Section(String),
    /// The file's own name in the file.
    FileInFile,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownOption { name, instead } => {
                f.write_str("unknown option")?;
                if let Some(name) = name {
                    write!(f, " {name:?}")?;
                }
                match instead {
                    Instead::Option(name) => write!(f, "; did you mean {name}?"),
                    Instead::Addresses { listen, backend } => write!(
                        f,
                        "; {listen} says where clients connect, {backend} which server is behind and as whom"
                    ),
                    Instead::Nothing => f.write_str("; `onramp serve --help` lists them all"),
                }
            }
            Self::Misplaced(Misplaced::Word(place)) => write!(
                f,
                "word {place} after serve is no option: options start with --, such as --backend mysql://user@host/"
            ),
            Self::Misplaced(Misplaced::Section(name)) => {
                write!(f, "[{name}]: there are no sections; options stand at the top level")
            }
            Self::Misplaced(Misplaced::FileInFile) => {
                write!(f, "{FILE_OPTION} names the file and cannot stand in it")
            }
            Self::Missing { example } => write!(f, "no value given, such as {example}"),
            Self::Twice => f.write_str("given twice"),
            Self::NoText => f.write_str("its value is not UTF-8 text; write it in UTF-8"),
            Self::Value { option: Some(option), reason } => write!(f, "{option}: {reason}"),
            Self::Value { option: None, reason } => reason.fmt(f),
            Self::Unreadable { path, reason } => write!(f, "{} cannot be read: {reason}", path.display()),
            Self::NoToml(reason) => f.write_str(reason),
            Self::Conflict(conflict) => conflict.fmt(f),
        }
    }
}

impl From<NoValue> for Fault {
    fn from(reason: NoValue) -> Self {
        Self::Value { option: None, reason }
    }
}

impl Error {
    pub(crate) fn new(place: Place, fault: impl Into<Fault>) -> Self {
        Self { place, fault: fault.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Flag(flag) => write!(f, "{flag}: {}", self.fault),
            Place::Environment(name) => write!(f, "{name}: {}", self.fault),
            Place::Credential(name) => write!(f, "credential {name}: {}", self.fault),
            Place::File { path, line: 0 } => write!(f, "{}: {}", path.display(), self.fault),
            Place::File { path, line } => write!(f, "{}:{line}: {}", path.display(), self.fault),
            Place::CommandLine | Place::Together => self.fault.fmt(f),
        }
    }
}

impl std::error::Error for Error {}
