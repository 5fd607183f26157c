//! A worker as it looks from outside: plain data, for tables that people read.
//!
//! Clients, backends and digests may be many. They are looked at in pieces, so that no turn takes long: a piece says where
//! the next begins. Who is there all the time appears exactly once.

use std::time::Duration;

use seam::Peer;
use sql::Kind;

use crate::accounts::Account;
use crate::backend::{Backend, Owner, Permit, Phase as BackendPhase};
use crate::client::{Client, Phase};
use crate::engine::Engine;
use crate::ids::ClientKey;
use crate::learned::digests::text::end_before_password;
use crate::learned::digests::{Digest, DigestCost};
use crate::learned::lock_waits::Blocker;
use crate::learned::waiting::WHOLE;
use crate::outside::named::{
    BackendState, ClientState, Limit, LoginStage, LongestWaits, PermitState, Queue, Queued, Use,
};
use crate::outside::refusals::Refused;
use crate::outside::taken_for::TakenFor;
use crate::outside::totals::Totals;
use crate::outside::turns::LongestTurn;
use crate::outside::waits::{HeldUpBy, WaitReason};
use crate::request::{RequestKind, may_be_several};
use crate::scheduler::Class;
use crate::scheduling::Scheduling;
use crate::session::pins::Pins;
use crate::settings::ThreadHandling;

/// Of a statement's text so many bytes are shown at most: what a screen takes.
const LONGEST_TEXT: usize = 1024;

/// A part of a table.
#[derive(Clone, Debug)]
pub struct Piece<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Where the next part begins; `None` at the end.
    pub next: Option<usize>,
}

/// A client.
#[derive(Clone, Debug)]
pub struct ClientView {
    /// The id that the client saw in its greeting and that KILL takes.
    pub id: u32,
    /// Where it comes from.
    pub peer: Peer,
    /// The user name that it logged in with.
    pub user: Option<String>,
    /// The account that the server chose, as user@host.
    pub account: Option<String>,
    /// Its default schema.
    pub schema: Option<String>,
    /// What it does.
    pub state: ClientState,
    /// Where its login is, before that has ended.
    pub login: Option<LoginStage>,
    /// From the server's point of view.
    pub in_transaction: bool,
    /// How long its transaction has been open.
    pub transaction: Option<Duration>,
    /// The server's id of the backend that it holds or that runs its statement.
    pub backend: Option<u32>,
    /// Why it holds its backend beyond a transaction.
    pub pins: Pins,
    /// The queue that its statement waits in.
    pub queue: Option<Queue>,
    /// How long its statement has waited so far, where it waits.
    pub queued: Option<Duration>,
    /// How long the first statement in flight on its backend has run, where that is its own.
    pub running: Option<Duration>,
    /// Since it was last heard of, or its last statement ended.
    pub idle: Duration,
    /// How long it has taken none of its reply.
    pub stalled: Option<Duration>,
    /// The digest of its statement that waits or runs.
    pub digest: Option<u64>,
    /// The beginning of its statement's text, while that waits.
    pub statement: Option<String>,
    /// Bytes that it has sent and that wait.
    pub input: usize,
    /// The number of its session state.
    pub session_state: Option<u32>,
    /// True if the client has changed or locked something, in its transaction or beyond, as far as is known.
    pub holds_locks: bool,
    /// Others are known to wait for what it holds.
    pub blocks_others: bool,
    /// The lock that its statement was last seen to wait for on the server.
    pub lock_wait: Option<LockWaitView>,
    /// True if the client was killed, and its statement has not ended yet.
    pub killed: bool,
}

/// A backend.
#[derive(Clone, Debug)]
pub struct BackendView {
    /// The server's id, once it is known.
    pub thread_id: Option<u32>,
    /// The user as whom it is logged in.
    pub user: String,
    /// What it does, in small letters.
    pub state: BackendState,
    /// The client that holds it.
    pub client: Option<u32>,
    /// Statements sent and not answered.
    pub in_flight: usize,
    /// `held`, `lent` or `none`.
    pub permit: PermitState,
    /// How long the first statement in flight has run.
    pub running: Option<Duration>,
    /// Since when it is idle or not ready yet.
    pub idle: Option<Duration>,
    /// The schema that it is in.
    pub schema: Option<String>,
    /// The number of its session state.
    pub session_state: u32,
    /// Not read from, because a client is slow.
    pub paused: bool,
    /// The client that holds it has an open transaction.
    pub in_transaction: bool,
    /// The lock that the first statement in flight was last seen to wait for.
    pub lock_wait: Option<LockWaitView>,
}

/// A statement waits for a row lock on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWaitView {
    /// How long, from the statement's beginning on.
    pub time: Duration,
    /// The server's id of the thread that holds the lock.
    pub thread: u32,
    /// The client that holds it, where it is one of Onramp's.
    pub client: Option<u32>,
}

/// A digest, as old as it is.
#[derive(Clone, Debug)]
pub struct DigestView {
    /// The numbers that have been counted.
    pub digest: Digest,
    /// Since its first execution.
    pub first_seen: Duration,
    /// Since its latest one.
    pub last_seen: Duration,
    /// The worker's verdict on this kind.
    pub taken_for: TakenFor,
    /// What a statement of it counts for, in percent of a permit.
    pub permit_percent: u32,
}

/// A worker as a whole.
#[derive(Clone, Debug)]
pub struct WorkerView {
    /// Its clients.
    pub clients: usize,
    /// Its backends, those that are being opened included.
    pub backends: usize,
    /// Backends on which nothing runs and that nobody holds.
    pub idle_backends: usize,
    /// Backends that are not ready yet.
    pub opening_backends: usize,
    /// Backends held by a client with an open transaction.
    pub transactions: usize,
    /// Permits that it holds.
    pub permits: u32,
    /// Its statements that run without a permit, having lent it.
    pub lent: usize,
    /// Statements that wait in each queue.
    pub queued: Queued,
    /// What they lack at the moment.
    pub held_up_by: HeldUpBy,
    /// How long the one that has waited longest for a backend has.
    pub oldest_queued: Option<Duration>,
    /// Likewise in each queue, those included that may not have one now.
    pub longest_waits: LongestWaits,
    /// Its statements have waited for a permit for longer than `thread_pool_stall_limit`.
    pub is_stalled: bool,
    /// Different session states.
    pub session_states: usize,
    /// Bytes of statements that wait.
    pub buffered: usize,
    /// Connections accepted since the start, those over a limit aside.
    pub connections: u64,
    /// The counts since the start.
    pub totals: Totals,
    /// Its longest turn of late: of the last minute at least, and of two at most.
    pub longest_turn: LongestTurn,
    /// It has found the server and read its accounts, so that clients can log in.
    pub has_accounts: bool,
    /// The server answered last.
    pub server_is_up: bool,
    /// PAUSE holds.
    pub paused: bool,
    /// Backends may be left on a server that is not the primary, with clients that hold them or what they have sent there.
    pub leaves_server: bool,
    /// Statements that went to the server.
    pub statements: u64,
    /// Statements among them that had waited for a permit.
    pub waited_for_permit: u64,
    /// Clients for whose locks its statements have waited, by their ids: a thousand at most.
    pub blockers: Vec<(u32, Blocker)>,
    /// The knowledge of the server's stored code. One worker has it for all, and the others know nothing.
    pub stored_code: StoredCodeView,
    /// How much is in use of what each worker bounds for itself, or its part of what all have in common, by option.
    pub in_use: [(Limit, u64); 10],
    /// The options whose bound was reached, with the bound and how often.
    pub limits_reached: Vec<(Limit, u64, u64)>,
    /// Who was refused, and by what: some hundreds at most.
    pub refused: Vec<Refused>,
}

/// See [`WorkerView::stored_code`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredCodeView {
    /// How often it was read.
    pub readings: u64,
    /// How many of its four kinds (routines, triggers, views, defaults of columns) could not be read.
    pub unreadable: u64,
    /// How many tables and views lead to such code that may change its session.
    pub changing_names: u64,
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
    fn queued(&self) -> Queued {
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

impl Engine {
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
            client.request.is_some() || client.backend.is_some() || client.transaction.blocks_others
        };
        let rows = self.clients.in_slots(from, count).filter(|(_, client)| is_busy(client));
        let rows = rows.map(|(key, client)| self.client_view(key, client)).collect();
        let next = from.saturating_add(count);
        Piece { rows, next: (next < self.clients.capacity()).then_some(next) }
    }

    /// The backends in `count` slots from slot `from` on, of all servers' tables one behind the other.
    pub fn backends_from(&self, from: usize, count: usize) -> Piece<BackendView> {
        let end = from.saturating_add(count).min(self.servers.backend_slots());
        let rows = self.servers.in_slots(from, count);
        let rows = rows.map(|(_, backend)| self.backend_view(backend)).collect();
        Piece { rows, next: (end < self.servers.backend_slots()).then_some(end) }
    }

    /// `count` digests from number `from` on.
    pub fn digests_from(&self, from: usize, count: usize) -> Piece<DigestView> {
        let view = |digest: &Digest| DigestView {
            digest: digest.clone(),
            first_seen: self.now.since(digest.first_seen),
            last_seen: self.now.since(digest.last_seen),
            taken_for: digest.fingerprint.map_or_else(TakenFor::default, |kind| self.taken_for(kind)),
            permit_percent: digest
                .fingerprint
                .map_or(100, |kind| 100 - 100 * self.spared_by_kind(kind) / WHOLE),
        };
        let rows: Vec<_> = self.scheduling.digests.iter().skip(from).take(count).map(view).collect();
        let next = from.saturating_add(count);
        Piece { next: (rows.len() == count).then_some(next), rows }
    }

    /// Returns what `count` digests from number `from` on have cost: 40 bytes each, without texts.
    pub fn digest_costs_from(&self, from: usize, count: usize) -> Piece<DigestCost> {
        let rows: Vec<_> = self.scheduling.digests.iter().skip(from).take(count).map(Digest::cost).collect();
        let next = from.saturating_add(count);
        Piece { next: (rows.len() == count).then_some(next), rows }
    }

    /// The worker as a whole.
    pub fn overview(&self) -> WorkerView {
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
            held_up_by: self.scheduling.holdups.now(),
            oldest_queued: self.scheduling.scheduler.oldest_in_need().map(|(_, since)| self.now.since(since)),
            longest_waits: self.longest_waits(),
            is_stalled: self
                .pool
                .wanting_since
                .is_some_and(|since| self.now.since(since) >= self.settings.stall_limit),
            session_states: self.sessions.states.len(),
            buffered: self.hoards.statements.bytes(),
            connections: u64::from(self.last_client_id),
            stored_code: self.stored_code_view(),
            totals: Totals {
                opened_backends: self.io.last_token - self.views.totals.account_changes,
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
            longest_turn: self.views.longest_turn(&self.scheduling.digests),
            has_accounts: self.servers.primary().facts.is_some(),
            server_is_up: self.servers.primary().reachability.is_up(),
            paused: self.paused,
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
        let hoards = &self.hoards;
        let long = queued.of(Queue::Long);
        [
            (Limit::StatementMemory, self.hoards.statements.bytes() as u64),
            // Each of the two has the bound.
            (Limit::LoginMemory, hoards.logins.bytes().max(hoards.handshakes) as u64),
            (Limit::SessionMemory, self.session_memory_held() as u64),
            (Limit::HeldAnswerMemory, self.servers.held_answers() as u64),
            (Limit::PreparedStatementMemory, self.sessions.definitions.text_bytes() as u64),
            (Limit::KeptWarningsMemory, hoards.diagnostics as u64),
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
        let session = client.session.map(|session| (session.number(), self.sessions.states.state(session)));
        let schema = session.as_ref().and_then(|(_, state)| state.schema.as_deref());
        ClientView {
            id: client.id,
            peer: client.peer,
            user: identity.map(|identity| lossy(&identity.user)),
            account: identity.map(|identity| account_name(&identity.account)),
            schema: schema.map(lossy),
            state: ClientState::of(client.phase()),
            login: LoginStage::of(client.phase()),
            in_transaction: client.in_transaction(),
            transaction: client.in_transaction().then(|| self.now.since(client.transaction.since)),
            backend: backend.map(|backend| backend.thread_id).filter(|&id| id > 0),
            pins: client.pins,
            queue: request.filter(|_| waits).map(|request| Queue::of(request.lane)),
            queued: request.filter(|_| waits).map(|request| self.now.since(request.arrival.at)),
            running: answers.map(|backend| self.now.since(backend.first_since)),
            idle: self.now.since(client.last_heard),
            stalled: client.stalled_since.map(|since| self.now.since(since)),
            digest: request.map(|request| request.statement.fingerprint).filter(|&digest| digest != 0),
            statement: request
                .filter(|request| waits && !hides_its_text(request.statement.kind, request.command))
                .and_then(|request| request.text())
                .map(|text| (text, &text[..text.len().min(LONGEST_TEXT)]))
                .filter(|(text, shown)| !text.is_empty() && !may_hold_password(text, shown))
                .map(|(_, shown)| lossy(shown)),
            input: client.input.len() + request.map_or(0, |request| request.bytes()),
            session_state: session.map(|(number, _)| number),
            holds_locks: client.transaction.holds_locks || client.pins.may_hold_locks(),
            blocks_others: client.transaction.blocks_others,
            lock_wait: answers.and_then(|backend| self.lock_wait_view(backend)),
            killed: client.killed,
        }
    }

    fn backend_view(&self, backend: &Backend) -> BackendView {
        let holder = backend.holder.and_then(|client| self.clients.get(client));
        let busy = !backend.in_flight.is_empty();
        let state = backend.state(holder.is_some());
        let session = self.sessions.states.state(backend.session);
        BackendView {
            thread_id: Some(backend.thread_id).filter(|&id| id > 0),
            user: lossy(&self.logins.identities.identity(backend.identity).user),
            state,
            client: holder.map(|client| client.id),
            in_flight: backend.in_flight.len(),
            permit: PermitState::of(backend.permit()),
            running: (busy && backend.is_ready()).then(|| self.now.since(backend.first_since)),
            idle: (!busy && holder.is_none() || !backend.is_ready()).then(|| self.now.since(backend.since)),
            schema: session.schema.as_deref().map(lossy),
            session_state: backend.session.number(),
            paused: backend.paused,
            in_transaction: self.holds_transaction(backend),
            lock_wait: self.lock_wait_view(backend),
        }
    }

    fn lock_wait_view(&self, backend: &Backend) -> Option<LockWaitView> {
        let wait = backend.lock_wait?;
        Some(LockWaitView { time: self.now.since(wait.since), thread: wait.thread, client: wait.client })
    }

    fn holds_transaction(&self, backend: &Backend) -> bool {
        let holder = backend.holder.and_then(|client| self.clients.get(client));
        holder.is_some_and(Client::in_transaction)
    }

    /// Permits in use and how many there are; backends likewise; clients likewise; backends that short reads share, and how many
    /// statements may be in flight on each, as they are now where they are found: of all workers together.
    pub fn shares(&self) -> [Use; 5] {
        let pool = self.settings.thread_handling == ThreadHandling::PoolOfThreads;
        let most = |limit: u32| if pool { u64::from(limit) } else { u64::MAX };
        let in_flight = self.servers.sharing().map(|key| self.servers[key].in_flight.len());
        let most_in_flight = in_flight.max().unwrap_or(0);
        let of = |limit, in_use: u32, bound| Use { limit, in_use: u64::from(in_use), bound };
        let workers = &self.pool.workers;
        [
            of(Limit::Permits, workers.running(), most(workers.permits())),
            of(Limit::MaxBackends, workers.places.taken(), most(workers.places.most())),
            of(Limit::MaxConnections, workers.clients(), u64::from(self.settings.max_connections)),
            of(Limit::SharedBackends, workers.sharing(), u64::from(workers.all_shared_backends())),
            Use {
                limit: Limit::StatementsInFlight,
                in_use: most_in_flight as u64,
                bound: u64::from(workers.statements_in_flight()),
            },
        ]
    }
}

/// Statements of these kinds may hold a password in clear text (CREATE USER, GRANT, SET PASSWORD), and commands other than
/// these two have no text.
pub(crate) fn hides_its_text(kind: Kind, command: RequestKind) -> bool {
    use Kind::{Admin, Ddl, Execute, Other, Prepare, Set};
    matches!(kind, Admin | Ddl | Execute | Other | Prepare | Set)
        || !matches!(command, RequestKind::Query | RequestKind::Prepare)
}

/// The kind is that of a text's first statement; what follows, or stands behind an EXPLAIN, may be of any. What is shown of it is its
/// beginning.
pub(crate) fn may_hold_password(text: &[u8], shown: &[u8]) -> bool {
    may_be_several(text) || end_before_password(&lossy(shown).to_ascii_lowercase()).is_some()
}

fn account_name(account: &Account) -> String {
    format!("{}@{}", String::from_utf8_lossy(&account.user), account.host)
}

/// What is not UTF-8 is shown as U+FFFD.
pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests;
