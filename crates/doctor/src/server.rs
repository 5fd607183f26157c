//! The questions to a server: its limits, and what it has counted. A login and two statements, one after the other.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use config::{BackendTarget, BackendUrl};
use sha2::{Digest as _, Sha256};
use wire::{
    AuthSwitch, Capabilities, CommandKind, EOF_HEADER, ERR_HEADER, ErrPacket, Greeting, LoginRequest,
    OK_HEADER, WireError, native_password, parse_column_count, parse_text_row, read_message,
};

use crate::NoAnswer;

/// What a server says about itself: its system and status variables, as far as anything here depends on them. Servers have not all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAnswer {
    max_connections: u64,
    variables: BTreeMap<String, String>,
    status: BTreeMap<String, String>,
}

/// Which system variables are asked for.
const VARIABLES: [&str; 11] = [
    "version",
    "max_connections",
    "max_user_connections",
    "open_files_limit",
    "table_open_cache",
    "back_log",
    "thread_handling",
    "thread_cache_size",
    "innodb_thread_concurrency",
    "max_prepared_stmt_count",
    "wait_timeout",
];

/// Which status variables.
const STATUS: [&str; 3] = ["Uptime", "Open_tables", "Opened_tables"];

impl ServerAnswer {
    /// What these variables make; names as the server spells them.
    ///
    /// # Errors
    /// Where `max_connections` is missing, or no number.
    pub fn of(
        variables: BTreeMap<String, String>,
        status: BTreeMap<String, String>,
    ) -> Result<Self, NoAnswer> {
        let max_connections = number(&variables, "max_connections");
        let max_connections = max_connections.ok_or(NoAnswer::NoLimit)?;
        Ok(Self { max_connections, variables, status })
    }

    /// Its `max_connections`.
    pub(crate) fn max_connections(&self) -> u64 {
        self.max_connections
    }

    /// Another system variable that is a number.
    pub(crate) fn number(&self, variable: &str) -> Option<u64> {
        number(&self.variables, variable)
    }

    /// Any other system variable.
    pub(crate) fn word(&self, variable: &str) -> Option<&str> {
        self.variables.get(variable).map(String::as_str)
    }

    /// What it has counted.
    pub(crate) fn counted(&self, variable: &str) -> Option<u64> {
        number(&self.status, variable)
    }
}

fn number(variables: &BTreeMap<String, String>, name: &str) -> Option<u64> {
    variables.get(name)?.parse().ok()
}

/// Logs in as `backend` says, asks, and leaves. Takes a few times [`TIMEOUT`] at most.
///
/// # Errors
/// Why not, in words that hold no password.
pub(crate) fn ask(backend: &BackendUrl) -> Result<ServerAnswer, NoAnswer> {
    ask_over(&mut connect(&backend.target)?, backend)
}

fn ask_over(connection: &mut Connection, backend: &BackendUrl) -> Result<ServerAnswer, NoAnswer> {
    log_in(connection, backend)?;
    let answer = question(connection);
    // So that the server logs no lost connection. It is closed next, whether this arrives or not.
    connection.sequence = 0;
    let _ = connection.send(&[CommandKind::Quit as u8]);
    answer
}

/// A person waits in front of the terminal; a server that is alive answers in milliseconds.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Far above all that is asked for here.
const LONGEST_MESSAGE: usize = 64 << 10;

/// utf8mb4_general_ci: every server since MySQL 5.5 and MariaDB 5.5 knows it.
const COLLATION: u8 = 45;

const NATIVE_PASSWORD: &[u8] = b"mysql_native_password";
const CACHING_SHA2_PASSWORD: &[u8] = b"caching_sha2_password";

/// Messages to and from a server. The sequence numbers of a command and its answer run on.
struct Connection {
    stream: Box<dyn Stream>,
    unread: Vec<u8>,
    sequence: u8,
    /// Whether nobody else can read along, so that a password may be sent as it is.
    is_private: bool,
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl Connection {
    fn new(stream: impl Stream + 'static, is_private: bool) -> Self {
        Self { stream: Box::new(stream), unread: Vec::new(), sequence: 0, is_private }
    }

    fn send(&mut self, payload: &[u8]) -> Result<(), NoAnswer> {
        let mut bytes = Vec::new();
        wire::put_message(&mut bytes, &mut self.sequence, payload);
        self.stream.write_all(&bytes).map_err(|error| broken(&error))
    }

    /// The next message, which is no error.
    fn receive(&mut self) -> Result<Vec<u8>, NoAnswer> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(message) = read_message(&self.unread, self.sequence, LONGEST_MESSAGE)? {
                let payload = message.payload.to_vec();
                let consumed = message.consumed;
                self.sequence = message.last_sequence.wrapping_add(1);
                self.unread.drain(..consumed);
                if payload.first() == Some(&ERR_HEADER) {
                    let error = ErrPacket::parse(&payload)?;
                    let message = String::from_utf8_lossy(error.message).into_owned();
                    return Err(NoAnswer::Refused { code: error.code, message });
                }
                return Ok(payload);
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(NoAnswer::Closed),
                Ok(count) => self.unread.extend_from_slice(&buffer[..count]),
                // The kernel interrupts a thread that has tried out io_uring once it has put that away.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(&error)),
            }
        }
    }
}

fn connect(target: &BackendTarget) -> Result<Connection, NoAnswer> {
    let set_up = |error: std::io::Error| broken(&error);
    let unreachable =
        |place: String, error: std::io::Error| NoAnswer::Unreachable { place, reason: error.to_string() };
    match target {
        BackendTarget::Unix(path) => {
            let stream =
                UnixStream::connect(path).map_err(|error| unreachable(path.display().to_string(), error))?;
            stream.set_read_timeout(Some(TIMEOUT)).map_err(set_up)?;
            stream.set_write_timeout(Some(TIMEOUT)).map_err(set_up)?;
            Ok(Connection::new(stream, true))
        }
        BackendTarget::Tcp { host, port } => {
            let addresses =
                (host.as_str(), *port).to_socket_addrs().map_err(|error| unreachable(host.clone(), error))?;
            let mut reason = NoAnswer::NoAddress(host.clone());
            for address in addresses {
                match TcpStream::connect_timeout(&address, TIMEOUT) {
                    Ok(stream) => {
                        stream.set_read_timeout(Some(TIMEOUT)).map_err(set_up)?;
                        stream.set_write_timeout(Some(TIMEOUT)).map_err(set_up)?;
                        return Ok(Connection::new(stream, false));
                    }
                    Err(error) => reason = unreachable(address.to_string(), error),
                }
            }
            Err(reason)
        }
    }
}

fn log_in(connection: &mut Connection, backend: &BackendUrl) -> Result<(), NoAnswer> {
    let payload = connection.receive()?;
    let greeting = Greeting::parse(&payload)?;
    // The account's own method, where it is another, is asked for in an AuthSwitch.
    let plugin = match greeting.auth_plugin {
        CACHING_SHA2_PASSWORD => CACHING_SHA2_PASSWORD,
        _ => NATIVE_PASSWORD,
    };
    let response = response(plugin, &backend.password, &greeting.scramble)?;
    let mut request = Vec::new();
    LoginRequest {
        capabilities: Capabilities::LONG_PASSWORD
            | Capabilities::PROTOCOL_41
            | Capabilities::TRANSACTIONS
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH,
        max_packet_size: LONGEST_MESSAGE as u32,
        collation: COLLATION,
        user: backend.user.as_bytes(),
        auth_response: &response,
        schema: None,
        auth_plugin: Some(plugin),
        attributes: b"",
    }
    .put(&mut request);
    connection.send(&request)?;
    loop {
        let payload = connection.receive()?;
        match payload[..] {
            [OK_HEADER, ..] => return Ok(()),
            [EOF_HEADER, ..] => {
                let switch = AuthSwitch::parse(&payload)?;
                let answer =
                    self::response(switch.plugin, &backend.password, &switch.scramble().unwrap_or_default())?;
                connection.send(&answer)?;
            }
            // https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html
            [MORE_DATA, FAST_AUTH_SUCCESS] => {}
            [MORE_DATA, PERFORM_FULL_AUTHENTICATION] if connection.is_private => {
                connection.send(&[backend.password.as_bytes(), b"\0"].concat())?;
            }
            [MORE_DATA, PERFORM_FULL_AUTHENTICATION] => {
                return Err(NoAnswer::WantsPassword);
            }
            _ => return Err(WireError::Malformed { what: "answer to the login request" }.into()),
        }
    }
}

const MORE_DATA: u8 = 1;
const FAST_AUTH_SUCCESS: u8 = 3;
const PERFORM_FULL_AUTHENTICATION: u8 = 4;

fn response(plugin: &[u8], password: &str, scramble: &[u8; 20]) -> Result<Vec<u8>, NoAnswer> {
    if password.is_empty() {
        return Ok(Vec::new());
    }
    match plugin {
        NATIVE_PASSWORD => {
            let stage1 = native_password::stage1(password.as_bytes());
            Ok(native_password::token(&stage1, scramble).to_vec())
        }
        // XOR(SHA256(password), SHA256(SHA256(SHA256(password)), scramble)).
        CACHING_SHA2_PASSWORD => {
            let first = Sha256::digest(password);
            let mask = Sha256::new().chain_update(Sha256::digest(first)).chain_update(scramble).finalize();
            Ok(first.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect())
        }
        other => Err(NoAnswer::OtherMethod(String::from_utf8_lossy(other).into_owned())),
    }
}

fn question(connection: &mut Connection) -> Result<ServerAnswer, NoAnswer> {
    let variables = show(connection, "VARIABLES", &VARIABLES)?;
    let status = show(connection, "STATUS", &STATUS)?;
    ServerAnswer::of(variables, status)
}

/// The global variables of these names that the server has.
fn show(
    connection: &mut Connection,
    what: &str,
    names: &[&str],
) -> Result<BTreeMap<String, String>, NoAnswer> {
    connection.sequence = 0;
    let list = names.join("', '");
    let text = format!("SHOW GLOBAL {what} WHERE Variable_name IN ('{list}')");
    connection.send(&[&[CommandKind::Query as u8], text.as_bytes()].concat())?;
    let columns = parse_column_count(&connection.receive()?)?;
    // The definitions, and the EOF after them: it was not agreed to leave it out.
    for _ in 0..=columns {
        connection.receive()?;
    }
    let mut found = BTreeMap::new();
    // A name has one value: what goes on for longer is no answer to this.
    for _ in 0..=names.len() {
        let payload = connection.receive()?;
        if payload.first() == Some(&EOF_HEADER) && payload.len() <= LONGEST_EOF {
            return Ok(found);
        }
        let row = parse_text_row(&payload)?;
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let [Some(name), Some(value)] = row[..] else { return Err(NoAnswer::OtherAnswer) };
        found.insert(text(name), text(value));
    }
    Err(NoAnswer::OtherAnswer)
}

/// A header, and two numbers of two bytes; longer ones begin the value of a row.
const LONGEST_EOF: usize = 5;

fn broken(error: &std::io::Error) -> NoAnswer {
    NoAnswer::Broken(error.to_string())
}

#[cfg(test)]
mod tests;
