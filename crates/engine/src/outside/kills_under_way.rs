//! KILLs that the server has been asked for and has not answered yet.
//!
//! A KILL ends whatever runs on its thread when the server comes to it. That may be the statement behind the one that was meant. So a client
//! that keeps its backend has its next command wait until the server has answered. The command stays among what the client has sent ahead, in no
//! queue and without a permit. Backends that nobody keeps need no such thing, since they are closed behind a KILL.

use std::time::Duration;

use seam::Instant;

use crate::backend::Backend;
use crate::client::Client;
use crate::ids::{BackendKey, ClientRef};
use crate::outside::orders::to_be_ended::KillReport;
use crate::servers::Servers;
use crate::workers::letter::PEER_TIMEOUT;

/// The longest time that a command waits: as long as a killer at another Onramp waits for its answer.
///
/// Then the command goes on, and the KILL may hit it if the server comes to that after all. On a connection of the client's own the command
/// would not have waited at all. To end the client's transaction instead would be a certain loss in the place of an unlikely one. Where the
/// backend of the KILL is lost without an answer, the command waits as long: the server may have read the KILL, or may still.
pub(crate) const LONGEST: Duration = PEER_TIMEOUT;

/// A backend by its slot and its token, so that a later one in the same slot is not taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BackendRef {
    key: BackendKey,
    token: u64,
}

impl BackendRef {
    pub(crate) fn new(key: BackendKey, backend: &Backend) -> Self {
        Self { key, token: backend.token }
    }

    pub(crate) fn is_there(self, servers: &Servers) -> bool {
        servers.get(self.key).is_some_and(|backend| backend.token == self.token)
    }
}

/// A KILL that the server has been asked for.
#[derive(Debug)]
pub(crate) struct UnderWay {
    /// The backend on which the KILL was sent.
    pub(super) carrier: BackendRef,
    /// The backend on which the KILL ends a statement or connection, and the client that has it.
    pub(super) victim: BackendRef,
    pub(super) client: ClientRef,
    pub(super) since: Instant,
    pub(super) told: Option<KillReport>,
}

/// The KILLs of one worker that are under way. There are no more than backends that they were sent on, and than backends lost within
/// [`LONGEST`].
#[derive(Debug, Default)]
pub(crate) struct KillsUnderWay(Vec<UnderWay>);

impl KillsUnderWay {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push(&mut self, kill: UnderWay) {
        self.0.push(kill);
    }

    /// Says whether one of them is to end something on this backend.
    fn concern(&self, backend: BackendRef) -> bool {
        self.0.iter().any(|kill| kill.victim == backend)
    }

    /// Says whether a client's next command waits: the server has not answered yet to a KILL of what ran on its backend.
    pub(crate) fn hold_up(&self, client: &Client, servers: &Servers) -> bool {
        let backend = client.backend.filter(|_| !self.is_empty());
        backend.is_some_and(|backend| self.concern(BackendRef::new(backend, &servers[backend])))
    }

    /// Takes out what the server has answered on this backend.
    pub(crate) fn answered(&mut self, carrier: BackendRef) -> Option<UnderWay> {
        let index = self.0.iter().position(|kill| kill.carrier == carrier)?;
        Some(self.0.swap_remove(index))
    }

    /// Takes out those for which nobody waits any more: their time is over, or what they were to end something on has gone.
    pub(crate) fn take_over(&mut self, now: Instant, servers: &Servers) -> Vec<UnderWay> {
        let is_over = |kill: &UnderWay| now >= kill.since + LONGEST || !kill.victim.is_there(servers);
        let (over, rest) = std::mem::take(&mut self.0).into_iter().partition(is_over);
        self.0 = rest;
        over
    }

    /// The clients that the KILLs are about.
    pub(crate) fn clients(&self) -> impl Iterator<Item = ClientRef> {
        self.0.iter().map(|kill| kill.client)
    }

    /// The time at which the first of them has taken too long.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.0.iter().map(|kill| kill.since + LONGEST).min()
    }
}
