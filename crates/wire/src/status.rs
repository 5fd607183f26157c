//! The server's status flags, which every OK and EOF packet carries.
//!
//! Sources: MySQL `include/mysql_com.h` (`SERVER_STATUS_flags_enum`), MariaDB `include/mysql_com.h`.

use std::fmt;

/// A set of `SERVER_*` flags.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct StatusFlags(pub u16);

impl StatusFlags {
    /// No flags.
    pub const NONE: Self = Self(0);
    /// A transaction is open.
    pub const IN_TRANS: Self = Self(1);
    /// The session commits by itself.
    pub const AUTOCOMMIT: Self = Self(1 << 1);
    /// Another result follows in the same reply.
    pub const MORE_RESULTS_EXISTS: Self = Self(1 << 3);
    /// The statement used no good index.
    pub const NO_GOOD_INDEX_USED: Self = Self(1 << 4);
    /// The statement used no index.
    pub const NO_INDEX_USED: Self = Self(1 << 5);
    /// A cursor was opened: rows come only when they are fetched.
    pub const CURSOR_EXISTS: Self = Self(1 << 6);
    /// A fetch has reached the last row.
    pub const LAST_ROW_SENT: Self = Self(1 << 7);
    /// The schema in use was dropped.
    pub const DB_DROPPED: Self = Self(1 << 8);
    /// `sql_mode` holds `NO_BACKSLASH_ESCAPES`: quoting rules differ.
    pub const NO_BACKSLASH_ESCAPES: Self = Self(1 << 9);
    /// A prepared statement was prepared again and its columns changed.
    pub const METADATA_CHANGED: Self = Self(1 << 10);
    /// The statement took longer than `long_query_time`.
    pub const QUERY_WAS_SLOW: Self = Self(1 << 11);
    /// This result set holds the OUT parameters of a procedure.
    pub const PS_OUT_PARAMS: Self = Self(1 << 12);
    /// The open transaction is `READ ONLY`.
    pub const IN_TRANS_READONLY: Self = Self(1 << 13);
    /// Changes of session state follow in this OK packet.
    pub const SESSION_STATE_CHANGED: Self = Self(1 << 14);
    /// `sql_mode` holds `ANSI_QUOTES` (MariaDB).
    pub const ANSI_QUOTES: Self = Self(1 << 15);
}

flag_operations!(StatusFlags);

impl fmt::Debug for StatusFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatusFlags({:#06x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_operations() {
        let status = StatusFlags::NONE.with(StatusFlags::IN_TRANS) | StatusFlags::SESSION_STATE_CHANGED;
        assert_eq!(status, StatusFlags(0x4001));
        assert!(status.contains(StatusFlags::IN_TRANS) && !status.contains(StatusFlags::AUTOCOMMIT));
        assert_eq!(status.without(StatusFlags::IN_TRANS), StatusFlags::SESSION_STATE_CHANGED);
        assert_eq!(format!("{status:?}"), "StatusFlags(0x4001)");
    }
}
