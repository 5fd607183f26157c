//! One run of the server: from the command to its end.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, kill_process_group, test_kill_process_group, waitpgid,
};

use super::command_line;
use super::folder::{Folder, PROGRESS_INTERVAL};
use super::programs::Programs;
use super::{Ending, LOOK, Settings, Stop};
use crate::error::{Error, FileUse, ServerFault};

/// How long we wait for a server to stop before we leave it to itself. It has been told; the next start waits for it.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// How long what was killed may take to be gone. The system gives back a server's memory in less than a second; where it takes longer, a
/// disk does not answer, or the dead stay in the table of processes since nobody asks for them.
const DEATH_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks whether it is gone.
const DEATH_LOOK: Duration = Duration::from_millis(5);
/// The greeting comes at once from a server that is up.
const GREETING_TIMEOUT: Duration = Duration::from_secs(1);
/// The protocol version in a server's greeting: `protocol_version` in sql/auth/sql_authentication.cc of MySQL and
/// sql/sql_acl.cc of MariaDB.
const PROTOCOL_VERSION: u8 = 10;

/// A child process of ours.
pub(crate) struct Process {
    child: Child,
}

/// What became of a start.
pub(crate) enum Started {
    /// The server answers.
    Ready(Process),
    /// We were told to stop before it did; it has been stopped.
    Stopped,
}

impl Process {
    /// Starts a server and waits until it greets on its socket.
    ///
    /// # Errors
    /// What went wrong, with the last lines of the server's log.
    pub(crate) fn start(
        programs: &Programs,
        folder: &Folder,
        settings: &Settings,
        init_file: Option<&Path>,
        asked: &dyn Fn() -> bool,
    ) -> Result<Started, Error> {
        let log_path = folder.log();
        let failed = Error::file(&log_path, FileUse::Use);
        let log =
            OpenOptions::new().append(true).create(true).mode(0o600).open(&log_path).map_err(&failed)?;
        let log_start = log.metadata().map_err(&failed)?.len();
        let lock = folder.inheritable_lock().map_err(&failed)?;
        let mut command = command_line::server(programs, folder, settings, init_file);
        command.stdout(log.try_clone().map_err(&failed)?).stderr(log);
        let mut process = Self::spawn(command)?;
        drop(lock);

        let begin = Instant::now();
        let mut said = begin;
        loop {
            if let Some(status) = process.ended() {
                let said = super::failure_lines(&log_path, log_start, 15);
                return Err(Error::Server { fault: ServerFault::NotUp, status, log: log_path, said });
            }
            if greets(folder.socket()) {
                return Ok(Started::Ready(process));
            }
            // Recovery after a crash may take minutes, so there is no end to the patience, only a word about it.
            if said.elapsed() >= PROGRESS_INTERVAL {
                said = Instant::now();
                tracing::info!(
                    "the private server is still starting ({} s); see {}",
                    begin.elapsed().as_secs(),
                    log_path.display()
                );
            }
            if asked() {
                process.terminate();
                process.wait(&|| {
                    std::thread::sleep(LOOK);
                    begin.elapsed() > STOP_TIMEOUT
                });
                return Ok(Started::Stopped);
            }
        }
    }

    /// Starts any command, in a process group of its own: Ctrl-C at the terminal is for Onramp, which stops its server
    /// after its clients.
    pub(crate) fn spawn(mut command: Command) -> Result<Self, Error> {
        let child = command.stdin(Stdio::null()).process_group(0).spawn();
        child
            .map(|child| Self { child })
            .map_err(|error| Error::NotRun { program: command.get_program().into(), error })
    }

    /// Waits for the process to end by itself, or until `asked` says so, which paces the loop.
    pub(crate) fn wait(&mut self, asked: &dyn Fn() -> bool) -> Option<ExitStatus> {
        loop {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            if asked() {
                return self.ended();
            }
        }
    }

    /// Stops a server in an orderly way.
    pub(crate) fn stop(mut self, stops: &Receiver<Stop>) -> Ending {
        tracing::info!("stopping the private server");
        self.terminate();
        let begin = Instant::now();
        let mut said = begin;
        while self.ended().is_none() {
            if begin.elapsed() >= STOP_TIMEOUT {
                tracing::warn!(
                    "the private server is still stopping and goes on by itself; the next start waits for it"
                );
                break;
            }
            if said.elapsed() >= PROGRESS_INTERVAL {
                said = Instant::now();
                tracing::info!("the private server is still stopping ({} s)", begin.elapsed().as_secs());
            }
            match stops.recv_timeout(LOOK) {
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
            }
        }
        Ending::Told
    }

    /// Ends the process and all that it started, at once, and waits until they are gone: a script's end says nothing about what it ran.
    pub(crate) fn kill(mut self) {
        let Some(group) = self.pid() else { return };
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
        let begin = Instant::now();
        // The number is nobody else's as long as one of the group is there.
        while test_kill_process_group(group).is_ok() && begin.elapsed() < DEATH_TIMEOUT {
            // Where we are the first process of a container, what a script leaves behind is ours to ask for.
            let _ = waitpgid(group, WaitOptions::NOHANG);
            std::thread::sleep(DEATH_LOOK);
        }
    }

    fn terminate(&self) {
        if let Some(pid) = self.pid() {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// The process's number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Not another's, as a child that we have not waited for keeps its id.
    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

/// Whether a server greets on this socket: an initial handshake packet, and not an error.
fn greets(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else { return false };
    let mut head = [0; 5];
    stream.set_read_timeout(Some(GREETING_TIMEOUT)).is_ok()
        && stream.read_exact(&mut head).is_ok()
        && head[4] == PROTOCOL_VERSION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_script_has_started_is_gone_with_it() {
        let mut command = Command::new("/bin/sh");
        // The system takes some time for giving back so much memory, which the script does not have.
        let script = "(head -c 500000000 /dev/zero; echo ready >&2; sleep 1000) | tail -c 500000000";
        command.args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = Process::spawn(command).unwrap();
        let mut said = [0; 6];
        process.child.stderr.take().unwrap().read_exact(&mut said).unwrap();
        let group = process.pid().unwrap();
        process.kill();
        assert!(test_kill_process_group(group).is_err(), "it is still there");
    }
}
