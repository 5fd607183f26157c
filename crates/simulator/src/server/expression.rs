//! Values in the virtual server's statements, and where they come from.

use super::database::Database;
use super::lexer::{Lexeme, Piece};
use super::locks;
use super::reply::{ServerError, Value};
use super::session::Session;
use crate::client::{moments, versions};

/// Where a SELECT's rows come from; also the row that an expression is evaluated for.
#[derive(Clone, Debug)]
pub enum Source {
    /// No FROM: one row.
    None,
    /// A table: read for its row count alone, one row.
    Table {
        /// How many rows it has.
        rows: u64,
    },
    /// A temporary table's rows: id and value.
    Temporary {
        /// The rows.
        rows: Vec<(u64, Value)>,
    },
    /// The numbers from one to `count`, a row each.
    Numbers {
        /// How many.
        count: u64,
    },
    /// A row of a table of versions.
    Version {
        /// The number of the statement that wrote it last; 0 where none has.
        number: u32,
    },
    /// A row of a temporary table or of numbers.
    Row {
        /// Its number.
        id: u64,
        /// Its value.
        value: Value,
    },
}

impl Source {
    /// The rows, each as a source of its own.
    pub fn rows(&self, _database: &Database) -> Box<dyn Iterator<Item = Self>> {
        match self {
            Self::Temporary { rows } => {
                Box::new(rows.clone().into_iter().map(|(id, value)| Self::Row { id, value }))
            }
            Self::Numbers { count } => {
                Box::new((1..=*count).map(|id| Self::Row { id, value: Some(id.to_string()) }))
            }
            other => Box::new(std::iter::once(other.clone())),
        }
    }
}

/// Reads lexemes from left to right.
#[derive(Debug)]
pub struct Parser<'a> {
    text: &'a str,
    pieces: &'a [Piece],
    parameters: &'a [Value],
    place: usize,
    next_parameter: usize,
}

impl<'a> Parser<'a> {
    /// A parser at the front.
    pub fn new(text: &'a str, pieces: &'a [Piece], parameters: &'a [Value]) -> Self {
        Self { text, pieces, parameters, place: 0, next_parameter: 0 }
    }

    /// Where it stands, for [`Self::seek`].
    pub fn place(&self) -> usize {
        self.place
    }

    /// Goes to a place.
    pub fn seek(&mut self, place: usize) {
        self.place = place;
        self.next_parameter = 0;
    }

    /// The place of a keyword at or after this one.
    pub fn find_word(&self, wanted: &str) -> Option<usize> {
        let found = self.pieces.iter().skip(self.place).position(|piece| is_word(&piece.lexeme, wanted));
        found.map(|offset| self.place + offset)
    }

    /// Takes the next lexeme.
    pub fn next_lexeme(&mut self) -> Option<Lexeme> {
        let piece = self.pieces.get(self.place)?;
        self.place += 1;
        Some(piece.lexeme.clone())
    }

    /// The next lexeme, left in place.
    pub fn peek(&self) -> Option<&'a Lexeme> {
        self.pieces.get(self.place).map(|piece| &piece.lexeme)
    }

    /// Takes the next lexeme if it is a word.
    pub fn word(&mut self) -> Option<String> {
        let Some(Lexeme::Word(word)) = self.peek() else {
            return None;
        };
        self.place += 1;
        Some(word.clone())
    }

    /// Takes this word if it is next.
    pub fn keyword(&mut self, wanted: &str) -> bool {
        let found = self.peek().is_some_and(|lexeme| is_word(lexeme, wanted));
        self.place += usize::from(found);
        found
    }

    /// Takes this character if it is next.
    pub fn symbol(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(&Lexeme::Symbol(wanted));
        self.place += usize::from(found);
        found
    }

    /// Takes a name.
    pub fn name(&mut self) -> Result<String, ServerError> {
        let name = self.name_at(self.place)?;
        self.place += 1;
        Ok(name)
    }

    /// The name at a place.
    pub fn name_at(&self, place: usize) -> Result<String, ServerError> {
        match self.pieces.get(place).map(|piece| &piece.lexeme) {
            Some(Lexeme::Word(name) | Lexeme::Name(name)) => Ok(name.clone()),
            _ => Err(ServerError::syntax(self.text)),
        }
    }

    /// The last word of the text.
    pub fn last_word(&self) -> Option<String> {
        self.pieces.len().checked_sub(1).and_then(|last| self.name_at(last).ok())
    }

    /// Whether a number is next.
    pub fn at_number(&self) -> bool {
        matches!(self.peek(), Some(Lexeme::Number(_)))
    }

    /// Takes a whole number.
    pub fn number(&mut self) -> Result<u64, ServerError> {
        match self.next_lexeme() {
            Some(Lexeme::Number(digits)) => digits.parse().map_err(|_| ServerError::syntax(self.text)),
            _ => Err(ServerError::syntax(self.text)),
        }
    }

    /// A select item: its value, and its name from AS or from its own text.
    pub fn item(
        &mut self,
        session: &mut Session,
        database: &mut Database,
        row: &Source,
    ) -> Result<(String, Value), ServerError> {
        let first = self.place;
        let value = self.value(session, database, row)?;
        let last = &self.pieces[self.place - 1];
        let mut name = self.text[self.pieces[first].start..last.end].to_owned();
        if self.keyword("as") {
            name = match self.next_lexeme() {
                Some(Lexeme::Word(alias) | Lexeme::Name(alias) | Lexeme::Text(alias)) => alias,
                _ => return Err(ServerError::syntax(self.text)),
            };
        }
        Ok((name, value))
    }

    /// An expression: a literal, a variable, a function or `1/0`.
    pub fn value(
        &mut self,
        session: &mut Session,
        database: &mut Database,
        row: &Source,
    ) -> Result<Value, ServerError> {
        let value = match self.next_lexeme() {
            Some(Lexeme::Text(text)) => Some(text),
            Some(Lexeme::Number(digits)) if self.symbol('|') => {
                self.number()?; // always 0, which makes the type a wide one
                Some(digits)
            }
            Some(Lexeme::Number(digits)) if self.symbol('/') => {
                self.number()?; // the simulation divides by zero alone
                if session.variable("sql_mode").contains("ERROR_FOR_DIVISION_BY_ZERO") {
                    session.raise("Warning", 1365, format!("Division by 0: {digits} in {}", self.text));
                }
                None
            }
            Some(Lexeme::Number(digits)) => Some(digits),
            Some(Lexeme::Symbol('-')) => {
                let digits = self.number()?;
                if self.symbol('|') {
                    self.number()?;
                }
                Some(format!("-{digits}"))
            }
            Some(Lexeme::Symbol('?')) => {
                let parameter = self.parameters.get(self.next_parameter).cloned().flatten();
                self.next_parameter += 1;
                parameter
            }
            Some(Lexeme::UserVariable(name)) => session.user_variables.get(&name).cloned().flatten(),
            Some(Lexeme::SystemVariable { global: true, name }) => {
                Some(session.find(&name)?.initial.to_owned())
            }
            Some(Lexeme::SystemVariable { global: false, name }) => system_value(session, &name)?,
            Some(Lexeme::Word(name)) if self.symbol('(') => self.function(&name, session, database, row)?,
            Some(Lexeme::Word(name)) if name == "moment" => Some(moments::shown(database.moment)),
            Some(Lexeme::Word(name) | Lexeme::Name(name)) => column(&name, row)?,
            _ => return Err(ServerError::syntax(self.text)),
        };
        Ok(value)
    }

    /// A function behind its opening parenthesis.
    fn function(
        &mut self,
        name: &str,
        session: &mut Session,
        database: &mut Database,
        row: &Source,
    ) -> Result<Value, ServerError> {
        if name == "if" {
            return self.choice(session, database, row);
        }
        let mut arguments = Vec::new();
        while !self.symbol(')') {
            if self.keyword("as") {
                self.word(); // of a CAST: types are nothing here
            } else if !self.symbol(',') && !self.symbol('*') {
                arguments.push(self.comparison(session, database, row)?);
            }
        }
        let argument = arguments.first().cloned().flatten();
        let number =
            |at: usize| arguments.get(at).cloned().flatten().and_then(|text| text.parse::<usize>().ok());
        let value = match name {
            "database" | "schema" => session.schema.clone(),
            "connection_id" => Some(session.thread_id.to_string()),
            "last_insert_id" => {
                if let Some(id) = argument.and_then(|text| text.parse().ok()) {
                    session.last_insert_id = id;
                }
                Some(session.last_insert_id.to_string())
            }
            "row_count" => Some(session.row_count.to_string()),
            "found_rows" => Some(session.found_rows.to_string()),
            "user" | "current_user" => Some(format!("{}@%", session.user)),
            "current_role" => session.kind.current_role(session.role),
            // What Onramp puts in the place of others, for their types.
            "cast" | "nullif" | "round" => argument,
            "version" => Some(session.kind.version().to_owned()),
            "sleep" => Some("0".to_owned()),
            "repeat" => argument.map(|text| text.repeat(number(1).unwrap_or(0))),
            "count" => Some(match row {
                Source::Table { rows } => rows.to_string(),
                _ => "1".to_owned(),
            }),
            // Only ever asked of NULL.
            "unhex" | "replace" => None,
            // Time stands still, mostly: who asks is only told apart from others by it.
            "now" => Some("2026-01-31 12:00:00.000000".to_owned()),
            "unix_timestamp" => {
                let micros = database.clock.unwrap_or(locks::EPOCH);
                Some(format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000))
            }
            "concat" => arguments.into_iter().collect::<Option<Vec<_>>>().map(|all| all.concat()),
            "concat_ws" => {
                let all: Vec<String> = arguments.into_iter().skip(1).flatten().collect();
                argument.map(|between| all.join(&between))
            }
            "ifnull" => argument.or_else(|| arguments.get(1).cloned().flatten()),
            _ => match locks::function(name, session, database, &argument) {
                Some(value) => value,
                None => {
                    return Err(ServerError::new(1305, "42000", format!("FUNCTION {name} does not exist")));
                }
            },
        };
        Ok(value)
    }

    /// A value, or whether two of them are equal.
    fn comparison(
        &mut self,
        session: &mut Session,
        database: &mut Database,
        row: &Source,
    ) -> Result<Value, ServerError> {
        let value = self.value(session, database, row)?;
        if !self.symbol('=') {
            return Ok(value);
        }
        let other = self.value(session, database, row)?;
        Ok(value.zip(other).map(|(one, other)| u8::from(one == other).to_string()))
    }

    /// `IF(condition, value, value)` behind its opening parenthesis: one of both values is not looked at.
    fn choice(
        &mut self,
        session: &mut Session,
        database: &mut Database,
        row: &Source,
    ) -> Result<Value, ServerError> {
        let holds = self.comparison(session, database, row)?.is_some_and(|value| value != "0");
        self.symbol(',');
        if !holds {
            self.skip_argument();
            self.symbol(',');
        }
        let value = self.value(session, database, row)?;
        if holds {
            self.symbol(',');
            self.skip_argument();
        }
        if self.symbol(')') { Ok(value) } else { Err(ServerError::syntax(self.text)) }
    }

    /// Goes to the end of an argument.
    fn skip_argument(&mut self) {
        let mut depth = 0;
        while let Some(lexeme) = self.peek() {
            match lexeme {
                Lexeme::Symbol('(') => depth += 1,
                Lexeme::Symbol(',' | ')') if depth == 0 => return,
                Lexeme::Symbol(')') => depth -= 1,
                _ => {}
            }
            self.place += 1;
        }
    }
}

fn is_word(lexeme: &Lexeme, wanted: &str) -> bool {
    matches!(lexeme, Lexeme::Word(word) if word == wanted)
}

fn system_value(session: &Session, name: &str) -> Result<Value, ServerError> {
    match name {
        "identity" | "last_insert_id" => Ok(Some(session.last_insert_id.to_string())),
        "prepared_schema_and_state" => Ok(session.prepared_schema_and_state.clone()),
        "pseudo_thread_id" => Ok(Some(session.thread_id.to_string())),
        "warning_count" => Ok(Some(session.warnings().len().to_string())),
        _ => session.shown_variable(name),
    }
}

fn column(name: &str, row: &Source) -> Result<Value, ServerError> {
    match (name, row) {
        ("id" | "seq", Source::Row { id, .. }) => Ok(Some(id.to_string())),
        ("value", Source::Row { value, .. }) => Ok(value.clone()),
        ("version", Source::Version { number }) => Ok(Some(versions::shown(*number))),
        ("null", _) => Ok(None),
        _ => Err(ServerError::new(1054, "42S22", format!("Unknown column '{name}' in 'SELECT'"))),
    }
}
