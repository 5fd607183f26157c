//! Tables filled from what workers answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use admin::Rows;
use admin::tables::{
    AcceptQueue, Backend, Blocker, Change, Client, Event, Failover, Limit, Login, MemoryPart, Minute, Note,
    Peer, Pin, PinCause, PinnedClient, PoolGroup, PoolQueue, PoolStats, PoolWait, Process, Queued, Refusal,
    Route, Server, ServerCheck, StatementKind, Status, TpConnection, TpGroupState, TpGroupStats,
    TpThreadState, Wait, Worker,
};
use engine::{BackendState, BackendView, Digest, Histogram, PermitState, Reason, WaitReason, Waits};
use seam::Signal;

use super::counters::Wholes;
use super::people::{Counted, People};
use super::values::{LOCALHOST, digest_name, micros};
use super::{logins, pins, servers, status};
use crate::ask::{Ask, Look, Sight};
use crate::control::{Control, answers};
use crate::kinds::Kinds;
use crate::reads::{ReadServers, Routes};

/// Fills what `rows` wants.
pub(super) fn fill(control: &Control, rows: &mut Rows<'_>) {
    if rows.wants::<Event>() {
        control.program.log.kept.events().iter().for_each(|event| rows.put(event));
    }
    if rows.wants::<AcceptQueue>() {
        put_accept_queues(control, rows);
    }
    put_history(control, rows);
    let Some(what) = look(rows) else { return };
    let signal = if needs_counters(rows) { Signal::Report } else { Signal::Wake };
    let mut answers = control.ask(signal, |answer| Ask::Look { what, answer });
    let mut people = People::default();
    let mut kinds = Kinds::default();
    let mut routes = Routes::default();
    let mut wholes = Wholes::new();
    while let Some((worker, sight)) = answers.next() {
        let number = u32::try_from(worker).unwrap_or(u32::MAX);
        match sight {
            Sight::Whole(whole) => {
                wholes.insert(worker, Arc::from(whole));
            }
            Sight::Clients(clients) => {
                clients.into_iter().for_each(|client| people.put(rows, number, client));
            }
            Sight::Backends(backends) => {
                for backend in backends {
                    rows.put(&thread_row(number, &backend));
                    rows.put(&backend_row(number, backend));
                }
            }
            Sight::Digests(found) => found.into_iter().for_each(|kind| kinds.add(kind)),
            Sight::Routing(found) => routes.add(found),
            Sight::DigestCosts(_) | Sight::Drain(_) | Sight::Killed(_) | Sight::Done | Sight::NotHere => {}
        }
        if std::time::Instant::now() > rows.deadline() {
            break;
        }
    }
    if let missing @ [_, ..] = answers.missing().as_slice() {
        rows.warn(format!("{} not answered in time: rows are missing", answers::have(missing)));
    }
    let reports = wholes.values().filter_map(|whole| whole.pins.as_ref());
    let Counted { pins, logging_in } = people.finish(rows);
    pins::put(rows, pins, reports);
    logins::put(rows, &logging_in, &wholes);
    put_refusals(rows, &wholes);
    routes.iter().for_each(|route| servers::put_route(rows, route));
    let read_servers = ReadServers::of(&wholes);
    for whole in wholes.values() {
        whole.servers.iter().for_each(|server| servers::put(rows, server, read_servers.at(&server.address)));
        whole.failovers.iter().for_each(|failover| servers::put_failover(rows, failover));
        whole.peers.iter().for_each(|peer| servers::put_peer(rows, peer));
    }
    put_kinds(rows, &kinds);
    fill_wholes(control, rows, &wholes);
}

fn put_accept_queues(control: &Control, rows: &mut Rows<'_>) {
    for queue in control.program.accept_queues.look() {
        let (address, worker) = (String::from(queue.address), queue.worker);
        rows.put(&AcceptQueue { address, worker, waiting: queue.waiting, bound: queue.bound });
    }
}

/// Returns the question for the workers; `None` where no worker has to be asked.
fn look(rows: &Rows<'_>) -> Option<Look> {
    let people = rows.wants::<Client>()
        || rows.wants::<Process>()
        || rows.wants::<TpConnection>()
        || rows.wants::<Queued>()
        || rows.wants::<PoolQueue>()
        || rows.wants::<Pin>()
        || rows.wants::<PinnedClient>()
        || rows.wants::<Login>();
    let look = Look {
        clients: people,
        busy_clients: false,
        backends: rows.wants::<Backend>() || rows.wants::<TpThreadState>(),
        digests: rows.wants::<StatementKind>(),
        routing: rows.wants::<Route>(),
        digest_costs: false,
        waits: rows.wants::<Wait>() || rows.wants::<PoolWait>(),
        memory: rows.wants::<MemoryPart>(),
        pins: rows.wants::<Pin>() || rows.wants::<PinCause>(),
        measures: rows.wants::<Login>(),
        servers: rows.wants::<Server>()
            || rows.wants::<ServerCheck>()
            || rows.wants::<Failover>()
            || rows.wants::<Peer>(),
    };
    let whole = rows.wants::<Worker>()
        || rows.wants::<Limit>()
        || rows.wants::<Status>()
        || rows.wants::<PoolGroup>()
        || rows.wants::<PoolStats>()
        || rows.wants::<TpGroupState>()
        || rows.wants::<TpGroupStats>()
        || rows.wants::<Blocker>()
        || rows.wants::<Refusal>();
    (look != Look::default() || whole).then_some(look)
}

/// What is kept, and asks no worker.
fn put_history(control: &Control, rows: &mut Rows<'_>) {
    let Some(history) = control.history.get() else { return };
    if rows.wants::<Minute>() {
        history.minutes().iter().for_each(|minute| rows.put(minute));
    }
    if rows.wants::<Change>() {
        history.changes().iter().for_each(|change| rows.put(change));
    }
    if rows.wants::<Note>() {
        for (note, place) in history.notes(control).into_iter().zip(1..) {
            rows.put(&Note { place, level: note.level.name(), about: note.see, text: note.text });
        }
    }
}

/// Somebody is known to each worker that refused him.
fn put_refusals(rows: &mut Rows<'_>, wholes: &Wholes) {
    if !rows.wants::<Refusal>() {
        return;
    }
    let mut all: BTreeMap<_, u64> = BTreeMap::new();
    for refused in wholes.values().flat_map(|whole| whole.view.refused.iter().cloned()) {
        let host = match refused.host {
            Some(host) => Some(host.to_string()),
            None => refused.is_one.then(|| String::from(LOCALHOST)),
        };
        *all.entry((refused.reason, refused.user, host)).or_default() += refused.times;
    }
    for ((reason, user, host), times) in all {
        let (reason, kind) = match reason {
            Reason::Limit(limit) => (limit.name(), "limit"),
            Reason::Login(refused_for) => (refused_for.name(), "login"),
        };
        rows.put(&Refusal { reason, kind, user, host, times });
    }
}

fn needs_counters(rows: &Rows<'_>) -> bool {
    rows.wants::<Worker>()
        || rows.wants::<MemoryPart>()
        || rows.wants::<Status>()
        || rows.wants::<PoolStats>()
}

fn fill_wholes(control: &Control, rows: &mut Rows<'_>, wholes: &Wholes) {
    for (&worker, whole) in wholes {
        let counters = control.program.reach[worker].1.counters();
        status::put_worker(control, rows, worker, whole, &counters);
        if let Some(memory) = &whole.memory {
            status::put_memory(rows, worker, memory, &counters);
        }
    }
    let waits = wholes.values().filter_map(|whole| whole.waits.as_ref());
    let together = waits.fold(Waits::default(), |mut together, waits| {
        together += waits;
        together
    });
    put_waits(rows, &together);
    put_blockers(rows, wholes);
    status::put_process(control, rows, wholes);
}

fn put_waits(rows: &mut Rows<'_>, waits: &Waits) {
    for (reason, histogram) in waits.iter().filter(|(_, histogram)| histogram.count() > 0) {
        rows.put(&wait_row(reason, histogram));
        rows.put(&PoolWait { reason: reason.name().to_ascii_uppercase(), count: histogram.count() });
    }
}

fn wait_row(reason: WaitReason, histogram: &Histogram) -> Wait {
    let quantile = |share| micros(histogram.quantile(share));
    Wait {
        reason: reason.name(),
        count: histogram.count(),
        total_us: micros(histogram.sum()),
        max_us: micros(histogram.max()),
        p50_us: quantile(0.5),
        p90_us: quantile(0.9),
        p99_us: quantile(0.99),
        p999_us: quantile(0.999),
    }
}

/// Clients of all workers can have waited for the same one.
fn put_blockers(rows: &mut Rows<'_>, wholes: &Wholes) {
    let mut blockers: BTreeMap<u32, engine::Blocker> = BTreeMap::new();
    for &(client, blocker) in wholes.values().flat_map(|whole| &whole.view.blockers) {
        *blockers.entry(client).or_default() += blocker;
    }
    for (client, blocker) in blockers {
        let (time_us, max_us) = (micros(blocker.time), micros(blocker.longest));
        rows.put(&Blocker { client, waits: blocker.waits, time_us, max_us });
    }
}

fn thread_row(worker: u32, view: &BackendView) -> TpThreadState {
    use BackendState::{Connecting, Held, Idle, LoggingIn, Resetting, Running, SettingUp};
    let opening = matches!(view.state, Connecting | LoggingIn | SettingUp);
    TpThreadState {
        tp_group_id: worker,
        tp_thread_number: view.thread_id,
        // The first interval is 1.
        process_count: view.running.map_or(0, |running| micros(running) / 10_000 + 1),
        wait_type: view.lock_wait.map(|_| "THD_WAIT_ROW_LOCK"),
        tp_thread_type: if opening { "CONNECTION_HANDLER_WORKER_THREAD" } else { "QUERY_WORKER_THREAD" },
        thread_id: view.thread_id,
        marked_stalled: view.permit == PermitState::Lent,
        state: match view.state {
            Running => "PROCESSING_QUEUED",
            Held => "SLEEPING_CONSUMER",
            Idle => "SLEEPING_RESERVE",
            Connecting | LoggingIn | SettingUp | Resetting => "MANAGING",
        },
        connection_id: view.client,
    }
}

fn backend_row(worker: u32, view: BackendView) -> Backend {
    Backend {
        server: view.server.to_string(),
        thread_id: view.thread_id,
        worker,
        user: view.user,
        state: view.state.name(),
        client: view.client,
        in_flight: u32::try_from(view.in_flight).unwrap_or(u32::MAX),
        permit: view.permit.name(),
        running_us: view.running.map(micros),
        idle_us: view.idle.map(micros),
        schema_name: view.schema,
        session_state: view.session_state,
        in_transaction: view.in_transaction,
        paused: view.paused,
    }
}

fn put_kinds(rows: &mut Rows<'_>, kinds: &Kinds) {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    for view in kinds.iter() {
        let then = |age| admin::tables::time_text(now.saturating_sub(age));
        let digest: &Digest = &view.digest;
        let (usual, least) = digest.usual_and_least();
        let taken_for: Vec<_> = view.taken_for.names().collect();
        rows.put(&StatementKind {
            digest: digest.fingerprint.map(digest_name),
            text: digest.text.as_deref().map(String::from),
            count: digest.count,
            errors: digest.errors,
            coalesced: digest.coalesced,
            rows_sent: digest.rows_sent,
            rows_affected: digest.rows_affected,
            time_us: micros(digest.execution.sum()),
            min_time_us: micros(digest.execution.min()),
            max_time_us: micros(digest.execution.max()),
            p50_us: micros(digest.quantile(0.5)),
            p99_us: micros(digest.quantile(0.99)),
            wait_us: micros(digest.wait.sum()),
            max_wait_us: micros(digest.wait.max()),
            first_seen: then(view.first_seen),
            last_seen: then(view.last_seen),
            taken_for: (!taken_for.is_empty()).then(|| taken_for.join(",")),
            permit_percent: view.permit_percent,
            recent_us: micros(usual),
            least_us: micros(least),
        });
    }
}
