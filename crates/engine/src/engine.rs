//! The engine itself: its tables and its turn.

use std::sync::Arc;
use std::time::Duration;

use seam::{CloseReason, ConnectionId, Input, Instant, Output, Peer, Program, Signal, TlsSession};

use crate::accounts::IdentityHold;
use crate::accounts::task::{Asker, Finding, Task};
use crate::backend::login::reachability::connect_error;
use crate::client::answers::answer::Answers;
use crate::client::ids::ClientIds;
use crate::client::memory::bytes_held::ClientMemory;
use crate::client::resume::Resume;
use crate::client::{Client, Phase};
use crate::cluster::Cluster;
use crate::cluster::check::is_of_check;
use crate::cluster::following::Following;
use crate::errors::MySqlError;
use crate::ids::{ClientKey, Table};
use crate::invariants;
use crate::io::{Io, Role};
use crate::logins::Logins;
use crate::outside::event::Event;
use crate::outside::named::{ClosedFor, LoginStage};
use crate::outside::orders::given::Orders;
use crate::outside::slow_log::SlowStatement;
use crate::outside::slow_log::noting::Surroundings;
use crate::outside::views::Views;
use crate::outside::waits::Lack;
use crate::pool::Pool;
use crate::readers::Readers;
use crate::readers::guests::Guests;
use crate::scheduling::Scheduling;
use crate::scheduling::shares::Parties;
use crate::servers::Servers;
use crate::session::SessionTables;
use crate::settings::Settings;
use crate::timers::list::Timer;
use crate::workers::Workers;
use crate::workers::letter::Letter;

/// The core of `onramp serve`: the thread pool as a state machine without I/O.
///
/// It is a [`Program`]: hand it what happened with `handle`, at the end of a turn [`Input::TurnEnd`], then carry out `poll_output` until it is
/// dry, and come back at `next_timeout` at the latest. [`Self::poll_event`] yields log lines at any time. All else is done in a turn.
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) now: Instant,
    pub(crate) io: Io,
    pub(crate) pool: Pool,
    pub(crate) clients: Table<ClientKey, Client>,
    pub(crate) ids: ClientIds,
    pub(crate) logins: Logins,
    pub(crate) sessions: SessionTables,
    pub(crate) scheduling: Scheduling,
    pub(crate) servers: Servers,
    /// The servers behind the addresses, where there may be several.
    pub(crate) cluster: Cluster,
    /// What this worker knows of which of them is the primary.
    pub(crate) following: Following,
    /// Those that read on replicas.
    pub(crate) readers: Readers,
    /// What a reader knows of its guests; `None` in the engine that clients come to.
    pub(crate) guests: Option<Guests>,
    pub(crate) views: Views,
    /// Clients that are idle again and may have sent ahead.
    pub(crate) resume: Resume,
    pub(crate) client_memory: ClientMemory,
    /// When idle clients and backends are looked through next.
    next_sweep: Instant,
    pub(crate) orders: Orders,
}

/// Idle clients and backends are looked through this often: fine enough for timeouts of seconds, and 100,000 clients take a millisecond.
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
        let readers = Readers::new(&settings, &workers, worker);
        let io = Io::new(settings.entropy);
        Self {
            now: Instant::START,
            ids: ClientIds::from(io.entropy.number()),
            io,
            scheduling: Scheduling::new(&settings, Arc::clone(&workers), worker),
            pool: Pool::new(workers, worker),
            clients: Table::new(()),
            logins: Logins::default(),
            sessions: SessionTables::default(),
            servers: Servers::new(),
            cluster: Cluster::new(&settings, worker),
            following: Following::new(settings.cluster.several),
            readers,
            guests: None,
            views: Views::default(),
            resume: Resume::default(),
            client_memory: ClientMemory::default(),
            next_sweep: Instant::START,
            orders: Orders::default(),
            settings,
        }
    }

    /// The oldest event not yet reported.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.views.next_event().or_else(|| self.readers.engines_mut().find_map(Self::poll_event))
    }

    /// The oldest statement that is worth a line of the slow log, and has not been fetched; to be asked for behind each turn.
    pub fn poll_slow(&mut self) -> Option<SlowStatement> {
        self.views.next_slow().or_else(|| self.readers.engines_mut().find_map(Self::poll_slow))
    }

    /// Returns the next message for another worker, and which, at the end of a turn. It goes to [`Self::read_letter`] of that one.
    pub fn poll_letter(&mut self) -> Option<(usize, Letter)> {
        self.pool.next_letter().or_else(|| self.readers.next_letter())
    }

    /// Takes in a message of another worker. A turn has to follow, with an end.
    pub fn read_letter(&mut self, now: Instant, letter: &Letter) {
        debug_assert!(now >= self.now, "time does not run backwards");
        // A worker that had nothing to do has last been told the time when it had.
        self.now = now;
        match letter {
            Letter::Wake => {}
            Letter::Kill(kill) => self.kill_for_worker(kill),
            Letter::Killed(killed) => self.killed_by_worker(killed),
            Letter::KillAtPeer(kill) => self.kill_at_peer(kill.clone()),
            Letter::Proved(proved) => self.logins.identities.renew(proved),
            Letter::AccountIsFull(account) => self.pool.is_wanted(now, account.clone()),
            Letter::AccountHasRoom(account) => self.logins.identities.has_room(account, now),
            Letter::LockWaits(waits) => self.take_lock_waits(waits),
            Letter::LockHolders(found) => self.servers[found.server].take_lock_holders(&found.holders),
            Letter::MakeRoom { server, from } => {
                let (pool, sessions) = (&mut self.pool, &mut self.sessions);
                self.servers[*server].make_room_for_worker(now, pool, &self.clients, sessions, *from);
            }
            Letter::RoomMade { server } => self.servers[*server].room_was_made(),
            Letter::DefaultsChanged => self.servers.defaults_are_wanted(),
            Letter::CodeFound => self.renew_backends(),
            Letter::ServerMoves { place, to } => self.server_moves(*place, to),
            Letter::OfReader { place, letter } => {
                self.readers.enter(*place, now, &mut self.io, |reader| reader.read_letter(now, letter));
            }
        }
    }

    /// Returns the next task for another thread than a worker's, at the end of a turn. Its outcome goes to [`Self::take_finding`].
    pub fn poll_task(&mut self) -> Option<Task> {
        self.io.tasks.next().or_else(|| self.readers.engines_mut().find_map(Self::poll_task))
    }

    /// Takes in what came of a task. A turn has to follow, with an end.
    pub fn take_finding(&mut self, number: u64, finding: Finding) {
        if let Some(place) = self.readers.of_number(number) {
            let of_reader = |reader: &mut Self| reader.take_finding(number, finding);
            return self.readers.enter(place, self.now, &mut self.io, of_reader);
        }
        match self.io.tasks.asker_of(number) {
            Some(Asker::Client(client)) => match finding {
                Finding::Text(text) => self.text_is_read(client, text),
                Finding::Lost if self.clients.find(client).is_some() => {
                    self.close_client(client.key, ClosedFor::Defect, "what it sent met a defect of onramp");
                }
                Finding::Lost => {}
                finding => self.client_finding(client, finding),
            },
            Some(Asker::Backend(token)) => self.servers.backend_finding(token, finding.for_server()),
            Some(Asker::Control(server, connection)) => {
                let heard = self.service_accounts().found(server, connection, finding);
                self.control_heard(server, heard);
            }
            Some(Asker::Check(connection)) => self.cluster.check_finding(connection, finding.for_server()),
            Some(Asker::StoredCode(server)) => self.code_is_read(server, number, finding.code()),
            None => {}
        }
    }

    /// Counts a turn that has taken so long, from its first input to the last of its outputs. The caller has a clock for that.
    pub fn note_turn(&mut self, took: Duration) {
        self.views.measures.note_turn(self.now, took);
    }

    pub(crate) fn release_identity(&mut self, identity: IdentityHold) {
        if let Some(gone) = self.logins.release(identity) {
            self.servers.forget_identity(gone);
        }
    }

    /// What has statements wait, and all that it looks at.
    pub(crate) fn queues(
        &mut self,
    ) -> (&mut Scheduling, Parties<'_>, &mut Table<ClientKey, Client>, &mut Servers) {
        let Self { now, settings, pool, logins, sessions, scheduling, clients, servers, .. } = self;
        (scheduling, Parties::new(*now, settings, pool, logins, sessions), clients, servers)
    }

    /// What is counted and told, and what is looked at where a statement may be worth a line of the slow log.
    pub(crate) fn slow_log(&mut self) -> (&mut Views, Surroundings<'_>) {
        let Self { now, settings, pool, clients, servers, logins, sessions, scheduling, views, .. } = self;
        let now = *now;
        (views, Surroundings { now, settings, pool, clients, servers, logins, sessions, scheduling })
    }

    /// What is answered to clients here.
    pub(crate) fn answers(&mut self) -> Answers<'_> {
        let Self { now, settings, clients, sessions, servers, client_memory, views, resume, io, .. } = self;
        let (now, guests) = (*now, self.guests.as_mut());
        Answers { now, settings, clients, sessions, servers, guests, client_memory, views, resume, io }
    }

    fn connected(&mut self, token: u64, connection: ConnectionId) {
        if let Some(server) = self.servers.control_of(token) {
            self.service_accounts().connected(server, connection);
        } else if is_of_check(token) {
            self.watching().connected(token, connection);
        } else {
            self.backend_connected(token, connection);
        }
    }

    fn connect_failed(&mut self, token: u64, errno: i32) {
        if let Some(server) = self.servers.control_of(token) {
            self.control_lost(server, &connect_error(errno));
        } else if is_of_check(token) {
            self.watching().connect_failed(token, errno);
        } else {
            self.backend_connect_failed(token, errno);
        }
    }

    fn bytes(&mut self, connection: ConnectionId, bytes: &[u8]) {
        match self.io.role(connection) {
            Role::Client(key) => self.client_bytes(key, bytes),
            Role::Backend(key) => self.backend_bytes(key, bytes),
            Role::Control(server) => {
                let heard = self.service_accounts().bytes(server, bytes);
                self.control_heard(server, heard);
            }
            Role::Check(place) => self.watching().bytes(place, bytes),
            Role::Free => {}
        }
    }

    fn closed(&mut self, connection: ConnectionId, reason: CloseReason) {
        let said = match reason {
            CloseReason::EndOfStream => String::from("the server closed the connection"),
            CloseReason::Failed(errno) => std::io::Error::from_raw_os_error(errno).to_string(),
            CloseReason::TooMuchHeld => String::from("it has sent too much"),
        };
        match self.io.role(connection) {
            Role::Client(key) => self.client_ended(key, reason),
            Role::Backend(key) => self.backend_gone(key, &said),
            Role::Control(server) => self.control_lost(server, &said),
            Role::Check(place) => self.watching().closed(place, &said),
            Role::Free => {}
        }
        self.io.set_role(connection, Role::Free);
    }

    /// A trusted peer says whose connection it is: accounts, limits and the log go by that.
    fn announced(&mut self, connection: ConnectionId, peer: Peer) {
        if let Role::Client(key) = self.io.role(connection) {
            self.clients[key].peer = peer;
        }
    }

    /// TLS stands.
    fn secured(&mut self, connection: ConnectionId, session: TlsSession) {
        match self.io.role(connection) {
            Role::Client(key) => {
                if let Some(took) = self.clients[key].secured(self.now, session) {
                    self.views.measures.note_login_stage(LoginStage::Tls, took);
                }
            }
            Role::Backend(key) => {
                if let Err(error) = self.servers.of_mut(key).backend_secured(key) {
                    self.close_backend(key, &format!("its login broke the protocol: {error}"));
                }
            }
            Role::Control(server) => {
                let heard = self.service_accounts().secured(server);
                self.control_heard(server, heard);
            }
            Role::Check(place) => self.watching().secured(place),
            Role::Free => {}
        }
    }

    /// TLS did not come about, or broke: the connection is gone.
    fn tls_failed(&mut self, connection: ConnectionId, reason: &str) {
        let reason = format!("TLS: {reason}");
        match self.io.role(connection) {
            Role::Client(key) => {
                let (peer, client) = (self.clients[key].peer, self.clients[key].id);
                self.views.event(Event::ClientClosed { peer, client, closed_for: ClosedFor::Tls, reason });
                self.client_gone(key);
            }
            Role::Backend(key) => self.backend_gone(key, &reason),
            Role::Control(server) => self.control_lost(server, &reason),
            Role::Check(place) => self.watching().closed(place, &reason),
            Role::Free => {}
        }
        self.io.set_role(connection, Role::Free);
    }

    /// A connection's peer reads slowly, or has caught up.
    pub(crate) fn stalled(&mut self, connection: ConnectionId, stalled: bool) {
        match (self.io.role(connection), stalled) {
            (Role::Client(key), stalled) => {
                let client = (key, &mut self.clients[key]);
                let (outbox, scheduler) = (&mut self.io.outbox, &mut self.scheduling.scheduler);
                if stalled {
                    self.servers.client_stalled(self.now, client, outbox, scheduler);
                } else {
                    self.servers.client_drained(self.now, client, outbox, scheduler);
                    // It may have sent more meanwhile.
                    self.resume.push(key);
                }
                if self.clients.contains(key) {
                    self.lent_stalled(key, stalled);
                }
            }
            (Role::Backend(key), true) => {
                if let Some(client) = self.servers[key].holder() {
                    self.clients[client].server_stalled(&mut self.io.outbox);
                }
            }
            (Role::Backend(key), false) => {
                if let Some(client) = self.servers[key].holder() {
                    self.clients[client].server_keeps_up(&mut self.io.outbox);
                    self.client_memory.has_arrived(&mut self.clients[client]);
                }
            }
            (Role::Control(_) | Role::Check(_) | Role::Free, _) => {}
        }
    }

    fn turn_end(&mut self) {
        self.pool.workers.awake(self.pool.worker);
        self.pool.workers.holds_bytes(self.pool.worker, self.client_memory.statements.bytes());
        self.cluster_turn();
        self.turn_of_readers();
        self.control_turn();
        self.expire_logins();
        while let Some(refusal) = self.logins.late_refusals.next_due(self.now, &self.clients) {
            self.tell_refusal(refusal.client.key, refusal.sequence, &refusal.error);
        }
        let (scheduling, parties, clients, servers) = self.queues();
        scheduling.end_delays(&parties, clients, servers);
        scheduling.end_waits_for_room(parties.now, clients, servers);
        self.pool.workers.adapt_limits(self.now, &mut self.scheduling.served);
        self.scheduling.scheduler.kick_up(self.now);
        self.wait_for_kills();
        if self.next_sweep <= self.now {
            self.next_sweep = self.now + SWEEP;
            self.expire_connects();
            self.sweep_clients();
            self.sweep_transactions();
            self.sweep_backends();
            self.sweep_abandoned();
            self.logins.claims.look_again();
            self.clients.give_back();
        }
        self.go_on_with_claims();
        self.drain_turn();
        if self.is_reader() {
            self.return_waiting();
        }
        while let Some(key) = self.resume.pop() {
            if self.is_reader() {
                self.guest_rests(key);
                continue;
            }
            if self.clients.contains(key) && !self.clients[key].input.is_empty() {
                self.continue_client(key);
            }
            self.drain_client(key);
        }
        self.resume.begin_later();
        self.keep_to_session_memory();
        self.end_overdue();
        self.carry_out_kills();
        // What clients have sent ahead goes to replicas in this turn, and what comes back is dispatched in it.
        self.turn_of_readers();
        if self.orders.is_paused() {
            self.scheduling.new_work.starts_lately.hold(self.now);
            self.scheduling.holdups.note(self.now, Some(Lack::Paused), Some(Lack::Paused));
        } else {
            if self.servers.primary().reachability.is_down() {
                self.scheduling.new_work.starts_lately.hold(self.now);
            }
            self.dispatch_shares();
            self.refuse_overload();
        }
        let (servers, scheduling) = (&self.servers, &self.scheduling);
        let longest_idle = || servers.idle().find(|&key| !scheduling.keeps_for_us(&servers[key]));
        let left = self.pool.serve_other_workers(servers.sharing_count(), longest_idle);
        left.into_iter().for_each(|backend| self.quit_backend(backend));
        self.leave_wanted_accounts();
        self.control_turn();
        for server in self.servers.iter_mut() {
            server.send_to_backends(&mut self.io.outbox);
        }
        if cfg!(debug_assertions) {
            self.check_turn();
        }
    }

    /// A turn has ended, and nothing is as it should not be.
    fn check_turn(&self) {
        let (clients, scheduler) = (&self.clients, &self.scheduling.scheduler);
        invariants::check(clients, &self.servers, &self.io, scheduler, &self.pool, &self.client_memory);
        invariants::check_holders(clients, &self.servers, &self.sessions, &self.logins.identities);
        assert_eq!(self.readers.lost_backends(), 0, "backends of servers that are lost");
        // One that has finished is asked by nobody any more.
        if !self.orders.is_draining() || !self.clients.is_empty() {
            Timer::check_turn(self.now, self.pool.workers.count(), |timer| self.timer(timer));
        }
    }

    /// SIGTERM: nobody new, idle clients go, the others finish.
    fn drain(&mut self) {
        if !self.orders.drain_until(self.now + self.settings.shutdown_timeout) {
            return;
        }
        self.io.outbox.stop_listening();
        let all: Vec<_> = self.clients.iter().map(|(key, _)| key).collect();
        for key in all {
            self.drain_client(key);
        }
    }

    fn drain_turn(&mut self) {
        let Some(deadline) = self.orders.end_of_draining() else { return };
        if self.orders.is_paused() || self.now >= deadline {
            self.refuse_what_waits();
        }
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

    /// What waits now will not run any more, and has not: its clients are told so, and go.
    fn refuse_what_waits(&mut self) {
        // What waits to be read elsewhere waits here then.
        self.readers.for_each(self.now, &mut self.io, Self::refuse_what_waits);
        self.give_up_replicas();
        // Wherever: in a queue, or before it with a share or a delay.
        let queued = self.clients.iter().filter(|(_, client)| matches!(client.phase(), Phase::Queued));
        let queued: Vec<_> = queued.map(|(key, _)| key).collect();
        for key in queued {
            if self.clients.contains(key) && matches!(self.clients[key].phase(), Phase::Queued) {
                self.cancel_queued(key, &MySqlError::shutdown());
            }
            match self.clients.contains(key) {
                true if self.is_reader() => self.guest_rests(key),
                true => self.drop_client(key),
                false => {}
            }
        }
    }

    /// Closes all backends.
    fn leave_all(&mut self) {
        let backends: Vec<_> = self.servers.backends().map(|(key, _)| key).collect();
        for key in backends {
            self.quit_backend(key);
        }
        self.following.end_left_open(&mut self.io.outbox, None);
    }

    /// Leaves the server in the orderly way, and says that nothing is left to do.
    fn stop(&mut self) {
        // Whoever comes in the same turn is refused.
        self.orders.drain_until(self.now);
        let all: Vec<_> = self.clients.iter().map(|(key, _)| key).collect();
        for key in all {
            // One that goes may take others along: those that waited with it for the schema of their login.
            if self.clients.contains(key) {
                self.drop_client(key);
            }
        }
        self.leave_all();
        self.readers.for_each(self.now, &mut self.io, Self::leave_all);
        self.io.outbox.finished();
    }

    /// When this is due, if it is going to be.
    pub(crate) fn timer(&self, timer: Timer) -> Option<Instant> {
        if self.orders.is_paused() && timer.rests_while_paused() {
            return None;
        }
        match timer {
            Timer::Sweep => Some(self.next_sweep),
            Timer::ServiceAccount => self.next_control_turn(),
            Timer::ServerCheck => {
                let leaving = self.following.next_turn(self.settings.cluster.hold);
                self.cluster.next_turn(&self.settings).into_iter().chain(leaving).min()
            }
            Timer::LoginTimeout => self.logins.next_deadline(),
            Timer::LateRefusal => self.logins.late_refusals.next_time(),
            Timer::KickUp => self.scheduling.scheduler.next_kick_up(),
            Timer::EndOfDelay => self.scheduling.next_end_of_delays(self.now, &self.servers),
            Timer::GroupTurn => self.scheduling.scheduler.next_group_turn(),
            Timer::LackOfBackends => self.next_giving_up(),
            Timer::Overload => self.scheduling.next_refusal(self.now, &self.settings),
            Timer::Shares => self.scheduling.next_release(self.now),
            Timer::Overdue => {
                self.scheduling.next_ending(self.now, &self.settings, &self.servers, &self.clients)
            }
            Timer::KillUnderWay => self.orders.kills_under_way.next_end(),
            Timer::Stall => {
                let identities = &self.logins.identities;
                let (settings, servers) = (&self.settings, &self.servers);
                self.scheduling.next_stall(self.now, settings, &self.pool, servers, &self.clients, identities)
            }
            Timer::Rescue => self.servers.next_rescue(self.now, &self.settings, &self.clients),
            Timer::SilentReads => self.scheduling.next_silence(self.now, &self.servers),
            Timer::Standing => self.scheduling.next_look_at_standing(self.now),
            Timer::Place => self.servers.next_place(self.now, &self.logins.identities, &self.pool),
            Timer::OtherWorkers => self.pool.next_asking(&self.settings),
            Timer::Draining => self.orders.end_of_draining(),
            // An attempt that was due has been made in this turn, and its answer will come by itself.
            Timer::Reconnect => self
                .servers
                .iter()
                .filter_map(|server| server.reachability.next_attempt())
                .filter(|&retry| retry > self.now && self.scheduling.scheduler.in_need() > 0)
                .min(),
            Timer::ServerFull => {
                let until = self.servers.iter().filter_map(|server| Some(server.full.as_ref()?.until));
                until.filter(|&until| until > self.now).min()
            }
            Timer::Claim => self.logins.claims.next_turn(self.now),
            Timer::Readers => self.readers.next_turn(self.now, self),
            Timer::Resume => (!self.resume.is_empty()).then_some(self.now),
        }
    }
}

impl Program for Engine {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        debug_assert!(now >= self.now, "time does not run backwards");
        self.now = now;
        if let Some(place) = self.readers.of_input(&input, &self.io) {
            return self.readers.enter(place, now, &mut self.io, |reader| reader.handle(now, input));
        }
        match input {
            Input::Accepted { connection, listener, peer } => {
                self.client_accepted(connection, listener, peer);
            }
            Input::Connected { token, connection } => self.connected(token, connection),
            Input::ConnectFailed { token, errno } => self.connect_failed(token, errno),
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
        self.io.outbox.poll()
    }

    fn next_timeout(&self) -> Option<Instant> {
        Timer::ALL.iter().filter_map(|&timer| self.timer(timer)).min()
    }
}
