//! Listening and accepting.
//!
//! Each listener has some accepts armed at a time, each with room for its peer's address: one request that accepts again
//! and again would not say who the peers are. They are armed again at the turn's end only, so that no more come in with
//! one turn than its share.

use std::cell::UnsafeCell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use seam::{ConnectionId, Input, Instant, ListenerId, Peer, Program};

use super::UringDriver;
use super::connection::{Connection, Identifying, Phase};
use super::ring::Completion;
use super::socket_address::SocketAddress;
use super::token::Token;
use crate::ListenSocket;
use crate::socket_options::is_trouble_of_one_connection;

/// A listening socket and the accepts that are armed for it.
#[derive(Debug)]
pub(super) struct Listener {
    /// `None` once it is closed.
    socket: Option<ListenSocket>,
    is_unix: bool,
    places: Box<[Place]>,
    /// Places without a request under way.
    idle: Vec<u16>,
    /// The system had no room for one more connection: nothing is armed before this time.
    paused_until: Option<Instant>,
    /// How many connections there were at the pause; as soon as there are fewer, it is over.
    connections_at_pause: usize,
}

impl Listener {
    pub(super) fn paused_until(&self) -> Option<Instant> {
        self.paused_until
    }

    /// Bytes of memory held.
    pub(super) fn allocated(&self) -> usize {
        size_of::<Self>() + self.places.len() * (size_of::<Place>() + size_of::<u16>())
    }
}

/// The memory that one armed accept needs.
#[derive(Debug, Default)]
struct Place {
    /// Written by the kernel while the request is under way.
    address: UnsafeCell<SocketAddress>,
    /// Written by the kernel while the request is under way.
    length: UnsafeCell<u32>,
    /// The ring that the connection is to be in.
    ring: u16,
    /// Its place in the ring's table.
    file: u16,
}

/// Accepts that are armed at most, whatever a turn's share is: each costs the kernel a request of some 500 bytes, and as
/// many connections wait in the listener's queue without being lost.
const MOST_PLACES: usize = 256;

/// After the system ran out of memory or files, which our own closes may not be what frees. Short enough for a client not
/// to notice, long enough for ten tries a second to cost nothing.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl UringDriver {
    /// See [`crate::Driver::attach`].
    ///
    /// # Errors
    /// `InvalidInput` after 65,536 listeners; otherwise what the system says.
    pub fn attach(&mut self, socket: ListenSocket) -> io::Result<ListenerId> {
        let id = u16::try_from(self.listeners.len())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "more than 65,536 listeners"))?;
        let count = self.settings.accepts_per_turn.min(MOST_PLACES);
        self.listeners.push(Listener {
            is_unix: socket.is_unix(),
            socket: Some(socket),
            places: (0..count).map(|_| Place::default()).collect(),
            idle: (0..count as u16).rev().collect(),
            paused_until: None,
            connections_at_pause: 0,
        });
        Ok(ListenerId(id))
    }

    /// Arms every listener's accepts.
    pub(super) fn arm_accepts(&mut self) {
        for id in 0..self.listeners.len() {
            while self.arm_accept(ListenerId(id as u16)) {}
        }
    }

    /// An accept has ended.
    pub(super) fn accepted<P: Program>(
        &mut self,
        id: ListenerId,
        place: u16,
        completion: &Completion,
        program: &mut P,
    ) {
        let Some(listener) = self.listeners.get_mut(usize::from(id.0)) else { return };
        listener.idle.push(place);
        let Place { address, ring, file, .. } = &mut listener.places[usize::from(place)];
        let (address, ring, file) = (*address.get_mut(), *ring, *file);
        let (is_unix, is_open) = (listener.is_unix, listener.socket.is_some());
        if let Err(errno) = completion.outcome() {
            self.rings[usize::from(ring)].files.give_back(file);
            // EAGAIN: it was woken too often for peers that others had taken (APOLL_MAX_RETRY in io_uring/poll.c).
            let is_over = matches!(errno, Errno::CANCELED | Errno::AGAIN);
            if is_open && !is_over && !is_trouble_of_one_connection(errno) {
                self.pause_listener(id);
            }
            return;
        }
        let connection = self.connections.insert(Connection::new(ring, file, Phase::Reading));
        let connection = connection.expect("there are fewer places in tables than ids");
        if !is_open {
            return self.start_closing(connection);
        }
        self.counters.accepts += u64::from(!is_unix);
        if is_unix {
            return self.identify(connection, id);
        }
        match address.read() {
            Some(address) => {
                // An IPv4 peer of a listener on [::] is an IPv4 peer to the accounts.
                let peer = Peer::Tcp(SocketAddr::new(address.ip().to_canonical(), address.port()));
                self.tell(program, Input::Accepted { connection, listener: id, peer });
                self.list(connection);
            }
            None => self.start_closing(connection),
        }
    }

    /// The peer of a Unix socket is known.
    pub(super) fn identified<P: Program>(
        &mut self,
        id: ConnectionId,
        outcome: Result<usize, Errno>,
        program: &mut P,
    ) {
        self.other_request_ended(id);
        let Some(connection) = self.connections.get_mut(id) else { return };
        let Phase::Identifying(identifying) = &mut connection.phase else { return };
        let (listener, uid) = (identifying.listener, identifying.credentials.get_mut().uid);
        if outcome.is_err() {
            return self.start_closing(id);
        }
        connection.phase = Phase::Reading;
        self.counters.accepts += 1;
        self.tell(program, Input::Accepted { connection: id, listener, peer: Peer::Unix { uid } });
        self.list(id);
    }

    /// Lets paused listeners accept again if a connection has closed since or their time is over.
    pub(super) fn resume_listeners(&mut self) {
        let (now, connections) = (self.now, self.connections.len());
        for listener in &mut self.listeners {
            let over = |until| until <= now || connections < listener.connections_at_pause;
            if listener.paused_until.is_some_and(over) {
                listener.paused_until = None;
            }
        }
    }

    /// Closes all listeners and removes their files. Their ids are not used again.
    pub(super) fn stop_listening(&mut self) {
        for (listener, id) in self.listeners.iter_mut().zip(0..) {
            let Some(socket) = listener.socket.take() else { continue };
            listener.paused_until = None;
            if !socket.is_shared() {
                // At once, while the accepts under way still hold the socket. Where shares are one socket, other drivers may
                // want theirs, or another process.
                let _ = shutdown(&socket, Shutdown::Both);
            }
            for (place, number) in listener.places.iter().zip(0..) {
                if !listener.idle.contains(&number) {
                    self.rings[usize::from(place.ring)].cancel_accept(ListenerId(id), number);
                }
            }
        }
    }

    /// True while accepts are under way, cancelled or not.
    pub(super) fn is_accepting(&self) -> bool {
        self.listeners.iter().any(|listener| listener.idle.len() < listener.places.len())
    }

    /// Arms one accept. False where there is nothing to arm.
    fn arm_accept(&mut self, id: ListenerId) -> bool {
        let listener = &self.listeners[usize::from(id.0)];
        if listener.socket.is_none() || listener.paused_until.is_some() || listener.idle.is_empty() {
            return false;
        }
        let Ok((ring, file)) = self.take_file() else {
            self.pause_listener(id);
            return false;
        };
        let listener = &mut self.listeners[usize::from(id.0)];
        let (Some(socket), Some(number)) = (&listener.socket, listener.idle.pop()) else { return false };
        let place = &mut listener.places[usize::from(number)];
        (place.ring, place.file) = (ring, file);
        *place.length.get_mut() = SocketAddress::ROOM;
        // SAFETY: the places of a listener stay where they are as long as the driver, and this one is used by this
        // request alone as it is not idle now.
        #[allow(unsafe_code, reason = "the request carries pointers")]
        unsafe {
            self.rings[usize::from(ring)].accept(
                Token::Accept(id, number),
                socket.as_fd(),
                file,
                place.address.get(),
                place.length.get(),
            );
        }
        true
    }

    fn identify(&mut self, id: ConnectionId, listener: ListenerId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let identifying = Box::new(Identifying { listener, credentials: credentials.into() });
        let room = identifying.credentials.get();
        // SAFETY: the box goes with the phase, which is kept until all requests of the connection have ended.
        #[allow(unsafe_code, reason = "the request carries a pointer")]
        unsafe {
            self.rings[usize::from(connection.ring)].identify(id, connection.file, room);
        }
        connection.phase = Phase::Identifying(identifying);
        connection.others += 1;
    }

    fn pause_listener(&mut self, id: ListenerId) {
        let connections = self.connections.len();
        let Some(listener) = self.listeners.get_mut(usize::from(id.0)) else { return };
        // Several accepts fail at once; that is one pause.
        if listener.paused_until.is_none() {
            self.counters.accept_pauses += 1;
            listener.paused_until = Some(self.now + ACCEPT_PAUSE);
            listener.connections_at_pause = connections;
        }
    }
}
