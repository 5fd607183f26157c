//! What is to be ended by somebody outside, or by a client's KILL.

use seam::Instant;

use crate::ids::ClientRef;
use crate::workers::letter::{Ending, Killed};

/// Who is to hear that a KILL has been carried out, and that one's worker, or the one that tells another Onramp.
pub(crate) type Told = (usize, Killed);

/// A statement or connection that the server has to end. The victim's own user asks for it, whom the server lets end what is its
/// own.
#[derive(Debug)]
pub(crate) struct OutsideKill {
    pub(in crate::outside) victim: ClientRef,
    pub(in crate::outside) ending: Ending,
    /// True if the client stays. What it has said since is not meant.
    pub(in crate::outside) query_only: bool,
    pub(in crate::outside) since: Instant,
    /// Who hears of it.
    pub(in crate::outside) told: Option<Told>,
}

impl OutsideKill {
    /// Somebody wants that of a client since then.
    pub(crate) fn new(victim: ClientRef, ending: Ending, query_only: bool, since: Instant) -> Self {
        Self { victim, ending, query_only, since, told: None }
    }
}

/// What a client's KILL of another client has the server end.
pub(crate) enum Kills {
    /// What runs of a client of this worker's, which is looked at until the server is asked.
    Own(Box<OutsideKill>),
    /// Of another worker's, which alone could see that it has ended meanwhile; on the server of this choice, by its number.
    OfOtherWorker { choice: u32 },
}
