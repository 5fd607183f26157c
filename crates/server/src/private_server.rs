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

mod accounts;
mod command_line;
mod folder;
mod initialise;
mod process;
mod programs;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::time::{Duration, Instant};

use config::Configuration;
use zeroize::Zeroizing;

use self::accounts::Accounts;
use self::command_line::Tuning;
use self::folder::Folder;
use self::process::{Process, Started};
use self::programs::Programs;
use crate::addresses;
use crate::happening::Happening;

/// The first wait before a server that died is started again; it doubles up to [`LONGEST_BACK_OFF`].
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
/// Often enough to come back soon after, say, a full disk has been cleared.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);
/// A server that ran this long was well; the back-off starts anew.
const WELL_AFTER: Duration = Duration::from_secs(60);
/// How often the thread looks whether the server still runs and whether it has been told to stop.
const LOOK: Duration = Duration::from_millis(100);

/// A private server, seen from the main thread.
pub(crate) struct PrivateServer {
    stop: Sender<Stop>,
}

/// Tells the thread to stop its server.
struct Stop;

/// How to reach the server that has come up.
pub(crate) struct Access {
    /// The server's socket.
    pub(crate) socket: PathBuf,
    /// The name of the account that Onramp itself uses.
    pub(crate) service_user: String,
    /// Its password.
    pub(crate) service_password: Zeroizing<String>,
    admin_password: Zeroizing<String>,
    client_file: PathBuf,
}

impl PrivateServer {
    /// Looks for the server's programs, takes the folder, and starts the thread that does the rest. The answer is
    /// [`Happening::ServerReady`] or [`Happening::ServerFailed`].
    ///
    /// # Errors
    /// A line that says what is missing or in the way.
    pub(crate) fn start(
        configuration: &Configuration,
        happenings: SyncSender<Happening>,
    ) -> Result<Self, String> {
        let programs = Programs::find(&configuration.server_directory)?;
        let folder = Folder::take(&configuration.data_dir)?;
        let (stop, stops) = channel();
        let tuning = Tuning {
            max_backends: configuration.engine.max_backends,
            max_allowed_packet: configuration.engine.max_allowed_packet,
        };
        let keeper = Keeper { programs, folder, tuning, stops, happenings };
        std::thread::Builder::new()
            .name(String::from("private server"))
            .spawn(move || keeper.keep())
            .map_err(|error| format!("no thread for the private server: {error}"))?;
        Ok(Self { stop })
    }

    /// Stops the server in an orderly way. The answer is [`Happening::ServerStopped`].
    pub(crate) fn stop(&self) {
        let _ = self.stop.send(Stop);
    }
}

impl Access {
    /// Writes the options with which client programs reach the server through us, at the first of our addresses.
    ///
    /// # Errors
    /// A line that names the file.
    pub(crate) fn write_client_file(&self, listening: &[drivers::ListenAddress]) -> Result<(), String> {
        let tcp: Option<SocketAddr> = listening.first().and_then(addresses::reachable);
        let place = match (tcp, listening.first()) {
            (Some(tcp), _) => format!("protocol=tcp\nhost={}\nport={}\n", tcp.ip(), tcp.port()),
            (None, Some(socket)) => format!("protocol=socket\nsocket={socket}\n"),
            (None, None) => String::new(),
        };
        let text = Zeroizing::new(format!(
            "[client]\nuser={}\npassword={}\n{place}",
            accounts::ADMIN_USER,
            self.admin_password.as_str()
        ));
        folder::write_private(&self.client_file, &text)
    }

    /// The option of client programs that names the file.
    pub(crate) fn client_option(&self) -> String {
        let path = self.client_file.display().to_string();
        let plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte));
        if plain { format!("--defaults-file={path}") } else { format!("--defaults-file='{path}'") }
    }
}

/// The thread's own: everything it needs to bring a server up and keep it up.
struct Keeper {
    programs: Programs,
    folder: Folder,
    tuning: Tuning,
    stops: Receiver<Stop>,
    happenings: SyncSender<Happening>,
}

/// Why the thread's work ends.
pub(crate) enum Ending {
    /// It was told to stop, and has.
    Told,
    /// The server cannot be brought up.
    Failed(String),
}

impl From<String> for Ending {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

impl Keeper {
    fn keep(self) {
        let ended = match self.bring_up_and_watch() {
            Ending::Told => Happening::ServerStopped,
            Ending::Failed(reason) => Happening::ServerFailed(reason),
        };
        // Unlocked before the main thread learns of the end.
        let Self { folder, happenings, .. } = self;
        drop(folder);
        let _ = happenings.send(ended);
    }

    fn bring_up_and_watch(&self) -> Ending {
        match self.bring_up() {
            Ok((process, access)) => {
                let _ = self.happenings.send(Happening::ServerReady(access));
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
        let statements = accounts.statements(&self.programs);
        let init_file = self.folder.write_init_file(&statements)?;
        let started = Process::start(&self.programs, &self.folder, &self.tuning, Some(&init_file), &asked);
        // It holds passwords; the server has read it once it answers.
        let _ = std::fs::remove_file(&init_file);
        let process = match started? {
            Started::Ready(process) => process,
            Started::Stopped => return Err(Ending::Told),
        };
        let admin_password = accounts.keep(&self.folder)?;
        let access = Access {
            socket: self.folder.socket().into(),
            service_user: String::from(accounts::SERVICE_USER),
            service_password: accounts.service_password.clone(),
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
                match Process::start(&self.programs, &self.folder, &self.tuning, None, &asked) {
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
            Ok(Stop) | Err(RecvTimeoutError::Disconnected) => true,
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
