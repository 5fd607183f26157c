//! Finds out whether io_uring can be used here, by using it.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use io_uring::opcode;
use seam::{Address, CloseReason, ConnectionId, Input, Instant, Output, Peer, Program};

use super::UringDriver;
use super::ring::Ring;
use crate::{EchoFault, ListenAddress, ListenSocket, NoUring, Settings};

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
            Some((_, name)) => Err(io::Error::new(io::ErrorKind::Unsupported, NoUring::NoOperation(name))),
            None => Ok(Self { can_bind: probe.is_supported(opcode::Bind::CODE) }),
        }
    }
}

/// Makes a driver that connects to itself over loopback, says a word, hears it echoed, closes, and hears of that.
///
/// # Errors
/// Why io_uring cannot be used.
pub(crate) fn probe() -> Result<(), NoUring> {
    let settings = Settings { connections_per_ring: 8, accepts_per_turn: 2, ..Settings::default() };
    let mut driver = UringDriver::new(settings).map_err(|error| reason(&error))?;
    let any = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
    let listening = |error: io::Error| EchoFault::NoListener(error.to_string());
    let (socket, address) = ListenSocket::open_alone(&any, 1).map_err(listening)?;
    let ListenAddress::Tcp(address) = address else { return Err(EchoFault::UnixSocket.into()) };
    driver.attach(socket).map_err(listening)?;
    let mut program = Echo::new(address);
    driver.run(&mut program).map_err(|error| EchoFault::NoWait(error.to_string()))?;
    program.failure.map_or(Ok(()), |fault| Err(fault.into()))
}

/// Returns the reason that keeps a ring from being made.
pub(crate) fn reason(error: &io::Error) -> NoUring {
    let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok();
    NoUring::of(error, disabled.as_deref().map(str::trim))
}

/// Both ends of the echo.
struct Echo {
    address: SocketAddr,
    steps: Vec<Output<'static>>,
    accepted: Option<ConnectionId>,
    begun: bool,
    deadline: Instant,
    /// The fault, until the end has been heard of.
    failure: Option<EchoFault>,
}

const WORD: &[u8] = b"onramp?";

/// Loopback takes some 50 microseconds; this is for a machine that is busy with something else. Epoll instead of io_uring
/// for as long as the process runs would be worse than a late start.
const PATIENCE: Duration = Duration::from_secs(10);
/// Likewise, for the end: there are kernels on which each start would wait for this.
const PATIENCE_FOR_END: Duration = Duration::from_secs(3);

impl Echo {
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            steps: Vec::new(),
            accepted: None,
            begun: false,
            deadline: Instant::START + PATIENCE,
            failure: Some(EchoFault::NobodyCame),
        }
    }

    fn finish(&mut self, failure: Option<EchoFault>) {
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
                self.failure = Some(EchoFault::NoWord);
            }
            Input::Accepted { peer, .. } => self.finish(Some(EchoFault::OtherPeer(format!("{peer:?}")))),
            Input::Connected { connection, .. } => {
                self.steps.push(Output::Send { connection, bytes: WORD });
            }
            Input::ConnectFailed { errno, .. } => {
                self.finish(Some(EchoFault::NoConnection(errno)));
            }
            Input::Bytes { connection, bytes } if bytes == WORD => {
                if self.accepted == Some(connection) {
                    self.failure = Some(EchoFault::NoAnswer);
                    self.steps.push(Output::Send { connection, bytes: WORD });
                } else {
                    self.failure = Some(EchoFault::NoEnd);
                    self.deadline = now + PATIENCE_FOR_END;
                    self.steps.push(Output::Close { connection });
                }
            }
            // The other end waits for bytes in the same ring meanwhile, as all idle clients do.
            Input::Closed { connection, reason: CloseReason::EndOfStream }
                if self.accepted == Some(connection) && self.failure == Some(EchoFault::NoEnd) =>
            {
                self.finish(None);
            }
            Input::Bytes { bytes, .. } => self.finish(Some(EchoFault::OtherBytes(bytes.len()))),
            Input::Closed { reason, .. } => self.finish(Some(EchoFault::Closed(format!("{reason:?}")))),
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
    fn an_echo_that_is_not_heard_fails() {
        let mut echo = Echo::new(([127, 0, 0, 1], 1).into());
        echo.handle(Instant::START, Input::TurnEnd);
        assert!(matches!(echo.poll_output(), Some(Output::Connect { .. })));
        echo.handle(Instant::START + PATIENCE, Input::TurnEnd);
        assert_eq!(echo.poll_output(), Some(Output::Finished));
        assert_eq!(echo.failure, Some(EchoFault::NobodyCame));
    }

    #[test]
    fn an_end_that_is_not_heard_of_fails() {
        for hears in [true, false] {
            let mut echo = Echo::new(([127, 0, 0, 1], 1).into());
            let [one, other] = [1, 2].map(|index| ConnectionId { index, generation: 1 });
            let (listener, peer) = (seam::ListenerId(0), Peer::Tcp(([127, 0, 0, 1], 2).into()));
            echo.handle(Instant::START, Input::TurnEnd);
            echo.handle(Instant::START, Input::Connected { token: 0, connection: one });
            echo.handle(Instant::START, Input::Accepted { connection: other, listener, peer });
            for connection in [other, one] {
                echo.handle(Instant::START, Input::Bytes { connection, bytes: WORD });
            }
            assert!(!echo.steps.contains(&Output::Finished));
            if hears {
                let reason = CloseReason::EndOfStream;
                echo.handle(Instant::START, Input::Closed { connection: other, reason });
            } else {
                echo.handle(Instant::START + PATIENCE_FOR_END, Input::TurnEnd);
            }
            assert!(echo.steps.contains(&Output::Finished));
            assert_eq!(echo.failure, (!hears).then_some(EchoFault::NoEnd));
        }
    }
}
