//! An Onramp from afar, for others than the screens here that ask its admin port.

use clap::Parser as _;

use crate::connection::{Connection, Failure, Place};
use crate::options::Options;
use crate::snapshot::{Table, Value};

/// An admin port, and a connection to it that is made when it is needed, and made anew where it was lost.
pub struct Remote {
    place: Place,
    connection: Option<Connection>,
}

/// An answer: the names of its columns, and its rows, each value as text and NULL as `None`.
pub type Rows = (Vec<String>, Vec<Vec<Option<String>>>);

impl Remote {
    /// Where and as whom the words say, which are those of `onramp top` (`--host`, `--user` and so on).
    ///
    /// # Errors
    /// What is wrong with them, or with a file that they name.
    pub fn new(words: &[String]) -> Result<Self, String> {
        let words = std::iter::once("onramp top").chain(words.iter().map(String::as_str));
        let options = Options::try_parse_from(words).map_err(|error| error.to_string())?;
        let mut wanted = options.wanted()?;
        match (wanted.pop(), wanted.is_empty()) {
            (Some(one), true) => Ok(Self { place: Place::new(&options, one)?, connection: None }),
            _ => Err(String::from("several admin ports are given; one can be asked here")),
        }
    }

    /// Has a question answered.
    ///
    /// # Errors
    /// Why there is no answer, or not a whole one, for people.
    pub fn ask(&mut self, question: &str) -> Result<Rows, String> {
        let open = match self.connection.take() {
            Some(open) => Ok(open),
            None => Connection::open(&self.place),
        };
        let mut connection = open.map_err(|failure| failure.text().to_owned())?;
        let answer = connection.query(question);
        if !matches!(answer, Err(Failure::Lost(_))) {
            self.connection = Some(connection);
        }
        let answer = answer.map_err(|failure| failure.text().to_owned())?;
        if answer.warnings > 0 {
            return Err(String::from("not every worker has answered in time"));
        }
        let Table { columns, rows } = answer.table;
        let text = |value: Value| if value == Value::Null { None } else { Some(value.text()) };
        Ok((columns, rows.into_iter().map(|row| row.into_iter().map(text).collect()).collect()))
    }
}
