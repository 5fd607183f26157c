//! The requests to the kernel, one function for each.

#![allow(unsafe_code, reason = "requests carry pointers")]

use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{DestinationSlot, Fd, Fixed};
use seam::{ConnectionId, ListenerId};

use super::buffers::GROUP;
use super::connection::Connecting;
use super::ring::Ring;
use super::socket_address::SocketAddress;
use super::token::{Request, Token};
use crate::socket_options::IP_LOCAL_PORT_RANGE;

/// `IORING_RECVSEND_POLL_FIRST` (linux/io_uring.h): wait for the socket to be ready before the first attempt.
const POLL_FIRST: u16 = 1;

/// `SOCKET_URING_OP_GETSOCKOPT` (linux/io_uring.h), since Linux 6.7.
const GETSOCKOPT: u32 = 2;

/// The address with which a socket is disconnected (connect(2)).
static NOBODY: SocketAddress = SocketAddress::UNSPECIFIED;

/// The value that options are switched on with.
static ON: libc::c_int = 1;

impl Ring {
    /// Arrivals of a connection, each in a buffer, until there is an end, an error, or no buffer.
    pub(super) fn receive(&mut self, id: ConnectionId, file: u16) {
        // Not with POLL_FIRST, though a first attempt often finds nothing: asked like that, Linux 6.18 forgets about bytes
        // that a peer of a Unix socket has left behind.
        let entry = opcode::RecvMulti::new(fixed(file), GROUP).build();
        self.push_harmless(entry.user_data(token(Request::Receive, id)));
    }

    /// Bytes of a connection in one buffer, if there are any now.
    pub(super) fn receive_last(&mut self, id: ConnectionId, file: u16) {
        // A length of 0 is the buffer's (io_recv_buf_select in io_uring/net.c).
        let entry = opcode::Recv::new(fixed(file), std::ptr::null_mut(), 0)
            .buf_group(GROUP)
            .flags(libc::MSG_DONTWAIT)
            .build()
            .flags(Flags::BUFFER_SELECT);
        self.push_harmless(entry.user_data(token(Request::Receive, id)));
    }

    /// Ends a request of a connection, if it is under way; its completion says so. Found by its token, which the kernel has
    /// a hash table for: to look for all requests of a descriptor it would go through those of the whole ring.
    pub(super) fn cancel(&mut self, request: Request, id: ConnectionId) {
        let entry = opcode::AsyncCancel::new(token(request, id)).build();
        self.push_harmless(entry.user_data(Token::Nobody.into()));
    }

    /// Ends an accept, whose completion says so.
    pub(super) fn cancel_accept(&mut self, listener: ListenerId, place: u16) {
        let entry = opcode::AsyncCancel::new(Token::Accept(listener, place).into()).build();
        self.push_harmless(entry.user_data(Token::Nobody.into()));
    }

    /// To be told of an error or a hang-up, once.
    pub(super) fn watch_hang_up(&mut self, id: ConnectionId, file: u16) {
        // Both are reported without being asked for (poll(2)).
        let entry = opcode::PollAdd::new(fixed(file), 0).build();
        self.push_harmless(entry.user_data(token(Request::HangUp, id)));
    }

    /// No more will be sent.
    pub(super) fn shut_down(&mut self, id: ConnectionId, file: u16) {
        let entry = opcode::Shutdown::new(fixed(file), libc::SHUT_WR).build();
        self.push_harmless(entry.user_data(token(Request::ShutDown, id)));
    }

    /// Frees a place in the table, and closes the socket once no request uses it.
    pub(super) fn close(&mut self, id: ConnectionId, file: u16) {
        let entry = opcode::Close::new(fixed(file)).build();
        self.push_harmless(entry.user_data(token(Request::Close, id)));
    }

    /// To be told when the mailbox becomes readable, each time.
    pub(super) fn watch_mailbox(&mut self, wake: BorrowedFd<'_>) {
        let entry = opcode::PollAdd::new(Fd(wake.as_raw_fd()), libc::POLLIN as u32).multi(true).build();
        self.push_harmless(entry.user_data(Token::Mailbox.into()));
    }

    /// The count of an eventfd, once it is not 0.
    ///
    /// # Safety
    /// `count` points to 8 bytes that nobody else uses until the completion has been taken.
    pub(super) unsafe fn read_eventfd(&mut self, eventfd: BorrowedFd<'_>, count: *mut u8) {
        let entry = opcode::Read::new(Fd(eventfd.as_raw_fd()), count, size_of::<u64>() as u32).build();
        // SAFETY: the caller's.
        unsafe { self.push(&[entry.user_data(Token::Rings.into())]) }
    }

    /// To send bytes. `crowded`: the system had no room for all of the last.
    ///
    /// # Safety
    /// The bytes stay where and as they are until the completion has been taken.
    pub(super) unsafe fn send(&mut self, id: ConnectionId, file: u16, bytes: &[u8], crowded: bool) {
        // The system takes no more than 2 GiB at once (send(2)); the rest is asked for when these are gone.
        let length = bytes.len().min(1 << 30) as u32;
        let entry = opcode::Send::new(fixed(file), bytes.as_ptr(), length)
            .flags(libc::MSG_NOSIGNAL)
            .ioprio(if crowded { POLL_FIRST } else { 0 })
            .build();
        // SAFETY: the caller's.
        unsafe { self.push(&[entry.user_data(token(Request::Send, id))]) }
    }

    /// To send bytes, all and at once. Where that can be, no completion says so: see [`super::silent::Silent`].
    ///
    /// # Safety
    /// The bytes, less than 2 GiB, stay where and as they are until a completion has been taken or the request is certain.
    pub(super) unsafe fn send_silently(&mut self, id: ConnectionId, file: u16, bytes: &[u8]) {
        // With DONTWAIT what has to wait fails instead; with WAITALL sending a part of it is a failure too, whose
        // completion has the count (io_send in io_uring/net.c).
        let entry = opcode::Send::new(fixed(file), bytes.as_ptr(), bytes.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_WAITALL)
            .build()
            .flags(Flags::SKIP_SUCCESS);
        self.silent.push(id);
        // SAFETY: the caller's.
        unsafe { self.push(&[entry.user_data(token(Request::Send, id))]) }
    }

    /// Bytes of a connection, to be thrown away; with `now`, those that are there.
    ///
    /// # Safety
    /// `room` stays until the completion has been taken. Many requests may write there at once.
    pub(super) unsafe fn discard(&mut self, id: ConnectionId, file: u16, room: *mut [u8], now: bool) {
        let entry = opcode::Recv::new(fixed(file), room.cast(), room.len() as u32)
            .flags(if now { libc::MSG_DONTWAIT } else { 0 })
            .build();
        // SAFETY: the caller's.
        unsafe { self.push(&[entry.user_data(token(Request::Discard, id))]) }
    }

    /// The first byte of a connection, if there is one now; it stays there.
    ///
    /// # Safety
    /// As for [`Self::discard`].
    pub(super) unsafe fn peek(&mut self, id: ConnectionId, file: u16, room: *mut u8) {
        let entry =
            opcode::Recv::new(fixed(file), room, 1).flags(libc::MSG_PEEK | libc::MSG_DONTWAIT).build();
        // SAFETY: the caller's.
        unsafe { self.push(&[entry.user_data(token(Request::Peek, id))]) }
    }

    /// One peer of a listener, into a place in the table.
    ///
    /// # Safety
    /// `address` and `length` stay, and nobody else uses them, until the completion has been taken.
    pub(super) unsafe fn accept(
        &mut self,
        token: Token,
        listener: BorrowedFd<'_>,
        file: u16,
        address: *mut SocketAddress,
        length: *mut u32,
    ) {
        let entry = opcode::Accept::new(Fd(listener.as_raw_fd()), address.cast(), length)
            .file_index(Some(slot(file)))
            .build();
        // SAFETY: the caller's.
        unsafe { self.push(&[entry.user_data(token.into())]) }
    }

    /// Asks for the peer of a Unix socket (`SO_PEERCRED`, unix(7)).
    ///
    /// # Safety
    /// `credentials` stay, and nobody else uses them, until the completion has been taken.
    pub(super) unsafe fn identify(&mut self, id: ConnectionId, file: u16, credentials: *mut libc::ucred) {
        // SAFETY: the caller's, and that is the option's type.
        unsafe { self.socket_option(Request::Identify, id, file, libc::SO_PEERCRED, credentials) }
    }

    /// The error that a socket has (`SO_ERROR`, socket(7)), which it has no longer then.
    ///
    /// # Safety
    /// `error` stays, and nobody else uses it, until the completion has been taken.
    pub(super) unsafe fn socket_error(&mut self, id: ConnectionId, file: u16, error: *mut libc::c_int) {
        // SAFETY: the caller's, and that is the option's type.
        unsafe { self.socket_option(Request::SocketError, id, file, libc::SO_ERROR, error) }
    }

    /// An option of the socket level.
    ///
    /// # Safety
    /// `value` is of the option's type, stays, and nobody else uses it, until the completion has been taken.
    unsafe fn socket_option<T>(
        &mut self,
        request: Request,
        id: ConnectionId,
        file: u16,
        option: libc::c_int,
        value: *mut T,
    ) {
        let (level, length) = (libc::SOL_SOCKET as u32, size_of::<T>() as u32);
        let mut entry =
            opcode::SetSockOpt::new(fixed(file), level, option as u32, value.cast(), length).build();
        set_command(&mut entry, GETSOCKOPT);
        // SAFETY: the caller's.
        unsafe { self.push(&[entry.user_data(token(request, id))]) }
    }

    /// A TCP socket in a place in the table, with no-delay and keep-alive, of a port other than the remote one, bound to the
    /// local address where that has one, and connected. One completion: the first failure's, or the connection's.
    ///
    /// # Safety
    /// `connecting` stays as it is until the completion has been taken.
    pub(super) unsafe fn open_and_connect(&mut self, id: ConnectionId, file: u16, connecting: &Connecting) {
        let Connecting { remote, local, ports, .. } = connecting;
        let family = remote.family();
        let mut chain = Vec::with_capacity(super::ring::LONGEST_CHAIN);
        let socket = opcode::Socket::new(family, libc::SOCK_STREAM, libc::IPPROTO_TCP);
        chain.push(socket.file_index(Some(slot(file))).build());
        let mut options = vec![
            (libc::IPPROTO_TCP, libc::TCP_NODELAY, (&raw const ON).cast()),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE, (&raw const ON).cast()),
        ];
        if let Some(ports) = ports {
            // One of the IPv4 level for IPv6 sockets as well, as is the next.
            options.push((libc::IPPROTO_IP, IP_LOCAL_PORT_RANGE, (&raw const *ports).cast()));
        }
        let bound = local.read().is_some();
        if bound {
            // Leaves the choice of the port to `connect` (ip(7)).
            options.push((libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, (&raw const ON).cast()));
        }
        // Of a C int, and of the u32 that the ports are.
        let length = size_of::<libc::c_int>() as u32;
        chain.extend(options.into_iter().map(|(level, option, value)| {
            opcode::SetSockOpt::new(fixed(file), level as u32, option as u32, value, length).build()
        }));
        if bound {
            chain.push(opcode::Bind::new(fixed(file), (&raw const *local).cast(), local.length()).build());
        }
        // Their successes are passed over; a failure breaks the chain and is the only one told.
        for entry in &mut chain {
            *entry = entry.clone().flags(Flags::IO_LINK | Flags::SKIP_SUCCESS);
        }
        chain.push(opcode::Connect::new(fixed(file), (&raw const *remote).cast(), remote.length()).build());
        for entry in &mut chain {
            entry.set_user_data(token(Request::Connect, id));
        }
        // SAFETY: the caller's for the addresses, and the option's value is static.
        unsafe { self.push(&chain) }
    }

    /// Connects a socket that is in the table.
    ///
    /// # Safety
    /// `remote` stays as it is until the completion has been taken.
    pub(super) unsafe fn connect(&mut self, id: ConnectionId, file: u16, remote: &SocketAddress) {
        let entry = opcode::Connect::new(fixed(file), (&raw const *remote).cast(), remote.length()).build();
        // SAFETY: the caller's.
        unsafe { self.push(&[entry.user_data(token(Request::Connect, id))]) }
    }

    /// Throws away what TCP has queued on a socket, and sends its peer a reset (tcp_disconnect in net/ipv4/tcp.c). Done as it is submitted,
    /// and so before whatever is asked for behind it. A Unix socket refuses, and has queued nothing: its bytes are with the peer.
    pub(super) fn disconnect(&mut self, file: u16) {
        let nobody = (&raw const NOBODY).cast();
        let entry = opcode::Connect::new(fixed(file), nobody, SocketAddress::ROOM).build();
        // SAFETY: the address is static.
        unsafe { self.push(&[entry.user_data(Token::Nobody.into())]) }
    }

    /// A request without pointers.
    fn push_harmless(&mut self, entry: Entry) {
        // SAFETY: there is nothing to stay.
        unsafe { self.push(&[entry]) }
    }
}

fn fixed(file: u16) -> Fixed {
    Fixed(u32::from(file))
}

fn slot(file: u16) -> DestinationSlot {
    DestinationSlot::try_from_slot_target(u32::from(file)).expect("only the last u32 are no places")
}

fn token(request: Request, id: ConnectionId) -> u64 {
    Token::Connection(request, id).into()
}

/// Changes which socket command an entry is, for want of a type for this one.
fn set_command(entry: &mut Entry, command: u32) {
    // `cmd_op` is a u32 behind opcode, flags, ioprio and fd (struct io_uring_sqe).
    const OFFSET: usize = 8;
    let place = (&raw mut *entry).cast::<u8>().wrapping_add(OFFSET).cast::<u32>();
    // SAFETY: an entry is the 64 bytes of a struct io_uring_sqe, and the field is aligned in it.
    unsafe { *place = command }
}

const _: () = assert!(size_of::<Entry>() == 64, "an entry is a struct io_uring_sqe");
