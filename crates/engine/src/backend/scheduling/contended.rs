//! Statements of kinds that wait for locks at present.
//!
//! A pool inside the server learns from the lock manager that a thread waits. From outside, a wait is known once the server has
//! been asked ([`crate::scheduling::learned::lock_waits`]). A finding about some statements of a kind is likely to hold for the next one. So a kind
//! is *contended* where half of its running statements or more wait. A statement that wants such a lock has nothing to compute until
//! its turn comes, whatever the others in the queues want. So statements of contended kinds have a lane of their own. They start
//! without permits, since they will wait. Only a bounded number starts at a time, since more would only occupy backends. All permits
//! are for the others.
//!
//! A client that holds locks already does not wait in that lane. It has a backend, and its statement starts there at once without a
//! permit. A client that last had a transaction of that sort waits in that lane with its next BEGIN, before it occupies a backend.

use std::collections::BTreeMap;

use seam::Instant;
use sql::Kind;

use crate::backend::{Backend, InFlight};
use crate::client::Client;
use crate::ids::{BackendKey, ClientKey, Table};
use crate::request::Request;
use crate::scheduling::Scheduling;
use crate::scheduling::learned::lock_waits::told::LockWaits;
use crate::scheduling::learned::long_permits::Allowed;
use crate::scheduling::scheduler::Grant;
use crate::scheduling::scheduler::lane::Lane;
use crate::scheduling::shares::Parties;
use crate::server::Server;
use crate::servers::Servers;
use crate::session::Sessions;
use crate::settings::ThreadHandling;

/// Number of statements of contended kinds in work for each permit. Where the locks differ, as rows of one table do, so many are needed
/// that each lock has a taker: with 16 rows four times as many statements keep 98 of 100 busy.
const FOR_EACH_PERMIT: u32 = 4;

impl InFlight {
    /// Returns the statement's fingerprint, if it has one, and the schema of its client. The backend's own schema is another one until the
    /// preludes, in the same text, have been answered.
    pub(crate) fn kind<'a>(
        &self,
        clients: &Table<ClientKey, Client>,
        sessions: &'a Sessions,
    ) -> Option<(u64, Option<&'a [u8]>)> {
        let schema = sessions.state(clients.get(self.owner.client()?)?.session.id()?).schema.as_deref();
        (self.fingerprint != 0).then_some((self.fingerprint, schema))
    }
}

/// The next step for the statements of contended kinds.
pub(in crate::backend) enum NextContended {
    /// No statement may start now.
    None,
    /// The first statement waits for nothing but a permit.
    WantsPermit,
    /// This client's statement may start as soon as it has a backend.
    Starts(ClientKey, Grant),
}

impl Server {
    /// Finds anew which kinds are contended, behind news of lock waits. True where some are not any more.
    fn note_contention(
        &mut self,
        now: Instant,
        clients: &Table<ClientKey, Client>,
        sessions: &Sessions,
    ) -> bool {
        let mut found = BTreeMap::new();
        for (_, backend) in self.backends.iter() {
            let first = backend.in_flight.front();
            if let Some((fingerprint, schema)) = first.and_then(|statement| statement.kind(clients, sessions))
            {
                let kind = (fingerprint, schema.map(Into::into));
                let (running, waiting) = found.entry(kind).or_insert((0, 0));
                *running += 1;
                *waiting += u32::from(backend.locks.waits);
            }
        }
        self.contention.note(now, found)
    }

    /// Starts a statement of the contended lane on this backend. A statement with a permit is of a kind that stands; it may be slow rather than
    /// wait.
    pub(in crate::backend) fn begin_contended(&mut self, key: BackendKey, grant: Grant) {
        debug_assert!(!self.backends[key].locks.contends, "what is in work does not wait here");
        if grant == Grant::Contended {
            self.backends[key].locks.contends = true;
            self.contention.in_work += 1;
        }
    }
}

impl Servers {
    /// Says whether a client's request is of a kind that waits for locks in its schema.
    fn has_contended_kind(
        &self,
        now: Instant,
        client: &Client,
        sessions: &Sessions,
        request: &Request,
    ) -> bool {
        self[self.serving(client)].contention.has(request.fingerprint(), client.schema(sessions), now)
    }

    /// Says whether a client's request is of a kind that waited for locks in its schema a while ago.
    pub(super) fn had_contended_kind(
        &self,
        now: Instant,
        client: &Client,
        sessions: &Sessions,
        request: &Request,
    ) -> bool {
        let contention = &self[self.serving(client)].contention;
        contention.was_there(request.statement.fingerprint, client.schema(sessions), now)
    }

    /// Says whether a client must not wait in the contended lane. A client that holds locks, or is in work already, may be the one that
    /// those in work wait for.
    pub(crate) fn passes_contended_lane(&self, client: &Client, request: &Request) -> bool {
        client.backend.is_some_and(|backend| request.turn.holds_locks() || self[backend].locks.contends)
    }

    /// Counts a backend out of those in work, once nothing is in flight there, unless its client is in the middle of a transaction.
    pub(in crate::backend) fn contender_rests(
        &mut self,
        key: BackendKey,
        clients: &Table<ClientKey, Client>,
    ) {
        let open = self[key].holder.is_some_and(|client| clients[client].in_transaction());
        if !open && std::mem::take(&mut self[key].locks.contends) {
            self.of_mut(key).contention.rests();
        }
    }
}

impl Scheduling {
    /// Takes in a server's answer about who waits for locks.
    pub(crate) fn take_lock_waits(
        &mut self,
        parties: &Parties<'_>,
        clients: &mut Table<ClientKey, Client>,
        servers: &mut Servers,
        found: &LockWaits,
    ) {
        let server = &mut servers[found.server];
        server.take_lock_waits(parties.now, &found.waits, found.asked, clients, self);
        if server.note_contention(parties.now, clients, &parties.sessions.states) {
            self.leave_contended_lanes(parties, clients, servers);
        }
    }

    /// Notes what a statement that is about to be queued says about its client's transactions to come. True where the statement is of a
    /// contended kind, or the first of a transaction that will have one.
    pub(crate) fn note_contender(
        &self,
        parties: &Parties<'_>,
        servers: &Servers,
        client: &mut Client,
        request: &mut Request,
    ) -> bool {
        let contended = servers.has_contended_kind(parties.now, client, &parties.sessions.states, request);
        if request.statement.kind == Kind::Begin {
            request.turn.begins_transaction(client.transaction.take_contends());
        }
        client.transaction.note_kind(contended);
        self.is_contended(parties, servers, client, request)
    }

    /// Says whether a statement is of a contended kind, or the first of a transaction that will have one.
    fn is_contended(
        &self,
        parties: &Parties<'_>,
        servers: &Servers,
        client: &Client,
        request: &Request,
    ) -> bool {
        self.scheduler.is_native()
            && parties.settings.thread_handling == ThreadHandling::PoolOfThreads
            && match request.turn.contends() {
                true => servers[servers.serving(client)].contention.is_there(parties.now),
                false => servers.has_contended_kind(parties.now, client, &parties.sessions.states, request),
            }
    }

    /// Moves a statement to the contended lane, if that turns out as its turn comes. True where it moves.
    pub(in crate::backend) fn enter_contended_lane(
        &mut self,
        parties: &Parties<'_>,
        clients: &mut Table<ClientKey, Client>,
        servers: &Servers,
        key: ClientKey,
    ) -> bool {
        let client = &clients[key];
        let request = client.request.as_ref().expect("a queued client has a request");
        let may_enter = matches!(request.turn.lane(), Some(Lane::High | Lane::Low | Lane::Long))
            && !servers.passes_contended_lane(client, request);
        let contended = may_enter && self.is_contended(parties, servers, client, request);
        let (now, settings, pool) = (parties.now, parties.settings, parties.pool);
        let others = (&*clients, &parties.sessions.states);
        let enters = contended
            || (may_enter && self.finds_kind_standing(now, settings, pool, servers, client, others));
        if enters {
            clients[key].transaction.note_kind(contended);
            self.change_lane(now, key, &mut clients[key], Lane::Contended);
        }
        enters
    }

    /// Returns the next statement of a contended kind, as long as more may be in work. Sends statements back to the other lanes where their
    /// kind is not contended any more and does not stand.
    pub(in crate::backend) fn next_contended(
        &mut self,
        parties: &Parties<'_>,
        clients: &mut Table<ClientKey, Client>,
        servers: &Servers,
        backend_free: bool,
    ) -> NextContended {
        while let Some(key) = self.scheduler.peek_contended(backend_free) {
            let client = &clients[key];
            let request = client.request.as_ref().expect("a queued client has a request");
            let contended = self.is_contended(parties, servers, client, request);
            if !contended && !self.is_of_standing_kind(parties, client, request) {
                self.leave_contended_lane(parties.now, key, &mut clients[key]);
                continue;
            }
            let needs_backend = client.backend.is_none();
            if self.leaves_room_for_others(parties, clients, servers, key) {
                continue;
            }
            if self.contended_room(parties, clients, servers) == 0
                || (needs_backend && self.has_only_last_backends(parties, servers))
            {
                return NextContended::None;
            }
            // What stands may be slow rather than wait.
            let permit = if contended { None } else { self.take_permit_or_want_it(key) };
            return match permit.or(contended.then_some(Grant::Contended)) {
                Some(grant) => NextContended::Starts(key, grant),
                None => NextContended::WantsPermit,
            };
        }
        NextContended::None
    }

    /// Puts the grant of a statement back that has found no backend, and returns the clients in the lane that wait for one.
    pub(in crate::backend) fn contended_lack_backend(
        &mut self,
        parties: &Parties<'_>,
        clients: &Table<ClientKey, Client>,
        servers: &Servers,
        grant: Grant,
    ) -> Vec<ClientKey> {
        self.scheduler.put_back(grant);
        let room = self.contended_room(parties, clients, servers) as usize;
        self.scheduler.contended_in_need(room)
    }

    /// Tells the scheduler how many more may start, after all that could have started.
    pub(in crate::backend) fn note_contended_room(
        &mut self,
        parties: &Parties<'_>,
        clients: &Table<ClientKey, Client>,
        servers: &Servers,
    ) {
        // Nobody asks for it where none waits, and where none may start they do not wait for backends.
        let waits =
            self.scheduler.peek_contended(true).is_some() && !self.has_only_last_backends(parties, servers);
        let room = if waits { self.contended_room(parties, clients, servers) } else { 0 };
        self.scheduler.note_contended_room(room as usize);
    }

    /// Moves statements to the other lanes where their kinds have turned out to wait no more, or not to stand. Looks at the whole lane,
    /// since statements of a kind that still waits may be before them.
    pub(in crate::backend) fn leave_contended_lanes(
        &mut self,
        parties: &Parties<'_>,
        clients: &mut Table<ClientKey, Client>,
        servers: &Servers,
    ) {
        for key in self.scheduler.contended() {
            let client = &mut clients[key];
            let request = client.request.as_ref().expect("a queued client has a request");
            if !self.is_contended(parties, servers, client, request)
                && !self.is_of_standing_kind(parties, client, request)
            {
                self.leave_contended_lane(parties.now, key, client);
            }
        }
    }

    fn leave_contended_lane(&mut self, now: Instant, key: ClientKey, client: &mut Client) {
        let lane = if client.in_transaction() { Lane::High } else { Lane::Low };
        self.change_lane(now, key, client, lane);
    }

    fn is_of_standing_kind(&self, parties: &Parties<'_>, client: &Client, request: &Request) -> bool {
        self.stands(parties.now, request.fingerprint(), client.schema(&parties.sessions.states))
    }

    fn has_only_last_backends(&self, parties: &Parties<'_>, servers: &Servers) -> bool {
        self.only_last_backends_are_left(parties.settings, parties.pool, servers)
    }

    /// Returns how many more contended statements may be in work on this worker. Counts statements too that waited or stood before their kind
    /// was known for it: they have backends as well.
    fn contended_room(
        &self,
        parties: &Parties<'_>,
        clients: &Table<ClientKey, Client>,
        servers: &Servers,
    ) -> u32 {
        let (now, sessions) = (parties.now, &parties.sessions.states);
        let waits_beside = |backend: &Backend| {
            !backend.locks.contends
                && (backend.locks.waits || self.runs_standing_kind(now, backend, clients, sessions))
        };
        let beside = servers.backends().filter(|(_, backend)| waits_beside(backend)).count();
        let in_work: u32 = servers.iter().map(|server| server.contention.in_work).sum();
        let in_work = in_work.saturating_add(u32::try_from(beside).unwrap_or(u32::MAX));
        let workers = &parties.pool.workers;
        let all = workers.permits().saturating_mul(FOR_EACH_PERMIT);
        // Half of the backends are for the others, whatever happens.
        let all = all.min(workers.places.limit() / 2);
        all.div_ceil(workers.count()).max(1).saturating_sub(in_work)
    }
}

impl Backend {
    /// Says whether the permit is lent for a stall that nobody has explained. A long statement beyond the permits has had no permit.
    pub(crate) fn lends_for_unknown_reasons(&self) -> bool {
        self.permit() == crate::backend::Permit::Lent
            && self.runs_long != Some(Allowed::Beyond)
            && !self.locks.waits
            && !self.locks.contends
            && !self.place.is_former()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::commands::command::tests::{engine, open_backends};
    use crate::engine::Engine;
    use crate::settings::Settings;

    #[test]
    fn long_statements_beyond_the_permits_leave_room_for_those_that_stall() {
        let mut engine = engine(1, Settings::default());
        let primary = engine.servers.primary().key;
        let [key] = open_backends(&mut engine, &[primary])[..] else { unreachable!() };
        let Engine { servers, scheduling, .. } = &mut engine;
        servers[key].begin_with_permit(Instant::START, &mut scheduling.scheduler, false, 0);
        assert!(servers[key].lends_for_unknown_reasons());
        servers[key].runs_long = Some(Allowed::Beyond);
        assert!(!servers[key].lends_for_unknown_reasons());
    }

    /// The option says more than the server takes.
    #[test]
    fn half_of_the_backends_that_the_server_takes_are_for_others() {
        let settings = Settings { permits: 64, max_backends: 500, ..Settings::default() };
        let mut engine = engine(1, settings);
        let room = |engine: &mut Engine| {
            let (scheduling, parties, clients, servers) = engine.queues();
            scheduling.contended_room(&parties, clients, servers)
        };
        assert_eq!(room(&mut engine), 250);
        for _ in 0..150 {
            assert!(engine.pool.take_place(Instant::START).is_some());
        }
        engine.pool.workers.places.refused(Instant::START);
        assert_eq!(room(&mut engine), 75);
    }
}
