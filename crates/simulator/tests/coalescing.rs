//! A flash crowd that asks for the same things, with and without `coalesce_reads`; and that seeds meet it at all.

use std::time::Duration;

use engine::Settings;
use simulator::scheduling::scenario::{Compares, Group, Picture, Row, ServerModel, Step, Table, Time};
use simulator::scheduling::statement::Action;
use simulator::scheduling::{Outcome, Profile, Scenario, run};
use simulator::{Parameters, run_engine};

/// Statements per second of the server below: four cores, five milliseconds each.
const CAPACITY: f64 = 800.0;

/// Seeds that run on every change, of which three in ten coalesce.
const SEEDS: u64 = 60;

/// 4,000 clients without a pause that read among 1,000 rows, some of them much more often than others.
fn crowd(workers: u32, adjust: fn(Profile, &mut Settings)) -> Outcome {
    let mut server = ServerModel::of_cores(4, &[Table { cpu: Time::millis(5), wait: Time::NONE }]);
    // More threads than cores cost nothing here: what is asked is how often the server is asked.
    server.crowd = u32::MAX;
    let scenario = Scenario {
        name: "popular",
        title: "A popular page",
        story: "",
        workers,
        server,
        groups: vec![Group::new(
            "readers",
            4_000,
            vec![Step::new("read", Action::Read, 0, Row::Popular(1_000))],
        )],
        ramp: Duration::from_secs(1),
        length: Duration::from_secs(6),
        warm_up: Duration::from_secs(1),
        adjust,
        without: None,
        compares: Compares::Pools,
        picture: Picture::FirstFigure,
        figures: |_, _| Vec::new(),
    };
    run(&scenario, Profile::Native, 1).outcome
}

#[test]
fn a_crowd_is_answered_by_few_executions() {
    let apart = crowd(1, |_, _| {});
    assert!(apart.rate("read") <= 1.05 * CAPACITY, "{} a second", apart.rate("read"));
    for (workers, times) in [(1, 4.0), (3, 2.0)] {
        let together = crowd(workers, |_, settings| settings.coalesce_reads = true);
        let rate = together.rate("read");
        assert!(rate >= times * CAPACITY, "{workers} workers: {rate} a second");
        let class = together.class("read");
        assert_eq!((class.refused(), class.given_up, together.unknown.len()), (0, 0, 0));
        // The server does no more than before, and each execution answers several.
        assert!(together.begun as f64 <= 1.05 * CAPACITY * 5.0, "{} executions", together.begun);
        let longest = class.slowest_response();
        assert!(longest < apart.class("read").slowest_response(), "{workers} workers: {longest} us");
    }
}

#[test]
fn drawn_runs_coalesce_and_nobody_sees_anything_older() {
    let (mut answers, mut executions) = (0, 0);
    for seed in (1..).filter(|&seed| Parameters::draw(seed, 0).coalesce_reads).take(SEEDS as usize) {
        let outcome = run_engine(Parameters::draw(seed, 0), false);
        assert_eq!(outcome.violation, None, "replay: cargo run -p simulator -- --seed {seed}");
        // Some executions are answered to nobody: only what is answered more often than it ran is certain.
        answers += outcome.popular.0.saturating_sub(outcome.popular.1);
        executions += outcome.popular.1;
    }
    assert!(answers > 20, "{answers} of {executions} executions answered more than one");
}
