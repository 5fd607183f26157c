//! Logins of accounts whose passwords somebody behind the server knows (PAM, LDAP): the client sends its password as it is, where
//! nobody can listen, and a backend logs in with it. If the server takes it, the client is in, and the backend is there for it.
//!
//! What the server took within `accounts_refresh` it is not asked again, as with accounts that are read: of a crowd that comes
//! back at once, one asks. Few ask at a time, so that guesses do not use up the places of backends.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::Phase;
use super::authentication::Answer;
use super::login::{Attempt, Login};
use crate::accounts::{Account, IdentityKey};
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::event::Event;
use crate::places::Origin;
use crate::secret::{Password, Secret};
use crate::task::Proof;

/// So many claims of one worker are with the server at a time. PAM and LDAP take milliseconds to tens of them; with more, guesses
/// would take places from statements.
const MOST: usize = 4;

/// For so long at most a password that the server took holds without asking: somebody may be locked out where neither we nor the
/// server can read it. As `accounts_refresh` usually is; a longer one is about accounts that are read.
const HOLDS: Duration = Duration::from_secs(1);

/// Whose passwords the server is being asked about.
#[derive(Default)]
pub(crate) struct Claims {
    /// By the token of the backend that logs in with it.
    asking: BTreeMap<u64, Claim>,
    /// Slots and ids of clients whose turn has not come, in the order of their coming.
    waiting: VecDeque<(usize, u32)>,
    /// How many of them are to be looked at again, because another's claim has ended, or some time has passed.
    to_look_at: usize,
}

/// So many in a turn: each takes about a microsecond.
const LOOKS: usize = 256;

impl Claims {
    /// The turn of some may have come.
    pub(crate) fn look_again(&mut self) {
        self.to_look_at = self.waiting.len();
    }

    fn end(&mut self, token: u64) -> Option<Claim> {
        let claim = self.asking.remove(&token)?;
        self.look_again();
        Some(claim)
    }
}

/// A password with the server.
struct Claim {
    client: (usize, u32),
    password: Arc<Password>,
    question: Question,
}

/// Whose password the server was asked about. The answer holds for that user alone, and not for others whom the same account
/// lets in (an anonymous one), nor for accounts about which the same service is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    whose: IdentityKey,
    /// What the server stores, which says whom it asks.
    stored: Vec<u8>,
}

impl Question {
    /// None where the account is not of this kind.
    fn about(user: &[u8], account: &Account) -> Option<Self> {
        let stored = account.credential.delegated()?.clone();
        Some(Self { whose: account.identity_key(user), stored })
    }

    /// Whether it is this one.
    pub(super) fn is_about(&self, user: &[u8], account: &Account, stored: &[u8]) -> bool {
        let (given, of_account, host) = &self.whose;
        given == user && *of_account == account.user && *host == account.host && self.stored == stored
    }
}

/// How a claim ended without a proof.
pub(crate) enum Unproved {
    /// The server says that the password is wrong.
    Wrong,
    /// The server says no for another reason.
    Refused(MySqlError),
    /// The server has no room for one more connection now.
    NoRoom,
    /// It did not come to an answer.
    Lost,
}

impl Engine {
    /// The client's password is for the server to judge: as soon as there is room for the question.
    pub(crate) fn claim(&mut self, key: usize, mut attempt: Box<Attempt>) {
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
        self.clients[key].phase = Phase::Login(Login::AwaitingServer(attempt));
        let client = (key, self.clients[key].id);
        if self.has_to_wait(client) {
            self.claims.waiting.push_back(client);
        }
    }

    /// Looks at those whose turn may have come, some in each turn.
    pub(crate) fn go_on_with_claims(&mut self) {
        for _ in 0..self.claims.to_look_at.min(LOOKS) {
            self.claims.to_look_at -= 1;
            let Some(client) = self.claims.waiting.pop_front() else { break };
            if self.has_to_wait(client) {
                self.claims.waiting.push_back(client);
            }
        }
    }

    /// Whether there are more of them.
    pub(crate) fn has_claims_to_look_at(&self) -> bool {
        self.claims.to_look_at > 0
    }

    /// Lets a client in, or asks the server about it. True where neither can be now.
    fn has_to_wait(&mut self, client: (usize, u32)) -> bool {
        let Some(password) = self.claimed_password(client) else { return false };
        if self.was_proved_lately(client, &password) {
            return false;
        }
        let same = |claim: &Claim| claim.password.digest1() == password.digest1();
        if self.claims.asking.len() >= MOST || self.claims.asking.values().any(same) {
            return true;
        }
        match self.place_for_claim() {
            Some(origin) => self.ask_server(client, password, origin),
            None => return true,
        }
        false
    }

    /// The password of a client that still waits to be judged.
    fn claimed_password(&self, (key, id): (usize, u32)) -> Option<Arc<Password>> {
        let client = self.clients.get(key).filter(|client| client.id == id)?;
        match &client.phase {
            Phase::Login(Login::AwaitingServer(attempt)) => match &attempt.answer {
                Answer::Sent(Proof::Clear(password)) => Some(Arc::clone(password)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Lets it in where the server took the same password a moment ago.
    fn was_proved_lately(&mut self, (key, _): (usize, u32), password: &Arc<Password>) -> bool {
        let Some((question, _)) = self.question_of(key) else { return false };
        let known = self.workers.passwords.find_with_time(&question.whose, &question.stored);
        let Some((known, at)) = known else { return false };
        let holds = self.settings.accounts_refresh.min(HOLDS);
        if self.now.since(at) >= holds || known.digest1() != password.digest1() {
            return false;
        }
        let client = (key, self.clients[key].id);
        self.judge_claim(client, Answer::Judged { password: known, question, right: true });
        true
    }

    /// What the server is to be asked for a client, and the account.
    fn question_of(&self, key: usize) -> Option<(Question, Rc<Account>)> {
        let Phase::Login(Login::AwaitingServer(attempt)) = &self.clients[key].phase else { return None };
        let facts = self.facts.as_ref()?;
        let peer = &self.clients[key].peer;
        let account = facts.accounts.find(&attempt.user, peer, facts.name_resolution)?;
        Some((Question::about(&attempt.user, account)?, Rc::clone(account)))
    }

    fn ask_server(&mut self, client: (usize, u32), password: Arc<Password>, origin: Origin) {
        let (Some((question, account)), Phase::Login(Login::AwaitingServer(attempt))) =
            (self.question_of(client.0), &self.clients[client.0].phase)
        else {
            // Gone since: whoever looks again finds no such account.
            self.workers.places.give(self.worker);
            return self.judge_claim(client, Answer::Nonsense);
        };
        let (collation, class) = (attempt.collation, self.clients[client.0].class());
        let secret =
            if password.clear().is_empty() { Secret::None } else { Secret::Password(Arc::clone(&password)) };
        let identity = self.identities.claim(&account, &attempt.user, secret);
        self.identities.came_from(identity, &self.clients[client.0].peer);
        self.open_backend_as(identity, class, collation, origin);
        self.claims.asking.insert(self.last_token, Claim { client, password, question });
        // The backend alone holds it.
        self.release_identity(identity);
    }

    fn place_for_claim(&mut self) -> Option<Origin> {
        if !self.may_connect_now() {
            return None;
        }
        self.take_place().or_else(|| self.close_idle_backend().then(|| self.take_place())?)
    }

    /// The server has taken the password: the client is in, and the backend is its account's. False where the backend has gone
    /// with the claim.
    pub(crate) fn claim_proved(&mut self, backend: usize) -> bool {
        let Some(claim) = self.claims.end(self.backends[backend].token) else { return true };
        let Claim { client, password, question } = claim;
        self.workers.passwords.remember(&question.whose, &question.stored, &password, self.now);
        self.judge_claim(client, Answer::Judged { password, question, right: true });
        let proved = self.clients.get(client.0).filter(|found| found.id == client.1);
        let claimed = self.backends[backend].identity;
        let identity = proved.and_then(|client| client.identity).filter(|&identity| {
            let (one, other) = (self.identities.identity(identity), self.identities.identity(claimed));
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
        self.backends[backend].identity = self.identities.hold_again(identity);
        self.release_identity(claimed);
        true
    }

    /// A backend did not come about. Whether it was for a claim, which is over by that.
    pub(crate) fn claim_failed(&mut self, token: u64, how: Unproved) -> bool {
        let Some(Claim { client, password, question }) = self.claims.end(token) else { return false };
        match how {
            Unproved::Wrong => {
                self.judge_claim(client, Answer::Judged { password, question, right: false });
            }
            Unproved::NoRoom => self.claims.waiting.push_front(client),
            Unproved::Refused(error) => self.refuse_claim(client, &error),
            Unproved::Lost => {
                let error = self.unreachable_error();
                self.refuse_claim(client, &error);
            }
        }
        true
    }

    fn refuse_claim(&mut self, client: (usize, u32), error: &MySqlError) {
        if self.claimed_password(client).is_none() {
            return;
        }
        let Phase::Login(Login::AwaitingServer(attempt)) = &self.clients[client.0].phase else { return };
        let (peer, sequence) = (self.clients[client.0].peer, attempt.sequence);
        let user = String::from_utf8_lossy(&attempt.user).into_owned();
        self.event(Event::LoginRefused { peer, user, reason: error.message.clone() });
        self.tell_refusal(client.0, sequence, error);
    }

    fn judge_claim(&mut self, client: (usize, u32), answer: Answer) {
        if self.claimed_password(client).is_none() {
            return;
        }
        let phase = std::mem::replace(&mut self.clients[client.0].phase, Phase::Idle);
        if let Phase::Login(Login::AwaitingServer(mut attempt)) = phase {
            attempt.answer = answer;
            self.judge(client.0, attempt);
        }
    }
}

#[cfg(test)]
mod tests;
