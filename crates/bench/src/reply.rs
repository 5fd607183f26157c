//! Finds where a reply ends, with a small state of fixed size and without keeping what it does not need. The wire crate
//! has a reader that relays every byte; this one only looks, and so serves as a second opinion on a proxy, too.
//!
//! Sources: `sql/protocol_classic.cc` (MySQL), `sql/protocol.cc` (MariaDB) and
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase.html>.

#[cfg(test)]
mod tests;

use wire::{
    EOF_HEADER, ERR_HEADER, ErrPacket, HEADER_LEN, LOCAL_INFILE_HEADER, MAX_PAYLOAD, OK_HEADER, Reader,
    StatusFlags, WireError,
};

/// How much of a packet is kept: an OK packet's fixed fields are at most 23 bytes, a checked row at most 40.
const KEPT: usize = 64;

/// How much of an error packet is kept: more than `MYSQL_ERRMSG_SIZE` (512) of both servers.
const KEPT_OF_ERROR: usize = 1024;

/// What kind of reply is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The results of COM_QUERY or COM_STMT_EXECUTE, or the OK of a simpler command.
    Results,
    /// The same, and somebody wants to see the first row.
    FirstRow,
    /// The answer to COM_STMT_PREPARE.
    Prepare,
}

/// Reads one reply after the other: [`ReplyReader::start`], then [`ReplyReader::read`] until the reply is complete,
/// then the accessors. Holds memory beside itself only between the pieces of a packet, for an error, and for a row that
/// somebody wants to see: there is one reader for each of a hundred thousand connections.
#[derive(Debug)]
pub struct ReplyReader {
    stage: Stage,
    deprecate_eof: bool,
    keep_row: bool,
    /// Of the next packet.
    sequence: u8,
    status: StatusFlags,
    rows: u32,
    prepared: u32,
    /// A packet of which a piece has come.
    begun: Option<Box<Begun>>,
    kept: Kept,
}

/// A packet that comes in pieces.
#[derive(Debug, Default)]
struct Begun {
    header: [u8; HEADER_LEN],
    header_filled: u8,
    /// Payload bytes that are still to come, once the header is there.
    missing: u32,
    /// As much of its front as anybody wants to know.
    front: Vec<u8>,
}

/// What is kept of a reply beyond its figures.
#[derive(Debug)]
enum Kept {
    Nothing,
    /// The payload of the first row, cut after [`KEPT`] bytes.
    Row(Box<[u8]>),
    /// The payload of the ERR packet that ended the reply, cut after [`KEPT_OF_ERROR`] bytes.
    Error(Box<[u8]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The first packet of a result.
    First,
    /// The first packet of a prepare reply.
    PrepareFirst,
    /// Definitions of columns, and an EOF after them unless it is deprecated.
    Columns { left: u32 },
    /// Rows until an EOF, or an OK in its place.
    Rows,
    /// Definitions of a prepared statement's parameters, then of its columns.
    Parameters { left: u16, columns: u16 },
    /// Definitions of a prepared statement's columns.
    PreparedColumns { left: u16 },
    /// Nothing is expected.
    Complete,
}

/// How a complete reply ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending<'a> {
    /// Well.
    Ok,
    /// With an ERR packet.
    Error(ErrPacket<'a>),
}

impl ReplyReader {
    /// A reader for a connection that has negotiated CLIENT_DEPRECATE_EOF or not.
    pub fn new(deprecate_eof: bool) -> Self {
        Self {
            stage: Stage::Complete,
            deprecate_eof,
            keep_row: false,
            sequence: 1,
            status: StatusFlags::NONE,
            rows: 0,
            prepared: 0,
            begun: None,
            kept: Kept::Nothing,
        }
    }

    /// A command has been sent; its reply is next.
    pub fn start(&mut self, expect: Expect) {
        self.stage = match expect {
            Expect::Results | Expect::FirstRow => Stage::First,
            Expect::Prepare => Stage::PrepareFirst,
        };
        self.keep_row = expect == Expect::FirstRow;
        self.sequence = 1;
        self.rows = 0;
        self.begun = None;
        self.kept = Kept::Nothing;
    }

    /// Takes in bytes. `Some(consumed)` when the reply is complete: bytes beyond that belong to no reply.
    ///
    /// # Errors
    /// What a server never sends: a wrong sequence number, a packet that does not parse, one of 16 MiB.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Option<usize>, WireError> {
        let mut rest = bytes;
        while self.stage != Stage::Complete {
            if self.begun.is_none() {
                if let Some((header, after)) = rest.split_first_chunk::<HEADER_LEN>() {
                    let length = self.begin_packet(*header)?;
                    if let Some((payload, after)) = after.split_at_checked(length) {
                        rest = after;
                        self.packet(length, payload)?;
                        continue;
                    }
                    self.begun = Some(Box::new(Begun {
                        header: *header,
                        header_filled: HEADER_LEN as u8,
                        missing: length as u32,
                        front: Vec::new(),
                    }));
                    rest = after;
                }
            }
            if rest.is_empty() || !self.take_piece(&mut rest)? {
                return Ok(None);
            }
        }
        Ok(Some(bytes.len() - rest.len()))
    }

    /// How the reply ended.
    pub fn ending(&self) -> Ending<'_> {
        let Kept::Error(payload) = &self.kept else { return Ending::Ok };
        // The packet was parsed when it came in.
        ErrPacket::parse(payload).map_or(Ending::Ok, Ending::Error)
    }

    /// How many rows it had, over all its results.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// The payload of its first row, cut after 64 bytes; empty unless [`Expect::FirstRow`] was.
    pub fn first_row(&self) -> &[u8] {
        if let Kept::Row(payload) = &self.kept { payload } else { &[] }
    }

    /// The status flags of its last OK or EOF.
    pub fn status(&self) -> StatusFlags {
        self.status
    }

    /// The id of the statement that was prepared.
    pub fn prepared(&self) -> u32 {
        self.prepared
    }

    /// A header is complete: how long the payload is.
    fn begin_packet(&mut self, header: [u8; HEADER_LEN]) -> Result<usize, WireError> {
        let [low, middle, high, sequence] = header;
        if sequence != self.sequence {
            return Err(WireError::WrongSequence { expected: self.sequence, found: sequence });
        }
        let length = u32::from_le_bytes([low, middle, high, 0]) as usize;
        if length == MAX_PAYLOAD {
            return Err(WireError::TooLarge { limit: MAX_PAYLOAD - 1 });
        }
        self.sequence = sequence.wrapping_add(1);
        Ok(length)
    }

    /// Takes a part of a packet that is not there as a whole. False where it goes on beyond these bytes.
    fn take_piece(&mut self, rest: &mut &[u8]) -> Result<bool, WireError> {
        let mut begun = self.begun.take().unwrap_or_default();
        let filled = begun.header_filled as usize;
        if filled < HEADER_LEN {
            let (piece, after) = rest.split_at(rest.len().min(HEADER_LEN - filled));
            begun.header[filled..filled + piece.len()].copy_from_slice(piece);
            begun.header_filled += piece.len() as u8;
            *rest = after;
            if (begun.header_filled as usize) < HEADER_LEN {
                self.begun = Some(begun);
                return Ok(false);
            }
            begun.missing = self.begin_packet(begun.header)? as u32;
        }
        let (piece, after) = rest.split_at(rest.len().min(begun.missing as usize));
        *rest = after;
        begun.missing -= piece.len() as u32;
        let is_error = begun.front.first().or(piece.first()) == Some(&ERR_HEADER);
        let room = if is_error { KEPT_OF_ERROR } else { KEPT }.saturating_sub(begun.front.len());
        begun.front.extend_from_slice(&piece[..piece.len().min(room)]);
        if begun.missing > 0 {
            self.begun = Some(begun);
            return Ok(false);
        }
        let [low, middle, high, _] = begun.header;
        self.packet(u32::from_le_bytes([low, middle, high, 0]) as usize, &begun.front)?;
        Ok(true)
    }

    /// A packet is complete; of a long one only the front may be here.
    fn packet(&mut self, length: usize, payload: &[u8]) -> Result<(), WireError> {
        let first = *payload.first().ok_or(WireError::Malformed { what: "empty packet in a reply" })?;
        // Neither a definition nor a row begins with this byte.
        if first == ERR_HEADER {
            return self.failed(payload);
        }
        match self.stage {
            Stage::First => match first {
                OK_HEADER => self.ended(payload),
                LOCAL_INFILE_HEADER => {
                    Err(WireError::Malformed { what: "LOAD DATA LOCAL was not asked for" })
                }
                _ => {
                    let count = Reader::of("column count", payload).lenenc_int()?;
                    let left =
                        u32::try_from(count).map_err(|_| WireError::Malformed { what: "column count" })?;
                    self.stage = Stage::Columns { left };
                    Ok(())
                }
            },
            Stage::Columns { left: 0 } => {
                // The EOF after the definitions.
                self.stage = Stage::Rows;
                expect_eof(first, length)
            }
            Stage::Columns { left } => {
                let rows_next = left == 1 && self.deprecate_eof;
                self.stage = if rows_next { Stage::Rows } else { Stage::Columns { left: left - 1 } };
                Ok(())
            }
            Stage::Rows => self.row_or_end(first, length, payload),
            Stage::PrepareFirst => self.prepare_first(payload),
            Stage::Parameters { left, columns } => {
                self.stage = self.definition(first, length, left)?.map_or_else(
                    || Self::prepared_columns(columns),
                    |left| Stage::Parameters { left, columns },
                );
                Ok(())
            }
            Stage::PreparedColumns { left } => {
                self.stage = self
                    .definition(first, length, left)?
                    .map_or(Stage::Complete, |left| Stage::PreparedColumns { left });
                Ok(())
            }
            Stage::Complete => Err(WireError::Malformed { what: "a packet after the reply" }),
        }
    }

    fn row_or_end(&mut self, first: u8, length: usize, payload: &[u8]) -> Result<(), WireError> {
        // A row may begin with 0xfe, too, but then it is longer than any end (8 bytes of length follow).
        let end_below = if self.deprecate_eof { MAX_PAYLOAD } else { 9 };
        if first == EOF_HEADER && length < end_below {
            return self.ended(payload);
        }
        if self.rows == 0 && self.keep_row {
            self.kept = Kept::Row(payload[..payload.len().min(KEPT)].into());
        }
        self.rows = self.rows.saturating_add(1);
        Ok(())
    }

    /// An OK or EOF packet that ends a result.
    fn ended(&mut self, payload: &[u8]) -> Result<(), WireError> {
        let mut reader = Reader::of("OK packet", payload);
        let header = reader.u8()?;
        self.status = if header == EOF_HEADER && !self.deprecate_eof {
            reader.u16()?; // warnings
            StatusFlags(reader.u16()?)
        } else {
            reader.lenenc_int()?; // affected rows
            reader.lenenc_int()?; // last insert id
            StatusFlags(reader.u16()?)
        };
        let more = self.status.contains(StatusFlags::MORE_RESULTS_EXISTS);
        self.stage = if more { Stage::First } else { Stage::Complete };
        Ok(())
    }

    fn failed(&mut self, payload: &[u8]) -> Result<(), WireError> {
        ErrPacket::parse(payload)?;
        self.kept = Kept::Error(payload[..payload.len().min(KEPT_OF_ERROR)].into());
        self.stage = Stage::Complete;
        Ok(())
    }

    fn prepare_first(&mut self, payload: &[u8]) -> Result<(), WireError> {
        let mut reader = Reader::of("prepare reply", payload);
        if reader.u8()? != OK_HEADER {
            return Err(WireError::Malformed { what: "prepare reply" });
        }
        self.prepared = reader.u32()?;
        let columns = reader.u16()?;
        let parameters = reader.u16()?;
        self.stage = match parameters {
            0 => Self::prepared_columns(columns),
            left => Stage::Parameters { left, columns },
        };
        Ok(())
    }

    fn prepared_columns(columns: u16) -> Stage {
        if columns == 0 { Stage::Complete } else { Stage::PreparedColumns { left: columns } }
    }

    /// One definition, or the EOF after the last: how many are left then, `None` where this block is over.
    fn definition(&self, first: u8, length: usize, left: u16) -> Result<Option<u16>, WireError> {
        match left {
            0 => expect_eof(first, length).map(|()| None),
            1 if self.deprecate_eof => Ok(None),
            _ => Ok(Some(left - 1)),
        }
    }
}

fn expect_eof(first: u8, length: usize) -> Result<(), WireError> {
    if first == EOF_HEADER && length < 9 {
        Ok(())
    } else {
        Err(WireError::Malformed { what: "EOF after definitions" })
    }
}
