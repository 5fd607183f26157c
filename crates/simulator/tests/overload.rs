//! The overload contract over real engines, a modelled server of 4,000 statements a second, and a virtual clock.

use std::time::Duration;

use engine::Settings;
use simulator::scheduling::scenario::{Group, Row, ServerModel, Step, Table, Time};
use simulator::scheduling::statement::Action;
use simulator::scheduling::{Outcome, Profile, Scenario, run};

/// What a refused statement is answered with: ER_LOCK_WAIT_TIMEOUT.
const REFUSED: u16 = 1205;

/// Statements per second of the server below: four cores, a millisecond each.
const CAPACITY: f64 = 4_000.0;

/// What a statement may take beyond its time in the queue: its way, and the turns of a worker.
const SLACK: u64 = 2_000;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn read(class: &'static str) -> Step {
    Step::new(class, Action::Read, 0, Row::Own)
}

/// Two workers in front of a server of four cores.
fn scenario(groups: Vec<Group>, seconds: u64, adjust: fn(Profile, &mut Settings)) -> Scenario {
    let millisecond = Table { cpu: Time::micros(1_000), wait: Time::NONE };
    let second = Table { cpu: Time::micros(100), wait: Time::millis(1_000) };
    let mut server = ServerModel::of_cores(4, &[millisecond, second]);
    // More threads than cores cost nothing here: what is asked is who runs, not how fast.
    server.crowd = u32::MAX;
    Scenario {
        workers: 2,
        groups,
        length: Duration::from_secs(seconds),
        adjust,
        ..Scenario::of("overload", "Overload", server)
    }
}

/// One statement per core, and none waiting on a backend behind another one: all waiting is in the queues. The way to the
/// server and back takes a tenth of its capacity then.
fn exact(settings: &mut Settings) {
    settings.permits = 4;
    settings.statements_in_flight = 1;
}

fn outcome(scenario: &Scenario) -> Outcome {
    run(scenario, Profile::Native, 1).outcome
}

/// Clients without a pause, many times more than the server can do.
fn crowd(clients: u32) -> Group {
    Group::new("crowd", clients, vec![read("crowd")])
}

fn errors(outcome: &Outcome, class: &str, code: u16) -> u64 {
    outcome.class(class).errors.get(&code).copied().unwrap_or(0)
}

fn assert_only_refusals(outcome: &Outcome, class: &str) {
    let class = outcome.class(class);
    assert!(class.errors.keys().all(|&code| code == REFUSED), "{:?}", class.errors);
}

#[test]
fn no_more_than_queue_limit_wait_and_the_others_are_told_at_once() {
    let limited = |limit: bool| {
        let adjust: fn(Profile, &mut Settings) = match limit {
            true => |_, settings| {
                exact(settings);
                settings.overload.queue_limit = 100;
            },
            false => |_, settings| exact(settings),
        };
        outcome(&scenario(vec![crowd(1_000)], 2, adjust))
    };
    let (bounded, free) = (limited(true), limited(false));
    assert_eq!(free.class("crowd").refused(), 0);
    assert!(
        free.class("crowd").waited.per_mille(500) > 200_000,
        "a thousand clients wait a quarter of a second"
    );
    assert!(errors(&bounded, "crowd", REFUSED) > 1_000);
    assert_only_refusals(&bounded, "crowd");
    // 100 statements are 25 ms of work; what the other worker has queued is known a turn later.
    let waited = bounded.class("crowd").waited.per_mille(990);
    assert!(waited < 35_000, "{waited}");
    assert!(bounded.goodput() > 0.85 * CAPACITY, "{}", bounded.goodput());
}

#[test]
fn nobody_starts_later_than_queue_wait_limit() {
    let adjust: fn(Profile, &mut Settings) = |_, settings| {
        exact(settings);
        settings.overload.queue_wait_limit = millis(50);
    };
    let found = outcome(&scenario(vec![crowd(1_000)], 2, adjust));
    let waited = found.class("crowd").waited.longest();
    assert!(waited <= 50_000 + SLACK, "{waited}");
    assert!(errors(&found, "crowd", REFUSED) > 1_000);
    assert_only_refusals(&found, "crowd");
    assert!(found.goodput() > 0.85 * CAPACITY, "{}", found.goodput());
}

#[test]
fn statements_of_open_transactions_are_never_refused() {
    let transaction = vec![
        Step::new("begin", Action::Begin, 0, Row::Own),
        Step::new("write", Action::Write, 0, Row::Own),
        Step::new("write", Action::Write, 0, Row::Own),
        Step::new("commit", Action::Commit, 0, Row::Own),
    ];
    let writers = Group::new("writers", 300, transaction);
    let adjust: fn(Profile, &mut Settings) = |_, settings| {
        settings.overload.queue_limit = 50;
        settings.overload.queue_wait_limit = millis(10);
        settings.overload.queue_delay_target = millis(5);
        // Else nothing of a BEGIN waits, and nothing could be refused.
        settings.lazy_begin = false;
    };
    let found = outcome(&scenario(vec![writers, crowd(500)], 2, adjust));
    assert!(errors(&found, "crowd", REFUSED) > 0 && errors(&found, "begin", REFUSED) > 0);
    assert!(found.class("write").done() > 500 && found.class("commit").done() > 200);
    assert_eq!((found.class("write").refused(), found.class("commit").refused()), (0, 0));
}

/// 200 regular clients, half of what the server can do, and from the second to the fifth second ten times its capacity.
fn flash_crowd(adjust: fn(Profile, &mut Settings)) -> Outcome {
    let regulars =
        Group { think: Time::about(100_000), ..Group::new("regulars", 200, vec![read("regular")]) };
    let crowd = Group {
        from: Duration::from_secs(2),
        until: Duration::from_secs(5),
        spread: millis(100),
        think: Time::about(200_000),
        ..crowd(8_000)
    };
    outcome(&scenario(vec![regulars, crowd], 8, adjust))
}

#[test]
fn a_standing_delay_is_held_at_its_target() {
    let free = flash_crowd(|_, settings| exact(settings));
    assert!(free.class("regular").waited.longest() > 500_000, "without a target everybody waits");
    let found = flash_crowd(|_, settings| {
        exact(settings);
        settings.overload.queue_delay_target = millis(20);
    });
    let (regular, crowd) = (found.class("regular"), found.class("crowd"));
    // The first interval is let pass as a burst; from then on nobody who starts has waited for longer than the target.
    let longest = regular.waited.longest().max(crowd.waited.longest());
    assert!(longest < 150_000 + SLACK, "{longest}");
    let usual = crowd.waited.per_mille(900);
    assert!(usual <= 21_000 + SLACK, "{usual}");
    let good = regular.done_between(3, 5) + crowd.done_between(3, 5);
    assert!(good as f64 > 0.85 * 2.0 * CAPACITY, "{good}");
    assert!(errors(&found, "crowd", REFUSED) > 20_000);
    assert!(regular.slow_until(5, 10_000) < 0.5, "{}", regular.slow_until(5, 10_000));
    let before = regular.done_between(0, 2) as f64;
    assert!(before > 0.9 * 2.0 * 1_900.0, "{before} before the crowd comes");
}

#[test]
fn a_burst_that_passes_within_the_interval_is_refused_nothing() {
    // 300 statements at once are 75 ms of work, four times the target.
    let burst = Group { times: 3, think: Time::millis(500), spread: Duration::ZERO, ..crowd(300) };
    let adjust: fn(Profile, &mut Settings) = |_, settings| settings.overload.queue_delay_target = millis(20);
    let found = outcome(&scenario(vec![burst], 3, adjust));
    let crowd = found.class("crowd");
    assert!(crowd.waited.longest() > 50_000, "{}", crowd.waited.longest());
    assert_eq!((crowd.refused(), crowd.done()), (0, 900));
}

#[test]
fn the_long_lane_has_bounds_of_its_own() {
    let long = Group::new("long", 100, vec![Step::new("long", Action::Read, 1, Row::Own)]);
    let short = Group { think: Time::about(50_000), ..Group::new("short", 50, vec![read("short")]) };
    let adjust: fn(Profile, &mut Settings) = |_, settings| {
        settings.overload.long_queue_limit = 30;
        settings.overload.long_queue_wait_limit = millis(4_000);
    };
    let found = outcome(&scenario(vec![long, short], 20, adjust));
    assert!(errors(&found, "long", REFUSED) > 100);
    assert!(found.class("long").waited.longest() <= 4_000_000 + SLACK);
    assert_eq!(found.class("short").refused(), 0);
}

/// 2,000 patient clients, so that everybody waits for half a second, and 200 who hang up, connect again and repeat after a
/// fifth of that.
fn impatient_among_patient(adjust: fn(Profile, &mut Settings)) -> Outcome {
    let impatient = Group {
        patience: Some(millis(100)),
        from: millis(500),
        ..Group::new("impatient", 200, vec![read("impatient")])
    };
    outcome(&scenario(vec![crowd(2_000), impatient], 3, adjust))
}

#[test]
fn a_statement_whose_client_has_gone_while_it_waited_never_runs() {
    let found = impatient_among_patient(|_, settings| exact(settings));
    let given_up = found.class("impatient").given_up;
    assert!(given_up > 2_000, "{given_up}");
    assert_eq!(found.for_nobody, 0, "of {}", found.begun);
    assert!(found.goodput() > 0.85 * CAPACITY, "{}", found.goodput());
}

#[test]
fn a_wait_limit_below_their_patience_keeps_clients_from_hanging_up() {
    let found = impatient_among_patient(|_, settings| {
        exact(settings);
        settings.overload.queue_wait_limit = millis(80);
    });
    let impatient = found.class("impatient");
    assert_eq!((impatient.given_up, found.for_nobody), (0, 0));
    assert!(
        impatient.done() > 100 && impatient.refused() > 100,
        "{} {}",
        impatient.done(),
        impatient.refused()
    );
}

/// Clients that ask for a statement of a second on as many permits as they are, and hang up after a tenth of that; and one
/// that asks for short ones.
fn hang_ups(adjust: fn(Profile, &mut Settings)) -> Outcome {
    let hasty = Group {
        patience: Some(millis(100)),
        think: Time::about(500_000),
        ..Group::new("hasty", 8, vec![Step::new("hasty", Action::Read, 1, Row::Own)])
    };
    let short = Group { think: Time::about(5_000), ..Group::new("short", 1, vec![read("short")]) };
    outcome(&scenario(vec![hasty, short], 10, adjust))
}

/// No lane for the long and no lending: who runs, runs.
fn strict(settings: &mut Settings) {
    exact(settings);
    settings.stall_limit = Duration::from_secs(600);
    settings.long_statement_time = Duration::ZERO;
}

#[test]
fn a_running_statement_whose_client_has_gone_is_ended() {
    let left = hang_ups(|_, settings| strict(settings));
    let ended = hang_ups(|_, settings| {
        strict(settings);
        settings.overload.kill_abandoned = true;
    });
    let (left, ended) = (left.class("short").done(), ended.class("short").done());
    assert!(ended > 4 * left, "{ended} with, {left} without");
}

#[test]
fn query_timeout_ends_what_runs_for_longer() {
    let long = Group::new("long", 4, vec![Step::new("long", Action::Read, 1, Row::Own)]);
    let short = Group { think: Time::about(5_000), ..Group::new("short", 4, vec![read("short")]) };
    let adjust: fn(Profile, &mut Settings) = |_, settings| {
        strict(settings);
        settings.permits = 8;
        settings.overload.query_timeout = millis(300);
    };
    let found = outcome(&scenario(vec![long, short], 5, adjust));
    let (long, short) = (found.class("long"), found.class("short"));
    assert_eq!((long.done(), short.refused()), (0, 0));
    assert!(long.errors.keys().all(|&code| code == 1317), "{:?}", long.errors);
    assert!(long.refused() > 4 * 10, "{}", long.refused());
    // Beside it the KILL's way, and a backend to send it on.
    assert!(long.slowest_response() < 310_000 + SLACK, "{}", long.slowest_response());
}

/// One client holds a row's lock and does something else for ten seconds; the others want that row.
fn forgotten_transaction(pause: Time, adjust: fn(Profile, &mut Settings)) -> Outcome {
    let write = Step::new("held", Action::Write, 0, Row::Same(1));
    let holder = Group {
        times: 1,
        ..Group::new(
            "holder",
            1,
            vec![
                Step::new("held", Action::Begin, 0, Row::Own),
                write.then(pause),
                write.then(pause),
                write.then(pause),
                Step::new("held", Action::Commit, 0, Row::Own),
            ],
        )
    };
    let write = Step::new("other", Action::Write, 0, Row::Same(1));
    let others =
        Group { from: millis(500), think: Time::about(100_000), ..Group::new("others", 20, vec![write]) };
    outcome(&scenario(vec![holder, others], 20, adjust))
}

#[test]
fn a_forgotten_transaction_is_rolled_back() {
    let pause = Time::millis(10_000);
    let left = forgotten_transaction(pause, |_, _| {});
    assert!(left.class("other").slowest_response() > 9_000_000, "{}", left.class("other").slowest_response());
    let ended = forgotten_transaction(pause, |_, settings| {
        settings.overload.idle_transaction_timeout = millis(2_000);
    });
    let others = ended.class("other");
    // The clients are looked at once a second.
    assert!(others.slowest_response() < 3_100_000, "{}", others.slowest_response());
    assert_eq!(others.refused(), 0);
    assert_eq!(errors(&ended, "held", 1159), 1, "{:?}", ended.class("held").errors);
}

#[test]
fn a_transaction_without_an_end_is_rolled_back_though_it_is_never_idle_for_long() {
    let pause = Time::millis(1_500);
    let adjust: fn(Profile, &mut Settings) = |_, settings| {
        settings.overload.idle_transaction_timeout = millis(2_000);
        settings.overload.transaction_timeout = millis(3_500);
    };
    let found = forgotten_transaction(pause, adjust);
    assert_eq!(found.class("other").refused(), 0);
    assert_eq!(errors(&found, "held", 1927), 1, "{:?}", found.class("held").errors);
}
