//! A connection that waits for its answers: statements of whoever runs the servers, and questions to Onramp's admin port.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use login::{Credentials, Login};
use wire::{
    CommandKind, EOF_HEADER, ERR_HEADER, ErrPacket, OK_HEADER, WireError, parse_column_count,
    parse_column_definition, parse_text_row, read_message,
};

use crate::error::NoAnswer;

/// For each read. Nothing that is asked here takes a second on a quiet machine; a count of a million rows on a busy one takes some.
const PATIENCE: Duration = Duration::from_secs(60);

/// Nothing that is asked here has longer rows: lists of GTIDs, and an error's text.
const LONGEST_MESSAGE: usize = 1 << 20;

/// Logged in.
pub(crate) struct Connection {
    stream: Stream,
    unread: Vec<u8>,
    sequence: u8,
    deprecate_eof: bool,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A row, as texts; `None` for NULL.
pub(crate) type Row = Vec<Option<String>>;

impl Connection {
    /// To a socket.
    pub(crate) fn to_socket(path: &Path, user: &str, password: &str) -> Result<Self, NoAnswer> {
        let stream = UnixStream::connect(path).map_err(NoAnswer::Connection)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(NoAnswer::Connection)?;
        Self::open(Stream::Unix(stream), &Credentials::new(user, password, None, true))
    }

    /// To a port of this machine.
    pub(crate) fn to_port(port: u16, user: &str, password: &str) -> Result<Self, NoAnswer> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(NoAnswer::Connection)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(NoAnswer::Connection)?;
        Self::open(Stream::Tcp(stream), &Credentials::new(user, password, None, false))
    }

    fn open(mut stream: Stream, credentials: &Credentials) -> Result<Self, NoAnswer> {
        let mut login = Login::default();
        let mut buffer = [0; 4096];
        loop {
            let count = stream.receive(&mut buffer)?;
            let mut out = Vec::new();
            let done = login.read(&buffer[..count], credentials, &mut out).map_err(NoAnswer::Login)?;
            stream.write_all(&out).map_err(NoAnswer::Connection)?;
            if let Some(session) = done {
                let deprecate_eof = session.deprecate_eof;
                return Ok(Self { stream, unread: Vec::new(), sequence: 0, deprecate_eof });
            }
        }
    }

    /// Has a statement executed, and tells each of its rows to `each`. Returns the names of its columns; none where it has no result.
    ///
    /// # Errors
    /// The server's, or the connection's.
    pub(crate) fn query(
        &mut self,
        statement: &str,
        mut each: impl FnMut(Row),
    ) -> Result<Vec<String>, NoAnswer> {
        self.sequence = 0;
        let mut bytes = Vec::new();
        let payload = [&[CommandKind::Query as u8], statement.as_bytes()].concat();
        wire::put_message(&mut bytes, &mut self.sequence, &payload);
        self.stream.write_all(&bytes).map_err(NoAnswer::Connection)?;
        let head = self.message()?;
        if head.first() == Some(&OK_HEADER) {
            return Ok(Vec::new());
        }
        let mut names = Vec::new();
        for _ in 0..parse_column_count(&head)? {
            let payload = self.message()?;
            names.push(String::from_utf8_lossy(parse_column_definition(&payload)?.name).into_owned());
        }
        if !self.deprecate_eof {
            self.message()?;
        }
        loop {
            let payload = self.message()?;
            // A row may begin with the same byte, but is longer then than any end: 8 bytes of length follow.
            let below = if self.deprecate_eof { wire::MAX_PAYLOAD } else { 9 };
            if payload.first() == Some(&EOF_HEADER) && payload.len() < below {
                return Ok(names);
            }
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            each(parse_text_row(&payload)?.into_iter().map(|value| value.map(text)).collect());
        }
    }

    /// The next message, which is no error.
    fn message(&mut self) -> Result<Vec<u8>, NoAnswer> {
        let mut buffer = [0; 16 << 10];
        loop {
            if let Some(message) = read_message(&self.unread, self.sequence, LONGEST_MESSAGE)? {
                let (payload, consumed) = (message.payload.to_vec(), message.consumed);
                self.sequence = message.last_sequence.wrapping_add(1);
                self.unread.drain(..consumed);
                if payload.first() == Some(&ERR_HEADER) {
                    let error = ErrPacket::parse(&payload)?;
                    let message = String::from_utf8_lossy(error.message).into_owned();
                    return Err(NoAnswer::Refused { code: error.code, message });
                }
                return Ok(payload);
            }
            let count = self.stream.receive(&mut buffer)?;
            self.unread.extend_from_slice(&buffer[..count]);
        }
    }
}

impl Stream {
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, NoAnswer> {
        loop {
            let read = match self {
                Self::Tcp(stream) => stream.read(buffer),
                Self::Unix(stream) => stream.read(buffer),
            };
            match read {
                Ok(0) => return Err(NoAnswer::Connection(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(NoAnswer::Connection(error)),
            }
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            Self::Unix(stream) => stream.write_all(bytes),
        }
    }
}

impl From<WireError> for NoAnswer {
    fn from(error: WireError) -> Self {
        Self::Malformed(error)
    }
}
