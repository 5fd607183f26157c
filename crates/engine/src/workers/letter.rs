//! Messages between workers. Everything else they have in common is in [`crate::Workers`].

use std::fmt;
use std::sync::Arc;

use crate::accounts::secret::Secret;
use crate::accounts::{Account, IdentityKey};
use crate::control::peers::mail::Sender;
use crate::ids::{ClientRef, ServerKey};
use crate::learned::lock_waits::{LockHolders, LockWaits};

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
    /// Which of the sender's clients hold them.
    LockHolders(Arc<LockHolders>),
    /// A server has no room for a prepared statement of the sender's: some are to be closed.
    MakeRoom {
        /// That server.
        server: ServerKey,
        /// The worker that asks.
        from: usize,
    },
    /// That has been done.
    RoomMade {
        /// There.
        server: ServerKey,
    },
    /// A client of the sender's has changed global values that sessions begin with.
    DefaultsChanged,
    /// The server has stored code of which nobody knew, and which may have left something on backends.
    CodeFound,
    /// For the recipient's reader at the server of this place, from the sender's there.
    OfReader {
        /// The server's place in the list of addresses.
        place: usize,
        /// What it says.
        letter: Box<Letter>,
    },
}

/// The proof of a login.
#[derive(Clone, PartialEq, Eq)]
pub struct Proved {
    /// The name that was given, and the account's user and host.
    pub(crate) identity: IdentityKey,
    pub(crate) secret: Secret,
}

impl fmt::Debug for Proved {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proved").field("identity", &self.identity).finish_non_exhaustive()
    }
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
    pub(crate) rights: Rights,
}

/// Who wants a client killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Killer {
    /// A client of the worker that asks.
    Client(ClientRef),
    /// Somebody at another Onramp, who has sent a letter on that server.
    Peer(ServerKey, Sender),
}

/// The outcome of a [`Kill`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Killed {
    pub(crate) killer: Killer,
    pub(crate) victim: u32,
    pub(crate) outcome: Outcome,
}

/// The answer for the killer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    NoSuchClient,
    Denied,
    /// The server has to end what runs on this thread of it.
    AskServer(Ending),
    /// No client has the id, which the server's own have reached: what it is there, the server knows.
    OfServer(Ending),
    /// Another Onramp has the client, and cannot be told, or has not answered.
    Undelivered(Undelivered),
}

/// Why a KILL has not come to the Onramp that has the client, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undelivered {
    /// This one has no slot, and the others do not know it.
    NoSlot,
    /// That one is not there any more, or one of both has lost its connection to the server.
    PeerGone,
    /// Somebody holds the named locks that letters are made of.
    LocksTaken,
    /// Too many wait for that one.
    TooMany,
    /// It has not answered in time.
    NoAnswer,
}

/// The order for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) thread_id: u64,
    /// Only the statement at hand. What stands behind it in its text or procedure goes on, up to a COMMIT.
    pub(crate) query_only: bool,
}

impl Ending {
    /// The statement that asks for it.
    pub(crate) fn text(self) -> String {
        format!("KILL {}{}", if self.query_only { "QUERY " } else { "" }, self.thread_id)
    }
}

/// The connections that a client may kill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    /// Everybody's: SUPER or CONNECTION ADMIN.
    pub(crate) all: bool,
    /// MySQL's SYSTEM_USER.
    pub(crate) is_system_user: bool,
    pub(crate) owner: Owner,
}

/// An account's user and host, in a form that is as short for each: half of a SHA-256. Who may choose his name cannot find one that
/// takes him for somebody else.
pub(crate) type Owner = [u8; 16];

fn owner(account: &Account) -> Owner {
    let names = [&account.user[..], account.host.as_bytes()];
    let length = (names[0].len() as u64).to_le_bytes();
    let digest = wire::sha2_password::digest1(&[&length, names[0], names[1]].concat());
    std::array::from_fn(|index| digest[index])
}

impl Rights {
    pub(crate) fn of(account: &Account) -> Self {
        Self { all: account.may_kill, is_system_user: account.is_system_user, owner: owner(account) }
    }

    /// The servers' rule: one's own connections, or all, but those of a system user are for system users (kill_one_thread).
    pub(crate) fn cover(&self, victim: &Account) -> bool {
        let is_own = self.owner == owner(victim);
        is_own || (self.all && (self.is_system_user || !victim.is_system_user))
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
        let covered =
            |by: &Account| [&plain, &system, &killer, &root].map(|victim| Rights::of(by).cover(victim));
        assert_eq!(covered(&plain), [true, false, false, false]);
        assert_eq!(covered(&system), [false, true, false, false]);
        assert_eq!(covered(&killer), [true, false, true, false]);
        assert_eq!(covered(&root), [true; 4]);
    }
}
