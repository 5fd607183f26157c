//! Scenarios of locks: those that have one must not wait for those that want it.

use super::super::figures::Figure;
use super::super::scenario::{Group, Picture, Row, Scenario, Step, Time};
use super::super::statement::Action;
use super::{POINT_SELECT, Scale, plain, seconds};

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

/// The same with few connections to the server, several kinds of writes, and readers in another schema.
pub fn flush_tables_few_backends(scale: Scale) -> Scenario {
    let mut scenario = flush_tables(scale);
    scenario.name = "flush_tables_few_backends";
    scenario.title = "FLUSH TABLES WITH READ LOCK with 128 connections to the server";
    scenario.story = "The same with 128 connections to the server, which the writers would take one after the other, and one worker. \
        The writers use four tables in turn, each with a statement of its own; the readers are in another schema, so that connections \
        change schemas all the time.";
    let write = |table| Step::new("write", Action::Write, table, Row::Own).then(Time::about(20_000));
    let writers = Group {
        clients: 500,
        schema: Some("shop"),
        think: Time::NONE,
        program: (0..4).map(write).collect(),
        ..scenario.groups[0].clone()
    };
    let readers = Group { schema: Some("blog"), ..scenario.groups[1].clone() };
    let backup = Group { schema: Some("shop"), ..scenario.groups[2].clone() };
    scenario.groups = vec![writers, readers, backup];
    scenario.server.tables = vec![POINT_SELECT; 4];
    scenario.adjust = |_, settings| settings.max_backends = 128;
    scenario.workers = 1;
    scenario
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

/// LOCK TABLES, and the same statement about a table of the same name in another schema.
pub fn lock_tables_other_schema(scale: Scale) -> Scenario {
    let mut scenario = lock_tables(scale);
    scenario.name = "lock_tables_other_schema";
    scenario.title = "LOCK TABLES, and the same statement in another schema";
    scenario.story = "The same with 500 clients that use the table and 128 connections to the server, and with one worker. The others \
        send the very same statement, about a table of that name in another schema: whatever a pool remembers of a statement must not be \
        of its text alone.";
    scenario.groups[0].clients = 500;
    scenario.groups[0].think = Time::about(100_000);
    for (group, schema) in scenario.groups.iter_mut().zip(["shop", "blog", "shop"]) {
        group.schema = Some(schema);
    }
    scenario.groups[1].program[0].table = 0;
    scenario.adjust = |_, settings| settings.max_backends = 128;
    scenario.workers = 1;
    scenario
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

/// Very many clients that want one row, beside few that want something else.
pub fn pile_up(scale: Scale) -> Scenario {
    let clients = scale.of(2_000, 500);
    Scenario {
        story: "2,000 clients update the same row, in a transaction of three statements each, as a counter of views is counted; 64 \
            others read rows of another table, with a connection limit of 128 to the server. The row changes hands at most some \
            1,600 times a second, and less often where readers keep the cores busy; the readers could have almost all of the cores.",
        groups: vec![
            Group::new(
                "counters",
                clients,
                vec![
                    Step::new("BEGIN", Action::Begin, 0, Row::Own),
                    Step::new("common row", Action::Write, 0, Row::Same(1)),
                    Step::new("COMMIT", Action::Commit, 0, Row::Own),
                ],
            ),
            Group::new("readers", 64, vec![Step::new("read", Action::Read, 1, Row::Own)]),
        ],
        length: scale.of(seconds(20), seconds(6)),
        warm_up: seconds(2),
        without: Some("counters"),
        adjust: |_, settings| settings.max_backends = 128,
        figures: |outcome, without| {
            let alone = without.map_or(0.0, |outcome| outcome.rate("read"));
            vec![
                Figure::per_second("reads", outcome.rate("read")),
                Figure::percent("of those without the others", outcome.rate("read"), alone),
                Figure::seconds("longest wait of a read", outcome.class("read").waited.longest()),
                Figure::per_second("transactions", outcome.rate("COMMIT")),
            ]
        },
        ..plain("pile_up", "2,000 clients at one row, beside readers", 4, &[POINT_SELECT, POINT_SELECT])
    }
}

/// The same where each update commits by itself.
pub fn pile_up_of_updates(scale: Scale) -> Scenario {
    let mut scenario = pile_up(scale);
    scenario.name = "pile_up_of_updates";
    scenario.title = "2,000 clients with single updates of one row, beside readers";
    scenario.story = "The same with updates that commit by themselves.";
    scenario.groups[0].program = vec![Step::new("COMMIT", Action::Write, 0, Row::Same(1))];
    scenario
}

/// All permits wait for a user lock: GET_LOCK, which is outside of transactions.
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
