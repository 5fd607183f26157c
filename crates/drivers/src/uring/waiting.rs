//! Rings: making them, waiting in them, collecting what they have.

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, getrlimit};

use super::UringDriver;
use super::ring::{MAX_RINGS, MOST_FILES, Ring, RingSizes};
use crate::Settings;

/// Receive buffers of a ring. Each arrival of a turn takes one, and one call takes in no more arrivals than this, so that
/// few ever have to be asked for again. 2 MiB in buffers of [`LARGEST_BUFFER`] stay in the second-level cache of a
/// server.
const BUFFERS: u16 = 256;

/// Bytes of a receive buffer, where the settings allow as many: nearly every statement and most results fit. Larger ones
/// would be faster with large results alone and cost memory for each 16,384 connections.
const LARGEST_BUFFER: usize = 8 << 10;

/// The share that any ring may give in a turn: as much as the kernel works out in one call at least (IO_LOCAL_TW_DEFAULT_MAX in
/// io_uring/io_uring.c), so that no call is for less.
const LEAST_SHARE: usize = 20;

/// Returns the sizes that a ring is made of.
pub(super) fn ring_sizes(settings: &Settings) -> RingSizes {
    let open_files = getrlimit(Resource::Nofile)
        .current
        .map_or(MOST_FILES, |limit| u32::try_from(limit).unwrap_or(u32::MAX));
    let files = open_files.min(MOST_FILES).min(settings.connections_per_ring).max(1);
    RingSizes {
        files,
        buffers: buffers_for(files).min(settings.buffers_per_ring.min(BUFFERS).next_power_of_two()),
        buffer_bytes: settings.receive_buffer.min(LARGEST_BUFFER) as u32,
    }
}

/// [`BUFFERS`], or one for 16 connections where there are few, so that many small rings do not cost more than a few large.
fn buffers_for(files: u32) -> u16 {
    const FEWEST: u32 = 16;
    (files / 16).clamp(FEWEST, u32::from(BUFFERS)).next_power_of_two() as u16
}

/// How the other rings wake the thread that waits in the first.
#[derive(Debug)]
pub(super) struct Wake {
    /// Counted up by the kernel.
    eventfd: OwnedFd,
    /// Where the first ring reads the count to.
    count: Box<UnsafeCell<u64>>,
    /// The request to read is under way.
    armed: bool,
}

impl UringDriver {
    /// Enables the rings that are not yet, for this thread.
    pub(super) fn enable_rings(&mut self) -> io::Result<()> {
        for ring in &self.rings[self.enabled..] {
            ring.enable()?;
            self.enabled += 1;
        }
        Ok(())
    }

    /// A free place in a ring's table: in the first ring that has one, so that no more rings are in use than have to be.
    pub(super) fn take_file(&mut self) -> io::Result<(u16, u16)> {
        for (ring, number) in self.rings.iter_mut().zip(0..) {
            if let Some(file) = ring.files.take() {
                return Ok((number, file));
            }
        }
        let number = self.add_ring()?;
        let file = self.rings[usize::from(number)].files.take().expect("a new ring has free places");
        Ok((number, file))
    }

    /// Waits for something to happen, no longer than `timeout`, or forever, and collects what has.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.completions.clear();
        // One call submits and waits, unless there is something already; with several rings each has to be asked.
        let is_empty = self.rings.len() == 1 && !self.rings[0].has_completions();
        if !is_empty || timeout == Some(Duration::ZERO) {
            self.collect()?;
        }
        if self.completions.is_empty() && timeout != Some(Duration::ZERO) {
            if self.rings.len() == 1 {
                self.rings[0].wait(timeout)?;
            } else {
                self.wait_in_all(timeout)?;
            }
            self.collect()?;
        }
        self.now = self.clock.now();
        Ok(())
    }

    /// The other rings have counted up the eventfd; the count has been read.
    pub(super) fn rings_announced(&mut self) {
        if let Some(wake) = &mut self.wake {
            wake.armed = false;
        }
    }

    /// Takes what there is from all rings, the first of which is another in each turn, so that with more than a turn may
    /// handle none is always last. The fullest may give as many as it has buffers, the others in proportion to their
    /// connections: each connection has the same share, whichever ring it is in.
    fn collect(&mut self) -> io::Result<()> {
        let count = self.rings.len();
        let fullest = self.rings.iter().map(|ring| ring.files.taken()).max().unwrap_or(0).max(1);
        for step in 0..count {
            let number = (self.turn as usize).wrapping_add(step) % count;
            let ring = &mut self.rings[number];
            let left = self.settings.events_per_turn.saturating_sub(self.completions.len());
            let share = (ring.buffers.count() * ring.files.taken()).div_ceil(fullest);
            // The first ring has what is no connection's: peers to accept, the mailbox, the other rings.
            let share = if number == 0 { ring.buffers.count() } else { share.max(LEAST_SHARE) };
            ring.gather(number as u16, left.min(share), &mut self.completions)?;
        }
        Ok(())
    }

    /// Waits in the first ring, with the others announcing what they have.
    fn wait_in_all(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let (first, others) = self.rings.split_at_mut(1);
        if let Some(wake) = self.wake.as_mut().filter(|wake| !wake.armed) {
            wake.armed = true;
            // SAFETY: the count is read by nobody and stays until the driver goes, its rings first.
            #[allow(unsafe_code, reason = "the request carries a pointer")]
            unsafe {
                first[0].read_eventfd(wake.eventfd.as_fd(), wake.count.get().cast());
            }
        }
        others.iter_mut().for_each(|ring| ring.set_announcing(true));
        // What came before is found now, and what comes later is announced: the kernel says that there is work before it
        // looks whether to announce it.
        fence(Ordering::SeqCst);
        let mut result = Ok(());
        for ring in others.iter_mut() {
            if ring.wants_enter() {
                result = result.and(ring.work_out());
            }
        }
        let nothing = !others.iter_mut().any(|ring| ring.has_completions() || ring.has_queued());
        if nothing && result.is_ok() {
            result = first[0].wait(timeout);
        }
        others.iter_mut().for_each(|ring| ring.set_announcing(false));
        result
    }

    fn add_ring(&mut self) -> io::Result<u16> {
        if self.rings.len() >= MAX_RINGS {
            return Err(io::Error::from(io::ErrorKind::OutOfMemory));
        }
        if self.wake.is_none() {
            // Blocking, or the request to read it would not wait.
            let eventfd = eventfd(0, EventfdFlags::CLOEXEC)?;
            self.wake = Some(Wake { eventfd, count: Box::new(UnsafeCell::new(0)), armed: false });
        }
        let mut ring = Ring::new(&self.sizes)?;
        if let Some(wake) = &self.wake {
            ring.announce_to(wake.eventfd.as_fd())?;
            ring.set_announcing(false);
        }
        ring.enable()?;
        self.rings.push(ring);
        self.enabled += 1;
        Ok((self.rings.len() - 1) as u16)
    }
}

impl UringDriver {
    /// Makes the requests that the turn has led to.
    pub(super) fn prepare(&mut self) {
        if !std::mem::replace(&mut self.mailbox_armed, true) {
            self.rings[0].watch_mailbox(self.mailbox.wake());
        }
        let mut listed = std::mem::take(&mut self.listed);
        for id in listed.drain(..) {
            self.align(id);
        }
        self.listed = listed;
        self.arm_accepts();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_rings_have_fewer_buffers() {
        assert_eq!([1, 1024, 20_000].map(buffers_for), [16, 64, 256]);
        let settings = Settings { connections_per_ring: 9, buffers_per_ring: 3, ..Settings::default() };
        let sizes = ring_sizes(&settings);
        assert_eq!((sizes.files, sizes.buffers), (9, 4));
        let most = ring_sizes(&Settings { buffers_per_ring: u16::MAX, ..Settings::default() });
        assert!(most.buffers.is_power_of_two() && most.buffers <= BUFFERS, "{}", most.buffers);
    }
}
