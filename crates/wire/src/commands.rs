//! The commands of a client: the first byte of a command's payload says which command it is.
//!
//! Sources: MySQL `include/my_command.h`, MariaDB `include/mysql_com.h` (`enum_server_command`), and
//! `parse_packet`/`dispatch_command` in both servers for the bodies.

use crate::{Reader, WireError};

/// All command bytes that the servers know.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names are the protocol's own")]
pub enum CommandKind {
    Sleep = 0,
    Quit,
    InitDb,
    Query,
    FieldList,
    CreateDb,
    DropDb,
    Refresh,
    Shutdown,
    Statistics,
    ProcessInfo,
    Connect,
    ProcessKill,
    Debug,
    Ping,
    Time,
    DelayedInsert,
    ChangeUser,
    BinlogDump,
    TableDump,
    ConnectOut,
    RegisterSlave,
    StmtPrepare,
    StmtExecute,
    StmtSendLongData,
    StmtClose,
    StmtReset,
    SetOption,
    StmtFetch,
    Daemon,
    BinlogDumpGtid,
    ResetConnection,
    /// MySQL 8.0.17.
    Clone,
    /// MySQL 8.0.28, between servers.
    SubscribeGroupReplicationStream,
    /// MariaDB 10.2: `COM_STMT_BULK_EXECUTE`.
    StmtBulkExecute = 0xfa,
    /// MariaDB 10.2: `COM_MULTI`, never in use by servers that were released.
    Multi = 0xfe,
}

impl CommandKind {
    /// Every kind, in the order of the bytes.
    pub const ALL: [Self; 36] = [
        Self::Sleep,
        Self::Quit,
        Self::InitDb,
        Self::Query,
        Self::FieldList,
        Self::CreateDb,
        Self::DropDb,
        Self::Refresh,
        Self::Shutdown,
        Self::Statistics,
        Self::ProcessInfo,
        Self::Connect,
        Self::ProcessKill,
        Self::Debug,
        Self::Ping,
        Self::Time,
        Self::DelayedInsert,
        Self::ChangeUser,
        Self::BinlogDump,
        Self::TableDump,
        Self::ConnectOut,
        Self::RegisterSlave,
        Self::StmtPrepare,
        Self::StmtExecute,
        Self::StmtSendLongData,
        Self::StmtClose,
        Self::StmtReset,
        Self::SetOption,
        Self::StmtFetch,
        Self::Daemon,
        Self::BinlogDumpGtid,
        Self::ResetConnection,
        Self::Clone,
        Self::SubscribeGroupReplicationStream,
        Self::StmtBulkExecute,
        Self::Multi,
    ];

    /// The kind that a command byte names, or `None`.
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0xfa => Some(Self::StmtBulkExecute),
            0xfe => Some(Self::Multi),
            // The bytes up to here are the places in the list; a test holds that true.
            0..=0x21 => Some(Self::ALL[usize::from(byte)]),
            _ => None,
        }
    }
}

/// A command with its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Close the connection; there is no answer.
    Quit,
    /// `USE`: the schema's name.
    InitDb(&'a [u8]),
    /// A statement's text. Where [`crate::Capabilities::QUERY_ATTRIBUTES`] was agreed on, attributes come before it:
    /// [`crate::split_query_attributes`].
    Query(&'a [u8]),
    /// The columns of a table, as old clients ask for them.
    FieldList {
        /// The table's name.
        table: &'a [u8],
        /// A `LIKE` pattern, possibly empty.
        wildcard: &'a [u8],
    },
    /// A line of text about the server.
    Statistics,
    /// `KILL` with the low four bytes of a connection id.
    ProcessKill(u32),
    /// The server writes about itself to its log.
    Debug,
    /// Answered with OK.
    Ping,
    /// Log in as another user: the body, for [`crate::ChangeUser::parse`].
    ChangeUser(&'a [u8]),
    /// Prepare a statement: its text.
    StmtPrepare(&'a [u8]),
    /// Run a prepared statement.
    StmtExecute {
        /// Its id.
        statement: u32,
        /// [`CURSOR_READ_ONLY`] and further cursor flags; [`PARAMETER_COUNT_AVAILABLE`].
        flags: u8,
        /// The bytes behind the flags: the iteration count (four bytes, always 1), then parameters.
        body: &'a [u8],
    },
    /// Run a prepared statement for several lists of values (MariaDB, [`crate::Capabilities::BULK_OPERATIONS`]).
    StmtBulkExecute {
        /// Its id.
        statement: u32,
        /// [`BULK_SENDS_TYPES`], [`BULK_UNIT_RESULTS`].
        flags: u16,
        /// The bytes behind the flags: types where they say so, then for each list each value behind a byte that says whether it
        /// is there.
        body: &'a [u8],
    },
    /// A piece of a parameter's value. There is no answer, not even to an error.
    StmtSendLongData {
        /// The statement's id.
        statement: u32,
        /// The parameter, from 0.
        parameter: u16,
        /// The piece.
        data: &'a [u8],
    },
    /// Forget a prepared statement; there is no answer.
    StmtClose(u32),
    /// Forget a prepared statement's long data and cursor.
    StmtReset(u32),
    /// Rows of an open cursor.
    StmtFetch {
        /// The statement's id.
        statement: u32,
        /// How many rows at most.
        rows: u32,
    },
    /// 0 turns several statements per query on, 1 turns them off.
    SetOption(u16),
    /// Session state back to what it is after a login.
    ResetConnection,
    /// Any other command byte, known ([`CommandKind::from_byte`]) or not.
    Unsupported(u8),
}

/// In the flags of [`Command::StmtExecute`]: open a cursor instead of sending rows.
pub const CURSOR_READ_ONLY: u8 = 1;

/// In the flags of [`Command::StmtExecute`]: a parameter count precedes the parameters (query attributes, MySQL 8.0).
pub const PARAMETER_COUNT_AVAILABLE: u8 = 8;

/// `STMT_BULK_FLAG_CLIENT_SEND_TYPES`, in the flags of [`Command::StmtBulkExecute`]: types precede the values.
pub const BULK_SENDS_TYPES: u16 = 128;

/// `STMT_BULK_FLAG_SEND_UNIT_RESULTS`, likewise: the answer is a result set with a row for each list.
pub const BULK_UNIT_RESULTS: u16 = 64;

impl<'a> Command<'a> {
    /// Reads a command's payload. Bytes behind the last field are ignored, as the servers do.
    ///
    /// # Errors
    ///
    /// [`WireError::Malformed`] for an empty payload and [`WireError::Truncated`] where a field is missing.
    pub fn parse(payload: &'a [u8]) -> Result<Self, WireError> {
        let Some((&byte, body)) = payload.split_first() else {
            return Err(WireError::Malformed { what: "empty command" });
        };
        let Some(kind) = CommandKind::from_byte(byte) else { return Ok(Self::Unsupported(byte)) };
        let mut reader = Reader::of("command", body);
        Ok(match kind {
            CommandKind::Quit => Self::Quit,
            CommandKind::InitDb => Self::InitDb(body),
            CommandKind::Query => Self::Query(body),
            CommandKind::FieldList => {
                Self::FieldList { table: reader.nul_terminated()?, wildcard: reader.rest() }
            }
            CommandKind::Statistics => Self::Statistics,
            CommandKind::ProcessKill => Self::ProcessKill(reader.u32()?),
            CommandKind::Debug => Self::Debug,
            CommandKind::Ping => Self::Ping,
            CommandKind::ChangeUser => Self::ChangeUser(body),
            CommandKind::StmtPrepare => Self::StmtPrepare(body),
            CommandKind::StmtExecute => {
                Self::StmtExecute { statement: reader.u32()?, flags: reader.u8()?, body: reader.rest() }
            }
            CommandKind::StmtBulkExecute => {
                Self::StmtBulkExecute { statement: reader.u32()?, flags: reader.u16()?, body: reader.rest() }
            }
            CommandKind::StmtSendLongData => Self::StmtSendLongData {
                statement: reader.u32()?,
                parameter: reader.u16()?,
                data: reader.rest(),
            },
            CommandKind::StmtClose => Self::StmtClose(reader.u32()?),
            CommandKind::StmtReset => Self::StmtReset(reader.u32()?),
            CommandKind::StmtFetch => Self::StmtFetch { statement: reader.u32()?, rows: reader.u32()? },
            CommandKind::SetOption => Self::SetOption(reader.u16()?),
            CommandKind::ResetConnection => Self::ResetConnection,
            _ => Self::Unsupported(byte),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_byte() {
        for kind in CommandKind::ALL {
            assert_eq!(CommandKind::from_byte(kind as u8), Some(kind));
        }
        let known = (0..=255).filter(|&byte| CommandKind::from_byte(byte).is_some()).count();
        assert_eq!(known, CommandKind::ALL.len());
        assert_eq!(CommandKind::ResetConnection as u8, 0x1f);
        assert_eq!(CommandKind::StmtExecute as u8, 0x17);
    }

    #[test]
    fn fields_are_read_where_they_are() {
        assert_eq!(Command::parse(b"\x03select 1"), Ok(Command::Query(b"select 1")));
        assert_eq!(Command::parse(b"\x03"), Ok(Command::Query(b"")));
        assert_eq!(Command::parse(b"\x04t1\0a%"), Ok(Command::FieldList { table: b"t1", wildcard: b"a%" }));
        assert_eq!(Command::parse(&[0x0c, 5, 1, 0, 0]), Ok(Command::ProcessKill(261)));
        assert_eq!(
            Command::parse(&[0x17, 2, 0, 0, 0, 1, 1, 0, 0, 0]),
            Ok(Command::StmtExecute { statement: 2, flags: CURSOR_READ_ONLY, body: &[1, 0, 0, 0] })
        );
        assert_eq!(
            Command::parse(&[0xfa, 2, 0, 0, 0, 128, 0, 3, 0]),
            Ok(Command::StmtBulkExecute { statement: 2, flags: BULK_SENDS_TYPES, body: &[3, 0] })
        );
        assert_eq!(
            Command::parse(&[0x18, 2, 0, 0, 0, 1, 0, b'x']),
            Ok(Command::StmtSendLongData { statement: 2, parameter: 1, data: b"x" })
        );
        assert_eq!(
            Command::parse(&[0x1c, 2, 0, 0, 0, 9, 0, 0, 0]),
            Ok(Command::StmtFetch { statement: 2, rows: 9 })
        );
        assert_eq!(Command::parse(&[0x1b, 1, 0]), Ok(Command::SetOption(1)));
        assert_eq!(Command::parse(&[0x0e]), Ok(Command::Ping));
    }

    #[test]
    fn replication_and_unknown_bytes_are_unsupported() {
        assert_eq!(Command::parse(&[0x12, 0, 0]), Ok(Command::Unsupported(0x12)));
        assert_eq!(Command::parse(&[0x99]), Ok(Command::Unsupported(0x99)));
    }

    #[test]
    fn what_is_missing_is_an_error() {
        assert_eq!(Command::parse(b""), Err(WireError::Malformed { what: "empty command" }));
        for short in [&[0x0c, 1, 2, 3][..], &[0x17, 1, 0, 0, 0], &[0x19], &[0x1b, 0], b"\x04no end"] {
            assert_eq!(Command::parse(short), Err(WireError::Truncated { what: "command" }));
        }
    }
}
