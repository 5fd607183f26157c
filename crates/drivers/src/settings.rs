//! The bounds of a driver.

use std::io;

/// The settings of a driver at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes that one connection is given in one turn at most, from 1; epoll has one buffer of this size.
    pub receive_buffer: usize,
    /// More unsent bytes than this on one connection are reported as [`seam::Input::Stalled`].
    pub high_water: usize,
    /// A stalled connection is reported as [`seam::Input::Drained`] once it has no more unsent bytes than this; at
    /// most `high_water`.
    pub low_water: usize,
    /// Ready sockets handled in one turn, from 1.
    pub events_per_turn: usize,
    /// Connections accepted per listener in one turn, from 1.
    pub accepts_per_turn: usize,
    /// io_uring: connections of one ring, from 1. Applied are no more than the limit on open files and 16,384.
    pub connections_per_ring: u32,
    /// io_uring: receive buffers of one ring, from 1, rounded up to a power of two. Applied are no more than 256.
    pub buffers_per_ring: u16,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // Holds nearly every statement and most results in one call, and stays in the second-level cache.
            receive_buffer: 64 << 10,
            // A few buffers of the kernel's: enough to keep a peer on a long line busy, small enough for 1,000 slow
            // readers to cost 256 MiB at most.
            high_water: 256 << 10,
            // The kernel still holds a send buffer for the peer when ours is empty, so nothing runs dry.
            low_water: 0,
            // One call collects what a busy loop has ready, and a timer is never later than so many small statements.
            events_per_turn: 1024,
            // A storm of logins must not keep the clients that are already in from being served.
            accepts_per_turn: 64,
            // As many as may be: a turn asks each ring that has something.
            connections_per_ring: u32::MAX,
            // As many arrivals as are taken in at once.
            buffers_per_ring: 256,
        }
    }
}

impl Settings {
    /// Refuses values that would make a loop do nothing, or report forever.
    ///
    /// # Errors
    /// `InvalidInput`, naming the setting.
    pub(crate) fn check(&self) -> io::Result<()> {
        let fault = if self.receive_buffer == 0 {
            "receive_buffer must be at least 1"
        } else if self.events_per_turn == 0 {
            "events_per_turn must be at least 1"
        } else if self.accepts_per_turn == 0 {
            "accepts_per_turn must be at least 1"
        } else if self.connections_per_ring == 0 {
            "connections_per_ring must be at least 1"
        } else if self.buffers_per_ring == 0 {
            "buffers_per_ring must be at least 1"
        } else if self.low_water > self.high_water {
            "low_water must not be above high_water"
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, fault))
    }
}
