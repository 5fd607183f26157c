//! A server's answers on who waits for locks, and the questions for them.

use std::time::Duration;

use seam::Instant;

use crate::ids::ServerKey;

/// The threads of a server that wait, by its own word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWaits {
    pub(crate) server: ServerKey,
    /// The time at which the server was asked.
    pub(crate) asked: Instant,
    pub(crate) waits: Vec<LockWait>,
}

/// The clients of one worker that hold locks on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolders {
    pub(crate) server: ServerKey,
    /// Threads of the server, with the clients' ids.
    pub(crate) holders: Vec<(u32, u32)>,
}

/// A thread of the server that waits for another: ids as in the server's PROCESSLIST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockWait {
    pub(super) waiter: u32,
    /// The thread that holds the lock, where that is known.
    pub(super) holder: Option<u32>,
}

/// The lock wait in which a statement in flight was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenWait {
    /// The start of the wait, about. This is when the statement began, since the server does not say when the statement came to the lock.
    pub(crate) since: Instant,
    /// The thread of the server that holds the lock.
    pub(crate) thread: u32,
    /// The client behind that, where it is one of ours.
    pub(crate) client: Option<u32>,
}

/// The waits of others for locks of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocker {
    /// Statements that did.
    pub waits: u64,
    /// The time of all these waits together.
    pub time: Duration,
    /// The time of the longest wait.
    pub longest: Duration,
}

plain!(struct Blocker { waits, time, longest });

impl std::ops::AddAssign for Blocker {
    /// Several workers together.
    fn add_assign(&mut self, other: Self) {
        self.waits += other.waits;
        self.time += other.time;
        self.longest = self.longest.max(other.longest);
    }
}

/// How many waits there are at the moment. Anybody may ask for it.
pub(crate) const GATE_QUERY: &str = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'";

/// MariaDB, and MySQL up to 5.7: needs the PROCESS privilege. InnoDB makes these tables anew every 100 ms at most
/// (i_s.cc, trx0i_s.cc: CACHE_MIN_IDLE_TIME_NS), so that asking more often tells nothing more.
pub(crate) const WAITS_QUERY: &str = "SELECT r.trx_mysql_thread_id, b.trx_mysql_thread_id \
    FROM information_schema.INNODB_LOCK_WAITS w JOIN information_schema.INNODB_TRX r ON r.trx_id = w.requesting_trx_id \
    JOIN information_schema.INNODB_TRX b ON b.trx_id = w.blocking_trx_id LIMIT 10000";

/// MySQL since 8.0: needs SELECT on performance_schema. Where that is switched off (which some providers do) its tables are empty, and
/// only who waits can be told, by somebody with the PROCESS privilege.
pub(crate) const WAITS_QUERY_8: &str = "SELECT r.PROCESSLIST_ID, b.PROCESSLIST_ID \
    FROM performance_schema.data_lock_waits w JOIN performance_schema.threads r ON r.THREAD_ID = w.REQUESTING_THREAD_ID \
    JOIN performance_schema.threads b ON b.THREAD_ID = w.BLOCKING_THREAD_ID \
    UNION ALL SELECT trx_mysql_thread_id, NULL FROM information_schema.INNODB_TRX \
    WHERE @@global.performance_schema = 0 AND trx_state = 'LOCK WAIT' LIMIT 10000";

/// MariaDB, and MySQL up to 5.7. The states of a wait for a lock of the server itself begin with these words (sql/mdl.cc:
/// `m_namespace_to_wait_state_name`, "Waiting for table metadata lock" and the like); only that for GET_LOCK does not.
pub(crate) const WAITERS_QUERY: &str = "SELECT ID FROM information_schema.PROCESSLIST \
    WHERE STATE LIKE 'Waiting for %' OR STATE = 'User lock' LIMIT 10000";

/// MySQL since 8.0, where the other table takes a lock that all sessions need: it is for servers without performance_schema.
pub(crate) const WAITERS_QUERY_8: &str = "SELECT PROCESSLIST_ID FROM performance_schema.threads \
    WHERE PROCESSLIST_STATE LIKE 'Waiting for %' OR PROCESSLIST_STATE = 'User lock' \
    UNION ALL SELECT ID FROM information_schema.PROCESSLIST \
    WHERE @@global.performance_schema = 0 AND (STATE LIKE 'Waiting for %' OR STATE = 'User lock') LIMIT 10000";

/// The number in a row of [`GATE_QUERY`].
pub(crate) fn waits_at_gate(rows: &[Vec<Option<Vec<u8>>>]) -> u64 {
    rows.first().and_then(|row| number(row.get(1)?.as_deref()?)).unwrap_or(0)
}

/// Returns the waits in the rows of an answer. A thread that waits need not be a connection (a purge). Nor need the holder, or it
/// is not known.
pub(crate) fn waits_of_rows(rows: &[Vec<Option<Vec<u8>>>]) -> impl Iterator<Item = LockWait> {
    rows.iter().filter_map(|row| {
        let thread = |at: usize| u32::try_from(number(row.get(at)?.as_deref()?)?).ok();
        Some(LockWait { waiter: thread(0)?, holder: thread(1) })
    })
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl LockWaits {
    /// Lock waits of a server that is asked now, without any yet.
    pub(crate) fn new(server: ServerKey, now: Instant) -> Self {
        Self { server, asked: now, waits: Vec::new() }
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
        let nobody = vec![None, Some(b"9".to_vec())];
        let rows = [row(&["7", "9"]), row(&["0"]), vec![Some(b"1".to_vec()), None], nobody, row(&["8", "9"])];
        let wait = |waiter, holder| LockWait { waiter, holder };
        let found: Vec<_> = waits_of_rows(&rows).collect();
        assert_eq!(found, [wait(7, Some(9)), wait(0, None), wait(1, None), wait(8, Some(9))]);
    }
}
