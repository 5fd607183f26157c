//! Under which rules the pool runs.

use engine::Settings;

use super::scenario::Scenario;

/// A pool whose rules and defaults are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Onramp's own.
    Native,
}

impl Profile {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 1] = [Self::Native];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
        }
    }

    /// Whether it is MySQL's.
    pub fn is_mysql(self) -> bool {
        false
    }

    /// The settings of a pool with this scenario's workers, before the scenario changes any.
    pub fn settings(self, scenario: &Scenario) -> Settings {
        Settings {
            // A backend for each permit and room for those that are held by idle transactions: no scenario is about
            // too few of them.
            max_backends: 4096,
            max_connections: u32::MAX,
            permits: scenario.server.cores * 4,
            ..Settings::default()
        }
    }
}
