//! Light clients: a few dozen bytes each, and as much of the protocol as a login and plain statements need.

use seam::ConnectionId;

use super::server::PASSWORD;
use crate::protocol::{Cursor, HEADER, capability, command, native_token, packet, put_string};

/// One client.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// When the present statement was sent.
    pub sent: u64,
    /// When the present connection was begun.
    pub connected: u64,
    /// When the present statement began on the server; zero before that.
    pub begun: u64,
    /// Its connection, in its worker's table.
    pub connection: ConnectionId,
    /// Counts its statements.
    pub number: u32,
    /// How many times it has done its program.
    pub rounds: u32,
    /// Which group it is of.
    pub group: u16,
    /// Its worker.
    pub worker: u16,
    /// Where in its program it is; [`ROLLBACK`] behind an error in a transaction.
    pub step: u16,
    /// Counts what it waits for, so that what comes too late finds it gone.
    pub stamp: u16,
    /// What it does now.
    pub phase: Phase,
}

/// The step of a client that rolls back before it begins anew.
pub const ROLLBACK: u16 = u16::MAX;

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has no connection.
    Away,
    /// It waits for a greeting.
    Connecting,
    /// It waits for the answer to its login.
    LoggingIn,
    /// It will send something at a time.
    Thinking,
    /// It waits for an answer.
    Waiting,
    /// The same, and a part of it has come.
    Reading,
    /// It has nothing more to do.
    Finished,
}

impl Client {
    /// A client that is not there yet.
    pub fn new(group: u16) -> Self {
        Self {
            sent: 0,
            connected: 0,
            begun: 0,
            connection: ConnectionId { index: 0, generation: 0 },
            number: 0,
            rounds: 0,
            group,
            worker: 0,
            step: 0,
            stamp: 0,
            phase: Phase::Away,
        }
    }
}

/// What came from the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A greeting; this answers it.
    Greeting(Vec<u8>),
    /// An answer without an error.
    Ok,
    /// An answer that is an error, with its number.
    Error(u16),
    /// Rows whose end is still to come.
    Part,
}

/// Reads bytes that the engine has sent to a client of this user and schema. Its sends end at the end of packets.
pub fn hear(phase: Phase, user: &str, schema: Option<&str>, bytes: &[u8]) -> Heard {
    let mut rest = bytes;
    let mut first = phase != Phase::Reading;
    while let Some(payload) = next_packet(&mut rest) {
        match payload.first() {
            Some(10) if phase == Phase::Connecting => return greeting_answer(payload, user, schema),
            Some(0xff) => return Heard::Error(error_code(payload)),
            Some(0x00) if first => return Heard::Ok,
            Some(0xfe) if !first => return Heard::Ok,
            _ => first = false,
        }
    }
    Heard::Part
}

/// COM_QUERY.
pub fn query(text: &str) -> Vec<u8> {
    let mut payload = Vec::with_capacity(1 + text.len());
    payload.push(command::QUERY);
    payload.extend_from_slice(text.as_bytes());
    packet(0, &payload)
}

fn next_packet<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let header = rest.first_chunk::<HEADER>()?;
    let length = usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
    let payload = rest.get(HEADER..HEADER + length).expect("the engine sends whole packets");
    *rest = &rest[HEADER + length..];
    Some(payload)
}

fn error_code(payload: &[u8]) -> u16 {
    payload.get(1..3).map_or(0, |code| u16::from_le_bytes([code[0], code[1]]))
}

/// Protocol::HandshakeResponse41 to a greeting.
fn greeting_answer(greeting: &[u8], user: &str, schema: Option<&str>) -> Heard {
    const CAPABILITIES: u32 = 1
        | capability::PROTOCOL_41
        | capability::TRANSACTIONS
        | capability::SECURE_CONNECTION
        | capability::MULTI_RESULTS
        | capability::PLUGIN_AUTH
        | capability::DEPRECATE_EOF;
    let Some(scramble) = scramble_of(greeting) else { return Heard::Error(0) };
    let with_schema = schema.map_or(0, |_| capability::CONNECT_WITH_DB);
    let mut out = (CAPABILITIES | with_schema).to_le_bytes().to_vec();
    out.extend_from_slice(&(16u32 << 20).to_le_bytes());
    out.push(45); // utf8mb4_general_ci
    out.extend_from_slice(&[0; 23]);
    out.extend_from_slice(user.as_bytes());
    out.push(0);
    put_string(&mut out, &native_token(PASSWORD.as_bytes(), &scramble));
    if let Some(schema) = schema {
        out.extend_from_slice(schema.as_bytes());
        out.push(0);
    }
    out.extend_from_slice(b"mysql_native_password\0");
    Heard::Greeting(packet(1, &out))
}

fn scramble_of(greeting: &[u8]) -> Option<[u8; 20]> {
    let mut cursor = Cursor(greeting);
    cursor.byte()?;
    cursor.until_nul()?;
    cursor.long()?;
    let mut scramble = [0; 20];
    scramble[..8].copy_from_slice(cursor.take(8)?);
    cursor.take(1 + 2 + 1 + 2 + 2 + 1 + 10)?;
    scramble[8..].copy_from_slice(cursor.take(12)?);
    Some(scramble)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_a_few_dozen_bytes() {
        assert!(size_of::<Client>() <= 56, "{}", size_of::<Client>());
    }

    #[test]
    fn answers_are_told_apart() {
        assert_eq!(hear(Phase::Waiting, "app", None, &packet(1, &[0, 0, 0, 2, 0, 0, 0])), Heard::Ok);
        assert_eq!(
            hear(Phase::Waiting, "app", None, &packet(1, b"\xff\x10\x04#08004Too many")),
            Heard::Error(1040)
        );
        let head = [packet(1, &[1]), packet(2, b"\x03def")].concat();
        assert_eq!(hear(Phase::Waiting, "app", None, &head), Heard::Part);
        let tail = [packet(3, b"\x01x"), packet(4, &[0xfe, 0, 0, 2, 0, 0, 0])].concat();
        assert_eq!(hear(Phase::Reading, "app", None, &tail), Heard::Ok);
        assert_eq!(hear(Phase::Waiting, "app", None, &[head, tail].concat()), Heard::Ok);
    }
}
