//! Statements that wait for a backend.

use seam::Instant;

use super::{Need, Scheduler, queue};
use crate::ids::ClientKey;
use crate::scheduling::scheduler::lane::{LANES, Lane};

impl Scheduler {
    /// The statement that has waited longest for a backend, and since when.
    pub(crate) fn oldest_in_need(&self) -> Option<(ClientKey, Instant)> {
        LANES
            .into_iter()
            .filter(|&lane| self.may_start(lane) || (lane == Lane::Contended && self.contended_room > 0))
            .filter_map(|lane| self.lists.head(queue(lane, Need::Any)))
            .min_by_key(|head| head.since)
            .map(|head| (head.client, head.since))
    }

    /// The first so many statements that need a backend, in about the order in which they would run.
    pub(crate) fn first_in_need(&self, count: usize) -> Vec<ClientKey> {
        let low = match self.kicked_up_is_last() {
            true => [Lane::Low, Lane::Long, Lane::KickedUp],
            false => [Lane::KickedUp, Lane::Low, Lane::Long],
        };
        // Those of the contended lane have been looked at before all others.
        let lanes = [Lane::Blocking, Lane::Holding, Lane::High].into_iter().chain(low);
        let of = |lane| {
            let most = if lane == Lane::Long { self.free_long_permits() } else { count };
            self.new_in_order(lane, most)
        };
        lanes.flat_map(of).take(count).collect()
    }

    /// The first so many statements of contended kinds that need a backend.
    pub(crate) fn contended_in_need(&self, count: usize) -> Vec<ClientKey> {
        self.new_in_order(Lane::Contended, count)
    }

    /// Statements waiting for a backend. Long ones that may not start wait for others of their kind.
    pub(crate) fn in_need(&self) -> usize {
        let of = |lane| {
            let most = match lane {
                Lane::Long => self.free_long_permits(),
                Lane::Contended => self.contended_room,
                _ => usize::MAX,
            };
            self.lists.len(queue(lane, Need::Any)).min(most)
        };
        LANES.into_iter().map(of).sum()
    }

    /// Says whether statements of a lane may start, given permits and backends.
    pub(super) fn may_start(&self, lane: Lane) -> bool {
        let may = |(head, _)| self.workers.has_long_permit(self.worker, self.place_in(lane, head));
        match lane {
            Lane::Long => self.first_of(lane, true).is_some_and(may),
            // It has a way of its own.
            Lane::Contended => false,
            _ => true,
        }
    }
}
