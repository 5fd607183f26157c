//! Counters and measures: of each worker, and of all together.

use admin::Rows;
use admin::tables::{Limit, MemoryPart, PoolGroup, PoolStats, Status, TpGroupState, TpGroupStats, Worker};
use drivers::Counters;
use engine::{Memory, Queue, WorkerView};
use seam::Signal;

use super::counters::{self, Wholes};
use super::limits;
use super::values::micros;
use crate::ask::{Ask, Look, Sight, Whole};
use crate::control::Control;

/// Adds a worker to all tables that show workers.
pub(super) fn put_worker(
    control: &Control,
    rows: &mut Rows<'_>,
    worker: usize,
    whole: &Whole,
    counters: &Counters,
) {
    let view = &whole.view;
    let number = u32::try_from(worker).unwrap_or(u32::MAX);
    rows.put(&worker_row(control, number, view, counters));
    rows.put(&PoolGroup {
        group_id: number,
        connections: view.clients as u64,
        threads: view.backends as u64,
        active_threads: view.permits,
        standby_threads: view.idle_backends as u64,
        queue_length: waiting(view),
        has_listener: true,
        is_stalled: view.is_stalled,
    });
    rows.put(&PoolStats {
        group_id: number,
        thread_creations: view.totals.opened_backends,
        thread_creations_due_to_stall: 0,
        wakes: 0,
        wakes_due_to_stall: 0,
        throttles: 0,
        stalls: view.totals.stalls,
        polls_by_listener: counters.turns,
        polls_by_worker: 0,
        dequeues_by_listener: view.statements,
        dequeues_by_worker: 0,
    });
    put_groups_of_mysql(control, rows, number, view);
}

fn put_groups_of_mysql(control: &Control, rows: &mut Rows<'_>, number: u32, view: &WorkerView) {
    let busy = view.backends.saturating_sub(view.idle_backends + view.opening_backends);
    let (stall_limit, prio_kickup_timer) = {
        let engine = &control.configuration().engine;
        (engine.stall_limit, engine.prio_kickup_timer)
    };
    rows.put(&TpGroupState {
        tp_group_id: number,
        consumer_threads: busy as u64,
        reserve_threads: view.idle_backends as u64,
        connect_thread_count: view.opening_backends as u64,
        connection_count: view.clients as u64,
        queued_queries: before_low(view),
        queued_transactions: queued(view, Queue::Low) + queued(view, Queue::Long),
        stall_limit: micros(stall_limit) / 1000,
        prio_kickup_timer: micros(prio_kickup_timer) / 1000,
        thread_count: view.backends as u64,
        active_thread_count: view.permits,
        stalled_thread_count: view.lent as u64,
        oldest_queued: view.oldest_queued.map(|waited| micros(waited) / 1000),
        threads_bound_to_transaction: view.transactions as u64,
    });
    rows.put(&TpGroupStats {
        tp_group_id: number,
        connections_started: view.connections,
        connections_closed: view.connections.saturating_sub(view.clients as u64),
        queries_executed: view.statements,
        queries_queued: view.statements + view.totals.cancelled + waiting(view),
        threads_started: view.totals.opened_backends,
        prio_kickups: view.totals.kick_ups,
        stalled_queries_executed: view.totals.stalls,
    });
}

fn worker_row(control: &Control, worker: u32, view: &WorkerView, counters: &Counters) -> Worker {
    Worker {
        worker,
        driver: control.program.driver.to_string(),
        clients: view.clients as u64,
        backends: view.backends as u64,
        idle_backends: view.idle_backends as u64,
        permits: view.permits,
        queued_high: before_low(view),
        queued_low: queued(view, Queue::Low),
        queued_long: queued(view, Queue::Long),
        session_states: view.session_states as u64,
        connections: view.connections,
        refused_logins: view.totals.refused_logins,
        statements: view.statements,
        cancelled: view.totals.cancelled,
        stalls: view.totals.stalls,
        kick_ups: view.totals.kick_ups,
        backends_opened: view.totals.opened_backends,
        account_changes: view.totals.account_changes,
        failed_account_changes: view.totals.failed_account_changes,
        turns: counters.turns,
        longest_turn_us: micros(view.longest_turn.took),
        longest_turn_digest: view.longest_turn.digest.map(super::values::digest_name),
        longest_turn_statement: view.longest_turn.statement.clone(),
        bytes_received: counters.bytes_received,
        bytes_sent: counters.bytes_sent,
        paused: view.paused,
    }
}

/// Adds what a worker holds.
pub(super) fn put_memory(rows: &mut Rows<'_>, worker: usize, memory: &Memory, counters: &Counters) {
    let parts = [
        ("client_tables", memory.client_tables as u64),
        ("statements", memory.statements as u64),
        ("logins", memory.logins as u64),
        ("handshakes", memory.handshakes as u64),
        ("prepared_statements", memory.prepared_statements as u64),
        ("kept_warnings", memory.diagnostics as u64),
        ("backends", memory.backends as u64),
        ("session_states", memory.session_states as u64),
        ("digests", memory.digests as u64),
        ("outputs", memory.outputs as u64),
        ("compression", memory.compression as u64),
        ("connection_tables", counters.connection_table_bytes),
        ("receive_buffers", counters.receive_buffer_bytes),
        ("send_buffers", counters.send_buffer_bytes),
        ("rings", counters.ring_bytes),
    ];
    let worker = u32::try_from(worker).ok();
    for (part, bytes) in parts {
        rows.put(&MemoryPart { worker, part, bytes });
    }
}

/// Adds what concerns all workers.
pub(super) fn put_process(control: &Control, rows: &mut Rows<'_>, wholes: &Wholes) {
    if let Some(bytes) = crate::memory::resident() {
        rows.put(&MemoryPart { worker: None, part: "resident", bytes });
    }
    if rows.wants::<Limit>() {
        limits::put(control, rows, wholes);
    }
    if rows.wants::<Status>() {
        for counter in counters::all() {
            rows.put(&Status {
                variable_name: counter.name,
                variable_value: counter.value(control, wholes).to_string(),
                description: counter.help,
            });
        }
    }
}

/// The line that `mysqladmin status` shows, after the servers' (COM_STATISTICS).
pub(super) fn line(control: &Control) -> String {
    let what = Look::default();
    let mut answers = control.ask(Signal::Wake, |answer| Ask::Look { what, answer });
    let (mut clients, mut statements, mut waiting_now) = (0, 0, 0);
    while let Some((_, sight)) = answers.next() {
        if let Sight::Whole(whole) = sight {
            clients += whole.view.clients;
            statements += whole.view.statements;
            waiting_now += waiting(&whole.view);
        }
    }
    let uptime = control.started.elapsed().as_secs();
    let rate = statements as f64 / uptime.max(1) as f64;
    format!(
        "Uptime: {uptime}  Threads: {clients}  Questions: {statements}  Queued: {waiting_now}  \
         Queries per second avg: {rate:.3}"
    )
}

/// Statements in the high queue and those that go before it.
pub(super) fn before_low(view: &WorkerView) -> u64 {
    waiting(view) - queued(view, Queue::Low) - queued(view, Queue::Long) - queued(view, Queue::Contended)
}

pub(super) fn queued(view: &WorkerView, queue: Queue) -> u64 {
    view.queued[queue] as u64
}

/// Statements that wait in any queue.
pub(super) fn waiting(view: &WorkerView) -> u64 {
    view.queued.total() as u64
}
