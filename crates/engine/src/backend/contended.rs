//! Statements whose like wait for locks at present.
//!
//! A pool inside the server learns from the lock manager that a thread waits. From outside, a wait is known once the server has
//! been asked ([`crate::learned::lock_waits`]). But a finding about some statements of a kind is likely to hold for the next one:
//! so a kind of which half and more wait is *contended*. A statement that wants such a lock has nothing to compute until it is
//! its turn, whatever the others in the queues want. So statements of contended kinds have a lane of their own. They start
//! without permits, since they will wait, and a bounded number at a time, since more of them would only occupy backends. All
//! permits are for the others.
//!
//! A client that holds locks already does not wait in that lane: it has a backend, and its statement starts without a permit at
//! once. A client whose last transaction was of that sort waits in that lane with its next BEGIN, before it occupies a backend.

use std::collections::BTreeMap;

use sql::Kind;

use super::{Backend, InFlight};
use crate::client::Client;
use crate::engine::Engine;
use crate::ids::{BackendKey, ClientKey, ServerKey, Table};
use crate::learned::lock_waits::told::LockWaits;
use crate::request::Request;
use crate::scheduler::Grant;
use crate::scheduler::lane::Lane;
use crate::session::Sessions;
use crate::settings::ThreadHandling;

/// For each permit so many statements of contended kinds may be in work. With locks that are different ones, as rows of one
/// table are, so many are needed that each has a taker: with 16 rows four times as many keep 98 of 100 busy.
const FOR_EACH_PERMIT: u32 = 4;

impl InFlight {
    /// Its fingerprint, if it has one, and its schema: its client's, since the backend's own is another one until what went ahead of the
    /// statement, in the same text, is answered.
    pub(crate) fn kind<'a>(
        &self,
        clients: &Table<ClientKey, Client>,
        sessions: &'a Sessions,
    ) -> Option<(u64, Option<&'a [u8]>)> {
        let schema = sessions.state(clients.get(self.owner.client()?)?.session.id?).schema.as_deref();
        (self.fingerprint != 0).then_some((self.fingerprint, schema))
    }
}

impl Engine {
    /// A server has said who waits for locks.
    pub(crate) fn take_lock_waits(&mut self, found: &LockWaits) {
        let server = &mut self.servers[found.server];
        server.tell_holders(&found.waits, &self.clients, &mut self.pool);
        let scheduling = &mut self.scheduling;
        server.take_lock_waits(self.now, &found.waits, found.asked, &mut self.clients, scheduling);
        self.note_contention(found.server);
    }

    /// Finds anew which kinds are contended on a server, behind news of lock waits.
    fn note_contention(&mut self, server: ServerKey) {
        let mut found = BTreeMap::new();
        for (_, backend) in self.servers[server].backends.iter() {
            let first = backend.in_flight.front();
            if let Some((fingerprint, schema)) =
                first.and_then(|statement| statement.kind(&self.clients, &self.sessions.states))
            {
                let kind = (fingerprint, schema.map(Into::into));
                let (running, waiting) = found.entry(kind).or_insert((0, 0));
                *running += 1;
                *waiting += u32::from(backend.locks.waits);
            }
        }
        if self.servers[server].contention.note(self.now, found) {
            self.leave_contended_lanes();
        }
    }

    /// Says whether a client's request is of a kind that waits for locks in its schema.
    fn is_of_contended_kind(&self, key: ClientKey, request: &Request) -> bool {
        self.servers[self.servers.serving(&self.clients[key])].contention.has(
            request.fingerprint(),
            self.clients[key].schema(&self.sessions.states),
            self.now,
        )
    }

    /// Says whether a client's request was of a kind that waits for locks in its schema, a while ago.
    pub(crate) fn was_contended(&self, key: ClientKey, request: &Request) -> bool {
        self.servers[self.servers.serving(&self.clients[key])].contention.was_there(
            request.statement.fingerprint,
            self.clients[key].schema(&self.sessions.states),
            self.now,
        )
    }

    /// A statement is about to be queued: notes what it says about its client's transactions to come.
    pub(crate) fn note_contender(&mut self, key: ClientKey, request: &mut Request) {
        let contended = self.is_of_contended_kind(key, request);
        let client = &mut self.clients[key];
        if request.statement.kind == Kind::Begin {
            request.turn.contends = std::mem::take(&mut client.transaction.contends);
        }
        client.transaction.contends |= contended;
    }

    /// A statement of a contended kind, or the first of a transaction that will have one.
    pub(crate) fn is_contended(&self, key: ClientKey, request: &Request) -> bool {
        self.scheduling.scheduler.is_native()
            && self.settings.thread_handling == ThreadHandling::PoolOfThreads
            && match request.turn.contends {
                true => self.servers[self.servers.serving(&self.clients[key])].contention.is_there(self.now),
                false => self.is_of_contended_kind(key, request),
            }
    }

    /// Says whether a client must not wait in the contended lane: one that holds locks, or is in work already, may be the one
    /// that those in work wait for.
    pub(crate) fn passes_contended_lane(&self, key: ClientKey, request: &Request) -> bool {
        self.clients[key]
            .backend
            .is_some_and(|backend| request.turn.holds_locks || self.servers[backend].locks.contends)
    }

    /// Moves a statement whose turn has come to the contended lane, if it has turned out to belong there.
    pub(crate) fn enter_contended_lane(&mut self, key: ClientKey) -> bool {
        let request = self.clients[key].request.as_ref().expect("a queued client has a request");
        let may_enter = matches!(request.turn.lane, Some(Lane::High | Lane::Low | Lane::Long))
            && !self.passes_contended_lane(key, request);
        let contended = may_enter && self.is_contended(key, request);
        let enters = contended || (may_enter && self.finds_kind_standing(key));
        if enters {
            self.clients[key].transaction.contends |= contended;
            self.scheduling.change_lane(self.now, key, &mut self.clients[key], Lane::Contended);
        }
        enters
    }

    /// Starts statements of contended kinds, as many as may be in work, or as find a backend. Statements whose kind is contended
    /// no more, and does not stand, go back to the others. Returns whether one waits for nothing but a permit.
    pub(crate) fn start_contended(&mut self) -> bool {
        let (mut backend_free, mut wanting) = (true, false);
        while let Some(key) = self.scheduling.scheduler.peek_contended(backend_free) {
            let request = self.clients[key].request.as_ref().expect("a queued client has a request");
            let contended = self.is_contended(key, request);
            if !contended && !self.is_of_standing_kind(key, request) {
                self.leave_contended_lane(key);
                continue;
            }
            if self.leaves_room_for_others(key) {
                continue;
            }
            let needs_backend = self.clients[key].backend.is_none();
            if self.contended_room() == 0 || (needs_backend && self.only_last_backends_are_left()) {
                break;
            }
            // What stands may be slow rather than wait.
            let permit = if contended { None } else { self.scheduling.take_permit_or_want_it(key) };
            let Some(grant) = permit.or(contended.then_some(Grant::Contended)) else {
                wanting = true;
                break;
            };
            match self.clients[key].backend.or_else(|| self.idle_backend_for(key)) {
                Some(backend) => {
                    debug_assert!(
                        !self.servers[backend].locks.contends,
                        "what is in work does not wait here"
                    );
                    if contended {
                        self.servers[backend].locks.contends = true;
                        self.servers.of_mut(backend).contention.in_work += 1;
                    }
                    self.start_alone(key, backend, grant);
                }
                None => {
                    self.scheduling.scheduler.put_back(grant);
                    let room = self.contended_room() as usize;
                    let waiting = self.scheduling.scheduler.contended_in_need(room);
                    self.open_backends_for(&waiting);
                    backend_free = false;
                }
            }
        }
        // Nobody asks for it where none waits, and where none may start they do not wait for backends.
        let waits =
            self.scheduling.scheduler.peek_contended(true).is_some() && !self.only_last_backends_are_left();
        let room = if waits { self.contended_room() } else { 0 };
        self.scheduling.scheduler.note_contended_room(room as usize);
        wanting
    }

    /// Kinds have turned out to wait no more, or not to stand: their statements go on with the others, wherever in the lane they are.
    /// Those of a kind that still waits may be before them.
    pub(crate) fn leave_contended_lanes(&mut self) {
        for key in self.scheduling.scheduler.contended() {
            let request = self.clients[key].request.as_ref().expect("a queued client has a request");
            if !self.is_contended(key, request) && !self.is_of_standing_kind(key, request) {
                self.leave_contended_lane(key);
            }
        }
    }

    fn leave_contended_lane(&mut self, key: ClientKey) {
        let open = self.clients[key].in_transaction();
        self.scheduling.change_lane(
            self.now,
            key,
            &mut self.clients[key],
            if open { Lane::High } else { Lane::Low },
        );
    }

    fn is_of_standing_kind(&self, key: ClientKey, request: &Request) -> bool {
        let schema = self.clients[key].schema(&self.sessions.states);
        self.scheduling.stands(self.now, request.fingerprint(), schema)
    }

    fn finds_kind_standing(&mut self, key: ClientKey) -> bool {
        let (now, settings, client) = (self.now, &self.settings, &self.clients[key]);
        let others = (&self.clients, &self.sessions.states);
        self.scheduling.finds_kind_standing(now, settings, &self.pool, &self.servers, client, others)
    }

    fn only_last_backends_are_left(&self) -> bool {
        self.scheduling.only_last_backends_are_left(&self.settings, &self.pool, &self.servers)
    }

    /// How many more of them may be in work on this worker. Those count that waited or stood before their kind was known for it: they
    /// have backends as well.
    fn contended_room(&self) -> u32 {
        let waits_beside = |backend: &Backend| {
            !backend.locks.contends
                && (backend.locks.waits
                    || self.scheduling.runs_standing_kind(
                        self.now,
                        backend,
                        &self.clients,
                        &self.sessions.states,
                    ))
        };
        let beside = self.servers.backends().filter(|(_, backend)| waits_beside(backend)).count();
        let in_work: u32 = self.servers.iter().map(|server| server.contention.in_work).sum();
        let in_work = in_work.saturating_add(u32::try_from(beside).unwrap_or(u32::MAX));
        let all = self.pool.workers.permits().saturating_mul(FOR_EACH_PERMIT);
        // Half of the backends are for the others, whatever happens.
        let all = all.min(self.pool.workers.places.most() / 2);
        all.div_ceil(self.pool.workers.count()).max(1).saturating_sub(in_work)
    }

    /// Nothing is left in flight on a backend: what was in work there is over, unless it is in the middle of a transaction.
    pub(crate) fn contender_rests(&mut self, key: BackendKey) {
        let backend = &self.servers[key];
        let open = backend.holder.is_some_and(|client| self.clients[client].in_transaction());
        if !open && std::mem::take(&mut self.servers[key].locks.contends) {
            self.servers.of_mut(key).contention.rests();
        }
    }
}

impl Backend {
    /// Lent for a stall that nobody has explained.
    pub(crate) fn lends_for_unknown_reasons(&self) -> bool {
        self.permit() == super::Permit::Lent
            && !self.locks.waits
            && !self.locks.contends
            && !self.place.is_former()
    }
}
