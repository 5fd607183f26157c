//! The engine over many seeds, and over those that once went wrong.

use simulator::{Parameters, run_engine};

/// Seeds that `make test` runs, for some seconds.
const SEEDS: u64 = 60;

/// And those that it leaves out.
const ALL_SEEDS: u64 = 200;

/// Seeds that once went wrong.
const REGRESSIONS: &str = include_str!("../seeds/regressions.txt");

/// Seeds that still go wrong, each with its reason. A change that mends one takes it off the list.
const OPEN: &str = include_str!("../seeds/open.txt");

#[test]
fn every_seed_keeps_the_invariants() {
    check(closed(1..=SEEDS));
}

#[test]
fn several_workers_keep_the_invariants_together() {
    for workers in [2, 3] {
        check_with(closed(1..=SEEDS / 2), workers);
    }
}

#[test]
fn seeds_that_once_went_wrong_stay_right() {
    check(closed(listed(REGRESSIONS)));
}

#[test]
fn the_engine_runs_the_same_way_twice() {
    for seed in [1, 2, 3, 5, 8, 13] {
        let [one, two] = [(); 2].map(|()| run_engine(Parameters::draw(seed, 0), false));
        assert_eq!(one.trace.hash(), two.trace.hash(), "seed {seed}");
        assert_eq!((one.micros, one.executed), (two.micros, two.executed), "seed {seed}");
    }
}

/// All but those that still go wrong.
fn closed(seeds: impl IntoIterator<Item = u64>) -> impl Iterator<Item = u64> {
    let open = listed(OPEN);
    seeds.into_iter().filter(move |seed| !open.contains(seed))
}

/// Every seed is right, and together they do some work.
fn check(seeds: impl Iterator<Item = u64>) {
    check_with(seeds, 1);
}

fn check_with(seeds: impl Iterator<Item = u64>, workers: u32) {
    let mut runs = 0;
    let mut answered = 0;
    for seed in seeds {
        let outcome = run_engine(Parameters::draw(seed, 0).with_workers(workers), false);
        if let Some(violation) = outcome.violation {
            let story: Vec<&str> = outcome.trace.last_lines().collect();
            let last = &story[story.len().saturating_sub(60)..];
            panic!(
                "{}\nseed {seed} went wrong: {violation}\nreplay: cargo run -p simulator -- --seed {seed} --workers {workers}",
                last.join("\n")
            );
        }
        runs += 1;
        answered += outcome.answered;
    }
    assert!(answered >= 10 * runs, "{answered} answers in {runs} runs");
}

/// One seed per line; what follows a blank is a remark.
fn listed(text: &str) -> Vec<u64> {
    text.lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| !word.starts_with('#'))
        .map(|word| word.parse().expect("a list of seeds"))
        .collect()
}

/// `make quick` and `make test` leave these out.
mod at_length {
    use super::*;

    #[test]
    fn every_seed_keeps_the_invariants() {
        check(closed(SEEDS + 1..=ALL_SEEDS));
    }

    #[test]
    fn several_workers_keep_the_invariants_together() {
        for workers in [2, 3] {
            check_with(closed(SEEDS / 2 + 1..=ALL_SEEDS / 2), workers);
        }
    }
}
