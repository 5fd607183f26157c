//! Reads that are sent again since they stood behind a stuck one: runs meet that, and nothing of it shows.

use simulator::{Outcome, Parameters, run_engine};

/// As many as run in a few seconds without optimisation.
const SEEDS: u64 = 24;

/// Clients that are alike and ask for the same few things, mostly: short reads, but for three in a hundred. One permit, so that they
/// share a backend.
fn crowd(seed: u64, workers: u32) -> Outcome {
    let mut parameters = Parameters::draw(seed, 40_000).with_workers(workers).of_readers(40, 3);
    parameters.rescue_reads = true;
    parameters.conditions.receive_buffer = 65_536;
    (parameters.habits.kills, parameters.habits.rare) = (false, false);
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
