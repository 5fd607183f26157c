//! A step of a client's handshake, which another thread can do.

use rustls::Error;
use seam::{ConnectionId, TlsSession};

use crate::session::{Buffers, Session};

/// A client's handshake, away from its connection: what has come of it is to be answered, which takes up to a millisecond (an RSA
/// signature above all).
pub struct Handshake {
    connection: ConnectionId,
    session: Session,
}

/// The outcome of a step; for [`crate::Tls::take_outcome`].
pub struct Outcome {
    pub(crate) connection: ConnectionId,
    /// `None` where nothing has come of it and the connection is of no more use.
    pub(crate) step: Option<Step>,
}

pub(crate) struct Step {
    pub(crate) session: Session,
    /// The bytes to be sent, and those that the client has sent inside TLS already.
    pub(crate) buffers: Buffers,
    /// As [`Session::read`] says.
    pub(crate) read: Result<bool, Error>,
    /// The handshake is over.
    pub(crate) secured: Option<TlsSession>,
}

impl Handshake {
    pub(crate) fn new(connection: ConnectionId, session: Session) -> Self {
        Self { connection, session }
    }

    /// Goes on as far as what has come allows.
    pub fn carry_out(mut self) -> Outcome {
        let mut buffers = Buffers::default();
        let read = self.session.read(&[], &mut buffers);
        let secured = (!self.session.is_handshaking()).then(|| self.session.agreed());
        let step = Step { session: self.session, buffers, read, secured };
        Outcome { connection: self.connection, step: Some(step) }
    }

    /// Returns the outcome to be brought back where this does not come to an end.
    pub fn lost(&self) -> Outcome {
        Outcome { connection: self.connection, step: None }
    }
}
