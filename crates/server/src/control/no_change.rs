//! Why an order of an operator has not been carried out.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitStatus;

use engine::{NotDrained, ServerState};

use super::answers;
use crate::Failure;

/// Workers that have not answered in time, so that nobody knows whether they do what they were told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotAnswered(pub(crate) Vec<usize>);

impl fmt::Display for NotAnswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} not answered", answers::have(&self.0))
    }
}

impl Error for NotAnswered {}

/// Why not everything has been read again. What is wrong stayed as it was.
#[derive(Debug)]
pub(crate) enum NotReloaded {
    /// The options.
    Options(NoOptions),
    /// A certificate or a key.
    Files(Failure),
    /// Both.
    Both(NoOptions, Failure),
}

impl fmt::Display for NotReloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(options) => options.fmt(f),
            Self::Files(files) => files.fmt(f),
            Self::Both(options, files) => write!(f, "{options}; {files}"),
        }
    }
}

impl Error for NotReloaded {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Options(options) | Self::Both(options, _) => Some(options),
            Self::Files(files) => Some(&**files),
        }
    }
}

/// Why options that were read again do not hold.
#[derive(Debug)]
pub(crate) enum NoOptions {
    /// The options cannot be read, or are wrong.
    Wrong(Box<config::Error>),
    /// The options do not fit to the sockets that the supervisor has handed over.
    Sockets(Failure),
    /// The options hold, but for workers of which nobody knows.
    NotAnswered(NotAnswered),
}

impl fmt::Display for NoOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(error) => error.fmt(f),
            Self::Sockets(failure) => failure.fmt(f),
            Self::NotAnswered(workers) => workers.fmt(f),
        }
    }
}

impl Error for NoOptions {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Wrong(error) => Some(&**error),
            Self::Sockets(failure) => Some(&**failure),
            Self::NotAnswered(workers) => Some(workers),
        }
    }
}

/// Why the primary has not been changed by plan, or a server not drained or put back; by what is to be mended.
#[derive(Debug)]
pub(crate) enum NoChange {
    /// The order, as things stand. Nothing has been tried.
    Order(WrongOrder),
    /// The servers, while it went on.
    Servers(NotReady),
    /// A worker of this program, which is stuck or has ended.
    NotAnswered(NotAnswered),
    /// The worker that looks after the servers, which is stuck or has ended.
    NoChecks,
    /// The operator's command.
    Command {
        /// As `switchover_command` names it.
        program: String,
        /// What became of the program.
        fault: CommandFault,
    },
}

/// Why an order cannot be carried out.
#[derive(Debug)]
pub(crate) enum WrongOrder {
    /// No server has the address.
    NoServer {
        /// The address that may be meant.
        nearest: Option<String>,
    },
    /// Another change by plan is under way.
    NotAlone,
    /// The option `switchover_command` is empty.
    NoCommand,
    /// There is no primary that could be changed.
    NoPrimary,
    /// This server is the primary already.
    IsPrimary(String),
    /// This server is drained.
    IsDrained(String),
    /// This server cannot be the primary.
    NotUp {
        /// The server.
        server: String,
        /// How the server is.
        state: ServerState,
        /// Why.
        reason: String,
    },
    /// The engine would have no primary, or none that takes writes.
    NotDrained(NotDrained),
}

/// What the servers did not come to in time.
#[derive(Debug)]
pub(crate) enum NotReady {
    /// PAUSE holds what would have to end.
    Paused,
    /// A server went meanwhile.
    NotUp {
        /// The server.
        server: String,
        /// How the server is.
        state: ServerState,
        /// Why.
        reason: String,
    },
    /// A server has come to another address meanwhile: what was judged is not what is there.
    Moved {
        /// Its address before.
        from: String,
        /// And since.
        to: String,
    },
    /// The next primary lacks transactions.
    Lacks {
        /// The next primary.
        to: String,
        /// Whose transactions: the former primary, in words.
        of: String,
        /// The option that says how long was waited.
        limit: &'static str,
        /// Which ones.
        what: String,
    },
    /// Servers do not say how far they are.
    Unknown {
        /// Which ones, in words.
        servers: String,
    },
    /// The next primary is none behind the time that it had.
    NotPrimary(String),
    /// The command has ended well, and another server is the primary than it was to make.
    OtherPrimary {
        /// Which one; `None` where there is none.
        primary: Option<String>,
        /// What the command has said.
        said: String,
    },
}

/// What became of the operator's command.
#[derive(Debug)]
pub(crate) enum CommandFault {
    /// The program cannot be run.
    NotRun(io::Error),
    /// Nobody could hear what the program says, so that it was killed.
    NotHeard(io::Error),
    /// Nobody could hear what the program says, and it cannot be killed.
    NotKilled(io::Error),
    /// Nobody knows how the program has ended.
    NotWaitedFor {
        /// In the system's words.
        error: io::Error,
        /// What the program has said.
        said: String,
    },
    /// The program has failed.
    Failed {
        /// How the program has ended.
        status: ExitStatus,
        /// What the program has said.
        said: String,
    },
    /// The program did not end within `switchover_timeout`.
    Late {
        /// What the program has said.
        said: String,
    },
}

impl fmt::Display for NoChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order(wrong) => wrong.fmt(f),
            Self::Servers(wrong) => wrong.fmt(f),
            Self::NotAnswered(workers) => workers.fmt(f),
            Self::NoChecks => f.write_str("the worker that looks after the servers has not answered"),
            Self::Command { program, fault } => match fault {
                CommandFault::NotRun(error) => {
                    write!(f, "{program} (switchover_command) cannot be run: {error}")
                }
                CommandFault::NotHeard(error) => {
                    write!(f, "no thread for what {program} says: {error}; it was killed")
                }
                CommandFault::NotKilled(error) => write!(f, "{program} cannot be killed: {error}"),
                CommandFault::NotWaitedFor { error, said } => {
                    write!(f, "{program} cannot be waited for: {error}; it said: {said}")
                }
                CommandFault::Failed { status, said } => {
                    write!(f, "{program} ended with {status} and said: {said}")
                }
                CommandFault::Late { said } => write!(
                    f,
                    "{program} did not end within switchover_timeout and was killed; it said: {said}"
                ),
            },
        }
    }
}

impl fmt::Display for WrongOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoServer { nearest: Some(meant) } => write!(
                f,
                "no server has this address; did you mean '{meant}'? SELECT address FROM servers names all"
            ),
            Self::NoServer { nearest: None } => {
                f.write_str("no server has this address: SELECT address FROM servers names all")
            }
            Self::NotAlone => f.write_str("another switchover or drain is under way: wait for its end"),
            Self::NoCommand => {
                f.write_str("switchover_command names no program that changes the roles (docs/CLUSTERS.md)")
            }
            Self::NoPrimary => f.write_str("there is no primary to change: SELECT * FROM servers"),
            Self::IsPrimary(server) => write!(f, "{server} is the primary already"),
            Self::IsDrained(server) => write!(f, "{server} is drained: UNDRAIN '{server}' first"),
            Self::NotUp { server, state, reason } => write!(f, "{server} is {state}: {reason}"),
            Self::NotDrained(wrong) => wrong.fmt(f),
        }
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused => f.write_str(
                "PAUSE keeps what is open from its end, and it would be rolled back: RESUME first",
            ),
            Self::NotUp { server, state, reason } => write!(f, "{server} is {state} meanwhile: {reason}"),
            Self::Moved { from, to } => {
                write!(f, "{from} is at {to} meanwhile, where its name leads: give the order again")
            }
            Self::Lacks { to, of, limit, what } => {
                write!(f, "{to} still lacks of what {of} has, after {limit}: {what}")
            }
            Self::Unknown { servers } => {
                write!(f, "{servers} do not say how far they are within switchover_timeout")
            }
            Self::NotPrimary(server) => write!(
                f,
                "{server} is not the primary within switchover_timeout: SELECT * FROM servers says why"
            ),
            Self::OtherPrimary { primary, said } => {
                let primary = primary.as_deref().unwrap_or("no server");
                write!(f, "the command has ended well, but {primary} is the primary; {said}")
            }
        }
    }
}

impl Error for NoChange {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Order(WrongOrder::NotDrained(wrong)) => Some(wrong),
            Self::NotAnswered(workers) => Some(workers),
            Self::Command {
                fault:
                    CommandFault::NotRun(error)
                    | CommandFault::NotHeard(error)
                    | CommandFault::NotKilled(error)
                    | CommandFault::NotWaitedFor { error, .. },
                ..
            } => Some(error),
            _ => None,
        }
    }
}

impl From<NotAnswered> for NoChange {
    fn from(workers: NotAnswered) -> Self {
        Self::NotAnswered(workers)
    }
}

impl From<WrongOrder> for NoChange {
    fn from(wrong: WrongOrder) -> Self {
        Self::Order(wrong)
    }
}

impl From<NotDrained> for NoChange {
    fn from(wrong: NotDrained) -> Self {
        Self::Order(WrongOrder::NotDrained(wrong))
    }
}

impl From<NotReady> for NoChange {
    fn from(wrong: NotReady) -> Self {
        Self::Servers(wrong)
    }
}
