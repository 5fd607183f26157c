//! What a seed decides before a run begins: how many clients, how tight the limits, which faults.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use engine::{
    CoalescingSettings, FairShare, HighPrioMode, NamedNumbers, OverloadSettings, Profile, Settings,
    SharesSettings, SlowLogSettings, ThreadHandling,
};
use seam::Address;
use zeroize::Zeroizing;

use crate::accounts::AccountParameters;
use crate::client::program::Habits;
use crate::clusters::ClusterParameters;
use crate::network::Conditions;
use crate::onramps::OnrampParameters;
use crate::random::Random;
use crate::server::{SERVICE_USER, Speed};

/// The service account's password.
pub const SERVICE_PASSWORD: &str = "service secret";

/// Everything about a run that is drawn from its seed in advance.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// The seed.
    pub seed: u64,
    /// Happenings before the calm.
    pub steps: u64,
    /// How many clients.
    pub clients: u32,
    /// How many engines with common permits stand in the middle; never drawn, so that a seed means the same run whatever
    /// it is asked with.
    pub workers: u32,
    /// In so many of 1,000 turns a client or a backend is frozen and thawed; never drawn either.
    pub freeze: u64,
    /// `permits`.
    pub permits: u32,
    /// `statements_in_flight`.
    pub in_flight: u32,
    /// `stall_limit`: an hour where permits are to be counted, since statements that take longer than this lend theirs.
    pub stall_limit: Duration,
    /// `shared_backends`.
    pub shared_backends: u32,
    /// `max_backends`.
    pub max_backends: u32,
    /// `user_backends_share`.
    pub user_backends_share: u32,
    /// `thread_pool_profile`.
    pub profile: Profile,
    /// `thread_pool_transaction_delay`.
    pub transaction_delay: Duration,
    /// `max_connections`.
    pub max_connections: u32,
    /// The server's own `max_connections`, those of the service account aside; may be below `max_backends`.
    pub server_connections: u32,
    /// `statement_memory`, in bytes.
    pub statement_memory: usize,
    /// `coalesce_reads` and its bounds.
    pub coalescing: CoalescingSettings,
    /// `rescue_reads`.
    pub rescue_reads: bool,
    /// `backend_change_user`.
    pub change_accounts: bool,
    /// `adaptive_lifo`.
    pub adaptive_lifo: bool,
    /// `high_prio_mode` is statements, transactions or none.
    pub high_prio_mode: HighPrioMode,
    /// `thread_handling`.
    pub thread_handling: ThreadHandling,
    /// The network.
    pub conditions: Conditions,
    /// The server.
    pub speed: Speed,
    /// As whom clients log in.
    pub accounts: AccountParameters,
    /// What clients may do in this run; each draws its own habits among these.
    pub habits: Habits,
    /// Which faults.
    pub faults: Faults,
    /// Timeouts are so short that clients run into them.
    pub hurries: bool,
    /// SIGTERM comes in the middle of everything, not after a calm.
    pub drains_early: bool,
    /// Microseconds between faults, at most; zero for none.
    pub fault_interval: u64,
    /// What is refused rather than waited for.
    pub overload: OverloadSettings,
    /// Who gets how much of the server.
    pub shares: SharesSettings,
    /// Where there are several servers.
    pub cluster: Option<ClusterParameters>,
    /// Where there are several Onramps.
    pub onramps: Option<OnrampParameters>,
}

/// Which faults a run has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Single backends are closed or killed by the server.
    pub backend_losses: bool,
    /// The server crashes and comes back.
    pub crashes: bool,
    /// Attempts to connect fail now and then.
    pub connect_failures: bool,
    /// The server has no connection to spare now and then.
    pub refusals: bool,
}

impl Faults {
    fn any(self) -> bool {
        self.backend_losses || self.crashes || self.connect_failures || self.refusals
    }
}

impl Parameters {
    /// What this seed decides. `steps` of zero leaves the length to the seed as well.
    pub fn draw(seed: u64, steps: u64) -> Self {
        let mut random = Random::new(seed);
        let clients = u32::try_from(random.between(1, 16)).expect("small");
        let number = |random: &mut Random, low: u64, high: u64| {
            u32::try_from(random.between(low, high)).expect("small")
        };
        // Half of the runs have room for everyone, so that no limit explains an error.
        let roomy = random.percent(50);
        let faulty = random.percent(50);
        let max_backends = if roomy { clients + 2 } else { number(&mut random, 1, 6) };
        let mut parameters = Self {
            seed,
            steps: if steps == 0 { random.between(1_000, 12_000) } else { steps },
            clients,
            workers: 1,
            freeze: 0,
            permits: number(&mut random, 1, 6),
            in_flight: if random.percent(40) { 1 } else { number(&mut random, 2, 8) },
            stall_limit: if random.percent(60) {
                Duration::from_secs(3600)
            } else {
                Duration::from_millis(60)
            },
            shared_backends: number(&mut random, 1, 3),
            max_backends,
            user_backends_share: 100,
            server_connections: u32::MAX,
            profile: Profile::Native,
            transaction_delay: Duration::ZERO,
            max_connections: if roomy { 1_000 } else { number(&mut random, 2, 20) },
            statement_memory: if roomy { 1 << 20 } else { 1 << random.between(9, 16) },
            high_prio_mode: *random.pick(&[
                HighPrioMode::Transactions,
                HighPrioMode::Statements,
                HighPrioMode::None,
            ]),
            coalescing: CoalescingSettings::default(),
            rescue_reads: true,
            change_accounts: true,
            adaptive_lifo: true,
            thread_handling: if roomy && random.percent(10) {
                ThreadHandling::OneThreadPerConnection
            } else {
                ThreadHandling::PoolOfThreads
            },
            conditions: Conditions {
                delay: *random.pick(&[0, 50, 500, 5_000]),
                cut_percent: *random.pick(&[0, 10, 50]),
                receive_buffer: *random.pick(&[100, 2_000, 65_536]),
                high_water: *random.pick(&[1_000, 16_384]),
                slow_chunk: *random.pick(&[200, 4_000]),
            },
            speed: draw_speed(&mut random),
            accounts: AccountParameters::draw(seed),
            habits: draw_habits(&mut random, faulty),
            faults: Faults {
                backend_losses: faulty && random.percent(70),
                crashes: faulty && random.percent(40),
                connect_failures: faulty && random.percent(40),
                refusals: faulty && random.percent(20),
            },
            hurries: !roomy && random.percent(30),
            drains_early: random.percent(15),
            fault_interval: random.between(20_000, 2_000_000),
            overload: OverloadSettings::default(),
            shares: SharesSettings { fair_share: FairShare::Crowding, ..SharesSettings::default() },
            cluster: None,
            onramps: None,
        };
        // A statement that waits for a row must lend its permit, or the one that would end the wait may not run.
        parameters.habits.contends = !parameters.counts_permits() && random.percent(60);
        parameters.draw_more(&mut random, roomy);
        parameters
    }

    /// What came later is drawn last, so that seeds from before still mean what they meant.
    fn draw_more(&mut self, random: &mut Random, roomy: bool) {
        if !roomy && random.percent(40) {
            self.server_connections = u32::try_from(random.between(1, 6)).expect("small");
        }
        if !roomy && random.percent(40) {
            self.overload = draw_overload(random);
        }
        if random.percent(10) {
            self.transaction_delay = Duration::from_millis(random.between(1, 20));
        }
        if random.percent(30) {
            self.profile = *random.pick(&[Profile::Percona, Profile::MariaDb, Profile::MySql]);
        }
        if random.percent(25) {
            self.shares = draw_shares(random);
        }
        if random.percent(30) {
            self.draw_crowd(random);
        }
        self.rescue_reads = random.percent(85);
        self.adaptive_lifo = random.percent(85);
        if !roomy && random.percent(50) {
            self.user_backends_share = u32::try_from(random.between(20, 90)).expect("small");
            self.overload.idle_hold_timeout = Duration::from_micros(random.between(50_000, 5_000_000));
        }
        self.change_accounts = random.percent(85);
        self.speed.refused_change_percent = *random.pick(&[0, 0, 20, 100]);
        // Many clients of few accounts over few backends, which go round between them.
        if !roomy && random.percent(25) {
            self.clients = u32::try_from(random.between(17, 30)).expect("small");
            self.max_backends = self.max_backends.min(4).max(self.workers);
        }
    }

    /// Clients that ask for the same things and are alike most of the time, and fewer permits than clients, so that the same
    /// texts wait together.
    fn draw_crowd(&mut self, random: &mut Random) {
        self.coalescing.reads = true;
        self.permits = self.permits.min(2);
        let habits = &mut self.habits;
        habits.popular = true;
        habits.settings &= random.percent(40);
        habits.transactions &= random.percent(50);
        habits.pins &= random.percent(40);
        habits.prepared &= random.percent(40);
        if random.percent(30) {
            self.coalescing.most = *random.pick(&[1, 2, 5]);
        }
        if random.percent(30) {
            // Some replies are longer than this, some are not.
            self.coalescing.reply_size = *random.pick(&[50, 100, 300]);
        }
        self.habits.moves = random.percent(40);
    }

    /// So many clients that are alike and ask for the same few things, mostly: short reads, but for so many in a hundred. One permit,
    /// so that they share a backend.
    #[must_use]
    pub fn of_readers(mut self, clients: u32, slow_percent: u64) -> Self {
        self.coalescing.reads = false;
        self.profile = Profile::Native;
        self.thread_handling = ThreadHandling::PoolOfThreads;
        self.clients = clients;
        self.permits = 1;
        self.in_flight = 16;
        self.shared_backends = 1;
        self.stall_limit = Duration::from_secs(3600);
        self.drains_early = false;
        self.conditions.delay = 0;
        self.speed.usual = 1_000;
        self.speed.slow_percent = slow_percent;
        let habits = &mut self.habits;
        habits.popular = true;
        (habits.settings, habits.transactions, habits.pins, habits.prepared) = (false, false, false, false);
        self
    }

    /// Whether clients may see errors that a direct connection would not give.
    pub fn tolerates_losses(&self) -> bool {
        self.faults.any()
            || self.habits.kills
            || !self.has_room()
            || self.cluster.is_some()
            || self.onramps.is_some()
    }

    /// Whether every client can have a backend of its own, and every other limit is out of reach.
    pub fn has_room(&self) -> bool {
        self.max_backends.min(self.server_connections) > self.clients
            && self.max_connections > 4 * self.clients
            && self.statement_memory > 1 << 19
            && !self.hurries
            && self.overload == OverloadSettings::default()
    }

    /// Whether the number of running statements is fixed: no statement lends its permit, and there are permits at all.
    pub fn counts_permits(&self) -> bool {
        self.thread_handling == ThreadHandling::PoolOfThreads
            && self.profile == Profile::Native
            && self.stall_limit > Duration::from_secs(60)
    }

    /// Whether faults strike at all.
    pub fn has_faults(&self) -> bool {
        self.faults.backend_losses || self.faults.crashes
    }

    /// One client's habits: some of those that the run allows.
    pub fn habits_of_one(&self, random: &mut Random) -> Habits {
        let mut draw = |allowed: bool| allowed && random.percent(60);
        Habits {
            settings: draw(self.habits.settings),
            transactions: draw(self.habits.transactions),
            contends: draw(self.habits.contends),
            pins: draw(self.habits.pins),
            prepared: draw(self.habits.prepared),
            diagnostics: draw(self.habits.diagnostics),
            strict: self.habits.strict,
            rare: draw(self.habits.rare),
            kills: draw(self.habits.kills),
            pipelines: draw(self.habits.pipelines),
            hostile: draw(self.habits.hostile),
            slow: draw(self.habits.slow),
            popular: self.habits.popular,
            moves: self.habits.moves,
            versions: self.habits.versions,
            promise: self.habits.promise,
            rows: self.habits.rows,
            others: self.habits.others,
            reads_back: self.habits.reads_back,
            holds: self.thread_handling == ThreadHandling::OneThreadPerConnection,
            pace: self.habits.pace,
            pauses: self.habits.pauses,
            stays: self.habits.stays,
        }
    }

    /// Whether limits are to be found, `permits` being a bound for that of statements: in every fourth run.
    pub fn finds_limits(&self) -> bool {
        self.seed % 4 == 3
    }

    /// The same run with several workers; there are at least as many backends, as the table of options has it.
    pub fn with_workers(self, workers: u32) -> Self {
        Self { workers, max_backends: self.max_backends.max(workers), ..self }
    }

    /// The same run with clients and backends frozen and thawed in so many of 1,000 turns.
    pub fn with_freezing(self, per_thousand: u64) -> Self {
        Self { freeze: per_thousand, ..self }
    }

    /// What the Onramp is told that is started as this one, from 0, where there are several.
    pub fn settings_of(&self, start: usize) -> Settings {
        let mut settings = self.settings();
        if let Some(onramps) = &self.onramps {
            onramps.apply(&mut settings, start);
        }
        settings
    }

    /// What the engine is told.
    pub fn settings(&self) -> Settings {
        let timeout = |long: u64, short: u64| Duration::from_millis(if self.hurries { short } else { long });
        let mut entropy = [0; 32];
        let mut random = Random::new(self.seed ^ 0x5eed);
        for byte in &mut entropy {
            *byte = random.number().to_le_bytes()[0];
        }
        let mut settings = Settings {
            server: vec![server_address(1), server_address(2)],
            service_user: SERVICE_USER.to_owned(),
            service_password: Zeroizing::new(SERVICE_PASSWORD.to_owned()),
            thread_handling: self.thread_handling,
            permits: if self.finds_limits() { 0 } else { self.permits },
            permits_min: 1,
            permits_max: self.permits,
            statements_in_flight: if self.finds_limits() && self.in_flight > 1 { 0 } else { self.in_flight },
            max_backends: if self.finds_limits() { 0 } else { self.max_backends },
            most_backends: self.max_backends,
            user_backends_share: self.user_backends_share,
            shared_backends: if self.finds_limits() { 0 } else { self.shared_backends },
            // A few times what most statements take here: some find their way into the long lane, and out of it.
            long_statement_time: Duration::from_millis(10),
            long_permits: 0,
            overload: self.overload,
            shares: self.shares.clone(),
            long_permits_max: 0,
            stall_limit: self.stall_limit,
            max_connections: self.max_connections,
            high_prio_mode: self.high_prio_mode,
            coalescing: self.coalescing,
            rescue_reads: self.rescue_reads,
            change_accounts: self.change_accounts,
            high_prio_tickets: u32::MAX,
            prio_kickup_timer: Duration::from_millis(100),
            adaptive_lifo: self.adaptive_lifo,
            connect_timeout: timeout(10_000, 50),
            backend_connect_timeout: timeout(10_000, 200),
            backend_idle_timeout: Duration::from_secs(2),
            wait_timeout: timeout(28_800_000, 90),
            net_write_timeout: timeout(600_000, 40),
            shutdown_timeout: Duration::from_secs(30),
            accounts_refresh: Duration::from_secs(1),
            max_allowed_packet: 1 << 20,
            // Every text, long ones, or none: each in its own runs.
            large_statement_size: [0, 60, 64 << 10][(self.seed % 3) as usize],
            statement_memory: self.statement_memory,
            // Fewer than clients think of, so that some find no place.
            // What is known of a digest would have its statements lend their permits before stall_limit.
            digests_size: if self.counts_permits() { 0 } else { 32 },
            // Most of what runs and some of what waits: each end of a statement is passed by.
            slow_log: SlowLogSettings {
                statement_time: Duration::from_micros(100),
                wait_time: Duration::from_millis(1),
                literals: true,
                ..SlowLogSettings::default()
            },
            entropy,
            oversubscribe: self.permits - 1,
            transaction_delay: self.transaction_delay,
            ..Settings::default()
        };
        if let Some(cluster) = &self.cluster {
            cluster.apply(&mut settings);
        }
        match self.profile {
            Profile::Native => settings,
            // A timer of an hour would let nothing past a statement that waits for a lock.
            profile => Settings {
                stall_limit: self.stall_limit.min(Duration::from_secs(1)),
                ..settings.of_profile(profile, self.workers)
            },
        }
    }
}

fn draw_speed(random: &mut Random) -> Speed {
    Speed {
        usual: *random.pick(&[50, 1_000, 10_000]),
        slow_percent: *random.pick(&[0, 2, 20]),
        switch_percent: *random.pick(&[0, 20]),
        refused_change_percent: 0,
        keeps_roles: true,
    }
}

/// What clients may do in a run.
fn draw_habits(random: &mut Random, faulty: bool) -> Habits {
    Habits {
        contends: false,
        settings: random.percent(70),
        transactions: random.percent(70),
        pins: random.percent(40),
        prepared: random.percent(30),
        diagnostics: random.percent(50),
        strict: false,
        rare: random.percent(50),
        kills: faulty && random.percent(40),
        pipelines: random.percent(30),
        hostile: random.percent(40),
        slow: random.percent(40),
        popular: false,
        moves: false,
        versions: false,
        promise: None,
        rows: 1,
        others: 1,
        reads_back: 0,
        holds: false,
        pace: 1,
        pauses: 10,
        stays: 1,
    }
}

/// Bounds that a handful of clients run into.
fn draw_overload(random: &mut Random) -> OverloadSettings {
    let mut count =
        || if random.percent(50) { 0 } else { u32::try_from(random.between(1, 8)).expect("small") };
    let (queue_limit, long_queue_limit) = (count(), count());
    let mut time =
        |longest| Duration::from_micros(if random.percent(50) { 0 } else { random.between(1_000, longest) });
    OverloadSettings {
        queue_limit,
        long_queue_limit,
        queue_wait_limit: time(200_000),
        unfair_wait_limit: Duration::from_millis(50),
        long_queue_wait_limit: time(500_000),
        queue_delay_target: time(20_000),
        queue_delay_interval: Duration::from_millis(20),
        query_timeout: time(100_000),
        transaction_timeout: time(5_000_000),
        idle_transaction_timeout: time(3_000_000),
        idle_hold_timeout: Duration::ZERO,
        abandoned_timeout: time(5_000_000),
        kill_abandoned: random.percent(50),
    }
}

/// Limits that a handful of clients reach.
fn draw_shares(random: &mut Random) -> SharesSettings {
    let mut numbers = |some: &[&str]| NamedNumbers::parse(random.pick::<&str>(some)).expect("a good example");
    let fair_weights = numbers(&["", "alice=3", "bob=2,*=5"]);
    let user_permits = numbers(&["", "*=1", "alice=1,bob=2"]);
    let schema_permits = numbers(&["", "*=2"]);
    let address_permits = numbers(&["", "*=1"]);
    let fair_share = *random.pick(&[FairShare::Off, FairShare::User, FairShare::Schema, FairShare::Crowding]);
    SharesSettings { fair_share, fair_weights, user_permits, schema_permits, address_permits }
}

/// The addresses of the virtual server.
pub fn server_address(last: u8) -> Address {
    Address::Tcp { remote: ([10, 0, 0, last], 3306).into(), local: None }
}

/// The place of the server with this address, where there are several.
pub fn place_of(address: &Address) -> Option<usize> {
    let Address::Tcp { remote, .. } = address else { return None };
    let IpAddr::V4(remote) = remote.ip() else { return None };
    usize::from(remote.octets()[3]).checked_sub(1)
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        writeln!(
            f,
            "  {} clients, {} happenings; {} workers, permits {}, statements_in_flight {}, shared_backends {}, max_backends {} (the server takes {}), max_connections {}, \
             statement_memory {}, stall_limit {:?}, {:?}, {:?}, {:?}, transaction_delay {:?}, {:?}, \
             rescue_reads {}, adaptive_lifo {}, backend_change_user {}",
            self.clients,
            self.steps,
            self.workers,
            self.permits,
            self.in_flight,
            self.shared_backends,
            self.max_backends,
            self.server_connections,
            self.max_connections,
            self.statement_memory,
            self.stall_limit,
            self.high_prio_mode,
            self.thread_handling,
            self.profile,
            self.transaction_delay,
            self.coalescing,
            self.rescue_reads,
            self.adaptive_lifo,
            self.change_accounts
        )?;
        writeln!(f, "  {:?}", self.conditions)?;
        writeln!(f, "  {:?}", self.speed)?;
        writeln!(f, "  {:?}", self.accounts)?;
        writeln!(f, "  {:?}", self.habits)?;
        writeln!(f, "  {:?}, at most {} us apart", self.faults, self.fault_interval)?;
        writeln!(f, "  {:?}", self.overload)?;
        writeln!(f, "  {:?}", self.shares)?;
        write!(f, "  short timeouts: {}, early drain: {}", self.hurries, self.drains_early)?;
        self.cluster.iter().try_for_each(|cluster| write!(f, "\n{cluster}"))?;
        self.onramps.iter().try_for_each(|onramps| write!(f, "\n{onramps}"))
    }
}
