//! The logins of clients: who may log in, and what logins wait for.

use std::collections::{BTreeMap, VecDeque};

use seam::Instant;

use crate::accounts::{Identities, IdentityId};
use crate::client::delegation::claims::Claims;
use crate::client::{Client, ClientLogin};
use crate::errors::MySqlError;
use crate::ids::{ClientKey, ClientRef, Table};

/// The logins of this worker's clients.
#[derive(Default)]
pub(crate) struct Logins {
    /// The accounts of clients and backends that are known.
    pub(crate) identities: Identities,
    /// Logins by their deadline: all have the same time, so that the first is always the next.
    pub(crate) by_deadline: VecDeque<(Instant, ClientRef)>,
    /// Logins that wait for a fresh copy of the accounts.
    pub(crate) awaiting_accounts: Vec<ClientRef>,
    /// Passwords about which the server is asked.
    pub(crate) claims: Claims,
    /// Refused logins that are told so at a time, in the order of that and of their clients' ids.
    pub(crate) late_refusals: BTreeMap<(Instant, u64), LateRefusal>,
    /// Schemas of logins of which the server is being asked.
    pub(crate) schema_checks: BTreeMap<(IdentityId, Vec<u8>), SchemaCheck>,
    /// The same by the client that the server is asked for: each statement that is queued looks here.
    pub(crate) schema_askers: BTreeMap<ClientKey, (IdentityId, Vec<u8>)>,
    /// Schemas that a user was allowed to use, and when.
    pub(crate) known_schemas: BTreeMap<(IdentityId, Vec<u8>), Instant>,
}

/// A user and a schema of which the server is being asked.
pub(crate) struct SchemaCheck {
    /// Clients that wait for the answer, beside the one that the server is asked for.
    pub(crate) waiting: Vec<ClientRef>,
}

/// A refusal that is told later.
pub(crate) struct LateRefusal {
    pub(crate) client: ClientRef,
    pub(crate) sequence: u8,
    pub(crate) error: MySqlError,
}

impl Logins {
    /// A client's login has up to then, if it has not begun already.
    pub(crate) fn begin(&mut self, until: Instant, client: ClientRef, login: &mut ClientLogin) {
        if login.until.is_none() {
            login.until = Some(until);
            self.by_deadline.push_back((until, client));
        }
    }

    /// Gives logins under way no longer than this: `connect_timeout` is another one from now on. So they stay in order.
    pub(crate) fn end_by(&mut self, latest: Instant, clients: &mut Table<ClientKey, Client>) {
        for (until, client) in &mut self.by_deadline {
            if *until <= latest {
                continue;
            }
            if let Some(client) = clients.find_mut(*client)
                && client.login.until == Some(*until)
            {
                client.login.until = Some(latest);
            }
            *until = latest;
        }
    }

    /// Takes out the next client with a login that has taken longer than `connect_timeout`.
    pub(crate) fn next_expired(
        &mut self,
        now: Instant,
        clients: &Table<ClientKey, Client>,
    ) -> Option<ClientKey> {
        let is_over = |&&(deadline, _): &&(Instant, ClientRef)| deadline <= now;
        while let Some(&(deadline, client)) = self.by_deadline.front().filter(is_over) {
            self.by_deadline.pop_front();
            let is_its = |client: &&Client| client.login.until == Some(deadline);
            if clients.find(client).filter(is_its).is_some() {
                return Some(client.key);
            }
        }
        None
    }

    /// Gives up one hold on this identity. Returns true where that was the last one, and nothing more is known of the identity here.
    pub(crate) fn release(&mut self, identity: IdentityId) -> bool {
        let was_last = self.identities.release(identity);
        if was_last {
            self.known_schemas.retain(|(known, _), _| *known != identity);
        }
        was_last
    }

    /// Clients that have not been greeted yet have other ids, by their former ones.
    pub(crate) fn ids_are_renewed(&mut self, renewed: &BTreeMap<u32, u32>) {
        if renewed.is_empty() {
            return;
        }
        for (_, client) in &mut self.by_deadline {
            if let Some(&id) = renewed.get(&client.id) {
                client.id = id;
            }
        }
    }
}
