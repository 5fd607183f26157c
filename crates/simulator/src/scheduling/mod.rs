//! The thread pool at a scale that no test machine has: real engines, light clients, a modelled server, a virtual clock.
//!
//! Where the other simulation of this crate asks whether each answer is right, this one asks when it comes. The engines
//! are the real ones, as many as the scenario has workers, and speak the real protocol; what is modelled is the server
//! ([`server`]: cores, locks, sessions) and the clients ([`client`]: a few dozen bytes each). Everything that is drawn
//! depends on the seed, the client and the number of its statement alone: all profiles meet the same work, and the same
//! seed gives the same figures to the last digit.
//!
//! A worker's own time is modelled as a few microseconds for each thing that it is told; workers do not run on the
//! server's cores. Nothing is lost on the network.

pub mod accounts;
pub mod client;
pub mod figures;
mod life;
pub mod locks;
pub mod long_statements;
pub mod machine;
pub mod mixes;
pub mod profile;
pub mod report;
pub mod scenario;
pub mod scenarios;
pub mod server;
pub mod statement;
pub mod survey;
pub mod turns;
mod worker;
mod world;

pub use figures::{Class, Figure, Outcome};
pub use profile::Profile;
pub use scenario::Scenario;

/// What came out of one scenario under one profile.
#[derive(Clone, Debug)]
pub struct Run {
    /// Under which rules the pool ran.
    pub profile: Profile,
    /// What was found.
    pub outcome: Outcome,
    /// What the scenario is about.
    pub figures: Vec<Figure>,
}

/// Runs a scenario under a profile.
///
/// # Panics
///
/// If the scenario has no worker or no client.
pub fn run(scenario: &Scenario, profile: Profile, seed: u64) -> Run {
    let settings = || {
        let mut settings = profile.settings(scenario);
        (scenario.adjust)(profile, &mut settings);
        settings
    };
    let outcome = world::World::new(scenario, settings(), seed).run();
    let reference = scenario.without.map(|name| {
        let mut other = scenario.clone();
        other.groups.iter_mut().filter(|group| group.name == name).for_each(|group| group.times = 0);
        world::World::new(&other, settings(), seed).run()
    });
    let figures = (scenario.figures)(&outcome, reference.as_ref());
    Run { profile, outcome, figures }
}
