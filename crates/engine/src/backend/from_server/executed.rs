//! The lessons from a statement that has been executed.

use std::time::Duration;

use seam::Instant;

use crate::backend::InFlight;
use crate::pool::Pool;
use crate::scheduling::Scheduling;
use crate::scheduling::learned::digests::EndedExecution;
use crate::scheduling::learned::history::Traces;

/// The course of an execution.
#[derive(Clone, Copy)]
pub(super) struct Ended {
    pub(super) took: Duration,
    pub(super) with_error: bool,
    /// True where the statement ran in the long lane.
    pub(super) of_long_lane: bool,
}

impl Scheduling {
    /// Counts an answered execution by its time and lane. Remembers with what the next statement of this kind may be trusted.
    pub(super) fn note_history(
        &mut self,
        now: Instant,
        pool: &Pool,
        statement: &InFlight,
        (took, of_long_lane): (Duration, bool),
    ) {
        // What went ahead of it has failed: it did not run.
        if statement.fingerprint == 0 || statement.summary.prelude_failed {
            return;
        }
        let summary = &statement.summary;
        let ended = Ended { took, with_error: summary.error.is_some(), of_long_lane };
        self.count_execution(now, pool, statement, ended);
        let left = match summary.warnings {
            1.. => Traces::Warnings,
            0 if summary.error.is_some() || !summary.changes.is_empty() => Traces::Something,
            0 => Traces::Nothing,
        };
        self.history.record(statement.fingerprint, took, summary.relayed, left);
    }

    /// Counts an execution under its digest, and as work that the limits are measured by.
    pub(super) fn count_execution(&mut self, now: Instant, pool: &Pool, statement: &InFlight, ended: Ended) {
        let execution = EndedExecution {
            fingerprint: statement.fingerprint,
            time: ended.took,
            waited: statement.waited,
            rows_sent: statement.summary.counts.sent,
            rows_affected: statement.summary.counts.changed,
            error: ended.with_error,
            round_trip: pool.workers.way.round_trip(),
            few: pool.workers.are_permits_free(),
        };
        let digest = self.digests.record(now, &execution);
        // How many of the long lane run is found by itself, and they end in waves, each of which would look like a better limit.
        if !ended.of_long_lane && pool.workers.measures_limits() {
            self.served.add(statement.fingerprint, digest.mean());
        }
    }
}
