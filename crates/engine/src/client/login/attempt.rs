//! A login attempt of a client: its claims, the step that it has reached, and the verdict on it.

use std::sync::Arc;
use std::time::Duration;

use seam::Instant;
use zeroize::Zeroizing;

use crate::accounts::Account;
use crate::accounts::method::Method;
use crate::accounts::proof::Proof;
use crate::accounts::secret::{IdentityKey, Password, Secret};
use crate::outside::named::RefusedFor;

/// The step that a login has reached.
#[derive(Debug)]
pub(crate) enum Login {
    /// Our greeting is out.
    Greeted,
    /// The client has asked for TLS, which does not stand yet.
    StartingTls,
    /// TLS stands; the rest is as after the greeting.
    Secured,
    /// The client's answer is being judged. No login is at this step for longer than a turn.
    Judged,
    /// The client has been asked for another method's answer.
    Switched(Box<Attempt>),
    /// The client has been asked for its password.
    PasswordAsked(Box<Attempt>),
    /// Another thread is at work for the login.
    AwaitingFinding(Box<Attempt>),
    /// The answer is wrong by our copy of the accounts; a fresh one is being read.
    AwaitingAccounts(Box<Attempt>),
    /// The server is being asked whether the client's password is right, see [`crate::client::login::delegation`].
    AwaitingServer(Box<Attempt>),
    /// The client will be told later that it is refused. The value is its place in [`crate::logins::Logins::late_refusals`].
    Refused((Instant, u64)),
    /// The server is being asked about the login's schema, in the name of another client. The packet of this number will end the login.
    AwaitingSchema { sequence: u8 },
}

impl Login {
    /// Says whether the next step is ours: the client has nothing to say before it is answered.
    pub(crate) fn is_ours_to_go_on(&self) -> bool {
        match self {
            Self::Judged
            | Self::AwaitingFinding(_)
            | Self::AwaitingAccounts(_)
            | Self::AwaitingServer(_)
            | Self::Refused(_)
            | Self::AwaitingSchema { .. } => true,
            Self::Greeted
            | Self::StartingTls
            | Self::Secured
            | Self::Switched(_)
            | Self::PasswordAsked(_) => false,
        }
    }
}

/// A client's claim of who it is, and its answers for that.
pub(crate) struct Attempt {
    pub(super) user: Vec<u8>,
    pub(super) schema: Option<Vec<u8>>,
    pub(super) collation: u8,
    /// The method by which the client answers. `None` for a method that is not spoken here.
    pub(super) method: Option<Method>,
    pub(super) answer: LoginAnswer,
    /// The name of the user of this machine that the client is, once it was looked up.
    pub(super) socket_user: Option<Option<Vec<u8>>>,
    /// True once the client has asked for our public key. Once is enough.
    pub(super) has_asked_for_key: bool,
    /// The number of the task that another thread was last given for the attempt.
    pub(in crate::client) task: u64,
    /// The server's stored form, or the public key, while another thread checks the answer against it.
    pub(super) checking: Vec<u8>,
    pub(super) scramble: [u8; 20],
    /// The nonce that an Ed25519 signature is made of.
    pub(super) nonce: [u8; 32],
    /// The sequence number of our next packet.
    pub(super) sequence: u8,
    /// The number of the copy of the accounts that may refuse the attempt: a copy that was asked for after the attempt came in.
    pub(super) needs_copy: u64,
    /// The time for which the question to the server was held back, for wrong passwords before it.
    pub(super) held_back: Duration,
    /// The attempt's place among others, while it is held back.
    pub(super) held_at: Option<(Instant, u64)>,
    /// The time at which the attempt came in.
    pub(super) came: Instant,
}

impl Attempt {
    /// Makes an attempt that has just come in. `auth_plugin` is the method's name, `token` the answer by it, and
    /// `sequence` the number of the client's packet.
    pub(super) fn new(
        user: &[u8],
        auth_plugin: Option<&[u8]>,
        token: &[u8],
        scramble: [u8; 20],
        sequence: u8,
    ) -> Self {
        Self {
            user: user.to_vec(),
            schema: None,
            collation: 0,
            // A client that names no method answers by the one that all know.
            method: Method::of_name(auth_plugin.unwrap_or_default()),
            answer: LoginAnswer::Token(Zeroizing::new(token.to_vec())),
            socket_user: None,
            has_asked_for_key: false,
            task: 0,
            nonce: [0; 32],
            checking: Vec::new(),
            scramble,
            sequence: sequence.wrapping_add(1),
            needs_copy: 0,
            held_back: Duration::ZERO,
            held_at: None,
            came: Instant::default(),
        }
    }
}

impl std::fmt::Debug for Attempt {
    /// Leaves out the token, which proves the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attempt").field("user", &self.user).finish_non_exhaustive()
    }
}

/// A client's proof of its password, as it came or as it was judged.
pub(crate) enum LoginAnswer {
    /// The client's answer to the scramble.
    Token(Zeroizing<Vec<u8>>),
    /// The password, in a form that is still to be looked at.
    Sent(Proof),
    /// The password, and whether it matches what the server stored.
    Checked { password: Arc<Password>, stored: Vec<u8>, right: bool },
    /// The password, and the server's own word on it.
    Judged { password: Arc<Password>, question: PasswordQuestion, right: bool },
    /// A signature, and whether the owner of this key has made it.
    Signed { signature: Zeroizing<Vec<u8>>, public_key: [u8; 32], right: bool },
    /// Nothing that can be understood.
    Nonsense,
}

impl LoginAnswer {
    /// Says whether the answer is that there is no password.
    pub(crate) fn is_empty(&self) -> bool {
        // A zero byte is what the SHA-2 methods send then (caching_sha2_password_auth_client).
        matches!(self, Self::Token(token) if matches!(token[..], [] | [0]))
    }
}

/// The verdict on an attempt, by the accounts as we know them.
pub(crate) enum LoginVerdict {
    Accepted(Arc<Account>, Secret),
    Denied,
    /// The password was right, but the account is locked.
    Locked,
    /// The password was right, but the account asks for TLS, or for another certificate.
    Insecure,
    /// The password was right, but it has expired.
    Expired,
    Unsupported(Vec<u8>),
    /// The client does not speak of methods, and so cannot use the account's.
    TooOld,
    /// The account is for a user of this machine, and the client is another user.
    NotThatUser,
    /// The name of the user of this machine with this number has to be looked up.
    NeedsUserName(u32),
    /// The signature is to be checked against this public key.
    NeedsSignature([u8; 32]),
    /// The client has to send the password itself.
    NeedsPassword,
    /// The password has come, and is to be checked against this stored form.
    NeedsCheck(Vec<u8>),
    /// The password has come, and the server is to check it.
    NeedsServer,
    /// The password would have to come as it is, where others can listen.
    InTheOpen,
}

impl LoginVerdict {
    /// Returns the reason under which a refused login is counted.
    pub(crate) fn refused_for(&self, is_malformed: bool) -> RefusedFor {
        match self {
            Self::Unsupported(_) | Self::TooOld => RefusedFor::Method,
            Self::Locked => RefusedFor::Locked,
            Self::Expired => RefusedFor::Expired,
            Self::InTheOpen | Self::Insecure => RefusedFor::Tls,
            Self::NotThatUser => RefusedFor::Denied,
            _ if is_malformed => RefusedFor::Protocol,
            _ => RefusedFor::Denied,
        }
    }
}

/// A question to the server about a user's password. The answer holds for that user alone, and not for others that the
/// same account lets in (an anonymous one), nor for accounts about which the same service is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PasswordQuestion {
    pub(super) whose: IdentityKey,
    /// The server's stored setting, which names the service that the server asks.
    pub(super) stored: Vec<u8>,
}

impl PasswordQuestion {
    /// Makes the question about a user. `None` where the account does not let the server ask others.
    pub(super) fn about(user: &[u8], account: &Account) -> Option<Self> {
        let stored = account.credential.delegated()?.clone();
        Some(Self { whose: account.identity_key(user), stored })
    }

    /// Says whether the question is about this user, account and stored setting.
    pub(super) fn is_about(&self, user: &[u8], account: &Account, stored: &[u8]) -> bool {
        let (given, of_account, host) = &self.whose;
        given == user && *of_account == account.user && *host == account.host && self.stored == stored
    }
}

/// Says whether the client is MariaDB Connector/C, or built on it. Such libraries turn errors in the client's range
/// into 2027 (ma_net_safe_read).
pub(super) fn is_libmariadb(attributes: &[u8]) -> bool {
    wire::parse_attributes(attributes)
        .is_ok_and(|mut pairs| pairs.any(|pair| pair == (&b"_client_name"[..], &b"libmariadb"[..])))
}
