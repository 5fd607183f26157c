//! Orders that somebody outside has given.

use std::collections::VecDeque;

use seam::Instant;

use crate::client::Client;
use crate::client::ids::slot_of;
use crate::errors::MySqlError;
use crate::ids::{ClientKey, Table};
use crate::outside::kills_under_way::KillsUnderWay;
use crate::outside::orders::to_be_ended::OutsideKill;
use crate::workers::letter::{KillOutcome, Killed};

/// Orders that somebody outside has given.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// The time at which open transactions are given up, once draining has begun.
    draining: Option<Instant>,
    /// True while no new statement goes to the server, see [`crate::Engine::pause`].
    pub(super) paused: bool,
    /// Statements that are to be ended.
    pub(crate) kills: Vec<OutsideKill>,
    /// KILLs that the server has been asked for, and has not answered yet.
    pub(crate) kills_under_way: KillsUnderWay,
    /// Outcomes of an operator's KILLs at other Onramps, by the numbers of the orders.
    pub(super) killed_at_peers: VecDeque<(u64, KilledAtPeer)>,
}

impl Orders {
    /// Draining begins, with so long for open transactions. Returns false where it has begun before.
    pub(crate) fn drain_until(&mut self, end: Instant) -> bool {
        let begins = self.draining.is_none();
        self.draining.get_or_insert(end);
        begins
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.is_some()
    }

    /// Returns the time at which open transactions are given up, once draining has begun.
    pub(crate) fn end_of_draining(&self) -> Option<Instant> {
        self.draining
    }

    /// Says whether no new statement goes to the server, see [`crate::Engine::pause`].
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Notes the outcome of an operator's KILL of a client that another Onramp has.
    pub(crate) fn killed_at_peer(&mut self, order: u64, killed: &Killed) {
        let outcome = match killed.outcome {
            KillOutcome::NoSuchClient | KillOutcome::OfServer(_) => KilledAtPeer::NoSuchClient,
            KillOutcome::Undelivered(why) => {
                let id = u64::from(killed.victim);
                KilledAtPeer::Failed(MySqlError::kill_undelivered(id, slot_of(id), why).message)
            }
            // Nothing is denied to an operator, and the other Onramp asks the server by itself.
            KillOutcome::Done | KillOutcome::Denied | KillOutcome::AskServer(_) => KilledAtPeer::Done,
        };
        self.killed_at_peers.push_back((order, outcome));
    }

    /// The clients with something that the server is to be asked to end.
    pub(crate) fn victims<'a>(
        &'a self,
        clients: &'a Table<ClientKey, Client>,
    ) -> impl Iterator<Item = &'a Client> {
        self.kills.iter().filter_map(|kill| clients.find(kill.victim))
    }
}

/// The outcome of an operator's KILL of a client that another Onramp has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KilledAtPeer {
    /// The other Onramp has ended the client, or has begun to.
    Done,
    /// The other Onramp has no client with this id either.
    NoSuchClient,
    /// The reason why the other Onramp could not be told, or has not answered: a sentence.
    Failed(String),
}
