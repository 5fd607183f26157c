//! Statements of the account that a backend has just been opened for, or changed its account for: while accounts take places from each
//! other, they go before others.
//!
//! In the queue's own order most of them would come when the backend is another account's, and cost a change or a login each. So
//! a backend that has cost something is used: for as long as a place is worth, and for a few milliseconds at most, it serves its
//! account's short statements before those that would take it away. Clients that wait longer for that wait less for changes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use seam::Instant;

use crate::accounts::IdentityId;
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

/// After so long in which no account has taken another one's place, they all have room.
const SCARCE_FOR: Duration = Duration::from_secs(1);

/// So many that wait are looked at for one; the others may have other capabilities, or begin a transaction.
const LOOKS: usize = 8;

/// The clients that wait, by account, while places are scarce.
#[derive(Debug, Default)]
pub(crate) struct AccountAffinity {
    /// When an account last took another one's place.
    taken_at: Option<Instant>,
    /// Clients in the order in which their statements came; some have been served since, and some stand there twice.
    waiting: BTreeMap<IdentityId, VecDeque<ClientKey>>,
    /// How many entries that are in all.
    entries: usize,
}

impl AccountAffinity {
    /// An account has taken another one's place.
    pub(super) fn place_taken(&mut self, now: Instant) {
        self.taken_at = Some(now);
    }

    /// Says whether accounts take places from each other.
    fn is_wanted(&self, now: Instant) -> bool {
        self.taken_at.is_some_and(|at| now.since(at) < SCARCE_FOR)
    }

    /// A client of this account waits for a backend.
    fn add(&mut self, account: IdentityId, client: ClientKey, clients: usize) {
        // Those behind one that waits for long are not looked at: a statement that still waits is found in the queue's own order.
        if self.entries > 2 * clients + LOOKS {
            self.clear();
        }
        self.waiting.entry(account).or_default().push_back(client);
        self.entries += 1;
    }

    /// The first of those of an account that still wait; who does not is dropped from the front.
    fn first(&mut self, account: IdentityId, waits: impl Fn(ClientKey) -> bool) -> Vec<ClientKey> {
        let Some(waiting) = self.waiting.get_mut(&account) else { return Vec::new() };
        while waiting.front().is_some_and(|&first| !waits(first)) {
            waiting.pop_front();
            self.entries -= 1;
        }
        waiting.iter().copied().filter(|&client| waits(client)).take(LOOKS).collect()
    }

    /// Nobody holds this account any more: its number may be another one's soon.
    pub(crate) fn forget(&mut self, account: IdentityId) {
        self.entries -= self.waiting.remove(&account).map_or(0, |waiting| waiting.len());
    }

    fn clear(&mut self) {
        self.waiting.clear();
        self.entries = 0;
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::client_key;

    #[test]
    fn who_has_been_served_does_not_stay() {
        let mut affinity = AccountAffinity::default();
        let account = IdentityId::of_test(3);
        for number in 0..20 {
            affinity.add(account, client_key(number), 20);
        }
        let waits = |client| client >= client_key(5) && client != client_key(7);
        let first = affinity.first(account, waits);
        assert_eq!(first[..3], [5, 6, 8].map(client_key));
        assert_eq!((first.len(), affinity.entries), (LOOKS, 15), "those in front are gone");
        affinity.forget(account);
        assert_eq!((affinity.waiting.len(), affinity.entries), (0, 0));
        // One in front waits for ever, and all others are served at once and come again.
        for number in (0..5).cycle().take(1_000) {
            affinity.add(account, client_key(number), 5);
            assert!(affinity.entries <= 2 * 5 + LOOKS + 1);
        }
    }
}
