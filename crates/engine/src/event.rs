//! What the engine reports about itself: each event is declared once and becomes a log line.

use std::fmt;

use seam::{Address, Peer};

/// Something that an operator may want to know. Never holds a secret or a statement's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The server answered and said what it is.
    ServerFound {
        /// Where.
        address: Address,
        /// Its version string.
        version: String,
        /// How many accounts can log in.
        accounts: usize,
    },
    /// The server cannot be reached or refuses us.
    ServerLost {
        /// Where.
        address: Address,
        /// What happened.
        reason: String,
    },
    /// A client was closed by us, or broke off in the middle of something.
    ClientClosed {
        /// Who.
        peer: Peer,
        /// The id that it saw in its greeting.
        client: u32,
        /// Why.
        reason: String,
    },
    /// A login was refused.
    LoginRefused {
        /// Who.
        peer: Peer,
        /// The user name that was given.
        user: String,
        /// Why.
        reason: String,
    },
    /// A backend was lost or given up.
    BackendClosed {
        /// Its id on the server.
        thread_id: u32,
        /// Why.
        reason: String,
    },
    /// The server takes no more connections; those that there are go on.
    NoRoom {
        /// What it said.
        reason: String,
    },
    /// The service account may not ask who waits for whose locks.
    LockWaitsHidden {
        /// What the server said.
        reason: String,
    },
    /// The service account may not read all rights of the accounts.
    RightsHidden {
        /// What the server said.
        reason: String,
    },
    /// A limit was reached; said at most once per limit and minute.
    LimitReached {
        /// The option that sets it.
        option: &'static str,
        /// Its value.
        limit: u64,
    },
}

impl fmt::Display for Event {
    /// One line: what came from outside is escaped, so that nobody writes lines of their own into the log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServerFound { address, version, accounts } => {
                write!(f, "server {address} is {version} with {accounts} accounts")
            }
            Self::ServerLost { address, reason } => {
                write!(f, "server {address} cannot be used: {}", reason.escape_debug())
            }
            Self::ClientClosed { peer, client, reason } => {
                write!(f, "client {client} ({peer}) closed: {}", reason.escape_debug())
            }
            Self::LoginRefused { peer, user, reason } => {
                write!(f, "login of {user:?} from {peer} refused: {}", reason.escape_debug())
            }
            Self::BackendClosed { thread_id, reason } => {
                write!(f, "backend {thread_id} closed: {}", reason.escape_debug())
            }
            Self::NoRoom { reason } => {
                write!(
                    f,
                    "the server takes no more backends ({}): lower max_backends or raise its limit",
                    reason.escape_debug()
                )
            }
            Self::LockWaitsHidden { reason } => {
                write!(
                    f,
                    "lock waits are not looked for ({}): grant the service account PROCESS, and on MySQL 8 SELECT on \
                     performance_schema, or set lock_wait_interval = 0s",
                    reason.escape_debug()
                )
            }
            Self::RightsHidden { reason } => {
                write!(
                    f,
                    "not all rights of accounts can be read ({}), so that backends may outlive rights that were revoked: \
                     give the service account the rights of docs/ACCOUNTS.md",
                    reason.escape_debug()
                )
            }
            Self::LimitReached { option, limit } => {
                write!(f, "limit reached: {option} = {limit}; raise the option or look for the cause")
            }
        }
    }
}
