//! The requests of a worker to the others of its pool, and its service for them.

use seam::Instant;

use crate::engine::Engine;
use crate::ids::BackendKey;
use crate::workers::letter::Letter;

impl Engine {
    /// Remembers since when the first statement has waited for nothing but a permit, or that none does.
    pub(crate) fn note_want_of_permits(&mut self, wanting: bool) {
        if !wanting {
            self.scheduler.want(None);
            self.wanting_since = None;
            return;
        }
        let since = *self.wanting_since.get_or_insert(self.now);
        // The other workers have the permits, and their statements may be waiting for locks of ours: they lend the permits of
        // stalled ones, but have to look.
        if self.now.since(since) >= self.settings.stall_limit {
            self.wanting_since = Some(self.now);
            self.wake_others();
        }
    }

    /// When the others are asked to lend what is stalled.
    pub(crate) fn next_asking(&self) -> Option<Instant> {
        let since = self.wanting_since.filter(|_| self.workers.count() > 1)?;
        Some(since + self.settings.stall_limit)
    }

    /// Statements of ours need a backend and we may not open one: another worker may have one to close.
    pub(crate) fn ask_for_backends(&mut self) {
        if self.workers.places.are_full() && self.workers.places.lack(self.worker, true) {
            self.wake_others();
        }
    }

    /// Says whether a backend of ours has to become free for another worker: with statements following each other on it, it never
    /// would by itself.
    pub(crate) fn is_to_leave_a_backend(&self) -> bool {
        self.workers.count() > 1
            && self.workers.places.somebody_lacks(self.worker)
            && self.workers.places.has_more_than_its_share(self.worker)
    }

    /// A backend has become free. True where its place goes to a worker that lacks one: because nobody here needs it, or
    /// because we have more than our share. Otherwise a busy worker would keep all that it ever had.
    pub(crate) fn leave_to_other_worker(&mut self, needed: bool) -> bool {
        let ours = needed && !self.workers.places.has_more_than_its_share(self.worker);
        if ours || !self.workers.places.somebody_lacks(self.worker) {
            return false;
        }
        let Some(worker) = self.workers.places.who_lacks(self.worker) else { return false };
        self.workers.places.grant(worker);
        self.wake_worker(worker);
        true
    }

    /// A backend that was opened for a statement of ours runs one before it goes to another worker. Otherwise workers that
    /// have less than one each would hand it round for ever.
    pub(crate) fn is_kept_for_us(&self, key: BackendKey) -> bool {
        self.server.backends[key].fresh && self.scheduler.in_need() > 0
    }

    /// Hands on what is free: a permit by waking who has waited longest for one, what users may use again, and places for backends.
    pub(crate) fn serve_other_workers(&mut self) {
        if self.workers.count() == 1 {
            return;
        }
        self.workers.shares(self.worker, self.server.sharing.len());
        if let Some(worker) = self.workers.next_to_wake(self.worker) {
            self.write_letter(worker, Letter::Wake);
        }
        for worker in self.workers.users.to_be_told(self.worker) {
            self.wake_worker(worker);
        }
        if !self.workers.places.somebody_lacks(self.worker) {
            return;
        }
        if !self.workers.places.are_full() {
            if let Some(worker) = self.workers.places.who_lacks(self.worker) {
                self.wake_worker(worker);
            }
        } else if let Some(longest) = self.server.idle.iter().copied().find(|&key| !self.is_kept_for_us(key))
            && self.leave_to_other_worker(false)
        {
            self.quit_backend(longest);
        }
    }

    fn wake_worker(&mut self, worker: usize) {
        if self.workers.wake(worker) {
            self.write_letter(worker, Letter::Wake);
        }
    }

    fn wake_others(&mut self) {
        for worker in 0..self.workers.count() as usize {
            if worker != self.worker {
                self.wake_worker(worker);
            }
        }
    }

    /// A letter to another worker.
    pub(crate) fn write_letter(&mut self, worker: usize, letter: Letter) {
        self.letters.push_back((worker, letter));
    }

    /// The same letter to each of the other workers.
    pub(crate) fn write_to_others(&mut self, letter: &Letter) {
        for worker in (0..self.workers.count() as usize).filter(|&worker| worker != self.worker) {
            self.letters.push_back((worker, letter.clone()));
        }
    }
}
