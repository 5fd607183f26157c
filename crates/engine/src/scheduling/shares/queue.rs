//! A flow's statements that wait for their share.

use std::collections::BTreeMap;
use std::time::Duration;

use seam::Instant;

use super::ages::Ends;
use super::line::Stand;
use crate::ids::ClientKey;
use crate::scheduling::scheduler::lane::Class;
use crate::scheduling::scheduler::lane::{Lane, Standing};
use crate::scheduling::scheduler::order::Order;
use crate::steps;

/// The time since which a statement has waited. Of statements of the same time, the one that was parked first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arrival {
    pub(super) since: Instant,
    pub(super) number: u64,
}

/// A statement that is not in the scheduler's queues yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parked {
    pub(super) client: ClientKey,
    pub(super) lane: Lane,
    pub(super) standing: Standing,
    pub(super) since: Instant,
    pub(super) number: u64,
}

/// The parked statements of a flow.
#[derive(Debug, Default)]
pub(super) struct Queue {
    parked: BTreeMap<Arrival, Parked>,
    pub(super) order: Order,
    /// The stand of the queue's flow in the line.
    pub(super) stand: Option<Stand>,
    /// The time until which the queue's newest go first.
    pub(super) newest_until: Option<Instant>,
    pub(super) ends: Ends,
}

/// The end of its queue from which a statement goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Oldest,
    Newest,
}

/// The facts that decide who goes next, beside how much each has had.
#[derive(Clone, Copy)]
pub(crate) struct ShareTurn {
    pub(super) now: Instant,
    /// Workers that have even shares of the limits.
    pub(super) workers: u32,
    /// The statements that there is room for with the scheduler.
    pub(super) room: RoomByClass,
    /// The wait after which the oldest has to have its turn, where the newest may go first.
    pub(super) overdue_after: Option<Duration>,
}

/// Says of each class whether there is room for one more statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoomByClass {
    pub(super) short: bool,
    pub(super) long: bool,
}

impl RoomByClass {
    pub(crate) const ALL: Self = Self { short: true, long: true };

    pub(super) fn is_for(self, class: Class) -> bool {
        match class {
            Class::Short => self.short,
            Class::Long => self.long,
        }
    }
}

impl Parked {
    pub(super) fn arrival(&self) -> Arrival {
        Arrival { since: self.since, number: self.number }
    }
}

impl Queue {
    pub(super) fn insert(&mut self, parked: Parked) {
        self.parked.insert(parked.arrival(), parked);
    }

    pub(super) fn remove(&mut self, arrival: Arrival) {
        self.parked.remove(&arrival);
    }

    /// The one that has waited longest.
    pub(super) fn oldest(&self) -> Option<&Parked> {
        steps::add(1);
        self.parked.first_key_value().map(|(_, parked)| parked)
    }

    /// The one that came last.
    fn newest(&self) -> Option<&Parked> {
        steps::add(1);
        self.parked.last_key_value().map(|(_, parked)| parked)
    }

    /// The first and the last of it.
    pub(super) fn find_ends(&self) -> Ends {
        let waiting = |parked: &Parked| (parked.arrival(), parked.client);
        Ends { first: self.oldest().map(waiting), last: self.newest().map(waiting) }
    }

    /// Returns the flow's next statement, and the end of the queue that it stands at.
    pub(super) fn next(&self, turn: &ShareTurn) -> Option<(End, &Parked)> {
        let oldest = self.oldest()?;
        let newest_first = turn.overdue_after.is_some() && self.order.is_newest_first(turn.now);
        if !newest_first || (self.order.is_turn_of_oldest() && turn.is_overdue(oldest, &self.order)) {
            return Some((End::Oldest, oldest));
        }
        self.newest().map(|newest| (End::Newest, newest))
    }

    /// The number of parked statements.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.parked.len()
    }
}

impl ShareTurn {
    pub(super) fn is_overdue(&self, parked: &Parked, order: &Order) -> bool {
        let too_long = |kick_up| order.too_long(self.now, kick_up);
        self.overdue_after.is_some_and(|kick_up| parked.since + too_long(kick_up) <= self.now)
    }
}

impl Default for ShareTurn {
    fn default() -> Self {
        Self { now: Instant::START, workers: 1, room: RoomByClass::default(), overdue_after: None }
    }
}
