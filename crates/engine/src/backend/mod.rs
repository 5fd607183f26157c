//! A backend: one connection of ours to the server, logged in as one of the server's users.

pub(crate) mod from_server;
mod frozen;
pub(crate) mod login;
pub(crate) mod pool;
pub(crate) mod scheduling;
mod state;
pub(crate) mod to_server;

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use seam::{Address, ConnectionId, Instant};
use wire::{Capabilities, ReplyReader, StatusFlags};

use crate::accounts::{IdentityHold, IdentityId};
use crate::client::Client;
use crate::errors::ServerError;
use crate::ids::{ClientKey, Table};
use crate::outside::measures::Command;
use crate::request::RequestKind;
use crate::scheduling::coalescing::group::CoalescedGroup;
use crate::scheduling::learned::lock_waits::told::SeenWait;
use crate::scheduling::learned::long_permits::Allowed;
use crate::scheduling::scheduler::Scheduler;
use crate::server::login::{Established, ServerLogin};
use crate::server::stored_code::{CodeChange, Hidden};
use crate::session::user_variables::Variables;
use crate::session::wait_timeout::WaitTimeout;
use crate::session::{Charset, SessionHold, SessionId, SessionState, Sessions};
use crate::workers::account_connections::AccountConnection;
use crate::workers::places::Origin;
use crate::workers::serving::ServedClient;
use crate::workers::users::Used;
use login::rights::taken_up::BackendRights;
use state::State;

pub(crate) use state::{Idle, Permit, Phase};

/// One connection to the server.
pub(crate) struct Backend {
    /// Number by which the driver names the request for this connection. No number is ever used twice.
    pub(crate) token: u64,
    pub(crate) connection: Option<ConnectionId>,
    state: State,
    /// The server that the connection leads to.
    place: ServerPlace,
    pub(crate) opened: Opened,
    /// Time at which the backend came into its phase, or was last used.
    pub(crate) since: Instant,
    pub(crate) account: BackendAccount,
    pub(crate) login: BackendLogin,
    pub(crate) session: BackendSession,
    /// Requests that have been sent and not yet answered, in order. Each byte that comes belongs to the first.
    pub(crate) in_flight: VecDeque<InFlight>,
    pub(crate) first: First,
    /// Time at which a client with a statement in flight here went away.
    abandoned_since: Option<Instant>,
    shown: Shown,
    /// The client that holds it, for a transaction, a pin, or a statement that it does not share.
    holder: Option<ClientKey>,
    /// Right of the long statement that runs here, to its end.
    runs_long: Option<Allowed>,
    pub(crate) locks: Locks,
    /// Kind of the only reads that may share the backend, see [`crate::scheduling::learned::digests::Digests::may_be_stuck`].
    only_kind: Option<u64>,
    /// True while nothing is read from the backend, because the client that gets the answer is slow to take it.
    pub(crate) paused: bool,
    afterwards: Afterwards,
    /// Bytes for the server, collected over a turn so that all statements of the turn leave in one write.
    pub(crate) out: Vec<u8>,
}

/// Facts of how a backend was opened.
pub(crate) struct Opened {
    /// The way in which we came by the backend's place.
    origin: Origin,
    /// True until the first statement of a client runs on the backend.
    pub(crate) fresh: bool,
    /// The backend's number, where a check still has to prove which process the connection leads to ([`crate::cluster::process_proof`]).
    unproved: Option<u64>,
    /// Time until which the backend serves others of its account before the clients in front of them.
    affinity_until: Option<Instant>,
}

/// The account of a backend.
pub(crate) struct BackendAccount {
    /// The hold on the identity that gives the backend its rights.
    pub(in crate::backend) identity: IdentityHold,
    /// Knowledge of whether the backend still has these rights.
    rights: BackendRights,
    /// Number of changes of accounts that had been seen when the first statement in flight here began.
    began_at: u64,
    /// Time from which on the backend has been the identity's.
    held_since: Instant,
    /// The connection is one of the account's for as long as this is there.
    connection: AccountConnection,
    /// The user of the room that the server has for the backend, once it is closed.
    successor: Successor,
}

impl BackendAccount {
    /// Returns the identity that gives the backend its rights.
    pub(crate) fn identity(&self) -> IdentityId {
        self.identity.id()
    }
}

/// The statements that get the room of a backend of an account of which the server takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Successor {
    /// Statements here, and of the worker that has waited longest for it.
    Anybody,
    /// No statements: the server has refused the login, so that there is no room, or none for now.
    Nobody,
    /// Statements of another worker, which has been told.
    OtherWorker,
    /// Statements of this identity here, with capabilities or rights of their own.
    Here(IdentityId),
}

/// The login of a backend: the request, and the server's answer.
#[derive(Debug, PartialEq)]
pub(crate) struct BackendLogin {
    /// The capabilities that its clients must share.
    class: Capabilities,
    pub(crate) thread_id: u32,
    capabilities: Capabilities,
    /// Agreement with the server; set once the login is over.
    established: Option<Established>,
    /// True where the login gave the backend no role: the server said so, or is one that has no roles.
    has_no_role: bool,
    /// Number of the login's collation.
    collation: u8,
    /// Character set of that collation, which COM_RESET_CONNECTION brings back.
    charset: Charset,
}

/// The session on the server's side of a backend.
pub(crate) struct BackendSession {
    /// The hold on the session state.
    held: SessionHold,
    /// The user variables, as far as they are carried.
    pub(crate) variables: Variables,
    /// The `wait_timeout` that the backend's holder has set. None on a backend that nobody holds.
    pub(crate) wait_timeout: WaitTimeout,
    /// True while the session trackers are on. A reset turns them off.
    trackers: bool,
    /// True while the server takes several statements in one text (COM_SET_OPTION).
    multi_statements: bool,
    /// The statements that are prepared on the backend.
    pub(crate) prepared: to_server::prepared::Prepared,
    /// Changes that the stored code of a failed statement may have made, as long as the server has not told of them.
    failed: Hidden,
    /// The diagnostics that the server may keep there, and the client that they belong to.
    diagnostics_area: from_server::diagnostics_area::DiagnosticsArea,
}

/// The first of the requests in flight on a backend.
pub(crate) struct First {
    /// Earliest time at which the server can have begun with the request.
    pub(crate) since: Instant,
    /// True where nothing was in flight when the request was sent. Its time is then the way to the server and back, and the work there.
    is_alone: bool,
}

/// The use of a backend, for all workers to know.
#[derive(Default)]
pub(crate) struct Shown {
    serves: ServedClient,
    /// Set while the backend counts among those that its user uses: from its first statement until it is free again.
    used: Option<Used>,
}

/// The locks that the statements on a backend are known to want.
#[derive(Default)]
pub(crate) struct Locks {
    /// The lock that the first statement in flight was last seen to wait for on the server.
    pub(crate) seen: Option<SeenWait>,
    /// True while the first statement in flight is known to wait for a lock.
    pub(crate) waits: bool,
    /// True from the start of a statement of a contended kind ([`scheduling::contended`]) to the end of its transaction.
    pub(crate) contends: bool,
}

/// The server that a backend's connection leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerPlace {
    /// The server at this place in the list of addresses.
    At(usize),
    /// An address that stood there before. Statements that run there come to their end, and nobody else is given the backend. A thread's
    /// number from there means nothing on the server that is asked now.
    Former(Rc<Address>),
}

impl ServerPlace {
    pub(crate) fn is(&self, place: usize) -> bool {
        *self == Self::At(place)
    }

    pub(crate) fn is_former(&self) -> bool {
        matches!(self, Self::Former(_))
    }
}

/// The next step of a backend once nothing runs on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Afterwards {
    Keep,
    /// COM_RESET_CONNECTION: a client left with a transaction or other state.
    Reset,
    Close,
}

/// One thing sent to the server and not yet answered.
pub(crate) struct InFlight {
    pub(crate) owner: Owner,
    reader: ReplyReader,
    pub(crate) summary: Summary,
    /// Number of statements of our own that stand before the request in the same text.
    preludes: u8,
    /// Digest of the request; 0 where there is none.
    pub(crate) fingerprint: u64,
    /// Time from the arrival of the request to its start.
    pub(crate) waited: Duration,
    /// True for a read that others may follow at once, see [`Backend::shares`].
    pub(crate) shared: bool,
    ends: Ends,
    /// The session state that the preludes leave, where other reads may follow before the preludes have been answered.
    brings: Option<Rc<SessionState>>,
    /// Effects on the backend once the preludes have succeeded.
    prelude_effects: PreludeEffects,
    /// Other clients that get the same answer.
    group: Option<Box<CoalescedGroup>>,
    /// True where the statement chooses a schema, so that no prelude chose the client's former one.
    chooses_schema: bool,
    /// The stored code that the statement defines, until it is over.
    code_change: Option<CodeChange>,
    /// Version of the knowledge of stored code when the statement was sent. None for a statement that runs no stored code.
    pub(crate) library: Option<u64>,
}

/// The effects of the preludes, beside setting the client's session state.
#[derive(Clone, Copy, Default)]
pub(crate) struct PreludeEffects {
    /// True where the preludes set LAST_INSERT_ID().
    set_insert_id: bool,
    /// True where the preludes begin the client's transaction.
    begin: bool,
    /// True where the preludes clear the diagnostics that others have left.
    clear: bool,
    /// True where the preludes choose the client's schema.
    schema: bool,
}

/// The receiver of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A client's statement: the answer is relayed.
    Client { client: ClientKey, command: RequestKind },
    /// A statement of a client that has gone.
    Abandoned,
    /// The end of a backend's login: turns the trackers on, and asks who we are.
    Setup,
    /// A client's session state, sent apart from its statement.
    ApplyState { client: ClientKey },
    /// The session state for a statement that is to be prepared, where that is not the client's.
    ApplyDefinition { client: ClientKey },
    /// COM_STMT_PREPARE ahead of an execution.
    Prepare { client: ClientKey },
    /// SHOW WARNINGS for the client that sent the last statement.
    SaveDiagnostics { client: ClientKey },
    /// SELECT LAST_INSERT_ID() for the client that sent the last statement.
    SaveInsertId { client: ClientKey },
    /// COM_PING behind an error of the holder's.
    ReadStatus { client: ClientKey },
    /// Session variables that the trackers do not report in full, for the holder.
    ReadVariables { client: ClientKey },
    /// COM_RESET_CONNECTION.
    Reset,
    /// SET wait_timeout = DEFAULT behind a client that has set it.
    RestoreWaitTimeout,
    /// COM_PING behind the closing of statements that made room for others.
    Closing,
    /// COM_SET_OPTION ahead of a statement. The command cannot fail.
    SetOption,
}

/// An order to end a statement before its own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// No order: the statement ends by itself.
    ByItself,
    /// A KILL QUERY that has to wait until the statement is alone, since the KILL could hit others' reads on the same backend.
    WhenAlone,
    /// An order that the server has got.
    Asked,
}

impl InFlight {
    /// The server is asked to end it.
    pub(crate) fn end_asked(&mut self) {
        self.ends = Ends::Asked;
    }

    /// The server is to be asked to end it once it is alone on its backend.
    pub(crate) fn end_when_alone(&mut self) {
        self.ends = Ends::WhenAlone;
    }

    /// Nobody wants it to be ended any longer.
    pub(crate) fn end_by_itself(&mut self) {
        self.ends = Ends::ByItself;
    }

    pub(crate) fn ends_when_alone(&self) -> bool {
        self.ends == Ends::WhenAlone
    }

    pub(crate) fn is_asked_to_end(&self) -> bool {
        self.ends == Ends::Asked
    }

    /// Says whether it defines stored code.
    pub(crate) fn changes_code(&self) -> bool {
        self.code_change.is_some()
    }

    /// Takes out the stored code that it defines: it is over.
    pub(crate) fn take_code_change(&mut self) -> Option<CodeChange> {
        self.code_change.take()
    }
}

impl Owner {
    /// Says whether a client hears the answer as it comes. Other answers are heard once they are whole, or not at all.
    pub(crate) fn is_heard(self) -> bool {
        let Self::Client { command, .. } = self else { return false };
        !matches!(command, RequestKind::LoginSchema | RequestKind::ChangeUser | RequestKind::Prepare)
    }

    /// Returns the command that a client's statement came by, as long as the client is still there.
    pub(crate) fn command(self) -> Option<Command> {
        let Self::Client { command, .. } = self else { return None };
        Some(command.as_measured())
    }

    pub(crate) fn client(self) -> Option<ClientKey> {
        match self {
            Self::Client { client, .. }
            | Self::ApplyState { client }
            | Self::ApplyDefinition { client }
            | Self::Prepare { client }
            | Self::SaveDiagnostics { client }
            | Self::SaveInsertId { client }
            | Self::ReadStatus { client }
            | Self::ReadVariables { client } => Some(client),
            Self::Abandoned
            | Self::Setup
            | Self::Reset
            | Self::RestoreWaitTimeout
            | Self::Closing
            | Self::SetOption => None,
        }
    }
}

/// The content of an answer so far.
#[derive(Default)]
pub(crate) struct Summary {
    /// Status flags of the latest OK or EOF.
    pub(crate) status: Option<StatusFlags>,
    /// True where some OK or EOF came from within a transaction that only reads.
    pub(crate) in_read_only: bool,
    pub(crate) affected_rows: u64,
    pub(crate) last_insert_id: u64,
    pub(crate) warnings: u16,
    pub(crate) counts: AnswerCounts,
    /// Id and number of parameters of the statement that was prepared.
    pub(crate) prepared: Option<(u32, u16)>,
    /// Digest of the column definitions that the client has got, where the client remembers them.
    pub(crate) metadata: Option<u64>,
    pub(crate) error: Option<ServerError>,
    /// True where the client does not get the error: the statement goes to another server.
    pub(crate) withheld: bool,
    /// True where the error is ours and not the server's.
    pub(crate) refused_here: bool,
    /// True where the error came from a prelude: the statement did not run.
    pub(crate) prelude_failed: bool,
    /// Number of preludes that have succeeded.
    pub(crate) preludes_done: u8,
    pub(crate) changes: Vec<TrackedChange>,
    pub(crate) file: FileOfClient,
    /// True once an event of the binary log has come.
    pub(crate) log_begun: bool,
    /// Number of bytes relayed to the client, or kept here where the answer is for us.
    pub(crate) relayed: u64,
    /// Number of those bytes that tell the client of changes of its session.
    pub(crate) told: u64,
    /// Changes of the latest OK as bytes, where they will be remembered.
    pub(crate) raw_changes: Vec<u8>,
    pub(crate) kept_answer: Vec<u8>,
}

/// A file that LOAD DATA LOCAL wants of a client.
#[derive(Debug, Default)]
pub(crate) struct FileOfClient {
    /// Number of the packet in which the server asked for the file.
    asked: Option<u8>,
    /// True once the file was sent.
    uploaded: bool,
}

/// Numbers of results and rows of an answer so far.
#[derive(Debug, Default)]
pub(crate) struct AnswerCounts {
    /// Number of results with success: result sets, and OK packets in the place of one.
    pub(crate) results: u32,
    /// Number of rows of the last result, where that is a result set.
    pub(crate) rows: Option<u64>,
    /// Number of rows that an `INSERT ... SELECT` read, as the OK says in words.
    copied: Option<u64>,
    /// Number of rows that an UPDATE found, changed or not.
    matched: Option<u64>,
    /// Number of rows of the latest result set, whatever came after it.
    found: Option<u64>,
    /// Number of rows of all result sets.
    pub(crate) sent: u64,
    /// Number of rows that all statements changed.
    pub(crate) changed: u64,
}

/// A change of session state that the server's trackers reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TrackedChange {
    Variable {
        name: Box<[u8]>,
        value: Box<[u8]>,
    },
    Schema(Box<[u8]>),
    /// A change that the server reports without a name.
    State,
}

impl TrackedChange {
    /// Says whether the change is about how transactions begin: isolation, or read-only. MySQL and MariaDB name these variables differently.
    pub(crate) fn is_of_transactions(&self) -> bool {
        const NAMES: [&[u8]; 4] =
            [b"transaction_isolation", b"transaction_read_only", b"tx_isolation", b"tx_read_only"];
        matches!(self, Self::Variable { name, .. } if NAMES.iter().any(|known| name.eq_ignore_ascii_case(known)))
    }
}

impl BackendSession {
    /// Returns the number of the session state.
    pub(crate) fn id(&self) -> SessionId {
        self.held.id()
    }

    /// Gives the session another state, and gives up the hold on the one before.
    fn becomes(&mut self, held: SessionHold, sessions: &mut Sessions) {
        sessions.release(std::mem::replace(&mut self.held, held));
    }
}

impl Backend {
    pub(crate) fn phase(&self) -> &Phase {
        self.state.phase()
    }

    pub(crate) fn permit(&self) -> Permit {
        self.state.permit()
    }

    /// Returns the time at which the backend got its permit. The value means nothing without a permit.
    pub(crate) fn permit_since(&self) -> Instant {
        self.state.permit_since()
    }

    /// Returns the part of the permit that is left to others, in parts of [`crate::scheduling::learned::waiting::WHOLE`]. Without a permit it is 0.
    pub(crate) fn spared(&self) -> u32 {
        self.state.spared()
    }

    /// Returns the login, and the buffer for its bytes to the server. None where the backend does not log in.
    fn login(&mut self) -> Option<(&mut ServerLogin, &mut Vec<u8>)> {
        self.state.login().map(|login| (login, &mut self.out))
    }

    /// Notes that a statement begins here. The scheduler has counted its permit, if it has one. `spared` is the part that it leaves to others.
    pub(crate) fn begin_with_permit(
        &mut self,
        now: Instant,
        scheduler: &mut Scheduler,
        has_permit: bool,
        spared: u32,
    ) {
        self.state.begin_with_permit(now, scheduler, has_permit, spared);
        if self.place.is_former() {
            self.lend_permit(scheduler);
        }
    }

    /// Lends the permit: another statement may run as long as the server does nothing for this one, or another server runs it.
    pub(crate) fn lend_permit(&mut self, scheduler: &mut Scheduler) {
        self.state.lend_permit(scheduler);
    }

    /// Takes the lent permit back, since the server goes on with the statement. A statement at a former address needs no permit.
    pub(crate) fn take_permit_back(&mut self, scheduler: &mut Scheduler) {
        if !self.place.is_former() {
            self.state.take_permit_back(scheduler);
        }
    }

    /// Gives the permit back, since nothing runs here any more.
    pub(crate) fn give_permit(&mut self, scheduler: &mut Scheduler) {
        self.state.give_permit(scheduler);
    }

    /// Puts the backend into this phase, as if it had come there itself.
    #[cfg(test)]
    pub(crate) fn set_phase(&mut self, phase: Phase) {
        self.state.set_phase(phase);
    }

    /// Says whether this client's statement is the one that is being answered now.
    pub(crate) fn answers(&self, client: ClientKey) -> bool {
        self.in_flight.front().is_some_and(|statement| statement.owner.client() == Some(client))
    }

    /// Says whether the backend is free after a statement at the latest: nobody holds it beyond that.
    pub(crate) fn passes(&self, clients: &Table<ClientKey, Client>) -> bool {
        let holder = self.holder.and_then(|client| clients.get(client));
        holder.is_none_or(|client| client.session.pins().is_empty() && !client.in_transaction())
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.phase(), Phase::Ready)
    }

    /// Says whether nobody holds the backend and nothing runs on it.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_ready() && self.in_flight.is_empty() && self.holder.is_none()
    }

    /// Notes that a request has been sent.
    pub(crate) fn put_in_flight(&mut self, now: Instant, statement: InFlight) {
        if self.in_flight.is_empty() {
            self.first.since = now;
            self.first.is_alone = true;
        }
        self.in_flight.push_back(statement);
    }

    /// Says whether all that runs here are short reads that leave nothing behind, so that one more may follow.
    pub(crate) fn shares(&self) -> bool {
        !self.in_flight.is_empty() && self.in_flight.iter().all(|statement| statement.shared)
    }
}
