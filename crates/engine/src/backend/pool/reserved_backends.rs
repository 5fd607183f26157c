//! Keeps backends for kinds of statements that get on.
//!
//! A lock that many want (FLUSH TABLES WITH READ LOCK, LOCK TABLES) stops as many statements as there are permits within milliseconds.
//! None of them has run longer than its kind does by then, so the server has not been asked what it waits for. Where there are about as
//! many permits as there may be backends, those would be all of them, and nothing else could run until the lock is given back. So once
//! most of a worker's share is in use, a kind takes no more than half of that share while it *stands*. It stands while none of it has
//! ended since the oldest running one began, or for as long as it usually takes. A kind that stands waits in the lane of contended kinds
//! ([`crate::backend::scheduling::contended`]), but needs permits as others do: it may be slow rather than wait.
//!
//! A lock may come while many statements of a kind are on their way to the disk. These still end one after the other, and hide that the
//! next ones wait. So the very last backends are for kinds of which none is known to wait.

pub(crate) mod record;

use std::time::Duration;

use seam::Instant;

use crate::backend::Backend;
use crate::backend::scheduling::contention::holds;
use crate::client::Client;
use crate::ids::{ClientKey, Table};
use crate::pool::Pool;
use crate::scheduling::Scheduling;
use crate::servers::Servers;
use crate::session::Sessions;
use crate::settings::{Settings, ThreadHandling};

/// One backend in this many is kept for kinds that get on. Kinds that stand may have half of all, and half of the rest at once, before
/// that is noticed.
const KEPT: u32 = 4;

/// One backend in this many, and one at least, is for kinds of which none is known to wait for a lock.
const LAST: u32 = 16;

/// A kind is taken to stand for this time where nothing says otherwise. The time is long enough that its statements do not move to and
/// fro, and short enough that nobody waits for long where a kind is slow and its turn has come.
const LONGEST: Duration = Duration::from_secs(1);

impl Scheduling {
    /// Notes that a statement of this kind has ended on a backend, while so many are in use. True where its kind, or all, were taken to stand.
    pub(crate) fn note_progress<'a>(
        &mut self,
        now: Instant,
        settings: &Settings,
        pool: &Pool,
        in_use: u32,
        kind: impl FnOnce() -> Option<(u64, Option<&'a [u8]>)>,
    ) -> bool {
        // What ends is noted from half of the reserve's mark on, so that it is known there who gets on.
        if in_use < self.reserve_mark(settings, pool) / 2 {
            let reserve = &mut self.reserve;
            return (!reserve.ended.is_empty() || !reserve.standing.is_empty()) && reserve.clear();
        }
        kind().is_some_and(|(fingerprint, schema)| self.reserve.note_end(now, fingerprint, schema))
    }

    /// Says whether requests of a kind were found to stand.
    pub(crate) fn stands(&self, now: Instant, fingerprint: u64, schema: Option<&[u8]>) -> bool {
        !self.reserve.standing.is_empty() && holds(&self.reserve.standing, fingerprint, schema, now)
    }

    /// Says whether the statement on a backend is of a kind that stands.
    pub(crate) fn runs_standing_kind(
        &self,
        now: Instant,
        backend: &Backend,
        clients: &Table<ClientKey, Client>,
        sessions: &Sessions,
    ) -> bool {
        !self.reserve.standing.is_empty()
            && backend
                .in_flight
                .front()
                .and_then(|statement| statement.kind(clients, sessions))
                .is_some_and(|(fingerprint, schema)| self.stands(now, fingerprint, schema))
    }

    /// Says whether a client's statement that needs a backend is of a kind that stands. Remembers the kind then.
    pub(crate) fn finds_kind_standing(
        &mut self,
        now: Instant,
        settings: &Settings,
        pool: &Pool,
        servers: &Servers,
        client: &Client,
        (clients, sessions): (&Table<ClientKey, Client>, &Sessions),
    ) -> bool {
        let fingerprint = client.request.as_ref().map_or(0, |request| request.fingerprint());
        if fingerprint == 0 || client.backend.is_some() || !self.is_reserve_reached(settings, pool, servers) {
            return false;
        }
        let kind = (fingerprint, client.schema(sessions).map(Into::into));
        let alike = servers.backends().map(|(_, backend)| backend).filter(|backend| {
            let running = backend.in_flight.front().and_then(|statement| statement.kind(clients, sessions));
            running == Some((kind.0, kind.1.as_deref()))
        });
        let waits = || alike.clone().any(|backend| backend.locks.waits);
        let stalled = self.stalled_since(now, settings, kind.0);
        let stands = (self.only_last_backends_are_left(settings, pool, servers) && waits())
            || self.reserve.has_stalled(&kind, stalled, alike.map(|backend| backend.first.since));
        if stands {
            self.reserve.standing.retain(|_, until| *until > now);
            self.reserve.standing.insert(kind, now + LONGEST);
        }
        stands
    }

    /// Returns the time at which kinds that stand are looked at again, if any do.
    pub(crate) fn next_look_at_standing(&self, now: Instant) -> Option<Instant> {
        let waits = self.scheduler.peek_contended(true).is_some();
        self.reserve.standing.values().copied().filter(|&until| waits && until > now).min()
    }

    /// Says whether so many of the backends that this worker may have are in use that the rest is kept.
    pub(crate) fn is_reserve_reached(&self, settings: &Settings, pool: &Pool, servers: &Servers) -> bool {
        servers.backends_in_use() >= self.reserve_mark(settings, pool)
    }

    /// Says whether the last of the backends that this worker may have are for kinds of which none is known to wait for a lock.
    pub(crate) fn only_last_backends_are_left(
        &self,
        settings: &Settings,
        pool: &Pool,
        servers: &Servers,
    ) -> bool {
        let share = pool.workers.places.limit() / pool.workers.count();
        self.is_reserve_reached(settings, pool, servers)
            && servers.backends_in_use() >= share - (share / LAST).max(1)
    }

    /// Returns the number of backends in use from which on the rest is kept.
    fn reserve_mark(&self, settings: &Settings, pool: &Pool) -> u32 {
        let pools = settings.thread_handling == ThreadHandling::PoolOfThreads;
        let share = pool.workers.places.limit() / pool.workers.count();
        // With fewer there is nothing to keep.
        if pools && self.scheduler.is_native() && share >= KEPT { share - share / KEPT } else { u32::MAX }
    }
}
