//! The backends on which short reads follow each other.

use std::collections::BTreeMap;

use crate::accounts::IdentityId;
use crate::session::SessionId;

/// Whose reads can follow each other: those of one account in one session state.
pub(crate) type Sharers = (IdentityId, SessionId);

/// Backends that run short reads, which others may follow.
#[derive(Debug, Default)]
pub(crate) struct SharedBackends {
    backends: Vec<(usize, Sharers)>,
    /// On how many backends those are who have any.
    by_sharers: BTreeMap<Sharers, u32>,
}

impl SharedBackends {
    pub(crate) fn len(&self) -> usize {
        self.backends.len()
    }

    /// In the order in which they came.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.backends.iter().map(|&(key, _)| key)
    }

    /// Those of a backend that is one of them.
    pub(crate) fn of(&self, sharers: Sharers) -> impl Iterator<Item = usize> {
        let found = if self.by_sharers.contains_key(&sharers) { &self.backends[..] } else { &[] };
        found.iter().filter(move |(_, others)| *others == sharers).map(|&(key, _)| key)
    }

    pub(crate) fn add(&mut self, key: usize, sharers: Sharers) {
        if !self.backends.iter().any(|&(other, _)| other == key) {
            self.backends.push((key, sharers));
            *self.by_sharers.entry(sharers).or_default() += 1;
        }
    }

    pub(crate) fn remove(&mut self, key: usize) {
        let Some(place) = self.backends.iter().position(|&(other, _)| other == key) else { return };
        let (_, sharers) = self.backends.remove(place);
        if let Some(count) = self.by_sharers.get_mut(&sharers) {
            *count -= 1;
            if *count == 0 {
                self.by_sharers.remove(&sharers);
            }
        }
    }

    /// On how many of `most` backends these may be: on as many as all others who share any, and on one.
    pub(crate) fn share_of(&self, sharers: Sharers, most: usize) -> usize {
        let others = self.by_sharers.len() - usize::from(self.by_sharers.contains_key(&sharers));
        most.div_ceil(others + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{SessionState, Sessions};

    #[test]
    fn all_who_share_backends_may_have_as_many() {
        let mut sessions = Sessions::default();
        let mut in_schema = |schema: &str| {
            let schema = Some(schema.as_bytes().into());
            (IdentityId::default(), sessions.hold(SessionState { schema, ..SessionState::default() }))
        };
        let [one, other, third] = ["one", "other", "third"].map(&mut in_schema);
        let mut sharing = SharedBackends::default();
        assert_eq!(sharing.share_of(one, 4), 4, "nobody else has any");
        for (key, sharers) in [(0, one), (1, one), (2, other), (2, other)] {
            sharing.add(key, sharers);
        }
        assert_eq!((sharing.len(), sharing.of(one).collect::<Vec<_>>()), (3, vec![0, 1]));
        assert_eq!((sharing.share_of(one, 4), sharing.share_of(other, 4)), (2, 2));
        assert_eq!((sharing.share_of(third, 4), sharing.share_of(third, 1)), (2, 1), "and everybody one");
        sharing.remove(0);
        assert_eq!(sharing.share_of(other, 4), 2, "it has another one");
        sharing.remove(1);
        assert_eq!((sharing.share_of(other, 4), sharing.of(one).next()), (4, None));
    }
}
