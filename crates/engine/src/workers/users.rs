//! How many backends each user uses, on all workers together, and how many it may: `user_backends_share`.
//!
//! A user may use so many percent of the backends that other users do not use. So one user alone has nearly all of them, and a
//! second one beside it still finds some: as much of the rest as the first has of all. Switches share out their memory among
//! ports by that rule (A. Choudhury and E. Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998): one
//! number, which holds for two users as for twenty, and leaves nothing unused to speak of where there is one.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seam::Instant;

use super::account_connections::{AccountConnection, AccountConnections};
use super::full_accounts::FullAccounts;
use super::names::Names;
use crate::accounts::Account;

/// A worker leaves a backend of the user to statements on another one only where these have waited for so much longer: handing it over
/// costs a turn, and among statements that came within this time order means nothing.
const SLACK: Duration = Duration::from_millis(10);

/// The value for a worker where nothing of the user waits.
const NOBODY: u64 = u64::MAX;

/// All users.
#[derive(Debug)]
pub(crate) struct Users {
    all: Arc<All>,
    /// Looked into by logins alone.
    names: Mutex<Names<Box<[u8]>, OfUser>>,
    account_connections: AccountConnections,
    /// The questions about passwords that nobody has proved yet, of accounts that may have few connections.
    claims: AccountConnections,
    pub(crate) full_accounts: FullAccounts,
}

/// The use by all users together.
#[derive(Debug)]
struct All {
    /// Backends in use, by whomever.
    backends: AtomicU32,
    workers: Box<[OfWorker]>,
}

#[derive(Debug, Default)]
struct OfWorker {
    /// True where new work waits there for its user to use fewer backends.
    holds_up: AtomicBool,
    /// True where a backend of the worker is in use no more, and the others have not been told.
    freed: AtomicBool,
}

#[derive(Debug)]
struct OfUser {
    /// Backends in use.
    backends: AtomicU32,
    /// For each worker, the time since which new work has waited there for the user to use fewer, in microseconds; or [`NOBODY`].
    waits_since: Box<[AtomicU64]>,
}

/// The use by one user.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    own: Arc<OfUser>,
    all: Arc<All>,
}

/// A backend that is in use, for as long as this is there.
#[derive(Debug)]
pub(crate) struct Used {
    usage: Usage,
    worker: usize,
}

/// How many a user may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// The bound of all users together.
    pub(crate) limit: u32,
    /// The percent of what others leave that a user may use.
    pub(crate) percent: u32,
}

impl Users {
    pub(crate) fn new(workers: u32) -> Self {
        let workers = (0..workers).map(|_| OfWorker::default()).collect();
        Self {
            all: Arc::new(All { backends: AtomicU32::new(0), workers }),
            names: Mutex::default(),
            account_connections: AccountConnections::default(),
            claims: AccountConnections::default(),
            full_accounts: FullAccounts::default(),
        }
    }

    /// Counts one more connection under an account to the server at this place in the list of addresses.
    pub(crate) fn begin_connection(&self, place: usize, account: &Account) -> AccountConnection {
        self.account_connections.begin(place, account)
    }

    /// The number of connections under an account to that server, those of all workers together.
    pub(crate) fn connections(&self, place: usize, account: &Account) -> u32 {
        self.account_connections.count(place, account)
    }

    /// Begins the only question about a password of an account on that server; none while another one is under way on whichever worker.
    pub(crate) fn begin_claim(&self, place: usize, account: &Account) -> Option<AccountConnection> {
        self.claims.begin_alone(place, account)
    }

    /// Returns the use by this user, under all of its accounts.
    pub(crate) fn usage_of(&self, user: &[u8]) -> Usage {
        let nothing = || {
            let waits_since = self.all.workers.iter().map(|_| AtomicU64::new(NOBODY)).collect();
            OfUser { backends: AtomicU32::new(0), waits_since }
        };
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        Usage { own: names.get_or_insert(user.into(), nothing), all: Arc::clone(&self.all) }
    }

    /// Says whether new work waits on a worker for its user to use fewer backends. True where none did.
    pub(crate) fn hold_up(&self, worker: usize, any: bool) -> bool {
        let holds_up = &self.all.workers[worker].holds_up;
        let is_new = holds_up.load(SeqCst) != any;
        if is_new {
            holds_up.store(any, SeqCst);
        }
        is_new && any
    }

    /// Returns each other worker once that may allow its users more, since backends of this worker are in use no more.
    pub(crate) fn to_be_told(&self, worker: usize) -> Vec<usize> {
        let workers = &self.all.workers;
        let freed = &workers[worker].freed;
        // Most of the time nobody is held up, and reading leaves the cache lines with all workers.
        if !freed.load(SeqCst) || !freed.swap(false, SeqCst) {
            return Vec::new();
        }
        (0..workers.len()).filter(|&other| other != worker && workers[other].holds_up.load(SeqCst)).collect()
    }
}

impl Usage {
    /// Counts one more backend, of this worker.
    pub(crate) fn begin(&self, worker: usize) -> Used {
        self.own.backends.fetch_add(1, SeqCst);
        self.all.backends.fetch_add(1, SeqCst);
        Used { usage: self.clone(), worker }
    }

    /// How many this user uses.
    pub(crate) fn backends(&self) -> u32 {
        self.own.backends.load(SeqCst)
    }

    /// Says since when new work of the user on a worker has waited for it to use fewer.
    pub(crate) fn waits(&self, worker: usize, since: Option<Instant>) {
        self.own.waits_since[worker].store(since.map_or(NOBODY, Instant::as_micros), SeqCst);
    }

    /// Says whether the user may use one more backend, for a statement on this worker that has waited since then. The first is
    /// always allowed, and parts of one are rounded up: of fewer than ten backends 90 % keep none. Other workers on which the
    /// user has waited for longer are left one each.
    pub(crate) fn may_have_one_more(&self, bound: Bound, worker: usize, since: Instant) -> bool {
        let own = self.backends();
        let others = self.all.backends.load(SeqCst).saturating_sub(own);
        let left = u64::from(bound.limit.saturating_sub(others));
        let most = (left * u64::from(bound.percent)).div_ceil(100).max(1);
        let waits_longer = |other: usize| {
            let waits_since = self.own.waits_since[other].load(SeqCst);
            other != worker && waits_since.saturating_add(SLACK.as_micros() as u64) < since.as_micros()
        };
        let promised = (0..self.own.waits_since.len()).filter(|&other| waits_longer(other)).count() as u64;
        u64::from(own) + promised < most
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        let Self { usage, worker } = self;
        usage.own.backends.fetch_sub(1, SeqCst);
        usage.all.backends.fetch_sub(1, SeqCst);
        usage.all.workers[*worker].freed.store(true, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes as many backends as this user gets.
    fn take_all(usage: &Usage, percent: u32) -> Vec<Used> {
        let mut taken = Vec::new();
        while usage.may_have_one_more(Bound { limit: 128, percent }, 0, Instant::START) {
            taken.push(usage.begin(0));
        }
        taken
    }

    #[test]
    fn whoever_takes_all_leaves_room_for_the_next() {
        let users = Users::new(1);
        let [first, second, third] = ["a", "b", "c"].map(|user| users.usage_of(user.as_bytes()));
        let of_first = take_all(&first, 90);
        let of_second = take_all(&second, 90);
        let of_third = take_all(&third, 90);
        assert_eq!([of_first.len(), of_second.len(), of_third.len()], [116, 11, 1]);
        drop(of_first);
        assert_eq!(first.backends(), 0);
        assert_eq!(take_all(&second, 90).len(), 104, "as others leave more, so it may have more");
        drop(of_second);
        assert_eq!(users.usage_of(b"c").backends(), 1, "one number for each name");
    }

    #[test]
    fn a_hundred_percent_are_no_bound_but_that_of_all() {
        let usage = Users::new(1).usage_of(b"a");
        assert_eq!(take_all(&usage, 100).len(), 128);
    }

    #[test]
    fn what_has_waited_longer_on_another_worker_goes_first() {
        let users = Users::new(3);
        let usage = users.usage_of(b"a");
        let at = |millis| Instant::START + Duration::from_millis(millis);
        let bound = Bound { limit: 10, percent: 50 };
        let mut taken: Vec<_> = (0..5).map(|_| usage.begin(0)).collect();
        usage.waits(1, Some(at(0)));
        assert!(users.hold_up(1, true) && !users.hold_up(1, true));
        assert!(!usage.may_have_one_more(bound, 0, at(50)) && !usage.may_have_one_more(bound, 1, at(0)));
        assert!(users.to_be_told(0).is_empty(), "nothing is free that was not");
        taken.pop();
        assert_eq!(users.to_be_told(0), [1]);
        assert!(users.to_be_told(0).is_empty(), "it has been told");
        assert!(!usage.may_have_one_more(bound, 0, at(50)), "it is the other worker's");
        assert!(usage.may_have_one_more(bound, 0, at(5)), "which came at about the same time");
        assert!(usage.may_have_one_more(bound, 1, at(0)));
        taken.pop();
        assert!(usage.may_have_one_more(bound, 0, at(50)), "there is one for each");
        usage.waits(1, None);
        assert!(!users.hold_up(1, false));
        taken.pop();
        assert!(users.to_be_told(0).is_empty());
    }
}
