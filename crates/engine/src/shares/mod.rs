//! Shares of the server by user, schema and client address.
//!
//! In front of the scheduler's queues, new work waits in a queue for each user (and schema and address, where something
//! depends on them), and another one for what belongs to the long lane. From there it goes to the scheduler, never more at a time
//! than the worker's part of the permits, and of the long lane what may start, so that the order is decided as late as it can be; but
//! one of each queue, so that nobody waits for another user's backend:
//!
//! - *limits* ([`SharesSettings::user_permits`] and its like): a user, schema or address with as many statements under way as
//!   it may have waits until one of them has ended;
//! - *fair shares* ([`SharesSettings::fair_share`]): among the others, the user or schema goes first whose statements have had
//!   the least of the server's time by their weight. A statement is charged its user's average when it goes, and its real time
//!   when it has ended. A user who has been away begins where the others are, as in start-time fair queueing (P. Goyal and
//!   others, SIGCOMM 1996).
//!
//! Within a queue the oldest goes first, or, while its clients hang up on what waits there, the newest
//! ([`crate::scheduler::Order`]): one user's impatience does not turn the others' queues round.
//!
//! Only new work waits here. Statements of open transactions and of pinned clients go on at once, but count, and are charged.
//! Each worker does this for its own clients: of a limit it has an even share, rounded up. By default there are no limits, and
//! shares only where few crowd out many or many few ([`crowding`]); without them nothing of it costs anything.

mod ages;
mod backends;
mod crowding;
mod gates;
mod line;
mod named_numbers;
mod queue;
mod table;
#[cfg(test)]
mod tests;

pub use named_numbers::{NamedNumbers, NoNamedNumber, named_parts};
pub(crate) use queue::{Parked, Room, Turn};
pub(crate) use table::{Flow, Shares};

use std::time::Duration;

use seam::{Instant, Peer};

use crate::client::delay::Delayed;
use crate::engine::Engine;
use crate::ids::ClientKey;
use crate::scheduler::{Class, Lane, Need, Standing};
use crate::scheduling::Scheduling;
use crate::settings::Settings;

settings! {
    /// Who gets how much of the server.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SharesSettings / SharesChange {
        /// Between whom the server's time is shared out evenly.
        pub fair_share: FairShare = FairShare::Crowding, live;
        /// Weights of users or schemas; 1 where there is none.
        pub fair_weights: NamedNumbers = NamedNumbers::default(), live;
        /// Statements that a user may have under way.
        pub user_permits: NamedNumbers = NamedNumbers::default(), live;
        /// Those on a schema.
        pub schema_permits: NamedNumbers = NamedNumbers::default(), live;
        /// Those from a client address.
        pub address_permits: NamedNumbers = NamedNumbers::default(), live;
    }
}

/// The parties that the server's time is shared out between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FairShare {
    /// Nobody: who comes first goes first.
    #[default]
    Off,
    /// Users, by their names, while a user is crowded out by others.
    Crowding,
    /// Users, by their names.
    User,
    /// Default schemas.
    Schema,
}

/// So many statements are moved between the queues in a turn: some microseconds each.
const AT_ONCE: usize = 1_024;

/// So many of the latest statements are looked at for one whose refusal is its own user's alone.
const LOOK_BACK: usize = 32;

impl SharesSettings {
    /// Says whether new work always waits for its share.
    pub(crate) fn is_on(&self) -> bool {
        let limits = [&self.user_permits, &self.schema_permits, &self.address_permits];
        matches!(self.fair_share, FairShare::User | FairShare::Schema)
            || limits.iter().any(|limits| !limits.is_empty())
    }
}

impl Scheduling {
    /// The new work of a class that has waited longest, and since when.
    pub(crate) fn oldest_new(&self, class: Class) -> Option<(ClientKey, Instant)> {
        let both = self.scheduler.oldest_new(class).into_iter().chain(self.shares.oldest(class));
        both.min_by_key(|&(_, since)| since)
    }

    /// Statements of a class that wait.
    pub(crate) fn waiting_of(&self, class: Class) -> usize {
        self.scheduler.waiting_of(class) + self.shares.waiting(class)
    }

    /// When more of what waits for its share is to be looked at, where that was not all of it.
    pub(crate) fn next_release(&self, now: Instant) -> Option<Instant> {
        (self.shares.goes_on || self.shares.crowding.moving).then_some(now)
    }

    /// New work that waits with the scheduler for permits.
    fn new_with_scheduler(&self) -> usize {
        self.scheduler.takes_room() + self.scheduler.new_of(Class::Long)
    }

    /// Says whether the newest of a share may go first.
    pub(crate) fn newest_of_share_may_go_first(&self, settings: &Settings) -> bool {
        settings.newest_of_share_may_go_first() && self.shares_are_on(settings)
    }
}

impl Engine {
    /// Queues a client's statement: at once, or after its delay.
    pub(crate) fn enqueue(&mut self, key: ClientKey, lane: Lane, standing: Standing) {
        let holds = self.clients[key].backend.is_some();
        let client = self.clients.ref_to(key);
        if holds || !self.scheduling.hold_back(self.now, &self.settings, client, lane, standing) {
            let need = if holds { Need::Holds } else { Need::Any };
            self.queue_for_share(self.now, key, lane, need, standing);
        }
    }

    /// Queues those whose delay is over.
    pub(crate) fn end_delays(&mut self) {
        while let Some(delayed) = self.scheduling.end_delay(self.now, &self.clients) {
            let Delayed { client, lane, standing, .. } = delayed;
            self.queue_for_share(self.now, client.key, lane, Need::Any, standing);
        }
    }

    /// Queues a client's statement, which has waited since then, with the scheduler, or for its share.
    pub(crate) fn queue_for_share(
        &mut self,
        since: Instant,
        client: ClientKey,
        lane: Lane,
        need: Need,
        standing: Standing,
    ) {
        let settings = &self.settings.shares;
        let checks_schema = self.logins.checks_schema(client);
        let held_up = need == Need::Any && self.is_held_up(client);
        if (self.scheduling.shares_are_on(&self.settings) || held_up) && !checks_schema {
            let flow = self.flow_of(client);
            if need == Need::Any {
                self.scheduling.shares.park(settings, flow, since, client, lane, standing);
                return self.prolong_crowding(client);
            }
            self.scheduling.shares.pass(settings, flow, client);
        }
        self.servers.note_for_affinity(self.now, &self.clients, client, (lane, need));
        self.scheduling.scheduler.enqueue(since, client, lane, need, standing);
    }

    /// Dispatches, with as much of what waits for its share as there is room for.
    pub(crate) fn dispatch_shares(&mut self) {
        self.follow_crowding();
        self.dispatch_in_turns();
        // Said first and tried again: a worker that gives backends back in between tells nobody who has not said so.
        if self.say_who_is_held_up() {
            self.dispatch_in_turns();
            self.say_who_is_held_up();
        }
    }

    fn dispatch_in_turns(&mut self) {
        let mut rounds = 0;
        loop {
            rounds += 1;
            debug_assert!(rounds <= self.clients.len() + 2, "each starts a statement or holds up a user");
            let released = self.release_shares();
            let before = self.scheduling.new_with_scheduler();
            self.dispatch();
            if !released || self.scheduling.shares.goes_on || self.scheduling.new_with_scheduler() >= before {
                break;
            }
        }
        self.scheduling.shares.held_up_now.clear();
    }

    /// Hands on the statements whose turn it is, until as many wait with the scheduler as may. True where there was one.
    fn release_shares(&mut self) -> bool {
        let mut released = false;
        self.let_users_go_on();
        let most = self.pool.workers.permits().div_ceil(self.pool.workers.count()) as usize;
        let mut parked_again = self.leave_long_lane_of_shares();
        while self.scheduling.shares.holds_any() && parked_again < AT_ONCE {
            let room = Room {
                short: self.scheduling.scheduler.takes_room() < most,
                // They end so seldom that only those are handed on that may start, and one that is the next.
                long: self.scheduling.scheduler.new_of(Class::Long)
                    < self.scheduling.scheduler.free_long_permits().max(1),
            };
            let overdue_after = self
                .scheduling
                .newest_of_share_may_go_first(&self.settings)
                .then_some(self.settings.prio_kickup_timer);
            let Some(parked) = self.next_of_shares(room, overdue_after) else { break };
            if self.enter_long_lane(parked.client) {
                parked_again += 1;
                self.park_again(parked.client, parked.since, Lane::Long, parked.standing);
                continue;
            }
            released = true;
            self.enqueue_parked(parked);
        }
        self.scheduling.shares.goes_on = parked_again >= AT_ONCE;
        released
    }

    /// Moves statements out of the long lane that have turned out to be short. Returns how many.
    fn leave_long_lane_of_shares(&mut self) -> usize {
        let mut moved = 0;
        while moved < AT_ONCE
            && let Some((client, since)) = self.scheduling.shares.oldest(Class::Long)
            && !self.scheduling.is_still_long(&self.settings, &self.clients[client])
        {
            self.scheduling.change_lane(self.now, client, &mut self.clients[client], Lane::Low);
            self.park_again(client, since, Lane::Low, Standing::default());
            moved += 1;
        }
        moved
    }

    /// A statement waits for its share, and has before, or was handed on: with the others of this lane from now on.
    fn park_again(&mut self, client: ClientKey, since: Instant, lane: Lane, standing: Standing) {
        let flow = self.flow_of(client);
        self.scheduling.shares.ended(&self.settings.shares, client, self.now);
        self.scheduling.shares.park(&self.settings.shares, flow, since, client, lane, standing);
    }

    /// Takes out the statement whose turn it is.
    fn next_of_shares(&mut self, room: Room, overdue_after: Option<Duration>) -> Option<Parked> {
        let turn = Turn { now: self.now, workers: self.pool.workers.count(), room, overdue_after };
        self.scheduling.shares.next(&self.settings.shares, &turn)
    }

    fn enqueue_parked(&mut self, parked: Parked) {
        // Those that it has been put before may have come first, and must not overtake it in the next queue.
        let standing = Standing { began: self.scheduling.scheduler.arrival(), ..parked.standing };
        self.servers.note_for_affinity(self.now, &self.clients, parked.client, (parked.lane, Need::Any));
        self.scheduling.scheduler.enqueue(parked.since, parked.client, parked.lane, Need::Any, standing);
    }

    /// The new work of a class that came last, or one before it: a statement that answers others' too is the last to go.
    pub(crate) fn newest_new(&self, class: Class) -> Option<ClientKey> {
        let latest =
            || self.scheduling.shares.latest(class).chain(self.scheduling.scheduler.latest_new(class));
        let alone = latest().take(LOOK_BACK).find(|&client| !self.leads_others(client));
        alone.or_else(|| latest().next())
    }

    /// Says whether a client's new work has to wait: its user has to use fewer backends first, or other work of the user waits
    /// here for its turn behind that.
    fn is_held_up(&self, key: ClientKey) -> bool {
        let identity = self.clients[key].identity.filter(|_| self.scheduling.shares.holds_any());
        identity.is_some_and(|identity| {
            self.scheduling.shares.has_parked(&self.logins.identities.identity(identity).account.user)
                && !self.keeps_no_backend(key)
        })
    }

    fn flow_of(&self, key: ClientKey) -> Flow {
        let client = &self.clients[key];
        let settings = &self.settings.shares;
        let user =
            client.identity.map(|identity| (*self.logins.identities.identity(identity).account.user).into());
        let by_schema = settings.fair_share == FairShare::Schema || !settings.schema_permits.is_empty();
        let session = client.session.id.filter(|_| by_schema);
        let schema =
            session.and_then(|session| self.sessions.states.state(session).schema.as_deref().map(Into::into));
        let address = match client.peer {
            Peer::Tcp(address) if !settings.address_permits.is_empty() => Some(address.ip()),
            _ => None,
        };
        // Of which class it is, its lane says where it is parked.
        Flow { user: user.unwrap_or_default(), schema, address, class: Class::default() }
    }
}
