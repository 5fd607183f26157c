//! Where a driver listens.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A TCP address. Port 0 lets the system choose one. `[::]` takes IPv4 peers too, as `bind_address` of MySQL does
    /// (MySQL manual, "Server System Variables", `bind_address`).
    Tcp(SocketAddr),
    /// The path of a Unix socket, at most 107 bytes.
    Unix(PathBuf),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}
