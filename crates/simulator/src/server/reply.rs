//! Answers of the virtual server as packets, in the way of the capabilities that the session negotiated.

use crate::protocol::{capability, put_length, put_packet, put_string, status};

/// A column's value: `None` is NULL.
pub type Value = Option<String>;

/// What one statement or command gives back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An OK packet.
    Ok {
        /// Rows that changed.
        affected: u64,
        /// The first id that was generated, or zero.
        insert_id: u64,
        /// Text for people.
        info: String,
    },
    /// A result set.
    Rows {
        /// Column names.
        columns: Vec<String>,
        /// The rows.
        rows: Vec<Vec<Value>>,
    },
    /// What SHOW WARNINGS shows: a result set that counts no warnings of its own.
    Diagnostics(Vec<Vec<Value>>),
    /// An ERR packet.
    Error(ServerError),
    /// The server wants this file from the client.
    LocalInfile(String),
}

impl Answer {
    /// An OK packet with nothing in it.
    pub fn done() -> Self {
        Self::Ok { affected: 0, insert_id: 0, info: String::new() }
    }
}

/// What an ERR packet says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// The error's number.
    pub code: u16,
    /// Its SQLSTATE.
    pub state: &'static str,
    /// Its text.
    pub message: String,
}

impl ServerError {
    /// An error.
    pub fn new(code: u16, state: &'static str, message: impl Into<String>) -> Self {
        Self { code, state, message: message.into() }
    }

    /// ER_PARSE_ERROR.
    pub fn syntax(near: &str) -> Self {
        Self::new(1064, "42000", format!("You have an error in your SQL syntax near '{near}'"))
    }

    /// The packet's payload.
    pub fn payload(&self) -> Vec<u8> {
        let mut out = vec![0xff];
        out.extend_from_slice(&self.code.to_le_bytes());
        out.push(b'#');
        out.extend_from_slice(self.state.as_bytes());
        out.extend_from_slice(self.message.as_bytes());
        out
    }
}

/// What ends a reply: the session's part of OK and EOF packets.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// Status flags, without SESSION_STATE_CHANGED.
    pub status: u16,
    /// Number of warnings.
    pub warnings: u16,
    /// Session changes, already encoded; empty for none.
    pub changes: Vec<u8>,
}

/// Writes packets of one reply, counting sequence numbers.
#[derive(Debug)]
pub struct ReplyWriter {
    /// The packets so far.
    pub out: Vec<u8>,
    sequence: u8,
    capabilities: u32,
    binary: bool,
}

impl ReplyWriter {
    /// A reply whose first packet has this sequence number; `binary` for rows of prepared statements.
    pub fn new(sequence: u8, capabilities: u32, binary: bool) -> Self {
        Self { out: Vec::new(), sequence, capabilities, binary }
    }

    /// Whether the session takes changes only in OK packets after result sets.
    pub fn deprecate_eof(&self) -> bool {
        self.capabilities & capability::DEPRECATE_EOF != 0
    }

    /// Any payload.
    pub fn packet(&mut self, payload: &[u8]) {
        put_packet(&mut self.out, &mut self.sequence, payload);
    }

    /// One answer.
    pub fn answer(&mut self, answer: &Answer, ending: &Ending) {
        match answer {
            Answer::Ok { affected, insert_id, info } => {
                self.ok(0x00, *affected, *insert_id, info, ending);
            }
            Answer::Rows { columns, rows } => self.rows(columns, rows, ending),
            Answer::Diagnostics(rows) => {
                let columns = ["Level", "Code", "Message"].map(str::to_owned);
                self.rows(&columns, rows, &Ending { warnings: 0, ..ending.clone() });
            }
            Answer::Error(error) => self.packet(&error.payload()),
            Answer::LocalInfile(name) => {
                let mut payload = vec![0xfb];
                payload.extend_from_slice(name.as_bytes());
                self.packet(&payload);
            }
        }
    }

    fn rows(&mut self, columns: &[String], rows: &[Vec<Value>], ending: &Ending) {
        self.column_count(columns.len());
        self.definitions(columns, ending);
        for row in rows {
            self.row(row);
        }
        self.end_of_rows(ending);
    }

    /// The head of a result set.
    pub fn column_count(&mut self, columns: usize) {
        let mut count = Vec::new();
        put_length(&mut count, columns as u64);
        self.packet(&count);
    }

    /// One row.
    pub fn row(&mut self, row: &[Value]) {
        let payload = if self.binary { binary_row(row) } else { text_row(row) };
        self.packet(&payload);
    }

    /// Column definitions and, for those who still want it, the EOF after them.
    pub fn definitions(&mut self, columns: &[String], ending: &Ending) {
        for name in columns {
            let payload = definition(name);
            self.packet(&payload);
        }
        if !self.deprecate_eof() {
            self.eof(ending);
        }
    }

    /// What ends a list of rows or definitions.
    pub fn end_of_rows(&mut self, ending: &Ending) {
        if self.deprecate_eof() { self.ok(0xfe, 0, 0, "", ending) } else { self.eof(ending) }
    }

    fn eof(&mut self, ending: &Ending) {
        let mut payload = vec![0xfe];
        payload.extend_from_slice(&ending.warnings.to_le_bytes());
        payload.extend_from_slice(&ending.status.to_le_bytes());
        self.packet(&payload);
    }

    /// An OK packet. MariaDB writes info and changes only where there are any (`net_send_ok`).
    pub fn ok(&mut self, header: u8, affected: u64, insert_id: u64, info: &str, ending: &Ending) {
        let tracked = self.capabilities & capability::SESSION_TRACK != 0 && !ending.changes.is_empty();
        let mut payload = vec![header];
        put_length(&mut payload, affected);
        put_length(&mut payload, insert_id);
        let flags = if tracked { ending.status | status::SESSION_STATE_CHANGED } else { ending.status };
        payload.extend_from_slice(&flags.to_le_bytes());
        payload.extend_from_slice(&ending.warnings.to_le_bytes());
        if tracked || !info.is_empty() {
            put_string(&mut payload, info.as_bytes());
        }
        if tracked {
            put_string(&mut payload, &ending.changes);
        }
        self.packet(&payload);
    }
}

/// A column definition: a text of any length.
fn definition(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for part in ["def", "", "", "", name, ""] {
        put_string(&mut out, part.as_bytes());
    }
    out.push(0x0c); // length of what follows
    out.extend_from_slice(&45u16.to_le_bytes()); // utf8mb4_general_ci
    out.extend_from_slice(&1024u32.to_le_bytes());
    out.push(0xfd); // MYSQL_TYPE_VAR_STRING
    out.extend_from_slice(&[0, 0, 0x27, 0, 0]); // flags, decimals, filler
    out
}

fn text_row(row: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for value in row {
        match value {
            Some(text) => put_string(&mut out, text.as_bytes()),
            None => out.push(0xfb),
        }
    }
    out
}

/// A row of the binary protocol: a bitmap of NULLs with an offset of two, then the values.
fn binary_row(row: &[Value]) -> Vec<u8> {
    let mut out = vec![0; 1 + (row.len() + 2).div_ceil(8)];
    for (column, value) in row.iter().enumerate() {
        match value {
            Some(text) => put_string(&mut out, text.as_bytes()),
            None => out[1 + (column + 2) / 8] |= 1 << ((column + 2) % 8),
        }
    }
    out
}
