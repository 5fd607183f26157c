//! The first few of many, without keeping the many.

/// Those with the highest ranks of all that came by.
pub(super) struct Top<T> {
    most: usize,
    kept: Vec<(u64, T)>,
    /// How many came by.
    pub(super) seen: u64,
}

impl<T> Top<T> {
    /// Of these at most so many are kept, from 1.
    pub(super) fn new(most: usize) -> Self {
        Self { most, kept: Vec::new(), seen: 0 }
    }

    /// One comes by; it is made only where it is kept.
    pub(super) fn put(&mut self, rank: u64, make: impl FnOnce() -> T) {
        self.seen += 1;
        let full = self.kept.len() >= self.most;
        if full && self.kept.last().is_some_and(|(lowest, _)| rank <= *lowest) {
            return;
        }
        let place = self.kept.partition_point(|(kept, _)| *kept >= rank);
        self.kept.insert(place, (rank, make()));
        self.kept.truncate(self.most);
    }

    /// The highest first.
    pub(super) fn finish(self) -> Vec<T> {
        self.kept.into_iter().map(|(_, one)| one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_stay() {
        let mut top = Top::new(3);
        for rank in [5, 1, 9, 9, 2, 7, 0] {
            top.put(rank, || rank);
        }
        assert_eq!(top.seen, 7);
        assert_eq!(top.finish(), [9, 9, 7]);
        let mut few = Top::new(3);
        few.put(0, || 'a');
        assert_eq!(few.finish(), ['a']);
    }
}
