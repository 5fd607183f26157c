//! How many statements wait with each worker, for a bound that is common to all.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::scheduling::scheduler::lane::Class;

/// The lengths of the queues as of each worker's last turn. Between two turns a few statements more may wait than the bound says.
#[derive(Debug)]
pub(crate) struct QueueLengths {
    lengths: Box<[[AtomicUsize; Class::ALL.len()]]>,
}

impl QueueLengths {
    pub(crate) fn new(workers: u32) -> Self {
        Self { lengths: (0..workers).map(|_| Default::default()).collect() }
    }

    /// Says how many wait with this worker.
    pub(crate) fn note(&self, worker: usize, class: Class, waiting: usize) {
        let length = &self.lengths[worker][class as usize];
        // Reading leaves the cache line with all of them.
        if self.lengths.len() > 1 && length.load(Relaxed) != waiting {
            length.store(waiting, Relaxed);
        }
    }

    /// The number of statements that wait with the other workers.
    pub(crate) fn others(&self, worker: usize, class: Class) -> usize {
        let others = self.lengths.iter().enumerate().filter(|&(other, _)| other != worker);
        others.map(|(_, lengths)| lengths[class as usize].load(Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sees_what_waits_with_the_others() {
        let lengths = QueueLengths::new(3);
        lengths.note(0, Class::Short, 5);
        lengths.note(1, Class::Short, 7);
        lengths.note(1, Class::Long, 1);
        assert_eq!([0, 1, 2].map(|worker| lengths.others(worker, Class::Short)), [7, 5, 12]);
        assert_eq!([0, 1].map(|worker| lengths.others(worker, Class::Long)), [1, 0]);
        lengths.note(1, Class::Short, 0);
        assert_eq!(lengths.others(0, Class::Short), 0);
    }
}
