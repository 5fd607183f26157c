//! The table of a driver's connections.

use seam::ConnectionId;

/// Values under [`ConnectionId`]s. A freed slot is the next to be used, so that the table stays as dense as the number
/// of connections was at most, and a program's table beside it too.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    entries: Vec<Entry<T>>,
    /// Indices of vacant entries, the one freed last on top.
    vacant: Vec<u32>,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    occupant: Option<T>,
}

impl<T> Slots<T> {
    /// Indices stay below this: [`u32::MAX`] marks what is no connection in a driver's events.
    const MAX_ENTRIES: u32 = u32::MAX;

    /// An empty table.
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), vacant: Vec::new() }
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.vacant.len()
    }

    /// Bytes of memory held, without what the values hold elsewhere.
    pub(crate) fn allocated(&self) -> usize {
        self.entries.capacity() * size_of::<Entry<T>>() + self.vacant.capacity() * size_of::<u32>()
    }

    /// The ids of all values.
    pub(crate) fn ids(&self) -> Vec<ConnectionId> {
        let occupied = |(index, entry): (u32, &Entry<T>)| {
            entry.occupant.is_some().then_some(ConnectionId { index, generation: entry.generation })
        };
        (0_u32..).zip(&self.entries).filter_map(occupied).collect()
    }

    /// All values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter_map(|entry| entry.occupant.as_ref())
    }

    /// Puts a value into the slot freed last, or a new one. Gives it back where all 4 billion slots are taken.
    pub(crate) fn insert(&mut self, value: T) -> Result<ConnectionId, T> {
        if let Some(index) = self.vacant.pop() {
            let entry = &mut self.entries[index as usize];
            entry.occupant = Some(value);
            return Ok(ConnectionId { index, generation: entry.generation });
        }
        match u32::try_from(self.entries.len()) {
            Ok(index) if index < Self::MAX_ENTRIES => {
                self.entries.push(Entry { generation: 0, occupant: Some(value) });
                Ok(ConnectionId { index, generation: 0 })
            }
            _ => Err(value),
        }
    }

    /// The value, unless it has been removed.
    pub(crate) fn get(&self, id: ConnectionId) -> Option<&T> {
        let entry = self.entries.get(id.index as usize)?;
        if entry.generation == id.generation { entry.occupant.as_ref() } else { None }
    }

    /// The value, unless it has been removed.
    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut T> {
        let entry = self.entries.get_mut(id.index as usize)?;
        if entry.generation == id.generation { entry.occupant.as_mut() } else { None }
    }

    /// Takes the value out, unless that has happened before. Its id stays dead until the slot has been used 4 billion
    /// times.
    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<T> {
        let entry = self.entries.get_mut(id.index as usize)?;
        if entry.generation != id.generation {
            return None;
        }
        let value = entry.occupant.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.vacant.push(id.index);
        Some(value)
    }

    /// Removes the values that `keep` does not want.
    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        for (index, entry) in (0_u32..).zip(&mut self.entries) {
            if entry.occupant.as_ref().is_some_and(|value| !keep(value)) {
                entry.occupant = None;
                entry.generation = entry.generation.wrapping_add(1);
                self.vacant.push(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_ids_stay_dead() {
        let mut slots = Slots::new();
        let first = slots.insert('a').unwrap();
        assert_eq!(slots.remove(first), Some('a'));
        let second = slots.insert('b').unwrap();
        assert_eq!(second.index, first.index);
        assert_eq!(slots.get(first), None);
        assert_eq!(slots.get_mut(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.get(second), Some(&'b'));
    }

    #[test]
    fn slots_are_reused_before_new_ones_are_made() {
        let mut slots = Slots::new();
        let ids: Vec<_> = (0..4).map(|value| slots.insert(value).unwrap()).collect();
        slots.remove(ids[1]);
        slots.remove(ids[2]);
        assert_eq!(slots.len(), 2);
        assert_eq!(slots.insert(7).unwrap().index, 2);
        assert_eq!(slots.insert(8).unwrap().index, 1);
        assert_eq!(slots.insert(9).unwrap().index, 4);
    }

    #[test]
    fn retain_frees_the_slots_of_what_it_removes() {
        let mut slots = Slots::new();
        let ids: Vec<_> = (0..4).map(|value| slots.insert(value).unwrap()).collect();
        slots.retain(|value| value % 2 == 0);
        assert_eq!(slots.len(), 2);
        assert_eq!(slots.get(ids[1]), None);
        assert_eq!(slots.get(ids[2]), Some(&2));
        assert_eq!(slots.insert(9).unwrap().index, 3);
    }
}
