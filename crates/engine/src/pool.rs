//! The pool of workers as one of them sees it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use seam::Instant;

use crate::accounts::secret::IdentityKey;
use crate::ids::BackendKey;
use crate::scheduling::scheduler::Scheduler;
use crate::server::stored_code::watch::KnownCode;
use crate::settings::Settings;
use crate::workers::Workers;
use crate::workers::letter::Letter;
use crate::workers::places::Origin;

/// What the workers share, and which of them this is.
pub(crate) struct Pool {
    pub(crate) workers: Arc<Workers>,
    /// Which of them this is.
    pub(crate) worker: usize,
    /// Letters to others, each with the number of its reader.
    letters: VecDeque<(usize, Letter)>,
    /// Since when this worker has waited for a permit of another, or has asked the others.
    wanting_since: Option<Instant>,
    /// What this worker has of the stored code that all know, see [`Self::take_up_code`].
    pub(crate) known_code: KnownCode,
    /// Accounts of which the server takes no more, and of which other workers have been refused one, each with the time at which it is looked at:
    /// whether a backend of it is left to them.
    wanted_accounts: BTreeMap<IdentityKey, Instant>,
}

impl Pool {
    pub(crate) fn new(workers: Arc<Workers>, worker: usize) -> Self {
        Self {
            workers,
            worker,
            letters: VecDeque::new(),
            wanting_since: None,
            known_code: KnownCode::default(),
            wanted_accounts: BTreeMap::new(),
        }
    }

    /// Another worker was refused a backend of this account: the server takes no more of it. An idle one may be left to it from this time on.
    pub(crate) fn is_wanted(&mut self, at: Instant, account: IdentityKey) {
        let earliest = self.wanted_accounts.entry(account).or_insert(at);
        *earliest = at.min(*earliest);
    }

    /// Takes out the next account of which a backend may be left to another worker by now.
    pub(crate) fn next_wanted_account(&mut self, now: Instant) -> Option<IdentityKey> {
        let (due, _) = self.wanted_accounts.iter().find(|&(_, &at)| at <= now)?;
        let due = due.clone();
        self.wanted_accounts.remove(&due);
        Some(due)
    }

    /// Returns the time at which an account is looked at, of which another worker was refused a backend.
    pub(crate) fn next_look_at_wanted(&self) -> Option<Instant> {
        self.wanted_accounts.values().min().copied()
    }

    /// The next letter, and the number of its reader.
    pub(crate) fn next_letter(&mut self) -> Option<(usize, Letter)> {
        self.letters.pop_front()
    }

    pub(crate) fn wake_worker(&mut self, worker: usize) {
        if self.workers.wake(worker) {
            self.write_letter(worker, Letter::Wake);
        }
    }

    pub(crate) fn wake_others(&mut self) {
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

    /// Takes a place for one backend more than there may be. None where the server has no room for one more, however urgent.
    pub(crate) fn take_place_beyond_limit(&self, now: Instant) -> Option<Origin> {
        let places = &self.workers.places;
        (!places.server_is_full()).then(|| places.take(now, self.worker, 1))?
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

    pub(crate) fn take_place(&self, now: Instant) -> Option<Origin> {
        self.workers.places.take(now, self.worker, 0)
    }

    /// Since when this worker has waited for a permit of another, or has asked the others.
    pub(crate) fn wants_permits_since(&self) -> Option<Instant> {
        self.wanting_since
    }

    /// When the others are asked to lend what is stalled.
    pub(crate) fn next_asking(&self, settings: &Settings) -> Option<Instant> {
        let since = self.wanting_since.filter(|_| self.workers.count() > 1)?;
        Some(since + settings.stall_limit)
    }

    /// This worker's share of `login_memory`.
    pub(crate) fn login_memory(&self, settings: &Settings) -> usize {
        settings.login_memory / self.workers.count() as usize
    }

    /// Remembers since when the first statement has waited for nothing but a permit, or that none does.
    pub(crate) fn note_want_of_permits(
        &mut self,
        now: Instant,
        settings: &Settings,
        scheduler: &mut Scheduler,
        wanting: bool,
    ) {
        if !wanting {
            scheduler.want(None);
            self.wanting_since = None;
            return;
        }
        let since = *self.wanting_since.get_or_insert(now);
        // The other workers have the permits, and their statements may be waiting for locks of ours: they lend the permits of
        // stalled ones, but have to look.
        if now.since(since) >= settings.stall_limit {
            self.wanting_since = Some(now);
            self.wake_others();
        }
    }

    /// Hands on what is free: a permit by waking who has waited longest for one, what users may use again, and places for backends.
    /// So many backends of this worker are shared, and `longest_idle` is the first that it can do without. Returns the backend that has to
    /// be closed for another worker's.
    pub(crate) fn serve_other_workers(
        &mut self,
        shared: usize,
        longest_idle: impl FnOnce() -> Option<BackendKey>,
    ) -> Option<BackendKey> {
        if self.workers.count() == 1 {
            return None;
        }
        self.workers.shares(self.worker, shared);
        if let Some(worker) = self.workers.next_to_wake(self.worker) {
            self.write_letter(worker, Letter::Wake);
        }
        for worker in self.workers.users.to_be_told(self.worker) {
            self.wake_worker(worker);
        }
        if !self.workers.places.somebody_lacks(self.worker) {
            return None;
        }
        if !self.workers.places.are_full() {
            if let Some(worker) = self.workers.places.who_lacks(self.worker) {
                self.wake_worker(worker);
            }
            return None;
        }
        let longest = longest_idle()?;
        self.leave_to_other_worker(false).then_some(longest)
    }
}
