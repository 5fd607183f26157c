//! A connection that blocks, with bounds on how long.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tls::{Acceptor, BlockingStream};

/// How long a message may take from its first byte to its last.
pub(crate) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a login may take in all: three messages each way and the handshake of TLS, with a pause of the network in between.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may be silent between two commands: the others of `admin_max_connections` are few.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);

/// How long the peer may take none of a reply.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest message: a statement of 1 MiB, as `@@max_allowed_packet` says.
pub(crate) const LONGEST_MESSAGE: usize = 1 << 20;

/// Any kind of socket.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// By TCP, inside TLS.
    Tls(Box<BlockingStream<Limited>>),
}

/// A socket whose reads end at a time, however many there are: a piece of TLS may take several.
pub(crate) struct Limited {
    tcp: TcpStream,
    deadline: Instant,
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        // A timeout of zero would mean none.
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.tcp.set_read_timeout(Some(left))?;
        self.tcp.read(buffer)
    }
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tcp.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.flush()
    }
}

/// A socket with what has been read of the next message.
pub(crate) struct Stream {
    socket: Socket,
    buffer: Vec<u8>,
    /// By when the login has to be over, while it is not.
    login_until: Option<Instant>,
}

/// A message that has been read.
pub(crate) struct Received {
    pub(crate) payload: Vec<u8>,
    /// The number of the first packet of the answer.
    pub(crate) answer: u8,
}

/// Why there is no message.
pub(crate) enum NoMessage {
    /// The connection has ended, or was silent for too long.
    Ended,
    /// The message breaks the protocol's rules.
    Malformed(wire::WireError),
}

impl Stream {
    /// With bounds on writing from here on.
    pub(crate) fn new(socket: Socket) -> io::Result<Self> {
        match &socket {
            Socket::Tcp(tcp) => {
                tcp.set_nodelay(true)?;
                tcp.set_write_timeout(Some(WRITE_TIMEOUT))?;
            }
            Socket::Unix(unix) => unix.set_write_timeout(Some(WRITE_TIMEOUT))?,
            Socket::Tls(_) => {}
        }
        Ok(Self { socket, buffer: Vec::new(), login_until: Some(Instant::now() + LOGIN_TIMEOUT) })
    }

    /// From here on only single messages have a time.
    pub(crate) fn has_logged_in(&mut self) {
        self.login_until = None;
    }

    /// Waits, unless the connection ends: then it says false. What is sent meanwhile is of no interest.
    pub(crate) fn linger(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        self.login_until = None;
        while Instant::now() < until {
            self.buffer.clear();
            if self.read_more(until).is_err() {
                return Instant::now() >= until;
            }
        }
        true
    }

    /// The next message, whose packets count up from `sequence`; waits for its first byte for `patience`.
    pub(crate) fn receive(&mut self, sequence: u8, patience: Duration) -> Result<Received, NoMessage> {
        let mut deadline = Instant::now() + patience;
        let mut begun = !self.buffer.is_empty();
        loop {
            match wire::read_message(&self.buffer, sequence, LONGEST_MESSAGE) {
                Err(error) => return Err(NoMessage::Malformed(error)),
                Ok(Some(message)) => {
                    let answer = message.last_sequence.wrapping_add(1);
                    let (payload, consumed) = (message.payload.into_owned(), message.consumed);
                    self.buffer.drain(..consumed);
                    return Ok(Received { payload, answer });
                }
                Ok(None) => {}
            }
            if !begun && !self.buffer.is_empty() {
                begun = true;
                deadline = Instant::now() + MESSAGE_TIMEOUT;
            }
            self.read_more(deadline)?;
        }
    }

    /// Sends bytes, all of them.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.socket {
            Socket::Tcp(tcp) => tcp.write_all(bytes),
            Socket::Unix(unix) => unix.write_all(bytes),
            Socket::Tls(tls) => tls.write_all(bytes).and_then(|()| tls.flush()),
        }
    }

    /// From here on all is inside TLS, what has come behind the request for it included. The handshake is a part of the next
    /// message.
    pub(crate) fn start_tls(&mut self, acceptor: &Acceptor) -> io::Result<()> {
        let Socket::Tcp(tcp) = &self.socket else { return Err(io::Error::other("TLS is for TCP")) };
        let tcp = tcp.try_clone()?;
        let limited = Limited { tcp, deadline: Instant::now() };
        let stream = BlockingStream::accept(acceptor, limited, std::mem::take(&mut self.buffer));
        let stream = stream.map_err(io::Error::other)?;
        self.socket = Socket::Tls(Box::new(stream));
        Ok(())
    }

    /// Says whether TLS can begin.
    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self.socket, Socket::Tcp(_))
    }

    /// The digest of our certificate, inside TLS.
    pub(crate) fn own_fingerprint(&self) -> Option<[u8; 32]> {
        match &self.socket {
            Socket::Tls(tls) => tls.own_fingerprint(),
            Socket::Tcp(_) | Socket::Unix(_) => None,
        }
    }

    fn read_more(&mut self, deadline: Instant) -> Result<(), NoMessage> {
        let deadline = self.login_until.map_or(deadline, |until| until.min(deadline));
        let left = deadline.saturating_duration_since(Instant::now());
        // A timeout of zero would mean none.
        if left.is_zero() {
            return Err(NoMessage::Ended);
        }
        let mut piece = [0; 4096];
        let read = match &mut self.socket {
            Socket::Tcp(tcp) => tcp.set_read_timeout(Some(left)).and_then(|()| tcp.read(&mut piece)),
            Socket::Unix(unix) => unix.set_read_timeout(Some(left)).and_then(|()| unix.read(&mut piece)),
            Socket::Tls(tls) => {
                tls.socket_mut().deadline = deadline;
                tls.read(&mut piece)
            }
        };
        match read {
            Ok(0) => Err(NoMessage::Ended),
            Ok(count) => {
                self.buffer.extend_from_slice(&piece[..count]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(_) => Err(NoMessage::Ended),
        }
    }
}
