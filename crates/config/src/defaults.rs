//! What holds where nobody says anything, by the rules of another pool.

use engine::Profile;

use crate::Configuration;

/// The defaults, but for those of another pool's rules.
pub(crate) fn defaults_of(profile: Profile, workers: u32, groups: u32) -> Configuration {
    let mut configuration = Configuration { workers, ..Configuration::default() };
    configuration.engine = configuration.engine.of_profile(profile, groups);
    configuration
}

/// How many groups a pool has by default: as many as cores; MySQL's half as many, 16 at most.
pub(crate) fn groups_by_default(profile: Profile) -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = u32::try_from(cores).unwrap_or(u32::MAX);
    match profile {
        Profile::Native => 1,
        Profile::Percona | Profile::MariaDb => cores.clamp(1, 1024),
        Profile::MySql => (cores / 2).clamp(1, 16),
    }
}
