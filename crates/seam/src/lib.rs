//! The messages between a state machine and the driver that runs it.
//!
//! A driver (io_uring, epoll, the simulator) owns sockets, buffers and the clock. A [`Program`] (the engine of `onramp serve`,
//! the load generator) owns every decision. The driver repeats one *turn*:
//!
//! 1. wait until something is ready or [`Program::next_timeout`] has passed;
//! 2. [`Program::handle`] once for each thing that happened;
//! 3. [`Program::handle`] with [`Input::TurnEnd`];
//! 4. [`Program::poll_output`] until it returns `None`, carrying out each [`Output`].
//!
//! Neither side keeps a reference into the other, so that the same program runs on real sockets and, from one seed,
//! under a virtual clock.
//!
//! Between the two may stand layers, which are programs that hold a program: TLS is one. What is between a layer and the
//! program inside is said where it is declared ([`Output::StartTls`], [`Output::Unread`], [`Input::Secured`],
//! [`Input::Announced`]). Drivers know nothing of it: they never give such an input, and ignore such an output.

mod address;
mod compression;
mod time;
mod tls;

pub use address::{Address, HOST_NOT_FOUND, Peer};
pub use compression::{Compression, CompressionSide};
pub use time::Instant;
pub use tls::{PeerCertificate, TlsSession, TlsSide, TlsVersion};

/// One connection of a driver: a slot and how often the slot has been used, so that a late message about a closed
/// connection can never be taken for its successor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    /// The slot in the driver's table; small and dense, so that a program may index a table of its own with it.
    pub index: u32,
    /// Counts the uses of the slot.
    pub generation: u32,
}

/// Which listening address a connection came in by: its place in the order in which they were opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerId(pub u16);

/// Everything that can happen to a program.
#[derive(Debug)]
pub enum Input<'a> {
    /// A peer connected to one of our listeners.
    Accepted {
        /// The new connection.
        connection: ConnectionId,
        /// Where it came in.
        listener: ListenerId,
        /// The peer.
        peer: Peer,
    },
    /// A connection asked for with [`Output::Connect`] stands.
    Connected {
        /// The token of the request.
        token: u64,
        /// The new connection.
        connection: ConnectionId,
    },
    /// A connection asked for with [`Output::Connect`] did not come about.
    ConnectFailed {
        /// The token of the request.
        token: u64,
        /// The system's answer, as an errno.
        errno: i32,
    },
    /// Bytes arrived, cut anywhere.
    Bytes {
        /// On this connection.
        connection: ConnectionId,
        /// At least one byte.
        bytes: &'a [u8],
    },
    /// The peer reads more slowly than we write: unsent bytes passed the driver's high-water mark. Said again whenever the
    /// peer has taken some of them, so that a slow reader can be told from a dead one.
    Stalled {
        /// This connection. [`Input::Drained`] follows unless it closes first.
        connection: ConnectionId,
    },
    /// All bytes of a stalled connection have been handed to the system.
    Drained {
        /// This connection.
        connection: ConnectionId,
    },
    /// The connection is gone; its id will not be used again. Not sent for connections that the program closed.
    Closed {
        /// This connection.
        connection: ConnectionId,
        /// Why.
        reason: CloseReason,
    },
    /// A trusted peer says on whose behalf it has connected. For layers; before the first bytes.
    Announced {
        /// This connection.
        connection: ConnectionId,
        /// The peer on whose behalf it has connected.
        peer: Peer,
    },
    /// TLS, asked for with [`Output::StartTls`], stands: [`Input::Bytes`] and [`Output::Send`] are inside of it from here on.
    /// Where it does not come about, [`Input::TlsFailed`] is said instead.
    Secured {
        /// This connection.
        connection: ConnectionId,
        /// The session that was agreed on.
        session: TlsSession,
    },
    /// TLS did not come about on a connection, or broke. It is gone, as after [`Input::Closed`]; the peer gets its alert.
    TlsFailed {
        /// This connection.
        connection: ConnectionId,
        /// Why, in words for a log.
        reason: &'a str,
    },
    /// Somebody outside the event loop asked for something.
    Signal(Signal),
    /// Everything that was ready has been handled: fire timers, schedule, batch.
    TurnEnd,
}

/// Why a connection ended, as far as the driver can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer closed it in an orderly way.
    EndOfStream,
    /// A system call failed with this errno (ECONNRESET most of the time).
    Failed(i32),
    /// A layer has no memory left for what peers have sent, of which this one has sent most. For layers.
    TooMuchHeld,
}

/// The requests of the process around the event loop to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Finish what runs, take nothing new, then say [`Output::Finished`] (SIGTERM).
    Drain,
    /// Give up at once (a second SIGTERM or SIGINT).
    Stop,
    /// There is something to look at beside the sockets: another worker's message.
    Wake,
    /// Say how much memory is held (SIGUSR1). The driver's part is published before the program hears of it.
    Report,
    /// Somebody looks from outside. What the driver has counted is published before the program hears of it, but for what only a
    /// look at each connection tells.
    Look,
}

/// Everything that a program can ask of its driver.
#[derive(Debug, PartialEq, Eq)]
pub enum Output<'a> {
    /// Open a connection; answered with [`Input::Connected`] or [`Input::ConnectFailed`].
    Connect {
        /// Chosen by the program; comes back with the answer.
        token: u64,
        /// Where to.
        address: Address,
    },
    /// Send bytes, after all that was sent before on this connection. Ignored where the connection is gone.
    Send {
        /// On this connection.
        connection: ConnectionId,
        /// Copied by the driver if the system does not take them at once. May be none.
        bytes: &'a [u8],
    },
    /// Sends as [`Output::Send`] does, many bytes at once (a large statement). They belong to the driver that carries this out:
    /// if it has to keep bytes, it keeps these, and makes no copy.
    SendWhole {
        /// On this connection.
        connection: ConnectionId,
        /// At least one byte.
        bytes: Vec<u8>,
    },
    /// Close the connection once everything sent so far is with the system. The id is dead from here on.
    Close {
        /// This connection.
        connection: ConnectionId,
    },
    /// Close the connection at once, and throw away what was sent and its peer has not acknowledged: what the driver still holds, and
    /// what the system does (the ABORT call of RFC 9293 section 3.10.5). The id is dead from here on. After [`Output::Close`] the system
    /// goes on trying to deliver all of that, for a minute and more; after this nothing arrives later. The peer is sent a reset, once:
    /// where that is lost, it does not hear of the end before it sends something itself. What a Unix socket has taken is with its peer.
    Abort {
        /// This connection.
        connection: ConnectionId,
    },
    /// Read no more from this connection until [`Output::ResumeReading`].
    PauseReading {
        /// This connection.
        connection: ConnectionId,
    },
    /// Read again.
    ResumeReading {
        /// This connection.
        connection: ConnectionId,
    },
    /// From here on this connection is TLS, in both directions. For layers: answered with [`Input::Secured`] or
    /// [`Input::TlsFailed`], and nothing is to be sent before that.
    StartTls {
        /// This connection.
        connection: ConnectionId,
        /// Our side of it.
        side: TlsSide<'a>,
    },
    /// From here on this connection is MySQL's compressed protocol, in both directions. For layers. A server's packets are then
    /// numbered as the server does it: by the compressed packets.
    StartCompression {
        /// This connection.
        connection: ConnectionId,
        /// Which kind.
        compression: Compression,
        /// Our side of it.
        side: CompressionSide,
    },
    /// Bytes that came as [`Input::Bytes`] and are not for the program, because a layer that it has just asked for begins
    /// before them. They go ahead of all that comes later.
    Unread {
        /// On this connection.
        connection: ConnectionId,
        /// At least one byte.
        bytes: &'a [u8],
    },
    /// Close the listeners: no new peers.
    StopListening,
    /// The program has nothing left to do; the driver's `run` returns.
    Finished,
}

impl Output<'_> {
    /// Returns the bytes to be sent, and the connection, for both ways of sending.
    pub fn sent(&self) -> Option<(ConnectionId, &[u8])> {
        match self {
            Output::Send { connection, bytes } => Some((*connection, bytes)),
            Output::SendWhole { connection, bytes } => Some((*connection, bytes)),
            _ => None,
        }
    }
}

/// A state machine that a driver runs. The calling contract is the turn in the [crate's documentation](crate).
pub trait Program {
    /// Takes in one thing that happened. `now` never runs backwards.
    fn handle(&mut self, now: Instant, input: Input<'_>);

    /// The next thing to do, or `None` when there is nothing left in this turn.
    fn poll_output(&mut self) -> Option<Output<'_>>;

    /// When the program wants a [`Input::TurnEnd`] even if nothing happens.
    fn next_timeout(&self) -> Option<Instant>;
}
