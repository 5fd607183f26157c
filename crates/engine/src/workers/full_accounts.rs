//! Accounts of which the server takes no more connections at a time (`max_user_connections`), and the workers with too few of them.
//!
//! What a worker has opened stays with it while statements come. So one of them may have all backends of such an account, and others none, as long
//! as nobody leaves anything to anybody.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seam::Instant;

use crate::accounts::secret::IdentityKey;

/// A worker that needs a backend keeps it for this time at least, and one without any waits as long for the only one of another. A login for each
/// such time is a few per cent of the work.
const KEPT_FOR: Duration = Duration::from_millis(50);

/// A worker that lacks one asks the server again within this time, where it still does (`accounts::identities`: 2 s at most).
const REMEMBERED: Duration = Duration::from_secs(4);

/// The workers that were refused one more backend of an account.
#[derive(Debug, Default)]
pub(crate) struct FullAccounts {
    /// False while nobody lacks any, as nearly always: then nobody looks further.
    any: AtomicBool,
    lacks: Mutex<BTreeMap<IdentityKey, Vec<Lack>>>,
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
    /// The time for which the worker has had it.
    held_for: Duration,
    /// The time for which nothing has run on it.
    idle_for: Duration,
}

impl Free {
    /// Describes a backend that the worker has had for the time `held_for`, and on which nothing has run for `idle_for`.
    pub(crate) fn new(
        worker: usize,
        passing: usize,
        is_needed: bool,
        held_for: Duration,
        idle_for: Duration,
    ) -> Self {
        Self { worker, passing, is_needed, held_for, idle_for }
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
    pub(crate) fn recipient(&self, now: Instant, account: &IdentityKey, free: Free) -> Option<usize> {
        let table = self.table();
        let lack = next(table.get(account)?, now, free.worker)?;
        let has_waited = now.since(lack.since) >= KEPT_FOR;
        let is_left = match free.is_needed {
            true => {
                free.held_for >= KEPT_FOR && (free.passing > lack.has + 1 || (lack.has == 0 && has_waited))
            }
            // What nobody needs here goes also to a worker that has as many, since they may all be at work there.
            false => free.passing > lack.has + 1 || lack.has == 0 || free.idle_for >= KEPT_FOR,
        };
        is_left.then_some(lack.worker)
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

    /// One that the worker has had for long.
    fn free(worker: usize, passing: usize, is_needed: bool) -> Free {
        Free { worker, passing, is_needed, held_for: KEPT_FOR, idle_for: Duration::ZERO }
    }

    #[test]
    fn whoever_has_none_gets_one_of_several_at_once_and_the_only_one_after_a_while() {
        let (full, app) = (FullAccounts::default(), name("app"));
        assert!(!full.any());
        full.lacks(at(0), app.clone(), 1, 0);
        assert!(full.any());
        assert_eq!(full.recipient(at(1), &app, free(0, 2, true)), Some(1));
        assert_eq!(full.recipient(at(1), &name("other"), free(0, 2, false)), None);
        assert_eq!(full.recipient(at(1), &app, free(1, 2, false)), None, "it is the one that lacks some");
        assert_eq!(full.recipient(at(49), &app, free(0, 1, true)), None);
        assert_eq!(full.recipient(at(1), &app, free(0, 1, false)), Some(1), "nothing waits there");
        assert_eq!(full.recipient(at(50), &app, free(0, 1, true)), Some(1));
        let fresh = Free { held_for: Duration::from_millis(49), ..free(0, 9, true) };
        assert_eq!(full.recipient(at(50), &app, fresh), None, "nothing has run on it yet");
    }

    #[test]
    fn those_with_fewest_go_first_and_nobody_gets_one_who_has_as_many() {
        let (full, app) = (FullAccounts::default(), name("app"));
        full.lacks(at(60), app.clone(), 1, 1);
        full.lacks(at(60), app.clone(), 2, 0);
        assert_eq!(full.recipient(at(60), &app, free(0, 2, true)), Some(2));
        assert_eq!(full.next(at(60), &app, 0), Some(2));
        full.has_one_more(&app, 2);
        for is_needed in [true, false] {
            assert_eq!(full.recipient(at(200), &app, free(0, 2, is_needed)), None);
        }
        let unused = Free { idle_for: KEPT_FOR, ..free(0, 1, false) };
        assert_eq!(full.recipient(at(200), &app, unused), Some(1), "nobody needs it there");
        full.has_one_more(&app, 1);
        assert!(!full.any());
    }

    #[test]
    fn whoever_leaves_its_own_waits_anew_and_whoever_has_gone_gets_nothing() {
        let (full, app) = (FullAccounts::default(), name("app"));
        full.lacks(at(0), app.clone(), 1, 1);
        full.lacks(at(100), app.clone(), 1, 0);
        assert_eq!(full.recipient(at(149), &app, free(0, 1, true)), None);
        assert_eq!(full.recipient(at(150), &app, free(0, 1, true)), Some(1));
        assert_eq!(full.recipient(at(4_101), &app, free(0, 9, true)), None);
        full.forget_old(at(4_100));
        assert!(full.any());
        full.forget_old(at(4_101));
        assert!(!full.any());
    }
}
