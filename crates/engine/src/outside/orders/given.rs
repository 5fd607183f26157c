//! What somebody outside has ordered, and what is to be ended by it or by a client's KILL.

use std::collections::VecDeque;

use seam::Instant;

use crate::ids::ClientRef;
use crate::outside::kills_under_way::{KillsUnderWay, Told};
use crate::workers::letter::Ending;

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

/// A statement or connection that the server has to end. The victim's own user asks for it, whom the server lets end what is its
/// own.
#[derive(Debug)]
pub(crate) struct OutsideKill {
    pub(super) victim: ClientRef,
    pub(super) ending: Ending,
    /// True if the client stays. What it has said since is not meant.
    pub(super) query_only: bool,
    pub(super) since: Instant,
    /// Who hears of it.
    pub(super) told: Option<Told>,
}

/// What a client's KILL of another client has the server end.
pub(crate) enum Kills {
    /// What runs of a client of this worker's, which is looked at until the server is asked.
    Own(Box<OutsideKill>),
    /// Of another worker's, which alone could see that it has ended meanwhile.
    OfOtherWorker,
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
