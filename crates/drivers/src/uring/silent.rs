//! Requests that say nothing when they succeed, and when it is certain that they have.

use std::collections::VecDeque;

use seam::ConnectionId;

/// The silent requests of a ring: sends that have to be done at once or fail.
///
/// The kernel carries such a request out while it takes it from the submission queue, and a failure's completion is there
/// when that call returns (`io_queue_async` fails at once what may not wait, io_uring/io_uring.c). So those that are
/// submitted have succeeded or are told of in what waits to be taken now; once that is taken, there is no doubt left.
#[derive(Debug, Default)]
pub(super) struct Silent {
    /// Their connections, in the order in which they were made.
    requests: VecDeque<ConnectionId>,
    /// Requests that are submitted, from the oldest on.
    submitted: VecDeque<Batch>,
    /// How many of the latest are not.
    queued: usize,
}

/// Requests that become certain together.
#[derive(Debug)]
struct Batch {
    requests: usize,
    /// The ring's count of completions taken that has to be reached.
    certain_at: u64,
}

impl Silent {
    /// Adds a request, not submitted yet.
    pub(super) fn push(&mut self, id: ConnectionId) {
        self.requests.push_back(id);
        self.queued += 1;
    }

    /// All requests are submitted. `posted`: the completions that the ring has had so far, taken or not.
    pub(super) fn all_submitted(&mut self, posted: u64) {
        if self.queued > 0 {
            self.submitted.push_back(Batch { requests: self.queued, certain_at: posted });
            self.queued = 0;
        }
    }

    /// The oldest request that has succeeded or been told of, now that so many completions are taken.
    pub(super) fn next_certain(&mut self, taken: u64) -> Option<ConnectionId> {
        let batch = self.submitted.front_mut().filter(|batch| batch.certain_at <= taken)?;
        batch.requests -= 1;
        if batch.requests == 0 {
            self.submitted.pop_front();
        }
        self.requests.pop_front()
    }

    /// Bytes of memory held.
    pub(super) fn allocated(&self) -> usize {
        self.requests.capacity() * size_of::<ConnectionId>() + self.submitted.capacity() * size_of::<Batch>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_certain_once_what_was_posted_is_taken() {
        let mut silent = Silent::default();
        let [first, second, third] = [1, 2, 3].map(|index| ConnectionId { index, generation: 0 });
        silent.push(first);
        silent.push(second);
        assert_eq!(silent.next_certain(100), None, "not submitted");
        silent.all_submitted(100);
        silent.push(third);
        silent.all_submitted(150);
        silent.all_submitted(160);
        assert_eq!(silent.next_certain(99), None);
        assert_eq!(silent.next_certain(100), Some(first));
        assert_eq!(silent.next_certain(149), Some(second));
        assert_eq!(silent.next_certain(149), None);
        assert_eq!(silent.next_certain(150), Some(third));
        assert_eq!(silent.next_certain(1000), None);
    }
}
