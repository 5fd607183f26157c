//! Reads that are sent again since they stood behind a stuck one: runs meet that, and nothing of it shows.

use std::time::Duration;

use engine::{Profile, ThreadHandling};
use simulator::{Outcome, Parameters, run_engine};

/// As many as run in a few seconds without optimisation.
const SEEDS: u64 = 24;

/// Clients that are alike and ask for the same few things, mostly: short reads, but for three in a hundred. One permit, so that they
/// share a backend.
fn crowd(seed: u64, workers: u32) -> Outcome {
    let mut parameters = Parameters::draw(seed, 40_000).with_workers(workers);
    parameters.rescue_reads = true;
    parameters.coalescing.reads = false;
    parameters.profile = Profile::Native;
    parameters.thread_handling = ThreadHandling::PoolOfThreads;
    parameters.clients = 40;
    parameters.permits = 1;
    parameters.in_flight = 16;
    parameters.shared_backends = 1;
    parameters.stall_limit = Duration::from_secs(3600);
    parameters.drains_early = false;
    parameters.conditions.delay = 0;
    parameters.conditions.receive_buffer = 65_536;
    parameters.speed.usual = 1_000;
    parameters.speed.slow_percent = 3;
    let habits = &mut parameters.habits;
    habits.popular = true;
    (habits.kills, habits.rare) = (false, false);
    (habits.settings, habits.transactions, habits.pins, habits.prepared) = (false, false, false, false);
    let outcome = run_engine(parameters, false);
    assert_eq!(outcome.violation, None, "seed {seed}, {workers} workers");
    outcome
}

/// `make quick` and `make test` leave these out.
mod at_length {
    use super::*;

    #[test]
    fn reads_that_ran_again_were_answered_once() {
        for workers in [1, 2] {
            let rescues: u64 = (1..=SEEDS).map(|seed| crowd(seed, workers).rescues).sum();
            assert!(rescues > 4, "{workers} workers: {rescues}");
        }
    }
}
