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

/// A worker without any gets the only backend of another one after this time. A login for each such time is a few per cent of the work.
const LONGEST_WITHOUT: Duration = Duration::from_millis(50);

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

/// A worker's backends of an account, one of which may become free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holds {
    pub(crate) worker: usize,
    pub(crate) backends: usize,
    /// True where statements wait there for a backend.
    pub(crate) needed: bool,
}

impl FullAccounts {
    /// Says whether some worker lacks a backend of such an account.
    pub(crate) fn any(&self) -> bool {
        self.any.load(SeqCst)
    }

    /// Notes that a worker was refused one more, beside so many that it has.
    pub(crate) fn lacks(&self, now: Instant, account: IdentityKey, worker: usize, has: usize) {
        let mut table = self.table();
        let lacks = table.entry(account).or_default();
        match lacks.iter_mut().find(|lack| lack.worker == worker) {
            Some(lack) => (lack.has, lack.at) = (has, now),
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
            self.tidy(&mut table, account);
        }
    }

    /// Returns the worker that gets the room of a backend of the account, if that is to become free for another one.
    pub(crate) fn recipient(&self, now: Instant, account: &IdentityKey, holds: Holds) -> Option<usize> {
        let mut table = self.table();
        table.get_mut(account)?.retain(|lack| now.since(lack.at) <= REMEMBERED);
        self.tidy(&mut table, account);
        let others = table.get(account)?.iter().filter(|lack| lack.worker != holds.worker);
        let lack = others.min_by_key(|lack| (lack.has, lack.since))?;
        let has_waited = now.since(lack.since) >= LONGEST_WITHOUT;
        let is_left = holds.backends > lack.has + 1 || (lack.has == 0 && (has_waited || !holds.needed));
        is_left.then_some(lack.worker)
    }

    fn tidy(&self, table: &mut BTreeMap<IdentityKey, Vec<Lack>>, account: &IdentityKey) {
        if table.get(account).is_some_and(Vec::is_empty) {
            table.remove(account);
        }
        self.any.store(!table.is_empty(), SeqCst);
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<IdentityKey, Vec<Lack>>> {
        self.lacks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_none_gets_one_of_several_at_once_and_the_only_one_after_a_while() {
        let (full, app) = (FullAccounts::default(), (b"app".to_vec(), b"app".to_vec(), String::from("%")));
        let other = (b"other".to_vec(), b"other".to_vec(), String::from("%"));
        let at = |millis| Instant::START + Duration::from_millis(millis);
        let holds = |worker, backends, needed| Holds { worker, backends, needed };
        assert!(!full.any());
        full.lacks(at(0), app.clone(), 1, 0);
        assert!(full.any());
        assert_eq!(full.recipient(at(1), &app, holds(0, 2, true)), Some(1));
        assert_eq!(full.recipient(at(1), &other, holds(0, 2, false)), None);
        assert_eq!(full.recipient(at(1), &app, holds(1, 2, false)), None, "it is the one that lacks some");
        assert_eq!(full.recipient(at(49), &app, holds(0, 1, true)), None);
        assert_eq!(full.recipient(at(1), &app, holds(0, 1, false)), Some(1), "nothing waits there");
        assert_eq!(full.recipient(at(50), &app, holds(0, 1, true)), Some(1));
        full.lacks(at(60), app.clone(), 1, 1);
        full.lacks(at(60), app.clone(), 2, 0);
        assert_eq!(full.recipient(at(60), &app, holds(0, 2, true)), Some(2), "it has fewer");
        full.has_one_more(&app, 2);
        assert_eq!(full.recipient(at(200), &app, holds(0, 2, true)), None, "they have nearly as many");
        assert_eq!(
            full.recipient(at(200), &app, holds(0, 1, false)),
            None,
            "nor does it get the only one of another"
        );
        full.has_one_more(&app, 1);
        assert!(!full.any());
        full.lacks(at(300), app.clone(), 1, 0);
        assert_eq!(full.recipient(at(4_301), &app, holds(0, 9, true)), None, "whoever waited has gone");
        assert!(!full.any());
    }
}
