//! Reads in one schema after the other that follow each other on one backend: runs meet that, and nothing of it shows.

use simulator::{Outcome, Parameters, run_engine};

/// As many as run in a few seconds without optimisation.
const SEEDS: u64 = 12;

/// Clients that are alike but for their schema and ask for the same few things, mostly. One permit and three schemas, so that all share
/// a backend. Backends are lost, statements killed and clients leave in the middle of it as the seed has it.
fn crowd(seed: u64, workers: u32, rescue_reads: bool) -> Outcome {
    let mut parameters = Parameters::draw(seed, 20_000).with_workers(workers).of_readers(30, 2);
    parameters.rescue_reads = rescue_reads;
    parameters.habits.moves = true;
    let outcome = run_engine(parameters, false);
    assert_eq!(outcome.violation, None, "seed {seed}, {workers} workers");
    outcome
}

#[test]
fn reads_in_many_schemas_follow_each_other() {
    for workers in [1, 2] {
        let runs = (1..=SEEDS).map(|seed| crowd(seed, workers, seed % 2 == 0).shared_reads);
        let (reads, with_schema) = runs.fold((0, 0), |(a, b), (more, brought)| (a + more, b + brought));
        assert!(with_schema > 100, "{workers} workers: {with_schema} of {reads}");
    }
}
