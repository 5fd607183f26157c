//! Counts of a driver's work so far.

/// Totals since the driver's creation, except where a field speaks of now. Some 200 bytes, to be copied freely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Turns begun.
    pub turns: u64,
    /// Calls of `epoll_wait`.
    pub epoll_waits: u64,
    /// Calls of `io_uring_enter`, waiting and submitting in one.
    pub submissions: u64,
    /// Requests put to io_uring.
    pub submission_entries: u64,
    /// Completions taken from io_uring.
    pub completions: u64,
    /// With epoll, calls of `recv`, those that found nothing included; with io_uring, completions that brought bytes.
    pub receives: u64,
    /// With epoll, calls of `send`, those that found no room included; with io_uring, requests to send.
    pub sends: u64,
    /// Times that bytes had to wait because every receive buffer of a ring was taken.
    pub buffers_exhausted: u64,
    /// Receives that had ended by themselves and were asked for again.
    pub rearms: u64,
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
    /// Rings that exist now.
    pub rings: u64,
    /// Bytes of memory that hold unsent bytes, or are kept to hold some, now.
    pub send_buffer_bytes: u64,
    /// Bytes of memory to receive into, and of what a paused connection had received, now.
    pub receive_buffer_bytes: u64,
    /// Bytes of the tables with a place for each connection, now.
    pub connection_table_bytes: u64,
    /// Bytes of what is shared with the kernel to ask and be told, now: queues, or the list of events.
    pub ring_bytes: u64,
}

impl Counters {
    /// Bytes of memory that the driver holds now, as allocated: the sum of the four figures above. Sockets are the
    /// kernel's and not among them.
    pub fn memory_bytes(&self) -> u64 {
        self.send_buffer_bytes + self.receive_buffer_bytes + self.connection_table_bytes + self.ring_bytes
    }
}
