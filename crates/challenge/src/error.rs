//! Why something could not be done, by whose affair it is.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use login::LoginError;
use wire::WireError;

use crate::cpu_share::NoGroup;
use crate::report::text;

/// Why something could not be done.
#[derive(Debug)]
pub(crate) enum Error {
    /// Somebody has asked for the end.
    Interrupted,
    /// The options: others are to be chosen.
    Options(WrongOptions),
    /// The machine: something is to be lifted there, or less to be asked of it.
    Machine(Lack),
    /// The private server, which says so itself.
    Server(private_server::Error),
    /// A program that was started for the run: Onramp, or its load generator.
    Program(ProgramFault),
    /// A server, or Onramp's admin port, that was asked something.
    Answer {
        /// Who.
        of: String,
        /// What for.
        wanted: &'static str,
        /// Why not.
        reason: NoAnswer,
    },
    /// A server that does not do in time what it should.
    Late {
        /// Who.
        of: String,
        /// What that is.
        wanted: &'static str,
    },
}

/// What is wrong with the options.
#[derive(Debug)]
pub(crate) enum WrongOptions {
    /// The URL, in the words of whoever reads it.
    Backend(String),
    /// An option that has no part in a run of this kind.
    NoPart {
        /// As it is written.
        option: String,
        /// In which run, and what to say in its place.
        instead: &'static str,
    },
}

/// What the machine does not have.
#[derive(Debug)]
pub(crate) enum Lack {
    /// What so many clients take.
    Clients {
        /// How many.
        clients: u32,
        /// What is short, a line each.
        short: Vec<String>,
    },
    /// Bytes of memory, or of a disk, for so many servers.
    Room {
        /// How many.
        servers: u32,
        /// Of what.
        of: Room,
        /// Bytes that they take.
        needed: u64,
        /// Bytes that there are.
        found: u64,
    },
    /// A port.
    Port(io::Error),
    /// Random bytes.
    RandomBytes(io::Error),
    /// Word of signals.
    Signals(io::Error),
    /// A folder for what is thrown away afterwards.
    Folder {
        /// Which one.
        path: PathBuf,
        /// In the system's words.
        error: io::Error,
    },
    /// A place for the report.
    Report {
        /// Which one.
        path: PathBuf,
        /// In the system's words.
        error: io::Error,
    },
    /// A file that a program was to leave.
    File {
        /// Which one.
        path: PathBuf,
        /// In the system's words.
        error: io::Error,
    },
    /// A group that is held to so many cores.
    CpuShare {
        /// How many.
        cores: f64,
        /// Why there is none.
        fault: NoGroup,
    },
    /// This program's own file.
    Program(io::Error),
}

/// Of what there is too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Memory.
    Memory,
    /// The disk below this folder.
    Disk(PathBuf),
}

/// What a program does not do.
#[derive(Debug)]
pub(crate) enum ProgramFault {
    /// Run.
    NotRun {
        /// Which one.
        program: String,
        /// In the system's words.
        error: io::Error,
    },
    /// Onramp ends before it serves anybody.
    Ended {
        /// How.
        status: ExitStatus,
        /// The program's last words.
        said: String,
    },
    /// Onramp serves nobody in time.
    NotListening {
        /// The program's last words.
        said: String,
    },
    /// The load generator does not do its work, in its own words.
    Load(String),
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// Nobody is there, or the connection is of no use any more.
    Connection(io::Error),
    /// The login fails.
    Login(LoginError),
    /// The server says no.
    Refused {
        /// The server's number for that.
        code: u16,
        /// The server's words.
        message: String,
    },
    /// What the server says is not understood.
    Malformed(WireError),
    /// The server says something else than was asked for.
    Unexpected(String),
}

impl Error {
    /// Whether other options help, so that nothing has to be tried.
    pub(crate) fn is_of_options(&self) -> bool {
        matches!(self, Self::Options(_) | Self::Machine(Lack::CpuShare { .. } | Lack::Port(_)))
    }
}

impl From<private_server::Error> for Error {
    fn from(error: private_server::Error) -> Self {
        Self::Server(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted"),
            Self::Options(wrong) => wrong.fmt(f),
            Self::Machine(lack) => lack.fmt(f),
            Self::Server(error) => error.fmt(f),
            Self::Program(fault) => fault.fmt(f),
            Self::Answer { of, wanted, reason } => write!(f, "{of}, asked {wanted}: {reason}"),
            Self::Late { of, wanted } => write!(
                f,
                "{of} does not {wanted} in time: try it while the machine has less other work, or with fewer --clients"
            ),
        }
    }
}

impl fmt::Display for WrongOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend(reason) => f.write_str(reason),
            Self::NoPart { option, instead } => write!(f, "{option} has no part {instead}"),
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clients { clients, short } => {
                let lines: String = short.iter().map(|line| format!("\n    {line}")).collect();
                write!(
                    f,
                    "{} clients cannot be reached here:{lines}\n`onramp doctor` says more. Lift it, or choose a smaller \
                     last step with --steps, or fewer --clients where there are several --servers",
                    text::grouped(u64::from(*clients))
                )
            }
            Self::Room { servers, of, needed, found } => {
                let (needed, found) = (text::bytes(*needed as f64), text::bytes(*found as f64));
                match of {
                    Room::Memory => write!(
                        f,
                        "{servers} servers take about {needed} of memory, and {found} are free: end what else runs here, or \
                         choose fewer --servers"
                    ),
                    Room::Disk(folder) => write!(
                        f,
                        "{servers} servers take about {needed} in {}, and {found} are free there: choose another folder with \
                         --work-directory, or fewer --servers",
                        folder.display()
                    ),
                }
            }
            Self::Port(error) => write!(f, "no free port on 127.0.0.1: {error}"),
            Self::RandomBytes(error) => write!(f, "the system has no random bytes: {error}"),
            Self::Signals(error) => write!(f, "signals cannot be watched: {error}"),
            Self::Folder { path, error } => {
                write!(f, "{} cannot be created: {error}; see --work-directory", path.display())
            }
            Self::Report { path, error } => {
                write!(f, "{} cannot be written: {error}; see --report", path.display())
            }
            Self::File { path, error } => write!(f, "{} cannot be read: {error}", path.display()),
            Self::CpuShare { cores, fault } => {
                let percent = (cores * 100.0).round();
                write!(
                    f,
                    "the server cannot be held to {cores} cores: {fault}. That takes root, and the cpu controller of control \
                     groups. Without them start a server with systemd-run -p CPUQuota={percent}%, and name it in --backend"
                )
            }
            Self::Program(error) => write!(f, "this program's own file cannot be found: {error}"),
        }
    }
}

impl fmt::Display for ProgramFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRun { program, error } => write!(f, "{program} cannot be run: {error}"),
            Self::Ended { status, said } => write!(f, "onramp serve has ended ({status}): {said}"),
            Self::NotListening { said } => write!(f, "onramp serve does not begin to listen: {said}"),
            Self::Load(said) => f.write_str(said),
        }
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) => error.fmt(f),
            Self::Login(error) => error.fmt(f),
            Self::Refused { code, message } => write!(f, "error {code}: {message}"),
            Self::Malformed(error) => write!(f, "the answer is not understood: {error}"),
            Self::Unexpected(found) => write!(f, "the answer is {found}"),
        }
    }
}

impl std::error::Error for Error {}
