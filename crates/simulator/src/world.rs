//! One run: the program under test in the middle, virtual clients and a virtual server around it, and one clock.

use std::collections::BTreeMap;

use engine::ThreadHandling;
use seam::{ConnectionId, Input, Instant, ListenerId, Output, Peer, Signal};

use crate::checkers::Checkers;
use crate::client::{self, Client};
use crate::faults::Parameters;
use crate::network::{Event, Network, Owner, Parcel};
use crate::random::Random;
use crate::schedule::{Happening, Schedule};
use crate::server::database::Database;
use crate::server::{self, Link, Server};
use crate::subject::Subject;
use crate::token::ClientKey;
use crate::trace::{Shown, Trace};

/// ECONNREFUSED.
const REFUSED: i32 = 111;

/// How long the calm may last before somebody counts as forgotten: longer than every timeout that the engine was given,
/// except those of a minute and more.
const CALM_LIMIT: u64 = 60_000_000;

/// Turns without a tick of the clock, an input or an output that count as spinning.
const IDLE_TURNS: u32 = 50;

/// Outputs in one turn that count as never ending.
const OUTPUTS_PER_TURN: u32 = 100_000;

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    /// What was wrong, if anything.
    pub violation: Option<String>,
    /// What happened.
    pub trace: Trace,
    /// Statements that ran on the server.
    pub executed: u64,
    /// Answers that were as they should be.
    pub answered: u64,
    /// Virtual microseconds.
    pub micros: u64,
}

/// A run in progress.
#[derive(Debug)]
pub struct World<P> {
    program: P,
    parameters: Parameters,
    random: Random,
    now: u64,
    schedule: Schedule,
    network: Network,
    server: Server,
    server_is_up: bool,
    clients: Vec<Client>,
    client_links: BTreeMap<u32, Link>,
    link_keys: BTreeMap<Link, ClientKey>,
    /// Inputs about connections that came about, for the next turn.
    news: Vec<News>,
    next_turn: Option<u64>,
    turn: u64,
    idle_turns: u32,
    calm: bool,
    listening: bool,
    finished: bool,
    checkers: Checkers,
    trace: Trace,
}

/// What the driver tells once.
#[derive(Debug)]
enum News {
    Accepted(ConnectionId, u32),
    Connected(u64, ConnectionId),
    ConnectFailed(u64),
    Signal(Signal),
}

impl<P: Subject> World<P> {
    /// A world around this program. With `echo`, its trace goes to standard output.
    pub fn new(program: P, parameters: Parameters, echo: bool) -> Self {
        let mut random = Random::new(parameters.seed.wrapping_add(1));
        let database = Database::new(Parameters::accounts());
        let server = Server::new(database, random.fork(), parameters.speed);
        let network = Network::new(parameters.conditions, random.fork());
        let mut accounts = Parameters::accounts();
        accounts.pop(); // nobody but the program logs in with the service account
        let clients = (0..parameters.clients)
            .map(|number| {
                let mut own = random.fork();
                let habits = parameters.habits_of_one(&mut own);
                Client::new(number, habits, accounts.clone(), own)
            })
            .collect();
        let direct = !program.keeps_limits();
        Self {
            program,
            checkers: Checkers::new(parameters.tolerates_losses(), direct),
            parameters,
            random,
            now: 0,
            schedule: Schedule::default(),
            network,
            server,
            server_is_up: true,
            clients,
            client_links: BTreeMap::new(),
            link_keys: BTreeMap::new(),
            news: Vec::new(),
            next_turn: None,
            turn: 0,
            idle_turns: 0,
            calm: false,
            listening: true,
            finished: false,
            trace: Trace::new(echo),
        }
    }

    /// Runs to the end, or to the first violation.
    pub fn run(mut self) -> Outcome {
        self.wake_program(1);
        for client in 0..self.parameters.clients {
            let at = self.random.below(50_000);
            self.schedule.at(at, Happening::ClientWake(client));
        }
        if self.parameters.has_faults() {
            let at = self.random.below(self.parameters.fault_interval);
            self.schedule.at(at, Happening::Fault);
        }
        self.storm();
        self.begin_calm();
        self.run_calm();
        self.drain();
        Outcome {
            violation: self.checkers.found().map(str::to_owned),
            trace: self.trace,
            executed: self.checkers.executed,
            answered: self.checkers.answered,
            micros: self.now,
        }
    }

    fn storm(&mut self) {
        for _ in 0..self.parameters.steps {
            if !self.step() {
                return;
            }
        }
    }

    /// Faults end, everything is up, readers read: from here on, whoever asks must be answered.
    fn begin_calm(&mut self) {
        self.note(format_args!("calm begins"));
        self.calm = true;
        if !self.server_is_up {
            self.schedule.at(self.now + 1, Happening::ServerUp);
        }
        for client in 0..self.clients.len() {
            self.clients[client].calm_down();
            self.carry_out_client(client);
        }
    }

    fn run_calm(&mut self) {
        let end = self.now + CALM_LIMIT;
        while self.checkers.found().is_none() && !self.clients.iter().all(Client::is_satisfied) {
            if self.schedule.next_time().is_none_or(|next| next > end) {
                let forgotten = self.clients.iter().find(|client| !client.is_satisfied());
                let text = forgotten.map_or(String::new(), |client| {
                    format!("client {} is forgotten: it waits for {}", client.key, client.waits_for())
                });
                self.checkers.violation(text);
                return;
            }
            if !self.step() {
                return;
            }
        }
    }

    /// SIGTERM: the program must finish by itself.
    fn drain(&mut self) {
        if self.checkers.found().is_some() || !self.program.keeps_limits() {
            return;
        }
        self.note(format_args!("drain"));
        self.news.push(News::Signal(Signal::Drain));
        self.wake_program(0);
        let end = self.now + CALM_LIMIT;
        self.checkers.accept_losses();
        while !self.finished && self.checkers.found().is_none() {
            if self.schedule.next_time().is_none_or(|next| next > end) {
                self.checkers.violation("the program does not finish after Signal::Drain".to_owned());
            }
            if !self.step() {
                return;
            }
        }
    }

    /// One happening. False once there is nothing more to do, or something is wrong.
    fn step(&mut self) -> bool {
        let Some((at, happening)) = self.schedule.pop() else { return false };
        self.now = self.now.max(at);
        match happening {
            Happening::Turn => {
                if self.next_turn == Some(at) {
                    self.next_turn = None;
                    self.run_turn();
                }
            }
            Happening::ArriveAtProgram(link) => {
                if self.network.arrive_at_program(link) {
                    let delay = self.random.below(60);
                    self.wake_program(delay);
                }
            }
            Happening::ArriveAtPeer(link) => self.arrive_at_peer(link),
            Happening::SlowRead(link) => {
                self.network.slow_read(self.now, &mut self.schedule, link);
                self.wake_for_news();
            }
            Happening::ConnectDone { token } => self.connect_done(token),
            Happening::ServerWake(link) => {
                if self.server_is_up {
                    self.server.wake(link);
                    self.carry_out_server();
                }
            }
            Happening::ClientWake(client) => {
                let client = client as usize;
                self.clients[client].wake(self.now, &mut self.checkers);
                self.carry_out_client(client);
            }
            Happening::Fault => self.fault(),
            Happening::ServerUp => {
                self.note(format_args!("server up"));
                self.server_is_up = true;
            }
        }
        if let Some(violation) = self.checkers.found() {
            let text = violation.to_owned();
            self.note(format_args!("VIOLATION {text}"));
        }
        self.checkers.found().is_none()
    }

    /// One turn of the driver: what happened, the end of the turn, all outputs.
    fn run_turn(&mut self) {
        self.turn += 1;
        let now = Instant::from_micros(self.now);
        let mut busy = self.tell_news(now);
        for link in self.network.ready_links() {
            for (connection, owner, event) in self.network.take_events(link) {
                busy = true;
                self.tell(now, link, connection, owner, &event);
            }
        }
        self.program.handle(now, Input::TurnEnd);
        busy |= self.poll_outputs();
        for event in self.program.events() {
            self.note(format_args!("event: {event}"));
        }
        self.check_limits();
        self.plan_next_turn(busy);
    }

    fn tell_news(&mut self, now: Instant) -> bool {
        let news = std::mem::take(&mut self.news);
        let busy = !news.is_empty();
        for item in news {
            match item {
                News::Accepted(connection, client) => {
                    self.note(format_args!("accepted {connection:?} of client {client}"));
                    let host = u8::try_from(client % 250).unwrap_or(0) + 1;
                    let peer = Peer::Tcp(([10, 1, 0, host], 40_000).into());
                    self.program.handle(now, Input::Accepted { connection, listener: ListenerId(0), peer });
                }
                News::Connected(token, connection) => {
                    self.note(format_args!("connected {connection:?} for token {token}"));
                    self.program.handle(now, Input::Connected { token, connection });
                }
                News::ConnectFailed(token) => {
                    self.note(format_args!("connect failed for token {token}"));
                    self.program.handle(now, Input::ConnectFailed { token, errno: REFUSED });
                }
                News::Signal(signal) => self.program.handle(now, Input::Signal(signal)),
            }
        }
        busy
    }

    fn tell(&mut self, now: Instant, link: Link, connection: ConnectionId, owner: Owner, event: &Event) {
        let name = self.name(link, owner);
        match event {
            Event::Bytes(bytes) => {
                self.note(format_args!("{name} -> {}", Shown(bytes)));
                self.program.handle(now, Input::Bytes { connection, bytes });
            }
            Event::Stalled => {
                self.note(format_args!("{name} stalled"));
                self.program.handle(now, Input::Stalled { connection });
            }
            Event::Drained => {
                self.note(format_args!("{name} drained"));
                self.program.handle(now, Input::Drained { connection });
            }
            Event::Closed(reason) => {
                self.note(format_args!("{name} closed: {reason:?}"));
                if let Some(key) = self.link_keys.get(&link) {
                    self.checkers.told_of_end(*key, self.turn);
                }
                self.program.handle(now, Input::Closed { connection, reason: *reason });
            }
        }
    }

    fn poll_outputs(&mut self) -> bool {
        for count in 0..OUTPUTS_PER_TURN {
            // The output borrows the program, so what it asks for is carried out on the other fields.
            let Some(output) = self.program.poll_output() else { return count > 0 };
            match output {
                Output::Connect { token, address } => {
                    let delay = 1 + self.random.below(self.parameters.conditions.delay + 100);
                    self.trace.line(self.now, format_args!("program connects to {address}, token {token}"));
                    self.schedule.at(self.now + delay, Happening::ConnectDone { token });
                }
                Output::Send { connection, bytes } => {
                    if let Some(link) = self.network.link_of(connection) {
                        let name = name(&self.link_keys, link, self.network.owner(link));
                        self.trace.line(self.now, format_args!("{name} <- {}", Shown(bytes)));
                        self.network.program_sends(self.now, &mut self.schedule, self.turn, link, bytes);
                    }
                }
                Output::Close { connection } => {
                    if let Some(link) = self.network.link_of(connection) {
                        let name = name(&self.link_keys, link, self.network.owner(link));
                        self.trace.line(self.now, format_args!("program closes {name}"));
                        self.network.program_closes(self.now, &mut self.schedule, link);
                    }
                }
                Output::PauseReading { connection } => {
                    if let Some(link) = self.network.link_of(connection) {
                        self.network.set_paused(link, true);
                    }
                }
                Output::ResumeReading { connection } => {
                    if let Some(link) = self.network.link_of(connection) {
                        self.network.set_paused(link, false);
                    }
                }
                Output::StopListening => self.listening = false,
                Output::Finished => self.finished = true,
            }
        }
        self.checkers.violation(format!("more than {OUTPUTS_PER_TURN} outputs in turn {}", self.turn));
        true
    }

    /// The next turn comes when there is news, or when the program asked for it; a driver may be a little late.
    fn plan_next_turn(&mut self, busy: bool) {
        if self.network.has_news() || !self.news.is_empty() {
            let delay = self.random.below(30);
            self.wake_program(delay);
        }
        let Some(timeout) = self.program.next_timeout() else { return };
        let timeout = timeout.as_micros();
        if timeout <= self.now && !busy {
            self.idle_turns += 1;
            if self.idle_turns > IDLE_TURNS {
                let text = format!("the program spins: its timeout {timeout} us stays in the past");
                self.checkers.violation(text);
            }
        } else {
            self.idle_turns = 0;
        }
        let late = self.random.below(300);
        let at = timeout.max(self.now).saturating_add(late);
        if self.next_turn.is_none_or(|planned| at < planned) {
            self.next_turn = Some(at);
            self.schedule.at(at, Happening::Turn);
        }
    }

    fn wake_program(&mut self, delay: u64) {
        let at = self.now + delay;
        if self.next_turn.is_none_or(|planned| at < planned) {
            self.next_turn = Some(at);
            self.schedule.at(at, Happening::Turn);
        }
    }

    fn wake_for_news(&mut self) {
        if self.network.has_news() {
            self.wake_program(0);
        }
    }

    fn check_limits(&mut self) {
        if !self.program.keeps_limits() {
            return;
        }
        // The service account's own connection comes on top, and the one that replaces it.
        let backends = self.network.open_backends();
        let limit = self.parameters.max_backends as usize + 2;
        let pooled = self.parameters.thread_handling == ThreadHandling::PoolOfThreads;
        if pooled && backends > limit {
            self.checkers
                .violation(format!("{backends} connections to the server, max_backends allows {limit}"));
        }
        let stalled: Vec<Link> = self.client_links.values().copied().collect();
        for link in stalled {
            // What was read before the program could pause its backend, and answers of its own.
            let bound = 2 * self.parameters.conditions.receive_buffer + (64 << 10);
            let sent = self.network.sent_while_stalled(link);
            if sent > bound {
                self.checkers.violation(format!("{sent} bytes were sent to a client that reads nothing"));
            }
        }
    }

    fn arrive_at_peer(&mut self, link: Link) {
        match self.network.arrive_at_peer(link) {
            None => {}
            Some((Owner::Server, parcel)) => {
                match parcel {
                    Parcel::Bytes(bytes) => self.server.receive(link, &bytes),
                    Parcel::End | Parcel::Reset => self.server.lost(link),
                }
                self.carry_out_server();
            }
            Some((Owner::Client(client), parcel)) => {
                if self.client_links.get(&client) != Some(&link) {
                    return;
                }
                let index = client as usize;
                match parcel {
                    Parcel::Bytes(bytes) => self.clients[index].receive(self.now, &bytes, &mut self.checkers),
                    Parcel::End | Parcel::Reset => {
                        self.client_links.remove(&client);
                        self.clients[index].lost(self.now, &mut self.checkers);
                    }
                }
                self.carry_out_client(index);
            }
        }
    }

    fn connect_done(&mut self, token: u64) {
        let unlucky = self.parameters.faults.connect_failures && !self.calm && self.random.percent(10);
        if self.server_is_up && !unlucky {
            let (link, connection) = self.network.open(Owner::Server);
            self.news.push(News::Connected(token, connection));
            self.server.accept(link);
            self.carry_out_server();
        } else {
            self.news.push(News::ConnectFailed(token));
        }
        self.wake_program(0);
    }

    fn carry_out_client(&mut self, index: usize) {
        let client = u32::try_from(index).expect("few clients");
        for action in self.clients[index].take_actions() {
            let link = self.client_links.get(&client).copied();
            match (action, link) {
                (client::Action::Connect, _) => self.connect_client(index, client),
                (client::Action::WakeAfter(delay), _) => {
                    self.schedule.at(self.now + delay, Happening::ClientWake(client));
                }
                (client::Action::Send(bytes), Some(link)) => {
                    self.network.peer_sends(self.now, &mut self.schedule, link, &bytes);
                }
                (client::Action::ReadSlowly(slow), Some(link)) => {
                    self.network.set_slow(self.now, &mut self.schedule, link, slow);
                    self.wake_for_news();
                }
                (client::Action::Close, Some(link)) => {
                    self.client_links.remove(&client);
                    self.network.peer_closes(self.now, &mut self.schedule, link);
                }
                (client::Action::Reset, Some(link)) => {
                    self.client_links.remove(&client);
                    self.network.peer_resets(self.now, &mut self.schedule, link);
                }
                (_, None) => {}
            }
        }
    }

    fn connect_client(&mut self, index: usize, client: u32) {
        if !self.listening {
            self.clients[index].lost(self.now, &mut self.checkers);
            return;
        }
        let (link, connection) = self.network.open(Owner::Client(client));
        self.client_links.insert(client, link);
        self.link_keys.insert(link, self.clients[index].key);
        self.news.push(News::Accepted(connection, client));
        let delay = self.random.below(60);
        self.wake_program(delay);
    }

    fn carry_out_server(&mut self) {
        let strict = self.program.keeps_limits(); // others pass a client's nonsense on
        for complaint in std::mem::take(&mut self.server.complaints).into_iter().filter(|_| strict) {
            self.checkers.violation(format!("the server complains: {}", complaint.0));
        }
        for ran in std::mem::take(&mut self.server.database.executions) {
            let turn = self.network.turn_of(ran.sent_at.0, ran.sent_at.1);
            self.note(format_args!("{} runs on thread {}", ran.token, ran.thread_id));
            self.checkers.executed(ran, turn);
        }
        for (link, action) in self.server.take_actions() {
            match action {
                server::Action::Send(bytes) => {
                    self.network.peer_sends(self.now, &mut self.schedule, link, &bytes);
                }
                server::Action::Close => self.network.peer_closes(self.now, &mut self.schedule, link),
                server::Action::WakeAfter(delay) => {
                    self.schedule.at(self.now + delay, Happening::ServerWake(link));
                }
            }
        }
        let running = self.server.running_statements();
        let counts = self.program.keeps_limits() && self.parameters.counts_permits();
        if counts && running > self.parameters.permits as usize {
            let permits = self.parameters.permits;
            self.checkers.violation(format!("{running} statements run at once, permits = {permits}"));
        }
    }

    fn fault(&mut self) {
        if self.calm {
            return;
        }
        let faults = self.parameters.faults;
        if faults.crashes
            && self.server_is_up
            && self.random.percent(if faults.backend_losses { 20 } else { 100 })
        {
            self.note(format_args!("the server crashes"));
            let links: Vec<Link> = self.server.links().collect();
            self.server.crash();
            self.server_is_up = false;
            for link in links {
                self.network.peer_resets(self.now, &mut self.schedule, link);
            }
            let pause = self.random.between(1_000, 5_000_000);
            self.schedule.at(self.now + pause, Happening::ServerUp);
        } else if faults.backend_losses {
            let links: Vec<Link> = self.server.links().collect();
            if !links.is_empty() {
                let link = *self.random.pick(&links);
                self.note(format_args!("backend {link} is lost"));
                if self.random.percent(50) {
                    self.server.close(link);
                    self.carry_out_server();
                } else {
                    self.server.drop_link(link);
                    self.network.peer_resets(self.now, &mut self.schedule, link);
                }
            }
        }
        let pause = self.random.between(1, self.parameters.fault_interval);
        self.schedule.at(self.now + pause, Happening::Fault);
    }

    fn name(&self, link: Link, owner: Owner) -> String {
        name(&self.link_keys, link, Some(owner))
    }

    fn note(&mut self, text: std::fmt::Arguments<'_>) {
        self.trace.line(self.now, text);
    }
}

fn name(keys: &BTreeMap<Link, ClientKey>, link: Link, owner: Option<Owner>) -> String {
    match (owner, keys.get(&link)) {
        (Some(Owner::Client(_)), Some(key)) => format!("client {key}"),
        _ => format!("backend {link}"),
    }
}
