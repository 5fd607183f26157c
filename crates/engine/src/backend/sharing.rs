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
    /// The accounts that have any, and on how many backends each session state is.
    accounts: BTreeMap<IdentityId, BTreeMap<SessionId, u32>>,
}

impl SharedBackends {
    pub(crate) fn len(&self) -> usize {
        self.backends.len()
    }

    /// In the order in which they came.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.backends.iter().map(|&(key, _)| key)
    }

    /// Those on which these are.
    pub(crate) fn of(&self, sharers: Sharers) -> impl Iterator<Item = usize> {
        self.backends.iter().filter(move |(_, others)| *others == sharers).map(|&(key, _)| key)
    }

    pub(crate) fn add(&mut self, key: usize, sharers: Sharers) {
        if !self.iter().any(|other| other == key) {
            self.backends.push((key, sharers));
            *self.accounts.entry(sharers.0).or_default().entry(sharers.1).or_default() += 1;
        }
    }

    pub(crate) fn remove(&mut self, key: usize) {
        let Some(place) = self.iter().position(|other| other == key) else { return };
        let (_, (account, session)) = self.backends.remove(place);
        let states = self.accounts.get_mut(&account).expect("it is counted as long as it is here");
        let count = states.get_mut(&session).expect("likewise");
        *count -= 1;
        if *count == 0 {
            states.remove(&session);
        }
        if states.is_empty() {
            self.accounts.remove(&account);
        }
    }

    /// On how many of `most` backends these may be, at least on one. All accounts that share any have as many, and so have all session
    /// states of one account: whoever uses many of these takes nothing from others.
    pub(crate) fn share_of(&self, (account, session): Sharers, most: usize) -> usize {
        let states = self.accounts.get(&account);
        let accounts = self.accounts.len() + usize::from(states.is_none());
        let is_new = states.is_none_or(|states| !states.contains_key(&session));
        let states = states.map_or(0, BTreeMap::len) + usize::from(is_new);
        most.div_ceil(accounts).div_ceil(states)
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
            sessions.hold(SessionState { schema: Some(schema.as_bytes().into()), ..SessionState::default() })
        };
        let [one, other, third] = ["one", "other", "third"].map(&mut in_schema);
        let (mine, theirs) = (IdentityId::of_test(0), IdentityId::of_test(1));
        let mut sharing = SharedBackends::default();
        assert_eq!(sharing.share_of((mine, one), 4), 4, "nobody else has any");
        for (key, sharers) in [(0, (mine, one)), (1, (mine, one)), (2, (theirs, one)), (2, (theirs, one))] {
            sharing.add(key, sharers);
        }
        assert_eq!((sharing.len(), sharing.of((mine, one)).collect::<Vec<_>>()), (3, vec![0, 1]));
        assert_eq!((sharing.share_of((mine, one), 4), sharing.share_of((theirs, one), 4)), (2, 2));
        for session in [other, third] {
            sharing.add(3 + session.number() as usize, (mine, session));
        }
        assert_eq!(sharing.share_of((mine, one), 4), 1, "and everybody one");
        assert_eq!(sharing.share_of((theirs, one), 4), 2, "many states of others take nothing away");
        sharing.remove(0);
        assert_eq!(sharing.share_of((theirs, one), 4), 2, "the other account has more");
        for key in sharing
            .of((mine, one))
            .chain(sharing.of((mine, other)))
            .chain(sharing.of((mine, third)))
            .collect::<Vec<_>>()
        {
            sharing.remove(key);
        }
        assert_eq!((sharing.share_of((theirs, one), 4), sharing.of((mine, one)).next()), (4, None));
    }
}
