//! Listening sockets, opened before the drivers that accept on them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::net::{bind, getsockname, listen, sockopt};

use crate::ListenAddress;
use crate::socket_options::{listen_backlog, tcp_listener};
use crate::unix_listener::{SocketFile, unix_listener};

/// One driver's share of a listening address.
#[derive(Debug)]
pub struct ListenSocket {
    /// Dropped before the socket: while we listen nobody can take the file for stale and put another in its place.
    kind: Kind,
    socket: OwnedFd,
}

#[derive(Debug)]
enum Kind {
    Tcp {
        /// The socket is others' as well: of this process, or of the one that has handed it over.
        shared: bool,
    },
    Unix {
        /// Held for its drop, which is the last share's. Without one, whoever has handed the socket over sees to it.
        _file: Option<Arc<SocketFile>>,
    },
}

impl ListenSocket {
    /// Listens on `address` with `shares` sockets, from 1, one for each driver that accepts there. `backlog` is how many
    /// connections may wait at each to be accepted; the system's own limit (`net.core.somaxconn`) is silently applied.
    /// Returns the address with the port that the system chose where it was 0.
    ///
    /// On TCP the kernel deals out new connections among the shares (`SO_REUSEPORT`, socket(7)); shares of a Unix socket
    /// are one queue.
    ///
    /// # Errors
    /// `AddrInUse` where somebody listens there already; `InvalidInput` for no shares; otherwise what the system says.
    pub fn open(
        address: &ListenAddress,
        backlog: u32,
        shares: usize,
    ) -> io::Result<(Vec<Self>, ListenAddress)> {
        if shares == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "shares must be at least 1"));
        }
        match address {
            ListenAddress::Tcp(address) => {
                let (sockets, actual) = tcp_shares_with_any_luck(*address, backlog, shares)?;
                Ok((sockets, ListenAddress::Tcp(actual)))
            }
            ListenAddress::Unix(path) => Ok((unix_shares(path, backlog, shares)?, address.clone())),
        }
    }

    /// The same with one socket, for the only driver that accepts there.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_alone(address: &ListenAddress, backlog: u32) -> io::Result<(Self, ListenAddress)> {
        let (mut shares, actual) = Self::open(address, backlog, 1)?;
        Ok((shares.pop().expect("there are as many as were asked for"), actual))
    }

    /// One that was handed over.
    pub(crate) fn inherited(socket: OwnedFd, is_unix: bool) -> Self {
        let kind = if is_unix { Kind::Unix { _file: None } } else { Kind::Tcp { shared: true } };
        Self { kind, socket }
    }

    /// True where others accept at this socket, or will: it must not be shut down.
    pub(crate) fn is_shared(&self) -> bool {
        !matches!(self.kind, Kind::Tcp { shared: false })
    }

    /// True for a Unix socket.
    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.kind, Kind::Unix { .. })
    }
}

impl AsFd for ListenSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// With port 0 the system may choose one that somebody else has chosen and not listened on yet; who listens first has it
/// (`SO_REUSEADDR`, socket(7)). Then another is tried.
fn tcp_shares_with_any_luck(
    address: SocketAddr,
    backlog: u32,
    shares: usize,
) -> io::Result<(Vec<ListenSocket>, SocketAddr)> {
    // Losing such a race is rare; losing eight in a row means that there is no port.
    const TRIES: usize = 8;
    let tries = if address.port() == 0 { TRIES } else { 1 };
    let mut result = tcp_shares(address, backlog, shares);
    for _ in 1..tries {
        match &result {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                result = tcp_shares(address, backlog, shares);
            }
            _ => break,
        }
    }
    result
}

/// The first socket is bound without `SO_REUSEPORT`, so that a port which another process shares is refused as any
/// other that is taken; it shares only afterwards. All are bound before one listens, or the first would be given
/// connections that the others' options do not apply to.
fn tcp_shares(
    address: SocketAddr,
    backlog: u32,
    shares: usize,
) -> io::Result<(Vec<ListenSocket>, SocketAddr)> {
    let first = tcp_listener(address)?;
    bind(&first, &address)?;
    let actual = SocketAddr::try_from(getsockname(&first)?)?;
    let mut sockets = vec![first];
    if shares > 1 {
        sockopt::set_socket_reuseport(&sockets[0], true)?;
        for _ in 1..shares {
            let socket = tcp_listener(address)?;
            sockopt::set_socket_reuseport(&socket, true)?;
            bind(&socket, &actual)?;
            sockets.push(socket);
        }
    }
    for socket in &sockets {
        listen(socket, listen_backlog(backlog))?;
    }
    let sockets =
        sockets.into_iter().map(|socket| ListenSocket { kind: Kind::Tcp { shared: false }, socket });
    Ok((sockets.collect(), actual))
}

fn unix_shares(path: &Path, backlog: u32, shares: usize) -> io::Result<Vec<ListenSocket>> {
    let (socket, file) = unix_listener(path, backlog)?;
    let file = Arc::new(file);
    let share = |socket| ListenSocket { kind: Kind::Unix { _file: Some(Arc::clone(&file)) }, socket };
    let mut sockets = Vec::with_capacity(shares);
    for _ in 1..shares {
        sockets.push(share(socket.try_clone()?));
    }
    sockets.push(share(socket));
    Ok(sockets)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpStream};
    use std::os::unix::net::UnixStream;

    use rustix::net::accept;

    use super::*;

    #[test]
    fn shares_of_a_port_take_turns() {
        let any = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        let (shares, actual) = ListenSocket::open(&any, 128, 2).unwrap();
        let ListenAddress::Tcp(address) = actual else { panic!("{actual}") };
        // The kernel chooses by a hash of the peer's port: all 64 at one share happens once in 2^63 runs.
        let _peers: Vec<_> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
        for share in &shares {
            accept(share).unwrap();
        }
    }

    #[test]
    fn a_port_that_is_taken_is_refused_shared_or_not() {
        let any = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        for shares in [1, 2] {
            let (_taken, actual) = ListenSocket::open(&any, 128, shares).unwrap();
            for shares in [1, 2] {
                let error = ListenSocket::open(&actual, 128, shares).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
            }
        }
    }

    #[test]
    fn the_file_of_a_unix_socket_goes_with_the_last_share() {
        let path = std::env::temp_dir().join(format!("drivers-shares-{}", std::process::id()));
        let (mut shares, _) = ListenSocket::open(&ListenAddress::Unix(path.clone()), 128, 2).unwrap();
        let _peer = UnixStream::connect(&path).unwrap();
        shares.pop();
        accept(&shares[0]).unwrap();
        assert!(path.exists());
        shares.pop();
        assert!(!path.exists());
    }

    #[test]
    fn no_shares_are_refused() {
        let any = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        assert_eq!(ListenSocket::open(&any, 128, 0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
