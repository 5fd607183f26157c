//! Statements and connections that somebody outside, or a client's KILL, is to end.

use seam::Instant;

use crate::ids::ClientRef;
use crate::workers::letter::{Killed, ServerKill};

/// The worker that hears of the outcome of a KILL, and the outcome. It is the killer's worker, or the one that tells another Onramp.
pub(crate) type KillReport = (usize, Killed);

/// A statement or connection that the server has to end. The victim's own user asks for that, since the server lets a user end
/// what is its own.
#[derive(Debug)]
pub(crate) struct OutsideKill {
    pub(in crate::outside) victim: ClientRef,
    pub(in crate::outside) ending: ServerKill,
    /// True if the client stays. What it has said since is not meant.
    pub(in crate::outside) query_only: bool,
    pub(in crate::outside) since: Instant,
    /// The worker that hears of the outcome.
    pub(in crate::outside) told: Option<KillReport>,
}

impl OutsideKill {
    /// Makes an order to end what a client has on the server, which somebody wants since then.
    pub(crate) fn new(victim: ClientRef, ending: ServerKill, query_only: bool, since: Instant) -> Self {
        Self { victim, ending, query_only, since, told: None }
    }
}

/// The order to the server that a client's KILL of another client leads to.
pub(crate) enum Kills {
    /// The victim is a client of this worker. Onramp looks at the victim's statement until it asks the server.
    Own(Box<OutsideKill>),
    /// The victim is a client of another worker. Only that worker could see that its statement has ended
    /// meanwhile. `choice` is the number of the choice of the server.
    OfOtherWorker { choice: u32 },
}
