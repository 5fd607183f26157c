//! Statements of the account that a backend has just been opened for, or changed its account for: while accounts take places from each
//! other, they go before others.
//!
//! In the queue's own order most of them would come when the backend is another account's, and cost a change or a login each. So
//! a backend that has cost something is used: for as long as a place is worth, and for a few milliseconds at most, it serves its
//! account's short statements before those that would take it away. Clients that wait longer for that wait less for changes.

pub(super) mod waiting;

use std::time::Duration;

use seam::Instant;

use crate::client::Client;
use crate::ids::{BackendKey, ClientKey, Table};
use crate::learned::history::SHORT;
use crate::scheduler::Need;
use crate::scheduler::lane::Lane;
use crate::scheduling::Scheduling;
use crate::server::Server;
use crate::servers::Servers;
use crate::session::SessionTables;
use crate::settings::Settings;

/// A statement that waits for a place waits for so much longer at most.
const LONGEST: Duration = Duration::from_millis(5);

impl Server {
    /// Until when a backend that stands for a client's account now serves others of the account first.
    pub(super) fn affinity_ends(&self, now: Instant, changed: bool) -> Option<Instant> {
        let wanted = self.opening.affinity.is_wanted(now);
        wanted.then(|| now + self.opening.worth(changed).min(LONGEST))
    }

    /// The idle backend at this place, if it serves those of its account first now, and the first of these.
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
        serves.then(|| (key, affinity.first(backend.account.identity, waits)))
    }
}

impl Servers {
    /// A client's statement enters the queue.
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
        let Some(account) = client.identity else { return };
        if lane == Lane::Low && need == Need::Any {
            affinity.add(account, key, clients.len());
        }
    }

    /// An idle backend, and the client whose short statement may run on it before those in front of it. Only by our own rules, and not
    /// while the newest go first: these are the account's oldest.
    pub(super) fn by_affinity(
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
