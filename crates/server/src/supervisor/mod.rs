//! The supervisor that has started us: systemd, or whatever else speaks its protocol (sd_notify(3)). It is told how we stand, on a
//! socket that `NOTIFY_SOCKET` names, and may hand over sockets to listen on.
//!
//! The protocol is a datagram of lines, so it is written here. The library for it (sd-notify) sends to no abstract socket, and takes
//! the variables out of the environment by unsafe code. They stay where they are; the private server is started without them.

mod sockets;
mod watch;

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub(crate) use sockets::{Addresses, Sockets};
pub(crate) use watch::watch;

/// A path, or `@` and a name that no file has.
const SOCKET: &str = "NOTIFY_SOCKET";
/// How often it wants to hear of us, in microseconds.
const WATCHDOG: &str = "WATCHDOG_USEC";
/// For whom that is.
const WATCHDOG_PROCESS: &str = "WATCHDOG_PID";

/// A supervisor that does not read is given up on after this long, message by message. It reads within milliseconds, but for a moment
/// when it starts itself anew.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Whoever has started us, if they want to be told.
#[derive(Clone, Default)]
pub(crate) struct Supervisor {
    line: Option<Arc<Line>>,
    /// Within this time it wants to hear that we are alive.
    watchdog: Option<Duration>,
}

struct Line {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Supervisor {
    /// The one that the environment names. One that cannot be told anything is a warning: whether that matters is its own affair.
    pub(crate) fn of_environment() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let Some(name) = variable(SOCKET) else { return Self::default() };
        let line = match Line::open(name.as_bytes()) {
            Ok(line) => Some(Arc::new(line)),
            Err(error) => {
                tracing::warn!(
                    "nobody can be told that this serves: {SOCKET} ({}): {error}",
                    name.to_string_lossy()
                );
                None
            }
        };
        let number = |name| variable(name)?.into_string().ok()?.parse().ok();
        let process = std::process::id();
        let for_us = number(WATCHDOG_PROCESS).is_none_or(|other: u64| other == u64::from(process));
        let watchdog = number(WATCHDOG).filter(|_| for_us).map(Duration::from_micros);
        Self { line, watchdog }
    }

    /// It serves, or serves again.
    pub(crate) fn ready(&self) {
        self.tell("READY=1");
    }

    /// Files are being read again. The time tells this from what was asked for earlier.
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let microseconds = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
    }

    /// It ends, which takes so long at most: the supervisor's own patience may be shorter.
    pub(crate) fn stopping(&self, longest: Duration) {
        let microseconds = longest.as_micros();
        self.tell(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={microseconds}"));
    }

    /// How it stands, for people.
    pub(crate) fn status(&self, text: &str) {
        self.tell(&status_line(text));
    }

    fn tell(&self, message: &str) {
        let Some(line) = &self.line else { return };
        if let Err(error) = line.socket.send_to_addr(message.as_bytes(), &line.address) {
            tracing::warn!("the supervisor cannot be told that {}: {error}", message.replace('\n', ", "));
        }
    }
}

/// A status is one line.
fn status_line(text: &str) -> String {
    format!("STATUS={}", text.replace('\n', " "))
}

impl Line {
    fn open(name: &[u8]) -> io::Result<Self> {
        let address = match name {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))?,
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "a path that begins with / or a name that begins with @ is wanted",
                ));
            }
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(SEND_TIMEOUT))?;
        // Not connected: it may have bound its socket anew by the next message.
        Ok(Self { socket, address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &[u8], socket: &UnixDatagram) -> String {
        let supervisor = Supervisor { line: Some(Arc::new(Line::open(name).unwrap())), watchdog: None };
        supervisor.stopping(Duration::from_secs(2));
        let mut bytes = [0; 100];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[test]
    fn abstract_sockets_and_paths_are_written_to() {
        let expected = "STOPPING=1\nEXTEND_TIMEOUT_USEC=2000000";
        let name = format!("onramp-supervisor-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        assert_eq!(told(format!("@{name}").as_bytes(), &socket), expected);
        let path = std::env::temp_dir().join(&name);
        let socket = UnixDatagram::bind(&path).unwrap();
        assert_eq!(told(path.as_os_str().as_bytes(), &socket), expected);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn other_kinds_of_addresses_are_refused() {
        for name in ["vsock:2:1234", "relative", ""] {
            assert!(Line::open(name.as_bytes()).is_err(), "{name}");
        }
    }

    #[test]
    fn a_status_is_one_line() {
        assert_eq!(status_line("a\nREADY=1"), "STATUS=a READY=1");
    }
}
