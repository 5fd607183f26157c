//! The PROXY protocol, versions 1 and 2: a load balancer says whose connection it hands on.
//!
//! [`ProxyProtocol`] is a [`seam::Program`] that holds one, between it and the driver. For peers that are trusted to send it, a
//! header at the beginning of a connection is taken off and handed on as [`seam::Input::Announced`]. A peer that sends none is
//! served as itself, as MariaDB does it (manual, "Proxy Protocol Support"). All other connections pass through. [`put`] writes
//! the header of a client for whom we connect.
//!
//! Source: the PROXY protocol's specification, <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>.

#![forbid(unsafe_code)]

mod header;
mod layer;
mod networks;

pub use header::{Header, Malformed, Parsed, parse, put, put_local};
pub use layer::ProxyProtocol;
pub use networks::{Networks, NoNetwork};
