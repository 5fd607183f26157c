//! Shares of the server by user, schema and client address.
//!
//! In front of the scheduler's queues, new work waits in a queue for each user (and schema and address, where something
//! depends on them), and another one for what belongs to the long lane. From there it goes to the scheduler, never more at a time
//! than the worker's part of the permits, and of the long lane what may start, so that the order is decided as late as it can be; but
//! one of each queue, so that nobody waits for another user's backend:
//!
//! - *limits* ([`settings::SharesSettings::user_permits`] and its like): a user, schema or address with as many statements under way as
//!   it may have waits until one of them has ended;
//! - *fair shares* ([`settings::SharesSettings::fair_share`]): among the others, the user or schema goes first that has had
//!   the least of the server's time by its weight. A statement is charged its user's average when it goes, and its real time
//!   when it has ended. A user who has been away begins where the others are, as in start-time fair queueing (P. Goyal and
//!   others, SIGCOMM 1996).
//!
//! Within a queue the oldest goes first, or, while its clients hang up on what waits there, the newest
//! ([`crate::scheduling::scheduler::order::Order`]): one user's impatience does not turn the others' queues round.
//!
//! Only new work waits here. Statements of open transactions and of pinned clients go on at once, but count, and are charged.
//! Each worker does this for its own clients: of a limit it has an even share, rounded up. By default there are no limits, and
//! shares only where few crowd out many or many few ([`crowding`]); without them nothing of it costs anything.

mod ages;
mod backends;
mod crowding;
mod crowding_state;
mod gates;
mod held_up;
mod line;
mod named_numbers;
mod parties;
mod queue;
pub(crate) mod settings;
pub(crate) mod table;
#[cfg(test)]
mod tests;

pub use named_numbers::{NamedNumbers, NoNamedNumber, named_parts};
pub(crate) use parties::Parties;
pub(crate) use queue::{Parked, RoomByClass, ShareTurn};
use table::Shares;

use std::time::Duration;

use seam::Instant;

use crate::client::Client;
use crate::client::delay::Delayed;
use crate::ids::{ClientKey, Table};
use crate::scheduling::Scheduling;
use crate::scheduling::scheduler::Need;
use crate::scheduling::scheduler::lane::{Class, Lane, Standing};
use crate::servers::Servers;
use crate::settings::Settings;

/// Statements that are moved between the queues in a turn: some microseconds each.
const AT_ONCE: usize = 1_024;

/// The number of the latest statements that are looked at for one that answers no other client's.
const LOOK_BACK: usize = 32;

/// A statement that comes to the queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arriving {
    /// The time from which on the statement has waited.
    since: Instant,
    client: ClientKey,
    lane: Lane,
    need: Need,
    standing: Standing,
}

impl Arriving {
    /// New work that has waited since then, of a client that holds nothing.
    pub(crate) fn new_work(since: Instant, client: ClientKey, lane: Lane, standing: Standing) -> Self {
        Self { since, client, lane, need: Need::Any, standing }
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

    /// The time at which more statements that wait for their share are looked at, where not all were.
    pub(crate) fn next_release(&self, now: Instant) -> Option<Instant> {
        (self.shares.goes_on || self.shares.crowding.goes_on()).then_some(now)
    }

    /// New work that waits with the scheduler for permits.
    pub(crate) fn new_with_scheduler(&self) -> usize {
        self.scheduler.takes_room() + self.scheduler.new_of(Class::Long)
    }

    /// Says whether the newest of a share may go first.
    pub(crate) fn newest_of_share_may_go_first(&self, settings: &Settings) -> bool {
        settings.newest_of_share_may_go_first() && self.shares_are_on(settings)
    }

    /// Queues a client's statement: at once, or after its delay.
    pub(crate) fn enqueue(
        &mut self,
        parties: &Parties<'_>,
        clients: &Table<ClientKey, Client>,
        servers: &mut Servers,
        key: ClientKey,
        (lane, standing): (Lane, Standing),
    ) {
        let holds = clients[key].backend.is_some();
        let client = clients.ref_to(key);
        if holds || !self.delayed.hold_back(parties.now, parties.settings, client, lane, standing) {
            let need = if holds { Need::Holds } else { Need::Any };
            let arriving = Arriving { since: parties.now, client: key, lane, need, standing };
            self.queue_for_share(parties, clients, servers, &arriving);
        }
    }

    /// Queues statements at the end of their delay.
    pub(crate) fn end_delays(
        &mut self,
        parties: &Parties<'_>,
        clients: &Table<ClientKey, Client>,
        servers: &mut Servers,
    ) {
        while let Some(delayed) = self.delayed.take_next(parties.now, clients) {
            let Delayed { client, lane, standing, .. } = delayed;
            let since = parties.now;
            let arriving = Arriving { since, client: client.key, lane, need: Need::Any, standing };
            self.queue_for_share(parties, clients, servers, &arriving);
        }
    }

    /// Queues a client's statement with the scheduler, or for its share.
    pub(crate) fn queue_for_share(
        &mut self,
        parties: &Parties<'_>,
        clients: &Table<ClientKey, Client>,
        servers: &mut Servers,
        arriving: &Arriving,
    ) {
        let &Arriving { since, client: key, lane, need, standing } = arriving;
        let (client, settings) = (&clients[key], &parties.settings.shares);
        let checks_schema = parties.logins.schemas.is_asked_for(key);
        let held_up = need == Need::Any && self.is_held_up(parties, client, servers);
        if (self.shares_are_on(parties.settings) || held_up) && !checks_schema {
            let flow = parties.flow_of(client);
            if need == Need::Any {
                self.shares.park(settings, flow, since, key, lane, standing);
                return self.prolong_crowding(parties, key);
            }
            self.shares.pass(settings, flow, key);
        }
        servers.note_for_affinity(parties.now, clients, key, (lane, need));
        self.scheduler.enqueue(since, key, lane, need, standing);
    }

    /// Hands on statements in their turn, until as many wait with the scheduler as may. Returns true where there was one.
    pub(crate) fn release_shares(
        &mut self,
        parties: &Parties<'_>,
        clients: &mut Table<ClientKey, Client>,
        servers: &mut Servers,
    ) -> bool {
        let (now, settings, workers) = (parties.now, parties.settings, &parties.pool.workers);
        let mut released = false;
        self.shares.let_users_go_on(parties.bound_of_users(), parties.pool.worker);
        let most = workers.permits().div_ceil(workers.count()) as usize;
        let mut parked_again = self.leave_long_lane_of_shares(parties, clients);
        while self.shares.holds_any() && parked_again < AT_ONCE {
            let room = RoomByClass {
                short: self.scheduler.takes_room() < most,
                // They end so seldom that only those are handed on that may start, and one that is the next.
                long: self.scheduler.new_of(Class::Long) < self.scheduler.free_long_permits().max(1),
            };
            let overdue_after =
                self.newest_of_share_may_go_first(settings).then_some(settings.prio_kickup_timer);
            let Some(parked) = self.shares.next_of(parties, room, overdue_after) else { break };
            if self.enter_long_lane(now, settings, workers, parked.client, clients) {
                parked_again += 1;
                self.park_again(
                    parties,
                    &clients[parked.client],
                    Arriving { lane: Lane::Long, ..parked.into() },
                );
                continue;
            }
            released = true;
            self.enqueue_parked(now, clients, servers, parked);
        }
        self.shares.goes_on = parked_again >= AT_ONCE;
        released
    }

    /// Says whether more is to be handed on in the same turn: of what was, less has remained with the scheduler than there was before.
    pub(crate) fn goes_round_again(&self, before: usize) -> bool {
        !self.shares.goes_on && self.new_with_scheduler() < before
    }

    /// Moves statements out of the long lane that have turned out to be short. Returns how many.
    fn leave_long_lane_of_shares(
        &mut self,
        parties: &Parties<'_>,
        clients: &mut Table<ClientKey, Client>,
    ) -> usize {
        let mut moved = 0;
        while moved < AT_ONCE
            && let Some((key, since)) = self.shares.oldest(Class::Long)
            && !self.is_still_long(parties.settings, &clients[key])
        {
            let client = &mut clients[key];
            self.change_lane(parties.now, key, client, Lane::Low);
            let (lane, standing) = (Lane::Low, Standing::default());
            self.park_again(
                parties,
                client,
                Arriving { since, client: key, lane, need: Need::Any, standing },
            );
            moved += 1;
        }
        moved
    }

    /// A client's statement waits for its share, and has before, or was handed on: with the others of this lane from now on.
    fn park_again(&mut self, parties: &Parties<'_>, client: &Client, again: Arriving) {
        let (settings, flow) = (&parties.settings.shares, parties.flow_of(client));
        self.shares.ended(settings, again.client, parties.now);
        self.shares.park(settings, flow, again.since, again.client, again.lane, again.standing);
    }

    fn enqueue_parked(
        &mut self,
        now: Instant,
        clients: &Table<ClientKey, Client>,
        servers: &mut Servers,
        parked: Parked,
    ) {
        // Those that it has been put before may have come first, and must not overtake it in the next queue.
        let standing = Standing { began: self.scheduler.arrival(), ..parked.standing };
        servers.note_for_affinity(now, clients, parked.client, (parked.lane, Need::Any));
        self.scheduler.enqueue(parked.since, parked.client, parked.lane, Need::Any, standing);
    }

    /// The new work of a class that came last, or one before it: a statement that answers others' too is the last to go.
    pub(crate) fn newest_new(&self, clients: &Table<ClientKey, Client>, class: Class) -> Option<ClientKey> {
        let latest = || self.shares.latest(class).chain(self.scheduler.latest_new(class));
        let alone = latest().take(LOOK_BACK).find(|&client| !self.coalescer.leads_others(clients, client));
        alone.or_else(|| latest().next())
    }

    /// Says whether a client's new work has to wait: its user has to use fewer backends first, or other work of the user waits
    /// here for its turn behind that.
    fn is_held_up(&self, parties: &Parties<'_>, client: &Client, servers: &Servers) -> bool {
        let identity = client.identity().filter(|_| self.shares.holds_any());
        identity.is_some_and(|identity| {
            self.shares.has_parked(&parties.logins.identities.identity(identity).account.user)
                && !parties.keeps_no_backend(client, servers)
        })
    }
}

impl Shares {
    /// Takes out the statement that has its turn.
    fn next_of(
        &mut self,
        parties: &Parties<'_>,
        room: RoomByClass,
        overdue_after: Option<Duration>,
    ) -> Option<Parked> {
        let turn = ShareTurn { now: parties.now, workers: parties.pool.workers.count(), room, overdue_after };
        self.next(&parties.settings.shares, &turn)
    }
}

impl From<Parked> for Arriving {
    fn from(parked: Parked) -> Self {
        let Parked { client, lane, standing, since, .. } = parked;
        Self { since, client, lane, need: Need::Any, standing }
    }
}
