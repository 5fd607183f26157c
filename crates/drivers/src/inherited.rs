//! Listening sockets that whoever has started the process has opened for it (sd_listen_fds(3)).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd, ioctl_fionbio};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, getsockname, listen, sockopt};

use crate::socket_options::listen_backlog;
use crate::{ListenAddress, ListenSocket};

/// The first of their numbers, behind the standard streams (`SD_LISTEN_FDS_START`).
const FIRST: i32 = 3;

/// Sockets that may be handed over: more addresses than anybody listens on, and no number that overflows.
const MOST: usize = 1024;

/// A listening socket that was handed over. Its file, where it has one, belongs to whoever made it.
#[derive(Debug)]
pub struct InheritedSocket {
    socket: OwnedFd,
    address: ListenAddress,
}

impl InheritedSocket {
    /// Takes the first `count` of them. Later calls get none: each has one owner.
    ///
    /// # Errors
    /// Which number is no listening stream socket of TCP or Unix, or how many are too many.
    pub fn take(count: usize) -> io::Result<Vec<Self>> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        if count > MOST {
            return Err(io::Error::other(format!("{count} sockets are more than {MOST}")));
        }
        if count == 0 || TAKEN.swap(true, Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        (FIRST..).take(count).map(|number| Self::of(own(number)?, number)).collect()
    }

    fn of(socket: OwnedFd, number: i32) -> io::Result<Self> {
        let wrong = |what: &str| io::Error::other(format!("file {number} is {what}"));
        let no_socket = |errno: Errno| match errno {
            Errno::NOTSOCK => wrong("no socket"),
            errno => errno.into(),
        };
        if sockopt::socket_type(&socket).map_err(no_socket)? != SocketType::STREAM {
            return Err(wrong("no stream socket"));
        }
        if !sockopt::socket_acceptconn(&socket)? {
            return Err(wrong("not listening"));
        }
        let address = match sockopt::socket_domain(&socket)? {
            AddressFamily::UNIX => {
                ListenAddress::Unix(path(&SocketAddrUnix::try_from(getsockname(&socket)?)?))
            }
            AddressFamily::INET | AddressFamily::INET6 => {
                ListenAddress::Tcp(SocketAddr::try_from(getsockname(&socket)?)?)
            }
            _ => return Err(wrong("neither a TCP nor a Unix socket")),
        };
        Ok(Self { socket, address })
    }

    /// Where it listens.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Makes `shares` listeners of it, from 1, one for each driver that accepts there. All are one queue: what is left in it when the
    /// process ends is the next one's. `backlog` is as for [`ListenSocket::open`].
    ///
    /// # Errors
    /// What the system says.
    pub fn share(self, backlog: u32, shares: usize) -> io::Result<Vec<ListenSocket>> {
        if matches!(self.address, ListenAddress::Tcp(_)) {
            // As the sockets that we open ourselves, and accepted ones have it from them.
            sockopt::set_tcp_nodelay(&self.socket, true)?;
            sockopt::set_socket_keepalive(&self.socket, true)?;
        }
        ioctl_fionbio(&self.socket, true)?;
        listen(&self.socket, listen_backlog(backlog))?;
        let is_unix = matches!(self.address, ListenAddress::Unix(_));
        let mut sockets: Vec<OwnedFd> =
            (1..shares).map(|_| self.socket.try_clone()).collect::<io::Result<_>>()?;
        sockets.push(self.socket);
        Ok(sockets.into_iter().map(|socket| ListenSocket::inherited(socket, is_unix)).collect())
    }

    /// The socket alone, for those who wait for each connection by a thread.
    ///
    /// # Errors
    /// What the system says.
    pub fn blocking(self) -> io::Result<OwnedFd> {
        ioctl_fionbio(&self.socket, false)?;
        Ok(self.socket)
    }
}

/// Abstract ones are written as they usually are, `@` and the name.
fn path(address: &SocketAddrUnix) -> PathBuf {
    let bytes = match (address.path_bytes(), address.abstract_name()) {
        (Some(path), _) => path.to_vec(),
        (None, Some(name)) => [b"@", name].concat(),
        (None, None) => Vec::new(),
    };
    PathBuf::from(std::ffi::OsStr::from_bytes(&bytes))
}

/// A file of ours by its number, closed in programs that we start.
fn own(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: the number is looked at for this call alone, and the system says where nothing is open by it.
    #[allow(unsafe_code, reason = "what is inherited is known by its number")]
    let file = unsafe { BorrowedFd::borrow_raw(number) };
    let flags = fcntl_getfd(file).map_err(|error| io::Error::other(format!("file {number}: {error}")))?;
    fcntl_setfd(file, flags | FdFlags::CLOEXEC)?;
    // SAFETY: it is open, as the system has just said. It is nobody else's in this process: whoever has started us promises
    // that these numbers are handed over, and they are taken once, at the start.
    #[allow(unsafe_code, reason = "what is inherited is known by its number")]
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixListener;

    use super::*;

    fn of(socket: impl Into<OwnedFd>) -> io::Result<InheritedSocket> {
        InheritedSocket::of(socket.into(), 7)
    }

    #[test]
    fn what_is_no_listener_is_said() {
        let refused = |socket: OwnedFd| of(socket).unwrap_err().to_string();
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert_eq!(refused(udp.into()), "file 7 is no stream socket");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(refused(connected.into()), "file 7 is not listening");
        assert_eq!(refused(std::fs::File::open("/dev/null").unwrap().into()), "file 7 is no socket");
        assert!(InheritedSocket::take(MOST + 1).is_err());
    }

    #[test]
    fn shares_are_one_queue_that_outlives_them() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let inherited = of(listener.try_clone().unwrap()).unwrap();
        assert_eq!(*inherited.address(), ListenAddress::Tcp(address));
        let shares = inherited.share(16, 3).unwrap();
        assert_eq!(shares.len(), 3);
        let _peer = TcpStream::connect(address).unwrap();
        drop(shares);
        listener.set_nonblocking(false).unwrap();
        listener.accept().unwrap();
    }

    #[test]
    fn the_file_of_a_unix_socket_is_not_ours() {
        let path = std::env::temp_dir().join(format!("drivers-inherited-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let inherited = of(listener).unwrap();
        assert_eq!(*inherited.address(), ListenAddress::Unix(path.clone()));
        drop(inherited.share(16, 2).unwrap());
        assert!(path.exists());
        std::fs::remove_file(path).unwrap();
    }
}
