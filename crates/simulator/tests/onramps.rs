//! Several Onramps in front of one server, or of a cluster: they count each other, KILL each other's clients, and find the same primary, whatever befalls them.

use std::cell::Cell;

use engine::{Engine, Finding, PeerView, Task};
use seam::{ConnectionId, Input, Instant, Output, Program};
use simulator::kills::Counts;
use simulator::ledger::Fates;
use simulator::subject::{Origin, Owned};
use simulator::{Fleet, Parameters, Subject, World, fleet, run_engine};

/// Seeds that run on every change, for some seconds.
const SEEDS: u64 = 30;

/// A planted bug shows in one of so many. The first that shows it ends the search, and a change of ours may show it later.
const SEARCHED: u64 = 300;

/// And those that only `make test-all` runs: of each of ten kinds two to ten seconds. `make simulate` has more of four kinds.
const ALL_SEEDS: u64 = 34;

/// Runs that once went wrong: seed, number of Onramps, number of workers of each.
const REGRESSIONS: &str = include_str!("../seeds/onramps.txt");

/// The same of those in front of a cluster.
const REGRESSIONS_IN_CLUSTERS: &str = include_str!("../seeds/onramps_and_clusters.txt");

fn check(seeds: impl Iterator<Item = u64>, onramps: u8, workers: u32) -> Counts {
    let mut killed = Counts::default();
    for seed in seeds {
        let parameters = Parameters::of_onramps(seed, 0, onramps).with_workers(workers);
        let outcome = run_engine(parameters, false);
        if let Some(violation) = outcome.violation {
            let story: Vec<&str> = outcome.trace.last_lines().collect();
            panic!(
                "{}\nseed {seed} went wrong: {violation}\nreplay: cargo run -p simulator -- --seed {seed} --onramps {onramps} --workers {workers}",
                story[story.len().saturating_sub(60)..].join("\n")
            );
        }
        killed = killed.and(outcome.killed);
    }
    killed
}

/// What happened in runs in front of a cluster.
fn check_in_clusters(seeds: impl Iterator<Item = u64>, onramps: u8, workers: u32) -> (Fates, Counts) {
    let mut happened = (Fates::default(), Counts::default());
    for seed in seeds {
        let parameters = Parameters::of_onramps_and_cluster(seed, 0, onramps).with_workers(workers);
        let outcome = run_engine(parameters, false);
        assert_eq!(
            outcome.violation, None,
            "replay: cargo run -p simulator -- --seed {seed} --cluster --onramps {onramps} --workers {workers}"
        );
        happened = (happened.0.and(outcome.fates), happened.1.and(outcome.killed));
    }
    happened
}

/// All that may come of a KILL has come of some.
fn check_that_much_happened(killed: &Counts) {
    let Counts { done_elsewhere, done_here, nobody, denied, undelivered, interrupted, closed } = *killed;
    let all = [done_elsewhere, done_here, nobody, denied, undelivered, interrupted, closed];
    assert!(all.iter().all(|&count| count >= 10), "{killed:?}");
}

#[test]
fn two_count_each_other_and_kill_each_others_clients() {
    check_that_much_happened(&check(1..=SEEDS, 2, 1));
}

#[test]
fn so_do_three_with_several_workers_each() {
    check_that_much_happened(&check(1..=SEEDS, 3, 2));
}

#[test]
fn so_do_four() {
    check_that_much_happened(&check(1..=SEEDS, 4, 1));
}

/// Servers fail over, some Onramps are cut off from a server that others reach, and die, vanish and are stopped themselves.
#[test]
fn several_in_front_of_a_cluster_find_the_same_primary() {
    for (onramps, workers) in [(2, 1), (3, 2)] {
        let (fates, killed) = check_in_clusters(1..=SEEDS, onramps, workers);
        assert!(fates.agreed > SEEDS && fates.turns > 2 * SEEDS && fates.unknown > SEEDS / 3, "{fates:?}");
        assert!(killed.done_here > 5 && killed.done_elsewhere > 5 && killed.closed > 10, "{killed:?}");
    }
}

#[test]
fn runs_that_once_went_wrong_stay_right() {
    for (seed, onramps, workers) in kept(REGRESSIONS) {
        check(std::iter::once(seed), onramps, workers);
    }
    for (seed, onramps, workers) in kept(REGRESSIONS_IN_CLUSTERS) {
        check_in_clusters(std::iter::once(seed), onramps, workers);
    }
}

/// Seeds, with numbers of Onramps and workers.
fn kept(lines: &str) -> Vec<(u64, u8, u32)> {
    let parsed = lines.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut words = line.split_whitespace();
        let seed = words.next().and_then(|word| word.parse().ok());
        let onramps = words.next().and_then(|word| word.parse().ok());
        let workers = words.next().and_then(|word| word.parse().ok());
        match (seed, onramps, workers) {
            (Some(seed), Some(onramps), Some(workers)) => (seed, onramps, workers),
            _ => panic!("{line}"),
        }
    });
    parsed.collect()
}

#[test]
fn such_a_run_goes_the_same_way_twice() {
    for seed in [1, 2, 3] {
        let [one, two] =
            [(); 2].map(|()| run_engine(Parameters::of_onramps(seed, 0, 3).with_workers(2), false));
        assert_eq!(one.trace.hash(), two.trace.hash(), "seed {seed}");
        let [one, two] = [(); 2].map(|()| run_engine(Parameters::of_onramps_and_cluster(seed, 0, 3), false));
        assert_eq!(one.trace.hash(), two.trace.hash(), "seed {seed} in front of a cluster");
    }
}

/// An id that is not the client's is another one's in a KILL.
#[test]
fn a_client_that_is_killed_in_the_place_of_another_is_found() {
    let plants = |bytes: &mut Vec<u8>| {
        let at = find(bytes, b"MariaDB-virtual\0").filter(|_| bytes[4] == 10);
        if let Some(at) = at {
            // One less is the client before it.
            bytes[at + 16] = bytes[at + 16].wrapping_sub(1);
        }
    };
    expect(plants, &["and nobody had asked for that who may", "nobody has the id whom"]);
}

/// What the server is asked to end is another thread.
#[test]
fn a_statement_that_is_interrupted_in_the_place_of_another_is_found() {
    let plants = |bytes: &mut Vec<u8>| {
        // Alone, and no text that a client has sent.
        if find(bytes, b"KILL QUERY 1").is_some_and(|at| at == 5 && bytes[4] == 3) {
            let last = bytes.len() - 1;
            bytes[last] = if bytes[last] == b'9' { b'0' } else { bytes[last] + 1 };
        }
    };
    // Somebody else's statement ends, or the thread is one that a client's may not.
    expect(plants, &["was interrupted in", "its client may end"]);
}

/// Locks with other names are nobody's slots.
#[test]
fn an_onramp_that_takes_no_slot_is_found() {
    let plants = |bytes: &mut Vec<u8>| {
        while let Some(at) = find(bytes, b"GET_LOCK('onramp.slot.") {
            bytes[at + 17] = b'?';
        }
    };
    expect(plants, &["do not count each other", "does not see"]);
    let texts = ["do not count each other", "does not see", "do not know of each other"];
    assert!(
        is_found(plants, &texts, Parameters::of_onramps_and_cluster),
        "no seed found it in front of a cluster"
    );
}

/// Changes what a program sends.
type Bug = fn(&mut Vec<u8>);

/// The bug shows in one of the first seeds, and in the way that is expected.
fn expect(plants: Bug, texts: &[&str]) {
    assert!(is_found(plants, texts, Parameters::of_onramps), "no seed found it");
}

/// Whether it does in runs that are drawn like this.
fn is_found(plants: Bug, texts: &[&str], draw: fn(u64, u64, u8) -> Parameters) -> bool {
    BUG.set(Some(plants));
    let found = (1..=SEARCHED).any(|seed| {
        let violation = World::several(planted, draw(seed, 0, 3), false).run().violation;
        violation.is_some_and(|violation| texts.iter().any(|text| violation.contains(text)))
    });
    BUG.set(None);
    found
}

thread_local! {
    /// What each send of the programs is changed by.
    static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
}

fn planted(parameters: &Parameters, start: usize) -> Planted {
    Planted { inner: fleet(parameters, start), current: None }
}

/// An Onramp with a bug.
struct Planted {
    inner: Fleet,
    current: Option<Owned>,
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|part| part == wanted)
}

impl Program for Planted {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.inner.handle(now, input);
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        self.current = self.inner.poll_output().as_ref().map(Owned::copy).map(|output| match output {
            Owned::Send(connection, bytes) => changed(connection, bytes),
            other => other,
        });
        self.current.as_ref().map(Owned::output)
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.inner.next_timeout()
    }
}

fn changed(connection: ConnectionId, mut bytes: Vec<u8>) -> Owned {
    if let Some(plants) = BUG.get().filter(|_| bytes.len() > 5) {
        plants(&mut bytes);
    }
    Owned::Send(connection, bytes)
}

impl Subject for Planted {
    fn events(&mut self) -> Vec<String> {
        self.inner.events()
    }

    fn tasks(&mut self) -> Vec<(usize, Task)> {
        self.inner.tasks()
    }

    fn found(&mut self, worker: usize, number: u64, finding: Finding) {
        self.inner.found(worker, number, finding);
    }

    fn killed(&mut self) -> Vec<u32> {
        self.inner.killed()
    }

    fn workers(&mut self) -> Vec<&mut Engine> {
        self.inner.workers()
    }

    fn primary(&self) -> Option<usize> {
        self.inner.primary()
    }

    fn peers(&self) -> Vec<PeerView> {
        self.inner.peers()
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
    fn many_runs_of_each_kind_stay_right() {
        for (onramps, workers) in [(2, 1), (2, 3), (3, 1), (4, 1), (4, 2)] {
            check(SEEDS + 1..=ALL_SEEDS, onramps, workers);
            check_in_clusters(SEEDS + 1..=ALL_SEEDS, onramps, workers);
        }
    }
}
