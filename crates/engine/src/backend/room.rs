//! How much room a worker has taken for prepared statements on a server.

use std::time::Duration;

use seam::Instant;

use crate::frozen::Distance;

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

/// Room that is being made, as plain data ([`crate::frozen`]): what has been taken goes with the backends.
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenRoom {
    awaited: Option<(usize, Distance)>,
    closing: Option<(usize, Distance)>,
    owed: Vec<usize>,
}

plain!(struct FrozenRoom { awaited, closing, owed });

impl Room {
    /// Takes that out. Workers have the same numbers where all of them go along, and what nobody answers any more is given up in time.
    pub(crate) fn freeze(&mut self, now: Instant) -> FrozenRoom {
        let Self { taken: _, awaited, closing, owed } = self;
        let since = |(count, since)| (count, Distance::of(since, now));
        FrozenRoom {
            awaited: awaited.take().map(since),
            closing: closing.take().map(since),
            owed: std::mem::take(owed),
        }
    }

    /// Puts it in the place of what is there.
    pub(crate) fn thaw(&mut self, frozen: FrozenRoom, now: Instant) {
        let FrozenRoom { awaited, closing, owed } = frozen;
        let since = |(count, since): (usize, Distance)| (count, since.from(now));
        self.awaited = awaited.map(since);
        self.closing = closing.map(since);
        self.owed = owed;
    }
}

impl Room {
    /// Others are waited for, and wait.
    #[cfg(test)]
    pub(crate) fn being_made(now: Instant) -> Self {
        Self { taken: 5, awaited: Some((2, now)), closing: Some((1, now)), owed: vec![1] }
    }

    /// Says whether room is still being made.
    pub(super) fn is_awaited(&self, now: Instant) -> bool {
        let recent = |(_, since): (usize, Instant)| now.since(since) < MADE_WITHIN;
        self.awaited.is_some_and(recent) || self.closing.is_some_and(recent)
    }
}
