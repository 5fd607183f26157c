//! The only source of chance in a run: xoshiro256** by Blackman and Vigna, seeded by SplitMix64.

/// A stream of numbers that depends on its seed alone.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        let mut mixed = seed;
        Self { state: [0; 4].map(|_: u64| split_mix(&mut mixed)) }
    }

    /// An independent stream, so that one part's draws do not shift another's.
    pub fn fork(&mut self) -> Self {
        Self::new(self.number())
    }

    /// 64 random bits.
    pub fn number(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        b.wrapping_mul(5).rotate_left(7).wrapping_mul(9)
    }

    /// A number from zero to below `bound`; zero where `bound` is zero. The bias is below 2^-32 for the small bounds
    /// used here.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.number() % bound }
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// True in `count` of 10,000 cases.
    pub fn in_ten_thousand(&mut self, count: u64) -> bool {
        self.below(10_000) < count
    }

    /// One of them. The slice must not be empty.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    /// An index below `len`.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below a usize")
    }

    /// An index below `len`, by Zipf's law: the second comes half as often as the first, the third a third as often. Zero where `len` is.
    pub fn zipf(&mut self, len: usize) -> usize {
        /// So much that what is left of a division does not matter for the few hundred that are drawn from.
        const FIRST: u64 = 1 << 20;
        let weight = |place: &usize| FIRST / (*place as u64 + 1);
        let mut left = self.below((0..len).map(|place| weight(&place)).sum());
        let is_it = |place: &usize| {
            let hit = left < weight(place);
            left = left.saturating_sub(weight(place));
            hit
        };
        (0..len).find(is_it).unwrap_or(0)
    }

    /// Brings the items into a random order (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.index(last + 1);
            items.swap(last, other);
        }
    }
}

/// One step of SplitMix64, which turns any seed (also zero) into well-spread state.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_stream_other_seed_other_stream() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [random.number(), random.number(), random.number()]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn bounds_are_kept_and_reached() {
        let mut random = Random::new(1);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[usize::try_from(random.between(3, 7)).unwrap() - 3] = true;
        }
        assert_eq!(seen, [true; 5]);
    }

    #[test]
    fn zipf_draws_the_first_most_often() {
        let mut random = Random::new(4);
        let mut counts = [0; 4];
        (0..2_500).for_each(|_| counts[random.zipf(4)] += 1);
        // 12, 6, 4 and 3 of 25.
        let near = |(count, share): (u32, u32)| count.abs_diff(100 * share) < 80;
        assert!(counts.into_iter().zip([12, 6, 4, 3]).all(near), "{counts:?}");
        assert_eq!(random.zipf(0), 0);
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..20).collect();
        Random::new(3).shuffle(&mut items);
        assert_ne!(items, (0..20).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..20).collect::<Vec<_>>());
    }
}
