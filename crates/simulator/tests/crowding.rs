//! What one user's crowd takes from another user with default settings, over real engines, a modelled server of 2,000 statements a second,
//! and a virtual clock.

use std::time::Duration;

use engine::{FairShare, Settings};
use simulator::scheduling::scenario::{Accounts, Group, Row, ServerModel, Step, Table, Time};
use simulator::scheduling::server::OTHER_USER;
use simulator::scheduling::statement::Action;
use simulator::scheduling::{Outcome, Profile, Scenario, run};

fn read(class: &'static str) -> Step {
    Step::new(class, Action::Read, 0, Row::Own)
}

/// Two workers in front of a server of four cores, on which each statement takes two milliseconds.
fn scenario(groups: Vec<Group>, seconds: u64, adjust: fn(Profile, &mut Settings)) -> Scenario {
    let table = Table { cpu: Time::micros(2_000), wait: Time::NONE };
    let mut server = ServerModel::of_cores(4, &[table]);
    server.crowd = u32::MAX;
    Scenario {
        workers: 2,
        groups,
        length: Duration::from_secs(seconds),
        adjust,
        ..Scenario::of("crowding", "Crowding", server)
    }
}

fn exact(_: Profile, settings: &mut Settings) {
    settings.permits = 8;
    settings.statements_in_flight = 1;
}

fn always_with_shares(profile: Profile, settings: &mut Settings) {
    exact(profile, settings);
    settings.shares.fair_share = FairShare::User;
}

fn without_shares(profile: Profile, settings: &mut Settings) {
    exact(profile, settings);
    settings.shares.fair_share = FairShare::Off;
}

/// 400 clients of one user, which ask for half of what the server can, and from the second second to the sixth 4,000 of another, which
/// ask for ten times as much as it can.
fn flash_crowd(adjust: fn(Profile, &mut Settings)) -> Outcome {
    let regulars = Group {
        accounts: Accounts::One(OTHER_USER),
        think: Time::about(400_000),
        ..Group::new("regulars", 400, vec![read("regular")])
    };
    let crowd = Group {
        from: Duration::from_secs(2),
        until: Duration::from_secs(6),
        spread: Duration::from_millis(100),
        think: Time::about(200_000),
        ..Group::new("crowd", 4_000, vec![read("crowd")])
    };
    run(&scenario(vec![regulars, crowd], 7, adjust), Profile::Native, 1).outcome
}

#[test]
fn a_crowd_of_one_user_leaves_the_others_what_they_ask_for() {
    let (found, without) = (flash_crowd(exact), flash_crowd(without_shares));
    let served = |outcome: &Outcome| outcome.class("regular").done_between(3, 6);
    // A pause of 400 ms, and a statement of two with its way.
    let undisturbed = 3.0 * 400.0 / 0.4025;
    assert!(served(&found) as f64 > 0.95 * undisturbed, "{} of {undisturbed}", served(&found));
    assert!((served(&without) as f64) < 0.25 * undisturbed, "{} without shares", served(&without));
    let p99 = found.class("regular").response.per_mille(990);
    assert!(p99 < 150_000, "{p99}");
    // The server is not idle for it.
    let good = served(&found) + found.class("crowd").done_between(3, 6);
    assert!(good as f64 > 0.95 * 3.0 * 2_000.0, "{good}");
}

/// How long one client of a user waits that asks now and then, beside 60 of another that do not pause, on a server of 200 statements a second.
fn alone_beside_dozens(adjust: fn(Profile, &mut Settings)) -> u64 {
    let alone = Group {
        accounts: Accounts::One(OTHER_USER),
        think: Time::about(100_000),
        ..Group::new("alone", 1, vec![read("alone")])
    };
    let mut scenario = scenario(vec![alone, Group::new("dozens", 60, vec![read("dozens")])], 20, adjust);
    scenario.server.tables[0].cpu = Time::micros(20_000);
    let found = run(&scenario, Profile::Native, 1).outcome;
    found.class("alone").response.per_mille(500)
}

#[test]
fn who_is_alone_does_not_wait_behind_dozens() {
    let [found, always, without] = [exact, always_with_shares, without_shares].map(alone_beside_dozens);
    assert!(without > 200_000, "{without} us without shares");
    assert!(found < 150_000, "{found} us, and {always} us where there are always shares");
}

#[test]
fn a_crowd_of_the_only_user_is_served_as_it_comes() {
    let crowd =
        || vec![Group { think: Time::about(50_000), ..Group::new("crowd", 2_000, vec![read("crowd")]) }];
    let of = |adjust| run(&scenario(crowd(), 3, adjust), Profile::Native, 1).outcome;
    let (found, without) = (of(exact), of(without_shares));
    assert_eq!(found.class("crowd").done(), without.class("crowd").done(), "nothing has changed for it");
    assert_eq!(found.class("crowd").refused(), 0);
}

/// More clients in a closed loop than the server serves in half a minute.
fn slow_server() -> Vec<Group> {
    vec![Group::new("heavy", 3_000, vec![read("heavy")])]
}

#[test]
fn a_steady_load_is_never_refused_however_long_it_waits() {
    let mut scenario = scenario(slow_server(), 65, exact);
    scenario.server.tables[0].cpu = Time::about(40_000);
    let found = run(&scenario, Profile::Native, 1).outcome;
    let heavy = found.class("heavy");
    assert!(heavy.waited.longest() > 25_000_000, "{}", heavy.waited.longest());
    assert_eq!(heavy.refused(), 0);
}

#[test]
fn a_crowd_that_others_go_before_is_told_after_a_while() {
    // On a server of 200 statements a second the light user takes two thirds, so that the crowd would wait for 15 s.
    let light =
        Group { accounts: Accounts::One(OTHER_USER), ..Group::new("light", 100, vec![read("light")]) };
    let crowd = Group::new("crowd", 1_000, vec![read("crowd")]);
    let mut scenario = scenario(vec![light, crowd], 25, exact);
    scenario.server.tables[0].cpu = Time::about(20_000);
    let found = run(&scenario, Profile::Native, 1).outcome;
    let (light, crowd) = (found.class("light"), found.class("crowd"));
    assert_eq!(light.refused(), 0);
    assert!(crowd.errors.keys().all(|&code| code == 1205), "{:?}", crowd.errors);
    assert!(crowd.refused() > 50, "{}", crowd.refused());
    assert!((10_000_000..13_000_000).contains(&crowd.waited.longest()), "{}", crowd.waited.longest());
    let share = light.done() as f64 / (light.done() + crowd.done()) as f64;
    assert!((0.55..0.72).contains(&share), "{share}");
}

/// On a server of four statements a second, each of which is long: 50 clients of one user ask for a quarter of it, and from the second
/// second on 800 of another ask for two hundred times as much as it can.
fn flash_crowd_of_long_statements(adjust: fn(Profile, &mut Settings)) -> Outcome {
    let regulars = Group {
        accounts: Accounts::One(OTHER_USER),
        spread: Duration::from_secs(50),
        think: Time::about(50_000_000),
        ..Group::new("regulars", 50, vec![read("regular")])
    };
    let crowd = Group {
        from: Duration::from_secs(2),
        spread: Duration::from_millis(100),
        think: Time::about(1_000_000),
        ..Group::new("crowd", 800, vec![read("crowd")])
    };
    let mut scenario = scenario(vec![regulars, crowd], 200, adjust);
    scenario.server.tables[0].cpu = Time::about(1_000_000);
    run(&scenario, Profile::Native, 1).outcome
}

#[test]
fn a_crowd_leaves_the_others_what_they_ask_for_among_long_statements_too() {
    let served =
        |adjust| flash_crowd_of_long_statements(adjust).class("regular").done_between(50, 200) as f64;
    // A pause of 50 s, and a statement of a second.
    let undisturbed = 150.0 * 50.0 / 51.0;
    // That the crowd's statements are long is known only once they wait.
    for adjust in [exact, always_with_shares] {
        assert!(served(adjust) > 0.8 * undisturbed, "{} of {undisturbed}", served(adjust));
    }
    assert!(served(without_shares) < 0.1 * undisturbed, "{} without shares", served(without_shares));
}
