//! Counts the bytes and tokens that are looked at, so that tests and fuzzing can hold their number against the length of a text:
//! what a client sends must never cost more than a constant for each of its bytes. Without debug assertions, as in a release, nothing
//! is counted.

use std::cell::Cell;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// The steps that this thread has taken so far; 0 without debug assertions.
pub fn steps_taken() -> u64 {
    TAKEN.get()
}

/// So many bytes or tokens are being looked at.
#[inline(always)]
pub(crate) fn add(steps: usize) {
    if cfg!(debug_assertions) {
        TAKEN.set(TAKEN.get() + steps as u64);
    }
}
