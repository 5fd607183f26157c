//! TLS with clients: offered in the greeting, asked for with an SSLRequest, and from then on the affair of the layer below us.

use std::time::Duration;

use seam::{Instant, Peer, TlsSession};
use wire::{Capabilities, WireError, native_password};

use crate::accounts::Identities;
use crate::accounts::failed_logins::network;
use crate::accounts::secret::Secret;
use crate::client::login::attempt::Login;
use crate::client::login::security::Security;
use crate::client::{Client, Phase};
use crate::io::Io;
use crate::server::Server;
use crate::settings::ClientTls;

impl Client {
    /// Returns the TLS session, where the connection is encrypted.
    pub(crate) fn tls(&self) -> Option<&TlsSession> {
        match &self.security {
            Security::Plain(_) => None,
            Security::Tls(session) => Some(session),
        }
    }

    /// Says whether nobody can listen on the way.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls().is_some()
    }

    /// Says whether the client must use TLS, and does not.
    pub(crate) fn lacks_tls(&self) -> bool {
        matches!(self.security, Security::Plain(ClientTls::Required)) && matches!(self.peer, Peer::Tcp(_))
    }

    /// Takes in an SSLRequest. Nothing is answered, and TLS follows.
    ///
    /// # Errors
    ///
    /// Where TLS was not offered or stands already.
    pub(in crate::client) fn start_tls(&mut self, io: &mut Io) -> Result<(), WireError> {
        if self.security.offered() == Capabilities::NONE {
            return Err(WireError::Malformed { what: "TLS was requested but not offered" });
        }
        self.await_tls();
        io.outbox.accept_tls(self.connection, network(&self.peer));
        Ok(())
    }

    /// Notes that TLS stands. Returns how long its handshake has taken, where the client was in one.
    pub(crate) fn secured(&mut self, now: Instant, session: TlsSession) -> Option<Duration> {
        if !matches!(self.phase(), Phase::Login(Login::StartingTls)) {
            return None;
        }
        self.security = Security::Tls(Box::new(session));
        self.note_tls();
        // Nothing that the handshake consists of is heard here.
        Some(now.since(self.activity.last_heard))
    }

    /// Returns the proof by which a client of MariaDB's trusts a certificate that nobody vouches for. Empty where there
    /// is nothing to say. Methods other than the native one have a proof of another kind, or none.
    pub(in crate::client) fn certificate_proof(&self, identities: &Identities, server: &Server) -> Vec<u8> {
        let fingerprint = self.tls().and_then(|session| session.own_fingerprint);
        let secret = self.identity().map(|id| &identities.identity(id).secret);
        match (fingerprint, secret) {
            (Some(fingerprint), Some(Secret::Native(stage1))) if server.is_mariadb() => {
                let stage2 = native_password::stage2(stage1);
                native_password::certificate_proof(&stage2, &self.login.scramble, &fingerprint)
            }
            _ => Vec::new(),
        }
    }
}
