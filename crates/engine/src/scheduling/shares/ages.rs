//! The statement that has waited longest for a share, and the one that came last: found without looking at each flow.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use seam::Instant;

use super::queue::Arrival;
use super::table::{Flow, Name};
use crate::ids::ClientKey;
use crate::scheduling::scheduler::lane::Class;
use crate::steps;

/// A statement and its client.
type Waiting = (Arrival, ClientKey);

const CLASSES: usize = Class::ALL.len();

/// The first and the last parked statement of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) first: Option<Waiting>,
    pub(super) last: Option<Waiting>,
}

/// The first and the last parked statements of all flows.
#[derive(Default)]
pub(super) struct Ages {
    users: BTreeMap<Name, OfUser>,
    /// The first of each user that is not held up.
    oldest: [BTreeSet<Waiting>; CLASSES],
    /// The first of each user that is held up, by the time since which both have been so: it waits, and its user is held up.
    held_up: BTreeSet<Waiting>,
    /// The last of each flow.
    newest: [BTreeSet<Waiting>; CLASSES],
}

#[derive(Default)]
struct OfUser {
    /// The first of each of its flows.
    firsts: [BTreeSet<Waiting>; CLASSES],
    held_up_since: Option<Instant>,
}

/// Flows by a time of theirs.
#[derive(Default)]
pub(super) struct Times(BTreeSet<(Instant, Rc<Flow>)>);

impl Ages {
    /// The first or last statements of a flow are others than before.
    pub(super) fn move_to(&mut self, flow: &Flow, from: Ends, to: Ends) {
        let class = flow.class as usize;
        replace(&mut self.newest[class], from.last, to.last);
        if from.first != to.first {
            self.change(&flow.user, |of_user| replace(&mut of_user.firsts[class], from.first, to.first));
        }
    }

    /// New work of a user waits for its backends from then on, or does not any more.
    pub(super) fn hold_up(&mut self, user: &Name, since: Option<Instant>) {
        self.change(user, |of_user| of_user.held_up_since = since);
    }

    fn change(&mut self, user: &Name, change: impl FnOnce(&mut OfUser)) {
        steps::add(1);
        let of_user = self.users.entry(user.clone()).or_default();
        if let Some(held_up) = of_user.held_up() {
            self.held_up.remove(&held_up);
        }
        for (oldest, first) in self.oldest.iter_mut().zip(of_user.going()) {
            replace(oldest, first, None);
        }
        change(of_user);
        if let Some(held_up) = of_user.held_up() {
            self.held_up.insert(held_up);
        }
        for (oldest, first) in self.oldest.iter_mut().zip(of_user.going()) {
            replace(oldest, None, first);
        }
        if of_user.held_up_since.is_none() && of_user.firsts.iter().all(BTreeSet::is_empty) {
            self.users.remove(user);
        }
    }

    /// The statement of a class that has waited longest, of users that are not held up.
    pub(super) fn oldest(&self, class: Class) -> Option<Waiting> {
        steps::add(1);
        self.oldest[class as usize].first().copied()
    }

    /// The statement of a class that has waited longest of all.
    pub(super) fn oldest_of_all(&self, class: Class) -> Option<Waiting> {
        let going = self.oldest(class);
        if self.held_up.is_empty() {
            return going;
        }
        // Users are looked at only while some are held up.
        let held_up = self.users.values().filter(|of_user| of_user.held_up_since.is_some());
        let firsts = held_up.filter_map(|of_user| of_user.firsts[class as usize].first().copied());
        firsts.inspect(|_| steps::add(1)).chain(going).min()
    }

    /// The statement that has waited longest for backends of its user, and since when.
    pub(super) fn oldest_held_up(&self) -> Option<Waiting> {
        steps::add(1);
        self.held_up.first().copied()
    }

    /// The statement of a user that has waited longest.
    pub(super) fn oldest_of(&self, user: &[u8]) -> Option<Waiting> {
        steps::add(1);
        self.users.get(user)?.oldest()
    }

    /// The last of each flow, the latest of them first.
    pub(super) fn latest(&self, class: Class) -> impl Iterator<Item = ClientKey> {
        self.newest[class as usize].iter().rev().map(|&(_, client)| client).inspect(|_| steps::add(1))
    }
}

impl OfUser {
    fn oldest(&self) -> Option<Waiting> {
        self.firsts.iter().filter_map(BTreeSet::first).min().copied()
    }

    fn held_up(&self) -> Option<Waiting> {
        let since = self.held_up_since?;
        let (first, client) = self.oldest()?;
        Some((Arrival { since: first.since.max(since), ..first }, client))
    }

    /// The first of each class, where they are not held up.
    fn going(&self) -> [Option<Waiting>; CLASSES] {
        match self.held_up_since {
            Some(_) => [None; CLASSES],
            None => std::array::from_fn(|class| self.firsts[class].first().copied()),
        }
    }
}

impl Times {
    /// A flow's time is another one.
    pub(super) fn move_to(&mut self, flow: &Rc<Flow>, from: Option<Instant>, to: Option<Instant>) {
        if from != to {
            let with_flow = |time| (time, Rc::clone(flow));
            replace(&mut self.0, from.map(with_flow), to.map(with_flow));
        }
    }

    /// The latest time of all.
    pub(super) fn latest(&self) -> Option<Instant> {
        steps::add(1);
        self.0.last().map(|&(time, _)| time)
    }
}

fn replace<T: Ord>(set: &mut BTreeSet<T>, from: Option<T>, to: Option<T>) {
    if from == to {
        return;
    }
    steps::add(1);
    if let Some(from) = from {
        set.remove(&from);
    }
    set.extend(to);
}
