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
//! A third queue, the *long* one, is for statements whose like has been long lately, outside of transactions: some of the
//! permits are all that they may have at a time, so that they never take those of the short ones. Where one may start, it
//! stands in the low queue, so to say, at the place of its arrival; after `prio_kickup_timer` in the high one.
//!
//! Permits, and the order in which statements came, are common to all workers of a pool ([`Workers`]); the queues are not.
//!
//! The rules are those of Percona Server's thread pool (`threadpool_unix.cc`: `connection_is_high_prio`, tickets) with
//! MariaDB's kick-up timer, over one pool instead of groups.

mod list;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use seam::Instant;

use crate::client::priority::Priority;
use crate::settings::{HighPrioMode, Settings};
use crate::workers::{Place, Workers};
use list::{Head, Lists};

/// Where a statement waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    High,
    Low,
    /// Of statements whose like has been long.
    Long,
}

/// How a statement's client stands towards backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It holds one, for its transaction or by a pin.
    Holds,
    /// It takes any that fits.
    Any,
}

/// The queues of a worker, and its permits.
pub(crate) struct Scheduler {
    workers: Arc<Workers>,
    /// Which of them this is.
    worker: usize,
    /// Permits that this worker holds.
    running: u32,
    mode: HighPrioMode,
    tickets: u32,
    kick_up: Duration,
    /// As of [`Self::kick_up`], once per turn.
    now: Instant,
    lists: Lists<QUEUES>,
    /// Statements that have moved to the high queue.
    pub(crate) kick_ups: u64,
}

/// A queue for each lane and need.
const QUEUES: usize = 6;

impl Scheduler {
    pub(crate) fn new(settings: &Settings, workers: Arc<Workers>, worker: usize) -> Self {
        Self {
            workers,
            worker,
            running: 0,
            mode: settings.high_prio_mode,
            tickets: settings.high_prio_tickets,
            kick_up: settings.prio_kickup_timer,
            now: Instant::START,
            lists: Lists::new(),
            kick_ups: 0,
        }
    }

    /// Takes up other rules for the queues. Statements that wait keep their places.
    pub(crate) fn change_settings(&mut self, settings: &Settings) {
        self.mode = settings.high_prio_mode;
        self.tickets = settings.high_prio_tickets;
        self.kick_up = settings.prio_kickup_timer;
    }

    /// How many tickets a client starts with, and gets back whenever it goes to the low queue.
    pub(crate) fn full_tickets(&self) -> u32 {
        self.tickets
    }

    /// The lane of a statement, by what its client has set, mode, transaction and the client's tickets, which are spent or
    /// refilled here.
    pub(crate) fn lane(&self, in_transaction: bool, priority: Priority, tickets: &mut u32) -> Lane {
        if let Some(lane) = priority.lane() {
            return lane;
        }
        match priority.mode(self.mode) {
            HighPrioMode::Statements => Lane::High,
            HighPrioMode::Transactions if in_transaction && *tickets > 0 => {
                // The largest number means no limit, as in Percona Server.
                if *tickets != u32::MAX {
                    *tickets -= 1;
                }
                Lane::High
            }
            HighPrioMode::Transactions | HighPrioMode::None => {
                *tickets = priority.tickets(self.tickets);
                Lane::Low
            }
        }
    }

    /// Queues the statement of a client, which must not be waiting yet.
    pub(crate) fn enqueue(&mut self, now: Instant, client: u32, lane: Lane, need: Need) {
        self.lists.push(queue(lane, need), client, self.workers.arrival(), now);
    }

    /// Tells them that none of this one will start for now.
    pub(crate) fn want_no_long(&self) {
        self.workers.want_long(self.worker, None);
    }

    /// The long statement that waits for others of its kind to end, if one does.
    pub(crate) fn peek_long(&self) -> Option<u32> {
        let head = self.first_of(Lane::Long, true).filter(|_| !self.may_start(Lane::Long));
        head.map(|head| head.client)
    }

    /// Moves a waiting statement to the end of another lane; it keeps its place in the order of all arrivals.
    pub(crate) fn change_lane(&mut self, client: u32, lane: Lane) {
        let Some((queue, head)) = self.lists.remove(client) else { return };
        let need = if queue % 2 == 0 { Need::Holds } else { Need::Any };
        self.lists.push(self::queue(lane, need), client, head.arrival, head.since);
    }

    /// Takes a client's statement out of its queue: the client has gone, or was killed. False where it did not wait.
    pub(crate) fn remove(&mut self, client: u32) -> bool {
        self.lists.remove(client).is_some()
    }

    /// The statement that would run next, without a regard for permits. With `backend_free` false only statements whose
    /// client holds a backend are considered.
    pub(crate) fn peek(&self, backend_free: bool) -> Option<u32> {
        let heads = [Lane::High, Lane::Low, Lane::Long].into_iter().filter(|&lane| self.may_start(lane));
        let heads = heads.filter_map(|lane| {
            self.first_of(lane, backend_free).map(|head| (self.place_in(lane, head), head.client))
        });
        heads.min().map(|(_, client)| client)
    }

    /// Whether a permit is free for a waiting statement.
    pub(crate) fn has_permit(&self, client: u32) -> bool {
        self.place(client).is_some_and(|place| self.workers.has_permit(self.worker, place))
    }

    /// Takes a permit for a waiting statement, if one is free for it. [`Self::start`] or [`Self::finish`] comes next.
    pub(crate) fn take_permit(&mut self, client: u32) -> bool {
        let taken = match self.standing(client) {
            Some((Lane::Long, place)) => self.workers.take_long_permit(self.worker, place),
            Some((_, place)) => self.workers.take_permit(self.worker, place),
            None => false,
        };
        self.running += u32::from(taken);
        taken
    }

    /// Gives back what [`Self::take_permit`] took for a statement that goes on waiting.
    pub(crate) fn put_back(&mut self, client: u32) {
        self.finish();
        if matches!(self.standing(client), Some((Lane::Long, _))) {
            self.finish_long();
        }
    }

    /// Whether a waiting statement has to wait for another long one to end, whatever permits are free.
    pub(crate) fn waits_for_long(&self, client: u32) -> bool {
        matches!(self.standing(client), Some((Lane::Long, _))) && !self.may_start(Lane::Long)
    }

    /// Takes a statement out of its queue: it has a permit, its own or that of the backend it is sent to. True for a long
    /// one, at whose end [`Self::finish_long`] is due.
    pub(crate) fn start(&mut self, client: u32) -> bool {
        let waited = self.lists.remove(client);
        debug_assert!(waited.is_some(), "only a waiting statement starts");
        waited.is_some_and(|(queue, _)| lane_of(queue) == Lane::Long)
    }

    /// A long statement has ended.
    pub(crate) fn finish_long(&mut self) {
        self.workers.give_long_permit();
    }

    /// Gives a permit back, at a statement's end or for as long as it needs none.
    pub(crate) fn finish(&mut self) {
        assert!(self.running > 0, "a permit is given back once");
        self.running -= 1;
        self.workers.give_permit();
    }

    /// Takes a permit again for a statement that had lent it (its client was slow to read). Never waits, so that more
    /// statements than permits may run for a moment: a statement in mid-reply cannot be put back into a queue.
    pub(crate) fn resume(&mut self) {
        self.running += 1;
        self.workers.force_permit();
    }

    /// Tells the other workers which statement of this one waits for nothing but a permit, if any.
    pub(crate) fn want(&self, client: Option<u32>) {
        self.workers.want(self.worker, client.and_then(|client| self.place(client)));
    }

    /// Tells them which is the first long statement of this one, if any may start once another has ended.
    pub(crate) fn want_long(&self, backend_free: bool) {
        let head = self.first_of(Lane::Long, backend_free);
        self.workers.want_long(self.worker, head.map(|head| self.place_in(Lane::Long, head)));
    }

    /// Whether statements wait, here or with another worker, while no permit is free.
    pub(crate) fn is_short_of_permits(&self) -> bool {
        (self.peek(true).is_some() || self.workers.others_want(self.worker))
            && self.workers.free_permits() == 0
    }

    /// Moves statements that have waited too long in the low queue to the end of the high one.
    pub(crate) fn kick_up(&mut self, now: Instant) {
        self.now = now;
        for need in [Need::Holds, Need::Any] {
            while let Some(head) = self.lists.head(queue(Lane::Low, need)) {
                if head.after(self.kick_up) > now {
                    break;
                }
                self.lists.remove(head.client);
                self.kick_ups += 1;
                let arrival = self.workers.arrival();
                self.lists.push(queue(Lane::High, need), head.client, arrival, head.since);
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
        [Lane::High, Lane::Low, Lane::Long]
            .into_iter()
            .filter(|&lane| self.may_start(lane))
            .filter_map(|lane| self.lists.head(queue(lane, Need::Any)))
            .min_by_key(|head| head.since)
            .map(|head| (head.client, head.since))
    }

    /// The first so many statements that need a backend, in about the order in which they would run.
    pub(crate) fn first_in_need(&self, count: usize) -> Vec<u32> {
        let high = self.lists.first(queue(Lane::High, Need::Any), count);
        let low = self.lists.first(queue(Lane::Low, Need::Any), count);
        let long = self.lists.first(queue(Lane::Long, Need::Any), self.free_long_permits());
        high.chain(low).chain(long).take(count).collect()
    }

    /// Statements waiting for a backend. Long ones that may not start wait for others of their kind.
    pub(crate) fn in_need(&self) -> usize {
        let long = self.lists.len(queue(Lane::Long, Need::Any)).min(self.free_long_permits());
        self.lists.len(queue(Lane::High, Need::Any)) + self.lists.len(queue(Lane::Low, Need::Any)) + long
    }

    /// Statements waiting in all.
    pub(crate) fn waiting(&self) -> usize {
        (0..QUEUES).map(|queue| self.lists.len(queue)).sum()
    }

    /// Statements waiting in each lane.
    pub(crate) fn waiting_by_lane(&self) -> [(Lane, usize); 3] {
        let both = |lane| [Need::Holds, Need::Any].map(|need| self.lists.len(queue(lane, need))).iter().sum();
        [Lane::High, Lane::Low, Lane::Long].map(|lane| (lane, both(lane)))
    }

    /// Permits not in use by any worker.
    pub(crate) fn free_permits(&self) -> usize {
        self.workers.free_permits() as usize
    }

    /// Permits in use by this worker.
    pub(crate) fn running(&self) -> u32 {
        self.running
    }

    /// What each client costs here, waiting or not.
    #[cfg(test)]
    pub(crate) const BYTES_PER_CLIENT: usize = Lists::<QUEUES>::BYTES_PER_CLIENT;

    /// Bytes of the queues' table.
    pub(crate) fn table_bytes(&self) -> usize {
        self.lists.bytes()
    }

    /// Where a waiting statement stands among those of all workers.
    fn place(&self, client: u32) -> Option<Place> {
        self.standing(client).map(|(_, place)| place)
    }

    /// The lane of a waiting statement, and its place.
    fn standing(&self, client: u32) -> Option<(Lane, Place)> {
        let (queue, head) = self.lists.place(client)?;
        Some((lane_of(queue), self.place_in(lane_of(queue), head)))
    }

    fn place_in(&self, lane: Lane, head: Head) -> Place {
        match lane {
            Lane::High => Place::high(head.arrival),
            Lane::Long if head.after(self.kick_up) <= self.now => Place::high(head.arrival),
            Lane::Low | Lane::Long => Place::low(head.arrival),
        }
    }

    /// Whether statements of a lane may start, given permits and backends.
    fn may_start(&self, lane: Lane) -> bool {
        lane != Lane::Long
            || self
                .first_of(lane, true)
                .is_some_and(|head| self.workers.has_long_permit(self.worker, self.place_in(lane, head)))
    }

    fn free_long_permits(&self) -> usize {
        self.workers.free_long_permits() as usize
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
        (Lane::Long, Need::Holds) => 4,
        (Lane::Long, Need::Any) => 5,
    }
}

fn lane_of(queue: usize) -> Lane {
    [Lane::High, Lane::Low, Lane::Long][queue / 2]
}
