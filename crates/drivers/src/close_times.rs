//! How long a connection that the program has closed may linger.

use std::time::Duration;

/// How long a close may go without its peer taking a byte, and how long the peer is heard out. A peer that is alive
/// takes bytes within round trips, and one lost packet or two are sent again within 5 seconds; one that does not read
/// would otherwise hold a socket and its unsent bytes for as long as it likes, which is how a server is run out of
/// both.
pub(crate) const CLOSE_STALL: Duration = Duration::from_secs(5);

/// How long a close may take as long as the peer takes bytes at all, or a byte every 5 seconds would do to hold on for
/// ever. MySQL waits as long for a write (`net_write_timeout`).
pub(crate) const CLOSE_TIME: Duration = Duration::from_secs(60);
