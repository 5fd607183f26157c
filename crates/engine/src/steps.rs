//! Counts the bytes and names that are looked at, as `sql` does: tests hold their number against the length of what clients and the
//! server have sent. Outside of tests nothing is counted.

#[cfg(test)]
thread_local! {
    static TAKEN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The steps that this thread has taken so far, here and in `sql`.
#[cfg(test)]
pub(crate) fn taken() -> u64 {
    TAKEN.get() + sql::steps_taken()
}

/// So many bytes, names or other things are being looked at.
#[cfg(test)]
pub(crate) fn add(steps: usize) {
    TAKEN.set(TAKEN.get() + steps as u64);
}

#[cfg(not(test))]
#[inline(always)]
pub(crate) fn add(_: usize) {}

/// These bytes, all of which may be looked at now.
#[inline(always)]
pub(crate) fn all(bytes: &[u8]) -> &[u8] {
    add(bytes.len());
    bytes
}

#[cfg(test)]
mod tests;
