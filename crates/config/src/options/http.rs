//! HTTP, for metrics, probes and pages.

use super::{Not, OptionSpec, Scope, Section, Unit, always, setting};
use crate::value::Kind;

/// HTTP.
pub(super) const HTTP: &[OptionSpec] = &[
    OptionSpec {
        name: "http_listen",
        kind: Kind::TcpListener(setting!(http_listen)),
        example: "0.0.0.0:9126",
        doc: "Where HTTP is answered: metrics for Prometheus, probes, and an overview (docs/HTTP.md). One address, or off. Where \
              nobody has set it and somebody listens there already, Onramp serves without and says so; an address that \
              was given has to be free. Other machines reach it where it is no loopback address, and then http_password has \
              to be set.",
        section: Section::Http,
        limit: None,
    },
    OptionSpec {
        name: "http_password",
        kind: Kind::Secret(setting!(http_password)),
        example: "correct-horse",
        doc: "What HTTP asks for, as Basic authentication with any user name. /metrics, /livez and /readyz are free of it; \
              all else asks where one is set, and orders are taken from nobody where none is. Put it into the file or the \
              environment rather than on the command line, where everybody on the machine can read it.",
        section: Section::Http,
        limit: None,
    },
    OptionSpec {
        name: "http_max_connections",
        // Each may hold 16 KiB of a request and an answer of some 100 KiB.
        kind: Kind::Count(1..=1000, setting!(http_max_connections)),
        example: "16",
        doc: "Connections to http_listen at the same time. For one more the oldest is closed, of the address that has most. Each \
              is for one request and lasts ten seconds at most.",
        section: Section::Http,
        limit: always(Not, "connections by HTTP", Unit::Connections, Scope::Process),
    },
    OptionSpec {
        name: "metrics_top",
        // Each has two figures, of users and of schemas: 50 of each are 200 series beside the 400 that there are anyway.
        kind: Kind::Count(0..=50, setting!(engine.metrics_top)),
        example: "10",
        doc: "So many users, and so many default schemas, have metrics by their names (docs/METRICS.md): those that the server has taken \
              most for, and all others together as other. Everybody who may see the metrics sees these names then. Counted from \
              when it is set. 0 for none.",
        section: Section::Http,
        limit: None,
    },
];
