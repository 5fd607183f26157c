//! Under which rules the pool runs.

use std::time::Duration;

use engine::Settings;

use super::scenario::{Compares, Scenario};

/// A pool whose rules and defaults are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Percona Server's.
    Percona,
    /// MariaDB's.
    MariaDb,
    /// MySQL's.
    MySql,
    /// Onramp's own.
    Native,
    /// Onramp's own with bounds on waiting, which are off unless asked for.
    Bounded,
    /// Onramp's own without a change of order where clients hang up.
    OldestFirst,
    /// Onramp's own with fair shares by user at all times, and not only while one crowds out another.
    Fair,
    /// Onramp's own, but with this many permits.
    Fixed(u32),
    /// Onramp's own, but with this many permits, and this many of them for long statements, which get no others.
    Pair {
        /// As `permits`.
        permits: u32,
        /// As `long_permits`, and no more than permits.
        long: u32,
    },
}

impl Profile {
    /// The pools, in the order of the tables.
    pub const POOLS: [Self; 4] = [Self::Percona, Self::MariaDb, Self::MySql, Self::Native];

    /// Under which profiles a scenario is run.
    pub fn of(scenario: &Scenario) -> Vec<Self> {
        match scenario.compares {
            Compares::Pools => Self::POOLS.to_vec(),
            Compares::PoolsAndBounds => Self::POOLS.into_iter().chain([Self::Bounded]).collect(),
            Compares::PoolsOrdersAndBounds => {
                let native = [Self::OldestFirst, Self::Bounded];
                Self::POOLS.into_iter().chain(native).collect()
            }
            Compares::PoolsAndShares => Self::POOLS.into_iter().chain([Self::Fair]).collect(),
            Compares::Limits(limits) => {
                let fixed = limits.iter().map(|&limit| Self::Fixed(limit));
                fixed.chain([Self::Native]).collect()
            }
        }
    }

    /// Its name.
    pub fn name(self) -> String {
        match self {
            Self::Native => "native".to_owned(),
            Self::Bounded => "native, bounded".to_owned(),
            Self::OldestFirst => "native, oldest first".to_owned(),
            Self::Fair => "native, fair_share".to_owned(),
            Self::Percona => "percona".to_owned(),
            Self::MariaDb => "mariadb".to_owned(),
            Self::MySql => "mysql".to_owned(),
            Self::Fixed(permits) => format!("{permits} permits"),
            Self::Pair { permits, long } => format!("{permits} permits, {long} long"),
        }
    }

    /// Whether it is MySQL's.
    pub fn is_mysql(self) -> bool {
        self == Self::MySql
    }

    /// The settings of a pool with this scenario's workers, before the scenario changes any. The servers' pools have a group
    /// for each worker, and their defaults.
    pub fn settings(self, scenario: &Scenario) -> Settings {
        let profile = match self {
            Self::Percona => engine::Profile::Percona,
            Self::MariaDb => engine::Profile::MariaDb,
            Self::MySql => engine::Profile::MySql,
            Self::Native
            | Self::Bounded
            | Self::OldestFirst
            | Self::Fair
            | Self::Fixed(_)
            | Self::Pair { .. } => engine::Profile::Native,
        };
        let permits = match self {
            Self::Fixed(permits) | Self::Pair { permits, .. } => permits,
            _ => scenario.server.cores * 4,
        };
        let mut settings = Settings {
            // A backend for each permit and room for those that are held by idle transactions: no scenario is about
            // too few of them, nor about how long somebody waits for one.
            max_backends: 4096,
            backend_connect_timeout: Duration::from_secs(3600),
            max_connections: u32::MAX,
            permits,
            ..Settings::default()
        };
        if self == Self::Bounded {
            // Clients that have to wait longer than this would rather be told, and go elsewhere or come again.
            settings.overload.queue_wait_limit = Duration::from_millis(500);
            // Some hundred statements: what a burst of clients brings, and more than keeps the server busy.
            settings.overload.queue_delay_target = Duration::from_millis(50);
        }
        if let Self::Pair { long, .. } = self {
            (settings.long_permits, settings.long_permits_max) = (long, long);
        }
        if self == Self::OldestFirst {
            settings.adaptive_lifo = false;
        }
        if self == Self::Fair {
            settings.shares.fair_share = engine::FairShare::User;
        }
        settings.of_profile(profile, scenario.workers)
    }
}
