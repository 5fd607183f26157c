//! Clients, and the tables that follow from them.

use std::collections::BTreeMap;
use std::time::Duration;

use admin::Rows;
use admin::tables::{Client, PinnedClient, PoolQueue, Process, Queued, TpConnection};
use engine::{ClientState, ClientView, Lack, LoginStage, Queue};

use super::values::{address, digest_name, host, micros};

/// The facts that are known only once all clients have been seen: the clients behind each other in the queues, and how many have
/// which pin.
#[derive(Default)]
pub(super) struct People {
    queued: Vec<(Place, Queued)>,
    pins: BTreeMap<&'static str, u64>,
    logging_in: BTreeMap<LoginStage, u64>,
}

/// What is told of clients once all have been seen.
pub(super) struct Counted {
    /// For how many each reason to pin holds.
    pub(super) pins: BTreeMap<&'static str, u64>,
    /// How many are at each stage of a login.
    pub(super) logging_in: BTreeMap<LoginStage, u64>,
}

/// The order in which statements run, as far as it can be told from outside: by queue, then by time of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    queue: Queue,
    waited: std::cmp::Reverse<Duration>,
}

impl People {
    /// Adds a client to all tables that show clients.
    pub(super) fn put(&mut self, rows: &mut Rows<'_>, worker: u32, view: ClientView) {
        for name in view.pins.names() {
            *self.pins.entry(name).or_default() += 1;
            rows.put(&PinnedClient {
                client: view.id,
                worker,
                user: view.user.clone(),
                host: host(&view.peer),
                reason: name,
                backend: view.backend,
                idle_us: micros(view.idle),
            });
        }
        if let Some(stage) = view.login {
            *self.logging_in.entry(stage).or_default() += 1;
        }
        if rows.wants::<Process>() {
            rows.put(&process(&view));
        }
        rows.put(&connection(worker, &view));
        if let (Some(queue), Some(waited)) = (view.queue, view.queued) {
            let place = Place { queue, waited: std::cmp::Reverse(waited) };
            self.queued.push((place, queued(worker, queue, waited, &view)));
        }
        if rows.wants::<Client>() {
            rows.put(&client(worker, view));
        }
    }

    /// Adds what waits to its tables.
    pub(super) fn finish(mut self, rows: &mut Rows<'_>) -> Counted {
        self.queued.sort_by_key(|(place, queued)| (*place, queued.client));
        let mut positions: BTreeMap<u32, u64> = BTreeMap::new();
        for ((place, mut queued), position) in self.queued.into_iter().zip(1..) {
            queued.position = position;
            let within = positions.entry(queued.worker).or_default();
            rows.put(&PoolQueue {
                group_id: queued.worker,
                position: *within,
                priority: u32::from(matches!(place.queue, Queue::Low | Queue::Long)),
                connection_id: queued.client,
                queueing_time_microseconds: queued.queued_us,
            });
            *within += 1;
            rows.put(&queued);
        }
        Counted { pins: self.pins, logging_in: self.logging_in }
    }
}

fn client(worker: u32, view: ClientView) -> Client {
    let pins: Vec<_> = view.pins.names().collect();
    Client {
        id: view.id,
        worker,
        user: view.user,
        account: view.account,
        address: address(&view.peer),
        schema_name: view.schema,
        state: view.state.name(),
        in_transaction: view.in_transaction,
        transaction_us: view.transaction.map(micros),
        holds_locks: view.holds_locks,
        blocks_others: view.blocks_others,
        waits_for_client: view.lock_wait.and_then(|wait| wait.client),
        waits_for_thread: view.lock_wait.map(|wait| wait.thread),
        lock_wait_us: view.lock_wait.map(|wait| micros(wait.time)),
        backend: view.backend,
        server: view.server.as_ref().map(ToString::to_string),
        pins: (!pins.is_empty()).then(|| pins.join(",")),
        queue: view.queue.map(Queue::name),
        queued_us: view.queued.map(micros),
        running_us: view.running.map(micros),
        idle_us: micros(view.idle),
        stalled_us: view.stalled.map(micros),
        digest: view.digest.map(digest_name),
        statement: view.statement,
        input_bytes: view.input as u64,
        session_state: view.session_state,
    }
}

fn queued(worker: u32, queue: Queue, waited: Duration, view: &ClientView) -> Queued {
    Queued {
        worker,
        queue: queue.name(),
        position: 0,
        client: view.id,
        user: view.user.clone(),
        holds_backend: view.backend.is_some(),
        queued_us: micros(waited),
        waits_for: view.lacks.map(Lack::name),
        digest: view.digest.map(digest_name),
        statement: view.statement.clone(),
    }
}

fn process(view: &ClientView) -> Process {
    let time = view.queued.or(view.running).unwrap_or(view.idle);
    Process {
        id: view.id,
        user: view.user.clone().unwrap_or_else(|| String::from("unauthenticated user")),
        host: address(&view.peer),
        db: view.schema.clone(),
        command: match view.state {
            _ if view.killed => "Killed",
            ClientState::Connecting | ClientState::LoggingIn => "Connect",
            ClientState::Idle => "Sleep",
            _ => "Query",
        },
        time: time.as_secs(),
        state: state(view),
        info: view.statement.clone(),
        time_ms: time.as_secs_f64() * 1000.0,
    }
}

/// Returns a client's state, for people.
fn state(view: &ClientView) -> String {
    let pins: Vec<_> = view.pins.names().collect();
    match (view.state, view.queue) {
        (_, Some(queue)) => format!("queued ({queue})"),
        (ClientState::Idle, None) if view.in_transaction => String::from("idle in transaction"),
        (ClientState::Idle, None) if !pins.is_empty() => format!("pinned: {}", pins.join(", ")),
        (ClientState::Running, None) if view.stalled.is_some() => String::from("slow to take its reply"),
        (ClientState::OnReplica, None) => match &view.server {
            Some(server) => format!("on replica {server}"),
            None => String::from("waiting for a replica"),
        },
        (state, None) => state.name().replace('_', " "),
    }
}

fn connection(worker: u32, view: &ClientView) -> TpConnection {
    let (state, active_flag) = match view.state {
        ClientState::Connecting | ClientState::LoggingIn => ("ESTABLISHED", false),
        ClientState::Idle => ("ARMED", false),
        ClientState::Queued if view.backend.is_some() => ("WAITING_FOR_CREDIT", true),
        ClientState::Queued => ("QUEUED", true),
        _ => ("ATTACHED", true),
    };
    TpConnection {
        connection_id: view.id,
        tp_group_id: worker,
        tp_processing_thread_number: view.backend,
        state,
        active_flag,
        r#type: "User",
    }
}
