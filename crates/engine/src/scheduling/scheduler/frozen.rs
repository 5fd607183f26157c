//! A place in a queue as plain data ([`crate::frozen`]), and back.

use seam::Instant;

use super::lane::Lane;
use super::{Need, Scheduler, lane_of, need_of, queue};
use crate::frozen::Distance;
use crate::ids::ClientKey;

/// The place where a statement waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FrozenPlace {
    lane: Lane,
    need: Need,
    /// Arrivals since the statement's own, or since its transaction began. The next process counts on from where this one is.
    arrivals_since: u64,
    since: Distance,
}

plain!(struct FrozenPlace { lane, need, arrivals_since, since });
plain!(enum Lane {
    0 => Blocking, 1 => Holding, 2 => High, 3 => Low, 4 => Long, 5 => Contended, 6 => KickedUp,
});
plain!(enum Need { 0 => Holds, 1 => Any });

/// The thing that a statement waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FrozenWait {
    /// The statement's turn in a queue.
    InQueue {
        place: FrozenPlace,
        /// True where the statement leads a group: others with the same text may join it, or have joined.
        leads: bool,
    },
    /// The answer to a statement that waits in a queue: of the client with this id.
    Follows { leader: u32 },
}

plain!(enum FrozenWait { 0 => InQueue { place, leads }, 1 => Follows { leader } });

impl Scheduler {
    /// Takes a client's statement out of its queue, where it waits in one. Returns also who stands behind it: of some that have come at one
    /// moment the order is nowhere else.
    pub(crate) fn freeze(
        &mut self,
        now: Instant,
        client: ClientKey,
    ) -> Option<(FrozenPlace, Option<ClientKey>)> {
        let next = self.lists.behind(client);
        let (queue, head) = self.lists.remove(client)?;
        let arrivals_since = self.workers.arrivals().saturating_sub(head.arrival);
        let since = Distance::of(head.since, now);
        Some((FrozenPlace { lane: lane_of(queue), need: need_of(queue), arrivals_since, since }, next))
    }

    /// Puts the statement back in front of `next`. A caller that thaws a whole queue does so in its order, each statement behind those before.
    pub(crate) fn thaw(
        &mut self,
        now: Instant,
        client: ClientKey,
        place: FrozenPlace,
        next: Option<ClientKey>,
    ) {
        let FrozenPlace { lane, need, arrivals_since, since } = place;
        let arrival = self.workers.arrivals().saturating_sub(arrivals_since);
        let (queue, since) = (queue(lane, need), since.from(now));
        match next {
            Some(next) => self.lists.push_before(queue, client, arrival, since, next),
            None => self.lists.push(queue, client, arrival, since),
        }
    }
}
