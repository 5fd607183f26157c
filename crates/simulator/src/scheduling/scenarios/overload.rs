//! Scenarios of more work than a server can do, and of everybody at once.

use super::super::figures::{Figure, Outcome};
use super::super::scenario::{Accounts, Compares, Group, Picture, Row, Scenario, Step, Table, Time};
use super::super::server::OTHER_USER;
use super::super::statement::Action;
use super::{POINT_SELECT, Scale, millis, plain, seconds};

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
        compares: Compares::PoolsAndBounds,
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
            unit: super::super::figures::Unit::Seconds,
        },
    ]
}

/// Clients that give up after a second, connect again and repeat their statement.
pub fn repeat_storm(scale: Scale) -> Scenario {
    let figures: fn(&Outcome, Option<&Outcome>) -> Vec<Figure> = |outcome, _| {
        let read = outcome.class("read");
        vec![
            Figure::percent(
                "run for nobody, of all that ran",
                (outcome.for_nobody + outcome.left) as f64,
                outcome.begun as f64,
            ),
            Figure::count("begun for clients that had gone", outcome.for_nobody),
            Figure::count("given up", read.given_up),
            Figure {
                name: "until service is normal again",
                // Below half of the patience.
                value: read.slow_until(STORM_ENDS, 500_000),
                unit: super::super::figures::Unit::Seconds,
            },
        ]
    };
    Scenario {
        story: "6,000 clients ask for 3,000 statements a second, three quarters of what the server can. They wait for a \
            second, then hang up, connect and say it again. Once a table lock of five seconds has made all of them impatient \
            they ask for 6,000 a second, and a server that runs each of those for nobody never gets out of it. *Run for \
            nobody* is what began when its client had gone, or was left before its client had the answer.",
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
        compares: Compares::PoolsOrdersAndBounds,
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

/// One user's crowd beside another's light load.
pub fn fair_share(scale: Scale) -> Scenario {
    Scenario {
        story: "100 clients of one user ask for 900 statements a second, not a quarter of what the server can; 4,000 of another \
            user ask for ten times as much as it can, without a pause worth speaking of. First come, first served, the first \
            user's statements wait in one queue with the crowd's. Where the server's time is shared out between users, a user \
            that wants less than its share has what it wants, and the crowd the rest. `native` shares it out as soon as it sees that \
            one user crowds out another (`fair_share = crowding`, the default).",
        groups: vec![
            Group {
                think: Time::about(110_000),
                ..Group::new("light", 100, vec![Step::new("light", Action::Read, 0, Row::Own)])
            },
            Group {
                accounts: Accounts::One(OTHER_USER),
                think: Time::about(100_000),
                ..Group::new(
                    "crowd",
                    scale.of(4_000, 2_000),
                    vec![Step::new("crowd", Action::Read, 0, Row::Own)],
                )
            },
        ],
        length: scale.of(seconds(20), seconds(4)),
        warm_up: seconds(1),
        compares: Compares::PoolsAndShares,
        without: Some("crowd"),
        figures: |outcome, without| {
            let p99 = |outcome: &Outcome| outcome.class("light").response.per_mille(990);
            vec![
                Figure::seconds("p99 of the light user", p99(outcome)),
                Figure::seconds("p99 without the crowd", without.map_or(0, p99)),
                Figure::per_second("statements of the light user", outcome.rate("light")),
                Figure::per_second("statements of both", outcome.goodput()),
            ]
        },
        ..plain("fair_share", "One user's crowd beside another's light load", 4, &[MILLISECOND])
    }
}
