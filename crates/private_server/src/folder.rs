//! The folder of the private server: its paths, its locks, and who owns what.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use rustix::rand::{GetRandomFlags, getrandom};

use super::Ending;
use crate::error::{Error, FileUse, NoFolder};
use crate::passwd::User;

/// The longest path of a Unix socket: `sun_path` holds 108 bytes with the final zero (unix(7)).
const LONGEST_SOCKET_PATH: usize = 107;
/// How long an earlier server may take to stop. A large buffer pool is written out in this time on slow disks too.
const EARLIER_SERVER_TIMEOUT: Duration = Duration::from_secs(300);
/// How often somebody who waits is told that they do.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// The folder, locked for this process.
#[derive(Debug)]
pub(crate) struct Folder {
    /// As it was given: for people.
    shown: PathBuf,
    /// Absolute: for the server.
    path: PathBuf,
    socket: PathBuf,
    /// Removed at the end, where the folder's own path is too long for a socket.
    socket_folder: Option<PathBuf>,
    run_as: RunAs,
    server_lock: File,
    _onramp_lock: File,
}

/// Under whose name the server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunAs {
    /// Our own, which is not root.
    Ourselves,
    /// This user, as we are root.
    User(User),
    /// Root: there is no user `mysql`, or it cannot reach the folder.
    Root,
}

impl Folder {
    /// Creates the folder where it is missing, and locks it.
    ///
    /// # Errors
    /// A line that says what is in the way.
    pub(crate) fn take(shown: &Path) -> Result<Self, Error> {
        let no_folder = |reason| Error::Folder { folder: shown.into(), reason };
        let failed = |wanted| move |error| no_folder(NoFolder::System { wanted, error });
        // Others may pass through, as the server's own user has to, but not look around.
        std::fs::DirBuilder::new().recursive(true).mode(0o711).create(shown).map_err(failed("created"))?;
        let path = shown.canonicalize().map_err(failed("found"))?;
        let mut onramp_lock = open_lock(&path.join("onramp.lock")).map_err(failed("used"))?;
        if flock(&onramp_lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut holder = String::new();
            let _ = onramp_lock.read_to_string(&mut holder);
            return Err(no_folder(NoFolder::InUse { holder: String::from(holder.trim()) }));
        }
        let written = onramp_lock.set_len(0).and_then(|()| writeln!(onramp_lock, "{}", std::process::id()));
        written.map_err(failed("written to"))?;
        let server_lock = open_lock(&path.join("server.lock")).map_err(failed("used"))?;
        let run_as = RunAs::choose(&path)?;
        let (socket, socket_folder) = socket_path(&path, &run_as)?;
        Ok(Self {
            shown: shown.into(),
            path,
            socket,
            socket_folder,
            run_as,
            server_lock,
            _onramp_lock: onramp_lock,
        })
    }

    /// The folder as it was given.
    pub(crate) fn shown(&self) -> &Path {
        &self.shown
    }

    /// The server's data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// Where the data directory is created, before it is given its name.
    pub(crate) fn unfinished_data(&self) -> PathBuf {
        self.path.join("data.unfinished")
    }

    /// The server's folder for temporary files. Not the system's: a server removes what looks like its own there when it
    /// starts (`mysql_rm_tmp_tables` in sql/sql_base.cc), and so takes away the files of another.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.path.join("tmp")
    }

    /// Makes the folder for temporary files where it is missing.
    pub(crate) fn make_temporary(&self) -> Result<(), Error> {
        let path = self.temporary();
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(Error::file(&path, FileUse::Create))?;
        self.give_to_server(&path)
    }

    /// Whether the data directory has been created in full.
    pub(crate) fn has_data(&self) -> bool {
        self.data().exists()
    }

    /// The server's socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// What the server says.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("server.log")
    }

    /// Where the server writes its process id.
    pub(crate) fn pid_file(&self) -> PathBuf {
        self.data().join("server.pid")
    }

    /// A file with one account's password.
    pub(crate) fn password_file(&self, account: &str) -> PathBuf {
        self.path.join(format!("{account}.password"))
    }

    /// Under whose name the server runs.
    pub(crate) fn run_as(&self) -> &RunAs {
        &self.run_as
    }

    /// A descriptor that carries the server's lock, for the server to inherit.
    pub(crate) fn inheritable_lock(&self) -> std::io::Result<OwnedFd> {
        let lock: OwnedFd = self.server_lock.try_clone()?.into();
        rustix::io::fcntl_setfd(&lock, rustix::io::FdFlags::empty())?;
        Ok(lock)
    }

    /// Gives a file or folder to the user that the server runs as.
    pub(crate) fn give_to_server(&self, path: &Path) -> Result<(), Error> {
        let RunAs::User(user) = &self.run_as else { return Ok(()) };
        std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid))
            .map_err(Error::file(path, FileUse::Give(user.name.clone())))
    }

    /// Writes statements that the server is to run at its start, readable by it alone.
    pub(crate) fn write_init_file(&self, statements: &str) -> Result<PathBuf, Error> {
        let path = self.data().join("accounts.sql");
        write_private(&path, statements)?;
        self.give_to_server(&path)?;
        Ok(path)
    }

    /// Takes the server's lock. A server that still holds it (its Onramp was killed) is told to stop and waited for:
    /// there is never a second one on the same data.
    pub(crate) fn wait_for_earlier_server(&self, asked: &dyn Fn() -> bool) -> Result<(), Ending> {
        let locked = || flock(&self.server_lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        let start = Instant::now();
        let mut said = None;
        while !locked() {
            if said.is_none_or(|said: Instant| said.elapsed() >= PROGRESS_INTERVAL) {
                said = Some(Instant::now());
                match self.earlier_server() {
                    Some(pid) => {
                        tracing::info!(
                            "waiting for an earlier server on this folder (process {}) to stop",
                            pid.as_raw_pid()
                        );
                        let _ = kill_process(pid, Signal::TERM);
                    }
                    None => tracing::info!("waiting for an earlier server on this folder to stop"),
                }
            }
            if start.elapsed() >= EARLIER_SERVER_TIMEOUT {
                let (folder, lock) = (self.shown.clone(), self.path.join("server.lock"));
                return Err(Ending::Failed(Error::StillRuns { folder, lock }));
            }
            if asked() {
                return Err(Ending::Told);
            }
        }
        Ok(())
    }

    /// The process that the pid file names, if it is a server on this very folder.
    fn earlier_server(&self) -> Option<Pid> {
        let text = std::fs::read_to_string(self.pid_file()).ok()?;
        let pid: i32 = text.trim().parse().ok()?;
        let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let data_dir = super::command_line::data_dir_argument(self);
        let ours =
            command_line.split(|byte| *byte == 0).any(|argument| argument == data_dir.as_encoded_bytes());
        if ours { Pid::from_raw(pid) } else { None }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(folder) = &self.socket_folder {
            let _ = std::fs::remove_file(&self.socket);
            let _ = std::fs::remove_dir(folder);
        }
    }
}

impl RunAs {
    /// The owner of the data if there is data; else, for root, the user `mysql` if it can reach the folder.
    fn choose(folder: &Path) -> Result<Self, Error> {
        let no_folder = |reason| Error::Folder { folder: folder.into(), reason };
        let own = geteuid().as_raw();
        let owner = std::fs::metadata(folder.join("data")).ok().map(|data| data.uid());
        match (own, owner) {
            (0, Some(0)) => Ok(Self::Root),
            (0, Some(owner)) => {
                User::by_uid(owner).map(Self::User).ok_or_else(|| no_folder(NoFolder::NamelessOwner(owner)))
            }
            (0, None) => {
                Ok(User::by_name("mysql").filter(|user| reaches(user, folder)).map_or(Self::Root, Self::User))
            }
            (own, Some(owner)) if own != owner => Err(no_folder(NoFolder::OtherOwner { owner, own })),
            _ => Ok(Self::Ourselves),
        }
    }
}

/// Writes a file that its owner alone may read, under its name only once it is whole.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), Error> {
    let failed = Error::file(path, FileUse::Write);
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished).map_err(&failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(&failed)?;
    std::fs::rename(&unfinished, path).map_err(failed)
}

fn open_lock(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Whether a user may pass through every folder above `folder`, by their permission bits.
fn reaches(user: &User, folder: &Path) -> bool {
    folder.ancestors().skip(1).all(|ancestor| {
        std::fs::metadata(ancestor).is_ok_and(|found| {
            let mode = found.permissions().mode();
            let bit = if found.uid() == user.uid {
                0o100
            } else if found.gid() == user.gid {
                0o010
            } else {
                0o001
            };
            mode & bit != 0
        })
    })
}

/// The socket's path, with the folder made for it where the data folder's own path is too long.
fn socket_path(folder: &Path, run_as: &RunAs) -> Result<(PathBuf, Option<PathBuf>), Error> {
    let path = folder.join("data").join("server.sock");
    if path.as_os_str().len() <= LONGEST_SOCKET_PATH {
        return Ok((path, None));
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let candidates = match run_as {
        RunAs::Ourselves => [runtime, Some(PathBuf::from("/tmp"))],
        RunAs::User(_) | RunAs::Root => [Some(PathBuf::from("/run")), Some(PathBuf::from("/tmp"))],
    };
    for parent in candidates.into_iter().flatten() {
        // A name that nobody can have taken before us.
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())
            .map_err(|error| Error::NoRandomBytes(error.into()))?;
        let short = parent.join(format!("onramp-{:016x}", u64::from_ne_bytes(random)));
        let socket = short.join("server.sock");
        if socket.as_os_str().len() > LONGEST_SOCKET_PATH
            || std::fs::DirBuilder::new().mode(0o700).create(&short).is_err()
        {
            continue;
        }
        if let RunAs::User(user) = run_as {
            std::os::unix::fs::chown(&short, Some(user.uid), Some(user.gid))
                .map_err(Error::file(&short, FileUse::Give(user.name.clone())))?;
        }
        let _ = std::fs::set_permissions(&short, Permissions::from_mode(0o700));
        return Ok((socket, Some(short)));
    }
    Err(Error::Folder { folder: folder.into(), reason: NoFolder::TooLong(LONGEST_SOCKET_PATH) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is gone with the value.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("onramp-folder-{}-{name}", std::process::id()));
            std::fs::DirBuilder::new().mode(0o755).create(&path).unwrap();
            Self(path.canonicalize().unwrap())
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_user_reaches_a_folder_only_through_open_ones() {
        let scratch = Scratch::new("reach");
        // An id that owns nothing here.
        let stranger = User { name: String::from("stranger"), uid: 3_999_999_999, gid: 3_999_999_999 };
        let inner = scratch.0.join("closed/inner");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::set_permissions(scratch.0.join("closed"), Permissions::from_mode(0o711)).unwrap();
        // Where the folder for temporary files is itself open to others, as it is nearly everywhere.
        assert_eq!(reaches(&stranger, &inner), reaches(&stranger, &scratch.0));
        std::fs::set_permissions(scratch.0.join("closed"), Permissions::from_mode(0o700)).unwrap();
        assert!(!reaches(&stranger, &inner));
        let owner = User { uid: geteuid().as_raw(), ..stranger };
        assert!(reaches(&owner, &inner));
    }

    #[test]
    fn a_private_file_replaces_the_old_one_and_is_for_its_owner() {
        let scratch = Scratch::new("private");
        let path = scratch.0.join("secret");
        std::fs::write(scratch.0.join("secret.unfinished"), "left by an interrupted start").unwrap();
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        write_private(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!scratch.0.join("secret.unfinished").exists());
    }

    #[test]
    fn a_socket_path_fits() {
        let short = Path::new("/srv/onramp-data");
        assert_eq!(
            socket_path(short, &RunAs::Ourselves).unwrap(),
            (PathBuf::from("/srv/onramp-data/data/server.sock"), None)
        );
        let long = PathBuf::from(format!("/srv/{}", "x".repeat(LONGEST_SOCKET_PATH)));
        let (socket, folder) = socket_path(&long, &RunAs::Ourselves).unwrap();
        let folder = folder.unwrap();
        let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
        std::fs::remove_dir(&folder).unwrap();
        assert_eq!(mode & 0o777, 0o700);
        assert!(socket.starts_with(&folder) && socket.as_os_str().len() <= LONGEST_SOCKET_PATH);
    }
}
