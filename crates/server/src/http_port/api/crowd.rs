//! Clients that want or hold something: the first few of each kind, and how many there are by user.

use std::collections::BTreeMap;

use engine::{ClientState, ClientView};
use serde_json::{Value, json};

use super::locks::Locks;
use super::top::Top;
use crate::admin_port::values::{address, digest_name, host, micros};

/// Rows of each list: what is read at one look.
const ROWS: usize = 15;

/// Users with their hosts that are counted apart; the rest is together. Applications have few.
const MOST_GROUPS: usize = 5000;

/// Which rows are wanted: those with this in what is shown of them, in small letters; all where it is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter(String);

impl Filter {
    pub(super) fn new(wanted: &str) -> Self {
        Self(wanted.trim().to_lowercase())
    }

    fn takes(&self, view: &ClientView) -> bool {
        self.0.is_empty()
            || self.has(view.user.as_deref().unwrap_or_default())
            || self.has(view.schema.as_deref().unwrap_or_default())
            || self.has(&address(&view.peer))
            || self.has(view.statement.as_deref().unwrap_or_default())
            || self.has(&view.id.to_string())
            || view.digest.is_some_and(|digest| self.has(&digest_name(digest)))
            || view.pins.names().any(|name| self.has(name))
    }

    /// Whether a text has it.
    pub(super) fn has(&self, text: &str) -> bool {
        self.0.is_empty() || text.to_lowercase().contains(&self.0)
    }
}

/// What is found.
pub(super) struct Crowd {
    filter: Filter,
    waiting: Top<Value>,
    running: Top<Value>,
    idle_in_transaction: Top<Value>,
    pinned: Top<Value>,
    waiting_by_user: BTreeMap<(String, String), Group>,
    pinned_by_user: BTreeMap<(String, String), Group>,
    pub(super) pins: BTreeMap<&'static str, u64>,
    pub(super) locks: Locks,
}

/// Clients of one user from one host.
#[derive(Default)]
struct Group {
    clients: u64,
    /// Microseconds.
    longest: u64,
    pins: BTreeMap<&'static str, u64>,
}

impl Crowd {
    pub(super) fn new(filter: Filter) -> Self {
        Self {
            filter,
            waiting: Top::new(ROWS),
            running: Top::new(ROWS),
            idle_in_transaction: Top::new(ROWS),
            pinned: Top::new(ROWS),
            waiting_by_user: BTreeMap::new(),
            pinned_by_user: BTreeMap::new(),
            pins: BTreeMap::new(),
            locks: Locks::default(),
        }
    }

    /// Takes one in.
    pub(super) fn put(&mut self, view: &ClientView) {
        for name in view.pins.names() {
            *self.pins.entry(name).or_default() += 1;
        }
        // A tree of which branches are missing tells nothing.
        self.locks.put(view);
        if !self.filter.takes(view) {
            return;
        }
        if let Some(queued) = view.queued.map(micros) {
            self.waiting.put(queued, || row(view));
            group(&mut self.waiting_by_user, view).add(queued, view);
        } else if let Some(running) = view.running.map(micros) {
            self.running.put(running, || row(view));
        }
        let idles = view.state == ClientState::Idle;
        if let Some(open) = view.transaction.map(micros).filter(|_| idles) {
            self.idle_in_transaction.put(open, || row(view));
        }
        if !view.pins.is_empty() {
            let idle = if idles { micros(view.idle) } else { 0 };
            self.pinned.put(idle, || row(view));
            group(&mut self.pinned_by_user, view).add(idle, view);
        }
    }

    /// As an object of lists.
    pub(super) fn json(self) -> Value {
        json!({
            "waiting": { "seen": self.waiting.seen, "rows": self.waiting.finish(), "by_user": groups(self.waiting_by_user) },
            "running": { "seen": self.running.seen, "rows": self.running.finish() },
            "idle_in_transaction": {
                "seen": self.idle_in_transaction.seen, "rows": self.idle_in_transaction.finish(),
            },
            "pinned": { "seen": self.pinned.seen, "rows": self.pinned.finish(), "by_user": groups(self.pinned_by_user) },
            "locks": self.locks.json(),
        })
    }
}

impl Group {
    fn add(&mut self, time: u64, view: &ClientView) {
        self.clients += 1;
        self.longest = self.longest.max(time);
        for name in view.pins.names() {
            *self.pins.entry(name).or_default() += 1;
        }
    }
}

fn group<'a>(groups: &'a mut BTreeMap<(String, String), Group>, view: &ClientView) -> &'a mut Group {
    let key = (view.user.clone().unwrap_or_default(), host(&view.peer));
    let fits = groups.len() < MOST_GROUPS || groups.contains_key(&key);
    groups.entry(if fits { key } else { Default::default() }).or_default()
}

/// Those with most clients first.
fn groups(all: BTreeMap<(String, String), Group>) -> Vec<Value> {
    let mut top = Top::new(ROWS);
    for ((user, host), group) in all {
        top.put(group.clients, || {
            json!({
                "user": user, "host": host, "clients": group.clients, "longest_us": group.longest, "pins": group.pins,
            })
        });
    }
    top.finish()
}

/// A client, with what is not there left out.
pub(super) fn row(view: &ClientView) -> Value {
    let pins: Vec<_> = view.pins.names().collect();
    let all = json!({
        "client": view.id,
        "user": view.user,
        "address": address(&view.peer),
        "schema": view.schema,
        "state": view.state.name(),
        "queue": view.queue.map(engine::Queue::name),
        "queued_us": view.queued.map(micros),
        "running_us": view.running.map(micros),
        "transaction_us": view.transaction.map(micros),
        "idle_us": (view.state == ClientState::Idle).then(|| micros(view.idle)),
        "stalled_us": view.stalled.map(micros),
        "backend": view.backend,
        "replica": view.server.as_ref().filter(|_| view.state == ClientState::OnReplica).map(ToString::to_string),
        "pins": (!pins.is_empty()).then_some(pins),
        "digest": view.digest.map(digest_name),
        "statement": view.statement,
    });
    let Value::Object(all) = all else { return all };
    Value::Object(all.into_iter().filter(|(_, value)| !value.is_null()).collect())
}
