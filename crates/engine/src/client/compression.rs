//! Compression with clients: offered in the greeting, asked for in the login, and from its OK on the layer's affair below us.

use seam::{Compression, CompressionSide};
use wire::Capabilities;

use crate::engine::Engine;
use crate::ids::ClientKey;
use crate::settings::Settings;

/// Levels of zstd above this take milliseconds for each packet, which all clients of a worker would wait for.
const HIGHEST_LEVEL: u8 = 9;

/// What a greeting says of it: zlib, which all servers have, and zstd where the server has it.
pub(crate) fn offered(settings: &Settings, servers: Capabilities) -> Capabilities {
    match settings.compression {
        true => Capabilities::COMPRESS | (servers & Capabilities::ZSTD_COMPRESSION),
        false => Capabilities::NONE,
    }
}

/// What a login request asks for. Behind all else stands the level of zstd (`send_client_reply_packet` in MySQL's
/// `sql-common/client.cc`). With both, zlib it is, as on the server (`parse_client_handshake_packet`).
pub(crate) fn wanted(offered: Capabilities, asked: Capabilities, payload: &[u8]) -> Option<Compression> {
    let asked = asked & offered;
    if asked.contains(Capabilities::COMPRESS) {
        Some(Compression::Zlib)
    } else if asked.contains(Capabilities::ZSTD_COMPRESSION) {
        let level = payload.last().copied().unwrap_or_default().clamp(1, HIGHEST_LEVEL);
        Some(Compression::Zstd { level })
    } else {
        None
    }
}

impl Engine {
    /// The OK that ends a login or a COM_CHANGE_USER. What follows the former may be compressed.
    pub(crate) fn answer_login(&mut self, key: ClientKey, sequence: u8) {
        let proof = self.certificate_proof(key);
        let schema = self.schema_of_login(key);
        self.answer_ok_and_tell(key, sequence, &proof, &schema);
        let client = &mut self.clients[key];
        if let Some(until) = client.login_end.until.take() {
            let left = until.since(self.now);
            self.views.measures.logins.record(self.settings.connect_timeout.saturating_sub(left));
        }
        // It may have sent ahead.
        self.resume.push(key);
        if let Some(compression) = client.login_end.compression.take() {
            // A client need not wait for the OK: what it has sent ahead is compressed, too, and nobody has opened it.
            let ahead = std::mem::take(&mut client.input);
            self.hoards.statements.give_back(&mut client.counted);
            self.hoards.logins.give_back(&mut client.counted_for_login);
            self.io.outbox.start_compression(client.connection, compression, CompressionSide::Server);
            if !ahead.is_empty() {
                self.unread(key, &ahead);
            }
        }
    }
}
