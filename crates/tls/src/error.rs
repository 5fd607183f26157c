//! Why there is no TLS.

use std::fmt;

use rustls_pki_types::pem;

/// Why a side of TLS cannot be made, by what is to be mended.
#[derive(Debug)]
pub enum Error {
    /// A file of the operator's.
    File {
        /// [`Pem::name`](crate::Pem::name).
        file: String,
        /// What is wrong with it. It shows nothing of a key.
        fault: FileFault,
    },
    /// The options: a server's certificate is to be checked, and by nobody.
    NoAuthority,
    /// Nothing: there is no certificate to show, so that TLS should not have been offered.
    NoCertificate,
    /// Nothing: there is no side for connections to servers, so that none should have been encrypted.
    NoConnector,
    /// The address: this cannot be the name of a host.
    NoHost(String),
    /// The system: a certificate cannot be made, for want of random bytes.
    NotMade(String),
    /// The system: session tickets have no keys, likewise.
    NoTicketKeys(rustls::Error),
    /// Whatever the library says.
    Library(rustls::Error),
}

/// What is wrong with a file.
#[derive(Debug)]
pub enum FileFault {
    /// It has no certificate.
    NoCertificate,
    /// It has one that cannot be read.
    UnreadableCertificate(pem::Error),
    /// It has a certificate that cannot sign others.
    NoAuthority(rustls::Error),
    /// Its authorities cannot be used, in the library's words.
    UselessAuthorities(rustls::server::VerifierBuilderError),
    /// It has no private key that can be read without a passphrase.
    NoKey(pem::Error),
    /// Its key cannot be used.
    UselessKey(rustls::Error),
    /// Its key is that of another certificate than the one in this file.
    OtherKey(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, fault } => match fault {
                FileFault::NoCertificate => write!(f, "{file} holds no certificate (PEM)"),
                FileFault::UnreadableCertificate(error) => {
                    write!(f, "{file} holds a certificate that cannot be read: {error}")
                }
                FileFault::NoAuthority(error) => {
                    write!(f, "{file} holds a certificate that cannot be an authority: {error}")
                }
                FileFault::UselessAuthorities(error) => write!(f, "{file}: {error}"),
                FileFault::NoKey(error) => {
                    write!(f, "{file} holds no private key without a passphrase (PEM): {error}")
                }
                FileFault::UselessKey(error) => write!(f, "{file}: {error}"),
                FileFault::OtherKey(certificate) => {
                    write!(f, "{file} is not the key of the certificate in {certificate}")
                }
            },
            Self::NoAuthority => f.write_str("a server's certificate is to be checked, but by no authority"),
            Self::NoCertificate => f.write_str("there is no certificate"),
            Self::NoConnector => f.write_str("there is nothing to check a server by"),
            Self::NoHost(name) => {
                write!(f, "{name:?} is neither a host's name nor an address, so no certificate can be for it")
            }
            Self::NotMade(reason) => write!(f, "no certificate can be made: {reason}"),
            Self::NoTicketKeys(error) => write!(f, "no keys for session tickets: {error}"),
            Self::Library(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<rustls::Error> for Error {
    fn from(error: rustls::Error) -> Self {
        Self::Library(error)
    }
}
