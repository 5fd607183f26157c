//! How far the server is, where somebody wants to know: for reads on replicas ([`crate::readers`]).

use std::time::Duration;

use seam::Instant;

use crate::backend::from_server::own_answers::first_field;
use crate::frozen::Distance;
use crate::server::control::facts::Facts;

/// The shortest time between two questions while somebody waits. A write takes about as long to get to a replica that keeps up. A thousand such
/// questions a second take a server a fortieth of a core (25 us each: MariaDB 10.11, one connection that asks as often as it can).
const PACE: Duration = Duration::from_millis(1);

/// How long a node may take to get all that its cluster has, and to answer then. It gives up after 30 s by itself (Galera's
/// `repl.causal_read_timeout`); the rest is for its error's way here.
pub(super) const CATCHES_UP_FOR: Duration = Duration::from_secs(35);

/// A node of Galera's question, behind what is set for it.
macro_rules! of_node {
    ($before:literal) => {
        concat!(
            $before,
            "SELECT CONCAT((SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'wsrep_cluster_state_uuid'), \
             ':1-', (SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'wsrep_last_committed'))"
        )
    };
}

/// The times at which the server is asked how far it is, and what it has said.
#[derive(Debug, Default)]
pub(crate) struct PositionWatch {
    due: Option<Instant>,
    asked: Option<Instant>,
    /// True where the position was the last question. The question is put again and again while reads wait, so others that are due come first.
    gives_way: bool,
    /// True where the server was asked as a node that is read from.
    pub(super) asked_as_node: bool,
    said: Option<Said>,
    /// True where the server is read from: only what it has got from others counts, and not what may have been written there.
    pub(crate) of_replica: bool,
    /// True where the server is a node of Galera, with numbers of its own for what is written.
    pub(crate) of_galera: bool,
}

/// A server's answer to how far it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) asked: Instant,
    pub(crate) position: String,
    /// True for a node's answer. The node's number may count writes that are not to be seen there yet. The node has what its cluster had when it
    /// was asked.
    pub(crate) of_node: bool,
}

/// [`PositionWatch`] as plain data ([`crate::frozen`]).
#[derive(Debug, PartialEq)]
pub(super) struct FrozenPosition {
    due: Option<Distance>,
    asked: Option<Distance>,
    gives_way: bool,
    asked_as_node: bool,
    /// The time at which the server was asked, its answer, and whether it answered as a node.
    said: Option<(Distance, String, bool)>,
    of_replica: bool,
    of_galera: bool,
}

plain!(struct FrozenPosition { due, asked, gives_way, asked_as_node, said, of_replica, of_galera });

impl PositionWatch {
    pub(super) fn freeze(self, now: Instant) -> FrozenPosition {
        let Self { due, asked, gives_way, asked_as_node, said, of_replica, of_galera } = self;
        let distance = |at| Distance::of(at, now);
        let said = said.map(|Said { asked, position, of_node }| (distance(asked), position, of_node));
        let (due, asked) = (due.map(distance), asked.map(distance));
        FrozenPosition { due, asked, gives_way, asked_as_node, said, of_replica, of_galera }
    }
}

impl FrozenPosition {
    pub(super) fn thaw(self, now: Instant) -> PositionWatch {
        let Self { due, asked, gives_way, asked_as_node, said, of_replica, of_galera } = self;
        let instant = |at: Distance| at.from(now);
        let said = said.map(|(asked, position, of_node)| Said { asked: instant(asked), position, of_node });
        let (due, asked) = (due.map(instant), asked.map(instant));
        PositionWatch { due, asked, gives_way, asked_as_node, said, of_replica, of_galera }
    }
}

impl PositionWatch {
    /// Notes that somebody wants to know how far the server is, by a question that is asked then or later.
    pub(crate) fn want(&mut self, at: Instant) {
        let at = self.asked.map_or(at, |asked| at.max(asked + PACE));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// The server is asked again so long after the last question, without anybody who waits.
    pub(crate) fn keep(&mut self, every: Duration) {
        self.want(self.asked.map_or(Instant::START, |asked| asked + every));
    }

    /// The time of the latest question.
    pub(crate) fn latest(&self) -> Option<Instant> {
        self.asked
    }

    /// The time at which the server is to be asked.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due
    }

    /// The server is asked something: this, or another question.
    pub(super) fn is_asked(&mut self, now: Instant, is_this: bool) {
        if is_this {
            self.asked = Some(now);
            self.due = None;
            self.asked_as_node = self.of_galera && self.of_replica;
        }
        self.gives_way = is_this;
    }

    /// Says whether the question is due, and not other questions' turn.
    pub(super) fn comes_first(&self, now: Instant) -> bool {
        !self.gives_way && self.is_due(now)
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// The answer to the latest question.
    pub(super) fn answered(&mut self, kept: &[u8]) {
        let Some(asked) = self.asked else { return };
        let position = first_field(kept).unwrap_or_default();
        let position = String::from_utf8_lossy(&position).replace(['\n', ' '], "");
        self.said = Some(Said { asked, position, of_node: self.asked_as_node });
    }

    /// The latest answer that nobody has taken yet.
    pub(crate) fn take(&mut self) -> Option<Said> {
        self.said.take()
    }

    /// The question, for a server of this kind.
    pub(super) fn query(&self, facts: &Facts) -> &'static str {
        match (facts.is_mariadb(), self.of_galera, self.of_replica) {
            // A node's GTIDs cannot be compared with those of other nodes: the number is the one that checks take, too.
            (true, true, false) => of_node!(""),
            // With a binary log a node counts a transaction a moment before it is to be seen. With wsrep_sync_wait it answers behind the end of
            // all that its cluster had: the provider waits for that, and not for the number (galera/src/replicator_smm.cpp, sync_wait).
            (true, true, true) => of_node!("SET STATEMENT wsrep_sync_wait = @@global.log_bin FOR "),
            // A node of MySQL: nobody has tried what it counts.
            (false, true, _) => "SELECT ''",
            (true, false, true) => "SELECT @@global.gtid_slave_pos",
            // The former leaves out what was written here in the name of another server (`SET server_id`, as mysqlbinlog has it), the
            // latter what a replica without log_slave_updates had before it became the primary.
            (true, false, false) => {
                "SELECT CONCAT_WS(',', NULLIF(@@global.gtid_current_pos, ''), NULLIF(@@global.gtid_binlog_pos, ''))"
            }
            // In other modes what is written has no GTID, and the set says nothing of it.
            (false, false, _) => {
                "SELECT IF(@@global.gtid_mode IN ('ON', 'ON_PERMISSIVE'), @@global.gtid_executed, '')"
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use wire::Capabilities;

    use super::*;
    use crate::client::commands::command::tests::engine;
    use crate::engine::Engine;
    use crate::server::control::question::Question;
    use crate::server::control::state::State;
    use crate::server::login::Established;
    use crate::settings::Settings;

    /// An engine with a service account that has nothing to wait for.
    fn idle() -> Engine {
        let mut engine = engine(1, Settings::default());
        let facts = Facts::new(&Established::of_test("11.4-MariaDB", Capabilities(u64::MAX)));
        engine.servers.primary_mut().facts = Some(facts);
        engine
    }

    /// The question that follows so long after the last one, which has been answered.
    fn next_question(engine: &mut Engine, later: Duration) -> Option<Question> {
        engine.now = engine.now + later;
        engine.servers.primary_mut().control.state = State::Idle;
        engine.control_turn();
        match engine.servers.primary().control.state {
            State::Asking { question, .. } => Some(question),
            _ => None,
        }
    }

    #[test]
    fn others_are_asked_too_while_clients_always_wait_for_the_answer() {
        let mut engine = idle();
        let mut asked = Vec::new();
        for _ in 0..12 {
            let now = engine.now;
            engine.servers.primary_mut().control.position.want(now);
            asked.extend(next_question(&mut engine, Duration::from_millis(20)));
        }
        assert_eq!(asked.len(), 12);
        let others = || asked.iter().filter(|&&question| question != Question::Position);
        assert_eq!(others().count(), 6, "clients wait for one of them at most: {asked:?}");
    }

    /// An engine with a service account that waits for a node. `of_replica`: the node is read from.
    pub(crate) fn asking_node(of_replica: bool) -> Engine {
        let mut engine = idle();
        let now = engine.now;
        let watch = &mut engine.servers.primary_mut().control.position;
        (watch.of_galera, watch.of_replica) = (true, of_replica);
        watch.want(now);
        assert_eq!(next_question(&mut engine, Duration::ZERO), Some(Question::Position));
        engine
    }

    #[test]
    fn a_node_that_is_read_from_may_take_until_it_has_what_its_cluster_has() {
        for of_replica in [false, true] {
            let engine = asking_node(of_replica);
            let control = &engine.servers.primary().control;
            assert_eq!(control.waits_for_cluster(), of_replica);
            let usual = Duration::from_secs(5);
            assert_eq!(control.limit(usual), if of_replica { CATCHES_UP_FOR } else { usual });
            assert_eq!(control.limit(2 * CATCHES_UP_FOR), 2 * CATCHES_UP_FOR);
        }
    }
}
