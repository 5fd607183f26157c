//! How long a connection may be idle, where its client has set that.

use std::num::NonZeroU32;

/// Seconds, 1 to 31,536,000; `None` for what a new connection has.
pub(crate) type WaitTimeout = Option<NonZeroU32>;
