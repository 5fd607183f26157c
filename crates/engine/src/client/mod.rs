//! A client: one connection of an application.
//!
//! | phase | what it waits for |
//! |---|---|
//! | `AwaitingServer` | the server's greeting facts, before ours can be sent |
//! | `Login` | the rest of its login, see [`login`] |
//! | `Idle` | its next command |
//! | `Reading` | its large text to be read on another thread |
//! | `Queued` | a permit and a backend, or room on the server for what it prepares |
//! | `Following` | the answer to another client's statement, which is its own too, see [`crate::coalescing`] |
//! | `Preparing` | its session state to be applied on its backend, or its statement to be prepared there |
//! | `Running` | its reply's end |
//! | `Settling` | what the reply left behind to be saved from its backend |
//! | `Killing` | another worker to kill a client of its own |
//! | `Lent` | a replica to answer, see [`crate::readers`] |

mod admission;
pub(crate) mod answer;
pub(crate) mod attempt;
pub(crate) mod attributes;
pub(crate) mod authentication;
pub(crate) mod backend_lost;
pub(crate) mod buffered_answer;
pub(crate) mod bytes_held;
pub(crate) mod client_memory;
pub(crate) mod close;
pub(crate) mod commands;
pub(crate) mod compression;
pub(crate) mod counters;
pub(crate) mod delay;
pub(crate) mod delegation;
pub(crate) mod diagnostics;
pub(crate) mod execution;
pub(crate) mod frozen;
pub(crate) mod held_answer;
pub(crate) mod kill;
pub(crate) mod killing;
pub(crate) mod known_answers;
pub(crate) mod last_gtid;
mod late_begin;
mod late_refusals;
pub(crate) mod login;
pub(crate) mod login_schema;
pub(crate) mod named_resources;
mod pins;
mod pool_set;
pub(crate) mod prepared;
pub(crate) mod priority;
pub(crate) mod process_list;
pub(crate) mod reading;
mod refusing;
pub(crate) mod resume;
pub(crate) mod security;
pub(crate) mod sent_ahead;
mod session_memory;
mod state;
pub(crate) mod statement_counters;
pub(crate) mod statements;
mod tls;
pub(crate) mod trackers;
pub(crate) mod transaction;
pub(crate) mod variables;
pub(crate) mod victims;
pub(crate) mod wait_timeout;

use std::time::Duration;

use seam::{Compression, ConnectionId, Instant, Peer};
use wire::{Capabilities, Command, StatusFlags};

use crate::accounts::IdentityId;
use crate::backend::Permit;
use crate::client::bytes_held::Counted;
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
use crate::session::{SessionId, Sessions};
use crate::workers::onramps::millis_of;
use priority::Priority;
use security::Security;
use sent_ahead::SentAhead;
use state::State;
use statements::ClientStatements;
use transaction::{Transaction, Unstarted};

pub(crate) use state::{Phase, Running};

/// One client. Idle, it owns no buffer.
pub(crate) struct Client {
    pub(crate) connection: ConnectionId,
    pub(crate) peer: Peer,
    pub(crate) security: Security,
    /// What it saw in its greeting and CONNECTION_ID() gives.
    pub(crate) id: u32,
    state: State,
    pub(crate) capabilities: Capabilities,
    pub(crate) login: ClientLogin,
    /// Set once it has logged in.
    pub(crate) identity: Option<IdentityId>,
    pub(crate) session: ClientSession,
    /// The backend that it holds, or that runs its statement.
    pub(crate) backend: Option<BackendKey>,
    pub(crate) tickets: u32,
    /// What of the pool's variables it has set for itself.
    pub(crate) priority: Priority,
    /// Its command, from arrival to dispatch.
    pub(crate) request: Option<Box<Request>>,
    /// Bytes that are not a whole command yet, or came while another one was under way.
    pub(crate) input: SentAhead,
    pub(crate) memory: MemoryOfClient,
    pub(crate) backpressure: Backpressure,
    pub(crate) activity: Activity,
    pub(crate) loss: Loss,
    pub(crate) transaction: Transaction,
    /// Up to when it may have written something, where reads are split ([`crate::readers`]).
    pub(crate) wrote: Instant,
}

/// What a client's session has: it goes with the client from backend to backend.
pub(crate) struct ClientSession {
    /// Its state; set once the client has logged in.
    pub(crate) id: Option<SessionId>,
    pub(crate) pins: Pins,
    /// Its user variables, as far as they are carried.
    pub(crate) variables: Variables,
    /// How long it may be idle, where it has set that.
    pub(crate) wait_timeout: WaitTimeout,
    /// What it is told of changes, where that is not what a new connection is told.
    pub(crate) trackers: Option<Box<Trackers>>,
    /// Its session variables that only its backend knows.
    pub(crate) unreported: Unreported,
    /// What it holds by name; none until it does.
    pub(crate) named_resources: Option<Box<NamedResources>>,
    /// The latest status flags: what an OK of our own repeats.
    pub(crate) status: StatusFlags,
    pub(crate) aftermath: Aftermath,
    /// What it has prepared; none until it does.
    pub(crate) statements: Option<Box<ClientStatements>>,
}

/// How much of what a client has counts against which option.
#[derive(Debug, Default)]
pub(crate) struct MemoryOfClient {
    /// Of its input against `statement_memory`.
    pub(crate) statements: Counted,
    /// Of its input against `login_memory`.
    pub(crate) login: Counted,
    /// Of what it has set and holds against `session_memory`, the state of its session aside.
    pub(crate) session: Counted,
}

/// When a client has done what.
#[derive(Debug)]
pub(crate) struct Activity {
    pub(crate) last_heard: Instant,
    /// Since when it has not taken its reply.
    pub(crate) stalled_since: Option<Instant>,
    /// When its latest command was taken up: the last 32 bits of the milliseconds, which are seven weeks.
    took_command: u32,
    /// A statement of it has gone to a backend.
    pub(crate) has_begun: bool,
}

/// What a client has lost, or is about to, without having been told.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Loss {
    /// Its backend was lost between two statements; the next one is told so.
    pub(crate) lost: Option<Lost>,
    /// Its library takes an error packet with a client's code (2013) for malformed; an end of the connection makes it
    /// report 2013 by itself. Known by the connection attribute `_client_name`.
    pub(crate) wants_end: bool,
    /// KILL CONNECTION came while its statement ran.
    pub(crate) killed: bool,
}

/// What a client's login or COM_CHANGE_USER has said, and keeps for its end.
#[derive(Debug, Default)]
pub(crate) struct ClientLogin {
    /// The scramble of the greeting; COM_CHANGE_USER may refer to it.
    pub(crate) scramble: [u8; 20],
    /// The collation number, in the server's reading.
    pub(crate) collation: u8,
    /// The sequence number of the packet that will end it.
    pub(crate) sequence: u8,
    /// When it has taken too long.
    pub(crate) until: Option<Instant>,
    /// What a login asked for and its end begins.
    pub(crate) compression: Option<Compression>,
}

/// Whether a client is read from.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Backpressure {
    /// It has sent more than its turn allows.
    pub(crate) too_far_ahead: bool,
    /// The server does not take its statement or file as fast as it comes.
    pub(crate) server_is_slow: bool,
    /// It is not, for one of the two reasons above.
    pub(crate) paused: bool,
}

/// What went with a backend that was lost while its client was idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    Transaction,
    PinnedState,
    /// The server itself: there is one of another kind in its place.
    Server,
    /// We took it: the transaction was idle for `idle_transaction_timeout`.
    IdleTooLong,
    /// We took it: the transaction was open for `transaction_timeout`.
    OpenTooLong,
    /// We took it: others waited for a backend, and the client had been idle for `idle_hold_timeout`.
    HeldIdle,
}

impl Lost {
    /// Why its client is closed.
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
    /// Whether its backend takes more from it than commands, or may ask for that at any time: a file, or what a replica says of events.
    pub(crate) fn may_send_more(&self) -> bool {
        let loads =
            |request: &Request| request.statement.kind == sql::Kind::Load || request.statement.several;
        match self.phase() {
            Phase::Running(Running::Uploading { .. } | Running::Replicating { .. }) => true,
            Phase::Running(Running::OnServer) => self.request.as_deref().is_some_and(loads),
            _ => false,
        }
    }

    /// What it has lost between two commands, if this command is answered with that. `several`: with several servers a transaction that is
    /// lost is rolled back, and its client goes on.
    fn loss_told_to(&self, command: &Command<'_>, several: bool) -> Option<Lost> {
        let lost = self.loss.lost?;
        let goes_on = lost == Lost::Transaction && several;
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
            id: None,
            pins: Pins::NONE,
            variables: None,
            wait_timeout: None,
            trackers: None,
            unreported: None,
            named_resources: None,
            status: StatusFlags::AUTOCOMMIT,
            aftermath: Aftermath::default(),
            statements: None,
        }
    }

    /// A reset leaves its state, what is prepared, which its caller looks after, and of the aftermath what it does not touch.
    pub(crate) fn reset(&mut self, status: StatusFlags) {
        let (aftermath, statements) = (self.aftermath.of_reset(), self.statements.take());
        *self = Self { id: self.id, status, aftermath, statements, ..Self::new() };
    }
}

impl Table<ClientKey, Client> {
    /// The client that has the slot now.
    pub(crate) fn ref_to(&self, key: ClientKey) -> ClientRef {
        ClientRef { key, id: self[key].id }
    }

    /// A client that may have gone since.
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
            activity: Activity {
                last_heard: now,
                stalled_since: None,
                took_command: millis_of(now) as u32,
                has_begun: false,
            },
            loss: Loss::default(),
            transaction: Transaction::new(now),
            wrote: Instant::START,
        }
    }

    /// It has said something.
    pub(crate) fn takes_command(&mut self, now: Instant) {
        self.activity.took_command = millis_of(now) as u32;
    }

    /// How old its latest command is, where that is not over: rounded up to milliseconds.
    pub(crate) fn command_age(&self, now: Instant) -> Duration {
        let millis = (millis_of(now) as u32).wrapping_sub(self.activity.took_command);
        Duration::from_millis(u64::from(millis) + 1)
    }

    /// As the server sees it.
    pub(crate) fn in_transaction(&self) -> bool {
        self.session.status.contains(StatusFlags::IN_TRANS)
    }

    /// How its texts are read, by its own session and by what the server is.
    pub(crate) fn lex_mode(&self, sessions: &Sessions, server: &Server) -> sql::LexMode {
        let session = self.session.id.expect("a client with commands has logged in");
        let facts = server.facts.as_ref().expect("nobody logs in before the server is known");
        let mode = sessions.lex_mode(session, facts.lex_mode);
        // The server says of this one in each OK whether it is in force.
        let said = self.session.status.contains(StatusFlags::NO_BACKSLASH_ESCAPES);
        sql::LexMode { no_backslash_escapes: said || mode.no_backslash_escapes, ..mode }
    }

    /// Its default schema.
    pub(crate) fn schema<'a>(&self, sessions: &'a Sessions) -> Option<&'a [u8]> {
        sessions.state(self.session.id?).schema.as_deref()
    }

    /// The transaction of a client whose statements need no permits of their own has one.
    pub(crate) fn has_kept_permit(&self, servers: &Servers) -> bool {
        self.backend.is_some_and(|backend| servers[backend].permit() == Permit::Held)
    }

    pub(crate) fn deprecate_eof(&self) -> bool {
        self.capabilities.contains(Capabilities::DEPRECATE_EOF)
    }

    /// How it reads answers of our own, as far as no character set of it matters.
    pub(crate) fn reader(&self) -> Reader {
        let begun = self.transaction.unstarted.map_or(StatusFlags::NONE, Unstarted::status);
        let status = self.session.status.with(begun);
        Reader {
            status,
            collation: self.login.collation,
            width: 4,
            is_mysql: false,
            capabilities: self.capabilities,
        }
    }

    /// The capabilities that are fixed at a connection's login and change what statements do: a backend serves only
    /// clients that agree on them.
    pub(crate) fn class(&self) -> Capabilities {
        self.capabilities & CLASS
    }
}

/// See [`Client::class`]. CLIENT_FOUND_ROWS changes affected rows, LOCAL_FILES whether the server may ask for files, INTERACTIVE the value of @@wait_timeout,
/// MULTI_RESULTS whether procedures may select (error 1312), PS_MULTI_RESULTS whether OUT parameters come in a result of their own,
/// EXTENDED_METADATA the form of column definitions.
pub(crate) const CLASS: Capabilities = Capabilities(
    Capabilities::FOUND_ROWS.0
        | Capabilities::LOCAL_FILES.0
        | Capabilities::INTERACTIVE.0
        | Capabilities::MULTI_RESULTS.0
        | Capabilities::PS_MULTI_RESULTS.0
        | Capabilities::EXTENDED_METADATA.0,
);
