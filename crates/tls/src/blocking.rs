//! TLS for a thread of its own that blocks: the admin port's, where nothing is fast or many.

use std::io::{self, Read, Write};

use rustls::{ServerConnection, StreamOwned};

use crate::{Acceptor, Error};

/// The server's side of a connection whose reads and writes block, as the socket's do; the socket's time limits hold. The
/// handshake comes with the first read.
pub struct BlockingStream<S: Read + Write> {
    stream: StreamOwned<ServerConnection, Ahead<S>>,
    fingerprint: [u8; 32],
}

impl<S: Read + Write> BlockingStream<S> {
    /// On a socket from which `early` has been read already.
    ///
    /// # Errors
    /// Where the certificate cannot be used.
    pub fn accept(acceptor: &Acceptor, socket: S, early: Vec<u8>) -> Result<Self, Error> {
        let shown = acceptor.shown();
        let connection = ServerConnection::new(shown.config)?;
        let stream = StreamOwned::new(connection, Ahead { early, socket });
        Ok(Self { stream, fingerprint: shown.fingerprint })
    }

    /// The SHA-256 digest of the certificate that is shown.
    pub fn own_fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    /// The socket, for its time limits.
    pub fn socket_mut(&mut self) -> &mut S {
        &mut self.stream.sock.socket
    }
}

impl<S: Read + Write> Read for BlockingStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl<S: Read + Write> Write for BlockingStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
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
