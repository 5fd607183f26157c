//! Listening and accepting.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags, acceptfrom_with};
use seam::{ConnectionId, Input, Instant, ListenerId, Peer, Program};

use super::EpollDriver;
use super::connection::{Connection, Phase};
use super::token::Token;
use crate::ListenSocket;
use crate::socket_options::{is_trouble_of_one_connection, peer_uid};

/// A listening socket and whether it is listened to.
#[derive(Debug)]
pub(super) struct Listener {
    socket: ListenSocket,
    /// The system had no room for one more connection: epoll is not asked before this time.
    paused_until: Option<Instant>,
    /// How many connections there were at the pause; as soon as there are fewer, it is over.
    connections_at_pause: usize,
}

impl Listener {
    pub(super) fn paused_until(&self) -> Option<Instant> {
        self.paused_until
    }
}

/// After the system ran out of descriptors, which our own closes may not be what frees. Short enough for a client not
/// to notice, long enough for ten tries a second to cost nothing.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl EpollDriver {
    /// See [`crate::Driver::attach`].
    ///
    /// # Errors
    /// `InvalidInput` after 65,536 listeners; otherwise what the system says.
    pub fn attach(&mut self, socket: ListenSocket) -> io::Result<ListenerId> {
        let id = u16::try_from(self.listeners.len())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "more than 65,536 listeners"))?;
        let id = ListenerId(id);
        epoll::add(&self.epoll, &socket, Token::Listener(id).into(), EventFlags::IN)?;
        self.listeners.push(Listener { socket, paused_until: None, connections_at_pause: 0 });
        Ok(id)
    }

    /// Accepts what waits at one listener, up to the turn's share.
    pub(super) fn accept<P: Program>(&mut self, id: ListenerId, program: &mut P) {
        for _ in 0..self.settings.accepts_per_turn {
            let Some(listener) = self.listeners.get(usize::from(id.0)) else { return };
            let accepted = acceptfrom_with(&listener.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC);
            let known = accepted.and_then(|(socket, address)| Ok((listener.peer(&socket, address)?, socket)));
            match known.and_then(|(peer, socket)| Ok((self.admit(socket)?, peer))) {
                Ok((connection, peer)) => {
                    self.counters.accepts += 1;
                    program.handle(self.now, Input::Accepted { connection, listener: id, peer });
                }
                Err(Errno::AGAIN) => return,
                Err(errno) if is_trouble_of_one_connection(errno) => {}
                Err(_) => return self.pause_listener(id),
            }
        }
    }

    /// Lets paused listeners accept again if a connection has closed since or their time is over.
    pub(super) fn resume_listeners(&mut self) {
        let (now, connections) = (self.now, self.connections.len());
        for (id, listener) in (0_u16..).zip(&mut self.listeners) {
            let over = |until| until <= now || connections < listener.connections_at_pause;
            if listener.paused_until.is_some_and(over) {
                let token = Token::Listener(ListenerId(id)).into();
                listener.paused_until =
                    match epoll::modify(&self.epoll, &listener.socket, token, EventFlags::IN) {
                        Ok(()) => None,
                        Err(_) => Some(now + ACCEPT_PAUSE),
                    };
            }
        }
    }

    /// Closes all listeners and removes their files. Their ids are not used again.
    pub(super) fn stop_listening(&mut self) {
        for listener in &self.listeners {
            // Whoever has handed a socket over has it too: it would go on saying that peers wait there.
            let _ = epoll::delete(&self.epoll, &listener.socket);
        }
        self.listeners.clear();
    }

    fn admit(&mut self, socket: OwnedFd) -> Result<ConnectionId, Errno> {
        let id =
            self.connections.insert(Connection::new(socket, Phase::Reading)).map_err(|_| Errno::MFILE)?;
        let connection = self.connections.get_mut(id).expect("inserted above");
        if let Err(errno) = connection.watch(&self.epoll, id) {
            // ENOSPC: fs.epoll.max_user_watches is reached.
            self.connections.remove(id);
            return Err(errno);
        }
        Ok(id)
    }

    /// Never spins: a listener with peers waiting stays readable, whether or not the system lets us have them.
    fn pause_listener(&mut self, id: ListenerId) {
        let Some(listener) = self.listeners.get_mut(usize::from(id.0)) else { return };
        self.counters.accept_pauses += 1;
        listener.paused_until = Some(self.now + ACCEPT_PAUSE);
        listener.connections_at_pause = self.connections.len();
        // If epoll cannot even do this, the listener is tried once a turn, which is no worse than not pausing.
        let _ = epoll::modify(&self.epoll, &listener.socket, Token::Listener(id).into(), EventFlags::empty());
    }
}

impl Listener {
    fn peer(&self, socket: &OwnedFd, address: Option<SocketAddrAny>) -> Result<Peer, Errno> {
        if self.socket.is_unix() {
            return Ok(Peer::Unix { uid: peer_uid(socket.as_fd())? });
        }
        let address = SocketAddr::try_from(address.ok_or(Errno::CONNABORTED)?)?;
        // An IPv4 peer of a listener on [::] is an IPv4 peer to the accounts.
        Ok(Peer::Tcp(SocketAddr::new(address.ip().to_canonical(), address.port())))
    }
}
