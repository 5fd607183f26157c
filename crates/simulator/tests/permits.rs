//! The limit that finds itself, on real engines in virtual time: beside the best of the limits that could have been given.

use std::time::Duration;

use engine::Settings;
use simulator::scheduling::scenario::{Compares, Group, Row, ServerModel, Step, Table, Time};
use simulator::scheduling::statement::Action;
use simulator::scheduling::{Profile, Scenario, run};

const LIMITS: &[u32] = &[4, 16, 64];

/// 100 clients, each of which does this again and again, on a server of four cores.
fn crowd(table: Table, step: Step) -> Scenario {
    let server = ServerModel {
        // Half of the work is lost with 60 threads too many: more than servers have been seen to, so that it shows.
        crowd: 60,
        ..ServerModel::of_cores(4, &[table])
    };
    Scenario {
        workers: 2,
        groups: vec![Group::new("all", 100, vec![step])],
        warm_up: Duration::from_secs(8),
        adjust,
        compares: Compares::Limits(LIMITS),
        ..Scenario::of("permits", "", server)
    }
}

fn adjust(profile: Profile, settings: &mut Settings) {
    settings.statements_in_flight = 1;
    if profile == Profile::Native {
        settings.permits = 0;
    }
}

/// Statements a second, where nothing shares a backend, so that each has a permit.
fn speed(scenario: &Scenario, profile: Profile) -> f64 {
    run(scenario, profile, 1).outcome.rate("step")
}

fn best_given(scenario: &Scenario) -> f64 {
    let scenario = Scenario { length: Duration::from_secs(12), ..scenario.clone() };
    let speeds = LIMITS.iter().map(|&permits| speed(&scenario, Profile::Fixed(permits)));
    speeds.fold(0.0, f64::max)
}

fn is_near_the_best(table: Table, step: Step) {
    let scenario = crowd(table, step);
    let (found, best) = (speed(&scenario, Profile::Native), best_given(&scenario));
    assert!(found > 0.95 * best, "{found:.0}, and {best:.0} with the best that could be given");
}

#[test]
fn reads_that_compute() {
    let table = Table { cpu: Time::about(4_000), wait: Time::NONE };
    is_near_the_best(table, Step::new("step", Action::Read, 0, Row::Own));
}

#[test]
fn reads_that_wait_for_a_disk() {
    let table = Table { cpu: Time::about(200), wait: Time::about(20_000) };
    is_near_the_best(table, Step::new("step", Action::Read, 0, Row::Own));
}

#[test]
fn updates_of_few_rows() {
    let table = Table { cpu: Time::about(2_000), wait: Time::NONE };
    is_near_the_best(table, Step::new("step", Action::Write, 0, Row::Among(8)));
}

/// `make test` leaves these out.
mod at_length {
    use simulator::scheduling::survey::{Case, Load};

    fn is_found(cores: u32, load: Load, distance: u64) {
        let found = Case { cores, load, distance, neighbours: false }.find();
        assert!(found.is_near(), "{found:?}");
    }

    // Beside each other: they take a minute each.
    #[test]
    fn few_cores_unlike_those_that_it_was_tuned_on() {
        is_found(2, Load::WaitsForDisk, 50);
        is_found(2, Load::Computes, 20_000);
    }

    #[test]
    fn more_cores_than_those_that_it_was_tuned_on() {
        is_found(16, Load::WaitsForDisk, 20_000);
        is_found(64, Load::FewDisks, 1_000);
    }
}
