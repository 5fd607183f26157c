//! A MariaDB server of a test's own: its data in a temporary directory, a Unix socket and a TCP port.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Stopped and removed when it is dropped.
pub struct Server {
    directory: PathBuf,
    process: Child,
    pub port: u16,
}

/// What a test that cannot find a program says.
const INSTALL: &str = "this test needs MariaDB: apt-get install mariadb-server mariadb-client";

/// The account that the tests log in with over TCP.
pub const USER: &str = "bench";
pub const PASSWORD: &str = "a password";

impl Server {
    /// Starts with a schema `sbtest` and an account that may do everything.
    pub fn start() -> Self {
        let directory = fresh_directory();
        install(&directory);
        let port = free_port();
        let process = launch(&directory, port);
        let server = Self { directory, process, port };
        server.wait_until_it_answers();
        server.query(&format!(
            "CREATE SCHEMA sbtest; CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'; GRANT ALL ON *.* TO {USER}@'%'"
        ));
        server
    }

    /// Kills the process, as a crash does, and starts another on the same data and port.
    pub fn crash_and_restart(&mut self) {
        self.stop();
        self.process = launch(&self.directory, self.port);
        self.wait_until_it_answers();
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.join("server.sock")
    }

    /// A path for a file that goes with the server.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// What the server answers: a line per row, tabs between columns.
    pub fn query(&self, statement: &str) -> String {
        let output = self.client(statement).output().expect(INSTALL);
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// A counter of SHOW GLOBAL STATUS.
    pub fn status(&self, name: &str) -> u64 {
        let line = self.query(&format!("SHOW GLOBAL STATUS LIKE '{name}'"));
        line.split('\t')
            .nth(1)
            .and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("{name}: {line}"))
    }

    fn client(&self, statement: &str) -> Command {
        let mut command = Command::new("mariadb");
        command.args([
            "--no-defaults",
            "--batch",
            "--skip-column-names",
            "--user=root",
            "--execute",
            statement,
        ]);
        command.arg(format!("--socket={}", self.socket().display()));
        command
    }

    fn wait_until_it_answers(&self) {
        // A watchdog of five minutes: a server takes a second or two, on a busy machine ten.
        for _ in 0..3000 {
            let answered = self.client("SELECT 1").stderr(Stdio::null()).stdout(Stdio::null()).status();
            if answered.expect(INSTALL).success() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the server did not start:\n{}", self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("error.log")).unwrap_or_default()
    }

    fn stop(&mut self) {
        // Nobody needs its data afterwards, so there is no need to wait for a clean shutdown.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A port that nobody listens on and no connection gets by itself, also while its server is away: it lies outside of the
/// range that the system chooses from. No two servers of these tests get the same.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let mut bounds = range.split_whitespace().map(|bound| bound.parse::<u16>().unwrap());
    let chosen_by_itself = bounds.next().unwrap()..=bounds.next().unwrap();
    // Other runs of the same tests begin elsewhere.
    let first = std::process::id() * 64;
    loop {
        let offset = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 50_000;
        let port = 10_000 + u16::try_from(offset).unwrap();
        if !chosen_by_itself.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn fresh_directory() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    // Short: a Unix socket's path has 107 bytes.
    let directory = std::env::temp_dir().join(format!("bench-test-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

fn install(directory: &Path) {
    let mut command = Command::new("mariadb-install-db");
    command.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
    command.arg(format!("--datadir={}", directory.join("data").display()));
    // Servers that start remove what they take for left-over files of their kind from a shared temporary directory.
    command.arg(format!("--tmpdir={}", directory.display()));
    let output = as_this_user(&mut command, directory).output().expect(INSTALL);
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

fn launch(directory: &Path, port: u16) -> Child {
    let path = |name: &str| directory.join(name).display().to_string();
    let mut command = Command::new("mariadbd");
    command.args([
        "--no-defaults",
        "--bind-address=127.0.0.1",
        "--skip-name-resolve",
        "--max-connections=500",
    ]);
    // The tests are about statements, not about disks.
    command.args(["--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0"]);
    command.arg(format!("--port={port}"));
    command.arg(format!("--datadir={}", path("data")));
    command.arg(format!("--tmpdir={}", directory.display()));
    command.arg(format!("--socket={}", path("server.sock")));
    command.arg(format!("--pid-file={}", path("pid")));
    command.arg(format!("--log-error={}", path("error.log")));
    as_this_user(&mut command, directory).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect(INSTALL)
}

/// The server refuses to run as root unless it is told to.
fn as_this_user<'a>(command: &'a mut Command, directory: &Path) -> &'a mut Command {
    let is_root = std::fs::metadata(directory).unwrap().uid() == 0;
    if is_root { command.arg("--user=root") } else { command }
}
