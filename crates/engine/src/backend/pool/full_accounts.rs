//! Backends of accounts of which the server takes no more: the worker that may have one of ours ([`crate::workers::full_accounts`]).

use seam::Instant;

use crate::accounts::secret::IdentityKey;
use crate::accounts::{Account, Identities, IdentityId};
use crate::backend::Backend;
use crate::client::Client;
use crate::ids::{BackendKey, ClientKey, Table};
use crate::pool::Pool;
use crate::server::Server;
use crate::workers::full_accounts::{Free, Recipient};
use crate::workers::letter::Letter;

/// The reason for which the server is not asked for one more.
pub(in crate::backend) const ALL_ARE_OURS: &str = "all that the account may have are Onramp's";

impl Server {
    /// The number of backends of this identity that [pass](Backend::passes) from client to client.
    pub(crate) fn passing_backends(&self, identity: IdentityId, clients: &Table<ClientKey, Client>) -> usize {
        let counts = |backend: &Backend| {
            backend.is_ready() && backend.account.identity() == identity && backend.passes(clients)
        };
        self.backends.iter().filter(|(_, backend)| counts(backend)).count()
    }

    /// Says whether all connections that the server takes of an account at a time are ours already, as its accounts tell.
    pub(in crate::backend) fn has_all_of(&self, account: &Account, pool: &Pool) -> bool {
        let most = self.facts.as_ref().and_then(|facts| facts.accounts.most_connections(account));
        let count = || pool.workers.users.connections(self.reachability.address, account);
        most.is_some_and(|most| count() >= most)
    }
}

impl Pool {
    /// Tells a worker that lacks a backend of this account, of which the server takes no more, that one of ours has ended.
    pub(crate) fn tell_of_room(&mut self, now: Instant, identities: &Identities, identity: IdentityId) {
        if self.workers.users.full_accounts.any() {
            let account = identities.name(identity);
            if let Some(worker) = self.workers.users.full_accounts.next(now, &account, self.worker) {
                self.leave_room_of(account, worker);
            }
        }
    }

    /// Leaves the room of a backend of this account to another worker.
    pub(crate) fn leave_room_of(&mut self, account: IdentityKey, worker: usize) {
        self.workers.users.full_accounts.has_one_more(&account, worker);
        self.write_letter(worker, Letter::AccountHasRoom(account));
    }

    /// Returns the worker that gets the room of a backend, of whose account the server takes no more, if this one is to become free for it.
    pub(crate) fn gets_room_of(
        &self,
        now: Instant,
        (server, key): (&Server, BackendKey),
        identities: &Identities,
        clients: &Table<ClientKey, Client>,
        is_needed: bool,
    ) -> Recipient {
        let full_accounts = &self.workers.users.full_accounts;
        if !full_accounts.any() {
            return Recipient::Nobody;
        }
        let backend = &server.backends[key];
        let account = &backend.account;
        let passing = server.passing_backends(account.identity(), clients);
        let (times, costs) = ((account.held_since, backend.since), server.opening.costs_of_room());
        let free = Free::new(self.worker, passing, is_needed, times, costs);
        full_accounts.recipient(now, &identities.name(account.identity()), free)
    }
}
