//! The statements and the time of users and schemas, by name. They are counted only where somebody wants metrics of that (`metrics_top`).

use std::collections::BTreeMap;
use std::time::Duration;

/// Names that are counted apart on a worker, users and schemas each: twenty times as many as can be shown, so that those that come to
/// matter later are seldom among the rest, and some 100 KiB.
const MOST_NAMES: usize = 1_000;

/// Statements and time of one user or schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Statements that the server has answered.
    pub statements: u64,
    /// The time that the server has taken for these.
    pub time: Duration,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.statements += other.statements;
        self.time += other.time;
    }
}

impl Tally {
    /// The increase since an earlier reading. Both numbers only grow.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            statements: self.statements.saturating_sub(before.statements),
            time: self.time.saturating_sub(before.time),
        }
    }
}

/// Tallies by name.
#[derive(Clone, Debug, Default)]
pub struct Tallies {
    named: BTreeMap<Box<[u8]>, Tally>,
    /// The statements and time of all names that came after [`MOST_NAMES`] others.
    rest: Tally,
}

impl Tallies {
    /// The tallies by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Tally)> {
        self.named.iter().map(|(name, tally)| (&**name, *tally))
    }

    /// The statements and time of all names that are not counted apart.
    pub fn rest(&self) -> Tally {
        self.rest
    }

    fn note(&mut self, name: &[u8], tally: Tally) {
        let has_room = self.named.len() < MOST_NAMES;
        let of_name = match self.named.get_mut(name) {
            Some(known) => known,
            None if has_room => self.named.entry(name.into()).or_default(),
            None => &mut self.rest,
        };
        *of_name += tally;
    }
}

impl std::ops::AddAssign<&Self> for Tallies {
    /// Several workers together, which have as many names as each of them has.
    fn add_assign(&mut self, other: &Self) {
        for (name, tally) in other.iter() {
            *self.named.entry(name.into()).or_default() += tally;
        }
        self.rest += other.rest;
    }
}

/// Tallies of users, and of the schemas that they had chosen. A statement without a user or schema counts under the empty name.
#[derive(Clone, Debug, Default)]
pub struct TalliesByName {
    /// Tallies by user name, whatever the account's host.
    pub users: Tallies,
    /// Tallies by default schema.
    pub schemas: Tallies,
}

impl std::ops::AddAssign<&Self> for TalliesByName {
    /// Several workers together.
    fn add_assign(&mut self, other: &Self) {
        self.users += &other.users;
        self.schemas += &other.schemas;
    }
}

impl TalliesByName {
    /// Notes that a statement was answered.
    pub(crate) fn note(&mut self, user: &[u8], schema: &[u8], took: Duration) {
        let tally = Tally { statements: 1, time: took };
        self.users.note(user, tally);
        self.schemas.note(schema, tally);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Tally = Tally { statements: 1, time: Duration::from_millis(2) };

    #[test]
    fn names_beyond_the_bound_are_counted_together() {
        let mut tallies = Tallies::default();
        for number in 0..MOST_NAMES + 7 {
            tallies.note(number.to_string().as_bytes(), ONE);
        }
        tallies.note(b"3", ONE);
        assert_eq!(tallies.iter().count(), MOST_NAMES);
        assert_eq!(tallies.rest().statements, 7);
        let of_three = tallies.iter().find(|(name, _)| *name == b"3").map(|(_, tally)| tally);
        assert_eq!(of_three, Some(Tally { statements: 2, time: Duration::from_millis(4) }));
    }

    #[test]
    fn workers_together_are_as_one() {
        let mut one = TalliesByName::default();
        one.users.note(b"app", ONE);
        let mut both = one.clone();
        both.schemas.note(b"shop", ONE);
        both += &one;
        assert_eq!(
            both.users.iter().collect::<Vec<_>>(),
            [(&b"app"[..], Tally { statements: 2, time: 2 * ONE.time })]
        );
        assert_eq!(both.schemas.iter().count(), 1);
        assert_eq!(both.users.iter().next().expect("it is there").1.since(ONE), ONE);
    }
}
