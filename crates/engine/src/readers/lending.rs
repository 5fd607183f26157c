//! Reads on replicas, from both sides. The side that has the clients: when a read goes to a replica, and what becomes of those that come
//! back. A reader's side: clients that are there for one statement.
//!
//! To the reader a guest is a client like any, but for its ends. The reader sends the client nothing of its own: an error of Onramp's goes back
//! with the guest, and the lending side decides. The reader closes no connection of a client.

use std::sync::Arc;
use std::time::Duration;

use seam::{Input, Instant, Program};

use super::following::FollowingReplicas;
use super::guests::{Guest, GuestEnd, Guests, Returned};
use super::lent::{At, Lent};
use super::route::{Asked, HEAD_START, Route};
use super::routing::NotSplit;
use super::split::Splitting;
use crate::backend::InFlight;
use crate::client::memory::bytes_held::Counted;
use crate::client::{Client, Phase};
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::ids::{BackendKey, ClientKey, ClientRef};
use crate::io::Role;
use crate::outside::named::ClosedFor;
use crate::outside::waits::WaitReason;
use crate::request::{Request, RequestKind, TEXT_AT};
use crate::scheduling::coalescing::followers::followers_of;

impl Engine {
    /// Lends a client's read to a replica, or has it wait for one. Whatever else it is goes to the primary's queues.
    pub(crate) fn lend_or_queue(&mut self, key: ClientKey, mut request: Request) {
        if self.readers.is_empty() {
            return self.queue_request(key, request);
        }
        let Self { now, settings, pool, clients, logins, sessions, servers, .. } = self;
        let client = &clients[key];
        let mut splitting = Splitting { now: *now, settings, pool, client, logins, sessions, servers };
        let needs = match splitting.needs_of(&mut request) {
            Ok(needs) => needs,
            Err(why) => {
                self.readers.routing.note_primary(request.statement.fingerprint, why);
                return self.queue_request(key, request);
            }
        };
        match self.route_for(key, needs, Duration::ZERO) {
            Route::Reader(place) => self.lend_to(place, key, request, self.now),
            Route::Wait => self.wait_for_replica(key, request, needs),
            Route::Primary(why) => self.queue_on_primary(key, request, why),
        }
    }

    fn wait_for_replica(&mut self, key: ClientKey, request: Request, needs: Instant) {
        self.views.totals.replica_reads_waited += 1;
        self.readers.routing.of(request.statement.fingerprint).waited += 1;
        let mut counted = Counted::default();
        self.client_memory.statements.set(&mut counted, request.bytes());
        let answer = request.answer;
        let number = self.readers.waiting.add(self.clients.ref_to(key), needs);
        if self.settings.reads.zone.is_some() {
            self.readers.waiting.give_head_start(self.now + HEAD_START);
        }
        let at = At::Waiting { request: Box::new(request), number };
        let lent = Lent { at, since: self.now, answer, raw: Vec::new(), about: None, counted };
        self.clients[key].lend(lent);
    }

    /// Queues a read that could have gone elsewhere, and counts it into the primary's load.
    fn queue_on_primary(&mut self, key: ClientKey, mut request: Request, why: NotSplit) {
        self.readers.routing.note_primary(request.statement.fingerprint, why);
        request.counts_for_primary = Some(self.now);
        self.readers.primary.begin();
        if why == NotSplit::Sooner
            && let Some(place) = self.pool.workers.chosen.get().place
        {
            self.readers.take_turn(place);
        }
        self.queue_request(key, request);
    }

    /// A request of a client is over.
    pub(crate) fn note_end_for_readers(&mut self, key: ClientKey, request: &Request) {
        if self.readers.is_empty() {
            return;
        }
        if let Some(since) = request.counts_for_primary {
            self.readers.primary.end(self.now, self.now.since(since));
        }
        // Whatever is not known to write nothing may have: a view may have called a function that does.
        let refresh = self.settings.accounts_refresh;
        let only_reads = request.statement.plain_read
            && !request.tries.came_back
            && self.servers.primary_mut().rescues.has_no_functions(self.now, refresh);
        if request.turn.has_started() && !only_reads {
            self.clients[key].wrote = self.now;
        }
    }

    /// Chooses a place for a client's read that has waited for a replica for so long.
    fn route_for(&self, key: ClientKey, needs: Instant, waited: Duration) -> Route {
        let identity = self.clients[key].identity().expect("a client with requests has logged in");
        let account = &self.logins.identities.identity(identity).account;
        let primary = self.pool.workers.chosen.get().place;
        self.readers.route(&Asked { now: self.now, needs, waited, account, primary }, &self.settings.reads)
    }

    fn lend_to(&mut self, place: usize, key: ClientKey, request: Request, since: Instant) {
        let about = request.about.as_deref().map(|about| (*about, request.rows.found));
        let statement = about.map(|(about, _)| {
            let mut statement = self.prepared().lend(key, about);
            self.readers.all[place].given.give(&mut statement.session);
            statement
        });
        let client = &mut self.clients[key];
        let (raw, answer) = (request.raw.clone(), request.answer);
        let fingerprint = request.statement.fingerprint;
        self.views.measures.turn.note_statement(request.bytes(), fingerprint);
        let has_begun = !client.activity.begins();
        let aftermath = std::mem::take(&mut client.session.aftermath);
        let mut counted = Counted::default();
        self.client_memory.statements.set(&mut counted, raw.len());
        client.lend(Lent { at: At::Reader(place), since, answer, raw, about, counted });
        let client = &self.clients[key];
        let identity = client.identity().expect("a client with requests has logged in");
        let identity = self.logins.identities.identity(identity);
        let session = client.session.id().expect("likewise");
        let mut state = self.sessions.states.state(session).clone();
        self.readers.all[place].given.give(&mut state);
        let guest = Guest {
            connection: client.connection,
            peer: client.peer,
            id: client.id,
            capabilities: client.capabilities,
            collation: client.login.collation,
            account: Arc::clone(&identity.account),
            user: identity.user.clone(),
            secret: identity.secret.clone(),
            session: state,
            aftermath,
            status: client.session.status(),
            priority: client.priority,
            has_begun,
            request,
            statement,
        };
        self.views.totals.replica_reads += 1;
        self.readers.routing.of(fingerprint).sent += 1;
        let reader = &mut self.readers.all[place];
        reader.sent += 1;
        reader.load.begin();
        self.readers.take_turn(place);
        self.readers.enter(place, self.now, &mut self.io, |reader| reader.take_guest(guest));
    }

    /// Ends the turn of each reader in which something has happened, or is due. Clients that come back go on.
    pub(crate) fn turn_of_readers(&mut self) {
        if self.readers.is_empty() {
            return;
        }
        let others = self.follow_replicas().fitness();
        let fresher = self.follow_replicas().positions();
        self.serve_waiting(others, fresher);
        for place in 0..self.readers.all.len() {
            let reader = &self.readers.all[place];
            let is_due = || reader.engine.next_timeout().is_some_and(|at| at <= self.now);
            if !(reader.is_touched || (reader.is_open() && is_due())) {
                continue;
            }
            let now = self.now;
            self.readers.enter(place, now, &mut self.io, |reader| reader.handle(now, Input::TurnEnd));
            self.readers.all[place].is_touched = false;
            self.take_back_from(place);
        }
    }

    /// The readers, and what is known of their servers.
    pub(super) fn follow_replicas(&mut self) -> FollowingReplicas<'_> {
        let Self { now, settings, pool, servers, readers, io, .. } = self;
        FollowingReplicas { now: *now, settings, pool, servers, readers, io }
    }

    fn take_back_from(&mut self, place: usize) {
        for returned in self.readers.returned(place) {
            self.take_back(place, returned);
        }
    }

    /// Has reads that wait for replicas, or have come back from them, wait for the primary.
    pub(crate) fn give_up_replicas(&mut self) {
        for place in 0..self.readers.all.len() {
            self.take_back_from(place);
        }
        for client in self.readers.waiting.all() {
            if let Some((request, _)) = self.take_waiting(client.key) {
                self.queue_on_primary(client.key, request, NotSplit::NotInTime);
            }
        }
    }

    /// The time at which a read has waited for long enough.
    pub(crate) fn end_of_wait(&self, client: ClientRef) -> Option<Instant> {
        match self.clients.find(client)?.phase() {
            Phase::Lent(lent) if matches!(lent.at, At::Waiting { .. }) => {
                Some(lent.since + self.settings.reads.wait_limit)
            }
            _ => None,
        }
    }

    /// Reads that wait go to a replica that has what they are to see or, when they have waited for long enough, to the primary. `others` where
    /// other servers may be read from than before, `fresher` where one of them has more than before.
    fn serve_waiting(&mut self, others: bool, fresher: bool) {
        let perhaps = match (others, fresher) {
            (true, _) => self.readers.waiting.all(),
            (false, true) => {
                self.readers.freshest().map(|as_of| self.readers.waiting.served_by(as_of)).unwrap_or_default()
            }
            (false, false) => Vec::new(),
        };
        for client in perhaps {
            self.serve_one(client.key, false);
        }
        while let Some(client) = self.readers.waiting.end_head_start(self.now) {
            self.serve_one(client.key, false);
        }
        while let Some(first) = self.readers.waiting.first()
            && self.end_of_wait(first).is_none_or(|end| end <= self.now)
        {
            self.serve_one(first.key, true);
        }
    }

    /// A read that waits goes where it can, by now; where its wait is over, in any case.
    fn serve_one(&mut self, key: ClientKey, is_over: bool) {
        let Phase::Lent(lent) = self.clients[key].phase() else { return };
        let At::Waiting { number, .. } = lent.at else { return };
        let waited = self.now.since(lent.since);
        let Some(needs) = self.readers.waiting.need_of(number) else { return };
        let route = self.route_for(key, needs, waited);
        if matches!(route, Route::Wait) && !is_over {
            return;
        }
        let Some((request, since)) = self.take_waiting(key) else { return };
        match route {
            Route::Reader(place) => self.lend_to(place, key, request, since),
            Route::Wait | Route::Primary(_) => {
                self.views.totals.replica_reads_returned += 1;
                self.queue_on_primary(key, request, NotSplit::NotInTime);
            }
        }
    }

    /// A client waits for a replica no more. Returns its statement, and since when it has waited.
    fn take_waiting(&mut self, key: ClientKey) -> Option<(Request, Instant)> {
        let lent = self.come_back(key)?;
        self.scheduling.waits.record(WaitReason::Replica, self.now.since(lent.since));
        match lent.at {
            At::Waiting { request, .. } => Some((*request, lent.since)),
            At::Reader(_) => None,
        }
    }

    fn come_back(&mut self, key: ClientKey) -> Option<Lent> {
        let mut lent = self.clients[key].come_back()?;
        self.client_memory.statements.give_back(&mut lent.counted);
        match lent.at {
            At::Reader(place) => self.readers.all[place].load.end(self.now, self.now.since(lent.since)),
            At::Waiting { number, .. } => self.readers.waiting.remove(number),
        }
        Some(lent)
    }

    /// A client comes back from a reader.
    fn take_back(&mut self, place: usize, returned: Returned) {
        let Some(key) = self.ids.client_with(returned.id) else { return };
        let is_there = matches!(self.clients[key].phase(), Phase::Lent(lent) if matches!(lent.at, At::Reader(at) if at == place));
        let Some(lent) = is_there.then(|| self.come_back(key)).flatten() else { return };
        let client = &mut self.clients[key];
        client.session.status_told(returned.status);
        client.session.aftermath = returned.aftermath;
        client.activity.goes_on(self.now);
        if returned.is_paused {
            client.backpressure.paused_elsewhere();
            self.clients[key].update_reading(&mut self.io.outbox);
        }
        match returned.ended {
            GuestEnd::Answered => {}
            GuestEnd::Broken => return self.drop_client(key),
            GuestEnd::NotRun(error) if error == MySqlError::interrupted() => {
                self.views.totals.cancelled += 1;
                self.answers().error(key, lent.answer, &error);
            }
            GuestEnd::NotRun(_) => return self.read_on_primary(key, lent),
            GuestEnd::Lost(error) => {
                // A function that a view has called may have written there, if its account may do so in spite of read_only.
                let refresh = self.settings.accounts_refresh;
                if self.servers.primary_mut().rescues.has_no_functions(self.now, refresh) {
                    return self.read_on_primary(key, lent);
                }
                if self.clients[key].loss.wants_end {
                    return self.close_client(
                        key,
                        ClosedFor::BackendLost,
                        "the replica that had its read was lost",
                    );
                }
                self.answers().error(key, lent.answer, &error);
            }
        }
        self.resume.push(key);
        self.drain_client(key);
    }

    /// Has the primary do what a replica has not done.
    fn read_on_primary(&mut self, key: ClientKey, lent: Lent) {
        self.views.totals.replica_reads_returned += 1;
        let Lent { raw, about, answer, .. } = lent;
        let mut request = match about {
            Some((about, found)) => self.sessions.execution(about, found, raw, answer),
            None => {
                let request = Request::of_query(
                    &raw[TEXT_AT..],
                    self.lex_mode(key),
                    self.clients[key].wants(&self.settings),
                    answer,
                );
                Request { raw, ..request }
            }
        };
        request.tries.came_back = true;
        self.queue_on_primary(key, request, NotSplit::CameBack);
    }

    /// A lent client goes.
    pub(crate) fn forget_lent(&mut self, key: ClientKey) {
        let id = self.clients[key].id;
        match self.come_back(key).map(|lent| lent.at) {
            Some(At::Reader(place)) => {
                self.readers.enter(place, self.now, &mut self.io, |reader| reader.forget_guest(id));
            }
            Some(At::Waiting { .. }) => self.views.totals.cancelled += 1,
            None => {}
        }
    }

    /// KILL of a lent client, or of its statement alone.
    pub(crate) fn end_lent(&mut self, key: ClientKey, query_only: bool) {
        let id = self.clients[key].id;
        let Phase::Lent(lent) = self.clients[key].phase() else { return };
        match lent.at {
            // The client goes once the server has ended what it does there, as on the primary.
            At::Reader(place) => {
                self.readers.enter(place, self.now, &mut self.io, |reader| reader.kill(id, query_only));
            }
            At::Waiting { .. } if !query_only => self.close_client(key, ClosedFor::Killed, "killed"),
            At::Waiting { .. } => {
                let answer = lent.answer;
                self.take_waiting(key);
                self.views.totals.cancelled += 1;
                self.answers().error(key, answer, &MySqlError::interrupted());
                self.resume.push(key);
            }
        }
    }

    /// A lent client's connection takes less than comes, or has caught up.
    pub(crate) fn lent_stalled(&mut self, key: ClientKey, stalled: bool) {
        let connection = self.clients[key].connection;
        if let Phase::Lent(lent) = self.clients[key].phase()
            && let At::Reader(place) = lent.at
        {
            self.readers.enter(place, self.now, &mut self.io, |reader| reader.stalled(connection, stalled));
        }
    }
}

impl Engine {
    /// Makes a reader of this engine. Names towards the driver, and numbers of tasks, begin here, so that all engines' differ.
    pub(super) fn be_reader(&mut self, first_token: u64) {
        self.guests = Some(Guests::default());
        self.io.begin_names(first_token);
        let control = &mut self.servers.primary_mut().control;
        control.token = first_token;
        control.position.of_replica = true;
    }

    /// Says whether this is a reader.
    pub(crate) fn is_reader(&self) -> bool {
        self.guests.is_some()
    }

    /// Says whether a reader may connect to its server.
    pub(crate) fn takes_guests(&self) -> bool {
        self.guests.as_ref().is_none_or(|guests| guests.are_welcome)
    }

    /// The server may be read from, or not any more.
    pub(super) fn welcome_guests(&mut self, are_welcome: bool) {
        let Some(guests) = &mut self.guests else { return };
        if std::mem::replace(&mut guests.are_welcome, are_welcome) && !are_welcome {
            self.leave_server();
        }
    }

    /// The server does not answer: nobody waits for what it was doing, nor for what has not arrived there.
    pub(super) fn give_up_server(&mut self) {
        // Nobody else would notice for as long as that may take that the connection is dead.
        let server = self.servers.primary().key;
        if self.servers.primary().control.waits_for_cluster() {
            self.service_accounts().leave(server);
        }
        let backends: Vec<_> = self.servers.backends().map(|(key, _)| key).collect();
        for key in backends {
            if self.servers.contains(key) {
                self.give_up_backend(key, "its server is down");
            }
        }
    }

    /// Statements that wait for a server which is not there go back, so that another one runs them.
    pub(crate) fn return_waiting(&mut self) {
        if !self.takes_guests() {
            // What was in use when others were left may be free by now.
            self.leave_server();
        } else if self.servers.primary().reachability.is_up() {
            return;
        }
        let waits = |client: &Client| matches!(client.phase(), Phase::Queued | Phase::Following { .. });
        let waiting: Vec<_> =
            self.clients.iter().filter(|(_, client)| waits(client)).map(|(key, _)| key).collect();
        for key in waiting {
            let error = self.why_no_backend().unreachable(self.servers.primary().key, "read_wait_limit");
            self.cancel_queued(key, &error);
        }
    }

    /// Ends what nobody uses on the server.
    pub(super) fn leave_server(&mut self) {
        let idle: Vec<_> = self.servers.idle().collect();
        for key in idle {
            self.quit_backend(key);
        }
        let server = self.servers.primary().key;
        self.service_accounts().leave(server);
    }

    /// Takes a client of an account that the server admits (`Server::admits`), and queues its statement.
    pub(super) fn take_guest(&mut self, mut guest: Guest) {
        let account = self.servers.primary().own_account(&guest.account).unwrap_or(&guest.account).clone();
        let identity = self.logins.identities.hold(&account, &guest.user, guest.secret.clone());
        self.logins.identities.came_from(identity.id(), &guest.peer);
        let session = self.sessions.states.hold(std::mem::take(&mut guest.session));
        let tickets = self.scheduling.scheduler.full_tickets();
        let client = guest.as_client(self.now, identity, session, tickets);
        self.views.measures.logged_in += 1;
        self.pool.workers.take_client();
        let key = self.clients.insert(client);
        if let Some(guests) = &mut self.guests {
            guests.errors.remove(&key);
        }
        self.ids.come(guest.id, key);
        self.io.set_role(guest.connection, Role::Client(key));
        if let (Some(statement), Some(about)) = (guest.statement, &mut guest.request.about) {
            **about = self.prepared().take_lent(key, statement, **about);
        }
        self.queue_request(key, guest.request);
    }

    /// The lender's client has gone.
    pub(super) fn forget_guest(&mut self, id: u32) {
        if let Some(key) = self.ids.client_with(id) {
            self.client_gone(key);
        }
    }

    /// The server has answered a guest's statement, and those that waited for the same answer, with an error that nobody has heard.
    pub(crate) fn guest_refused(
        &mut self,
        backend: BackendKey,
        key: ClientKey,
        command: RequestKind,
        statement: &mut InFlight,
    ) {
        let error = statement.summary.error.as_ref().expect("an error is withheld");
        let error = MySqlError::replica_refuses(error);
        let group = statement.leaves_group();
        for follower in group.iter().flat_map(|group| followers_of(&self.clients, group)).collect::<Vec<_>>()
        {
            self.take_request(follower);
            self.answers().error_of_guest(follower, &error);
            self.let_go(backend, follower);
        }
        self.answers().error_of_guest(key, &error);
        self.client_statement_ended(backend, key, command, statement);
    }

    /// Says whether a statement that is answered with this error before it has begun is answered by the primary in the end.
    pub(crate) fn goes_to_primary(&self, error: u16) -> bool {
        self.is_reader() && error != MySqlError::interrupted().code
    }

    /// A guest may have come to its end.
    pub(crate) fn guest_rests(&mut self, key: ClientKey) {
        if self.clients.get(key).is_some_and(|client| matches!(client.phase(), Phase::Idle)) {
            self.return_guest(key, false);
        }
    }

    /// A guest's statement is over: it goes back. `broken` where its client cannot go on.
    pub(crate) fn return_guest(&mut self, key: ClientKey, broken: bool) {
        let client = &mut self.clients[key];
        let (id, status, aftermath) =
            (client.id, client.session.status(), std::mem::take(&mut client.session.aftermath));
        let is_paused = client.backpressure.is_paused();
        self.forget_client(key);
        if let Some(guests) = &mut self.guests {
            let ended = guests.end_of(key, broken);
            guests.returned.push(Returned { id, status, aftermath, ended, is_paused });
        }
    }
}

#[cfg(test)]
mod tests;
