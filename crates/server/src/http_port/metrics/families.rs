//! Metrics that are more than one of the counters of SHOW STATUS.

use engine::{Waits, WorkerView};

use super::{Family, Figures, Kind, Scene};
use crate::admin_port::limits;

/// What counters of one name have in common.
pub(super) const IN_COMMON: &[(&str, &str)] = &[
    ("network_bytes", "Bytes received and sent, from and to clients and servers."),
    (
        "statements_by_backend",
        "Statements by where they could run: on any backend, on that of their transaction, or on that which their client is \
         pinned to.",
    ),
    (
        "would_refuse",
        "Statements that an option which is off would have refused, with the value that the docs advise.",
    ),
];

/// All of them.
pub(super) const ALL: &[Family] = &[
    Family {
        name: "build_info",
        help: "1, with what runs.",
        kind: Kind::Gauge,
        labels: &["version", "driver"],
        figures: |scene, figures| {
            let driver = scene.control.program.driver.to_string();
            figures.count(&[("version", env!("CARGO_PKG_VERSION")), ("driver", &driver)], 1);
        },
    },
    Family {
        name: "ending",
        help: "Whether Onramp ends, and takes no new clients: 1 or 0.",
        kind: Kind::Gauge,
        labels: &[],
        figures: |scene, figures| figures.count(&[], u64::from(scene.control.is_ending())),
    },
    Family {
        name: "server_up",
        help: "Whether the server answered last, all workers agreeing: 1 or 0.",
        kind: Kind::Gauge,
        labels: &[],
        figures: |scene, figures| {
            figures.count(&[], u64::from(views(scene).all(|view| view.server_is_up)));
        },
    },
    Family {
        name: "queue_statements",
        help: "Statements that wait, by queue.",
        kind: Kind::Gauge,
        labels: &["queue"],
        figures: queues,
    },
    Family {
        name: "queue_oldest_seconds",
        help: "How long the statement has waited that has waited longest for a backend; 0 where none does.",
        kind: Kind::Gauge,
        labels: &[],
        figures: |scene, figures| {
            let oldest = views(scene).filter_map(|view| view.oldest_queued).max();
            figures.number(&[], oldest.unwrap_or_default().as_secs_f64());
        },
    },
    Family {
        name: "wait_seconds",
        help: "How long statements have waited before they ran, and for what; the queues' own hold all waits in them.",
        kind: Kind::Histogram,
        labels: &["reason"],
        figures: waits,
    },
    Family {
        name: "limit",
        help: "Bounds by the option that sets them, in the unit of the admin port's table limits; those that are off are absent.",
        kind: Kind::Gauge,
        labels: &["option"],
        figures: |scene, figures| {
            for limit in limits(scene).values() {
                limit.bound.inspect(|&bound| figures.count(&[("option", limit.option)], bound));
            }
        },
    },
    Family {
        name: "limit_in_use",
        help: "How much of a bound is in use, where that is known.",
        kind: Kind::Gauge,
        labels: &["option"],
        figures: |scene, figures| {
            for limit in limits(scene).values() {
                limit.in_use.inspect(|&in_use| figures.count(&[("option", limit.option)], in_use));
            }
        },
    },
    Family {
        name: "limit_reached",
        help: "How often a bound was reached.",
        kind: Kind::Counter,
        labels: &["option"],
        figures: |scene, figures| {
            for limit in limits(scene).values() {
                figures.count(&[("option", limit.option)], limit.reached);
            }
        },
    },
];

fn views<'a>(scene: &Scene<'a>) -> impl Iterator<Item = &'a WorkerView> + use<'a> {
    scene.glance.wholes.values().map(|whole| &whole.view)
}

fn limits(scene: &Scene<'_>) -> std::collections::BTreeMap<&'static str, admin::tables::Limit> {
    limits::all(scene.control, &scene.glance.wholes, None)
}

fn queues(scene: &Scene<'_>, figures: &mut Figures) {
    let mut queues = std::collections::BTreeMap::new();
    for (queue, waiting) in views(scene).flat_map(|view| view.queued) {
        *queues.entry(queue).or_default() += waiting as u64;
    }
    for (queue, waiting) in queues {
        figures.count(&[("queue", queue)], waiting);
    }
}

fn waits(scene: &Scene<'_>, figures: &mut Figures) {
    let mut together = Waits::default();
    for waits in scene.glance.wholes.values().filter_map(|whole| whole.waits.as_ref()) {
        together += waits;
    }
    for (reason, times) in together.iter() {
        figures.times(&[("reason", reason.name())], times);
    }
}
