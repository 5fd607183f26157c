//! The requests of a worker to the others of its pool, and its service for them.

use crate::engine::Engine;
use crate::ids::BackendKey;
use crate::workers::letter::Letter;

impl Engine {
    /// Remembers since when the first statement has waited for nothing but a permit, or that none does.
    pub(crate) fn note_want_of_permits(&mut self, wanting: bool) {
        if !wanting {
            self.scheduling.scheduler.want(None);
            self.pool.wanting_since = None;
            return;
        }
        let since = *self.pool.wanting_since.get_or_insert(self.now);
        // The other workers have the permits, and their statements may be waiting for locks of ours: they lend the permits of
        // stalled ones, but have to look.
        if self.now.since(since) >= self.settings.stall_limit {
            self.pool.wanting_since = Some(self.now);
            self.pool.wake_others();
        }
    }

    /// A backend that was opened for a statement of ours runs one before it goes to another worker. Otherwise workers that
    /// have less than one each would hand it round for ever.
    pub(crate) fn is_kept_for_us(&self, key: BackendKey) -> bool {
        self.servers[key].fresh && self.scheduling.scheduler.in_need() > 0
    }

    /// Hands on what is free: a permit by waking who has waited longest for one, what users may use again, and places for backends.
    pub(crate) fn serve_other_workers(&mut self) {
        if self.pool.workers.count() == 1 {
            return;
        }
        self.pool.workers.shares(self.pool.worker, self.servers.sharing_count());
        if let Some(worker) = self.pool.workers.next_to_wake(self.pool.worker) {
            self.pool.write_letter(worker, Letter::Wake);
        }
        for worker in self.pool.workers.users.to_be_told(self.pool.worker) {
            self.pool.wake_worker(worker);
        }
        if !self.pool.workers.places.somebody_lacks(self.pool.worker) {
            return;
        }
        if !self.pool.workers.places.are_full() {
            if let Some(worker) = self.pool.workers.places.who_lacks(self.pool.worker) {
                self.pool.wake_worker(worker);
            }
            return;
        }
        let longest = self.servers.idle().find(|&key| !self.is_kept_for_us(key));
        if let Some(longest) = longest
            && self.pool.leave_to_other_worker(false)
        {
            self.quit_backend(longest);
        }
    }
}
