//! The bytes that clients hold here, and what is done when these are too many.

pub(crate) mod backpressure;
pub(crate) mod bytes_held;
pub(crate) mod client_memory;
pub(crate) mod sent_ahead;
pub(in crate::client) mod session_memory;
