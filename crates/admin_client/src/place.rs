//! Where an admin port is, and as whom it is asked.

use std::path::PathBuf;
use std::sync::Arc;

use login::Credentials;
use tls::Connector;

/// Where an admin port is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A name or an address, and the TCP port.
    Tcp(String, u16),
    /// A Unix socket.
    Socket(PathBuf),
}

impl Target {
    /// For people: a host with its port, or a path.
    pub fn text(&self) -> String {
        match self {
            Self::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
            Self::Tcp(host, port) => format!("{host}:{port}"),
            Self::Socket(path) => path.display().to_string(),
        }
    }
}

/// Whether a connection is inside TLS. Sockets of this machine have none.
#[derive(Clone)]
pub enum Encryption {
    /// Never.
    Off,
    /// Where the admin port offers it.
    WhereOffered(Arc<Connector>),
    /// Or there is no connection.
    Always(Arc<Connector>),
}

impl Encryption {
    pub(crate) fn connector(&self) -> Option<&Connector> {
        match self {
            Self::Off => None,
            Self::WhereOffered(connector) | Self::Always(connector) => Some(connector),
        }
    }
}

/// What errors call the options by which whoever reads them has said where an admin port is.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// The one that names a host.
    pub host: &'static str,
    /// The one that names a socket.
    pub socket: &'static str,
    /// All that say where it is.
    pub all: &'static str,
}

/// Where to connect to, and as whom.
pub struct Place {
    pub(crate) target: Target,
    pub(crate) credentials: Credentials,
    pub(crate) encryption: Encryption,
    pub(crate) names: Names,
}

impl Place {
    /// For a user with this password.
    pub fn new(target: Target, user: &str, password: &str, encryption: Encryption, names: Names) -> Self {
        // The admin port knows no other method, and who stands in its place is told nothing.
        let credentials = Credentials::new(user, password, None, false).with_native_password_only();
        let (credentials, encryption) = match (encryption, &target) {
            (Encryption::Off, _) | (_, Target::Socket(_)) => (credentials, Encryption::Off),
            (offered @ Encryption::WhereOffered(_), _) => (credentials.with_tls_where_offered(), offered),
            (always @ Encryption::Always(_), _) => (credentials.with_tls(), always),
        };
        Self { target, credentials, encryption, names }
    }

    /// A host with its port, or a path.
    pub fn target(&self) -> String {
        self.target.text()
    }

    /// As whom, and where.
    pub fn account(&self) -> String {
        format!("{}@{}", self.credentials.user(), self.target())
    }

    /// The name that a certificate has to be for.
    pub(crate) fn host(&self) -> &str {
        match &self.target {
            Target::Tcp(host, _) => host,
            Target::Socket(_) => "",
        }
    }
}
