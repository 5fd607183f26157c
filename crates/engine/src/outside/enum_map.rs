//! A value for each variant of an enum that is declared with [`named!`](crate::outside::named).

use std::iter::Sum;
use std::ops::{AddAssign, Index, IndexMut};

use crate::frozen::plain::Plain;

/// An enum with a known list of its variants. The macro `named!` implements the trait.
pub trait Variants: Copy + 'static {
    /// An array with a value for each variant.
    type Array<V>: AsRef<[V]> + AsMut<[V]>;

    /// Makes the array.
    fn array<V>(value: impl FnMut(Self) -> V) -> Self::Array<V>;

    /// All variants, in the order of their declaration.
    fn all() -> &'static [Self];

    /// The place of the variant in that order.
    fn place(self) -> usize;
}

/// A value for each variant of an enum, found by the variant.
pub struct EnumMap<K: Variants, V>(K::Array<V>);

impl<K: Variants, V> EnumMap<K, V> {
    /// Makes the value of each variant.
    pub fn from_fn(value: impl FnMut(K) -> V) -> Self {
        Self(K::array(value))
    }

    /// The variants with their values, in the order of declaration.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &V)> {
        K::all().iter().copied().zip(self.0.as_ref())
    }

    /// The values of all variants together.
    pub fn total(&self) -> V
    where
        V: Copy + Sum,
    {
        self.0.as_ref().iter().copied().sum()
    }
}

impl<K: Variants, V> Index<K> for EnumMap<K, V> {
    type Output = V;

    fn index(&self, variant: K) -> &V {
        &self.0.as_ref()[variant.place()]
    }
}

impl<K: Variants, V> IndexMut<K> for EnumMap<K, V> {
    fn index_mut(&mut self, variant: K) -> &mut V {
        &mut self.0.as_mut()[variant.place()]
    }
}

impl<K: Variants, V: for<'a> AddAssign<&'a V>> AddAssign<&Self> for EnumMap<K, V> {
    /// Adds the values of each variant.
    fn add_assign(&mut self, other: &Self) {
        for (value, more) in self.0.as_mut().iter_mut().zip(other.0.as_ref()) {
            *value += more;
        }
    }
}

impl<K: Variants, V: Plain> Plain for EnumMap<K, V>
where
    K::Array<V>: Plain,
{
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Plain::take(bytes).map(Self)
    }
}

// Derived, these would ask for the same of the enum, and not of the array.

impl<K: Variants, V: Default> Default for EnumMap<K, V> {
    fn default() -> Self {
        Self::from_fn(|_| V::default())
    }
}

impl<K: Variants, V: Clone> Clone for EnumMap<K, V> {
    fn clone(&self) -> Self {
        Self::from_fn(|variant| self[variant].clone())
    }
}

impl<K: Variants, V: Copy> Copy for EnumMap<K, V> where K::Array<V>: Copy {}

impl<K: Variants, V: PartialEq> PartialEq for EnumMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_ref() == other.0.as_ref()
    }
}

impl<K: Variants, V: Eq> Eq for EnumMap<K, V> {}

impl<K: Variants + std::fmt::Debug, V: std::fmt::Debug> std::fmt::Debug for EnumMap<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::named::Queue;

    #[test]
    fn values_are_found_by_their_variants() {
        let mut counts = EnumMap::<Queue, u64>::default();
        counts[Queue::Low] = 3;
        counts[Queue::Urgent] += 1;
        let other = counts;
        counts += &other;
        assert_eq!((counts[Queue::Low], counts[Queue::High], counts.total()), (6, 0, 8));
        assert_ne!(counts, other);
        let places = EnumMap::from_fn(|queue: Queue| queue.name().len());
        assert!(places.iter().map(|(queue, _)| queue).eq(Queue::ALL.iter().copied()));
        assert!(places.iter().all(|(queue, &length)| length == queue.name().len()));
    }
}
