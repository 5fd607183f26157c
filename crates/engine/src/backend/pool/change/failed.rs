//! The accounts that could not change of late.

use std::collections::BTreeMap;
use std::time::Duration;

use seam::Instant;

use crate::frozen::{Distance, distances, instants};

/// For this time a user's backends log in behind a change that did not work. A backend a minute is not much to lose.
const LOGIN_ONLY: Duration = Duration::from_secs(60);

/// The number of such users that are remembered, each for a name's length. Where there are more, something is wrong for all.
const MOST_REMEMBERED: usize = 1024;

/// The same number before any change has worked. A proxy in front of the server may not know the command at all.
const MOST_WITHOUT_SUCCESS: usize = 8;

/// The accounts that could not change of late.
#[derive(Debug, Default)]
pub(crate) struct FailedChanges {
    /// Time until which each user's backends log in.
    users: BTreeMap<Vec<u8>, Instant>,
    /// Time until which all backends log in.
    all: Option<Instant>,
    /// True once some change has worked.
    worked: bool,
}

/// [`FailedChanges`] as plain data ([`crate::frozen`]).
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenFailedChanges {
    users: Vec<(Vec<u8>, Distance)>,
    all: Option<Distance>,
    worked: bool,
}

plain!(struct FrozenFailedChanges { users, all, worked });

impl FailedChanges {
    pub(crate) fn freeze(self, now: Instant) -> FrozenFailedChanges {
        let Self { users, all, worked } = self;
        let all = all.map(|until| Distance::of(until, now));
        FrozenFailedChanges { users: distances(users, now), all, worked }
    }
}

impl FrozenFailedChanges {
    pub(crate) fn thaw(self, now: Instant) -> FailedChanges {
        let Self { users, all, worked } = self;
        FailedChanges { users: instants(users, now), all: all.map(|until| until.from(now)), worked }
    }
}

impl FailedChanges {
    pub(crate) fn add(&mut self, now: Instant, user: &[u8]) {
        self.users.retain(|_, until| *until > now);
        let most = if self.worked { MOST_REMEMBERED } else { MOST_WITHOUT_SUCCESS };
        if self.users.len() < most {
            self.users.insert(user.to_vec(), now + LOGIN_ONLY);
        } else {
            self.all = Some(now + LOGIN_ONLY);
        }
    }

    /// Notes that a backend has changed its account.
    pub(crate) fn one_worked(&mut self) {
        self.worked = true;
    }

    pub(crate) fn forbid(&self, now: Instant, user: &[u8]) -> bool {
        self.all.is_some_and(|until| until > now) || self.users.get(user).is_some_and(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_remembered_by_user_and_of_so_many() {
        let mut failed = FailedChanges::default();
        let now = Instant::START;
        for number in 0..=MOST_WITHOUT_SUCCESS {
            assert!(!failed.forbid(now, b"other"));
            failed.add(now, number.to_string().as_bytes());
        }
        assert!(failed.forbid(now, b"other"), "it works for nobody");
        failed = FailedChanges::default();
        failed.one_worked();
        failed.add(now, b"one");
        assert!(failed.forbid(now, b"one") && !failed.forbid(now, b"other"));
        assert!(!failed.forbid(now + LOGIN_ONLY, b"one"));
        for number in 0..MOST_REMEMBERED {
            failed.add(now, number.to_string().as_bytes());
        }
        assert!(failed.forbid(now, b"other"), "all log in");
        let later = now + LOGIN_ONLY;
        failed.add(later, b"one");
        assert!(!failed.forbid(later, b"other") && failed.users.len() == 1);
    }
}
