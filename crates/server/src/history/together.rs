//! What all workers have said in one glance, added up.

use std::collections::BTreeMap;
use std::time::Duration;

use admin::tables::Limit;
use engine::{Command, EnumMap, Histogram, Holders, Lack, Measures, Queue, ServerView, WaitReason, Waits};

use crate::admin_port::{counters, limits};
use crate::control::Control;
use crate::control::glance::Glance;

/// Options for whose sake something new gets an error: overload, and clients beyond their number.
pub(crate) const REFUSING: [engine::Limit; 6] = [
    engine::Limit::LongQueueLimit,
    engine::Limit::LongQueueWaitLimit,
    engine::Limit::MaxConnections,
    engine::Limit::QueueDelayTarget,
    engine::Limit::QueueLimit,
    engine::Limit::QueueWaitLimit,
];

/// All workers together at one moment: about 60 kB.
pub(crate) struct Together {
    /// Since 1970.
    pub(crate) at: Duration,
    pub(crate) waits: Waits,
    /// Of the whole waits of all queues.
    pub(crate) waited: Histogram,
    pub(crate) measures: Measures,
    /// Of all commands.
    pub(crate) served: Histogram,
    pub(crate) errors: u64,
    pub(crate) holders: Holders,
    pub(crate) queued: EnumMap<Queue, u64>,
    /// Statements that wait, by what their queue lacks.
    pub(crate) lacking: EnumMap<Lack, u64>,
    pub(crate) oldest_queued: Option<Duration>,
    pub(crate) clients: u64,
    /// Backends that are held for an open transaction.
    pub(crate) transactions: u64,
    pub(crate) connections: u64,
    pub(crate) refused_logins: u64,
    pub(crate) cancelled: u64,
    pub(crate) refused: u64,
    pub(crate) permits: Option<u64>,
    pub(crate) permits_in_use: u64,
    /// All bounds, by option.
    pub(crate) limits: BTreeMap<&'static str, Limit>,
    pub(crate) paused: bool,
    pub(crate) server_is_up: bool,
    /// Of several servers none is the primary: nothing is sent to any.
    pub(crate) lacks_primary: bool,
    /// Servers that an operator has taken out of the choice of a primary, by their addresses.
    pub(crate) drained: Vec<String>,
    pub(crate) has_accounts: bool,
    /// How long the busiest worker has been at work.
    pub(crate) busiest: Duration,
}

impl Together {
    pub(crate) fn of(control: &Control, glance: &Glance) -> Self {
        let (mut waits, mut measures, mut holders) =
            (Waits::default(), Measures::default(), Holders::default());
        let mut busiest = Duration::ZERO;
        for whole in glance.wholes.values() {
            whole.waits.iter().for_each(|more| waits += more);
            if let Some((of_worker, held)) = &whole.measures {
                measures += of_worker;
                holders += held;
                busiest = busiest.max(of_worker.turns.sum());
            }
        }
        let views = || glance.wholes.values().map(|whole| &whole.view);
        let sum = |of: fn(&engine::WorkerView) -> u64| views().map(of).sum::<u64>();
        let limits = limits::all(control, &glance.wholes, None);
        let (permits_in_use, permits) = counters::permits(&glance.wholes);
        Self {
            at: glance.at,
            waited: waited(&waits),
            waits,
            served: served(&measures),
            errors: Command::ALL.iter().map(|&command| measures.ended(command).errors).sum(),
            measures,
            holders,
            queued: EnumMap::from_fn(|queue| sum_of_queue(glance, queue)),
            lacking: lacking(glance),
            oldest_queued: views().filter_map(|view| view.oldest_queued).max(),
            clients: sum(|view| view.clients as u64),
            transactions: sum(|view| view.transactions as u64),
            connections: sum(|view| view.connections),
            refused_logins: sum(|view| view.totals.refused_logins),
            cancelled: sum(|view| view.totals.cancelled),
            refused: REFUSING
                .iter()
                .filter_map(|limit| limits.get(limit.name()))
                .map(|limit| limit.reached)
                .sum(),
            permits: Some(permits).filter(|&permits| permits > 0 && permits < u64::MAX),
            permits_in_use,
            limits,
            paused: views().any(|view| view.paused),
            server_is_up: views().all(|view| view.server_is_up),
            lacks_primary: lacks_primary(glance),
            drained: servers(glance)
                .filter(|server| server.is_drained)
                .map(|it| it.address.to_string())
                .collect(),
            has_accounts: views().all(|view| view.has_accounts),
            busiest,
        }
    }

    /// A pool that serves nobody, at this moment since 1970.
    #[cfg(test)]
    pub(crate) fn of_nothing(at: Duration) -> Self {
        Self {
            at,
            waits: Waits::default(),
            waited: Histogram::default(),
            measures: Measures::default(),
            served: Histogram::default(),
            errors: 0,
            holders: Holders::default(),
            queued: EnumMap::default(),
            lacking: EnumMap::default(),
            oldest_queued: None,
            clients: 0,
            transactions: 0,
            connections: 0,
            refused_logins: 0,
            cancelled: 0,
            refused: 0,
            permits: None,
            permits_in_use: 0,
            limits: BTreeMap::new(),
            paused: false,
            server_is_up: true,
            lacks_primary: false,
            drained: Vec::new(),
            has_accounts: true,
            busiest: Duration::ZERO,
        }
    }

    /// Statements that wait in any queue.
    pub(crate) fn waiting(&self) -> u64 {
        self.queued.total()
    }
}

fn sum_of_queue(glance: &Glance, queue: Queue) -> u64 {
    glance.wholes.values().map(|whole| whole.view.queued[queue] as u64).sum()
}

fn servers(glance: &Glance) -> impl Iterator<Item = &ServerView> {
    glance.wholes.values().flat_map(|whole| &whole.servers)
}

/// Where `backend` names one server, nobody is asked which of them is the primary.
fn lacks_primary(glance: &Glance) -> bool {
    let mut servers = servers(glance).peekable();
    servers.peek().is_some() && servers.all(|server| !server.is_primary)
}

/// Each statement that has started is counted under one of these.
fn waited(waits: &Waits) -> Histogram {
    let queues = [WaitReason::HighQueue, WaitReason::LowQueue, WaitReason::LongQueue, WaitReason::Urgent];
    let mut all = Histogram::default();
    queues.into_iter().for_each(|queue| all += waits.of(queue));
    all
}

fn served(measures: &Measures) -> Histogram {
    let mut all = Histogram::default();
    Command::ALL.iter().for_each(|&command| all += &measures.ended(command).times);
    all
}

/// A queue that lacks nothing is about to be served.
fn lacking(glance: &Glance) -> EnumMap<Lack, u64> {
    let mut found = EnumMap::<_, u64>::default();
    for whole in glance.wholes.values() {
        let (queued, by) = (&whole.view.queued, whole.view.held_up_by);
        let long = queued[Queue::Long];
        for (waiting, lack) in [(long, by.long), (queued.total() - long, by.others)] {
            lack.into_iter().for_each(|lack| found[lack] += waiting as u64);
        }
    }
    found
}
