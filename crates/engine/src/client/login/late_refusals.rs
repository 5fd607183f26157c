//! Refused logins that hear of it later: the reasons of refusals, and the time at which they are told.

use std::collections::BTreeMap;

use seam::{Instant, Peer};

use crate::client::login::attempt::{Login, LoginVerdict};
use crate::client::{Client, Phase};
use crate::errors::MySqlError;
use crate::ids::{ClientKey, ClientRef, Table};
use crate::server::Server;

impl Server {
    /// Returns the reason that the log gives beyond what the client is told.
    pub(crate) fn why_refused(&self, peer: &Peer, user: &[u8], verdict: &LoginVerdict) -> String {
        match verdict {
            LoginVerdict::Insecure => String::from("; the account asks for TLS, or for another certificate"),
            LoginVerdict::Denied => {
                let Some(facts) = &self.facts else { return String::new() };
                let account = facts.accounts.find(user, peer, facts.name_resolution);
                account.map_or_else(
                    || String::from("; no account of that name is for that address"),
                    |account| {
                        let user = String::from_utf8_lossy(&account.user);
                        format!("; not the password of '{user}'@'{}'", account.host)
                    },
                )
            }
            _ => String::new(),
        }
    }
}

/// Refused logins that are told so at a time, in the order of that and of their clients' ids.
#[derive(Default)]
pub(crate) struct LateRefusals(pub(super) BTreeMap<(Instant, u64), LateRefusal>);

/// A refusal that is told later.
pub(crate) struct LateRefusal {
    pub(crate) client: ClientRef,
    pub(crate) sequence: u8,
    pub(crate) error: MySqlError,
}

impl LateRefusals {
    /// Returns the time at which the next refusal is to be told.
    pub(crate) fn next_time(&self) -> Option<Instant> {
        self.0.keys().next().map(|&(at, _)| at)
    }

    /// Tells a client later that its login is refused; the client waits without any work. Returns the place of its refusal among the others.
    pub(crate) fn add(&mut self, told: Instant, refusal: LateRefusal) -> (Instant, u64) {
        let place = (told, u64::from(refusal.client.id));
        self.0.insert(place, refusal);
        place
    }

    /// The client whose refusal has this place has gone.
    pub(in crate::client) fn remove(&mut self, place: (Instant, u64)) {
        self.0.remove(&place);
    }

    /// Takes out the next late refusal that is due, of a client that still waits for it.
    pub(crate) fn next_due(
        &mut self,
        now: Instant,
        clients: &Table<ClientKey, Client>,
    ) -> Option<LateRefusal> {
        while let Some(first) = self.0.first_entry().filter(|first| first.key().0 <= now) {
            let refusal = first.remove();
            let client = clients.find(refusal.client);
            if client.is_some_and(|client| matches!(client.phase(), Phase::Login(Login::Refused(_)))) {
                return Some(refusal);
            }
        }
        None
    }
}
