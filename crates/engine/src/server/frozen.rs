//! What is known of a server as plain data ([`crate::frozen`]), and back.
//!
//! The server is taken apart without `..`: each part that does not go along says why. Its backends go one by one
//! ([`crate::backend`]).

use std::collections::BTreeMap;

use seam::Instant;

use super::Server;
use crate::backend::contention::FrozenContention;
use crate::backend::full::{FrozenFull, ServerFull};
use crate::backend::reachability::{FrozenReachability, Reachability};
use crate::backend::rescue::allowance::{FrozenRescues, Rescues};
use crate::control::facts::Facts;
use crate::frozen::Distance;
use crate::frozen::plain::{bytes_of, read};
use crate::learned::lock_waits::told::Blocker;

/// What is known of one server.
struct FrozenServer {
    reachability: FrozenReachability,
    facts: Option<Facts>,
    pending_facts: Option<Facts>,
    full: Option<FrozenFull>,
    rescues: FrozenRescues,
    contention: FrozenContention,
    blockers: BTreeMap<u32, Blocker>,
    lock_waits_denied: Option<Distance>,
}

plain!(struct FrozenServer {
    reachability, facts, pending_facts, full, rescues, contention, blockers, lock_waits_denied,
});

impl Server {
    /// What is known of it becomes bytes, and these what is known of it.
    ///
    /// # Panics
    ///
    /// If the bytes are not read as what they were made of.
    pub(crate) fn freeze_and_thaw(&mut self, now: Instant) {
        let bytes = bytes_of(&self.freeze(now));
        let frozen = read::<FrozenServer>(&bytes).expect("what was frozen comes out of its bytes");
        assert_eq!(bytes_of(&frozen), bytes, "what was frozen comes out of its bytes");
        self.thaw(frozen, now);
    }

    fn freeze(&mut self, now: Instant) -> FrozenServer {
        let Self {
            key: _,      // the slot of whoever thaws it
            backends: _, // each goes by itself
            idle: _,     // with them
            sharing: _,  // so do what runs there
            dirty: _,    // nothing is to be sent between two turns
            control: _,  // not yet: its connection is in the middle of a question more often than not
            opening: _,  // not yet: it names clients that wait
            room: _,     // not yet: other workers' answers are under way
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
        } = frozen;
        self.reachability = Reachability::thawed(reachability, now);
        self.facts = facts;
        self.pending_facts = pending_facts;
        self.full = full.map(|full| ServerFull::thawed(full, now));
        self.rescues = Rescues::thawed(rescues, now);
        self.contention.thaw(contention, now);
        self.blockers = blockers;
        self.lock_waits_denied = lock_waits_denied.map(|at| at.from(now));
    }
}
