//! Statements of the account that a backend has just been opened for, or changed its account for: while accounts take places from each
//! other, they go before others.
//!
//! In the queue's own order most of them would come when the backend is another account's, and cost a change or a login each. So what a
//! backend has cost is used: for as long as a place is worth, and for a few milliseconds at most, it serves its account's short statements
//! before those that would take it away. Whoever waits longer for that, waits less for changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use seam::Instant;

use crate::accounts::IdentityId;
use crate::engine::Engine;
use crate::ids::{BackendKey, ClientKey};
use crate::learned::history::SHORT;
use crate::scheduler::{Lane, Need};

/// A statement that waits for a place waits for so much longer at most.
const LONGEST: Duration = Duration::from_millis(5);

/// After so long in which no account has taken another one's place, they all have room.
const SCARCE_FOR: Duration = Duration::from_secs(1);

/// So many that wait are looked at for one: those in front are mostly served, or kept from it by something that keeps all others too.
const LOOKS: usize = 8;

/// Who waits, by account, while places are scarce.
#[derive(Debug, Default)]
pub(crate) struct Companions {
    /// When an account last took another one's place.
    taken_at: Option<Instant>,
    /// Clients in the order in which their statements came; some have been served since, and some stand there twice.
    waiting: BTreeMap<IdentityId, VecDeque<ClientKey>>,
}

impl Companions {
    /// An account has taken another one's place.
    pub(super) fn place_taken(&mut self, now: Instant) {
        self.taken_at = Some(now);
    }

    /// Whether accounts take places from each other.
    fn are_wanted(&self, now: Instant) -> bool {
        self.taken_at.is_some_and(|at| now.since(at) < SCARCE_FOR)
    }

    /// A client of this account waits for a backend.
    fn add(
        &mut self,
        account: IdentityId,
        client: ClientKey,
        clients: usize,
        waits: impl Fn(ClientKey) -> bool,
    ) {
        let waiting = self.waiting.entry(account).or_default();
        while waiting.front().is_some_and(|&first| !waits(first)) {
            waiting.pop_front();
        }
        // Behind one that waits for long; each that still waits has another number.
        if waiting.len() >= 2 * clients.max(LOOKS) {
            let mut seen = BTreeSet::new();
            waiting.retain(|&other| waits(other) && seen.insert(other));
        }
        waiting.push_back(client);
    }

    /// Nobody holds this account any more: its number may be another one's soon.
    pub(crate) fn forget(&mut self, account: IdentityId) {
        self.waiting.remove(&account);
    }
}

impl Engine {
    /// A statement enters the queue.
    pub(crate) fn note_companion(&mut self, client: ClientKey, lane: Lane, need: Need) {
        let companions = &mut self.opening.companions;
        if !companions.are_wanted(self.now) {
            return companions.waiting.clear();
        }
        let Some(account) = self.clients[client].identity else { return };
        if lane == Lane::Low && need == Need::Any {
            let waits = |client: ClientKey| self.scheduler.waits_in(client) == Some(lane);
            self.opening.companions.add(account, client, self.clients.len(), waits);
        }
    }

    /// Until when a backend that stands for a client's account now serves its companions first.
    pub(super) fn time_for_companions(&self, changed: bool) -> Option<Instant> {
        let wanted = self.opening.companions.are_wanted(self.now);
        wanted.then(|| self.now + self.opening.worth(changed).min(LONGEST))
    }

    /// An idle backend, and the client whose short statement may run on it before those in front of it.
    pub(super) fn companion(&self) -> Option<(ClientKey, BackendKey)> {
        if !self.opening.companions.are_wanted(self.now) {
            return None;
        }
        self.idle.iter().rev().find_map(|&key| {
            let backend = &self.backends[key];
            backend.companions_until.filter(|&until| until > self.now)?;
            let waiting = self.opening.companions.waiting.get(&backend.identity)?;
            let fits = |&&client: &&ClientKey| self.is_companion(client, key);
            waiting.iter().take(LOOKS).find(fits).map(|&client| (client, key))
        })
    }

    fn is_companion(&self, client: ClientKey, backend: BackendKey) -> bool {
        // It may have been served since, and wait for the backend that it holds.
        if self.scheduler.waits_in(client) != Some(Lane::Low) || self.clients[client].backend.is_some() {
            return false;
        }
        let kind = self.clients[client].request.as_ref().map_or(0, |request| request.statement.fingerprint);
        self.fits(&self.backends[backend], &self.clients[client])
            && self.keeps_no_backend(client)
            && !self.digests.is_long(kind, SHORT)
            && self.user_may_use_one_more(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::client_key;

    #[test]
    fn who_has_been_served_does_not_stay() {
        let mut companions = Companions::default();
        let account = IdentityId::of_test(3);
        // The first one waits for ever, and all others are served at once and come again.
        for number in (1..=5).cycle().take(1_000) {
            companions.add(account, client_key(number), 5, |client| client == client_key(1));
        }
        assert!(companions.waiting[&account].len() <= 2 * LOOKS + 1);
        companions.add(account, client_key(9), 5, |client| client == client_key(9));
        assert_eq!(companions.waiting[&account], [client_key(9)]);
        companions.forget(account);
        assert!(companions.waiting.is_empty());
    }
}
