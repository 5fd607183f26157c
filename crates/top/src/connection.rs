//! A connection to the admin port, whose answers are tables.

use std::sync::Arc;
use std::time::{Duration, Instant};

use admin_client::{Column, Encryption, Names, Taker};
use tls::{Authorities, Connector, Pem, ServerCheck};

pub use admin_client::Failure;

use crate::options::{Options, Wanted};
use crate::snapshot::{Table, Value};
use crate::trouble::Trouble;

/// How long connecting and logging in may take: a login that is refused is answered after a second.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an answer may take: the admin port gives a statement 10 seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// `enum_field_types` of numbers: TINY, SHORT, LONG, LONGLONG, INT24; FLOAT and DOUBLE.
const INTEGERS: [u8; 5] = [1, 2, 3, 8, 9];
const REALS: [u8; 2] = [4, 5];

/// As the options here are called.
const NAMES: Names = Names { host: "--host", socket: "--socket", all: "--host and --port" };

/// Where to connect to, and as whom.
pub struct Place {
    place: admin_client::Place,
    name: String,
}

impl Place {
    /// As the options say, of whom it is one; their files are read here.
    ///
    /// # Errors
    /// Where a file cannot be used.
    pub fn new(options: &Options, wanted: Wanted) -> Result<Self, Trouble> {
        let password = wanted.password()?;
        let encryption = match &options.tls_ca {
            Some(path) => {
                let name = format!("--tls-ca {}", path.display());
                let failed = |error| Trouble::File { option: "--tls-ca", path: path.clone(), error };
                let text = std::fs::read(path).map_err(failed)?;
                Encryption::Always(connector(ServerCheck::Name, Some(&Pem { name, text: text.into() }))?)
            }
            None if options.tls => Encryption::Always(connector(ServerCheck::None, None)?),
            None => Encryption::Off,
        };
        let place = admin_client::Place::new(wanted.target, &wanted.user, &password, encryption, NAMES);
        Ok(Self { place, name: wanted.name })
    }

    /// What tells it apart from the others that are asked.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A host with its port, or a path.
    pub fn target(&self) -> String {
        self.place.target()
    }
}

fn connector(check: ServerCheck, authorities: Option<&Pem>) -> Result<Arc<Connector>, tls::Error> {
    let authorities = authorities.map(Authorities::from_pem).transpose()?;
    Connector::new(check, authorities.as_ref(), None).map(Arc::new)
}

/// Logged in.
pub struct Connection(admin_client::Connection);

/// A result, and how many warnings there were.
#[derive(Debug)]
pub struct Answer {
    /// Empty where the statement has no result.
    pub table: Table,
    /// Such as of workers that did not answer in time.
    pub warnings: u16,
}

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// Why not, for the user.
    pub fn open(place: &Place) -> Result<Self, Failure> {
        let deadline = Instant::now() + LOGIN_TIMEOUT;
        admin_client::Connection::open(&place.place, deadline, |_| false).map(Self)
    }

    /// Has a statement executed.
    ///
    /// # Errors
    /// The server's, or the connection's.
    pub fn query(&mut self, statement: &str) -> Result<Answer, Failure> {
        let mut taken = Taken::default();
        let warnings = self.0.query(statement, Instant::now() + ANSWER_TIMEOUT, &mut taken)?;
        Ok(Answer { table: taken.table, warnings })
    }
}

/// A table, and the types of its columns.
#[derive(Default)]
struct Taken {
    table: Table,
    kinds: Vec<u8>,
}

impl Taker for Taken {
    fn columns(&mut self, columns: Vec<Column>) {
        self.kinds = columns.iter().map(|column| column.kind).collect();
        self.table.columns = columns.into_iter().map(|column| column.name).collect();
    }

    fn row(&mut self, values: &[Option<&[u8]>]) -> Result<(), Failure> {
        self.table
            .rows
            .push(values.iter().zip(&self.kinds).map(|(bytes, kind)| value(*bytes, *kind)).collect());
        Ok(())
    }
}

fn value(bytes: Option<&[u8]>, kind: u8) -> Value {
    let Some(bytes) = bytes else { return Value::Null };
    let text = String::from_utf8_lossy(bytes);
    let integer = || INTEGERS.contains(&kind).then(|| text.parse().ok()).flatten();
    let real = || REALS.contains(&kind).then(|| text.parse().ok()).flatten();
    match (integer(), real()) {
        (Some(number), _) => Value::Integer(number),
        (None, Some(number)) => Value::Real(number),
        (None, None) => Value::Text(text.into_owned()),
    }
}
