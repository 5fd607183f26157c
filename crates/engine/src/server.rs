//! The server behind us as the engine sees it: its backends, and all that is known and found out about it.

pub(crate) mod control;
mod frozen;
pub(crate) mod login;
pub(crate) mod stored_code;

use std::collections::BTreeMap;

use seam::Instant;

use crate::backend::login::full::ServerFull;
use crate::backend::login::reachability::Reachability;
use crate::backend::pool::opening::Opening;
use crate::backend::scheduling::contention::Contention;
use crate::backend::scheduling::rescue::allowance::Rescues;
use crate::backend::scheduling::shared_backends::SharedBackends;
use crate::backend::to_server::prepared_statement_room::state::PreparedStatementRoom;
use crate::backend::{Backend, Idle};
use crate::ids::{BackendKey, ServerKey, Table};
use crate::scheduling::learned::lock_waits::told::Blocker;
use crate::server::control::facts::Facts;
use crate::server::control::state::Control;

/// A server, with nothing of the clients that it serves.
pub(crate) struct Server {
    /// The server's slot among the servers.
    pub(crate) key: ServerKey,
    pub(crate) reachability: Reachability,
    pub(crate) backends: Table<BackendKey, Backend>,
    /// Backends that nobody holds and on which nothing runs, the latest used last.
    pub(crate) idle: Idle,
    /// Backends that run short reads, which others may follow.
    pub(crate) sharing: SharedBackends,
    /// Backends with bytes to send in this turn.
    pub(crate) dirty: Vec<BackendKey>,
    pub(crate) control: Control,
    pub(crate) facts: Option<Facts>,
    /// Facts of a server that has come back, until its accounts are there too.
    pub(crate) pending_facts: Option<Facts>,
    pub(crate) opening: Opening,
    /// Room for statements that are prepared on all backends of this worker.
    pub(crate) prepared_statement_room: PreparedStatementRoom,
    /// Set while the server takes no more backends.
    pub(crate) full: Option<ServerFull>,
    pub(crate) rescues: Rescues,
    pub(crate) contention: Contention,
    /// Clients that hold locks others have waited for, by their ids.
    pub(crate) blockers: BTreeMap<u32, Blocker>,
    /// The last time at which the service account was not allowed to see who waits for locks, and who holds them.
    pub(crate) lock_waits_denied: Option<Instant>,
}

impl Server {
    /// A server of which nothing is known yet.
    pub(crate) fn new(key: ServerKey) -> Self {
        Self {
            key,
            reachability: Reachability::new(),
            backends: Table::new(key),
            idle: Idle::default(),
            sharing: SharedBackends::default(),
            dirty: Vec::new(),
            control: Control::new(key),
            facts: None,
            pending_facts: None,
            opening: Opening::default(),
            prepared_statement_room: PreparedStatementRoom::default(),
            full: None,
            rescues: Rescues::default(),
            contention: Contention::default(),
            blockers: BTreeMap::new(),
            lock_waits_denied: None,
        }
    }

    /// Puts a backend among the idle ones. Nothing runs on it, and nobody holds it: it is there for the next client.
    pub(crate) fn put_idle(&mut self, key: BackendKey) {
        debug_assert!(self.backends[key].is_idle(), "{key:?} is in use");
        self.idle.put(key);
    }

    pub(crate) fn may_connect_now(&self, now: Instant) -> bool {
        let full = self.full.as_ref().is_some_and(|full| full.until > now);
        // Before backends are opened on a server that has come back, it is known what it is.
        self.reachability.may_connect(now) && !full && self.pending_facts.is_none()
    }

    /// Says whether it is known to be a MariaDB.
    pub(crate) fn is_mariadb(&self) -> bool {
        self.facts.as_ref().is_some_and(Facts::is_mariadb)
    }

    /// A backend has bytes to send at the end of the turn.
    pub(crate) fn mark_dirty(&mut self, key: BackendKey) {
        if !self.dirty.contains(&key) {
            self.dirty.push(key);
        }
    }

    pub(crate) fn put_to_backend(&mut self, key: BackendKey, bytes: &[u8]) {
        self.backends[key].collect(bytes);
        self.mark_dirty(key);
    }
}
