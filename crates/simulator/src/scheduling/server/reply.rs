//! What the modelled server writes.

use crate::protocol::{capability, put_packet, put_string, status};

/// What the server offers: no TLS, no compression. MariaDB leaves bit 0 unset.
const OFFERED: u32 = 0x81ff_f7fe & !capability::COMPRESS & !capability::SSL;

const VERSION: &str = "5.5.5-10.11.14-MariaDB-modelled";

/// The answer to one command, result by result.
#[derive(Debug)]
pub struct Reply {
    bytes: Vec<u8>,
    sequence: u8,
}

impl Reply {
    /// An answer to a command, whose packets count from 1.
    pub fn new() -> Self {
        Self { bytes: Vec::with_capacity(64), sequence: 1 }
    }

    /// The bytes of all results.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// An OK packet.
    pub fn ok(&mut self, status: u16) {
        self.end(0x00, status);
    }

    /// An ERR packet.
    pub fn error(&mut self, code: u16, state: &str, message: &str) {
        let mut payload = vec![0xff];
        payload.extend_from_slice(&code.to_le_bytes());
        payload.push(b'#');
        payload.extend_from_slice(state.as_bytes());
        payload.extend_from_slice(message.as_bytes());
        put_packet(&mut self.bytes, &mut self.sequence, &payload);
    }

    /// A result set of texts; all rows have `width` fields. Whoever connects to this server is one that has
    /// CLIENT_DEPRECATE_EOF.
    pub fn rows(&mut self, width: usize, rows: &[Vec<String>], status: u16) {
        let width = u8::try_from(width).expect("few columns");
        put_packet(&mut self.bytes, &mut self.sequence, &[width]);
        for _ in 0..width {
            put_packet(&mut self.bytes, &mut self.sequence, &DEFINITION);
        }
        let mut payload = Vec::new();
        for row in rows {
            payload.clear();
            row.iter().for_each(|field| put_string(&mut payload, field.as_bytes()));
            put_packet(&mut self.bytes, &mut self.sequence, &payload);
        }
        self.end(0xfe, status);
    }

    fn end(&mut self, header: u8, status: u16) {
        let [low, high] = status.to_le_bytes();
        put_packet(&mut self.bytes, &mut self.sequence, &[header, 0, 0, low, high, 0, 0]);
    }
}

/// A column definition: catalogue `def`, a column `c`, utf8mb4_general_ci, 1,024 bytes, MYSQL_TYPE_VAR_STRING.
const DEFINITION: [u8; 23] =
    [3, b'd', b'e', b'f', 0, 0, 0, 1, b'c', 0, 0x0c, 45, 0, 0, 4, 0, 0, 0xfd, 0, 0, 0x27, 0, 0];

/// The greeting: Protocol::HandshakeV10. The scramble matters to nobody: this server believes everybody.
pub fn greeting(thread: u32) -> Vec<u8> {
    let offered = OFFERED.to_le_bytes();
    let mut payload = vec![10];
    payload.extend_from_slice(VERSION.as_bytes());
    payload.push(0);
    payload.extend_from_slice(&thread.to_le_bytes());
    payload.extend_from_slice(b"scramble\0");
    payload.extend_from_slice(&offered[..2]);
    payload.push(45);
    payload.extend_from_slice(&status::AUTOCOMMIT.to_le_bytes());
    payload.extend_from_slice(&offered[2..]);
    payload.push(21);
    payload.extend_from_slice(&[0; 10]);
    payload.extend_from_slice(b"of no meanin\0mysql_native_password\0");
    let mut out = Vec::new();
    put_packet(&mut out, &mut 0, &payload);
    out
}

/// The answer to a login.
pub fn logged_in() -> Vec<u8> {
    let mut out = Vec::new();
    let [low, high] = status::AUTOCOMMIT.to_le_bytes();
    put_packet(&mut out, &mut 2, &[0, 0, 0, low, high, 0, 0]);
    out
}
