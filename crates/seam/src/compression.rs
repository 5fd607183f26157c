//! Kinds of compression.

/// Our side of a compressed connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionSide {
    /// The peer is a client, which sends commands.
    Server,
    /// The peer is a server, which answers commands.
    Client,
}

/// The method by which packets are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// zlib, of every version of the protocol.
    Zlib,
    /// zstd, since MySQL 8.0.18.
    Zstd {
        /// How hard to try, from 1 to 22.
        level: u8,
    },
}
