//! Panics for tests, which are to see what becomes of the rest. Nothing of this is in a release build.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Names where to panic and how often, as in `worker=1`.
const VARIABLE: &str = "PANIC_OF_ONRAMP";

static DONE: AtomicU32 = AtomicU32::new(0);

/// Panics, where the environment asks for it and as often as it says.
pub(crate) fn panic_in(place: &str) {
    let Ok(asked) = std::env::var(VARIABLE) else { return };
    let Some((name, times)) = asked.split_once('=') else { return };
    let times: u32 = times.parse().unwrap_or_default();
    assert!(name != place || DONE.fetch_add(1, Relaxed) >= times, "{VARIABLE} asks for this");
}
