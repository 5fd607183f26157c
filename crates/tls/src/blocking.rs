//! TLS for a thread of its own that blocks: the admin port's and that of its clients, where nothing is fast or many.

use std::io::{self, Read, Write};

use rustls::{ClientConnection, ServerConnection, StreamOwned};
use rustls_pki_types::ServerName;

use crate::{Acceptor, Connector, Error};

/// One side of a connection whose reads and writes block, as the socket's do; the socket's time limits hold. The handshake comes
/// with the first read or write.
pub struct BlockingStream<S: Read + Write> {
    side: Side<S>,
}

enum Side<S: Read + Write> {
    /// And the SHA-256 digest of the certificate that is shown.
    Server(StreamOwned<ServerConnection, Ahead<S>>, [u8; 32]),
    Client(StreamOwned<ClientConnection, Ahead<S>>),
}

impl<S: Read + Write> BlockingStream<S> {
    /// The server's side, on a socket from which `early` has been read already.
    ///
    /// # Errors
    /// Where the certificate cannot be used.
    pub fn accept(acceptor: &Acceptor, socket: S, early: Vec<u8>) -> Result<Self, Error> {
        let shown = acceptor.shown();
        let connection = ServerConnection::new(shown.config)?;
        let stream = StreamOwned::new(connection, Ahead { early, socket });
        Ok(Self { side: Side::Server(stream, shown.fingerprint) })
    }

    /// The client's side, towards a server of this name or address.
    ///
    /// # Errors
    /// Where the name cannot be one of a certificate.
    pub fn connect(connector: &Connector, host: &str, socket: S) -> Result<Self, Error> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| Error::NoHost(host.to_owned()))?;
        let connection = ClientConnection::new(connector.config(), name)?;
        let stream = StreamOwned::new(connection, Ahead { early: Vec::new(), socket });
        Ok(Self { side: Side::Client(stream) })
    }

    /// The SHA-256 digest of the certificate that the server's side shows; `None` on the client's.
    pub fn own_fingerprint(&self) -> Option<[u8; 32]> {
        match &self.side {
            Side::Server(_, fingerprint) => Some(*fingerprint),
            Side::Client(_) => None,
        }
    }

    /// The socket, for its time limits.
    pub fn socket_mut(&mut self) -> &mut S {
        match &mut self.side {
            Side::Server(stream, _) => &mut stream.sock.socket,
            Side::Client(stream) => &mut stream.sock.socket,
        }
    }
}

impl<S: Read + Write> Read for BlockingStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.side {
            Side::Server(stream, _) => stream.read(buffer),
            Side::Client(stream) => stream.read(buffer),
        }
    }
}

impl<S: Read + Write> Write for BlockingStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.side {
            Side::Server(stream, _) => stream.write(bytes),
            Side::Client(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.side {
            Side::Server(stream, _) => stream.flush(),
            Side::Client(stream) => stream.flush(),
        }
    }
}

/// A socket, and what has been read of it before.
struct Ahead<S> {
    early: Vec<u8>,
    socket: S,
}

impl<S: Read> Read for Ahead<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.early.is_empty() {
            return self.socket.read(buffer);
        }
        let count = self.early.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.early[..count]);
        self.early.drain(..count);
        Ok(count)
    }
}

impl<S: Write> Write for Ahead<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}
