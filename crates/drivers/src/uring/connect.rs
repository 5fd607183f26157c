//! Connecting to servers, without waiting.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, connect};
use seam::{Address, ConnectionId, Input, Program};

use super::connection::{Connecting, Connection, Phase};
use super::socket_address::SocketAddress;
use super::{Notice, UringDriver};
use crate::socket_options::{connected_to_itself, tcp_connector, unix_socket};

/// The ports that `connect` chooses from. A connection to one of them may turn out to be to itself.
#[derive(Debug)]
pub(super) struct PortRange(RangeInclusive<u16>);

impl PortRange {
    /// As `net.ipv4.ip_local_port_range` says (ip(7)), which is for IPv6 too; all where it cannot be read.
    pub(super) fn of_this_system() -> Self {
        let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
        Self(parse_range(&text).unwrap_or(0..=u16::MAX))
    }
}

impl UringDriver {
    /// Starts to connect. The answer comes in a later turn, even where it is known at once.
    pub(super) fn connect(&mut self, token: u64, address: &Address) {
        let result = match address {
            Address::Tcp { remote, local } => {
                let is_plain = local.is_some() && !self.capabilities.can_bind;
                let local = local.map(|local| SocketAddr::new(local, 0));
                if is_plain {
                    let socket = tcp_connector(*remote, local.map(|local| local.ip()));
                    socket.and_then(|socket| self.connect_tcp(token, *remote, local, Some(&socket)))
                } else {
                    self.connect_tcp(token, *remote, local, None)
                }
            }
            Address::Unix(path) => SocketAddrUnix::new(path).and_then(|path| self.connect_unix(token, &path)),
        };
        if let Err(errno) = result {
            self.notices.push_back(Notice::ConnectFailed { token, errno: errno.raw_os_error() });
        }
    }

    /// A connect has ended.
    pub(super) fn connected<P: Program>(
        &mut self,
        id: ConnectionId,
        outcome: Result<usize, Errno>,
        program: &mut P,
    ) {
        self.other_request_ended(id);
        let Some(connection) = self.connections.get_mut(id) else { return };
        let Phase::Connecting(connecting) = &connection.phase else { return };
        if outcome.is_ok() && connecting.may_be_itself {
            connection.others += 1;
            return self.rings[usize::from(connection.ring)].install_descriptor(id, connection.file);
        }
        self.settle_connect(id, outcome.map(|_| ()), program);
    }

    /// There is a plain descriptor for a socket, or there is none to be had.
    pub(super) fn installed<P: Program>(
        &mut self,
        id: ConnectionId,
        outcome: Result<usize, Errno>,
        program: &mut P,
    ) {
        self.other_request_ended(id);
        let socket = outcome.map(|descriptor| {
            // SAFETY: the kernel has just made it for us.
            #[allow(unsafe_code, reason = "a descriptor from a completion")]
            unsafe {
                OwnedFd::from_raw_fd(descriptor as i32)
            }
        });
        let Some(connection) = self.connections.get(id) else { return };
        match connection.phase {
            Phase::Connecting(_) => {
                let itself = socket.and_then(|socket| connected_to_itself(socket.as_fd()));
                let outcome = itself.and_then(|itself| if itself { Err(Errno::CONNREFUSED) } else { Ok(()) });
                self.settle_connect(id, outcome, program);
            }
            Phase::Paused { .. } => self.look_at_hang_up(id, socket, program),
            _ => {}
        }
    }

    fn settle_connect<P: Program>(&mut self, id: ConnectionId, outcome: Result<(), Errno>, program: &mut P) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let Phase::Connecting(connecting) = &connection.phase else { return };
        let token = connecting.token;
        match outcome {
            Ok(()) => {
                connection.phase = Phase::Reading;
                self.counters.connects += 1;
                self.list(id);
                self.tell(program, Input::Connected { token, connection: id });
            }
            Err(errno) => {
                self.start_closing(id);
                self.tell(program, Input::ConnectFailed { token, errno: errno.raw_os_error() });
            }
        }
    }

    /// Connects a new socket, or one that is bound already.
    fn connect_tcp(
        &mut self,
        token: u64,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        bound: Option<&OwnedFd>,
    ) -> Result<(), Errno> {
        let (ring, file) = self.place_for(bound.map(AsFd::as_fd))?;
        let connecting = Box::new(Connecting {
            token,
            remote: remote.into(),
            local: local.map(SocketAddress::from).unwrap_or_default(),
            may_be_itself: self.ports.0.contains(&remote.port()),
        });
        let mut connection = Connection::new(ring, file, Phase::Reading);
        connection.others += 1;
        let id = self.connections.insert(connection).expect("there are fewer places in tables than ids");
        let ring = &mut self.rings[usize::from(ring)];
        // SAFETY: the box goes with the phase, which is kept until all requests of the connection have ended.
        #[allow(unsafe_code, reason = "the requests carry pointers")]
        unsafe {
            match bound {
                Some(_) => ring.connect(id, file, &connecting.remote),
                None => ring.open_and_connect(id, file, &connecting),
            }
        }
        let connection = self.connections.get_mut(id).expect("inserted above");
        connection.phase = Phase::Connecting(connecting);
        Ok(())
    }

    /// Connects in calls of its own: a Unix socket connects at once or not at all, and a request would wait where the
    /// listener's backlog is full instead of saying so (EAGAIN, unix(7)).
    fn connect_unix(&mut self, token: u64, address: &SocketAddrUnix) -> Result<(), Errno> {
        let socket = unix_socket()?;
        connect(&socket, address)?;
        let (ring, file) = self.place_for(Some(socket.as_fd()))?;
        let connection = self.connections.insert(Connection::new(ring, file, Phase::Reading));
        let connection = connection.expect("there are fewer places in tables than ids");
        self.counters.connects += 1;
        self.list(connection);
        self.notices.push_back(Notice::Connected { token, connection });
        Ok(())
    }

    /// A place in a table, with a socket in it where there is one already.
    fn place_for(&mut self, socket: Option<BorrowedFd<'_>>) -> Result<(u16, u16), Errno> {
        let (number, file) = self.take_file().map_err(|error| errno_of(&error))?;
        let ring = &mut self.rings[usize::from(number)];
        if let Some(socket) = socket {
            if let Err(error) = ring.install(file, socket) {
                ring.files.give_back(file);
                return Err(errno_of(&error));
            }
        }
        Ok((number, file))
    }
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::NOMEM)
}

fn parse_range(text: &str) -> Option<RangeInclusive<u16>> {
    let mut ports = text.split_whitespace().map(str::parse);
    Some(ports.next()?.ok()?..=ports.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use rustix::net::sockopt;

    use super::*;
    use crate::uring::token::{Request, Token};
    use crate::uring::{Nobody, probe};
    use crate::{ListenAddress, Settings};

    #[test]
    fn accepted_and_connected_sockets_have_their_options() {
        if let Err(reason) = probe() {
            return eprintln!("skipped: {reason}");
        }
        let mut driver = UringDriver::new(Settings::default()).unwrap();
        let any = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        let ListenAddress::Tcp(remote) = driver.listen(&any, 8).unwrap() else { panic!("no TCP") };
        driver.enable_rings().unwrap();
        let local = Some(Ipv4Addr::new(127, 0, 0, 2).into());
        driver.connect(0, &Address::Tcp { remote, local });
        while driver.counters.accepts + driver.counters.connects < 2 {
            driver.prepare();
            driver.wait(Some(Duration::from_millis(1))).unwrap();
            driver.hear(&mut Nobody { signalled: false });
        }
        for id in driver.connections.ids() {
            let connection = driver.connections.get(id).unwrap();
            driver.rings[usize::from(connection.ring)].install_descriptor(id, connection.file);
            let token = u64::from(Token::Connection(Request::Install, id));
            let installed = loop {
                driver.wait(Some(Duration::from_millis(1))).unwrap();
                if let Some(found) = driver.completions.iter().find(|found| found.token == token) {
                    break found.outcome().unwrap();
                }
            };
            // SAFETY: the kernel has just made it for us.
            #[allow(unsafe_code, reason = "a descriptor from a completion")]
            let socket = unsafe { OwnedFd::from_raw_fd(installed as i32) };
            assert!(sockopt::tcp_nodelay(&socket).unwrap());
            assert!(sockopt::socket_keepalive(&socket).unwrap());
        }
    }

    #[test]
    fn port_ranges_are_read() {
        assert_eq!(parse_range("32768\t60999\n"), Some(32_768..=60_999));
        assert_eq!(parse_range(""), None);
        assert_eq!(parse_range("1 70000"), None);
    }
}
