//! Why a command did not do what it should.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use drivers::DriverChoice;

use crate::errors::Failure;
use crate::limits::TooFewFiles;
use crate::local_addresses::TooFewPorts;
use crate::options::WrongOptions;
use crate::target::NoTarget;

/// Why a command did not do what it should, by whose affair it is.
#[derive(Debug)]
pub enum Trouble {
    /// The options: what was asked for makes no sense, and nothing was tried.
    Options(WrongOptions),
    /// The machine: something is to be lifted there, or less to be asked of it.
    Machine(Lack),
    /// The target has no address that can be used.
    Target(NoTarget),
    /// A server, or the way to it.
    Server(Failure),
    /// The account, which cannot log in from each of the local addresses.
    Account {
        /// The local address that was tried.
        local: IpAddr,
        /// How many there are.
        locals: usize,
        /// The name of the account.
        user: String,
        /// What the server said.
        failure: Failure,
    },
    /// The run went through, and what came out of it is no result.
    Result(NoResult),
}

/// What the machine does not have.
#[derive(Debug)]
pub enum Lack {
    /// A driver of this kind.
    Driver {
        /// As it was asked for.
        choice: DriverChoice,
        /// In the words of whoever opens it.
        error: io::Error,
    },
    /// File descriptors.
    Files(TooFewFiles),
    /// Local ports.
    Ports(TooFewPorts),
    /// A place for this file.
    File {
        /// Which one.
        path: PathBuf,
        /// In the system's words.
        error: io::Error,
    },
}

/// Why there is no result.
#[derive(Debug)]
pub enum NoResult {
    /// So many answers were wrong.
    WrongAnswers(u64),
    /// The accounts of the ledger do not hold what was put in.
    WrongSum,
    /// The run was interrupted before the measured time.
    Interrupted {
        /// Connections at that time.
        connected: u32,
    },
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(wrong) => wrong.fmt(f),
            Self::Machine(lack) => lack.fmt(f),
            Self::Target(wrong) => wrong.fmt(f),
            Self::Server(failure) => failure.fmt(f),
            Self::Account { local, locals, user, failure } => write!(
                f,
                "from the local address {local}: {failure}. Connections come from {locals} local addresses: allow the account \
                 {user:?} from each of them, or name others with --local-address",
            ),
            Self::Result(wrong) => wrong.fmt(f),
        }
    }
}

impl Error for Trouble {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Options(wrong) => Some(wrong),
            Self::Machine(lack) => Some(lack),
            Self::Target(wrong) => Some(wrong),
            Self::Server(failure) | Self::Account { failure, .. } => Some(failure),
            Self::Result(wrong) => Some(wrong),
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver { choice, error } => write!(f, "--driver {choice}: {error}"),
            Self::Files(lack) => lack.fmt(f),
            Self::Ports(lack) => lack.fmt(f),
            Self::File { path, error } => write!(f, "cannot write {}: {error}", path.display()),
        }
    }
}

impl Error for Lack {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Driver { error, .. } | Self::File { error, .. } => Some(error),
            Self::Files(lack) => Some(lack),
            Self::Ports(lack) => Some(lack),
        }
    }
}

impl fmt::Display for NoResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongAnswers(count) => write!(f, "{count} answers were wrong"),
            Self::WrongSum => f.write_str("the sum of balances is not what was put in"),
            Self::Interrupted { connected } => {
                write!(f, "interrupted before the measured time, with {connected} connections")
            }
        }
    }
}

impl Error for NoResult {}

impl From<WrongOptions> for Trouble {
    fn from(wrong: WrongOptions) -> Self {
        Self::Options(wrong)
    }
}

impl From<Lack> for Trouble {
    fn from(lack: Lack) -> Self {
        Self::Machine(lack)
    }
}

impl From<TooFewFiles> for Trouble {
    fn from(lack: TooFewFiles) -> Self {
        Self::Machine(Lack::Files(lack))
    }
}

impl From<TooFewPorts> for Trouble {
    fn from(lack: TooFewPorts) -> Self {
        Self::Machine(Lack::Ports(lack))
    }
}

impl From<NoTarget> for Trouble {
    fn from(wrong: NoTarget) -> Self {
        Self::Target(wrong)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Server(failure)
    }
}

impl From<NoResult> for Trouble {
    fn from(wrong: NoResult) -> Self {
        Self::Result(wrong)
    }
}
