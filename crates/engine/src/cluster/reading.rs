//! The questions to a server in a round of checks, and its answers: plain data, for [`super::verdict`] to judge.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use super::aurora::{self, Aurora};
use super::rds;
use crate::backend::from_server::own_answers::{Named, NamedRow, Row, first_field, rows_of};
use crate::server::control::answer::NoAnswer;
use crate::server::control::version::Version;

/// Turns off waiting in a node of Galera. With the global setting each SHOW and SELECT waits until the node has all that its cluster has, so
/// that a node that is behind would be taken for lost. Other servers know no such variable, and refuse this statement alone.
pub(crate) const NO_SYNC_WAIT: &str = "SET @@session.wsrep_sync_wait = 0";

/// A question of a round, in the order in which they are put. The earlier answers decide which of them follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckQuestion {
    /// Has the later answers given at once. The first question on each connection.
    NoSyncWait,
    /// Asks for nothing: the server answers as long as its process is there. Put between two rounds, and by itself.
    Alive,
    /// Asks for the kind of the server, and whether it takes writes.
    Variables,
    /// Asks for the server's position: a variable of its own where SHOW VARIABLES would cut it short.
    Position,
    /// Asks for the sources that the server replicates from.
    Replication,
    /// Asks the same of a MariaDB of RDS that has refused to say.
    ReplicaStatus,
    /// Asks for Galera's state.
    Galera,
    /// Asks for the members of Group Replication.
    Group,
    /// Sets the session's time zone to UTC, on Aurora.
    Utc,
    /// Asks for the instances of Aurora.
    Aurora,
}

/// The variables that each server is asked for. A name that a server does not know is a row less, and no error.
const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_uuid','server_id','hostname','port',\
    'datadir','read_only','super_read_only','innodb_read_only','gtid_current_pos','gtid_slave_pos',\
    'gtid_binlog_state','wsrep_on','wsrep_desync','wsrep_reject_queries',\
    'wsrep_sst_donor_rejects_queries','pxc_maint_mode','group_replication_group_name',\
    'group_replication_single_primary_mode','aurora_server_id','basedir','gtid_mode')";

/// Asks for MySQL's position. A set of many ranges is longer than SHOW VARIABLES shows (1,024 bytes).
const GTID_EXECUTED: &str = "SELECT @@global.gtid_executed";

const GALERA: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_ready','wsrep_cluster_status',\
    'wsrep_local_state','wsrep_local_state_comment','wsrep_local_index','wsrep_local_recv_queue',\
    'wsrep_cluster_state_uuid','wsrep_cluster_conf_id','wsrep_cluster_size','wsrep_last_committed')";

const GROUP: &str = "SELECT m.MEMBER_ID, m.MEMBER_STATE, m.MEMBER_ROLE, s.VIEW_ID \
    FROM performance_schema.replication_group_members AS m \
    LEFT JOIN performance_schema.replication_group_member_stats AS s ON s.MEMBER_ID = m.MEMBER_ID";

/// Asks for the members before 8.0.2. They have no roles there: the one that writes is told by `super_read_only`.
const GROUP_WITHOUT_ROLES: &str = "SELECT m.MEMBER_ID, m.MEMBER_STATE, '' AS MEMBER_ROLE, s.VIEW_ID \
    FROM performance_schema.replication_group_members AS m \
    LEFT JOIN performance_schema.replication_group_member_stats AS s ON s.MEMBER_ID = m.MEMBER_ID";

impl CheckQuestion {
    /// Returns the question's text for a server of this version.
    pub(crate) fn text(self, version: &Version) -> &'static str {
        match self {
            Self::NoSyncWait => NO_SYNC_WAIT,
            Self::Alive => "DO 0",
            Self::Variables => VARIABLES,
            Self::Position => GTID_EXECUTED,
            // MariaDB knows the older name as long as there is one. MySQL has the other since 8.0.22, and it alone since 8.4.
            Self::Replication if version.is_mariadb() => "SHOW ALL SLAVES STATUS",
            Self::Replication if version.number() >= 80_022 => "SHOW REPLICA STATUS",
            Self::Replication => "SHOW SLAVE STATUS",
            Self::ReplicaStatus => rds::REPLICA_STATUS,
            Self::Galera => GALERA,
            Self::Group if version.number() < 80_002 => GROUP_WITHOUT_ROLES,
            Self::Group => GROUP,
            Self::Utc => aurora::UTC,
            Self::Aurora => aurora::INSTANCES,
        }
    }
}

/// The answers of a server about itself in a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Name that is the same by two addresses of one server: MySQL's `server_uuid`, or other values that tell servers apart.
    pub(super) identity: String,
    pub(super) read_only: bool,
    pub(super) super_read_only: bool,
    /// True for a server that cannot write at all: a reader of Aurora, or one that was started so.
    pub(super) innodb_read_only: bool,
    /// The server's GTIDs, as it writes them; empty where it has none.
    pub(super) position: String,
    /// True where its writes have no GTID, whatever it had before: `gtid_mode` of MySQL is OFF or OFF_PERMISSIVE.
    pub(super) writes_without_gtids: bool,
    /// True for a server of RDS.
    pub(super) of_rds: bool,
    pub(super) replication: Replication,
    pub(super) galera: Option<Galera>,
    pub(super) group: Option<ReplicationGroup>,
    pub(super) aurora: Option<Aurora>,
}

/// The sources that a server replicates from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Replication {
    /// The server refused to say, with this error.
    Hidden(NoAnswer),
    /// These sources; none where it replicates from nobody.
    From(Vec<Channel>),
}

impl Default for Replication {
    fn default() -> Self {
        Self::From(Vec::new())
    }
}

/// One source of a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Channel {
    /// Host and port.
    pub(super) source: String,
    /// True while the replica reads the source's log.
    pub(super) receives: bool,
    /// True while the replica carries out the log that it has read.
    pub(super) applies: bool,
    /// The replica's lag, as it says. It says none where either has stopped.
    pub(super) lag: Option<Duration>,
    /// Error with which one of both has stopped.
    pub(super) error: String,
}

/// A node of Galera, as it sees itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Galera {
    pub(super) ready: bool,
    /// True in the part of the cluster that goes on after a partition.
    pub(super) in_primary_component: bool,
    /// State of the node: 4 is synced, 2 gives its data to another node.
    pub(super) local_state: u8,
    pub(super) state_comment: String,
    /// The node's place in the list that all nodes have alike.
    pub(super) local_index: u32,
    pub(super) desync: bool,
    pub(super) rejects_queries: bool,
    pub(super) rejects_as_donor: bool,
    /// True where Percona's `pxc_maint_mode` is another than DISABLED.
    pub(super) in_maintenance: bool,
    /// Id of the cluster, the same for all of its nodes.
    pub(super) cluster: String,
    /// Number of the last change of members that the node has heard of.
    pub(super) view: u64,
    /// Number of members that the cluster has left.
    pub(super) members: u32,
}

/// The group, as a member sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplicationGroup {
    /// The member's own line.
    pub(super) own: Option<Member>,
    pub(super) members: u32,
    /// Number of members that take part: ONLINE or RECOVERING.
    pub(super) alive: u32,
    /// Name of the group, the same for all members.
    pub(super) name: String,
    /// Time at which the group began, and the number of the last change of members that this one has heard of.
    pub(super) view: (u64, u64),
    /// The member's place by the ids of all, where all take writes.
    pub(super) place: Option<u32>,
}

/// A line of `replication_group_members`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    pub(super) state: String,
    /// PRIMARY or SECONDARY; empty where the server is too old to say so.
    pub(super) role: String,
}

impl Member {
    /// Says whether the member is alive and has not left the group.
    pub(crate) fn takes_part(&self) -> bool {
        matches!(self.state.as_str(), "ONLINE" | "RECOVERING")
    }
}

/// The reason for which a server cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotJudged {
    /// The server does not answer a question that a verdict needs.
    NoAnswer(NoAnswer),
    /// The server's variables do not say whether it takes writes.
    NoReadOnly,
}

impl fmt::Display for NotJudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAnswer(refusal) => refusal.fmt(f),
            Self::NoReadOnly => f.write_str("it does not say whether it is read_only"),
        }
    }
}

/// A round under way.
#[derive(Debug, Default)]
pub(crate) struct Round {
    reading: Reading,
    server_uuid: String,
    of_galera: bool,
    /// The group's name; empty where the server is in none.
    group: String,
    has_many_primaries: bool,
}

impl Round {
    /// Takes in an answer, or the server's error. Returns the next question; `None` at the end of the round.
    ///
    /// # Errors
    /// The reason for which the server cannot be judged.
    pub(crate) fn take(
        &mut self,
        version: &Version,
        question: CheckQuestion,
        answer: Result<&[u8], NoAnswer>,
    ) -> Result<Option<CheckQuestion>, NotJudged> {
        match (question, answer) {
            (CheckQuestion::NoSyncWait | CheckQuestion::Utc | CheckQuestion::Alive, _) => {}
            (CheckQuestion::Variables, Ok(kept)) => self.take_variables(kept)?,
            (CheckQuestion::Position, Ok(kept)) => self.take_position(kept),
            (CheckQuestion::Replication | CheckQuestion::ReplicaStatus, Ok(kept)) => {
                self.reading.replication = Replication::From(channels_of(kept));
            }
            // Without the right to look the role still shows, by what the server takes.
            (CheckQuestion::Replication | CheckQuestion::ReplicaStatus, Err(error)) => {
                self.reading.replication = Replication::Hidden(error);
            }
            (CheckQuestion::Galera, Ok(kept)) => self.take_galera(kept),
            (CheckQuestion::Group, Ok(kept)) => self.take_group(kept),
            (CheckQuestion::Aurora, Ok(kept)) => {
                if let Some(aurora) = &mut self.reading.aurora {
                    aurora.take(kept);
                }
            }
            // What it takes says as much of the role.
            (CheckQuestion::Aurora, Err(_)) => {}
            (_, Err(error)) => return Err(NotJudged::NoAnswer(error)),
        }
        Ok(self.next(version, question))
    }

    /// Returns the reading at the end of the round.
    pub(crate) fn finish(self) -> Reading {
        self.reading
    }

    fn next(&self, version: &Version, last: CheckQuestion) -> Option<CheckQuestion> {
        match last {
            CheckQuestion::NoSyncWait => Some(CheckQuestion::Variables),
            // Its instances have one storage: nobody replicates, and none has more than another.
            CheckQuestion::Variables if self.reading.aurora.is_some() => Some(CheckQuestion::Utc),
            CheckQuestion::Utc => Some(CheckQuestion::Aurora),
            CheckQuestion::Variables if !version.is_mariadb() => Some(CheckQuestion::Position),
            CheckQuestion::Variables | CheckQuestion::Position => Some(CheckQuestion::Replication),
            CheckQuestion::Replication if self.may_say_by_procedure(version) => {
                Some(CheckQuestion::ReplicaStatus)
            }
            CheckQuestion::Replication if self.of_galera => Some(CheckQuestion::Galera),
            CheckQuestion::Replication | CheckQuestion::Galera if !self.group.is_empty() => {
                Some(CheckQuestion::Group)
            }
            _ => None,
        }
    }

    fn may_say_by_procedure(&self, version: &Version) -> bool {
        let is_hidden = matches!(self.reading.replication, Replication::Hidden(_));
        is_hidden && self.reading.of_rds && version.is_mariadb()
    }

    fn take_variables(&mut self, kept: &[u8]) -> Result<(), NotJudged> {
        let rows = rows_of(kept);
        let value = |name: &str| value_of(&rows, name);
        let is_on = |name: &str| matches!(value(name).to_ascii_uppercase().as_str(), "ON" | "1" | "YES");
        if value("read_only").is_empty() {
            return Err(NotJudged::NoReadOnly);
        }
        self.server_uuid = value("server_uuid");
        let named = || {
            let parts = ["hostname", "port", "server_id", "datadir"].map(value);
            parts.join(" ")
        };
        self.reading.identity = if self.server_uuid.is_empty() { named() } else { self.server_uuid.clone() };
        // MariaDB from 12 on has more words for it than ON.
        self.reading.read_only = !matches!(value("read_only").to_ascii_uppercase().as_str(), "OFF" | "0");
        self.reading.super_read_only = is_on("super_read_only");
        self.reading.innodb_read_only = is_on("innodb_read_only");
        self.reading.position =
            position_of(&value("gtid_current_pos"), &value("gtid_slave_pos"), &value("gtid_binlog_state"));
        let mode = value("gtid_mode").to_ascii_uppercase();
        self.reading.writes_without_gtids = matches!(mode.as_str(), "OFF" | "OFF_PERMISSIVE");
        self.reading.of_rds = rds::is_of_rds(&value("basedir"));
        self.group = value("group_replication_group_name");
        self.has_many_primaries = value("group_replication_single_primary_mode").eq_ignore_ascii_case("OFF");
        let own = value("aurora_server_id");
        if !own.is_empty() {
            self.reading.identity = format!("aurora {own}");
            self.reading.aurora = Some(Aurora::new(own));
        }
        self.of_galera = is_on("wsrep_on");
        if self.of_galera {
            let says_none = |name: &str, none: &str| {
                let said = value(name);
                said.is_empty() || said.eq_ignore_ascii_case(none)
            };
            self.reading.galera = Some(Galera {
                desync: is_on("wsrep_desync"),
                rejects_queries: !says_none("wsrep_reject_queries", "NONE"),
                rejects_as_donor: is_on("wsrep_sst_donor_rejects_queries"),
                in_maintenance: !says_none("pxc_maint_mode", "DISABLED"),
                ..Galera::default()
            });
        }
        Ok(())
    }

    fn take_position(&mut self, kept: &[u8]) {
        let position = first_field(kept).unwrap_or_default();
        self.reading.position = text(&position).replace(['\n', ' '], "");
    }

    fn take_galera(&mut self, kept: &[u8]) {
        let rows = rows_of(kept);
        let value = |name: &str| value_of(&rows, name);
        let Some(galera) = &mut self.reading.galera else { return };
        galera.ready = value("wsrep_ready") == "ON";
        galera.in_primary_component = value("wsrep_cluster_status") == "Primary";
        galera.local_state = value("wsrep_local_state").parse().unwrap_or(0);
        galera.state_comment = value("wsrep_local_state_comment");
        galera.local_index = value("wsrep_local_index").parse().unwrap_or(u32::MAX);
        galera.cluster = value("wsrep_cluster_state_uuid");
        galera.view = value("wsrep_cluster_conf_id").parse().unwrap_or(0);
        galera.members = value("wsrep_cluster_size").parse().unwrap_or(0);
        // A node's GTIDs are those of the nodes that wrote, and each knows the others' by halves (gtid_current_pos): they cannot be compared.
        self.reading.position = format!("{}:1-{}", galera.cluster, value("wsrep_last_committed"));
    }

    fn take_group(&mut self, kept: &[u8]) {
        let table = Named::of(kept);
        let mut group = ReplicationGroup { name: self.group.clone(), ..ReplicationGroup::default() };
        let mut before = 0;
        for row in table.rows() {
            let state = row.text("MEMBER_STATE");
            let id = row.text("MEMBER_ID");
            group.members += 1;
            before += u32::from(id < self.server_uuid);
            let member = Member { state, role: row.text("MEMBER_ROLE") };
            group.alive += u32::from(member.takes_part());
            if id == self.server_uuid {
                group.view = view_of(&row.text("VIEW_ID"));
                group.own = Some(member);
            }
        }
        group.place = self.has_many_primaries.then_some(before);
        self.reading.group = Some(group);
    }
}

/// Reads a `VIEW_ID` as numbers that grow: when the group began, and the changes of members since. Both 0 where a member has none.
fn view_of(id: &str) -> (u64, u64) {
    let (began, changes) = id.split_once(':').unwrap_or_default();
    (began.parse().unwrap_or(0), changes.parse().unwrap_or(0))
}

/// Returns the sources in an answer about replication, by either of the names that servers have for its columns.
fn channels_of(kept: &[u8]) -> Vec<Channel> {
    let of_row = |row: NamedRow<'_>| {
        let one_of = |names: [&str; 2]| names.map(|name| row.text(name)).concat();
        let host = one_of(["Master_Host", "Source_Host"]);
        let port = one_of(["Master_Port", "Source_Port"]);
        // The receiver's comes first: without it the other has nothing to do.
        let errors = ["Last_IO_Error", "Last_SQL_Error"].map(|name| row.text(name));
        Channel {
            source: format!("{host}:{port}"),
            receives: one_of(["Slave_IO_Running", "Replica_IO_Running"]) == "Yes",
            applies: one_of(["Slave_SQL_Running", "Replica_SQL_Running"]) == "Yes",
            lag: one_of(["Seconds_Behind_Master", "Seconds_Behind_Source"])
                .parse()
                .ok()
                .map(Duration::from_secs),
            error: errors.into_iter().find(|error| !error.is_empty()).unwrap_or_default(),
        }
    };
    Named::of(kept).rows().map(of_row).collect()
}

/// Returns MariaDB's GTIDs in one text, each once. The first of the three lacks GTIDs that a server got before it wrote by itself, and those
/// that were written there in the name of another server. The last has them for each writer, where replicas log the GTIDs that they get. A
/// domain that is in the last alone is one of the past, which other servers need not have.
fn position_of(current: &str, got: &str, logged: &str) -> String {
    // SHOW VARIABLES cuts longer ones short, at 1,024 bytes or at 2,048, and perhaps in the middle of a number.
    const LONGEST: usize = 1024;
    let gtids = |position| str::split(position, ',').filter(|gtid| !gtid.is_empty());
    let domain_of = |gtid: &&str| gtid.split('-').next().map(str::to_owned);
    let mut all: BTreeSet<&str> = gtids(current).chain(gtids(got)).collect();
    let domains: BTreeSet<_> = all.iter().map(domain_of).collect();
    let logged =
        if logged.len() < LONGEST { logged } else { logged.rsplit_once(',').map_or("", |cut| cut.0) };
    all.extend(gtids(logged).filter(|gtid| domains.is_empty() || domains.contains(&domain_of(gtid))));
    all.into_iter().collect::<Vec<_>>().join(",")
}

/// Returns the value of a row of names and values; empty where there is none of this name.
fn value_of(rows: &[Row], name: &str) -> String {
    let named =
        |row: &&Row| matches!(row.first(), Some(Some(own)) if own.eq_ignore_ascii_case(name.as_bytes()));
    rows.iter().find(named).and_then(|row| row.get(1)?.as_deref()).map(text).unwrap_or_default()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gtids_of_a_mariadb_are_joined() {
        assert_eq!(position_of("0-2-18", "0-1-15", "0-1-15,0-2-18,7-9-3"), "0-1-15,0-2-18");
        assert_eq!(
            position_of("", "", "0-1-15,7-9-3"),
            "0-1-15,7-9-3",
            "it had another server_id when it wrote"
        );
        assert_eq!(position_of("", "", ""), "");
        let many = (0..200).map(|server| format!("0-{server}-{server}")).collect::<Vec<_>>().join(",");
        let cut = position_of("0-1-1", "", &many[..1024]);
        assert!(cut.split(',').all(|gtid| many.split(',').any(|whole| whole == gtid)), "{cut}");
    }
}
