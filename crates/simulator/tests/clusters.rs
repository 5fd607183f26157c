//! The engine in front of several servers that die, hang, are cut off, lag and change their roles.

use std::time::Duration;

use engine::{ByServer, Engine, Finding, ReadConsistency, ReadSettings, ReadSplit, Task};
use seam::{Input, Instant, Output, Program};
use simulator::checkers::ReadChecks;
use simulator::faults::Faults;
use simulator::ledger::Fates;
use simulator::rules::{Rules, name_of, zone_of};
use simulator::subject::{Origin, Owned};
use simulator::{Fleet, Parameters, Subject, World, run_engine, run_pass_through};

/// Seeds that run on every change, for some seconds.
const SEEDS: u64 = 60;

/// Such runs in which many reads are checked, and which take longer.
const READERS: u64 = 12;

/// And those that only `make test-all` runs. `make simulate` has more of those with one and three workers.
const ALL_SEEDS: u64 = 100;

/// Runs that once went wrong: seed and number of workers.
const REGRESSIONS: &str = include_str!("../seeds/clusters.txt");

/// The same of those with MySQLs.
const REGRESSIONS_OF_MYSQLS: &str = include_str!("../seeds/mysqls.txt");

/// The same of those for many checks of reads.
const REGRESSIONS_OF_READERS: &str = include_str!("../seeds/reads.txt");

/// What happened in some runs.
#[derive(Debug, Default)]
struct Happened {
    fates: Fates,
    reads: ReadChecks,
    /// Reads that have waited for a replica.
    waited: u64,
}

fn check(seeds: impl Iterator<Item = u64>, workers: u32) -> Happened {
    check_all(seeds.map(|seed| Parameters::of_cluster(seed, 0).with_workers(workers)))
}

fn check_all(runs: impl Iterator<Item = Parameters>) -> Happened {
    let mut happened = Happened::default();
    for parameters in runs {
        let (seed, workers) = (parameters.seed, parameters.workers);
        let mysql = if parameters.has_mysql() { " --mysql" } else { "" };
        let outcome = run_engine(parameters, false);
        if let Some(violation) = outcome.violation {
            let story: Vec<&str> = outcome.trace.last_lines().collect();
            panic!(
                "{}\nseed {seed} went wrong: {violation}\nreplay: cargo run -p simulator -- --seed {seed} --workers {workers} --cluster{mysql}",
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

/// Sets of GTIDs, with tags and with gaps where replicas keep no order, lead to the same as MariaDB's numbers.
#[test]
fn clients_outlive_whatever_befalls_their_mysqls() {
    let runs = |workers: u32| {
        (1..=SEEDS / 2).map(move |seed| Parameters::of_cluster(seed, 0).with_mysql().with_workers(workers))
    };
    check_that_much_happened(&check_all(runs(1).chain(runs(3))), SEEDS);
}

/// What `--reads` counts: reads behind writes, of which replicas answer many.
#[test]
fn who_reads_back_what_he_has_written_is_answered_by_replicas() {
    for (adjust, option) in
        [(std::convert::identity as fn(_) -> _, ""), (Parameters::with_mysql as fn(_) -> _, " --mysql")]
    {
        let mut reads = ReadChecks::default();
        for seed in 1..=READERS {
            let outcome = run_engine(adjust(Parameters::of_reads(seed, 0)), false);
            assert_eq!(
                outcome.violation, None,
                "replay: cargo run -p simulator -- --seed {seed} --cluster{option} --reads 1"
            );
            reads = reads.and(outcome.reads);
        }
        assert!(reads.own > 1_000 * READERS && reads.own_on_replicas > 200 * READERS, "{reads:?}{option}");
        assert!(reads.own_behind > 200 * READERS, "{reads:?}{option}");
    }
}

/// What an operator says of servers: from which second on it holds, weights, Onramp's zone, and zones, by the servers' numbers.
type Said<'a> = (u64, &'a [(u8, u32)], Option<&'a str>, &'a [(u8, &'a str)]);

/// Four servers to which nothing happens, with clients that read whatever replicas have.
fn undisturbed(said: &[Said<'_>]) -> Parameters {
    let mut parameters = Parameters::of_cluster(1, 0).with_reads(ReadSettings {
        split: ReadSplit::Replicas,
        consistency: ReadConsistency::Eventual,
        ..ReadSettings::default()
    });
    (parameters.clients, parameters.permits, parameters.max_backends) = (4, 6, 20);
    parameters.conditions.delay = 50;
    (parameters.speed.usual, parameters.speed.slow_percent) = (1_000, 0);
    parameters.faults = Faults::default();
    let habits = &mut parameters.habits;
    (habits.transactions, habits.pins, habits.hostile, habits.rare) = (false, false, false, false);
    (habits.pace, habits.pauses, habits.others, habits.stays) = (1, 0, 20, 20);
    let cluster = parameters.cluster.as_mut().expect("there is one");
    cluster.looks_at_all = true;
    (cluster.servers, cluster.lag, cluster.lasts, cluster.troubles) = (4, 1_000, 10_000_000, Vec::new());
    let rules = said.iter().map(|&(seconds, weights, zone, zones)| Rules {
        from: seconds * 1_000_000,
        weights: by_server(weights.iter().copied()),
        zone: zone.map(zone_of),
        zones: by_server(zones.iter().map(|&(number, zone)| (number, zone_of(zone)))),
    });
    cluster.rules = rules.collect();
    cluster.rules[0].apply(&mut cluster.reads);
    parameters
}

fn by_server<T>(values: impl Iterator<Item = (u8, T)>) -> ByServer<T> {
    ByServer::new(values.map(|(number, value)| (name_of(number), value)).collect(), None)
}

/// How many reads each server got.
fn shares(parameters: Parameters) -> Vec<u64> {
    let outcome = run_engine(parameters, false);
    assert_eq!(outcome.violation, None);
    assert!(outcome.read_waits.max() < Duration::from_millis(50), "nobody waits for long");
    outcome.reads_at
}

/// What reads take here is drawn for each, so that servers are not always taken for alike: the greater weight gets more by far, and 0 gets nothing.
#[test]
fn reads_are_divided_by_weights() {
    let got = shares(undisturbed(&[(0, &[(2, 5), (3, 1), (4, 0)], None, &[])]));
    assert!(got[1] > 2 * got[2] && got[2] > 100 && got[0] + got[3] == 0, "{got:?}");
    let first = (0, &[(2, 1), (3, 0), (4, 0)][..], None, &[][..]);
    let got = shares(undisturbed(&[first, (5, &[(2, 0), (3, 1), (4, 0)], None, &[])]));
    assert!(got[1].min(got[2]) > got[1].max(got[2]) / 2 && got[3] == 0, "each half of the time: {got:?}");
}

/// From second 3 to 6 no server is in Onramp's zone. Weights count within it, and beyond it while it is empty.
#[test]
fn reads_stay_in_the_zone_and_go_elsewhere_while_it_is_empty() {
    let (weights, zones): (&[_], &[_]) = (&[(2, 5), (3, 1)], &[(2, "near"), (3, "near"), (4, "far")]);
    let near = (0, weights, Some("near"), zones);
    let got = shares(undisturbed(&[near]));
    assert!(got[1] > 2 * got[2] && got[2] > 100 && got[3] == 0, "{got:?}");
    let got =
        shares(undisturbed(&[near, (3, weights, Some("empty"), zones), (6, weights, Some("near"), zones)]));
    let all: u64 = got.iter().sum();
    assert!(got[3] > all / 100 && got[3] < all / 5, "{got:?}");
}

#[test]
fn runs_that_once_went_wrong_stay_right() {
    for (seed, workers) in kept(REGRESSIONS) {
        check(std::iter::once(seed), workers);
    }
    for (seed, workers) in kept(REGRESSIONS_OF_MYSQLS) {
        check_all(std::iter::once(Parameters::of_cluster(seed, 0).with_mysql().with_workers(workers)));
    }
    for (seed, workers) in kept(REGRESSIONS_OF_READERS) {
        let outcome = run_engine(Parameters::of_reads(seed, 0).with_workers(workers), false);
        assert_eq!(
            outcome.violation, None,
            "replay: cargo run -p simulator -- --seed {seed} --workers {workers} --cluster --reads 1"
        );
    }
}

/// Seeds and numbers of workers.
fn kept(lines: &str) -> Vec<(u64, u32)> {
    let lines = lines.lines().filter(|line| !line.starts_with('#'));
    let parsed = lines.map(|line| {
        let mut words = line.split_whitespace();
        let seed = words.next().and_then(|word| word.parse().ok());
        seed.zip(words.next().and_then(|word| word.parse().ok())).unwrap_or_else(|| panic!("{line}"))
    });
    parsed.collect()
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
