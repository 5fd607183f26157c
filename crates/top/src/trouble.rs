//! What ends `onramp top`.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::connection::Failure;
use crate::recording::BadRecording;
use crate::targets::NoTarget;

/// Why `onramp top` cannot begin, or go on, by whose affair it is. No password is in it.
#[derive(Debug)]
pub enum Trouble {
    /// The options: nothing was tried.
    Options(WrongOptions),
    /// A file that an option names.
    File {
        /// The option.
        option: &'static str,
        /// What it names.
        path: PathBuf,
        /// In the system's words.
        error: io::Error,
    },
    /// What is needed for TLS.
    Tls(tls::Error),
    /// The admin port, which is the only one that is asked.
    AdminPort(Failure),
    /// All of the admin ports.
    AllAdminPorts {
        /// Each of them for people, and why it cannot be used.
        failures: Vec<(String, String)>,
    },
    /// A thread of this program has ended by a panic, which has said why.
    ThreadEnded,
    /// The terminal cannot be used.
    NoTerminal(io::Error),
    /// The terminal has gone meanwhile.
    TerminalGone(io::Error),
    /// Signals cannot be caught.
    NoSignals(io::Error),
    /// The recording.
    Recording(BadRecording),
}

/// Options that make no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrongOptions {
    /// A `--host` is none.
    NoTarget(NoTarget),
    /// There are more admin ports than are looked at at a time.
    TooMany {
        /// How many are given.
        given: usize,
        /// How many there may be.
        most: usize,
    },
    /// This admin port is given twice.
    Twice(String),
    /// TLS is wanted on this socket.
    TlsOnSocket(String),
    /// An option is given neither once for all admin ports nor once for each.
    NotInTurn {
        /// Which one.
        option: &'static str,
        /// How often it is given.
        given: usize,
        /// How many admin ports there are.
        targets: usize,
    },
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(wrong) => wrong.fmt(f),
            Self::File { option, path, error } => write!(f, "{option} {}: {error}", path.display()),
            Self::Tls(error) => error.fmt(f),
            Self::AdminPort(failure) => f.write_str(&failure.text()),
            Self::AllAdminPorts { failures } => {
                f.write_str("none of the admin ports can be used")?;
                failures.iter().try_for_each(|(target, failure)| write!(f, "; {target}: {failure}"))
            }
            Self::ThreadEnded => f.write_str("the thread that asks has ended"),
            Self::NoTerminal(error) => write!(f, "the terminal cannot be used: {error}"),
            Self::TerminalGone(error) => write!(f, "the terminal has gone: {error}"),
            Self::NoSignals(error) => write!(f, "signals cannot be caught: {error}"),
            Self::Recording(bad) => bad.fmt(f),
        }
    }
}

impl Error for Trouble {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Options(wrong) => Some(wrong),
            Self::Tls(error) => Some(error),
            Self::File { error, .. }
            | Self::NoTerminal(error)
            | Self::TerminalGone(error)
            | Self::NoSignals(error) => Some(error),
            Self::Recording(bad) => Some(bad),
            Self::AdminPort(_) | Self::AllAdminPorts { .. } | Self::ThreadEnded => None,
        }
    }
}

impl fmt::Display for WrongOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTarget(wrong) => wrong.fmt(f),
            Self::TooMany { given, most } => {
                write!(f, "{given} admin ports are given; at most {most} are looked at at a time")
            }
            Self::Twice(target) => write!(f, "{target} is given twice; name each admin port once"),
            Self::TlsOnSocket(target) => {
                write!(f, "{target} is a socket, which has no TLS; leave out --tls and --tls-ca")
            }
            Self::NotInTurn { option, given, targets } => write!(
                f,
                "{option} is given {given} times for {targets} admin port{}; give it once for all, or once for each in their order",
                if *targets == 1 { "" } else { "s" },
            ),
        }
    }
}

impl Error for WrongOptions {}

impl From<WrongOptions> for Trouble {
    fn from(wrong: WrongOptions) -> Self {
        Self::Options(wrong)
    }
}

impl From<NoTarget> for WrongOptions {
    fn from(wrong: NoTarget) -> Self {
        Self::NoTarget(wrong)
    }
}

impl From<tls::Error> for Trouble {
    fn from(error: tls::Error) -> Self {
        Self::Tls(error)
    }
}

impl From<BadRecording> for Trouble {
    fn from(bad: BadRecording) -> Self {
        Self::Recording(bad)
    }
}
