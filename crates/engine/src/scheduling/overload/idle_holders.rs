//! Clients that hold a backend, for a transaction or a pin, and do nothing, while others wait for one (`idle_hold_timeout`).
//!
//! A client that holds a lock for hours may mean it: programs choose their leader by GET_LOCK. So nobody is ended as long as
//! there are backends for all. Once none has been free for a while, clients go that have been idle for too long: first those of
//! the user that uses the most backends, and of these the one that has been idle longest.

use std::cmp::Reverse;
use std::time::Duration;

use seam::Instant;

use super::settings::OverloadSettings;
use crate::accounts::Identities;
use crate::client::{Client, Phase};
use crate::errors::{Bound, MySqlError};
use crate::ids::{ClientKey, Table};
use crate::outside::named::Limit;
use crate::pool::Pool;
use crate::scheduling::Scheduling;
use crate::settings::Settings;

/// Backends that are free again a moment later end nobody: as often as clients are looked at.
const WAITS: Duration = Duration::from_secs(1);

impl Scheduling {
    /// Idle clients that lose their backends to those that wait, in this order.
    pub(crate) fn idle_holders_to_end(
        &self,
        now: Instant,
        settings: &Settings,
        pool: &Pool,
        clients: &Table<ClientKey, Client>,
        identities: &Identities,
    ) -> Vec<ClientKey> {
        let places = &pool.workers.places;
        let lacks = self.lacking_since.filter(|_| places.are_full());
        let (held_up, since) = self.shares.held_up_since();
        places.note_wait(pool.worker, lacks.into_iter().chain(since).min());
        let limit = settings.overload.idle_hold_timeout;
        let waits = places.somebody_waits_since().is_some_and(|since| now.since(since) >= WAITS);
        if limit.is_zero() || !waits {
            return Vec::new();
        }
        let is_idle = |client: &Client| {
            matches!(client.phase(), Phase::Idle)
                && client.loss.kind.is_none()
                && !client.loss.killed
                && now.since(client.activity.last_heard()) >= limit
        };
        let mut over: Vec<_> = clients
            .iter()
            .filter(|(_, client)| client.backend.is_some() && is_idle(client))
            .filter_map(|(key, client)| {
                let usage = identities.usage(client.identity?, &pool.workers.users);
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
