//! What a scenario is made of: a server, its clients in groups, and what they send.

use std::time::Duration;

use engine::Settings;

use super::figures::{Figure, Outcome};
use super::profile::Profile;
use super::server::USER;
use super::statement::Action;
use super::world::LATENCY;

/// A time that is drawn for each use, evenly from the one to the other. What is drawn depends on the seed, the client and
/// the number of its statement alone, so that all profiles meet the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// The shortest, in microseconds.
    pub from: u64,
    /// The longest, in microseconds.
    pub to: u64,
}

impl Time {
    /// No time at all.
    pub const NONE: Self = Self::micros(0);

    /// Always the same, in microseconds.
    pub const fn micros(micros: u64) -> Self {
        Self { from: micros, to: micros }
    }

    /// Always the same, in milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Self::micros(millis * 1000)
    }

    /// Around so many microseconds: from half of them to half as many more.
    pub const fn about(micros: u64) -> Self {
        Self { from: micros / 2, to: micros + micros / 2 }
    }

    /// The time for 64 random bits.
    pub fn draw(self, bits: u64) -> u64 {
        self.from + bits % (self.to - self.from + 1)
    }

    /// What it is on average, in microseconds.
    pub fn mean(self) -> u64 {
        self.from.midpoint(self.to)
    }
}

/// The server behind the pool.
#[derive(Clone, Debug)]
pub struct ServerModel {
    /// Cores that run statements.
    pub cores: u32,
    /// So many runnable threads more than cores lose half of the work; see [`ServerModel::of_cores`].
    pub crowd: u32,
    /// What a thread costs at its connection's beginning, of a core: creation, handshake, reading the account.
    pub login: Time,
    /// What BEGIN, SET and the like cost, of a core.
    pub trivial: Time,
    /// What a COMMIT costs, of a core.
    pub commit: Time,
    /// How long the log takes to reach the disk at a COMMIT, or at a write that commits by itself.
    pub sync: Time,
    /// What waits off the cores waits for one of so many disks; `None` where there are as many as are wanted.
    pub disks: Option<u32>,
    /// How long anything takes between the pool and the server, in microseconds.
    pub distance: u64,
    /// Between these times, counted from the first statement on, others on the same machine have half of the cores.
    pub neighbours: Option<(Duration, Duration)>,
    /// `innodb_lock_wait_timeout`: how long a statement waits for a row. Waits for tables and for the global read lock
    /// have no end (`lock_wait_timeout` is a day in MariaDB and a year in MySQL).
    pub lock_wait_timeout: Duration,
    /// Tables, by what a statement on them costs.
    pub tables: Vec<Table>,
    /// So many accounts, beside those that there are in any case.
    pub accounts: u32,
}

/// A table, for the sake of what statements on it cost.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Of a core.
    pub cpu: Time,
    /// Off the cores: waiting for a disk, another server, or asleep.
    pub wait: Time,
}

impl ServerModel {
    /// A server with so many cores, and what was measured on two.
    ///
    /// MariaDB 10.11 with a thread per connection made 16,609 updates a second at 16 connections, 5,891 at 1,024 and
    /// 2,695 at 4,000: half is lost at about 550 surplus threads on two cores. A login, a point select and a goodbye
    /// together take 5,500 a second, which leaves about 150 microseconds for the login. The log's way to the disk is
    /// that of a flash drive behind a group commit.
    pub fn of_cores(cores: u32, tables: &[Table]) -> Self {
        Self {
            cores,
            crowd: cores * 275,
            login: Time::about(150),
            trivial: Time::micros(15),
            commit: Time::micros(30),
            sync: Time::about(300),
            disks: None,
            distance: LATENCY,
            neighbours: None,
            lock_wait_timeout: Duration::from_secs(50),
            tables: tables.to_vec(),
            accounts: 0,
        }
    }
}

/// Clients that do the same.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name in the tables.
    pub name: &'static str,
    /// How many.
    pub clients: u32,
    /// When they connect, counted from the first statement of all on; `None` for during the ramp.
    pub connects: Option<Duration>,
    /// When the first statement of the first of them is sent.
    pub from: Duration,
    /// Over which time the others follow, evenly.
    pub spread: Duration,
    /// When they stop; what they have begun goes on.
    pub until: Duration,
    /// What each does.
    pub program: Vec<Step>,
    /// How long it pauses after that.
    pub think: Time,
    /// How many times it does it all; `u32::MAX` for without end.
    pub times: u32,
    /// After this long without an answer it hangs up, connects again and repeats the statement.
    pub patience: Option<Duration>,
    /// Where they connect to.
    pub place: Place,
    /// As whom.
    pub accounts: Accounts,
    /// Their default schema, if they have one: the same table is another one there.
    pub schema: Option<&'static str>,
}

/// As whom a group's clients log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounts {
    /// All as this user, one that the server knows in any case.
    One(&'static str),
    /// As the first so many of [`ServerModel::accounts`], in turn.
    InTurn(u32),
    /// As any of the first so many of these, drawn as [`Row::Popular`] is.
    Popular(u32),
}

/// Which workers a group's clients connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// All, in turn.
    Everywhere,
    /// This one, as it happens where ids of connections are taken modulo the number of groups.
    Worker(u32),
    /// All but this one, in turn.
    NotWorker(u32),
}

/// One statement of a program.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Under which name it is measured; the names of all groups are one list.
    pub class: &'static str,
    /// What it does.
    pub action: Action,
    /// Which table.
    pub table: u16,
    /// Which row.
    pub row: Row,
    /// The pause behind it.
    pub then: Time,
}

/// Which row a statement is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// One of the client's own.
    Own,
    /// The same for all.
    Same(u64),
    /// Any of so many.
    Among(u64),
    /// Any of so many, the first most often: each doubling of a row's number halves how often it is drawn (Zipf's law, in
    /// steps). The text is the same for all clients.
    Popular(u64),
}

impl Step {
    /// A statement on a table's rows, with no pause behind it.
    pub const fn new(class: &'static str, action: Action, table: u16, row: Row) -> Self {
        Self { class, action, table, row, then: Time::NONE }
    }

    /// The same with a pause behind it.
    #[must_use]
    pub const fn then(self, then: Time) -> Self {
        Self { then, ..self }
    }
}

impl Group {
    /// Clients that repeat a program from the beginning to the end, without a pause.
    pub fn new(name: &'static str, clients: u32, program: Vec<Step>) -> Self {
        Self {
            name,
            clients,
            connects: None,
            from: Duration::ZERO,
            spread: Duration::from_millis(100),
            until: Duration::MAX,
            program,
            think: Time::NONE,
            times: u32::MAX,
            patience: None,
            place: Place::Everywhere,
            accounts: Accounts::One(USER),
            schema: None,
        }
    }
}

/// One scenario.
#[derive(Clone)]
pub struct Scenario {
    /// Its name on the command line and in files.
    pub name: &'static str,
    /// A heading.
    pub title: &'static str,
    /// What happens, what is known of it, and what the key figures say: a few sentences.
    pub story: &'static str,
    /// Workers of the pool: thread groups, in the servers' words.
    pub workers: u32,
    /// The server.
    pub server: ServerModel,
    /// The clients.
    pub groups: Vec<Group>,
    /// How long clients take to connect, before the first statement.
    pub ramp: Duration,
    /// How long it goes on from there.
    pub length: Duration,
    /// What is not counted, from the first statement on.
    pub warm_up: Duration,
    /// What differs from the profile's settings.
    pub adjust: fn(Profile, &mut Settings),
    /// A group that is left out in a second run, to compare with.
    pub without: Option<&'static str>,
    /// What it is run under.
    pub compares: Compares,
    /// What its picture shows.
    pub picture: Picture,
    /// What the scenario is about, from its outcome and that of the run without a group.
    pub figures: fn(&Outcome, Option<&Outcome>) -> Vec<Figure>,
}

/// What a scenario compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compares {
    /// The rules of several pools.
    Pools,
    /// The same, and Onramp's own with bounds on waiting.
    PoolsAndBounds,
    /// The same, and Onramp's own with the oldest first whatever happens.
    PoolsOrdersAndBounds,
    /// The rules of several pools, and Onramp's own with the server's time shared out between users.
    PoolsAndShares,
    /// So many permits, fixed, with a limit that the pool finds by itself.
    Limits(&'static [u32]),
}

/// What is drawn of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// The first of its figures, as bars.
    FirstFigure,
    /// Answers to the statements of a class, over time.
    OverTime {
        /// The class.
        class: &'static str,
    },
}

impl Scenario {
    /// A server without clients for 20 seconds, with a worker for each of its cores.
    pub fn of(name: &'static str, title: &'static str, server: ServerModel) -> Self {
        Self {
            name,
            title,
            story: "",
            workers: server.cores,
            server,
            groups: Vec::new(),
            ramp: Duration::from_secs(1),
            length: Duration::from_secs(20),
            warm_up: Duration::ZERO,
            adjust: |_, _| {},
            without: None,
            compares: Compares::Pools,
            picture: Picture::FirstFigure,
            figures: |_, _| Vec::new(),
        }
    }

    /// The names under which statements are measured, in the order of the groups.
    pub fn classes(&self) -> Vec<&'static str> {
        let mut classes = Vec::new();
        for step in self.groups.iter().flat_map(|group| &group.program) {
            if !classes.contains(&step.class) {
                classes.push(step.class);
            }
        }
        classes
    }

    /// How many clients there are in all.
    pub fn clients(&self) -> u32 {
        self.groups.iter().map(|group| group.clients).sum()
    }
}
