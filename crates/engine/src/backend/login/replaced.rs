//! A server that has been replaced by another one at the same address: MariaDB by MySQL, an old version by a new one.
//!
//! The kind of server decides which questions are asked on a backend, and how its answers are read. A client knows from its greeting which
//! features it may ask for. So a backend serves only the server that the service account has found. Clients that were greeted in the
//! name of another kind of server are told, with their next statement, that this one has gone.

use wire::Capabilities;

use crate::client::login::handshake::OFFERED;
use crate::server::Server;
use crate::server::control::facts::Facts;
use crate::server::login::Established;

impl Facts {
    /// Says whether the server found now is another one than this. The last numbers of a version change nothing here, and nodes behind one
    /// address may differ in them.
    pub(crate) fn is_another(&self, found: &Self) -> bool {
        self.version.major() != found.version.major() || self.disappoints_clients(found)
    }

    /// Says whether clients that were greeted in the name of this server may count on a feature that the other one lacks.
    pub(crate) fn disappoints_clients(&self, found: &Self) -> bool {
        let promised = OFFERED & self.capabilities;
        self.is_mariadb() != found.is_mariadb() || promised.without(found.capabilities) != Capabilities::NONE
    }
}

impl Server {
    /// Returns the version of the server by a backend's login, where it is not the known one.
    pub(super) fn is_replaced_by(&self, established: &Established) -> Option<String> {
        let found = Facts::new(established);
        let replaced = self.facts.as_ref().is_some_and(|facts| facts.is_another(&found));
        replaced.then(|| String::from_utf8_lossy(found.version.text()).into_owned())
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
