//! The ends of the queues, for those who keep them short.
//!
//! *New work* here means waiting statements that hold no backend: those that commit by themselves, and the first ones of
//! transactions. A client that holds a backend may hold locks too, and is never turned away.

use seam::Instant;

use super::{Need, Scheduler, queue};
use crate::ids::ClientKey;
use crate::scheduling::scheduler::lane::{Class, Lane};

impl Scheduler {
    /// The new work of a class that has waited longest, and since when.
    pub(crate) fn oldest_new(&self, class: Class) -> Option<(ClientKey, Instant)> {
        let heads = class.lanes().iter().filter_map(|&lane| self.lists.head(queue(lane, Need::Any)));
        heads.min_by_key(|head| head.since).map(|head| (head.client, head.since))
    }

    /// The new work of a class, about the latest first: queue by queue, those with the latest at their end first.
    pub(crate) fn latest_new(&self, class: Class) -> impl Iterator<Item = ClientKey> {
        let mut lanes = class.lanes().to_vec();
        let tail = |lane| self.lists.last(queue(lane, Need::Any)).next();
        lanes.sort_by_key(|&lane| std::cmp::Reverse(tail(lane).map(|tail| (tail.since, tail.arrival))));
        lanes.into_iter().flat_map(|lane| self.lists.last(queue(lane, Need::Any))).map(|head| head.client)
    }

    /// New work of a class that waits.
    pub(crate) fn new_of(&self, class: Class) -> usize {
        class.lanes().iter().map(|&lane| self.lists.len(queue(lane, Need::Any))).sum()
    }

    /// Returns how many statements of a class wait, of all clients together.
    pub(crate) fn waiting_of(&self, class: Class) -> usize {
        let both = |lane| [Need::Holds, Need::Any].map(|need| self.lists.len(queue(lane, need))).iter().sum();
        class.lanes().iter().map(|&lane| -> usize { both(lane) }).sum()
    }

    /// New work that takes up the room of short statements: what waits for locks has a lane of its own, in nobody's way.
    pub(crate) fn takes_room(&self) -> usize {
        self.new_of(Class::Short) - self.lists.len(queue(Lane::Contended, Need::Any))
    }

    /// The oldest plain work of a class, and since when it has waited.
    pub(crate) fn oldest_plain(&self, class: Class) -> Option<(ClientKey, Instant)> {
        let heads = class.plain_lanes().iter().filter_map(|&lane| self.lists.head(queue(lane, Need::Any)));
        heads.min_by_key(|head| head.since).map(|head| (head.client, head.since))
    }

    /// Returns so many clients, about, with plain work that waits: those that came first, and those that came last where these
    /// are not all.
    pub(crate) fn some_plain(&self, class: Class, count: usize) -> Vec<ClientKey> {
        self.some_of(class.plain_lanes(), count)
    }

    /// Returns so many clients with plain short work, in their order, where this one is the first of them.
    pub(crate) fn behind(&self, first: ClientKey, count: usize) -> Vec<ClientKey> {
        let mut low = self.lists.first(queue(Lane::Low, Need::Any), count + 1);
        if low.next() == Some(first) { low.collect() } else { Vec::new() }
    }

    /// The same of all short statements, logins among them, but for those that wait for locks.
    pub(crate) fn some_short(&self, count: usize) -> Vec<ClientKey> {
        let lanes: Vec<_> =
            Class::Short.lanes().iter().copied().filter(|&lane| lane != Lane::Contended).collect();
        self.some_of(&lanes, count)
    }

    fn some_of(&self, lanes: &[Lane], count: usize) -> Vec<ClientKey> {
        let of = |&lane: &Lane| {
            let queue = queue(lane, Need::Any);
            let all = self.lists.len(queue) <= count;
            let first = self.lists.first(queue, if all { count } else { count / 2 });
            let last = self.lists.last(queue).map(|head| head.client);
            first.chain(last.take(if all { 0 } else { count / 2 }))
        };
        lanes.iter().flat_map(of).collect()
    }

    /// Takes a client's plain work of a class out of its queue. Since when it has waited.
    pub(crate) fn take_plain(&mut self, class: Class, client: ClientKey) -> Option<Instant> {
        let (from, _) = self.lists.place(client)?;
        let plain = class.plain_lanes().iter().any(|&lane| from == queue(lane, Need::Any));
        plain.then(|| self.lists.remove(client)).flatten().map(|(_, head)| head.since)
    }
}
