//! Backends and their holders, from a look at the backends, of which there are few. Nothing here looks at each client.

use std::collections::BTreeMap;
use std::time::Duration;

use seam::Instant;

use crate::backend::{Backend, Owner};
use crate::client::Client;
use crate::ids::{ClientKey, Table};
use crate::outside::enum_map::EnumMap;
use crate::outside::named::BackendActivity;
use crate::servers::Servers;

/// Backends and their holders, as a look at the backends tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// How many backends there are.
    pub backends: EnumMap<BackendActivity, u64>,
    /// Clients with a statement on a backend, clients that share one included.
    pub running: u64,
    /// Clients that hold a backend on which nothing runs.
    pub holding: u64,
    /// Clients that are pinned.
    pub pinned: u64,
    /// Likewise, by reason; one may have several.
    pub pins: BTreeMap<&'static str, u64>,
    /// How often a client was pinned, by reason, since the start.
    pub pin_times: BTreeMap<&'static str, u64>,
    /// Clients that may hold locks, as far as is known: they have changed or locked something in their transaction, or are pinned
    /// for what locks.
    pub lock_holders: u64,
    /// Clients that hold locks others wait for.
    pub blocking: u64,
    /// Statements that were last seen to wait for locks on the server.
    pub lock_waits: u64,
    /// How long the oldest open transaction has been open.
    pub oldest_transaction: Option<Duration>,
}

impl Holders {
    /// Looks at each backend: about as many nanoseconds as for a row of the table of backends, and without its texts.
    pub(super) fn of(now: Instant, servers: &Servers, clients: &Table<ClientKey, Client>) -> Self {
        let mut holders = Self::default();
        for (_, backend) in servers.backends() {
            let holder = backend.holder().and_then(|client| clients.get(client));
            holders.add_backend(backend, holder.is_some());
            if let Some(client) = holder {
                holders.add_holder(client);
                if client.in_transaction() {
                    let open = now.since(client.transaction.since());
                    holders.oldest_transaction = holders.oldest_transaction.max(Some(open));
                }
            }
        }
        holders
    }

    fn add_backend(&mut self, backend: &Backend, held: bool) {
        self.backends[backend.state(held).activity()] += 1;
        let clients =
            backend.in_flight.iter().filter(|one| matches!(one.owner, Owner::Client { .. })).count();
        self.running += clients as u64;
        self.lock_waits += u64::from(backend.locks.seen.is_some() && !backend.in_flight.is_empty());
        self.holding += u64::from(held && backend.in_flight.is_empty());
    }

    fn add_holder(&mut self, client: &Client) {
        self.pinned += u64::from(!client.session.pins().is_empty());
        for reason in client.session.pins().names() {
            *self.pins.entry(reason).or_default() += 1;
        }
        self.lock_holders +=
            u64::from(client.transaction.holds_locks() || client.session.pins().may_hold_locks());
        self.blocking += u64::from(client.transaction.blocks_others());
    }
}

impl std::ops::AddAssign<&Self> for Holders {
    /// Several workers together.
    fn add_assign(&mut self, other: &Self) {
        self.backends += &other.backends;
        self.running += other.running;
        self.holding += other.holding;
        self.pinned += other.pinned;
        for (&reason, more) in &other.pins {
            *self.pins.entry(reason).or_default() += more;
        }
        for (&reason, more) in &other.pin_times {
            *self.pin_times.entry(reason).or_default() += more;
        }
        self.lock_holders += other.lock_holders;
        self.blocking += other.blocking;
        self.lock_waits += other.lock_waits;
        self.oldest_transaction = self.oldest_transaction.max(other.oldest_transaction);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_together_are_as_one() {
        let mut holders = Holders { running: 1, oldest_transaction: None, ..Holders::default() };
        holders.pins.insert("cursor", 1);
        let other = Holders { oldest_transaction: Some(Duration::from_secs(1)), ..holders.clone() };
        holders += &other;
        assert_eq!((holders.running, holders.pins["cursor"]), (2, 2));
        assert_eq!(holders.oldest_transaction, Some(Duration::from_secs(1)));
    }
}
