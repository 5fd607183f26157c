//! Ends waits that are of no use: statements that take too long or have lost their client, and transactions that stay open.
//!
//! KILL QUERY ends a statement that runs. The statement's own user asks for that, since the server always lets a user end what is
//! its own. KILL CONNECTION ends a transaction, since the rest of a text or procedure could commit it. Nobody else uses the
//! backend afterwards: a KILL that comes late must not hit another client's statement.

use std::time::Duration;

use seam::Instant;
use sql::Kind;
use wire::StatusFlags;

use super::abandoned::Abandoned;
use super::settings::OverloadSettings;
use crate::accounts::IdentityId;
use crate::backend::{Afterwards, Backend, InFlight, Owner};
use crate::client::{Client, LossKind, Phase, Running};
use crate::errors::{Bound, MySqlError};
use crate::ids::{BackendKey, ClientKey, Table};
use crate::outside::named::Limit;
use crate::pool::Pool;
use crate::request::Request;
use crate::scheduling::Scheduling;
use crate::servers::Servers;
use crate::session::Sessions;
use crate::settings::Settings;
use crate::workers::letter::ServerKill;

/// The time that a statement may run after its client has gone, before a KILL is sent. Most end by themselves, and the KILL
/// takes a round trip and a moment on a backend.
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
            client.transaction.begins(now);
        }
    }

    /// The time at which statements are to be ended that are over their time, or that nobody waits for.
    pub(crate) fn next_ending(
        &self,
        now: Instant,
        settings: &Settings,
        servers: &Servers,
        clients: &Table<ClientKey, Client>,
    ) -> Option<Instant> {
        let limited = !settings.overload.query_timeout.is_zero();
        let slow = servers.backends().filter(|_| limited);
        let slow = slow.filter_map(|(_, backend)| query_timeout_of(settings, clients, backend));
        let cancelled = self.to_be_ended.cancelled.iter();
        let cancelled = cancelled.filter_map(|&key| cancelled_due(servers.get(key)?));
        let abandoned = self.to_be_ended.abandoned.iter().map(|abandoned| abandoned.since + GRACE);
        // One that is due waits for a backend to ask on, and whatever makes that come makes a turn.
        let abandoned = abandoned.filter(|&due| due > now);
        slow.chain(cancelled).chain(abandoned).min()
    }

    /// The users of statements that nobody waits for any more, and that a KILL may be sent for.
    pub(crate) fn users_of_abandoned(&self, servers: &Servers) -> impl Iterator<Item = IdentityId> {
        let victims = self.to_be_ended.abandoned.iter();
        victims.filter_map(|abandoned| Some(servers.get(abandoned.backend)?.account.identity()))
    }
}

impl OverloadSettings {
    /// The option behind what was taken from a client.
    pub(crate) fn bound_behind(&self, lost: LossKind) -> Option<Bound> {
        match lost {
            LossKind::IdleTooLong => {
                Some(Bound::time(Limit::IdleTransactionTimeout, self.idle_transaction_timeout))
            }
            LossKind::OpenTooLong => Some(Bound::time(Limit::TransactionTimeout, self.transaction_timeout)),
            LossKind::HeldIdle => Some(self.idle_hold_bound()),
            LossKind::Transaction | LossKind::PinnedState | LossKind::Server => None,
        }
    }
}

impl Client {
    /// A statement has ended, which may have begun another transaction at once (COMMIT AND CHAIN, BEGIN after BEGIN).
    pub(crate) fn note_ended(&mut self, now: Instant, request: &Request) {
        if matches!(request.statement.kind, Kind::Begin | Kind::Commit | Kind::Rollback) {
            self.transaction.begins(now);
        }
    }

    /// Says whether its command is the end of its transaction.
    fn ends_transaction(&self) -> bool {
        let request = self.request.as_ref();
        request.is_some_and(|request| matches!(request.statement.kind, Kind::Commit | Kind::Rollback))
    }

    /// Decides how the client's transaction is ended that has lasted for too long.
    pub(crate) fn end_of_transaction(&self) -> EndOfTransaction {
        match *self.phase() {
            Phase::Idle => EndOfTransaction::WithItsBackend,
            // It holds its backend and waits for nothing else than its end.
            Phase::Queued | Phase::Running(Running::OnServer) if self.ends_transaction() => {
                EndOfTransaction::Later
            }
            Phase::Queued => EndOfTransaction::WithAnAnswer,
            Phase::Running(Running::OnServer) => EndOfTransaction::ByKill,
            // The next sweep finds it in another phase.
            _ => EndOfTransaction::Later,
        }
    }
}

impl Servers {
    /// The statement of a client that has gone is over. Behind most of them the backend is closed anyway; reads that others share are such
    /// that nobody expects anything of them.
    pub(crate) fn abandoned_ended(
        &mut self,
        pool: &Pool,
        sessions: &mut Sessions,
        key: BackendKey,
        statement: &InFlight,
    ) {
        if statement.shared && self.contains(key) {
            self.brought_state_stands(key, statement, sessions);
        }
        let summary = &statement.summary;
        let in_transaction = summary.status.is_some_and(|status| status.contains(StatusFlags::IN_TRANS));
        let code_has_come =
            statement.library.is_some_and(|version| version != pool.workers.stored_code.version());
        let clean = if in_transaction || !summary.changes.is_empty() || code_has_come {
            Afterwards::Close
        } else if summary.error.is_some() {
            Afterwards::Reset
        } else {
            return;
        };
        let Some(backend) = self.get_mut(key) else { return };
        backend.clean_afterwards(clean);
    }
}

/// How a client's transaction is ended.
pub(crate) enum EndOfTransaction {
    /// The transaction does not end yet.
    Later,
    /// The idle client loses its backend.
    WithItsBackend,
    /// The client's waiting statement gets an error as its answer.
    WithAnAnswer,
    /// The server ends it, and the statement that runs.
    ByKill,
}

/// A statement that has run for too long, which is ended now.
pub(crate) struct TooSlow {
    /// The statement's client.
    pub(crate) client: ClientKey,
    /// Clients that wait for the same answer. Otherwise each of them in turn would take the statement over, and be over its time.
    pub(crate) followers: Vec<ClientKey>,
}

/// The next step for a statement that nobody waits for any more.
pub(crate) enum EndOfAbandoned {
    /// Nothing: it is over, or has been waited for in vain.
    None,
    /// The same is to be asked later.
    Later,
    /// The statement's backend is given up.
    GiveUp,
    /// The server is asked to end it, on this idle backend.
    Kill(BackendKey, ServerKill),
    /// A backend is opened to ask on.
    Open,
}

/// Statements and transactions that may have lasted for too long.
pub(crate) struct Overdue<'a> {
    pub(crate) now: Instant,
    pub(crate) settings: &'a Settings,
    pub(crate) clients: &'a Table<ClientKey, Client>,
    pub(crate) servers: &'a mut Servers,
    pub(crate) scheduling: &'a mut Scheduling,
}

impl Overdue<'_> {
    /// The backends on which statements have run for longer than `query_timeout`.
    pub(crate) fn with_slow_statements(&self) -> Vec<BackendKey> {
        let limit = self.settings.overload.query_timeout;
        if limit.is_zero() {
            return Vec::new();
        }
        let is_over = |backend: &Backend| {
            query_timeout_of(self.settings, self.clients, backend).is_some_and(|due| due <= self.now)
        };
        self.servers.backends().filter(|(_, backend)| is_over(backend)).map(|(key, _)| key).collect()
    }

    /// The first statement on a backend is to be ended for that.
    pub(crate) fn end_slow(&mut self, key: BackendKey) -> Option<TooSlow> {
        let statement = self.servers[key].in_flight.front_mut()?;
        statement.end_asked();
        let client = statement.owner.client()?;
        Some(TooSlow { client, followers: self.servers.followers_behind(key, self.clients) })
    }

    /// A KILL QUERY of a read that shares its backend with others': it is asked for when the read is the last one there, or stuck.
    pub(crate) fn cancel_later(&mut self, victim: ClientKey, key: BackendKey) {
        for statement in &mut self.servers[key].in_flight {
            if matches!(statement.owner, Owner::Client { client, .. } if client == victim) {
                statement.end_when_alone();
            }
        }
        if !self.scheduling.to_be_ended.cancelled.contains(&key) {
            self.scheduling.to_be_ended.cancelled.push(key);
        }
    }

    /// The client with the read on this backend that is to be ended now for such a KILL QUERY.
    pub(crate) fn end_cancelled(&mut self, key: BackendKey) -> Option<ClientKey> {
        let backend = self.servers.get_mut(key)?;
        cancelled_due(backend).filter(|&due| due <= self.now)?;
        let statement = backend.in_flight.front_mut()?;
        statement.end_by_itself();
        statement.owner.client()
    }

    /// Reads on this backend that are to be ended later.
    pub(crate) fn keep_to_be_cancelled(&mut self, key: BackendKey) {
        let Some(backend) = self.servers.get(key) else { return };
        if backend.in_flight.iter().any(|statement| statement.ends_when_alone()) {
            self.scheduling.to_be_ended.cancelled.push(key);
        }
    }

    /// A client goes while its statement runs on this backend.
    pub(crate) fn note_abandoned(&mut self, client: ClientKey, backend: BackendKey) {
        let wanted = self.settings.overload.kill_abandoned && !self.servers[backend].shares();
        // The end of a transaction goes through, as it would with nobody there to read the answer.
        if wanted && !self.clients[client].ends_transaction() {
            let token = self.servers[backend].token;
            self.scheduling.to_be_ended.abandoned.push(Abandoned { backend, token, since: self.now });
        }
    }

    /// Decides about a statement that nobody waits for any more. `is_former`: its server is not the primary.
    pub(crate) fn end_abandoned(&self, abandoned: &Abandoned, is_former: bool) -> EndOfAbandoned {
        let Some(victim) = self.servers.get(abandoned.backend) else { return EndOfAbandoned::None };
        let runs = victim.in_flight.iter().any(|statement| statement.owner == Owner::Abandoned);
        let time = self.now.since(abandoned.since);
        if victim.token != abandoned.token || !runs || time >= self.settings.backend_connect_timeout {
            return EndOfAbandoned::None;
        }
        if is_former {
            // Nor for what has not arrived there.
            return EndOfAbandoned::GiveUp;
        }
        if time < GRACE {
            return EndOfAbandoned::Later;
        }
        let (identity, thread_id) = (victim.account.identity(), u64::from(victim.login.thread_id));
        let mut idle = self.servers.of(abandoned.backend).idle.iter().copied();
        let idle = idle.find(|&idle| self.servers[idle].account.identity() == identity);
        let ending = ServerKill { thread_id, query_only: true };
        idle.map_or(EndOfAbandoned::Open, |carrier| EndOfAbandoned::Kill(carrier, ending))
    }

    /// The backends of statements that nobody has waited for since long, and of answers of our own that do not come. Their
    /// clients have ended their connections, and this does so too: the server takes it as it would have taken that. So a reply
    /// that never ends costs no backend for good.
    pub(crate) fn long_abandoned(&self) -> Vec<BackendKey> {
        let limit = self.settings.overload.abandoned_timeout;
        if limit.is_zero() {
            return Vec::new();
        }
        let is_over = |backend: &Backend| {
            let waits = backend.in_flight.front().is_some_and(|statement| statement.owner.client().is_none());
            let since = backend.unheard_since();
            waits && backend.is_ready() && self.now.since(since) >= limit
        };
        self.servers.backends().filter(|(_, backend)| is_over(backend)).map(|(key, _)| key).collect()
    }

    /// The clients with transactions that have been open, or idle, for too long.
    pub(crate) fn transactions(&self) -> Vec<(ClientKey, LossKind)> {
        let overload = &self.settings.overload;
        let (idle, open) = (overload.idle_transaction_timeout, overload.transaction_timeout);
        if idle.is_zero() && open.is_zero() {
            return Vec::new();
        }
        let over = |limit: Duration, since| !limit.is_zero() && self.now.since(since) >= limit;
        self.clients
            .iter()
            .filter(|(_, client)| {
                client.in_transaction() && client.loss.kind.is_none() && !client.loss.killed
            })
            .filter_map(|(key, client)| match *client.phase() {
                _ if over(open, client.transaction.since()) => Some((key, LossKind::OpenTooLong)),
                Phase::Idle if over(idle, client.activity.last_heard()) => Some((key, LossKind::IdleTooLong)),
                _ => None,
            })
            .collect()
    }
}

/// The time at which the first statement on a backend is to be ended for the KILL QUERY that its client has got. Another statement waits for its
/// turn.
fn cancelled_due(backend: &Backend) -> Option<Instant> {
    let alone = backend.in_flight.len() == 1;
    let is_first = backend.in_flight.front().is_some_and(|statement| statement.ends_when_alone());
    is_first.then(|| backend.first.since + if alone { Duration::ZERO } else { STUCK })
}

/// The time at which the first statement on a backend will have run for `query_timeout`.
fn query_timeout_of(
    settings: &Settings,
    clients: &Table<ClientKey, Client>,
    backend: &Backend,
) -> Option<Instant> {
    let limit = settings.overload.query_timeout;
    let statement = backend.in_flight.front().filter(|statement| !statement.is_asked_to_end())?;
    let Owner::Client { client, .. } = statement.owner else { return None };
    let executes = matches!(clients[client].phase(), Phase::Running(Running::OnServer));
    if limit.is_zero() || !executes || clients[client].ends_transaction() {
        return None;
    }
    let alone = backend.in_flight.len() == 1;
    Some(backend.first.since + if alone { limit } else { limit.max(STUCK) })
}

impl MySqlError {
    /// The error for a transaction that was rolled back because it was idle for too long: ER_NET_READ_INTERRUPTED, as
    /// MariaDB has it where `idle_transaction_timeout` is over.
    pub(crate) fn transaction_idle(bound: &Bound) -> Self {
        Self {
            code: 1159,
            sql_state: b"08S01",
            message: format!(
                "Got timeout reading communication packets: the transaction was idle and has been rolled back ({bound})"
            ),
        }
    }

    /// The error for a transaction that was open for too long: ER_CONNECTION_KILLED, MariaDB's. No server has a code of its own for it.
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
    use wire::{CommandKind, Expect};

    use super::*;
    use crate::client::commands::command::tests::{connection, engine};
    use crate::cluster::sent_before::SentBefore;
    use crate::engine::Engine;
    use crate::ids::client_key;
    use crate::request::RequestKind;
    use crate::scheduling::overload::settings::OverloadSettings;
    use crate::settings::Settings;
    use crate::timers::list::Timer;

    fn next_ending(engine: &Engine) -> Option<Instant> {
        engine.timer(Timer::Overdue)
    }

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
            engine.sending().send_own(
                key,
                owner,
                CommandKind::Query,
                b"SELECT a FROM t",
                Expect::ResultSets,
                0,
            );
            engine.clients[client].session.status_told(StatusFlags::AUTOCOMMIT);
            engine.clients[client].backend = Some(key);
            engine.clients[client].set_phase(Phase::Running(Running::OnServer));
        }
        engine.overdue().cancel_later(clients[0], key);
        (engine, key, clients[0])
    }

    /// Were it not yet stuck for a KILL by then, it would be due again and again.
    #[test]
    fn a_cancelled_read_before_others_is_ended_as_soon_as_it_is_stuck() {
        let (mut engine, ..) = cancelled_before_others(Settings::default());
        let due = Instant::START + STUCK;
        assert_eq!((engine.orders.kills.len(), next_ending(&engine)), (0, Some(due)));
        engine.now = due;
        engine.end_overdue();
        assert_eq!((engine.orders.kills.len(), next_ending(&engine)), (1, None), "it is asked for once");
        assert!(engine.scheduling.to_be_ended.cancelled.is_empty());
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

    /// The client's connection ends with its statement. The refusal is noted even so.
    #[test]
    fn a_transaction_over_its_time_ends_while_its_statement_waits() {
        let overload =
            OverloadSettings { transaction_timeout: Duration::from_secs(5), ..OverloadSettings::default() };
        let mut engine = engine(1, Settings { overload, ..Settings::default() });
        engine.clients[client_key(0)]
            .session
            .status_told(StatusFlags(StatusFlags::AUTOCOMMIT.0 | StatusFlags::IN_TRANS.0));
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
