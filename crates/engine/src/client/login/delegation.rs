//! Logins of accounts with passwords that somebody behind the server knows (PAM, LDAP). The client sends its password as it is, where
//! nobody can listen, and a backend logs in with it. If the server takes the password, the client is in, and the backend is there for it.
//!
//! The server is not asked again about a password that it took within `accounts_refresh` (a second at most), as with accounts that are
//! read. Of a crowd that comes back at once, one client asks. Few ask at a time, so that guesses do not use up the places of backends.
//! Networks take turns. A user that has given wrong passwords waits before the next one is asked about.

use std::sync::Arc;
use std::time::Duration;

use crate::accounts::proof::Proof;
use crate::accounts::secret::{Password, Secret};
use crate::accounts::{Account, IdentityHold, IdentityId};
use crate::client::login::attempt::{Attempt, Login, LoginAnswer, PasswordQuestion};
use crate::client::login::authentication::{Authentication, AuthenticationOutcome};
use crate::client::{Client, Phase};
use crate::errors::MySqlError;
use crate::ids::{BackendKey, ClientKey, ClientRef};
use crate::workers::account_connections::AccountConnection;
use claims::Claim;
use line::LoginOrigin;
use room::Room;

pub(crate) mod claims;
pub(crate) mod line;
mod room;

/// The longest time for which a password that the server took holds without asking. Somebody may be locked out where neither we nor
/// the server can read it. The time is as `accounts_refresh` usually is; a longer `accounts_refresh` is about accounts that are read.
const HOLDS: Duration = Duration::from_secs(1);

/// Claims that are looked at in a turn. Each takes about a microsecond.
pub(in crate::client) const LOOKS: usize = 256;

/// The end of a claim without a proof.
pub(crate) enum Unproved {
    /// The server says that the password is wrong.
    Wrong,
    /// The server says no for another reason.
    Refused(MySqlError),
    /// The server takes no connection now: it has no room for one more, or lets nobody in.
    NotNow,
    /// The claim did not come to an answer.
    Lost,
}

/// The next step for clients with passwords that the server has to judge.
#[must_use]
pub(crate) enum ClaimStep {
    /// Nothing more in this turn.
    Rest,
    /// Nothing: the client that was looked at waits on, or has gone.
    Next,
    /// The client is to be judged by this answer.
    Judge(ClientRef, LoginAnswer),
    /// The server is to be asked about this password, as soon as there is a place for that. It may be the account's only question.
    Ask(ClientRef, LoginOrigin, Arc<Password>, Option<AccountConnection>),
    /// An idle backend is to be closed, since the server takes no more connections of its account, and a login needs one.
    MakeRoom(BackendKey),
    /// The client is to be refused with this error.
    Refuse(ClientRef, MySqlError),
    /// The client is to be told that the server cannot be reached.
    Lose(ClientRef),
}

impl Authentication<'_> {
    /// Takes in a client with a password that the server has to judge, as soon as there is room for the question.
    pub(in crate::client) fn claim(&mut self, key: ClientKey, mut attempt: Box<Attempt>) -> ClaimStep {
        attempt.answer = match std::mem::replace(&mut attempt.answer, LoginAnswer::Nonsense) {
            LoginAnswer::Token(token) => {
                let clear = token.strip_suffix(&[0]).unwrap_or(&token);
                LoginAnswer::Sent(Proof::Clear(Arc::new(Password::new(clear.to_vec().into()))))
            }
            // The account has changed since.
            LoginAnswer::Checked { password, .. } | LoginAnswer::Judged { password, .. } => {
                LoginAnswer::Sent(Proof::Clear(password))
            }
            answer => answer,
        };
        attempt.held_at = None;
        self.clients[key].wait_in_login(Login::AwaitingServer(attempt));
        let client = self.clients.ref_to(key);
        let Some((_, guest)) = self.waiting_claim(client) else { return ClaimStep::Next };
        if let Some(answer) = self.proved_lately(client) {
            return ClaimStep::Judge(client, answer);
        }
        let peer = self.clients[key].peer;
        let Some(attempt) = self.clients[key].attempt_at_server() else { return ClaimStep::Next };
        let (failed, settings) = (&self.pool.workers.failed_logins, self.settings);
        let delay = failed.expected(self.now, &peer, &attempt.user, &settings.failed_logins);
        // A right password has to get there in time.
        let delay = delay.min(settings.connect_timeout / 2);
        let claims = &mut self.logins.claims;
        if delay.is_zero() || !attempt.held_back.is_zero() {
            claims.line.push(guest, client);
            claims.look_again();
            return ClaimStep::Next;
        }
        attempt.held_back = delay;
        claims.hold_back(self.now + delay, attempt, (guest, client));
        ClaimStep::Next
    }

    /// Returns the next step: for the next client in line, or for one of a user that has proved the same password a moment ago.
    pub(super) fn next_step(&mut self) -> ClaimStep {
        if let Some((guest, client)) = self.logins.claims.again.pop_front() {
            if self.waiting_claim(client).is_none() {
                return ClaimStep::Next;
            }
            if let Some(answer) = self.proved_lately(client) {
                return ClaimStep::Judge(client, answer);
            }
            self.logins.claims.line.push(guest, client);
            self.logins.claims.look_again();
            return ClaimStep::Next;
        }
        let next = if self.logins.claims.may_go_on { self.logins.claims.next() } else { None };
        let Some((guest, client)) = next else {
            self.logins.claims.may_go_on = false;
            return ClaimStep::Rest;
        };
        let Some((password, _)) = self.waiting_claim(client) else { return ClaimStep::Next };
        match self.proved_lately(client) {
            Some(answer) => ClaimStep::Judge(client, answer),
            None => match self.room_for_claim(client) {
                Room::Some(turn) => ClaimStep::Ask(client, guest, password, turn),
                Room::None => {
                    self.wait_for_room(client, guest);
                    ClaimStep::Next
                }
                Room::Behind(idle) => {
                    self.wait_for_room(client, guest);
                    ClaimStep::MakeRoom(idle)
                }
            },
        }
    }

    /// Puts the clients into line that were held back for long enough.
    pub(super) fn take_held(&mut self) {
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

    /// Returns the password of a client that still waits to be judged, with its user and network.
    fn waiting_claim(&self, client: ClientRef) -> Option<(Arc<Password>, LoginOrigin)> {
        let client = self.clients.find(client)?;
        match client.phase() {
            Phase::Login(Login::AwaitingServer(attempt)) => match &attempt.answer {
                LoginAnswer::Sent(Proof::Clear(password)) => {
                    Some((Arc::clone(password), LoginOrigin::new(&client.peer, &attempt.user)))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the word of the server, where it took the same password a moment ago.
    fn proved_lately(&self, client: ClientRef) -> Option<LoginAnswer> {
        let (password, _) = self.waiting_claim(client)?;
        let (question, _) = self.question_of(client.key)?;
        let (known, at) = self.pool.workers.passwords.find_with_time(&question.whose, &question.stored)?;
        let holds = self.settings.accounts_refresh.min(HOLDS);
        if self.now.since(at) >= holds || known.digest1() != password.digest1() {
            return None;
        }
        Some(LoginAnswer::Judged { password: known, question, right: true })
    }

    /// Returns the question to the server about a client, and the client's account.
    pub(in crate::client) fn question_of(&self, key: ClientKey) -> Option<(PasswordQuestion, Arc<Account>)> {
        let Phase::Login(Login::AwaitingServer(attempt)) = self.clients[key].phase() else { return None };
        let facts = self.server.facts.as_ref()?;
        let peer = &self.clients[key].peer;
        let account = facts.accounts.find(&attempt.user, peer, facts.name_resolution)?;
        Some((PasswordQuestion::about(&attempt.user, account)?, Arc::clone(account)))
    }

    /// Prepares a question to the server: a hold on the identity with which a backend is to log in, what the account is asked, and the
    /// collation of the client's login. `None` where the account has gone since.
    pub(crate) fn identity_to_ask(
        &mut self,
        client: ClientRef,
        password: &Arc<Password>,
    ) -> Option<(IdentityHold, PasswordQuestion, u8)> {
        let (question, account) = self.question_of(client.key)?;
        let Phase::Login(Login::AwaitingServer(attempt)) = self.clients[client.key].phase() else {
            return None;
        };
        let secret =
            if password.clear().is_empty() { Secret::None } else { Secret::Password(Arc::clone(password)) };
        let identity = self.logins.identities.claim(&account, &attempt.user, secret);
        self.logins.identities.came_from(identity.id(), &self.clients[client.key].peer);
        Some((identity, question, attempt.collation))
    }

    /// Takes in that the server has taken the password with which this backend logs in. `None` where that was for nobody's claim.
    pub(crate) fn claim_proved(&mut self, token: u64) -> Option<(ClientRef, LoginAnswer)> {
        let Claim { client, guest, password, question } = self.logins.claims.end(token, self.now)?;
        self.pool.workers.passwords.remember(&question.whose, &question.stored, &password, self.now);
        let others = self.logins.claims.line.take_all(&guest);
        self.logins.claims.again.extend(others.into_iter().map(|client| (guest.clone(), client)));
        Some((client, LoginAnswer::Judged { password, question, right: true }))
    }

    /// Holds the identity of a client that has logged in, where the client can have a backend that was asked for with the claimed identity.
    /// Such a backend may do what the account could when it was asked for.
    pub(crate) fn identity_proved(&mut self, client: ClientRef, claimed: IdentityId) -> Option<IdentityHold> {
        let identity = self.clients.find(client)?.identity()?;
        let (one, other) =
            (self.logins.identities.identity(identity), self.logins.identities.identity(claimed));
        let (new, old) = (&one.account, &other.account);
        let is_same = one.user == other.user
            && (&new.user, &new.host, &new.rights) == (&old.user, &old.host, &old.rights);
        is_same.then(|| self.logins.identities.hold_again(identity))
    }

    /// Takes in that a backend for a claim did not come about.
    pub(crate) fn claim_failed(&mut self, token: u64, how: Unproved) -> ClaimStep {
        let Some(Claim { client, guest, password, question }) = self.logins.claims.end(token, self.now)
        else {
            return ClaimStep::Next;
        };
        match how {
            Unproved::Wrong => {
                ClaimStep::Judge(client, LoginAnswer::Judged { password, question, right: false })
            }
            Unproved::NotNow => {
                if self.waiting_claim(client).is_some() {
                    self.logins.claims.line.put_back(guest, client);
                }
                ClaimStep::Next
            }
            Unproved::Refused(error) => ClaimStep::Refuse(client, error),
            Unproved::Lost => ClaimStep::Lose(client),
        }
    }

    /// Returns the user, and the number of the next packet, of a client that still waits to be judged.
    pub(in crate::client) fn attempt_to_refuse(&self, client: ClientRef) -> Option<(String, u8)> {
        self.waiting_claim(client)?;
        let Phase::Login(Login::AwaitingServer(attempt)) = self.clients[client.key].phase() else {
            return None;
        };
        Some((String::from_utf8_lossy(&attempt.user).into_owned(), attempt.sequence))
    }

    /// Decides on a client that still waits to be judged.
    pub(super) fn judge_claim(&mut self, client: ClientRef, answer: LoginAnswer) -> AuthenticationOutcome {
        if self.waiting_claim(client).is_none() {
            return AuthenticationOutcome::Waits;
        }
        let waits = |login: &Login| matches!(login, Login::AwaitingServer(_));
        match self.clients[client.key].take_login(waits) {
            Some(Login::AwaitingServer(mut attempt)) => {
                attempt.answer = answer;
                self.judge(client.key, attempt)
            }
            _ => AuthenticationOutcome::Waits,
        }
    }
}

#[cfg(test)]
mod tests;
