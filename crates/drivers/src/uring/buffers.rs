//! The buffers of a ring: the kernel takes one for each arrival and hands it over full.

#![allow(unsafe_code, reason = "memory that is shared with the kernel")]

use std::io;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

/// The one group of buffers that a ring has.
pub(super) const GROUP: u16 = 0;

/// A provided-buffer ring (io_uring_register_buf_ring(3)) and its buffers, all of one size.
///
/// Which buffers are ours to read is known from completions alone: the kernel names each that it has filled, once.
#[derive(Debug)]
pub(super) struct Buffers {
    /// Entries of which the kernel takes the oldest; the tail is kept in the first.
    entries: Mapping,
    bytes: Mapping,
    count: u16,
    size: u32,
    tail: u16,
}

impl Buffers {
    /// Maps `count` buffers, a power of two, of `size` bytes each. They cost memory once they have been used.
    pub(super) fn new(count: u16, size: u32) -> io::Result<Self> {
        let entries = Mapping::new(usize::from(count) * size_of::<BufRingEntry>())?;
        let bytes = Mapping::new(usize::from(count) * size as usize)?;
        Ok(Self { entries, bytes, count, size, tail: 0 })
    }

    /// Gives all buffers to the ring.
    pub(super) fn register(&mut self, submitter: &Submitter<'_>) -> io::Result<()> {
        let address = self.entries.start.as_ptr() as u64;
        // SAFETY: the mapping is page-aligned, has room for the entries, and is unmapped after the ring is gone.
        unsafe { submitter.register_buf_ring_with_flags(address, self.count, GROUP, 0) }?;
        for buffer in 0..self.count {
            self.give_back(buffer);
        }
        Ok(())
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Bytes of memory mapped: buffers and entries.
    pub(super) fn allocated(&self) -> (usize, usize) {
        (self.bytes.length, self.entries.length)
    }

    /// The first `length` bytes of a buffer that the kernel has filled and that has not been given back.
    pub(super) fn filled(&self, buffer: u16, length: usize) -> &[u8] {
        assert!(buffer < self.count && length <= self.size as usize, "buffer {buffer} with {length} bytes");
        // SAFETY: within the mapping, which is initialized (zeros at first); the kernel writes to it only after
        // `give_back`, which needs this to be borrowed no longer.
        unsafe {
            slice::from_raw_parts(
                self.bytes.start.as_ptr().add(usize::from(buffer) * self.size as usize),
                length,
            )
        }
    }

    /// Lets the kernel fill a buffer again.
    pub(super) fn give_back(&mut self, buffer: u16) {
        assert!(buffer < self.count, "there is no buffer {buffer}");
        let base = self.entries.start.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the place is within the mapping as `count` is a power of two, aligned as the mapping is, and between
        // head and tail the kernel does not look at it. The tail lies in a reserved field that `set_*` leave alone.
        unsafe {
            let entry = &mut *base.add(usize::from(self.tail & (self.count - 1)));
            entry.set_addr(self.bytes.start.as_ptr() as u64 + u64::from(buffer) * u64::from(self.size));
            entry.set_len(self.size);
            entry.set_bid(buffer);
            self.tail = self.tail.wrapping_add(1);
            // The entry has to be there before the kernel can see that it is.
            AtomicU16::from_ptr(BufRingEntry::tail(base).cast_mut()).store(self.tail, Ordering::Release);
        }
    }
}

/// Private memory from the system, zeroed, page-aligned.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: it is owned like a box; nothing about it is bound to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(length: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the system's choice touches no other memory.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; nobody has references into it any more.
        let result = unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        debug_assert_eq!(result, 0, "unmapping fails only for what is not mapped");
    }
}
