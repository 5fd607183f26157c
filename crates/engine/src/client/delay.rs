//! `thread_pool_transaction_delay`: the first statement of each transaction, or a statement by itself, waits a while before it
//! is queued, as in MySQL's pool. There the delay occupies a thread; here it occupies nothing.

use std::collections::VecDeque;

use seam::Instant;

use super::{Client, Phase};
use crate::ids::{ClientKey, ClientRef, Table};
use crate::scheduling::scheduler::lane::{Lane, Standing};
use crate::settings::Settings;

/// A statement that is not in a queue yet. All statements have the same delay, so that the first is always the next.
pub(crate) struct Delayed {
    until: Instant,
    pub(crate) client: ClientRef,
    pub(crate) lane: Lane,
    pub(crate) standing: Standing,
}

/// All statements that are held back.
#[derive(Default)]
pub(crate) struct DelayedStatements(VecDeque<Delayed>);

impl DelayedStatements {
    /// Returns the time at which the next delay is over.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.0.front().map(|delayed| delayed.until)
    }

    /// Holds a statement back that may not be queued yet. False where it may be: there is no delay, or it goes on with a transaction.
    pub(crate) fn hold_back(
        &mut self,
        now: Instant,
        settings: &Settings,
        client: ClientRef,
        lane: Lane,
        standing: Standing,
    ) -> bool {
        let delay = settings.transaction_delay;
        let held_back = !delay.is_zero() && !standing.in_transaction;
        if held_back {
            self.0.push_back(Delayed { until: now + delay, client, lane, standing });
        }
        held_back
    }

    /// Makes each delay end at `latest`, or before.
    pub(crate) fn end_by(&mut self, latest: Instant) {
        self.0.iter_mut().for_each(|delayed| delayed.until = delayed.until.min(latest));
    }

    /// Takes out the next statement that has had its delay, and that its client still waits for.
    pub(crate) fn take_next(&mut self, now: Instant, clients: &Table<ClientKey, Client>) -> Option<Delayed> {
        while self.next_end().is_some_and(|end| end <= now) {
            let delayed = self.0.pop_front()?;
            // It may have been killed or have gone, and the client may have come to its next statement since.
            let waits = clients.find(delayed.client).is_some_and(|client| {
                matches!(client.phase(), Phase::Queued)
                    && client.transaction.began() == delayed.standing.began
            });
            if waits {
                return Some(delayed);
            }
        }
        None
    }
}
