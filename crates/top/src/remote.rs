//! An Onramp from afar, for others than the screens here that ask its admin port.

use std::fmt;

use clap::Parser as _;

use crate::connection::{Connection, Failure, Place};
use crate::options::Options;
use crate::snapshot::{Table, Value};
use crate::trouble::{Trouble, WrongOptions};

/// An admin port, and a connection to it that is made when it is needed, and made anew where it was lost.
pub struct Remote {
    place: Place,
    connection: Option<Connection>,
}

/// Why words name no admin port that can be asked.
#[derive(Debug)]
pub enum NoRemote {
    /// The words are no options of `onramp top`.
    Words(clap::Error),
    /// The options make no sense together.
    Options(WrongOptions),
    /// A file that the words name cannot be used.
    Files(Trouble),
    /// The words name several admin ports, of which one can be asked.
    Several,
}

impl fmt::Display for NoRemote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(error) => error.fmt(f),
            Self::Options(wrong) => wrong.fmt(f),
            Self::Files(trouble) => trouble.fmt(f),
            Self::Several => f.write_str("several admin ports are given; one can be asked here"),
        }
    }
}

impl std::error::Error for NoRemote {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Words(error) => Some(error),
            Self::Options(wrong) => Some(wrong),
            Self::Files(trouble) => Some(trouble),
            Self::Several => None,
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The admin port cannot be asked, or says no.
    Failed(Failure),
    /// Some workers have not answered in time, so that rows are missing.
    Incomplete,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failure) => f.write_str(&failure.text()),
            Self::Incomplete => f.write_str("not every worker has answered in time"),
        }
    }
}

impl std::error::Error for NoAnswer {}

/// An answer: the names of its columns, and its rows, each value as text and NULL as `None`.
pub type Rows = (Vec<String>, Vec<Vec<Option<String>>>);

impl Remote {
    /// Where and as whom the words say, which are those of `onramp top` (`--host`, `--user` and so on).
    ///
    /// # Errors
    /// What is wrong with them, or with a file that they name.
    pub fn new(words: &[String]) -> Result<Self, NoRemote> {
        let words = std::iter::once("onramp top").chain(words.iter().map(String::as_str));
        let options = Options::try_parse_from(words).map_err(NoRemote::Words)?;
        let mut wanted = options.wanted().map_err(NoRemote::Options)?;
        match (wanted.pop(), wanted.is_empty()) {
            (Some(one), true) => {
                let place = Place::new(&options, one).map_err(NoRemote::Files)?;
                Ok(Self { place, connection: None })
            }
            _ => Err(NoRemote::Several),
        }
    }

    /// Has a question answered.
    ///
    /// # Errors
    /// Why there is no answer, or not a whole one.
    pub fn ask(&mut self, question: &str) -> Result<Rows, NoAnswer> {
        let open = match self.connection.take() {
            Some(open) => Ok(open),
            None => Connection::open(&self.place),
        };
        let mut connection = open.map_err(NoAnswer::Failed)?;
        let answer = connection.query(question);
        if !matches!(answer, Err(Failure::Lost(_))) {
            self.connection = Some(connection);
        }
        let answer = answer.map_err(NoAnswer::Failed)?;
        if answer.warnings > 0 {
            return Err(NoAnswer::Incomplete);
        }
        let Table { columns, rows } = answer.table;
        let text = |value: Value| if value == Value::Null { None } else { Some(value.text()) };
        Ok((columns, rows.into_iter().map(|row| row.into_iter().map(text).collect()).collect()))
    }
}
