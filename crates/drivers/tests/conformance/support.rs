//! What the scenarios share: the driver under test, scripted programs, peers, and a watchdog.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use drivers::{Counters, EpollDriver, ListenAddress, ListenSocket, Settings, Signaller, UringDriver};
use seam::{Address, ConnectionId, Input, Instant, ListenerId, Output, Program, Signal};

/// A driver as the scenarios see it.
pub trait TestDriver: Sized {
    fn create(settings: Settings) -> io::Result<Self>;
    fn attach(&mut self, socket: ListenSocket) -> io::Result<ListenerId>;
    fn signaller(&self) -> Signaller;
    fn run<P: Program>(&mut self, program: &mut P) -> io::Result<()>;
    fn counters(&self) -> Counters;

    /// As [`drivers::Driver::listen`].
    fn listen(&mut self, address: &ListenAddress, backlog: u32) -> io::Result<ListenAddress> {
        let (socket, actual) = ListenSocket::open_alone(address, backlog)?;
        self.attach(socket)?;
        Ok(actual)
    }

    /// False where this machine does not let the driver work, which is then told.
    fn is_available() -> bool {
        true
    }

    /// Each connection takes one of the descriptors that `ulimit -n` limits.
    const TAKES_DESCRIPTORS: bool;

    /// It receives into buffers that its connections share, and has a table for some of them.
    const SHARES_BUFFERS: bool = !Self::TAKES_DESCRIPTORS;
}

/// What both drivers have by these names.
macro_rules! forwarded {
    () => {
        fn create(settings: Settings) -> io::Result<Self> {
            Self::new(settings)
        }

        fn attach(&mut self, socket: ListenSocket) -> io::Result<ListenerId> {
            self.attach(socket)
        }

        fn signaller(&self) -> Signaller {
            self.signaller().unwrap()
        }

        fn run<P: Program>(&mut self, program: &mut P) -> io::Result<()> {
            self.run(program)
        }

        fn counters(&self) -> Counters {
            self.counters()
        }
    };
}

impl TestDriver for UringDriver {
    const TAKES_DESCRIPTORS: bool = false;

    fn is_available() -> bool {
        let probed = drivers::probe_uring();
        if let Err(reason) = &probed {
            static TOLD: Once = Once::new();
            TOLD.call_once(|| tell_what_is_not_tested(&format!("io_uring: {reason}")));
        }
        probed.is_ok()
    }

    forwarded!();
}

impl TestDriver for EpollDriver {
    const TAKES_DESCRIPTORS: bool = true;

    forwarded!();
}

/// Says so where it is seen although the tests pass, and in the file that `NOT_TESTED` names, of which `.ci/run` tells at its end.
fn tell_what_is_not_tested(what: &str) {
    // Not by a macro, whose output is kept back where a test passes.
    io::stderr().write_all(format!("NOT TESTED: {what}\n").as_bytes()).unwrap();
    if let Some(path) = std::env::var_os("NOT_TESTED") {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(format!("{what}\n").as_bytes()).unwrap();
    }
}

/// A driver with the default settings that listens on a port of 127.0.0.1.
pub fn listening<D: TestDriver>() -> (D, SocketAddr) {
    listening_with(Settings::default())
}

/// A driver that listens on a port of 127.0.0.1.
pub fn listening_with<D: TestDriver>(settings: Settings) -> (D, SocketAddr) {
    let mut driver = D::create(settings).unwrap();
    let address = listen_tcp(&mut driver, (Ipv4Addr::LOCALHOST, 0).into());
    (driver, address)
}

pub fn listen_tcp<D: TestDriver>(driver: &mut D, address: SocketAddr) -> SocketAddr {
    match driver.listen(&ListenAddress::Tcp(address), BACKLOG).unwrap() {
        ListenAddress::Tcp(actual) => actual,
        ListenAddress::Unix(path) => panic!("a TCP listener on {}", path.display()),
    }
}

/// A driver that listens on a Unix socket.
pub fn listening_on_unix<D: TestDriver>(settings: Settings) -> (D, TemporaryPath) {
    let mut driver = D::create(settings).unwrap();
    let path = TemporaryPath::new();
    driver.listen(&ListenAddress::Unix(path.to_owned()), BACKLOG).unwrap();
    (driver, path)
}

/// Room for all peers of a scenario to connect before the driver runs.
pub const BACKLOG: u32 = 128;

/// Runs `react` as a program, until it finishes.
pub fn run<D: TestDriver>(driver: &mut D, react: impl FnMut(Instant, Input<'_>, &mut Controls)) {
    driver.run(&mut Script::new(react)).unwrap();
}

/// Runs `react` as a program on this thread and `peer` on another. A peer that panics ends the program.
pub fn run_with_peer<D: TestDriver, T: Send>(
    driver: &mut D,
    react: impl FnMut(Instant, Input<'_>, &mut Controls),
    peer: impl FnOnce(Signaller) -> T + Send,
) -> T {
    let signaller = driver.signaller();
    thread::scope(|scope| {
        let peer = scope.spawn(move || {
            let _stop = StopOnPanic(signaller.clone());
            peer(signaller)
        });
        run(driver, react);
        peer.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Asks for the counters and waits until the program, which passes it on to `reported`, has heard of it.
pub fn report(signaller: &Signaller, reported: &mpsc::Receiver<()>) -> Counters {
    signaller.send(Signal::Report);
    reported.recv().unwrap();
    signaller.counters()
}

/// What a script can ask for. Everything is carried out after the turn.
#[derive(Default)]
pub struct Controls {
    steps: VecDeque<Step>,
    wake_at: Option<Instant>,
}

impl Controls {
    pub fn connect(&mut self, token: u64, address: Address) {
        self.steps.push_back(Step::Connect { token, address });
    }

    pub fn send(&mut self, connection: ConnectionId, bytes: impl Into<Vec<u8>>) {
        self.steps.push_back(Step::Send { connection, bytes: bytes.into() });
    }

    pub fn close(&mut self, connection: ConnectionId) {
        self.steps.push_back(Step::Close { connection });
    }

    pub fn abort(&mut self, connection: ConnectionId) {
        self.steps.push_back(Step::Abort { connection });
    }

    pub fn pause(&mut self, connection: ConnectionId) {
        self.steps.push_back(Step::Pause { connection });
    }

    pub fn resume(&mut self, connection: ConnectionId) {
        self.steps.push_back(Step::Resume { connection });
    }

    pub fn stop_listening(&mut self) {
        self.steps.push_back(Step::StopListening);
    }

    pub fn finish(&mut self) {
        self.steps.push_back(Step::Finish);
    }

    /// Sets or takes back what `next_timeout` says.
    pub fn wake_at(&mut self, at: Option<Instant>) {
        self.wake_at = at;
    }
}

enum Step {
    Connect { token: u64, address: Address },
    Send { connection: ConnectionId, bytes: Vec<u8> },
    Close { connection: ConnectionId },
    Abort { connection: ConnectionId },
    Pause { connection: ConnectionId },
    Resume { connection: ConnectionId },
    StopListening,
    Finish,
}

/// A program that asks a closure. It holds every driver to what is true of all inputs: time never runs backwards, and
/// `Bytes` are never empty. [`Signal::Stop`] ends it.
struct Script<R> {
    react: R,
    controls: Controls,
    /// The step under way, which the driver borrows from.
    current: Option<Step>,
    last: Instant,
}

impl<R: FnMut(Instant, Input<'_>, &mut Controls)> Script<R> {
    fn new(react: R) -> Self {
        Self { react, controls: Controls::default(), current: None, last: Instant::START }
    }
}

impl<R: FnMut(Instant, Input<'_>, &mut Controls)> Program for Script<R> {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        assert!(now >= self.last, "time ran backwards from {:?} to {now:?}", self.last);
        self.last = now;
        match input {
            Input::Bytes { bytes, .. } => assert!(!bytes.is_empty(), "empty bytes"),
            Input::Signal(Signal::Stop) => self.controls.finish(),
            _ => {}
        }
        (self.react)(now, input, &mut self.controls);
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        self.current = self.controls.steps.pop_front();
        Some(match self.current.as_ref()? {
            Step::Connect { token, address } => Output::Connect { token: *token, address: address.clone() },
            Step::Send { connection, bytes } => Output::Send { connection: *connection, bytes },
            Step::Close { connection } => Output::Close { connection: *connection },
            Step::Abort { connection } => Output::Abort { connection: *connection },
            Step::Pause { connection } => Output::PauseReading { connection: *connection },
            Step::Resume { connection } => Output::ResumeReading { connection: *connection },
            Step::StopListening => Output::StopListening,
            Step::Finish => Output::Finished,
        })
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.controls.wake_at
    }
}

/// Bytes that show where they were in the stream: position by position another, repeating only after 16 MiB.
pub fn pattern(from: usize, length: usize) -> Vec<u8> {
    (from..from + length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

/// Reads to the end of the stream, then compares with [`pattern`] from 0. Returns how much there was.
pub fn read_pattern(peer: &mut impl Read) -> usize {
    let mut all = Vec::new();
    // Compared afterwards: a peer that computes while it reads is a slow one, and closing does not wait for long.
    peer.read_to_end(&mut all).unwrap();
    assert_pattern(0, &all);
    all.len()
}

/// Compares with [`pattern`].
pub fn assert_pattern(from: usize, bytes: &[u8]) {
    const PIECE: usize = 64 << 10;
    for (at, piece) in (from..).step_by(PIECE).zip(bytes.chunks(PIECE)) {
        assert!(piece == pattern(at, piece.len()), "other bytes than sent near {at}");
    }
}

/// Makes the drop of a TCP stream a reset.
pub fn reset_on_drop(peer: &std::net::TcpStream) {
    rustix::net::sockopt::set_socket_linger(peer, Some(Duration::ZERO)).unwrap();
}

/// A path that nobody else uses, whose file is removed in the end.
pub struct TemporaryPath(PathBuf);

impl TemporaryPath {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("drivers-conformance-{}-{count}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl std::ops::Deref for TemporaryPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Ends the process if a test hangs. Says nothing about speed: no scenario needs a tenth of the time.
pub struct Watchdog {
    _finished: mpsc::Sender<()>,
}

impl Watchdog {
    pub fn start() -> Self {
        let (finished, is_finished) = mpsc::channel();
        let test = thread::current().name().unwrap_or("a test").to_owned();
        thread::spawn(move || {
            if is_finished.recv_timeout(Duration::from_secs(300)) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("{test} hangs");
                std::process::abort();
            }
        });
        Self { _finished: finished }
    }
}

/// Runs `scenario` alone in a process: this test binary again, with only the test `name`.
pub fn in_own_process(name: &str, scenario: fn()) {
    const MARK: &str = "DRIVERS_CONFORMANCE_APART";
    if std::env::var_os(MARK).is_some() {
        return scenario();
    }
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(MARK, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{name} failed in its own process: {status}");
}

struct StopOnPanic(Signaller);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.send(Signal::Stop);
        }
    }
}
