//! Copies of the server's accounts: which one is in use, and when the next one is read.

use std::time::Duration;

use seam::Instant;

use super::defaults::SHORTEST_REFRESH;
use super::state::{Control, State};
use crate::frozen::Distance;
use crate::scheduling::learned::lock_waits::told::LockWaits;

/// The server looks for changes of its accounts for a twentieth of the time at most. With 100,000 accounts a look takes it most of a second.
const REST: u32 = 20;

/// And for a fifth of the time where a login wants that: a wrong password is enough for a look.
const REST_WHERE_WANTED: u32 = 4;

/// The copies that were asked for, and that came.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Counts the copies that were asked for.
    asked: u64,
    /// The number of the copy that came last.
    came: u64,
    /// True while a login wants the next one.
    wanted: bool,
    /// The time at which the last one came.
    last: Instant,
    /// The time that the server took for it.
    took: Duration,
}

/// [`Copies`] as plain data ([`crate::frozen`]).
#[derive(Debug, PartialEq)]
pub(super) struct FrozenCopies {
    asked: u64,
    came: u64,
    wanted: bool,
    last: Distance,
    took: Duration,
}

plain!(struct FrozenCopies { asked, came, wanted, last, took });

impl Copies {
    /// Notes that the server is asked for one.
    pub(super) fn is_asked_for(&mut self) {
        self.asked += 1;
        self.wanted = false;
    }

    /// Notes that the one that was asked for has come, or that the present one is as good.
    pub(super) fn came(&mut self, now: Instant, took: Duration) {
        (self.came, self.last, self.took) = (self.asked, now, took);
    }

    /// The time of the next look, where one comes after so long.
    fn next(&self, every: Duration) -> Instant {
        let (pause, rest) = if self.wanted { (SHORTEST_REFRESH, REST_WHERE_WANTED) } else { (every, REST) };
        self.last + pause.max(rest * self.took)
    }

    pub(super) fn freeze(&mut self, now: Instant) -> FrozenCopies {
        let Self { asked, came, wanted, last, took } = std::mem::take(self);
        FrozenCopies { asked, came, wanted, last: Distance::of(last, now), took }
    }
}

impl FrozenCopies {
    pub(super) fn thaw(self, now: Instant) -> Copies {
        let Self { asked, came, wanted, last, took } = self;
        Copies { asked, came, wanted, last: last.from(now), took }
    }
}

impl Control {
    /// The number of the copy that an attempt which comes in now may be refused by: one that is asked for later.
    pub(crate) fn next_accounts_copy(&self) -> u64 {
        self.copies.asked + 1
    }

    /// The number of the copy in use.
    pub(crate) fn accounts_copy(&self) -> u64 {
        self.copies.came
    }

    /// Says whether a fresh copy can be had soon.
    pub(crate) fn can_refresh(&self) -> bool {
        matches!(self.state, State::Idle | State::Asking { .. } | State::ReadingAccounts)
    }

    pub(crate) fn ask_for_accounts(&mut self) {
        self.copies.wanted = true;
    }

    /// The time at which the accounts are to be read next.
    pub(crate) fn next_refresh(&self, every: Duration) -> Option<Instant> {
        matches!(self.state, State::Idle).then(|| self.copies.next(every))
    }
}

impl Control {
    /// Takes the lock waits that have been found; the next to be found are these.
    pub(crate) fn take_lock_waits(&mut self, next: LockWaits) -> LockWaits {
        std::mem::replace(&mut self.lock_waits, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_takes_long_for_them_is_asked_less_often() {
        let (second, now) = (Duration::from_secs(1), Instant::from_micros(90_000_000));
        let mut copies = Copies::default();
        copies.is_asked_for();
        copies.came(now, Duration::from_millis(1));
        assert_eq!(copies.next(second), now + second);
        copies.wanted = true;
        assert_eq!(copies.next(second), now + SHORTEST_REFRESH);
        copies.is_asked_for();
        copies.came(now, Duration::from_millis(600));
        assert_eq!(copies.next(second), now + 12 * second);
        copies.wanted = true;
        assert_eq!(copies.next(second), now + Duration::from_millis(2_400));
    }
}
