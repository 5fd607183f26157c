//! How numbers and addresses stand in the tables.

use std::time::Duration;

use seam::Peer;

/// The host of who comes over a Unix socket, as servers name it.
pub(crate) const LOCALHOST: &str = "localhost";

/// Sixteen hexadecimal digits.
pub(crate) fn digest_name(fingerprint: u64) -> String {
    format!("{fingerprint:016x}")
}

/// In microseconds.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Where a client comes from, without the port.
pub(crate) fn host(peer: &Peer) -> String {
    match peer {
        Peer::Tcp(address) => address.ip().to_string(),
        Peer::Unix { .. } => String::from(LOCALHOST),
    }
}

/// Likewise with the port, where there is one.
pub(crate) fn address(peer: &Peer) -> String {
    match peer {
        Peer::Tcp(address) => address.to_string(),
        Peer::Unix { .. } => String::from(LOCALHOST),
    }
}
