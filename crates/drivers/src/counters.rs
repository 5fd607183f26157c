//! What a driver has done so far.

/// Totals since the driver's creation, except for [`Counters::open_connections`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Turns begun.
    pub turns: u64,
    /// Calls of `epoll_wait`.
    pub epoll_waits: u64,
    /// Calls of `recv`, those that found nothing included.
    pub receives: u64,
    /// Calls of `send`, those that found no room included.
    pub sends: u64,
    /// Connections accepted.
    pub accepts: u64,
    /// Connections asked for by the program that came about.
    pub connects: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes that the system took from us.
    pub bytes_sent: u64,
    /// Connections that hold a descriptor now, those still connecting or closing included.
    pub open_connections: u64,
    /// Times that a listener was paused because the system had no descriptor or memory for one more connection.
    pub accept_pauses: u64,
    /// Connections dropped with bytes unsent, because their peer did not read them within the time that a close
    /// may take.
    pub closes_abandoned: u64,
}
