//! The work that takes milliseconds: for logins hashes of thousands of rounds, and RSA; for statements reading large texts, and
//! the server's stored code. The program around the engine does it on other threads than a worker's, and hands back the outcome.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seam::ConnectionId;
use wire::sha2_password::Stored;
use zeroize::Zeroizing;

use crate::accounts::copy::{AccountRows, ReadAccounts};
use crate::accounts::proof::Proof;
use crate::accounts::secret::Password;
use crate::client::commands::reading::{LargeText, ReadText};
use crate::ids::{ClientRef, ServerKey};
use crate::server::stored_code::questions::{CodeAnswers, ReadCode};

/// Work that is to be done elsewhere, see [`crate::Engine::poll_task`].
#[derive(Debug)]
pub struct Task {
    /// Goes back with what came of it, to [`crate::Engine::take_finding`].
    pub number: u64,
    /// The work itself.
    pub work: Work,
    /// The network of the client that the work is done for, so that clients of one network do not hold up all others: an address,
    /// or the first of a /64 of IPv6. None for a client on this machine.
    pub network: Option<IpAddr>,
    given_up: Arc<AtomicBool>,
}

impl Task {
    /// Makes a task that somebody waits for.
    pub fn new(number: u64, work: Work, network: Option<IpAddr>) -> Self {
        Self { number, work, network, given_up: Arc::default() }
    }

    /// Says whether anybody still waits for the task: a client that hangs up in the middle of its login does not.
    pub fn is_wanted(&self) -> bool {
        !self.given_up.load(Ordering::Relaxed)
    }

    /// Notes that nobody waits for the task any more.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Says whether the task is for connections to the server, and not for a client: such tasks go first.
    pub fn is_our_own(&self) -> bool {
        matches!(self.work, Work::Encrypt { .. } | Work::ReadAccounts(_) | Work::ReadCode(_))
    }
}

/// The work of a task.
pub enum Work {
    /// Check a password against what a server stores: [`Finding::Password`].
    Check {
        /// The server's stored form.
        stored: Vec<u8>,
        /// The proof that the client sent.
        proof: Proof,
    },
    /// Say the public key with which clients may encrypt their passwords: [`Finding::PublicKey`].
    PublicKey,
    /// Check an Ed25519 signature: [`Finding::Signature`].
    Verify {
        /// The public key of the account.
        public_key: [u8; 32],
        /// The nonce that we had sent.
        nonce: [u8; 32],
        /// The signature that the client sent.
        signature: Zeroizing<Vec<u8>>,
    },
    /// Say the name of a user of this machine: [`Finding::UserName`].
    UserName {
        /// The user's number.
        uid: u32,
    },
    /// Encrypt something for a server: [`Finding::Encrypted`].
    Encrypt {
        /// A password, mixed with the server's scramble.
        bytes: Zeroizing<Vec<u8>>,
        /// The server's public key, as PEM.
        public_key: Vec<u8>,
    },
    /// Read a large statement: [`Finding::Text`].
    Read(Box<LargeText>),
    /// Read the server's accounts: [`Finding::Accounts`].
    ReadAccounts(AccountRows),
    /// Read the server's stored code: [`Finding::Code`].
    ReadCode(CodeAnswers),
}

impl fmt::Debug for Work {
    /// Writes the kind of the work, without its content: passwords in one form or another.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Check { .. } => "Check",
            Self::PublicKey => "PublicKey",
            Self::Verify { .. } => "Verify",
            Self::UserName { .. } => "UserName",
            Self::Encrypt { .. } => "Encrypt",
            Self::Read(_) => "Read",
            Self::ReadAccounts(_) => "ReadAccounts",
            Self::ReadCode(_) => "ReadCode",
        })
    }
}

/// The outcome of a task.
#[derive(Debug)]
pub enum Finding {
    /// The password that was sent and whether it is right; `None` where it cannot be decrypted.
    Password(Option<(Arc<Password>, bool)>),
    /// Our public key, as PEM; `None` where there is none.
    PublicKey(Option<Arc<[u8]>>),
    /// True if the signature is right.
    Signature(bool),
    /// The user's name, where it has one.
    UserName(Option<Vec<u8>>),
    /// The encrypted password for the server; `None` where the server's key is of no use.
    Encrypted(Option<Vec<u8>>),
    /// The effects of the statement.
    Text(ReadText),
    /// The server's accounts.
    Accounts(ReadAccounts),
    /// The effects of stored code.
    Code(ReadCode),
    /// There will be no outcome: the thread that did the task met a defect.
    Lost,
}

impl Finding {
    /// Turns the finding into one for a login at a server: of a lost task nothing has been encrypted.
    pub(crate) fn for_server(self) -> Self {
        match self {
            Self::Lost => Self::Encrypted(None),
            finding => finding,
        }
    }

    /// The stored code that has been read, if it has.
    pub(crate) fn code(self) -> Option<ReadCode> {
        match self {
            Self::Code(read) => Some(read),
            _ => None,
        }
    }
}

impl Password {
    /// Says whether a server with this stored form takes this password. Takes milliseconds.
    pub fn matches(&self, stored: &[u8]) -> bool {
        Stored::parse(stored).is_some_and(|stored| stored.matches(self.clear()))
    }
}

/// The part that waits for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    Client(ClientRef),
    /// The token of a backend that logs in.
    Backend(u64),
    /// The service account at a server, on this connection: its login, and its reading of the accounts.
    Control(ServerKey, ConnectionId),
    /// A check's login on this connection.
    Check(ConnectionId),
    /// The reader of a server's stored code.
    StoredCode(ServerKey),
}

/// Tasks that are to be handed out, and who waits for what.
#[derive(Default)]
pub(crate) struct Tasks {
    queue: VecDeque<Task>,
    /// The askers of tasks, each with a flag that tells the task's thread when nobody waits any more.
    askers: BTreeMap<u64, (Asker, Arc<AtomicBool>)>,
    last: u64,
}

impl Tasks {
    /// Sets the first of the tasks' numbers.
    pub(crate) fn begin_numbers(&mut self, first: u64) {
        self.last = first;
    }

    /// Has something done, for somebody from this network where it is a client. Returns the task's number.
    pub(crate) fn give(&mut self, asker: Asker, work: Work, network: Option<IpAddr>) -> u64 {
        self.last += 1;
        let number = self.last;
        let task = Task::new(number, work, network);
        self.askers.insert(number, (asker, Arc::clone(&task.given_up)));
        self.queue.push_back(task);
        number
    }

    /// The next task to be handed out.
    pub(crate) fn next(&mut self) -> Option<Task> {
        self.queue.pop_front()
    }

    /// A task has been done: who waits for it, if anybody still does.
    pub(crate) fn asker_of(&mut self, number: u64) -> Option<Asker> {
        self.askers.remove(&number).map(|(asker, _)| asker)
    }

    /// Gives up a task that has lost its asker: the task need not be done, and nobody is to wait behind it.
    pub(crate) fn give_up(&mut self, number: u64) {
        if let Some((_, given_up)) = self.askers.remove(&number) {
            given_up.store(true, Ordering::Relaxed);
        }
    }
}
