//! How numbers stand in the tables.

use std::time::Duration;

/// Sixteen hexadecimal digits.
pub(crate) fn digest_name(fingerprint: u64) -> String {
    format!("{fingerprint:016x}")
}

/// In microseconds.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
