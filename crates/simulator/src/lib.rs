//! The engine under a virtual clock, network, clients and server, from one seed.
//!
//! A run is a [`World`]: virtual clients run random programs through the program under test against a virtual MariaDB,
//! over a network that cuts, delays and breaks connections. Everything is drawn from the seed, so that a run can be
//! repeated byte for byte. Each client knows from an oracle of its own, a private copy of the virtual server with one
//! session, what a connection of its own would have answered; [`checkers`] watch what only the server can see.
//!
//! The model speaks the protocol by code of its own, apart from the wire crate: a mistake in one shows at the other.
//!
//! `cargo run -p simulator -- --seed N` repeats a run and prints its trace; `--seeds 200` runs many.

pub mod accounts;
pub mod checkers;
pub mod client;
pub mod clusters;
pub mod faults;
pub mod fleet;
pub mod freezing;
pub mod kills;
pub mod ledger;
pub mod network;
pub mod onramps;
pub mod protocol;
pub mod random;
pub mod rules;
pub mod schedule;
pub mod scheduling;
pub mod server;
pub mod subject;
pub mod token;
pub mod trace;
pub mod world;

pub use faults::Parameters;
pub use fleet::Fleet;
pub use subject::{PassThrough, Subject};
pub use trace::Traced;
pub use world::{Outcome, World};

use engine::Engine;

/// Runs the engine. With `echo`, the trace goes to standard output.
pub fn run_engine(parameters: Parameters, echo: bool) -> Outcome {
    run_engine_traced(parameters, if echo { Traced::Echoed } else { Traced::Kept })
}

/// Runs the engine.
pub fn run_engine_traced(parameters: Parameters, traced: Traced) -> Outcome {
    let settings = parameters.settings();
    if parameters.onramps.is_some() {
        return end(World::several(fleet, parameters, traced == Traced::Echoed), traced);
    }
    match parameters.workers {
        // What it takes for the primary is known of a fleet.
        1 if parameters.cluster.is_none() => run(Engine::new(settings), parameters, traced),
        several => run(Fleet::new(&settings, several), parameters, traced),
    }
}

fn run<P: Subject>(program: P, parameters: Parameters, traced: Traced) -> Outcome {
    end(World::new(program, parameters, traced == Traced::Echoed), traced)
}

fn end<P: Subject>(world: World<P>, traced: Traced) -> Outcome {
    if traced == Traced::Not { world.without_trace().run() } else { world.run() }
}

/// The Onramp that is started as this one, from 0.
pub fn fleet(parameters: &Parameters, start: usize) -> Fleet {
    Fleet::new(&parameters.settings_of(start), parameters.workers)
}

/// Runs a program that only passes bytes on: the simulation's test of itself.
pub fn run_pass_through(parameters: Parameters, echo: bool) -> Outcome {
    World::new(PassThrough::default(), parameters, echo).run()
}
