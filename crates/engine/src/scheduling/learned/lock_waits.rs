//! Lock waits on the server: which threads wait for row locks of which others, and which wait for other locks.
//!
//! A pool inside the server learns it from the lock manager; from outside it has to be asked for. So it is asked only when
//! others wait, over the service account's connection: where a statement takes longer than its like does, every
//! `lock_wait_interval`, by all workers together; else, where permits are short, [`PACES`] times as seldom, since waiting may be
//! what is usual for the kind. A cheap counter goes first: most statements that are slow wait for no row. Who waits for another lock
//! (of a table, a user's, the global read lock) is asked for where something takes longer than its like.
//!
//! A statement that waits lends its permit at once. A client that others wait for goes before everything else. Kinds of which
//! many wait have a lane of their own ([`crate::backend::scheduling::contended`]).

pub(crate) mod told;

use std::sync::Arc;
use std::time::Duration;

use seam::Instant;

use self::told::{Blocker, LockHolders, LockWait, LockWaits, SeenWait};
use crate::backend::scheduling::stall::record::Stalls;
use crate::client::Client;
use crate::ids::{BackendKey, ClientKey, Table};
use crate::outside::event::Event;
use crate::outside::waits::{WaitReason, Waits};
use crate::pool::Pool;
use crate::scheduling::Scheduling;
use crate::scheduling::scheduler::Scheduler;
use crate::server::Server;
use crate::settings::Settings;
use crate::workers::letter::Letter;

/// Clients that are remembered because others have waited for them. The client that connected first makes room.
const BLOCKERS: usize = 1000;

/// The number of times `lock_wait_interval` that pass between two questions where nothing is stalled.
const PACES: u32 = 5;

/// A service account that the server lets see no lock waits asks again after a while: rights can be granted.
const DENIED_FOR: Duration = Duration::from_secs(60);

impl Server {
    /// Another worker says which of its clients hold locks on these threads of the server.
    pub(crate) fn take_lock_holders(&mut self, holders: &[(u32, u32)]) {
        let waits = self.backends.iter_mut().filter_map(|(_, backend)| backend.locks.seen.as_mut());
        for wait in waits.filter(|wait| wait.client.is_none()) {
            wait.client =
                holders.iter().find(|(thread, _)| *thread == wait.thread).map(|&(_, client)| client);
        }
    }
}

impl Server {
    /// The time at which to ask for lock waits, if there is a reason.
    pub(crate) fn next_suspicion(
        &self,
        now: Instant,
        settings: &Settings,
        scheduling: &Scheduling,
        pool: &Pool,
    ) -> Option<Instant> {
        let pace = self.lock_wait_pace(now, settings, scheduling, pool);
        let pace = pace.filter(|_| self.may_be_asked_who_waits(now, settings, &scheduling.scheduler))?;
        // Only while others wait: a statement that nobody waits behind may take as long as it likes.
        (scheduling.scheduler.waiting() > 0).then(|| pool.workers.lock_waits_due(pace))
    }

    /// Says whether it can be asked.
    pub(crate) fn may_be_asked_who_waits(
        &self,
        now: Instant,
        settings: &Settings,
        scheduler: &Scheduler,
    ) -> bool {
        let allowed = self.lock_waits_denied.is_none_or(|at| now.since(at) >= DENIED_FOR);
        allowed && scheduler.is_native() && !settings.lock_wait_interval.is_zero()
    }

    /// How much time passes from one question to the next; `None` where there is no reason for one.
    pub(crate) fn lock_wait_pace(
        &self,
        now: Instant,
        settings: &Settings,
        scheduling: &Scheduling,
        pool: &Pool,
    ) -> Option<Duration> {
        let interval = Some(settings.lock_wait_interval).filter(|interval| !interval.is_zero())?;
        if self.expects_waiters(now, settings, &scheduling.stalls) {
            return Some(interval);
        }
        pool.wants_permits_since().is_some().then(|| interval * PACES)
    }

    /// Says whether something takes longer than its like, or has been found to wait. A statement that stalled in the last
    /// interval may still do.
    pub(crate) fn expects_waiters(&self, now: Instant, settings: &Settings, stalls: &Stalls) -> bool {
        stalls.latest.is_some_and(|at| now.since(at) <= settings.lock_wait_interval)
            || self.contention.is_there(now)
    }

    /// Takes the lock waits that the service account has found, which is allowed to see them.
    pub(crate) fn take_found_lock_waits(&mut self, now: Instant) -> LockWaits {
        self.lock_waits_denied = None;
        self.control.take_lock_waits(LockWaits::new(self.key, now))
    }

    /// Statements that wait for a lock lend their permits; clients that are waited for come first.
    pub(crate) fn take_lock_waits(
        &mut self,
        now: Instant,
        waits: &[LockWait],
        asked: Instant,
        clients: &mut Table<ClientKey, Client>,
        scheduling: &mut Scheduling,
    ) {
        // There may be as many as there are backends, and rows for each pair of them.
        let mut waits = waits.to_vec();
        waits.sort_unstable_by_key(|wait| wait.waiter);
        let waits_too = |thread: u32| waits.binary_search_by_key(&thread, |wait| wait.waiter).is_ok();
        let mut holders: Vec<_> = waits.iter().filter_map(|wait| wait.holder).collect();
        holders.sort_unstable();
        // At a former address of the server the same number is another thread.
        let backends = self.backends.iter().filter(|(_, backend)| !backend.place().is_former());
        let keys: Vec<_> = backends.map(|(key, _)| key).collect();
        for key in keys {
            let backend = &mut self.backends[key];
            let thread = backend.login.thread_id;
            let asked_about = !backend.in_flight.is_empty() && backend.first.since <= asked;
            backend.locks.waits = asked_about && waits_too(thread);
            let first = waits.partition_point(|wait| wait.waiter < thread);
            let own = waits[first..].iter().take_while(|wait| wait.waiter == thread && asked_about);
            let mut others = own.filter_map(|wait| wait.holder);
            // Servers name those too who wait for the same lock before it.
            let waits_for = others.clone().find(|&holder| !waits_too(holder)).or_else(|| others.next());
            if backend.locks.waits {
                backend.lend_permit(&mut scheduling.scheduler);
            }
            self.note_lock_wait(now, key, waits_for, clients, &mut scheduling.waits);
            let Some(client) = self.backends[key].holder() else { continue };
            let blocks = holders.binary_search(&thread).is_ok();
            if clients[client].transaction.note_others(blocks) {
                scheduling.scheduler.goes_first(client);
            }
        }
    }

    /// Notes that the statement in flight on a backend was seen to wait for a lock that this thread holds, or for none.
    fn note_lock_wait(
        &mut self,
        now: Instant,
        key: BackendKey,
        holder: Option<u32>,
        clients: &Table<ClientKey, Client>,
        waits: &mut Waits,
    ) {
        let backend = &self.backends[key];
        let Some(thread) = holder.filter(|_| !backend.in_flight.is_empty()) else {
            return self.lock_wait_ended(now, key, waits);
        };
        let since = backend.locks.seen.map_or(backend.first.since, |wait| wait.since);
        let known = backend.locks.seen.filter(|wait| wait.thread == thread).and_then(|wait| wait.client);
        let client = known.or_else(|| self.client_behind(thread, clients));
        self.backends[key].locks.seen = Some(SeenWait { since, thread, client });
    }

    /// The client that holds the backend on this thread of the server.
    fn client_behind(&self, thread: u32, clients: &Table<ClientKey, Client>) -> Option<u32> {
        let mut backends = self.backends.iter().map(|(_, backend)| backend);
        let holder = backends.find(|it| it.login.thread_id == thread && !it.place().is_former())?.holder()?;
        clients.get(holder).map(|client| client.id)
    }

    /// Tells the other workers which of their clients are waited for.
    pub(crate) fn tell_holders(
        &self,
        waits: &[LockWait],
        clients: &Table<ClientKey, Client>,
        pool: &mut Pool,
    ) {
        if pool.workers.count() == 1 {
            return;
        }
        let mut threads: Vec<_> = waits.iter().filter_map(|wait| wait.holder).collect();
        threads.sort_unstable();
        threads.dedup();
        let known =
            threads.into_iter().filter_map(|thread| Some((thread, self.client_behind(thread, clients)?)));
        let holders: Vec<_> = known.collect();
        if !holders.is_empty() {
            let found = LockHolders { server: self.key, holders };
            pool.write_to_others(&Letter::LockHolders(Arc::new(found)));
        }
    }

    /// The first statement in flight on a backend does not wait for a lock any more, or has ended: if it was seen to wait, it
    /// has up to now.
    pub(crate) fn lock_wait_ended(&mut self, now: Instant, key: BackendKey, waits: &mut Waits) {
        let Some(wait) = self.backends[key].locks.seen.take() else { return };
        let waited = now.since(wait.since);
        waits.record(WaitReason::RowLock, waited);
        let Some(client) = wait.client else { return };
        if self.blockers.len() >= BLOCKERS && !self.blockers.contains_key(&client) {
            self.blockers.pop_first();
        }
        *self.blockers.entry(client).or_default() += Blocker { waits: 1, time: waited, longest: waited };
    }

    /// The service account may not see lock waits. Returns what is to be said of that, once.
    pub(crate) fn lock_waits_cannot_be_seen(&mut self, now: Instant, reason: String) -> Option<Event> {
        let is_news = self.lock_waits_denied.replace(now).is_none();
        is_news.then_some(Event::LockWaitsHidden { reason })
    }
}
