//! Sockets with the options that a MySQL connection wants.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with, sockopt};

/// A TCP socket to listen with, not bound yet. Accepted sockets inherit no-delay and keep-alive from it on Linux.
///
/// `IPV6_V6ONLY` is off whatever `net.ipv6.bindv6only` says: MySQL documents that `::` takes IPv4 peers too.
///
/// # Errors
/// What the system says to `socket` or `setsockopt`.
pub(crate) fn tcp_listener(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = tcp_socket(address)?;
    // So that a restart does not wait for the old connections' TIME_WAIT; two listeners still exclude each other.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    Ok(socket)
}

/// A TCP socket to connect with, bound to `local` where that is given. The port is chosen by `connect`.
pub(crate) fn tcp_connector(remote: SocketAddr, local: Option<IpAddr>) -> Result<OwnedFd, Errno> {
    let socket = tcp_socket(remote)?;
    if let Some(local) = local {
        set_bind_address_no_port(socket.as_fd())?;
        bind(&socket, &SocketAddr::new(local, 0))?;
    }
    Ok(socket)
}

/// Which ports a socket may be given: the lowest, and the highest times 65,536 (linux/in.h; ip(7)). Since Linux 6.3.
pub(crate) const IP_LOCAL_PORT_RANGE: libc::c_int = 51;

/// Has the system choose from these ports. The option is one of the IPv4 level for IPv6 sockets as well.
pub(crate) fn set_local_port_range(socket: BorrowedFd<'_>, ports: u32) -> Result<(), Errno> {
    set_ip_option(socket, IP_LOCAL_PORT_RANGE, ports)
}

/// A Unix stream socket.
pub(crate) fn unix_socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
}

/// `listen` takes a signed number; the kernel itself cuts it down to `net.core.somaxconn`.
pub(crate) fn listen_backlog(backlog: u32) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
}

/// The effective user id of the process that connected a Unix socket (`SO_PEERCRED`, unix(7)).
pub(crate) fn peer_uid(socket: BorrowedFd<'_>) -> Result<u32, Errno> {
    // Not rustix's call: it types the pid as never 0, and a peer in another pid namespace (a container that shares the
    // socket's directory) has pid 0 here.
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the pointers are to a live ucred and its length, and the kernel writes no more than that length.
    #[allow(unsafe_code, reason = "no safe wrapper takes a peer of another pid namespace")]
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(credentials.uid) } else { Err(last_errno()) }
}

/// True where a TCP socket was connected to itself, as happens when `connect` picks the very port that it looks for
/// and nobody listens there (simultaneous open, RFC 9293 section 3.5). Fails with `ENOTCONN` where it is not connected.
pub(crate) fn connected_to_itself(socket: BorrowedFd<'_>) -> Result<bool, Errno> {
    let local = SocketAddr::try_from(rustix::net::getsockname(socket)?)?;
    let remote = rustix::net::getpeername(socket)?.map(SocketAddr::try_from).transpose()?;
    Ok(remote == Some(local))
}

/// True where `accept` reports what happened to a connection while it waited, so that the next one may be fine.
/// accept(2): "Linux accept() passes already-pending network errors on the new socket"; EPERM is a firewall's.
pub(crate) fn is_trouble_of_one_connection(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::CONNABORTED
            | Errno::INTR
            | Errno::PERM
            | Errno::PROTO
            | Errno::NOPROTOOPT
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::NONET
            | Errno::OPNOTSUPP
    )
}

/// Non-blocking, closed on exec, no delay, keep-alive.
fn tcp_socket(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    // A protocol of requests and answers, each written in one piece: Nagle's algorithm would only add delay.
    sockopt::set_tcp_nodelay(&socket, true)?;
    // MySQL does so too (vio_keepalive in vio/viosocket.cc): a client whose machine is gone is noticed in time.
    sockopt::set_socket_keepalive(&socket, true)?;
    Ok(socket)
}

/// Leaves the choice of the port to `connect`, so that one local port serves connections to different remotes
/// (`IP_BIND_ADDRESS_NO_PORT`, ip(7)). The option is one of the IPv4 level for IPv6 sockets as well.
fn set_bind_address_no_port(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    set_ip_option(socket, libc::IP_BIND_ADDRESS_NO_PORT, on)
}

/// An option of the IPv4 level.
fn set_ip_option<T: Copy>(socket: BorrowedFd<'_>, option: libc::c_int, value: T) -> Result<(), Errno> {
    // SAFETY: the pointer is to a live value, and its length is given.
    #[allow(unsafe_code, reason = "no wrapper knows these options")]
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            option,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use rustix::net::{accept, connect, getsockname, listen};

    use super::*;

    #[test]
    fn accepted_sockets_inherit_their_options() {
        let listener = tcp_listener((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        listen(&listener, 8).unwrap();
        let address = SocketAddr::try_from(getsockname(&listener).unwrap()).unwrap();
        let _peer = TcpStream::connect(address).unwrap();
        let accepted = accept(&listener).unwrap();
        assert!(sockopt::tcp_nodelay(&accepted).unwrap());
        assert!(sockopt::socket_keepalive(&accepted).unwrap());
    }

    #[test]
    fn a_bound_connector_has_no_port_before_it_connects() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let remote = listener.local_addr().unwrap();
        let socket = tcp_connector(remote, Some(Ipv4Addr::new(127, 0, 0, 2).into())).unwrap();
        let local = SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap();
        assert_eq!(local, (Ipv4Addr::new(127, 0, 0, 2), 0).into());
        assert_eq!(connect(&socket, &remote), Err(Errno::INPROGRESS));
        assert_ne!(SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap().port(), 0);
    }

    #[test]
    fn a_socket_connected_to_itself_is_found_out() {
        let socket = tcp_socket((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let own = SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap();
        assert_eq!(connected_to_itself(socket.as_fd()), Err(Errno::NOTCONN));
        // The kernel does this by itself where the port that it picks for us is the one that we look for.
        assert!(matches!(connect(&socket, &own), Ok(()) | Err(Errno::INPROGRESS)));
        assert_eq!(connected_to_itself(socket.as_fd()), Ok(true));
    }
}
