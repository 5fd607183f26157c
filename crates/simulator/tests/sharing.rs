//! Short reads that share backends, on real engines in virtual time.

use std::time::Duration;

use engine::Settings;
use simulator::scheduling::scenario::{Compares, Group, Picture, Row, ServerModel, Step, Table, Time};
use simulator::scheduling::statement::Action;
use simulator::scheduling::{Outcome, Profile, Scenario, run};

/// 100 clients that do this again and again, on a server of four cores with some spare.
fn readers(name: &'static str, table: u16) -> Group {
    let read = Step::new(name, Action::Read, table, Row::Own).then(Time::about(4_000));
    Group::new(name, 100, vec![read])
}

fn scenario(groups: Vec<Group>, adjust: fn(Profile, &mut Settings)) -> Scenario {
    let point_select = Table { cpu: Time::about(100), wait: Time::NONE };
    Scenario {
        name: "sharing",
        title: "",
        story: "",
        workers: 1,
        server: ServerModel::of_cores(4, &[point_select, point_select]),
        groups,
        ramp: Duration::from_secs(1),
        length: Duration::from_secs(8),
        warm_up: Duration::from_secs(2),
        adjust,
        without: None,
        compares: Compares::Pools,
        picture: Picture::FirstFigure,
        figures: |_, _| Vec::new(),
    }
}

/// Somebody locks the first table for 300 ms, again and again. Its readers wait for that, those of the second need not.
fn one_table_locked(adjust: fn(Profile, &mut Settings)) -> Outcome {
    let program = vec![
        Step::new("lock", Action::LockTable, 0, Row::Own).then(Time::millis(300)),
        Step::new("unlock", Action::Unlock, 0, Row::Own).then(Time::millis(150)),
    ];
    let groups = vec![readers("locked", 0), readers("free", 1), Group::new("locker", 1, program)];
    run(&scenario(groups, adjust), Profile::Native, 1).outcome
}

#[test]
fn short_reads_do_not_wait_behind_those_whose_like_have_been_long() {
    let slowest = |outcome: &Outcome| outcome.class("free").response.per_mille(999);
    let with = slowest(&one_table_locked(|_, settings| settings.stall_limit = Duration::from_millis(20)));
    assert!(with < 60_000, "{with} us");
}
