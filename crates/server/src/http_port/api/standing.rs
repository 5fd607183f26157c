//! How things are set up, and how near their bounds they are.

use std::collections::BTreeMap;

use admin::Pool as _;
use admin::tables::Limit;
use engine::{Histogram, LoginStage};
use serde_json::{Value, json};

use crate::accept_queues::AcceptQueue;
use crate::admin_port::logins::what;
use crate::admin_port::values::micros;
use crate::control::Control;
use crate::control::glance::Glance;
use crate::history::together::Together;

/// Lines of the log that are shown.
const EVENTS: usize = 100;

/// Workers that are shown; a machine has fewer processors, or an operator asks the admin port.
const WORKERS: usize = 64;

/// The last lines of the log, the latest first.
pub(super) fn events(control: &Control) -> Value {
    let events = control.program.log.kept.events();
    let row = |event: &admin::tables::Event| {
        json!({
            "number": event.number, "time": event.time, "worker": event.worker, "level": event.level, "event": event.event,
            "message": event.message,
        })
    };
    events.iter().rev().take(EVENTS).map(row).collect()
}

/// Options that somebody has set to something else than their default.
pub(super) fn options(control: &Control) -> Value {
    let settings = control.settings();
    let changed = settings
        .iter()
        .filter(|setting| setting.source != "default" && setting.value != setting.default_value);
    let row = |setting: &admin::tables::Setting| {
        json!({
            "name": setting.name, "value": setting.value, "default": setting.default_value, "scope": setting.scope,
            "source": setting.source,
        })
    };
    changed.map(row).collect()
}

/// Bounds, those that are nearest or were reached first, and what those that are off would have refused.
pub(super) fn limits(limits: &BTreeMap<&'static str, Limit>, glance: &Glance) -> Value {
    let mut all: Vec<_> = limits.values().collect();
    let share = |limit: &Limit| match (limit.in_use, limit.bound) {
        (Some(in_use), Some(bound)) => in_use as f64 / bound as f64,
        _ => 0.0,
    };
    all.sort_by(|one, other| {
        (other.reached, share(other))
            .partial_cmp(&(one.reached, share(one)))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let rows: Vec<_> = all
        .iter()
        .map(|limit| {
            json!({
                "option": limit.option, "bounds": limit.bounds, "unit": limit.unit, "scope": limit.scope,
                "in_use": limit.in_use, "bound": limit.bound, "reached": limit.reached,
            })
        })
        .collect();
    let totals = || glance.wholes.values().map(|whole| &whole.view.totals);
    let would = [
        ("queue_wait_limit", "10s", totals().map(|one| one.would_refuse_by_queue_wait_limit).sum::<u64>()),
        ("queue_delay_target", "1s", totals().map(|one| one.would_refuse_by_queue_delay_target).sum()),
        ("long_queue_wait_limit", "1m", totals().map(|one| one.would_refuse_by_long_queue_wait_limit).sum()),
    ];
    let would: Vec<_> = would
        .iter()
        .map(|(option, value, times)| json!({ "option": option, "value": value, "times": times }))
        .collect();
    json!({ "rows": rows, "would_refuse": would })
}

/// Each worker.
pub(super) fn workers(control: &Control, glance: &Glance) -> Value {
    let driver = control.program.driver.to_string();
    let row = |(worker, whole): (&usize, &std::sync::Arc<crate::ask::Whole>)| {
        let view = &whole.view;
        let busy = whole.measures.as_ref().map_or(0, |(own, _)| micros(own.turns.sum()));
        json!({
            "worker": worker, "driver": driver, "silent": glance.silent.contains(worker), "clients": view.clients,
            "backends": view.backends, "idle_backends": view.idle_backends, "permits": view.permits, "queued": view.queued.total(),
            "busy_us": busy, "longest_turn_us": micros(view.longest_turn.took),
            "longest_turn_statement": view.longest_turn.statement,
        })
    };
    glance.wholes.iter().take(WORKERS).map(row).collect()
}

/// The server, as it is seen from here.
pub(super) fn server(control: &Control, together: &Together) -> Value {
    let backends = &control.program.configuration.backends;
    let addresses: Vec<_> = backends.iter().map(|backend| backend.target.to_string()).collect();
    let states: serde_json::Map<_, _> = together
        .holders
        .backends
        .iter()
        .map(|(activity, &count)| (String::from(activity.name()), Value::from(count)))
        .collect();
    json!({
        "addresses": addresses, "up": together.server_is_up, "has_accounts": together.has_accounts, "backends": states,
        "connects": times(&together.measures.backend_connects), "connect_failures": together.measures.connect_failures,
        "lock_waits": together.holders.lock_waits,
    })
}

/// Logins by their stages, since the start, and what the kernel holds in front of them.
pub(super) fn logins(control: &Control, together: &Together) -> Value {
    let stage = |&stage: &LoginStage| {
        let times = times(together.measures.login_stage(stage));
        json!({ "stage": stage.name(), "says": what(stage), "times": times })
    };
    let accept_queue = |queue: AcceptQueue<'_>| {
        json!({
            "address": queue.address, "worker": queue.worker, "waiting": queue.waiting, "bound": queue.bound,
        })
    };
    let queues = &control.program.accept_queues;
    let lost = queues.lost();
    let refused = together.measures.refused().filter(|&(_, count)| count > 0);
    let refused: Vec<_> =
        refused.map(|(reason, count)| json!({ "reason": reason.name(), "count": count })).collect();
    json!({
        "accept_queues": queues.look().into_iter().map(accept_queue).collect::<Vec<_>>(),
        "accept_queue_overflows": lost.overflows,
        "accept_queue_drops": lost.drops,
        "whole": times(&together.measures.logins),
        "refused_for": refused,
        "stages": LoginStage::ALL.iter().map(stage).collect::<Vec<_>>(),
        "connections": together.connections,
        "refused": together.refused_logins,
        "logging_in": together.clients.saturating_sub(u64::from(together.measures.logged_in)),
    })
}

fn times(times: &Histogram) -> Value {
    let quantile = |share| micros(times.quantile(share));
    json!({
        "count": times.count(), "p50_us": quantile(0.5), "p95_us": quantile(0.95), "p99_us": quantile(0.99),
        "max_us": micros(times.max()),
    })
}
