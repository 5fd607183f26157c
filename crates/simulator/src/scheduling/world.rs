//! A run: the clock, what will happen, and the turns of the workers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use engine::Settings;
use seam::{Address, CloseReason, ConnectionId, Input, Instant, ListenerId, Output, Peer, Program};

use super::client::{Client, Phase};
use super::figures::{Class, Outcome};
use super::scenario::Scenario;
use super::server::{Server, Wake};
use super::worker::{Arrival, End, Side, Worker};

/// How long anything takes from one machine to the next beside it, in microseconds: a switch and two network cards.
pub const LATENCY: u64 = 50;

/// What a turn of a worker takes by itself, in microseconds: a system call that waits, and the end of the turn.
const TURN: u64 = 10;

/// What each thing takes that a worker is told in a turn: a read and a write of a socket.
const PER_ARRIVAL: u64 = 4;

/// What a new client costs a worker beyond that, in microseconds: accepting it, and a socket made and closed. A front end on
/// two cores was measured at 12,500 connections with a login and a query a second.
const ACCEPT: u64 = 30;

/// So many clients are accepted in a turn at most: the default of `logins_per_turn`.
const LOGINS_PER_TURN: usize = 16;

/// How long it takes to wake another worker: an event descriptor and the scheduler of the machine.
const LETTER: u64 = 20;

/// Something that happens at a time.
#[derive(Debug)]
pub(super) enum Happening {
    /// A worker's turn.
    Turn(u16),
    /// A worker's connection to the server is set up.
    Connect { worker: u16, token: u64 },
    /// Bytes arrive at the server.
    Receive { session: u32, bytes: Vec<u8> },
    /// A worker has closed its connection to the server.
    HangUp(u32),
    /// The server goes on.
    Server(Wake),
    /// A client connects.
    Arrive(u32),
    /// Something that a client waits for happens; the number is its stamp.
    Client(u32, u16, ClientEvent),
}

/// What can happen to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientEvent {
    /// Its login stands.
    LoggedIn,
    /// It sends its next statement.
    Send,
    /// Its statement is answered: with an error of this number, or zero.
    Answer(u16),
    /// Its patience is at an end.
    Impatient,
    /// Its connection was refused or has ended.
    Closed,
}

struct Planned {
    at: u64,
    order: u64,
    happening: Happening,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Everything there is in a run.
pub struct World<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) seed: u64,
    pub(super) now: u64,
    planned: u64,
    happenings: BinaryHeap<Reverse<Planned>>,
    pub(super) workers: Vec<Worker>,
    pub(super) clients: Vec<Client>,
    server: Server,
    /// At which worker each session of the server has its other end.
    session_ends: Vec<(u16, ConnectionId)>,
    /// Counts clients that connected, to spread them.
    pub(super) accepted: u32,
    /// The first statements are sent from here on.
    pub(super) start: u64,
    /// What is answered from here on is counted.
    pub(super) measure_from: u64,
    pub(super) end: u64,
    /// The number of the class of each step of each group.
    pub(super) class_of: Vec<Vec<usize>>,
    pub(super) outcome: Outcome,
}

impl<'a> World<'a> {
    /// A run of a scenario that has not begun.
    ///
    /// # Panics
    ///
    /// If the scenario has no worker or no client, or its settings have no permit.
    pub fn new(scenario: &'a Scenario, mut settings: Settings, seed: u64) -> Self {
        settings.server = vec![server_address()];
        settings.service_user = super::server::SERVICE_USER.to_owned();
        for (index, byte) in settings.entropy.iter_mut().enumerate() {
            *byte = seed.to_le_bytes()[index % 8] ^ u8::try_from(index).expect("32 bytes");
        }
        let classes = scenario.classes();
        let number =
            |class: &str| classes.iter().position(|name| *name == class).expect("from the same steps");
        let class_of = scenario
            .groups
            .iter()
            .map(|group| group.program.iter().map(|step| number(step.class)).collect())
            .collect();
        let start = micros(scenario.ramp);
        let end = start + micros(scenario.length);
        let measure_from = start + micros(scenario.warm_up);
        let mut clients = Vec::with_capacity(scenario.clients() as usize);
        for (group, described) in scenario.groups.iter().enumerate() {
            let client = Client::new(u16::try_from(group).expect("few groups"));
            clients.extend(std::iter::repeat_n(client, described.clients as usize));
        }
        Self {
            scenario,
            seed,
            now: 0,
            planned: 0,
            happenings: BinaryHeap::new(),
            workers: Worker::fleet(&settings, scenario.workers),
            clients,
            server: Server::new(scenario.server.clone(), seed),
            session_ends: Vec::new(),
            accepted: 0,
            start,
            measure_from,
            end,
            class_of,
            outcome: Outcome {
                classes: classes.iter().map(|name| Class { name, ..Class::default() }).collect(),
                measured: end - measure_from,
                ..Outcome::default()
            },
        }
    }

    /// Runs it to its end.
    pub fn run(mut self) -> Outcome {
        for worker in 0..self.workers.len() {
            self.plan_turn(worker, 0);
        }
        self.plan_connections();
        self.plan_neighbours();
        while let Some(Reverse(next)) = self.happenings.pop() {
            if next.at > self.end {
                break;
            }
            self.now = next.at;
            self.happen(next.happening);
        }
        self.now = self.end;
        self.count_unanswered();
        self.outcome.unknown = self.server.unknown().map(str::to_owned).collect();
        self.outcome
    }

    pub(super) fn plan(&mut self, at: u64, happening: Happening) {
        self.planned += 1;
        self.happenings.push(Reverse(Planned { at, order: self.planned, happening }));
    }

    fn plan_neighbours(&mut self) {
        let Some((from, until)) = self.scenario.server.neighbours else { return };
        for (at, there) in [(from, true), (until, false)] {
            self.plan(self.start + micros(at), Happening::Server(Wake::Neighbours { there }));
        }
    }

    /// Clients connect evenly over the ramp, or when their group comes. The first 10 ms are for the engines to find the
    /// server, the last tenth of the ramp for the last logins.
    fn plan_connections(&mut self) {
        const FIRST: u64 = 10_000;
        let all = self.clients.len() as u64;
        let ramp = (self.start * 9 / 10).saturating_sub(FIRST);
        let mut client = 0;
        for group in &self.scenario.groups {
            for place in 0..u64::from(group.clients) {
                let at = match group.connects {
                    None => FIRST + ramp * u64::from(client) / all,
                    Some(from) => {
                        self.start + micros(from) + micros(group.spread) * place / u64::from(group.clients)
                    }
                };
                self.plan(at, Happening::Arrive(client));
                client += 1;
            }
        }
    }

    /// Something of a client is on its way to a worker.
    pub(super) fn send_to_worker(&mut self, worker: usize, arrival: Arrival) {
        self.send(worker, LATENCY, Side::Client, arrival);
    }

    fn send(&mut self, worker: usize, distance: u64, from: Side, arrival: Arrival) {
        let at = self.now + distance;
        self.workers[worker].send(at, from, arrival);
        self.plan_turn(worker, at);
    }

    /// How long anything takes to the server.
    pub(super) fn distance(&self) -> u64 {
        self.scenario.server.distance
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Turn(worker) => {
                let worker = usize::from(worker);
                if self.workers[worker].turn_at == self.now {
                    self.workers[worker].turn_at = u64::MAX;
                    self.turn(worker);
                }
            }
            Happening::Connect { worker, token } => self.connect(worker, token),
            Happening::Receive { session, bytes } => {
                self.server.receive(self.now, session, &bytes);
                self.server_effects();
            }
            Happening::HangUp(session) => {
                self.server.hang_up(self.now, session);
                self.server_effects();
            }
            Happening::Server(wake) => {
                self.server.wake(self.now, wake);
                self.server_effects();
            }
            Happening::Arrive(client) => self.client_connects(client),
            Happening::Client(client, stamp, event) => self.client_event(client, stamp, event),
        }
    }

    fn plan_turn(&mut self, worker: usize, at: u64) {
        let planned = &mut self.workers[worker];
        let at = at.max(planned.busy_until);
        if at < planned.turn_at {
            planned.turn_at = at;
            let number = u16::try_from(worker).expect("few workers");
            self.plan(at, Happening::Turn(number));
        }
    }

    /// A worker's turn: all that has arrived, then what the engine wants done.
    fn turn(&mut self, number: usize) {
        let now = Instant::from_micros(self.now);
        let mut engine = self.workers[number].engine.take().expect("one turn at a time");
        for letter in self.workers[number].letters() {
            engine.read_letter(now, &letter);
        }
        let mut busy = TURN;
        while let Some(arrival) = self.workers[number].next_arrival(self.now) {
            busy += PER_ARRIVAL;
            self.hand_over(number, &mut engine, arrival);
        }
        for _ in 0..LOGINS_PER_TURN {
            let Some(connection) = self.workers[number].next_login(self.now) else { break };
            busy += PER_ARRIVAL + ACCEPT;
            self.log_in(number, &mut engine, connection);
        }
        // What the outputs bring about comes after the turn too.
        self.workers[number].busy_until = self.now + busy;
        engine.handle(now, Input::TurnEnd);
        while let Some(output) = engine.poll_output() {
            self.carry_out(number, &output);
        }
        while let Some((to, letter)) = engine.poll_letter() {
            self.workers[to].write(letter);
            self.plan_turn(to, self.now + LETTER);
        }
        while engine.poll_event().is_some() {}
        self.outcome.turns += 1;
        let timeout = engine.next_timeout().map_or(u64::MAX, Instant::as_micros);
        let worker = &mut self.workers[number];
        worker.engine = Some(engine);
        let next = worker.next_arrival_at().map_or(timeout, |at| at.min(timeout));
        if next <= self.end {
            self.plan_turn(number, next);
        }
    }

    fn log_in(&mut self, number: usize, engine: &mut engine::Engine, connection: ConnectionId) {
        let End::Client(client) = self.workers[number].end(connection) else { return };
        let (now, peer) = (Instant::from_micros(self.now), Peer::Tcp(address_of(client)));
        engine.handle(now, Input::Accepted { connection, listener: ListenerId(0), peer });
    }

    fn hand_over(&mut self, number: usize, engine: &mut engine::Engine, arrival: Arrival) {
        let now = Instant::from_micros(self.now);
        match arrival {
            Arrival::Login(connection) => self.log_in(number, engine, connection),
            Arrival::Connected(token, connection) => {
                engine.handle(now, Input::Connected { token, connection });
            }
            Arrival::Bytes(connection, bytes) => {
                engine.handle(now, Input::Bytes { connection, bytes: &bytes });
            }
            Arrival::Closed(connection) => {
                if self.workers[number].close(connection) {
                    engine.handle(now, Input::Closed { connection, reason: CloseReason::EndOfStream });
                }
            }
        }
    }

    fn carry_out(&mut self, number: usize, output: &Output<'_>) {
        if let Some((connection, bytes)) = output.sent() {
            return self.carry(number, connection, bytes);
        }
        match *output {
            Output::Connect { token, .. } => {
                let worker = u16::try_from(number).expect("few workers");
                self.plan(self.now + 2 * self.distance(), Happening::Connect { worker, token });
            }
            Output::Send { .. } | Output::SendWhole { .. } => unreachable!("sent above"),
            Output::Close { connection } | Output::Abort { connection } => {
                let end = self.workers[number].end(connection);
                self.workers[number].close(connection);
                match end {
                    End::Client(client) => self.client_is_closed(client),
                    End::Session(session) => {
                        self.plan(self.now + self.distance(), Happening::HangUp(session));
                    }
                    End::Gone | End::Free => {}
                }
            }
            // Every peer here reads at once.
            Output::PauseReading { .. } | Output::ResumeReading { .. } => {}
            // No TLS here.
            Output::StartTls { .. } | Output::StartCompression { .. } | Output::Unread { .. } => {}
            Output::StopListening | Output::Finished => {}
        }
    }

    fn carry(&mut self, number: usize, connection: ConnectionId, bytes: &[u8]) {
        match self.workers[number].end(connection) {
            End::Client(client) => self.client_hears(client, bytes),
            End::Session(session) => {
                let bytes = bytes.to_vec();
                self.plan(self.now + self.distance(), Happening::Receive { session, bytes });
            }
            End::Gone | End::Free => {}
        }
    }

    /// The server takes a worker's connection.
    fn connect(&mut self, worker: u16, token: u64) {
        let session = self.server.accept();
        let connection = self.workers[usize::from(worker)].open(End::Session(session));
        let index = session as usize;
        if self.session_ends.len() <= index {
            self.session_ends.resize(index + 1, (worker, connection));
        }
        self.session_ends[index] = (worker, connection);
        let connected = Arrival::Connected(token, connection);
        self.send(usize::from(worker), self.distance(), Side::Server, connected);
        self.outcome.backends = self.outcome.backends.max(self.server.sessions() as u64);
        self.server_effects();
    }

    /// Carries on what happened in the server.
    fn server_effects(&mut self) {
        let effects = self.server.effects();
        let mut sent = std::mem::take(&mut effects.sent);
        let mut planned = std::mem::take(&mut effects.planned);
        let mut begun = std::mem::take(&mut effects.begun);
        for (session, bytes) in sent.drain(..) {
            let (worker, connection) = self.session_ends[session as usize];
            let worker = usize::from(worker);
            if self.workers[worker].end(connection) == End::Session(session) {
                self.send(worker, self.distance(), Side::Server, Arrival::Bytes(connection, bytes));
            }
        }
        for (at, wake) in planned.drain(..) {
            self.plan(at, Happening::Server(wake));
        }
        for origin in begun.drain(..) {
            self.statement_begins(origin);
        }
        let effects = self.server.effects();
        if self.now >= self.measure_from {
            self.outcome.server_logins += effects.logins;
            self.outcome.server_changes += effects.changed;
        }
        // Their buffers are used again.
        *effects = super::server::Effects { sent, planned, begun, ..Default::default() };
    }
}

impl World<'_> {
    /// Statements without an answer count with the time they have had.
    fn count_unanswered(&mut self) {
        for client in 0..self.clients.len() {
            let known = self.clients[client];
            if matches!(known.phase, Phase::Waiting | Phase::Reading) {
                self.note_unanswered(&known);
            }
        }
    }
}

/// Where the server is, which nobody looks at here.
fn server_address() -> Address {
    Address::Tcp {
        remote: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(10, 255, 0, 1), 3306)),
        local: None,
    }
}

/// Each client has an address of its own.
fn address_of(client: u32) -> SocketAddr {
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from_bits(0x0a00_0000 | client), 40_000))
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
