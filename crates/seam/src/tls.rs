//! A program's view of TLS on one of its connections.

use std::fmt;
use std::net::IpAddr;

/// Which part we have in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsSide<'a> {
    /// The peer begins, and we show our certificate.
    Server {
        /// The peer's network, so that the handshakes of one network do not hold up all others: an address, or the first of a /64
        /// of IPv6. None for a peer on this machine.
        network: Option<IpAddr>,
    },
    /// We begin.
    Client {
        /// The host that the peer's certificate has to be for, where that is checked: a name or an IP address.
        server_name: &'a str,
    },
}

/// The protocol's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// RFC 5246.
    V1_2,
    /// RFC 8446.
    V1_3,
}

impl fmt::Display for TlsVersion {
    /// As the servers write it (`Ssl_version`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1_2 => "TLSv1.2",
            Self::V1_3 => "TLSv1.3",
        })
    }
}

/// The points on which two ends have agreed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSession {
    /// The protocol's version.
    pub version: TlsVersion,
    /// The cipher suite, by the name that OpenSSL and the servers give it (`Ssl_cipher`).
    pub cipher: &'static str,
    /// The peer's certificate, where it showed one. It has been verified if it was to be.
    pub peer: Option<Box<PeerCertificate>>,
    /// The SHA-256 digest of the certificate that the server of the two has shown, as that server knows it; `None` at its client.
    pub own_fingerprint: Option<[u8; 32]>,
}

/// The certificate that the peer has shown. Both names are in the form in which `REQUIRE SUBJECT` and `REQUIRE ISSUER` compare:
/// `/C=SE/O=Example/CN=app` (OpenSSL's `X509_NAME_oneline`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate {
    /// The name of its owner.
    pub subject: String,
    /// The name of its issuer.
    pub issuer: String,
}
