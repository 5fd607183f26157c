//! What of a flow waits for its share.

use std::collections::BTreeMap;
use std::time::Duration;

use seam::Instant;

use super::ages::Ends;
use super::line::Stand;
use crate::scheduler::{Class, Lane, Order, Standing};
use crate::steps;

/// Since when a statement has waited; of those of the same time, the one that was parked first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arrival {
    pub(super) since: Instant,
    pub(super) number: u64,
}

/// A statement that is not in the scheduler's queues yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parked {
    pub(crate) client: u32,
    pub(crate) lane: Lane,
    pub(crate) standing: Standing,
    pub(crate) since: Instant,
    pub(super) number: u64,
}

/// The parked statements of a flow, by class.
#[derive(Debug, Default)]
pub(super) struct Queue {
    parked: [BTreeMap<Arrival, Parked>; Class::ALL.len()],
    pub(super) order: Order,
    /// Where its flow stands in the line.
    pub(super) stand: Option<Stand>,
    /// When it stands elsewhere though nothing happens.
    pub(super) moves_at: Option<Instant>,
    /// Until when its newest go first.
    pub(super) newest_until: Option<Instant>,
    pub(super) ends: Ends,
}

/// From which end of its queue a statement goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Oldest,
    Newest,
}

/// What decides who goes next, beside what each has had.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) now: Instant,
    /// So many have even shares of the limits.
    pub(crate) workers: u32,
    /// Whether there is room for one more short statement with the scheduler.
    pub(crate) room_for_short: bool,
    /// Where the newest may go first: after how long the oldest has to have its turn.
    pub(crate) overdue_after: Option<Duration>,
}

impl Parked {
    pub(super) fn arrival(&self) -> Arrival {
        Arrival { since: self.since, number: self.number }
    }
}

impl Queue {
    pub(super) fn insert(&mut self, parked: Parked) {
        self.parked[Class::of(parked.lane) as usize].insert(parked.arrival(), parked);
    }

    pub(super) fn remove(&mut self, class: Class, arrival: Arrival) {
        self.parked[class as usize].remove(&arrival);
    }

    /// The one that has waited longest.
    pub(super) fn oldest(&self) -> Option<&Parked> {
        self.oldest_of_each().min_by_key(|parked| parked.arrival())
    }

    /// The one that came last.
    fn newest(&self) -> Option<&Parked> {
        self.newest_of_each().max_by_key(|parked| parked.arrival())
    }

    fn oldest_of_each(&self) -> impl Iterator<Item = &Parked> {
        steps::add(1);
        self.parked.iter().filter_map(|parked| parked.first_key_value()).map(|(_, parked)| parked)
    }

    fn newest_of_each(&self) -> impl Iterator<Item = &Parked> {
        steps::add(1);
        self.parked.iter().filter_map(|parked| parked.last_key_value()).map(|(_, parked)| parked)
    }

    /// The first and the last of each class.
    pub(super) fn find_ends(&self) -> Ends {
        let mut ends = Ends::default();
        for parked in self.oldest_of_each() {
            ends.first[Class::of(parked.lane) as usize] = Some((parked.arrival(), parked.client));
        }
        for parked in self.newest_of_each() {
            ends.last[Class::of(parked.lane) as usize] = Some((parked.arrival(), parked.client));
        }
        ends
    }

    /// Who of it goes next, and from which end.
    pub(super) fn next(&self, turn: &Turn) -> Option<(End, &Parked)> {
        let oldest = self.oldest()?;
        let newest_first = turn.overdue_after.is_some() && self.order.is_newest_first(turn.now);
        if !newest_first || (self.order.is_turn_of_oldest() && turn.is_overdue(oldest, &self.order)) {
            return Some((End::Oldest, oldest));
        }
        self.newest().map(|newest| (End::Newest, newest))
    }

    /// When [`Self::next`] may be another one though nothing happens.
    pub(super) fn next_changes_at(&self, turn: &Turn) -> Option<Instant> {
        let kick_up = turn.overdue_after.filter(|_| self.order.is_newest_first(turn.now))?;
        let overdue_at = self.oldest()?.since + self.order.too_long(turn.now, kick_up);
        let until = self.order.newest_until()?;
        let becomes_overdue = self.order.is_turn_of_oldest() && overdue_at > turn.now;
        Some(if becomes_overdue { until.min(overdue_at) } else { until })
    }

    /// How many are parked.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.parked.iter().map(BTreeMap::len).sum()
    }
}

impl Turn {
    pub(super) fn is_overdue(&self, parked: &Parked, order: &Order) -> bool {
        let too_long = |kick_up| order.too_long(self.now, kick_up);
        self.overdue_after.is_some_and(|kick_up| parked.since + too_long(kick_up) <= self.now)
    }
}

impl Default for Turn {
    fn default() -> Self {
        Self { now: Instant::START, workers: 1, room_for_short: false, overdue_after: None }
    }
}
