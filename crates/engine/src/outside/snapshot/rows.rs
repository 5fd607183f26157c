//! The plain data that tables' rows are made of.

use std::time::Duration;

use seam::{Address, Peer};

use crate::outside::enum_map::EnumMap;
use crate::outside::named::{BackendState, ClientState, Limit, LoginStage, LongestWaits, PermitState, Queue};
use crate::outside::refusals::Refused;
use crate::outside::taken_for::TakenFor;
use crate::outside::totals::Totals;
use crate::outside::turns::LongestTurn;
use crate::outside::waits::{HeldUpBy, Lack};
use crate::readers::routing::Routed;
use crate::scheduling::learned::digests::Digest;
use crate::scheduling::learned::lock_waits::told::Blocker;
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
    /// The client's default schema.
    pub schema: Option<String>,
    /// The client's state.
    pub state: ClientState,
    /// Where its login is, before that has ended.
    pub login: Option<LoginStage>,
    /// True where the client is in a transaction from the server's point of view.
    pub in_transaction: bool,
    /// The time for which the client's transaction has been open.
    pub transaction: Option<Duration>,
    /// The server's id of the backend that it holds or that runs its statement.
    pub backend: Option<u32>,
    /// The server of that backend, or the replica that the client's waiting statement is queued for.
    pub server: Option<Address>,
    /// Why it holds its backend beyond a transaction.
    pub pins: Pins,
    /// The queue that its statement waits in.
    pub queue: Option<Queue>,
    /// The time that the client's statement has waited so far, where it waits.
    pub queued: Option<Duration>,
    /// The resource that the queue lacks at the moment.
    pub lacks: Option<Lack>,
    /// The time that the first statement in flight on the client's backend has run, where that is its own.
    pub running: Option<Duration>,
    /// Time since the client was last heard of, or its last statement ended.
    pub idle: Duration,
    /// The time for which the client has taken none of its reply.
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
    /// True where others are known to wait for what the client holds.
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
    /// The name of the user that the backend is logged in as.
    pub user: String,
    /// The backend's state.
    pub state: BackendState,
    /// The client that holds it.
    pub client: Option<u32>,
    /// Statements sent and not answered.
    pub in_flight: usize,
    /// `held`, `lent` or `none`.
    pub permit: PermitState,
    /// The time that the first statement in flight has run.
    pub running: Option<Duration>,
    /// Time for which the backend has been idle or not ready yet.
    pub idle: Option<Duration>,
    /// The schema that it is in.
    pub schema: Option<String>,
    /// The number of its session state.
    pub session_state: u32,
    /// True while the backend is not read from, because a client is slow.
    pub paused: bool,
    /// True where the client that holds the backend has an open transaction.
    pub in_transaction: bool,
    /// The lock that the first statement in flight was last seen to wait for.
    pub lock_wait: Option<LockWaitView>,
}

/// A statement waits for a row lock on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWaitView {
    /// The length of the wait, from the statement's beginning on.
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
    /// Time since the first execution of the digest.
    pub first_seen: Duration,
    /// Time since the latest execution of the digest.
    pub last_seen: Duration,
    /// The worker's verdict on this kind.
    pub taken_for: TakenFor,
    /// The part of a permit that a statement of the kind takes, in percent.
    pub permit_percent: u32,
}

/// Where the statements of a digest went.
#[derive(Clone, Debug)]
pub struct RoutedView {
    /// The digest; `None` for all together that have none, or found no place.
    pub digest: Option<u64>,
    /// The digest's text, where that is known.
    pub text: Option<String>,
    /// The numbers of statements that went to each place.
    pub routed: Routed,
}

/// A worker as a whole.
#[derive(Clone, Debug)]
pub struct WorkerView {
    /// The worker's clients.
    pub clients: usize,
    /// The worker's backends on all servers, those that are being opened included. The figures that follow, and waits of statements, are of all
    /// servers, too.
    pub backends: usize,
    /// Backends on which nothing runs and that nobody holds.
    pub idle_backends: usize,
    /// Backends that are not ready yet.
    pub opening_backends: usize,
    /// Backends held by a client with an open transaction.
    pub transactions: usize,
    /// Permits that it holds.
    pub permits: u32,
    /// The worker's statements that run without a permit, having lent it.
    pub lent: usize,
    /// Statements that wait in each queue.
    pub queued: EnumMap<Queue, usize>,
    /// Reads that wait for a replica to have what they have to see, and are in no queue.
    pub waiting_for_replicas: usize,
    /// The resources that the queues lack at the moment. The lack at the primary goes before that at a replica.
    pub held_up_by: HeldUpBy,
    /// The wait of the statement that has waited longest for a backend.
    pub oldest_queued: Option<Duration>,
    /// The longest wait in each queue, of statements that may not have a backend now, too.
    pub longest_waits: LongestWaits,
    /// True where the worker's statements have waited for a permit for longer than `thread_pool_stall_limit`.
    pub is_stalled: bool,
    /// Different session states.
    pub session_states: usize,
    /// Bytes of statements that wait.
    pub buffered: usize,
    /// Connections accepted since the start, those over a limit aside.
    pub connections: u64,
    /// The counts since the start.
    pub totals: Totals,
    /// The worker's longest turn of late: of the last minute at least, and of two at most.
    pub longest_turn: LongestTurn,
    /// True once the worker has found the server and read its accounts, so that clients can log in.
    pub has_accounts: bool,
    /// True where the server answered last.
    pub server_is_up: bool,
    /// True while PAUSE holds.
    pub paused: bool,
    /// True where backends may be left on a server that is not the primary, with clients that hold them or what they have sent there.
    pub leaves_server: bool,
    /// Statements that went to the server.
    pub statements: u64,
    /// Statements among them that had waited for a permit.
    pub waited_for_permit: u64,
    /// Clients that the worker's statements have waited for, since these hold locks. Their ids come with them, and they are a thousand at most.
    pub blockers: Vec<(u32, Blocker)>,
    /// The knowledge of the server's stored code. One worker has it for all, and the others know nothing.
    pub stored_code: StoredCodeView,
    /// The use of each resource that a worker bounds for itself, or the worker's part of a common one, by option.
    pub in_use: [(Limit, u64); 10],
    /// The options that set a bound which was reached, each with the bound and how often.
    pub limits_reached: Vec<(Limit, u64, u64)>,
    /// The refused parties, and what refused them: some hundreds at most.
    pub refused: Vec<Refused>,
    /// Where statements went, where reads go to replicas.
    pub routed: Routed,
}

/// See [`WorkerView::stored_code`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredCodeView {
    /// The number of times that the code was read.
    pub readings: u64,
    /// The number of its four kinds (routines, triggers, views, defaults of columns) that could not be read.
    pub unreadable: u64,
    /// The number of tables and views that lead to code that may change the session.
    pub changing_names: u64,
}
