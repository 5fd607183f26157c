//! Counts the bytes and tokens that are looked at, so that tests and fuzzing can hold their number against the length of a text:
//! what a client sends must never cost more than a constant for each of its bytes. Nothing is counted
//! without debug assertions, in a release that is.

#[cfg(debug_assertions)]
use std::cell::Cell;

#[cfg(debug_assertions)]
thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// The steps that this thread has taken so far.
#[cfg(debug_assertions)]
pub fn steps_taken() -> u64 {
    TAKEN.get()
}

/// So many bytes or tokens are being looked at.
#[cfg(debug_assertions)]
pub(crate) fn add(steps: usize) {
    TAKEN.set(TAKEN.get() + steps as u64);
}

#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn add(_: usize) {}
