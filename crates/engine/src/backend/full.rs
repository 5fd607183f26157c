//! A server that takes no more connections, and other errors with which servers refuse all.

use seam::Instant;

/// ER_CON_COUNT_ERROR: the server lives but takes no more connections.
pub(crate) const SERVER_FULL: u16 = 1040;

/// ER_SERVER_SHUTDOWN.
pub(crate) const SHUTDOWN: u16 = 1053;

/// ER_SERVER_OFFLINE_MODE: of a member that its group has left out.
pub(crate) const OFFLINE: u16 = 3032;

/// The server has refused a backend for want of room.
pub(crate) struct ServerFull {
    /// When it may be asked again.
    pub(crate) until: Instant,
    /// How often it has refused a granted place in a row.
    pub(super) tries: u32,
}
