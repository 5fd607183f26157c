//! Lock waits on the server: which threads wait for whose row locks, and which for other locks.
//!
//! A pool inside the server learns it from the lock manager; from outside it has to be asked for. So it is asked only when
//! others wait, over the service account's connection: where a statement takes longer than its like does, every
//! `lock_wait_interval`, by all workers together; else, where permits are short, [`PACES`] times as seldom, since waiting may be
//! what is usual for the kind. A cheap counter goes first: most statements that are slow wait for no row. Who waits for another lock
//! (of a table, a user's, the global read lock) is asked for where something takes longer than its like.
//!
//! A statement that waits lends its permit at once. A client that others wait for goes before everything else. Kinds of which
//! many wait have a lane of their own ([`crate::backend::contended`]).

use std::sync::Arc;
use std::time::Duration;

use seam::Instant;

use crate::backend::stall::Stalls;
use crate::client::Client;
use crate::ids::{BackendKey, ClientKey, ServerKey, Table};
use crate::outside::event::Event;
use crate::outside::waits::{WaitReason, Waits};
use crate::pool::Pool;
use crate::scheduler::Scheduler;
use crate::scheduling::Scheduling;
use crate::server::Server;
use crate::settings::Settings;
use crate::workers::letter::Letter;

/// Which threads of a server wait, by its own word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWaits {
    pub(crate) server: ServerKey,
    /// When it was asked.
    pub(crate) asked: Instant,
    pub(crate) waits: Vec<LockWait>,
}

/// Which clients of one worker hold locks on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolders {
    pub(crate) server: ServerKey,
    /// Threads of the server, with the clients' ids.
    pub(crate) holders: Vec<(u32, u32)>,
}

/// One thread of the server waits for another: ids as in its PROCESSLIST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockWait {
    pub(crate) waiter: u32,
    /// Where that is known.
    pub(crate) holder: Option<u32>,
}

/// The lock wait in which a statement in flight was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenWait {
    /// Since when, about: that is when the statement began, since the server does not say when it came to the lock.
    pub(crate) since: Instant,
    /// The thread of the server that holds the lock.
    pub(crate) thread: u32,
    /// The client behind that, where it is one of ours.
    pub(crate) client: Option<u32>,
}

/// The waits of others for locks of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocker {
    /// Statements that did.
    pub waits: u64,
    /// How long, all together.
    pub time: Duration,
    /// How long the one that waited longest did.
    pub longest: Duration,
}

impl std::ops::AddAssign for Blocker {
    /// Several workers together.
    fn add_assign(&mut self, other: Self) {
        self.waits += other.waits;
        self.time += other.time;
        self.longest = self.longest.max(other.longest);
    }
}

/// So many clients are remembered that others have waited for; the one that connected first makes room.
const BLOCKERS: usize = 1000;

/// Where nothing is stalled, so many times `lock_wait_interval` pass between two questions.
const PACES: u32 = 5;

/// A service account that the server lets see no lock waits asks again after a while: rights can be granted.
const DENIED_FOR: Duration = Duration::from_secs(60);

/// How many waits there are at the moment. Anybody may ask for it.
pub(crate) const GATE_QUERY: &str = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'";

/// MariaDB, and MySQL up to 5.7: needs the PROCESS privilege. InnoDB makes these tables anew every 100 ms at most
/// (i_s.cc, trx0i_s.cc: CACHE_MIN_IDLE_TIME_NS), so that asking more often tells nothing more.
pub(crate) const WAITS_QUERY: &str = "SELECT r.trx_mysql_thread_id, b.trx_mysql_thread_id \
    FROM information_schema.INNODB_LOCK_WAITS w JOIN information_schema.INNODB_TRX r ON r.trx_id = w.requesting_trx_id \
    JOIN information_schema.INNODB_TRX b ON b.trx_id = w.blocking_trx_id LIMIT 10000";

/// MySQL since 8.0: needs SELECT on performance_schema. Where that is switched off (which some providers do) its tables are empty, and
/// only who waits can be told, by somebody with the PROCESS privilege.
pub(crate) const WAITS_QUERY_8: &str = "SELECT r.PROCESSLIST_ID, b.PROCESSLIST_ID \
    FROM performance_schema.data_lock_waits w JOIN performance_schema.threads r ON r.THREAD_ID = w.REQUESTING_THREAD_ID \
    JOIN performance_schema.threads b ON b.THREAD_ID = w.BLOCKING_THREAD_ID \
    UNION ALL SELECT trx_mysql_thread_id, NULL FROM information_schema.INNODB_TRX \
    WHERE @@global.performance_schema = 0 AND trx_state = 'LOCK WAIT' LIMIT 10000";

/// MariaDB, and MySQL up to 5.7. The states of a wait for a lock of the server itself begin with these words (sql/mdl.cc:
/// `m_namespace_to_wait_state_name`, "Waiting for table metadata lock" and the like); only that for GET_LOCK does not.
pub(crate) const WAITERS_QUERY: &str = "SELECT ID FROM information_schema.PROCESSLIST \
    WHERE STATE LIKE 'Waiting for %' OR STATE = 'User lock' LIMIT 10000";

/// MySQL since 8.0, where the other table takes a lock that all sessions need: it is for servers without performance_schema.
pub(crate) const WAITERS_QUERY_8: &str = "SELECT PROCESSLIST_ID FROM performance_schema.threads \
    WHERE PROCESSLIST_STATE LIKE 'Waiting for %' OR PROCESSLIST_STATE = 'User lock' \
    UNION ALL SELECT ID FROM information_schema.PROCESSLIST \
    WHERE @@global.performance_schema = 0 AND (STATE LIKE 'Waiting for %' OR STATE = 'User lock') LIMIT 10000";

/// The number in a row of [`GATE_QUERY`].
pub(crate) fn waits_at_gate(rows: &[Vec<Option<Vec<u8>>>]) -> u64 {
    rows.first().and_then(|row| number(row.get(1)?.as_deref()?)).unwrap_or(0)
}

/// Returns the waits in the rows of an answer. A thread that waits need not be a connection (a purge). Nor need the holder, or it
/// is not known.
pub(crate) fn waits_of_rows(rows: &[Vec<Option<Vec<u8>>>]) -> impl Iterator<Item = LockWait> {
    rows.iter().filter_map(|row| {
        let thread = |at: usize| u32::try_from(number(row.get(at)?.as_deref()?)?).ok();
        Some(LockWait { waiter: thread(0)?, holder: thread(1) })
    })
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl LockWaits {
    /// None yet of those for which a server is asked now.
    pub(crate) fn new(server: ServerKey, now: Instant) -> Self {
        Self { server, asked: now, waits: Vec::new() }
    }
}

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
    /// When to ask for lock waits, if there is a reason.
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

    /// What the service account has found, which is allowed to see it.
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
        let backends = self.backends.iter().filter(|(_, backend)| !backend.place.is_former());
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
            let Some(client) = self.backends[key].holder else { continue };
            let blocks = holders.binary_search(&thread).is_ok();
            if std::mem::replace(&mut clients[client].transaction.blocks_others, blocks) != blocks && blocks {
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
        let holder = backends.find(|it| it.login.thread_id == thread && !it.place.is_former())?.holder?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(fields: &[&str]) -> Vec<Option<Vec<u8>>> {
        fields.iter().map(|field| Some(field.as_bytes().to_vec())).collect()
    }

    #[test]
    fn answers_are_read() {
        assert_eq!(waits_at_gate(&[row(&["Innodb_row_lock_current_waits", "12"])]), 12);
        assert_eq!(waits_at_gate(&[]), 0);
        let nobody = vec![None, Some(b"9".to_vec())];
        let rows = [row(&["7", "9"]), row(&["0"]), vec![Some(b"1".to_vec()), None], nobody, row(&["8", "9"])];
        let wait = |waiter, holder| LockWait { waiter, holder };
        let found: Vec<_> = waits_of_rows(&rows).collect();
        assert_eq!(found, [wait(7, Some(9)), wait(0, None), wait(1, None), wait(8, Some(9))]);
    }
}
