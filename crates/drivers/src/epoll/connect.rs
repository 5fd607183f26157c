//! Connecting to servers, without waiting.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, connect, sockopt};
use seam::{Address, ConnectionId, HOST_NOT_FOUND, Input, Program};

use super::connection::{Connection, Phase};
use super::{EpollDriver, Notice};
use crate::socket_options::{connected_to_itself, tcp_connector, unix_socket};

impl EpollDriver {
    /// Starts to connect. The answer comes in a later turn, even where it is known at once.
    pub(super) fn connect(&mut self, token: u64, address: &Address) {
        if let Err(errno) = self.start_connecting(token, address) {
            self.notices.push_back(Notice::ConnectFailed { token, errno });
        }
    }

    /// The socket has become writable: the connection stands, or there is an error to fetch.
    pub(super) fn finish_connecting<P: Program>(&mut self, id: ConnectionId, token: u64, program: &mut P) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let result = outcome(connection).and_then(|()| {
            connection.phase = Phase::Reading;
            connection.watch(&self.epoll, id)
        });
        match result {
            Ok(()) => {
                self.counters.connects += 1;
                program.handle(self.now, Input::Connected { token, connection: id });
            }
            Err(errno) => {
                self.connections.remove(id);
                program.handle(self.now, Input::ConnectFailed { token, errno: errno.raw_os_error() });
            }
        }
    }

    fn start_connecting(&mut self, token: u64, address: &Address) -> Result<(), Errno> {
        let (socket, started) = start(address)?;
        let phase = match started {
            Ok(()) => Phase::Reading,
            // Interrupted or not, a non-blocking connect goes on by itself (connect(2)).
            Err(Errno::INPROGRESS | Errno::INTR) => Phase::Connecting { token },
            // EAGAIN is a Unix listener with a full backlog; there is no way to be told when it has room (unix(7)).
            Err(errno) => return Err(errno),
        };
        let id = self.connections.insert(Connection::new(socket, phase)).map_err(|_| Errno::MFILE)?;
        let connection = self.connections.get_mut(id).expect("inserted above");
        if let Err(errno) = connection.watch(&self.epoll, id) {
            self.connections.remove(id);
            return Err(errno);
        }
        if phase == Phase::Reading {
            self.counters.connects += 1;
            self.notices.push_back(Notice::Connected { token, connection: id });
        }
        Ok(())
    }
}

/// A socket, and what `connect` said.
fn start(address: &Address) -> Result<(OwnedFd, Result<(), Errno>), Errno> {
    match address {
        Address::Tcp { remote, local } => {
            let socket = tcp_connector(*remote, *local)?;
            let started = connect(&socket, remote);
            Ok((socket, started))
        }
        Address::Unix(path) => {
            let address = SocketAddrUnix::new(path)?;
            let socket = unix_socket()?;
            let started = connect(&socket, &address);
            Ok((socket, started))
        }
        Address::NotFound { .. } => Err(Errno::from_raw_os_error(HOST_NOT_FOUND)),
    }
}

/// How a `connect` that was under way ended. Only TCP gets here: Unix sockets connect at once or not at all.
fn outcome(connection: &Connection) -> Result<(), Errno> {
    sockopt::socket_error(&connection.socket)??;
    if connected_to_itself(connection.socket.as_fd())? { Err(Errno::CONNREFUSED) } else { Ok(()) }
}
