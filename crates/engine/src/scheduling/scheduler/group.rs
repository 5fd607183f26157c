//! The rules of the servers' own thread pools, as far as they can be followed from outside: a worker is one of their thread
//! groups, and shares its permits with nobody.
//!
//! One thing cannot be followed: the hook by which a server's pool learns at once that a statement waits for a lock
//! (`thd_wait_begin`). Here the stall timers alone find a wait.

use std::time::Duration;

use seam::Instant;

use crate::scheduling::scheduler::lane::Lane;
use crate::settings::{Profile, Settings};

/// A thread group.
#[derive(Debug)]
pub(crate) struct ThreadGroup {
    rules: Rules,
    /// Statements that may execute at a time, or, where transactions keep their permits, be open.
    limit: u32,
    /// The group's part of `thread_pool_max_threads`.
    most: u32,
}

#[derive(Debug)]
enum Rules {
    /// Percona Server (`threadpool_unix.cc`): low statements start only while none is beyond the limit; no kick-up.
    Percona(Ticks),
    /// MariaDB (`threadpool_generic.cc`): whatever comes first, and a kick-up at each tick.
    MariaDb(Ticks),
    /// MySQL (`plugin/thread_pool`).
    MySql {
        /// True where transactions keep their permits to their end (`max_transactions_limit`).
        by_transaction: bool,
        longrun: Duration,
        /// The time until which the limit is not in force, since as many transactions as may be open have lasted for `longrun`.
        suspended_until: Option<Instant>,
        next_check: Instant,
        next_kick_up: Instant,
    },
}

/// The timer of the first two: it looks every `stall_limit` whether the queues have moved.
#[derive(Debug)]
struct Ticks {
    every: Duration,
    next: Instant,
    /// True where a statement has started since the last tick.
    moved: bool,
    /// True where no statement had started: one may start beyond the limit.
    stalled: bool,
}

/// The stall checker of MySQL's pool looks every 10 ms, and kicks one statement up each time.
const MYSQL_CHECK: Duration = Duration::from_millis(10);

impl ThreadGroup {
    /// The group that a worker is in these settings; none in the native profile.
    pub(super) fn new(settings: &Settings, workers: u32) -> Option<Self> {
        let limit = settings.group_limit(workers)?;
        let ticks =
            || Ticks { every: settings.stall_limit, next: Instant::START, moved: false, stalled: false };
        let (rules, most) = match settings.profile {
            Profile::Native => return None,
            Profile::Percona => (Rules::Percona(ticks()), settings.max_threads.div_ceil(workers)),
            Profile::MariaDb => (Rules::MariaDb(ticks()), settings.max_threads.div_ceil(workers)),
            Profile::MySql => {
                let by_transaction = settings.max_transactions_limit > 0;
                let rules = Rules::MySql {
                    by_transaction,
                    longrun: settings.longrun_trx_limit,
                    suspended_until: None,
                    next_check: Instant::START,
                    next_kick_up: Instant::START,
                };
                // "thread_pool_max_threads" is not a variable of MySQL's: its pool stops at 4,096 threads a group.
                (rules, 4096)
            }
        };
        // A listener and a worker are always there.
        Some(Self { rules, limit, most: most.max(2) })
    }

    /// Returns the group by other settings. Its timers go on where the rules are those of the same pool. Otherwise any change
    /// would be a stall, or end a suspension that still has its reason.
    pub(super) fn changed(before: Option<&Self>, settings: &Settings, workers: u32) -> Option<Self> {
        let mut group = Self::new(settings, workers)?;
        match (&mut group.rules, before.map(|before| &before.rules)) {
            (Rules::Percona(ticks), Some(Rules::Percona(old)))
            | (Rules::MariaDb(ticks), Some(Rules::MariaDb(old))) => {
                *ticks = Ticks { every: ticks.every, ..*old };
            }
            (
                Rules::MySql { by_transaction: true, suspended_until, next_check, next_kick_up, .. },
                Some(Rules::MySql {
                    by_transaction: true,
                    suspended_until: until,
                    next_check: check,
                    next_kick_up: kick_up,
                    ..
                }),
            ) => (*suspended_until, *next_check, *next_kick_up) = (*until, *check, *kick_up),
            _ => {}
        }
        Some(group)
    }

    /// Permits of this group.
    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// Says whether a statement of this lane may start beside so many.
    pub(super) fn may_start(&self, lane: Lane, running: u32) -> bool {
        let room = running < self.limit;
        running < self.most
            && match &self.rules {
                Rules::Percona(ticks) => room || (ticks.stalled && lane != Lane::Low),
                Rules::MariaDb(ticks) => room || ticks.stalled,
                Rules::MySql { suspended_until, .. } => room || suspended_until.is_some(),
            }
    }

    /// A statement has left the queue.
    pub(super) fn started(&mut self) {
        if let Rules::Percona(ticks) | Rules::MariaDb(ticks) = &mut self.rules {
            ticks.moved = true;
            ticks.stalled = false;
        }
    }

    /// Says whether an open transaction keeps its permit between its statements.
    pub(crate) fn keeps_permits(&self) -> bool {
        matches!(self.rules, Rules::MySql { by_transaction: true, .. })
    }

    /// Says whether a statement that has run for `stall_limit` counts no more.
    pub(crate) fn lends_stalled(&self) -> bool {
        matches!(self.rules, Rules::MySql { by_transaction: false, .. })
    }

    /// Looks at the clock. `waiting`: statements wait that this group could start; `long` counts the permits that have been
    /// held for longer than it is told.
    pub(crate) fn turn(&mut self, now: Instant, waiting: bool, long: impl FnOnce(Duration) -> u32) {
        let limit = self.limit;
        match &mut self.rules {
            Rules::Percona(ticks) | Rules::MariaDb(ticks) => {
                if ticks.next <= now {
                    ticks.stalled = waiting && !ticks.moved;
                    ticks.moved = false;
                    ticks.next = now + ticks.every;
                }
            }
            Rules::MySql { by_transaction: true, longrun, suspended_until, next_check, .. }
                if *next_check <= now =>
            {
                *next_check = now + *longrun / 2;
                let long = long(*longrun);
                match suspended_until {
                    None if long >= limit => {
                        // clamp(15 x limit, 5 s, 30 s), as in the plugin's source.
                        let pause = (*longrun * 15).clamp(Duration::from_secs(5), Duration::from_secs(30));
                        *suspended_until = Some(now + pause);
                    }
                    Some(until) if long <= limit / 2 && *until <= now => *suspended_until = None,
                    _ => {}
                }
            }
            Rules::MySql { .. } => {}
        }
    }

    /// How many statements of the low queue may be kicked up now.
    pub(super) fn kick_ups(&mut self, now: Instant) -> usize {
        match &mut self.rules {
            Rules::Percona(_) => 0,
            Rules::MariaDb(ticks) if ticks.next > now => 0,
            Rules::MariaDb(_) => usize::MAX,
            Rules::MySql { next_kick_up, .. } if *next_kick_up > now => 0,
            Rules::MySql { next_kick_up, .. } => {
                *next_kick_up = now + MYSQL_CHECK;
                1
            }
        }
    }

    /// The time from which on [`Self::kick_ups`] allows any.
    pub(super) fn next_kick_up(&self) -> Option<Instant> {
        match &self.rules {
            Rules::Percona(_) => None,
            Rules::MariaDb(ticks) => Some(ticks.next),
            Rules::MySql { next_kick_up, .. } => Some(*next_kick_up),
        }
    }

    /// The time at which [`Self::turn`] may do something for statements that wait.
    pub(super) fn next_turn(&self) -> Option<Instant> {
        match &self.rules {
            Rules::Percona(ticks) | Rules::MariaDb(ticks) => Some(ticks.next),
            Rules::MySql { by_transaction, next_check, .. } => by_transaction.then_some(*next_check),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(profile: Profile) -> Settings {
        Settings { max_transactions_limit: 1, ..Settings::default().of_profile(profile, 1) }
    }

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1000)
    }

    #[test]
    fn timers_go_on_when_settings_change() {
        let same = settings(Profile::MySql);
        let mut group = ThreadGroup::new(&same, 1).unwrap();
        let limit = group.limit();
        group.turn(at(1), true, |_| limit);
        assert!(group.may_start(Lane::Low, limit), "the limit is suspended");
        let group = ThreadGroup::changed(Some(&group), &same, 1).unwrap();
        assert!(group.may_start(Lane::Low, limit), "it still is");
        let same = settings(Profile::MariaDb);
        let mut group = ThreadGroup::new(&same, 1).unwrap();
        group.turn(at(1), true, |_| 0);
        group.started();
        let mut group = ThreadGroup::changed(Some(&group), &same, 1).unwrap();
        group.turn(at(2), true, |_| 0);
        assert!(!group.may_start(Lane::Low, group.limit()), "no stall for a change");
        assert!(ThreadGroup::changed(Some(&group), &settings(Profile::Native), 1).is_none());
    }
}
