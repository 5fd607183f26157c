//! What a seed decides of a run with several Onramps in front of one server or of several: how many, how clients come to them, and what befalls them.

use std::cell::OnceCell;
use std::fmt;

use engine::{LetterKey, Settings, ThreadHandling};

use crate::accounts::AccountParameters;
use crate::faults::{Faults, Parameters, SERVICE_PASSWORD};
use crate::random::Random;

/// Mixed into the seed, so that the run of one Onramp with the same seed tells nothing of this one.
const OTHER_SEED: u64 = 0x0a1b_0e7e_12d5;

/// Likewise for what else is drawn of those in front of several servers.
const OF_BOTH: u64 = 0x0b07_0c1e;

/// Onramps look at each other every second: clients think so many times as long as those of one, so that a run has some seconds.
const PACE: u64 = 20;

/// In long runs still longer.
const PACE_OF_LONG_RUNS: u64 = 100;

/// Everything about the Onramps of a run that is drawn from its seed in advance.
#[derive(Clone, Debug)]
pub struct OnrampParameters {
    /// How many, but for those that have died and have not been started again.
    pub count: u8,
    /// Clients come to any of them, as behind a balancer; otherwise each has clients of its own.
    pub balances: bool,
    /// Microseconds from the start to the calm.
    pub lasts: u64,
    /// Microseconds between troubles, at most.
    pub fault_interval: u64,
    /// What befalls them.
    pub troubles: Vec<Trouble>,
}

/// What befalls Onramps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The process of one dies, and its system closes its connections, at once or as its machine is back. Another one is started in its place.
    Die,
    /// The machine of one vanishes: nobody is told. Another one is started in its place.
    Vanish,
    /// One is stopped, and goes on where it was.
    Freeze,
    /// The service account's connection of one ends.
    Connection,
    /// The server dies and comes back, and counts its sessions from the beginning.
    Server,
    /// Somebody takes named locks that Onramps use.
    Squat,
}

const TROUBLES: [Trouble; 6] =
    [Trouble::Die, Trouble::Vanish, Trouble::Freeze, Trouble::Connection, Trouble::Server, Trouble::Squat];

impl OnrampParameters {
    fn draw(random: &mut Random, count: u8) -> Self {
        let is_long = random.percent(8);
        let mut troubles: Vec<Trouble> = TROUBLES.into_iter().filter(|_| random.percent(40)).collect();
        if is_long && !troubles.contains(&Trouble::Vanish) {
            troubles.push(Trouble::Vanish);
        }
        Self {
            count,
            balances: random.percent(50),
            // The server forgets a machine that has vanished after a minute.
            lasts: if is_long {
                random.between(70_000_000, 100_000_000)
            } else {
                random.between(3_000_000, 15_000_000)
            },
            fault_interval: if is_long {
                20_000_000
            } else {
                *random.pick(&[500_000, 3_000_000, 10_000_000])
            },
            troubles,
        }
    }

    /// Whether it lasts for longer than any server waits for an Onramp.
    pub fn is_long(&self) -> bool {
        self.lasts > 60_000_000
    }

    /// What the engine is told of them; `start` counts those of a run.
    pub fn apply(&self, settings: &mut Settings, start: usize) {
        thread_local! {
            /// It takes thousands of rounds of a hash.
            static KEY: OnceCell<Option<LetterKey>> = const { OnceCell::new() };
        }
        settings.letter_key = KEY.with(|key| key.get_or_init(|| LetterKey::of(SERVICE_PASSWORD)).clone());
        for (byte, more) in settings.entropy[8..].iter_mut().zip(start.to_le_bytes()) {
            *byte ^= more;
        }
    }
}

/// With more accounts hardly any client has another one that it may kill.
const FEW: AccountParameters = AccountParameters { more: 0, by_zipf: false, unlike_percent: 0 };

impl Parameters {
    /// What this seed decides of a run with so many Onramps in front of several servers.
    pub fn of_onramps_and_cluster(seed: u64, steps: u64, count: u8) -> Self {
        let mut random = Random::new(seed ^ OF_BOTH);
        let mut parameters = Self::of_cluster(seed, steps);
        let mut lasts = 0;
        if let Some(cluster) = &mut parameters.cluster {
            // Now and then long enough for all of them to find out what has become of the servers.
            cluster.fault_interval = *random.pick(&[500_000, 3_000_000, 20_000_000]);
            lasts = cluster.lasts;
        }
        let few = [Trouble::Die, Trouble::Vanish, Trouble::Freeze, Trouble::Connection];
        parameters.onramps = Some(OnrampParameters {
            count,
            balances: random.percent(50),
            lasts,
            fault_interval: *random.pick(&[1_000_000, 5_000_000]),
            troubles: few.into_iter().filter(|_| random.percent(40)).collect(),
        });
        parameters.accounts = FEW;
        parameters.clients = u32::try_from(random.between(3, 10)).expect("small");
        parameters.thread_handling = ThreadHandling::PoolOfThreads;
        parameters.overload = engine::OverloadSettings::default();
        parameters.server_connections = u32::MAX;
        parameters.speed.usual = *random.pick(&[1_000, 10_000, 30_000]);
        parameters.speed.slow_percent = *random.pick(&[2, 20]);
        parameters.habits.kills = random.percent(60);
        parameters
    }

    /// What this seed decides of a run with so many Onramps.
    pub fn of_onramps(seed: u64, steps: u64, count: u8) -> Self {
        let mut random = Random::new(seed ^ OTHER_SEED);
        let onramps = OnrampParameters::draw(&mut random, count);
        let mut parameters = Self::draw(random.number(), steps);
        parameters.seed = seed;
        // Time bounds such a run.
        parameters.steps = if steps == 0 { u64::MAX } else { steps };
        parameters.faults = Faults {
            backend_losses: random.percent(20),
            connect_failures: random.percent(20),
            ..Faults::default()
        };
        parameters.fault_interval = 2_000_000;
        parameters.accounts = FEW;
        parameters.clients = u32::try_from(random.between(2, 10)).expect("small");
        parameters.thread_handling = ThreadHandling::PoolOfThreads;
        // Whoever runs into short timeouts tells nothing of what a KILL has done.
        parameters.hurries = false;
        parameters.overload = engine::OverloadSettings::default();
        parameters.server_connections = u32::MAX;
        parameters.drains_early = false;
        // Statements that last, so that a KILL finds them.
        parameters.speed.usual = *random.pick(&[1_000, 10_000, 30_000]);
        parameters.speed.slow_percent = *random.pick(&[2, 20]);
        let habits = &mut parameters.habits;
        habits.kills = random.percent(80);
        habits.pace = if onramps.is_long() { PACE_OF_LONG_RUNS } else { PACE };
        parameters.onramps = Some(onramps);
        parameters
    }
}

impl fmt::Display for OnrampParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "  {} Onramps, balanced: {}, {:?} at most {} us apart, calm after {} us",
            self.count, self.balances, self.troubles, self.fault_interval, self.lasts
        )
    }
}
