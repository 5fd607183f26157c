//! What a seed decides of a run with several servers: how many, how they lag, how they are checked, and what befalls them.

use std::fmt;
use std::time::Duration;

use engine::{ClusterSettings, ReadConsistency, ReadSettings, ReadSplit, Settings, ThreadHandling};

use crate::client::promise::Promise;
use crate::faults::{Faults, Parameters, server_address};
use crate::random::Random;
use crate::rules::Rules;
use crate::server::kind::Kind;

/// Mixed into the seed, so that the run of one server with the same seed tells nothing of this one.
const OTHER_SEED: u64 = 0x00c1_0057_e125;

/// Mixed into the seed for what is drawn of reads, so that all else stays as it was.
const OF_READS: u64 = 0x4ead_5011;

/// And for what operators say of servers that are read from.
const OF_RULES: u64 = 0x0e19_4750;

/// And once more for what else is drawn of runs for many checks of reads.
const OF_READERS: u64 = 0x2ead_e125;

/// For what is drawn where the servers are MySQLs.
const OF_MYSQL: u64 = 0x0e5d_0804;

/// For what is drawn where these are a group.
const OF_GROUP: u64 = 0x96f0_1e5a;

/// In so many of 100 runs for many checks of reads clients do what binds them to the primary.
const RARELY: u64 = 25;

/// In a run for many checks of reads there are so many clients at least: what each moment of a cluster costs is spread over more of them.
const READERS: u64 = 8;

/// They write and read rows so many times as much as else: nine of ten things that they do, beside all else that they do in other runs.
const ROWS_OF_READERS: u64 = 20;

/// Rows of others they read less often, so that more of what they do is a read behind a write of their own.
const OTHERS_OF_READERS: u64 = 4;

/// They read back up to so many times what they have written.
const READS_BACK: u64 = 4;

/// They think for long less often.
const PAUSES_OF_READERS: u64 = 2;

/// And log in less often: a login that has just begun has written nothing.
const STAYS_OF_READERS: u64 = 5;

/// Clients of several servers think longer: a failover takes seconds, in which those that nobody holds up would do thousands of things.
const PACE: u64 = 30;

/// Everything about the servers of a run that is drawn from its seed in advance.
#[derive(Clone, Debug)]
pub struct ClusterParameters {
    /// Whose servers they are.
    pub kind: Kind,
    /// On MySQL: some transactions have a tag.
    pub has_tags: bool,
    /// On MySQL: replicas carry out what comes in any order that is possible.
    pub any_order: bool,
    /// On MySQL: one that has what the primary lacks becomes its replica as it is, where that goes.
    pub keeps_own: bool,
    /// They are the members of one group.
    pub group: Option<GroupParameters>,
    /// How many.
    pub servers: u8,
    /// Microseconds that a transaction takes to a replica, at most.
    pub lag: u64,
    /// A replica gets so many at a time.
    pub at_once: usize,
    /// `server_check_interval`.
    pub check_interval: Duration,
    /// `server_check_timeout`.
    pub check_timeout: Duration,
    /// `failover_hold`.
    pub hold: Duration,
    /// `failover_behind = allow`.
    pub takes_behind: bool,
    /// Microseconds from the start to the calm.
    pub lasts: u64,
    /// Microseconds between faults, at most.
    pub fault_interval: u64,
    /// What befalls them.
    pub troubles: Vec<Trouble>,
    /// `read_split` and what goes with it, at first and then as operators change it.
    pub reads: ReadSettings,
    /// What operators say of servers that are read from, in this order.
    pub rules: Vec<Rules>,
    /// No text is too long to be looked at: longer ones are for the primary.
    pub looks_at_all: bool,
}

/// How the members of a group take it that one of them is not heard of, in microseconds. MySQL's own times are the longest of those that are drawn.
#[derive(Clone, Copy, Debug)]
pub struct GroupParameters {
    /// Who is not heard of for so long is UNREACHABLE. MySQL does not let that be chosen: it is 5 seconds.
    pub suspects: u64,
    /// And after so much more is left out (`group_replication_member_expel_timeout`).
    pub expels: u64,
    /// Who has been without a majority for so long leaves the group (`group_replication_unreachable_majority_timeout`); it stays where there is none.
    pub gives_up: Option<u64>,
    /// Who leaves it against its will lets nobody log in (`group_replication_exit_state_action`); else it is read only.
    pub goes_offline: bool,
    /// And comes back by itself (`group_replication_autorejoin_tries`). Else an operator has it come back.
    pub rejoins: bool,
    /// A server that is started takes part by itself, and no writes before (`group_replication_start_on_boot`).
    pub boots: bool,
    /// Of 100 looks in so many one that the others have left out hears of that. Until then it takes itself for a member.
    pub hears_left_out: u64,
}

/// What befalls servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A server dies, and comes back after a while.
    Kill,
    /// A server stops for a while, and goes on where it was.
    Hang,
    /// Connections to a server pass nothing on: all of them, those of some workers, or those of the checks.
    Cut,
    /// A replica stops, lags, gets nothing without knowing it, says something else of its lag, or comes back with less than it had.
    Replica,
    /// A replica is promoted though the primary is well: there are two.
    Mistake,
    /// An operator changes the roles without a word to the program.
    Change,
    /// An operator has the program change the primary (SWITCHOVER TO).
    Switchover,
    /// An operator drains servers, and puts them back.
    Drain,
}

const TROUBLES: [Trouble; 8] = [
    Trouble::Kill,
    Trouble::Hang,
    Trouble::Cut,
    Trouble::Replica,
    Trouble::Mistake,
    Trouble::Change,
    Trouble::Switchover,
    Trouble::Drain,
];

impl ClusterParameters {
    fn draw(random: &mut Random) -> Self {
        let milliseconds = |random: &mut Random, some: &[u64]| Duration::from_millis(*random.pick(some));
        let mut troubles: Vec<Trouble> = TROUBLES.into_iter().filter(|_| random.percent(45)).collect();
        if troubles.is_empty() {
            troubles.push(*random.pick(&TROUBLES));
        }
        Self {
            kind: Kind::MariaDb,
            has_tags: false,
            any_order: false,
            keeps_own: false,
            group: None,
            servers: u8::try_from(random.between(2, 4)).expect("small"),
            lag: *random.pick(&[1_000, 50_000, 2_000_000]),
            at_once: 20,
            check_interval: milliseconds(random, &[100, 500]),
            check_timeout: milliseconds(random, &[300, 1_000, 2_000]),
            hold: milliseconds(random, &[1_000, 5_000, 20_000]),
            takes_behind: random.percent(30),
            lasts: random.between(3_000_000, 25_000_000),
            fault_interval: *random.pick(&[500_000, 3_000_000]),
            troubles,
            reads: ReadSettings::default(),
            rules: Vec::new(),
            looks_at_all: false,
        }
    }

    /// What the engine is told of them.
    pub fn apply(&self, settings: &mut Settings) {
        settings.server = (1..=self.servers).map(server_address).collect();
        settings.cluster = ClusterSettings {
            several: true,
            check_interval: self.check_interval,
            check_timeout: self.check_timeout,
            hold: self.hold,
            takes_behind: self.takes_behind,
        };
        settings.reads = self.reads.clone();
        if self.splits_reads() && (self.looks_at_all || settings.large_statement_size == 0) {
            // Where no text is looked at, none goes to a replica, and nobody can say where his are to go.
            settings.large_statement_size = 64 << 10;
        }
    }

    /// Whether replicas are read from.
    pub fn splits_reads(&self) -> bool {
        self.reads.split != ReadSplit::Off
    }
}

/// Of each seed the same, whatever else it draws.
fn draw_reads(seed: u64) -> ReadSettings {
    let mut random = Random::new(seed ^ OF_READS);
    let split = *random.pick(&[ReadSplit::Off, ReadSplit::Replicas, ReadSplit::Replicas, ReadSplit::All]);
    let consistency = match random.below(8) {
        0..=3 => ReadConsistency::Session,
        4..=6 => ReadConsistency::Global,
        _ => ReadConsistency::Eventual,
    };
    ReadSettings {
        split,
        consistency,
        wait_limit: Duration::from_millis(*random.pick(&[0, 20, 1_000, 1_000])),
        max_lag: Duration::from_millis(*random.pick(&[300, 10_000, 10_000])),
        ..ReadSettings::default()
    }
}

/// Likewise for many checks of reads: mostly such settings as have reads behind writes wait for a replica. Without a wait, or with the primary among those that take
/// reads, hardly any of them goes to one.
fn draw_split_reads(random: &mut Random) -> ReadSettings {
    let is_usual = random.percent(85);
    ReadSettings {
        split: if is_usual { ReadSplit::Replicas } else { ReadSplit::All },
        consistency: *random.pick(&[
            ReadConsistency::Session,
            ReadConsistency::Session,
            ReadConsistency::Global,
        ]),
        wait_limit: Duration::from_millis(if is_usual { *random.pick(&[20, 1_000]) } else { 0 }),
        max_lag: Duration::from_millis(*random.pick(&[300, 10_000, 10_000])),
        ..ReadSettings::default()
    }
}

impl Parameters {
    /// What this seed decides of a run with several servers.
    pub fn of_cluster(seed: u64, steps: u64) -> Self {
        let mut random = Random::new(seed ^ OTHER_SEED);
        let cluster = ClusterParameters::draw(&mut random);
        let mut parameters = Self::draw(random.number(), steps);
        parameters.seed = seed;
        // Time bounds such a run.
        parameters.steps = if steps == 0 { u64::MAX } else { steps };
        parameters.faults = Faults { backend_losses: random.percent(30), ..Faults::default() };
        parameters.fault_interval = 2_000_000;
        parameters.clients = parameters.clients.min(8);
        // Whoever is killed, or runs into a short timeout, tells nothing of what a failover has done to it.
        parameters.hurries = false;
        parameters.drains_early = false;
        let habits = &mut parameters.habits;
        habits.kills = false;
        habits.versions = true;
        habits.pace = PACE;
        parameters.cluster = Some(cluster);
        parameters.with_reads(draw_reads(seed)).with_rules()
    }

    /// The same for many checks of reads: reads are split in each run, and more clients think less, and read more of what they have written.
    pub fn of_reads(seed: u64, steps: u64) -> Self {
        let mut random = Random::new(seed ^ OF_READERS);
        let mut parameters = Self::of_cluster(seed, steps).with_reads(draw_split_reads(&mut random));
        parameters.thread_handling = ThreadHandling::PoolOfThreads;
        parameters.clients = u32::try_from(random.between(READERS, 2 * READERS)).expect("small");
        if let Some(cluster) = &mut parameters.cluster {
            cluster.servers = u8::try_from(random.between(2, 6).min(4)).expect("small");
            cluster.at_once = *random.pick(&[20, 200]);
            cluster.looks_at_all = random.percent(90);
            // In the time that each trouble takes to be over nobody reads from replicas.
            cluster.fault_interval = *random.pick(&[500_000, 3_000_000, 10_000_000]);
            // Where nobody takes what a failover has lost, nobody reads or writes anything any more.
            cluster.takes_behind |= random.percent(70);
        }
        let habits = &mut parameters.habits;
        (habits.pace, habits.pauses, habits.stays) = (1, PAUSES_OF_READERS, STAYS_OF_READERS);
        (habits.rows, habits.others, habits.reads_back) = (ROWS_OF_READERS, OTHERS_OF_READERS, READS_BACK);
        (habits.popular, habits.moves) = (false, false);
        // Whoever holds something on the primary, or is in a transaction, is not read for elsewhere.
        habits.transactions &= random.percent(RARELY);
        habits.pins &= random.percent(RARELY);
        parameters.with_rules()
    }

    /// The same run with MySQLs.
    #[must_use]
    pub fn with_mysql(mut self) -> Self {
        let mut random = Random::new(self.seed ^ OF_MYSQL);
        if let Some(cluster) = &mut self.cluster {
            cluster.kind = Kind::MySql;
            (cluster.has_tags, cluster.any_order) = (random.percent(50), random.percent(50));
            cluster.keeps_own = random.percent(50);
        }
        self
    }

    /// The same run with three MySQLs that are the members of one group.
    #[must_use]
    pub fn with_group(mut self) -> Self {
        self = self.with_mysql();
        let mut random = Random::new(self.seed ^ OF_GROUP);
        if let Some(cluster) = &mut self.cluster {
            // Members commit in the order in which they have agreed on (replica_preserve_commit_order).
            (cluster.any_order, cluster.keeps_own, cluster.servers) = (false, false, 3);
            cluster.lasts += random.between(0, 20_000_000);
            cluster.lag = cluster.lag.min(500_000);
            cluster.group = Some(GroupParameters {
                suspects: *random.pick(&[500_000, 2_000_000, 5_000_000]),
                expels: *random.pick(&[0, 1_000_000, 5_000_000]),
                gives_up: random.percent(50).then(|| random.between(200_000, 3_000_000)),
                goes_offline: random.percent(50),
                rejoins: random.percent(50),
                boots: random.percent(50),
                // After some tenths of a second, as seen with 9.7, or some seconds.
                hears_left_out: *random.pick(&[15, 15, 2]),
            });
        }
        self.with_rules()
    }

    /// Whether the servers are MySQLs.
    pub fn has_mysql(&self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.kind == Kind::MySql)
    }

    /// The same cluster with what operators say of servers that are read from.
    fn with_rules(mut self) -> Self {
        let mut random = Random::new(self.seed ^ OF_RULES);
        if let Some(cluster) = self.cluster.as_mut().filter(|cluster| cluster.splits_reads()) {
            cluster.rules = Rules::draw(&mut random, cluster.servers, cluster.lasts);
            if let Some(first) = cluster.rules.first() {
                first.apply(&mut cluster.reads);
            }
        }
        self
    }

    /// The same cluster with other settings for reads.
    #[must_use]
    pub fn with_reads(mut self, reads: ReadSettings) -> Self {
        self.habits.promise = Promise::of_settings(&reads);
        if let Some(cluster) = &mut self.cluster {
            cluster.reads = reads;
        }
        self
    }
}

impl fmt::Display for ClusterParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "  {} servers ({:?}, tags {}, any order {}, keeps own {}, {:?}), lag up to {} us for {} transactions, check_interval {:?}, check_timeout {:?}, hold {:?}, takes_behind {}; {:?} at most {} us apart, \
             calm after {} us; {:?}; {:?}",
            self.servers,
            self.kind,
            self.has_tags,
            self.any_order,
            self.keeps_own,
            self.group,
            self.lag,
            self.at_once,
            self.check_interval,
            self.check_timeout,
            self.hold,
            self.takes_behind,
            self.troubles,
            self.fault_interval,
            self.lasts,
            self.reads,
            self.rules
        )
    }
}
