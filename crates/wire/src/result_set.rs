//! Small text result sets: written for answers of our own, and read for the few that we ask for ourselves.
//!
//! Sources: `send_field_metadata` and `Protocol_text` in MySQL `sql/protocol_classic.cc`, MariaDB `sql/protocol.cc`.

use crate::codec::{LENENC_NULL, put_lenenc_bytes, put_lenenc_int, put_u16, put_u32};
use crate::framing::{begin_packet, end_packet};
use crate::replies::EOF_HEADER;
use crate::{Capabilities, EofPacket, OkPacket, Reader, StatusFlags, WireError};

/// The reply to a prepare has two bytes for the number of columns; the servers themselves stop at 4096 (`MAX_FIELDS`).
const MOST_COLUMNS: u64 = 0xffff;

/// Types of columns, as far as answers of our own need them (`enum_field_types`).
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// `INT`.
    Long = 3,
    /// `DOUBLE`.
    Double = 5,
    /// `BIGINT`.
    LongLong = 8,
    /// `VARCHAR`, in utf8mb4.
    VarString = 253,
}

/// A column of a result set of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its type; values are text all the same.
    pub kind: ColumnType,
    /// How it is described, where that has to be what a server says of the same column.
    pub description: Option<ColumnDescription>,
}

/// A column definition's contents besides name and type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnDescription {
    /// The collation's number.
    pub collation: u16,
    /// The greatest width, in bytes.
    pub length: u32,
    /// `NOT_NULL_FLAG` (1), `UNSIGNED_FLAG` (32), `BINARY_FLAG` (128) and so on.
    pub flags: u16,
    /// Digits behind the point; 31 and 39 mean no fixed number.
    pub decimals: u8,
}

impl<'a> Column<'a> {
    /// A column of text.
    pub fn text(name: &'a str) -> Self {
        Self { name, kind: ColumnType::VarString, description: None }
    }

    /// A column of integers.
    pub fn integer(name: &'a str) -> Self {
        Self { name, kind: ColumnType::LongLong, description: None }
    }
}

/// Appends a text result set to a buffer, packet by packet: [`Self::begin`], [`Self::row`] for each row,
/// [`Self::finish`].
#[derive(Debug)]
#[must_use = "the result set has no end without finish"]
pub struct ResultSetWriter<'o> {
    out: &'o mut Vec<u8>,
    sequence: &'o mut u8,
    columns: usize,
    status: StatusFlags,
    capabilities: Capabilities,
}

impl<'o> ResultSetWriter<'o> {
    /// Appends the column definitions. `sequence` is the number of the first packet and is advanced; `status` goes into the end
    /// packets. The `capabilities` that the client agreed to decide the form of these, of the head and of the definitions.
    ///
    /// # Panics
    ///
    /// If there are no columns: that would be an OK.
    pub fn begin(
        out: &'o mut Vec<u8>,
        sequence: &'o mut u8,
        columns: &[Column<'_>],
        status: StatusFlags,
        capabilities: Capabilities,
    ) -> Self {
        assert!(!columns.is_empty(), "a result set has at least one column");
        let mut writer = Self { out, sequence, columns: columns.len(), status, capabilities };
        writer.packet(|out| {
            put_lenenc_int(out, columns.len() as u64);
            if capabilities.contains(Capabilities::CACHE_METADATA) {
                out.push(DEFINITIONS_FOLLOW);
            }
        });
        let extended = capabilities.contains(Capabilities::EXTENDED_METADATA);
        for column in columns {
            writer.packet(|out| put_column_definition(out, column, extended));
        }
        if !capabilities.contains(Capabilities::DEPRECATE_EOF) {
            writer.packet(|out| EofPacket { warnings: 0, status }.put(out));
        }
        writer
    }

    /// Appends a row; `None` is NULL.
    ///
    /// # Panics
    ///
    /// If the row has not as many values as there are columns: the client would lose its place.
    pub fn row(&mut self, values: &[Option<&[u8]>]) {
        assert_eq!(values.len(), self.columns, "a row has a value for each column");
        self.packet(|out| {
            for value in values {
                match value {
                    Some(value) => put_lenenc_bytes(out, value),
                    None => out.push(LENENC_NULL),
                }
            }
        });
    }

    /// Appends the end.
    pub fn finish(mut self) {
        let status = self.status;
        if self.capabilities.contains(Capabilities::DEPRECATE_EOF) {
            self.packet(|out| OkPacket { header: EOF_HEADER, ..OkPacket::plain(status) }.put(out, false));
        } else {
            self.packet(|out| EofPacket { warnings: 0, status }.put(out));
        }
    }

    fn packet(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        let start = begin_packet(self.out);
        put(self.out);
        end_packet(self.out, start, self.sequence);
    }
}

/// Behind the number of columns, where `CACHE_METADATA` was agreed on: their definitions follow.
pub const DEFINITIONS_FOLLOW: u8 = 1;

/// Reads the head of a result set: the number of columns, from 1 to 65,535.
///
/// A further byte would mean `OPTIONAL_RESULTSET_METADATA` or MariaDB's `CACHE_METADATA`, which change what follows; it
/// is malformed here.
pub fn parse_column_count(payload: &[u8]) -> Result<u64, WireError> {
    let mut reader = Reader::of("column count", payload);
    let count = reader.lenenc_int()?;
    if count == 0 || count > MOST_COLUMNS || !reader.is_empty() {
        return Err(WireError::Malformed { what: "column count" });
    }
    Ok(count)
}

/// A server's description of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnDefinition<'a> {
    /// The schema, empty for an expression.
    pub schema: &'a [u8],
    /// The table or its alias.
    pub table: &'a [u8],
    /// The table behind the alias.
    pub original_table: &'a [u8],
    /// The column or its alias.
    pub name: &'a [u8],
    /// The column behind the alias.
    pub original_name: &'a [u8],
    /// A collation's number; 63 is binary.
    pub collation: u16,
    /// The greatest length of a value, in bytes.
    pub length: u32,
    /// `enum_field_types`.
    pub kind: u8,
    /// `NOT_NULL_FLAG` and the like.
    pub flags: u16,
    /// Digits after the point; 31 for as many as there are.
    pub decimals: u8,
}

/// Reads a column definition. What stands behind the fixed part (a default value, in a field list) is ignored.
pub fn parse_column_definition(payload: &[u8]) -> Result<ColumnDefinition<'_>, WireError> {
    let mut reader = Reader::of("column definition", payload);
    reader.lenenc_bytes()?; // catalog, always "def"
    let schema = reader.lenenc_bytes()?;
    let table = reader.lenenc_bytes()?;
    let original_table = reader.lenenc_bytes()?;
    let name = reader.lenenc_bytes()?;
    let original_name = reader.lenenc_bytes()?;
    let mut fixed = Reader::of("column definition", reader.lenenc_bytes()?);
    Ok(ColumnDefinition {
        schema,
        table,
        original_table,
        name,
        original_name,
        collation: fixed.u16()?,
        length: fixed.u32()?,
        kind: fixed.u8()?,
        flags: fixed.u16()?,
        decimals: fixed.u8()?,
    })
}

/// Reads the values of a text row; `None` is NULL.
pub fn parse_text_row(payload: &[u8]) -> Result<Vec<Option<&[u8]>>, WireError> {
    let mut reader = Reader::of("text row", payload);
    let mut values = Vec::new();
    while !reader.is_empty() {
        values.push(reader.lenenc_bytes_or_null()?);
    }
    Ok(values)
}

fn put_column_definition(out: &mut Vec<u8>, column: &Column<'_>, extended: bool) {
    // Character set, length in bytes and decimals as the servers send them for these types: 45 is utf8mb4_general_ci,
    // 63 binary; 11, 20 and 22 are the widths of an INT, a BIGINT and a DOUBLE; 31 means no fixed number of decimals.
    let usual = |collation, length, decimals| ColumnDescription { collation, length, flags: 0, decimals };
    let ColumnDescription { collation, length, flags, decimals } =
        column.description.unwrap_or_else(|| match column.kind {
            ColumnType::VarString => usual(45, 1024, 0),
            ColumnType::Long => usual(63, 11, 0),
            ColumnType::LongLong => usual(63, 20, 0),
            ColumnType::Double => usual(63, 22, 31),
        });
    put_lenenc_bytes(out, b"def");
    put_lenenc_bytes(out, b""); // schema
    put_lenenc_bytes(out, b""); // table
    put_lenenc_bytes(out, b""); // original table
    put_lenenc_bytes(out, column.name.as_bytes());
    put_lenenc_bytes(out, b""); // original name
    if extended {
        put_lenenc_bytes(out, b""); // of no further type than the one below
    }
    out.push(12); // bytes of what follows
    put_u16(out, collation);
    put_u32(out, length);
    out.push(column.kind as u8);
    put_u16(out, flags);
    out.push(decimals);
    put_u16(out, 0); // filler
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_message;

    /// The payloads of all packets in `bytes`, which count up from 1.
    fn payloads(mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut payloads = Vec::new();
        while !bytes.is_empty() {
            let message = read_message(bytes, payloads.len() as u8 + 1, usize::MAX).unwrap().unwrap();
            payloads.push(message.payload.into_owned());
            bytes = &bytes[message.consumed..];
        }
        payloads
    }

    fn write(capabilities: Capabilities) -> Vec<Vec<u8>> {
        let (mut out, mut sequence) = (Vec::new(), 1);
        let columns = [Column::text("name"), Column::integer("value")];
        let status = StatusFlags::AUTOCOMMIT;
        let mut writer = ResultSetWriter::begin(&mut out, &mut sequence, &columns, status, capabilities);
        writer.row(&[Some(b"threads"), Some(b"4")]);
        writer.row(&[Some(b""), None]);
        writer.finish();
        let payloads = payloads(&out);
        assert_eq!(usize::from(sequence), payloads.len() + 1);
        payloads
    }

    #[test]
    fn what_is_written_can_be_read() {
        let packets = write(Capabilities::DEPRECATE_EOF);
        assert_eq!(packets.len(), 6);
        assert_eq!(parse_column_count(&packets[0]), Ok(2));
        let definition = parse_column_definition(&packets[2]).unwrap();
        assert_eq!((definition.name, definition.kind), (&b"value"[..], ColumnType::LongLong as u8));
        assert_eq!(parse_text_row(&packets[3]).unwrap(), [Some(&b"threads"[..]), Some(b"4")]);
        assert_eq!(parse_text_row(&packets[4]).unwrap(), [Some(&b""[..]), None]);
        assert_eq!(packets[5], [0xfe, 0, 0, 2, 0, 0, 0]);
    }

    #[test]
    fn old_clients_get_two_eofs() {
        let packets = write(Capabilities::NONE);
        assert_eq!(packets.len(), 7);
        assert_eq!(packets[3], [0xfe, 0, 0, 2, 0]);
        assert_eq!(packets[6], [0xfe, 0, 0, 2, 0]);
    }

    #[test]
    fn mariadbs_clients_get_what_they_agreed_to() {
        let extended = Capabilities::EXTENDED_METADATA | Capabilities::CACHE_METADATA;
        let (packets, plain) =
            (write(Capabilities::DEPRECATE_EOF | extended), write(Capabilities::DEPRECATE_EOF));
        assert_eq!(packets[0], [2, DEFINITIONS_FOLLOW]);
        // One byte for an empty string, between the names and the length of what follows them.
        let mut definition = plain[1].clone();
        definition.insert(definition.len() - 13, 0);
        assert_eq!(packets[1], definition);
        assert_eq!(packets[3..], plain[3..]);
    }

    #[test]
    fn a_servers_definition_is_read() {
        let payload = b"\x03def\x01t\x01b\x01a\x01y\x01x\x0c\x3f\x00\x0b\x00\x00\x00\x03\x01\x10\x00\x00\x00";
        let definition = parse_column_definition(payload).unwrap();
        assert_eq!(
            (definition.schema, definition.table, definition.original_table),
            (&b"t"[..], &b"b"[..], &b"a"[..])
        );
        assert_eq!((definition.name, definition.original_name), (&b"y"[..], &b"x"[..]));
        assert_eq!((definition.collation, definition.length, definition.kind), (63, 11, 3));
        assert_eq!((definition.flags, definition.decimals), (0x1001, 0));
        for cut in 0..payload.len() {
            assert!(parse_column_definition(&payload[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn other_heads_are_malformed() {
        for head in [&b"\x00"[..], b"\x01\x00", b"\xfb", b"\xff"] {
            assert!(parse_column_count(head).is_err(), "{head:?}");
        }
        assert_eq!(parse_column_count(b"\xfc\x00\x10"), Ok(4096));
        assert!(parse_text_row(b"\x05abc").is_err());
    }
}
