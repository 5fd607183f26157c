//! How much room a worker has taken for prepared statements on a server.

use std::time::Duration;

use seam::Instant;

/// Attempts while room is being made do not count. Other workers answer in their next turns, unless they have come to their end,
/// and the server when it has the time.
const MADE_WITHIN: Duration = Duration::from_secs(10);

/// How much this worker has taken, and whether it has asked others for more.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// The statements that are prepared on all its backends.
    pub(crate) taken: usize,
    /// How many other workers have not answered yet, since when.
    pub(super) awaited: Option<(usize, Instant)>,
    /// On how many backends of ours the server has not come to what was closed there, since when.
    pub(super) closing: Option<(usize, Instant)>,
    /// Workers that are answered once it has.
    pub(super) owed: Vec<usize>,
}

impl Room {
    /// Says whether room is still being made.
    pub(super) fn is_awaited(&self, now: Instant) -> bool {
        let recent = |(_, since): (usize, Instant)| now.since(since) < MADE_WITHIN;
        self.awaited.is_some_and(recent) || self.closing.is_some_and(recent)
    }
}
