//! Knowledge of a server as plain data ([`crate::frozen`]), and back.
//!
//! The server is taken apart without `..`: each part that does not go along says why. Its backends go one by one
//! ([`crate::backend`]).

use std::collections::BTreeMap;

use seam::Instant;

use super::Server;
use crate::backend::login::full::{FrozenFull, ServerFull};
use crate::backend::login::reachability::{FrozenReachability, Reachability};
use crate::backend::pool::opening::FrozenOpening;
use crate::backend::scheduling::contention::FrozenContention;
use crate::backend::scheduling::rescue::allowance::{FrozenRescues, Rescues};
use crate::backend::to_server::prepared_statement_room::state::FrozenPreparedStatementRoom;
use crate::frozen::plain::{bytes_of, read};
use crate::frozen::{Distance, NotFrozen};
use crate::scheduling::learned::lock_waits::told::Blocker;
use crate::server::control::facts::Facts;
use crate::server::control::frozen::FrozenControl;

/// Knowledge of one server.
struct FrozenServer {
    reachability: FrozenReachability,
    facts: Option<Facts>,
    pending_facts: Option<Facts>,
    full: Option<FrozenFull>,
    rescues: FrozenRescues,
    contention: FrozenContention,
    blockers: BTreeMap<u32, Blocker>,
    lock_waits_denied: Option<Distance>,
    opening: FrozenOpening,
    prepared_statement_room: FrozenPreparedStatementRoom,
    /// `None` where the service account waits for an answer: the process that hands the server on waits for that, too.
    control: Option<FrozenControl>,
}

plain!(struct FrozenServer {
    reachability, facts, pending_facts, full, rescues, contention, blockers, lock_waits_denied, opening,
    prepared_statement_room, control,
});

impl Server {
    /// Turns the knowledge of the server into bytes, and these into knowledge again.
    ///
    /// # Panics
    ///
    /// If something is not what it was.
    ///
    /// # Errors
    ///
    /// Where the service account's connection has stayed as it was: something is under way there.
    pub(crate) fn freeze_and_thaw(&mut self, now: Instant) -> Result<(), NotFrozen> {
        let control = self.control.can_be_frozen();
        let before = self.shown();
        let bytes = bytes_of(&self.freeze(now));
        let frozen = read::<FrozenServer>(&bytes).expect("what was frozen comes out of its bytes");
        assert_eq!(bytes_of(&frozen), bytes, "what was frozen comes out of its bytes");
        self.thaw(frozen, now);
        assert_eq!(self.shown(), before, "nothing that is known of a server is lost");
        // What is not shown is secret.
        let again = self.freeze(now);
        assert!(bytes_of(&again) == bytes, "nothing that is known of a server is lost");
        self.thaw(again, now);
        control
    }

    /// Shows the knowledge, but for accounts.
    fn shown(&self) -> String {
        let Self { reachability, full, rescues, contention, blockers, .. } = self;
        let Self { lock_waits_denied, opening, prepared_statement_room, control, .. } = self;
        let of_server = (
            reachability,
            full,
            rescues,
            contention,
            blockers,
            lock_waits_denied,
            opening,
            prepared_statement_room,
        );
        format!("{of_server:?} {}", control.shown())
    }

    fn freeze(&mut self, now: Instant) -> FrozenServer {
        let Self {
            key: _,      // the slot of whoever thaws it
            backends: _, // each goes by itself
            idle: _,     // with them
            sharing: _,  // so do what runs there
            dirty: _,    // nothing is to be sent between two turns
            control,
            opening,
            prepared_statement_room,
            reachability,
            facts,
            pending_facts,
            full,
            rescues,
            contention,
            blockers,
            lock_waits_denied,
        } = self;
        FrozenServer {
            reachability: std::mem::replace(reachability, Reachability::new()).freeze(now),
            facts: facts.take(),
            pending_facts: pending_facts.take(),
            full: full.take().map(|full| full.freeze(now)),
            rescues: std::mem::take(rescues).freeze(now),
            contention: contention.freeze(now),
            blockers: std::mem::take(blockers),
            lock_waits_denied: lock_waits_denied.take().map(|at| Distance::of(at, now)),
            opening: opening.freeze(now),
            prepared_statement_room: prepared_statement_room.freeze(now),
            control: control.freeze(now).ok(),
        }
    }

    fn thaw(&mut self, frozen: FrozenServer, now: Instant) {
        let FrozenServer {
            reachability,
            facts,
            pending_facts,
            full,
            rescues,
            contention,
            blockers,
            lock_waits_denied,
            opening,
            prepared_statement_room,
            control,
        } = frozen;
        self.reachability = Reachability::thawed(reachability, now);
        self.facts = facts;
        self.pending_facts = pending_facts;
        self.full = full.map(|full| ServerFull::thawed(full, now));
        self.rescues = Rescues::thawed(rescues, now);
        self.contention.thaw(contention, now);
        self.blockers = blockers;
        self.lock_waits_denied = lock_waits_denied.map(|at| at.from(now));
        self.opening.thaw(opening, now);
        self.prepared_statement_room.thaw(prepared_statement_room, now);
        if let Some(control) = control {
            self.control.thaw(control, now);
        }
    }
}

#[cfg(test)]
mod tests;
