//! The server's own accounts, as the service account reads them: who may log in, and with which password.

pub(crate) mod copy;
pub(crate) mod entropy;
pub(crate) mod failed_logins;
pub(crate) mod frozen;
pub(crate) mod hosts;
mod identities;
pub(crate) mod method;
pub(crate) mod proof;
pub(crate) mod queries;
pub(crate) mod requirement;
mod row;
pub(crate) mod secret;
pub(crate) mod task;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use seam::Peer;
use sql::ServerKind;
use wire::sha2_password;

use crate::accounts::hosts::{Place, host_matches};
use crate::accounts::method::Method;
use crate::accounts::requirement::Requirement;
use crate::accounts::secret::IdentityKey;
use crate::frozen::plain::Plain;
use crate::steps;

pub(crate) use identities::{Identities, IdentityHold, IdentityId, Proved};

/// An account of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) user: Vec<u8>,
    pub(crate) host: String,
    pub(crate) credential: Credential,
    /// The users of this machine who are this account without a password, where they come by a Unix socket (`unix_socket`,
    /// `auth_socket`); none for most accounts.
    pub(crate) socket_users: Vec<Vec<u8>>,
    /// The account's former password, which still counts (MySQL's RETAIN CURRENT PASSWORD).
    pub(crate) second: Option<Credential>,
    pub(crate) locked: bool,
    /// True where the account's password is so old that the server would not let it in.
    pub(crate) expired: bool,
    /// True where the account may KILL other users' connections, by SUPER or CONNECTION ADMIN.
    pub(crate) may_kill: bool,
    /// True where the account has MySQL's SYSTEM_USER: only others who have it may KILL its connections.
    pub(crate) is_system_user: bool,
    /// A hash of what new connections of it may do; empty where that cannot be read.
    pub(crate) rights: Vec<u8>,
    /// The number of connections that the server takes of the account at a time (`MAX_USER_CONNECTIONS`, and the server's own
    /// `max_user_connections` where the account has none); `None` where there is no limit, or it cannot be read.
    pub(crate) max_connections: Option<NonZeroU32>,
    /// The requirement that the connection has to meet (`REQUIRE` of CREATE USER).
    pub(crate) requirement: Requirement,
}

impl Account {
    fn name(&self) -> (&[u8], &str) {
        (&self.user, &self.host)
    }

    /// The account as statements write it.
    pub(crate) fn shown(&self) -> String {
        format!("'{}'@'{}'", self.user.escape_ascii(), self.host.escape_default())
    }

    /// Names the password that is checked against the server's stored one: the account's, whatever name was given.
    pub(crate) fn password_key(&self) -> IdentityKey {
        (self.user.clone(), self.user.clone(), self.host.clone())
    }

    /// The methods by which backends of the account prove its password to the server.
    pub(crate) fn methods(&self) -> Vec<Method> {
        match self.credential {
            Credential::Delegated(_) => vec![Method::Clear, Method::Dialog],
            // By its second way in, with `mapped_password`.
            Credential::Ed25519(_) | Credential::Socket => vec![Method::Native],
            _ => self.credential.method().into_iter().collect(),
        }
    }

    /// Names the identity of a user of this name.
    pub(crate) fn identity_key(&self, user: &[u8]) -> IdentityKey {
        (user.to_vec(), self.user.clone(), self.host.clone())
    }
}

#[cfg(test)]
impl Account {
    /// Makes an account that asks for nothing but its password.
    pub(crate) fn of_test(user: &str, host: &str, credential: Credential) -> Self {
        Self {
            user: user.into(),
            host: host.into(),
            credential,
            socket_users: Vec::new(),
            second: None,
            locked: false,
            expired: false,
            may_kill: false,
            is_system_user: false,
            rights: Vec::new(),
            max_connections: None,
            requirement: Requirement::None,
        }
    }
}

/// The stored credential that a login is checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    /// mysql_native_password without a password.
    Empty,
    /// mysql_native_password: SHA1(SHA1(password)), as the server stores it.
    Native([u8; 20]),
    /// mysql_native_password with a stored string that no password matches (`invalid` on Debian's root).
    Unmatchable,
    /// caching_sha2_password: what the server stores; empty for no password.
    CachingSha2(Vec<u8>),
    /// sha256_password, likewise.
    Sha256(Vec<u8>),
    /// MariaDB's ed25519: the public key.
    Ed25519([u8; 32]),
    /// No password at all. The account's socket users alone decide.
    Socket,
    /// Another program behind the server judges the password (PAM, LDAP): Onramp asks the server with it. The bytes are the
    /// server's stored setting, which names that program's service or user.
    Delegated(Vec<u8>),
    /// Another plugin, by name.
    Other(Vec<u8>),
}

/// The plugins that take a password as it is (`mysql_clear_password`, `dialog`): MariaDB's `pam`; `authentication_pam` of MySQL
/// Enterprise; `auth_pam` and its like of Percona Server; simple binds of LDAP by MySQL and Percona Server; IAM of Amazon RDS,
/// where a password is good for 15 minutes.
const DELEGATED: [&[u8]; 7] = [
    b"pam",
    b"pam_v1",
    b"authentication_pam",
    b"auth_pam",
    b"auth_pam_compat",
    b"authentication_ldap_simple",
    b"AWSAuthenticationPlugin",
];

impl Credential {
    /// Makes a credential from the columns `plugin` and `authentication_string` of the server's table. An empty plugin is the native one.
    pub(crate) fn new(plugin: &[u8], stored: &[u8]) -> Self {
        match plugin {
            b"" | b"mysql_native_password" if stored.is_empty() => Self::Empty,
            b"" | b"mysql_native_password" => {
                wire::native_password::parse_stored(stored).map_or(Self::Unmatchable, Self::Native)
            }
            b"caching_sha2_password" => Self::CachingSha2(stored.into()),
            b"sha256_password" => Self::Sha256(stored.into()),
            b"ed25519" => ed25519_key(stored).map_or(Self::Unmatchable, Self::Ed25519),
            b"unix_socket" | b"auth_socket" => Self::Socket,
            delegated if DELEGATED.contains(&delegated) => Self::Delegated(stored.into()),
            other => Self::Other(other.into()),
        }
    }

    /// Returns the server's stored form of a password that is checked in full.
    pub(crate) fn stored(&self) -> Option<&Vec<u8>> {
        match self {
            Self::CachingSha2(stored) | Self::Sha256(stored) => Some(stored),
            Self::Empty
            | Self::Native(_)
            | Self::Unmatchable
            | Self::Ed25519(_)
            | Self::Socket
            | Self::Delegated(_)
            | Self::Other(_) => None,
        }
    }

    /// Returns the server's stored setting of a password that it asks others about.
    pub(crate) fn delegated(&self) -> Option<&Vec<u8>> {
        match self {
            Self::Delegated(stored) => Some(stored),
            _ => None,
        }
    }

    /// How clients prove that they have the password; `None` for what is not served.
    pub(crate) fn method(&self) -> Option<Method> {
        match self {
            Self::Empty | Self::Native(_) | Self::Unmatchable => Some(Method::Native),
            Self::CachingSha2(_) => Some(Method::CachingSha2),
            Self::Sha256(_) => Some(Method::Sha256),
            Self::Ed25519(_) => Some(Method::Ed25519),
            Self::Delegated(_) => Some(Method::Clear),
            Self::Socket | Self::Other(_) => None,
        }
    }
}

/// The 43 digits of base64, without padding, in which MariaDB stores a public key (`plugin/auth_ed25519`).
fn ed25519_key(stored: &[u8]) -> Option<[u8; 32]> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut key = [0; 32];
    let mut places = key.iter_mut();
    let (mut bits, mut count) = (0u32, 0);
    for digit in stored.iter().filter(|_| stored.len() == 43) {
        let value = DIGITS.iter().position(|known| known == digit)?;
        bits = (bits << 6 | u32::try_from(value).ok()?) & 0xffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            *places.next()? = (bits >> count) as u8;
        }
    }
    places.next().is_none().then_some(key)
}

plain!(struct Account {
    user, host, credential, socket_users, second, locked, expired, may_kill, is_system_user, rights,
    max_connections, requirement,
});
plain!(enum Credential {
    0 => Empty, 1 => Native(hash), 2 => Unmatchable, 3 => CachingSha2(stored), 4 => Sha256(stored), 5 => Ed25519(key),
    6 => Socket, 7 => Delegated(setting), 8 => Other(plugin),
});

impl Plain for Accounts {
    fn put(&self, out: &mut Vec<u8>) {
        // The rest follows from these.
        let Self { sorted, by_name: _, nobody: _, server } = self;
        server.put(out);
        sorted.len().put(out);
        sorted.iter().for_each(|account| account.put(out));
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let server = Plain::take(bytes)?;
        Some(Self::new(Plain::take(bytes)?, server))
    }
}

/// All accounts, in the order in which the server would look for a match.
#[derive(Default)]
pub(crate) struct Accounts {
    sorted: Vec<Arc<Account>>,
    /// Places of the accounts in the list, in the order of users and of hosts: each read on a replica asks for one, of many thousands perhaps.
    by_name: Vec<usize>,
    nobody: Vec<u8>,
    server: ServerKind,
}

/// Stored for `caching_sha2_password` with the fewest rounds that servers make (`$A$005$`); no password has this hash.
const NOBODY: &[u8] = b"$A$005$saltsaltsaltsaltsaltno-password-has-this-hash---------------43.";
/// The bytes of it that say how many rounds there are.
const ROUNDS: std::ops::Range<usize> = 3..6;

impl Accounts {
    pub(crate) fn new(accounts: Vec<Account>, server: ServerKind) -> Self {
        let mut sorted: Vec<_> = accounts.into_iter().map(Arc::new).collect();
        sorted.sort_by_cached_key(|account| Place::of(&account.user, &account.host, server));
        let mut by_name: Vec<_> = (0..sorted.len()).collect();
        by_name.sort_by(|&one, &other| sorted[one].name().cmp(&sorted[other].name()));
        let nobody = nobody(&sorted);
        Self { sorted, by_name, nobody, server }
    }

    /// Returns the credential that stands in for an account that is not there, so that the check takes as long as with most real
    /// accounts.
    pub(crate) fn nobody(&self) -> &[u8] {
        if self.nobody.is_empty() { NOBODY } else { &self.nobody }
    }

    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// The number of connections that the server takes of an account at a time, where it says so.
    pub(crate) fn most_connections(&self, account: &Account) -> Option<u32> {
        let present = self.named(&account.user, &account.host)?;
        present.max_connections.map(NonZeroU32::get)
    }

    /// The account of this name and host.
    pub(crate) fn named(&self, user: &[u8], host: &str) -> Option<&Arc<Account>> {
        let found = self.by_name.binary_search_by(|&place| self.sorted[place].name().cmp(&(user, host)));
        found.ok().map(|at| &self.sorted[self.by_name[at]])
    }

    /// The account that the server would choose for this user from this peer: the first in its order, be it the user's or an anonymous one.
    pub(crate) fn find(&self, user: &[u8], peer: &Peer, name_resolution: bool) -> Option<&Arc<Account>> {
        let matches =
            |&place: &usize| host_matches(&self.sorted[place].host, peer, name_resolution, self.server);
        let place = self.places_of(user).chain(self.places_of(b"")).filter(matches).min()?;
        Some(&self.sorted[place])
    }

    /// The places of a user's accounts.
    fn places_of(&self, user: &[u8]) -> impl Iterator<Item = usize> {
        let begin = self.by_name.partition_point(|&place| *self.sorted[place].user < *user);
        let of_user = move |&place: &usize| {
            steps::add(1);
            *self.sorted[place].user == *user
        };
        self.by_name[begin..].iter().copied().take_while(of_user)
    }
}

/// The stored form of a password that nobody has, with the number of rounds that most accounts have: MySQL's
/// `caching_sha2_password_digest_rounds` may have changed since some were made.
fn nobody(accounts: &[Arc<Account>]) -> Vec<u8> {
    let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
    for account in accounts {
        if let Credential::CachingSha2(stored) = &account.credential
            && sha2_password::Stored::parse(stored).is_some()
        {
            *counts.entry(&stored[ROUNDS]).or_default() += 1;
        }
    }
    let mut nobody = NOBODY.to_vec();
    if let Some((rounds, _)) = counts.into_iter().max_by_key(|&(_, count)| count) {
        nobody[ROUNDS].copy_from_slice(rounds);
    }
    nobody
}

#[cfg(test)]
mod tests;
