//! Metrics that are more than one of the counters of SHOW STATUS.

use std::time::Duration;

use engine::{Command, Holders, LoginStage, Queue, ServerState, ServerView, WorkerView};
use rustix::time::{ClockId, clock_gettime};

use super::{Family, Figures, Kind, Scene};
use crate::accept_queues::AcceptQueue;
use crate::admin_port::limits;
use crate::history::together::REFUSING;

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
        name: "cluster_server_up",
        help: "Whether a server is up by its checks, where backend names several: 1 or 0.",
        kind: Kind::Gauge,
        labels: &["server"],
        figures: |scene, figures| {
            for server in servers(scene) {
                let up = u64::from(server.state == ServerState::Up);
                figures.count(&[("server", &server.address.to_string())], up);
            }
        },
    },
    Family {
        name: "cluster_server_role",
        help: "1, with what a server is to the others, where backend names several.",
        kind: Kind::Gauge,
        labels: &["server", "role"],
        figures: |scene, figures| {
            for server in servers(scene) {
                let address = server.address.to_string();
                figures.count(&[("server", &address), ("role", server.role.name())], 1);
            }
        },
    },
    Family {
        name: "cluster_server_writable",
        help: "Whether a server is up and takes writes, where backend names several: 1 or 0.",
        kind: Kind::Gauge,
        labels: &["server"],
        figures: |scene, figures| {
            for server in servers(scene) {
                figures.count(&[("server", &server.address.to_string())], u64::from(server.is_writable));
            }
        },
    },
    Family {
        name: "cluster_server_in_use",
        help: "Whether a server is the primary that statements go to, where backend names several: 1 or 0. Without a primary all are 0.",
        kind: Kind::Gauge,
        labels: &["server"],
        figures: |scene, figures| {
            for server in servers(scene) {
                figures.count(&[("server", &server.address.to_string())], u64::from(server.is_primary));
            }
        },
    },
    Family {
        name: "cluster_server_drained",
        help: "Whether an operator has taken a server out of the choice of a primary (DRAIN), where backend names several: 1 or 0.",
        kind: Kind::Gauge,
        labels: &["server"],
        figures: |scene, figures| {
            for server in servers(scene) {
                figures.count(&[("server", &server.address.to_string())], u64::from(server.is_drained));
            }
        },
    },
    Family {
        name: "cluster_server_lag_seconds",
        help: "How far a server is behind, as it says itself, where backend names several and it replicates.",
        kind: Kind::Gauge,
        labels: &["server"],
        figures: |scene, figures| {
            for server in servers(scene) {
                if let Some(lag) = server.lag {
                    figures.number(&[("server", &server.address.to_string())], lag.as_secs_f64());
                }
            }
        },
    },
    Family {
        name: "peers",
        help: "Other Onramps in front of the server, and whether their statements wait, or have lately; none where peers is off.",
        kind: Kind::Gauge,
        labels: &["at_work"],
        figures: |scene, figures| {
            let all = || scene.glance.wholes.values().flat_map(|whole| &whole.peers);
            for (label, at_work) in [("no", false), ("yes", true)] {
                let peers = all().filter(|peer| !peer.is_own && peer.at_work == at_work).count();
                if all().next().is_some() {
                    figures.count(&[("at_work", label)], peers as u64);
                }
            }
        },
    },
    Family {
        name: "accept_queue_connections",
        help: "Connections that the kernel holds until a worker accepts them, by the address that clients connect to; not of Unix sockets.",
        kind: Kind::Gauge,
        labels: &["address", "worker"],
        figures: |scene, figures| accept_queues(scene, figures, |queue| queue.waiting),
    },
    Family {
        name: "accept_queue_bound",
        help: "How many of them may wait, likewise: back_log, or less where net.core.somaxconn is less.",
        kind: Kind::Gauge,
        labels: &["address", "worker"],
        figures: |scene, figures| {
            accept_queues(scene, figures, |queue| queue.waiting.map(|_| u64::from(queue.bound)));
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
        help: "How long the statement has waited that has waited longest, by queue; 0 where none does.",
        kind: Kind::Gauge,
        labels: &["queue"],
        figures: |scene, figures| {
            for &queue in Queue::ALL {
                let oldest = views(scene).filter_map(|view| view.longest_waits[queue]).max();
                figures.number(&[("queue", queue.name())], oldest.unwrap_or_default().as_secs_f64());
            }
        },
    },
    Family {
        name: "wait_seconds",
        help: "How long statements have waited before they ran, and for what; the queues' own hold all waits in them.",
        kind: Kind::Histogram,
        labels: &["reason"],
        figures: |scene, figures| {
            scene.waits.iter().for_each(|(reason, times)| figures.times(&[("reason", reason.name())], times));
        },
    },
    Family {
        name: "statements",
        help: "Statements that the server has answered, or that were lost with their backend.",
        kind: Kind::Counter,
        labels: &["command", "result"],
        figures: statements,
    },
    Family {
        name: "statement_errors",
        help: "Errors that the server has answered with, those that tell most by their codes.",
        kind: Kind::Counter,
        labels: &["code"],
        figures: |scene, figures| {
            for (code, count) in scene.measures.errors() {
                let code = code.map_or_else(|| String::from("other"), |code| code.to_string());
                figures.count(&[("code", &code)], count);
            }
        },
    },
    Family {
        name: "statement_seconds",
        help: "What servers have taken for statements, the way there and back included; the label is the address that backend names \
               first, whichever of several it was.",
        kind: Kind::Histogram,
        labels: &["command", "server"],
        figures: |scene, figures| {
            let server = server(scene);
            for &command in Command::ALL {
                let labels = [("command", command.name()), ("server", &*server)];
                figures.times(&labels, &scene.measures.ended(command).times);
            }
        },
    },
    Family {
        name: "user_statements",
        help: "Statements that the server has answered, by user: those that it has taken most for, and `other` for the rest \
               (`metrics_top`).",
        kind: Kind::Counter,
        labels: &["user"],
        figures: |scene, figures| {
            for (user, tally) in &scene.users {
                figures.count(&[("user", user)], tally.statements);
            }
        },
    },
    Family {
        name: "user_seconds",
        help: "What the server has taken for these.",
        kind: Kind::Counter,
        labels: &["user"],
        figures: |scene, figures| {
            for (user, tally) in &scene.users {
                figures.number(&[("user", user)], tally.time.as_secs_f64());
            }
        },
    },
    Family {
        name: "schema_statements",
        help: "Statements that the server has answered, by the default schema of their clients, likewise; an empty name is none.",
        kind: Kind::Counter,
        labels: &["schema"],
        figures: |scene, figures| {
            for (schema, tally) in &scene.schemas {
                figures.count(&[("schema", schema)], tally.statements);
            }
        },
    },
    Family {
        name: "schema_seconds",
        help: "What the server has taken for these, by schema.",
        kind: Kind::Counter,
        labels: &["schema"],
        figures: |scene, figures| {
            for (schema, tally) in &scene.schemas {
                figures.number(&[("schema", schema)], tally.time.as_secs_f64());
            }
        },
    },
    Family {
        name: "login_seconds",
        help: "From a client's connection to the end of its login, its own part of it included; COM_CHANGE_USER, too.",
        kind: Kind::Histogram,
        labels: &[],
        figures: |scene, figures| figures.times(&[], &scene.measures.logins),
    },
    Family {
        name: "logins_refused",
        help: "Logins refused, by what for. Of `denied` the log says whether there was no such account for the address, or the password \
               was wrong.",
        kind: Kind::Counter,
        labels: &["reason"],
        figures: |scene, figures| {
            for (reason, count) in scene.measures.refused() {
                figures.count(&[("reason", reason.name())], count);
            }
        },
    },
    Family {
        name: "client_closed",
        help: "Clients that Onramp closed, or whose TLS broke, by what for; where an option has it so, by its name.",
        kind: Kind::Counter,
        labels: &["reason"],
        figures: |scene, figures| {
            for (reason, count) in scene.measures.closed() {
                figures.count(&[("reason", reason.name())], count);
            }
        },
    },
    Family {
        name: "login_stage_seconds",
        help: "Parts of logins: to the greeting, TLS, from the connection to what the client says of itself, from there to where its \
               password is known to be right, and its first statement's wait for a backend.",
        kind: Kind::Histogram,
        labels: &["stage"],
        figures: |scene, figures| {
            for &stage in LoginStage::ALL {
                figures.times(&[("stage", stage.name())], scene.measures.login_stage(stage));
            }
        },
    },
    Family {
        name: "backend_connect_seconds",
        help: "From the beginning of a connection to a server to where it serves, likewise.",
        kind: Kind::Histogram,
        labels: &["server"],
        figures: |scene, figures| {
            figures.times(&[("server", &server(scene))], &scene.measures.backend_connects);
        },
    },
    Family {
        name: "backend_connect_failures",
        help: "Attempts to reach a server, or to log in there, that failed, likewise.",
        kind: Kind::Counter,
        labels: &["server"],
        figures: |scene, figures| {
            figures.count(&[("server", &server(scene))], scene.measures.connect_failures);
        },
    },
    Family {
        name: "worker_turn_seconds",
        help: "How long turns of the workers' loops take: while one lasts, its worker serves nobody else.",
        kind: Kind::Histogram,
        labels: &[],
        figures: |scene, figures| figures.times(&[], &scene.measures.turns),
    },
    Family {
        name: "worker_busy_seconds",
        help: "How long a worker's loop has been at work.",
        kind: Kind::Counter,
        labels: &["worker"],
        figures: |scene, figures| {
            for (worker, whole) in &scene.glance.wholes {
                let busy = whole.measures.as_ref().map_or(Duration::ZERO, |(own, _)| own.turns.sum());
                figures.number(&[("worker", &worker.to_string())], busy.as_secs_f64());
            }
        },
    },
    Family {
        name: "clients",
        help: "Clients by what they do: logging in, waiting in a queue, having a statement on a backend, holding a backend that does \
               nothing for them now, or none of these.",
        kind: Kind::Gauge,
        labels: &["state"],
        figures: clients,
    },
    Family {
        name: "backends",
        help: "Connections to servers by what they do; the label is the address that backend names first.",
        kind: Kind::Gauge,
        labels: &["server", "state"],
        figures: |scene, figures| {
            let server = server(scene);
            for (activity, &count) in scene.holders.backends.iter() {
                figures.count(&[("server", &*server), ("state", activity.name())], count);
            }
        },
    },
    Family {
        name: "pinned_clients",
        help: "Clients that keep a backend beyond a transaction, by what for; one may do so for several reasons.",
        kind: Kind::Gauge,
        labels: &["reason"],
        figures: |scene, figures| {
            for (reason, count) in &scene.holders.pins {
                figures.count(&[("reason", reason)], *count);
            }
        },
    },
    Family {
        name: "pinned_clients_all",
        help: "Clients that keep a backend beyond a transaction, each once.",
        kind: Kind::Gauge,
        labels: &[],
        figures: |scene, figures| figures.count(&[], scene.holders.pinned),
    },
    Family {
        name: "pins",
        help: "How often a client was pinned, by what for; reasons that there have been.",
        kind: Kind::Counter,
        labels: &["reason"],
        figures: |scene, figures| {
            for (reason, times) in &scene.holders.pin_times {
                figures.count(&[("reason", reason)], *times);
            }
        },
    },
    Family {
        name: "lock_holders",
        help: "Clients that may hold locks: they have changed or locked something in their transaction, or are pinned for what locks.",
        kind: Kind::Gauge,
        labels: &[],
        figures: |scene, figures| figures.count(&[], scene.holders.lock_holders),
    },
    Family {
        name: "blocking_clients",
        help: "Clients for whose locks others wait, as far as the server was asked (lock_wait_interval).",
        kind: Kind::Gauge,
        labels: &[],
        figures: |scene, figures| figures.count(&[], scene.holders.blocking),
    },
    Family {
        name: "oldest_transaction_seconds",
        help: "How long the oldest transaction has been open that has a backend; 0 where there is none.",
        kind: Kind::Gauge,
        labels: &[],
        figures: |scene, figures| {
            figures.number(&[], scene.holders.oldest_transaction.unwrap_or_default().as_secs_f64());
        },
    },
    Family {
        name: "refused",
        help: "How often something new was refused with an error, by the option that has it so.",
        kind: Kind::Counter,
        labels: &["option"],
        figures: |scene, figures| {
            let limits = limits(scene);
            for option in REFUSING.map(engine::Limit::name) {
                figures.count(&[("option", option)], limits.get(option).map_or(0, |limit| limit.reached));
            }
        },
    },
    Family {
        name: "config_reload_success",
        help: "Whether the last RELOAD, if there was one, could read the file and all that it names: 1 or 0.",
        kind: Kind::Gauge,
        labels: &[],
        figures: |scene, figures| figures.count(&[], u64::from(scene.control.reloaded())),
    },
    Family {
        name: "tls_certificate_expiry_seconds",
        help: "Until when the certificate counts that clients are shown, in seconds since 1970; absent where there is no TLS.",
        kind: Kind::Gauge,
        labels: &[],
        figures: |scene, figures| {
            let acceptor = scene.control.program.tls.acceptor();
            let expiry = acceptor.and_then(|acceptor| acceptor.expiry());
            expiry.inspect(|&expiry| figures.count(&[], expiry));
        },
    },
    Family {
        name: "process_cpu_seconds",
        help: "Time on processors, of all threads.",
        kind: Kind::Counter,
        labels: &[],
        figures: |_, figures| {
            let time = clock_gettime(ClockId::ProcessCPUTime);
            figures.number(&[], time.tv_sec as f64 + time.tv_nsec as f64 / 1e9);
        },
    },
    Family {
        name: "process_resident_memory_bytes",
        help: "Resident memory.",
        kind: Kind::Gauge,
        labels: &[],
        figures: |_, figures| {
            crate::memory::resident().inspect(|&bytes| figures.count(&[], bytes));
        },
    },
    Family {
        name: "memory_bytes",
        help: "Memory by what it is held for, as far as that is counted as it happens; the rest of the resident memory is the program \
               itself, what event loops receive into and send from, and what the allocator keeps.",
        kind: Kind::Gauge,
        labels: &["part"],
        figures: |scene, figures| {
            for (part, bytes) in scene.memory.iter() {
                figures.count(&[("part", part.name())], bytes);
            }
        },
    },
    Family {
        name: "process_start_time_seconds",
        help: "When it began to serve, in seconds since 1970.",
        kind: Kind::Gauge,
        labels: &[],
        figures: |scene, figures| figures.number(&[], scene.control.began.as_secs_f64()),
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
    for &queue in Queue::ALL {
        let waiting: u64 = views(scene).map(|view| view.queued[queue] as u64).sum();
        figures.count(&[("queue", queue.name())], waiting);
    }
}

fn servers<'a>(scene: &'a Scene<'_>) -> impl Iterator<Item = &'a ServerView> {
    scene.glance.wholes.values().flat_map(|whole| &whole.servers)
}

fn statements(scene: &Scene<'_>, figures: &mut Figures) {
    for &command in Command::ALL {
        let ended = scene.measures.ended(command);
        for (result, count) in
            [("ok", ended.times.count() - ended.errors), ("error", ended.errors), ("lost", ended.lost)]
        {
            figures.count(&[("command", command.name()), ("result", result)], count);
        }
    }
}

fn accept_queues(scene: &Scene<'_>, figures: &mut Figures, of: fn(&AcceptQueue<'_>) -> Option<u64>) {
    for queue in &scene.accept_queues {
        let worker = queue.worker.map_or_else(|| String::from("all"), |worker| worker.to_string());
        if let Some(figure) = of(queue) {
            figures.count(&[("address", queue.address), ("worker", &worker)], figure);
        }
    }
}

fn clients(scene: &Scene<'_>, figures: &mut Figures) {
    let all: u64 = views(scene).map(|view| view.clients as u64).sum();
    let logging_in = all.saturating_sub(u64::from(scene.measures.logged_in));
    let queued: u64 = views(scene).map(|view| (view.queued.total() + view.waiting_for_replicas) as u64).sum();
    let Holders { running, holding, .. } = scene.holders;
    let idle = all.saturating_sub(logging_in + queued + running + holding);
    for (state, count) in [
        ("logging_in", logging_in),
        ("queued", queued),
        ("running", running),
        ("holding", holding),
        ("idle", idle),
    ] {
        figures.count(&[("state", state)], count);
    }
}

/// The server's address, as it was given first: it stands for all. What replicas do for reads each of them has apart (`reads.rs`).
fn server(scene: &Scene<'_>) -> String {
    let backends = &scene.control.program.configuration.backends;
    backends.first().map_or_else(|| String::from("private"), |backend| backend.target.to_string())
}
