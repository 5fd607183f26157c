//! A backend's way in: the connection to the server, the login there, and servers that refuse either.

pub(crate) mod compression;
pub(crate) mod connect;
pub(crate) mod full;
pub(in crate::backend) mod logging_in;
pub(crate) mod reachability;
pub(crate) mod refused;
pub(crate) mod replaced;
pub(crate) mod rights;
pub(crate) mod security;
