//! The identities that clients and backends have: accounts, each with the proof of a password.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use seam::{Instant, Peer};

use super::secret::{IdentityKey, Secret};
use super::{Account, Accounts};
use crate::steps;
use crate::workers::users::{Usage, Users};

/// The number of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IdentityId(pub(super) u32);

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

/// A hold on an identity. Whoever gives the hold up gives it to [`crate::logins::Logins::release`], and has it no more: nobody can give up
/// one twice. A hold that nobody has given up is found where holds are counted (`engine/invariants.rs`).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a hold that nobody gives up keeps its identity for ever"]
pub(crate) struct IdentityHold(IdentityId);

impl IdentityHold {
    /// Returns the number of the identity, which may mean somebody else once the hold is given up.
    pub(crate) fn id(&self) -> IdentityId {
        self.0
    }
}

/// Pause after which a server that takes no more connections of an account is asked again. It grows, since each answer costs the server a login.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The first such pause where a connection of the account has just ended. Others may have taken its room, or the server is slow to notice.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// The longest such pause: connections that others have end unseen, and a statement waits for `backend_connect_timeout` (10 s) at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// An account has room again once the server has taken so many connections of it in a row. Where it has not, as many logins at most are refused.
const HAS_ROOM: usize = 16;

/// The pause where a connection has been left to another worker: as long as that one keeps it at least.
const LEFT: Duration = Duration::from_millis(50);

/// The pause where a connection of the account has just been closed, and the server may not have noticed yet.
const SOON: Duration = Duration::from_millis(5);

/// A client as the server knows it: an account, and the proof of its password with which backends log in.
pub(crate) struct Identity {
    pub(crate) account: Arc<Account>,
    /// The user name to log in with (an anonymous account takes any).
    pub(crate) user: Vec<u8>,
    /// The proof of the latest login. After a change of password, clients that are logged in go on by the new one.
    pub(crate) secret: Secret,
    /// The server refuses new connections of this user (its password has changed, or its limit is reached): asked again
    /// after this.
    refused_until: Option<Instant>,
    /// Set once the server has taken no more connections of the account (`max_user_connections`): the latest pause behind that.
    no_more_for: Option<Duration>,
    /// The number of connections that the server has taken since it last took no more.
    taken_since: usize,
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
    pub(super) entries: slab::Slab<Identity>,
    /// Those with a proved password, by name: the one that a login becomes, and those with other rights from before.
    by_name: BTreeMap<IdentityKey, Vec<IdentityId>>,
}

impl Identities {
    /// Holds the identity of a login that was right.
    pub(crate) fn hold(&mut self, account: &Arc<Account>, user: &[u8], secret: Secret) -> IdentityHold {
        let key = account.identity_key(user);
        if let Some(id) = self.present(&key) {
            self.entries[id.0 as usize].account = Arc::clone(account);
            if self.entries[id.0 as usize].secret != secret {
                self.renew(&Proved { identity: key, secret });
            }
            return self.hold_again(id);
        }
        self.renew(&Proved { identity: key.clone(), secret: secret.clone() });
        let held = self.claim(account, user, secret);
        self.entries[held.id().0 as usize].claimed = false;
        self.by_name.entry(key).or_default().push(held.id());
        held
    }

    /// The identity that a login by this name becomes.
    fn present(&self, name: &IdentityKey) -> Option<IdentityId> {
        self.by_name.get(name)?.iter().copied().find(|id| !self.entries[id.0 as usize].former)
    }

    /// Holds an identity by itself: whether its secret is right the server is to say. Nobody else becomes it, and no other's secret changes
    /// by it.
    pub(crate) fn claim(&mut self, account: &Arc<Account>, user: &[u8], secret: Secret) -> IdentityHold {
        let index = self.entries.insert(Identity {
            account: Arc::clone(account),
            user: user.to_vec(),
            secret,
            refused_until: None,
            no_more_for: None,
            taken_since: 0,
            has_role: false,
            earlier: None,
            former: false,
            address: None,
            claimed: true,
            usage: std::cell::OnceCell::new(),
            holders: 1,
        });
        IdentityHold(IdentityId(u32::try_from(index).expect("fewer identities than clients and backends")))
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
        for ((_, user, host), ids) in &self.by_name {
            let now = accounts.named(user, host).map(|now| &now.rights);
            for id in ids {
                let entry = &mut self.entries[id.0 as usize];
                entry.former |= now != Some(&entry.account.rights);
            }
        }
    }

    /// Says whether its rights have changed, so that no login becomes it any more.
    pub(crate) fn is_former(&self, id: IdentityId) -> bool {
        self.entries[id.0 as usize].former
    }

    /// Says whether a backend that logs in as this identity now is let in and has its rights, as far as the accounts tell. They
    /// do not tell it of passwords that others judge, which may be good for minutes.
    pub(crate) fn lets_in(&self, id: IdentityId, accounts: &Accounts, now: Instant) -> bool {
        let Identity { account, refused_until, .. } = &self.entries[id.0 as usize];
        let same = |present: &Arc<Account>| {
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

    /// Holds an identity once more that is held already.
    pub(crate) fn hold_again(&mut self, id: IdentityId) -> IdentityHold {
        self.entries[id.0 as usize].holders += 1;
        IdentityHold(id)
    }

    /// Takes in a proof, by a login here or at another worker. Clients of the same identity go on by it.
    pub(crate) fn renew(&mut self, proved: &Proved) {
        for id in self.by_name.get(&proved.identity).into_iter().flatten() {
            steps::add(1);
            self.entries[id.0 as usize].prove(proved.secret.clone());
        }
    }

    /// Returns the proof of the latest login of this user and account, as long as somebody holds it.
    pub(crate) fn secret_of(&self, user: &[u8], account: &Account) -> Option<&Secret> {
        let name = account.identity_key(user);
        let id = self.present(&name).or_else(|| self.by_name.get(&name)?.first().copied())?;
        Some(&self.entries[id.0 as usize].secret)
    }

    /// Gives up one hold on an identity. Returns the number where that was the last one, so that it may soon mean somebody else.
    pub(crate) fn release(&mut self, IdentityHold(id): IdentityHold) -> Option<IdentityId> {
        let entry = &mut self.entries[id.0 as usize];
        entry.holders -= 1;
        if entry.holders > 0 {
            return None;
        }
        let gone = self.entries.remove(id.0 as usize);
        let name = gone.account.identity_key(&gone.user);
        if let Entry::Occupied(mut named) = self.by_name.entry(name) {
            steps::add(named.get().len());
            named.get_mut().retain(|&other| other != id);
            if named.get().is_empty() {
                named.remove();
            }
        }
        Some(id)
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
    pub(crate) fn refuse_until(&mut self, id: IdentityId, until: Instant) {
        self.entries[id.0 as usize].refused_until = Some(until);
    }

    /// The time until which the server is not asked for one more connection of the account, as long as anybody holds the identity.
    pub(crate) fn refused_until(&self, id: IdentityId) -> Option<Instant> {
        self.entries.get(id.0 as usize)?.refused_until
    }

    /// The server takes no more connections of the account. `is_counted` is true where that is known without asking. Returns true where it was
    /// never so before.
    pub(crate) fn takes_no_more(&mut self, id: IdentityId, now: Instant, is_counted: bool) -> bool {
        let entry = &mut self.entries[id.0 as usize];
        entry.taken_since = 0;
        // Several attempts may have been under way.
        if entry.no_more_for.is_some() && entry.refused_until.is_some_and(|until| until > now) {
            return false;
        }
        let least = match entry.no_more_for {
            Some(_) if !is_counted => SHORTEST_PAUSE,
            _ => FIRST_PAUSE,
        };
        let pause = (2 * entry.no_more_for.unwrap_or_default()).clamp(least, LONGEST_PAUSE);
        entry.refused_until = Some(now + pause);
        entry.no_more_for.replace(pause).is_none()
    }

    /// The server has taken one more connection of the account: it may take another one, and after some in a row as many as of any other account.
    pub(crate) fn has_one_more(&mut self, id: IdentityId, now: Instant) {
        let entry = &mut self.entries[id.0 as usize];
        if entry.no_more_for.is_some() {
            entry.taken_since += 1;
            if entry.taken_since >= HAS_ROOM {
                (entry.no_more_for, entry.refused_until, entry.taken_since) = (None, None, 0);
                return;
            }
            // Where it does not, that is no matter of a moment.
            (entry.no_more_for, entry.refused_until) = (Some(FIRST_PAUSE / 2), Some(now + SOON));
        }
    }

    /// A connection of the account has ended: the server takes another one in a moment.
    pub(crate) fn one_has_ended(&mut self, id: IdentityId, now: Instant) {
        if self.entries[id.0 as usize].no_more_for.is_some() {
            self.room_comes(id, now);
        }
    }

    /// A connection of the account ends so that one of this identity may be opened.
    pub(crate) fn room_comes(&mut self, id: IdentityId, now: Instant) {
        let entry = &mut self.entries[id.0 as usize];
        (entry.no_more_for, entry.refused_until) = (Some(Duration::ZERO), Some(now + SOON));
        entry.taken_since = 0;
    }

    /// A connection of the account ends so that another worker opens one. This one waits for the next to be left.
    pub(crate) fn left_to_another(&mut self, id: IdentityId, now: Instant) {
        let entry = &mut self.entries[id.0 as usize];
        entry.no_more_for.get_or_insert(Duration::ZERO);
        (entry.refused_until, entry.taken_since) = (Some(now + LEFT), 0);
    }

    /// Another worker has closed a connection of this account.
    pub(crate) fn has_room(&mut self, account: &IdentityKey, now: Instant) {
        // Clients with rights of before wait as the others do.
        for id in self.named(account).to_vec() {
            self.one_has_ended(id, now);
        }
    }

    /// The name of an identity: the user name that was given, and the account.
    pub(crate) fn name(&self, id: IdentityId) -> IdentityKey {
        let identity = self.identity(id);
        identity.account.identity_key(&identity.user)
    }

    /// Returns the identities of this name with a proved password: the one that a login becomes, and those with rights from before.
    pub(crate) fn named(&self, name: &IdentityKey) -> &[IdentityId] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// Says whether nobody has proved its password yet.
    pub(crate) fn is_claimed(&self, id: IdentityId) -> bool {
        self.identity(id).claimed
    }

    /// Says whether the server takes no more connections of the account, and is not to be asked yet: none of them has just ended.
    pub(crate) fn has_no_room(&self, id: IdentityId, now: Instant) -> bool {
        let Identity { no_more_for, refused_until, .. } = self.identity(id);
        no_more_for.is_some_and(|pause| pause >= FIRST_PAUSE)
            && refused_until.is_some_and(|until| until > now)
    }

    /// Says whether the server has taken no more connections of the account, and has not taken many since.
    pub(crate) fn was_full(&self, id: IdentityId) -> bool {
        self.entries[id.0 as usize].no_more_for.is_some()
    }

    /// The number of connections of the account that are opened at a time. Once the server has taken no more, that is one, since one too many is
    /// refused, and then as many as it has taken since: they double while all of them are let in.
    pub(crate) fn opens_at_a_time(&self, id: IdentityId) -> usize {
        let Identity { no_more_for, taken_since, .. } = self.identity(id);
        if no_more_for.is_some() { 1.max(*taken_since) } else { usize::MAX }
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
