//! Whether a client's connection is encrypted.

use seam::{ListenerId, TlsSession};
use wire::Capabilities;

use crate::settings::{ClientTls, Settings};

/// Whether a client's connection is encrypted.
#[derive(Debug)]
pub(crate) enum Security {
    /// It is not, and this is what its listener says about that.
    Plain(ClientTls),
    /// It is.
    Tls(Box<TlsSession>),
}

impl Security {
    pub(crate) fn of_listener(settings: &Settings, listener: ListenerId) -> Self {
        Self::Plain(settings.client_tls.get(usize::from(listener.0)).copied().unwrap_or_default())
    }

    /// What a greeting says of it.
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
