//! Panics for tests, which are to see what becomes of the terminal. Nothing of this is in a release build.

/// Names where to panic.
const VARIABLE: &str = "PANIC_OF_ONRAMP_TOP";

/// Panics, where the environment asks for it.
pub fn panic_in(place: &str) {
    let asked = std::env::var(VARIABLE).unwrap_or_default();
    assert!(asked != place, "{VARIABLE} asks for this");
}
