//! Statements that find no backend: the time that they wait for one, and the error that their clients get then.

use seam::Instant;

use crate::backend::Backend;
use crate::backend::login::reachability::{NO_ANSWER, NO_PROOF};
use crate::client::Client;
use crate::cluster::following::Following;
use crate::errors::MySqlError;
use crate::ids::ServerKey;
use crate::logins::Logins;
use crate::outside::named::Limit;
use crate::pool::Pool;
use crate::readers::guests::Guests;
use crate::scheduling::Scheduling;
use crate::servers::Servers;
use crate::settings::Settings;

impl Scheduling {
    /// Remembers since when statements wait for a backend without a break. Returns that time; `None` where none waits.
    pub(in crate::backend) fn note_lack(
        &mut self,
        now: Instant,
        pool: &Pool,
        lacking: bool,
    ) -> Option<Instant> {
        let places = &pool.workers.places;
        if !lacking || self.scheduler.in_need() == 0 {
            places.lack(pool.worker, false);
            places.return_grants(pool.worker);
            self.lacking_since = None;
            return None;
        }
        if places.are_full() {
            pool.workers.onramps.wait();
        }
        Some(*self.lacking_since.get_or_insert(now))
    }

    /// Returns the time at which the next statement will have waited too long for a backend. `until` turns the start of a wait into its end.
    pub(in crate::backend) fn next_giving_up(
        &self,
        settings: &Settings,
        until: impl Fn(Instant) -> Instant,
    ) -> Option<Instant> {
        let urgent = self.urgent.iter().map(|&(_, since)| until(since)).min();
        let waiting = self.lacking_since.zip(self.scheduler.oldest_in_need());
        let waiting = waiting.map(|(since, (_, queued))| until(queued.max(since)));
        urgent.into_iter().chain(waiting).chain(self.next_held_up(settings)).min()
    }
}

/// The reason for which a statement has found no backend in time.
#[derive(Debug)]
pub(crate) struct Lack {
    /// Error that the client gets.
    pub(crate) error: MySqlError,
    /// The limit that was reached, where it was one of ours, with its value.
    pub(in crate::backend) limit: Option<(Limit, u64)>,
}

/// The parts that say why statements find no backend.
pub(crate) struct WhyNoBackend<'a> {
    pub(in crate::backend) now: Instant,
    pub(in crate::backend) settings: &'a Settings,
    pub(in crate::backend) pool: &'a Pool,
    pub(in crate::backend) servers: &'a Servers,
    pub(in crate::backend) following: &'a Following,
    pub(in crate::backend) guests: Option<&'a Guests>,
}

impl WhyNoBackend<'_> {
    /// Says whether the service account may connect, and so any backend.
    pub(crate) fn may_connect(&self) -> bool {
        self.following.may_connect(self.settings.cluster.several, self.guests)
    }

    /// Returns the time until which a statement waits that has found no backend since `since`.
    pub(in crate::backend) fn waits_until(&self, since: Instant) -> Instant {
        self.following.waits_until(since, self.settings, &self.servers.primary().reachability)
    }

    /// Returns the error that says why the server, or each of several, cannot be used. `within` names the option that bounds the wait.
    pub(crate) fn unreachable(&self, server: ServerKey, within: &str) -> MySqlError {
        if !self.may_connect() {
            return MySqlError::no_primary(within, &self.pool.workers.chosen.why_for_clients());
        }
        let reason = self.servers[server].reachability.reason();
        MySqlError::server_unreachable(&self.address_of(server), reason)
    }

    /// Returns the reason for which a statement for this server has found no backend in time.
    pub(crate) fn lack(&self, server: ServerKey) -> Lack {
        let of_server = |error| Lack { error, limit: None };
        // A server that has frozen takes connections and says nothing. Until the first of ours has taken too long it is up.
        if !self.may_connect() {
            return of_server(self.unreachable(server, "failover_hold"));
        }
        let long = self.settings.backend_connect_timeout / 2;
        let is_silent = |backend: &Backend| {
            !backend.is_ready() && !backend.is_changing() && self.now.since(backend.since) >= long
        };
        let found = &self.servers[server];
        if !found.reachability.is_up() {
            return of_server(self.unreachable(server, "failover_hold"));
        }
        let silent = found.backends.iter().map(|(_, backend)| backend).find(|backend| is_silent(backend));
        if let Some(silent) = silent {
            let reason = self.why_not_ready(silent);
            return of_server(MySqlError::server_unreachable(&self.address_of(server), reason));
        }
        let (places, limit) = (&self.pool.workers.places, self.pool.workers.places.limit());
        let of_server = places.server_is_full();
        Lack {
            error: MySqlError::no_backend(limit, of_server),
            limit: (!of_server).then_some((Limit::MaxBackends, u64::from(limit))),
        }
    }

    /// Returns the reason for which a client's statement has found no backend in time: that of all statements for its server or, where there would
    /// be a place for one, that the server takes no more of its account.
    pub(in crate::backend) fn lack_of(&self, client: &Client, logins: &Logins) -> Lack {
        let lack = self.lack(self.servers.serving(client));
        let identities = &logins.identities;
        let full = client.identity().filter(|&identity| identities.was_full(identity));
        match full.filter(|_| lack.limit.is_some() && !self.pool.workers.places.are_full()) {
            Some(identity) => {
                let account = identities.identity(identity).account.shown();
                Lack { error: MySqlError::account_is_full(&account), limit: None }
            }
            None => lack,
        }
    }

    /// Returns the reason for which a client's statement was held up: its user uses as many backends as it may.
    pub(in crate::backend) fn held_up(&self, client: &Client, logins: &Logins) -> Lack {
        let identity = client.identity().expect("it has a user");
        let backends = logins.identities.usage(identity, &self.pool.workers.users).backends();
        let user = String::from_utf8_lossy(&logins.identities.identity(identity).account.user);
        let percent = self.settings.user_backends_share;
        Lack {
            error: MySqlError::user_backends(&user, backends, percent),
            limit: Some((Limit::UserBackendsShare, u64::from(percent))),
        }
    }

    /// Returns the reason for which a backend is not ready after too long a time.
    pub(in crate::backend) fn why_not_ready(&self, backend: &Backend) -> &'static str {
        if self.following.waits_for_proof(backend.token) { NO_PROOF } else { NO_ANSWER }
    }

    fn address_of(&self, server: ServerKey) -> String {
        let place = self.servers[server].reachability.address;
        self.settings.server.get(place).map(ToString::to_string).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::client::commands::command::tests::{engine, open_backends};

    /// The server is up, and its backends are opened for nobody in particular.
    #[test]
    fn a_limit_of_ours_is_named_only_where_no_server_keeps_silent() {
        let mut engine = engine(1, Settings::default());
        let server = engine.servers.primary().key;
        let limit = |engine: &crate::engine::Engine| engine.why_no_backend().lack(server).limit.is_some();
        assert!(!limit(&engine), "the server is not known to be up");
        engine.servers.primary_mut().reachability.answered();
        assert!(limit(&engine));
        let key = open_backends(&mut engine, &[server])[0];
        assert!(limit(&engine), "it has just been begun");
        engine.now = engine.now + engine.settings.backend_connect_timeout;
        assert!(!limit(&engine));
        engine.following.may_use(Some(u64::MAX), engine.servers[key].token);
        let error = engine.why_no_backend().lack(server).error;
        assert!(error.message.contains(NO_PROOF), "{}", error.message);
    }
}
