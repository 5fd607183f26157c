//! How far the server is, where somebody wants to know: for reads on replicas ([`crate::readers`]).

use std::time::Duration;

use seam::Instant;

use crate::backend::own_answers::first_field;
use crate::control::facts::Facts;

/// While somebody waits, the server is asked so often at most: about as long as a write takes to get to a replica that keeps up, and a
/// thousand such questions a second take a server a fortieth of a core (25 us each: MariaDB 10.11, one connection that asks as often as it can).
const PACE: Duration = Duration::from_millis(1);

/// When the server is asked how far it is, and what it has said.
#[derive(Debug, Default)]
pub(crate) struct PositionWatch {
    due: Option<Instant>,
    asked: Option<Instant>,
    said: Option<(Instant, String)>,
    /// The server is read from: what counts is what it has got from others, and not what may have been written there.
    pub(crate) of_replica: bool,
    /// The server is a node of Galera, whose nodes have numbers of their own for what is written.
    pub(crate) of_galera: bool,
}

impl PositionWatch {
    /// Somebody wants to know how far the server is, by a question that is asked then or later.
    pub(crate) fn want(&mut self, at: Instant) {
        let at = self.asked.map_or(at, |asked| at.max(asked + PACE));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// The server is asked again so long after the last question, without anybody who waits.
    pub(crate) fn keep(&mut self, every: Duration) {
        self.want(self.asked.map_or(Instant::START, |asked| asked + every));
    }

    /// When it was asked last.
    pub(crate) fn latest(&self) -> Option<Instant> {
        self.asked
    }

    /// When the server is to be asked.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn is_asked(&mut self, now: Instant) {
        self.asked = Some(now);
        self.due = None;
    }

    /// The answer to the latest question.
    pub(super) fn answered(&mut self, kept: &[u8]) {
        let Some(asked) = self.asked else { return };
        let position = first_field(kept).unwrap_or_default();
        self.said = Some((asked, String::from_utf8_lossy(&position).replace(['\n', ' '], "")));
    }

    /// The latest answer that nobody has taken yet, and when its question was asked.
    pub(crate) fn take(&mut self) -> Option<(Instant, String)> {
        self.said.take()
    }

    /// The question, for a server of this kind.
    pub(super) fn query(&self, facts: &Facts) -> &'static str {
        if self.of_galera {
            // As the checks of a cluster have it; GTIDs of nodes cannot be compared.
            "SELECT CONCAT((SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
             WHERE VARIABLE_NAME = 'wsrep_cluster_state_uuid'), ':1-', \
             (SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'wsrep_last_committed'))"
        } else if facts.is_mariadb() {
            match self.of_replica {
                true => "SELECT @@global.gtid_slave_pos",
                // The former leaves out what was written here in the name of another server (`SET server_id`, as mysqlbinlog has it), the
                // latter what a replica without log_slave_updates had before it became the primary.
                false => {
                    "SELECT CONCAT_WS(',', NULLIF(@@global.gtid_current_pos, ''), NULLIF(@@global.gtid_binlog_pos, ''))"
                }
            }
        } else {
            // In other modes what is written has no GTID, and the set says nothing of it.
            "SELECT IF(@@global.gtid_mode IN ('ON', 'ON_PERMISSIVE'), @@global.gtid_executed, '')"
        }
    }
}
