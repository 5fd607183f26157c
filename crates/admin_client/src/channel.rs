//! A socket with an end to its waiting, inside TLS or not.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tls::BlockingStream;

use crate::connection::Failure;
use crate::place::{Place, Target};

/// A socket whose reads end at a time, however many there are.
pub(crate) struct Limited {
    socket: Socket,
    deadline: Instant,
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What is left until the deadline: a timeout of zero would mean none.
fn left(deadline: Instant) -> std::io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

impl Limited {
    pub(crate) fn connect(place: &Place, deadline: Instant) -> Result<Self, Failure> {
        Ok(Self { socket: connect(place, deadline)?, deadline })
    }
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = left(self.deadline)?;
        match &mut self.socket {
            Socket::Tcp(tcp) => tcp.set_read_timeout(Some(left)).and_then(|()| tcp.read(buffer)),
            Socket::Unix(unix) => unix.set_read_timeout(Some(left)).and_then(|()| unix.read(buffer)),
        }
    }
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let left = left(self.deadline)?;
        match &mut self.socket {
            Socket::Tcp(tcp) => tcp.set_write_timeout(Some(left)).and_then(|()| tcp.write(bytes)),
            Socket::Unix(unix) => unix.set_write_timeout(Some(left)).and_then(|()| unix.write(bytes)),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) enum Channel {
    Plain(Limited),
    Tls(Box<BlockingStream<Limited>>),
}

impl Channel {
    /// From here on nothing is waited for beyond this.
    pub(crate) fn until(&mut self, deadline: Instant) {
        let limited = match self {
            Self::Plain(limited) => limited,
            Self::Tls(stream) => stream.socket_mut(),
        };
        limited.deadline = deadline;
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let sent = match self {
            Self::Plain(limited) => limited.write_all(bytes),
            Self::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        };
        sent.map_err(|error| lost(&error))
    }

    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        loop {
            let read = match self {
                Self::Plain(limited) => limited.read(buffer),
                Self::Tls(stream) => stream.read(buffer),
            };
            match read {
                Ok(0) => return Err(Failure::Lost(String::from("the admin port closed the connection"))),
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(&error)),
            }
        }
    }
}

fn lost(error: &std::io::Error) -> Failure {
    Failure::Lost(match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => String::from("the admin port does not answer"),
        _ => error.to_string(),
    })
}

fn connect(place: &Place, deadline: Instant) -> Result<Socket, Failure> {
    let names = place.names;
    let (host, port) = match &place.target {
        Target::Tcp(host, port) => (host.as_str(), *port),
        Target::Socket(path) => {
            let failed = |error: std::io::Error| {
                Failure::Lost(format!("{} {}: {error}", names.socket, path.display()))
            };
            return UnixStream::connect(path).map(Socket::Unix).map_err(failed);
        }
    };
    let unknown = |error: std::io::Error| Failure::Lost(format!("{} {host}: {error}", names.host));
    let mut reason = format!("{} {host} has no address", names.host);
    for address in (host, port).to_socket_addrs().map_err(unknown)? {
        let connected = left(deadline).and_then(|left| TcpStream::connect_timeout(&address, left));
        match connected.and_then(|tcp| tcp.set_nodelay(true).map(|()| tcp)) {
            Ok(tcp) => return Ok(Socket::Tcp(tcp)),
            Err(error) => {
                reason = format!("{address}: {error} (is it the Onramp's admin_listen? see {})", names.all);
            }
        }
    }
    Err(Failure::Lost(reason))
}
