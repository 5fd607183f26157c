//! The PROXY protocol, versions 1 and 2: a load balancer says whose connection it is that it hands on.
//!
//! [`ProxyProtocol`] is a [`seam::Program`] that holds one, between it and the driver. From peers that are trusted to say it, a
//! header at the beginning of a connection is taken off and handed on as [`seam::Input::Announced`]; a peer that sends none is
//! served as itself, as MariaDB does it (manual, "Proxy Protocol Support"). All other connections pass through. [`put`] writes a
//! header for whom we connect to.
//!
//! Source: the PROXY protocol's specification, <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>.

#![forbid(unsafe_code)]

mod header;
mod layer;
mod networks;

pub use header::{Header, Malformed, Parsed, parse, put, put_local};
pub use layer::ProxyProtocol;
pub use networks::{Networks, NoNetwork};
