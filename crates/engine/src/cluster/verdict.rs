//! Conclusions from a reading: a server's role, whether it takes writes, and why. Pure functions.

use std::time::Duration;

use super::aurora::Aurora;
use super::foreign;
use super::rds;
use super::reading::{Channel, Galera, Reading, Replication, ReplicationGroup};
use crate::outside::named::ServerRole;

/// The state of a server as a round found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerVerdict {
    pub(super) role: ServerRole,
    /// True where the server answers, and is a part of its cluster or group, if it has one.
    pub(super) is_well: bool,
    /// True where the server says that it takes writes. Only together with [`Self::is_well`] can it be the primary.
    pub(super) is_writable: bool,
    /// The reason as a sentence, for people.
    pub(super) reason: String,
    /// The server's lag, where it replicates and says so.
    pub(super) lag: Option<Duration>,
    pub(super) position: String,
    /// True where its writes are not in its position.
    pub(super) writes_without_gtids: bool,
    pub(super) identity: String,
    /// The server's view of its cluster or group.
    pub(super) membership: Option<Membership>,
    pub(super) follows: Follows,
}

/// The way in which a server carries out another one's writes, as far as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// The server carries out nobody's writes, or does not say.
    Nobody,
    /// The server carries out the writes that it has got, and gets nothing new from some source.
    AppliesRest,
    /// The server gets and carries out all writes.
    All,
    /// The server has the storage that the primary writes to, and is so far behind: a reader of Aurora.
    Storage(Duration),
}

/// A member's view of its cluster: of a Galera, or of a group of MySQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Name of the cluster, the same for all members.
    pub(super) cluster: String,
    /// Number of the view, which grows with each change of members: of two views the greater one is the later one.
    pub(super) view: (u64, u64),
    /// Number of members in that view.
    pub(super) members: u32,
    /// Its place among them, which all members see alike; `None` where one member alone takes writes.
    pub(super) place: Option<u32>,
    /// True where it takes itself for a member, also where it has lost the others. One that is stopped or left out does not.
    pub(super) takes_part: bool,
}

/// Galera's number for the state of a synced node.
const SYNCED: u8 = 4;
/// Galera's number for the state of a node that gives its data to another one, and may serve meanwhile.
const DONOR: u8 = 2;

impl ServerVerdict {
    /// Makes the verdict on a server that has not answered.
    pub(crate) fn unreached(reason: &str) -> Self {
        Self {
            role: ServerRole::Unknown,
            is_well: false,
            is_writable: false,
            reason: foreign::reason(reason),
            lag: None,
            position: String::new(),
            writes_without_gtids: false,
            identity: String::new(),
            membership: None,
            follows: Follows::Nobody,
        }
    }

    /// Says whether the server is in a group of MySQL, as it says. The others get the writes that it takes then. Started anew it is in none, and
    /// may take writes that nobody else gets.
    pub(crate) fn is_of_group(&self) -> bool {
        self.membership.is_some() && self.role != ServerRole::Node
    }

    /// Makes the verdict on a server with these answers.
    pub(crate) fn of(reading: &Reading) -> Self {
        let (role, is_well, reason) = match (&reading.galera, &reading.group) {
            (Some(galera), _) => {
                let fault = fault_of_node(galera);
                let reason = fault.clone().unwrap_or_else(|| String::from("a node of Galera, synced"));
                (ServerRole::Node, fault.is_none(), with_read_only(reading, reason))
            }
            (None, Some(group)) => judge_member(reading, group),
            (None, None) => {
                let judged = reading.aurora.as_ref().map(|aurora| judge_instance(reading, aurora));
                let (role, reason) = judged.unwrap_or_else(|| judge_alone(reading));
                (role, true, reason)
            }
        };
        let writes = !(reading.read_only || reading.super_read_only || reading.innodb_read_only);
        Self {
            role,
            is_well,
            is_writable: is_well && writes && role != ServerRole::Replica,
            reason: foreign::reason(&reason),
            lag: reading.aurora.as_ref().map_or_else(|| lag_of(&reading.replication), |aurora| aurora.lag),
            position: foreign::position(&reading.position),
            writes_without_gtids: reading.writes_without_gtids,
            identity: foreign::identity(&reading.identity),
            membership: membership_of(reading),
            follows: match &reading.aurora {
                Some(aurora) => aurora.lag.map_or(Follows::Nobody, Follows::Storage),
                None => follows_of(&reading.replication),
            },
        }
    }
}

fn membership_of(reading: &Reading) -> Option<Membership> {
    let of_node = |galera: &Galera| Membership {
        cluster: galera.cluster.clone(),
        view: (0, galera.view),
        members: galera.members,
        place: Some(galera.local_index),
        takes_part: true,
    };
    let of_member = |group: &ReplicationGroup| Membership {
        cluster: group.name.clone(),
        view: group.view,
        members: group.members,
        place: group.place,
        takes_part: group.own.as_ref().is_some_and(|own| own.takes_part()),
    };
    reading.galera.as_ref().map(of_node).or_else(|| reading.group.as_ref().map(of_member))
}

/// Returns the reason for which a node serves nobody.
fn fault_of_node(galera: &Galera) -> Option<String> {
    let may_serve = match galera.local_state {
        SYNCED => true,
        DONOR => !galera.rejects_as_donor,
        _ => false,
    };
    let fault = if !galera.in_primary_component {
        "not in the primary component of Galera (wsrep_cluster_status)"
    } else if !may_serve {
        return Some(format!("a node of Galera that is {}, not synced", galera.state_comment));
    } else if galera.rejects_queries {
        "wsrep_reject_queries is on"
    } else if galera.in_maintenance {
        "pxc_maint_mode is on"
    } else if galera.desync && galera.local_state != DONOR {
        "wsrep_desync is on"
    } else if !galera.ready {
        "wsrep_ready is off"
    } else {
        return None;
    };
    Some(String::from(fault))
}

fn judge_member(reading: &Reading, group: &ReplicationGroup) -> (ServerRole, bool, String) {
    let Some(own) = &group.own else {
        return (ServerRole::Unknown, false, String::from("not a member of its own group replication"));
    };
    let role = match own.role.as_str() {
        "PRIMARY" => ServerRole::Primary,
        "SECONDARY" => ServerRole::Replica,
        _ if reading.super_read_only => ServerRole::Replica,
        _ => ServerRole::Primary,
    };
    // It says nothing of others then.
    match own.state.as_str() {
        "OFFLINE" => {
            let reason = "OFFLINE, not in its group: START GROUP_REPLICATION there; to use it alone, UNINSTALL PLUGIN group_replication";
            return (role, false, String::from(reason));
        }
        "ERROR" => return (role, false, String::from("its state in the group is ERROR")),
        _ => {}
    }
    // Each side of a partition sees the others as UNREACHABLE; only the greater one goes on.
    if group.alive * 2 <= group.members {
        let reason =
            format!("{} of {} members of the group are alive: no majority", group.alive, group.members);
        return (role, false, reason);
    }
    if own.state != "ONLINE" {
        return (role, false, format!("its state in the group is {}", own.state));
    }
    let reason = format!("{} of a group of {}", role.name(), group.members);
    (role, true, if role == ServerRole::Primary { with_read_only(reading, reason) } else { reason })
}

/// Judges an instance of Aurora. A former writer goes on to say that it takes writes until it has heard of the new one, or has been started
/// anew.
fn judge_instance(reading: &Reading, aurora: &Aurora) -> (ServerRole, String) {
    let writer = &aurora.writer;
    match (reading.innodb_read_only, writer.is_empty()) {
        (true, true) => (ServerRole::Replica, String::from("a reader of Aurora (innodb_read_only is on)")),
        (true, false) => (ServerRole::Replica, format!("a reader of Aurora, whose writer is {writer}")),
        (false, false) if !aurora.is_writer() => (
            ServerRole::Replica,
            format!("innodb_read_only is off, but the writer of Aurora is {writer} (replica_host_status)"),
        ),
        (false, _) => (ServerRole::Primary, with_read_only(reading, String::from("the writer of Aurora"))),
    }
}

/// Judges a server that is in no cluster or group.
fn judge_alone(reading: &Reading) -> (ServerRole, String) {
    let locked = [
        (reading.innodb_read_only, "innodb_read_only"),
        (reading.super_read_only, "super_read_only"),
        (reading.read_only, "read_only"),
    ];
    let lock = locked.into_iter().find(|&(on, _)| on).map(|(_, name)| name);
    let replicates = say_replication(reading);
    match (lock, replicates) {
        (Some(lock), Some(replicates)) => (ServerRole::Replica, format!("{lock} is on, {replicates}")),
        (Some(lock), None) => (ServerRole::Replica, format!("{lock} is on, it replicates from nobody")),
        (None, Some(hidden)) if matches!(reading.replication, Replication::Hidden(_)) => {
            (ServerRole::Primary, format!("read_only is off, {hidden}"))
        }
        (None, Some(replicates)) => {
            (ServerRole::Primary, format!("read_only is off, although {replicates}: set read_only there"))
        }
        (None, None) => (ServerRole::Primary, String::from("read_only is off")),
    }
}

fn with_read_only(reading: &Reading, reason: String) -> String {
    if reading.read_only { format!("{reason}, read_only is on") } else { reason }
}

/// Returns a server's word about its sources; `None` where it has none.
fn say_replication(reading: &Reading) -> Option<String> {
    match &reading.replication {
        Replication::Hidden(error) => {
            let right = if reading.of_rds { rds::RIGHT_TO_LOOK } else { "REPLICA MONITOR" };
            Some(format!(
                "it does not say from whom it replicates (grant {right}, on MySQL REPLICATION CLIENT): {error}"
            ))
        }
        Replication::From(channels) => {
            let first = channels.iter().find(|channel| !is_running(channel)).or(channels.first())?;
            Some(match is_running(first) {
                true => format!("it replicates from {}", first.source),
                false if first.error.is_empty() => format!("replication from {} has stopped", first.source),
                false => format!("replication from {} has stopped: {}", first.source, first.error),
            })
        }
    }
}

fn is_running(channel: &Channel) -> bool {
    channel.receives && channel.applies
}

fn follows_of(replication: &Replication) -> Follows {
    match replication {
        Replication::From(channels)
            if !channels.is_empty() && channels.iter().all(|channel| channel.applies) =>
        {
            if channels.iter().all(is_running) { Follows::All } else { Follows::AppliesRest }
        }
        _ => Follows::Nobody,
    }
}

/// Returns the lag behind the source that it is furthest behind of; `None` where one does not say.
fn lag_of(replication: &Replication) -> Option<Duration> {
    let Replication::From(channels) = replication else { return None };
    let lags: Option<Vec<_>> = channels.iter().map(|channel| channel.lag).collect();
    lags?.into_iter().max()
}

#[cfg(test)]
#[path = "verdict/tests.rs"]
mod tests;
