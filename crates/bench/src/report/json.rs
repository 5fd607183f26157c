//! The report for programs: one JSON object with the options, the machine and every figure.

use serde_json::{Map, Value, json};

use super::{Context, QUANTILES, bytes_per_connection, micros_per_query, per_second};
use crate::errors::ErrorCounts;
use crate::generator::Outcome;
use crate::options::{RandType, RunOptions};

/// The whole report. Times are in seconds, latencies in milliseconds, memory in bytes. The password is not part of it.
pub fn to_json(outcome: &Outcome, context: &Context<'_>) -> Value {
    let total = &outcome.statistics.total;
    let events = total.latencies.count();
    let processor = outcome.processor;
    json!({
        "version": context.version,
        "server_version": outcome.server_version,
        "machine": {
            "cores": context.machine.cores,
            "kernel": context.machine.kernel,
            "processor": context.machine.processor,
        },
        "driver": context.driver.to_string(),
        "local_addresses": context.local_addresses,
        "options": options(context.options, context.seed),
        "measured": outcome.measured.as_secs_f64(),
        "connecting": outcome.connecting.as_secs_f64(),
        "connected": outcome.connected,
        "connecting_errors": errors(&outcome.connecting_errors),
        "queries": {
            "read": total.queries.read,
            "write": total.queries.write,
            "other": total.queries.other,
            "total": total.queries.total(),
            "per_second": per_second(total.queries.total(), outcome.measured),
        },
        "events": { "total": events, "per_second": per_second(events, outcome.measured) },
        "rows": total.rows,
        "latency": latency(outcome),
        "errors": errors(&outcome.statistics.errors),
        "reconnects": total.reconnects,
        "wrong_answers": outcome.statistics.mismatches,
        "wrong_answer": outcome.statistics.mismatch,
        "events_per_connection": outcome.fairness.map(|fairness| json!({
            "min": fairness.min, "median": fairness.median, "max": fairness.max,
        })),
        "unfinished": { "events": outcome.unfinished, "oldest": outcome.oldest.as_secs_f64() },
        "starved": outcome.starved,
        "not_begun": outcome.not_begun,
        "processor_time": processor.total.as_secs_f64(),
        "processor_micros_per_query": micros_per_query(outcome, processor.total),
        "processor_user_micros_per_query": micros_per_query(outcome, processor.user),
        "processor_system_micros_per_query": micros_per_query(outcome, processor.system),
        "resident_memory": outcome.memory.measured,
        "memory_per_connection": bytes_per_connection(outcome),
        "interrupted": outcome.interrupted,
        "failure": outcome.failure.as_ref().map(ToString::to_string),
    })
}

fn latency(outcome: &Outcome) -> Value {
    let latencies = &outcome.statistics.total.latencies;
    let mut object = Map::new();
    object.insert("avg".to_owned(), json!(latencies.mean()));
    for (name, share) in QUANTILES {
        object.insert(name.to_owned(), json!(latencies.quantile(share)));
    }
    object.insert("max".to_owned(), json!(latencies.max()));
    Value::Object(object)
}

fn errors(errors: &ErrorCounts) -> Value {
    errors
        .iter()
        .map(|(code, count, example)| json!({ "code": code, "count": count, "example": example }))
        .collect()
}

fn options(options: &RunOptions, seed: u64) -> Value {
    let tables = &options.tables;
    let server = &tables.server;
    json!({
        "workload": tables.workload().name(),
        "host": server.host,
        "port": server.port,
        "socket": server.socket,
        "local_address": server.local_address,
        "user": server.user,
        "db": server.db,
        "tables": tables.tables,
        "table_size": tables.table_size,
        "rand_type": rand_type(tables.rand_type),
        "rand_zipfian_exp": tables.rand_zipfian_exp,
        "rand_pareto_h": tables.rand_pareto_h,
        "seed": seed,
        "connections": options.connections,
        "users": options.users,
        "schemas": options.schemas,
        "crowd_zipfian": options.crowd_zipfian,
        "mixed_drivers": options.mixed_drivers,
        "session_states": options.session_states,
        "time": options.time.as_secs_f64(),
        "warmup": options.warmup.as_secs_f64(),
        "events": options.events,
        "think_time_ms": options.think_time.as_secs_f64() * 1000.0,
        "rate": options.rate,
        "connect_rate": options.connect_rate,
        "driver": options.driver.to_string(),
        "prepared": options.prepared,
        "after_error": format!("{:?}", options.after_error).to_lowercase(),
        "give_up_ms": options.give_up.as_secs_f64() * 1000.0,
        "range_size": options.range_size,
        "sleep_time_ms": options.sleep_time.as_secs_f64() * 1000.0,
        "ignore_errors": format!("{:?}", options.ignore_errors),
    })
}

fn rand_type(rand_type: RandType) -> String {
    format!("{rand_type:?}").to_lowercase()
}
