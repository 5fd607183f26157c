//! One ring: its queues, its table of direct descriptors, its buffers.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, Probe, cqueue};
use rustix::io::Errno;

use super::buffers::Buffers;
use super::silent::Silent;
use super::token::INDEX_BITS;

/// Places in a ring's table of direct descriptors, where the limit on open files allows as many: the kernel takes
/// tables up to that limit, which on a usual machine is 20,000 or more for a server.
pub(super) const MOST_FILES: u32 = 1 << 14;

/// With more rings there would be more connections than a token has numbers for: 268 million.
pub(super) const MAX_RINGS: usize = (1 << INDEX_BITS) / MOST_FILES as usize;

/// Requests that can wait for the next submission, of 64 bytes each. A turn makes one or two for each connection that
/// something happened to; where there are more, they are submitted in between.
const SUBMISSION_ENTRIES: u32 = 512;

/// Completions that can wait for us, of 16 bytes each: those of a full submission queue, which come at once, and those of
/// the arrivals that one call takes in. Beyond that the kernel keeps them elsewhere, at a cost. With this number of them it
/// also makes its table of waiting requests, in which it looks for what is to be cancelled, as large as it ever does:
/// 256 lists (io_ring_ctx_alloc in io_uring/io_uring.c).
const COMPLETION_ENTRIES: u32 = 8192;

/// The longest chain of linked requests.
pub(super) const LONGEST_CHAIN: usize = 7;

/// The sizes that a ring is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingSizes {
    /// Places for direct descriptors, from 1 to [`MOST_FILES`].
    pub(super) files: u32,
    /// Receive buffers, a power of two.
    pub(super) buffers: u16,
    /// Bytes of each buffer.
    pub(super) buffer_bytes: u32,
}

/// A completion, out of the kernel's hands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    pub(super) token: u64,
    /// A count, or an errno below zero.
    pub(super) result: i32,
    flags: u32,
    /// Where it came from.
    pub(super) ring: u16,
}

impl Completion {
    /// True where the request goes on.
    pub(super) fn more(&self) -> bool {
        cqueue::more(self.flags)
    }

    /// The buffer that the kernel has filled.
    pub(super) fn buffer(&self) -> Option<u16> {
        cqueue::buffer_select(self.flags)
    }

    /// The result as one.
    pub(super) fn outcome(&self) -> Result<usize, Errno> {
        usize::try_from(self.result).map_err(|_| Errno::from_raw_os_error(-self.result))
    }
}

/// One io_uring. Used by one thread once it is enabled.
pub(super) struct Ring {
    /// Dropped before the buffers.
    uring: IoUring,
    pub(super) buffers: Buffers,
    pub(super) files: Files,
    pub(super) silent: Silent,
    /// Requests that found no room in the submission queue, in the groups that have to stay together.
    backlog: VecDeque<Vec<Entry>>,
    /// Calls of `io_uring_enter`.
    pub(super) enters: u64,
    /// Requests made.
    pub(super) requests: u64,
    /// Completions taken.
    pub(super) taken: u64,
}

impl Ring {
    /// A ring that is not enabled yet, so that another thread may use it than makes it.
    pub(super) fn new(sizes: &RingSizes) -> io::Result<Self> {
        let uring = IoUring::builder()
            .setup_r_disabled()
            // One thread submits, and completions are worked out in its own calls: no interrupts of its work.
            .setup_single_issuer()
            .setup_defer_taskrun()
            // Says when there is something to work out, so that rings without are not asked.
            .setup_taskrun_flag()
            // One request that cannot be submitted does not hold up those behind it.
            .setup_submit_all()
            .setup_no_sqarray()
            .setup_cqsize(COMPLETION_ENTRIES)
            .build(SUBMISSION_ENTRIES)?;
        uring.submitter().register_files_sparse(sizes.files)?;
        let mut buffers = Buffers::new(sizes.buffers, sizes.buffer_bytes)?;
        buffers.register(&uring.submitter())?;
        let files = Files { count: sizes.files, unused: 0, free: Vec::new() };
        Ok(Self {
            uring,
            buffers,
            files,
            silent: Silent::default(),
            backlog: VecDeque::new(),
            enters: 0,
            requests: 0,
            taken: 0,
        })
    }

    /// Lets the ring work, for this thread.
    pub(super) fn enable(&self) -> io::Result<()> {
        self.uring.submitter().register_enable_rings()
    }

    /// Which operations the kernel knows.
    pub(super) fn probe(&self) -> io::Result<Probe> {
        let mut probe = Probe::new();
        self.uring.submitter().register_probe(&mut probe)?;
        Ok(probe)
    }

    /// Has the ring count up an eventfd when there is something to work out, unless that is switched off.
    pub(super) fn announce_to(&self, eventfd: BorrowedFd<'_>) -> io::Result<()> {
        self.uring.submitter().register_eventfd(eventfd.as_raw_fd())
    }

    /// Switches announcements on or off.
    pub(super) fn set_announcing(&mut self, on: bool) {
        let completions = self.uring.completion();
        if on { completions.enable_eventfd() } else { completions.disable_eventfd() }
    }

    /// Puts a descriptor into the table, in a call of its own.
    pub(super) fn install(&self, file: u16, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.uring.submitter().register_files_update(u32::from(file), &[descriptor.as_raw_fd()]).map(|_| ())
    }

    /// True where a call would submit something or find something out.
    pub(super) fn wants_enter(&mut self) -> bool {
        let submission = self.uring.submission();
        !submission.is_empty() || submission.taskrun() || submission.cq_overflow() || !self.backlog.is_empty()
    }

    /// True where completions wait to be taken.
    pub(super) fn has_completions(&mut self) -> bool {
        !self.uring.completion().is_empty()
    }

    /// Submits everything and waits for the first completion, no longer than `timeout`, or forever.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.enter(1, timeout)
    }

    /// Submits everything and has the kernel work out all that it can, whatever it says that it has.
    pub(super) fn work_out(&mut self) -> io::Result<()> {
        // More than there can be, so that it does not stop early; it does not wait for them.
        self.enter(COMPLETION_ENTRIES as usize, Some(Duration::ZERO))
    }

    /// Submits everything and takes up to `limit` completions, those that can be had without waiting.
    pub(super) fn gather(&mut self, ring: u16, limit: usize, into: &mut Vec<Completion>) -> io::Result<()> {
        let mut before = None;
        loop {
            let waiting = self.uring.completion().len();
            // The kernel may say that it has something to work out when it has not: it writes the note after the list, and
            // by then we may have worked that out. A call that leads to nothing is the last, then.
            if before == Some(waiting) || !self.wants_enter() {
                break;
            }
            if waiting >= limit {
                // Enough for this turn, but what there is to send is not kept back.
                self.submit()?;
                break;
            }
            // The kernel works out as many arrivals in one call as we wait for, and 20 at least (IO_LOCAL_TW_DEFAULT_MAX
            // in io_uring/io_uring.c). Waiting for what is there already never waits, and doubles that number.
            self.enter(waiting, Some(Duration::ZERO))?;
            before = Some(waiting);
        }
        let completions = self.uring.completion().take(limit).map(|entry| Completion {
            token: entry.user_data(),
            result: entry.result(),
            flags: entry.flags(),
            ring,
        });
        let had = into.len();
        into.extend(completions);
        self.taken += (into.len() - had) as u64;
        self.note_submitted();
        Ok(())
    }

    /// True where requests wait to be submitted.
    pub(super) fn has_queued(&mut self) -> bool {
        !self.backlog.is_empty() || !self.uring.submission().is_empty()
    }

    /// Notes which silent requests are submitted, and what may be told of them.
    fn note_submitted(&mut self) {
        // Completions that found no room are kept elsewhere and not counted.
        if !self.has_queued() && !self.uring.submission().cq_overflow() {
            self.silent.all_submitted(self.taken + self.uring.completion().len() as u64);
        }
    }

    /// Bytes shared with the kernel for the queues.
    pub(super) fn queue_bytes(&self) -> usize {
        let parameters = self.uring.params();
        parameters.sq_entries() as usize * size_of::<Entry>()
            + parameters.cq_entries() as usize * size_of::<cqueue::Entry>()
    }

    /// Queues requests that have to be submitted together.
    ///
    /// # Safety
    /// What the requests point to stays where it is until their completions have been taken.
    #[allow(unsafe_code, reason = "requests carry pointers")]
    pub(super) unsafe fn push(&mut self, entries: &[Entry]) {
        debug_assert!(entries.len() <= LONGEST_CHAIN);
        self.requests += entries.len() as u64;
        if !self.backlog.is_empty() || !self.queue(entries) {
            // Where this fails, the next wait fails too and says so; the backlog keeps what the kernel did not take.
            let _ = self.submit();
            if !self.backlog.is_empty() || !self.queue(entries) {
                self.backlog.push_back(entries.to_vec());
            }
        }
    }

    /// Submits everything, without working anything out.
    fn submit(&mut self) -> io::Result<()> {
        self.drain_backlog();
        let queued = self.uring.submission().len() as u32;
        if queued == 0 {
            return Ok(());
        }
        self.enters += 1;
        // SAFETY: there is no argument to be wrong.
        #[allow(unsafe_code, reason = "the raw call")]
        let result = unsafe { self.uring.submitter().enter::<SubmitArgs<'_, '_>>(queued, 0, 0, None) };
        self.drain_backlog();
        tolerate(result)
    }

    fn enter(&mut self, wanted: usize, timeout: Option<Duration>) -> io::Result<()> {
        self.drain_backlog();
        let queued = self.uring.submission().len() as u32;
        let mut flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        if self.uring.params().is_feature_no_iowait() {
            // Else a thread that waits for clients looks like one that waits for a disk.
            flags |= EnterFlags::NO_IOWAIT;
        }
        let limit = timeout.map(Timespec::from);
        let mut arguments = SubmitArgs::new();
        if let Some(limit) = &limit {
            arguments = arguments.timespec(limit);
        }
        self.enters += 1;
        // SAFETY: the arguments are what EXT_ARG says and live until the call returns.
        #[allow(unsafe_code, reason = "the raw call")]
        let result =
            unsafe { self.uring.submitter().enter(queued, wanted as u32, flags.bits(), Some(&arguments)) };
        tolerate(result)
    }

    fn drain_backlog(&mut self) {
        while let Some(entries) = self.backlog.pop_front() {
            if !self.queue(&entries) {
                self.backlog.push_front(entries);
                return;
            }
        }
    }

    /// Queues all or none.
    fn queue(&mut self, entries: &[Entry]) -> bool {
        // SAFETY: `push` passes on that what the entries point to stays.
        #[allow(unsafe_code, reason = "requests carry pointers")]
        unsafe {
            self.uring.submission().push_multiple(entries).is_ok()
        }
    }
}

/// Passes over what is no fault of the ring's: time is over, a signal came, or (BUSY, AGAIN) completions have to be taken or
/// memory has to be found before more is submitted, which stays queued.
fn tolerate(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
            _ => Err(error),
        },
    }
}

/// Which places of a table of direct descriptors are taken. The lowest that was never used comes last, so that the list
/// of free ones grows no longer than it has to.
#[derive(Debug)]
pub(super) struct Files {
    count: u32,
    unused: u32,
    free: Vec<u16>,
}

impl Files {
    /// A place for a descriptor, unless all are taken.
    pub(super) fn take(&mut self) -> Option<u16> {
        if let Some(file) = self.free.pop() {
            return Some(file);
        }
        let file = u16::try_from(self.unused).ok().filter(|_| self.unused < self.count)?;
        self.unused += 1;
        Some(file)
    }

    /// Takes a place back whose descriptor is closed.
    pub(super) fn give_back(&mut self, file: u16) {
        debug_assert!(u32::from(file) < self.unused && !self.free.contains(&file), "place {file} is free");
        self.free.push(file);
    }

    /// How many places are taken.
    pub(super) fn taken(&self) -> usize {
        self.unused as usize - self.free.len()
    }

    /// Bytes of memory held.
    pub(super) fn allocated(&self) -> usize {
        self.free.capacity() * size_of::<u16>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_before_new_ones() {
        let mut files = Files { count: 3, unused: 0, free: Vec::new() };
        assert_eq!([files.take(), files.take()], [Some(0), Some(1)]);
        files.give_back(0);
        assert_eq!([files.take(), files.take(), files.take()], [Some(0), Some(2), None]);
    }
}
