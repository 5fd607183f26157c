//! A client's way in: the handshake, the proof of who it is, and TLS and compression, which the handshake settles.

pub(crate) mod attempt;
pub(crate) mod authentication;
pub(crate) mod compression;
pub(crate) mod delegation;
pub(crate) mod handshake;
pub(crate) mod late_refusals;
pub(crate) mod of_client;
pub(in crate::client) mod refusing;
pub(crate) mod schema;
pub(crate) mod security;
pub(in crate::client) mod tls;
