//! What a client that logs in has said, how far it is, and what comes of it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use seam::Instant;
use zeroize::Zeroizing;

use crate::accounts::Account;
use crate::accounts::method::Method;
use crate::accounts::proof::Proof;
use crate::accounts::secret::{IdentityKey, Password, Secret};
use crate::outside::named::RefusedFor;

/// How far a login is.
#[derive(Debug)]
pub(crate) enum Login {
    /// Our greeting is out.
    Greeted,
    /// The client has asked for TLS, which does not stand yet.
    StartingTls,
    /// TLS stands; the rest is as after the greeting.
    Secured,
    /// What it has said is being looked at; never longer than within a turn.
    Judged,
    /// The client has been asked for another method's answer.
    Switched(Box<Attempt>),
    /// The client has been asked for its password.
    PasswordAsked(Box<Attempt>),
    /// Another thread is at work for it.
    AwaitingFinding(Box<Attempt>),
    /// The answer is wrong by our copy of the accounts; a fresh one is being read.
    AwaitingAccounts(Box<Attempt>),
    /// The server is being asked whether its password is right, see [`super::delegation`].
    AwaitingServer(Box<Attempt>),
    /// It will be told later that it is refused: its place in [`crate::logins::Logins::late_refusals`].
    Refused((Instant, u64)),
    /// The server is being asked about its schema, in the name of another client.
    AwaitingSchema,
}

impl Login {
    /// Whether the client has nothing to say before it is answered.
    pub(crate) fn is_ours_to_go_on(&self) -> bool {
        match self {
            Self::Judged
            | Self::AwaitingFinding(_)
            | Self::AwaitingAccounts(_)
            | Self::AwaitingServer(_)
            | Self::Refused(_)
            | Self::AwaitingSchema => true,
            Self::Greeted
            | Self::StartingTls
            | Self::Secured
            | Self::Switched(_)
            | Self::PasswordAsked(_) => false,
        }
    }
}

/// What a client claims to be.
pub(crate) struct Attempt {
    pub(super) user: Vec<u8>,
    pub(super) schema: Option<Vec<u8>>,
    pub(super) collation: u8,
    /// How it answers; `None` for a method that is not spoken here.
    pub(super) method: Option<Method>,
    pub(super) answer: Answer,
    /// The name of the user of this machine that the client is, once it was looked up.
    pub(super) socket_user: Option<Option<Vec<u8>>>,
    /// It was given our public key; once is enough.
    pub(super) has_asked_for_key: bool,
    /// What another thread was last asked to do for it.
    pub(super) task: u64,
    /// What the server stores, while another thread checks the password against it.
    pub(super) checking: Vec<u8>,
    pub(super) scramble: [u8; 20],
    /// What an Ed25519 signature is made of.
    pub(super) nonce: [u8; 32],
    /// The sequence number of our next packet.
    pub(super) sequence: u8,
    /// The copy of the accounts that may refuse it: one that was asked for after the attempt came in.
    pub(super) needs_copy: u64,
    /// How long the question to the server was held back for wrong passwords before it.
    pub(super) held_back: Duration,
    /// While it is: its place among others.
    pub(super) held_at: Option<(Instant, u64)>,
    /// When it came in.
    pub(super) came: Instant,
}

impl Attempt {
    /// One that has just come in. `auth_plugin` is the method's name, `token` the answer by it, and `sequence` the number of
    /// the client's packet.
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
            answer: Answer::Token(Zeroizing::new(token.to_vec())),
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
    /// Without the token, which proves the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attempt").field("user", &self.user).finish_non_exhaustive()
    }
}

/// What a client has sent to prove its password.
pub(crate) enum Answer {
    /// Its answer to the scramble.
    Token(Zeroizing<Vec<u8>>),
    /// The password, in a form that is to be looked at.
    Sent(Proof),
    /// The password, and whether it belongs to what the server stored.
    Checked { password: Arc<Password>, stored: Vec<u8>, right: bool },
    /// The password, and what the server itself said to it.
    Judged { password: Arc<Password>, question: Question, right: bool },
    /// A signature, and whether it is that of this key's owner.
    Signed { signature: Zeroizing<Vec<u8>>, public_key: [u8; 32], right: bool },
    /// Nothing that can be understood.
    Nonsense,
}

impl Answer {
    /// Whether it says that there is no password.
    pub(crate) fn is_empty(&self) -> bool {
        // A zero byte is what the SHA-2 methods send then (caching_sha2_password_auth_client).
        matches!(self, Self::Token(token) if matches!(token[..], [] | [0]))
    }
}

/// What comes of an attempt by the accounts as we know them.
pub(crate) enum Verdict {
    Accepted(Rc<Account>, Secret),
    Denied,
    /// The password was right, but the account is locked.
    Locked,
    /// Likewise, but it asks for TLS, or for another certificate.
    Insecure,
    /// Likewise, but the password has expired.
    Expired,
    Unsupported(Vec<u8>),
    /// The client does not speak of methods.
    TooOld,
    /// The account is for a user of this machine, and not for this one.
    NotThatUser,
    /// It has to be known which user of this machine it is.
    NeedsUserName(u32),
    /// The signature is to be checked against this public key.
    NeedsSignature([u8; 32]),
    /// The password itself has to come.
    NeedsPassword,
    /// It has, and is to be checked against this.
    NeedsCheck(Vec<u8>),
    /// It has, and the server is to check it.
    NeedsServer,
    /// It would have to come as it is, where others can listen.
    InTheOpen,
}

impl Verdict {
    /// What a refused login is counted as.
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

/// Whose password the server was asked about. The answer holds for that user alone, and not for others whom the same account
/// lets in (an anonymous one), nor for accounts about which the same service is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(super) whose: IdentityKey,
    /// What the server stores, which says whom it asks.
    pub(super) stored: Vec<u8>,
}

impl Question {
    /// None where the account is not of this kind.
    pub(super) fn about(user: &[u8], account: &Account) -> Option<Self> {
        let stored = account.credential.delegated()?.clone();
        Some(Self { whose: account.identity_key(user), stored })
    }

    /// Whether it is this one.
    pub(super) fn is_about(&self, user: &[u8], account: &Account, stored: &[u8]) -> bool {
        let (given, of_account, host) = &self.whose;
        given == user && *of_account == account.user && *host == account.host && self.stored == stored
    }
}

/// MariaDB Connector/C and what is built on it (ma_net_safe_read: errors in the client's range become 2027).
pub(super) fn is_libmariadb(attributes: &[u8]) -> bool {
    wire::parse_attributes(attributes)
        .is_ok_and(|mut pairs| pairs.any(|pair| pair == (&b"_client_name"[..], &b"libmariadb"[..])))
}
