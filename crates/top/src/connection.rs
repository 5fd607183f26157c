//! A connection to the admin port, as MySQL's clients make it, on a thread that may block.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use login::{Credentials, Login, LoginError};
use tls::{Authorities, BlockingStream, Connector, Pem, ServerCheck};
use wire::{
    CommandKind, EOF_HEADER, ERR_HEADER, ErrPacket, OK_HEADER, OkPacket, WireError, parse_column_count,
    parse_column_definition, parse_text_row, read_message,
};

use crate::options::{Options, Wanted};
use crate::snapshot::{Table, Value};
use crate::targets::Target;
use crate::trouble::Trouble;

/// How long connecting and logging in may take: a login that is refused is answered after a second.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an answer may take: the admin port gives a statement 10 seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// The longest message: a row of texts, each of which the admin port cuts at 64 KiB.
const LONGEST_MESSAGE: usize = 2 << 20;

/// The largest answer, in bytes: what the admin port gives at most.
const LARGEST_ANSWER: usize = 64 << 20;

/// ER_ACCESS_DENIED_ERROR: the user or the password is wrong.
const ACCESS_DENIED: u16 = 1045;

/// `enum_field_types` of numbers: TINY, SHORT, LONG, LONGLONG, INT24; FLOAT and DOUBLE.
const INTEGERS: [u8; 5] = [1, 2, 3, 8, 9];
const REALS: [u8; 2] = [4, 5];

/// Where to connect to, and as whom.
pub struct Place {
    target: Target,
    name: String,
    credentials: Credentials,
    connector: Option<Connector>,
}

impl Place {
    /// As the options say, of whom it is one; their files are read here.
    ///
    /// # Errors
    /// Where a file cannot be used.
    pub fn new(options: &Options, wanted: Wanted) -> Result<Self, Trouble> {
        let password = wanted.password()?;
        let credentials = Credentials::new(&wanted.user, &password, None, false);
        let connector = match &options.tls_ca {
            Some(path) => {
                let name = format!("--tls-ca {}", path.display());
                let failed = |error| Trouble::File { option: "--tls-ca", path: path.clone(), error };
                let text = std::fs::read(path).map_err(failed)?;
                Some(connector(ServerCheck::Name, Some(&Pem { name, text: text.into() }))?)
            }
            None if options.tls => Some(connector(ServerCheck::None, None)?),
            None => None,
        };
        let credentials = if connector.is_some() { credentials.with_tls() } else { credentials };
        Ok(Self {
            target: wanted.target,
            name: wanted.name,
            // The admin port knows no other method, and who stands in its place is told nothing.
            credentials: credentials.with_native_password_only(),
            connector,
        })
    }

    /// What tells it apart from the others that are asked.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A host with its port, or a path.
    pub fn target(&self) -> String {
        self.target.text()
    }

    /// The name that a certificate has to be for; sockets have no TLS.
    fn host(&self) -> &str {
        match &self.target {
            Target::Tcp(host, _) => host,
            Target::Socket(_) => "",
        }
    }
}

fn connector(check: ServerCheck, authorities: Option<&Pem>) -> Result<Connector, tls::Error> {
    let authorities = authorities.map(Authorities::from_pem).transpose()?;
    Connector::new(check, authorities.as_ref(), None)
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The statement was answered with an error; the connection goes on.
    Refused(String),
    /// The connection is of no use any more.
    Lost(String),
    /// There is none, since the user or the password is wrong.
    Denied(String),
}

impl Failure {
    /// For people.
    pub fn text(&self) -> &str {
        match self {
            Self::Refused(text) | Self::Lost(text) | Self::Denied(text) => text,
        }
    }

    /// Whether a column (1054) or a table (1146) is not there.
    pub fn is_of_a_name(&self) -> bool {
        matches!(self, Self::Refused(text) if text.starts_with("error 1054:") || text.starts_with("error 1146:"))
    }
}

/// A socket whose reads end at a time, however many there are.
struct Limited {
    socket: Socket,
    deadline: Instant,
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Limited {
    /// What is left until the deadline: a timeout of zero would mean none.
    fn left(&self) -> std::io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = self.left()?;
        match &mut self.socket {
            Socket::Tcp(tcp) => tcp.set_read_timeout(Some(left)).and_then(|()| tcp.read(buffer)),
            Socket::Unix(unix) => unix.set_read_timeout(Some(left)).and_then(|()| unix.read(buffer)),
        }
    }
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let left = self.left()?;
        match &mut self.socket {
            Socket::Tcp(tcp) => tcp.set_write_timeout(Some(left)).and_then(|()| tcp.write(bytes)),
            Socket::Unix(unix) => unix.set_write_timeout(Some(left)).and_then(|()| unix.write(bytes)),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

enum Channel {
    Plain(Limited),
    Tls(Box<BlockingStream<Limited>>),
}

impl Channel {
    fn limited(&mut self) -> &mut Limited {
        match self {
            Self::Plain(limited) => limited,
            Self::Tls(stream) => stream.socket_mut(),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let sent = match self {
            Self::Plain(limited) => limited.write_all(bytes),
            Self::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        };
        sent.map_err(|error| lost(&error))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        loop {
            let read = match self {
                Self::Plain(limited) => limited.read(buffer),
                Self::Tls(stream) => stream.read(buffer),
            };
            match read {
                Ok(0) => return Err(Failure::Lost(String::from("the admin port closed the connection"))),
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(&error)),
            }
        }
    }
}

fn lost(error: &std::io::Error) -> Failure {
    Failure::Lost(match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => String::from("the admin port does not answer"),
        _ => error.to_string(),
    })
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

/// Logged in.
pub struct Connection {
    channel: Channel,
    unread: Vec<u8>,
    sequence: u8,
    deprecate_eof: bool,
}

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
        let mut channel = Channel::Plain(Limited { socket: connect(place)?, deadline });
        let mut login = Login::default();
        let mut buffer = [0; 4096];
        loop {
            let count = channel.receive(&mut buffer)?;
            let mut out = Vec::new();
            let done = login
                .read(&buffer[..count], &place.credentials, &mut out)
                .map_err(|error| no_login(&error))?;
            channel.send(&out)?;
            if let Some(session) = done {
                let deprecate_eof = session.deprecate_eof;
                return Ok(Self { channel, unread: Vec::new(), sequence: 0, deprecate_eof });
            }
            if let (true, Some(connector)) = (login.starts_tls(), &place.connector) {
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

    /// Has a statement executed.
    ///
    /// # Errors
    /// The server's, or the connection's.
    pub fn query(&mut self, statement: &str) -> Result<Answer, Failure> {
        self.channel.limited().deadline = Instant::now() + ANSWER_TIMEOUT;
        self.sequence = 0;
        let mut bytes = Vec::new();
        let payload = [&[CommandKind::Query as u8], statement.as_bytes()].concat();
        wire::put_message(&mut bytes, &mut self.sequence, &payload);
        self.channel.send(&bytes)?;
        let head = self.message()?;
        if head.first() == Some(&OK_HEADER) {
            let warnings = OkPacket::parse(&head, false).map_err(malformed)?.warnings;
            return Ok(Answer { table: Table::default(), warnings });
        }
        let (columns, kinds) = self.columns(parse_column_count(&head).map_err(malformed)?)?;
        let mut table = Table { columns, rows: Vec::new() };
        let mut size = 0;
        loop {
            let payload = self.message()?;
            if self.is_end(&payload) {
                return Ok(Answer { table, warnings: warnings(&payload, self.deprecate_eof)? });
            }
            size += payload.len();
            if size > LARGEST_ANSWER {
                let text = format!("an answer is larger than {} MiB", LARGEST_ANSWER >> 20);
                return Err(Failure::Lost(text));
            }
            let row = parse_text_row(&payload).map_err(malformed)?;
            if row.len() != kinds.len() {
                return Err(malformed(WireError::Malformed {
                    what: "row with other columns than announced",
                }));
            }
            table.rows.push(row.into_iter().zip(&kinds).map(|(bytes, kind)| value(bytes, *kind)).collect());
        }
    }

    /// Names and types; and the EOF after them, unless it was agreed to leave it out.
    fn columns(&mut self, count: u64) -> Result<(Vec<String>, Vec<u8>), Failure> {
        let (mut names, mut kinds) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let payload = self.message()?;
            let definition = parse_column_definition(&payload).map_err(malformed)?;
            names.push(String::from_utf8_lossy(definition.name).into_owned());
            kinds.push(definition.kind);
        }
        if !self.deprecate_eof {
            self.message()?;
        }
        Ok((names, kinds))
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
            let found = read_message(&self.unread, self.sequence, LONGEST_MESSAGE).map_err(malformed)?;
            if let Some(message) = found {
                let (payload, consumed) = (message.payload.to_vec(), message.consumed);
                self.sequence = message.last_sequence.wrapping_add(1);
                self.unread.drain(..consumed);
                if payload.first() == Some(&ERR_HEADER) {
                    let error = ErrPacket::parse(&payload).map_err(malformed)?;
                    let message = String::from_utf8_lossy(error.message);
                    return Err(Failure::Refused(format!("error {}: {message}", error.code)));
                }
                return Ok(payload);
            }
            let count = self.channel.receive(&mut buffer)?;
            self.unread.extend_from_slice(&buffer[..count]);
        }
    }
}

impl Drop for Connection {
    /// So that its place on the admin port is free at once.
    fn drop(&mut self) {
        let (mut bytes, mut sequence) = (Vec::new(), 0);
        wire::put_message(&mut bytes, &mut sequence, &[CommandKind::Quit as u8]);
        let _ = self.channel.send(&bytes);
    }
}

fn connect(place: &Place) -> Result<Socket, Failure> {
    let (host, port) = match &place.target {
        Target::Tcp(host, port) => (host.as_str(), *port),
        Target::Socket(path) => {
            let failed =
                |error: std::io::Error| Failure::Lost(format!("--socket {}: {error}", path.display()));
            return UnixStream::connect(path).map(Socket::Unix).map_err(failed);
        }
    };
    let unknown = |error: std::io::Error| Failure::Lost(format!("--host {host}: {error}"));
    let mut reason = format!("--host {host} has no address");
    for address in (host, port).to_socket_addrs().map_err(unknown)? {
        match TcpStream::connect_timeout(&address, LOGIN_TIMEOUT) {
            Ok(tcp) => {
                tcp.set_nodelay(true).map_err(|error| lost(&error))?;
                return Ok(Socket::Tcp(tcp));
            }
            Err(error) => {
                reason =
                    format!("{address}: {error} (is it the Onramp's admin_listen? see --host and --port)");
            }
        }
    }
    Err(Failure::Lost(reason))
}

/// Of a packet that [`Connection::is_end`].
fn warnings(payload: &[u8], deprecate_eof: bool) -> Result<u16, Failure> {
    if deprecate_eof {
        return Ok(OkPacket::parse(payload, false).map_err(malformed)?.warnings);
    }
    Ok(wire::EofPacket::parse(payload).map_err(malformed)?.warnings)
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
