//! Answers that are kept here until they are whole, within a bound for all together (`held_answer_memory`).

use crate::backend::from_server::relay::LARGEST_KEPT;
use crate::backend::{InFlight, Summary};
use crate::ids::BackendKey;
use crate::pool::Pool;
use crate::server::Server;
use crate::servers::Servers;
use crate::settings::Settings;

/// Smallest share of a worker, in bytes. One statement with 65,535 parameters and 4,096 columns of usual names takes some 2 MiB.
const SMALLEST_SHARE: usize = 4 << 20;

impl InFlight {
    fn held_bytes(&self) -> usize {
        self.summary.kept_answer.len() + self.reader.held_bytes()
    }
}

impl Summary {
    /// Says whether all of the answer is still kept: nothing has gone on, or been thrown away.
    pub(crate) fn has_kept_all(&self) -> bool {
        self.kept_answer.len() as u64 == self.relayed
    }
}

impl Server {
    /// Returns the bytes held on this worker. Of the statements in flight on a backend the first alone is being answered.
    pub(crate) fn held_answers(&self) -> usize {
        let answered = self.backends.iter().filter_map(|(_, backend)| backend.in_flight.front());
        answered.map(InFlight::held_bytes).sum()
    }
}

/// The part of an answer that may be kept.
pub(super) struct MayKeep {
    pub(in crate::backend) bytes: usize,
    /// True where the part is less than was asked for, since all answers together are at the bound.
    pub(super) lacks_memory: bool,
}

impl Servers {
    /// Returns how much of a backend's present answer may be kept: at most `keep`, with `more` bytes of it there now. A small answer has its
    /// place whatever others hold, so that most answers are not added up.
    pub(super) fn may_keep(&self, key: BackendKey, keep: usize, more: usize, share: usize) -> MayKeep {
        let Some(statement) = self[key].in_flight.front() else {
            return MayKeep { bytes: 0, lacks_memory: false };
        };
        let (whole, held) = (statement.summary.has_kept_all(), statement.held_bytes());
        let wanted = held + more;
        if !whole || wanted <= LARGEST_KEPT || wanted > keep {
            return MayKeep { bytes: keep, lacks_memory: false };
        }
        let others = self.held_answers() - held;
        MayKeep { bytes: keep.min(share.saturating_sub(others)), lacks_memory: others + wanted > share }
    }
}

impl Pool {
    /// Returns this worker's share of `held_answer_memory`, in bytes.
    pub(in crate::backend) fn held_answer_memory(&self, settings: &Settings) -> usize {
        (settings.held_answer_memory / self.workers.count() as usize).max(SMALLEST_SHARE)
    }
}
