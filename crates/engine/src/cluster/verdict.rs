//! What follows from a reading: a server's role, whether it takes writes, and why. Pure functions.

use std::time::Duration;

use super::aurora::Aurora;
use super::foreign;
use super::rds;
use super::reading::{Channel, Galera, Group, Reading, Replication};
use crate::outside::named::ServerRole;

/// How a server was found in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) role: ServerRole,
    /// It answers, and is a part of what it belongs to.
    pub(crate) is_well: bool,
    /// It says that it takes writes. Only together with [`Self::is_well`] can it be the primary.
    pub(crate) is_writable: bool,
    /// A sentence, for people.
    pub(crate) reason: String,
    /// How far it is behind, where it replicates and says so.
    pub(crate) lag: Option<Duration>,
    pub(crate) position: String,
    /// What it writes is not in its position.
    pub(crate) writes_without_gtids: bool,
    pub(crate) identity: String,
    /// What it is a member of.
    pub(crate) membership: Option<Membership>,
    pub(crate) follows: Follows,
}

/// Whether a server carries out what another one writes, as far as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// It does not, or does not say.
    Nobody,
    /// It carries out what it has got, and gets nothing new from some source.
    AppliesRest,
    /// It gets and carries out all.
    All,
    /// It has the storage that the primary writes, and is so far behind what that has written: a reader of Aurora.
    Storage(Duration),
}

/// A member's view of what it belongs to: nodes of Galera, a group of MySQL's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    /// The same of all members.
    pub(crate) cluster: String,
    /// Grows with each change of members: of two views the greater one is the later one.
    pub(crate) view: (u64, u64),
    /// The members in that view.
    pub(crate) members: u32,
    /// Its place among them, the same for whoever asks; `None` where one member alone takes writes.
    pub(crate) place: Option<u32>,
    /// It takes itself for one of them, also where it has lost the others. One that is stopped or left out does not.
    pub(crate) takes_part: bool,
}

/// Synced, by Galera's numbers for the states of a node.
const SYNCED: u8 = 4;
/// It gives its data to another node, and may serve meanwhile.
const DONOR: u8 = 2;

impl Verdict {
    /// Of a server that has not answered.
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

    /// Whether it is of a group of MySQL's, as it says. What it takes then is another's too; started anew it is in none, and may take
    /// writes that nobody else gets.
    pub(crate) fn is_of_group(&self) -> bool {
        self.membership.is_some() && self.role != ServerRole::Node
    }

    /// Of a server that has said this of itself.
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
    let of_member = |group: &Group| Membership {
        cluster: group.name.clone(),
        view: group.view,
        members: group.members,
        place: group.place,
        takes_part: group.own.as_ref().is_some_and(|own| own.takes_part()),
    };
    reading.galera.as_ref().map(of_node).or_else(|| reading.group.as_ref().map(of_member))
}

/// Why a node serves nobody.
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

fn judge_member(reading: &Reading, group: &Group) -> (ServerRole, bool, String) {
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

/// An instance of Aurora. One that has been the writer goes on to say that it takes writes until it has heard of the new one, or has been
/// started anew.
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

/// A server that belongs to nothing that has members.
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

/// What a server says of its sources; `None` where it has none.
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

/// That of the source that it is furthest behind of; `None` where one does not say.
fn lag_of(replication: &Replication) -> Option<Duration> {
    let Replication::From(channels) = replication else { return None };
    let lags: Option<Vec<_>> = channels.iter().map(|channel| channel.lag).collect();
    lags?.into_iter().max()
}

#[cfg(test)]
#[path = "verdict/tests.rs"]
mod tests;
