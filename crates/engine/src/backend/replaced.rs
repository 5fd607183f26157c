//! A server that has been replaced by another one at the same address: MariaDB by MySQL, an old version by a new one.
//!
//! What a backend means, which questions are asked on it and what its answers say depends on what the server is, and a client
//! knows from its greeting what it may ask for. So a backend serves only the server that the service account has found, and clients
//! that were greeted in the name of another kind of server are told, with their next statement, that this one has gone.

use wire::Capabilities;

use crate::client::login::OFFERED;
use crate::client::{Lost, Phase as ClientPhase};
use crate::control::facts::Facts;
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::ids::{BackendKey, ServerKey};
use crate::outside::named::ClosedFor;
use crate::server_login::Established;

impl Facts {
    /// Whether what answers now is another server than this. The last numbers of a version change nothing here, and nodes
    /// behind one address may differ in them.
    fn is_another(&self, found: &Self) -> bool {
        self.version.major() != found.version.major() || self.disappoints_clients(found)
    }

    /// Whether clients that were greeted in the name of this server may count on what another one has not.
    fn disappoints_clients(&self, found: &Self) -> bool {
        let promised = OFFERED & self.capabilities;
        self.is_mariadb() != found.is_mariadb() || promised.without(found.capabilities) != Capabilities::NONE
    }
}

impl Engine {
    /// A backend's login says what the server is. True where it is not the one that is known: then the backend is gone, and the
    /// service account has to find out.
    pub(crate) fn meets_another_server(&mut self, key: BackendKey, established: &Established) -> bool {
        let found = Facts::new(established);
        if !self.servers.of(key).facts.as_ref().is_some_and(|facts| facts.is_another(&found)) {
            return false;
        }
        if let Some(connection) = self.servers[key].connection {
            self.io.outbox.close(connection);
        }
        self.remove_backend(key);
        let version = String::from_utf8_lossy(found.version.text());
        let reason = format!("it has been replaced by {version}");
        // Where the service account is just asking the new one, backends wait for that.
        if self.servers.of(key).control.can_refresh() && self.servers.of(key).pending_facts.is_none() {
            self.control_lost(key.server(), &reason);
        } else if self.servers.of(key).pending_facts.is_none() {
            self.server_failed(key.server(), reason);
        }
        true
    }

    /// The service account has found another server than before, whose facts are in place.
    pub(crate) fn server_replaced(&mut self, server: ServerKey, before: &Facts) {
        let facts = self.servers[server].facts.as_ref().expect("set by the caller");
        if !before.is_another(facts) {
            return;
        }
        if before.disappoints_clients(facts) {
            self.disappoint_clients();
        }
        self.renew_backends_on(server);
    }

    fn disappoint_clients(&mut self) {
        let keys: Vec<_> = self.clients.iter().map(|(key, _)| key).collect();
        for key in keys {
            // Closing one may take others with it.
            let Some(client) = self.clients.get_mut(key) else { continue };
            match *client.phase() {
                ClientPhase::AwaitingServer => {}
                ClientPhase::Login(_) => self.close_client(
                    key,
                    ClosedFor::ServerReplaced,
                    "the server was replaced during its login",
                ),
                ClientPhase::Queued => {
                    if !client.loss.wants_end {
                        self.cancel_queued(key, &MySqlError::server_replaced());
                    }
                    self.close_client(
                        key,
                        ClosedFor::ServerReplaced,
                        "the server was replaced by another kind",
                    );
                }
                _ => client.loss.lost = Some(Lost::Server),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Capabilities = Capabilities(Capabilities::FOUND_ROWS.0 | Capabilities::DEPRECATE_EOF.0);

    fn facts(version: &str, capabilities: Capabilities) -> Facts {
        Facts::new(&Established::of_test(version, capabilities))
    }

    #[test]
    fn another_server_is_told_by_its_kind_and_first_number() {
        let old = facts("5.5.5-10.11.14-MariaDB", BOTH);
        let judge = |version| {
            let found = facts(version, BOTH);
            (old.is_another(&found), old.disappoints_clients(&found))
        };
        assert_eq!(judge("10.11.19-MariaDB-log"), (false, false));
        assert_eq!(judge("11.4.5-MariaDB"), (true, false));
        assert_eq!(judge("10.11.14"), (true, true));
    }

    #[test]
    fn clients_are_disappointed_by_what_is_offered_no_more() {
        let old = facts("9.7.0", BOTH | Capabilities::SSL);
        assert!(!old.disappoints_clients(&facts("9.7.0", BOTH | Capabilities::COMPRESS)), "our own affair");
        assert!(old.disappoints_clients(&facts("9.7.0", Capabilities::FOUND_ROWS)));
    }
}
