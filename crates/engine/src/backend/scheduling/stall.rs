//! Statements that take longer than their kind does.

pub(crate) mod record;

use std::time::Duration;

use seam::Instant;

use crate::accounts::Identities;
use crate::backend::{Backend, Permit};
use crate::client::Client;
use crate::ids::{BackendKey, ClientKey, Table};
use crate::pool::Pool;
use crate::scheduling::Scheduling;
use crate::servers::Servers;
use crate::settings::Settings;
use crate::workers::letter::Letter;

/// A statement lends nothing before it has run this long, however short its kind is. Below that it waits for a core of the server rather
/// than for a lock. The stall checker of MySQL's pool looks as often.
const SHORTEST_STALL: Duration = Duration::from_millis(10);

/// Number of statements for each permit that may run with their permits lent, and are not known to wait for a lock. Where more are stalled,
/// the server may have too much to do. More statements would make that worse: slow ones would be taken for stalled again. Statements that
/// are known to wait have nothing to compute, so there may be as many of them as there are backends. Statements that have run for
/// `long_statement_time` are not counted either, or others would wait for minutes until the last of them ends. So as many as there are
/// permits may follow in each such time, up to half of the backends.
const LENT: u32 = 8;

/// Number of statements of a kind that have to run for `long_statement_time` before the others of it are taken for long. As many have to
/// end after that time, see [`crate::scheduling::learned::digests::Digests::is_long`].
const OVERDUE: usize = 2;

/// Number of waiting statements that are looked at for one of a user who is shut out.
const LOOKED_AT: usize = 256;

/// Pause between the looks of a worker that has nothing to lend itself. Nobody notices a wait of that length.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl Scheduling {
    /// Returns the time at which the first statement in flight on a backend has taken longer than its kind does. The time may be too early while
    /// that does not matter yet. `thread_pool_stall_limit` is the most, and holds for statements that nothing is known of.
    fn stalls_at(&self, now: Instant, settings: &Settings, backend: &Backend) -> Instant {
        let limit = settings.stall_limit;
        if !self.scheduler.is_native() {
            return backend.first.since + limit;
        }
        let earliest = backend.first.since + SHORTEST_STALL.min(limit);
        if earliest > now {
            return earliest;
        }
        let fingerprint = backend.in_flight.front().map_or(0, |statement| statement.fingerprint);
        backend.first.since + self.stall_of(settings, fingerprint)
    }

    /// Returns how long a statement of this kind runs before it is taken to be stalled.
    fn stall_of(&self, settings: &Settings, fingerprint: u64) -> Duration {
        let limit = settings.stall_limit;
        self.digests.p99(fingerprint).unwrap_or(limit).max(SHORTEST_STALL).min(limit)
    }

    /// Returns the time of the start from which back statements of this kind have stalled by now.
    pub(crate) fn stalled_since(&self, now: Instant, settings: &Settings, fingerprint: u64) -> Instant {
        let stall = u64::try_from(self.stall_of(settings, fingerprint).as_micros()).unwrap_or(u64::MAX);
        Instant::from_micros(now.as_micros().saturating_sub(stall))
    }
}

impl Backend {
    /// Returns the time at which the first statement here will have run for `long_statement_time`; `None` where no statement is long.
    fn long_at(&self, settings: &Settings) -> Option<Instant> {
        let limit = settings.long_statement_time;
        (!limit.is_zero()).then(|| self.first.since + limit)
    }

    /// Says whether the statement here has run for that long, and is not known to wait for a lock, or for a server that may be dead.
    pub(in crate::backend) fn is_overdue(&self, now: Instant, settings: &Settings) -> bool {
        self.permit() != Permit::None
            && !self.locks.waits
            && !self.locks.contends
            && !self.place.is_former()
            && self.long_at(settings).is_some_and(|at| at <= now)
    }
}

impl Scheduling {
    /// Has stalled statements lend their permits. A statement that has run for longer than its kind does may wait for a lock, and the lock's
    /// owner for a permit. So the statement lends its own permit to others until its end, as in MySQL's pool (a stalled thread no longer
    /// counts). Returns the number that lend.
    pub(crate) fn lend_stalled_permits(
        &mut self,
        now: Instant,
        settings: &Settings,
        pool: &mut Pool,
        servers: &mut Servers,
        clients: &Table<ClientKey, Client>,
        identities: &Identities,
    ) -> u64 {
        let short = self.scheduler.lends_stalled() && self.scheduler.is_short_of_permits();
        // Those of the long lane are not short of permits: their kinds stay known.
        if short || !self.stalls.overdue_kinds.is_empty() {
            self.stalls.overdue_kinds = self.find_overdue_kinds(now, settings, servers);
        }
        if !short {
            return 0;
        }
        self.have_others_lend(now, pool, servers, clients, identities);
        let over: Vec<_> = servers
            .backends()
            .filter(|(_, backend)| {
                backend.permit() != Permit::None && self.stalls_at(now, settings, backend) <= now
            })
            .map(|(key, backend)| (key, backend.permit()))
            .collect();
        if over.is_empty() {
            return 0;
        }
        self.stalls.latest = Some(now);
        let room = match self.room_to_lend(now, settings, pool, servers) {
            0 => usize::from(self.shuts_a_user_out(now, pool, clients, identities)),
            room => room,
        };
        let mut lent = 0;
        for (key, _) in over.into_iter().filter(|&(_, permit)| permit == Permit::Held).take(room) {
            servers[key].lend_permit(&mut self.scheduler);
            lent += 1;
        }
        lent
    }

    /// Returns how many more statements of this worker may lend their permits because of a stall.
    fn room_to_lend(&self, now: Instant, settings: &Settings, pool: &Pool, servers: &Servers) -> usize {
        if !self.scheduler.is_native() {
            return usize::MAX;
        }
        // Most backends are in use, and who takes the rest may be of the same kind: rather than that, the server says who waits.
        if self.is_reserve_reached(settings, pool, servers) && self.may_ask_who_waits(now, settings, servers)
        {
            return 0;
        }
        let count = |is: fn(&Backend) -> bool| servers.backends().filter(|(_, backend)| is(backend)).count();
        let most = |all: u32| all.div_ceil(pool.workers.count()) as usize;
        let lends = servers.backends().filter(|(_, backend)| backend.lends_for_unknown_reasons());
        let young = lends.filter(|(_, backend)| backend.long_at(settings).is_none_or(|at| at > now)).count();
        let unexplained = most(pool.workers.permits().saturating_mul(LENT)).saturating_sub(young);
        // Those that wait for a lock must not have taken every backend there may be before their kind is known for it.
        let of_backends = most(pool.workers.places.limit() / 2)
            .saturating_sub(count(|backend| backend.permit() == Permit::Lent));
        unexplained.min(of_backends)
    }

    /// Says whether any server can be asked which statements wait.
    fn may_ask_who_waits(&self, now: Instant, settings: &Settings, servers: &Servers) -> bool {
        servers.iter().any(|server| server.may_be_asked_who_waits(now, settings, &self.scheduler))
    }

    /// Says whether new work waits of a user who has nothing under way, while statements of others hold all permits. One more of these then
    /// lends its own, and again as long as that is so, however many have: a user's part of the backends is the bound. Otherwise a user who
    /// sleeps in as many transactions as may lend would stop everybody.
    fn shuts_a_user_out(
        &self,
        now: Instant,
        pool: &Pool,
        clients: &Table<ClientKey, Client>,
        identities: &Identities,
    ) -> bool {
        now < pool.workers.crowded_until()
            || pool.workers.shut_a_user_out(now)
            || self.has_a_user_shut_out(pool, clients, identities)
    }

    /// Says whether such a user's work waits on this worker.
    fn has_a_user_shut_out(
        &self,
        pool: &Pool,
        clients: &Table<ClientKey, Client>,
        identities: &Identities,
    ) -> bool {
        let keys = self.scheduler.some_short(LOOKED_AT);
        let mut users = keys.iter().filter_map(|&client| clients[client].identity());
        users.any(|identity| identities.usage(identity, &pool.workers.users).backends() == 0)
    }

    /// Says whether this worker can only wait for others to give a permit back, or to lend one.
    fn depends_on_others(&self, pool: &Pool, servers: &Servers) -> bool {
        let holds = |(_, backend): (BackendKey, &Backend)| backend.permit() == Permit::Held;
        pool.workers.count() > 1 && self.scheduler.waiting() > 0 && !servers.backends().any(holds)
    }

    /// Tells the workers that hold all permits that a user is shut out on this worker, which has none to lend.
    fn have_others_lend(
        &mut self,
        now: Instant,
        pool: &mut Pool,
        servers: &Servers,
        clients: &Table<ClientKey, Client>,
        identities: &Identities,
    ) {
        if self.stalls.look_at.is_some_and(|at| at > now) || !self.depends_on_others(pool, servers) {
            return;
        }
        self.stalls.look_at = Some(now + LOOK_AGAIN);
        // Until the next look, and the turn after it.
        let until = now + 2 * LOOK_AGAIN;
        if self.has_a_user_shut_out(pool, clients, identities)
            && pool.workers.prolong_shutting_out(now, until)
        {
            pool.write_to_others(&Letter::Wake);
        }
    }

    /// Returns the time at which the next permit is lent because of a stall.
    pub(crate) fn next_stall(
        &self,
        now: Instant,
        settings: &Settings,
        pool: &Pool,
        servers: &Servers,
        clients: &Table<ClientKey, Client>,
        identities: &Identities,
    ) -> Option<Instant> {
        if !self.scheduler.lends_stalled() || !self.scheduler.is_short_of_permits() {
            return None;
        }
        let held = servers.backends().filter(|(_, backend)| backend.permit() == Permit::Held);
        let stalls: Vec<_> = held.map(|(_, backend)| self.stalls_at(now, settings, backend)).collect();
        if stalls.is_empty() && self.depends_on_others(pool, servers) {
            return Some(self.stalls.look_at.map_or(now, |at| at.max(now)));
        }
        let first = stalls.iter().copied().min();
        if self.room_to_lend(now, settings, pool, servers) > 0
            || first.is_some_and(|first| first <= now)
                && self.shuts_a_user_out(now, pool, clients, identities)
        {
            return first;
        }
        // That something is stalled is a reason to ask the server all the same, and there is room again when a statement that has
        // lent its permit turns long.
        let running = servers.backends().filter(|(_, backend)| backend.permit() != Permit::None);
        let turns_long = running.filter_map(|(_, backend)| backend.long_at(settings));
        stalls.into_iter().chain(turns_long).filter(|&at| at > now).min()
    }

    /// Returns the kinds of which several statements have been running for `long_statement_time` or more, and are not known to wait for a lock.
    /// Their times are not known before their ends, maybe minutes from now.
    fn find_overdue_kinds(&self, now: Instant, settings: &Settings, servers: &Servers) -> Vec<u64> {
        if !self.scheduler.is_native() {
            return Vec::new();
        }
        let running = servers
            .backends()
            .map(|(_, backend)| backend)
            .filter(|backend| backend.is_overdue(now, settings));
        let mut kinds: Vec<_> = running
            .filter_map(|backend| backend.in_flight.front().map(|statement| statement.fingerprint))
            .collect();
        kinds.sort_unstable();
        let several = kinds.chunk_by(|one, other| one == other).filter(|alike| alike.len() >= OVERDUE);
        several.map(|alike| alike[0]).collect()
    }

    /// Lets the timers of a server's own pool look, in that server's profile.
    pub(crate) fn group_turn(&mut self, now: Instant, servers: &Servers) {
        if self.scheduler.is_native() {
            return;
        }
        let long = |limit| {
            let held = |backend: &Backend| {
                backend.permit() == Permit::Held && now.since(backend.permit_since()) > limit
            };
            u32::try_from(servers.backends().filter(|(_, backend)| held(backend)).count()).unwrap_or(u32::MAX)
        };
        self.scheduler.group_turn(long);
    }
}
