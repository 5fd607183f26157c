//! Users who use as many backends as they may (`user_backends_share`): new work of theirs that would keep one more waits in front of the
//! scheduler's queues, where it is in nobody's way, until one is free.

use seam::Instant;

use super::table::{Name, Shares};
use super::{Arriving, Parties};
use crate::client::Client;
use crate::ids::{ClientKey, Table};
use crate::pool::Pool;
use crate::scheduling::Scheduling;
use crate::scheduling::scheduler::Need;
use crate::scheduling::scheduler::lane::{Lane, Standing};
use crate::servers::Servers;
use crate::settings::Settings;
use crate::workers::users::{Bound, Usage};

impl Scheduling {
    /// The time at which the next statement has waited too long, see [`Self::held_up_too_long`].
    pub(crate) fn next_held_up(&self, settings: &Settings) -> Option<Instant> {
        self.shares.oldest_held_up().map(|(_, since)| since + settings.backend_connect_timeout)
    }

    /// The oldest statement that has waited too long for its user to use fewer backends.
    pub(crate) fn held_up_too_long(&self, now: Instant, settings: &Settings) -> Option<ClientKey> {
        let (key, since) = self.shares.oldest_held_up()?;
        (since + settings.backend_connect_timeout <= now).then_some(key)
    }

    /// Sends a statement that would start back to wait for its share, where its client uses no backend and its user uses as many as it
    /// may. Returns true where that was so.
    pub(crate) fn leaves_room_for_others(
        &mut self,
        parties: &Parties<'_>,
        clients: &mut Table<ClientKey, Client>,
        servers: &Servers,
        key: ClientKey,
    ) -> bool {
        let client = &mut clients[key];
        if client.backend.is_some() || parties.user_may_use_one_more(key, client, servers) {
            return false;
        }
        let request = client.request.as_ref().expect("a queued client has a request");
        let since = request.turn.arrived_at();
        // Whether its kind waits for locks is seen once its turn has come again.
        let lane = request.turn.lane().filter(|&lane| lane == Lane::Long).unwrap_or(Lane::Low);
        let standing = Standing { began: client.transaction.began(), ..Standing::default() };
        let identity = client.identity().expect("whose user has a share");
        let usage = parties.logins.identities.usage(identity, &parties.pool.workers.users).clone();
        let user = parties.flow_of(client).user;
        self.scheduler.remove(key);
        self.change_lane(parties.now, key, client, lane);
        self.shares.hold_up(&user, usage, parties.now);
        self.park_again(parties, client, Arriving { since, client: key, lane, need: Need::Any, standing });
        true
    }
}

impl Shares {
    /// How many users have new work that waits for one of their backends, and since when the first of them has.
    pub(crate) fn held_up_since(&self) -> (usize, Option<Instant>) {
        (self.held_up.users.len(), self.held_up.users.values().map(|&(_, since)| since).min())
    }

    /// Says whether new work of this user waits for one of its backends.
    pub(super) fn holds_up(&self, user: &[u8]) -> bool {
        !self.held_up.users.is_empty() && self.held_up.users.contains_key(user)
    }

    /// Lets users go on that have some free backends again.
    pub(super) fn let_users_go_on(&mut self, bound: Bound, worker: usize) {
        if self.held_up.users.is_empty() {
            return;
        }
        let goes_on = |user: &Name, usage: &Usage| {
            !self.held_up.in_this_round.contains(user)
                && self.oldest_of(user).is_none_or(|since| usage.may_have_one_more(bound, worker, since))
        };
        let go_on = self.held_up.users.iter().filter(|(user, (usage, _))| goes_on(user, usage));
        let go_on: Vec<_> = go_on.map(|(user, (usage, _))| (user.clone(), usage.clone())).collect();
        for (user, usage) in go_on {
            usage.waits(worker, None);
            self.let_go_on(&user);
        }
    }

    /// Tells other workers which users have new work here that waits for a backend, once all that could go on has. True where
    /// nobody did before.
    pub(crate) fn say_who_is_held_up(&self, pool: &Pool) -> bool {
        for (user, (usage, _)) in &self.held_up.users {
            usage.waits(pool.worker, self.oldest_of(user));
        }
        pool.workers.users.hold_up(pool.worker, !self.held_up.users.is_empty())
    }

    /// A round of dispatching is over: who was held up in it may go on in the next.
    pub(crate) fn end_round(&mut self) {
        self.held_up.in_this_round.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seam::{Input, Program};
    use wire::StatusFlags;

    use super::*;
    use crate::Engine;
    use crate::client::commands::command::tests::{connection, engine, engine_among};
    use crate::ids::client_key;
    use crate::scheduling::learned::digests::tests::execution;
    use crate::scheduling::scheduler::lane::Class;
    use crate::scheduling::shares::settings::{FairShare, SharesSettings};
    use crate::scheduling::shares::tests::park_again;
    use crate::session::{Charset, SessionState};
    use crate::settings::Settings;
    use crate::workers::place::QueuePlace;

    fn send(engine: &mut Engine, client: u32, text: &[u8]) {
        send_at(engine, Instant::START, client, text);
    }

    fn send_at(engine: &mut Engine, now: Instant, client: u32, text: &[u8]) {
        let mut query = Vec::new();
        wire::put_message(&mut query, &mut 0, &[b"\x03", text].concat());
        engine.handle(now, Input::Bytes { connection: connection(client), bytes: &query });
    }

    /// Statements of a user ask with the time of its oldest one whether they may go on, and with their own whether they may start. Where
    /// another worker's has waited for longer than the one and not for as long as the other, that went round and round.
    #[test]
    fn a_round_of_dispatching_ends_where_the_oldest_of_a_user_cannot_go() {
        let at = |millis: u64| Instant::from_micros(millis * 1000);
        let shares = SharesSettings { fair_share: FairShare::User, ..SharesSettings::default() };
        let settings = Settings {
            shares,
            long_permits: 1,
            long_permits_max: 1,
            long_statement_time: Duration::from_millis(500),
            ..Settings::default()
        };
        let mut engine = engine_among(2, 3, settings);
        engine.servers.primary_mut().reachability.answered();
        assert!(engine.pool.workers.take_long_permit(0, QueuePlace::low(0)).is_some(), "the only one");
        for client in [0, 1] {
            send(&mut engine, client, b"SELECT 1 FROM t");
            let fingerprint = engine.clients[client_key(client)].request.as_ref().unwrap().fingerprint();
            for _ in 0..2 {
                engine.scheduling.digests.add(Instant::START, fingerprint, None);
                engine.scheduling.digests.record(Instant::START, &execution(fingerprint, 1_000));
            }
            let key = client_key(client);
            engine.scheduling.change_lane(engine.now, key, &mut engine.clients[key], Lane::Long);
            park_again(&mut engine, key, at(100), Lane::Long);
        }
        let identity = engine.clients[client_key(0)].identity().expect("all have logged in");
        let usage = engine.logins.identities.usage(identity, &engine.pool.workers.users).clone();
        let bound = engine.queues().1.bound_of_users();
        let mut used = Vec::new();
        while usage.may_have_one_more(bound, 0, at(0)) {
            used.push(usage.begin(0));
        }
        used.pop();
        usage.waits(1, Some(at(150)));
        engine.now = at(200);
        send_at(&mut engine, at(200), 2, b"LOCK TABLES t WRITE");
        engine.handle(at(200), Input::TurnEnd);
        assert_eq!(engine.scheduling.shares.held_up_since().0, 1);
        assert_eq!(Class::ALL.map(|class| engine.scheduling.shares.waiting(class)), [1, 1]);
    }

    /// Else those who come while some of its backends are free take each of them, and what has waited for one waits for ever.
    #[test]
    fn what_comes_later_does_not_overtake_what_waits_for_its_user_to_use_fewer() {
        let mut engine = engine(3, Settings::default());
        engine.servers.primary_mut().reachability.answered();
        let identity = engine.clients[client_key(0)].identity().expect("all have logged in");
        let usage = engine.logins.identities.usage(identity, &engine.pool.workers.users).clone();
        let mut used: Vec<_> = (0..engine.pool.workers.places.most()).map(|_| usage.begin(0)).collect();
        let parked = |engine: &Engine| engine.scheduling.shares.waiting(Class::Short);
        send(&mut engine, 0, b"LOCK TABLES t WRITE");
        engine.handle(Instant::START, Input::TurnEnd);
        assert_eq!(parked(&engine), 1);
        used.clear();
        let (scheduling, parties, ..) = engine.queues();
        scheduling.shares.let_users_go_on(parties.bound_of_users(), 0);
        assert_eq!(engine.scheduling.shares.held_up_since().0, 0);
        send(&mut engine, 1, b"LOCK TABLES t WRITE");
        assert_eq!(parked(&engine), 2, "it stands behind the first");
        let charset = Charset { client: b"utf8mb4"[..].into(), ..Charset::default() };
        let state = engine.sessions.states.hold(SessionState { charset, ..SessionState::default() });
        engine.clients[client_key(2)].session.becomes(state, &mut engine.sessions.states);
        engine.clients[client_key(2)].session.status_told(StatusFlags::AUTOCOMMIT);
        send(&mut engine, 2, b"SELECT 1 FROM t");
        assert_eq!(parked(&engine), 2, "what keeps no backend takes none from those");
        engine.handle(Instant::START, Input::TurnEnd);
        assert_eq!(parked(&engine), 0);
    }
}
