//! Logins of accounts whose passwords somebody behind the server knows (PAM, LDAP): the client sends its password as it is, where
//! nobody can listen, and a backend logs in with it. If the server takes it, the client is in, and the backend is there for it.
//!
//! What the server took within `accounts_refresh` it is not asked again, as with accounts that are read: of a crowd that comes
//! back at once, one asks. Few ask at a time, so that guesses do not use up the places of backends; networks take turns, and whoever
//! has given wrong passwords waits before the next one is asked about.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use seam::Instant;

use super::attempt::{Answer, Attempt, Login, Question};
use super::{Client, Phase};
use crate::accounts::Account;
use crate::accounts::proof::Proof;
use crate::accounts::secret::{Password, Secret};
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::ids::{BackendKey, ClientKey, ClientRef};
use crate::outside::event::Event;
use crate::outside::named::RefusedFor;
use crate::workers::places::Origin;
use claims::Claim;
use line::Guest;

pub(crate) mod claims;
mod line;

/// For so long at most a password that the server took holds without asking: somebody may be locked out where neither we nor the
/// server can read it. As `accounts_refresh` usually is; a longer one is about accounts that are read.
const HOLDS: Duration = Duration::from_secs(1);

/// So many in a turn: each takes about a microsecond.
const LOOKS: usize = 256;

/// How a claim ended without a proof.
pub(crate) enum Unproved {
    /// The server says that the password is wrong.
    Wrong,
    /// The server says no for another reason.
    Refused(MySqlError),
    /// The server takes no connection now: it has no room for one more, or lets nobody in.
    NotNow,
    /// It did not come to an answer.
    Lost,
}

impl Engine {
    /// The client's password is for the server to judge: as soon as there is room for the question.
    pub(crate) fn claim(&mut self, key: ClientKey, mut attempt: Box<Attempt>) {
        attempt.answer = match std::mem::replace(&mut attempt.answer, Answer::Nonsense) {
            Answer::Token(token) => {
                let clear = token.strip_suffix(&[0]).unwrap_or(&token);
                Answer::Sent(Proof::Clear(Arc::new(Password::new(clear.to_vec().into()))))
            }
            // The account has changed since.
            Answer::Checked { password, .. } | Answer::Judged { password, .. } => {
                Answer::Sent(Proof::Clear(password))
            }
            answer => answer,
        };
        attempt.held_at = None;
        self.clients[key].wait_in_login(Login::AwaitingServer(attempt));
        let client = self.clients.ref_to(key);
        let Some((_, guest)) = self.waiting_claim(client) else { return };
        if self.was_proved_lately(client) {
            return;
        }
        let peer = self.clients[key].peer;
        let Some(attempt) = self.clients[key].attempt_at_server() else { return };
        let (failed, settings) = (&self.pool.workers.failed_logins, &self.settings);
        let delay = failed.expected(self.now, &peer, &attempt.user, &settings.failed_logins);
        // A right password has to get there in time.
        let delay = delay.min(settings.connect_timeout / 2);
        if delay.is_zero() || !attempt.held_back.is_zero() {
            self.logins.claims.line.push(guest, client);
            return self.logins.claims.look_again();
        }
        self.logins.claims.last_held += 1;
        let place = (self.now + delay, self.logins.claims.last_held);
        (attempt.held_back, attempt.held_at) = (delay, Some(place));
        self.logins.claims.held.insert(place, (guest, client));
    }

    /// Asks about those whose turn has come, and lets in those whose user has proved the same a moment ago.
    pub(crate) fn go_on_with_claims(&mut self) {
        self.take_held();
        for _ in 0..LOOKS {
            if let Some((guest, client)) = self.logins.claims.again.pop_front() {
                if self.waiting_claim(client).is_some() && !self.was_proved_lately(client) {
                    self.logins.claims.line.push(guest, client);
                    self.logins.claims.look_again();
                }
                continue;
            }
            let next = if self.logins.claims.may_go_on { self.logins.claims.next() } else { None };
            let Some((guest, client)) = next else {
                self.logins.claims.may_go_on = false;
                break;
            };
            let Some((password, _)) = self.waiting_claim(client) else { continue };
            if self.was_proved_lately(client) {
                continue;
            }
            let Some(origin) = self.place_for_claim() else {
                self.logins.claims.line.put_back(guest, client);
                self.logins.claims.may_go_on = false;
                break;
            };
            self.ask_server(client, guest, password, origin);
        }
    }

    /// Those who were held back for long enough get into line.
    fn take_held(&mut self) {
        while let Some(first) = self.logins.claims.held.first_entry() {
            if first.key().0 > self.now {
                break;
            }
            let (guest, client) = first.remove();
            let waiting = self.clients.find_mut(client);
            let Some(attempt) = waiting.and_then(Client::attempt_at_server) else {
                continue;
            };
            attempt.held_at = None;
            self.logins.claims.line.push(guest, client);
            self.logins.claims.look_again();
        }
    }

    /// The password of a client that still waits to be judged, and who it is.
    fn waiting_claim(&self, client: ClientRef) -> Option<(Arc<Password>, Guest)> {
        let client = self.clients.find(client)?;
        match client.phase() {
            Phase::Login(Login::AwaitingServer(attempt)) => match &attempt.answer {
                Answer::Sent(Proof::Clear(password)) => {
                    Some((Arc::clone(password), Guest::new(&client.peer, &attempt.user)))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Lets it in where the server took the same password a moment ago.
    fn was_proved_lately(&mut self, client: ClientRef) -> bool {
        let Some((password, _)) = self.waiting_claim(client) else { return false };
        let Some((question, _)) = self.question_of(client.key) else { return false };
        let known = self.pool.workers.passwords.find_with_time(&question.whose, &question.stored);
        let Some((known, at)) = known else { return false };
        let holds = self.settings.accounts_refresh.min(HOLDS);
        if self.now.since(at) >= holds || known.digest1() != password.digest1() {
            return false;
        }
        self.judge_claim(client, Answer::Judged { password: known, question, right: true });
        true
    }

    /// What the server is to be asked for a client, and the account.
    fn question_of(&self, key: ClientKey) -> Option<(Question, Rc<Account>)> {
        let Phase::Login(Login::AwaitingServer(attempt)) = self.clients[key].phase() else { return None };
        let facts = self.servers.primary().facts.as_ref()?;
        let peer = &self.clients[key].peer;
        let account = facts.accounts.find(&attempt.user, peer, facts.name_resolution)?;
        Some((Question::about(&attempt.user, account)?, Rc::clone(account)))
    }

    fn ask_server(&mut self, client: ClientRef, guest: Guest, password: Arc<Password>, origin: Origin) {
        let (Some((question, account)), Phase::Login(Login::AwaitingServer(attempt))) =
            (self.question_of(client.key), self.clients[client.key].phase())
        else {
            // Gone since: whoever looks again finds no such account.
            self.pool.workers.places.give(self.pool.worker);
            return self.judge_claim(client, Answer::Nonsense);
        };
        let (collation, class) = (attempt.collation, self.clients[client.key].class());
        let secret =
            if password.clear().is_empty() { Secret::None } else { Secret::Password(Arc::clone(&password)) };
        let identity = self.logins.identities.claim(&account, &attempt.user, secret);
        self.logins.identities.came_from(identity, &self.clients[client.key].peer);
        let server = self.servers.primary().key;
        self.open_backend_as(server, identity, class, collation, origin);
        self.logins.claims.asking.insert(self.io.last_token, Claim { client, guest, password, question });
        // The backend alone holds it.
        self.release_identity(identity);
    }

    fn place_for_claim(&mut self) -> Option<Origin> {
        if !self.may_connect_now(self.servers.primary().key) {
            return None;
        }
        self.pool
            .take_place(self.now)
            .or_else(|| self.close_idle_backend().then(|| self.pool.take_place(self.now))?)
    }

    /// The server has taken the password: the client is in, and the backend is its account's. False where the backend has gone
    /// with the claim.
    pub(crate) fn claim_proved(&mut self, backend: BackendKey) -> bool {
        let Some(claim) = self.logins.claims.end(self.servers[backend].token) else { return true };
        let Claim { client, guest, password, question } = claim;
        self.pool.workers.passwords.remember(&question.whose, &question.stored, &password, self.now);
        let others = self.logins.claims.line.take_all(&guest);
        self.logins.claims.again.extend(others.into_iter().map(|client| (guest.clone(), client)));
        self.judge_claim(client, Answer::Judged { password, question, right: true });
        let proved = self.clients.find(client);
        let claimed = self.servers[backend].account.identity;
        let identity = proved.and_then(|client| client.identity).filter(|&identity| {
            let (one, other) =
                (self.logins.identities.identity(identity), self.logins.identities.identity(claimed));
            // What it may do is what it could when it was asked for.
            let (new, old) = (&one.account, &other.account);
            one.user == other.user
                && (&new.user, &new.host, &new.rights) == (&old.user, &old.host, &old.rights)
        });
        let Some(identity) = identity else {
            // It has gone, or may not log in for another reason.
            self.quit_backend(backend);
            return false;
        };
        self.servers[backend].account.identity = self.logins.identities.hold_again(identity);
        self.release_identity(claimed);
        true
    }

    /// A backend did not come about. Whether it was for a claim, which is over by that.
    pub(crate) fn claim_failed(&mut self, token: u64, how: Unproved) -> bool {
        let Some(Claim { client, guest, password, question }) = self.logins.claims.end(token) else {
            return false;
        };
        match how {
            Unproved::Wrong => {
                self.judge_claim(client, Answer::Judged { password, question, right: false });
            }
            Unproved::NotNow if self.waiting_claim(client).is_some() => {
                self.logins.claims.line.put_back(guest, client);
            }
            Unproved::NotNow => {}
            Unproved::Refused(error) => self.refuse_claim(client, &error),
            Unproved::Lost => {
                let error = self.unreachable_error(self.servers.primary().key, "connect_timeout");
                self.refuse_claim(client, &error);
            }
        }
        true
    }

    fn refuse_claim(&mut self, client: ClientRef, error: &MySqlError) {
        if self.waiting_claim(client).is_none() {
            return;
        }
        let Phase::Login(Login::AwaitingServer(attempt)) = self.clients[client.key].phase() else { return };
        let (peer, sequence) = (self.clients[client.key].peer, attempt.sequence);
        let user = String::from_utf8_lossy(&attempt.user).into_owned();
        let (refused_for, reason) = (RefusedFor::Server, error.message.clone());
        self.views.event(Event::LoginRefused { peer, user, refused_for, reason });
        self.tell_refusal(client.key, sequence, error);
    }

    fn judge_claim(&mut self, client: ClientRef, answer: Answer) {
        if self.waiting_claim(client).is_none() {
            return;
        }
        let waits = |login: &Login| matches!(login, Login::AwaitingServer(_));
        if let Some(Login::AwaitingServer(mut attempt)) = self.clients[client.key].take_login(waits) {
            attempt.answer = answer;
            let outcome = self.authentication().judge(client.key, attempt);
            self.carry_out_login(client.key, outcome);
        }
    }
}

#[cfg(test)]
mod tests;
