//! Connecting to servers, without waiting.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, connect};
use seam::{Address, ConnectionId, HOST_NOT_FOUND, Input, Program};

use super::connection::{Connecting, Connection, Phase};
use super::socket_address::SocketAddress;
use super::{Notice, UringDriver};
use crate::socket_options::{set_local_port_range, tcp_connector, unix_socket};

/// The ports that `connect` chooses from. A connection to one of them may turn out to be to itself, which only a plain
/// descriptor could tell: so the remote port is kept from being chosen.
#[derive(Debug)]
pub(super) struct PortRange(RangeInclusive<u16>);

impl PortRange {
    /// As `net.ipv4.ip_local_port_range` says (ip(7)), which is for IPv6 too; the usual ones where it cannot be read.
    pub(super) fn of_this_system() -> Self {
        let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
        Self(parse_range(&text).unwrap_or(USUAL))
    }

    /// For a port out of the range, those on that side of it that has more of them, as `IP_LOCAL_PORT_RANGE` takes them
    /// (ip(7)): the lowest, and the highest times 65,536, where 0 is that of the system.
    fn without(&self, port: u16) -> Option<u32> {
        let (lowest, highest) = (*self.0.start(), *self.0.end());
        if !self.0.contains(&port) || lowest == highest {
            return None;
        }
        let is_above = highest - port >= port - lowest;
        Some(if is_above { u32::from(port) + 1 } else { (u32::from(port) - 1) << 16 })
    }
}

/// The range that Linux begins with (inet_init_net in net/ipv4/af_inet.c).
const USUAL: RangeInclusive<u16> = 32_768..=60_999;

impl UringDriver {
    /// Starts to connect. The answer comes in a later turn, even where it is known at once.
    pub(super) fn connect(&mut self, token: u64, address: &Address) {
        let result = match address {
            Address::Tcp { remote, local } => {
                let is_plain = local.is_some() && !self.capabilities.can_bind;
                let local = local.map(|local| SocketAddr::new(local, 0));
                if is_plain {
                    let socket = tcp_connector(*remote, local.map(|local| local.ip()));
                    socket.and_then(|socket| {
                        if let Some(ports) = self.ports.without(remote.port()) {
                            set_local_port_range(socket.as_fd(), ports)?;
                        }
                        self.connect_tcp(token, *remote, local, Some(&socket))
                    })
                } else {
                    self.connect_tcp(token, *remote, local, None)
                }
            }
            Address::Unix(path) => SocketAddrUnix::new(path).and_then(|path| self.connect_unix(token, &path)),
            Address::NotFound { .. } => Err(Errno::from_raw_os_error(HOST_NOT_FOUND)),
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
        let token = connecting.token;
        match outcome {
            Ok(_) => {
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
            ports: self.ports.without(remote.port()),
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
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::os::fd::{AsRawFd, FromRawFd};
    use std::time::Duration;

    use io_uring::opcode::FixedFdInstall;
    use io_uring::types::Fixed;
    use rustix::net::sockopt;

    use super::*;
    use crate::socket_options::IP_LOCAL_PORT_RANGE;
    use crate::uring::{Nobody, probe};
    use crate::{ListenAddress, ListenSocket, Settings};

    #[test]
    fn accepted_and_connected_sockets_have_their_options() {
        if let Err(reason) = probe() {
            return eprintln!("skipped: {reason}");
        }
        for (address, local, can_bind) in [
            (IpAddr::V4(Ipv4Addr::LOCALHOST), Some(Ipv4Addr::new(127, 0, 0, 2).into()), true),
            (IpAddr::V4(Ipv4Addr::LOCALHOST), Some(Ipv4Addr::new(127, 0, 0, 2).into()), false),
            (IpAddr::V6(Ipv6Addr::LOCALHOST), None, true),
        ] {
            let mut driver = UringDriver::new(Settings::default()).unwrap();
            driver.capabilities.can_bind &= can_bind;
            let any = ListenAddress::Tcp((address, 0).into());
            let (socket, address) = ListenSocket::open_alone(&any, 8).unwrap();
            let ListenAddress::Tcp(remote) = address else { panic!("no TCP") };
            driver.attach(socket).unwrap();
            // As if the port were one of those, which it is, unless the system was told otherwise.
            driver.ports = PortRange(1024..=u16::MAX);
            driver.enable_rings().unwrap();
            driver.connect(0, &Address::Tcp { remote, local });
            while driver.counters.accepts + driver.counters.connects < 2 {
                driver.prepare();
                driver.wait(Some(Duration::from_millis(1))).unwrap();
                driver.hear(&mut Nobody { signalled: false });
            }
            let sockets = driver.connections.ids().into_iter().map(|id| plain_descriptor(&mut driver, id));
            let ranges: Vec<_> = sockets
                .map(|socket| {
                    assert!(sockopt::tcp_nodelay(&socket).unwrap());
                    assert!(sockopt::socket_keepalive(&socket).unwrap());
                    local_port_range(&socket)
                })
                .collect();
            // The accepted one has none.
            let expected = driver.ports.without(remote.port()).unwrap();
            assert!(ranges == [0, expected] || ranges == [expected, 0], "{ranges:?}, not {expected}");
        }
    }

    fn plain_descriptor(driver: &mut UringDriver, id: ConnectionId) -> OwnedFd {
        // Nobody's, as the driver sees it.
        const TOKEN: u64 = u64::MAX;
        let connection = driver.connections.get(id).unwrap();
        let entry = FixedFdInstall::new(Fixed(u32::from(connection.file)), 0).build().user_data(TOKEN);
        // SAFETY: there is nothing to stay.
        #[allow(unsafe_code, reason = "requests may carry pointers")]
        unsafe {
            driver.rings[usize::from(connection.ring)].push(&[entry]);
        }
        loop {
            driver.wait(Some(Duration::from_millis(1))).unwrap();
            if let Some(found) = driver.completions.iter().find(|found| found.token == TOKEN) {
                // SAFETY: the kernel has just made it for us.
                #[allow(unsafe_code, reason = "a descriptor from a completion")]
                return unsafe { OwnedFd::from_raw_fd(found.outcome().unwrap() as i32) };
            }
        }
    }

    fn local_port_range(socket: &OwnedFd) -> u32 {
        let (mut ports, mut length) = (0_u32, size_of::<u32>() as libc::socklen_t);
        // SAFETY: the pointers are to a live u32 and its length.
        #[allow(unsafe_code, reason = "no wrapper knows this option")]
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_IP,
                IP_LOCAL_PORT_RANGE,
                (&raw mut ports).cast(),
                &raw mut length,
            )
        };
        assert_eq!(result, 0);
        ports
    }

    #[test]
    fn port_ranges_are_read() {
        assert_eq!(parse_range("32768\t60999\n"), Some(32_768..=60_999));
        assert_eq!(parse_range(""), None);
        assert_eq!(parse_range("1 70000"), None);
    }

    #[test]
    fn ports_are_left_out_of_the_range() {
        let ports = PortRange(1000..=2000);
        assert_eq!(ports.without(999), None);
        assert_eq!(ports.without(1000), Some(1001));
        assert_eq!(ports.without(1500), Some(1501));
        assert_eq!(ports.without(1501), Some(1500 << 16));
        assert_eq!(ports.without(2000), Some(1999 << 16));
        assert_eq!(PortRange(1..=u16::MAX).without(u16::MAX), Some(65_534 << 16));
        // There is nothing left to choose from.
        assert_eq!(PortRange(7..=7).without(7), None);
    }
}
