//! Where connections go to and come from.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// Where to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP address.
    Tcp {
        /// The peer.
        remote: SocketAddr,
        /// The local address to connect from, where the choice matters (the load generator spreads its ports).
        local: Option<IpAddr>,
    },
    /// A Unix socket.
    Unix(PathBuf),
    /// A host of which no address has been found yet. Connecting to it fails at once, with [`HOST_NOT_FOUND`].
    NotFound {
        /// Its name.
        host: Arc<str>,
        /// The port, once there is an address.
        port: u16,
    },
}

/// Linux's number of an error (EDESTADDRREQ) that no attempt to connect to an address ends with.
pub const HOST_NOT_FOUND: i32 = 89;

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { remote, .. } => remote.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
            Self::NotFound { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// The other end of an accepted connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A TCP peer.
    Tcp(SocketAddr),
    /// A process on this machine, over a Unix socket, with the user id that the kernel vouches for.
    Unix {
        /// The peer's effective user id.
        uid: u32,
    },
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix { uid } => write!(f, "unix socket, uid {uid}"),
        }
    }
}
