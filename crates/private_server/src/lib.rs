//! A MariaDB or MySQL server of our own, for those who have none yet: reached by a Unix socket alone, its data in one
//! folder, started and stopped with Onramp.
//!
//! What lies in the folder:
//!
//! | name | what |
//! |---|---|
//! | `data/` | the server's data directory, with its pid file |
//! | `tmp/` | the server's temporary files |
//! | `server.log` | what the server says |
//! | `service.password`, `admin.password` | the accounts' passwords, readable by the owner alone |
//! | `client.cnf` | the options of the client programs for the administrator's account |
//! | `onramp.lock` | locked while an Onramp uses the folder |
//! | `server.lock` | locked while a server runs on the folder: the server inherits the lock and so keeps it if Onramp is killed |
//!
//! One thread does all of it, and it lives as long as the process: the kernel ties the server's life to the thread
//! that started it (`PR_SET_PDEATHSIG`, prctl(2)).

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it starts a process and waits for it, off the data path"
)]

mod accounts;
mod command_line;
mod copy;
mod error;
mod folder;
mod initialise;
mod passwd;
mod process;
mod programs;
mod settings;

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

pub use self::command_line::tied_to_us;
pub use self::copy::copy;
pub use self::settings::{Replication, Settings, ThreadHandling};

use self::accounts::Accounts;
use self::folder::Folder;
use self::process::{Process, Started};
use self::programs::Programs;

pub use error::{Error, FileUse, NoFolder, NoPrograms, ServerFault};

/// The first wait before a server that died is started again; it doubles up to [`LONGEST_BACK_OFF`].
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
/// Often enough to come back soon after, say, a full disk has been cleared.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);
/// A server that ran this long was well; the back-off starts anew.
const WELL_AFTER: Duration = Duration::from_secs(60);
/// How often the thread looks whether the server still runs and whether it has been told to stop.
const LOOK: Duration = Duration::from_millis(100);

/// A private server, seen by whoever started it. Dropping it stops the server too, but nobody waits for that.
#[derive(Debug)]
pub struct PrivateServer {
    stop: Sender<Stop>,
}

/// Tells the thread to end its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// As a server stops that is told to.
    InOrder,
    /// As one ends that is killed.
    AtOnce,
}

/// What becomes of a private server. After [`Report::Failed`] or [`Report::Stopped`] nothing more is reported.
pub enum Report {
    /// The server answers.
    Ready(Access),
    /// The server cannot be started, and why.
    Failed(Error),
    /// The server has been stopped, or told to.
    Stopped,
}

/// How to reach the server that has come up.
pub struct Access {
    /// The server's socket.
    pub socket: PathBuf,
    /// The server's name and version, as people say it: `MariaDB 10.11.19`.
    pub version: String,
    /// The server's process. It is another one where the server died and was started again.
    pub process: u32,
    /// The name of the account that Onramp itself uses. It may log in from this machine alone.
    pub service_user: String,
    /// Its password.
    pub service_password: Zeroizing<String>,
    /// The name of the account with all rights, for whoever started the server.
    pub admin_user: String,
    /// Its password, as it was first set.
    pub admin_password: Zeroizing<String>,
    client_file: PathBuf,
}

/// Where client programs connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientPlace {
    /// To an address.
    Tcp(SocketAddr),
    /// To a socket with this path.
    Unix(PathBuf),
}

impl PrivateServer {
    /// Looks for the server's programs, takes the folder, and starts the thread that does the rest. What becomes of it
    /// is told to `report`, on that thread.
    ///
    /// # Errors
    /// What is missing or in the way.
    pub fn start(settings: Settings, report: impl Fn(Report) + Send + 'static) -> Result<Self, Error> {
        let programs = Programs::find(&settings.programs)?;
        if settings.replication.is_some() {
            programs.may_replicate()?;
        }
        let folder = Folder::take(&settings.folder)?;
        let (stop, stops) = channel();
        let at_once = Cell::new(false);
        let keeper = Keeper { programs, folder, settings, stops, at_once, report };
        std::thread::Builder::new()
            .name(String::from("private server"))
            .spawn(move || keeper.keep())
            .map_err(Error::NoThread)?;
        Ok(Self { stop })
    }

    /// Stops the server in an orderly way. The answer is [`Report::Stopped`].
    pub fn stop(&self) {
        let _ = self.stop.send(Stop::InOrder);
    }

    /// Kills the server, as `kill -9` does, and does not start it again. The answer is [`Report::Stopped`], once it is gone.
    pub fn kill(&self) {
        let _ = self.stop.send(Stop::AtOnce);
    }
}

impl Access {
    /// Writes the options with which client programs reach the server by way of `place`.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn write_client_file(&self, place: Option<&ClientPlace>) -> Result<(), Error> {
        let place = match place {
            Some(ClientPlace::Tcp(tcp)) => {
                format!("protocol=tcp\nhost={}\nport={}\n", tcp.ip(), tcp.port())
            }
            Some(ClientPlace::Unix(socket)) => {
                format!("protocol=socket\nsocket={}\n", socket.display())
            }
            None => String::new(),
        };
        let text = Zeroizing::new(format!(
            "[client]\nuser={}\npassword={}\n{place}",
            self.admin_user,
            self.admin_password.as_str()
        ));
        folder::write_private(&self.client_file, &text)
    }

    /// The option of client programs that names the file.
    pub fn client_option(&self) -> String {
        let path = self.client_file.display().to_string();
        let plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte));
        if plain { format!("--defaults-file={path}") } else { format!("--defaults-file='{path}'") }
    }
}

/// The thread's own: everything it needs to bring a server up and keep it up.
struct Keeper<R> {
    programs: Programs,
    folder: Folder,
    settings: Settings,
    stops: Receiver<Stop>,
    /// Whether it was told to end the server at once.
    at_once: Cell<bool>,
    report: R,
}

/// Why the thread's work ends.
pub(crate) enum Ending {
    /// It was told to stop, and has.
    Told,
    /// The server cannot be brought up.
    Failed(Error),
}

impl From<Error> for Ending {
    fn from(reason: Error) -> Self {
        Self::Failed(reason)
    }
}

impl<R: Fn(Report)> Keeper<R> {
    fn keep(self) {
        let ended = match self.bring_up_and_watch() {
            Ending::Told => Report::Stopped,
            Ending::Failed(reason) => Report::Failed(reason),
        };
        // Unlocked before anybody learns of the end.
        let Self { folder, report, .. } = self;
        drop(folder);
        report(ended);
    }

    fn bring_up_and_watch(&self) -> Ending {
        match self.bring_up() {
            Ok((process, access)) => {
                (self.report)(Report::Ready(access));
                self.watch(process)
            }
            Err(ending) => ending,
        }
    }

    /// The first start of this run: data, accounts, server.
    fn bring_up(&self) -> Result<(Process, Access), Ending> {
        let asked = || self.told_to_stop();
        self.folder.wait_for_earlier_server(&asked)?;
        self.folder.make_temporary()?;
        if self.folder.has_data() {
            tracing::info!(
                "starting the private {} in {}",
                self.programs.version,
                self.folder.shown().display()
            );
        } else {
            tracing::info!(
                "creating a private {} in {} (once; takes some seconds)",
                self.programs.version,
                self.folder.shown().display()
            );
            initialise::initialise(&self.programs, &self.folder, &asked)?;
        }
        let accounts = Accounts::prepare(&self.folder)?;
        let statements = accounts.statements(&self.programs, self.settings.replication.is_some());
        let init_file = self.folder.write_init_file(&statements)?;
        let started = Process::start(&self.programs, &self.folder, &self.settings, Some(&init_file), &asked);
        // It holds passwords; the server has read it once it answers.
        let _ = std::fs::remove_file(&init_file);
        let process = match started? {
            Started::Ready(process) => process,
            Started::Stopped => return Err(Ending::Told),
        };
        let admin_password = accounts.keep(&self.folder)?;
        let access = Access {
            socket: self.folder.socket().into(),
            version: self.programs.version.clone(),
            process: process.id(),
            service_user: String::from(accounts::SERVICE_USER),
            service_password: accounts.service_password.clone(),
            admin_user: String::from(accounts::ADMIN_USER),
            admin_password,
            client_file: self.folder.shown().join("client.cnf"),
        };
        Ok((process, access))
    }

    /// Restarts a server that dies, until told to stop.
    fn watch(&self, mut process: Process) -> Ending {
        let mut back_off = FIRST_BACK_OFF;
        loop {
            let started = Instant::now();
            let status = match process.wait(&|| self.told_to_stop()) {
                Some(status) => status,
                None if self.at_once.get() => {
                    process.kill();
                    return Ending::Told;
                }
                None => return process.stop(&self.stops),
            };
            if started.elapsed() >= WELL_AFTER {
                back_off = FIRST_BACK_OFF;
            }
            tracing::error!(
                "the private server has ended ({status}); starting it again in {} s",
                back_off.as_secs()
            );
            process = loop {
                if self.told_to_stop_within(back_off) {
                    return Ending::Told;
                }
                back_off = (back_off * 2).min(LONGEST_BACK_OFF);
                let asked = || self.told_to_stop();
                match Process::start(&self.programs, &self.folder, &self.settings, None, &asked) {
                    Ok(Started::Ready(process)) => break process,
                    Ok(Started::Stopped) => return Ending::Told,
                    Err(reason) => tracing::error!("{reason}; trying again in {} s", back_off.as_secs()),
                }
            };
            tracing::info!("the private server is back");
        }
    }

    /// Whether it is time to go. Waits for [`LOOK`] to find out, so that loops which ask do not spin.
    fn told_to_stop(&self) -> bool {
        self.told_to_stop_within(LOOK)
    }

    fn told_to_stop_within(&self, time: Duration) -> bool {
        match self.stops.recv_timeout(time) {
            Ok(Stop::AtOnce) => {
                self.at_once.set(true);
                true
            }
            Ok(Stop::InOrder) | Err(RecvTimeoutError::Disconnected) => true,
            Err(RecvTimeoutError::Timeout) => false,
        }
    }
}

/// What a log says about a failure: its lines marked as errors that were written after `start`, or its last lines where
/// none is marked; at most `count` of them, indented.
fn failure_lines(log: &Path, start: u64, count: usize) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(
        bytes.get(usize::try_from(start).unwrap_or(usize::MAX)..).unwrap_or_default(),
    );
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let errors: Vec<&str> = lines.iter().copied().filter(|line| line.contains("ERROR")).take(count).collect();
    let chosen = if errors.is_empty() { &lines[lines.len().saturating_sub(count)..] } else { &errors };
    chosen.iter().map(|line| format!("\n    {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_by_the_errors_of_this_start() {
        let path = std::env::temp_dir().join(format!("onramp-failure-lines-{}", std::process::id()));
        let said_before = "1 [ERROR] long ago\n";
        let start = u64::try_from(said_before.len()).unwrap();
        let lines = |text: &str| {
            std::fs::write(&path, format!("{said_before}{text}")).unwrap();
            failure_lines(&path, start, 2)
        };
        let with_errors = lines("2 [Note] a\n3 [ERROR] b\n4 [Note] c\n5 [ERROR] d\n6 [ERROR] e\n");
        let without = lines("a\n\nb\nc\n");
        let nothing = lines("");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(with_errors, "\n    3 [ERROR] b\n    5 [ERROR] d");
        assert_eq!(without, "\n    b\n    c");
        assert_eq!(nothing, "");
    }
}
