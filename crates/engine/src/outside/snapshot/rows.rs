//! The plain data that tables' rows are made of.

use std::time::Duration;

use seam::{Address, Peer};

use crate::learned::digests::Digest;
use crate::learned::lock_waits::told::Blocker;
use crate::outside::named::{
    BackendState, ClientState, Limit, LoginStage, LongestWaits, PermitState, Queue, Queued,
};
use crate::outside::refusals::Refused;
use crate::outside::taken_for::TakenFor;
use crate::outside::totals::Totals;
use crate::outside::turns::LongestTurn;
use crate::outside::waits::{HeldUpBy, WaitReason};
use crate::readers::routing::Routed;
use crate::session::pins::Pins;

/// How full a worker's tables are.
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
    /// The server of that backend, or the replica in whose queue its statement waits.
    pub server: Option<Address>,
    /// Why it holds its backend beyond a transaction.
    pub pins: Pins,
    /// The queue that its statement waits in.
    pub queue: Option<Queue>,
    /// How long its statement has waited so far, where it waits.
    pub queued: Option<Duration>,
    /// What that queue lacks at the moment.
    pub lacks: Option<WaitReason>,
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
    /// Where its server is.
    pub server: Address,
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

/// Where the statements of a digest went.
#[derive(Clone, Debug)]
pub struct RoutedView {
    /// The digest; `None` for all together that have none, or found no place.
    pub digest: Option<u64>,
    /// Its text, where that is known.
    pub text: Option<String>,
    /// How many went where.
    pub routed: Routed,
}

/// A worker as a whole.
#[derive(Clone, Debug)]
pub struct WorkerView {
    /// Its clients.
    pub clients: usize,
    /// Its backends on all servers, those that are being opened included; likewise what follows, and what statements wait for.
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
    /// Reads that wait for a replica to have what they have to see, and are in no queue.
    pub waiting_for_replicas: usize,
    /// What the queues lack at the moment, that of the primary first.
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
    /// Where statements went, where reads go to replicas.
    pub routed: Routed,
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
