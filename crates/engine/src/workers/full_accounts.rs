//! Accounts of which the server takes no more connections at a time (`max_user_connections`), and the workers with too few of them.
//!
//! What a worker has opened stays with it while statements come. So one of them may have all backends of such an account, and others none, as long
//! as nobody leaves anything to anybody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seam::Instant;

use crate::accounts::secret::IdentityKey;

/// A worker that lacks one asks the server again within this time, where it still does (`accounts::identities`: 2 s at most).
const REMEMBERED: Duration = Duration::from_secs(4);

/// The workers that were refused one more backend of an account.
#[derive(Debug, Default)]
pub(crate) struct FullAccounts {
    /// False while nobody lacks any, as nearly always: then nobody looks further.
    any: AtomicBool,
    lacks: Mutex<BTreeMap<IdentityKey, Vec<Lack>>>,
    /// The accounts of which statements have waited for long, each with the worker where they do.
    waiting: Mutex<BTreeSet<(usize, IdentityKey)>>,
}

/// A worker that was refused one more.
#[derive(Debug)]
struct Lack {
    worker: usize,
    /// The number of backends of the account that it had.
    has: usize,
    since: Instant,
    /// The time of the latest refusal.
    at: Instant,
}

/// A backend of the account that may become free, and the worker that has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Free {
    worker: usize,
    /// The number of backends of the account there that pass from client to client, with this one.
    passing: usize,
    /// True where statements wait there for a backend.
    is_needed: bool,
    /// The time since which the worker has had it.
    held_since: Instant,
    /// The time since which nothing has run on it.
    idle_since: Instant,
    /// The time that another worker's login takes.
    login: Duration,
    /// The time for which a worker that needs a backend keeps it at least, and for which one without any waits at most for the only one of another:
    /// so much longer than a login that these are a small part of the work.
    kept_for: Duration,
}

/// The worker that gets the room of a backend that may become free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// Nobody: the backend stays.
    Nobody,
    /// The worker gets it now.
    Worker(usize),
    /// A worker that lacks one, but not before this time: until then the room is not worth a login.
    NotBefore(Instant),
}

impl Free {
    /// Describes a backend that the worker has had since the first of the times, and on which nothing has run since the second. `costs` are the time
    /// that a login takes, and that for which a backend is kept for it.
    pub(crate) fn new(
        worker: usize,
        passing: usize,
        is_needed: bool,
        (held_since, idle_since): (Instant, Instant),
        (login, kept_for): (Duration, Duration),
    ) -> Self {
        Self { worker, passing, is_needed, held_since, idle_since, login, kept_for }
    }

    /// Returns the time from which on its room is worth a login of the worker that lacks one; `None` where it never is by itself.
    fn is_left_at(&self, lack: &Lack) -> Option<Instant> {
        let kept = self.held_since + self.kept_for;
        let has_more = self.passing > lack.has + 1;
        // Whoever has none waits no longer than that, however busy the other one is.
        let waited = (lack.has == 0).then(|| kept.max(lack.since + self.kept_for));
        match self.is_needed {
            true if has_more => Some(kept),
            true => waited,
            false if has_more => Some(self.idle_since),
            // One that nobody has needed for the time of a login has cost as much already. One that is used again a moment later is not given away.
            // It goes also to a worker that has as many, since they may all be at work there.
            false => {
                let unused = if lack.has == 0 { self.login } else { self.kept_for };
                Some(waited.map_or(self.idle_since + unused, |waited| waited.min(self.idle_since + unused)))
            }
        }
    }
}

impl FullAccounts {
    /// Says whether some worker lacks a backend of such an account.
    pub(crate) fn any(&self) -> bool {
        self.any.load(SeqCst)
    }

    /// Notes that a worker was refused one more, beside so many that pass there from client to client.
    pub(crate) fn lacks(&self, now: Instant, account: IdentityKey, worker: usize, has: usize) {
        let mut table = self.table();
        let lacks = table.entry(account).or_default();
        match lacks.iter_mut().find(|lack| lack.worker == worker) {
            Some(lack) => {
                // One that has just left its own waits from now on.
                lack.since = if has < lack.has { now } else { lack.since };
                (lack.has, lack.at) = (has, now);
            }
            None => lacks.push(Lack { worker, has, since: now, at: now }),
        }
        self.any.store(true, SeqCst);
    }

    /// Notes that a worker has got one more, or gets one.
    pub(crate) fn has_one_more(&self, account: &IdentityKey, worker: usize) {
        if self.any() {
            let mut table = self.table();
            if let Some(lacks) = table.get_mut(account) {
                lacks.retain(|lack| lack.worker != worker);
            }
            self.tidy(table);
        }
    }

    /// Forgets those who have gone: nobody has asked the server for them lately.
    pub(crate) fn forget_old(&self, now: Instant) {
        if self.any() {
            let mut table = self.table();
            table.values_mut().for_each(|lacks| lacks.retain(|lack| lack.is_present(now)));
            self.tidy(table);
        }
    }

    /// Returns the worker that has waited longest for a connection of the account, of those with fewest.
    pub(crate) fn next(&self, now: Instant, account: &IdentityKey, besides: usize) -> Option<usize> {
        self.table().get(account).and_then(|lacks| next(lacks, now, besides)).map(|lack| lack.worker)
    }

    /// Returns the worker that gets the room of a backend of the account, if that is to become free for another one.
    pub(crate) fn recipient(&self, now: Instant, account: &IdentityKey, free: Free) -> Recipient {
        let table = self.table();
        let lack = table.get(account).and_then(|lacks| next(lacks, now, free.worker));
        match lack.and_then(|lack| Some((lack.worker, free.is_left_at(lack)?))) {
            None => Recipient::Nobody,
            Some((worker, at)) if at <= now => Recipient::Worker(worker),
            Some((_, at)) => Recipient::NotBefore(at),
        }
    }

    /// Notes the accounts of which statements have waited for long on a worker. Returns those of all workers.
    pub(crate) fn wait(&self, worker: usize, accounts: BTreeSet<IdentityKey>) -> BTreeSet<IdentityKey> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|&(other, _)| other != worker);
        waiting.extend(accounts.into_iter().map(|account| (worker, account)));
        waiting.iter().map(|(_, account)| account.clone()).collect()
    }

    fn tidy(&self, mut table: MutexGuard<'_, BTreeMap<IdentityKey, Vec<Lack>>>) {
        table.retain(|_, lacks| !lacks.is_empty());
        self.any.store(!table.is_empty(), SeqCst);
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<IdentityKey, Vec<Lack>>> {
        self.lacks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lack {
    fn is_present(&self, now: Instant) -> bool {
        now.since(self.at) <= REMEMBERED
    }
}

fn next(lacks: &[Lack], now: Instant, besides: usize) -> Option<&Lack> {
    let others = lacks.iter().filter(|lack| lack.worker != besides && lack.is_present(now));
    others.min_by_key(|lack| (lack.has, lack.since))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(user: &str) -> IdentityKey {
        (user.into(), user.into(), String::from("%"))
    }

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    const LOGIN: Duration = Duration::from_millis(1);
    const KEPT_FOR: Duration = Duration::from_millis(50);

    /// One that the worker has had for long, and on which something has just run.
    fn free(now: Instant, worker: usize, passing: usize, is_needed: bool) -> Free {
        Free::new(worker, passing, is_needed, (at(0), now), (LOGIN, KEPT_FOR))
    }

    #[test]
    fn whoever_has_none_gets_one_of_several_at_once_and_the_only_one_after_a_while() {
        let (full, app) = (FullAccounts::default(), name("app"));
        assert!(!full.any());
        full.lacks(at(50), app.clone(), 1, 0);
        assert!(full.any());
        let recipient = |millis, account: &IdentityKey, free| full.recipient(at(millis), account, free);
        assert_eq!(recipient(51, &app, free(at(51), 0, 2, true)), Recipient::Worker(1));
        assert_eq!(recipient(51, &name("other"), free(at(51), 0, 2, false)), Recipient::Nobody);
        let its_own = free(at(51), 1, 2, false);
        assert_eq!(recipient(51, &app, its_own), Recipient::Nobody, "it is the one that lacks some");
        assert_eq!(recipient(99, &app, free(at(99), 0, 1, true)), Recipient::NotBefore(at(100)));
        assert_eq!(recipient(100, &app, free(at(100), 0, 1, true)), Recipient::Worker(1));
        let fresh = Free { held_since: at(51), ..free(at(100), 0, 9, true) };
        assert_eq!(recipient(100, &app, fresh), Recipient::NotBefore(at(101)), "nothing has run on it yet");
    }

    /// A backend that is used again a moment later would go back and forth, and each statement would cost a login.
    #[test]
    fn the_only_one_is_worth_a_login_before_it_goes_to_another() {
        let (full, app) = (FullAccounts::default(), name("app"));
        full.lacks(at(900), app.clone(), 1, 0);
        let far = |idle_since, held_since| {
            let costs = (Duration::from_millis(80), Duration::from_millis(320));
            Free::new(0, 1, false, (at(held_since), at(idle_since)), costs)
        };
        let recipient = |millis, free| full.recipient(at(millis), &app, free);
        assert_eq!(recipient(1_000, far(1_000, 0)), Recipient::NotBefore(at(1_080)));
        assert_eq!(recipient(1_080, far(1_000, 0)), Recipient::Worker(1), "nobody needs it");
        assert_eq!(recipient(1_219, far(1_219, 0)), Recipient::NotBefore(at(1_220)));
        assert_eq!(recipient(1_220, far(1_220, 0)), Recipient::Worker(1), "the other has waited for long");
        assert_eq!(recipient(1_220, far(1_220, 950)), Recipient::NotBefore(at(1_270)), "it has just come");
        assert_eq!(recipient(1_000, Free { passing: 2, ..far(1_000, 990) }), Recipient::Worker(1));
    }

    #[test]
    fn those_with_fewest_go_first_and_nobody_gets_one_who_has_as_many() {
        let (full, app) = (FullAccounts::default(), name("app"));
        full.lacks(at(60), app.clone(), 1, 1);
        full.lacks(at(60), app.clone(), 2, 0);
        assert_eq!(full.recipient(at(60), &app, free(at(60), 0, 2, true)), Recipient::Worker(2));
        assert_eq!(full.next(at(60), &app, 0), Some(2));
        full.has_one_more(&app, 2);
        assert_eq!(full.recipient(at(200), &app, free(at(200), 0, 2, true)), Recipient::Nobody);
        let used = free(at(200), 0, 2, false);
        assert_eq!(full.recipient(at(200), &app, used), Recipient::NotBefore(at(250)));
        let unused = free(at(150), 0, 1, false);
        assert_eq!(full.recipient(at(200), &app, unused), Recipient::Worker(1), "nobody needs it there");
        full.has_one_more(&app, 1);
        assert!(!full.any());
    }

    #[test]
    fn whoever_leaves_its_own_waits_anew_and_whoever_has_gone_gets_nothing() {
        let (full, app) = (FullAccounts::default(), name("app"));
        full.lacks(at(0), app.clone(), 1, 1);
        full.lacks(at(100), app.clone(), 1, 0);
        let recipient =
            |millis, passing| full.recipient(at(millis), &app, free(at(millis), 0, passing, true));
        assert_eq!(recipient(149, 1), Recipient::NotBefore(at(150)));
        assert_eq!(recipient(150, 1), Recipient::Worker(1));
        assert_eq!(recipient(4_101, 9), Recipient::Nobody);
        full.forget_old(at(4_100));
        assert!(full.any());
        full.forget_old(at(4_101));
        assert!(!full.any());
    }

    #[test]
    fn accounts_with_statements_that_wait_are_known_to_all_workers_until_none_waits() {
        let full = FullAccounts::default();
        let both = BTreeSet::from([name("app"), name("other")]);
        assert_eq!(full.wait(0, BTreeSet::from([name("app")])), BTreeSet::from([name("app")]));
        assert_eq!(full.wait(1, BTreeSet::from([name("other")])), both);
        assert_eq!(full.wait(0, BTreeSet::new()), BTreeSet::from([name("other")]));
    }
}
