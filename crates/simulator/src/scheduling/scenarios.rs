//! The scenarios: what is known to hurt thread pools, each small enough to be read.

use std::time::Duration;

use super::figures::{Figure, Outcome};
use super::scenario::{Group, Picture, Place, Row, Scenario, ServerModel, Step, Table, Time};
use super::statement::Action;

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
        lock_tables(scale),
        queued_holder(scale),
        user_lock(scale),
        one_second(scale),
        convoy(scale),
        imbalance(scale),
        flash_crowd(scale),
        repeat_storm(scale),
        login_storm(scale),
        million(scale),
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
    Scenario {
        name,
        title,
        story: "",
        workers: cores,
        server: ServerModel::of_cores(cores, tables),
        groups: Vec::new(),
        ramp: seconds(1),
        length: seconds(20),
        warm_up: Duration::ZERO,
        adjust: |_, _| {},
        without: None,
        picture: Picture::FirstFigure,
        figures: |_, _| Vec::new(),
    }
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
            microseconds. Under `mysql` the settings are those of the manual, else the profile's own.",
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

/// FLUSH TABLES WITH READ LOCK, many writers, and the UNLOCK TABLES.
pub fn flush_tables(scale: Scale) -> Scenario {
    let writers = scale.of(500, 100);
    Scenario {
        story: "500 clients write; one says FLUSH TABLES WITH READ LOCK, makes its copy for two seconds, and says UNLOCK \
            TABLES. Meanwhile all writers wait inside the server, on every thread that there is: with a limit on threads \
            the UNLOCK finds none (adminmysqllinux.blogspot.com, October 2014; MDEV-38219), which is why limits of 500 became \
            100,000.",
        groups: vec![
            Group {
                think: Time::about(20_000),
                ..Group::new("writers", writers, vec![Step::new("write", Action::Write, 0, Row::Own)])
            },
            Group {
                think: Time::about(20_000),
                ..Group::new("readers", 50, vec![Step::new("read", Action::Read, 0, Row::Own)])
            },
            Group {
                from: seconds(3),
                times: 1,
                ..Group::new(
                    "backup",
                    1,
                    vec![
                        Step::new("FLUSH TABLES", Action::GlobalReadLock, 0, Row::Own)
                            .then(Time::millis(2000)),
                        Step::new("UNLOCK TABLES", Action::Unlock, 0, Row::Own),
                    ],
                )
            },
        ],
        length: scale.of(seconds(15), seconds(7)),
        picture: Picture::OverTime { class: "read" },
        figures: |outcome, _| {
            vec![
                Figure::seconds("FLUSH TABLES takes", outcome.class("FLUSH TABLES").slowest_response()),
                Figure::seconds("UNLOCK TABLES takes", outcome.class("UNLOCK TABLES").slowest_response()),
                Figure::seconds("longest wait of a read", outcome.class("read").waited.longest()),
            ]
        },
        ..plain("flush_tables", "FLUSH TABLES WITH READ LOCK and 500 writers", 4, &[POINT_SELECT])
    }
}

/// LOCK TABLES with more clients on the table than there may be active threads.
pub fn lock_tables(scale: Scale) -> Scenario {
    let hold = scale.of(10_000, 3_000);
    Scenario {
        story: "One client locks a table for ten seconds, as a maintenance job does; 64 clients use that table, four times \
            as many as a pool of four groups with thread_pool_oversubscribe 3 lets be active; 50 use another table. Percona \
            counts those that wait in the server as busy and starts nothing new (forums.percona.com, 34198); MariaDB adds a \
            thread for each tick of the stall timer.",
        groups: vec![
            Group {
                think: Time::about(10_000),
                ..Group::new("blocked", 64, vec![Step::new("blocked", Action::Read, 0, Row::Own)])
            },
            Group {
                think: Time::about(10_000),
                ..Group::new("others", 50, vec![Step::new("other", Action::Read, 1, Row::Own)])
            },
            Group {
                from: seconds(2),
                times: 1,
                ..Group::new(
                    "locker",
                    1,
                    vec![
                        Step::new("LOCK TABLES", Action::LockTable, 0, Row::Own).then(Time::millis(hold)),
                        Step::new("UNLOCK TABLES", Action::Unlock, 0, Row::Own),
                    ],
                )
            },
        ],
        length: scale.of(seconds(20), seconds(8)),
        picture: Picture::OverTime { class: "other" },
        figures: |outcome, _| {
            vec![
                Figure::seconds("longest wait on the other table", outcome.class("other").waited.longest()),
                Figure::seconds("UNLOCK TABLES takes", outcome.class("UNLOCK TABLES").slowest_response()),
            ]
        },
        ..plain("lock_tables", "LOCK TABLES beyond the oversubscribe limit", 4, &[POINT_SELECT, POINT_SELECT])
    }
}

/// All permits wait for a row whose holder is queued.
pub fn queued_holder(scale: Scale) -> Scenario {
    let clients = scale.of(500, 200);
    Scenario {
        story: "500 clients run the same transaction: it updates one row that all of them want, pauses for a millisecond, \
            updates a row of its own, and commits. Whoever has the row needs a thread three times, while everybody else is \
            waiting for it on all threads that there are (MDEV-38219, MDEV-10297). The server by itself does about 350 of \
            them a second: a millisecond's pause, five ways over the network, and the log.",
        groups: vec![Group::new(
            "transactions",
            clients,
            vec![
                Step::new("BEGIN", Action::Begin, 0, Row::Own),
                Step::new("common row", Action::Write, 0, Row::Same(1)).then(Time::micros(1000)),
                Step::new("own row", Action::Write, 1, Row::Own),
                Step::new("COMMIT", Action::Commit, 0, Row::Own),
            ],
        )],
        length: scale.of(seconds(20), seconds(8)),
        warm_up: seconds(2),
        figures: |outcome, _| {
            vec![
                Figure::per_second("transactions", outcome.rate("COMMIT")),
                Figure::seconds(
                    "longest wait of the holder's update",
                    outcome.class("own row").waited.longest(),
                ),
                Figure::seconds("longest wait of a COMMIT", outcome.class("COMMIT").waited.longest()),
            ]
        },
        ..plain(
            "queued_holder",
            "All permits wait for a holder that is queued",
            4,
            &[POINT_SELECT, POINT_SELECT],
        )
    }
}

/// The same with GET_LOCK, which is outside of transactions.
pub fn user_lock(scale: Scale) -> Scenario {
    let clients = scale.of(300, 100);
    Scenario {
        story: "300 clients take turns with GET_LOCK: each reads a row under it and releases it. No transaction is open, \
            so that only Percona's pool gives the holder's statements the high queue.",
        groups: vec![Group::new(
            "takers",
            clients,
            vec![
                Step::new("GET_LOCK", Action::GetLock { timeout: 600 }, 0, Row::Same(1))
                    .then(Time::micros(1000)),
                Step::new("read", Action::Read, 0, Row::Own),
                Step::new("RELEASE_LOCK", Action::ReleaseLock, 0, Row::Same(1)),
            ],
        )],
        length: scale.of(seconds(20), seconds(8)),
        warm_up: seconds(2),
        figures: |outcome, _| {
            vec![
                Figure::per_second("turns", outcome.rate("RELEASE_LOCK")),
                Figure::seconds("longest wait of the holder", outcome.class("RELEASE_LOCK").waited.longest()),
            ]
        },
        ..plain("user_lock", "GET_LOCK and a holder that is queued", 4, &[POINT_SELECT])
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

/// A read of a millisecond: four cores do 4,000 of them a second.
const MILLISECOND: Table = Table { cpu: Time::about(1_000), wait: Time::NONE };

/// Ten times the capacity, for a minute.
pub fn flash_crowd(scale: Scale) -> Scenario {
    let crowd = Group {
        from: seconds(CROWD.0),
        until: seconds(scale.of(CROWD.1, CROWD_SMALL)),
        spread: millis(500),
        think: Time::about(200_000),
        ..Group::new("crowd", 8_000, vec![Step::new("crowd", Action::Read, 0, Row::Own)])
    };
    let figures: fn(&Outcome, Option<&Outcome>) -> Vec<Figure> = match scale {
        Scale::Full => |outcome, _| crowd_figures(outcome, CROWD.1),
        Scale::Small => |outcome, _| crowd_figures(outcome, CROWD_SMALL),
    };
    Scenario {
        story: "200 clients ask for 2,000 statements a second, half of what the server can; after ten seconds come 8,000 \
            others and ask for 40,000 a second, ten times the capacity, for a minute.",
        groups: vec![
            Group {
                think: Time::about(100_000),
                ..Group::new("regulars", 200, vec![Step::new("regular", Action::Read, 0, Row::Own)])
            },
            crowd,
        ],
        length: scale.of(seconds(CROWD.1 + 10), seconds(CROWD_SMALL + 6)),
        picture: Picture::OverTime { class: "regular" },
        figures,
        ..plain("flash_crowd", "A flash crowd at ten times the capacity", 4, &[MILLISECOND])
    }
}

/// When the crowd comes and goes, in seconds from the first statement on.
const CROWD: (u64, u64) = (10, 70);
const CROWD_SMALL: u64 = 16;

fn crowd_figures(outcome: &Outcome, gone: u64) -> Vec<Figure> {
    let (regular, crowd) = (outcome.class("regular"), outcome.class("crowd"));
    // The first second is that of the crowd's coming.
    let from = CROWD.0 + 1;
    let done = regular.done_between(from, gone) + crowd.done_between(from, gone);
    let capacity = 4_000 * (gone - from);
    let both = |share| regular.waited.per_mille(share).max(crowd.waited.per_mille(share));
    vec![
        Figure::percent("goodput during the crowd, of capacity", done as f64, capacity as f64),
        Figure::seconds("p99 of waiting, of those that were accepted", both(990)),
        Figure::seconds("longest wait", regular.waited.longest().max(crowd.waited.longest())),
        Figure::count("refused", regular.refused() + crowd.refused()),
        Figure {
            name: "until regular service is normal again",
            value: regular.slow_until(gone, 100_000),
            unit: super::figures::Unit::Seconds,
        },
    ]
}

/// Clients that give up after a second, connect again and repeat their statement.
pub fn repeat_storm(scale: Scale) -> Scenario {
    let figures: fn(&Outcome, Option<&Outcome>) -> Vec<Figure> = |outcome, _| {
        let read = outcome.class("read");
        vec![
            Figure::count("statements run for clients that had gone", outcome.for_nobody),
            Figure::percent("of all that ran", outcome.for_nobody as f64, outcome.begun as f64),
            Figure::count("given up", read.given_up),
            Figure {
                name: "until service is normal again",
                // Below half of the patience.
                value: read.slow_until(STORM_ENDS, 500_000),
                unit: super::figures::Unit::Seconds,
            },
        ]
    };
    Scenario {
        story: "6,000 clients ask for 3,000 statements a second, three quarters of what the server can. They wait for a \
            second, then hang up, connect and say it again. Once a table lock of five seconds has made all of them impatient \
            they ask for 6,000 a second, and a server that runs each of those for nobody never gets out of it.",
        groups: vec![
            Group {
                spread: seconds(2),
                think: Time::about(2_000_000),
                patience: Some(seconds(1)),
                ..Group::new("clients", 6_000, vec![Step::new("read", Action::Read, 0, Row::Own)])
            },
            Group {
                from: seconds(STORM_ENDS - 5),
                times: 1,
                ..Group::new(
                    "locker",
                    1,
                    vec![
                        Step::new("LOCK TABLES", Action::LockTable, 0, Row::Own).then(Time::millis(5_000)),
                        Step::new("UNLOCK TABLES", Action::Unlock, 0, Row::Own),
                    ],
                )
            },
        ],
        length: scale.of(seconds(STORM_ENDS + 25), seconds(STORM_ENDS + 10)),
        warm_up: seconds(2),
        picture: Picture::OverTime { class: "read" },
        figures,
        ..plain("repeat_storm", "The reconnect-and-repeat storm", 4, &[MILLISECOND])
    }
}

/// When the lock is given back that set the storm off, in seconds from the first statement on.
const STORM_ENDS: u64 = 10;

/// Everybody connects at once.
pub fn login_storm(scale: Scale) -> Scenario {
    let many = scale.of(20_000, 2_000);
    Scenario {
        story: "200 clients read rows, 9,600 times a second; after two seconds 20,000 others connect within 100 ms, as they \
            do after a failover. In Percona Server and MariaDB threads of the pool do the logins.",
        groups: vec![
            Group {
                think: Time::about(20_000),
                ..Group::new("running", 200, vec![Step::new("read", Action::Read, 0, Row::Own)])
            },
            Group {
                connects: Some(seconds(2)),
                times: 0,
                ..Group::new("storm", many, vec![Step::new("read", Action::Read, 0, Row::Own)])
            },
        ],
        length: scale.of(seconds(10), seconds(3)),
        warm_up: seconds(1),
        figures: |outcome, _| {
            vec![
                Figure::seconds(
                    "longest response to those that were there",
                    outcome.class("read").response.longest(),
                ),
                Figure::seconds("p99.9", outcome.class("read").response.per_mille(999)),
                Figure::seconds("longest login", outcome.longest_login),
                Figure::count("logins refused", outcome.refused_logins),
            ]
        },
        ..plain("login_storm", "20,000 connect at once", 4, &[POINT_SELECT])
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
