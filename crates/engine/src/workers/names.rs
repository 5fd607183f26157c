//! Values that workers share by name, as long as anybody uses them.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of names from which on unused ones are looked for, and again when they have doubled: a login costs the same however
/// many names there are.
pub(super) const MANY: usize = 1_000;

/// Shared values by name.
#[derive(Debug)]
pub(super) struct Names<K, T> {
    by_name: BTreeMap<K, Arc<T>>,
    /// The number of names beyond which those go that nobody uses.
    most: usize,
}

impl<K, T> Default for Names<K, T> {
    fn default() -> Self {
        Self { by_name: BTreeMap::new(), most: MANY }
    }
}

impl<K: Ord, T> Names<K, T> {
    pub(super) fn get(&self, name: &K) -> Option<&Arc<T>> {
        self.by_name.get(name)
    }

    pub(super) fn get_or_insert(&mut self, name: K, new: impl FnOnce() -> T) -> Arc<T> {
        if self.by_name.len() > self.most && !self.by_name.contains_key(&name) {
            self.by_name.retain(|_, value| Arc::strong_count(value) > 1);
            self.most = MANY.max(2 * self.by_name.len());
        }
        Arc::clone(self.by_name.entry(name).or_insert_with(|| Arc::new(new())))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nobody_uses_are_forgotten() {
        let mut names: Names<usize, ()> = Names::default();
        let kept = names.get_or_insert(0, || ());
        for number in 1..5 * MANY {
            names.get_or_insert(number, || ());
        }
        assert!(names.len() <= MANY + 1);
        let crowd: Vec<_> = (0..5 * MANY).map(|number| names.get_or_insert(number, || ())).collect();
        assert_eq!(names.len(), 5 * MANY);
        drop(crowd);
        for number in 5 * MANY..25 * MANY {
            names.get_or_insert(number, || ());
        }
        assert!(names.len() <= MANY + 1);
        assert!(names.get(&0).is_some_and(|value| Arc::ptr_eq(value, &kept)));
    }
}
