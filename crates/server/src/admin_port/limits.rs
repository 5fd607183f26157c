//! The table of bounds.

use std::collections::BTreeMap;

use admin::Rows;
use admin::tables::Limit;
use engine::WorkerView;

use super::counters::Wholes;
use super::status::{queued, waiting};
use crate::control::Control;

/// What a bound is of.
struct Bound {
    option: &'static str,
    bounds: &'static str,
    unit: &'static str,
    scope: &'static str,
}

const fn of(option: &'static str, bounds: &'static str, unit: &'static str, scope: &'static str) -> Bound {
    Bound { option, bounds, unit, scope }
}

/// Those of memory first. A bound that is not among them can be reached all the same, and has a row then.
#[rustfmt::skip] // one on a line
const BOUNDS: &[Bound] = &[
    of("statement_memory", "statements that wait, with what is found in them, or are not whole", "bytes", "process"),
    of("login_memory", "what clients have sent that have not logged in, and as much of TLS handshakes", "bytes", "process"),
    of("session_memory", "what clients have set and hold: session states, user variables, trackers, names, and known answers", "bytes", "process"),
    of("held_answer_memory", "answers that are kept until they are whole: lists of threads, counters, of prepared statements", "bytes", "process"),
    of("prepared_statement_memory", "texts of prepared statements, with what is found in them", "bytes", "worker"),
    of("kept_warnings_memory", "warnings kept for SHOW WARNINGS", "bytes", "worker"),
    of("max_allowed_packet", "a statement", "bytes", "statement"),
    of("client_output_buffer", "what a client or the server has not taken, before its sender is paused", "bytes", "client"),
    of("coalesced_reply_size", "an answer that several clients get", "bytes", "statement"),
    of("digests_size", "digests that are counted apart", "digests", "worker"),
    of("failed_logins_size", "addresses and users with wrong passwords", "addresses", "process"),
    of("max_prepared_stmt_count", "prepared statements of clients", "statements", "process"),
    of("backend_prepared_statements", "statements that stay prepared on a backend", "statements", "backend"),
    of("max_connections", "clients", "clients", "process"),
    of("admin_max_connections", "clients of the admin port", "clients", "process"),
    of("http_max_connections", "connections by HTTP", "connections", "process"),
    of("max_backends", "connections to the server", "backends", "process"),
    of("user_backends_share", "the backends that other users leave", "percent", "user"),
    of("shared_backends", "backends that short reads share", "backends", "process"),
    of("statements_in_flight", "short reads on one of these", "statements", "backend"),
    of("permits", "statements that execute", "permits", "process"),
    of("queue_limit", "statements that wait in the high and the low queue", "statements", "process"),
    of("long_queue_limit", "statements that wait in the long lane", "statements", "process"),
    of("queue_wait_limit", "the wait of new work", "ms", "statement"),
    of("long_queue_wait_limit", "the wait of new work in the long lane", "ms", "statement"),
    of("queue_delay_target", "the standing delay of the queues", "ms", "process"),
    of("query_timeout", "a statement's time", "ms", "statement"),
    of("transaction_timeout", "a transaction's time", "ms", "client"),
    of("idle_transaction_timeout", "how long a client in a transaction is idle", "ms", "client"),
    of("idle_hold_timeout", "how long a client that holds a backend is idle while others wait", "ms", "client"),
    of("abandoned_timeout", "how long a statement runs whose client has gone", "s", "statement"),
];

/// A row for each.
pub(super) fn put(control: &Control, rows: &mut Rows<'_>, wholes: &Wholes) {
    let admins = Some(u64::from(rows.connections()));
    all(control, wholes, admins).values().for_each(|limit| rows.put(limit));
}

/// All of them, by option. `admins` is how many have logged in to the admin port, where that is known.
pub(crate) fn all(control: &Control, wholes: &Wholes, admins: Option<u64>) -> BTreeMap<&'static str, Limit> {
    let views = || wholes.values().map(|whole| &whole.view);
    let mut limits: BTreeMap<&'static str, Limit> = BTreeMap::new();
    let mut add = |option, in_use, bound: u64| {
        // No bound is 0 for some and more than there can be for others.
        let bound = Some(bound).filter(|&bound| bound > 0 && bound < u64::MAX);
        limits.insert(option, Limit { in_use, ..row(option, bound) });
    };
    // All but the last are common to the workers; of what is in flight on one backend the most counts.
    let in_flight = wholes.values().map(|whole| whole.shares[4].1).max();
    for &(option, in_use, bound) in wholes.values().next().iter().flat_map(|whole| &whole.shares) {
        add(option, if option == "statements_in_flight" { in_flight } else { Some(in_use) }, bound);
    }
    let configuration = control.configuration();
    add("admin_max_connections", admins, u64::from(configuration.admin_max_connections));
    add("http_max_connections", None, u64::from(configuration.http_max_connections));
    add("client_output_buffer", None, configuration.client_output_buffer as u64);
    let long: u64 = views().map(|view| queued(view, "long")).sum();
    let short = views().map(waiting).sum::<u64>() - long;
    let engine = &configuration.engine;
    let parts =
        |option| views().flat_map(|view| view.in_use).filter(move |part| part.0 == option).map(|part| part.1);
    let (sum, most) = (|option| Some(parts(option).sum()), |option| parts(option).max());
    add("statement_memory", sum("statement_memory"), engine.statement_memory as u64);
    add("login_memory", sum("login_memory"), engine.login_memory as u64);
    add("session_memory", sum("session_memory"), engine.session_memory as u64);
    add("held_answer_memory", sum("held_answer_memory"), engine.held_answer_memory as u64);
    add("max_prepared_stmt_count", sum("max_prepared_stmt_count"), u64::from(engine.max_prepared_stmt_count));
    let memory = engine.prepared_statement_memory as u64;
    add("prepared_statement_memory", most("prepared_statement_memory"), memory);
    add("kept_warnings_memory", most("kept_warnings_memory"), engine.kept_warnings_memory as u64);
    add("digests_size", most("digests_size"), u64::from(engine.digests_size));
    add("failed_logins_size", None, u64::from(engine.failed_logins.size));
    add("backend_prepared_statements", None, u64::from(engine.backend_prepared_statements));
    add("max_allowed_packet", None, engine.max_allowed_packet as u64);
    add("coalesced_reply_size", None, engine.coalescing.reply_size as u64);
    add("queue_limit", Some(short), u64::from(engine.overload.queue_limit));
    add("long_queue_limit", Some(long), u64::from(engine.overload.long_queue_limit));
    note_reached(&mut limits, views());
    limits
}

fn note_reached<'a>(limits: &mut BTreeMap<&'static str, Limit>, views: impl Iterator<Item = &'a WorkerView>) {
    let mut waited_for_permit = 0;
    for view in views {
        waited_for_permit += view.waited_for_permit;
        for &(option, bound, times) in &view.limits_reached {
            limits.entry(option).or_insert(row(option, Some(bound))).reached += times;
        }
    }
    if let Some(permits) = limits.get_mut("permits") {
        permits.reached = waited_for_permit;
    }
}

/// A bound that nobody has come near.
fn row(option: &'static str, bound: Option<u64>) -> Limit {
    let known = BOUNDS.iter().find(|known| known.option == option);
    let (bounds, unit, scope) = known.map_or(("", "", ""), |known| (known.bounds, known.unit, known.scope));
    Limit { option, bounds, unit, scope, in_use: None, bound, reached: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_an_option() {
        let page = config::reference_page();
        for (place, Bound { option, .. }) in BOUNDS.iter().enumerate() {
            assert!(page.contains(&format!("### {option}\n")), "{option}");
            assert!(BOUNDS[..place].iter().all(|other| other.option != *option), "{option} is there once");
        }
    }
}
