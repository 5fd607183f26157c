//! What somebody outside has ordered.

use std::collections::VecDeque;

use seam::Instant;

use crate::outside::kills_under_way::KillsUnderWay;
use crate::outside::orders::to_be_ended::OutsideKill;

/// What somebody outside has ordered.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// When open transactions are given up, once draining has begun.
    pub(crate) draining: Option<Instant>,
    /// No new statement goes to the server, see [`crate::Engine::pause`].
    pub(crate) paused: bool,
    /// Statements that are to be ended.
    pub(crate) kills: Vec<OutsideKill>,
    /// What the server has been asked to end, and has not answered yet.
    pub(crate) kills_under_way: KillsUnderWay,
    /// What has become of an operator's KILLs at other Onramps, by the numbers of the orders.
    pub(crate) killed_at_peers: VecDeque<(u64, KilledAtPeer)>,
}

/// What has become of an operator's KILL of a client that another Onramp has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KilledAtPeer {
    /// That one has ended it, or has begun to.
    Done,
    /// That one has no client with this id either.
    NoSuchClient,
    /// Why that one could not be told, or has not answered: a sentence.
    Failed(String),
}
