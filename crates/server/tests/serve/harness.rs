//! Runs the program and ends everything that it started, also when a test fails.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Only ends a test that hangs; nothing is measured by it.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(300);

/// A folder of its own for each test, gone with the value.
pub(crate) struct TestFolder(PathBuf);

impl TestFolder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("onramp-serve-{}-{number}", std::process::id()));
        // Open to the server's own user.
        std::fs::DirBuilder::new().mode(0o755).create(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The data folder of the private server in it.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.0.join("onramp-data")
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        // A server that outlived its Onramp.
        if let Some(pid) = server_pid(&self.data_dir()) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running `onramp serve`.
pub(crate) struct Onramp {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Onramp {
    /// Starts `onramp serve` in the folder with these options, on a port that the system chooses.
    pub(crate) fn start(folder: &TestFolder, options: &[&str]) -> Self {
        let mut child = command(folder)
            .args(["serve", "--listen", "127.0.0.1:0", "--max-connections", "100"])
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines, seen: Vec::new() }
    }

    /// One that was started in another way; its log is read elsewhere.
    pub(crate) fn of(child: Child) -> Self {
        Self { child, lines: channel().1, seen: Vec::new() }
    }

    /// Starts it and waits until it is ready.
    pub(crate) fn ready(folder: &TestFolder, options: &[&str]) -> Self {
        let mut onramp = Self::start(folder, options);
        onramp.wait_for("connect with:");
        onramp
    }

    /// The first line from here on that contains `text`.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + WATCHDOG;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no line with {text:?} in:\n{}", self.seen.join("\n"))
                }
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(pid_of(&self.child), signal).unwrap();
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + WATCHDOG;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end:\n{}", self.seen.join("\n"));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Everything it said so far.
    pub(crate) fn log(&mut self) -> String {
        self.seen.extend(self.lines.try_iter());
        self.seen.join("\n")
    }

    /// SIGTERM, and an orderly end.
    pub(crate) fn end(mut self) {
        self.signal(Signal::TERM);
        let status = self.wait();
        assert!(status.success(), "{status}:\n{}", self.log());
    }
}

impl Drop for Onramp {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// `onramp` in the folder, with nothing of our own environment that it could take for options but the driver: the suite
/// runs once with each.
pub(crate) fn command(folder: &TestFolder) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onramp"));
    command.current_dir(folder.path());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("ONRAMP_") && name != "ONRAMP_DRIVER") {
            command.env_remove(name);
        }
    }
    // Its port is the same for all; tests that want it name one of their own.
    command.env("ONRAMP_HTTP_LISTEN", "off");
    command
}

/// Runs the program to its end.
pub(crate) fn run(folder: &TestFolder, arguments: &[&str]) -> Output {
    command(folder).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs a statement as the administrator, straight over the private server's socket; returns what it printed.
pub(crate) fn query_directly(folder: &TestFolder, statement: &str) -> String {
    let socket = folder.data_dir().join("data/server.sock");
    let options = [String::from("--protocol=socket"), format!("--socket={}", socket.display())];
    query(folder, &options, statement)
}

/// Runs a statement as the administrator, through Onramp.
pub(crate) fn query_through_onramp(folder: &TestFolder, statement: &str) -> String {
    query(folder, &[], statement)
}

fn query(folder: &TestFolder, options: &[String], statement: &str) -> String {
    let output = Command::new("mariadb")
        .arg(format!("--defaults-file={}", folder.data_dir().join("client.cnf").display()))
        .args(options)
        .args(["--batch", "--skip-column-names", "--execute", statement])
        .stdin(Stdio::null())
        .output()
        .expect("the client program `mariadb` is needed: apt install mariadb-client");
    assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The process id of the private server on this folder, if one runs.
pub(crate) fn server_pid(data_dir: &Path) -> Option<Pid> {
    let pid = std::fs::read_to_string(data_dir.join("data/server.pid")).ok()?.trim().parse().ok()?;
    let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let data_dir = data_dir.canonicalize().ok()?;
    let ours = String::from_utf8_lossy(&command_line).contains(data_dir.to_str()?);
    if ours { Pid::from_raw(pid) } else { None }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}
