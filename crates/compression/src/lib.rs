//! The compressed protocol between a driver and the program that it runs.
//!
//! [`Compressed`] is a [`seam::Program`] that holds one. It passes everything through but for connections on which the program
//! inside has asked for compression ([`seam::Output::StartCompression`]): the packets of these travel inside compressed ones, in
//! both directions.
//!
//! Sources: MySQL manual, "Compression" in the description of the client/server protocol; `net_write_packet`, `compress_packet`
//! and `net_read_packet_header` in MySQL's `sql-common/net_serv.cc`.

#![forbid(unsafe_code)]

mod codec;
mod layer;
mod stream;

pub use layer::Compressed;
