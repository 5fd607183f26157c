//! Listens, and gives each connection a thread.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use tls::Acceptor;
use wire::native_password;
use zeroize::{Zeroize as _, Zeroizing};

use crate::Pool;
use crate::errors::SqlError;
use crate::login::Account;
use crate::logins::{Ending, LoggingIn, Logins};
use crate::session::Session;
use crate::stream::{Socket, Stream};

/// How the admin port is set up.
pub struct Settings {
    /// The one user that may log in.
    pub user: String,
    /// Its password; not empty. Only its hash is kept.
    pub password: Zeroizing<String>,
    /// The certificate that TLS shows; without it none is spoken.
    pub tls: Option<Arc<Acceptor>>,
    /// Connections at the same time that have logged in; one more gets error 1040.
    pub max_connections: u32,
}

/// Where admin connections come in.
pub enum Listener {
    /// A TCP address, and whether TLS is spoken there.
    Tcp(TcpListener, Encryption),
    /// A Unix socket.
    Unix(UnixListener),
}

/// Says whether connections are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// Not offered.
    Off,
    /// As clients like.
    Allowed,
    /// A client without TLS is refused with error 3159.
    Required,
}

/// After an error of `accept`, such as too many open files, it is tried again after this.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// Serves until the process ends, on a thread for each listener and one for each connection.
///
/// # Errors
/// Where the system has no more threads.
pub fn serve(listeners: Vec<Listener>, settings: Settings, pool: Arc<dyn Pool>) -> io::Result<()> {
    let mut stage1 = native_password::stage1(settings.password.as_bytes());
    let account = Account { user: settings.user, stored: native_password::stage2(&stage1) };
    stage1.zeroize();
    let port = Arc::new(Port {
        account,
        logins: Logins::default(),
        tls: settings.tls,
        limit: settings.max_connections,
        open: AtomicU32::new(0),
        last_id: AtomicU32::new(0),
        pool,
    });
    for listener in listeners {
        let port = Arc::clone(&port);
        std::thread::Builder::new()
            .name(String::from("admin"))
            .spawn(move || accept_all(&listener, &port))?;
    }
    Ok(())
}

/// The parts that all connections have in common.
pub(crate) struct Port {
    pub(crate) account: Account,
    pub(crate) tls: Option<Arc<Acceptor>>,
    logins: Logins,
    limit: u32,
    open: AtomicU32,
    last_id: AtomicU32,
    pub(crate) pool: Arc<dyn Pool>,
}

impl Port {
    /// How many connections have logged in.
    pub(crate) fn connections(&self) -> u32 {
        self.open.load(Relaxed)
    }
}

/// One of the connections that may be logged in; its end makes room for another.
pub(crate) struct Place(Arc<Port>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

impl Place {
    /// # Errors
    /// Where all are taken.
    pub(crate) fn take(port: &Arc<Port>) -> Result<Self, SqlError> {
        let room = |open: u32| (open < port.limit).then(|| open + 1);
        let taken = port.open.fetch_update(Relaxed, Relaxed, room);
        taken.map_err(|_| SqlError::too_many_connections(port.limit))?;
        Ok(Self(Arc::clone(port)))
    }
}

fn accept_all(listener: &Listener, port: &Arc<Port>) {
    loop {
        match accept(listener, port) {
            Ok((stream, caller)) => begin(stream, caller, port),
            Err(_) => std::thread::sleep(PAUSE_AFTER_ERROR),
        }
    }
}

/// The client that has connected.
pub(crate) struct Caller {
    /// Where from.
    pub(crate) host: String,
    /// Says whether its connection may be encrypted.
    pub(crate) encryption: Encryption,
    /// Until it has logged in.
    pub(crate) logging_in: LoggingIn,
}

/// The next connection.
fn accept(listener: &Listener, port: &Port) -> io::Result<(Stream, Caller)> {
    match listener {
        Listener::Tcp(tcp, encryption) => {
            let (socket, peer) = tcp.accept()?;
            let logging_in = port.logins.begin(Some(peer.ip()), Ending::Tcp(socket.try_clone()?));
            let caller = Caller { host: host_of(peer), encryption: *encryption, logging_in };
            Ok((Stream::new(Socket::Tcp(socket))?, caller))
        }
        Listener::Unix(unix) => {
            let (socket, _) = unix.accept()?;
            let logging_in = port.logins.begin(None, Ending::Unix(socket.try_clone()?));
            let caller = Caller { host: String::from("localhost"), encryption: Encryption::Off, logging_in };
            Ok((Stream::new(Socket::Unix(socket))?, caller))
        }
    }
}

fn host_of(peer: SocketAddr) -> String {
    if peer.ip().is_loopback() { String::from("localhost") } else { peer.ip().to_canonical().to_string() }
}

fn begin(stream: Stream, caller: Caller, port: &Arc<Port>) {
    let id = port.last_id.fetch_add(1, Relaxed).wrapping_add(1);
    let port = Arc::clone(port);
    let run = move || Session::run(stream, caller, id, &port);
    if let Err(error) = std::thread::Builder::new().name(format!("admin {id}")).spawn(run) {
        tracing::error!("no thread for an admin connection: {error}");
    }
}
