//! The packets that end a reply: OK, ERR, EOF, and the changes of session state that an OK may carry.
//!
//! Sources: `net_send_ok`, `net_send_eof`, `net_send_error_packet` in MySQL `sql/protocol_classic.cc` and MariaDB
//! `sql/protocol.cc`; `sql/session_tracker.cc` of both.

use crate::codec::{put_lenenc_bytes, put_lenenc_int, put_u16};
use crate::{Reader, StatusFlags, WireError};

/// First byte of an OK.
pub const OK_HEADER: u8 = 0x00;
/// First byte of a `LOAD DATA LOCAL` request.
pub const LOCAL_INFILE_HEADER: u8 = 0xfb;
/// First byte of an EOF, and of the OK that takes its place.
pub const EOF_HEADER: u8 = 0xfe;
/// First byte of an ERR.
pub const ERR_HEADER: u8 = 0xff;

/// A statement succeeded, or (header 0xfe, where `DEPRECATE_EOF` was agreed on) a result set is at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OkPacket<'a> {
    /// [`OK_HEADER`] or [`EOF_HEADER`].
    pub header: u8,
    /// Rows changed, or found where the client asked for that.
    pub affected_rows: u64,
    /// The first value that the statement generated for an `AUTO_INCREMENT` column, or 0.
    pub last_insert_id: u64,
    /// The session's state.
    pub status: StatusFlags,
    /// Warnings of this statement.
    pub warnings: u16,
    /// A line for people, often empty.
    pub info: &'a [u8],
    /// For [`session_changes`]; empty unless the status has `SESSION_STATE_CHANGED`.
    pub session_changes: &'a [u8],
}

impl<'a> OkPacket<'a> {
    /// An OK without anything to say but the status.
    pub fn plain(status: StatusFlags) -> Self {
        Self {
            header: OK_HEADER,
            affected_rows: 0,
            last_insert_id: 0,
            status,
            warnings: 0,
            info: b"",
            session_changes: b"",
        }
    }

    /// Reads an OK's payload. `session_track`: whether that capability was agreed on with the sender.
    ///
    /// Without it both servers still write the info as a length-encoded string, though the manuals say "rest of the
    /// packet": what does not fit the first form is taken as the second.
    pub fn parse(payload: &'a [u8], session_track: bool) -> Result<Self, WireError> {
        let mut reader = Reader::of("OK packet", payload);
        let header = reader.u8()?;
        if header != OK_HEADER && header != EOF_HEADER {
            return Err(WireError::Malformed { what: "header of an OK packet" });
        }
        let affected_rows = reader.lenenc_int()?;
        let last_insert_id = reader.lenenc_int()?;
        let status = StatusFlags(reader.u16()?);
        let warnings = reader.u16()?;
        let (mut info, mut session_changes): (&[u8], &[u8]) = (b"", b"");
        if !session_track {
            info = info_to_the_end(reader);
        } else if !reader.is_empty() {
            info = reader.lenenc_bytes()?;
            if status.contains(StatusFlags::SESSION_STATE_CHANGED) {
                session_changes = changes(reader)?;
            }
        }
        Ok(Self { header, affected_rows, last_insert_id, status, warnings, info, session_changes })
    }

    /// Appends the payload. Without `session_track` the changes and the flag that announces them are left out; an empty
    /// info is not written then, as the servers do.
    pub fn put(&self, out: &mut Vec<u8>, session_track: bool) {
        let status =
            if session_track { self.status } else { self.status.without(StatusFlags::SESSION_STATE_CHANGED) };
        let changed = status.contains(StatusFlags::SESSION_STATE_CHANGED);
        out.push(self.header);
        put_lenenc_int(out, self.affected_rows);
        put_lenenc_int(out, self.last_insert_id);
        put_u16(out, status.0);
        put_u16(out, self.warnings);
        if changed || !self.info.is_empty() {
            put_lenenc_bytes(out, self.info);
        }
        if changed {
            put_lenenc_bytes(out, self.session_changes);
        }
    }
}

/// A change of session state, reported by a tracker of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChange<'a> {
    /// `session_track_system_variables`. NULL is reported as an empty value.
    SystemVariable {
        /// The variable's name.
        name: &'a [u8],
        /// Its new value as text.
        value: &'a [u8],
    },
    /// `session_track_schema`: the schema now in use, empty for none.
    Schema(&'a [u8]),
    /// `session_track_state_change`: something changed.
    StateChange,
    /// `session_track_gtids` (MySQL): a GTID set.
    Gtids(&'a [u8]),
    /// `session_track_transaction_info = CHARACTERISTICS`: the SQL that opens a transaction like this one, or empty.
    TransactionCharacteristics(&'a [u8]),
    /// `session_track_transaction_info`: eight letters, `T` or `_` first.
    TransactionState(&'a [u8]),
    /// A kind that this crate does not know.
    Other {
        /// Its number.
        kind: u8,
        /// Its body, undecoded.
        data: &'a [u8],
    },
}

/// Appends a change to those of an OK packet.
pub fn put_session_change(out: &mut Vec<u8>, change: &SessionChange<'_>) {
    let mut body = Vec::new();
    let kind = match *change {
        SessionChange::SystemVariable { name, value } => {
            put_lenenc_bytes(&mut body, name);
            put_lenenc_bytes(&mut body, value);
            0
        }
        SessionChange::Schema(name) => {
            put_lenenc_bytes(&mut body, name);
            1
        }
        SessionChange::StateChange => {
            body.extend_from_slice(b"1");
            2
        }
        SessionChange::Gtids(set) => {
            body.push(0);
            put_lenenc_bytes(&mut body, set);
            3
        }
        SessionChange::TransactionCharacteristics(sql) => {
            put_lenenc_bytes(&mut body, sql);
            4
        }
        SessionChange::TransactionState(letters) => {
            put_lenenc_bytes(&mut body, letters);
            5
        }
        SessionChange::Other { kind, data } => {
            body.extend_from_slice(data);
            kind
        }
    };
    out.push(kind);
    put_lenenc_bytes(out, &body);
}

/// Reads the changes of an OK packet one by one; stops for good after an error.
pub fn session_changes(raw: &[u8]) -> SessionChanges<'_> {
    SessionChanges { reader: Reader::of("session state change", raw) }
}

/// See [`session_changes`].
#[derive(Clone, Debug)]
pub struct SessionChanges<'a> {
    reader: Reader<'a>,
}

impl<'a> SessionChanges<'a> {
    /// The next change, and the bytes that say so: what of several is passed on, is passed on as it came.
    pub fn next_with_bytes(&mut self) -> Option<Result<(SessionChange<'a>, &'a [u8]), WireError>> {
        let mut all = self.reader;
        let all = all.rest();
        let change = self.next()?;
        let length = all.len() - self.reader.remaining();
        Some(change.map(|change| (change, &all[..length])))
    }
}

impl<'a> Iterator for SessionChanges<'a> {
    type Item = Result<SessionChange<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let change = session_change(&mut self.reader);
        if change.is_err() {
            self.reader.rest();
        }
        Some(change)
    }
}

fn session_change<'a>(reader: &mut Reader<'a>) -> Result<SessionChange<'a>, WireError> {
    let kind = reader.u8()?;
    let data = reader.lenenc_bytes()?;
    let mut body = Reader::of("session state change", data);
    // The numbers are `enum_session_state_type` in both servers' mysql_com.h.
    Ok(match kind {
        0 => SessionChange::SystemVariable { name: body.lenenc_bytes()?, value: body.lenenc_bytes()? },
        1 => SessionChange::Schema(body.lenenc_bytes()?),
        2 => SessionChange::StateChange,
        3 => {
            // The encoding of the set, always 0 (text) so far.
            if body.u8()? != 0 {
                return Ok(SessionChange::Other { kind, data });
            }
            SessionChange::Gtids(body.lenenc_bytes()?)
        }
        4 => SessionChange::TransactionCharacteristics(body.lenenc_bytes()?),
        5 => SessionChange::TransactionState(body.lenenc_bytes()?),
        _ => SessionChange::Other { kind, data },
    })
}

/// A statement failed, or a login was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrPacket<'a> {
    /// The server's error number.
    pub code: u16,
    /// The SQLSTATE; `HY000` where the packet has none.
    pub sql_state: [u8; 5],
    /// For people.
    pub message: &'a [u8],
}

impl<'a> ErrPacket<'a> {
    /// Reads an ERR's payload, with a SQLSTATE or without.
    pub fn parse(payload: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::of("ERR packet", payload);
        if reader.u8()? != ERR_HEADER {
            return Err(WireError::Malformed { what: "header of an ERR packet" });
        }
        let code = reader.u16()?;
        let mut with_state = reader;
        if let (Ok(b'#'), Ok(sql_state)) = (with_state.u8(), with_state.array()) {
            return Ok(Self { code, sql_state, message: with_state.rest() });
        }
        Ok(Self { code, sql_state: *b"HY000", message: reader.rest() })
    }

    /// Appends the payload, with the SQLSTATE.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(ERR_HEADER);
        put_u16(out, self.code);
        out.push(b'#');
        out.extend_from_slice(&self.sql_state);
        out.extend_from_slice(self.message);
    }

    /// Appends the payload as it is before the client has said what it speaks (instead of a greeting): without the
    /// SQLSTATE. Source: `net_send_error_packet`, which writes it only to clients with `CLIENT_PROTOCOL_41`.
    pub fn put_early(&self, out: &mut Vec<u8>) {
        out.push(ERR_HEADER);
        put_u16(out, self.code);
        out.extend_from_slice(self.message);
    }
}

/// The end of column definitions or rows, where `DEPRECATE_EOF` was not agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EofPacket {
    /// Warnings of this statement.
    pub warnings: u16,
    /// The session's state.
    pub status: StatusFlags,
}

impl EofPacket {
    /// Reads an EOF's payload: five bytes.
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::of("EOF packet", payload);
        if reader.u8()? != EOF_HEADER {
            return Err(WireError::Malformed { what: "header of an EOF packet" });
        }
        let eof = Self { warnings: reader.u16()?, status: StatusFlags(reader.u16()?) };
        if !reader.is_empty() {
            return Err(WireError::Malformed { what: "length of an EOF packet" });
        }
        Ok(eof)
    }

    /// Appends the payload.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(EOF_HEADER);
        put_u16(out, self.warnings);
        put_u16(out, self.status.0);
    }
}

/// MySQL 5.7 writes a length of 251 in a single byte, which then says that two more follow (`net_length_size`; seen with 5.7.22). With
/// those, there would be 254 bytes at least.
fn changes(mut reader: Reader<'_>) -> Result<&[u8], WireError> {
    let mut short = reader;
    if short.remaining() == 252 && short.u8()? == 0xfc {
        return Ok(short.rest());
    }
    reader.lenenc_bytes()
}

fn info_to_the_end(reader: Reader<'_>) -> &[u8] {
    let mut lenenc = reader;
    match lenenc.lenenc_bytes() {
        Ok(info) => info,
        Err(_) => {
            let mut plain = reader;
            plain.rest()
        }
    }
}

#[cfg(test)]
mod tests;
