//! Short reads that share backends, on real engines in virtual time.

use std::time::Duration;

use engine::Settings;
use simulator::scheduling::scenario::{Accounts, Group, Row, ServerModel, Step, Table, Time};
use simulator::scheduling::server::{OTHER_USER, USER};
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
        workers: 1,
        groups,
        length: Duration::from_secs(8),
        warm_up: Duration::from_secs(2),
        adjust,
        ..Scenario::of("sharing", "", ServerModel::of_cores(4, &[point_select, point_select]))
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

/// Somebody locks the first table for three seconds: the longest that a read of the second table takes, and how long that of
/// the first waits.
fn first_time_locked(adjust: fn(Profile, &mut Settings)) -> [u64; 2] {
    let program = vec![
        Step::new("lock", Action::LockTable, 0, Row::Own).then(Time::millis(3_000)),
        Step::new("unlock", Action::Unlock, 0, Row::Own),
    ];
    let locker = Group { from: Duration::from_secs(3), times: 1, ..Group::new("locker", 1, program) };
    let groups = vec![readers("locked", 0), readers("free", 1), locker];
    let outcome = run(&scenario(groups, adjust), Profile::Native, 1).outcome;
    ["free", "locked"].map(|class| outcome.class(class).slowest_response())
}

#[test]
fn short_reads_do_not_wait_behind_one_that_meets_its_first_lock() {
    let [free, locked] = first_time_locked(|_, settings| settings.rescue_reads = false);
    assert!(free > 2_900_000 && locked > 2_900_000, "it is there to be cured: {free} us and {locked} us");
    let [free, locked] = first_time_locked(|_, _| ());
    assert!(free < 100_000, "{free} us");
    assert!(locked > 2_900_000, "{locked} us");
}

/// Reads a second of 300 clients that do not pause.
fn speed(adjust: fn(Profile, &mut Settings)) -> f64 {
    let read = Step::new("read", Action::Read, 0, Row::Own);
    let crowd = Group::new("crowd", 300, vec![read]);
    let mut scenario = scenario(vec![crowd], adjust);
    scenario.length = Duration::from_secs(12);
    scenario.warm_up = Duration::from_secs(8);
    run(&scenario, Profile::Native, 1).outcome.rate("read")
}

/// 300 clients of two users or of one that do not pause, one permit, and the reads of one user after those of another in the queue.
fn of_users(other: &'static str) -> Outcome {
    let read = |name| vec![Step::new(name, Action::Read, 0, Row::Own)];
    let one = Group::new("one", 150, read("one"));
    let group = Group { accounts: Accounts::One(other), ..Group::new("other", 150, read("other")) };
    let adjust = |_, settings: &mut Settings| {
        (settings.permits, settings.shared_backends, settings.statements_in_flight) = (1, 1, 16);
    };
    run(&scenario(vec![one, group], adjust), Profile::Native, 1).outcome
}

#[test]
fn reads_follow_those_of_their_own_user_out_of_turn_and_nobody_waits_long_for_it() {
    let (alone, two) = (of_users(USER), of_users(OTHER_USER));
    let rates = ["one", "other"].map(|class| two.rate(class));
    let of_one_user = alone.rate("one") + alone.rate("other");
    assert!(rates[0] + rates[1] > 0.9 * of_one_user, "{rates:?} of {of_one_user}");
    assert!((rates[0] / rates[1] - 1.0).abs() < 0.1, "{rates:?}");
    // In the queue's order 300 clients take 30 ms; each of both users may be overtaken for two of them in each turn of the other.
    let slowest = ["one", "other"].map(|class| two.class(class).slowest_response());
    assert!(slowest.into_iter().all(|response| response < 50_000), "{slowest:?}");
}

/// `make quick` and `make test` leave these out.
mod at_length {
    use super::*;

    #[test]
    fn how_many_share_finds_itself() {
        let few = speed(|_, settings| (settings.shared_backends, settings.statements_in_flight) = (1, 4));
        let usual = speed(|_, settings| (settings.shared_backends, settings.statements_in_flight) = (4, 16));
        let found = speed(|_, settings| (settings.shared_backends, settings.statements_in_flight) = (0, 0));
        assert!(few < 0.5 * usual, "it matters: {few:.0} and {usual:.0}");
        assert!(found > 0.95 * usual, "{found:.0}, and {usual:.0} as given");
    }
}
