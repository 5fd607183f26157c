//! Which statement runs next.
//!
//! A *permit* is the right to have one statement executing on the server. Statements that find none wait in queues, of which
//! an earlier one always goes first:
//!
//! 1. *blocking*: of clients that hold locks others wait for. They always find a permit.
//! 2. *holding*: of clients that have changed or locked something in their open transaction, or hold a lock beyond it.
//!    Some permits are kept for them.
//! 3. *high*: of other open transactions. What is under way keeps others out, so finishing it comes first.
//! 4. *low*: the rest. What has waited here for `prio_kickup_timer` moves to the high one, and what has waited for so long
//!    there goes before every fourth of the holding one: so nothing starves, however many hold locks, and for however long.
//!
//! In the first three the transaction that began first goes first. In the last the first to come goes first, unless clients hang
//! up on what waits there ([`order`]). A transaction holds no permit between its statements.
//!
//! Within each queue, statements of clients that hold a backend are kept apart from those that still need one: when every
//! backend is held, the former must go on, since only they can free one. Between the two, the earlier goes first.
//!
//! Another queue, the *long* one, is for statements of kinds that have been long lately, outside of transactions. They may
//! have only some of the permits at a time, so that they never take those of the short ones. A long statement that may start
//! stands in the low queue, so to say, at the place of its arrival; after `prio_kickup_timer` in the high one. A long
//! statement that needs no permit may start out of turn ([`crate::backend::scheduling::long`]).
//!
//! Statements of kinds that wait for locks at present have a lane as well, which knows no permits ([`crate::backend::scheduling::contended`]).
//!
//! Permits, and the order in which statements came, are common to all workers of a pool ([`Workers`]); the queues are not.
//!
//! The high and the low queue are those of Percona Server's thread pool (`threadpool_unix.cc`: `connection_is_high_prio`,
//! tickets) with MariaDB's kick-up timer, over one pool instead of groups. In the profiles of the servers' pools there are
//! only these two, and a worker is a group ([`group::ThreadGroup`]).

mod bounds;
pub(crate) mod frozen;
mod group;
pub(crate) mod lane;
mod list;
mod need;
mod next_new;
pub(crate) mod order;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use seam::Instant;

use crate::client::session::priority::Priority;
use crate::ids::ClientKey;
use crate::scheduling::learned::long_permits::Allowed;
use crate::settings::{HighPrioMode, PoolPriority, Settings};
use crate::workers::place::QueuePlace;
use crate::workers::{Extra, Workers};
use group::ThreadGroup;
use lane::{LANES, Lane, Standing};
use list::{Head, Lists};
use order::Order;

/// The right by which a statement starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// A permit.
    Permit,
    /// A place among the long ones, and a permit or none.
    Long(Allowed),
    /// A place among those that wait for locks, without a permit.
    Contended,
}

/// How a statement's client stands towards backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The client holds a backend, for its transaction or by a pin.
    Holds,
    /// The statement takes any backend that fits.
    Any,
}

/// The queues of a worker, and its permits.
pub(crate) struct Scheduler {
    workers: Arc<Workers>,
    /// The number of this worker among them.
    worker: usize,
    /// Permits that this worker holds.
    running: u32,
    /// The part of these that the worker leaves to others, in parts of [`crate::scheduling::learned::waiting::WHOLE`].
    spared: u32,
    mode: HighPrioMode,
    priority: PoolPriority,
    high_connection: bool,
    tickets: u32,
    kick_up: Duration,
    /// The time as of [`Self::kick_up`], once per turn.
    now: Instant,
    /// Statements of the holding queue that have started one after the other.
    holders_in_a_row: u32,
    /// The rules of a server's own pool, in its profile.
    group: Option<ThreadGroup>,
    adaptive_lifo: bool,
    /// True where the order of new work is decided in front of the queues.
    order_held: bool,
    orders: [Order; order::ORDERS],
    lists: Lists<QUEUES>,
    /// How many statements of contended kinds may still be in work.
    contended_room: usize,
    /// Statements that have moved to the high queue.
    pub(crate) kick_ups: u64,
    /// Statements that have started before older ones of their queue.
    pub(crate) newest_starts: u64,
}

/// After so many starts of the holding queue one goes to a statement that has waited too long, if there is one: three quarters
/// of the server are still for who holds locks.
const HOLDERS_IN_A_ROW: u32 = 3;

/// A queue for each lane and need.
const QUEUES: usize = 2 * LANES.len();

impl Scheduler {
    pub(crate) fn new(settings: &Settings, workers: Arc<Workers>, worker: usize) -> Self {
        Self {
            holders_in_a_row: 0,
            group: ThreadGroup::new(settings, workers.count()),
            adaptive_lifo: settings.newest_may_go_first(),
            order_held: false,
            orders: Default::default(),
            workers,
            worker,
            running: 0,
            spared: 0,
            mode: settings.high_prio_mode,
            priority: settings.priority,
            high_connection: settings.high_priority_connection,
            tickets: settings.high_prio_tickets,
            kick_up: settings.prio_kickup_timer,
            now: Instant::START,
            lists: Lists::new(),
            contended_room: 0,
            kick_ups: 0,
            newest_starts: 0,
        }
    }

    /// Takes up other rules for the queues. Statements that wait keep their places.
    pub(crate) fn change_settings(&mut self, settings: &Settings) {
        self.mode = settings.high_prio_mode;
        self.priority = settings.priority;
        self.high_connection = settings.high_priority_connection;
        self.tickets = settings.high_prio_tickets;
        self.kick_up = settings.prio_kickup_timer;
        self.group = ThreadGroup::changed(self.group.as_ref(), settings, self.workers.count());
        self.adaptive_lifo = settings.newest_may_go_first();
    }

    /// How many tickets a client starts with, and gets back whenever it goes to the low queue.
    pub(crate) fn full_tickets(&self) -> u32 {
        self.tickets
    }

    /// Says whether the rules are Onramp's own.
    pub(crate) fn is_native(&self) -> bool {
        self.group.is_none()
    }

    /// The lane of a statement, by what its client has set, mode, what it holds, and its tickets, which are spent or refilled
    /// here.
    pub(crate) fn lane(&self, standing: Standing, priority: Priority, tickets: &mut u32) -> Lane {
        if let Some(lane) = priority.lane(self.priority, self.high_connection) {
            return lane;
        }
        match priority.mode(self.mode) {
            HighPrioMode::Statements => Lane::High,
            HighPrioMode::Transactions if standing.holds_something() && *tickets > 0 => {
                // The largest number means no limit, as in Percona Server.
                if *tickets != u32::MAX {
                    *tickets -= 1;
                }
                match standing {
                    _ if self.group.is_some() => Lane::High,
                    Standing { blocks_others: true, .. } => Lane::Blocking,
                    Standing { holds_locks: true, .. } => Lane::Holding,
                    _ => Lane::High,
                }
            }
            HighPrioMode::Transactions | HighPrioMode::None => {
                *tickets = priority.tickets(self.tickets);
                Lane::Low
            }
        }
    }

    /// Queues the statement of a client, which must not be waiting yet.
    pub(crate) fn enqueue(
        &mut self,
        now: Instant,
        client: ClientKey,
        lane: Lane,
        need: Need,
        standing: Standing,
    ) {
        let by_age = self.group.is_none()
            && matches!(lane, Lane::Blocking | Lane::Holding | Lane::High | Lane::Contended);
        // One that comes again, where the newest goes first, is as good as new.
        let again = need == Need::Any && self.is_newest_first(lane);
        // What holds nothing begins with this statement.
        let order = if (by_age || !standing.holds_something()) && !again {
            standing.began
        } else {
            self.workers.arrival()
        };
        self.lists.push(queue(lane, need), client, order, now);
    }

    /// Returns the lane in which a client's statement waits, if one does.
    pub(crate) fn waits_in(&self, client: ClientKey) -> Option<Lane> {
        self.lists.place(client).map(|(queue, _)| lane_of(queue))
    }

    /// The next place in the order of all arrivals.
    pub(crate) fn arrival(&self) -> u64 {
        self.workers.arrival()
    }

    /// Lets a client go first, since others wait for what it holds: its statement, if one waits, goes before all others.
    pub(crate) fn goes_first(&mut self, client: ClientKey) {
        let Some((from, _)) = self.lists.place(client) else { return };
        if matches!(lane_of(from), Lane::Holding | Lane::High | Lane::KickedUp | Lane::Contended) {
            self.change_lane(client, Lane::Blocking);
        }
    }

    /// Tells them that none of this one will start for now.
    pub(crate) fn want_no_long(&self) {
        self.workers.want_long(self.worker, None, false);
    }

    /// The long statement that waits for others of its kind to end, if one does.
    pub(crate) fn peek_long(&self) -> Option<ClientKey> {
        let first = self.first_of(Lane::Long, true).filter(|_| !self.may_start(Lane::Long));
        first.map(|(_, client)| client)
    }

    /// The first long statement, whether or not it may start.
    pub(crate) fn first_long(&self, backend_free: bool) -> Option<ClientKey> {
        self.first_of(Lane::Long, backend_free).map(|(_, client)| client)
    }

    /// The same, where it may start without a permit.
    pub(crate) fn peek_beyond(&self, backend_free: bool) -> Option<ClientKey> {
        let (head, client) = self.first_of(Lane::Long, backend_free)?;
        self.workers.may_start_beyond(self.worker, self.place_in(Lane::Long, head)).then_some(client)
    }

    /// Lets it start, unless another worker has been faster.
    pub(crate) fn take_beyond(&mut self, client: ClientKey) -> Option<Grant> {
        let (_, place) = self.standing(client)?;
        self.workers.take_beyond(self.worker, place).then_some(Grant::Long(Allowed::Beyond))
    }

    /// The first statement of a contended kind, whether or not one more may be in work.
    pub(crate) fn peek_contended(&self, backend_free: bool) -> Option<ClientKey> {
        self.first_of(Lane::Contended, backend_free).map(|(_, client)| client)
    }

    /// Statements of contended kinds that wait, those that hold a backend first.
    pub(crate) fn contended(&self) -> Vec<ClientKey> {
        let of = |need| self.lists.first(queue(Lane::Contended, need), usize::MAX);
        [Need::Holds, Need::Any].into_iter().flat_map(of).collect()
    }

    /// How many of them may still be in work: so many may wait for backends.
    pub(crate) fn note_contended_room(&mut self, room: usize) {
        self.contended_room = room;
    }

    /// Moves a waiting statement to another lane; it keeps its place in the order of all arrivals.
    pub(crate) fn change_lane(&mut self, client: ClientKey, lane: Lane) {
        let Some((queue, head)) = self.lists.remove(client) else { return };
        self.lists.push(self::queue(lane, need_of(queue)), client, head.arrival, head.since);
    }

    /// Takes a client's statement out of its queue: the client has gone, or was killed. Returns false where it did not wait.
    pub(crate) fn remove(&mut self, client: ClientKey) -> bool {
        self.lists.remove(client).is_some()
    }

    /// Returns the statement that would run next, without a regard for permits. With `backend_free` false only statements of
    /// clients that hold a backend are considered.
    pub(crate) fn peek(&self, backend_free: bool) -> Option<ClientKey> {
        // It is asked several times a turn, and mostly nothing waits any more.
        if self.lists.is_empty() {
            return None;
        }
        let heads = LANES.into_iter().filter(|&lane| self.may_start(lane));
        let heads = heads.filter_map(|lane| {
            self.first_of(lane, backend_free).map(|(head, client)| (self.place_in(lane, head), client))
        });
        let (place, first) = heads.min()?;
        let holds = place.is_holding() && self.holders_in_a_row >= HOLDERS_IN_A_ROW;
        Some(if holds { self.overdue(backend_free).unwrap_or(first) } else { first })
    }

    /// Returns the statement that would run next if it were not the turn of one that has waited too long.
    pub(crate) fn passed_over(&self) -> Option<ClientKey> {
        let (_, client) = self.first_of(Lane::Holding, true)?;
        (self.holders_in_a_row >= HOLDERS_IN_A_ROW).then_some(client)
    }

    /// The first of the high queue, where it has waited too long, or of the long ones.
    fn overdue(&self, backend_free: bool) -> Option<ClientKey> {
        let lanes = [Lane::High, Lane::KickedUp, Lane::Long].into_iter().filter(|&lane| self.may_start(lane));
        let firsts = lanes.filter_map(|lane| self.first_of(lane, backend_free));
        let (head, client) = firsts.min_by_key(|(head, _)| head.arrival)?;
        self.is_overdue(&head).then_some(client)
    }

    /// Says whether a permit is free for a waiting statement.
    pub(crate) fn has_permit(&self, client: ClientKey) -> bool {
        let Some((lane, place)) = self.standing(client) else { return false };
        match &self.group {
            Some(group) => group.may_start(lane, self.running),
            None => self.workers.has_permit(self.worker, place, extra(lane)),
        }
    }

    /// Takes a permit for a waiting statement, if one is free for it. [`Self::start`] or [`Self::put_back`] comes next.
    pub(crate) fn take_permit(&mut self, client: ClientKey) -> Option<Grant> {
        let (lane, place) = self.standing(client)?;
        let grant = match (&self.group, lane) {
            (Some(group), _) => group.may_start(lane, self.running).then(|| {
                self.workers.force_permit();
                Grant::Permit
            }),
            (None, Lane::Long) => self.workers.take_long_permit(self.worker, place).map(Grant::Long),
            (None, _) => self.workers.take_permit(self.worker, place, extra(lane)).then_some(Grant::Permit),
        }?;
        self.running += u32::from(grant.has_permit());
        Some(grant)
    }

    /// Gives back what [`Self::take_permit`] took for a statement that goes on waiting.
    pub(crate) fn put_back(&mut self, grant: Grant) {
        if grant.has_permit() {
            self.finish(0);
        }
        if let Some(allowed) = grant.long() {
            self.finish_long(allowed);
        }
    }

    /// Says whether a waiting statement has to wait for another long one to end, even if permits are free.
    pub(crate) fn waits_for_long(&self, client: ClientKey) -> bool {
        matches!(self.standing(client), Some((Lane::Long, _))) && !self.may_start(Lane::Long)
    }

    /// Takes a statement out of its queue: it has a permit, its own or that of the backend it is sent to, or needs none. A
    /// start that is not `in_turn`, since it needs no permit, does not count for the turns.
    pub(crate) fn start(&mut self, client: ClientKey, in_turn: bool) {
        let waited = self.lists.remove(client);
        debug_assert!(waited.is_some(), "only a waiting statement starts");
        let holding = waited.is_some_and(|(queue, _)| lane_of(queue) == Lane::Holding);
        if in_turn {
            self.holders_in_a_row = if holding { self.holders_in_a_row + 1 } else { 0 };
        }
        if let Some((queue, head)) = waited {
            self.note_start(lane_of(queue), need_of(queue), head);
        }
        if let Some(group) = &mut self.group {
            group.started();
        }
    }

    /// A long statement has ended, which had started by this right.
    pub(crate) fn finish_long(&mut self, allowed: Allowed) {
        self.workers.give_long_permit(allowed);
    }

    /// A statement that has just taken a permit leaves a part of it to others, see [`crate::scheduling::learned::waiting`]: which [`Self::finish`] is to be
    /// told.
    pub(crate) fn spare(&mut self, part: u32) {
        self.spared += part;
        self.workers.spare(part);
    }

    /// Gives a permit back, at a statement's end or for as long as it needs none; of which so much had been left to others.
    pub(crate) fn finish(&mut self, spared: u32) {
        assert!(self.running > 0, "a permit is given back once");
        self.running -= 1;
        self.spared -= spared;
        self.workers.give_permit(spared);
    }

    /// Takes a permit again for a statement that had lent it (its client was slow to read). Never waits, so that more
    /// statements than permits may run for a moment: a statement in mid-reply cannot be put back into a queue.
    pub(crate) fn resume(&mut self) {
        self.running += 1;
        self.workers.force_permit();
    }

    /// Tells the other workers which statement of this one waits for nothing but a permit, if any.
    pub(crate) fn want(&self, client: Option<ClientKey>) {
        let place = client.filter(|_| self.group.is_none()).and_then(|client| self.place(client));
        self.workers.want(self.worker, place);
    }

    /// Tells them which is the first long statement of this one, if any may start once another has ended, and whether it could do so
    /// without a permit.
    pub(crate) fn want_long(&self, backend_free: bool, without_permit: bool) {
        let first = self.first_of(Lane::Long, backend_free);
        let place = first.map(|(head, _)| self.place_in(Lane::Long, head));
        self.workers.want_long(self.worker, place, without_permit && place.is_some());
    }

    /// Says whether statements wait, here or with another worker, while no permit is free.
    pub(crate) fn is_short_of_permits(&self) -> bool {
        (self.peek(true).is_some() || self.workers.others_want(self.worker)) && self.free_permits() == 0
    }

    /// Moves statements that have waited too long in the low queue to the end of the high one.
    pub(crate) fn kick_up(&mut self, now: Instant) {
        self.now = now;
        let mut allowed = self.group.as_mut().map_or(usize::MAX, |group| group.kick_ups(now));
        for need in [Need::Holds, Need::Any] {
            while let Some(head) = self.lists.head(queue(Lane::Low, need)) {
                if head.after(self.kick_up) > now || allowed == 0 {
                    break;
                }
                allowed -= 1;
                self.lists.remove(head.client);
                self.kick_ups += 1;
                let arrival = self.workers.arrival();
                let native = self.group.is_none() && need == Need::Any;
                let to = if native { Lane::KickedUp } else { Lane::High };
                self.lists.push(queue(to, need), head.client, arrival, head.since);
            }
        }
    }

    /// The time at which the next statement is due for [`Self::kick_up`].
    pub(crate) fn next_kick_up(&self) -> Option<Instant> {
        let from = match &self.group {
            Some(group) => group.next_kick_up()?,
            None => Instant::START,
        };
        [Need::Holds, Need::Any]
            .into_iter()
            .filter_map(|need| self.lists.head(queue(Lane::Low, need)))
            .map(|head| head.after(self.kick_up).max(from))
            .min()
    }

    /// Lets the timers of a server's own pool look, in its profile. `long` counts the permits that have been held for longer
    /// than it is told.
    pub(crate) fn group_turn(&mut self, long: impl FnOnce(Duration) -> u32) {
        let (now, waiting) = (self.now, self.waiting() > 0);
        if let Some(group) = &mut self.group {
            group.turn(now, waiting, long);
        }
    }

    /// The time at which [`Self::group_turn`] is due.
    pub(crate) fn next_group_turn(&self) -> Option<Instant> {
        self.group.as_ref().filter(|_| self.waiting() > 0)?.next_turn()
    }

    /// Says whether an open transaction keeps its permit between its statements.
    pub(crate) fn keeps_permits(&self) -> bool {
        self.group.as_ref().is_some_and(ThreadGroup::keeps_permits)
    }

    /// Says whether a statement that has stalled lends its permit.
    pub(crate) fn lends_stalled(&self) -> bool {
        self.group.as_ref().is_none_or(ThreadGroup::lends_stalled)
    }

    /// Statements waiting in all.
    pub(crate) fn waiting(&self) -> usize {
        (0..QUEUES).map(|queue| self.lists.len(queue)).sum()
    }

    /// Statements waiting in each lane.
    pub(crate) fn waiting_by_lane(&self) -> [(Lane, usize); LANES.len()] {
        let both = |lane| [Need::Holds, Need::Any].map(|need| self.lists.len(queue(lane, need))).iter().sum();
        LANES.map(|lane| (lane, both(lane)))
    }

    /// For each lane where statements wait, the time since which the longest-waiting one has waited.
    pub(crate) fn oldest_by_lane(&self) -> impl Iterator<Item = (Lane, Instant)> {
        let of = move |lane| {
            let heads = [Need::Holds, Need::Any]
                .into_iter()
                .filter_map(move |need| self.lists.head(queue(lane, need)));
            heads.map(|head| head.since).min().map(|since| (lane, since))
        };
        LANES.into_iter().filter_map(of)
    }

    /// Permits not in use: by any worker, or by this one where it is a group.
    pub(crate) fn free_permits(&self) -> usize {
        match &self.group {
            Some(group) => group.limit().saturating_sub(self.running) as usize,
            None => self.workers.free_permits() as usize,
        }
    }

    /// Permits in use by this worker.
    pub(crate) fn running(&self) -> u32 {
        self.running
    }

    /// The part of these that the worker leaves to others, in parts of [`crate::scheduling::learned::waiting::WHOLE`].
    pub(crate) fn spared(&self) -> u32 {
        self.spared
    }

    /// The memory that each client costs here, waiting or not.
    #[cfg(test)]
    pub(crate) const BYTES_PER_CLIENT: usize = Lists::<QUEUES>::BYTES_PER_CLIENT;

    /// Bytes of the queues' table.
    pub(crate) fn table_bytes(&self) -> usize {
        self.lists.bytes()
    }

    /// The place of a waiting statement among those of all workers.
    fn place(&self, client: ClientKey) -> Option<QueuePlace> {
        self.standing(client).map(|(_, place)| place)
    }

    /// The lane of a waiting statement, and its place.
    fn standing(&self, client: ClientKey) -> Option<(Lane, QueuePlace)> {
        let (queue, head) = self.lists.place(client)?;
        let lane = lane_of(queue);
        Some((lane, self.place_in(lane, self.stands_for(lane, need_of(queue), head))))
    }

    fn place_in(&self, lane: Lane, head: Head) -> QueuePlace {
        match lane {
            Lane::Blocking => QueuePlace::blocking(head.arrival),
            Lane::Holding => QueuePlace::resource_change(head.arrival),
            Lane::KickedUp if self.kicked_up_is_last() => QueuePlace::LAST,
            Lane::High | Lane::KickedUp => QueuePlace::high(head.arrival),
            Lane::Long if self.is_overdue(&head) => QueuePlace::high(head.arrival),
            Lane::Low | Lane::Long | Lane::Contended => QueuePlace::low(head.arrival),
        }
    }

    pub(crate) fn free_long_permits(&self) -> usize {
        self.workers.free_long_permits() as usize
    }
}

impl Grant {
    pub(crate) fn has_permit(self) -> bool {
        !matches!(self, Self::Long(Allowed::Beyond) | Self::Contended)
    }

    /// The right of a long statement, which [`Scheduler::finish_long`] is told at its end.
    pub(crate) fn long(self) -> Option<Allowed> {
        match self {
            Self::Long(allowed) => Some(allowed),
            Self::Permit | Self::Contended => None,
        }
    }
}

impl Standing {
    /// Says whether the client holds something that puts its statement into the high queue. Percona's pool counts LOCK TABLES,
    /// GET_LOCK and their like as well.
    fn holds_something(self) -> bool {
        self.in_transaction || self.holds_locks || self.blocks_others
    }
}

/// The permits that a lane may take beyond the usual ones.
fn extra(lane: Lane) -> Extra {
    match lane {
        Lane::Blocking => Extra::Any,
        Lane::Holding => Extra::Kept,
        Lane::High | Lane::KickedUp | Lane::Low | Lane::Long | Lane::Contended => Extra::None,
    }
}

fn queue(lane: Lane, need: Need) -> usize {
    2 * lane as usize + need as usize
}

fn need_of(queue: usize) -> Need {
    [Need::Holds, Need::Any][queue % 2]
}

fn lane_of(queue: usize) -> Lane {
    LANES[queue / 2]
}
