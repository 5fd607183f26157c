//! How the rest of the process reaches an event loop.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, retry_on_intr, write};
use seam::Signal;

use crate::Counters;

/// Sends signals to one driver, from any thread. Not from a Unix signal handler: it takes a lock.
#[derive(Clone, Debug)]
pub struct Signaller {
    shared: Arc<Shared>,
}

impl Signaller {
    /// Wakes the loop, whose program gets the signal at the start of its next turn. Signals keep their order. Does
    /// nothing once the driver is gone.
    pub fn send(&self, signal: Signal) {
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(signal);
        // The only failure of this write is a counter at its end (EAGAIN), and then the loop is already awake.
        let _ = retry_on_intr(|| write(&self.shared.wake, &1_u64.to_ne_bytes()));
    }

    /// What the driver had done when it last took a signal other than [`Signal::Wake`]; zeros before the first. The bytes of memory
    /// are those of the last signal other than [`Signal::Look`].
    pub fn counters(&self) -> Counters {
        *self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The driver's end of its signallers.
#[derive(Debug)]
pub(crate) struct Mailbox {
    shared: Arc<Shared>,
}

impl Mailbox {
    /// # Errors
    /// What `eventfd` says: no descriptor or no memory.
    pub(crate) fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { shared: Arc::new(Shared { wake, waiting: Mutex::default(), counters: Mutex::default() }) })
    }

    /// Another sender to this mailbox.
    pub(crate) fn signaller(&self) -> Signaller {
        Signaller { shared: Arc::clone(&self.shared) }
    }

    /// Readable while there are signals to take.
    pub(crate) fn wake(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }

    /// As [`Mailbox::take`]. Where one of the signals asks for the driver's `counters`, or for its `totals` alone, they are
    /// published before the signals are passed on.
    pub(crate) fn take_and_report(
        &self,
        counters: impl FnOnce() -> Counters,
        totals: impl FnOnce() -> Counters,
    ) -> Vec<Signal> {
        let signals = self.take();
        if signals.iter().any(asks_for_counters) {
            self.publish(counters());
        } else if signals.contains(&Signal::Look) {
            self.publish_totals(totals());
        }
        signals
    }

    fn publish(&self, counters: Counters) {
        *self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner) = counters;
    }

    /// As [`Self::publish`], but for the bytes of memory, which stay what they were. For [`Signal::Look`].
    fn publish_totals(&self, counters: Counters) {
        let mut published = self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner);
        *published = Counters {
            send_buffer_bytes: published.send_buffer_bytes,
            receive_buffer_bytes: published.receive_buffer_bytes,
            connection_table_bytes: published.connection_table_bytes,
            ring_bytes: published.ring_bytes,
            ..counters
        };
    }

    /// Takes all signals, oldest first, and makes [`Mailbox::wake`] unreadable.
    pub(crate) fn take(&self) -> Vec<Signal> {
        let mut count = [0; size_of::<u64>()];
        // Before the queue is emptied: a signal sent in between wakes the loop once more than needed, never once less.
        match retry_on_intr(|| read(&self.shared.wake, &mut count)) {
            Ok(_) | Err(Errno::AGAIN) => {}
            Err(errno) => debug_assert!(false, "reading an eventfd fails only when it is empty: {errno}"),
        }
        std::mem::take(&mut *self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// True where whoever sent it may look at the counters next. Workers wake each other thousands of times a second, and the
/// counters look at every connection: that is too much for a wake.
fn asks_for_counters(signal: &Signal) -> bool {
    match signal {
        Signal::Drain | Signal::Stop | Signal::Report => true,
        Signal::Wake | Signal::Look => false,
    }
}

#[derive(Debug)]
struct Shared {
    wake: OwnedFd,
    waiting: Mutex<Vec<Signal>>,
    counters: Mutex<Counters>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_keep_their_order_and_are_taken_once() {
        let mailbox = Mailbox::new().unwrap();
        let signaller = mailbox.signaller();
        signaller.send(Signal::Drain);
        signaller.clone().send(Signal::Stop);
        assert_eq!(mailbox.take(), [Signal::Drain, Signal::Stop]);
        assert_eq!(mailbox.take(), []);
    }
}
