//! How crowding stands with a worker, and who is light beside a crowd.

use seam::Instant;

/// The divisor of an average user's statements up to which a user is light.
const LIGHT_PART: u64 = 4;

/// A light user's weight then. A user who asks for half of what the server can is not to lose any of it to what the crowd
/// itself costs; more would let many light users leave nothing to the others.
pub(super) const LIGHT_WEIGHT: u64 = 2;

/// A worker's view of crowding.
#[derive(Debug)]
pub(crate) struct Crowding {
    /// True where new work waits for its share, and not with the scheduler.
    pub(super) engaged: bool,
    /// True while statements that waited before the change are still being moved.
    pub(super) moving: bool,
    pub(super) look_at: Instant,
}

impl Default for Crowding {
    fn default() -> Self {
        Self { engaged: false, moving: false, look_at: Instant::START }
    }
}

impl Crowding {
    /// Says whether statements are still being moved.
    pub(super) fn goes_on(&self) -> bool {
        self.moving
    }
}

/// Says whether one user's statements are few, where so many users have that many in all.
pub(super) fn is_light(of_user: u64, all: u64, users: u64) -> bool {
    of_user * LIGHT_PART * users <= all
}
