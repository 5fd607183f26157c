//! What a run prints: lines of figures on the way, a summary at the end.

mod json;

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use drivers::DriverKind;

use crate::errors::ErrorCounts;
use crate::generator::{Interval, Outcome};
use crate::local_addresses::grouped;
use crate::machine::Machine;
use crate::options::RunOptions;

pub use json::to_json;

/// What a report needs to know beside the outcome.
#[derive(Debug)]
pub struct Context<'a> {
    /// As they were given.
    pub options: &'a RunOptions,
    /// The seed that was used.
    pub seed: u64,
    /// What talked to the system.
    pub driver: DriverKind,
    /// Those that connections came from; none where the system chose.
    pub local_addresses: &'a [IpAddr],
    /// Where the load came from.
    pub machine: Machine,
    /// What the load generator calls itself.
    pub version: &'static str,
}

/// One line about the time since the last one, as sysbench writes it.
pub fn interval_line(interval: &Interval<'_>) -> String {
    let Interval { period, passed, elapsed, up, warming_up } = *interval;
    let queries = period.queries;
    format!(
        "[ {:.0}s ] conns: {up} tps: {:.2} qps: {:.2} (r/w/o: {:.2}/{:.2}/{:.2}) lat (ms,95%): {:.2} \
         err/s: {:.2} reconn/s: {:.2}{}",
        elapsed.as_secs_f64(),
        per_second(period.latencies.count(), passed),
        per_second(queries.total(), passed),
        per_second(queries.read, passed),
        per_second(queries.write, passed),
        per_second(queries.other, passed),
        period.latencies.quantile(0.95),
        per_second(period.errors, passed),
        per_second(period.reconnects, passed),
        if warming_up { " (warm-up)" } else { "" },
    )
}

/// The summary for people.
pub fn summary(outcome: &Outcome, context: &Context<'_>) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_summary(&mut out, outcome, context);
    out
}

/// What went wrong before the load began; empty where nothing did.
pub fn errors_while_connecting(outcome: &Outcome) -> String {
    let mut out = String::new();
    if outcome.connecting_errors.total() > 0 {
        // Writing to a String cannot fail.
        let _ = write_error_counts(&mut out, "errors while connecting:", &outcome.connecting_errors);
    }
    out
}

fn write_summary(out: &mut String, outcome: &Outcome, context: &Context<'_>) -> std::fmt::Result {
    let total = &outcome.statistics.total;
    let measured = outcome.measured;
    let events = total.latencies.count();
    let options = context.options;
    writeln!(
        out,
        "{} with {} connections ({} protocol) on {}, {:.3} s measured, seed {}",
        options.tables.workload().name(),
        options.connections,
        if options.prepared { "binary" } else { "text" },
        if outcome.server_version.is_empty() { "an unknown server" } else { &outcome.server_version },
        measured.as_secs_f64(),
        context.seed,
    )?;
    writeln!(out, "queries:")?;
    writeln!(out, "    read:          {}", total.queries.read)?;
    writeln!(out, "    write:         {}", total.queries.write)?;
    writeln!(out, "    other:         {}", total.queries.other)?;
    writeln!(
        out,
        "    total:         {} ({:.2} per sec.)",
        total.queries.total(),
        per_second(total.queries.total(), measured)
    )?;
    writeln!(out, "transactions:      {events} ({:.2} per sec.)", per_second(events, measured))?;
    writeln!(out, "rows read:         {}", total.rows)?;
    writeln!(out, "reconnects:        {}", total.reconnects)?;
    if options.tables.workload().reconnects() {
        writeln!(out, "connects:          {events} ({:.2} per sec.)", per_second(events, measured))?;
    }
    out.push_str(&errors_while_connecting(outcome));
    write_errors(out, outcome)?;
    write_latencies(out, outcome, context)?;
    write_load(out, outcome)?;
    write_generator(out, outcome, context)
}

fn write_errors(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    write_error_counts(out, "errors:           ", &outcome.statistics.errors)?;
    let mismatches = outcome.statistics.mismatches;
    if mismatches > 0 {
        writeln!(out, "WRONG ANSWERS:     {mismatches}, such as")?;
        writeln!(out, "    {}", outcome.statistics.mismatch.as_deref().unwrap_or_default())?;
    }
    Ok(())
}

fn write_error_counts(out: &mut String, title: &str, errors: &ErrorCounts) -> std::fmt::Result {
    writeln!(out, "{title} {}", errors.total())?;
    for (code, count, example) in errors.iter() {
        writeln!(out, "    {code}: {count}, such as {example:?}")?;
    }
    Ok(())
}

fn write_latencies(out: &mut String, outcome: &Outcome, context: &Context<'_>) -> std::fmt::Result {
    let latencies = &outcome.statistics.total.latencies;
    let open_loop = if context.options.rate.is_some() { ", from when an event was due" } else { "" };
    writeln!(out, "latency (ms{open_loop}):")?;
    writeln!(out, "    avg:           {:.3}", latencies.mean())?;
    for (name, share) in QUANTILES {
        writeln!(out, "    {:<15}{:.3}", format!("{name}:"), latencies.quantile(share))?;
    }
    writeln!(out, "    max:           {:.3}", latencies.max())
}

fn write_load(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    if let Some(fairness) = outcome.fairness {
        writeln!(
            out,
            "events per connection: min {}, median {}, max {}",
            fairness.min, fairness.median, fairness.max
        )?;
    }
    if outcome.unfinished > 0 {
        let oldest = outcome.oldest.as_secs_f64() * 1000.0;
        writeln!(out, "unfinished at the end: {}, the oldest for {oldest:.3} ms", outcome.unfinished)?;
    }
    if outcome.starved > 0 {
        writeln!(out, "STARVED:           {} connections got no event done", outcome.starved)?;
    }
    if outcome.not_begun > 0 {
        writeln!(out, "due and not begun at the end: {}", outcome.not_begun)?;
    }
    Ok(())
}

/// What the load took of the machine that it came from.
fn write_generator(out: &mut String, outcome: &Outcome, context: &Context<'_>) -> std::fmt::Result {
    let processor = outcome.processor;
    writeln!(
        out,
        "load generator: {}, {:.3} s of processor time, {:.2} us per query ({:.2} user, {:.2} system)",
        context.driver,
        processor.total.as_secs_f64(),
        micros_per_query(outcome, processor.total),
        micros_per_query(outcome, processor.user),
        micros_per_query(outcome, processor.system),
    )?;
    write!(out, "    {:.1} MB resident", outcome.memory.measured as f64 / 1e6)?;
    if context.options.tables.workload().reconnects() {
        return writeln!(out, ", connections from {}", described(context.local_addresses));
    }
    writeln!(
        out,
        ", {} bytes for each of {} idle connections, which stood after {:.3} s, from {}",
        bytes_per_connection(outcome),
        grouped(outcome.connected.into()),
        outcome.connecting.as_secs_f64(),
        described(context.local_addresses),
    )
}

fn described(local_addresses: &[IpAddr]) -> String {
    match local_addresses {
        [] => "the system's choice of local address".to_owned(),
        [only] => only.to_string(),
        [first, .., last] => format!("{} local addresses, {first} to {last}", local_addresses.len()),
    }
}

/// Those that are reported, beside the average and the maximum.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];

fn per_second(count: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}

fn micros_per_query(outcome: &Outcome, time: Duration) -> f64 {
    let queries = outcome.statistics.total.queries.total();
    if queries == 0 { 0.0 } else { time.as_secs_f64() * 1e6 / queries as f64 }
}

/// What resident memory grew by while the connections were made.
fn bytes_per_connection(outcome: &Outcome) -> u64 {
    let grown = outcome.memory.connected.saturating_sub(outcome.memory.before);
    grown.checked_div(outcome.connected.into()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
