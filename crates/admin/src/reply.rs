//! Result sets, as packets.

use std::io::Write as _;

use wire::{
    Capabilities, Column, ColumnType, EOF_HEADER, EofPacket, OkPacket, ResultSetWriter, StatusFlags,
    begin_packet, end_packet, put_lenenc_bytes,
};

/// There are no transactions on the admin port.
pub(crate) const STATUS: StatusFlags = StatusFlags::AUTOCOMMIT;

/// NULL, in the place of a length (the manual's "Protocol::TextResultsetRow").
const NULL: u8 = 0xfb;

/// A value of a result.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a [u8]),
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.as_bytes())
    }
}

/// A result set whose rows are packets already. A column's type follows from all of its values, since SQLite gives each value a
/// type of its own.
pub(crate) struct ResultSet {
    columns: Vec<(String, Seen)>,
    deprecate_eof: bool,
    rows: Vec<u8>,
    sequence: u8,
}

/// The values that a column has had so far, the most general last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    Nothing,
    Integers,
    Reals,
    Text,
}

impl ResultSet {
    /// Without rows yet; `deprecate_eof` as agreed on with the client. There is at least one column.
    pub(crate) fn new(columns: impl IntoIterator<Item = String>, deprecate_eof: bool) -> Self {
        let columns: Vec<_> = columns.into_iter().map(|name| (name, Seen::Nothing)).collect();
        // The number of columns, their definitions, and an EOF for clients of old.
        let before = 1 + columns.len() + usize::from(!deprecate_eof);
        // Numbers wrap at 256.
        let sequence = u8::try_from((1 + before) % 256).expect("a remainder of 256");
        Self { columns, deprecate_eof, rows: Vec::new(), sequence }
    }

    /// Appends a row, with a value for each column.
    pub(crate) fn row<'a>(&mut self, cells: impl IntoIterator<Item = Cell<'a>>) {
        let start = begin_packet(&mut self.rows);
        let mut number = Vec::new();
        for ((_, seen), cell) in self.columns.iter_mut().zip(cells) {
            number.clear();
            let (kind, bytes) = match cell {
                Cell::Null => {
                    self.rows.push(NULL);
                    continue;
                }
                Cell::Integer(integer) => {
                    write!(number, "{integer}").expect("writing to memory cannot fail");
                    (Seen::Integers, number.as_slice())
                }
                Cell::Real(real) => {
                    write!(number, "{real}").expect("writing to memory cannot fail");
                    (Seen::Reals, number.as_slice())
                }
                Cell::Text(text) => (Seen::Text, text),
            };
            *seen = kind.max(*seen);
            put_lenenc_bytes(&mut self.rows, bytes);
        }
        end_packet(&mut self.rows, start, &mut self.sequence);
    }

    /// Bytes that it takes so far.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.len()
    }

    /// Appends all of it to `out`.
    pub(crate) fn put(mut self, out: &mut Vec<u8>, warnings: u16) {
        let columns: Vec<_> = self
            .columns
            .iter()
            .map(|(name, seen)| {
                let kind = match seen {
                    Seen::Integers => ColumnType::LongLong,
                    Seen::Reals => ColumnType::Double,
                    Seen::Nothing | Seen::Text => ColumnType::VarString,
                };
                Column { name, kind, description: None }
            })
            .collect();
        // Only the head: its own end could not carry the number of warnings.
        let form = if self.deprecate_eof { Capabilities::DEPRECATE_EOF } else { Capabilities::NONE };
        let _ = ResultSetWriter::begin(out, &mut 1, &columns, STATUS, form);
        out.append(&mut self.rows);
        let start = begin_packet(out);
        if self.deprecate_eof {
            OkPacket { header: EOF_HEADER, warnings, ..OkPacket::plain(STATUS) }.put(out, false);
        } else {
            EofPacket { warnings, status: STATUS }.put(out);
        }
        end_packet(out, start, &mut self.sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{parse_column_definition, parse_text_row, read_message};

    fn payloads(mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut payloads = Vec::new();
        while !bytes.is_empty() {
            let sequence = u8::try_from((payloads.len() + 1) % 256).unwrap();
            let message = read_message(bytes, sequence, usize::MAX).unwrap().unwrap();
            payloads.push(message.payload.to_vec());
            bytes = &bytes[message.consumed..];
        }
        payloads
    }

    #[test]
    fn types_follow_from_all_rows() {
        for deprecate_eof in [true, false] {
            let names = ["a", "b", "c", "d"].map(String::from);
            let mut result = ResultSet::new(names, deprecate_eof);
            result.row([Cell::Integer(1), Cell::Integer(2), Cell::Integer(3), Cell::Null]);
            result.row([Cell::Integer(-1), Cell::Real(2.5), Cell::from("x"), Cell::Null]);
            let mut out = Vec::new();
            result.put(&mut out, 7);
            let packets = payloads(&out);
            let kinds: Vec<_> =
                packets[1..5].iter().map(|packet| parse_column_definition(packet).unwrap().kind).collect();
            assert_eq!(kinds, [8, 5, 253, 253]);
            let rows = &packets[5 + usize::from(!deprecate_eof)..];
            assert_eq!(parse_text_row(&rows[1]).unwrap(), [Some(&b"-1"[..]), Some(b"2.5"), Some(b"x"), None]);
            assert_eq!(rows.len(), 3);
            let warnings = if deprecate_eof { rows[2][5] } else { rows[2][1] };
            assert_eq!(warnings, 7);
        }
    }

    #[test]
    fn packets_are_numbered_on_beyond_256_columns() {
        let mut result = ResultSet::new((0..300).map(|column| column.to_string()), true);
        result.row(std::iter::repeat_n(Cell::Null, 300));
        let mut out = Vec::new();
        result.put(&mut out, 0);
        assert_eq!(payloads(&out).len(), 303);
    }
}
