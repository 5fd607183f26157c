//! The server's disks, each of which does one thing at a time.

use std::collections::{BTreeSet, VecDeque};

use super::{Server, Wake};

/// A statement that is off the cores.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    pub session: u32,
    pub stage: u64,
    /// What a disk takes for it.
    pub micros: u64,
}

/// Who has one, and who waits for one.
#[derive(Debug)]
pub struct Disks {
    count: usize,
    busy: BTreeSet<u64>,
    queue: VecDeque<Wait>,
}

impl Disks {
    /// So many, or as many as are wanted.
    pub fn new(count: Option<u32>) -> Self {
        let count = count.map_or(usize::MAX, |count| count as usize);
        Self { count, busy: BTreeSet::new(), queue: VecDeque::new() }
    }
}

impl Server {
    /// A statement needs a disk, now or once one is free.
    pub(super) fn take_disk(&mut self, now: u64, wait: Wait) {
        if self.disks.busy.len() < self.disks.count {
            self.disks.busy.insert(wait.stage);
            let wake = Wake::Session { session: wait.session, stage: wait.stage };
            self.effects.planned.push((now + wait.micros, wake));
        } else {
            self.disks.queue.push_back(wait);
        }
    }

    /// A wait is over: if it was one for a disk, whoever waits for that has it. The disk goes on for a statement that was killed.
    pub(super) fn give_disk(&mut self, now: u64, stage: u64) {
        if self.disks.busy.remove(&stage)
            && let Some(next) = self.disks.queue.pop_front()
        {
            self.take_disk(now, next);
        }
    }
}
