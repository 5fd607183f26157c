//! Affinity: a backend that has just been opened for an account, or has changed to it, serves that account's waiting statements first.
//!
//! Accounts may take places from each other. In the queue's own order most of an account's statements would come when the backend is
//! another account's, and each would cost a change or a login. So a backend that has cost something is used. While a place is worth it,
//! and for a few milliseconds at most, the backend serves its account's short statements before others that would take it away.
//! Clients that wait longer for that wait less for changes.

pub(super) mod waiting;

use std::time::Duration;

use seam::Instant;

use crate::client::Client;
use crate::ids::{BackendKey, ClientKey, Table};
use crate::scheduling::Scheduling;
use crate::scheduling::learned::history::SHORT;
use crate::scheduling::scheduler::Need;
use crate::scheduling::scheduler::lane::Lane;
use crate::server::Server;
use crate::servers::Servers;
use crate::session::SessionTables;
use crate::settings::Settings;

/// The most that affinity adds to the wait of a statement for a place.
const LONGEST: Duration = Duration::from_millis(5);

impl Server {
    /// Returns the end of the affinity of a backend that now stands for a client's account.
    pub(in crate::backend) fn affinity_ends(&self, now: Instant, changed: bool) -> Option<Instant> {
        let wanted = self.opening.affinity.is_wanted(now);
        wanted.then(|| now + self.opening.worth(changed).min(LONGEST))
    }

    /// Returns the idle backend at this place and its account's first waiting clients. None where the backend has no affinity now.
    fn first_of_account(
        &mut self,
        now: Instant,
        place: usize,
        waits: impl Fn(ClientKey) -> bool,
    ) -> Option<(BackendKey, Vec<ClientKey>)> {
        let affinity = &mut self.opening.affinity;
        let key = self.idle[place];
        let backend = &self.backends[key];
        let serves = backend.opened.affinity_until.is_some_and(|until| until > now);
        serves.then(|| (key, affinity.first(backend.account.identity(), waits)))
    }
}

impl Servers {
    /// Notes that a client's statement enters the queue.
    pub(crate) fn note_for_affinity(
        &mut self,
        now: Instant,
        clients: &Table<ClientKey, Client>,
        key: ClientKey,
        (lane, need): (Lane, Need),
    ) {
        let client = &clients[key];
        let server = self.serving(client);
        let affinity = &mut self[server].opening.affinity;
        if !affinity.is_wanted(now) {
            return affinity.clear();
        }
        let Some(account) = client.identity() else { return };
        if lane == Lane::Low && need == Need::Any {
            affinity.add(account, key, clients.len());
        }
    }

    /// Finds an idle backend, and the client with a short statement that may run there before the clients in front of it. None where
    /// the scheduler does not follow Onramp's own rules, or takes the newest first: these clients are the account's oldest.
    pub(in crate::backend) fn by_affinity(
        &mut self,
        now: Instant,
        settings: &Settings,
        scheduling: &Scheduling,
        clients: &Table<ClientKey, Client>,
        sessions: &SessionTables,
    ) -> Option<(ClientKey, BackendKey)> {
        let scheduler = &scheduling.scheduler;
        if !scheduler.is_native() || scheduler.is_newest_first(Lane::Low) {
            return None;
        }
        // Some have been served since, and wait for the backend that they hold.
        let waits =
            |client| scheduler.waits_in(client) == Some(Lane::Low) && clients[client].backend.is_none();
        self.keys().find_map(|server| {
            if !self[server].opening.affinity.is_wanted(now) {
                return None;
            }
            (0..self[server].idle.len()).rev().find_map(|place| {
                let (key, first) = self[server].first_of_account(now, place, waits)?;
                let suits = |&client: &ClientKey| {
                    let client = &clients[client];
                    let kind = client.request.as_ref().map_or(0, |request| request.statement.fingerprint);
                    sessions.fits(&self[key], client)
                        && client.keeps_no_backend(settings, self, &sessions.states)
                        && !scheduling.digests.is_long(kind, SHORT)
                };
                first.into_iter().find(suits).map(|client| (client, key))
            })
        })
    }
}
