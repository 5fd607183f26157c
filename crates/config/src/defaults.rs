//! What holds where nobody says anything: by the table, and by the rules of another pool.

use engine::Profile;

use crate::Configuration;
use crate::options::OPTIONS;
use crate::value::Given;

/// The defaults of the table.
pub(crate) fn defaults() -> Configuration {
    let mut configuration = Configuration::blank();
    for option in OPTIONS.iter().filter(|option| !option.default.is_empty()) {
        let applied = option.kind.apply(&mut configuration, &[Given::Bare(option.default)]);
        applied.expect("a test applies every default");
    }
    configuration
}

/// The defaults of the table, but for those of another pool's rules.
pub(crate) fn defaults_of(profile: Profile, workers: u32, groups: u32) -> Configuration {
    let mut configuration = defaults();
    configuration.workers = workers;
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
