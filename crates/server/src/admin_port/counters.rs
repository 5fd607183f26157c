//! What SHOW STATUS shows: under the servers' names what they have, under names of our own the rest. Each is declared once, here or
//! among the engine's [`Totals`]: docs/ADMIN.md, the table `status`, the metrics of that name and docs/METRICS.md are written from that.

use std::collections::BTreeMap;
use std::sync::Arc;

use drivers::Counters;
use engine::{Limit, Queue, Total, Totals, WorkerView};

use super::status::{before_low, queued};
use crate::ask::Whole;
use crate::control::Control;

/// What each worker has said of itself, by its number.
pub(crate) type Wholes = BTreeMap<usize, Arc<Whole>>;

/// A counter or a measure.
#[derive(Clone, Copy)]
pub(crate) struct Counter {
    pub(crate) name: &'static str,
    /// What it says, as a sentence.
    pub(crate) help: &'static str,
    value: Value,
    /// `None` where a metric of another name says it already, or what is in its labels.
    pub(crate) metric: Option<Metric>,
}

/// What a counter is among the metrics.
#[derive(Clone, Copy)]
pub(crate) struct Metric {
    /// Without what all begin with, and without `_total`.
    pub(crate) name: &'static str,
    pub(crate) labels: &'static [(&'static str, &'static str)],
    /// It only grows.
    pub(crate) grows: bool,
}

/// Where its value comes from.
#[derive(Clone, Copy)]
enum Value {
    /// The sum over all workers.
    Total(fn(&Totals) -> u64),
    Workers(fn(&WorkerView) -> u64),
    Drivers(fn(&Counters) -> u64),
    /// A value that all workers have in common.
    Process(fn(&Control, &Wholes) -> u64),
}

/// Counters that are no totals of the engine's.
const OTHERS: &[Counter] = &[
    of_drivers("Bytes_received", "Bytes received, from clients and servers.", |counters| {
        counters.bytes_received
    })
    .grows("network_bytes", &[("direction", "received")]),
    of_drivers("Bytes_sent", "Bytes sent, to clients and servers.", |counters| counters.bytes_sent)
        .grows("network_bytes", &[("direction", "sent")]),
    of_workers("Connections", "Connections of clients since the start.", |view| view.connections)
        .grows("connections", &[]),
    of_process(
        "Onramp_accept_queue_drops",
        "Connections that the kernel dropped at listening sockets since the start, for full queues and other reasons (ListenDrops): \
         of all programs in the network namespace.",
        |control, _| control.program.accept_queues.lost().drops,
    )
    .grows("accept_queue_drops", &[]),
    of_process(
        "Onramp_accept_queue_overflows",
        "How often since the start a connection met a full accept queue (ListenOverflows): of all programs in the network namespace.",
        |control, _| control.program.accept_queues.lost().overflows,
    )
    .grows("accept_queue_overflows", &[]),
    of_workers(
        "Onramp_backends",
        "Connections to all servers, those that are being opened included.",
        |view| view.backends as u64,
    ),
    of_process(
        "Onramp_multiplexed_percent",
        "Of 100 statements so many ran on any backend; 100 where there was none.",
        |_, wholes| multiplexed_percent(wholes),
    ),
    of_process("Onramp_paused", "Whether PAUSE holds: 1 or 0.", |_, wholes| {
        u64::from(wholes.values().any(|whole| whole.view.paused))
    })
    .varies("paused"),
    of_process("Onramp_permits", "How many statements may run at a time now, on all servers together.", |_, wholes| permits(wholes).1)
        .varies("permits"),
    of_process("Onramp_permits_in_use", "Permits that statements have now.", |_, wholes| permits(wholes).0)
        .varies("permits_in_use"),
    of_workers("Onramp_queued_high", "Statements that wait in the high queue, or go before it.", before_low),
    of_workers("Onramp_queued_long", "Statements of long kinds that wait.", |view| queued(view, Queue::Long)),
    of_workers("Onramp_queued_low", "Statements that wait in the low queue.", |view| {
        queued(view, Queue::Low)
    }),
    of_workers(
        "Onramp_replica_reads_waiting",
        "Reads that wait for a replica to have what they have to see.",
        |view| view.waiting_for_replicas as u64,
    )
    .varies("replica_reads_waiting"),
    of_workers("Onramp_session_states", "Session states that differ, of clients and backends.", |view| {
        view.session_states as u64
    })
    .varies("session_states"),
    of_process(
        "Onramp_slow_log_lost",
        "Lines of the slow log that its file did not take, or that it took too slowly.",
        |control, _| control.program.slow_log.lost(),
    )
    .grows("slow_log_lost", &[]),
    of_workers(
        "Onramp_stored_code_names",
        "Tables and views that lead to stored code which may change its session.",
        |view| view.stored_code.changing_names,
    )
    .varies("stored_code_names"),
    of_workers("Onramp_stored_code_read", "How often the server's stored code was read.", |view| {
        view.stored_code.readings
    })
    .grows("stored_code_read", &[]),
    of_workers(
        "Onramp_stored_code_unreadable",
        "Kinds of stored code (of routines, triggers, views, defaults of columns) that could not be read.",
        |view| view.stored_code.unreadable,
    )
    .varies("stored_code_unreadable"),
    of_process("Onramp_workers", "Event loops.", |control, _| control.program.reach.len() as u64)
        .varies("workers"),
    of_workers("Queries", "Statements that went to the server.", |view| view.statements)
        .grows("statements_started", &[]),
    of_workers("Questions", "The same.", |view| view.statements),
    of_workers("Threadpool_idle_threads", "Backends on which nothing runs and that nobody holds.", |view| {
        view.idle_backends as u64
    }),
    of_workers("Threadpool_threads", "As Onramp_backends.", |view| view.backends as u64),
    of_workers("Threads_connected", "Clients that are connected.", |view| view.clients as u64),
    of_process("Threads_running", "As Onramp_permits_in_use.", |_, wholes| permits(wholes).0),
    of_process("Uptime", "Seconds since the start.", |control, _| control.started.elapsed().as_secs()),
];

const fn of_workers(name: &'static str, help: &'static str, value: fn(&WorkerView) -> u64) -> Counter {
    Counter { name, help, value: Value::Workers(value), metric: None }
}

const fn of_drivers(name: &'static str, help: &'static str, value: fn(&Counters) -> u64) -> Counter {
    Counter { name, help, value: Value::Drivers(value), metric: None }
}

const fn of_process(name: &'static str, help: &'static str, value: fn(&Control, &Wholes) -> u64) -> Counter {
    Counter { name, help, value: Value::Process(value), metric: None }
}

/// All of them, by name.
pub(crate) fn all() -> Vec<Counter> {
    let total = |total: &Total| Counter {
        name: total.name,
        help: total.help.trim_ascii(),
        value: Value::Total(total.value),
        metric: total.metric.map(|name| Metric { name, labels: total.labels, grows: true }),
    };
    let mut all: Vec<_> = Totals::ALL.iter().map(total).chain(OTHERS.iter().copied()).collect();
    all.sort_by_key(|counter| counter.name);
    all
}

impl Counter {
    /// Among the metrics it only grows.
    const fn grows(mut self, name: &'static str, labels: &'static [(&'static str, &'static str)]) -> Self {
        self.metric = Some(Metric { name, labels, grows: true });
        self
    }

    /// Among the metrics it goes up and down.
    const fn varies(mut self, name: &'static str) -> Self {
        self.metric = Some(Metric { name, labels: &[], grows: false });
        self
    }

    pub(crate) fn value(&self, control: &Control, wholes: &Wholes) -> u64 {
        let views = wholes.values().map(|whole| &whole.view);
        match self.value {
            Value::Total(of) => views.map(|view| of(&view.totals)).sum(),
            Value::Workers(of) => views.map(of).sum(),
            Value::Drivers(of) => {
                control.program.reach.iter().map(|(_, signaller)| of(&signaller.counters())).sum()
            }
            Value::Process(of) => of(control, wholes),
        }
    }
}

/// How many permits are in use, and how many there are: of all servers.
pub(crate) fn permits(wholes: &Wholes) -> (u64, u64) {
    let shares = wholes.values().next().into_iter().flat_map(|whole| &whole.shares);
    let of_servers = shares.filter(|share| share.limit == Limit::Permits);
    of_servers
        .fold((0, 0_u64), |(in_use, bound), share| (in_use + share.in_use, bound.saturating_add(share.bound)))
}

fn multiplexed_percent(wholes: &Wholes) -> u64 {
    let (mut multiplexed, mut all) = (0, 0);
    for totals in wholes.values().map(|whole| &whole.view.totals) {
        multiplexed += totals.multiplexed_statements;
        all += totals.multiplexed_statements + totals.statements_in_transactions + totals.pinned_statements;
    }
    (multiplexed * 100).checked_div(all).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::PathBuf;

    use super::*;

    /// Where the list stands.
    const BEGIN: &str = "<!-- Written from the counters' declarations by `make docs-admin`: begin -->\n";
    const END: &str = "<!-- Written from the counters' declarations by `make docs-admin`: end -->";

    #[test]
    fn names_are_unique_and_each_says_what_it_counts() {
        let all = all();
        assert!(all.windows(2).all(|two| two[0].name < two[1].name));
        assert!(all.iter().all(|counter| counter.help.len() > 5 && counter.help.ends_with('.')));
    }

    /// It is written by this test when UPDATE_DOCS is set, and compared with the declarations otherwise.
    #[test]
    fn the_manual_lists_the_counters() {
        let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ADMIN.md"));
        let page = std::fs::read_to_string(&path).expect("the manual is there");
        let (front, rest) = page.split_once(BEGIN).expect("the list has a beginning");
        let (_, back) = rest.split_once(END).expect("the list has an end");
        let mut list = String::from("| variable | what it says |\n|---|---|\n");
        for counter in all() {
            writeln!(list, "| `{}` | {} |", counter.name, counter.help).expect("into a string");
        }
        let wanted = format!("{front}{BEGIN}{list}{END}{back}");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &wanted).expect("the manual can be written");
        }
        let page = std::fs::read_to_string(&path).expect("the manual is there");
        assert!(page == wanted, "docs/ADMIN.md is not that of the counters: run `make docs-admin`");
    }
}
