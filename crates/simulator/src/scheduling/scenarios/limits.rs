//! Scenarios of one load each, under fixed numbers of permits and under the limit that the pool finds by itself.

use super::super::figures::{Figure, Outcome};
use super::super::profile::Profile;
use super::super::scenario::{Compares, Group, Row, Scenario, Step, Table, Time};
use super::super::statement::Action;
use super::{POINT_SELECT, Scale, plain, seconds};

/// Updates that need nothing but a core.
pub fn limit_cpu(scale: Scale) -> Scenario {
    let mut scenario = Scenario {
        story: "1,000 clients update rows of their own, 200 microseconds of a core each, with a log that is not waited for. \
            Four cores need four permits, and as many for what is on its way; each further thread costs a little.",
        ..limit(
            "limit_cpu",
            "The limit for a load on the cores",
            scale,
            Table { cpu: Time::about(200), wait: Time::NONE },
        )
    };
    scenario.server.sync = Time::NONE;
    scenario
}

/// Updates that wait for a disk most of the time.
pub fn limit_disk(scale: Scale) -> Scenario {
    Scenario {
        story: "1,000 clients update rows of their own: 100 microseconds of a core, and five milliseconds of waiting for a \
            disk that takes any number at once. It takes some 200 permits to keep four cores busy.",
        ..limit(
            "limit_disk",
            "The limit for a load on the disk",
            scale,
            Table { cpu: Time::about(100), wait: Time::about(5_000) },
        )
    }
}

/// Transactions that want the same few rows.
pub fn limit_locks(scale: Scale) -> Scenario {
    let program = vec![
        Step::new("BEGIN", Action::Begin, 0, Row::Own),
        Step::new("common row", Action::Write, 0, Row::Among(16)),
        Step::new("own row", Action::Write, 1, Row::Own),
        Step::new("COMMIT", Action::Commit, 0, Row::Own),
    ];
    Scenario {
        story: "1,000 clients run a transaction that updates one of 16 rows, then a row of its own, and commits: what limits it \
            is how fast holders come to their COMMITs, and more permits help ever less.",
        groups: vec![Group::new("clients", 1_000, program)],
        ..limit("limit_locks", "The limit for a load on a few rows", scale, POINT_SELECT)
    }
}

fn limit(name: &'static str, title: &'static str, scale: Scale, table: Table) -> Scenario {
    Scenario {
        groups: vec![Group::new("clients", 1_000, vec![Step::new("update", Action::Write, 0, Row::Own)])],
        length: scale.of(seconds(20), seconds(6)),
        // The rest is for finding the limit.
        warm_up: scale.of(seconds(12), seconds(3)),
        compares: Compares::Limits(&[4, 8, 16, 32, 64, 128, 256]),
        adjust: |profile, settings| {
            if profile == Profile::Native {
                settings.permits = 0;
                settings.permits_max = 256;
            }
        },
        figures: |outcome, _| {
            let last = outcome.classes.last().expect("a class");
            vec![
                Figure::per_second("statements", outcome.goodput()),
                Figure::seconds("p99 of the response", slowest(outcome)),
                Figure::per_second("whole programs", last.done() as f64 / (outcome.measured as f64 / 1e6)),
            ]
        },
        ..plain(name, title, 4, &[table, table])
    }
}

fn slowest(outcome: &Outcome) -> u64 {
    outcome.classes.iter().map(|class| class.response.per_mille(990)).max().unwrap_or(0)
}
