//! The order of a queue decides which new work of a lane goes next.

use std::time::Duration;

use seam::Instant;

use super::list::Head;
use super::{Need, Scheduler, lane_of, need_of, queue};
use crate::ids::ClientKey;
use crate::scheduling::scheduler::lane::Lane;

impl Scheduler {
    /// A client does not want its statement any more, which waits here or does not.
    pub(crate) fn note_abandoned_wait(&mut self, now: Instant, client: ClientKey) {
        if let Some((queue, head)) = self.lists.place(client)
            && need_of(queue) == Need::Any
        {
            self.note_abandoned(now, lane_of(queue), now.since(head.since));
        }
    }

    /// A client has hung up on a statement of this lane that had waited for so long in the queue, and hardly run.
    pub(crate) fn note_abandoned(&mut self, now: Instant, lane: Lane, waited: Duration) {
        if let Some(order) = order_of(lane) {
            self.orders[order].abandoned(now, waited);
        }
    }

    /// A statement leaves its queue to start.
    pub(super) fn note_start(&mut self, lane: Lane, need: Need, head: Head) {
        if let (Some(order), Need::Any) = (order_of(lane), need) {
            let first = self.lists.head(queue(lane, need));
            let oldest = first.is_none_or(|first| head.arrival < first.arrival);
            self.newest_starts += u64::from(!oldest && self.is_newest_first(lane));
            self.orders[order].started(oldest && self.has_its_turn(lane, &head));
        }
    }

    /// The order of new work is decided in front of the queues from now on, or here again.
    pub(crate) fn hold_order(&mut self, held: bool) {
        self.order_held = held;
    }

    /// Says whether the newest statement of a lane goes first now.
    pub(crate) fn is_newest_first(&self, lane: Lane) -> bool {
        let order = order_of(lane).filter(|_| self.group.is_none() && self.adaptive_lifo && !self.order_held);
        order.is_some_and(|order| self.orders[order].is_newest_first(self.now))
    }

    /// A statement that others have joined goes with the newest, where these go first.
    pub(crate) fn renew(&mut self, client: ClientKey) {
        let Some((queue, _)) = self.lists.place(client) else { return };
        if need_of(queue) == Need::Any
            && self.is_newest_first(lane_of(queue))
            && let Some((queue, head)) = self.lists.remove(client)
        {
            self.lists.push(queue, client, self.workers.arrival(), head.since);
        }
    }

    /// Returns the statement of a lane that goes next, and the first one in its queue, which lends it its place.
    pub(super) fn first_of(&self, lane: Lane, backend_free: bool) -> Option<(Head, ClientKey)> {
        let holds = self.lists.head(queue(lane, Need::Holds)).map(|head| (head, head.client));
        let any = self.lists.head(queue(lane, Need::Any)).filter(|_| backend_free);
        let any = any.map(|head| (head, self.next_new(lane, head)));
        holds.into_iter().chain(any).min_by_key(|(head, _)| head.arrival)
    }

    /// The new work of a lane in the order in which it goes, about.
    pub(super) fn new_in_order(&self, lane: Lane, count: usize) -> Vec<ClientKey> {
        let queue = queue(lane, Need::Any);
        match self.is_newest_first(lane) {
            true => self.lists.last(queue).map(|head| head.client).take(count).collect(),
            false => self.lists.first(queue, count).collect(),
        }
    }

    /// Returns the statement that lends its place to a waiting statement.
    pub(super) fn stands_for(&self, lane: Lane, need: Need, head: Head) -> Head {
        let turned = need == Need::Any && self.is_newest_first(lane);
        turned.then(|| self.lists.head(queue(lane, need))).flatten().unwrap_or(head)
    }

    /// Says whether statements that have been kicked up go behind all that are newer.
    pub(super) fn kicked_up_is_last(&self) -> bool {
        let first = self.lists.head(queue(Lane::KickedUp, Need::Any));
        let turn = self.is_turn_of_oldest(Lane::KickedUp)
            && first.is_some_and(|first| self.has_its_turn(Lane::KickedUp, &first));
        self.is_newest_first(Lane::KickedUp) && !turn
    }

    fn next_new(&self, lane: Lane, first: Head) -> ClientKey {
        if !self.is_newest_first(lane) || (self.is_turn_of_oldest(lane) && self.has_its_turn(lane, &first)) {
            return first.client;
        }
        self.lists.last(queue(lane, Need::Any)).next().map_or(first.client, |last| last.client)
    }

    fn is_turn_of_oldest(&self, lane: Lane) -> bool {
        order_of(lane).is_some_and(|order| self.orders[order].is_turn_of_oldest())
    }

    /// Says whether the oldest of a lane has waited so long that it goes before newer ones when it is its turn.
    fn has_its_turn(&self, lane: Lane, first: &Head) -> bool {
        let too_long = |order: usize| self.orders[order].too_long(self.now, self.kick_up);
        first.after(order_of(lane).map_or(self.kick_up, too_long)) <= self.now
    }

    /// Says whether a statement has waited so long that it has to have its turn.
    pub(super) fn is_overdue(&self, head: &Head) -> bool {
        head.after(self.kick_up) <= self.now
    }
}

/// The order that holds for a lane. A client that holds locks has to go on, in the order of the transactions.
fn order_of(lane: Lane) -> Option<usize> {
    match lane {
        Lane::Blocking | Lane::Holding => None,
        Lane::High | Lane::Low | Lane::KickedUp => Some(0),
        Lane::Long => Some(1),
        Lane::Contended => Some(2),
    }
}
