//! A worker as it looks from outside: plain data, for tables that people read.
//!
//! A worker's tables are those of its engine and, where reads go to replicas, of its readers ([`crate::readers`]) behind that: a client
//! that is lent to one of these is shown once, by what its statement does there.
//!
//! Clients, backends and digests may be many. They are looked at in pieces, so that no turn takes long: a piece says where
//! the next begins. Who is there all the time appears exactly once.

use seam::Address;

use crate::accounts::Account;
use crate::backend::{Backend, Owner, Permit, Phase as BackendPhase, Place};
use crate::client::{Client, Phase};
use crate::cluster::view::{FailoverView, ServerView};
use crate::control::peers::PeerView;
use crate::engine::Engine;
use crate::ids::ClientKey;
use crate::learned::digests::{Digest, DigestCost, Digests};
use crate::learned::waiting::WHOLE;
use crate::outside::holders::Holders;
use crate::outside::measures::Measures;
use crate::outside::memory::{HoldersOfMemory, Memory, MemoryParts};
use crate::outside::named::{
    BackendState, ClientState, Limit, LoginStage, LongestWaits, PermitState, Queue, Queued, Use,
};
use crate::outside::shown_text::{hides_its_text, lossy, shown_text};
use crate::outside::taken_for::TakenFor;
use crate::outside::tallies::TalliesByName;
use crate::outside::totals::Totals;
use crate::outside::waits::{WaitReason, Waits};
use crate::readers::routing::Routed;
use crate::readers::view::ReaderView;
use crate::scheduler::lane::Class;
use crate::scheduling::Scheduling;
use crate::session::pin_counts::PinReport;
use crate::settings::ThreadHandling;

pub use self::rows::{
    BackendView, ClientView, DigestView, LockWaitView, RoutedView, StoredCodeView, WorkerView,
};

/// A part of a table.
#[derive(Clone, Debug)]
pub struct Piece<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Where the next part begins; `None` at the end.
    pub next: Option<usize>,
}

/// See [`Engine::snapshot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Clients, those that are logging in included.
    pub clients: usize,
    /// Connections to the server, the service account's aside, those that are being opened included.
    pub backends: usize,
    /// Permits in use.
    pub running: u32,
    /// Statements waiting in the queues.
    pub waiting: usize,
    /// Different session states of clients and backends.
    pub session_states: usize,
    /// Bytes of statements that wait or are not yet whole.
    pub buffered: usize,
}

/// Under one of these each statement that starts is counted.
const WHOLE_WAITS: [WaitReason; 4] =
    [WaitReason::HighQueue, WaitReason::LowQueue, WaitReason::LongQueue, WaitReason::Urgent];

impl Backend {
    /// What it does, whose holder is there or not.
    pub(crate) fn state(&self, held: bool) -> BackendState {
        match self.phase() {
            BackendPhase::Connecting => BackendState::Connecting,
            BackendPhase::LoggingIn(_) => BackendState::LoggingIn,
            BackendPhase::SettingUp => BackendState::SettingUp,
            BackendPhase::Ready => match self.in_flight.front().map(|statement| statement.owner) {
                Some(Owner::Reset | Owner::RestoreWaitTimeout) => BackendState::Resetting,
                Some(_) => BackendState::Running,
                None if held => BackendState::Held,
                None => BackendState::Idle,
            },
        }
    }
}

impl Scheduling {
    /// How many statements wait.
    pub(crate) fn queued(&self) -> Queued {
        let mut queued = Queued::default();
        queued.add(Queue::Urgent, self.urgent.len());
        for (lane, count) in self.scheduler.waiting_by_lane() {
            queued.add(Queue::of(Some(lane)), count);
        }
        for class in Class::ALL {
            queued.add(Queue::of(Some(class.lane())), self.shares.waiting(class));
        }
        queued
    }
}

/// Where a piece begins says in its upper half in which engine's table: 0 is that of the clients, readers follow.
const SLOT_BITS: u32 = usize::BITS / 2;

impl Engine {
    /// How many clients of this worker there are, those that log in among them.
    pub fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// Counts all memory, which takes a few nanoseconds for each client.
    pub fn memory(&self) -> Memory {
        let mut memory = self.holders_of_memory().memory();
        // Guests of readers are clients of this engine.
        let of_readers = self.readers.engines().map(|reader| reader.holders_of_memory().memory());
        of_readers.for_each(|of_reader| memory += Memory { clients: 0, ..of_reader });
        memory
    }

    /// Memory by what it is for, from what is counted anyway, and a look at the backends and at the digests.
    pub fn memory_parts(&self) -> MemoryParts {
        let mut parts = self.holders_of_memory().parts();
        self.readers.engines().for_each(|reader| parts += &reader.memory_parts());
        parts
    }

    fn holders_of_memory(&self) -> HoldersOfMemory<'_> {
        let Self { clients, ids, client_memory, sessions, scheduling, servers, views, io, .. } = self;
        let routing = self.readers.routing();
        HoldersOfMemory { clients, ids, client_memory, sessions, scheduling, servers, views, routing, io }
    }

    /// The layer of TLS holds so many bytes of unfinished handshakes, which [`Self::memory`] is to tell too.
    pub fn note_handshakes(&mut self, bytes: usize) {
        self.client_memory.handshakes = bytes;
    }

    /// The layer that compresses holds so many bytes for connections of this engine, likewise.
    pub fn note_compression(&mut self, bytes: usize) {
        self.io.outbox.compression_bytes = bytes;
    }

    /// How full the tables are now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            clients: self.clients.len(),
            backends: self.servers.backend_count(),
            running: self.scheduling.scheduler.running(),
            waiting: self.scheduling.scheduler.waiting()
                + self.scheduling.shares.waiting(Class::Short)
                + self.scheduling.shares.waiting(Class::Long),
            session_states: self.sessions.states.len(),
            buffered: self.client_memory.statements.bytes(),
        }
    }

    /// Numbers by digest, as of this worker.
    pub fn digests(&self) -> &Digests {
        &self.scheduling.digests
    }

    /// Why statements of this worker have waited.
    pub fn waits(&self) -> Waits {
        let mut waits = self.scheduling.waits.clone();
        self.readers.engines().for_each(|reader| waits += &reader.scheduling.waits);
        waits
    }

    /// The clients in `count` slots of the table from slot `from` on.
    pub fn clients_from(&self, from: usize, count: usize) -> Piece<ClientView> {
        let rows = self.clients.in_slots(from, count);
        let rows = rows.map(|(key, client)| self.client_view(key, client)).collect();
        let next = from.saturating_add(count);
        Piece { rows, next: (next < self.clients.capacity()).then_some(next) }
    }

    /// The clients in `count` slots of the table from slot `from` on that want or hold something: those that have a statement, or
    /// keep a backend, or that others wait for. Most clients of most pools are none of these.
    pub fn busy_clients_from(&self, from: usize, count: usize) -> Piece<ClientView> {
        let is_busy = |client: &Client| {
            let has_statement = client.request.is_some() || matches!(client.phase(), Phase::Lent(_));
            has_statement || client.backend.is_some() || client.transaction.blocks_others
        };
        let rows = self.clients.in_slots(from, count).filter(|(_, client)| is_busy(client));
        let rows = rows.map(|(key, client)| self.client_view(key, client)).collect();
        let next = from.saturating_add(count);
        Piece { rows, next: (next < self.clients.capacity()).then_some(next) }
    }

    /// The backends in `count` slots from where a piece says that the next one begins; at first from 0 on.
    pub fn backends_from(&self, from: usize, count: usize) -> Piece<BackendView> {
        self.piece_of_all(from, |engine, from| {
            let rows = engine.servers.in_slots(from, count);
            let rows = rows.map(|(_, backend)| engine.backend_view(backend)).collect();
            let end = from.saturating_add(count);
            Piece { rows, next: (end < engine.servers.backend_slots()).then_some(end) }
        })
    }

    /// `count` digests from where a piece says that the next one begins; at first from 0 on. A digest of several servers is there for each
    /// of them.
    pub fn digests_from(&self, from: usize, count: usize) -> Piece<DigestView> {
        self.piece_of_all(from, |engine, from| {
            let digests = engine.scheduling.digests.iter().skip(from).take(count);
            let rows: Vec<_> = digests.map(|digest| engine.digest_view(digest)).collect();
            Piece { next: (rows.len() == count).then_some(from.saturating_add(count)), rows }
        })
    }

    /// Returns what `count` digests from number `from` on have cost: 40 bytes each, without texts.
    pub fn digest_costs_from(&self, from: usize, count: usize) -> Piece<DigestCost> {
        self.piece_of_all(from, |engine, from| {
            let rows: Vec<_> =
                engine.scheduling.digests.iter().skip(from).take(count).map(Digest::cost).collect();
            Piece { next: (rows.len() == count).then_some(from.saturating_add(count)), rows }
        })
    }

    /// Where the statements of `count` digests went, where reads go to replicas.
    pub fn routing_from(&self, from: usize, count: usize) -> Piece<RoutedView> {
        let text = |digest| {
            let all = std::iter::once(self).chain(self.readers.engines());
            all.filter_map(|engine| engine.scheduling.digests.text(digest)).map(String::from).next()
        };
        let view = |(digest, routed): (u64, &Routed)| RoutedView {
            digest: Some(digest).filter(|&digest| digest != 0),
            text: text(digest),
            routed: *routed,
        };
        let rows: Vec<_> = self.readers.routing().piece(from as u64, count).map(view).collect();
        let last = rows.last().filter(|_| rows.len() == count).map(|row| row.digest.unwrap_or(0));
        let next = last.and_then(|last| last.checked_add(1)).and_then(|next| usize::try_from(next).ok());
        Piece { rows, next }
    }

    /// The servers, where there may be several; empty on all workers but the first.
    pub fn servers(&self) -> Vec<ServerView> {
        self.cluster.views(self.now, &self.settings.server, self.pool.workers.chosen.get().place)
    }

    /// The Onramps in front of the server, this one among them, by their slots; empty where they are not counted, and on all workers but
    /// the first.
    pub fn peers(&self) -> Vec<PeerView> {
        self.servers.primary().peer_views(self.now, &self.settings, &self.pool)
    }

    /// The changes of the primary, the latest first; empty on all workers but the first.
    pub fn failovers(&self) -> Vec<FailoverView> {
        self.cluster.failover_views(self.now, &self.settings.server, &self.pool.workers.chosen)
    }

    /// The servers that reads may go to, as this worker sees them; empty where reads are not split.
    pub fn reader_views(&self) -> Vec<ReaderView> {
        let primary = self.pool.workers.chosen.get().place;
        let is_drained = |place| self.cluster.is_drained(place);
        self.readers.views(self.now, &self.settings.reads, primary, is_drained)
    }

    /// A piece of a table that is this engine's and, behind it, its readers'.
    fn piece_of_all<T>(&self, from: usize, piece: impl Fn(&Self, usize) -> Piece<T>) -> Piece<T> {
        let (place, slot) = (from >> SLOT_BITS, from & ((1 << SLOT_BITS) - 1));
        let engine = |place: usize| match place.checked_sub(1) {
            None => Some(self),
            Some(reader) => self.readers.engine(reader),
        };
        let Some(piece) = engine(place).map(|engine| piece(engine, slot)) else {
            return Piece { rows: Vec::new(), next: None };
        };
        let begin = |place: usize| place << SLOT_BITS;
        let behind = engine(place + 1).map(|_| begin(place + 1));
        Piece { rows: piece.rows, next: piece.next.map(|slot| begin(place) | slot).or(behind) }
    }

    /// What is measured, on all servers.
    pub fn measures(&self) -> Measures {
        let mut measures = self.views.measures.clone();
        for reader in self.readers.engines() {
            measures += &reader.views.measures;
        }
        // Guests of readers are clients of this engine, and are among its own.
        measures.logged_in = self.views.measures.logged_in;
        measures
    }

    /// What users and schemas have had done, where that is counted.
    pub fn tallies(&self) -> TalliesByName {
        let mut tallies = self.views.tallies.clone();
        self.readers.engines().for_each(|reader| tallies += &reader.views.tallies);
        tallies
    }

    /// Who holds what, on all servers.
    pub fn holders(&self) -> Holders {
        let mut holders = Holders::of(self.now, &self.servers, &self.clients);
        holders.pin_times = self.views.pin_counts.times();
        self.readers.engines().for_each(|reader| holders += &reader.holders());
        holders
    }

    /// Why statements were not multiplexed.
    pub fn pin_report(&self) -> PinReport {
        PinReport::new(&self.views.pin_counts, &self.scheduling.digests)
    }

    fn digest_view(&self, digest: &Digest) -> DigestView {
        DigestView {
            digest: digest.clone(),
            first_seen: self.now.since(digest.first_seen),
            last_seen: self.now.since(digest.last_seen),
            taken_for: digest.fingerprint.map_or_else(TakenFor::default, |kind| {
                self.scheduling.taken_for(self.now, &self.settings, &self.servers, kind)
            }),
            permit_percent: digest
                .fingerprint
                .map_or(100, |kind| 100 - 100 * self.scheduling.spared_by_kind(&self.settings, kind) / WHOLE),
        }
    }

    /// The worker as a whole.
    pub fn overview(&self) -> WorkerView {
        let mut view = self.own_overview();
        self.readers.engines().for_each(|reader| view.take_in(reader.own_overview()));
        view
    }

    fn own_overview(&self) -> WorkerView {
        let backends = || self.servers.backends().map(|(_, backend)| backend);
        let queued = self.scheduling.queued();
        let in_transaction = |backend: &&Backend| self.holds_transaction(backend);
        WorkerView {
            clients: self.clients.len(),
            backends: self.servers.backend_count(),
            idle_backends: self.servers.idle_count(),
            opening_backends: backends().filter(|backend| !backend.is_ready()).count(),
            transactions: backends().filter(in_transaction).count(),
            permits: self.scheduling.scheduler.running(),
            lent: backends().filter(|backend| backend.permit() == Permit::Lent).count(),
            queued,
            waiting_for_replicas: self.reads_waiting(),
            held_up_by: self.scheduling.holdups.now(),
            oldest_queued: self.scheduling.scheduler.oldest_in_need().map(|(_, since)| self.now.since(since)),
            longest_waits: self.longest_waits(),
            is_stalled: self
                .pool
                .wants_permits_since()
                .is_some_and(|since| self.now.since(since) >= self.settings.stall_limit),
            session_states: self.sessions.states.len(),
            buffered: self.client_memory.statements.bytes(),
            connections: u64::from(self.ids.last),
            stored_code: self.pool.stored_code_view(self.servers.primary()),
            totals: Totals {
                opened_backends: self.io.names_given() - self.views.totals.account_changes,
                kick_ups: self.scheduling.scheduler.kick_ups,
                newest_starts: self.scheduling.scheduler.newest_starts,
                would_refuse_by_queue_wait_limit: self.scheduling.new_work.would_refuse.queue_wait_limit,
                would_refuse_by_queue_delay_target: self.scheduling.new_work.would_refuse.queue_delay_target,
                would_refuse_by_long_queue_wait_limit: self
                    .scheduling
                    .new_work
                    .would_refuse
                    .long_queue_wait_limit,
                ..self.views.totals
            },
            longest_turn: self.views.measures.turn.told(&self.scheduling.digests),
            has_accounts: self.servers.primary().facts.is_some(),
            server_is_up: self.servers.primary().reachability.is_up(),
            paused: self.orders.paused,
            leaves_server: self.leaves_server(),
            statements: WHOLE_WAITS.iter().map(|&queue| self.scheduling.waits.of(queue).count()).sum(),
            waited_for_permit: self.scheduling.waits.of(WaitReason::Permit).count(),
            blockers: self
                .servers
                .iter()
                .flat_map(|server| &server.blockers)
                .map(|(&client, &blocker)| (client, blocker))
                .collect(),
            in_use: self.in_use(&queued),
            limits_reached: self
                .views
                .limits_reached
                .iter()
                .map(|(&option, reached)| (option, reached.limit, reached.times))
                .collect(),
            refused: self.views.refusals.iter().collect(),
            routed: self.readers.routing().all(),
        }
    }

    fn longest_waits(&self) -> LongestWaits {
        let mut longest = LongestWaits::default();
        // Urgent ones are few: logins for a schema, and orders to end something.
        for (_, since) in &self.scheduling.urgent {
            longest.note(Queue::Urgent, self.now.since(*since));
        }
        for (lane, since) in self.scheduling.scheduler.oldest_by_lane() {
            longest.note(Queue::of(Some(lane)), self.now.since(since));
        }
        for class in Class::ALL {
            if let Some(since) = self.scheduling.shares.waits_since(class) {
                longest.note(Queue::of(Some(class.lane())), self.now.since(since));
            }
        }
        longest
    }

    fn in_use(&self, queued: &Queued) -> [(Limit, u64); 10] {
        let client_memory = &self.client_memory;
        let long = queued.of(Queue::Long);
        [
            (Limit::StatementMemory, self.client_memory.statements.bytes() as u64),
            // Each of the two has the bound.
            (Limit::LoginMemory, client_memory.logins.bytes().max(client_memory.handshakes) as u64),
            (Limit::SessionMemory, self.client_memory.session_memory_held(&self.sessions) as u64),
            (Limit::HeldAnswerMemory, self.servers.held_answers() as u64),
            (Limit::PreparedStatementMemory, self.sessions.definitions.text_bytes() as u64),
            (Limit::KeptWarningsMemory, client_memory.diagnostics as u64),
            (Limit::MaxPreparedStmtCount, u64::from(self.sessions.statement_count)),
            (Limit::DigestsSize, self.scheduling.digests.len() as u64),
            (Limit::QueueLimit, (queued.all() - long) as u64),
            (Limit::LongQueueLimit, long as u64),
        ]
    }

    fn client_view(&self, key: ClientKey, client: &Client) -> ClientView {
        let identity = client.identity.map(|identity| self.logins.identities.identity(identity));
        let backend = client.backend.and_then(|backend| self.servers.get(backend));
        let waits = matches!(client.phase(), Phase::Queued | Phase::Following { .. });
        let request = client.request.as_deref();
        let answers = backend.filter(|backend| backend.answers(key));
        let session =
            client.session.id.map(|session| (session.number(), self.sessions.states.state(session)));
        let schema = session.as_ref().and_then(|(_, state)| state.schema.as_deref());
        let by = self.scheduling.holdups.now();
        let lacks = |queue| if queue == Queue::Long { by.long } else { by.others };
        let queue = request.filter(|_| waits).map(|request| Queue::of(request.turn.lane));
        let mut view = ClientView {
            id: client.id,
            peer: client.peer,
            user: identity.map(|identity| lossy(&identity.user)),
            account: identity.map(|identity| account_name(&identity.account)),
            schema: schema.map(lossy),
            state: ClientState::of(client.phase()),
            login: LoginStage::of(client.phase()),
            in_transaction: client.in_transaction(),
            transaction: client.in_transaction().then(|| self.now.since(client.transaction.since)),
            backend: backend.map(|backend| backend.login.thread_id).filter(|&id| id > 0),
            server: backend.map(|backend| self.server_of(backend)),
            pins: client.session.pins,
            queue,
            lacks: queue.and_then(lacks),
            queued: request.filter(|_| waits).map(|request| self.now.since(request.turn.arrival.at)),
            running: answers.map(|backend| self.now.since(backend.first.since)),
            idle: self.now.since(client.activity.last_heard),
            stalled: client.activity.stalled_since.map(|since| self.now.since(since)),
            digest: request.map(|request| request.statement.fingerprint).filter(|&digest| digest != 0),
            statement: request
                .filter(|request| waits && !hides_its_text(request.statement.kind, request.command))
                .and_then(|request| request.text())
                .and_then(shown_text),
            input: client.input.len() + request.map_or(0, |request| request.bytes()),
            session_state: session.map(|(number, _)| number),
            holds_locks: client.transaction.holds_locks || client.session.pins.may_hold_locks(),
            blocks_others: client.transaction.blocks_others,
            lock_wait: answers.and_then(|backend| self.lock_wait_view(backend)),
            killed: client.loss.killed,
        };
        if let Phase::Lent(lent) = client.phase() {
            let guest = lent.place().and_then(|place| self.readers.engine(place)?.guest_view(client.id));
            view.take_lent(self.now, lent, guest);
        }
        view
    }

    /// A client of a reader.
    fn guest_view(&self, id: u32) -> Option<ClientView> {
        let key = *self.ids.keys.get(&id)?;
        let view = self.client_view(key, &self.clients[key]);
        Some(ClientView { server: Some(self.settings.server[0].clone()), ..view })
    }

    fn server_of(&self, backend: &Backend) -> Address {
        match &backend.place {
            Place::At(place) => self.settings.server[*place].clone(),
            Place::Former(address) => Address::clone(address),
        }
    }

    fn backend_view(&self, backend: &Backend) -> BackendView {
        let holder = backend.holder.and_then(|client| self.clients.get(client));
        let busy = !backend.in_flight.is_empty();
        let state = backend.state(holder.is_some());
        let session = self.sessions.states.state(backend.session.id);
        BackendView {
            server: self.server_of(backend),
            thread_id: Some(backend.login.thread_id).filter(|&id| id > 0),
            user: lossy(&self.logins.identities.identity(backend.account.identity).user),
            state,
            client: holder.map(|client| client.id),
            in_flight: backend.in_flight.len(),
            permit: PermitState::of(backend.permit()),
            running: (busy && backend.is_ready()).then(|| self.now.since(backend.first.since)),
            idle: (!busy && holder.is_none() || !backend.is_ready()).then(|| self.now.since(backend.since)),
            schema: session.schema.as_deref().map(lossy),
            session_state: backend.session.id.number(),
            paused: backend.paused,
            in_transaction: self.holds_transaction(backend),
            lock_wait: self.lock_wait_view(backend),
        }
    }

    fn lock_wait_view(&self, backend: &Backend) -> Option<LockWaitView> {
        let wait = backend.locks.seen?;
        Some(LockWaitView { time: self.now.since(wait.since), thread: wait.thread, client: wait.client })
    }

    fn holds_transaction(&self, backend: &Backend) -> bool {
        let holder = backend.holder.and_then(|client| self.clients.get(client));
        holder.is_some_and(Client::in_transaction)
    }

    /// Permits in use and how many there are; backends likewise; backends that short reads share, and how many statements may be in flight
    /// on each, as they are now where they are found; clients: of all workers together. All but clients are of the primary first, and then
    /// of each server that reads go to or are left on.
    pub fn shares(&self) -> Vec<Use> {
        let of_clients = Use {
            limit: Limit::MaxConnections,
            in_use: u64::from(self.pool.workers.clients()),
            bound: u64::from(self.settings.max_connections),
        };
        // Where no read may go, the permits that there would be are nobody's.
        let has_reads = |reader: &&Self| reader.takes_guests() || !reader.clients.is_empty();
        let engines = std::iter::once(self).chain(self.readers.engines().filter(has_reads));
        std::iter::once(of_clients).chain(engines.flat_map(Self::own_shares)).collect()
    }

    /// Of the one server of this engine.
    pub(crate) fn own_shares(&self) -> [Use; 4] {
        let pool = self.settings.thread_handling == ThreadHandling::PoolOfThreads;
        let most = |limit: u32| if pool { u64::from(limit) } else { u64::MAX };
        let in_flight = self.servers.sharing().map(|key| self.servers[key].in_flight.len());
        let most_in_flight = in_flight.max().unwrap_or(0);
        let of = |limit, in_use: u32, bound| Use { limit, in_use: u64::from(in_use), bound };
        let workers = &self.pool.workers;
        [
            of(Limit::Permits, workers.running(), most(workers.permits())),
            of(Limit::MaxBackends, workers.places.taken(), most(workers.places.most())),
            of(Limit::SharedBackends, workers.sharing(), u64::from(workers.all_shared_backends())),
            Use {
                limit: Limit::StatementsInFlight,
                in_use: most_in_flight as u64,
                bound: u64::from(workers.statements_in_flight()),
            },
        ]
    }
}

fn account_name(account: &Account) -> String {
    format!("{}@{}", String::from_utf8_lossy(&account.user), account.host)
}

pub(crate) mod rows;
mod together;

#[cfg(test)]
mod tests;
