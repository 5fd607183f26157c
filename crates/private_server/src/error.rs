//! Why there is no private server.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Why there is no private server, by whose affair it is.
#[derive(Debug)]
pub enum Error {
    /// The programs are not there, or are not those that are wanted: something is to be installed.
    Programs(NoPrograms),
    /// The folder is no place for it: another one is to be chosen.
    Folder {
        /// As it was given.
        folder: PathBuf,
        /// What is in the way.
        reason: NoFolder,
    },
    /// A file of the folder cannot be used as it has to be.
    File {
        /// Which one.
        path: PathBuf,
        /// What was wanted of it.
        wanted: FileUse,
        /// In the system's words.
        error: io::Error,
    },
    /// A file that should hold a password holds something else.
    NoPassword(PathBuf),
    /// A program that is there cannot be run.
    NotRun {
        /// Which one.
        program: PathBuf,
        /// In the system's words.
        error: io::Error,
    },
    /// The server does not do what it should, and says why in its log.
    Server {
        /// What that is.
        fault: ServerFault,
        /// How it ended.
        status: ExitStatus,
        /// Its log.
        log: PathBuf,
        /// What that says, each line behind a line break and indented.
        said: String,
    },
    /// A server of an earlier start has the data, and does not stop.
    StillRuns {
        /// The folder, as it was given.
        folder: PathBuf,
        /// The file by which its process can be found.
        lock: PathBuf,
    },
    /// The system gives no thread.
    NoThread(io::Error),
    /// The system gives no random bytes.
    NoRandomBytes(io::Error),
}

/// What is to be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPrograms {
    /// There is no server in this folder, or, where that is empty, in those of the system.
    Nowhere(PathBuf),
    /// This server says something else for its version.
    NoVersion(PathBuf),
    /// This server is too old.
    TooOld {
        /// Which one.
        server: PathBuf,
        /// The first two numbers of its version.
        version: (u32, u32),
    },
    /// This MySQL is too old for replication as it is set up here.
    TooOldToReplicate {
        /// Which one.
        server: PathBuf,
        /// Its version.
        version: (u32, u32, u32),
    },
    /// This server is there without the program that creates its data.
    Incomplete(PathBuf),
}

/// What is wrong with a folder.
#[derive(Debug)]
pub enum NoFolder {
    /// Another Onramp has it.
    InUse {
        /// Its process, as far as it says so.
        holder: String,
    },
    /// The system does not allow what is to be done.
    System {
        /// What that is.
        wanted: &'static str,
        /// In the system's words.
        error: io::Error,
    },
    /// Its data belong to a user without a name.
    NamelessOwner(u32),
    /// Its data belong to somebody else than whom we run as.
    OtherOwner {
        /// Whose they are.
        owner: u32,
        /// Whom we run as.
        own: u32,
    },
    /// Its path is longer than those of Unix sockets may be, in bytes.
    TooLong(usize),
}

/// What is wanted of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileUse {
    /// To be there.
    Create,
    /// Its text.
    Read,
    /// That it holds a text.
    Write,
    /// To be this user's.
    Give(String),
    /// Anything else.
    Use,
}

/// What a server does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerFault {
    /// Create its data.
    NotCreated,
    /// Answer.
    NotUp,
}

impl Error {
    pub(crate) fn file(path: &Path, wanted: FileUse) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |error| Self::File { path: path.clone(), wanted: wanted.clone(), error }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Programs(reason) => reason.fmt(f),
            Self::Folder { folder, reason } => say_folder(f, &folder.display(), reason),
            Self::File { path, wanted, error } => {
                let path = path.display();
                match wanted {
                    FileUse::Create => write!(f, "{path} cannot be created: {error}"),
                    FileUse::Read => write!(f, "{path} cannot be read: {error}"),
                    FileUse::Write => write!(f, "{path} cannot be written: {error}"),
                    FileUse::Give(user) => write!(f, "{path} cannot be given to {user}: {error}"),
                    FileUse::Use => write!(f, "{path}: {error}"),
                }
            }
            Self::NoPassword(path) => {
                write!(f, "{} holds no password of ours: remove it and start again", path.display())
            }
            Self::NotRun { program, error } => write!(f, "{} cannot be run: {error}", program.display()),
            Self::Server { fault, status, log, said } => {
                let fault = match fault {
                    ServerFault::NotCreated => "the private server's data cannot be created",
                    ServerFault::NotUp => "the private server does not come up",
                };
                write!(f, "{fault} ({status}); {} says:{said}", log.display())
            }
            Self::StillRuns { folder, lock } => write!(
                f,
                "a server still runs on {} and does not stop: look for its process (`fuser -v {}`)",
                folder.display(),
                lock.display()
            ),
            Self::NoThread(error) => write!(f, "no thread for the private server: {error}"),
            Self::NoRandomBytes(error) => write!(f, "the system has no random bytes: {error}"),
        }
    }
}

fn say_folder(f: &mut fmt::Formatter<'_>, folder: &dyn fmt::Display, reason: &NoFolder) -> fmt::Result {
    match reason {
        NoFolder::InUse { holder } => write!(
            f,
            "{folder} is in use by another onramp (process {holder}); stop it, or choose another folder with --data-dir"
        ),
        NoFolder::System { wanted, error } => {
            write!(
                f,
                "{folder}: the folder cannot be {wanted}: {error}; choose another folder with --data-dir"
            )
        }
        NoFolder::NamelessOwner(owner) => {
            write!(f, "the data in {folder} belongs to user id {owner}, which has no name here")
        }
        NoFolder::OtherOwner { owner, own } => write!(
            f,
            "the data in {folder} belongs to user id {owner} and we run as {own}: start as its owner or as root, or \
             choose another folder with --data-dir"
        ),
        NoFolder::TooLong(longest) => write!(
            f,
            "{folder} is too long a path for a Unix socket ({longest} bytes) and no shorter folder can be made: \
             choose a shorter one with --data-dir"
        ),
    }
}

impl fmt::Display for NoPrograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere(directory) => {
                f.write_str(
                    "no --backend is given and no server is installed: neither mariadbd nor mysqld is ",
                )?;
                if directory.as_os_str().is_empty() {
                    f.write_str("in PATH, /usr/sbin, /usr/bin or /usr/libexec")?;
                } else {
                    write!(f, "in {} (server_directory)", directory.display())?;
                }
                f.write_str("; install one with `apt install mariadb-server` or `dnf install mariadb-server`")
            }
            Self::NoVersion(server) => write!(f, "{} does not say which version it is", server.display()),
            Self::TooOld { server, version: (major, minor) } => {
                write!(f, "{} is MariaDB {major}.{minor}; Onramp needs 10.4 or newer", server.display())
            }
            Self::TooOldToReplicate { server, version: (major, minor, patch) } => write!(
                f,
                "{} is MySQL {major}.{minor}.{patch}; several servers that replicate take 8.0.26 or newer, or MariaDB",
                server.display()
            ),
            Self::Incomplete(server) => write!(
                f,
                "{} is there but mariadb-install-db is not: install all of the package mariadb-server",
                server.display()
            ),
        }
    }
}

impl std::error::Error for Error {}

impl From<NoPrograms> for Error {
    fn from(reason: NoPrograms) -> Self {
        Self::Programs(reason)
    }
}
