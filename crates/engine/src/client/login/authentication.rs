//! The proof by a client of who it is, by the method of the account that it asks for.
//!
//! `mysql_native_password` takes one answer, which the stored hash checks. The password itself is never known here. A
//! right answer gives away SHA1(password), and backends log in with that.
//!
//! `caching_sha2_password` takes one answer, while a client or a backend of any worker holds the account's password
//! ([`crate::accounts::secret::KnownPasswords`]). Otherwise the client is asked for the password. The password comes as
//! it is where nobody can listen, and otherwise encrypted with our public key. Another thread checks it against what
//! the server stores. The password is kept for backends, which the server may ask for it at any time.

use std::sync::Arc;

use seam::{Instant, Peer};
use wire::{AuthSwitch, Capabilities, sha2_password};
use zeroize::Zeroizing;

use crate::accounts::failed_logins::network;
use crate::accounts::method::Method;
use crate::accounts::proof::Proof;
use crate::accounts::secret::{Password, Secret};
use crate::accounts::task::{Asker, Finding, Work};
use crate::accounts::{Account, Credential};
use crate::client::Client;
use crate::client::login::attempt::{Attempt, Login, LoginAnswer, LoginVerdict};
use crate::client::resume::Resume;
use crate::ids::{ClientKey, ClientRef, Table};
use crate::io::Io;
use crate::logins::Logins;
use crate::pool::Pool;
use crate::server::Server;
use crate::settings::Settings;

/// Bytes of an Ed25519 signature (RFC 8032).
const SIGNATURE_LEN: usize = 64;

/// The outcome of a login, as far as it can be told.
#[must_use]
pub(crate) enum AuthenticationOutcome {
    /// The login waits: for the client, for another thread, or for a fresh copy of the accounts.
    Waits,
    /// The client is the user that it claims to be. Backends prove that with this secret.
    LogsIn(Arc<Account>, Secret, Box<Attempt>),
    /// The server has to judge the password.
    Claims(Box<Attempt>),
    /// The login is refused with this verdict.
    Refused(Box<Attempt>, LoginVerdict),
}

/// The logins of clients, and the state that is looked at and changed to judge them.
pub(crate) struct Authentication<'a> {
    pub(in crate::client) now: Instant,
    pub(in crate::client) settings: &'a Settings,
    pub(in crate::client) pool: &'a mut Pool,
    /// The server with the accounts by which clients log in.
    pub(super) server: &'a mut Server,
    pub(in crate::client) clients: &'a mut Table<ClientKey, Client>,
    pub(in crate::client) logins: &'a mut Logins,
    pub(super) resume: &'a mut Resume,
    pub(in crate::client) io: &'a mut Io,
}

impl Pool {
    /// Judges by an answer to the scramble, where the password is known here. A right answer is enough then; `None` otherwise.
    fn proof_by_known_password(
        &self,
        account: &Arc<Account>,
        stored: &[u8],
        attempt: &Attempt,
    ) -> Option<LoginVerdict> {
        let LoginAnswer::Token(token) = &attempt.answer else { return None };
        if stored.is_empty() || attempt.answer.is_empty() {
            return None;
        }
        let known = self.workers.passwords.find(&account.password_key(), stored)?;
        let digest2 = sha2_password::digest2(known.digest1());
        let right = sha2_password::verify(token, &attempt.scramble, &digest2);
        right.then(|| accepted(account, Secret::Password(known)))
    }

    /// Judges by the password itself.
    fn proof_by_sha2_password(
        &self,
        now: Instant,
        account: &Arc<Account>,
        stored: &[u8],
        attempt: &Attempt,
    ) -> LoginVerdict {
        match &attempt.answer {
            answer if stored.is_empty() && answer.is_empty() => accepted(account, Secret::None),
            answer if stored.is_empty() || answer.is_empty() => LoginVerdict::Denied,
            LoginAnswer::Checked { password, stored: checked, right: true } if checked == stored => {
                let whose = account.password_key();
                self.workers.passwords.remember(&whose, stored, password, now);
                accepted(account, Secret::Password(Arc::clone(password)))
            }
            _ => check(attempt, stored),
        }
    }
}

impl Logins {
    /// Judges by the user of this machine that the kernel says the client is. Backends log in with what another login
    /// of the account has proved or, where there was none, with the password that is meant for that.
    fn proof_by_socket(
        &self,
        settings: &Settings,
        account: &Arc<Account>,
        client: &Client,
        attempt: &Attempt,
    ) -> LoginVerdict {
        let refused = if account.credential == Credential::Socket {
            LoginVerdict::NotThatUser
        } else {
            LoginVerdict::Denied
        };
        let Peer::Unix { uid } = client.peer else { return refused };
        match &attempt.socket_user {
            None => LoginVerdict::NeedsUserName(uid),
            Some(Some(name)) if account.socket_users.contains(name) => {
                LoginVerdict::Accepted(Arc::clone(account), self.mapped_secret(settings, account, attempt))
            }
            Some(_) => refused,
        }
    }

    /// Returns the secret with which backends log in for a client that has a proof which cannot be passed on.
    fn mapped_secret(&self, settings: &Settings, account: &Account, attempt: &Attempt) -> Secret {
        let proved = self.identities.secret_of(&attempt.user, account).cloned();
        proved.unwrap_or_else(|| Secret::of(settings.mapped_password.as_bytes()))
    }
}

impl Authentication<'_> {
    /// Asks for an answer by the account's own method, where the client has used another. Judges the attempt otherwise.
    pub(super) fn authenticate(
        &mut self,
        key: ClientKey,
        attempt: Box<Attempt>,
        fresh_scramble: bool,
    ) -> AuthenticationOutcome {
        let Some(method) = self.method_for(key, &attempt) else { return self.judge(key, attempt) };
        let speaks = self.clients[key].capabilities.contains(Capabilities::PLUGIN_AUTH);
        if speaks && (fresh_scramble || attempt.method != Some(method)) {
            self.switch_method(key, attempt, method)
        } else {
            self.judge(key, attempt)
        }
    }

    /// Returns the account's method, or the server's usual one for nobody's account.
    fn method_for(&self, key: ClientKey, attempt: &Attempt) -> Option<Method> {
        let facts = self.server.facts.as_ref()?;
        match facts.accounts.find(&attempt.user, &self.clients[key].peer, facts.name_resolution) {
            Some(account) => account
                .credential
                .method()
                .filter(|&method| method != Method::Clear || self.clients[key].may_send_password(method)),
            None => Some(facts.method),
        }
    }

    fn switch_method(
        &mut self,
        key: ClientKey,
        mut attempt: Box<Attempt>,
        method: Method,
    ) -> AuthenticationOutcome {
        attempt.scramble = self.io.entropy.scramble();
        attempt.method = Some(method);
        let mut data = attempt.scramble.to_vec();
        if method == Method::Ed25519 {
            data.extend_from_slice(&self.io.entropy.scramble());
            attempt.nonce.copy_from_slice(&data[..32]);
            data.truncate(attempt.nonce.len());
        } else {
            data.push(0);
        }
        let mut payload = Vec::new();
        AuthSwitch { plugin: method.name(), data: &data }.put(&mut payload);
        self.send_in_login(key, &mut attempt, &payload);
        self.await_answer(key, Login::Switched(attempt))
    }

    /// Asks the client for the password itself.
    fn ask_for_password(&mut self, key: ClientKey, mut attempt: Box<Attempt>) -> AuthenticationOutcome {
        if attempt.method == Some(Method::CachingSha2) {
            let payload = [sha2_password::MORE_DATA_HEADER, sha2_password::FULL_AUTHENTICATION];
            self.send_in_login(key, &mut attempt, &payload);
            return self.await_answer(key, Login::PasswordAsked(attempt));
        }
        // sha256_password: the answer to the scramble is the password, or the wish for our key.
        let LoginAnswer::Token(token) = std::mem::replace(&mut attempt.answer, LoginAnswer::Nonsense) else {
            return self.judge(key, attempt);
        };
        self.password_sent(key, attempt, &token)
    }

    /// Takes in a packet of a client that was asked for its password.
    pub(super) fn password_sent(
        &mut self,
        key: ClientKey,
        mut attempt: Box<Attempt>,
        payload: &[u8],
    ) -> AuthenticationOutcome {
        let asks_for_key = match attempt.method {
            Some(Method::Sha256) => [sha2_password::REQUEST_PUBLIC_KEY_SHA256],
            _ => [sha2_password::REQUEST_PUBLIC_KEY],
        };
        let method = attempt.method.unwrap_or(Method::CachingSha2);
        attempt.answer = if self.clients[key].may_send_password(method) {
            let clear = payload.strip_suffix(&[0]).unwrap_or(payload);
            LoginAnswer::Sent(Proof::Clear(Arc::new(Password::new(Zeroizing::new(clear.to_vec())))))
        } else if payload == asks_for_key && !attempt.has_asked_for_key {
            attempt.has_asked_for_key = true;
            return self.have_done(key, attempt, Work::PublicKey);
        } else {
            LoginAnswer::Sent(Proof::Encrypted { bytes: payload.to_vec(), scramble: attempt.scramble })
        };
        self.judge(key, attempt)
    }

    /// Takes in what another thread has found for a client's login.
    pub(super) fn take_finding(&mut self, client: ClientRef, finding: Finding) -> AuthenticationOutcome {
        let key = client.key;
        let Some(client) = self.clients.find_mut(client) else { return AuthenticationOutcome::Waits };
        let waits = |login: &Login| matches!(login, Login::AwaitingFinding(_));
        let Some(Login::AwaitingFinding(mut attempt)) = client.take_login(waits) else {
            return AuthenticationOutcome::Waits;
        };
        match finding {
            Finding::PublicKey(Some(public_key)) => {
                let payload = [&[sha2_password::MORE_DATA_HEADER], &public_key[..]].concat();
                self.send_in_login(key, &mut attempt, &payload);
                self.await_answer(key, Login::PasswordAsked(attempt))
            }
            Finding::Password(Some((password, right))) => {
                let stored = std::mem::take(&mut attempt.checking);
                attempt.answer = LoginAnswer::Checked { password, stored, right };
                self.judge(key, attempt)
            }
            Finding::Signature(right) => {
                let public_key = attempt.checking.as_slice().try_into().unwrap_or_default();
                if let LoginAnswer::Token(signature) =
                    std::mem::replace(&mut attempt.answer, LoginAnswer::Nonsense)
                {
                    attempt.answer = LoginAnswer::Signed { signature, public_key, right };
                }
                self.judge(key, attempt)
            }
            Finding::UserName(name) => {
                attempt.socket_user = Some(name);
                self.judge(key, attempt)
            }
            Finding::PublicKey(None)
            | Finding::Password(None)
            | Finding::Encrypted(_)
            | Finding::Text(_)
            | Finding::Accounts(_)
            | Finding::Code(_)
            | Finding::Lost => {
                attempt.answer = LoginAnswer::Nonsense;
                self.judge(key, attempt)
            }
        }
    }

    /// Decides on an attempt by the accounts as we know them. Where they say no, a fresh copy of them decides.
    pub(super) fn judge(&mut self, key: ClientKey, mut attempt: Box<Attempt>) -> AuthenticationOutcome {
        match self.verdict(&self.clients[key], &attempt) {
            LoginVerdict::Accepted(account, secret) => {
                let by_token = matches!(attempt.answer, LoginAnswer::Token(_));
                if by_token && attempt.method == Some(Method::CachingSha2) && secret.password().is_some() {
                    let payload = [sha2_password::MORE_DATA_HEADER, sha2_password::FAST_AUTHENTICATION];
                    self.send_in_login(key, &mut attempt, &payload);
                }
                AuthenticationOutcome::LogsIn(account, secret, attempt)
            }
            LoginVerdict::NeedsPassword => self.ask_for_password(key, attempt),
            LoginVerdict::NeedsSignature(public_key) => self.check_signature(key, attempt, public_key),
            LoginVerdict::NeedsUserName(uid) => self.have_done(key, attempt, Work::UserName { uid }),
            LoginVerdict::NeedsCheck(stored) => self.check_password(key, attempt, stored),
            LoginVerdict::NeedsServer => AuthenticationOutcome::Claims(attempt),
            verdict => {
                if attempt.needs_copy == 0 {
                    attempt.needs_copy = self.server.control.next_accounts_copy();
                }
                if self.server.control.can_refresh()
                    && self.server.control.accounts_copy() < attempt.needs_copy
                {
                    self.server.control.ask_for_accounts();
                    self.clients[key].wait_in_login(Login::AwaitingAccounts(attempt));
                    self.logins.await_accounts(self.clients.ref_to(key));
                    AuthenticationOutcome::Waits
                } else {
                    AuthenticationOutcome::Refused(attempt, verdict)
                }
            }
        }
    }

    /// Decides on a login that has waited for a fresh copy of the accounts. The copy is there, or will not come.
    pub(in crate::client) fn judge_again(&mut self, client: ClientRef) -> AuthenticationOutcome {
        let Some(waiting) = self.clients.find_mut(client) else { return AuthenticationOutcome::Waits };
        let waits = |login: &Login| matches!(login, Login::AwaitingAccounts(_));
        match waiting.take_login(waits) {
            Some(Login::AwaitingAccounts(attempt)) => self.authenticate(client.key, attempt, false),
            _ => AuthenticationOutcome::Waits,
        }
    }

    fn check_signature(
        &mut self,
        key: ClientKey,
        mut attempt: Box<Attempt>,
        public_key: [u8; 32],
    ) -> AuthenticationOutcome {
        let signature = match std::mem::replace(&mut attempt.answer, LoginAnswer::Nonsense) {
            LoginAnswer::Token(signature) | LoginAnswer::Signed { signature, .. } => signature,
            _ => return self.judge(key, attempt),
        };
        attempt.answer = LoginAnswer::Token(signature.clone());
        attempt.checking = public_key.to_vec();
        let nonce = attempt.nonce;
        self.have_done(key, attempt, Work::Verify { public_key, nonce, signature })
    }

    fn check_password(
        &mut self,
        key: ClientKey,
        mut attempt: Box<Attempt>,
        stored: Vec<u8>,
    ) -> AuthenticationOutcome {
        let proof = match std::mem::replace(&mut attempt.answer, LoginAnswer::Nonsense) {
            LoginAnswer::Sent(proof) => proof,
            LoginAnswer::Checked { password, .. } | LoginAnswer::Judged { password, .. } => {
                Proof::Clear(password)
            }
            LoginAnswer::Token(_) | LoginAnswer::Signed { .. } | LoginAnswer::Nonsense => {
                return self.judge(key, attempt);
            }
        };
        attempt.checking.clone_from(&stored);
        self.have_done(key, attempt, Work::Check { stored, proof })
    }

    /// Gives another thread this work. The login goes on once it is done.
    fn have_done(&mut self, key: ClientKey, mut attempt: Box<Attempt>, work: Work) -> AuthenticationOutcome {
        let asker = Asker::Client(self.clients.ref_to(key));
        let network = network(&self.clients[key].peer);
        attempt.task = self.io.tasks.give(asker, work, network);
        self.clients[key].wait_in_login(Login::AwaitingFinding(attempt));
        AuthenticationOutcome::Waits
    }

    fn verdict(&self, client: &Client, attempt: &Attempt) -> LoginVerdict {
        let Some(facts) = &self.server.facts else { return LoginVerdict::Denied };
        let Some(account) = facts.accounts.find(&attempt.user, &client.peer, facts.name_resolution) else {
            // As if it were there: nobody is to find out which accounts are.
            return match facts.method {
                Method::Native => LoginVerdict::Denied,
                method if attempt.method != Some(method) => LoginVerdict::TooOld,
                _ if attempt.answer.is_empty() => LoginVerdict::Denied,
                _ => check(attempt, facts.accounts.nobody()),
            };
        };
        let proof = match self.proof_of_either(account, client, attempt) {
            LoginVerdict::Denied if !account.socket_users.is_empty() => {
                self.logins.proof_by_socket(self.settings, account, client, attempt)
            }
            proof => proof,
        };
        let secret = match proof {
            LoginVerdict::Accepted(_, secret) => secret,
            verdict => return verdict,
        };
        // The order of acl_authenticate.
        if account.locked {
            LoginVerdict::Locked
        } else if !account.requirement.is_met(client.tls()) {
            LoginVerdict::Insecure
        } else if account.expired {
            LoginVerdict::Expired
        } else {
            LoginVerdict::Accepted(Arc::clone(account), secret)
        }
    }

    /// Judges by the account's password or, where that is not it, by the account's former one.
    fn proof_of_either(&self, account: &Arc<Account>, client: &Client, attempt: &Attempt) -> LoginVerdict {
        let Some(second) = &account.second else {
            return self.proof(account, &account.credential, client, attempt);
        };
        // The former one is checked when the other was found wrong.
        if matches!(&attempt.answer, LoginAnswer::Checked { stored, .. } if second.stored() == Some(stored)) {
            return self.proof(account, second, client, attempt);
        }
        match self.proof(account, &account.credential, client, attempt) {
            LoginVerdict::Denied => self.proof(account, second, client, attempt),
            LoginVerdict::NeedsPassword => match self.proof(account, second, client, attempt) {
                accepted @ LoginVerdict::Accepted(..) => accepted,
                _ => LoginVerdict::NeedsPassword,
            },
            verdict => verdict,
        }
    }

    /// Judges by one of the account's passwords.
    fn proof(
        &self,
        account: &Arc<Account>,
        credential: &Credential,
        client: &Client,
        attempt: &Attempt,
    ) -> LoginVerdict {
        match credential {
            Credential::Other(plugin) => LoginVerdict::Unsupported(plugin.clone()),
            Credential::Socket => LoginVerdict::Denied,
            Credential::Delegated(_) if !client.may_send_password(Method::Clear) => LoginVerdict::InTheOpen,
            _ if credential.method() != attempt.method => LoginVerdict::TooOld,
            Credential::Empty if attempt.answer.is_empty() => accepted(account, Secret::None),
            Credential::Empty | Credential::Unmatchable => LoginVerdict::Denied,
            Credential::Native(stage2) => proof_by_native_password(account, stage2, attempt),
            Credential::Ed25519(public_key) => self.proof_by_signature(account, public_key, attempt),
            Credential::Delegated(stored) => proof_by_server(account, stored, attempt),
            Credential::CachingSha2(stored) => self
                .pool
                .proof_by_known_password(account, stored, attempt)
                .unwrap_or_else(|| self.pool.proof_by_sha2_password(self.now, account, stored, attempt)),
            Credential::Sha256(stored) => {
                self.pool.proof_by_sha2_password(self.now, account, stored, attempt)
            }
        }
    }

    fn proof_by_signature(
        &self,
        account: &Arc<Account>,
        public_key: &[u8; 32],
        attempt: &Attempt,
    ) -> LoginVerdict {
        match &attempt.answer {
            LoginAnswer::Token(signature) if signature.len() == SIGNATURE_LEN => {
                LoginVerdict::NeedsSignature(*public_key)
            }
            LoginAnswer::Signed { public_key: by, .. } if by != public_key => {
                LoginVerdict::NeedsSignature(*public_key)
            }
            LoginAnswer::Signed { right: true, .. } => {
                accepted(account, self.logins.mapped_secret(self.settings, account, attempt))
            }
            _ => LoginVerdict::Denied,
        }
    }

    /// Sends one packet of the login.
    fn send_in_login(&mut self, key: ClientKey, attempt: &mut Attempt, payload: &[u8]) {
        let connection = self.clients[key].connection;
        self.io.send_packet_to(connection, attempt.sequence, payload);
        attempt.sequence = attempt.sequence.wrapping_add(1);
    }

    /// Waits for the client's next packet as a part of the login, for as long as a login may take.
    fn await_answer(&mut self, key: ClientKey, login: Login) -> AuthenticationOutcome {
        let until = self.now + self.settings.connect_timeout;
        let client = self.clients.ref_to(key);
        self.clients[key].wait_in_login(login);
        self.logins.begin(until, client, &mut self.clients[key].login);
        // It may have sent ahead.
        self.resume.push(key);
        AuthenticationOutcome::Waits
    }
}

impl Client {
    /// Says whether a client may send its password in the clear, since nobody can listen. `sha256_password` does not
    /// count Unix sockets as safe (my_vio_is_encrypted); the other methods do (my_vio_is_secure).
    fn may_send_password(&self, method: Method) -> bool {
        self.is_encrypted() || matches!(self.peer, Peer::Unix { .. }) && method != Method::Sha256
    }
}

fn accepted(account: &Arc<Account>, secret: Secret) -> LoginVerdict {
    LoginVerdict::Accepted(Arc::clone(account), secret)
}

fn proof_by_native_password(account: &Arc<Account>, stage2: &[u8; 20], attempt: &Attempt) -> LoginVerdict {
    let LoginAnswer::Token(token) = &attempt.answer else { return LoginVerdict::Denied };
    match wire::native_password::verify(token, &attempt.scramble, stage2) {
        Some(stage1) => accepted(account, Secret::Native(Zeroizing::new(stage1))),
        None => LoginVerdict::Denied,
    }
}

/// Judges by what the server itself says of the password.
fn proof_by_server(account: &Arc<Account>, stored: &[u8], attempt: &Attempt) -> LoginVerdict {
    match &attempt.answer {
        LoginAnswer::Judged { password, question, right }
            if question.is_about(&attempt.user, account, stored) =>
        {
            match (right, password.clear().is_empty()) {
                (false, _) => LoginVerdict::Denied,
                (true, true) => accepted(account, Secret::None),
                (true, false) => accepted(account, Secret::Password(Arc::clone(password))),
            }
        }
        LoginAnswer::Token(_) | LoginAnswer::Checked { .. } | LoginAnswer::Judged { .. } => {
            LoginVerdict::NeedsServer
        }
        LoginAnswer::Sent(_) | LoginAnswer::Signed { .. } | LoginAnswer::Nonsense => LoginVerdict::Denied,
    }
}

/// Returns the next step towards a verdict by a password and what the server stores.
fn check(attempt: &Attempt, stored: &[u8]) -> LoginVerdict {
    match &attempt.answer {
        LoginAnswer::Token(_) => LoginVerdict::NeedsPassword,
        LoginAnswer::Checked { stored: checked, .. } if checked == stored => LoginVerdict::Denied,
        LoginAnswer::Sent(_) | LoginAnswer::Checked { .. } | LoginAnswer::Judged { .. } => {
            LoginVerdict::NeedsCheck(stored.to_vec())
        }
        LoginAnswer::Signed { .. } | LoginAnswer::Nonsense => LoginVerdict::Denied,
    }
}

#[cfg(test)]
mod tests;
