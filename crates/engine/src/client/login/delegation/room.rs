//! The room that the question about a password takes of its account: a backend logs in before anybody knows whether the password is right.
//!
//! A server may take few connections of an account at a time. A wrong password has one of them for seconds. So where few are left, one password is
//! asked about at a time, and none in the last room for which a statement waits. Where all are Onramp's, one that nobody needs is closed for it.

use std::time::Duration;

use super::claims::MOST;
use super::line::LoginOrigin;
use crate::client::Client;
use crate::client::login::authentication::Authentication;
use crate::ids::{BackendKey, ClientRef};
use crate::workers::account_connections::AccountConnection;
use crate::workers::letter::Letter;

/// The pause after which a client that waits for room in its account is looked at again: about as long as a right password takes PAM and LDAP.
const PAUSE: Duration = Duration::from_millis(100);

/// The time behind a question in which no other one gets the account's last room: statements of other workers have been told of it, and go first.
const TOLD: Duration = Duration::from_millis(20);

/// The room in the account of a client whose password is to be asked about.
pub(super) enum Room {
    /// There is some. Where there is little, the question is the only one about the account for as long as the turn is held.
    Some(Option<AccountConnection>),
    /// None for now.
    None,
    /// None before this idle backend is closed.
    Behind(BackendKey),
}

impl Authentication<'_> {
    /// Returns the room in the account of a client that is next in line. Another worker is asked for some where this one has none to give.
    pub(super) fn room_for_claim(&mut self, client: ClientRef) -> Room {
        let user = self.clients.find_mut(client).and_then(Client::attempt_at_server);
        let user = user.map(|attempt| attempt.user.clone());
        let Some((user, (_, account))) = user.zip(self.question_of(client.key)) else {
            return Room::Some(None);
        };
        let server = &*self.server;
        let most = server.facts.as_ref().and_then(|facts| facts.accounts.most_connections(&account));
        let Some(most) = most else { return Room::Some(None) };
        let (users, address) = (&self.pool.workers.users, server.reachability.address);
        let room = most.saturating_sub(users.connections(address, &account));
        // As many as all workers ask about at a time leave one for statements.
        if room as usize > MOST * self.pool.workers.count() as usize {
            return Room::Some(None);
        }
        let Some(turn) = users.begin_claim(address, &account) else { return Room::None };
        let (name, worker) = (account.identity_key(&user), self.pool.worker);
        let named = self.logins.identities.named(&name);
        let is_of = |identity| named.contains(&identity);
        let waits = server.opening.lacking().any(is_of)
            || users.full_accounts.next(self.now, &name, worker).is_some();
        let is_told = self.logins.claims.turn_ended.is_some_and(|at| self.now.since(at) < TOLD);
        if room > u32::from(waits || is_told) {
            return Room::Some(Some(turn));
        }
        if room > 0 || waits || is_told {
            return Room::None;
        }
        let is_own = |key: BackendKey| is_of(server.backends[key].account.identity());
        if let Some(&idle) = server.idle.iter().find(|&&key| is_own(key)) {
            return Room::Behind(idle);
        }
        if self.pool.workers.count() > 1 {
            // No worker lacks less: it gets what nobody needs, and nothing for which a statement waits.
            users.full_accounts.lacks(self.now, name.clone(), worker, most as usize);
            self.pool.write_to_others(&Letter::AccountIsFull(name));
        }
        Room::None
    }

    /// Lets a client wait for room in its account: it gets into line again a moment later.
    pub(super) fn wait_for_room(&mut self, client: ClientRef, guest: LoginOrigin) {
        let Some(attempt) = self.clients.find_mut(client).and_then(Client::attempt_at_server) else { return };
        self.logins.claims.hold_back(self.now + PAUSE, attempt, (guest, client));
    }
}
