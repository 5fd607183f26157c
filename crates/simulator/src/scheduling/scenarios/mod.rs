//! The scenarios: what is known to hurt thread pools, each small enough to be read.

mod limits;
mod locks;
mod overload;

use std::time::Duration;

pub use limits::{limit_cpu, limit_disk, limit_locks};
pub use locks::{
    flush_tables, flush_tables_few_backends, lock_tables, lock_tables_other_schema, pile_up,
    pile_up_of_updates, queued_holder, user_lock,
};
pub use overload::{fair_share, flash_crowd, login_storm, repeat_storm};

use crate::scheduling::figures::{Figure, Outcome};
use crate::scheduling::scenario::{Group, Place, Row, Scenario, ServerModel, Step, Table, Time};
use crate::scheduling::statement::Action;

/// How large scenarios are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// As they are shown.
    Full,
    /// With fewer clients or less time, for tests.
    Small,
}

impl Scale {
    fn of<T>(self, full: T, small: T) -> T {
        match self {
            Self::Full => full,
            Self::Small => small,
        }
    }
}

/// All of them, in the order in which they are shown.
pub fn all(scale: Scale) -> Vec<Scenario> {
    vec![
        starvation(scale),
        flush_tables(scale),
        flush_tables_few_backends(scale),
        lock_tables(scale),
        lock_tables_other_schema(scale),
        queued_holder(scale),
        user_lock(scale),
        pile_up(scale),
        pile_up_of_updates(scale),
        one_second(scale),
        convoy(scale),
        imbalance(scale),
        flash_crowd(scale),
        repeat_storm(scale),
        login_storm(scale),
        fair_share(scale),
        million(scale),
        limit_cpu(scale),
        limit_locks(scale),
        limit_disk(scale),
    ]
}

/// A read of one row that is in memory: BASELINES of two cores say 11,000 to 37,000 a second.
const POINT_SELECT: Table = Table { cpu: Time::about(100), wait: Time::NONE };

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What most scenarios have in common.
fn plain(name: &'static str, title: &'static str, cores: u32, tables: &[Table]) -> Scenario {
    Scenario::of(name, title, ServerModel::of_cores(cores, tables))
}

/// Oracle's manual, "Thread Pool Tuning": 222 seconds.
pub fn starvation(scale: Scale) -> Scenario {
    let low = scale.of(200, 40);
    let long = Table { cpu: Time::micros(100), wait: Time { from: 300_000_000, to: 300_000_000 } };
    let read = |class, table| Step::new(class, Action::Read, table, Row::Own);
    Scenario {
        story: "Oracle's manual works out how long a new statement can wait in a thread group whose high queue holds 10 \
            statements and whose low queue 200, all of them long, with a stall limit of 1 s and a kick-up timer of 10 s: \
            222 s. Here one worker is given just that, with statements of five minutes; then comes a statement of 100 \
            microseconds. Under `mysql` the settings are those of the manual, else the profile's own. (The plugin lets one \
            statement more run than thread_pool_query_threads_per_group says, hence half of the 222 s. In Percona Server \
            nothing of the low queue starts while there are as many as may be active.)",
        workers: 1,
        groups: vec![
            Group {
                times: 1,
                ..Group::new(
                    "high",
                    10,
                    vec![
                        Step::new("BEGIN", Action::Begin, 0, Row::Own).then(Time::millis(500)),
                        read("long", 1),
                    ],
                )
            },
            Group { times: 1, from: millis(700), ..Group::new("low", low, vec![read("long", 1)]) },
            Group { times: 1, from: millis(900), ..Group::new("new", 1, vec![read("new", 0)]) },
        ],
        length: scale.of(seconds(300), seconds(60)),
        adjust: |profile, settings| {
            if profile.is_mysql() {
                settings.max_transactions_limit = 0;
                settings.query_threads_per_group = 1;
                settings.stall_limit = seconds(1);
                settings.prio_kickup_timer = seconds(10);
            }
        },
        figures: |outcome, _| {
            vec![Figure::seconds("the new statement waits", outcome.class("new").waited.longest())]
        },
        ..plain("starvation", "222 seconds of starvation", 4, &[POINT_SELECT, long])
    }
}

/// One statement in a hundred takes a second.
pub fn one_second(scale: Scale) -> Scenario {
    let long = Table { cpu: Time::about(10_000), wait: Time::about(990_000) };
    let short = Table { cpu: Time::about(200), wait: Time::NONE };
    Scenario {
        story: "200 clients read rows of 200 microseconds, 10,000 times a second, half of what four cores can; 100 others \
            run a statement of a second each, most of it waiting for a disk, which makes one statement in a hundred. Groups \
            of four threads fill up with the long ones, and a stall timer of 500 ms adds a thread at a time.",
        groups: vec![
            Group {
                think: Time::about(20_000),
                ..Group::new("short", 200, vec![Step::new("short", Action::Read, 0, Row::Own)])
            },
            Group {
                spread: seconds(1),
                ..Group::new("long", 100, vec![Step::new("long", Action::Read, 1, Row::Own)])
            },
        ],
        length: scale.of(seconds(30), seconds(8)),
        warm_up: seconds(3),
        without: Some("long"),
        figures: |outcome, without| {
            let p99 = |outcome: &Outcome| outcome.class("short").response.per_mille(990);
            let alone = without.map_or(0, p99);
            vec![
                Figure::seconds("p99 of the short ones", p99(outcome)),
                Figure::seconds("p99 without the long ones", alone),
                Figure::times("the long ones make it", p99(outcome) as f64, alone as f64),
                Figure::per_second("long ones", outcome.rate("long")),
            ]
        },
        ..plain("one_second", "1 % of one-second statements among short ones", 4, &[short, long])
    }
}

/// Transactions of several statements, many more than run at once.
pub fn convoy(scale: Scale) -> Scenario {
    let clients = scale.of(4_000, 500);
    let update = |table| Step::new("update", Action::Write, table, Row::Among(1_000));
    Scenario {
        story: "4,000 clients run transactions of four updates on rows that others want as well, without a pause. First come, \
            first served, statement by statement, each transaction would hold its rows for four rounds of the whole queue \
            (percona.com, January 2014); with the statements of open transactions first, few are open at a time. Published \
            pools keep 8 to 14 % of their peak with 4,096 connections. The cores have time for \
            9,000 a second.",
        groups: vec![Group::new(
            "transactions",
            clients,
            vec![
                Step::new("BEGIN", Action::Begin, 0, Row::Own),
                update(0),
                update(1),
                update(2),
                update(3),
                Step::new("COMMIT", Action::Commit, 0, Row::Own),
            ],
        )],
        length: scale.of(seconds(20), seconds(2)),
        warm_up: millis(500),
        figures: |outcome, _| {
            vec![
                Figure::per_second("transactions", outcome.rate("COMMIT")),
                Figure::percent("of what the cores have time for", outcome.rate("COMMIT"), 9_000.0),
                Figure::seconds("p99 of waiting for a BEGIN", outcome.class("BEGIN").waited.per_mille(990)),
                Figure::seconds(
                    "p99 of the response to an update",
                    outcome.class("update").response.per_mille(990),
                ),
            ]
        },
        ..plain("convoy", "4,000 clients with transactions", 4, &[POINT_SELECT; 4])
    }
}

/// Heavy clients that all came to the same group.
pub fn imbalance(scale: Scale) -> Scenario {
    let heavy = Table { cpu: Time::about(1_000), wait: Time::about(99_000) };
    let short = |name, clients, place| Group {
        place,
        think: Time::about(10_000),
        ..Group::new(name, clients, vec![Step::new(name, Action::Read, 0, Row::Own)])
    };
    Scenario {
        story: "Connections belong to a group for life, by id modulo the number of groups. 64 clients whose statements take \
            100 ms happen to be in one group of 16, beside 20 clients with short ones; 300 clients with short ones are in the \
            other 15, which have next to nothing to do.",
        groups: vec![
            Group {
                place: Place::Worker(0),
                ..Group::new("heavy", 64, vec![Step::new("heavy", Action::Read, 1, Row::Own)])
            },
            short("beside the heavy ones", 20, Place::Worker(0)),
            short("elsewhere", 300, Place::NotWorker(0)),
        ],
        length: scale.of(seconds(20), seconds(3)),
        warm_up: seconds(1),
        figures: |outcome, _| {
            let p99 = |class: &str| outcome.class(class).response.per_mille(990);
            let (beside, elsewhere) = (p99("beside the heavy ones"), p99("elsewhere"));
            vec![
                Figure::seconds("p99 beside the heavy ones", beside),
                Figure::seconds("p99 elsewhere", elsewhere),
                Figure::times("it is the worse by", beside as f64, elsewhere as f64),
                Figure::per_second("heavy ones", outcome.rate("heavy")),
            ]
        },
        ..plain("imbalance", "Imbalance by connection id", 16, &[POINT_SELECT, heavy])
    }
}

/// A million clients on 64 workers, most of them idle.
pub fn million(scale: Scale) -> Scenario {
    let (idle, active) = scale.of((990_000, 10_000), (4_000, 1_000));
    Scenario {
        story: "A million clients on 64 workers in front of a server with 64 cores; 10,000 of them read a row every tenth of a \
            second, the others are there.",
        groups: vec![
            Group {
                spread: millis(200),
                think: Time::about(100_000),
                ..Group::new("active", active, vec![Step::new("read", Action::Read, 0, Row::Own)])
            },
            Group {
                times: 0,
                ..Group::new("idle", idle, vec![Step::new("read", Action::Read, 0, Row::Own)])
            },
        ],
        ramp: scale.of(seconds(20), seconds(1)),
        length: scale.of(seconds(10), seconds(3)),
        warm_up: seconds(1),
        figures: |outcome, _| {
            vec![
                Figure::per_second("statements", outcome.goodput()),
                Figure::seconds("p99 of waiting", outcome.class("read").waited.per_mille(990)),
                Figure::seconds("longest login", outcome.longest_login),
            ]
        },
        ..plain(
            "million",
            "A million clients on 64 workers",
            64,
            &[Table { cpu: Time::about(300), wait: Time::NONE }],
        )
    }
}
