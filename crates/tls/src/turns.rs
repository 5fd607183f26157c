//! The order in which connections have their turn, where those of one network are not to hold up all others.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// A queue in which networks take turns: of each that waits one in turn, the earliest first.
#[derive(Debug)]
pub struct Turns<T> {
    waiting: BTreeMap<Option<IpAddr>, VecDeque<T>>,
    /// Each network that has somebody waiting, once.
    next: VecDeque<Option<IpAddr>>,
    length: usize,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), next: VecDeque::new(), length: 0 }
    }
}

impl<T> Turns<T> {
    /// Says whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// How many wait, those included that are not wanted any more.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Puts one behind the others of its network.
    pub fn push(&mut self, network: Option<IpAddr>, item: T) {
        let of_network = self.waiting.entry(network).or_default();
        if of_network.is_empty() {
            self.next.push_back(network);
        }
        of_network.push_back(item);
        self.length += 1;
    }

    /// The next one that is still wanted. The others of its network that are not are passed over, and cost no turn.
    pub fn pop(&mut self, mut is_wanted: impl FnMut(&T) -> bool) -> Option<T> {
        while let Some(network) = self.next.pop_front() {
            let Some(of_network) = self.waiting.get_mut(&network) else { continue };
            let waited = of_network.len();
            let found = std::iter::from_fn(|| of_network.pop_front()).find(|item| is_wanted(item));
            self.length -= waited - of_network.len();
            if of_network.is_empty() {
                self.waiting.remove(&network);
            } else {
                self.next.push_back(network);
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Takes out all others than these.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&T) -> bool) {
        self.waiting.retain(|_, of_network| {
            of_network.retain(|item| is_wanted(item));
            !of_network.is_empty()
        });
        let waiting = &self.waiting;
        self.next.retain(|network| waiting.contains_key(network));
        self.length = self.waiting.values().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    #[test]
    fn networks_take_turns() {
        let mut turns = Turns::default();
        for (number, last) in [(0, 1), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3)] {
            turns.push(network(last), number);
        }
        let order: Vec<_> = std::iter::from_fn(|| turns.pop(|_| true)).collect();
        assert_eq!(order, [0, 3, 5, 1, 4, 2]);
        assert!(turns.is_empty() && turns.waiting.is_empty());
    }

    #[test]
    fn those_that_have_gone_cost_no_turn() {
        let mut turns = Turns::default();
        for (number, last) in [(0, 1), (1, 1), (2, 2), (3, 1), (4, 3), (5, 3), (6, 4)] {
            turns.push(network(last), number);
        }
        turns.retain(|&number| number < 5);
        assert_eq!(turns.len(), 5);
        let order: Vec<_> = std::iter::from_fn(|| turns.pop(|&number| number != 0 && number != 2)).collect();
        assert_eq!(order, [1, 4, 3]);
        assert!(turns.is_empty() && turns.waiting.is_empty());
    }
}
