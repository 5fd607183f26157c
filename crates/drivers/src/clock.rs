//! The one clock of a driver.

use seam::Instant;

/// `CLOCK_MONOTONIC`, counted from the driver's creation. Reading it is a call into the vDSO, not into the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: std::time::Instant,
}

impl Clock {
    /// Starts at [`Instant::START`].
    pub(crate) fn new() -> Self {
        Self { start: std::time::Instant::now() }
    }

    /// Microseconds since the start; never runs backwards.
    pub(crate) fn now(self) -> Instant {
        // A u64 of microseconds lasts for 584,000 years.
        Instant::from_micros(u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX))
    }
}
