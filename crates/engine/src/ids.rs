//! The engine's names for its clients, its servers and their backends: slots of its tables, a type each, so that none is taken for another.

use std::fmt::Debug;
use std::num::NonZeroU8;
use std::ops::{Index, IndexMut};

/// A client's slot in the table of clients. The next one to come gets it when this one has gone: see [`ClientRef`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientKey(u32);

/// A server's slot in the list of servers. The number is the slot's and one more, so that no backend costs a client as little as one does:
/// an `Option<BackendKey>` takes eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerKey(NonZeroU8);

/// A backend's server, and its slot in the table of that server's backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BackendKey {
    server: ServerKey,
    slot: u32,
}

/// A backend by the name that the driver was given for its connection, and that is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BackendName {
    token: u64,
}

plain!(struct BackendName { token });

/// A client by its slot and the id that it sees itself, so that a later client in the same slot is not taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientRef {
    pub(crate) key: ClientKey,
    pub(crate) id: u32,
}

/// The name of a slot in a [`Table`], from 0.
pub(crate) trait Key: Copy {
    /// Whose table that is, where there are several of a kind.
    type Of: Copy + Debug + PartialEq;

    fn at(of: Self::Of, slot: usize) -> Self;

    fn of(self) -> Self::Of;

    fn slot(self) -> usize;
}

/// Clients, or one server's backends, by their slots. They are gone through in the order of these.
pub(crate) struct Table<K: Key, T> {
    of: K::Of,
    slots: slab::Slab<T>,
}

impl ClientKey {
    /// No client, in a table that has to be small: there are never so many.
    pub(crate) const NOBODY: Self = Self(u32::MAX);
}

impl Key for ClientKey {
    type Of = ();

    fn at((): (), slot: usize) -> Self {
        Self(number(slot))
    }

    fn of(self) {}

    fn slot(self) -> usize {
        self.0 as usize
    }
}

impl ServerKey {
    /// # Panics
    ///
    /// If a byte does not hold so many.
    pub(crate) fn at(slot: usize) -> Self {
        let number = u8::try_from(slot).ok().and_then(|slot| NonZeroU8::MIN.checked_add(slot));
        Self(number.expect("nobody has 255 servers for one set of data"))
    }

    pub(crate) fn slot(self) -> usize {
        usize::from(self.0.get()) - 1
    }
}

impl BackendKey {
    /// The server that it is on.
    pub(crate) fn server(self) -> ServerKey {
        self.server
    }
}

impl BackendName {
    pub(crate) fn of(token: u64) -> Self {
        Self { token }
    }

    pub(crate) fn token(self) -> u64 {
        self.token
    }
}

impl Key for BackendKey {
    type Of = ServerKey;

    fn at(server: ServerKey, slot: usize) -> Self {
        Self { server, slot: number(slot) }
    }

    fn of(self) -> ServerKey {
        self.server
    }

    fn slot(self) -> usize {
        self.slot as usize
    }
}

impl<K: Key, T> Table<K, T> {
    pub(crate) fn new(of: K::Of) -> Self {
        Self { of, slots: slab::Slab::new() }
    }

    /// The slot of a key. One of another table of the kind means another thing here.
    #[track_caller]
    fn slot(&self, key: K) -> usize {
        debug_assert_eq!(key.of(), self.of, "a key of this table");
        key.slot()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Slots, used or not.
    pub(crate) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.slots.shrink_to_fit();
    }

    pub(crate) fn contains(&self, key: K) -> bool {
        self.slots.contains(self.slot(key))
    }

    pub(crate) fn get(&self, key: K) -> Option<&T> {
        self.slots.get(self.slot(key))
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut T> {
        let slot = self.slot(key);
        self.slots.get_mut(slot)
    }

    pub(crate) fn insert(&mut self, value: T) -> K {
        K::at(self.of, self.slots.insert(value))
    }

    /// # Panics
    ///
    /// If the slot is free.
    #[track_caller]
    pub(crate) fn remove(&mut self, key: K) -> T {
        let slot = self.slot(key);
        self.slots.remove(slot)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &T)> + Clone {
        self.slots.iter().map(|(slot, value)| (K::at(self.of, slot), value))
    }

    pub(crate) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (K, &mut T)> {
        let of = self.of;
        self.slots.iter_mut().map(move |(slot, value)| (K::at(of, slot), value))
    }

    /// Returns the entries in `count` slots from slot `from` on.
    pub(crate) fn in_slots(&self, from: usize, count: usize) -> impl Iterator<Item = (K, &T)> {
        let slots = from..from.saturating_add(count).min(self.slots.capacity());
        slots.filter_map(|slot| Some((K::at(self.of, slot), self.slots.get(slot)?)))
    }
}

impl<K: Key, T> Index<K> for Table<K, T> {
    type Output = T;

    #[track_caller]
    fn index(&self, key: K) -> &T {
        &self.slots[self.slot(key)]
    }
}

impl<K: Key, T> IndexMut<K> for Table<K, T> {
    #[track_caller]
    fn index_mut(&mut self, key: K) -> &mut T {
        let slot = self.slot(key);
        &mut self.slots[slot]
    }
}

fn number(slot: usize) -> u32 {
    u32::try_from(slot).expect("max_connections and max_backends are u32")
}

#[cfg(test)]
impl ClientKey {
    pub(crate) fn number(self) -> u32 {
        self.0
    }
}

/// The client in this slot, for tests.
#[cfg(test)]
pub(crate) const fn client_key(number: u32) -> ClientKey {
    ClientKey(number)
}

/// The backend in this slot of the first server, for tests.
#[cfg(test)]
pub(crate) const fn backend_key(number: u32) -> BackendKey {
    BackendKey { server: ServerKey(NonZeroU8::MIN), slot: number }
}

#[cfg(test)]
mod tests {
    use seam::{Instant, Peer};

    use super::*;
    use crate::client::Client;
    use crate::client::commands::command::tests::{connection, engine};
    use crate::settings::Settings;

    #[test]
    fn whoever_comes_into_a_slot_later_is_not_taken_for_who_has_left_it() {
        let mut engine = engine(3, Settings::default());
        let [left, stays] = [1, 2].map(|number| engine.clients.ref_to(client_key(number)));
        engine.client_gone(left.key);
        assert!(engine.clients.find(left).is_none());
        let id = engine.ids.next(&engine.pool);
        let peer = Peer::Tcp(([10, 0, 0, 1], 1024).into());
        let key = engine.clients.insert(Client::new(connection(1), peer, id, Instant::START));
        assert_eq!(engine.clients.ref_to(key), ClientRef { key: left.key, id });
        assert!(engine.clients.find(left).is_none() && engine.clients.find_mut(left).is_none());
        assert!(engine.clients.find(stays).is_some());
        let keys: Vec<_> = engine.clients.iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [0, 1, 2].map(client_key));
        let some: Vec<_> = engine.clients.in_slots(1, usize::MAX).map(|(key, _)| key).collect();
        assert_eq!(some, keys[1..]);
    }
}
