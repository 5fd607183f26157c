//! Messages between workers. Everything else they have in common is in [`crate::Workers`].

use std::sync::Arc;
use std::time::Duration;

use seam::Address;

use crate::accounts::secret::IdentityKey;
use crate::accounts::{Account, Proved};
use crate::errors::Undelivered;
use crate::ids::{ClientRef, ServerKey};
use crate::scheduling::learned::lock_waits::told::{LockHolders, LockWaits};

/// The time that a client waits for a peer to answer. The peer looks once a second. The rest is for a peer that is busy, or has a busy server.
pub(crate) const PEER_TIMEOUT: Duration = Duration::from_secs(5);

/// A message from one worker of a pool to another. The program around the engines carries messages in the order in which they
/// were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Letter {
    /// Look at what is shared: a permit is free, or somebody needs a backend.
    Wake,
    /// A client wants a client of the recipient killed.
    Kill(Kill),
    /// The answer to that.
    Killed(Killed),
    /// A client wants a client of another Onramp killed, with which the recipient, the first worker, corresponds.
    KillAtPeer(Kill),
    /// A client has logged in. Clients of the same account on other workers go on by the proof.
    Proved(Proved),
    /// The lock waits that the server has just told of.
    LockWaits(Arc<LockWaits>),
    /// The clients of the sender that hold the locks.
    LockHolders(Arc<LockHolders>),
    /// The sender was refused one more backend of this account, since the server takes no more than there are.
    AccountIsFull(IdentityKey),
    /// The sender has closed a backend of this account, of which the server takes no more than there are.
    AccountHasRoom(IdentityKey),
    /// A server has no room for a prepared statement of the sender's: some are to be closed.
    MakeRoom {
        /// The server that has no room.
        server: ServerKey,
        /// The worker that asks.
        from: usize,
    },
    /// The sender has closed some prepared statements.
    RoomMade {
        /// The server that had no room.
        server: ServerKey,
    },
    /// A client of the sender's has changed global values that sessions begin with.
    DefaultsChanged,
    /// The server has stored code of which nobody knew, and which may have left something on backends.
    CodeFound,
    /// The server at this place in the list of addresses is at another one from now on.
    ServerMoves {
        /// The server's place.
        place: usize,
        /// The new address.
        to: Address,
    },
    /// A letter for the recipient's reader at the server of this place, from the sender's reader there.
    OfReader {
        /// The server's place in the list of addresses.
        place: usize,
        /// The letter for that reader.
        letter: Box<Letter>,
    },
}

/// KILL of a client that another worker has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The killer's worker.
    pub(crate) from: usize,
    pub(crate) killer: Killer,
    /// The id of the client to be killed.
    pub(crate) victim: u32,
    pub(crate) query_only: bool,
    pub(crate) rights: KillRights,
    /// The time since the KILL was said, where it has come from another Onramp.
    pub(crate) age: Duration,
}

/// A peer's connection that has sent a letter, and the letter's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) connection: u64,
    pub(crate) number: u32,
}

/// The party that wants a client killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Killer {
    /// A client of the worker that asks.
    Client(ClientRef),
    /// The same, where more of its text stands behind the KILL: it goes on with that once the KILL has been carried out.
    ClientWithRest(ClientRef),
    /// An Onramp that has sent a letter on that server.
    Peer(ServerKey, Sender),
    /// An operator at this Onramp. The number is the order's.
    Operator(u64),
}

/// The outcome of a [`Kill`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Killed {
    pub(crate) killer: Killer,
    pub(crate) victim: u32,
    pub(crate) outcome: KillOutcome,
}

impl Killed {
    /// Says whether more of the killer's text stands behind the KILL.
    pub(crate) fn goes_on(&self) -> bool {
        matches!(self.killer, Killer::ClientWithRest(_))
    }
}

/// The answer for the killer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KillOutcome {
    Done,
    NoSuchClient,
    Denied,
    /// The server has to end what runs on this thread of it.
    AskServer(ServerKill),
    /// No client has the id, which the server's own have reached: what it is there, the server knows.
    OfServer(ServerKill),
    /// Another Onramp has the client, and cannot be told, or has not answered.
    Undelivered(Undelivered),
}

/// The order for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerKill {
    pub(crate) thread_id: u64,
    /// True where only the statement at hand ends. The rest of its text or procedure goes on, up to a COMMIT.
    pub(crate) query_only: bool,
}

impl ServerKill {
    /// The statement that asks for it.
    pub(crate) fn text(self) -> String {
        format!("KILL {}{}", if self.query_only { "QUERY " } else { "" }, self.thread_id)
    }
}

/// The connections that a client may kill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KillRights {
    /// True where the client may kill everybody's connections: SUPER or CONNECTION ADMIN.
    pub(crate) all: bool,
    /// True where the client has MySQL's SYSTEM_USER.
    pub(crate) is_system_user: bool,
    pub(crate) owner: ClientOwner,
}

/// The owner of a client, in a form that is equally short for each: half of a SHA-256. Somebody who may choose his name cannot find one that
/// is taken for somebody else's.
pub(crate) type ClientOwner = [u8; 16];

/// The property by which a server knows the owner of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnBy {
    /// MySQL: the name that was given at the login, whatever the account (`Security_context::user_matches`).
    Name,
    /// MariaDB: the account, its user and its host.
    Account,
}

impl OwnBy {
    fn owner(self, user: &[u8], account: &Account) -> ClientOwner {
        let (user, host) = match self {
            Self::Name => (user, ""),
            Self::Account => (&account.user[..], &account.host[..]),
        };
        let length = (user.len() as u64).to_le_bytes();
        let digest = wire::sha2_password::digest1(&[&length, user, host.as_bytes()].concat());
        std::array::from_fn(|index| digest[index])
    }
}

impl KillRights {
    /// An operator's, at the admin port.
    pub(crate) const OF_OPERATOR: Self = Self { all: true, is_system_user: true, owner: [0; 16] };

    /// The rights of somebody who has logged in with this name, and has this account on the server.
    pub(crate) fn of(own_by: OwnBy, user: &[u8], account: &Account) -> Self {
        let owner = own_by.owner(user, account);
        Self { all: account.may_kill, is_system_user: account.is_system_user, owner }
    }

    /// Says whether the rights are enough, by the servers' rule: one's own, or all; but those of a system user are for system users
    /// (kill_one_thread).
    pub(crate) fn cover(&self, own_by: OwnBy, user: &[u8], victim: &Account) -> bool {
        let is_covered = self.all || self.owner == own_by.owner(user, victim);
        is_covered && (self.is_system_user || !victim.is_system_user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Credential;

    #[test]
    fn who_may_kill_whom() {
        let account = |user, may_kill, is_system_user| Account {
            may_kill,
            is_system_user,
            ..Account::of_test(user, "%", Credential::Empty)
        };
        let (plain, system) = (account("plain", false, false), account("system", false, true));
        let (killer, root) = (account("killer", true, false), account("root", true, true));
        let covered = |by: &Account| {
            [&plain, &system, &killer, &root].map(|victim| {
                KillRights::of(OwnBy::Name, &by.user, by).cover(OwnBy::Name, &victim.user, victim)
            })
        };
        assert_eq!(covered(&plain), [true, false, false, false]);
        assert_eq!(covered(&system), [false, true, false, false]);
        assert_eq!(covered(&killer), [true, false, true, false]);
        assert_eq!(covered(&root), [true; 4]);
    }

    #[test]
    fn whose_own_a_client_is() {
        let account = |user, host| Account::of_test(user, host, Credential::Empty);
        let (here, there, nobody) =
            (account("app", "10.0.0.1"), account("app", "10.0.0.2"), account("", "%"));
        for (own_by, is_by_name) in [(OwnBy::Name, true), (OwnBy::Account, false)] {
            let rights = KillRights::of(own_by, b"app", &here);
            assert!(rights.cover(own_by, b"app", &here));
            assert_eq!(rights.cover(own_by, b"app", &there), is_by_name);
            let guest = KillRights::of(own_by, b"guest", &nobody);
            assert!(guest.cover(own_by, b"guest", &nobody));
            assert_eq!(guest.cover(own_by, b"other", &nobody), !is_by_name);
        }
        let system = Account { is_system_user: true, ..account("app", "localhost") };
        let rights = KillRights::of(OwnBy::Name, b"app", &here);
        assert!(!rights.cover(OwnBy::Name, b"app", &system), "a system user's");
    }
}
