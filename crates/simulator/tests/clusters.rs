//! The engine in front of several servers that die, hang, are cut off, lag and change their roles.

use engine::{Engine, Finding, Task};
use seam::{Input, Instant, Output, Program};
use simulator::checkers::ReadChecks;
use simulator::ledger::Fates;
use simulator::subject::{Origin, Owned};
use simulator::{Fleet, Parameters, Subject, World, run_engine, run_pass_through};

/// Seeds that run on every change, for some seconds.
const SEEDS: u64 = 60;

/// Such runs in which many reads are checked, and which take longer.
const READERS: u64 = 12;

/// And those that only `make test-all` runs.
const ALL_SEEDS: u64 = 300;

/// Runs that once went wrong: seed and number of workers.
const REGRESSIONS: &str = include_str!("../seeds/clusters.txt");

/// What happened in some runs.
#[derive(Debug, Default)]
struct Happened {
    fates: Fates,
    reads: ReadChecks,
    /// Reads that have waited for a replica.
    waited: u64,
}

fn check(seeds: impl Iterator<Item = u64>, workers: u32) -> Happened {
    let mut happened = Happened::default();
    for seed in seeds {
        let outcome = run_engine(Parameters::of_cluster(seed, 0).with_workers(workers), false);
        if let Some(violation) = outcome.violation {
            let story: Vec<&str> = outcome.trace.last_lines().collect();
            panic!(
                "{}\nseed {seed} went wrong: {violation}\nreplay: cargo run -p simulator -- --seed {seed} --workers {workers} --cluster",
                story[story.len().saturating_sub(60)..].join("\n")
            );
        }
        happened.fates = happened.fates.and(outcome.fates);
        happened.reads = happened.reads.and(outcome.reads);
        happened.waited += outcome.read_waits.count();
    }
    happened
}

/// All that may become of a client has become of some, and of reads likewise.
fn check_that_much_happened(happened: &Happened, runs: u64) {
    let Happened { fates, reads, waited } = *happened;
    assert!(fates.turns > 2 * runs, "{fates:?}");
    assert!(fates.refused > runs && fates.unknown > runs / 2 && fates.lost > runs, "{fates:?}");
    assert!(fates.rolled_back > 0 && fates.older_reads > 0, "{fates:?}");
    assert!(reads.own > 10 * runs && reads.own_on_replicas > runs && reads.own_behind > runs, "{reads:?}");
    assert!(reads.others > runs && fates.eventual_reads > 0 && waited > runs, "{reads:?}, {waited} waited");
}

#[test]
fn clients_outlive_whatever_befalls_their_servers() {
    check_that_much_happened(&check(1..=SEEDS, 1), SEEDS);
}

#[test]
fn several_workers_turn_to_a_new_primary_together() {
    check_that_much_happened(&check(1..=SEEDS, 3), SEEDS);
}

/// What `--reads` counts: reads behind writes, of which replicas answer many.
#[test]
fn who_reads_back_what_he_has_written_is_answered_by_replicas() {
    let mut reads = ReadChecks::default();
    for seed in 1..=READERS {
        let outcome = run_engine(Parameters::of_reads(seed, 0), false);
        assert_eq!(
            outcome.violation, None,
            "replay: cargo run -p simulator -- --seed {seed} --cluster --reads 1"
        );
        reads = reads.and(outcome.reads);
    }
    assert!(reads.own > 1_000 * READERS && reads.own_on_replicas > 200 * READERS, "{reads:?}");
    assert!(reads.own_behind > 200 * READERS, "{reads:?}");
}

#[test]
fn runs_that_once_went_wrong_stay_right() {
    for line in REGRESSIONS.lines().filter(|line| !line.starts_with('#')) {
        let mut numbers = line.split_whitespace().map_while(|word| word.parse::<u32>().ok());
        let (Some(seed), Some(workers)) = (numbers.next(), numbers.next()) else { panic!("{line}") };
        check(std::iter::once(u64::from(seed)), workers);
    }
}

#[test]
fn such_a_run_goes_the_same_way_twice() {
    for seed in [1, 2, 3] {
        let [one, two] = [(); 2].map(|()| run_engine(Parameters::of_cluster(seed, 0).with_workers(2), false));
        assert_eq!(one.trace.hash(), two.trace.hash(), "seed {seed}");
    }
}

/// Whoever knows nothing of roles, and goes on where it began, is found out.
#[test]
fn a_program_that_stays_with_the_first_server_goes_wrong() {
    let wrong = |seed: &u64| run_pass_through(Parameters::of_cluster(*seed, 0), false).violation.is_some();
    assert_eq!((1..=10).filter(wrong).count(), 10);
}

/// Whoever closes what he should abort has statements arrive late.
#[test]
fn a_program_that_leaves_to_the_system_what_was_in_flight_goes_wrong() {
    let wrong = |seed: u64| {
        let parameters = Parameters::of_cluster(seed, 0);
        let program = Closing { inner: Fleet::new(&parameters.settings(), 1), current: None };
        let violation = World::new(program, parameters, false).run().violation;
        violation.is_some_and(|text| text.contains("by a connection that is closed"))
    };
    assert!((1..=SEEDS).any(wrong), "no seed found it");
}

/// Closes where it is to abort.
struct Closing {
    inner: Fleet,
    current: Option<Owned>,
}

impl Program for Closing {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.inner.handle(now, input);
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        self.current = self.inner.poll_output().as_ref().map(Owned::copy).map(|output| match output {
            Owned::Abort(connection) => Owned::Close(connection),
            other => other,
        });
        self.current.as_ref().map(Owned::output)
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.inner.next_timeout()
    }
}

impl Subject for Closing {
    fn events(&mut self) -> Vec<String> {
        self.inner.events()
    }

    fn tasks(&mut self) -> Vec<(usize, Task)> {
        self.inner.tasks()
    }

    fn found(&mut self, worker: usize, number: u64, finding: Finding) {
        self.inner.found(worker, number, finding);
    }

    fn workers(&mut self) -> Vec<&mut Engine> {
        self.inner.workers()
    }

    fn primary(&self) -> Option<usize> {
        self.inner.primary()
    }

    fn origin(&self, token: u64) -> Origin {
        self.inner.origin(token)
    }

    fn keeps_limits(&self) -> bool {
        self.inner.keeps_limits()
    }
}

/// `make quick` and `make test` leave these out.
mod at_length {
    use super::*;

    #[test]
    fn clients_outlive_whatever_befalls_their_servers() {
        check(SEEDS + 1..=ALL_SEEDS, 1);
    }

    #[test]
    fn several_workers_turn_to_a_new_primary_together() {
        for workers in [2, 3] {
            check(SEEDS + 1..=ALL_SEEDS, workers);
        }
    }
}
