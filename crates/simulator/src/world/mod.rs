//! One run: the program under test in the middle, virtual clients and a virtual server around it, and one clock.

mod turn;

use std::collections::BTreeMap;

use engine::{Finding, Task, Work};
use seam::{ConnectionId, Signal};

use crate::checkers::Checkers;
use crate::client::{self, Client};
use crate::faults::Parameters;
use crate::network::{Network, Owner, Parcel};
use crate::random::Random;
use crate::schedule::{Happening, Schedule};
use crate::server::database::Database;
use crate::server::{self, Link, Server, Speed};
use crate::subject::Subject;
use crate::token::ClientKey;
use crate::trace::Trace;

/// How long the calm may last before somebody counts as forgotten: longer than every timeout that the engine was given,
/// except those of a minute and more.
const CALM_LIMIT: u64 = 60_000_000;

/// So few that statements are closed and prepared again, and enough for those that are wanted at the same moment: with 6 a client
/// is refused now and then, and rightly.
const MOST_PREPARED_STATEMENTS: usize = 8;

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
    /// Reads of what everybody wants that were answered, and how often the server ran them.
    pub popular: (u64, u64),
    /// Reads that the program sent again.
    pub rescues: u64,
    /// Reads that it sent behind others on their backend, and how many of these with their schema.
    pub shared_reads: (u64, u64),
    /// How often a backend was to change its account.
    pub account_changes: u64,
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
    /// What the program has others do, with the worker that wants it.
    tasks: BTreeMap<u64, (usize, Task)>,
    last_task: u64,
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
    /// What came of a task of a worker.
    Found(usize, u64, Finding),
}

impl<P: Subject> World<P> {
    /// A world around this program. With `echo`, its trace goes to standard output.
    pub fn new(program: P, parameters: Parameters, echo: bool) -> Self {
        let mut random = Random::new(parameters.seed.wrapping_add(1));
        let mut database = Database::new(Parameters::accounts());
        let direct = !program.keeps_limits();
        // A client of its own would be refused, where a pool makes room.
        database.most_prepared_statements = (!direct).then_some(MOST_PREPARED_STATEMENTS);
        // Clients of its own would see what only a pool has to know.
        let speed = match direct {
            true => Speed { refused_change_percent: 0, keeps_roles: false, ..parameters.speed },
            false => parameters.speed,
        };
        let server = Server::new(database, random.fork(), speed, parameters.server_connections);
        let network = Network::new(parameters.conditions, random.fork());
        let mut accounts = Parameters::accounts();
        accounts.pop(); // nobody but the program logs in with the service account
        if parameters.habits.popular {
            accounts.truncate(1);
        }
        let clients = (0..parameters.clients)
            .map(|number| {
                let mut own = random.fork();
                let habits = parameters.habits_of_one(&mut own);
                Client::new(number, habits, accounts.clone(), own)
            })
            .collect();
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
            tasks: BTreeMap::new(),
            last_task: 0,
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
        if !self.parameters.drains_early {
            self.begin_calm();
            self.run_calm();
        }
        self.drain();
        Outcome {
            violation: self.checkers.found().map(str::to_owned),
            trace: self.trace,
            executed: self.checkers.executed,
            answered: self.checkers.answered,
            popular: (self.checkers.popular_answers, self.checkers.popular_runs),
            rescues: self.program.rescues(),
            shared_reads: self.program.shared_reads(),
            account_changes: self.program.account_changes(),
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
        self.calm = true;
        for client in 0..self.clients.len() {
            self.clients[client].stay_away();
        }
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
            Happening::TaskDone(number) => self.task_done(number),
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

    /// Some thread has done what the program wanted done.
    fn task_done(&mut self, number: u64) {
        let Some((worker, task)) = self.tasks.remove(&number).filter(|(_, task)| task.is_wanted()) else {
            return;
        };
        // Nobody logs in here with what takes long to check.
        let finding = match task.work {
            Work::Read(text) => Finding::Text(text.read()),
            Work::ReadCode(answers) => Finding::Code(answers.read()),
            _ => return,
        };
        self.news.push(News::Found(worker, task.number, finding));
        self.wake_program(0);
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
        let full = self.parameters.faults.refusals && !self.calm && self.random.percent(10);
        if self.server_is_up && !unlucky {
            let (link, connection) = self.network.open(Owner::Server);
            self.news.push(News::Connected(token, connection));
            if full {
                self.server.turn_away(link);
            } else {
                self.server.accept(link);
            }
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
        let database = &self.server.database;
        self.checkers.moment_is(database.moment, database.popular_runs);
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
        let permits = self.parameters.permits;
        // A quarter more is kept for clients that hold locks, and at least one.
        let most = permits + (permits / 4).max(1);
        if counts && running > most as usize {
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
