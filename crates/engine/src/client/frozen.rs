//! A client as plain data ([`crate::frozen`]), and back.
//!
//! Each struct that makes up a client is taken apart here by a pattern without `..`. So the compiler stops a change that adds a
//! field, until somebody decides on the field. The field goes along as it is, or by value or by name where others have a part in
//! it, or it is made anew where the client is thawed.
//!
//! Only a client that is idle can be frozen, or one with a statement that waits in a queue of the scheduler, or for the answer to
//! one that does. The client may hold a backend, for a transaction or a pin: the backend stays where it is, and is named by its
//! token. The output of a turn for the client is with the driver by then, which goes by the connection's name.

mod statements;

use seam::{ConnectionId, Instant, Peer};
use wire::{Capabilities, StatusFlags};

use self::statements::FrozenStatements;
use super::activity::Activity;
use super::login::of_client::ClientLogin;
use super::login::security::Security;
use super::memory::backpressure::Backpressure;
use super::memory::bytes_held::{ClientMemory, Counted};
use super::memory::sent_ahead::SentAhead;
use super::session::priority::Priority;
use super::session::transaction::{Locks, Transaction, Unstarted};
use super::state::State;
use super::{Client, ClientSession, LossKind, MemoryOfClient, Phase, UntoldLoss};
use crate::accounts::Identities;
use crate::accounts::frozen::FrozenIdentity;
use crate::frozen::{Distance, NotFrozen, NotThawed};
use crate::ids::{BackendKey, BackendName, ClientKey};
use crate::outside::waits::Holdups;
use crate::request::frozen::{Common as CommonOfRequests, FrozenRequest};
use crate::scheduling::scheduler::frozen::FrozenWait;
use crate::servers::Servers;
use crate::session::aftermath::frozen::FrozenAftermath;
use crate::session::named_resources::NamedResources;
use crate::session::pins::Pins;
use crate::session::trackers::Trackers;
use crate::session::unreported::Unreported;
use crate::session::user_variables::UserVariables;
use crate::session::wait_timeout::WaitTimeout;
use crate::session::{SessionState, SessionTables};
use crate::settings::ClientTls;
use crate::workers::onramps::millis_of;

/// One client as plain data. Nothing in it is shared with anybody, and nothing means anything in this process alone.
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenClient {
    /// The connection as the driver names it, which hands its connections on by the same names.
    connection: ConnectionId,
    peer: Peer,
    /// The listener's setting for encryption. The client itself is not encrypted.
    tls: ClientTls,
    id: u32,
    capabilities: Capabilities,
    login: FrozenLogin,
    identity: Option<FrozenIdentity>,
    session: FrozenSession,
    /// The backend that the client holds.
    backend: Option<BackendName>,
    tickets: u32,
    priority: Priority,
    /// The client's statement, where that waits in a queue.
    queued: Option<FrozenQueued>,
    input: Box<[u8]>,
    /// Bytes of the client's input that count against `statement_memory`, and against `login_memory`.
    counted: (usize, usize),
    backpressure: Backpressure,
    activity: FrozenActivity,
    loss: UntoldLoss,
    transaction: FrozenTransaction,
    /// The time up to which the client may have written something. `None` where it has written nothing yet.
    wrote: Option<Distance>,
}

plain!(struct FrozenClient {
    connection, peer, tls, id, capabilities, login, identity, session, backend, tickets, priority, queued, input, counted,
    backpressure, activity, loss, transaction, wrote,
});

/// A statement that waits.
#[derive(Debug, PartialEq)]
struct FrozenQueued {
    request: FrozenRequest,
    waits: FrozenWait,
}

plain!(struct FrozenQueued { request, waits });

plain!(struct Backpressure { too_far_ahead, server_is_slow, paused });
plain!(struct UntoldLoss { kind, wants_end, killed });
plain!(enum LossKind {
    0 => Transaction, 1 => PinnedState, 2 => Server, 3 => IdleTooLong, 4 => OpenTooLong, 5 => HeldIdle,
});

/// See [`ClientLogin`].
#[derive(Debug, PartialEq)]
struct FrozenLogin {
    scramble: [u8; 20],
    collation: u8,
}

plain!(struct FrozenLogin { scramble, collation });

/// See [`ClientSession`].
#[derive(Debug, PartialEq)]
struct FrozenSession {
    state: Option<SessionState>,
    pins: Pins,
    variables: Option<UserVariables>,
    wait_timeout: WaitTimeout,
    trackers: Option<Box<Trackers>>,
    unreported: Unreported,
    named_resources: Option<Box<NamedResources>>,
    status: StatusFlags,
    unstarted: Option<Unstarted>,
    aftermath: FrozenAftermath,
    statements: Option<FrozenStatements>,
}

plain!(struct FrozenSession {
    state, pins, variables, wait_timeout, trackers, unreported, named_resources, status, unstarted, aftermath, statements,
});

/// See [`Activity`].
#[derive(Debug, PartialEq)]
struct FrozenActivity {
    last_heard: Distance,
    stalled_since: Option<Distance>,
    /// Milliseconds since the client's latest command was taken up, in 32 bits.
    took_command: u32,
    has_begun: bool,
}

plain!(struct FrozenActivity { last_heard, stalled_since, took_command, has_begun });

/// See [`Transaction`].
#[derive(Debug, PartialEq)]
struct FrozenTransaction {
    since: Distance,
    /// Statements that have arrived since the transaction began. The next process counts on from where this one is.
    arrivals_since: u64,
    holds_locks: bool,
    blocks_others: bool,
    contends: bool,
}

plain!(struct FrozenTransaction { since, arrivals_since, holds_locks, blocks_others, contends });

/// The part of a client that is no plain data, and is only of use where the client is thawed in the same turn and process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Aside {
    /// Set where the client has sent ahead more than its share of a turn, and goes on in the next one.
    pub(super) goes_on: bool,
    /// The client with the statement behind this one's in the same queue.
    pub(crate) next_in_queue: Option<ClientKey>,
    /// The hash of the group that the client leads. The group may be another one than that of its statement, where another group stood there.
    pub(crate) group: Option<u64>,
}

/// The state that clients have in common with others, and the time.
pub(crate) struct Common<'a> {
    pub(crate) now: Instant,
    pub(crate) sessions: &'a mut SessionTables,
    pub(crate) identities: &'a mut Identities,
    pub(super) memory: &'a mut ClientMemory,
    pub(super) servers: &'a Servers,
    pub(super) holdups: &'a Holdups,
    /// The number of statements that have arrived, of all workers.
    pub(super) arrivals: u64,
    /// `prepared_statement_memory`.
    pub(super) prepared_statement_memory: usize,
}

impl Common<'_> {
    fn name_of(&self, key: BackendKey) -> Option<BackendName> {
        self.servers.get(key).map(|backend| BackendName::of(backend.token))
    }

    fn backend_of(&self, name: BackendName) -> Option<BackendKey> {
        self.servers.backend_of(name.token())
    }

    fn distance(&self, instant: Instant) -> Distance {
        Distance::of(instant, self.now)
    }

    fn of_requests(&mut self) -> CommonOfRequests<'_> {
        let Self { now, sessions, memory, holdups, .. } = self;
        CommonOfRequests { now: *now, sessions, memory: &mut memory.statements, holdups }
    }
}

impl Client {
    /// Checks that the client can be frozen.
    ///
    /// # Errors
    ///
    /// Where the client is in the middle of something that ends in this process.
    pub(crate) fn can_be_frozen(&self) -> Result<(), NotFrozen> {
        match self.phase() {
            Phase::Idle if self.request.is_none() => {}
            Phase::AwaitingServer => return Err(NotFrozen::NotGreeted),
            Phase::Login(_) => return Err(NotFrozen::LogsIn),
            Phase::Reading(_) => return Err(NotFrozen::IsRead),
            Phase::Queued | Phase::Following { .. } if let Some(request) = &self.request => {
                request.can_be_frozen(self.session.statements.as_deref())?;
            }
            Phase::Idle | Phase::Queued | Phase::Following { .. } => return Err(NotFrozen::Waits),
            Phase::Preparing | Phase::Running(_) | Phase::Settling => return Err(NotFrozen::Runs),
            Phase::Killing(_) => return Err(NotFrozen::Kills),
            Phase::Lent(_) => return Err(NotFrozen::IsLent),
        }
        match &self.security {
            Security::Tls(_) => Err(NotFrozen::IsEncrypted),
            Security::Plain(_) if self.login.until().is_some() => Err(NotFrozen::LogsIn),
            Security::Plain(_) => Ok(()),
        }
    }

    /// Makes plain data of a client that [can be frozen](Self::can_be_frozen), and gives back what it has held of what
    /// is common to all. `waits` says how the client's statement waits, where it has one.
    pub(crate) fn freeze(self, waits: Option<FrozenWait>, common: &mut Common<'_>) -> FrozenClient {
        debug_assert_eq!(self.can_be_frozen(), Ok(()), "its state is left out");
        debug_assert_eq!(waits.is_some(), self.request.is_some(), "a statement waits, or there is none");
        let Self {
            connection,
            peer,
            security,
            id,
            state: _, // idle, or its request waits
            capabilities,
            login,
            identity,
            session,
            backend,
            tickets,
            priority,
            request,
            input,
            memory,
            backpressure,
            activity,
            loss,
            transaction,
            wrote,
        } = self;
        let tls = if let Security::Plain(tls) = security { tls } else { ClientTls::Off };
        // It needs the statements that the client has prepared.
        let queued = request.zip(waits).map(|(request, waits)| FrozenQueued {
            request: request.freeze(&mut common.of_requests()),
            waits,
        });
        let session = session.freeze(common);
        FrozenClient {
            connection,
            peer,
            tls,
            id,
            capabilities,
            login: login.freeze(),
            identity: identity.map(|identity| {
                let frozen = FrozenIdentity::of(identity.id(), common.identities);
                common.identities.release(identity);
                frozen
            }),
            session,
            backend: backend.and_then(|backend| common.name_of(backend)),
            tickets,
            priority,
            queued,
            input: input.into_bytes().into_boxed_slice(),
            counted: memory.freeze(common),
            backpressure,
            activity: activity.freeze(common),
            loss,
            transaction: transaction.freeze(common),
            wrote: (wrote != Instant::START).then(|| common.distance(wrote)),
        }
    }
}

impl FrozenClient {
    /// Says how the client's statement waits, where it has one.
    pub(crate) fn waits(&self) -> Option<FrozenWait> {
        self.queued.as_ref().map(|queued| queued.waits)
    }

    /// Makes the client that this was, idle. The caller sees to its place in the tables, to the place of its statement,
    /// to the counts of clients, and to the backend that it holds.
    ///
    /// # Errors
    ///
    /// Where something is missing here that the client names.
    pub(crate) fn thaw(self, common: &mut Common<'_>) -> Result<Client, NotThawed> {
        let Self {
            connection,
            peer,
            tls,
            id,
            capabilities,
            login,
            identity,
            session,
            backend,
            tickets,
            priority,
            queued,
            input,
            counted,
            backpressure,
            activity,
            loss,
            transaction,
            wrote,
        } = self;
        let backend = match backend {
            Some(name) => Some(common.backend_of(name).ok_or(NotThawed::UnknownBackend)?),
            None => None,
        };
        let identity = match identity {
            Some(identity) => Some(identity.thaw(common.identities).ok_or(NotThawed::UnknownIdentity)?),
            None => None,
        };
        let session = session.thaw(backend, common);
        let request = queued.map(|queued| {
            let statements = session.statements.as_deref();
            Box::new(queued.request.thaw(statements, &mut common.of_requests()))
        });
        let mut client = Client {
            connection,
            peer,
            security: Security::Plain(tls),
            id,
            state: State::new(),
            capabilities,
            login: login.thaw(),
            identity,
            session,
            backend,
            tickets,
            priority,
            request,
            input: SentAhead::of(input.into_vec()),
            memory: MemoryOfClient::thawed(counted, common),
            backpressure,
            activity: activity.thaw(common),
            loss,
            transaction: transaction.thaw(common),
            wrote: wrote.map_or(Instant::START, |wrote| wrote.from(common.now)),
        };
        client.be_thawed();
        Ok(client)
    }
}

impl ClientLogin {
    fn freeze(self) -> FrozenLogin {
        let (scramble, collation) = self.into_ended();
        FrozenLogin { scramble, collation }
    }
}

impl FrozenLogin {
    fn thaw(self) -> ClientLogin {
        let Self { scramble, collation } = self;
        ClientLogin::ended(scramble, collation)
    }
}

impl MemoryOfClient {
    /// Gives back all that is counted of the client. Returns the bytes of its input; those of its session are counted anew.
    fn freeze(self, common: &mut Common<'_>) -> (usize, usize) {
        let Self { mut statements, mut login, mut session } = self;
        let counted = (statements.bytes(), login.bytes());
        common.memory.statements.give_back(&mut statements);
        common.memory.logins.give_back(&mut login);
        common.memory.sessions.give_back(&mut session);
        counted
    }

    fn thawed((of_statements, of_login): (usize, usize), common: &mut Common<'_>) -> Self {
        let (mut statements, mut login) = (Counted::default(), Counted::default());
        common.memory.statements.add(&mut statements, of_statements);
        common.memory.logins.add(&mut login, of_login);
        Self { statements, login, session: Counted::default() }
    }
}

impl ClientSession {
    fn freeze(self, common: &mut Common<'_>) -> FrozenSession {
        let Self {
            held,
            pins,
            variables,
            wait_timeout,
            trackers,
            unreported,
            named_resources,
            status,
            unstarted,
            aftermath,
            statements,
        } = self;
        let statements = statements.map(|statements| statements.freeze(common));
        let state = held.map(|held| {
            let state = common.sessions.states.state(held.id()).clone();
            common.sessions.states.release(held);
            state
        });
        FrozenSession {
            state,
            pins,
            variables: variables.map(|variables| (*variables).clone()),
            wait_timeout,
            trackers,
            unreported,
            named_resources,
            status,
            unstarted,
            aftermath: {
                let bytes = aftermath.diagnostics().bytes();
                common.memory.diagnostics = common.memory.diagnostics.saturating_sub(bytes);
                aftermath.freeze(|backend| common.name_of(backend))
            },
            statements,
        }
    }
}

impl FrozenSession {
    /// Makes the session again, of a client that holds this backend, where it holds one. The session shares its
    /// variables with the backend if they stand there.
    fn thaw(self, backend: Option<BackendKey>, common: &mut Common<'_>) -> ClientSession {
        let Self {
            state,
            pins,
            variables,
            wait_timeout,
            trackers,
            unreported,
            named_resources,
            status,
            unstarted,
            aftermath,
            statements,
        } = self;
        let standing = backend.and_then(|key| common.servers[key].session.variables.as_ref());
        let variables = variables.map(|variables| {
            standing.filter(|standing| ***standing == variables).cloned().unwrap_or_else(|| variables.into())
        });
        let held = state.map(|state| common.sessions.states.hold(state));
        let statements = statements.map(|statements| Box::new(statements.thaw(common)));
        ClientSession {
            held,
            pins,
            variables,
            wait_timeout,
            trackers,
            unreported,
            named_resources,
            status,
            unstarted,
            aftermath: {
                common.memory.diagnostics += aftermath.diagnostics_bytes();
                aftermath.thaw(|name| common.backend_of(name))
            },
            statements,
        }
    }
}

impl Activity {
    fn freeze(self, common: &Common<'_>) -> FrozenActivity {
        let Self { last_heard, stalled_since, took_command, has_begun } = self;
        FrozenActivity {
            last_heard: common.distance(last_heard),
            stalled_since: stalled_since.map(|since| common.distance(since)),
            took_command: (millis_of(common.now) as u32).wrapping_sub(took_command),
            has_begun,
        }
    }
}

impl FrozenActivity {
    fn thaw(self, common: &Common<'_>) -> Activity {
        let Self { last_heard, stalled_since, took_command, has_begun } = self;
        Activity {
            last_heard: last_heard.from(common.now),
            stalled_since: stalled_since.map(|since| since.from(common.now)),
            took_command: (millis_of(common.now) as u32).wrapping_sub(took_command),
            has_begun,
        }
    }
}

impl Transaction {
    fn freeze(self, common: &Common<'_>) -> FrozenTransaction {
        let Self { since, began, locks: Locks { held, awaited }, contends } = self;
        FrozenTransaction {
            since: common.distance(since),
            arrivals_since: common.arrivals.saturating_sub(began),
            holds_locks: held,
            blocks_others: awaited,
            contends,
        }
    }
}

impl FrozenTransaction {
    fn thaw(self, common: &Common<'_>) -> Transaction {
        let Self { since, arrivals_since, holds_locks, blocks_others, contends } = self;
        Transaction {
            since: since.from(common.now),
            began: common.arrivals.saturating_sub(arrivals_since),
            locks: Locks { held: holds_locks, awaited: blocks_others },
            contends,
        }
    }
}

#[cfg(test)]
mod tests;
