//! Compression with the server: the login asks for it where the server offers it, and the layer below does it from the OK on.
//!
//! The compression of clients has nothing to do with it.

use seam::{Compression, CompressionSide, ConnectionId};
use wire::Capabilities;

use crate::io::Io;
use crate::outside::event::Event;
use crate::outside::views::Views;
use crate::pool::Pool;
use crate::server::login::{Established, ZSTD_LEVEL};
use crate::settings::{ServerCompression, Settings};

/// Says whether packets of a connection with these capabilities come inside compressed ones. The packets' numbers say nothing then
/// ([`wire::ReplyOptions::backend_compressed`]).
pub(crate) fn is_compressed(agreed: Capabilities) -> bool {
    agreed.contains(Capabilities::COMPRESS) || agreed.contains(Capabilities::ZSTD_COMPRESSION)
}

impl Io {
    /// Notes that a login on the server has come to its end: compression begins where it was agreed on.
    pub(crate) fn start_server_compression(&mut self, connection: ConnectionId, agreed: Capabilities) {
        let compression = if agreed.contains(Capabilities::COMPRESS) {
            Compression::Zlib
        } else if agreed.contains(Capabilities::ZSTD_COMPRESSION) {
            Compression::Zstd { level: ZSTD_LEVEL }
        } else {
            return;
        };
        self.outbox.start_compression(connection, compression, CompressionSide::Client);
    }
}

impl Views {
    /// Logs that a server does not offer the compression that is asked for. Connections go on without it, as those of the server's own
    /// clients do (`--compress`).
    pub(crate) fn note_missing_compression(
        &mut self,
        settings: &Settings,
        pool: &Pool,
        established: &Established,
    ) {
        let (asked_for, wanted) = match settings.server_compression {
            ServerCompression::Off => return,
            ServerCompression::Zlib => (Capabilities::COMPRESS, "zlib"),
            ServerCompression::Zstd => (Capabilities::ZSTD_COMPRESSION, "zstd"),
        };
        // Each worker has asked the same server.
        if pool.worker == 0 && !established.offered.contains(asked_for) {
            self.event(Event::NotCompressed { wanted });
        }
    }
}
