//! TLS between a driver and the program that it runs.
//!
//! [`Tls`] is a [`seam::Program`] that holds one. It passes everything through but for connections on which the program
//! inside has asked for TLS ([`seam::Output::StartTls`]): of these it decrypts what comes and encrypts what goes. The protocol
//! is rustls's, through its interface without buffers, so that an idle connection holds none. Handshakes of clients are handed
//! out ([`Tls::poll_handshake`]), so that those who are in do not wait for those who come.
//!
//! A server's side is an [`Acceptor`], a client's a [`Connector`]. Both are made from the text of PEM files ([`Pem`]) and can be
//! changed while connections stand; where the files are, and when they are read again, is for others to say. A thread that serves one
//! connection takes a [`BlockingStream`] instead.

#![forbid(unsafe_code)]

mod acceptor;
mod blocking;
mod certificate;
mod connector;
mod error;
mod handshake;
mod layer;
mod outbox;
mod pem;
mod session;
mod turns;

pub use acceptor::{Acceptor, Identity};
pub use blocking::BlockingStream;
pub use certificate::Validity;
pub use connector::{Connector, ServerCheck};
pub use error::{Error, FileFault};
pub use handshake::{Handshake, Outcome};
pub use layer::Tls;
pub use pem::{Authorities, Pem};
pub use turns::Turns;
