//! Compression with clients: offered in the greeting, asked for in the login, and from its OK on the affair of the layer below us.

use seam::Compression;
use wire::Capabilities;

use crate::settings::Settings;

/// Levels of zstd above this take milliseconds for each packet, which all clients of a worker would wait for.
const HIGHEST_LEVEL: u8 = 9;

/// Returns the flags of a greeting for compression: zlib, which all servers have, and zstd where the server has it.
pub(crate) fn offered(settings: &Settings, servers: Capabilities) -> Capabilities {
    match settings.compression {
        true => Capabilities::COMPRESS | (servers & Capabilities::ZSTD_COMPRESSION),
        false => Capabilities::NONE,
    }
}

/// Returns the compression that a login request asks for. The level of zstd stands behind all else (`send_client_reply_packet` in
/// MySQL's `sql-common/client.cc`). Where both are asked for, zlib is taken, as on the server (`parse_client_handshake_packet`).
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
