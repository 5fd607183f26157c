//! The users and schemas that the server has most work with, by name, and the others together (`metrics_top`).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use engine::{Tallies, TalliesByName, Tally};

/// What all that have no figures of their own are called. A user or schema of that name is one of them.
const OTHERS: &str = "other";

/// What was shown last, of users and of schemas.
#[derive(Default)]
pub(super) struct Tops {
    users: Top,
    schemas: Top,
}

/// Figures to show: a few names, and [`OTHERS`].
pub(super) type Shown = Vec<(String, Tally)>;

/// Keeps the figure of the others growing while names come to the top and go from there: it is the sum of what came while a name
/// was not shown, and not what is left of all, which would shrink whenever one comes to the top.
#[derive(Default)]
struct Top {
    known: BTreeMap<String, Tally>,
    known_rest: Tally,
    others: Tally,
}

impl Tops {
    /// So many users and schemas as have had most work done; nothing where none are wanted.
    pub(super) fn take(&mut self, tallies: &TalliesByName, most: u32) -> (Shown, Shown) {
        if most == 0 {
            return (Vec::new(), Vec::new());
        }
        (self.users.take(&tallies.users, most as usize), self.schemas.take(&tallies.schemas, most as usize))
    }
}

impl Top {
    fn take(&mut self, tallies: &Tallies, most: usize) -> Shown {
        let mut all: BTreeMap<String, Tally> = BTreeMap::new();
        for (name, tally) in tallies.iter() {
            // Names that differ in what is no UTF-8 look alike.
            *all.entry(String::from_utf8_lossy(name).into_owned()).or_default() += tally;
        }
        self.show(all, tallies.rest(), most)
    }

    /// Of all that are counted by name, and of the rest.
    fn show(&mut self, all: BTreeMap<String, Tally>, rest: Tally, most: usize) -> Shown {
        let mut shown: Shown = all.iter().map(|(name, tally)| (name.clone(), *tally)).collect();
        shown.retain(|(name, _)| name != OTHERS);
        shown.sort_by_key(|(_, tally)| Reverse(tally.time));
        shown.truncate(most);
        for (name, tally) in &all {
            if !shown.iter().any(|(of_top, _)| of_top == name) {
                self.others += tally.since(self.known.get(name).copied().unwrap_or_default());
            }
        }
        self.others += rest.since(self.known_rest);
        self.known_rest = rest;
        self.known = all;
        shown.push((String::from(OTHERS), self.others));
        shown
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn take(top: &mut Top, tallies: &[(&str, u64)], most: usize) -> Vec<(String, u64)> {
        let all = tallies.iter().map(|&(name, statements)| {
            (String::from(name), Tally { statements, time: Duration::from_secs(statements) })
        });
        let shown = top.show(all.collect(), Tally::default(), most);
        shown.into_iter().map(|(name, tally)| (name, tally.statements)).collect()
    }

    fn shown(all: &[(&str, u64)]) -> Vec<(String, u64)> {
        all.iter().map(|&(name, statements)| (String::from(name), statements)).collect()
    }

    #[test]
    fn the_others_only_grow_whoever_comes_to_the_top() {
        let mut top = Top::default();
        let first = take(&mut top, &[("a", 9), ("b", 5), ("c", 2), ("d", 1)], 2);
        assert_eq!(first, shown(&[("a", 9), ("b", 5), ("other", 3)]));
        // c overtakes b: what b does from now on is the others'.
        let second = take(&mut top, &[("a", 9), ("b", 6), ("c", 20), ("d", 1)], 2);
        assert_eq!(second, shown(&[("c", 20), ("a", 9), ("other", 4)]));
        let third = take(&mut top, &[("a", 9), ("b", 30), ("c", 20), ("d", 2)], 2);
        assert_eq!(third, shown(&[("b", 30), ("c", 20), ("other", 5)]));
    }

    #[test]
    fn whoever_is_called_other_is_one_of_them() {
        let mut top = Top::default();
        assert_eq!(take(&mut top, &[("other", 9), ("b", 5)], 2), shown(&[("b", 5), ("other", 9)]));
        assert_eq!(Tops::default().take(&TalliesByName::default(), 0), (Vec::new(), Vec::new()));
    }
}
