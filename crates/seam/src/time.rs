//! The time that a driver passes in.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Microseconds since the driver started. Real or virtual, but never running backwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(u64);

impl Instant {
    /// When the driver started.
    pub const START: Self = Self(0);

    /// The instant `micros` microseconds after the driver started.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the driver started.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The time that has passed since `earlier`, or zero where `earlier` lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates: a timeout of `Duration::MAX` means never.
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}
