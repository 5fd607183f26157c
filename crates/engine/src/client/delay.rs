//! `thread_pool_transaction_delay`: the first statement of each transaction, or a statement by itself, waits a while before it
//! is queued, as in MySQL's pool. There the delay occupies a thread; here it occupies nothing.

use crate::scheduling::Scheduling;
use seam::Instant;

use super::Phase;
use crate::engine::Engine;
use crate::ids::{ClientKey, ClientRef};
use crate::scheduler::{Lane, Need, Standing};

/// A statement that is not in a queue yet. All have the same delay, so that the first is always the next.
pub(crate) struct Delayed {
    until: Instant,
    client: ClientRef,
    lane: Lane,
    standing: Standing,
}

impl Delayed {
    /// Its delay is over then, or before.
    pub(crate) fn end_by(&mut self, latest: Instant) {
        self.until = self.until.min(latest);
    }
}

impl Scheduling {
    /// When the next delay is over.
    pub(crate) fn next_end_of_delay(&self) -> Option<Instant> {
        self.delayed.front().map(|delayed| delayed.until)
    }
}

impl Engine {
    /// Queues a client's statement: at once, or after its delay.
    pub(crate) fn enqueue(&mut self, key: ClientKey, lane: Lane, standing: Standing) {
        let client = &self.clients[key];
        let delay = self.settings.transaction_delay;
        if !delay.is_zero() && !standing.in_transaction && client.backend.is_none() {
            let client = self.clients.ref_to(key);
            self.scheduling.delayed.push_back(Delayed { until: self.now + delay, client, lane, standing });
            return;
        }
        let need = if client.backend.is_some() { Need::Holds } else { Need::Any };
        self.queue_for_share(self.now, key, lane, need, standing);
    }

    /// Queues those whose delay is over.
    pub(crate) fn end_delays(&mut self) {
        while self.scheduling.next_end_of_delay().is_some_and(|end| end <= self.now) {
            let Some(delayed) = self.scheduling.delayed.pop_front() else { break };
            // It may have been killed or have gone, and the client may have come to its next statement since.
            let waits = self.clients.find(delayed.client).is_some_and(|client| {
                matches!(client.phase(), Phase::Queued) && client.transaction.began == delayed.standing.began
            });
            if waits {
                self.queue_for_share(self.now, delayed.client.key, delayed.lane, Need::Any, delayed.standing);
            }
        }
    }
}
