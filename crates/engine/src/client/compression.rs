//! Compression with clients: offered in the greeting, asked for in the login, and from its OK on the layer's affair below us.

use seam::Compression;
use wire::Capabilities;

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
