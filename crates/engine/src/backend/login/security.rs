//! TLS with the server: a login asks for it with an SSLRequest after the greeting, and the layer below does it from then on.

use std::net::SocketAddr;
use std::sync::Arc;

use seam::{Address, ConnectionId, Instant, Peer};
use wire::WireError;

use crate::ids::BackendKey;
use crate::io::Io;
use crate::outside::event::Event;
use crate::outside::limits_reached::SAY_AGAIN;
use crate::server::Server;
use crate::server::login::{ServerChannel, Withheld};
use crate::settings::{ServerTls, Settings};

impl Server {
    /// Says whether a login on the server in use asks for TLS.
    pub(crate) fn wanted_server_tls(&self, settings: &Settings) -> ServerTls {
        wanted_tls(settings, self.reachability.address)
    }

    /// Says who else could answer in the place of the server in use.
    pub(crate) fn way_to_server(&self, settings: &Settings) -> ServerChannel {
        way_to(settings, self.reachability.address)
    }

    /// See [`proxy_header`], for the server in use.
    pub(crate) fn proxy_header(&self, settings: &Settings, client: Option<SocketAddr>) -> Vec<u8> {
        proxy_header(settings, self.reachability.address, client)
    }

    /// Notes that this server does not get a user's password. Returns the event that tells of it, now and then.
    pub(super) fn note_withheld(&mut self, now: Instant, user: &[u8], why: Withheld) -> Option<Event> {
        let said = &mut self.reachability.withheld_at;
        if said.is_some_and(|said| now.since(said) < SAY_AGAIN) {
            return None;
        }
        *said = Some(now);
        let user = String::from_utf8_lossy(user).into_owned();
        Some(Event::PasswordWithheld { user, reason: why.message() })
    }

    /// Sends the bytes that go before TLS, and has TLS begin.
    pub(crate) fn start_tls(
        &self,
        settings: &Settings,
        io: &mut Io,
        connection: ConnectionId,
        before: &[u8],
    ) {
        let name = server_name(settings, self.reachability.address);
        io.outbox.send(connection, before);
        io.outbox.start_tls(connection, name);
    }

    /// Notes that TLS stands on a backend.
    ///
    /// # Errors
    ///
    /// Where its login does not go on with that: the backend cannot be used.
    pub(crate) fn backend_secured(&mut self, key: BackendKey) -> Result<(), WireError> {
        if let Some((login, out)) = self.backends[key].login() {
            login.secured(out)?;
            self.mark_dirty(key);
        }
        Ok(())
    }
}

/// Says whether a login at this place in the list of addresses asks for TLS.
pub(crate) fn wanted_tls(settings: &Settings, place: usize) -> ServerTls {
    match settings.server_tls {
        ServerTls::Preferred if stays_here(&settings.server[place]) => ServerTls::Disabled,
        wanted => wanted,
    }
}

/// Says who else could answer at this place in the list of addresses.
pub(crate) fn way_to(settings: &Settings, place: usize) -> ServerChannel {
    match &settings.server[place] {
        Address::Unix(_) => ServerChannel::Socket,
        Address::Tcp { remote, .. } if settings.trusted_servers.contain(&Peer::Tcp(*remote)) => {
            ServerChannel::Trusted
        }
        Address::Tcp { .. } | Address::NotFound { .. } => ServerChannel::Open,
    }
}

/// Returns the header that a connection to the server at this place begins with, where Onramp names the client that it stands for. Without
/// a client the header names none.
pub(crate) fn proxy_header(settings: &Settings, place: usize, client: Option<SocketAddr>) -> Vec<u8> {
    let mut header = Vec::new();
    match (&settings.server[place], client) {
        _ if !settings.proxy_to_server => {}
        (_, None) | (Address::NotFound { .. }, _) => proxy_protocol::put_local(&mut header),
        (Address::Tcp { remote, .. }, Some(client)) => proxy_protocol::put(&mut header, client, *remote),
        (Address::Unix(_), Some(client)) => {
            // A Unix socket has no address; MariaDB does not look at this one.
            proxy_protocol::put(&mut header, client, SocketAddr::from(([127, 0, 0, 1], 0)));
        }
    }
    header
}

/// Returns the name that the certificate of the server at this place has to be for.
pub(crate) fn server_name(settings: &Settings, place: usize) -> Arc<str> {
    settings.server_names.get(place).cloned().unwrap_or_else(|| Arc::from("localhost"))
}

/// Says whether nothing that goes to this address leaves the machine.
fn stays_here(address: &Address) -> bool {
    match address {
        Address::Unix(_) => true,
        Address::Tcp { remote, .. } => remote.ip().to_canonical().is_loopback(),
        Address::NotFound { .. } => false,
    }
}
