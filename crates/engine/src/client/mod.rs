//! A client: one connection of an application.
//!
//! | phase | what it waits for |
//! |---|---|
//! | `AwaitingServer` | the server's greeting facts, before ours can be sent |
//! | `Login` | the rest of its login, see [`login`] |
//! | `Idle` | its next command |
//! | `Reading` | its large text to be read on another thread |
//! | `Queued` | a permit and a backend, or room on the server for what it prepares |
//! | `Following` | the answer to another client's statement, which answers its own too, see [`crate::scheduling::coalescing`] |
//! | `Preparing` | its session state to be applied on its backend, or its statement to be prepared there |
//! | `Running` | its reply's end |
//! | `Settling` | what the reply left behind to be saved from its backend |
//! | `Killing` | another worker, another Onramp or the server to carry out its KILL |
//! | `Lent` | a replica to answer, see [`crate::readers`] |

pub(crate) mod activity;
mod admission;
pub(crate) mod answers;
pub(crate) mod backend_lost;
pub(crate) mod close;
pub(crate) mod commands;
pub(crate) mod delay;
pub(crate) mod frozen;
pub(crate) mod ids;
pub(crate) mod login;
pub(crate) mod memory;
pub(crate) mod resume;
pub(crate) mod session;
mod state;

use seam::{ConnectionId, Instant, Peer};
use wire::{Capabilities, Command, StatusFlags};

use self::activity::Activity;
use self::memory::backpressure::Backpressure;
use crate::accounts::{IdentityHold, IdentityId};
use crate::backend::Permit;
use crate::client::memory::bytes_held::Counted;
use crate::ids::{BackendKey, ClientKey, ClientRef, Table};
use crate::outside::named::ClosedFor;
use crate::request::Request;
use crate::server::Server;
use crate::servers::Servers;
use crate::session::aftermath::{Aftermath, Reader};
use crate::session::named_resources::NamedResources;
use crate::session::pins::Pins;
use crate::session::trackers::Trackers;
use crate::session::unreported::Unreported;
use crate::session::user_variables::Variables;
use crate::session::wait_timeout::WaitTimeout;
use crate::session::{SessionHold, SessionId, Sessions};
use commands::statements::ClientStatements;
use login::of_client::ClientLogin;
use login::security::Security;
use memory::sent_ahead::SentAhead;
use session::priority::Priority;
use session::transaction::{Transaction, Unstarted};
use state::State;

pub(crate) use state::{Phase, Running};

/// One client. A client that is idle, and has sent nothing of its next command, owns no buffer.
pub(crate) struct Client {
    pub(crate) connection: ConnectionId,
    pub(crate) peer: Peer,
    security: Security,
    /// The connection id that the client saw in its greeting, and that CONNECTION_ID() gives.
    pub(crate) id: u32,
    state: State,
    pub(crate) capabilities: Capabilities,
    pub(crate) login: ClientLogin,
    /// The hold on who it is; set once the client has logged in.
    identity: Option<IdentityHold>,
    pub(crate) session: ClientSession,
    /// The backend that the client holds, or that runs the client's statement.
    pub(crate) backend: Option<BackendKey>,
    pub(crate) tickets: u32,
    /// The pool's variables that the client has set for itself.
    pub(crate) priority: Priority,
    /// The client's command, from its arrival to its end.
    pub(crate) request: Option<Box<Request>>,
    /// Bytes that are not a whole command yet, or that came while another command was under way.
    pub(crate) input: SentAhead,
    pub(crate) memory: MemoryOfClient,
    pub(crate) backpressure: Backpressure,
    pub(crate) activity: Activity,
    pub(crate) loss: UntoldLoss,
    pub(crate) transaction: Transaction,
    /// The time up to which the client may have written something, where reads are split ([`crate::readers`]).
    pub(crate) wrote: Instant,
}

/// The session of a client. The session goes with the client from backend to backend.
pub(crate) struct ClientSession {
    /// The hold on the session's state. Set once the client has logged in.
    held: Option<SessionHold>,
    pins: Pins,
    /// The client's user variables, as far as Onramp carries them.
    pub(crate) variables: Variables,
    /// The time for which the client may be idle, where it has set that.
    pub(crate) wait_timeout: WaitTimeout,
    /// The client's own trackers, which say of which changes it hears. `None` where they are those of a new connection.
    pub(crate) trackers: Option<Box<Trackers>>,
    /// Session variables that only the client's backend knows.
    unreported: Unreported,
    /// Resources that the client holds by name. `None` until it holds one.
    pub(crate) named_resources: Option<Box<NamedResources>>,
    /// The latest status flags. An OK of our own repeats them.
    status: StatusFlags,
    /// The transaction that the client has begun, and that no backend knows of yet. The flags above do not tell of it.
    unstarted: Option<Unstarted>,
    pub(crate) aftermath: Aftermath,
    /// Statements that the client has prepared, and the counts of its commands about them. `None` until there are some.
    pub(crate) statements: Option<Box<ClientStatements>>,
}

/// Bytes of what a client has, by the option against which they count.
#[derive(Debug, Default)]
pub(crate) struct MemoryOfClient {
    /// Bytes of the client's input that count against `statement_memory`.
    statements: Counted,
    /// Bytes of the client's input that count against `login_memory`.
    pub(crate) login: Counted,
    /// Bytes that the client has set and holds, which count against `session_memory`. The session's state is not among them.
    pub(crate) session: Counted,
}

/// A loss that a client has had, or is about to have, and has not been told of.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct UntoldLoss {
    /// Set where the client's backend was lost between two statements. The next statement is told so.
    pub(crate) kind: Option<LossKind>,
    /// True where the client's library takes an error packet with a client's code (2013) for malformed. An end of the
    /// connection makes such a library report 2013 by itself. Known by the connection attribute `_client_name`.
    pub(crate) wants_end: bool,
    /// True where KILL CONNECTION came while the client's statement ran.
    pub(crate) killed: bool,
}

/// A client's loss, with which its next command is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossKind {
    Transaction,
    PinnedState,
    /// The server itself: a server of another kind has taken its place.
    Server,
    /// Onramp took the backend: the transaction was idle for `idle_transaction_timeout`.
    IdleTooLong,
    /// Onramp took the backend: the transaction was open for `transaction_timeout`.
    OpenTooLong,
    /// Onramp took the backend: others waited for one, and the client had been idle for `idle_hold_timeout`.
    HeldIdle,
}

impl LossKind {
    /// Returns the reason for which the client is closed.
    pub(crate) fn closes_for(self) -> ClosedFor {
        match self {
            Self::Transaction | Self::PinnedState => ClosedFor::BackendLost,
            Self::Server => ClosedFor::ServerReplaced,
            Self::IdleTooLong => ClosedFor::IdleTransactionTimeout,
            Self::OpenTooLong => ClosedFor::TransactionTimeout,
            Self::HeldIdle => ClosedFor::IdleHoldTimeout,
        }
    }
}

impl Client {
    /// Says whether the client's backend takes more from the client than commands, or may ask for more at any time: a
    /// file, or a replica's word on events.
    pub(crate) fn may_send_more(&self) -> bool {
        let loads =
            |request: &Request| request.statement.kind == sql::Kind::Load || request.statement.several;
        match self.phase() {
            Phase::Running(Running::Uploading { .. } | Running::Replicating { .. }) => true,
            Phase::Running(Running::OnServer) => self.request.as_deref().is_some_and(loads),
            _ => false,
        }
    }

    /// Returns the client's loss between two commands, where this command is answered with it. `several` says whether
    /// there are several servers: a lost transaction is rolled back then, and its client goes on.
    fn loss_told_to(&self, command: &Command<'_>, several: bool) -> Option<LossKind> {
        let lost = self.loss.kind?;
        let goes_on = lost == LossKind::Transaction && several;
        let told = match command {
            Command::Quit => false,
            // These have no answer, or ask for nothing of the transaction.
            Command::StmtClose(_) | Command::StmtSendLongData { .. } | Command::Ping => !goes_on,
            _ => true,
        };
        told.then_some(lost)
    }
}

impl ClientSession {
    fn new() -> Self {
        Self {
            held: None,
            pins: Pins::NONE,
            variables: None,
            wait_timeout: None,
            trackers: None,
            unreported: None,
            named_resources: None,
            status: StatusFlags::AUTOCOMMIT,
            unstarted: None,
            aftermath: Aftermath::default(),
            statements: None,
        }
    }

    /// Resets the session. A reset leaves the session's state and, of the aftermath, what a reset does not touch. The
    /// prepared statements stay too, and the caller looks after them.
    pub(crate) fn reset(&mut self, status: StatusFlags) {
        let (aftermath, statements) = (self.aftermath.of_reset(), self.statements.take());
        let held = self.held.take();
        *self = Self { held, status, aftermath, statements, ..Self::new() };
    }

    /// Ends the session: another one follows, or none. Returns the hold on its state, to be given up. What is left is for the next one to
    /// reset.
    #[must_use]
    fn end(&mut self) -> Option<SessionHold> {
        let Self { held, status, aftermath, statements, .. } = std::mem::replace(self, Self::new());
        *self = Self { status, aftermath, statements, ..Self::new() };
        held
    }

    /// Returns the number of the session's state. `None` as long as the client has not logged in.
    pub(crate) fn id(&self) -> Option<SessionId> {
        self.held.as_ref().map(SessionHold::id)
    }

    /// Gives a session that has none yet its state.
    pub(crate) fn begins(&mut self, held: SessionHold) {
        let before = self.held.replace(held);
        debug_assert!(before.is_none(), "the session before has ended");
    }

    /// Gives the session another state, and gives up the hold on the one before.
    pub(crate) fn becomes(&mut self, held: SessionHold, sessions: &mut Sessions) {
        if let Some(before) = self.held.replace(held) {
            sessions.release(before);
        }
    }
}

impl Table<ClientKey, Client> {
    /// Returns the reference to the client that has the slot now.
    pub(crate) fn ref_to(&self, key: ClientKey) -> ClientRef {
        ClientRef { key, id: self[key].id }
    }

    /// Finds the client behind a reference, which may have gone since.
    pub(crate) fn find(&self, client: ClientRef) -> Option<&Client> {
        self.get(client.key).filter(|found| found.id == client.id)
    }

    /// Finds the client likewise, to change it.
    pub(crate) fn find_mut(&mut self, client: ClientRef) -> Option<&mut Client> {
        self.get_mut(client.key).filter(|found| found.id == client.id)
    }
}

impl Client {
    pub(crate) fn new(connection: ConnectionId, peer: Peer, id: u32, now: Instant) -> Self {
        Self {
            connection,
            peer,
            security: Security::default(),
            id,
            state: State::new(),
            capabilities: Capabilities(0),
            login: ClientLogin::default(),
            identity: None,
            session: ClientSession::new(),
            backend: None,
            tickets: 0,
            priority: Priority::default(),
            request: None,
            input: SentAhead::default(),
            memory: MemoryOfClient::default(),
            backpressure: Backpressure::default(),
            activity: Activity::new(now),
            loss: UntoldLoss::default(),
            transaction: Transaction::new(now),
            wrote: Instant::START,
        }
    }

    /// Says whether the client is in a transaction, as the server sees it.
    pub(crate) fn in_transaction(&self) -> bool {
        self.session.status.contains(StatusFlags::IN_TRANS)
    }

    /// Returns the mode in which the client's texts are read, which follows from its own session and from the server's facts.
    pub(crate) fn lex_mode(&self, sessions: &Sessions, server: &Server) -> sql::LexMode {
        let session = self.session.id().expect("a client with commands has logged in");
        let facts = server.facts.as_ref().expect("nobody logs in before the server is known");
        let mode = sessions.lex_mode(session, facts.lex_mode);
        // The server says of this one in each OK whether it is in force.
        let said = self.session.status.contains(StatusFlags::NO_BACKSLASH_ESCAPES);
        sql::LexMode { no_backslash_escapes: said || mode.no_backslash_escapes, ..mode }
    }

    /// Returns the client's default schema.
    pub(crate) fn schema<'a>(&self, sessions: &'a Sessions) -> Option<&'a [u8]> {
        sessions.state(self.session.id()?).schema.as_deref()
    }

    /// Says whether the client's transaction has kept a permit, so that its statements need none of their own.
    pub(crate) fn has_kept_permit(&self, servers: &Servers) -> bool {
        self.backend.is_some_and(|backend| servers[backend].permit() == Permit::Held)
    }

    pub(crate) fn deprecate_eof(&self) -> bool {
        self.capabilities.contains(Capabilities::DEPRECATE_EOF)
    }

    /// Says how the client reads answers of our own, as far as no character set of it matters.
    pub(crate) fn reader(&self) -> Reader {
        let begun = self.session.unstarted().map_or(StatusFlags::NONE, Unstarted::status);
        let status = self.session.status.with(begun);
        Reader {
            status,
            collation: self.login.collation,
            width: 4,
            is_mysql: false,
            capabilities: self.capabilities,
        }
    }

    /// Returns the identity of the client, once the client has logged in.
    pub(crate) fn identity(&self) -> Option<IdentityId> {
        self.identity.as_ref().map(IdentityHold::id)
    }

    /// The client, which is nobody, has logged in as this identity.
    pub(crate) fn logs_in(&mut self, identity: IdentityHold) {
        let former = self.identity.replace(identity);
        debug_assert_eq!(former, None, "it has given up who it was");
    }

    /// The client is nobody from here on. Returns the hold on who it was, for the caller to give up.
    pub(crate) fn logs_out(&mut self) -> Option<IdentityHold> {
        self.identity.take()
    }

    /// Returns the capabilities that are fixed at a connection's login and change what statements do. A backend serves
    /// only clients that agree on them.
    pub(crate) fn class(&self) -> Capabilities {
        self.capabilities & CLASS
    }
}

/// The flags of [`Client::class`], by what they change: CLIENT_FOUND_ROWS affected rows; LOCAL_FILES whether the server may
/// ask for files; INTERACTIVE the value of     pub(crate) fn class(&self)wait_timeout; MULTI_RESULTS whether procedures may select (error 1312);
/// PS_MULTI_RESULTS whether OUT parameters come in a result of their own; EXTENDED_METADATA the form of column definitions.
pub(crate) const CLASS: Capabilities = Capabilities(
    Capabilities::FOUND_ROWS.0
        | Capabilities::LOCAL_FILES.0
        | Capabilities::INTERACTIVE.0
        | Capabilities::MULTI_RESULTS.0
        | Capabilities::PS_MULTI_RESULTS.0
        | Capabilities::EXTENDED_METADATA.0,
);
