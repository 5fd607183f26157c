//! Clients that hold a backend, for a transaction or a pin, and do nothing, while others wait for one (`idle_hold_timeout`).
//!
//! A client that holds a lock for hours may mean it: programs choose their leader by GET_LOCK. So nobody is ended as long as
//! there are backends for all. Once none has been free for a while, clients go that have been idle for too long: first those of
//! the user that uses the most backends, and of these the one that has been idle longest. Likewise a client of an account of which the server
//! takes no more connections goes once another statement of that account has waited for a while.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use seam::Instant;

use super::settings::OverloadSettings;
use crate::accounts::secret::IdentityKey;
use crate::client::{Client, Phase};
use crate::errors::{Bound, MySqlError};
use crate::ids::{ClientKey, Table};
use crate::outside::named::Limit;
use crate::scheduling::Scheduling;
use crate::scheduling::shares::Parties;

/// Backends that are free again a moment later end nobody: as often as clients are looked at.
const WAITS: Duration = Duration::from_secs(1);

impl Scheduling {
    /// Returns the idle clients that lose their backends to those that wait, in this order.
    pub(crate) fn idle_holders_to_end(
        &self,
        parties: &Parties<'_>,
        clients: &Table<ClientKey, Client>,
    ) -> Vec<ClientKey> {
        let of_accounts = holders_of_full_accounts(parties, clients);
        let over = self.holders_of_scarce_places(parties, clients);
        // One thing after the other: what goes for all may be what the account's own statements wait for.
        if over.is_empty() { of_accounts } else { over }
    }

    fn holders_of_scarce_places(
        &self,
        parties: &Parties<'_>,
        clients: &Table<ClientKey, Client>,
    ) -> Vec<ClientKey> {
        let Parties { now, settings, pool, logins, .. } = *parties;
        let places = &pool.workers.places;
        let lacks = self.lacking_since.filter(|_| places.are_full());
        let (held_up, since) = self.shares.held_up_since();
        places.note_wait(pool.worker, lacks.into_iter().chain(since).min());
        let limit = settings.overload.idle_hold_timeout;
        let waits = places.somebody_waits_since().is_some_and(|since| now.since(since) >= WAITS);
        if limit.is_zero() || !waits {
            return Vec::new();
        }
        let mut over: Vec<_> = clients
            .iter()
            .filter(|(_, client)| client.holds_idle(now, limit))
            .filter_map(|(key, client)| {
                let usage = logins.identities.usage(client.identity()?, &pool.workers.users);
                Some((Reverse(usage.backends()), client.activity.last_heard(), key))
            })
            .collect();
        over.sort_unstable();
        // What others than this worker lack may be with it: it gives them one at a time.
        let wanted = if lacks.is_some() { self.scheduler.in_need() } else { 0 };
        over.truncate((wanted + held_up).max(1));
        over.into_iter().map(|(.., key)| key).collect()
    }
}

/// Returns the clients that lose their backends to statements of their own accounts, on whichever worker these wait: of each such account the one
/// that has been idle longest. Tells other workers of the statements that wait here.
fn holders_of_full_accounts(parties: &Parties<'_>, clients: &Table<ClientKey, Client>) -> Vec<ClientKey> {
    let Parties { now, settings, pool, logins, .. } = *parties;
    let identities = &logins.identities;
    let waits = |client: &Client| {
        let arrived = client.request.as_ref().map(|request| request.turn.arrived_at());
        matches!(client.phase(), Phase::Queued)
            && client.backend.is_none()
            && arrived.is_some_and(|at| now.since(at) >= WAITS)
            && client.identity().is_some_and(|identity| identities.has_no_room(identity, now))
    };
    let waiting = clients.iter().filter(|(_, client)| waits(client));
    let accounts: BTreeSet<IdentityKey> =
        waiting.filter_map(|(_, client)| Some(identities.name(client.identity()?))).collect();
    let limit = settings.overload.idle_hold_timeout;
    let mut accounts = pool.workers.users.full_accounts.wait(pool.worker, accounts);
    if limit.is_zero() || accounts.is_empty() {
        return Vec::new();
    }
    let idle = clients.iter().filter(|(_, client)| client.holds_idle(now, limit));
    let mut idle: Vec<_> = idle.map(|(key, client)| (client.activity.last_heard(), key)).collect();
    idle.sort_unstable();
    let is_first = |key: &ClientKey| {
        let identity = clients[*key].identity();
        identity.is_some_and(|identity| accounts.remove(&identities.name(identity)))
    };
    idle.into_iter().map(|(_, key)| key).filter(is_first).collect()
}

impl Client {
    /// Says whether the client has held a backend for as long, and has sent nothing.
    fn holds_idle(&self, now: Instant, limit: Duration) -> bool {
        self.backend.is_some()
            && matches!(self.phase(), Phase::Idle)
            && self.loss.kind.is_none()
            && !self.loss.killed
            && now.since(self.activity.last_heard()) >= limit
    }
}

impl OverloadSettings {
    /// `idle_hold_timeout`, as it is told of.
    pub(crate) fn idle_hold_bound(&self) -> Bound {
        Bound::time(Limit::IdleHoldTimeout, self.idle_hold_timeout)
    }
}

impl MySqlError {
    /// The error for a client that held a backend for nothing while others waited: ER_NET_READ_INTERRUPTED, as for a transaction
    /// that was idle for too long.
    pub(crate) fn held_idle(bound: &Bound) -> Self {
        Self {
            code: 1159,
            sql_state: b"08S01",
            message: format!(
                "Got timeout reading communication packets: others waited for a backend while this client held one and was idle; \
                 its transaction, locks and temporary tables are gone ({bound})"
            ),
        }
    }
}
