//! The backends that run short reads, and how many of them the reads of one account and state may use.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use seam::Instant;

use crate::accounts::IdentityId;
use crate::ids::BackendKey;
use crate::session::SessionId;

/// The account and session state of reads that can follow each other as they are.
pub(crate) type Sharers = (IdentityId, SessionId);

/// Up to this many states for each backend that an account may share have one each. The server is quicker with twice as many threads than
/// with a USE for each read. A point select took MariaDB 10.4 us in 8 schemas on 8 backends, and 11.5 on 4 that all share. In 16 schemas
/// it took 13.0 and 12.0 (medians of alternating runs of 64 clients).
const STATES_OF_EACH: usize = 2;

/// The numbers of shared backends that the reads of one account may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Number of backends in all states together.
    pub(in crate::backend) account: usize,
    /// Number of backends in one state; 0 where there are too many states for each to have backends of its own.
    pub(in crate::backend) state: usize,
}

/// The states of an account are counted over this time: many times that of a short read, and soon enough behind a change.
const COUNTED_FOR: Duration = Duration::from_secs(1);

/// A backend is followed out of turn for this time since it began to read: a hundred short reads. After that its permit goes by the queue's
/// order again. An account in front of it that gets a permit by its own place has a statement overtaken for as long, and for the
/// statements in flight then.
const OUT_OF_TURN: Duration = Duration::from_millis(2);

/// A backend that runs short reads.
#[derive(Clone, Copy, Debug)]
struct SharedBackend {
    key: BackendKey,
    /// Account and state of the first reads on it.
    sharers: Sharers,
    /// Time at which the first read came.
    since: Instant,
}

/// The session states of each account that have had reads to share lately, as far as the number matters.
#[derive(Debug, Default)]
struct States {
    since: Instant,
    /// States that have been seen since that time. A state's number may be another state's by now, which is counted then.
    seen: BTreeMap<IdentityId, BTreeSet<SessionId>>,
    /// Number of states of each account that had been seen in the time before that.
    before: BTreeMap<IdentityId, usize>,
}

impl States {
    /// Returns the number of an account's states, and counts this one. Beyond `enough` none is counted.
    fn count(&mut self, now: Instant, (account, session): Sharers, enough: usize) -> usize {
        let passed = now.since(self.since);
        if passed >= COUNTED_FOR {
            let seen = std::mem::take(&mut self.seen);
            self.before = match passed < 2 * COUNTED_FOR {
                true => seen.into_iter().map(|(account, states)| (account, states.len())).collect(),
                false => BTreeMap::new(),
            };
            self.since = now;
        }
        let seen = self.seen.entry(account).or_default();
        if seen.len() <= enough {
            seen.insert(session);
        }
        seen.len().max(self.before.get(&account).copied().unwrap_or(0))
    }
}

/// Backends that run short reads, which others may follow.
#[derive(Debug, Default)]
pub(crate) struct SharedBackends {
    states: States,
    backends: Vec<SharedBackend>,
    /// The accounts that have any such backend, with the number of backends for each session state.
    accounts: BTreeMap<IdentityId, BTreeMap<SessionId, u32>>,
}

impl SharedBackends {
    pub(crate) fn len(&self) -> usize {
        self.backends.len()
    }

    /// Returns the backends in the order in which they came.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = BackendKey> {
        self.backends.iter().map(|backend| backend.key)
    }

    /// Returns the backends on which reads of this account and state were the first.
    pub(super) fn of(&self, sharers: Sharers) -> impl Iterator<Item = BackendKey> {
        self.backends.iter().filter(move |backend| backend.sharers == sharers).map(|backend| backend.key)
    }

    pub(super) fn of_account(&self, account: IdentityId) -> impl Iterator<Item = BackendKey> {
        self.backends.iter().filter(move |backend| backend.sharers.0 == account).map(|backend| backend.key)
    }

    /// Adds a backend, with the account and state of its first reads. That state may be freed while the backend is here, and its number be
    /// another state's.
    pub(crate) fn add(&mut self, since: Instant, key: BackendKey, sharers: Sharers) {
        if !self.iter().any(|other| other == key) {
            self.backends.push(SharedBackend { key, sharers, since });
            *self.accounts.entry(sharers.0).or_default().entry(sharers.1).or_default() += 1;
        }
    }

    pub(crate) fn remove(&mut self, key: BackendKey) {
        let Some(place) = self.iter().position(|other| other == key) else { return };
        let SharedBackend { sharers: (account, session), .. } = self.backends.remove(place);
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

    /// Returns the accounts and states with reads that may follow out of turn: all of their backends have begun lately.
    pub(in crate::backend) fn followed_out_of_turn(&self, now: Instant) -> BTreeSet<Sharers> {
        let is_late = |backend: &&SharedBackend| now.since(backend.since) >= OUT_OF_TURN;
        let mut followed: BTreeSet<_> = self.backends.iter().map(|backend| backend.sharers).collect();
        for backend in self.backends.iter().filter(is_late) {
            followed.remove(&backend.sharers);
        }
        followed
    }

    /// Returns the number of `most` backends that this account and state may use. All accounts that share any have as many, one at least, and
    /// so have all session states of one account: an account with many states takes nothing from others.
    pub(super) fn share_of(&mut self, now: Instant, (account, session): Sharers, most: usize) -> Share {
        let states = self.accounts.get(&account);
        let accounts = self.accounts.len() + usize::from(states.is_none());
        let is_new = states.is_none_or(|states| !states.contains_key(&session));
        let there = states.map_or(0, BTreeMap::len) + usize::from(is_new);
        let share = most.div_ceil(accounts);
        let most = STATES_OF_EACH * share;
        // Nobody counts for a single one.
        let states = if there == 1 { 1 } else { self.states.count(now, (account, session), most).max(there) };
        Share { account: share, state: if states > most { 0 } else { share.div_ceil(there) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::backend_key;
    use crate::session::{SessionState, Sessions};

    fn in_three_schemas() -> [SessionId; 3] {
        let mut sessions = Sessions::default();
        [b"one".as_slice(), b"other", b"third"].map(|schema| {
            sessions.hold(SessionState { schema: Some(schema.into()), ..SessionState::default() }).id()
        })
    }

    #[test]
    fn states_count_for_a_second_and_the_one_behind_it() {
        let [one, other, third] = in_three_schemas();
        let (mine, theirs) = (IdentityId::of_test(0), IdentityId::of_test(1));
        let mut states = States::default();
        let at = Instant::from_micros;
        let counts = [one, other, one, third].map(|session| states.count(at(5), (mine, session), 8));
        assert_eq!(counts, [1, 2, 2, 3]);
        assert_eq!(states.count(at(5), (theirs, one), 8), 1);
        assert_eq!(states.count(at(1_000_005), (mine, one), 8), 3, "those of the second before");
        assert_eq!(states.count(at(2_000_005), (mine, one), 8), 1);
        assert_eq!(states.count(at(9_000_000), (mine, other), 8), 1, "nothing for so long");
        let few = [one, other, third].map(|session| states.count(at(12_000_000), (mine, session), 1));
        assert_eq!(few, [1, 2, 2], "one more than enough is enough to know");
    }

    #[test]
    fn backends_that_have_read_for_long_are_followed_in_turn_alone() {
        let [one, other, _] = in_three_schemas();
        let (mine, theirs) = (IdentityId::of_test(0), IdentityId::of_test(1));
        let mut sharing = SharedBackends::default();
        let at = |micros| Instant::START + Duration::from_micros(micros);
        sharing.add(at(0), backend_key(0), (mine, one));
        sharing.add(at(1_000), backend_key(1), (theirs, one));
        sharing.add(at(1_500), backend_key(2), (mine, other));
        assert_eq!(
            sharing.followed_out_of_turn(at(1_999)),
            BTreeSet::from([(mine, one), (mine, other), (theirs, one)])
        );
        assert_eq!(
            sharing.followed_out_of_turn(at(2_000)),
            BTreeSet::from([(mine, other), (theirs, one)]),
            "one of two is enough"
        );
        assert_eq!(sharing.followed_out_of_turn(at(3_000)), BTreeSet::from([(mine, other)]));
        sharing.remove(backend_key(0));
        assert_eq!(sharing.followed_out_of_turn(at(3_500)), BTreeSet::new());
    }

    #[test]
    fn all_who_share_backends_may_have_as_many() {
        let [one, other, third] = in_three_schemas();
        let (mine, theirs) = (IdentityId::of_test(0), IdentityId::of_test(1));
        let (mut sharing, now) = (SharedBackends::default(), Instant::START);
        assert_eq!(
            sharing.share_of(now, (mine, one), 4),
            Share { account: 4, state: 4 },
            "nobody else has any"
        );
        for (number, sharers) in [(0, (mine, one)), (1, (mine, one)), (2, (theirs, one)), (2, (theirs, one))]
        {
            sharing.add(now, backend_key(number), sharers);
        }
        assert_eq!(
            (sharing.len(), sharing.of((mine, one)).collect::<Vec<_>>()),
            (3, vec![backend_key(0), backend_key(1)])
        );
        let shares = [sharing.share_of(now, (mine, one), 4), sharing.share_of(now, (theirs, one), 4)];
        assert_eq!(shares, [Share { account: 2, state: 2 }; 2]);
        for session in [other, third] {
            sharing.add(now, backend_key(3 + session.number()), (mine, session));
        }
        assert_eq!(sharing.share_of(now, (mine, one), 6), Share { account: 3, state: 1 }, "one each");
        assert_eq!(sharing.share_of(now, (mine, one), 4), Share { account: 2, state: 1 }, "three on two");
        assert_eq!(sharing.share_of(now, (mine, one), 2), Share { account: 1, state: 0 }, "three on one");
        assert_eq!(sharing.of_account(mine).count(), 4);
        assert_eq!(
            sharing.share_of(now, (theirs, one), 4),
            Share { account: 2, state: 2 },
            "many states of others take nothing away"
        );
        sharing.remove(backend_key(0));
        assert_eq!(
            sharing.share_of(now, (theirs, one), 4),
            Share { account: 2, state: 2 },
            "the other account has more"
        );
        for key in sharing
            .of((mine, one))
            .chain(sharing.of((mine, other)))
            .chain(sharing.of((mine, third)))
            .collect::<Vec<_>>()
        {
            sharing.remove(key);
        }
        assert_eq!(
            (sharing.share_of(now, (theirs, one), 4), sharing.of((mine, one)).next()),
            (Share { account: 4, state: 4 }, None)
        );
    }
}
