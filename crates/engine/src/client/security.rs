//! TLS with clients: offered in the greeting, asked for with an SSLRequest, and from then on the layer's affair below us.

use seam::{ConnectionId, ListenerId, Peer, TlsSession};
use wire::{Capabilities, WireError, native_password};

use super::login::Login;
use super::{Client, Phase};
use crate::accounts::failed_logins::network;
use crate::accounts::secret::Secret;
use crate::control::facts::Facts;
use crate::engine::{Engine, Role};
use crate::errors::MySqlError;
use crate::ids::ClientKey;
use crate::outside::event::Event;
use crate::outside::named::{ClosedFor, LoginStage, RefusedFor};
use crate::settings::{ClientTls, Settings};

/// Whether a client's connection is encrypted.
#[derive(Debug)]
pub(crate) enum Security {
    /// It is not, and this is what its listener says about that.
    Plain(ClientTls),
    /// It is.
    Tls(Box<TlsSession>),
}

impl Security {
    pub(crate) fn of_listener(settings: &Settings, listener: ListenerId) -> Self {
        Self::Plain(settings.client_tls.get(usize::from(listener.0)).copied().unwrap_or_default())
    }

    /// What a greeting says of it.
    pub(crate) fn offered(&self) -> Capabilities {
        match self {
            Self::Plain(ClientTls::Off) | Self::Tls(_) => Capabilities::NONE,
            Self::Plain(ClientTls::Allowed | ClientTls::Required) => Capabilities::SSL,
        }
    }
}

impl Default for Security {
    fn default() -> Self {
        Self::Plain(ClientTls::Off)
    }
}

impl Client {
    /// What was agreed on, where it is encrypted.
    pub(crate) fn tls(&self) -> Option<&TlsSession> {
        match &self.security {
            Security::Plain(_) => None,
            Security::Tls(session) => Some(session),
        }
    }

    /// Nobody can listen on the way.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls().is_some()
    }

    /// It must use TLS, and does not.
    pub(crate) fn lacks_tls(&self) -> bool {
        matches!(self.security, Security::Plain(ClientTls::Required)) && matches!(self.peer, Peer::Tcp(_))
    }
}

impl Engine {
    /// A trusted peer says whose connection it is: accounts, limits and the log go by that.
    pub(crate) fn announced(&mut self, connection: ConnectionId, peer: Peer) {
        if let Role::Client(key) = self.io.role(connection) {
            self.clients[key].peer = peer;
        }
    }

    /// An SSLRequest: nothing is answered, and what follows is TLS.
    ///
    /// # Errors
    ///
    /// Where TLS was not offered or stands already.
    pub(crate) fn start_tls(&mut self, key: ClientKey) -> Result<(), WireError> {
        let client = &mut self.clients[key];
        if client.security.offered() == Capabilities::NONE {
            return Err(WireError::Malformed { what: "TLS was requested but not offered" });
        }
        client.await_tls();
        self.io.outbox.accept_tls(client.connection, network(&client.peer));
        Ok(())
    }

    /// Bytes behind an SSLRequest, or of a client that is about to be understood as compressed. Returns how many were used: all.
    pub(crate) fn unread(&mut self, key: ClientKey, bytes: &[u8]) -> usize {
        self.io.outbox.unread(self.clients[key].connection, bytes);
        bytes.len()
    }

    /// What lets a client of MariaDB's trust a certificate that nobody vouches for; empty where there is nothing to say.
    /// Other methods than the native one have a proof of another kind, or none.
    pub(crate) fn certificate_proof(&self, key: ClientKey) -> Vec<u8> {
        let client = &self.clients[key];
        let fingerprint = client.tls().and_then(|session| session.own_fingerprint);
        let secret = client.identity.map(|id| &self.logins.identities.identity(id).secret);
        match (fingerprint, secret) {
            (Some(fingerprint), Some(Secret::Native(stage1)))
                if self.servers.primary().facts.as_ref().is_some_and(Facts::is_mariadb) =>
            {
                native_password::certificate_proof(
                    &native_password::stage2(stage1),
                    &client.scramble,
                    &fingerprint,
                )
            }
            _ => Vec::new(),
        }
    }

    /// A login in the clear where TLS is required.
    pub(crate) fn refuse_plain(&mut self, key: ClientKey, user: &[u8], sequence: u8) {
        let error = MySqlError::tls_required();
        self.answer_error(key, sequence.wrapping_add(1), &error);
        let (peer, user) = (self.clients[key].peer, String::from_utf8_lossy(user).into_owned());
        self.views.event(Event::LoginRefused {
            peer,
            user,
            refused_for: RefusedFor::Tls,
            reason: error.message,
        });
        self.drop_client(key);
    }

    /// TLS stands.
    pub(crate) fn secured(&mut self, connection: ConnectionId, session: TlsSession) {
        match self.io.role(connection) {
            Role::Client(key) => {
                let client = &mut self.clients[key];
                if matches!(client.phase(), Phase::Login(Login::StartingTls)) {
                    client.security = Security::Tls(Box::new(session));
                    client.note_tls();
                    // Nothing that the handshake consists of is heard here.
                    let took = self.now.since(client.last_heard);
                    self.views.measures.note_login_stage(LoginStage::Tls, took);
                }
            }
            Role::Backend(key) => self.backend_secured(key),
            Role::Control(server) => self.control_secured(server),
            Role::Check(place) => self.in_cluster(|cluster, step| cluster.check_secured(step, place)),
            Role::Free => {}
        }
    }

    /// TLS did not come about, or broke: the connection is gone.
    pub(crate) fn tls_failed(&mut self, connection: ConnectionId, reason: &str) {
        let reason = format!("TLS: {reason}");
        match self.io.role(connection) {
            Role::Client(key) => {
                let (peer, client) = (self.clients[key].peer, self.clients[key].id);
                self.views.event(Event::ClientClosed { peer, client, closed_for: ClosedFor::Tls, reason });
                self.client_gone(key);
            }
            Role::Backend(key) => self.backend_gone(key, &reason),
            Role::Control(server) => self.control_lost(server, &reason),
            Role::Check(place) => self.in_cluster(|cluster, step| cluster.check_closed(step, place, &reason)),
            Role::Free => {}
        }
        self.io.set_role(connection, Role::Free);
    }
}
