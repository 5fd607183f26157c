//! What keeps the admin ports of others from being taken up by questions, whatever is asked here.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A statement's turn at an admin port. Whatever is asked here, its places there (`admin_max_connections`) are left to others.
pub(super) struct Turn(String);

/// So many statements have it at a time.
pub(super) const AT_A_TIME: usize = 2;

/// How many have, by the admin port.
static TURNS: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

/// One of them is over.
static OVER: Condvar = Condvar::new();

impl Turn {
    /// Waits for it; `None` where it does not come until then.
    pub(super) fn take(target: String, until: Instant) -> Option<Self> {
        let turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        let left = until.saturating_duration_since(Instant::now());
        let are_taken =
            |turns: &mut BTreeMap<String, usize>| turns.get(&target).is_some_and(|count| *count >= AT_A_TIME);
        let waited = OVER.wait_timeout_while(turns, left, are_taken).unwrap_or_else(PoisonError::into_inner);
        let (mut turns, timed_out) = waited;
        if timed_out.timed_out() {
            return None;
        }
        *turns.entry(target.clone()).or_default() += 1;
        Some(Self(target))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = turns.get_mut(&self.0) {
            *count -= 1;
            if *count == 0 {
                turns.remove(&self.0);
            }
        }
        drop(turns);
        OVER.notify_all();
    }
}

/// A login that was refused is tried again after so long, as `onramp top` does: each try is a line in the log of whoever is asked, and a
/// password that was wrong is seldom right a second later.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(30);

/// When logins were refused, by user and admin port.
static REFUSED: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());

/// Notes that the login was.
pub(super) fn note_refused(account: String) {
    let mut refused = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
    refused.retain(|_, since| since.elapsed() < ASK_AGAIN);
    refused.insert(account, Instant::now());
}

/// How long ago it was, where it is not to be tried again yet.
pub(super) fn refused_since(account: &str) -> Option<Duration> {
    let refused = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
    refused.get(account).map(Instant::elapsed).filter(|since| *since < ASK_AGAIN)
}

/// Somebody has changed something: all may be tried again.
pub(super) fn forget_refused() {
    REFUSED.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn few_statements_ask_one_at_a_time() {
        let take = |target: &str, patience: u64| {
            Turn::take(String::from(target), Instant::now() + Duration::from_secs(patience))
        };
        let mut turns: Vec<_> = (0..AT_A_TIME).map(|_| take("a:1", 0)).collect();
        assert!(turns.iter().all(Option::is_some) && take("a:1", 0).is_none() && take("b:1", 0).is_some());
        let next = std::thread::spawn(move || take("a:1", 600).is_some());
        turns.pop();
        assert!(next.join().unwrap(), "it has waited for its turn");
        turns.clear();
        assert!(!TURNS.lock().unwrap().keys().any(|target| target == "a:1" || target == "b:1"));
    }

    #[test]
    fn a_refused_login_is_not_tried_again_at_once() {
        assert_eq!(refused_since("u@a:9"), None);
        note_refused(String::from("u@a:9"));
        assert!(refused_since("u@a:9").is_some() && refused_since("v@a:9").is_none());
        forget_refused();
        assert_eq!(refused_since("u@a:9"), None);
    }
}
