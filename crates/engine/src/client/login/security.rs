//! The encryption of a client's connection.

use seam::{ListenerId, TlsSession};
use wire::Capabilities;

use crate::settings::{ClientTls, Settings};

/// The encryption of a client's connection, or the rule of its listener.
#[derive(Debug)]
pub(crate) enum Security {
    /// The connection is not encrypted. The value is its listener's rule about that.
    Plain(ClientTls),
    /// The connection is encrypted, by this TLS session.
    Tls(Box<TlsSession>),
}

impl Security {
    pub(crate) fn of_listener(settings: &Settings, listener: ListenerId) -> Self {
        Self::Plain(settings.client_tls.get(usize::from(listener.0)).copied().unwrap_or_default())
    }

    /// Returns the flag by which a greeting offers encryption.
    pub(crate) fn offered(&self) -> Capabilities {
        match self {
            Self::Plain(ClientTls::Off) | Self::Tls(_) => Capabilities::NONE,
            Self::Plain(ClientTls::Allowed | ClientTls::Required) => Capabilities::SSL,
        }
    }
}

impl Default for Security {
    fn default() -> Self {
        Self::Plain(ClientTls::Off)
    }
}
