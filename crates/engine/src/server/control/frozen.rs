//! The service account's connection to a server as plain data ([`crate::frozen`]), and back: the connection stays, with the locks that it holds
//! there, and goes on to be asked when it would have been.
//!
//! Only one that has nothing under way can be frozen: no login, no question, no letter to or from a peer.

use seam::{ConnectionId, Instant};
use wire::Capabilities;

use super::account_changes::Changes;
use super::backend_limit::{BackendLimit, FrozenBackendLimit};
use super::copies::FrozenCopies;
use super::defaults::FrozenDefaults;
use super::peers::FrozenPeers;
use super::position::FrozenPosition;
use super::state::{Control, State};
use crate::frozen::{Distance, NotFrozen};
use crate::server::stored_code::watch::FrozenWatch;

/// [`Control`] as plain data.
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenControl {
    /// The driver's name for the connection; `None` where the service account is not connected, and nobody has begun to.
    connection: Option<ConnectionId>,
    /// The token of the latest attempt: the next one has another.
    token: u64,
    capabilities: Capabilities,
    since: Distance,
    copies: FrozenCopies,
    accounts_seen: Vec<u8>,
    probe_seen: Vec<u8>,
    changes: Changes,
    rights_hidden: bool,
    code: FrozenWatch,
    defaults: FrozenDefaults,
    backend_limit: FrozenBackendLimit,
    peers: FrozenPeers,
    position: FrozenPosition,
}

plain!(struct FrozenControl {
    connection, token, capabilities, since, copies, accounts_seen, probe_seen, changes,
    rights_hidden, code, defaults, backend_limit, peers, position,
});

impl Control {
    /// # Errors
    ///
    /// Where something is under way.
    pub(crate) fn can_be_frozen(&self) -> Result<(), NotFrozen> {
        let rests = match self.state {
            State::Idle => self.connection.is_some(),
            State::Away => self.connection.is_none(),
            State::Connecting | State::LoggingIn(_) | State::Asking { .. } | State::ReadingAccounts => false,
        };
        match rests && self.out.is_empty() && self.peers.rest() && !self.code.is_being_read() {
            true => Ok(()),
            false => Err(NotFrozen::Asks),
        }
    }

    /// Takes all of it out; it is away then.
    ///
    /// # Errors
    ///
    /// As [`Self::can_be_frozen`].
    pub(crate) fn freeze(&mut self, now: Instant) -> Result<FrozenControl, NotFrozen> {
        self.can_be_frozen()?;
        let Self {
            state,
            connection,
            token,
            capabilities,
            since,
            copies,
            out: _, // nothing
            accounts_seen,
            probe_seen,
            changes,
            rights_hidden,
            lock_waits: _, // of a question that is under way
            code,
            defaults,
            backend_limit,
            peers,
            position,
        } = self;
        *state = State::Away;
        Ok(FrozenControl {
            connection: connection.take(),
            token: *token,
            capabilities: std::mem::replace(capabilities, Capabilities::NONE),
            since: Distance::of(std::mem::take(since), now),
            copies: copies.freeze(now),
            accounts_seen: std::mem::take(accounts_seen),
            probe_seen: std::mem::take(probe_seen),
            changes: std::mem::take(changes),
            rights_hidden: std::mem::take(rights_hidden),
            code: std::mem::take(code).freeze(now),
            defaults: std::mem::take(defaults).freeze(now),
            backend_limit: std::mem::take(backend_limit).freeze(now),
            peers: peers.freeze(now),
            position: std::mem::take(position).freeze(now),
        })
    }

    /// Makes the connection go on from plain data. The caller tells the driver's side to which server the connection belongs.
    pub(crate) fn thaw(&mut self, frozen: FrozenControl, now: Instant) {
        let FrozenControl {
            connection,
            token,
            capabilities,
            since,
            copies,
            accounts_seen,
            probe_seen,
            changes,
            rights_hidden,
            code,
            defaults,
            backend_limit,
            peers,
            position,
        } = frozen;
        self.state = if connection.is_some() { State::Idle } else { State::Away };
        self.connection = connection;
        self.token = token;
        self.capabilities = capabilities;
        self.since = since.from(now);
        self.copies = copies.thaw(now);
        self.accounts_seen = accounts_seen;
        self.probe_seen = probe_seen;
        self.changes = changes;
        self.rights_hidden = rights_hidden;
        self.code = code.thaw(now);
        self.defaults = defaults.thaw(now);
        self.backend_limit = BackendLimit::thawed(backend_limit, now);
        self.peers.thaw(peers, now);
        self.position = position.thaw(now);
    }

    /// All that is frozen, but for what the server has said of its accounts.
    pub(crate) fn shown(&self) -> String {
        let Self { connection, token, capabilities, since, copies, .. } = self;
        let Self { changes, rights_hidden, code, defaults, backend_limit, peers, position, .. } = self;
        let of_connection = (connection, token, capabilities, since, copies);
        format!(
            "{:?}",
            (of_connection, changes, rights_hidden, code, defaults, backend_limit, peers, position)
        )
    }
}

#[cfg(test)]
mod tests;
