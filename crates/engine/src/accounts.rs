//! The server's own accounts, as the service account reads them: who may log in, and with which password.

pub(crate) mod entropy;
pub(crate) mod failed_logins;
pub(crate) mod frozen;
pub(crate) mod hosts;
pub(crate) mod method;
pub(crate) mod proof;
pub(crate) mod queries;
pub(crate) mod requirement;
pub(crate) mod secret;
pub(crate) mod task;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;

use seam::Peer;
use sql::ServerKind;
use wire::sha2_password;

use crate::accounts::hosts::{Place, host_matches};
use crate::accounts::method::Method;
use crate::accounts::requirement::Requirement;
use crate::accounts::secret::{IdentityKey, Secret};
use crate::frozen::plain::Plain;
use crate::steps;
use crate::workers::users::{Usage, Users};

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
    /// The requirement that the connection has to meet (`REQUIRE` of CREATE USER).
    pub(crate) requirement: Requirement,
}

impl Account {
    fn name(&self) -> (&[u8], &str) {
        (&self.user, &self.host)
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
    user, host, credential, socket_users, second, locked, expired, may_kill, is_system_user, rights, requirement,
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
    sorted: Vec<Rc<Account>>,
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
        let mut sorted: Vec<_> = accounts.into_iter().map(Rc::new).collect();
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

    /// The account of this name and host.
    pub(crate) fn named(&self, user: &[u8], host: &str) -> Option<&Rc<Account>> {
        let found = self.by_name.binary_search_by(|&place| self.sorted[place].name().cmp(&(user, host)));
        found.ok().map(|at| &self.sorted[self.by_name[at]])
    }

    /// The account that the server would choose for this user from this peer: the first in its order, be it the user's or an anonymous one.
    pub(crate) fn find(&self, user: &[u8], peer: &Peer, name_resolution: bool) -> Option<&Rc<Account>> {
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
fn nobody(accounts: &[Rc<Account>]) -> Vec<u8> {
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

/// The number of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IdentityId(u32);

impl IdentityId {
    #[cfg(test)]
    pub(crate) fn of_test(number: u32) -> Self {
        Self(number)
    }

    /// The number itself.
    pub(crate) fn number(self) -> u32 {
        self.0
    }
}

/// A client as the server knows it: an account, and the proof of its password with which backends log in.
pub(crate) struct Identity {
    pub(crate) account: Rc<Account>,
    /// The user name to log in with (an anonymous account takes any).
    pub(crate) user: Vec<u8>,
    /// The proof of the latest login. After a change of password, clients that are logged in go on by the new one.
    pub(crate) secret: Secret,
    /// The server refuses new connections of this user (its password has changed, or its limit is reached): asked again
    /// after this.
    pub(crate) refused_until: Option<seam::Instant>,
    /// True where a backend of the identity has had a role from its login on.
    pub(crate) has_role: bool,
    /// The proof before that. A worker with an old copy of the accounts may have taken a former password for right since.
    earlier: Option<Secret>,
    /// True once its rights have changed. Clients that are logged in keep their backends; later logins get others.
    former: bool,
    /// The address that the identity's latest login came from, where that was by TCP.
    pub(crate) address: Option<SocketAddr>,
    /// True while nobody has proved the password yet: a backend logs in with it to find out.
    claimed: bool,
    /// The backends of its user, from the first one on.
    usage: std::cell::OnceCell<Usage>,
    holders: u32,
}

impl Identity {
    fn is(&self, (user, account_user, account_host): &IdentityKey) -> bool {
        !self.claimed
            && self.user == *user
            && self.account.user == *account_user
            && self.account.host == *account_host
    }

    fn prove(&mut self, secret: Secret) {
        if self.secret != secret {
            self.earlier = Some(std::mem::replace(&mut self.secret, secret));
            self.refused_until = None;
        }
    }
}

/// The proof of a login.
#[derive(Clone, PartialEq, Eq)]
pub struct Proved {
    /// The name that was given, and the account's user and host.
    pub(crate) identity: IdentityKey,
    pub(crate) secret: Secret,
}

impl fmt::Debug for Proved {
    /// Writes the identity without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proved").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// The identities of the clients and backends there are, each stored once.
#[derive(Default)]
pub(crate) struct Identities {
    entries: slab::Slab<Identity>,
    ids: BTreeMap<IdentityKey, IdentityId>,
}

impl Identities {
    /// The identity of a login that was right, with one more holder.
    pub(crate) fn hold(&mut self, account: &Rc<Account>, user: &[u8], secret: Secret) -> IdentityId {
        let key = account.identity_key(user);
        if let Some(&id) = self.ids.get(&key) {
            self.entries[id.0 as usize].account = Rc::clone(account);
            if self.entries[id.0 as usize].secret != secret {
                self.renew(&Proved { identity: key, secret });
            }
            return self.hold_again(id);
        }
        self.renew(&Proved { identity: key.clone(), secret: secret.clone() });
        let id = self.claim(account, user, secret);
        self.entries[id.0 as usize].claimed = false;
        self.ids.insert(key, id);
        id
    }

    /// An identity by itself, with one holder: whether its secret is right the server is to say. Nobody else becomes it, and no
    /// other's secret changes by it.
    pub(crate) fn claim(&mut self, account: &Rc<Account>, user: &[u8], secret: Secret) -> IdentityId {
        let index = self.entries.insert(Identity {
            account: Rc::clone(account),
            user: user.to_vec(),
            secret,
            refused_until: None,
            has_role: false,
            earlier: None,
            former: false,
            address: None,
            claimed: true,
            usage: std::cell::OnceCell::new(),
            holders: 1,
        });
        IdentityId(u32::try_from(index).expect("fewer identities than clients and backends"))
    }

    /// Notes the address that the identity's latest login came from.
    pub(crate) fn came_from(&mut self, id: IdentityId, peer: &Peer) {
        self.entries[id.0 as usize].address = match peer {
            Peer::Tcp(address) => Some(*address),
            Peer::Unix { .. } => None,
        };
    }

    /// Takes in a new copy of the accounts. An account may have other rights now: a later login to it is another identity than
    /// the clients that are in.
    pub(crate) fn compare(&mut self, accounts: &Accounts) {
        let entries = &mut self.entries;
        self.ids.retain(|(_, user, host), id| {
            let entry = &mut entries[id.0 as usize];
            let same = accounts.named(user, host).is_some_and(|now| now.rights == entry.account.rights);
            entry.former = !same;
            same
        });
    }

    /// Says whether its rights have changed, so that no login becomes it any more.
    pub(crate) fn is_former(&self, id: IdentityId) -> bool {
        self.entries[id.0 as usize].former
    }

    /// Says whether a backend that logs in as this identity now is let in and has its rights, as far as the accounts tell. They
    /// do not tell it of passwords that others judge, which may be good for minutes.
    pub(crate) fn lets_in(&self, id: IdentityId, accounts: &Accounts, now: seam::Instant) -> bool {
        let Identity { account, refused_until, .. } = &self.entries[id.0 as usize];
        let same = |present: &Rc<Account>| {
            present.credential == account.credential
                && present.rights == account.rights
                && !present.locked
                && !present.expired
        };
        account.credential.delegated().is_none()
            && refused_until.is_none_or(|until| until <= now)
            && accounts.named(&account.user, &account.host).is_some_and(same)
    }

    /// The number of holders of each identity.
    pub(crate) fn holder_counts(&self) -> BTreeMap<IdentityId, u32> {
        let id =
            |index| IdentityId(u32::try_from(index).expect("fewer identities than clients and backends"));
        self.entries.iter().map(|(index, entry)| (id(index), entry.holders)).collect()
    }

    /// The number of holders of the identity.
    pub(crate) fn holders(&self, id: IdentityId) -> usize {
        self.entries[id.0 as usize].holders as usize
    }

    pub(crate) fn hold_again(&mut self, id: IdentityId) -> IdentityId {
        self.entries[id.0 as usize].holders += 1;
        id
    }

    /// Takes in a proof, by a login here or at another worker. Clients of the same identity go on by it.
    pub(crate) fn renew(&mut self, proved: &Proved) {
        for (_, entry) in &mut self.entries {
            if entry.is(&proved.identity) {
                entry.prove(proved.secret.clone());
            }
        }
    }

    /// Returns the proof of the latest login of this user and account, as long as somebody holds it.
    pub(crate) fn secret_of(&self, user: &[u8], account: &Account) -> Option<&Secret> {
        let key = account.identity_key(user);
        match self.ids.get(&key) {
            Some(id) => Some(&self.entries[id.0 as usize].secret),
            None => self.entries.iter().find(|(_, entry)| entry.is(&key)).map(|(_, entry)| &entry.secret),
        }
    }

    /// Gives up one hold on the identity. Returns true where that was the last one, so that the number may soon mean somebody else.
    pub(crate) fn release(&mut self, id: IdentityId) -> bool {
        let entry = &mut self.entries[id.0 as usize];
        entry.holders -= 1;
        if entry.holders == 0 {
            self.entries.remove(id.0 as usize);
            self.ids.retain(|_, held| *held != id);
        }
        !self.entries.contains(id.0 as usize)
    }

    /// The server takes the latest password for a wrong one. True where there is an earlier one to try, once.
    pub(crate) fn go_back(&mut self, id: IdentityId) -> bool {
        // It may be gone with its last backend.
        let Some(entry) = self.entries.get_mut(id.0 as usize) else { return false };
        let Some(earlier) = entry.earlier.take() else { return false };
        entry.secret = earlier;
        true
    }

    /// The server refuses this user's connections for now.
    pub(crate) fn refuse_until(&mut self, id: IdentityId, until: seam::Instant) {
        self.entries[id.0 as usize].refused_until = Some(until);
    }

    /// A backend of this one has a role from its login on, or has none.
    pub(crate) fn note_role(&mut self, id: IdentityId, has_role: bool) {
        self.entries[id.0 as usize].has_role = has_role;
    }

    /// The use of backends by the identity's user.
    pub(crate) fn usage(&self, id: IdentityId, users: &Users) -> &Usage {
        let identity = self.identity(id);
        identity.usage.get_or_init(|| users.usage_of(&identity.account.user))
    }

    pub(crate) fn identity(&self, id: IdentityId) -> &Identity {
        &self.entries[id.0 as usize]
    }
}

#[cfg(test)]
mod tests;
