//! Reads that wait for a replica to have what they are to see.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use seam::Instant;

use crate::ids::ClientRef;

/// Waiting reads. They are found by when they came and by what they need, however many there are.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The reads in the order in which they came, each with the time up to which it needs all writes.
    all: BTreeMap<u64, (ClientRef, Instant)>,
    /// The times up to which reads need all writes, with the reads' numbers above.
    needs: BTreeSet<(Instant, u64)>,
    last: u64,
    /// Numbers of those that wait for a replica of Onramp's own zone first, and until when, in that order. Some may wait no more.
    head_starts: VecDeque<(Instant, u64)>,
}

impl Waiting {
    /// A client's read needs all that was written up to then. Returns its number here.
    pub(super) fn add(&mut self, client: ClientRef, needs: Instant) -> u64 {
        self.last += 1;
        self.all.insert(self.last, (client, needs));
        self.needs.insert((needs, self.last));
        self.last
    }

    /// The latest one waits for a replica of Onramp's own zone until then.
    pub(super) fn give_head_start(&mut self, until: Instant) {
        self.head_starts.push_back((until, self.last));
    }

    /// The time at which the next head start ends.
    pub(super) fn next_head_start(&self) -> Option<Instant> {
        self.head_starts.front().map(|&(until, _)| until)
    }

    /// Takes the next read that still waits after the end of its head start.
    pub(super) fn end_head_start(&mut self, now: Instant) -> Option<ClientRef> {
        while self.next_head_start().is_some_and(|until| until <= now) {
            let (_, number) = self.head_starts.pop_front()?;
            if let Some(&(client, _)) = self.all.get(&number) {
                return Some(client);
            }
        }
        None
    }

    /// Takes out a read that waits no more.
    pub(super) fn remove(&mut self, number: u64) {
        if let Some((_, needs)) = self.all.remove(&number) {
            self.needs.remove(&(needs, number));
        }
    }

    /// The time up to which the read needs all writes.
    pub(super) fn need_of(&self, number: u64) -> Option<Instant> {
        self.all.get(&number).map(|&(_, needs)| needs)
    }

    /// The number of reads that wait.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The client that has waited longest.
    pub(super) fn first(&self) -> Option<ClientRef> {
        self.all.first_key_value().map(|(_, &(client, _))| client)
    }

    /// All clients that wait, in the order in which they came.
    pub(super) fn all(&self) -> Vec<ClientRef> {
        self.all.values().map(|&(client, _)| client).collect()
    }

    /// The reads that a replica serves once it has all that was written before this time.
    pub(super) fn served_by(&self, as_of: Instant) -> Vec<ClientRef> {
        let reached = self.needs.range(..(as_of, 0));
        reached.map(|&(_, number)| self.all[&number].0).collect()
    }

    /// The latest time up to which any of the reads needs all writes.
    pub(super) fn latest_need(&self) -> Option<Instant> {
        self.needs.last().map(|&(needs, _)| needs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::client_key;

    #[test]
    fn they_are_found_by_age_and_by_need() {
        let at = Instant::from_micros;
        let client = |number| ClientRef { key: client_key(number), id: number };
        let mut waiting = Waiting::default();
        assert_eq!((waiting.first(), waiting.latest_need()), (None, None));
        let numbers = [(1, 30), (2, 10), (3, 20)].map(|(id, needs)| waiting.add(client(id), at(needs)));
        assert_eq!((waiting.first(), waiting.latest_need()), (Some(client(1)), Some(at(30))));
        assert_eq!(waiting.need_of(numbers[1]), Some(at(10)));
        assert_eq!(
            waiting.served_by(at(20)),
            [client(2)],
            "what was written at the very moment may be missing"
        );
        assert_eq!(waiting.served_by(at(21)), [client(2), client(3)]);
        waiting.remove(numbers[0]);
        waiting.remove(numbers[0]);
        assert_eq!(waiting.need_of(numbers[0]), None);
        assert_eq!((waiting.first(), waiting.latest_need()), (Some(client(2)), Some(at(20))));
        assert_eq!(waiting.all(), [client(2), client(3)]);
    }
    #[test]
    fn a_head_start_ends_for_those_that_still_wait() {
        let at = Instant::from_micros;
        let client = |number| ClientRef { key: client_key(number), id: number };
        let mut waiting = Waiting::default();
        let numbers = [1, 2, 3].map(|id| {
            let number = waiting.add(client(id), at(0));
            waiting.give_head_start(at(10 * u64::from(id)));
            number
        });
        waiting.remove(numbers[0]);
        assert_eq!((waiting.next_head_start(), waiting.end_head_start(at(9))), (Some(at(10)), None));
        assert_eq!(waiting.end_head_start(at(20)), Some(client(2)));
        assert_eq!((waiting.end_head_start(at(20)), waiting.next_head_start()), (None, Some(at(30))));
    }
}
