//! How many backends each user uses, on all workers together, and how many it may: `user_backends_share`.
//!
//! A user may use so many percent of the backends that other users do not use. So one user alone has nearly all of them, and
//! whoever comes beside it still finds some: as much of the rest as the first has of all. That is the rule by which switches share
//! out their memory among ports (A. Choudhury and E. Hahne, "Dynamic queue length thresholds for shared-memory packet switches",
//! 1998): one number, which holds for two users as for twenty, and leaves nothing unused to speak of where there is one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

/// More names than this are looked through for those that nobody uses a backend for any more, and again when they have doubled: a
/// login costs the same however many users there are.
const MANY_NAMES: usize = 1_000;

/// All users.
#[derive(Debug, Default)]
pub(crate) struct Users {
    /// Backends in use, by whomever.
    all: Arc<AtomicU32>,
    /// Looked into by logins alone.
    names: Mutex<Names>,
}

#[derive(Debug)]
struct Names {
    by_name: BTreeMap<Box<[u8]>, Arc<AtomicU32>>,
    /// With more of them than this, those go that nobody uses.
    most: usize,
}

impl Default for Names {
    fn default() -> Self {
        Self { by_name: BTreeMap::new(), most: MANY_NAMES }
    }
}

/// What one user uses.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    own: Arc<AtomicU32>,
    all: Arc<AtomicU32>,
}

/// A backend that is in use, for as long as this is there.
#[derive(Debug)]
pub(crate) struct Used(Usage);

impl Users {
    /// What this user uses, under whatever accounts.
    pub(crate) fn usage_of(&self, user: &[u8]) -> Usage {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let Names { by_name, most } = &mut *names;
        if by_name.len() > *most && !by_name.contains_key(user) {
            by_name.retain(|_, own| Arc::strong_count(own) > 1);
            *most = MANY_NAMES.max(2 * by_name.len());
        }
        let own = Arc::clone(by_name.entry(user.into()).or_default());
        Usage { own, all: Arc::clone(&self.all) }
    }
}

impl Usage {
    /// Counts one more backend.
    pub(crate) fn begin(&self) -> Used {
        self.own.fetch_add(1, SeqCst);
        self.all.fetch_add(1, SeqCst);
        Used(self.clone())
    }

    /// How many this user uses.
    pub(crate) fn backends(&self) -> u32 {
        self.own.load(SeqCst)
    }

    /// Whether the user may use one more, where there may be `limit` and each has so many percent of what others leave. The first is
    /// always allowed, and parts of one are rounded up: of fewer than ten backends 90 % keep none.
    pub(crate) fn may_have_one_more(&self, limit: u32, percent: u32) -> bool {
        let own = self.backends();
        let others = self.all.load(SeqCst).saturating_sub(own);
        let left = u64::from(limit.saturating_sub(others));
        let most = (left * u64::from(percent)).div_ceil(100);
        u64::from(own) < most.max(1)
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        self.0.own.fetch_sub(1, SeqCst);
        self.0.all.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as this user gets.
    fn take_all(usage: &Usage, percent: u32) -> Vec<Used> {
        let mut taken = Vec::new();
        while usage.may_have_one_more(128, percent) {
            taken.push(usage.begin());
        }
        taken
    }

    #[test]
    fn whoever_takes_all_leaves_room_for_the_next() {
        let users = Users::default();
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
        let usage = Users::default().usage_of(b"a");
        assert_eq!(take_all(&usage, 100).len(), 128);
    }

    #[test]
    fn names_that_nobody_uses_are_forgotten() {
        let users = Users::default();
        let kept = users.usage_of(b"kept");
        for number in 0..5 * MANY_NAMES {
            users.usage_of(number.to_string().as_bytes());
        }
        let known = || users.names.lock().unwrap().by_name.len();
        assert!(known() <= MANY_NAMES + 1);
        let crowd: Vec<_> =
            (0..5 * MANY_NAMES).map(|number| users.usage_of(number.to_string().as_bytes())).collect();
        assert_eq!(known(), 5 * MANY_NAMES + 1);
        drop(crowd);
        for number in 0..20 * MANY_NAMES {
            users.usage_of(format!("later {number}").as_bytes());
        }
        assert!(known() <= MANY_NAMES + 1);
        let used = kept.begin();
        assert_eq!(users.usage_of(b"kept").backends(), 1);
        drop(used);
    }
}
