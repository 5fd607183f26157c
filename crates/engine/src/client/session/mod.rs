//! The session of a client: its parts, and the reasons for which it ties the client to its backend.

pub(crate) mod named_resources;
pub(in crate::client) mod pins;
pub(crate) mod priority;
pub(in crate::client) mod standing;
pub(crate) mod trackers;
pub(crate) mod transaction;
pub(crate) mod variables;
pub(crate) mod wait_timeout;
