//! The logins of clients: who may log in, and what logins wait for.

use std::collections::{BTreeMap, VecDeque};

use seam::Instant;

use crate::accounts::{Identities, IdentityHold, IdentityId};
use crate::client::Client;
use crate::client::login::delegation::claims::Claims;
use crate::client::login::late_refusals::LateRefusals;
use crate::client::login::of_client::ClientLogin;
use crate::client::login::schema::LoginSchemas;
use crate::ids::{ClientKey, ClientRef, Table};

/// The logins of this worker's clients.
#[derive(Default)]
pub(crate) struct Logins {
    /// The accounts of clients and backends that are known.
    pub(crate) identities: Identities,
    /// Logins by their deadline: all have the same time, so that the first is always the next.
    by_deadline: VecDeque<(Instant, ClientRef)>,
    /// Logins that wait for a fresh copy of the accounts.
    awaiting_accounts: Vec<ClientRef>,
    /// Passwords about which the server is asked.
    pub(crate) claims: Claims,
    /// Refused logins that hear of it later.
    pub(crate) late_refusals: LateRefusals,
    /// The schemas that logins name.
    pub(crate) schemas: LoginSchemas,
}

impl Logins {
    /// A client's login has up to then, if it has not begun already.
    pub(crate) fn begin(&mut self, until: Instant, client: ClientRef, login: &mut ClientLogin) {
        if login.begin(until) {
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
                && client.login.until() == Some(*until)
            {
                client.login.end_by(latest);
            }
            *until = latest;
        }
    }

    /// Returns the time at which the next login has taken too long.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.by_deadline.front().map(|&(deadline, _)| deadline)
    }

    /// A login waits for a fresh copy of the accounts.
    pub(crate) fn await_accounts(&mut self, client: ClientRef) {
        self.awaiting_accounts.push(client);
    }

    /// Takes out the logins that have waited for a fresh copy of the accounts.
    pub(crate) fn take_awaiting_accounts(&mut self) -> Vec<ClientRef> {
        std::mem::take(&mut self.awaiting_accounts)
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
            let is_its = |client: &&Client| client.login.until() == Some(deadline);
            if clients.find(client).filter(is_its).is_some() {
                return Some(client.key);
            }
        }
        None
    }

    /// Gives up one hold on an identity. Returns the number where that was the last one, and nothing more is known of the identity here.
    pub(crate) fn release(&mut self, identity: IdentityHold) -> Option<IdentityId> {
        let gone = self.identities.release(identity)?;
        self.schemas.forget_user(gone);
        Some(gone)
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
