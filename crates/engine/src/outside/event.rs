//! Events that the engine reports about itself: each is declared once and becomes a log line.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use seam::{Address, Peer};

use crate::cluster::position::Behind;
use crate::outside::named::{ClosedFor, Limit, RefusedFor, ServerRole, ServerState};
use crate::outside::slow_log::SlowLog;

/// A worker's events and slow statements, until they are fetched.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    pub(super) events: VecDeque<Event>,
    pub(super) slow_log: SlowLog,
}

/// An event that an operator may want to know of. It never holds a secret or a statement's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The server answered and said what it is.
    ServerFound {
        /// The server's address.
        address: Address,
        /// The server's version string.
        version: String,
        /// The number of accounts that can log in.
        accounts: usize,
    },
    /// The server cannot be reached or refuses us.
    ServerLost {
        /// The server's address.
        address: Address,
        /// The reason.
        reason: String,
    },
    /// A server of several is another than before: its role, its state, or whether it takes writes.
    ServerChanged {
        /// The server's address.
        address: Address,
        /// Up, unfit or down.
        state: ServerState,
        /// The server's role in the cluster.
        role: ServerRole,
        /// The reason.
        reason: String,
    },
    /// The name of a server leads to another address than before.
    ServerMoved {
        /// The name.
        name: Arc<str>,
        /// The server's address so far.
        from: Address,
        /// The server's address from now on.
        to: Address,
    },
    /// Another server than before is the primary, or the first one has been found.
    PrimaryFound {
        /// The primary's address.
        address: Address,
        /// The one before, where that was another.
        former: Option<Address>,
        /// Transactions that the new primary lacks, of those that the former one had or that it had itself.
        behind: Behind,
    },
    /// A planned change of the primary has begun: new transactions wait.
    SwitchoverBegan {
        /// The primary.
        from: Address,
        /// The server that is to be the primary.
        to: Address,
    },
    /// An operator has taken a server out of the choice, or has put it back.
    DrainChanged {
        /// The server's address.
        address: Address,
        /// True where the server is out of the choice.
        is_drained: bool,
    },
    /// A server is no longer drained, since nobody else has taken writes for long.
    DrainEnded {
        /// The server's address.
        address: Address,
    },
    /// No server is the primary: what clients send waits.
    NoPrimary {
        /// The reason.
        reason: String,
    },
    /// A client was closed by us, or broke off in the middle of something.
    ClientClosed {
        /// The peer's address.
        peer: Peer,
        /// The id that it saw in its greeting.
        client: u32,
        /// The reason, as a word.
        closed_for: ClosedFor,
        /// The reason, in words.
        reason: String,
    },
    /// A login was refused.
    LoginRefused {
        /// The peer's address.
        peer: Peer,
        /// The user name that was given.
        user: String,
        /// The reason, as a word.
        refused_for: RefusedFor,
        /// The reason, in words.
        reason: String,
    },
    /// A backend was lost or given up.
    BackendClosed {
        /// The backend's id on the server.
        thread_id: u32,
        /// The reason.
        reason: String,
    },
    /// The server takes no more connections; those that there are go on.
    NoRoom {
        /// The server's answer.
        reason: String,
    },
    /// The server takes no more connections of an account; those that there are go on.
    AccountIsFull {
        /// The account's user and host.
        account: String,
        /// The server's answer.
        reason: String,
    },
    /// The server would have to get a password, and does not; said at most once a minute.
    PasswordWithheld {
        /// The user's name.
        user: String,
        /// The reason, and what to do about it.
        reason: &'static str,
    },
    /// The service account may not ask which clients wait for locks, and who holds these.
    LockWaitsHidden {
        /// The server's answer.
        reason: String,
    },
    /// The server has no session trackers: each client keeps its backend.
    NoTrackers {
        /// The server's version, as it greets.
        version: String,
    },
    /// The service account may not read all rights of the accounts.
    RightsHidden {
        /// The server's answer.
        reason: String,
    },
    /// The service account may not read all code that is stored on the server.
    StoredCodeHidden {
        /// Kinds of code that cannot be read.
        missing: Vec<&'static str>,
        /// The server's answer, where it refused.
        reason: Option<String>,
    },
    /// The server's global values of session variables have changed: backends are renewed.
    DefaultsChanged {
        /// The names of the variables.
        names: Vec<String>,
    },
    /// Another Onramp is in front of the server.
    PeerCame {
        /// The other Onramp's slot.
        slot: u32,
        /// The number of its service account's connection on the server.
        connection: u64,
        /// The host that the connection comes from; empty where the server does not say.
        host: String,
    },
    /// Another Onramp is not there any more.
    PeerWent {
        /// The other Onramp's slot.
        slot: u32,
        /// The number that its connection had.
        connection: u64,
    },
    /// Some of the other Onramps cannot be counted.
    PeersHidden {
        /// The reason.
        reason: String,
    },
    /// The server does not offer the compression that it is asked for.
    NotCompressed {
        /// The compression that was asked for.
        wanted: &'static str,
    },
    /// A limit was reached; said at most once per limit and minute.
    LimitReached {
        /// The option that sets it.
        option: Limit,
        /// The value of the option.
        limit: u64,
    },
}

impl fmt::Display for Event {
    /// Writes one line. Text from outside is escaped, so that nobody writes lines of their own into the log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServerFound { address, version, accounts } => {
                // MariaDB before 11 puts this in front for the sake of old replicas (sql/sql_acl.cc), and nobody asks for it.
                let version = version.strip_prefix("5.5.5-").unwrap_or(version);
                write!(f, "server {address} is {} with {accounts} accounts", OneLine(version))
            }
            Self::ServerLost { address, reason } => {
                write!(f, "server {address} cannot be used: {}", OneLine(reason))
            }
            Self::ServerMoved { .. }
            | Self::ServerChanged { .. }
            | Self::PrimaryFound { .. }
            | Self::SwitchoverBegan { .. }
            | Self::DrainChanged { .. }
            | Self::DrainEnded { .. }
            | Self::NoPrimary { .. } => self.say_of_servers(f),
            Self::ClientClosed { peer, client, reason, .. } => {
                write!(f, "client {client} ({peer}) closed: {}", OneLine(reason))
            }
            Self::LoginRefused { peer, user, reason, .. } => {
                write!(f, "login of {user:?} from {peer} refused: {}", OneLine(reason))
            }
            Self::BackendClosed { thread_id, reason } => {
                write!(f, "backend {thread_id} closed: {}", OneLine(reason))
            }
            Self::NoRoom { reason } => {
                let reason = OneLine(reason);
                write!(
                    f,
                    "the server takes no more backends ({reason}): lower max_backends or raise its limit"
                )
            }
            Self::AccountIsFull { account, reason } => {
                let reason = OneLine(reason);
                write!(
                    f,
                    "the server takes no more backends of {account} ({reason}): its statements wait for those that there are; \
                     ALTER USER {account} WITH MAX_USER_CONNECTIONS gives it more"
                )
            }
            Self::PasswordWithheld { user, reason: why } => {
                write!(f, "backends of {user:?} cannot log in: {why}")
            }
            Self::LockWaitsHidden { .. } | Self::RightsHidden { .. } | Self::NoTrackers { .. } => {
                self.say_what_is_missing(f)
            }
            Self::DefaultsChanged { names } => {
                write!(
                    f,
                    "the server's global values of {} have changed: backends are renewed, and clients keep what they had",
                    OneLine(&names.join(", "))
                )
            }
            Self::PeerCame { .. } | Self::PeerWent { .. } | Self::PeersHidden { .. } => self.say_of_peers(f),
            Self::StoredCodeHidden { missing, reason } => say_hidden_code(f, missing, reason.as_deref()),
            Self::NotCompressed { wanted } => {
                write!(
                    f,
                    "connections to the server are not compressed: it does not offer {wanted} (backend_compression; \
                     protocol_compression_algorithms of MySQL)"
                )
            }
            Self::LimitReached { option, limit } => {
                write!(f, "limit reached: {option} = {limit}; raise the option or look for the cause")
            }
        }
    }
}

impl Event {
    /// Writes the events about other Onramps.
    fn say_of_peers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerCame { slot, connection, host } => {
                let from = if host.is_empty() { "" } else { " from " };
                write!(
                    f,
                    "another Onramp is in front of the server, with slot {slot} (connection {connection} on the server{from}{}): \
                     what the server is good for is divided (peers)",
                    OneLine(host)
                )
            }
            Self::PeerWent { slot, connection } => {
                write!(f, "the Onramp with slot {slot} (connection {connection} on the server) has gone")
            }
            Self::PeersHidden { reason } => {
                write!(
                    f,
                    "not all Onramps in front of the server can be counted ({}): each takes the server for its own, unless \
                     max_backends, permits_max and permits say otherwise (peers, docs/CLUSTERS.md)",
                    OneLine(reason)
                )
            }
            _ => Ok(()),
        }
    }

    /// Writes the events about knowledge of the server that Onramp lacks.
    fn say_what_is_missing(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LockWaitsHidden { reason } => {
                write!(
                    f,
                    "lock waits are not looked for ({}): grant the service account PROCESS, and on MySQL 8 SELECT on \
                     performance_schema, or set lock_wait_interval = 0s",
                    OneLine(reason)
                )
            }
            Self::NoTrackers { version } => {
                write!(
                    f,
                    "the server ({}) has no session trackers (CLIENT_SESSION_TRACK, in MySQL since 5.7 and MariaDB since \
                     10.2), so that nobody knows what clients change of their sessions: each keeps a backend from its first \
                     statement to its end, and max_backends says how many can be at work (docs/DIFFERENCES.md)",
                    OneLine(version)
                )
            }
            Self::RightsHidden { reason } => {
                write!(
                    f,
                    "not all rights of accounts can be read ({}), so that backends may outlive rights that were revoked: \
                     give the service account the rights of docs/ACCOUNTS.md",
                    OneLine(reason)
                )
            }
            _ => Ok(()),
        }
    }

    /// Writes the events that only a setup of several servers has.
    fn say_of_servers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServerMoved { name, from: Address::NotFound { .. }, to } => {
                write!(f, "server {name} is at {to}: its name has been found (backend_lookup_interval)")
            }
            Self::ServerMoved { name, from, to } => write!(
                f,
                "server {name} is at {to} now, no more at {from}: its name leads there (backend_lookup_interval)"
            ),
            Self::ServerChanged { address, state, role, reason } => {
                write!(f, "server {address} is {state}, role {role}: {}", OneLine(reason))
            }
            Self::PrimaryFound { address, former: Some(former), behind } => {
                write!(f, "the primary is {address} now, in the place of {former}")?;
                match behind {
                    Behind::Nothing => Ok(()),
                    Behind::Lacks(what) => {
                        write!(f, ", and lacks of what that was known to have: {}", OneLine(what))
                    }
                    Behind::Unknown => write!(f, "; their GTIDs cannot be compared"),
                }
            }
            Self::PrimaryFound { address, former: None, behind: Behind::Lacks(what) } => {
                let what = OneLine(what);
                write!(
                    f,
                    "the primary is {address}, as before; it has no more of what it was known to have: {what}"
                )
            }
            Self::PrimaryFound { address, former: None, .. } => write!(f, "the primary is {address}"),
            Self::SwitchoverBegan { from, to } => {
                write!(f, "switchover from {from} to {to} begins: new transactions wait")
            }
            Self::DrainChanged { address, is_drained: true } => {
                write!(f, "server {address} is drained: it is not chosen until UNDRAIN")
            }
            Self::DrainChanged { address, is_drained: false } => {
                write!(f, "server {address} is drained no more: it may be chosen")
            }
            Self::DrainEnded { address } => {
                write!(
                    f,
                    "server {address} is drained no more: no other one has taken writes for half of failover_hold, and without one no client \
                     would be served; order DRAIN once more as soon as another one takes writes"
                )
            }
            Self::NoPrimary { reason } => {
                write!(f, "no primary: {}; statements wait for up to failover_hold", OneLine(reason))
            }
            _ => Ok(()),
        }
    }
}

fn say_hidden_code(f: &mut fmt::Formatter<'_>, missing: &[&str], reason: Option<&str>) -> fmt::Result {
    let missing = missing.join(", ");
    write!(f, "not all code that is stored on the server can be read ({missing}")?;
    if let Some(reason) = reason {
        write!(f, ": {}", OneLine(reason))?;
    }
    f.write_str(
        "): what it changes of a session without a report may stay on a backend, and failed statements cost a reset \
         (docs/ACCOUNTS.md, \"Stored code\", names the rights that help)",
    )
}

/// Text from outside, without anything that could begin another line or colour a terminal. Quotes stay as they are.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            '\'' | '"' => f.write_char(letter),
            _ => letter.escape_debug().fmt(f),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_from_outside_stays_on_its_line_and_can_be_read() {
        let refused = Event::LoginRefused {
            peer: Peer::Unix { uid: 7 },
            user: String::from("a\nb"),
            refused_for: RefusedFor::Denied,
            reason: String::from("Access denied for user 'a\nb'@'localhost'\u{1b}[31m"),
        };
        let line = refused.to_string();
        assert!(line.starts_with("login of \"a\\nb\" from "), "{line}");
        assert!(line.ends_with("refused: Access denied for user 'a\\nb'@'localhost'\\u{1b}[31m"), "{line}");
    }

    #[test]
    fn a_server_is_named_by_its_own_version() {
        let found = |version: &str| {
            let address = Address::Unix("/s".into());
            Event::ServerFound { address, version: String::from(version), accounts: 2 }.to_string()
        };
        assert_eq!(found("5.5.5-10.11.6-MariaDB"), "server /s is 10.11.6-MariaDB with 2 accounts");
        assert_eq!(found("9.7.4"), "server /s is 9.7.4 with 2 accounts");
    }
}
