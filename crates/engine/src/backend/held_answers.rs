//! What is kept here of answers until they are whole, of all together (`held_answer_memory`).

use super::reply::LARGEST_KEPT;
use super::{InFlight, Summary};
use crate::engine::Engine;
use crate::ids::BackendKey;
use crate::outside::named::Limit;
use crate::server::Server;

/// Of a worker: one statement with 65,535 parameters and 4,096 columns with usual names is said in some 2 MiB.
const SMALLEST_SHARE: usize = 4 << 20;

impl InFlight {
    fn held_bytes(&self) -> usize {
        self.summary.kept.len() + self.reader.held_bytes()
    }
}

impl Summary {
    /// Nothing of the answer has gone on, or been thrown away.
    pub(crate) fn has_kept_all(&self) -> bool {
        self.kept.len() as u64 == self.relayed
    }
}

impl Server {
    /// Bytes on this worker. Of the statements in flight on a backend the first alone is being answered.
    pub(crate) fn held_answers(&self) -> usize {
        let answered = self.backends.iter().filter_map(|(_, backend)| backend.in_flight.front());
        answered.map(InFlight::held_bytes).sum()
    }
}

impl Engine {
    /// How much may be kept of the answer that a backend is giving, of which `more` bytes are there now: no more than `keep`. What is
    /// small has its place, whatever others hold, so that most answers are not added up.
    pub(super) fn may_keep(&mut self, key: BackendKey, keep: usize, more: usize) -> usize {
        let Some(statement) = self.servers[key].in_flight.front() else { return 0 };
        let (whole, held) = (statement.summary.has_kept_all(), statement.held_bytes());
        let wanted = held + more;
        if !whole || wanted <= LARGEST_KEPT || wanted > keep {
            return keep;
        }
        let others = self.servers.held_answers() - held;
        let share =
            (self.settings.held_answer_memory / self.pool.workers.count() as usize).max(SMALLEST_SHARE);
        if others + wanted > share {
            self.views.limit_reached(
                self.now,
                Limit::HeldAnswerMemory,
                self.settings.held_answer_memory as u64,
            );
        }
        keep.min(share.saturating_sub(others))
    }
}
