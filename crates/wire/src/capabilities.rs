//! The capabilities on which a client and a server agree: the flags of the greeting and of the login request.
//!
//! Sources: MySQL `include/mysql_com.h`, MariaDB `include/mysql_com.h`, and both manuals' pages on capability flags.

use std::fmt;

/// A set of `CLIENT_*` flags. The upper half are MariaDB's further flags, which travel in the filler of the greeting and the
/// login request between peers that leave out [`Self::LONG_PASSWORD`].
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// The flags that travel in the filler, MariaDB's own.
    pub const EXTENDED: Self = Self(0xffff_ffff << 32);
    /// No flags.
    pub const NONE: Self = Self(0);
    /// Sent by MySQL always. MariaDB calls it `CLIENT_MYSQL` and leaves it out to say that extended capabilities
    /// follow in the filler.
    pub const LONG_PASSWORD: Self = Self(1);
    /// The affected rows of an OK are those found, not those changed.
    pub const FOUND_ROWS: Self = Self(1 << 1);
    /// Column flags have two bytes.
    pub const LONG_FLAG: Self = Self(1 << 2);
    /// The login request names a schema.
    pub const CONNECT_WITH_DB: Self = Self(1 << 3);
    /// `schema.table.column` is not allowed.
    pub const NO_SCHEMA: Self = Self(1 << 4);
    /// Packets travel inside zlib-compressed ones.
    pub const COMPRESS: Self = Self(1 << 5);
    /// The client is an ODBC driver; without effect in the servers.
    pub const ODBC: Self = Self(1 << 6);
    /// The client can answer `LOAD DATA LOCAL`.
    pub const LOCAL_FILES: Self = Self(1 << 7);
    /// The parser takes spaces before a parenthesis (`sql_mode=IGNORE_SPACE`).
    pub const IGNORE_SPACE: Self = Self(1 << 8);
    /// The protocol since 4.1, the only one that this crate speaks.
    pub const PROTOCOL_41: Self = Self(1 << 9);
    /// `interactive_timeout` instead of `wait_timeout`.
    pub const INTERACTIVE: Self = Self(1 << 10);
    /// TLS starts after a shortened login request.
    pub const SSL: Self = Self(1 << 11);
    /// Used inside client libraries only.
    pub const IGNORE_SIGPIPE: Self = Self(1 << 12);
    /// Status flags are sent in OK and EOF.
    pub const TRANSACTIONS: Self = Self(1 << 13);
    /// Once `CLIENT_PROTOCOL_41`'s other name.
    pub const RESERVED: Self = Self(1 << 14);
    /// The auth response is a string after a length of one byte; scrambles have 20 bytes.
    pub const SECURE_CONNECTION: Self = Self(1 << 15);
    /// A query may hold several statements.
    pub const MULTI_STATEMENTS: Self = Self(1 << 16);
    /// A query may have several results.
    pub const MULTI_RESULTS: Self = Self(1 << 17);
    /// So may a prepared statement, OUT parameters among them.
    pub const PS_MULTI_RESULTS: Self = Self(1 << 18);
    /// Authentication plugins are named.
    pub const PLUGIN_AUTH: Self = Self(1 << 19);
    /// The login request carries connection attributes.
    pub const CONNECT_ATTRS: Self = Self(1 << 20);
    /// The auth response is a length-encoded string.
    pub const PLUGIN_AUTH_LENENC_DATA: Self = Self(1 << 21);
    /// The client can change an expired password.
    pub const CAN_HANDLE_EXPIRED_PASSWORDS: Self = Self(1 << 22);
    /// OK packets carry changes of session state.
    pub const SESSION_TRACK: Self = Self(1 << 23);
    /// Result sets end in an OK packet with the header 0xfe, and no EOF follows column definitions.
    pub const DEPRECATE_EOF: Self = Self(1 << 24);
    /// The client may go without column definitions (MySQL 8.0). Changes the head of a result set, which
    /// [`crate::ReplyReader`] does not follow.
    pub const OPTIONAL_RESULTSET_METADATA: Self = Self(1 << 25);
    /// Packets travel inside zstd-compressed ones (MySQL 8.0).
    pub const ZSTD_COMPRESSION: Self = Self(1 << 26);
    /// A query starts with attributes (MySQL 8.0.23).
    pub const QUERY_ATTRIBUTES: Self = Self(1 << 27);
    /// More than one authentication step (MySQL 8.0.27).
    pub const MULTI_FACTOR: Self = Self(1 << 28);
    /// Reserved for a further set of flags in MySQL; `CLIENT_PROGRESS_OBSOLETE` in MariaDB: the client takes progress
    /// reports, as of old.
    pub const CAPABILITY_EXTENSION: Self = Self(1 << 29);
    /// Used inside client libraries only.
    pub const SSL_VERIFY_SERVER_CERT: Self = Self(1 << 30);
    /// Used inside client libraries only.
    pub const REMEMBER_OPTIONS: Self = Self(1 << 31);
    /// `MARIADB_CLIENT_PROGRESS`: the client takes progress reports, ERR packets with the code 0xffff, which do not end a
    /// reply.
    pub const PROGRESS: Self = Self(1 << 32);
    /// `MARIADB_CLIENT_STMT_BULK_OPERATIONS`: `COM_STMT_BULK_EXECUTE` (MariaDB 10.2).
    pub const BULK_OPERATIONS: Self = Self(1 << 34);
    /// `MARIADB_CLIENT_EXTENDED_METADATA`: column definitions carry a further string for the type's name and format
    /// (MariaDB 10.5).
    pub const EXTENDED_METADATA: Self = Self(1 << 35);
    /// `MARIADB_CLIENT_CACHE_METADATA`: the head of a result set says whether column definitions follow, which are left out
    /// where they are those that came last (MariaDB 10.6).
    pub const CACHE_METADATA: Self = Self(1 << 36);
    /// `MARIADB_CLIENT_BULK_UNIT_RESULTS`: a bulk execution may ask for a result set of the ids and rows of each unit
    /// (MariaDB 11.5).
    pub const BULK_UNIT_RESULTS: Self = Self(1 << 37);

    /// From the two words of a greeting or login request: what the filler holds counts where `LONG_PASSWORD` is left out.
    pub(crate) const fn of_words(flags: u32, filler: u32) -> Self {
        let flags = Self(flags as u64);
        if flags.contains(Self::LONG_PASSWORD) { flags } else { Self(flags.0 | (filler as u64) << 32) }
    }

    /// The word that every peer knows.
    #[expect(clippy::cast_possible_truncation, reason = "the upper half is the filler's")]
    pub(crate) const fn word(self) -> u32 {
        self.0 as u32
    }

    /// The word in the filler.
    pub(crate) const fn filler(self) -> u32 {
        if self.contains(Self::LONG_PASSWORD) { 0 } else { (self.0 >> 32) as u32 }
    }
}

flag_operations!(Capabilities);

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Capabilities({:#x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_operations() {
        let both = Capabilities::SSL | Capabilities::PROTOCOL_41;
        assert_eq!(both, Capabilities(0x0a00));
        assert!(both.contains(Capabilities::SSL) && !both.contains(Capabilities::SSL | Capabilities::ODBC));
        assert_eq!(both & Capabilities::SSL, Capabilities::SSL);
        assert_eq!(both.without(Capabilities::SSL), Capabilities::PROTOCOL_41);
        let extended = Capabilities::of_words(0x0a00, 0x1d);
        assert_eq!((extended.word(), extended.filler()), (0x0a00, 0x1d));
        assert!(extended.contains(both | Capabilities::CACHE_METADATA));
        assert_eq!(extended.with(Capabilities::LONG_PASSWORD).filler(), 0);
        assert_eq!(Capabilities::of_words(1, 0x1d), Capabilities::LONG_PASSWORD);
        assert_eq!(format!("{both:?}"), "Capabilities(0xa00)");
    }
}
