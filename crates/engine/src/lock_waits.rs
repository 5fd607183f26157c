//! Who waits for whose row locks on the server.
//!
//! A pool inside the server learns it from the lock manager; from outside it has to be asked for. So it is asked only when
//! a statement takes longer than its like does while others wait, over the service account's connection, and not more often
//! than every `lock_wait_interval` by all workers together. A cheap counter goes first: most statements that are slow wait for
//! no lock.
//!
//! What comes of it: who waits lends its permit at once, and whoever is waited for goes before everything else.

use std::sync::Arc;

use seam::Instant;

use super::backend::Permit;
use crate::engine::Engine;
use crate::event::Event;
use crate::letter::Letter;

/// One thread of the server waits for another: ids as in its PROCESSLIST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWait {
    pub(crate) waiter: u32,
    pub(crate) holder: u32,
}

/// How many waits there are at the moment. Anybody may ask for it.
pub(crate) const GATE_QUERY: &str = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'";

/// MariaDB, and MySQL up to 5.7: needs the PROCESS privilege. InnoDB makes these tables anew every 100 ms at most
/// (i_s.cc, trx0i_s.cc: CACHE_MIN_IDLE_TIME_NS), so that asking more often tells nothing more.
pub(crate) const WAITS_QUERY: &str = "SELECT r.trx_mysql_thread_id, b.trx_mysql_thread_id \
    FROM information_schema.INNODB_LOCK_WAITS w JOIN information_schema.INNODB_TRX r ON r.trx_id = w.requesting_trx_id \
    JOIN information_schema.INNODB_TRX b ON b.trx_id = w.blocking_trx_id LIMIT 10000";

/// MySQL since 8.0: needs SELECT on performance_schema.
pub(crate) const WAITS_QUERY_8: &str = "SELECT r.PROCESSLIST_ID, b.PROCESSLIST_ID \
    FROM performance_schema.data_lock_waits w JOIN performance_schema.threads r ON r.THREAD_ID = w.REQUESTING_THREAD_ID \
    JOIN performance_schema.threads b ON b.THREAD_ID = w.BLOCKING_THREAD_ID LIMIT 10000";

/// The number in a row of [`GATE_QUERY`].
pub(crate) fn waits_at_gate(rows: &[Vec<Option<Vec<u8>>>]) -> u64 {
    rows.first().and_then(|row| number(row.get(1)?.as_deref()?)).unwrap_or(0)
}

/// The rows of the other two; ends that are no connections (a purge, a recovered transaction) are left out.
pub(crate) fn waits_of_rows(rows: &[Vec<Option<Vec<u8>>>]) -> Arc<[LockWait]> {
    let wait = |row: &Vec<Option<Vec<u8>>>| {
        let thread = |at: usize| u32::try_from(number(row.get(at)?.as_deref()?)?).ok();
        Some(LockWait { waiter: thread(0)?, holder: thread(1)? })
    };
    rows.iter().filter_map(wait).collect()
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl Engine {
    /// Whether somebody should ask who waits for whom.
    pub(crate) fn suspects_lock_waits(&self) -> bool {
        self.next_suspicion().is_some_and(|due| due <= self.now)
    }

    /// When to ask, if there is a reason.
    pub(crate) fn next_suspicion(&self) -> Option<Instant> {
        let interval = self.settings.lock_wait_interval;
        let asks = !interval.is_zero() && self.scheduler.is_native() && !self.lock_waits_denied;
        // Only while others wait: a statement that nobody waits behind may take as long as it likes.
        if !asks || self.scheduler.waiting() == 0 {
            return None;
        }
        // What stalled in the last interval may still do.
        let stalled = self.stalled_at.filter(|&at| self.now.since(at) <= interval)?;
        Some(stalled.max(self.workers.lock_waits_due(interval)))
    }

    /// The server's answer: for us, and for the other workers.
    pub(crate) fn found_lock_waits(&mut self, waits: &Arc<[LockWait]>) {
        self.take_lock_waits(waits);
        let own = self.worker;
        for worker in (0..self.workers.count() as usize).filter(|&worker| worker != own) {
            self.write_letter(worker, Letter::LockWaits(Arc::clone(waits)));
        }
    }

    /// Statements that wait for a lock lend their permits; clients that are waited for come first.
    pub(crate) fn take_lock_waits(&mut self, waits: &[LockWait]) {
        let keys: Vec<_> = self.backends.iter().map(|(key, backend)| (key, backend.thread_id)).collect();
        for (key, thread) in keys {
            let backend = &self.backends[key];
            let runs = backend.permit == Permit::Held && !backend.in_flight.is_empty();
            if runs && waits.iter().any(|wait| wait.waiter == thread) {
                self.lend_permit(key);
            }
            let Some(client) = self.backends[key].holder else { continue };
            let blocks = waits.iter().any(|wait| wait.holder == thread);
            if std::mem::replace(&mut self.clients[client].blocks_others, blocks) != blocks && blocks {
                self.scheduler.goes_first(crate::client::commands::key_u32(client));
            }
        }
    }

    /// The service account may not see who waits for whom.
    pub(crate) fn lock_waits_cannot_be_seen(&mut self, reason: String) {
        if !std::mem::replace(&mut self.lock_waits_denied, true) && self.worker == 0 {
            self.event(Event::LockWaitsHidden { reason });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(fields: &[&str]) -> Vec<Option<Vec<u8>>> {
        fields.iter().map(|field| Some(field.as_bytes().to_vec())).collect()
    }

    #[test]
    fn answers_are_read() {
        assert_eq!(waits_at_gate(&[row(&["Innodb_row_lock_current_waits", "12"])]), 12);
        assert_eq!(waits_at_gate(&[]), 0);
        let rows = [row(&["7", "9"]), row(&["0"]), vec![Some(b"1".to_vec()), None], row(&["8", "9"])];
        let expected = [LockWait { waiter: 7, holder: 9 }, LockWait { waiter: 8, holder: 9 }];
        assert_eq!(*waits_of_rows(&rows), expected);
    }
}
