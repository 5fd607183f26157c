//! A flash crowd that asks for the same things, with and without `coalesce_reads`; and that seeds meet it at all.

use std::time::Duration;

use engine::{FairShare, Settings};
use simulator::scheduling::scenario::{Group, Row, ServerModel, Step, Table, Time};
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
        workers,
        groups: vec![Group::new(
            "readers",
            4_000,
            vec![Step::new("read", Action::Read, 0, Row::Popular(1_000))],
        )],
        length: Duration::from_secs(6),
        warm_up: Duration::from_secs(1),
        adjust,
        ..Scenario::of("popular", "A popular page", server)
    };
    run(&scenario, Profile::Native, 1).outcome
}

#[test]
fn a_crowd_is_answered_by_few_executions() {
    let apart = crowd(1, |_, _| {});
    assert!(apart.rate("read") <= 1.05 * CAPACITY, "{} a second", apart.rate("read"));
    for (workers, times) in [(1, 4.0), (3, 2.0)] {
        let together = crowd(workers, |_, settings| settings.coalescing.reads = true);
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
    for seed in (1..).filter(|&seed| Parameters::draw(seed, 0).coalescing.reads).take(SEEDS as usize) {
        let outcome = run_engine(Parameters::draw(seed, 0), false);
        assert_eq!(outcome.violation, None, "replay: cargo run -p simulator -- --seed {seed}");
        // Some executions are answered to nobody: only what is answered more often than it ran is certain.
        answers += outcome.popular.0.saturating_sub(outcome.popular.1);
        executions += outcome.popular.1;
    }
    assert!(answers > 20, "{answers} of {executions} executions answered more than one");
}

/// A server that runs one statement at a time, behind one permit: what waits, waits here. The second table's statements take
/// a second and a half.
fn gate(groups: Vec<Group>, adjust: fn(Profile, &mut Settings)) -> Outcome {
    let millisecond = Table { cpu: Time::millis(1), wait: Time::NONE };
    let gate = Table { cpu: Time::micros(100), wait: Time::millis(1_500) };
    let scenario = Scenario {
        groups,
        length: Duration::from_secs(4),
        adjust,
        ..Scenario::of("gate", "Reads behind a gate", ServerModel::of_cores(1, &[millisecond, gate]))
    };
    run(&scenario, Profile::Native, 1).outcome
}

/// One permit that is never lent.
fn one_permit(settings: &mut Settings) {
    settings.permits = 1;
    settings.coalescing.reads = true;
    settings.statements_in_flight = 1;
    settings.stall_limit = Duration::from_secs(600);
}

/// Clients that each say one thing, all at the same moment.
fn once(name: &'static str, clients: u32, millis: u64, row: Row) -> Group {
    Group {
        times: 1,
        from: Duration::from_millis(millis),
        // No second time after an error.
        until: Duration::from_millis(millis + 5),
        spread: Duration::ZERO,
        ..Group::new(name, clients, vec![Step::new(name, Action::Read, 0, row)])
    }
}

/// Has the permit for the first second and a half.
fn blocker() -> Group {
    Group { times: 1, ..Group::new("gate", 1, vec![Step::new("gate", Action::Read, 1, Row::Own)]) }
}

#[test]
fn who_takes_over_has_waited_for_its_own_time() {
    let groups = || {
        vec![blocker(), once("first", 1, 300, Row::Popular(1)), once("later", 200, 1_000, Row::Popular(1))]
    };
    for fair_share in [false, true] {
        let adjust: fn(Profile, &mut Settings) = match fair_share {
            false => |_, settings| {
                one_permit(settings);
                settings.overload.queue_wait_limit = Duration::from_secs(1);
            },
            true => |_, settings| {
                one_permit(settings);
                settings.overload.queue_wait_limit = Duration::from_secs(1);
                settings.shares.fair_share = FairShare::User;
            },
        };
        let found = gate(groups(), adjust);
        let [first, later] = ["first", "later"].map(|class| found.class(class));
        assert_eq!((first.done(), first.refused()), (0, 1), "fair shares: {fair_share}");
        assert_eq!((later.done(), later.refused()), (200, 0), "fair shares: {fair_share}");
    }
}

#[test]
fn a_standing_delay_is_seen_beside_popular_reads() {
    let crowd = Group::new("crowd", 1_000, vec![Step::new("crowd", Action::Read, 0, Row::Own)]);
    // One of them comes every few milliseconds, and follows another one.
    let popular = Group {
        think: Time::about(500_000),
        ..Group::new("popular", 100, vec![Step::new("popular", Action::Read, 0, Row::Popular(1))])
    };
    let found = gate(vec![crowd, popular], |_, settings| {
        one_permit(settings);
        settings.overload.queue_delay_target = Duration::from_millis(20);
    });
    assert!(found.class("crowd").refused() > 10_000, "{}", found.class("crowd").refused());
    // What came before the delay was known to stand aside.
    let waited = found.class("crowd").waited.per_mille(800);
    assert!(waited <= 25_000, "{waited}");
}

#[test]
fn what_is_too_much_is_not_what_answers_many() {
    let groups = vec![
        blocker(),
        once("alone", 10, 300, Row::Own),
        // One place more than there are, in one turn.
        once("popular", 30, 500, Row::Popular(1)),
    ];
    let found = gate(groups, |_, settings| {
        one_permit(settings);
        settings.overload.queue_limit = 10;
    });
    let [alone, popular] = ["alone", "popular"].map(|class| found.class(class));
    assert_eq!((alone.done(), alone.refused()), (9, 1));
    assert_eq!((popular.done(), popular.refused()), (30, 0));
}

#[test]
fn a_full_group_is_followed_by_another() {
    let groups = || vec![blocker(), once("popular", 300, 300, Row::Popular(1))];
    for (most, executions) in [(1_000, 1), (99, 3)] {
        let adjust: fn(Profile, &mut Settings) = match most {
            99 => |_, settings| {
                one_permit(settings);
                settings.coalescing.most = 99;
            },
            _ => |_, settings| one_permit(settings),
        };
        let found = gate(groups(), adjust);
        assert_eq!((found.class("popular").done(), found.begun), (300, 1 + executions), "{most}");
    }
}

#[test]
fn all_of_a_group_are_told_that_it_has_run_for_too_long() {
    let slow = Step::new("slow", Action::Read, 1, Row::Popular(1));
    let slow = Group { program: vec![slow], ..once("slow", 50, 100, Row::Popular(1)) };
    let found = gate(vec![once("first", 1, 0, Row::Own), slow], |_, settings| {
        one_permit(settings);
        settings.overload.query_timeout = Duration::from_millis(300);
    });
    let slow = found.class("slow");
    assert_eq!(slow.errors.get(&1317), Some(&50), "{:?}", slow.errors);
    assert_eq!(slow.done(), 0);
}

#[test]
fn a_reply_that_is_too_large_for_all_goes_to_each() {
    let groups = vec![blocker(), once("popular", 100, 300, Row::Popular(1))];
    let found = gate(groups, |_, settings| {
        one_permit(settings);
        settings.coalescing.reply_size = 10;
        // They have waited for a second and a quarter by then, and start in the tenth of a second after it.
        settings.overload.queue_wait_limit = Duration::from_millis(1_400);
    });
    let popular = found.class("popular");
    assert_eq!((popular.done(), popular.refused(), found.begun), (100, 0, 101));
}
