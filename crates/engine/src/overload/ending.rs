//! Ends what nobody should wait for: statements that take too long or whose clients have gone, and transactions that stay open.
//!
//! KILL QUERY ends a statement that runs; its own user asks for it, whom the server always lets do that. KILL CONNECTION ends a
//! transaction, since the rest of a text or procedure could commit it. Nobody else uses the backend afterwards: a KILL that comes
//! late must not hit another client's statement.

use std::time::Duration;

use seam::Instant;
use sql::Kind;

use super::abandoned::Abandoned;
use crate::accounts::IdentityId;
use crate::backend::{Backend, Ends, Owner};
use crate::client::{Client, Lost, Phase, Running};
use crate::engine::Engine;
use crate::errors::{Bound, MySqlError};
use crate::ids::{BackendKey, ClientKey};
use crate::outside::named::Limit;
use crate::request::{Request, RequestKind};
use crate::scheduler::lane::Class;
use crate::scheduling::Scheduling;
use crate::settings::Settings;
use crate::workers::letter::Ending;

/// A statement whose client has gone may run for so long before a KILL is sent: most end by themselves, and the KILL takes a
/// round trip and a moment on a backend.
const GRACE: Duration = Duration::from_millis(50);

/// A short read that others follow on the same backend has to be stuck for this long before it is ended, since a KILL that
/// comes late would hit the next one. As for a client's own KILL.
const STUCK: Duration = Duration::from_millis(1_001);

impl Scheduling {
    /// A client's statement starts, which may be the first of a transaction.
    pub(crate) fn note_begun(
        &mut self,
        now: Instant,
        settings: &Settings,
        (key, client): (ClientKey, &mut Client),
        request: &Request,
    ) {
        self.note_queue_delay(now, settings, client, request);
        self.shares.started(key, now);
        if !client.in_transaction() {
            client.transaction.since = now;
        }
    }
}

impl Engine {
    /// Ends statements that are over their time, and those that nobody waits for.
    pub(crate) fn end_overdue(&mut self) {
        self.end_slow_statements();
        self.end_cancelled();
        for abandoned in std::mem::take(&mut self.scheduling.abandoned) {
            self.end_abandoned(abandoned);
        }
    }

    /// Refuses what has waited too long, and what is too much. After dispatching.
    pub(crate) fn refuse_overload(&mut self) {
        self.give_up_held_up();
        for class in Class::ALL {
            while let Some((client, bound)) = self.scheduling.next_late(self.now, &self.settings, class) {
                self.refuse_new(client, &bound);
            }
            while let Some((client, bound)) =
                self.scheduling.next_surplus(&self.settings, &self.pool, &self.clients, class)
            {
                self.refuse_new(client, &bound);
            }
        }
        if let Some(longest) = self.scheduling.unfair_patience(self.now, &self.settings) {
            while let Some((client, bound)) =
                self.scheduling.next_passed_over(self.now, &self.settings, longest)
            {
                self.refuse_new(client, &bound);
            }
        }
    }

    fn refuse_new(&mut self, client: ClientKey, bound: &Bound) {
        self.views.note_refused(self.now, bound.reached(), &self.clients[client], &self.logins.identities);
        let login = self.clients[client]
            .request
            .as_ref()
            .is_some_and(|request| request.command == RequestKind::LoginSchema);
        let error = if login { MySqlError::login_refused(bound) } else { MySqlError::refused(bound) };
        self.cancel_queued(client, &error);
    }

    /// Gives up what has waited too long for its user to use fewer backends.
    fn give_up_held_up(&mut self) {
        let percent = self.settings.user_backends_share;
        while let Some(key) = self.scheduling.held_up_too_long(self.now, &self.settings) {
            let identity = self.clients[key].identity.expect("it has a user");
            let backends = self.logins.identities.usage(identity, &self.pool.workers.users).backends();
            let user = String::from_utf8_lossy(&self.logins.identities.identity(identity).account.user);
            let error = MySqlError::user_backends(&user, backends, percent);
            self.views.limit_reached(self.now, Limit::UserBackendsShare, u64::from(percent));
            self.cancel_queued(key, &error);
        }
    }

    /// When [`Self::end_overdue`] has something to do.
    pub(crate) fn next_ending(&self) -> Option<Instant> {
        let limited = !self.settings.overload.query_timeout.is_zero();
        let slow = self
            .servers
            .backends()
            .filter(|_| limited)
            .filter_map(|(_, backend)| self.query_timeout_of(backend));
        let cancelled = self.scheduling.to_be_cancelled.iter();
        let cancelled = cancelled.filter_map(|&key| cancelled_due(self.servers.get(key)?));
        let abandoned = self.scheduling.abandoned.iter().map(|abandoned| abandoned.since + GRACE);
        // One that is due waits for a backend to ask on, and whatever makes that come makes a turn.
        let abandoned = abandoned.filter(|&due| due > self.now);
        slow.chain(cancelled).chain(abandoned).min()
    }

    /// A KILL QUERY of a read that shares its backend with others': it is asked for when the read is the last one there, or stuck.
    pub(crate) fn cancel_later(&mut self, victim: ClientKey, key: BackendKey) {
        for statement in &mut self.servers[key].in_flight {
            if matches!(statement.owner, Owner::Client { client, .. } if client == victim) {
                statement.ends = Ends::WhenAlone;
            }
        }
        if !self.scheduling.to_be_cancelled.contains(&key) {
            self.scheduling.to_be_cancelled.push(key);
        }
    }

    fn end_cancelled(&mut self) {
        for key in std::mem::take(&mut self.scheduling.to_be_cancelled) {
            let Some(backend) = self.servers.get_mut(key) else { continue };
            if cancelled_due(backend).is_some_and(|due| due <= self.now)
                && let Some(statement) = backend.in_flight.front_mut()
            {
                statement.ends = Ends::ByItself;
                if let Some(client) = statement.owner.client() {
                    let id = self.clients[client].id;
                    self.kill(id, true);
                }
            }
            let Some(backend) = self.servers.get(key) else { continue };
            if backend.in_flight.iter().any(|statement| statement.ends == Ends::WhenAlone) {
                self.scheduling.to_be_cancelled.push(key);
            }
        }
    }

    /// A client goes while its statement runs on this backend.
    pub(crate) fn note_abandoned(&mut self, client: ClientKey, backend: BackendKey) {
        let wanted = self.settings.overload.kill_abandoned && !self.servers[backend].shares();
        // The end of a transaction goes through, as it would with nobody there to read the answer.
        if wanted && !ends_transaction(&self.clients[client]) {
            let token = self.servers[backend].token;
            self.scheduling.abandoned.push(Abandoned { backend, token, since: self.now });
        }
    }

    /// Closes the backends of statements that nobody has waited for since long, and of answers of our own that do not come. Their
    /// clients have ended their connections, and this does so too: the server takes it as it would have taken that, and a reply
    /// whose end never came costs no backend for good.
    pub(crate) fn sweep_abandoned(&mut self) {
        let limit = self.settings.overload.abandoned_timeout;
        if limit.is_zero() {
            return;
        }
        let is_over = |backend: &Backend| {
            let waits = backend.in_flight.front().is_some_and(|statement| statement.owner.client().is_none());
            let since =
                backend.abandoned_since.map_or(backend.first.since, |since| since.max(backend.first.since));
            waits && backend.is_ready() && self.now.since(since) >= limit
        };
        let over: Vec<_> =
            self.servers.backends().filter(|(_, backend)| is_over(backend)).map(|(key, _)| key).collect();
        for key in over {
            self.views.limit_reached(self.now, Limit::AbandonedTimeout, limit.as_secs());
            self.close_backend(key, "what runs on it has been waited for by nobody for abandoned_timeout");
        }
    }

    /// A statement has ended, which may have begun another transaction at once (COMMIT AND CHAIN, BEGIN after BEGIN).
    pub(crate) fn note_ended(&mut self, client: ClientKey, request: &Request) {
        if matches!(request.statement.kind, Kind::Begin | Kind::Commit | Kind::Rollback) {
            self.clients[client].transaction.since = self.now;
        }
    }

    /// Ends transactions that have been open, or idle, for too long, and what idle clients hold where others need it. Once a second, as
    /// other timeouts of clients.
    pub(crate) fn sweep_transactions(&mut self) {
        let (settings, logins) = (&self.settings, &self.logins.identities);
        let over = self.scheduling.idle_holders_to_end(self.now, settings, &self.pool, &self.clients, logins);
        for key in over {
            let bound = self.settings.overload.idle_hold_bound();
            self.views.note_refused(self.now, bound.reached(), &self.clients[key], &self.logins.identities);
            self.take_backend_from_idle(key, Lost::HeldIdle);
        }
        let overload = &self.settings.overload;
        let (idle, open) = (overload.idle_transaction_timeout, overload.transaction_timeout);
        if idle.is_zero() && open.is_zero() {
            return;
        }
        let now = self.now;
        let over = |limit: Duration, since| !limit.is_zero() && now.since(since) >= limit;
        let over: Vec<_> = self
            .clients
            .iter()
            .filter(|(_, client)| {
                client.in_transaction() && client.loss.lost.is_none() && !client.loss.killed
            })
            .filter_map(|(key, client)| match *client.phase() {
                _ if over(open, client.transaction.since) => Some((key, Lost::OpenTooLong)),
                Phase::Idle if over(idle, client.activity.last_heard) => Some((key, Lost::IdleTooLong)),
                _ => None,
            })
            .collect();
        for (key, lost) in over {
            self.end_transaction(key, lost);
        }
    }

    /// The option behind what was taken from a client.
    pub(crate) fn bound_behind(&self, lost: Lost) -> Option<Bound> {
        let overload = &self.settings.overload;
        match lost {
            Lost::IdleTooLong => {
                Some(Bound::time(Limit::IdleTransactionTimeout, overload.idle_transaction_timeout))
            }
            Lost::OpenTooLong => Some(Bound::time(Limit::TransactionTimeout, overload.transaction_timeout)),
            Lost::HeldIdle => Some(self.settings.overload.idle_hold_bound()),
            Lost::Transaction | Lost::PinnedState | Lost::Server => None,
        }
    }

    fn end_transaction(&mut self, key: ClientKey, lost: Lost) {
        let client = &self.clients[key];
        let ends = match *client.phase() {
            Phase::Idle => true,
            // It holds its backend and waits for nothing else than its end.
            Phase::Queued | Phase::Running(Running::OnServer) => !ends_transaction(client),
            // The next sweep finds it in another phase.
            _ => false,
        };
        if !ends {
            return;
        }
        // Behind what follows, the client may be gone.
        if let Some(bound) = self.bound_behind(lost) {
            self.views.note_refused(self.now, bound.reached(), &self.clients[key], &self.logins.identities);
        }
        let client = &self.clients[key];
        match *client.phase() {
            Phase::Idle => self.take_backend_from_idle(key, lost),
            Phase::Queued => {
                self.scheduling.scheduler.remove(key);
                let answer = self.take_request(key).map_or(1, |request| request.answer);
                self.clients[key].cancel();
                self.answer_lost(key, lost, answer);
            }
            _ => {
                let id = client.id;
                self.kill(id, false);
            }
        }
    }

    /// Takes an idle client's backend away, which rolls its transaction back and frees its locks at once. The client hears of
    /// it in the answer to its next command, after which its connection ends: an error that nobody has asked for would find
    /// no reader.
    pub(crate) fn take_backend_from_idle(&mut self, key: ClientKey, lost: Lost) {
        let client = &mut self.clients[key];
        client.loss.lost = Some(lost);
        client.session.aftermath.insert_id_lost();
        if let Some(backend) = client.backend.take() {
            self.reset_backend(backend);
        }
        self.clients.server_keeps_up(key, &mut self.io.outbox);
    }

    fn end_slow_statements(&mut self) {
        let limit = self.settings.overload.query_timeout;
        if limit.is_zero() {
            return;
        }
        let now = self.now;
        let over: Vec<_> = self
            .servers
            .backends()
            .filter(|(_, backend)| self.query_timeout_of(backend).is_some_and(|due| due <= now))
            .map(|(key, _)| key)
            .collect();
        for key in over {
            let Some(statement) = self.servers[key].in_flight.front_mut() else { continue };
            statement.ends = Ends::Asked;
            if let Some(client) = statement.owner.client() {
                let id = self.clients[client].id;
                // Else each of them in turn would take it over, and be over its time.
                let bound = Bound::time(Limit::QueryTimeout, limit);
                let followers = self.servers.followers_behind(key, &self.clients);
                for each in followers.into_iter().chain([client]) {
                    self.views.note_refused(
                        self.now,
                        bound.reached(),
                        &self.clients[each],
                        &self.logins.identities,
                    );
                }
                self.end_group(key, &MySqlError::interrupted());
                self.kill(id, true);
            }
        }
    }

    /// When the first statement on a backend will have run for `query_timeout`.
    fn query_timeout_of(&self, backend: &Backend) -> Option<Instant> {
        let limit = self.settings.overload.query_timeout;
        let statement = backend.in_flight.front().filter(|statement| statement.ends != Ends::Asked)?;
        let Owner::Client { client, .. } = statement.owner else { return None };
        let executes = matches!(self.clients[client].phase(), Phase::Running(Running::OnServer));
        if limit.is_zero() || !executes || ends_transaction(&self.clients[client]) {
            return None;
        }
        let alone = backend.in_flight.len() == 1;
        Some(backend.first.since + if alone { limit } else { limit.max(STUCK) })
    }

    /// By whom statements are asked for of which nobody waits for the end any more, and for which a KILL may be sent.
    pub(crate) fn users_of_abandoned(&self) -> impl Iterator<Item = IdentityId> {
        let victims = self.scheduling.abandoned.iter();
        victims.filter_map(|abandoned| Some(self.servers.get(abandoned.backend)?.account.identity))
    }

    fn end_abandoned(&mut self, abandoned: Abandoned) {
        let Some(victim) = self.servers.get(abandoned.backend) else { return };
        let runs = victim.in_flight.iter().any(|statement| statement.owner == Owner::Abandoned);
        let time = self.now.since(abandoned.since);
        if victim.token != abandoned.token || !runs || time >= self.settings.backend_connect_timeout {
            return;
        }
        if self.is_on_former_server(abandoned.backend) {
            // Nor for what has not arrived there.
            return self.give_up_backend(abandoned.backend, "nobody waits for what runs there");
        }
        let (identity, thread_id) = (victim.account.identity, u64::from(victim.login.thread_id));
        if time < GRACE {
            return self.scheduling.abandoned.push(abandoned);
        }
        let idle = self
            .servers
            .of(abandoned.backend)
            .idle
            .iter()
            .copied()
            .find(|&idle| self.servers[idle].account.identity == identity);
        if let Some(backend) = idle {
            self.send_kill(backend, Ending { thread_id, query_only: true });
        } else {
            self.open_backend_like(abandoned.backend);
            self.scheduling.abandoned.push(abandoned);
        }
    }
}

/// When the first statement on a backend is to be ended for the KILL QUERY that its client has got; that of another one waits for its turn.
fn cancelled_due(backend: &Backend) -> Option<Instant> {
    let alone = backend.in_flight.len() == 1;
    let is_first = backend.in_flight.front().is_some_and(|statement| statement.ends == Ends::WhenAlone);
    is_first.then(|| backend.first.since + if alone { Duration::ZERO } else { STUCK })
}

/// Says whether the command of a client is the end of its transaction.
fn ends_transaction(client: &Client) -> bool {
    let request = client.request.as_ref();
    request.is_some_and(|request| matches!(request.statement.kind, Kind::Commit | Kind::Rollback))
}

impl MySqlError {
    /// For a transaction that was rolled back because it was idle for too long: ER_NET_READ_INTERRUPTED, as MariaDB has it
    /// where `idle_transaction_timeout` is over.
    pub(crate) fn transaction_idle(bound: &Bound) -> Self {
        Self {
            code: 1159,
            sql_state: b"08S01",
            message: format!(
                "Got timeout reading communication packets: the transaction was idle and has been rolled back ({bound})"
            ),
        }
    }

    /// For one that was open for too long: ER_CONNECTION_KILLED, MariaDB's. No server has a code of its own for it.
    pub(crate) fn transaction_over(bound: &Bound) -> Self {
        Self {
            code: 1927,
            sql_state: b"70100",
            message: format!(
                "Connection was killed: the transaction was open for too long and has been rolled back ({bound})"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use seam::{Input, Program as _};
    use wire::{CommandKind, Expect, StatusFlags};

    use super::*;
    use crate::client::commands::tests::{connection, engine};
    use crate::cluster::sent_before::SentBefore;
    use crate::ids::client_key;
    use crate::overload::settings::OverloadSettings;
    use crate::request::RequestKind;
    use crate::settings::Settings;

    /// All clients have a read in flight on one backend, and the first of them has got a KILL QUERY.
    fn cancelled_before_others(settings: Settings) -> (Engine, BackendKey, ClientKey) {
        let mut engine = engine(2, settings);
        let clients: Vec<ClientKey> = engine.clients.iter().map(|(key, _)| key).collect();
        let origin = engine.pool.workers.places.take(engine.now, 0, 0).expect("there is room");
        engine.open_backend(clients[0], origin);
        let (key, _) = engine.servers.backends().next().expect("it was opened");
        let mut query = Vec::new();
        wire::put_message(&mut query, &mut 0, b"\x03SELECT a FROM t");
        for (index, &client) in (0..).zip(&clients) {
            engine.handle(Instant::START, Input::Bytes { connection: connection(index), bytes: &query });
            engine.scheduling.scheduler.remove(client);
            let owner = Owner::Client { client, command: RequestKind::Query };
            engine.send_own(key, owner, CommandKind::Query, b"SELECT a FROM t", Expect::ResultSets, 0);
            engine.clients[client].session.status = StatusFlags::AUTOCOMMIT;
            engine.clients[client].backend = Some(key);
            engine.clients[client].set_phase(Phase::Running(Running::OnServer));
        }
        engine.cancel_later(clients[0], key);
        (engine, key, clients[0])
    }

    /// Were it not yet stuck for a KILL by then, it would be due again and again.
    #[test]
    fn a_cancelled_read_before_others_is_ended_as_soon_as_it_is_stuck() {
        let (mut engine, ..) = cancelled_before_others(Settings::default());
        let due = Instant::START + STUCK;
        assert_eq!((engine.orders.kills.len(), engine.next_ending()), (0, Some(due)));
        engine.now = due;
        engine.end_cancelled();
        assert_eq!((engine.orders.kills.len(), engine.next_ending()), (1, None), "it is asked for once");
        assert!(engine.scheduling.to_be_cancelled.is_empty());
    }

    #[test]
    fn a_cancelled_read_whose_server_is_lost_does_not_run_again() {
        let (mut engine, key, victim) = cancelled_before_others(Settings::default());
        let phases = |engine: &mut Engine| {
            let mut statement = engine.servers[key].in_flight.pop_front().expect("it is in flight");
            let client = statement.owner.client().expect("it is a client's");
            engine.wait_again(client, &mut statement, SentBefore::Lost);
            (client == victim, matches!(engine.clients[client].phase(), Phase::Queued))
        };
        assert_eq!(phases(&mut engine), (true, false), "it is told that it was interrupted");
        assert_eq!(phases(&mut engine), (false, true), "the other one runs elsewhere");
    }

    /// Its connection ends with its statement: that it was refused something is noted of whoever it was.
    #[test]
    fn a_transaction_over_its_time_ends_while_its_statement_waits() {
        let overload =
            OverloadSettings { transaction_timeout: Duration::from_secs(5), ..OverloadSettings::default() };
        let mut engine = engine(1, Settings { overload, ..Settings::default() });
        engine.clients[client_key(0)].session.status =
            StatusFlags(StatusFlags::AUTOCOMMIT.0 | StatusFlags::IN_TRANS.0);
        let mut query = Vec::new();
        wire::put_message(&mut query, &mut 0, b"\x03UPDATE t SET a = 1");
        engine.handle(Instant::START, Input::Bytes { connection: connection(0), bytes: &query });
        assert!(matches!(engine.clients[client_key(0)].phase(), Phase::Queued));
        engine.now = Instant::START + Duration::from_secs(4);
        engine.sweep_transactions();
        assert_eq!(engine.clients.iter().count(), 1, "it may last as long");
        engine.now = Instant::START + Duration::from_secs(6);
        engine.sweep_transactions();
        assert_eq!(engine.clients.iter().count(), 0);
        let seen = std::iter::from_fn(|| engine.poll_event()).map(|event| event.to_string());
        assert!(seen.collect::<Vec<_>>().iter().any(|event| event.contains("transaction_timeout")));
    }
}
