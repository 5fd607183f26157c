//! A connection, from its login to its end.

use std::time::{Duration, Instant};

use login::{Login, LoginError};
use tls::BlockingStream;
use wire::{
    CommandKind, EOF_HEADER, ERR_HEADER, ErrPacket, OK_HEADER, OkPacket, WireError, parse_column_count,
    parse_column_definition, parse_text_row, read_message,
};

use crate::channel::{Channel, Limited};
use crate::place::Place;

/// The longest message: a row of texts, each of which the admin port cuts at 64 KiB.
const LONGEST_MESSAGE: usize = 2 << 20;

/// The largest answer, in bytes: what the admin port gives at most.
const LARGEST_ANSWER: usize = 64 << 20;

/// How long the last word on a connection may take: who does not read it misses nothing.
const FAREWELL: Duration = Duration::from_millis(100);

/// ER_ACCESS_DENIED_ERROR: the user or the password is wrong.
const ACCESS_DENIED: u16 = 1045;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The statement was answered with an error; the connection goes on.
    Refused {
        /// Its number.
        code: u16,
        /// Its words.
        message: String,
    },
    /// The connection is of no use any more.
    Lost(String),
    /// There is none, since the user or the password is wrong.
    Denied(String),
    /// Nobody has logged in, since who greeted is who asks.
    Own,
}

impl Failure {
    /// For people.
    pub fn text(&self) -> String {
        match self {
            Self::Refused { code, message } => format!("error {code}: {message}"),
            Self::Lost(text) | Self::Denied(text) => text.clone(),
            Self::Own => String::from("it is the one that asks"),
        }
    }

    /// Whether a column (1054) or a table (1146) is not there.
    pub fn is_of_a_name(&self) -> bool {
        matches!(self, Self::Refused { code: 1054 | 1146, .. })
    }
}

fn no_login(error: &LoginError) -> Failure {
    match error {
        LoginError::Refused { code: ACCESS_DENIED, .. } => Failure::Denied(error.to_string()),
        _ => Failure::Lost(error.to_string()),
    }
}

fn malformed(error: WireError) -> Failure {
    Failure::Lost(format!("the answer is not understood: {error}"))
}

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type, a number of MySQL's `enum_field_types`.
    pub kind: u8,
}

/// What takes an answer as it comes.
pub trait Taker {
    /// The columns; what comes after is their rows. Not said of an answer without a result.
    fn columns(&mut self, columns: Vec<Column>);

    /// A row, with a value for each column, NULL as `None`.
    ///
    /// # Errors
    /// Why no more are wanted: the connection is of no use then.
    fn row(&mut self, values: &[Option<&[u8]>]) -> Result<(), Failure>;
}

/// Logged in.
pub struct Connection {
    channel: Channel,
    /// What has been received; what is in front of `read` has been read.
    received: Vec<u8>,
    read: usize,
    sequence: u8,
    deprecate_eof: bool,
    version: String,
}

impl Connection {
    /// Connects and logs in, unless the greeting is an own one, by its random bytes.
    ///
    /// # Errors
    /// Why not, for the user.
    pub fn open(
        place: &Place,
        deadline: Instant,
        is_own: impl Fn(&[u8; 20]) -> bool,
    ) -> Result<Self, Failure> {
        let mut channel = Channel::Plain(Limited::connect(place, deadline)?);
        let mut login = Login::default();
        let mut buffer = [0; 4096];
        loop {
            let count = channel.receive(&mut buffer)?;
            let mut out = Vec::new();
            let done = login
                .read(&buffer[..count], &place.credentials, &mut out)
                .map_err(|error| no_login(&error))?;
            if login.scramble().as_ref().is_some_and(&is_own) {
                return Err(Failure::Own);
            }
            channel.send(&out)?;
            if let Some(session) = done {
                let (deprecate_eof, version) = (session.deprecate_eof, session.server_version);
                return Ok(Self {
                    channel,
                    received: Vec::new(),
                    read: 0,
                    sequence: 0,
                    deprecate_eof,
                    version,
                });
            }
            if let (true, Some(connector)) = (login.starts_tls(), place.encryption.connector()) {
                let Channel::Plain(limited) = channel else {
                    return Err(Failure::Lost(String::from("the server asks for TLS twice")));
                };
                let stream = BlockingStream::connect(connector, place.host(), limited)
                    .map_err(|error| Failure::Lost(error.to_string()))?;
                channel = Channel::Tls(Box::new(stream));
                let mut out = Vec::new();
                login
                    .secured(&place.credentials, &mut out)
                    .map_err(|error| Failure::Lost(error.to_string()))?;
                channel.send(&out)?;
            }
        }
    }

    /// What it calls itself in its greeting.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Has a statement executed, and says how many warnings there were, such as of workers that did not answer in time.
    ///
    /// # Errors
    /// The server's, the connection's, or the taker's.
    pub fn query(
        &mut self,
        statement: &str,
        deadline: Instant,
        taker: &mut impl Taker,
    ) -> Result<u16, Failure> {
        self.channel.until(deadline);
        self.sequence = 0;
        let mut bytes = Vec::new();
        let payload = [&[CommandKind::Query as u8], statement.as_bytes()].concat();
        wire::put_message(&mut bytes, &mut self.sequence, &payload);
        self.channel.send(&bytes)?;
        let head = self.message()?;
        if head.first() == Some(&OK_HEADER) {
            return Ok(OkPacket::parse(&head, false).map_err(malformed)?.warnings);
        }
        let columns = self.columns(parse_column_count(&head).map_err(malformed)?)?;
        let width = columns.len();
        taker.columns(columns);
        let mut size = 0;
        loop {
            let payload = self.message()?;
            if self.is_end(&payload) {
                return warnings(&payload, self.deprecate_eof);
            }
            size += payload.len();
            if size > LARGEST_ANSWER {
                let text = format!("an answer is larger than {} MiB", LARGEST_ANSWER >> 20);
                return Err(Failure::Lost(text));
            }
            let row = parse_text_row(&payload).map_err(malformed)?;
            if row.len() != width {
                return Err(malformed(WireError::Malformed {
                    what: "row with other columns than announced",
                }));
            }
            taker.row(&row)?;
        }
    }

    /// Names and types; and the EOF after them, unless it was agreed to leave it out.
    fn columns(&mut self, count: u64) -> Result<Vec<Column>, Failure> {
        let mut columns = Vec::new();
        for _ in 0..count {
            let payload = self.message()?;
            let definition = parse_column_definition(&payload).map_err(malformed)?;
            let name = String::from_utf8_lossy(definition.name).into_owned();
            columns.push(Column { name, kind: definition.kind });
        }
        if !self.deprecate_eof {
            self.message()?;
        }
        Ok(columns)
    }

    /// A row may begin with the same byte, but then it is longer than any end: 8 bytes of length follow.
    fn is_end(&self, payload: &[u8]) -> bool {
        let below = if self.deprecate_eof { wire::MAX_PAYLOAD } else { 9 };
        payload.first() == Some(&EOF_HEADER) && payload.len() < below
    }

    /// The next message, which is no error.
    fn message(&mut self) -> Result<Vec<u8>, Failure> {
        let mut buffer = [0; 16 << 10];
        loop {
            let unread = &self.received[self.read..];
            let found = read_message(unread, self.sequence, LONGEST_MESSAGE).map_err(malformed)?;
            if let Some(message) = found {
                let payload = message.payload.to_vec();
                self.sequence = message.last_sequence.wrapping_add(1);
                self.read += message.consumed;
                if payload.first() == Some(&ERR_HEADER) {
                    let error = ErrPacket::parse(&payload).map_err(malformed)?;
                    let message = String::from_utf8_lossy(error.message).into_owned();
                    return Err(Failure::Refused { code: error.code, message });
                }
                return Ok(payload);
            }
            self.received.drain(..std::mem::take(&mut self.read));
            let count = self.channel.receive(&mut buffer)?;
            self.received.extend_from_slice(&buffer[..count]);
        }
    }
}

impl Drop for Connection {
    /// So that its place on the admin port is free at once.
    fn drop(&mut self) {
        let (mut bytes, mut sequence) = (Vec::new(), 0);
        wire::put_message(&mut bytes, &mut sequence, &[CommandKind::Quit as u8]);
        self.channel.until(Instant::now() + FAREWELL);
        let _ = self.channel.send(&bytes);
    }
}

/// Of a packet that [`Connection::is_end`].
fn warnings(payload: &[u8], deprecate_eof: bool) -> Result<u16, Failure> {
    if deprecate_eof {
        return Ok(OkPacket::parse(payload, false).map_err(malformed)?.warnings);
    }
    Ok(wire::EofPacket::parse(payload).map_err(malformed)?.warnings)
}
