//! Clients that hang up on statements that wait, connect again and ask again, over real engines, a modelled server of 200
//! statements a second, and a virtual clock.

use std::time::Duration;

use engine::{FairShare, Settings};
use simulator::scheduling::scenario::{Accounts, Group, Row, ServerModel, Step, Table, Time};
use simulator::scheduling::server::OTHER_USER;
use simulator::scheduling::statement::Action;
use simulator::scheduling::{Outcome, Profile, Scenario, run};

/// Virtual seconds that a run takes.
const SECONDS: u64 = 20;

fn read(class: &'static str) -> Step {
    Step::new(class, Action::Read, 0, Row::Own)
}

/// Two workers in front of a server of two cores, on which each statement takes ten milliseconds.
fn scenario(groups: Vec<Group>, adjust: fn(Profile, &mut Settings)) -> Scenario {
    let table = Table { cpu: Time::about(10_000), wait: Time::NONE };
    Scenario {
        workers: 2,
        groups,
        length: Duration::from_secs(SECONDS),
        adjust,
        ..Scenario::of("impatience", "Impatience", ServerModel::of_cores(2, &[table]))
    }
}

/// They ask for 250 statements a second, a quarter more than the server can, and wait half a second for each.
fn impatient() -> Group {
    Group {
        think: Time::about(1_500_000),
        patience: Some(Duration::from_millis(500)),
        spread: Duration::from_millis(1_500),
        ..Group::new("impatient", 400, vec![read("impatient")])
    }
}

fn few_permits(_: Profile, settings: &mut Settings) {
    settings.permits = 4;
    settings.statements_in_flight = 1;
}

/// What ran for nobody, of all that ran, in per cent.
fn for_nobody(outcome: &Outcome) -> u64 {
    100 * (outcome.for_nobody + outcome.left) / outcome.begun
}

#[test]
fn the_server_does_not_work_for_those_who_hang_up() {
    let scenario = scenario(vec![impatient()], few_permits);
    let newest = run(&scenario, Profile::Native, 1).outcome;
    let oldest = run(&scenario, Profile::OldestFirst, 1).outcome;
    assert!(for_nobody(&newest) <= 2, "{} %", for_nobody(&newest));
    assert!(for_nobody(&oldest) >= 20, "{} %", for_nobody(&oldest));
    let answered = |outcome: &Outcome| outcome.class("impatient").done();
    assert!(answered(&newest) * 5 > answered(&oldest) * 6, "{} {}", answered(&newest), answered(&oldest));
}

#[test]
fn whoever_does_not_hang_up_is_served_too() {
    let patient = Group { think: Time::about(100_000), ..Group::new("patient", 10, vec![read("patient")]) };
    let newest = run(&scenario(vec![impatient(), patient], few_permits), Profile::Native, 1).outcome;
    let waited = newest.class("patient").waited.longest();
    // The kick-up timer is a second. Of 200 starts a second 25 are for what has waited for longer than that.
    assert!(waited < 2_000_000, "{waited}");
    assert!(newest.class("patient").done() > 50);
    assert!(for_nobody(&newest) <= 5, "{} %", for_nobody(&newest));
}

#[test]
fn a_storm_of_one_user_is_the_same_within_its_share() {
    let calm = Group {
        accounts: Accounts::One(OTHER_USER),
        think: Time::about(400_000),
        ..Group::new("calm", 20, vec![read("calm")])
    };
    let fair: fn(Profile, &mut Settings) = |profile, settings| {
        few_permits(profile, settings);
        settings.shares.fair_share = FairShare::User;
    };
    let scenario = scenario(vec![impatient(), calm], fair);
    let newest = run(&scenario, Profile::Native, 1).outcome;
    let oldest = run(&scenario, Profile::OldestFirst, 1).outcome;
    assert!(for_nobody(&newest) <= 5, "{} %", for_nobody(&newest));
    assert!(for_nobody(&oldest) >= 15, "{} %", for_nobody(&oldest));
    for outcome in [&newest, &oldest] {
        assert!(outcome.class("calm").response.per_mille(990) < 150_000);
    }
}

#[test]
fn reads_that_wait_together_have_the_answer_in_time_too() {
    let same = Step::new("impatient", Action::Read, 0, Row::Popular(300));
    let group = Group { program: vec![same], clients: 1_000, ..impatient() };
    let coalescing: fn(Profile, &mut Settings) = |profile, settings| {
        few_permits(profile, settings);
        settings.coalescing.reads = true;
    };
    let outcome = |profile| run(&scenario(vec![group.clone()], coalescing), profile, 1).outcome;
    let (newest, oldest) = (outcome(Profile::Native), outcome(Profile::OldestFirst));
    let answered = |outcome: &Outcome| outcome.class("impatient").done();
    assert!(answered(&newest) * 10 >= answered(&oldest) * 9, "{} {}", answered(&newest), answered(&oldest));
}
