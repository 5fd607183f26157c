//! The limit that finds itself, on real engines in virtual time: beside the best of the limits that could have been given.

use std::time::Duration;

use engine::Settings;
use simulator::scheduling::scenario::{Group, Picture, Row, ServerModel, Step, Table, Time};
use simulator::scheduling::statement::Action;
use simulator::scheduling::{Profile, Scenario, run};

/// 200 clients, each of which does this again and again, on a server of four cores.
fn crowd(table: Table, step: Step) -> Scenario {
    Scenario {
        name: "permits",
        title: "",
        story: "",
        workers: 2,
        server: ServerModel {
            // Half of the work is lost with 60 threads too many: more than servers have been seen to, so that it shows.
            crowd: 60,
            ..ServerModel::of_cores(4, &[table])
        },
        groups: vec![Group::new("all", 200, vec![step])],
        ramp: Duration::from_secs(1),
        length: Duration::from_secs(30),
        warm_up: Duration::from_secs(10),
        adjust: |_, _| {},
        without: None,
        picture: Picture::FirstFigure,
        figures: |_, _| Vec::new(),
    }
}

/// Statements a second, where nothing shares a backend, so that each has a permit.
fn speed(mut scenario: Scenario, adjust: fn(Profile, &mut Settings)) -> f64 {
    scenario.adjust = adjust;
    run(&scenario, Profile::Native, 1).outcome.rate("step")
}

fn found(scenario: &Scenario) -> f64 {
    speed(scenario.clone(), |_, settings| {
        settings.permits = 0;
        settings.statements_in_flight = 1;
    })
}

fn given(scenario: &Scenario) -> f64 {
    let limits: [fn(Profile, &mut Settings); 6] = [
        |_, settings| (settings.permits, settings.statements_in_flight) = (4, 1),
        |_, settings| (settings.permits, settings.statements_in_flight) = (8, 1),
        |_, settings| (settings.permits, settings.statements_in_flight) = (16, 1),
        |_, settings| (settings.permits, settings.statements_in_flight) = (32, 1),
        |_, settings| (settings.permits, settings.statements_in_flight) = (64, 1),
        |_, settings| (settings.permits, settings.statements_in_flight) = (128, 1),
    ];
    let speeds =
        limits.map(|limit| speed(Scenario { length: Duration::from_secs(12), ..scenario.clone() }, limit));
    println!("{speeds:.0?}");
    speeds.into_iter().fold(0.0, f64::max)
}

fn is_near_the_best(table: Table, step: Step) {
    let scenario = crowd(table, step);
    let (found, best) = (found(&scenario), given(&scenario));
    assert!(found > 0.95 * best, "{found:.0}, and {best:.0} with the best that could be given");
}

#[test]
fn reads_that_compute() {
    let table = Table { cpu: Time::about(1000), wait: Time::NONE };
    is_near_the_best(table, Step::new("step", Action::Read, 0, Row::Own));
}

#[test]
fn reads_that_wait_for_a_disk() {
    let table = Table { cpu: Time::about(50), wait: Time::about(5_000) };
    is_near_the_best(table, Step::new("step", Action::Read, 0, Row::Own));
}

#[test]
fn updates_of_few_rows() {
    let table = Table { cpu: Time::about(300), wait: Time::NONE };
    is_near_the_best(table, Step::new("step", Action::Write, 0, Row::Among(8)));
}
