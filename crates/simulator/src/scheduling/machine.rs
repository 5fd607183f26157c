//! The server's cores: processor sharing among the threads that can run, and what it costs to have many of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Service is counted in femtoseconds, so that a share of a core far below a thousandth is still a whole number.
const PER_MICRO: u64 = 1_000_000_000;

/// The cores of a server, shared evenly among the threads that can run.
#[derive(Debug)]
pub struct Cores {
    count: u64,
    crowd: u64,
    /// What each thread that could run all the time has had so far.
    served: u64,
    as_of: u64,
    /// By the service at which they are done. A thread that was stopped early stays until it is first.
    ends: BinaryHeap<Reverse<(u64, u32)>>,
    /// At which service each thread is done; zero for those that do not run.
    threads: Vec<u64>,
    running: u64,
}

impl Cores {
    /// `count` cores. With `crowd` threads more than cores that can run, half of the work is lost to switching between
    /// them and to what they evict from each other's caches.
    pub fn new(count: u32, crowd: u32) -> Self {
        assert!(count > 0 && crowd > 0, "a server has a core");
        Self {
            count: u64::from(count),
            crowd: u64::from(crowd),
            served: 1,
            as_of: 0,
            ends: BinaryHeap::new(),
            threads: Vec::new(),
            running: 0,
        }
    }

    /// A thread has so many microseconds of work. It must not run already.
    pub fn start(&mut self, now: u64, thread: u32, micros: u64) {
        self.advance(now);
        let index = thread as usize;
        if self.threads.len() <= index {
            self.threads.resize(index + 1, 0);
        }
        assert_eq!(self.threads[index], 0, "a thread does one thing at a time");
        let end = self.served + micros.max(1) * PER_MICRO;
        self.threads[index] = end;
        self.ends.push(Reverse((end, thread)));
        self.running += 1;
    }

    /// The thread is stopped before its end.
    pub fn stop(&mut self, now: u64, thread: u32) {
        self.advance(now);
        if std::mem::take(&mut self.threads[thread as usize]) != 0 {
            self.running -= 1;
        }
        self.forget_stopped();
    }

    /// There are so many cores from now on.
    pub fn set_count(&mut self, now: u64, count: u32) {
        assert!(count > 0, "a server has a core");
        self.advance(now);
        self.count = u64::from(count);
    }

    /// When the next thread is done, in microseconds, if nothing changes until then.
    pub fn next_end(&self) -> Option<u64> {
        let Reverse((end, _)) = self.ends.peek()?;
        let left = end.saturating_sub(self.served);
        Some(self.as_of + left.div_ceil(self.rate()))
    }

    /// A thread that is done by now.
    pub fn pop_ended(&mut self, now: u64) -> Option<u32> {
        self.advance(now);
        let &Reverse((end, thread)) = self.ends.peek()?;
        if end > self.served {
            return None;
        }
        self.ends.pop();
        self.threads[thread as usize] = 0;
        self.running -= 1;
        self.forget_stopped();
        Some(thread)
    }

    /// How many threads can run.
    pub fn running(&self) -> u64 {
        self.running
    }

    fn forget_stopped(&mut self) {
        while self.ends.peek().is_some_and(|Reverse((end, thread))| self.threads[*thread as usize] != *end) {
            self.ends.pop();
        }
    }

    fn advance(&mut self, now: u64) {
        self.served += (now - self.as_of) * self.rate();
        self.as_of = now;
    }

    /// Femtoseconds of service that each thread gets in a microsecond.
    fn rate(&self) -> u64 {
        let beyond = self.running.saturating_sub(self.count);
        if beyond == 0 {
            return PER_MICRO;
        }
        let share = u128::from(PER_MICRO) * u128::from(self.count) / u128::from(self.running);
        let kept = share * u128::from(self.crowd) / u128::from(self.crowd + beyond);
        u64::try_from(kept).expect("less than a whole core").max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_the_cores_evenly() {
        let mut cores = Cores::new(2, 1_000_000_000);
        for thread in 0..4 {
            cores.start(0, thread, 100);
        }
        assert_eq!(cores.next_end(), Some(201), "half a core each, and next to nothing for the crowd");
        assert_eq!(cores.pop_ended(150), None);
        let ended: Vec<_> = std::iter::from_fn(|| cores.pop_ended(201)).collect();
        assert_eq!(ended, [0, 1, 2, 3]);
        assert_eq!((cores.running(), cores.next_end()), (0, None));
    }

    #[test]
    fn a_crowd_costs_half_the_work() {
        let mut cores = Cores::new(1, 9);
        for thread in 0..10 {
            cores.start(0, thread, 100);
        }
        assert_eq!(cores.next_end(), Some(2000));
    }

    #[test]
    fn cores_that_go_take_their_part_from_then_on() {
        let mut cores = Cores::new(2, 1_000_000_000);
        cores.start(0, 0, 100);
        cores.start(0, 1, 100);
        cores.set_count(50, 1);
        assert_eq!(cores.next_end(), Some(151), "half a core each");
        cores.set_count(100, 2);
        assert_eq!(cores.next_end(), Some(126));
    }

    #[test]
    fn a_stopped_thread_leaves_its_share_to_the_others() {
        let mut cores = Cores::new(1, 1_000_000_000);
        cores.start(0, 0, 100);
        cores.start(0, 1, 300);
        cores.stop(100, 0);
        assert_eq!(cores.next_end(), Some(351));
        cores.start(200, 0, 10);
        assert_eq!(cores.pop_ended(221), Some(0));
    }
}
