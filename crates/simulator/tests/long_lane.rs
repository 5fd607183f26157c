//! Long statements among short ones, on real engines in virtual time: what the long lane is for.

use std::time::Duration;

use engine::Settings;
use simulator::scheduling::scenario::{Table, Time};
use simulator::scheduling::scenarios::{self, Scale};
use simulator::scheduling::{Outcome, Profile, Scenario, run};

/// How many long statements may run at a time: a quarter of the permits.
const LONG: u64 = 2;

/// The known scenario (100 clients with short statements, 50 with statements of about a second), with few permits of which
/// none is lent.
fn one_second(adjust: fn(Profile, &mut Settings)) -> Scenario {
    // Half of the work is enough.
    let mut scenario = Scenario { workers: 2, adjust, without: None, ..scenarios::one_second(Scale::Small) };
    scenario.groups.iter_mut().for_each(|group| group.clients /= 2);
    scenario
}

fn few_permits(settings: &mut Settings) {
    settings.permits = 8;
    settings.long_permits_max = 1;
    settings.stall_limit = Duration::from_secs(600);
}

fn outcome(adjust: fn(Profile, &mut Settings)) -> Outcome {
    run(&one_second(adjust), Profile::Native, 1).outcome
}

/// The wait that 99 in 100 of the short ones do not exceed, in microseconds.
fn short_wait(outcome: &Outcome) -> u64 {
    outcome.class("short").waited.per_mille(990)
}

#[test]
fn short_statements_keep_their_permits() {
    let with = outcome(|_, settings| few_permits(settings));
    assert!(short_wait(&with) < 2_000, "{} us", short_wait(&with));
}

#[test]
fn without_the_lane_they_do_not() {
    let without = outcome(|_, settings| {
        few_permits(settings);
        settings.long_statement_time = Duration::ZERO;
    });
    assert!(short_wait(&without) > 100_000, "{} us", short_wait(&without));
}

#[test]
fn long_statements_go_on_one_after_the_other() {
    let with = outcome(|_, settings| few_permits(settings));
    let seconds = with.measured / 1_000_000;
    let done = with.class("long").done();
    // Each takes from half a second to one and a half.
    assert!((seconds * LONG * 8 / 10..=seconds * LONG * 12 / 10).contains(&done), "{done} in {seconds} s");
}

#[test]
fn how_many_may_run_is_an_option() {
    let four = outcome(|_, settings| {
        few_permits(settings);
        settings.long_permits = 4;
    });
    let two = outcome(|_, settings| few_permits(settings));
    let [four, two] = [four, two].map(|outcome| outcome.class("long").done());
    assert!(four * 10 > two * 15, "{two} with two, {four} with four");
}

/// The known scenario as it is, for a minute, in which the lane may grow.
fn a_minute(cpu: Time, wait: Time, adjust: fn(Profile, &mut Settings)) -> Outcome {
    let mut scenario = Scenario {
        workers: 2,
        adjust,
        without: None,
        length: Duration::from_secs(90),
        warm_up: Duration::from_secs(60),
        ..scenarios::one_second(Scale::Small)
    };
    // A tenth of the short ones still shows what becomes of them.
    for (group, clients) in scenario.groups.iter_mut().zip([20, 50]) {
        group.clients = clients;
    }
    scenario.server.tables[1] = Table { cpu, wait };
    run(&scenario, Profile::Native, 1).outcome
}

/// The response that 99 in 100 of the short ones do not exceed, in microseconds.
fn short_response(outcome: &Outcome) -> u64 {
    outcome.class("short").response.per_mille(990)
}

#[test]
fn more_long_statements_run_where_they_only_wait() {
    let (cpu, wait) = (Time::about(1_000), Time::about(999_000));
    let grown = a_minute(cpu, wait, |_, settings| settings.long_permits_max = 0);
    let fixed = a_minute(cpu, wait, |_, settings| settings.long_permits_max = 1);
    assert!(grown.class("long").done() > 5 * fixed.class("long").done());
    assert!(short_response(&grown) <= 2 * short_response(&fixed));
}

#[test]
fn where_they_compute_few_run() {
    let (cpu, wait) = (Time::about(1_000_000), Time::NONE);
    let grown = a_minute(cpu, wait, |_, settings| settings.long_permits_max = 0);
    let fixed = a_minute(cpu, wait, |_, settings| settings.long_permits_max = 1);
    let [grown, fixed] = [grown, fixed].map(|outcome| short_response(&outcome));
    assert!(4 * grown <= 5 * fixed, "{fixed} us without more, {grown} us with");
}
