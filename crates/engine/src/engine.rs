//! The engine itself: its tables and its turn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use seam::{CloseReason, ConnectionId, Input, Instant, Output, Program, Signal};

use crate::accounts::entropy::Entropy;
use crate::accounts::failed_logins::LateRefusal;
use crate::accounts::task::Tasks;
use crate::accounts::{Identities, IdentityId};
use crate::client::commands::Resume;
use crate::client::delay::Delayed;
use crate::client::delegation::Claims;
use crate::client::hoards::Hoards;
use crate::client::known_answers::KnownAnswers;
use crate::client::login_schema::SchemaCheck;
use crate::client::{Client, Phase, Running};
use crate::coalescing::Coalescer;
use crate::control::CONTROL_TOKEN;
use crate::ids::{BackendKey, ClientKey, ClientRef, Table};
use crate::learned::digests::Digests;
use crate::learned::history::History;
use crate::learned::limit::Served;
use crate::learned::long_permits::Pace;
use crate::outbox::Outbox;
use crate::outside::event::{Event, Reports};
use crate::outside::limits_reached::LimitReached;
use crate::outside::measures::Measures;
use crate::outside::named::{ClosedFor, Limit};
use crate::outside::orders::OutsideKill;
use crate::outside::totals::Totals;
use crate::outside::waits::{Holdups, WaitReason, Waits};
use crate::overload::{Abandoned, NewWork};
use crate::scheduler::{Class, Scheduler};
use crate::server::Server;
use crate::session::Sessions;
use crate::session::pin_counts::PinCounts;
use crate::session::statements::Definitions;
use crate::settings::Settings;
use crate::shares::Shares;
use crate::timers::Timer;
use crate::workers::Workers;
use crate::workers::letter::Letter;

/// The core of `onramp serve`: the thread pool as a state machine without I/O.
///
/// It is a [`Program`]: hand it what happened with `handle`, at the end of a turn [`Input::TurnEnd`], then carry out
/// `poll_output` until it is dry, and come back at `next_timeout` at the latest. [`Self::poll_event`] yields what is
/// worth a line in a log, and may be called at any time. Nothing is sent, scheduled or timed out but in a turn.
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) workers: Arc<Workers>,
    /// Which of them this is.
    pub(crate) worker: usize,
    pub(crate) letters: VecDeque<(usize, Letter)>,
    /// Work for other threads.
    pub(crate) tasks: Tasks,
    pub(crate) claims: Claims,
    /// Refused logins that are told so at a time, in the order of that and of their clients' ids.
    pub(crate) late_refusals: BTreeMap<(Instant, u64), LateRefusal>,
    /// Since when this worker has waited for a permit of another, or has asked the others.
    pub(crate) wanting_since: Option<Instant>,
    pub(crate) now: Instant,
    pub(crate) outbox: Outbox,
    pub(crate) reports: Reports,
    pub(crate) entropy: Entropy,
    /// Who is behind a connection, by the connection's index.
    roles: Vec<(u32, Role)>,
    pub(crate) clients: Table<ClientKey, Client>,
    pub(crate) client_ids: BTreeMap<u32, ClientKey>,
    pub(crate) last_client_id: u32,
    pub(crate) last_token: u64,
    pub(crate) server: Server,
    pub(crate) sessions: Sessions,
    pub(crate) known_answers: KnownAnswers,
    pub(crate) definitions: Definitions,
    /// Prepared statements of all clients of this worker.
    pub(crate) statement_count: u32,
    pub(crate) identities: Identities,
    pub(crate) history: History,
    pub(crate) digests: Digests,
    pub(crate) pin_counts: PinCounts,
    /// What this turn has to say about limits that are to be found.
    pub(crate) served: Served,
    pub(crate) coalescer: Coalescer,
    pub(crate) waits: Waits,
    pub(crate) holdups: Holdups,
    pub(crate) measures: Measures,
    /// What statements have taken since the last long one ended.
    pub(crate) others_pace: Pace,
    pub(crate) scheduler: Scheduler,
    pub(crate) new_work: NewWork,
    pub(crate) shares: Shares,
    /// Statements whose clients have gone, and that are to be ended.
    pub(crate) abandoned: Vec<Abandoned>,
    /// Logins by their deadline: all have the same time, so that the first is always the next.
    pub(crate) logins: VecDeque<(Instant, ClientRef)>,
    pub(crate) awaiting_accounts: Vec<ClientRef>,
    /// Statements that are not in a queue yet.
    pub(crate) delayed: VecDeque<Delayed>,
    /// Schemas of logins of which the server is being asked.
    pub(crate) schema_checks: BTreeMap<(IdentityId, Vec<u8>), SchemaCheck>,
    /// KILLs that wait for a backend, and since when.
    pub(crate) urgent: Vec<(ClientRef, Instant)>,
    /// Clients that are idle again and may have sent ahead.
    pub(crate) resume: Resume,
    /// Schemas that a user was allowed to use, and when.
    pub(crate) known_schemas: BTreeMap<(IdentityId, Vec<u8>), Instant>,
    /// Bytes of waiting statements.
    pub(crate) buffered: usize,
    pub(crate) hoards: Hoards,
    /// When open transactions are given up, once draining has begun.
    pub(crate) draining: Option<Instant>,
    /// When idle clients and backends are looked through next.
    pub(crate) next_sweep: Instant,
    /// The limits that were reached.
    pub(crate) limits_reached: BTreeMap<Limit, LimitReached>,
    pub(crate) totals: Totals,
    /// No new statement goes to the server, see [`Engine::pause`].
    pub(crate) paused: bool,
    /// Statements that somebody outside wants ended.
    pub(crate) kills: Vec<OutsideKill>,
}

/// See [`Engine::snapshot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Clients, those that are logging in included.
    pub clients: usize,
    /// Connections to the server, the service account's aside, those that are being opened included.
    pub backends: usize,
    /// Permits in use.
    pub running: u32,
    /// Statements waiting in the queues.
    pub waiting: usize,
    /// Different session states of clients and backends.
    pub session_states: usize,
    /// Bytes of statements that wait or are not yet whole.
    pub buffered: usize,
}

/// What a connection is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Free,
    Client(ClientKey),
    Backend(BackendKey),
    Control,
}

/// Idle clients and backends are looked through this often: fine enough for timeouts of seconds, and 100,000 clients
/// take about a millisecond.
const SWEEP: Duration = Duration::from_secs(1);

impl Engine {
    /// The only worker of its pool.
    ///
    /// # Panics
    ///
    /// As [`Self::join`].
    pub fn new(settings: Settings) -> Self {
        let workers = Workers::new(&settings, 1);
        Self::join(settings, workers, 0)
    }

    /// One of several workers, the one with this number from 0. It knows nothing yet, and asks for its first connection to
    /// the server in its first turn. All have the same settings but for their entropy.
    ///
    /// # Panics
    ///
    /// If there is no server, a bound is zero (the table of options does not let that through), or there is no such worker.
    pub fn join(settings: Settings, workers: Arc<Workers>, worker: usize) -> Self {
        assert!(worker < workers.count() as usize && !settings.server.is_empty(), "a worker of a pool");
        Self {
            scheduler: Scheduler::new(&settings, Arc::clone(&workers), worker),
            workers,
            worker,
            letters: VecDeque::new(),
            tasks: Tasks::default(),
            claims: Claims::default(),
            late_refusals: BTreeMap::new(),
            wanting_since: None,
            entropy: Entropy::new(settings.entropy),
            now: Instant::START,
            outbox: Outbox::default(),
            reports: Reports::default(),
            roles: Vec::new(),
            clients: Table::new(),
            client_ids: BTreeMap::new(),
            last_client_id: 0,
            last_token: CONTROL_TOKEN,
            server: Server::new(),
            sessions: Sessions::default(),
            known_answers: KnownAnswers::default(),
            definitions: Definitions::default(),
            statement_count: 0,
            identities: Identities::default(),
            history: History::default(),
            digests: Digests::new(settings.digests_size),
            pin_counts: PinCounts::default(),
            served: Served::default(),
            coalescer: Coalescer::default(),
            waits: Waits::default(),
            holdups: Holdups::default(),
            measures: Measures::default(),
            new_work: NewWork::default(),
            shares: Shares::default(),
            abandoned: Vec::new(),
            others_pace: Pace::default(),
            logins: VecDeque::new(),
            awaiting_accounts: Vec::new(),
            schema_checks: BTreeMap::new(),
            delayed: VecDeque::new(),
            urgent: Vec::new(),
            resume: Resume::default(),
            known_schemas: BTreeMap::new(),
            buffered: 0,
            hoards: Hoards::default(),
            draining: None,
            next_sweep: Instant::START,
            limits_reached: BTreeMap::new(),
            totals: Totals::default(),
            paused: false,
            kills: Vec::new(),
            settings,
        }
    }

    /// The oldest event not yet reported.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.reports.events.pop_front()
    }

    /// The next message for another worker, and for which; whoever runs the engines hands it to [`Self::read_letter`] of
    /// that one. To be asked for at the end of each turn.
    pub fn poll_letter(&mut self) -> Option<(usize, Letter)> {
        self.letters.pop_front()
    }

    /// Takes in a message of another worker. A turn has to follow, with an end.
    pub fn read_letter(&mut self, letter: &Letter) {
        match letter {
            Letter::Wake => {}
            Letter::Kill(kill) => self.kill_for_worker(kill),
            Letter::Killed(killed) => self.killed_by_worker(killed),
            Letter::Proved(proved) => self.identities.renew(proved),
            Letter::LockWaits(waits) => self.take_lock_waits(waits),
            Letter::LockHolders(holders) => self.take_lock_holders(holders),
            Letter::MakeRoom { from } => self.make_room_for_worker(*from),
            Letter::RoomMade => self.room_was_made(),
            Letter::DefaultsChanged => self.server.control.defaults.are_wanted(),
            Letter::CodeFound => self.renew_backends(),
        }
    }

    /// How full the tables are now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            clients: self.clients.len(),
            backends: self.server.backends.len(),
            running: self.scheduler.running(),
            waiting: self.scheduler.waiting()
                + self.shares.waiting(Class::Short)
                + self.shares.waiting(Class::Long),
            session_states: self.sessions.len(),
            buffered: self.buffered,
        }
    }

    /// Numbers by digest, as of this worker.
    pub fn digests(&self) -> &Digests {
        &self.digests
    }

    /// Why statements of this worker have waited.
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.totals.count(&event);
        self.measures.count(&event);
        // Nobody reads along: the newest matter most.
        if self.reports.events.len() == 1024 {
            self.reports.events.pop_front();
        }
        self.reports.events.push_back(event);
    }

    pub(crate) fn set_role(&mut self, connection: ConnectionId, role: Role) {
        let index = connection.index as usize;
        if self.roles.len() <= index {
            self.roles.resize(index + 1, (0, Role::Free));
        }
        // A late message about an earlier use of the slot must not free the present one.
        if role != Role::Free || self.roles[index].0 == connection.generation {
            self.roles[index] = (connection.generation, role);
        }
    }

    pub(crate) fn roles_capacity(&self) -> usize {
        self.roles.capacity()
    }

    pub(crate) fn role(&self, connection: ConnectionId) -> Role {
        match self.roles.get(connection.index as usize) {
            Some(&(generation, role)) if generation == connection.generation => role,
            _ => Role::Free,
        }
    }

    /// A backend has bytes to send at the end of the turn.
    pub(crate) fn mark_dirty(&mut self, key: BackendKey) {
        if !self.server.dirty.contains(&key) {
            self.server.dirty.push(key);
        }
    }

    pub(crate) fn put_to_backend(&mut self, key: BackendKey, bytes: &[u8]) {
        self.server.backends[key].out.extend_from_slice(bytes);
        self.mark_dirty(key);
    }

    pub(crate) fn release_identity(&mut self, identity: IdentityId) {
        if self.identities.release(identity) {
            self.known_schemas.retain(|(known, _), _| *known != identity);
            self.server.opening.companions.forget(identity);
        }
    }

    fn bytes(&mut self, connection: ConnectionId, bytes: &[u8]) {
        match self.role(connection) {
            Role::Client(key) => self.client_bytes(key, bytes),
            Role::Backend(key) => self.backend_bytes(key, bytes),
            Role::Control => self.control_bytes(bytes),
            Role::Free => {}
        }
    }

    fn closed(&mut self, connection: ConnectionId, reason: CloseReason) {
        let said = match reason {
            CloseReason::EndOfStream => String::from("the server closed the connection"),
            CloseReason::Failed(errno) => std::io::Error::from_raw_os_error(errno).to_string(),
            CloseReason::TooMuchHeld => String::from("it has sent too much"),
        };
        match self.role(connection) {
            Role::Client(key) => self.client_ended(key, reason),
            Role::Backend(key) => self.backend_gone(key, &said),
            Role::Control => {
                self.control_lost(&said);
            }
            Role::Free => {}
        }
        self.set_role(connection, Role::Free);
    }

    /// A connection's peer reads slowly, or has caught up.
    fn stalled(&mut self, connection: ConnectionId, stalled: bool) {
        match (self.role(connection), stalled) {
            (Role::Client(key), true) => self.client_stalled(key),
            (Role::Client(key), false) => self.client_drained(key),
            (Role::Backend(key), true) => self.server_stalled(key),
            (Role::Backend(key), false) => {
                if let Some(client) = self.server.backends[key].holder {
                    self.server_keeps_up(client);
                    self.has_arrived(client);
                }
            }
            (Role::Control | Role::Free, _) => {}
        }
    }

    fn turn_end(&mut self) {
        self.workers.awake(self.worker);
        self.workers.holds_bytes(self.worker, self.buffered);
        self.control_turn();
        self.expire_logins();
        self.tell_refusals();
        self.end_delays();
        self.workers.adapt_limits(self.now, &mut self.served);
        self.scheduler.kick_up(self.now);
        if self.next_sweep <= self.now {
            self.next_sweep = self.now + SWEEP;
            self.expire_connects();
            self.sweep_clients();
            self.sweep_transactions();
            if self.workers.count() > 1 {
                self.give_up_kills();
            }
            self.sweep_backends();
            self.sweep_abandoned();
            self.claims.look_again();
            self.give_back_tables();
        }
        self.go_on_with_claims();
        self.drain_turn();
        while let Some(key) = self.resume.pop() {
            if self.clients.contains(key) && !self.clients[key].input.is_empty() {
                self.continue_client(key);
            }
            self.drain_client(key);
        }
        self.resume.begin_later();
        self.keep_to_session_memory();
        self.end_overdue();
        self.carry_out_kills();
        if self.paused {
            self.new_work.starts_lately.hold(self.now);
            self.holdups.note(self.now, Some(WaitReason::Paused), Some(WaitReason::Paused));
        } else {
            if self.server.reachability.is_down() {
                self.new_work.starts_lately.hold(self.now);
            }
            self.dispatch_shares();
            self.refuse_overload();
        }
        self.serve_other_workers();
        self.control_turn();
        self.send_to_backends();
        if cfg!(debug_assertions) {
            self.check_invariants();
            self.check_timers();
        }
    }

    /// SIGTERM: nobody new, idle clients go, the others finish.
    fn drain(&mut self) {
        if self.draining.is_some() {
            return;
        }
        self.draining = Some(self.now + self.settings.shutdown_timeout);
        self.outbox.stop_listening();
        let all: Vec<_> = self.clients.iter().map(|(key, _)| key).collect();
        for key in all {
            self.drain_client(key);
        }
    }

    /// While draining, a client goes as soon as nothing of it is open.
    pub(crate) fn drain_client(&mut self, key: ClientKey) {
        if self.draining.is_none() || !self.clients.contains(key) {
            return;
        }
        let client = &self.clients[key];
        let waiting = matches!(client.phase(), Phase::Idle | Phase::Login(_) | Phase::AwaitingServer);
        // A replica waits for events that are to come, and connects again.
        let replicates = matches!(client.phase(), Phase::Running(Running::Replicating { .. }));
        if replicates || (waiting && !client.in_transaction() && client.unstarted.is_none()) {
            self.drop_client(key);
        }
    }

    fn drain_turn(&mut self) {
        let Some(deadline) = self.draining else { return };
        if self.now >= deadline {
            let all: Vec<_> = self.clients.iter().map(|(key, _)| key).collect();
            for key in all {
                self.close_client(key, ClosedFor::ShutdownTimeout, "shutdown_timeout is over");
            }
        }
        if self.clients.is_empty() {
            self.stop();
        }
    }

    /// Leaves the server in the orderly way, and says that nothing is left to do.
    fn stop(&mut self) {
        // Whoever comes in the same turn is refused.
        self.draining.get_or_insert(self.now);
        let all: Vec<_> = self.clients.iter().map(|(key, _)| key).collect();
        for key in all {
            // One that goes may take others along: those that waited with it for the schema of their login.
            if self.clients.contains(key) {
                self.drop_client(key);
            }
        }
        let backends: Vec<_> = self.server.backends.iter().map(|(key, _)| key).collect();
        for key in backends {
            self.quit_backend(key);
        }
        self.outbox.finished();
    }
}

impl Program for Engine {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        debug_assert!(now >= self.now, "time does not run backwards");
        self.now = now;
        match input {
            Input::Accepted { connection, listener, peer } => {
                self.client_accepted(connection, listener, peer);
            }
            Input::Connected { token: CONTROL_TOKEN, connection } => self.control_connected(connection),
            Input::Connected { token, connection } => self.backend_connected(token, connection),
            Input::ConnectFailed { token: CONTROL_TOKEN, errno } => self.control_connect_failed(errno),
            Input::ConnectFailed { token, errno } => self.backend_connect_failed(token, errno),
            Input::Bytes { connection, bytes } => self.bytes(connection, bytes),
            Input::Stalled { connection } => self.stalled(connection, true),
            Input::Drained { connection } => self.stalled(connection, false),
            Input::Closed { connection, reason } => self.closed(connection, reason),
            Input::Announced { connection, peer } => self.announced(connection, peer),
            Input::Secured { connection, session } => self.secured(connection, session),
            Input::TlsFailed { connection, reason } => self.tls_failed(connection, reason),
            Input::Signal(Signal::Drain) => self.drain(),
            Input::Signal(Signal::Stop) => self.stop(),
            Input::Signal(Signal::Wake | Signal::Report | Signal::Look) => {}
            Input::TurnEnd => self.turn_end(),
        }
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        self.outbox.poll()
    }

    fn next_timeout(&self) -> Option<Instant> {
        Timer::ALL.iter().filter_map(|&timer| self.timer(timer)).min()
    }
}
