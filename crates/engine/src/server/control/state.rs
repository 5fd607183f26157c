//! The service account's connection to a server: its state, and what has been learned on it.

use std::time::Duration;

use seam::{ConnectionId, Instant};
use wire::ReplyReader;
use zeroize::Zeroize;

use super::account_changes::Changes;
use super::answer::Kept;
use super::backend_limit::BackendLimit;
use super::copies::Copies;
use super::defaults::Defaults;
use super::peers::Peers;
use super::peers::sealed::LetterKey;
use super::position::{CATCHES_UP_FOR, PositionWatch};
use super::question::Question;
use crate::ids::ServerKey;
use crate::io::CONTROL_TOKEN;
use crate::scheduling::learned::lock_waits::told::LockWaits;
use crate::server::login::ServerLogin;
use crate::server::stored_code::watch::Watch;

/// The first name of attempts to connect where there are several servers. Each attempt has a name of its own: four billion for each of the
/// servers.
pub(super) const CONTROL_TOKENS: u64 = 1 << 62;

/// The service account's connection and what it is doing.
pub(crate) struct Control {
    pub(super) state: State,
    pub(super) connection: Option<ConnectionId>,
    /// Names the latest attempt to connect towards the driver.
    pub(crate) token: u64,
    /// The capabilities that the login has agreed on.
    pub(super) capabilities: wire::Capabilities,
    pub(super) since: Instant,
    /// Copies of the accounts.
    pub(super) copies: Copies,
    pub(super) out: Vec<u8>,
    pub(super) accounts_seen: Vec<u8>,
    /// The answer to the latest probe.
    pub(super) probe_seen: Vec<u8>,
    /// The server's counts of changes of accounts.
    pub(crate) changes: Changes,
    /// True once a log line has said that not all of the accounts can be read.
    pub(super) rights_hidden: bool,
    /// The lock waits that have been found out so far.
    pub(super) lock_waits: LockWaits,
    /// The knowledge of stored code.
    pub(crate) code: Watch,
    /// The values that a session begins with, as far as they are known.
    pub(crate) defaults: Defaults,
    pub(crate) backend_limit: BackendLimit,
    pub(super) peers: Peers,
    /// How far the server is, for reads on replicas.
    pub(crate) position: PositionWatch,
}

/// The stage that the connection is at.
pub(super) enum State {
    Away,
    Connecting,
    LoggingIn(Box<ServerLogin>),
    Asking {
        question: Question,
        reader: Box<ReplyReader>,
        answer: Kept,
    },
    /// Its answer about the accounts is being read elsewhere.
    ReadingAccounts,
    Idle,
}

/// The latest name of an attempt at a server of which there was none yet.
fn first_token(server: ServerKey) -> u64 {
    match server.slot() {
        0 => CONTROL_TOKEN,
        slot => CONTROL_TOKENS + ((slot as u64) << 32),
    }
}

impl Control {
    pub(crate) fn new(server: ServerKey) -> Self {
        Self {
            state: State::Away,
            connection: None,
            token: first_token(server),
            capabilities: wire::Capabilities::NONE,
            since: Instant::START,
            copies: Copies::default(),
            out: Vec::new(),
            accounts_seen: Vec::new(),
            probe_seen: Vec::new(),
            changes: Changes::default(),
            rights_hidden: false,
            lock_waits: LockWaits::new(server, Instant::START),
            code: Watch::default(),
            defaults: Defaults::default(),
            backend_limit: BackendLimit::default(),
            peers: Peers::default(),
            position: PositionWatch::default(),
        }
    }

    /// The service account has logged in anew: whatever it knows may be that of another server, or of one that has lost something.
    pub(super) fn asked_anew(&mut self, letter_key: Option<&LetterKey>) {
        // It was asked before the accounts were read that count from here on, so that what it saw may be there again.
        self.probe_seen.clear();
        self.changes.asked_anew();
        self.code.asked_anew();
        self.defaults.asked_anew();
        self.backend_limit.asked_anew();
        self.peers.asked_anew(letter_key);
    }

    /// The server has gone, or is to be left. Returns the connection, which is to be closed.
    pub(crate) fn leave(&mut self) -> Option<ConnectionId> {
        self.state = State::Away;
        self.out.zeroize();
        self.connection.take()
    }

    /// The service account's connection, once it stands.
    pub(crate) fn connection(&self) -> Option<ConnectionId> {
        self.connection
    }

    /// The time since it was asked its present question.
    pub(crate) fn since_asked(&self, now: Instant) -> Duration {
        now.since(self.since)
    }

    /// Says whether a node is to answer once it has all that its cluster has.
    pub(crate) fn waits_for_cluster(&self) -> bool {
        matches!(self.state, State::Asking { question: Question::Position, .. })
            && self.position.asked_as_node
    }

    /// The time that the thing waited for may take, where that is `usual` as a rule.
    pub(super) fn limit(&self, usual: Duration) -> Duration {
        if self.waits_for_cluster() { usual.max(CATCHES_UP_FOR) } else { usual }
    }
}
