//! One run: the program under test in the middle, virtual clients and a virtual server around it, and one clock.

mod agreement;
mod cluster;
mod driver;
mod group;
mod kills;
mod ledger;
mod onramps;
mod operator;
mod peers;
mod rules;
mod servers;
mod turn;

pub use self::cluster::Act;
pub use self::group::GroupAct;
pub use self::onramps::Fate;

use std::collections::BTreeMap;
use std::fmt;

use engine::{Finding, Histogram, Routed, Task, Work};
use seam::Signal;

use self::cluster::Cluster;
use self::driver::{Driver, Life, News};
use self::group::Group;
use self::kills::Overheard;
use self::onramps::Onramps;
use self::servers::{Way, new_servers};
use crate::accounts::Choices;
use crate::checkers::{Checkers, ReadChecks};
use crate::client::{self, Client};
use crate::faults::Parameters;
use crate::freezing::{Freezing, Frozen};
use crate::kills::Counts;
use crate::ledger::Fates;
use crate::network::{Network, Owner, Parcel};
use crate::random::Random;
use crate::schedule::{Happening, Schedule};
use crate::server::{Link, Server};
use crate::subject::Subject;
use crate::token::{ClientKey, Token};
use crate::trace::Trace;

/// How long the calm may last before somebody counts as forgotten: longer than every timeout that the engine was given,
/// except those of a minute and more.
const CALM_LIMIT: u64 = 60_000_000;

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
    /// Where there are several servers, what became of clients.
    pub fates: Fates,
    /// Where there are several Onramps, how KILLs ended.
    pub killed: Counts,
    /// Where reads are split, what was checked of them.
    pub reads: ReadChecks,
    /// And how long they have waited for a replica to have what they were to see.
    pub read_waits: Histogram,
    /// And where statements went, with the reasons for the primary.
    pub routed: Routed,
    /// How many reads were sent to each server that is read from, by its place.
    pub reads_at: Vec<u64>,
    /// What was frozen and thawed.
    pub frozen: Frozen,
    /// Virtual microseconds.
    pub micros: u64,
}

/// A run in progress.
#[derive(Debug)]
pub struct World<P> {
    /// The program in the middle, or several of them. One that has ended keeps its place, and the one that is started for it gets the next.
    drivers: Vec<Driver<P>>,
    parameters: Parameters,
    random: Random,
    now: u64,
    schedule: Schedule,
    network: Network,
    servers: Vec<Server>,
    is_up: Vec<bool>,
    /// The way of each connection to a server.
    ways: BTreeMap<Link, Way>,
    cluster: Option<Cluster>,
    group: Option<Group>,
    onramps: Option<Onramps<P>>,
    freezing: Freezing,
    overheard: Overheard,
    /// Clients' statements that were sent in this turn, with the ways to the servers.
    sent: Vec<(Way, Token)>,
    /// What the program has closed in this turn.
    left_in_turn: Vec<Link>,
    clients: Vec<Client>,
    client_links: BTreeMap<u32, Link>,
    link_keys: BTreeMap<Link, ClientKey>,
    /// What programs have others do, with the place of the program, and its worker that wants it.
    tasks: BTreeMap<u64, (usize, usize, Task)>,
    last_task: u64,
    turn: u64,
    calm: bool,
    checkers: Checkers,
    trace: Trace,
}

impl<P: Subject> World<P> {
    /// A world around this program. With `echo`, its trace goes to standard output.
    pub fn new(program: P, parameters: Parameters, echo: bool) -> Self {
        let mut random = Random::new(parameters.seed.wrapping_add(1));
        let direct = !program.keeps_limits();
        let servers = new_servers(&parameters, direct, &mut random);
        let network = Network::new(parameters.conditions, random.fork());
        let choices = Choices::new(parameters.accounts, parameters.habits.popular);
        let clients = (0..parameters.clients)
            .map(|number| {
                let mut own = random.fork();
                let habits = parameters.habits_of_one(&mut own);
                Client::new(number, habits, choices.clone(), own)
            })
            .collect();
        Self {
            drivers: vec![Driver::new(program, 0)],
            checkers: checkers_of(&parameters, direct),
            random,
            now: 0,
            schedule: Schedule::default(),
            network,
            is_up: vec![true; servers.len()],
            ways: BTreeMap::new(),
            onramps: None,
            freezing: Freezing::new(parameters.seed, parameters.freeze),
            overheard: Overheard::default(),
            cluster: parameters.cluster.clone().map(|drawn| Cluster::new(drawn, parameters.seed)),
            group: group_of(&parameters),
            parameters,
            servers,
            sent: Vec::new(),
            left_in_turn: Vec::new(),
            clients,
            client_links: BTreeMap::new(),
            link_keys: BTreeMap::new(),
            tasks: BTreeMap::new(),
            last_task: 0,
            turn: 0,
            calm: false,
            trace: Trace::new(echo),
        }
    }

    /// A world around several Onramps, as many as the seed's run has. Each is made from its number: those that are started in the place of others
    /// have numbers of their own.
    pub fn several(make: fn(&Parameters, usize) -> P, parameters: Parameters, echo: bool) -> Self {
        let drawn = parameters.onramps.clone().expect("drawn for several");
        let drivers = (0..usize::from(drawn.count)).map(|number| Driver::new(make(&parameters, number), 0));
        let drivers: Vec<_> = drivers.collect();
        let onramps = Some(Onramps::new(drawn, parameters.seed, make));
        let first = make(&parameters, 0);
        Self { drivers, onramps, ..Self::new(first, parameters, echo) }
    }

    /// Runs to the end, or to the first violation.
    pub fn run(mut self) -> Outcome {
        (0..self.drivers.len()).for_each(|program| self.wake_program(program, 1));
        for client in 0..self.parameters.clients {
            let at = self.random.below(50_000);
            self.schedule.at(at, Happening::ClientWake(client));
        }
        if self.parameters.has_faults() {
            let at = self.random.below(self.parameters.fault_interval);
            self.schedule.at(at, Happening::Fault);
        }
        self.begin_cluster();
        self.begin_group();
        self.begin_onramps();
        self.storm();
        if !self.parameters.drains_early && self.checkers.found().is_none() {
            self.begin_calm();
            self.run_calm();
        }
        let reads_at = self.reads_at();
        self.drain();
        let shared_reads = self.programs().map(Subject::shared_reads);
        let shared_reads =
            shared_reads.fold((0, 0), |(reads, schemas), (more, brought)| (reads + more, schemas + brought));
        Outcome {
            rescues: self.programs().map(Subject::rescues).sum(),
            shared_reads,
            account_changes: self.programs().map(Subject::account_changes).sum(),
            read_waits: self.summed(|all, program| *all += &program.read_waits()),
            routed: self.summed(|all, program| *all += &program.routed()),
            violation: self.checkers.found().map(str::to_owned),
            trace: self.trace,
            executed: self.checkers.executed,
            answered: self.checkers.answered,
            popular: (self.checkers.popular_answers, self.checkers.popular_runs),
            fates: self.checkers.fates(),
            killed: self.checkers.killed(),
            reads: self.checkers.reads,
            reads_at,
            frozen: self.freezing.counts,
            micros: self.now,
        }
    }

    fn reads_at(&mut self) -> Vec<u64> {
        let mut all = vec![0; self.servers.len()];
        for worker in self.drivers.iter_mut().flat_map(|driver| driver.program.workers()) {
            all.iter_mut().zip(worker.neighbours().reader_views()).for_each(|(all, view)| *all += view.sent);
        }
        all
    }

    fn storm(&mut self) {
        for _ in 0..self.parameters.steps {
            let is_over = self.cluster.as_ref().is_some_and(|cluster| self.now >= cluster.drawn.lasts);
            let is_over =
                is_over || self.onramps.as_ref().is_some_and(|onramps| self.now >= onramps.drawn.lasts);
            if is_over || !self.step() {
                return;
            }
        }
    }

    /// Faults end, everything is up, readers read: from here on, whoever asks must be answered.
    fn begin_calm(&mut self) {
        self.note(format_args!("calm begins"));
        self.calm = true;
        for place in (0..self.is_up.len()).filter(|&place| !self.is_up[place]) {
            self.schedule.at(self.now + 1, Happening::ServerUp(place));
        }
        self.calm_cluster();
        self.calm_onramps();
        for client in 0..self.clients.len() {
            self.clients[client].calm_down();
            self.carry_out_client(client);
        }
    }

    fn run_calm(&mut self) {
        let end = self.now + CALM_LIMIT;
        while self.checkers.found().is_none()
            && !(self.clients.iter().all(Client::is_satisfied) && self.are_counted() && self.agree())
        {
            if self.schedule.next_time().is_none_or(|next| next > end) {
                let forgotten = self.clients.iter().find(|client| !client.is_satisfied());
                let text = forgotten.map_or(
                    "the Onramps do not know of each other or of the primary".to_owned(),
                    |client| {
                        format!("client {} is forgotten: it waits for {}", client.key, client.waits_for())
                    },
                );
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
        if self.checkers.found().is_some() || !self.program().keeps_limits() {
            return;
        }
        self.note(format_args!("drain"));
        for program in 0..self.drivers.len() {
            if self.drivers[program].life != Life::Gone {
                self.drivers[program].news.push(News::Signal(Signal::Drain));
                self.wake_program(program, 0);
            }
        }
        let end = self.now + CALM_LIMIT;
        self.checkers.accept_losses();
        self.calm = true;
        if let Some(onramps) = &mut self.onramps {
            onramps.ends = true;
        }
        for client in 0..self.clients.len() {
            self.clients[client].stay_away();
        }
        while !self.drivers.iter().all(|driver| driver.finished) && self.checkers.found().is_none() {
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
            Happening::Turn(program) => {
                if self.drivers[program].next_turn == Some(at) {
                    self.drivers[program].next_turn = None;
                    self.run_turn(program);
                }
            }
            Happening::ArriveAtProgram(link) if self.holds_up(link, false) => {
                self.schedule.at(self.now + cluster::LOOK, Happening::ArriveAtProgram(link));
            }
            Happening::ArriveAtProgram(link) => {
                if self.network.arrive_at_program(link) {
                    let delay = self.random.below(60);
                    self.wake_program_of(link, delay);
                }
            }
            Happening::ArriveAtPeer(link) if self.holds_up(link, true) => {
                self.schedule.at(self.now + cluster::LOOK, Happening::ArriveAtPeer(link));
            }
            Happening::ArriveAtPeer(link) => self.arrive_at_peer(link),
            Happening::SlowRead(link) => {
                self.network.slow_read(self.now, &mut self.schedule, link);
                self.wake_for_news(link);
            }
            Happening::ConnectDone { token, server, origin } => self.connect_done(token, server, origin),
            Happening::Greet(link) => self.greet(link),
            Happening::ServerWake(link) => self.server_wakes(link),
            Happening::ClientWake(client) => {
                let client = client as usize;
                self.clients[client].wake(self.now, &mut self.checkers);
                self.note_asked();
                self.carry_out_client(client);
            }
            Happening::TaskDone(number) => self.task_done(number),
            Happening::Fault => self.fault(),
            Happening::ServerUp(place) => self.server_up(place),
            Happening::Cluster(act) => self.act(act),
            Happening::Onramps(fate) => self.meet(fate),
        }
        if let Some(violation) = self.checkers.found() {
            let text = violation.to_owned();
            self.note(format_args!("VIOLATION {text}"));
        }
        self.checkers.found().is_none()
    }

    /// Some thread has done what the program wanted done.
    fn task_done(&mut self, number: u64) {
        let Some((program, worker, task)) = self.tasks.remove(&number).filter(|(.., task)| task.is_wanted())
        else {
            return;
        };
        // Nobody logs in here with what takes long to check.
        let finding = match task.work {
            Work::Read(text) => Finding::Text(text.read()),
            Work::ReadAccounts(rows) => Finding::Accounts(rows.read()),
            Work::ReadCode(answers) => Finding::Code(answers.read()),
            _ => return,
        };
        self.drivers[program].news.push(News::Found(worker, task.number, finding));
        self.wake_program(program, 0);
    }

    fn arrive_at_peer(&mut self, link: Link) {
        match self.network.arrive_at_peer(link) {
            None => {}
            Some((Owner::Server, parcel)) => {
                self.check_arrival(link, &parcel);
                self.arrive_at_server(link, parcel);
            }
            Some((Owner::Client(client), parcel)) => {
                if self.client_links.get(&client) != Some(&link) {
                    return;
                }
                let index = client as usize;
                match parcel {
                    Parcel::Bytes(bytes) => self.clients[index].receive(self.now, &bytes, &mut self.checkers),
                    Parcel::End | Parcel::Reset => {
                        self.note_left(link);
                        self.client_links.remove(&client);
                        self.clients[index].lost(self.now, &mut self.checkers);
                    }
                }
                self.carry_out_client(index);
                self.judge_kills();
            }
        }
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
                    self.wake_for_news(link);
                }
                (client::Action::Close, Some(link)) => {
                    self.note_left(link);
                    self.client_links.remove(&client);
                    self.network.peer_closes(self.now, &mut self.schedule, link);
                }
                (client::Action::Reset, Some(link)) => {
                    self.note_left(link);
                    self.client_links.remove(&client);
                    self.network.peer_resets(self.now, &mut self.schedule, link);
                }
                (_, None) => {}
            }
        }
    }

    fn connect_client(&mut self, index: usize, client: u32) {
        let Some(program) = self.program_for(client) else {
            self.clients[index].lost(self.now, &mut self.checkers);
            return;
        };
        let (link, connection) = self.network.open(Owner::Client(client), program);
        self.client_links.insert(client, link);
        self.link_keys.insert(link, self.clients[index].key);
        self.drivers[program].news.push(News::Accepted(connection, client));
        let delay = self.random.below(60);
        self.wake_program(program, delay);
    }

    /// The program in the middle, or the first of several.
    fn program(&self) -> &P {
        &self.drivers[0].program
    }

    /// What all programs have together.
    fn summed<T: Default>(&self, add: impl Fn(&mut T, &P)) -> T {
        let mut all = T::default();
        self.programs().for_each(|program| add(&mut all, program));
        all
    }

    fn programs(&self) -> impl Iterator<Item = &P> {
        self.drivers.iter().map(|driver| &driver.program)
    }

    /// The same without a trace.
    #[must_use]
    pub fn without_trace(self) -> Self {
        Self { trace: Trace::off(), ..self }
    }

    fn note(&mut self, text: fmt::Arguments<'_>) {
        self.trace.line(self.now, text);
    }
}

fn group_of(parameters: &Parameters) -> Option<Group> {
    let cluster = parameters.cluster.as_ref()?;
    Some(Group::new(cluster.group?, usize::from(cluster.servers), parameters.seed))
}

fn checkers_of(parameters: &Parameters, direct: bool) -> Checkers {
    let mut checkers = Checkers::new(parameters.tolerates_losses(), direct);
    if let Some(cluster) = &parameters.cluster {
        checkers = checkers.with_ledger(u64::try_from(cluster.hold.as_micros()).expect("seconds"));
    }
    if parameters.onramps.is_some() { checkers.with_kills() } else { checkers }
}

/// What a connection is called in the trace.
#[derive(Clone, Copy)]
enum Name {
    Client(ClientKey),
    Backend(Link),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(key) => write!(f, "client {key}"),
            Self::Backend(link) => write!(f, "backend {link}"),
        }
    }
}

fn name(keys: &BTreeMap<Link, ClientKey>, link: Link, owner: Option<Owner>) -> Name {
    match (owner, keys.get(&link)) {
        (Some(Owner::Client(_)), Some(key)) => Name::Client(*key),
        _ => Name::Backend(link),
    }
}
