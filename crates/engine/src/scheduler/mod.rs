//! Which statement runs next.
//!
//! A *permit* is the right to have one statement executing on the server. Statements that find none wait in one of two
//! queues, each first come, first served: the *high* one for statements of open transactions (what is already under way
//! holds locks, so finishing it frees others), the *low* one for the rest. The high queue always goes first; a statement
//! that has waited in the low one for `prio_kickup_timer` moves to the high one, so that nothing starves. A transaction
//! holds no permit between its statements.
//!
//! Within each queue, statements whose client already holds a backend are kept apart from those that still need one: when
//! every backend is held, the former must go on, since only they can free one. Between the two, the earlier goes first.
//!
//! The rules are those of Percona Server's thread pool (`threadpool_unix.cc`: `connection_is_high_prio`, tickets) with
//! MariaDB's kick-up timer, over one pool instead of groups.

mod list;
#[cfg(test)]
mod tests;

use std::time::Duration;

use seam::Instant;

use crate::settings::{HighPrioMode, Settings};
use list::{Head, Lists};

/// Where a statement waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    High,
    Low,
}

/// How a statement's client stands towards backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It holds one, for its transaction or by a pin.
    Holds,
    /// It takes any that fits.
    Any,
}

/// The two queues, and the permits.
pub(crate) struct Scheduler {
    permits: u32,
    running: u32,
    mode: HighPrioMode,
    tickets: u32,
    kick_up: Duration,
    lists: Lists<4>,
    /// Counts entries into queues, so that the heads of two lists can be put in order.
    arrivals: u64,
}

impl Scheduler {
    pub(crate) fn new(settings: &Settings, permits: u32) -> Self {
        assert!(permits > 0, "without a permit nothing would ever run");
        Self {
            permits,
            running: 0,
            mode: settings.high_prio_mode,
            tickets: settings.high_prio_tickets,
            kick_up: settings.prio_kickup_timer,
            lists: Lists::new(),
            arrivals: 0,
        }
    }

    /// How many tickets a client starts with, and gets back whenever it goes to the low queue.
    pub(crate) fn full_tickets(&self) -> u32 {
        self.tickets
    }

    /// The lane of a statement, by mode, transaction and the client's tickets, which are spent or refilled here.
    pub(crate) fn lane(&self, in_transaction: bool, tickets: &mut u32) -> Lane {
        match self.mode {
            HighPrioMode::Statements => Lane::High,
            HighPrioMode::Transactions if in_transaction && *tickets > 0 => {
                // The largest number means no limit, as in Percona Server.
                if *tickets != u32::MAX {
                    *tickets -= 1;
                }
                Lane::High
            }
            HighPrioMode::Transactions | HighPrioMode::None => {
                *tickets = self.tickets;
                Lane::Low
            }
        }
    }

    /// Queues the statement of a client, which must not be waiting yet.
    pub(crate) fn enqueue(&mut self, now: Instant, client: u32, lane: Lane, need: Need) {
        self.arrivals += 1;
        self.lists.push(queue(lane, need), client, self.arrivals, now);
    }

    /// Takes a client's statement out of its queue: the client has gone, or was killed. False where it did not wait.
    pub(crate) fn remove(&mut self, client: u32) -> bool {
        self.lists.remove(client).is_some()
    }

    /// The statement that would run next, without a regard for permits. With `backend_free` false only statements whose
    /// client holds a backend are considered.
    pub(crate) fn peek(&self, backend_free: bool) -> Option<u32> {
        [Lane::High, Lane::Low]
            .into_iter()
            .find_map(|lane| self.first_of(lane, backend_free))
            .map(|head| head.client)
    }

    /// Whether a permit is free.
    pub(crate) fn has_permit(&self) -> bool {
        self.running < self.permits
    }

    /// Takes a statement out of its queue and gives it a permit.
    pub(crate) fn start(&mut self, client: u32) {
        assert!(self.has_permit(), "a statement starts with a permit");
        let waited = self.lists.remove(client);
        debug_assert!(waited.is_some(), "only a waiting statement starts");
        self.running += 1;
    }

    /// Takes a statement out of its queue without a permit: it shares the permit of the backend it is sent to.
    pub(crate) fn start_shared(&mut self, client: u32) {
        let waited = self.lists.remove(client);
        debug_assert!(waited.is_some(), "only a waiting statement starts");
    }

    /// Gives a permit back, at a statement's end or for as long as it needs none.
    pub(crate) fn finish(&mut self) {
        assert!(self.running > 0, "a permit is given back once");
        self.running -= 1;
    }

    /// Takes a permit again for a statement that had lent it (its client was slow to read). Never waits, so that more
    /// statements than permits may run for a moment: a statement in mid-reply cannot be put back into a queue.
    pub(crate) fn resume(&mut self) {
        self.running += 1;
    }

    /// Moves statements that have waited too long in the low queue to the end of the high one.
    pub(crate) fn kick_up(&mut self, now: Instant) {
        for need in [Need::Holds, Need::Any] {
            while let Some(head) = self.lists.head(queue(Lane::Low, need)) {
                if head.after(self.kick_up) > now {
                    break;
                }
                self.lists.remove(head.client);
                self.arrivals += 1;
                self.lists.push(queue(Lane::High, need), head.client, self.arrivals, head.since);
            }
        }
    }

    /// When the next statement is due for [`Self::kick_up`].
    pub(crate) fn next_kick_up(&self) -> Option<Instant> {
        [Need::Holds, Need::Any]
            .into_iter()
            .filter_map(|need| self.lists.head(queue(Lane::Low, need)))
            .map(|head| head.after(self.kick_up))
            .min()
    }

    /// The statement that has waited longest for a backend, and since when.
    pub(crate) fn oldest_in_need(&self) -> Option<(u32, Instant)> {
        [Lane::High, Lane::Low]
            .into_iter()
            .filter_map(|lane| self.lists.head(queue(lane, Need::Any)))
            .min_by_key(|head| head.since)
            .map(|head| (head.client, head.since))
    }

    /// The first so many statements that need a backend, in the order in which they would run.
    pub(crate) fn first_in_need(&self, count: usize) -> Vec<u32> {
        let high = self.lists.first(queue(Lane::High, Need::Any), count);
        high.chain(self.lists.first(queue(Lane::Low, Need::Any), count)).take(count).collect()
    }

    /// Statements waiting for a backend.
    pub(crate) fn in_need(&self) -> usize {
        self.lists.len(queue(Lane::High, Need::Any)) + self.lists.len(queue(Lane::Low, Need::Any))
    }

    /// Statements waiting in all.
    pub(crate) fn waiting(&self) -> usize {
        (0..4).map(|queue| self.lists.len(queue)).sum()
    }

    /// Permits not in use.
    pub(crate) fn free_permits(&self) -> usize {
        self.permits.saturating_sub(self.running) as usize
    }

    /// Permits in use.
    pub(crate) fn running(&self) -> u32 {
        self.running
    }

    /// The earlier of the two heads of a lane.
    fn first_of(&self, lane: Lane, backend_free: bool) -> Option<Head> {
        let holds = self.lists.head(queue(lane, Need::Holds));
        let any = self.lists.head(queue(lane, Need::Any)).filter(|_| backend_free);
        holds.into_iter().chain(any).min_by_key(|head| head.arrival)
    }
}

fn queue(lane: Lane, need: Need) -> usize {
    match (lane, need) {
        (Lane::High, Need::Holds) => 0,
        (Lane::High, Need::Any) => 1,
        (Lane::Low, Need::Holds) => 2,
        (Lane::Low, Need::Any) => 3,
    }
}
