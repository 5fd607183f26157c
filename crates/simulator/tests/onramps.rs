//! Several Onramps in front of one server: they count each other, and KILL each other's clients, whatever befalls them.

use std::cell::Cell;

use engine::{Finding, PeerView, Task};
use seam::{ConnectionId, Input, Instant, Output, Program};
use simulator::kills::Counts;
use simulator::subject::{Origin, Owned};
use simulator::{Fleet, Parameters, Subject, World, fleet, run_engine};

/// Seeds that run on every change, for some seconds.
const SEEDS: u64 = 30;

/// And those that only `make test-all` runs: of each kind some ten seconds.
const ALL_SEEDS: u64 = 50;

/// Runs that once went wrong: seed, number of Onramps, number of workers of each.
const REGRESSIONS: &str = include_str!("../seeds/onramps.txt");

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

#[test]
fn runs_that_once_went_wrong_stay_right() {
    for line in REGRESSIONS.lines().filter(|line| !line.starts_with('#')) {
        let mut numbers = line.split_whitespace().map_while(|word| word.parse::<u32>().ok());
        let [Some(seed), Some(onramps), Some(workers)] = [(); 3].map(|()| numbers.next()) else {
            panic!("{line}")
        };
        check(std::iter::once(u64::from(seed)), u8::try_from(onramps).expect("few"), workers);
    }
}

#[test]
fn such_a_run_goes_the_same_way_twice() {
    for seed in [1, 2, 3] {
        let [one, two] =
            [(); 2].map(|()| run_engine(Parameters::of_onramps(seed, 0, 3).with_workers(2), false));
        assert_eq!(one.trace.hash(), two.trace.hash(), "seed {seed}");
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
        if let Some(at) = find(bytes, b"KILL QUERY 1").filter(|_| bytes[4] == 3) {
            let last = bytes.len() - 1;
            bytes[last] = if bytes[last] == b'9' { b'0' } else { bytes[last] + 1 };
            assert_eq!(at, 5);
        }
    };
    expect(plants, &["was interrupted in"]);
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
}

/// Changes what a program sends.
type Bug = fn(&mut Vec<u8>);

/// The bug shows in one of the first seeds, and in the way that is expected.
fn expect(plants: Bug, texts: &[&str]) {
    BUG.set(Some(plants));
    let found = (1..=SEEDS).any(|seed| {
        let parameters = Parameters::of_onramps(seed, 0, 3);
        let violation = World::several(planted, parameters, false).run().violation;
        violation.is_some_and(|violation| texts.iter().any(|text| violation.contains(text)))
    });
    assert!(found, "no seed found it");
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
        }
    }
}
