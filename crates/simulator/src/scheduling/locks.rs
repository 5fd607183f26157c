//! The server's locks: first come, first served, shared or exclusive.

use std::collections::{BTreeMap, VecDeque};

/// What can be locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The right to write at all: shared by each write while it runs, taken whole by FLUSH TABLES WITH READ LOCK.
    Global,
    /// A table of a schema: shared by those who use it until their transaction ends, taken whole by LOCK TABLES ... WRITE.
    Table(u16),
    /// A row of a table: a writer's until its transaction ends.
    Row(u16, u64),
    /// GET_LOCK.
    User(u64),
}

/// How it is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Beside others who share it.
    Shared,
    /// Alone.
    Exclusive,
}

/// All locks that somebody holds.
#[derive(Debug, Default)]
pub struct Locks {
    locks: BTreeMap<Key, Lock>,
    waiting: usize,
}

#[derive(Debug, Default)]
struct Lock {
    holders: Vec<(u32, Mode)>,
    waiters: VecDeque<(u32, Mode)>,
}

impl Lock {
    fn admits(&self, session: u32, mode: Mode) -> bool {
        self.holders
            .iter()
            .all(|&(holder, held)| holder == session || (mode, held) == (Mode::Shared, Mode::Shared))
    }
}

impl Locks {
    /// Takes a lock, or queues for it: then false. Whoever holds it has it at once, as long as it need not be taken
    /// from others.
    pub fn take(&mut self, session: u32, key: Key, mode: Mode) -> bool {
        let lock = self.locks.entry(key).or_default();
        let held = lock.holders.iter().position(|&(holder, _)| holder == session);
        if held.is_some_and(|at| lock.holders[at].1 >= mode) {
            return true;
        }
        if lock.admits(session, mode) && (held.is_some() || lock.waiters.is_empty()) {
            match held {
                Some(at) => lock.holders[at].1 = mode,
                None => lock.holders.push((session, mode)),
            }
            return true;
        }
        lock.waiters.push_back((session, mode));
        self.waiting += 1;
        false
    }

    /// Whether a session has a lock, in this mode or alone.
    pub fn is_held_by(&self, session: u32, key: Key, mode: Mode) -> bool {
        let holders = self.locks.get(&key).map(|lock| lock.holders.as_slice()).unwrap_or_default();
        holders.iter().any(|&(holder, held)| holder == session && held >= mode)
    }

    /// Gives a lock back. Who gets it now is added to `granted`.
    pub fn give(&mut self, session: u32, key: Key, granted: &mut Vec<u32>) {
        let Some(lock) = self.locks.get_mut(&key) else { return };
        if let Some(at) = lock.holders.iter().position(|&(holder, _)| holder == session) {
            lock.holders.swap_remove(at);
        }
        self.grant(key, granted);
    }

    /// The session waits no more: its statement has ended without the lock.
    pub fn give_up(&mut self, session: u32, key: Key, granted: &mut Vec<u32>) {
        let Some(lock) = self.locks.get_mut(&key) else { return };
        let before = lock.waiters.len();
        lock.waiters.retain(|&(waiter, _)| waiter != session);
        self.waiting -= before - lock.waiters.len();
        self.grant(key, granted);
    }

    /// How many sessions wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Who waits for whom: each waiter with those who hold what it waits for, in the order of the keys.
    pub fn waits(&self) -> impl Iterator<Item = (Key, u32, u32)> {
        self.locks.iter().flat_map(|(key, lock)| {
            lock.waiters.iter().flat_map(move |&(waiter, _)| {
                lock.holders.iter().map(move |&(holder, _)| (*key, waiter, holder))
            })
        })
    }

    fn grant(&mut self, key: Key, granted: &mut Vec<u32>) {
        let Some(lock) = self.locks.get_mut(&key) else { return };
        while let Some(&(session, mode)) = lock.waiters.front() {
            if !lock.admits(session, mode) {
                break;
            }
            lock.waiters.pop_front();
            self.waiting -= 1;
            match lock.holders.iter_mut().find(|(holder, _)| *holder == session) {
                Some(held) => held.1 = mode,
                None => lock.holders.push((session, mode)),
            }
            granted.push(session);
        }
        if lock.holders.is_empty() && lock.waiters.is_empty() {
            self.locks.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_granted_in_the_order_of_asking() {
        let mut locks = Locks::default();
        let key = Key::Table(1);
        assert!(locks.take(1, key, Mode::Shared) && locks.take(2, key, Mode::Shared));
        assert!(!locks.take(3, key, Mode::Exclusive));
        assert!(!locks.take(4, key, Mode::Shared), "it does not overtake");
        assert_eq!(locks.waits().count(), 4);
        let mut granted = Vec::new();
        locks.give(1, key, &mut granted);
        assert!(granted.is_empty());
        locks.give(2, key, &mut granted);
        assert_eq!(granted, [3]);
        locks.give(3, key, &mut granted);
        assert_eq!((granted, locks.waiting()), (vec![3, 4], 0));
    }

    #[test]
    fn giving_up_lets_those_behind_pass() {
        let mut locks = Locks::default();
        assert!(locks.take(1, Key::Global, Mode::Shared));
        assert!(!locks.take(2, Key::Global, Mode::Exclusive));
        assert!(!locks.take(3, Key::Global, Mode::Shared));
        let mut granted = Vec::new();
        locks.give_up(2, Key::Global, &mut granted);
        assert_eq!(granted, [3]);
        assert!(locks.take(3, Key::Global, Mode::Shared), "it has it already");
    }
}
