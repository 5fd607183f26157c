//! The clients that wait for a backend of their account, while places are scarce.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use seam::Instant;

use crate::accounts::IdentityId;
use crate::ids::ClientKey;

/// Places count as scarce for this time since an account last took another one's place. After that all accounts have room.
const SCARCE_FOR: Duration = Duration::from_secs(1);

/// Number of waiting clients that are looked at for a backend. The others may have other capabilities, or begin a transaction.
const LOOKS: usize = 8;

/// The clients that wait, by account, while places are scarce.
#[derive(Debug, Default)]
pub(crate) struct AccountAffinity {
    /// Time at which an account last took another one's place.
    taken_at: Option<Instant>,
    /// Clients in the order in which their statements came. Some have been served since, and some stand there twice.
    waiting: BTreeMap<IdentityId, VecDeque<ClientKey>>,
    /// Number of entries in all.
    entries: usize,
}

impl AccountAffinity {
    /// Notes that an account has taken another one's place.
    pub(crate) fn place_taken(&mut self, now: Instant) {
        self.taken_at = Some(now);
    }

    /// Takes out the time of the last taking, for a freezer, which puts it back later. The waiting clients stay out of that.
    pub(crate) fn take_place_taken(&mut self) -> Option<Instant> {
        let Self { taken_at, waiting: _, entries: _ } = self;
        taken_at.take()
    }

    /// Says whether accounts take places from each other.
    pub(super) fn is_wanted(&self, now: Instant) -> bool {
        self.taken_at.is_some_and(|at| now.since(at) < SCARCE_FOR)
    }

    /// Adds a client of this account that waits for a backend.
    pub(super) fn add(&mut self, account: IdentityId, client: ClientKey, clients: usize) {
        // Those behind one that waits for long are not looked at: a statement that still waits is found in the queue's own order.
        if self.entries > 2 * clients + LOOKS {
            self.clear();
        }
        self.waiting.entry(account).or_default().push_back(client);
        self.entries += 1;
    }

    /// Returns the first of an account's clients that still wait. Drops the others from the front.
    pub(super) fn first(&mut self, account: IdentityId, waits: impl Fn(ClientKey) -> bool) -> Vec<ClientKey> {
        let Some(waiting) = self.waiting.get_mut(&account) else { return Vec::new() };
        while waiting.front().is_some_and(|&first| !waits(first)) {
            waiting.pop_front();
            self.entries -= 1;
        }
        waiting.iter().copied().filter(|&client| waits(client)).take(LOOKS).collect()
    }

    /// Forgets an account that nobody holds any more, since another account may get its number soon.
    pub(crate) fn forget(&mut self, account: IdentityId) {
        self.entries -= self.waiting.remove(&account).map_or(0, |waiting| waiting.len());
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.entries = 0;
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
