//! Metrics of reads on replicas: of each server that they may go to, and of statements that went to the primary instead. Without
//! `read_split` there are none.

use engine::{NotSplit, Zone};

use super::{Family, Figures, Kind, Scene};
use crate::reads::ReadServer;

/// All of them.
pub(super) const ALL: &[Family] = &[
    Family {
        name: "replica_readable",
        help: "Whether reads go to a server as to a replica, where read_split is on: 1 or 0. The table servers says why not.",
        kind: Kind::Gauge,
        labels: &["server"],
        figures: |scene, figures| {
            each(scene, |server, address| {
                figures.count(&[("server", address)], u64::from(server.is_readable()));
            });
        },
    },
    Family {
        name: "replica_data_age_seconds",
        help: "How old what is read on a replica can be at most; absent where nothing is known.",
        kind: Kind::Gauge,
        labels: &["server"],
        figures: |scene, figures| {
            each(scene, |server, address| {
                if let Some(age) = server.age {
                    figures.number(&[("server", address)], age.as_secs_f64());
                }
            });
        },
    },
    Family {
        name: "server_read_weight",
        help: "In proportion to what a server gets reads beside others (read_weights), with its zone (server_zones; empty where that was not said).",
        kind: Kind::Gauge,
        labels: &["server", "zone"],
        figures: |scene, figures| {
            each(scene, |server, address| {
                let zone = server.zone.as_ref().map_or("", Zone::name);
                figures.count(&[("server", address), ("zone", zone)], u64::from(server.weight));
            });
        },
    },
    Family {
        name: "server_permits",
        help: "How many statements may run on a server at a time, where reads go to several and that is bounded.",
        kind: Kind::Gauge,
        labels: &["server"],
        figures: |scene, figures| {
            each(scene, |server, address| {
                if let Some(permits) = server.permits() {
                    figures.count(&[("server", address)], permits);
                }
            });
        },
    },
    Family {
        name: "server_permits_in_use",
        help: "Permits that statements have on a server, likewise.",
        kind: Kind::Gauge,
        labels: &["server"],
        figures: |scene, figures| {
            each(scene, |server, address| figures.count(&[("server", address)], server.permits.0));
        },
    },
    Family {
        name: "replica_backends",
        help: "Connections to a server for reads as on a replica, by what they do.",
        kind: Kind::Gauge,
        labels: &["server", "state"],
        figures: |scene, figures| {
            each(scene, |server, address| {
                for (activity, &count) in server.backends.iter() {
                    figures.count(&[("server", address), ("state", activity.name())], count);
                }
            });
        },
    },
    Family {
        name: "replica_reads_present",
        help: "Reads on a replica that wait for a permit or a backend there, or run.",
        kind: Kind::Gauge,
        labels: &["server", "state"],
        figures: |scene, figures| {
            each(scene, |server, address| {
                for (state, count) in [("waiting", server.waiting), ("running", server.running)] {
                    figures.count(&[("server", address), ("state", state)], count);
                }
            });
        },
    },
    Family {
        name: "replica_reads_sent",
        help: "Reads that were sent to a server as to a replica.",
        kind: Kind::Counter,
        labels: &["server"],
        figures: |scene, figures| {
            each(scene, |server, address| figures.count(&[("server", address)], server.sent));
        },
    },
    Family {
        name: "replica_read_seconds",
        help: "What a replica has taken for reads, the way there and back included; they are among statement_seconds, too.",
        kind: Kind::Histogram,
        labels: &["server"],
        figures: |scene, figures| {
            each(scene, |server, address| figures.times(&[("server", address)], &server.times));
        },
    },
    Family {
        name: "unsplit_statements",
        help: "Statements that went to the primary where read_split is on, by why: docs/ADMIN.md has the reasons, at the table routing.",
        kind: Kind::Counter,
        labels: &["reason"],
        figures: unsplit,
    },
];

fn each(scene: &Scene<'_>, mut act: impl FnMut(&ReadServer, &str)) {
    scene.read_servers.iter().for_each(|server| act(server, &server.address.to_string()));
}

fn unsplit(scene: &Scene<'_>, figures: &mut Figures) {
    if scene.read_servers.iter().next().is_none() {
        return;
    }
    for &why in NotSplit::ALL {
        let times = scene.glance.wholes.values().map(|whole| whole.view.routed.not_split[why]);
        figures.count(&[("reason", why.name())], times.sum());
    }
}
