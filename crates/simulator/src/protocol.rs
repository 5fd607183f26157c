//! As much of the MySQL protocol as the virtual clients and servers speak.
//!
//! Deliberately apart from the wire crate: a mistake there must not be repeated at both ends of a simulated
//! connection, where it would cancel out. The rules are those of the MariaDB documentation, "Clients & Utilities /
//! Protocol", checked against the packets of a MariaDB 10.11.

use sha1::{Digest as _, Sha1};

/// Bytes of a packet header: three of length, one sequence number.
pub const HEADER: usize = 4;

/// The capability flags that decide anything here.
pub mod capability {
    /// Report matched rows instead of changed ones.
    pub const FOUND_ROWS: u32 = 1 << 1;
    /// A schema follows the authentication data.
    pub const CONNECT_WITH_DB: u32 = 1 << 3;
    /// zlib compression of the stream.
    pub const COMPRESS: u32 = 1 << 5;
    /// LOAD DATA LOCAL INFILE.
    pub const LOCAL_FILES: u32 = 1 << 7;
    /// The 4.1 protocol, without which nobody speaks today.
    pub const PROTOCOL_41: u32 = 1 << 9;
    /// TLS after the greeting.
    pub const SSL: u32 = 1 << 11;
    /// Knows the status flags.
    pub const TRANSACTIONS: u32 = 1 << 13;
    /// Authentication data with a length byte.
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    /// Several statements in one COM_QUERY.
    pub const MULTI_STATEMENTS: u32 = 1 << 16;
    /// Several results to one COM_QUERY.
    pub const MULTI_RESULTS: u32 = 1 << 17;
    /// Several results to one COM_STMT_EXECUTE.
    pub const PS_MULTI_RESULTS: u32 = 1 << 18;
    /// Names its authentication plugin.
    pub const PLUGIN_AUTH: u32 = 1 << 19;
    /// Connection attributes.
    pub const CONNECT_ATTRS: u32 = 1 << 20;
    /// Authentication data with a length-encoded length.
    pub const PLUGIN_AUTH_LENENC: u32 = 1 << 21;
    /// Session changes in OK packets.
    pub const SESSION_TRACK: u32 = 1 << 23;
    /// OK packets where EOF packets were.
    pub const DEPRECATE_EOF: u32 = 1 << 24;
}

/// Status flags.
pub mod status {
    /// A transaction is open.
    pub const IN_TRANS: u16 = 1;
    /// Autocommit is on.
    pub const AUTOCOMMIT: u16 = 2;
    /// The result set's rows are to be fetched.
    pub const CURSOR_EXISTS: u16 = 1 << 6;
    /// Nothing is left to fetch.
    pub const LAST_ROW_SENT: u16 = 1 << 7;
    /// Another result follows.
    pub const MORE_RESULTS: u16 = 8;
    /// Backslashes in strings are ordinary characters.
    pub const NO_BACKSLASH_ESCAPES: u16 = 1 << 9;
    /// Session changes follow in this packet.
    pub const SESSION_STATE_CHANGED: u16 = 1 << 14;
}

/// Command bytes.
#[allow(missing_docs, reason = "the names are the protocol's own")]
pub mod command {
    pub const QUIT: u8 = 0x01;
    pub const INIT_DB: u8 = 0x02;
    pub const QUERY: u8 = 0x03;
    pub const FIELD_LIST: u8 = 0x04;
    pub const STATISTICS: u8 = 0x09;
    pub const PROCESS_KILL: u8 = 0x0c;
    pub const DEBUG: u8 = 0x0d;
    pub const PING: u8 = 0x0e;
    pub const CHANGE_USER: u8 = 0x11;
    pub const STMT_PREPARE: u8 = 0x16;
    pub const STMT_EXECUTE: u8 = 0x17;
    pub const STMT_SEND_LONG_DATA: u8 = 0x18;
    pub const STMT_CLOSE: u8 = 0x19;
    pub const STMT_RESET: u8 = 0x1a;
    pub const SET_OPTION: u8 = 0x1b;
    pub const STMT_FETCH: u8 = 0x1c;
    pub const RESET_CONNECTION: u8 = 0x1f;
}

/// Appends one packet and counts `sequence` up. Payloads stay below 16 MiB here.
pub fn put_packet(out: &mut Vec<u8>, sequence: &mut u8, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("simulated payloads are small");
    assert!(length < 0xff_ffff, "simulated payloads are small");
    out.extend_from_slice(&length.to_le_bytes()[..3]);
    out.push(*sequence);
    out.extend_from_slice(payload);
    *sequence = sequence.wrapping_add(1);
}

/// One packet with its header.
pub fn packet(mut sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + payload.len());
    put_packet(&mut out, &mut sequence, payload);
    out
}

/// Appends a length-encoded integer.
pub fn put_length(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_le_bytes();
    match value {
        0..=250 => out.push(bytes[0]),
        251..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Appends a length-encoded string.
pub fn put_string(out: &mut Vec<u8>, value: &[u8]) {
    put_length(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Reads a payload from its front. Every method gives `None` where the payload is too short.
#[derive(Clone, Debug)]
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    /// One byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// Two bytes.
    pub fn short(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    /// Four bytes.
    pub fn long(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A length-encoded integer.
    pub fn length(&mut self) -> Option<u64> {
        let width = match self.byte()? {
            small @ 0..=250 => return Some(u64::from(small)),
            0xfc => 2,
            0xfd => 3,
            0xfe => 8,
            _ => return None,
        };
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(self.take(width)?);
        Some(u64::from_le_bytes(bytes))
    }

    /// A length-encoded string.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(usize::try_from(length).ok()?)
    }

    /// Bytes up to a NUL, which is taken too.
    pub fn until_nul(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let text = self.take(end)?;
        self.byte()?;
        Some(text)
    }
}

/// Bytes of a stream on their way to packets.
#[derive(Clone, Debug, Default)]
pub struct PacketBuffer {
    bytes: Vec<u8>,
    start: usize,
    /// Bytes of the stream before the front.
    taken: u64,
}

/// One packet of a stream.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Its sequence number.
    pub sequence: u8,
    /// What follows the header.
    pub payload: Vec<u8>,
    /// Where in the stream its header began.
    pub offset: u64,
}

impl PacketBuffer {
    /// Appends what arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole packet.
    pub fn next_packet(&mut self) -> Option<Packet> {
        let bytes = &self.bytes[self.start..];
        let header = bytes.first_chunk::<HEADER>()?;
        let length = usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
        let payload = bytes.get(HEADER..HEADER + length)?.to_vec();
        let packet = Packet { sequence: header[3], payload, offset: self.taken };
        self.start += HEADER + length;
        self.taken += (HEADER + length) as u64;
        Some(packet)
    }

    /// Whether a part of a packet is waiting for the rest.
    pub fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }
}

/// SHA1 of SHA1 of the password: what servers store for `mysql_native_password`.
pub fn stored_password(password: &[u8]) -> [u8; 20] {
    sha1(&[&sha1(&[password])])
}

/// What proves the password under `mysql_native_password`: SHA1(password) xor SHA1(scramble, stored); empty for an
/// empty password.
pub fn native_token(password: &[u8], scramble: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let mask = sha1(&[scramble, &stored_password(password)]);
    sha1(&[password]).iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

/// The stored form as the account table shows it: `*` and 40 hex digits, or nothing without a password.
pub fn stored_text(password: &[u8]) -> String {
    if password.is_empty() {
        return String::new();
    }
    let digits: String = stored_password(password).iter().map(|byte| format!("{byte:02X}")).collect();
    format!("*{digits}")
}

fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    let mut hash = Sha1::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_survive_any_cut() {
        let mut stream = packet(0, b"one");
        stream.extend(packet(1, b""));
        stream.extend(packet(2, &[7; 300]));
        for cut in 0..stream.len() {
            let mut buffer = PacketBuffer::default();
            let mut found = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                buffer.push(part);
                while let Some(packet) = buffer.next_packet() {
                    found.push((packet.sequence, packet.payload.len(), packet.offset));
                }
            }
            assert_eq!(found, [(0, 3, 0), (1, 0, 7), (2, 300, 11)], "cut at {cut}");
            assert!(buffer.is_empty());
        }
    }

    #[test]
    fn lengths_read_back() {
        for value in [0, 250, 251, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000, u64::MAX] {
            let mut out = Vec::new();
            put_length(&mut out, value);
            assert_eq!(Cursor(&out).length(), Some(value));
            assert_eq!(Cursor(&out[..out.len() - 1]).length(), None);
        }
    }

    #[test]
    fn the_stored_password_is_what_a_server_shows() {
        // SELECT PASSWORD('pw') on MariaDB 10.11.
        assert_eq!(stored_text(b"pw"), "*D821809F681A40A6E379B50D0463EFAE20BDD122");
    }
}
