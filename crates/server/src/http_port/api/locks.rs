//! Who holds locks, and whom they block: the branches of a tree that are worth a look.

use std::collections::{BTreeMap, BTreeSet};

use engine::ClientView;
use serde_json::{Value, json};

use super::crowd::row;
use super::top::Top;
use crate::admin_port::values::micros;

/// Holders that are shown: those with most behind them.
const HOLDERS: usize = 20;

/// Of those who wait for one holder so many are shown, the longest first; of the others how many they are.
const WAITERS: usize = 8;

/// Holders that are told apart, and of those whom others wait for so many rows: who comes behind them is left out. A server has fewer
/// threads that hold something.
const MOST_HOLDERS: usize = 5000;

/// So far a holder's own waiting is followed, and who is behind it counted.
const DEEPEST: usize = 100;

/// Who is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Client(u32),
    /// By its thread id on the server: no client of ours.
    Thread(u32),
}

/// What is found.
#[derive(Default)]
pub(super) struct Locks {
    /// By holder: those who wait for it.
    behind: BTreeMap<Holder, Top<Value>>,
    /// Clients that hold, with what is known of them.
    holders: BTreeMap<u32, Value>,
    /// Whom each waits for, of those that hold something themselves.
    waits_for: BTreeMap<u32, Holder>,
    /// Those who hold and keep nobody waiting, as far as is known: the longest transaction first.
    harmless: Option<Top<Value>>,
}

impl Locks {
    /// Takes one in.
    pub(super) fn put(&mut self, view: &ClientView) {
        let holder =
            view.lock_wait.map(|wait| wait.client.map_or(Holder::Thread(wait.thread), Holder::Client));
        if let Some(holder) = holder {
            let fits = self.behind.len() < MOST_HOLDERS || self.behind.contains_key(&holder);
            if fits {
                let waited = view.lock_wait.map_or(0, |wait| micros(wait.time));
                let waiters = self.behind.entry(holder).or_insert_with(|| Top::new(WAITERS));
                waiters.put(waited, || waiter(view, waited));
            }
        }
        if view.blocks_others || view.holds_locks && holder.is_some() {
            if self.holders.len() < MOST_HOLDERS {
                self.holders.insert(view.id, row(view));
                self.waits_for.extend(holder.map(|holder| (view.id, holder)));
            }
        } else if view.holds_locks {
            let top = self.harmless.get_or_insert_with(|| Top::new(WAITERS));
            top.put(view.transaction.map_or(0, micros), || row(view));
        }
    }

    /// The roots with most behind them first; each holder has those who wait for it, who may be holders, too.
    pub(super) fn json(self) -> Value {
        let mut counts: BTreeMap<Holder, u64> = BTreeMap::new();
        for (&holder, waiters) in &self.behind {
            for above in self.with_all_above(holder) {
                *counts.entry(above).or_default() += waiters.seen;
            }
        }
        let is_root = |holder: &Holder| match holder {
            Holder::Client(id) => !self.waits_for.contains_key(id),
            Holder::Thread(_) => true,
        };
        let mut top = Top::new(HOLDERS);
        for (&holder, &count) in &counts {
            // Who waits in a circle is behind no root.
            let rank = if is_root(&holder) { u64::from(u32::MAX) + count } else { count };
            top.put(rank, || holder);
        }
        let holders: Vec<_> = top.finish().into_iter().map(|holder| (holder, counts[&holder])).collect();
        let (known, waits_for) = (self.holders, self.waits_for);
        let mut behind = self.behind;
        let nodes: Vec<_> = holders
            .into_iter()
            .map(|(holder, count)| {
                let waiters = behind.remove(&holder);
                node(holder, count, waiters, &known, &waits_for)
            })
            .collect();
        let harmless = self.harmless.map_or_else(|| (0, Vec::new()), |top| (top.seen, top.finish()));
        json!({ "nodes": nodes, "harmless": { "seen": harmless.0, "rows": harmless.1 } })
    }

    /// A holder, whom it waits for, and so on.
    fn with_all_above(&self, holder: Holder) -> BTreeSet<Holder> {
        let mut all = BTreeSet::new();
        let mut next = Some(holder);
        while let Some(holder) = next.filter(|&holder| all.len() < DEEPEST && all.insert(holder)) {
            next = match holder {
                Holder::Client(id) => self.waits_for.get(&id).copied(),
                Holder::Thread(_) => None,
            };
        }
        all
    }
}

fn node(
    holder: Holder,
    count: u64,
    behind: Option<Top<Value>>,
    known: &BTreeMap<u32, Value>,
    waits_for: &BTreeMap<u32, Holder>,
) -> Value {
    let (direct, waiters) =
        behind.map_or_else(|| (0, Vec::new()), |waiters| (waiters.seen, waiters.finish()));
    let (client, thread) = parts(Some(holder));
    let above = match holder {
        Holder::Client(id) => waits_for.get(&id).copied(),
        Holder::Thread(_) => None,
    };
    let (above_client, above_thread) = parts(above);
    json!({
        "client": client, "thread": thread, "waits_for_client": above_client, "waits_for_thread": above_thread,
        "who": client.and_then(|id| known.get(&id)), "behind": count, "direct": direct, "waiters": waiters,
    })
}

fn parts(holder: Option<Holder>) -> (Option<u32>, Option<u32>) {
    match holder {
        Some(Holder::Client(id)) => (Some(id), None),
        Some(Holder::Thread(id)) => (None, Some(id)),
        None => (None, None),
    }
}

fn waiter(view: &ClientView, waited: u64) -> Value {
    let mut row = row(view);
    row["lock_wait_us"] = json!(waited);
    row["blocks"] = json!(view.blocks_others);
    row
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use engine::{ClientState, LockWaitView, Pins};
    use seam::Peer;

    use super::*;

    /// A client in a transaction; whom it waits for, and whether others wait for it.
    fn client(id: u32, waits_for: Option<u32>, blocks: bool) -> ClientView {
        let wait =
            |holder| LockWaitView { time: Duration::from_secs(1), thread: 10 + holder, client: Some(holder) };
        ClientView {
            id,
            peer: Peer::Unix { uid: 1 },
            user: Some(String::from("app")),
            account: None,
            schema: None,
            state: ClientState::Running,
            login: None,
            in_transaction: true,
            transaction: Some(Duration::from_secs(2)),
            backend: Some(10 + id),
            server: None,
            pins: Pins::default(),
            queue: None,
            queued: None,
            lacks: None,
            running: None,
            idle: Duration::ZERO,
            stalled: None,
            digest: None,
            statement: None,
            input: 0,
            session_state: None,
            holds_locks: true,
            blocks_others: blocks,
            lock_wait: waits_for.map(wait),
            killed: false,
        }
    }

    fn nodes(clients: &[ClientView]) -> Vec<Value> {
        let mut locks = Locks::default();
        clients.iter().for_each(|client| locks.put(client));
        let json = locks.json();
        json["nodes"].as_array().unwrap().clone()
    }

    #[test]
    fn those_at_the_root_come_first_with_all_behind_them() {
        let all = [
            client(3, Some(2), false),
            client(2, Some(1), true),
            client(1, None, true),
            client(4, Some(2), false),
        ];
        let nodes = nodes(&all);
        let of = |name: &str| nodes.iter().map(|node| node[name].as_u64()).collect::<Vec<_>>();
        assert_eq!(of("client"), [Some(1), Some(2)]);
        assert_eq!(of("behind"), [Some(3), Some(2)]);
        assert_eq!(of("waits_for_client"), [None, Some(1)]);
        assert_eq!(nodes[0]["who"]["user"], "app");
    }

    #[test]
    fn a_circle_comes_to_an_end() {
        let nodes = nodes(&[client(1, Some(2), true), client(2, Some(1), true)]);
        assert_eq!(nodes.len(), 2);
        assert!(nodes.iter().all(|node| node["behind"] == 2), "{nodes:?}");
    }

    #[test]
    fn a_crowd_behind_one_is_counted_and_a_few_are_shown() {
        let mut all: Vec<_> = (2..5000).map(|id| client(id, Some(1), false)).collect();
        all.push(client(1, None, true));
        let nodes = nodes(&all);
        let [one] = nodes.as_slice() else { panic!("{} nodes", nodes.len()) };
        assert_eq!((one["behind"].as_u64(), one["direct"].as_u64()), (Some(4998), Some(4998)));
        assert_eq!(one["waiters"].as_array().unwrap().len(), WAITERS);
    }

    #[test]
    fn a_holder_that_is_nobodys_client_is_told_by_its_thread() {
        let mut waiter = client(5, Some(1), false);
        waiter.lock_wait = Some(LockWaitView { time: Duration::ZERO, thread: 77, client: None });
        let nodes = nodes(&[waiter]);
        assert_eq!((nodes[0]["thread"].as_u64(), nodes[0]["client"].as_u64()), (Some(77), None));
    }
}
