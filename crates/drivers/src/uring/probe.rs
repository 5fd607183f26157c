//! Finds out whether io_uring can be used here, by using it.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use io_uring::opcode;
use rustix::io::Errno;
use seam::{Address, ConnectionId, Input, Instant, Output, Peer, Program};

use super::UringDriver;
use super::ring::Ring;
use crate::{ListenAddress, ListenSocket, Settings};

/// The abilities that not every kernel with the rest has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capabilities {
    /// To bind a direct descriptor (Linux 6.11). Without, a socket with a local address is made as a plain one first.
    pub(super) can_bind: bool,
}

/// Operations that there is no driver without, by their names in the manual.
const NEEDED: [(u8, &str); 12] = [
    (opcode::Accept::CODE, "ACCEPT"),
    (opcode::AsyncCancel::CODE, "ASYNC_CANCEL"),
    (opcode::Close::CODE, "CLOSE"),
    (opcode::Connect::CODE, "CONNECT"),
    // Not used: what is, GETSOCKOPT and the like, cannot be looked up, and is older.
    (opcode::FixedFdInstall::CODE, "FIXED_FD_INSTALL"),
    (opcode::PollAdd::CODE, "POLL_ADD"),
    (opcode::Read::CODE, "READ"),
    (opcode::Recv::CODE, "RECV"),
    (opcode::Send::CODE, "SEND"),
    (opcode::SetSockOpt::CODE, "URING_CMD"),
    (opcode::Shutdown::CODE, "SHUTDOWN"),
    (opcode::Socket::CODE, "SOCKET"),
];

impl Capabilities {
    /// # Errors
    /// `Unsupported`, naming the first operation that is missing.
    pub(super) fn of(ring: &Ring) -> io::Result<Self> {
        let probe = ring.probe()?;
        match NEEDED.iter().find(|(code, _)| !probe.is_supported(*code)) {
            Some((_, name)) => {
                let fault = format!("io_uring lacks the operation {name} in this kernel; {OLDEST_KERNEL}");
                Err(io::Error::new(io::ErrorKind::Unsupported, fault))
            }
            None => Ok(Self { can_bind: probe.is_supported(opcode::Bind::CODE) }),
        }
    }
}

/// The kernel that `FIXED_FD_INSTALL` came with; the other needs came with Linux 6.7 at the latest.
const OLDEST_KERNEL: &str = "Linux 6.8 and later have all that is needed";

/// Makes a driver that connects to itself over loopback, says a word, hears it echoed, and closes.
///
/// # Errors
/// Why io_uring cannot be used, as one sentence without a full stop.
pub(crate) fn probe() -> Result<(), String> {
    let settings = Settings { connections_per_ring: 8, accepts_per_turn: 2, ..Settings::default() };
    let mut driver = UringDriver::new(settings).map_err(|error| reason(&error))?;
    let any = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
    let echo = "io_uring was tried with an echo over 127.0.0.1 and";
    let listening = |error: io::Error| format!("{echo} could not listen: {error}");
    let (socket, address) = ListenSocket::open_alone(&any, 1).map_err(listening)?;
    let ListenAddress::Tcp(address) = address else { return Err(format!("{echo} got a Unix socket")) };
    driver.attach(socket).map_err(listening)?;
    let mut program = Echo::new(address);
    driver.run(&mut program).map_err(|error| format!("{echo} failed while waiting: {error}"))?;
    match program.failure {
        Some(failure) => Err(format!("{echo} failed: {failure}")),
        None => Ok(()),
    }
}

/// Returns the reason that keeps a ring from being made, as one sentence without a full stop.
pub(crate) fn reason(error: &io::Error) -> String {
    let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok();
    match Errno::from_io_error(error) {
        Some(errno) => reason_of(errno, disabled.as_deref().map(str::trim)),
        None => error.to_string(),
    }
}

/// `disabled` is `kernel.io_uring_disabled` (Documentation/admin-guide/sysctl/kernel.rst), where there is such a thing.
fn reason_of(errno: Errno, disabled: Option<&str>) -> String {
    match (errno, disabled) {
        (Errno::PERM, Some("2")) => {
            "io_uring is switched off (sysctl kernel.io_uring_disabled=2; 0 allows it)".to_owned()
        }
        (Errno::PERM, Some("1")) => {
            "io_uring is for privileged processes only (sysctl kernel.io_uring_disabled=1; \
            join the group kernel.io_uring_group, or set it to 0)"
                .to_owned()
        }
        (Errno::PERM | Errno::ACCESS, _) => {
            "io_uring is forbidden by a system-call filter, as containers have one \
            (seccomp; Docker: --security-opt seccomp=...)"
                .to_owned()
        }
        (Errno::NOSYS, _) => {
            format!("this kernel has no io_uring, or a system-call filter hides it; {OLDEST_KERNEL}")
        }
        (Errno::INVAL, _) => {
            format!("this kernel's io_uring is too old for the ring that is needed; {OLDEST_KERNEL}")
        }
        (Errno::NOMEM, _) => {
            "io_uring found no memory for a ring that it may lock (ulimit -l, LimitMEMLOCK of \
            systemd, or the memory limit of the container)"
                .to_owned()
        }
        (Errno::MFILE | Errno::NFILE, _) => {
            "there is no file descriptor left for a ring of io_uring (ulimit -n)".to_owned()
        }
        (errno, _) => format!("io_uring cannot be set up: {errno}"),
    }
}

/// Both ends of the echo.
struct Echo {
    address: SocketAddr,
    steps: Vec<Output<'static>>,
    accepted: Option<ConnectionId>,
    begun: bool,
    deadline: Instant,
    /// The fault, until the echo has been heard.
    failure: Option<String>,
}

const WORD: &[u8] = b"onramp?";

/// Loopback takes some 50 microseconds; this is for a machine that is busy with something else. Epoll instead of io_uring
/// for as long as the process runs would be worse than a late start.
const PATIENCE: Duration = Duration::from_secs(10);

impl Echo {
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            steps: Vec::new(),
            accepted: None,
            begun: false,
            deadline: Instant::START + PATIENCE,
            failure: Some("nobody came in".to_owned()),
        }
    }

    fn finish(&mut self, failure: Option<String>) {
        self.failure = failure;
        self.steps = vec![Output::Finished];
    }
}

impl Program for Echo {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::TurnEnd if !self.begun => {
                self.begun = true;
                let address = Address::Tcp { remote: self.address, local: None };
                self.steps.push(Output::Connect { token: 0, address });
            }
            Input::TurnEnd if now >= self.deadline => self.steps.push(Output::Finished),
            Input::Accepted { connection, peer: Peer::Tcp(peer), .. } if peer.ip().is_loopback() => {
                self.accepted = Some(connection);
                self.failure = Some("no word came in".to_owned());
            }
            Input::Accepted { peer, .. } => self.finish(Some(format!("the peer was {peer:?}"))),
            Input::Connected { connection, .. } => {
                self.steps.push(Output::Send { connection, bytes: WORD });
            }
            Input::ConnectFailed { errno, .. } => {
                self.finish(Some(format!("connecting: {}", Errno::from_raw_os_error(errno))));
            }
            Input::Bytes { connection, bytes } if bytes == WORD => {
                if self.accepted == Some(connection) {
                    self.failure = Some("no echo came back".to_owned());
                    self.steps.push(Output::Send { connection, bytes: WORD });
                } else {
                    self.steps.push(Output::Close { connection });
                    self.finish(None);
                }
            }
            Input::Bytes { bytes, .. } => self.finish(Some(format!("{} other bytes came in", bytes.len()))),
            Input::Closed { reason, .. } => self.finish(Some(format!("closed: {reason:?}"))),
            _ => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        if self.steps.is_empty() { None } else { Some(self.steps.remove(0)) }
    }

    fn next_timeout(&self) -> Option<Instant> {
        Some(self.deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_name_what_an_operator_can_change() {
        assert!(reason_of(Errno::PERM, Some("2")).contains("kernel.io_uring_disabled=2"));
        assert!(reason_of(Errno::PERM, Some("1")).contains("kernel.io_uring_group"));
        assert!(reason_of(Errno::PERM, Some("0")).contains("seccomp"));
        assert!(reason_of(Errno::PERM, None).contains("seccomp"));
        assert!(reason_of(Errno::NOSYS, None).contains("6.8"));
        assert!(reason_of(Errno::NOMEM, Some("0")).contains("ulimit -l"));
        assert!(reason_of(Errno::MFILE, Some("0")).contains("ulimit -n"));
    }

    #[test]
    fn an_echo_that_is_not_heard_fails() {
        let mut echo = Echo::new(([127, 0, 0, 1], 1).into());
        echo.handle(Instant::START, Input::TurnEnd);
        assert!(matches!(echo.poll_output(), Some(Output::Connect { .. })));
        echo.handle(Instant::START + PATIENCE, Input::TurnEnd);
        assert_eq!(echo.poll_output(), Some(Output::Finished));
        assert_eq!(echo.failure.as_deref(), Some("nobody came in"));
    }
}
