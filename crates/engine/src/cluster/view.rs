//! The servers as they look from outside: plain data.

use std::time::Duration;

use seam::{Address, Instant};

use super::chosen::{Chosen, FailoverCounts};
use super::position::Behind;
use super::primary::Failover;
use super::{Cluster, foreign};
use crate::outside::named::{ServerRole, ServerState};

/// A server of several, at one of its addresses.
#[derive(Clone, Debug)]
pub struct ServerView {
    /// Address of the server.
    pub address: Address,
    /// Name that tells the server from others: two addresses of one server have the same. Empty as long as it has given none.
    pub identity: String,
    /// Role of the server among the others.
    pub role: ServerRole,
    /// State of the server by its checks.
    pub state: ServerState,
    /// True where the server takes writes.
    pub is_writable: bool,
    /// True where statements go to this server.
    pub is_primary: bool,
    /// True where an operator has taken the server out of the choice.
    pub is_drained: bool,
    /// The reason for its role and state.
    pub reason: String,
    /// The server's lag, where it replicates and says so.
    pub lag: Option<Duration>,
    /// The server's GTIDs.
    pub position: String,
    /// Time that it has had its state and role.
    pub since: Duration,
    /// The last checks, the oldest first.
    pub checks: Vec<ServerCheckView>,
}

/// A check of a server.
#[derive(Clone, Debug)]
pub struct ServerCheckView {
    /// Time since the check ended.
    pub age: Duration,
    /// Time that the check took.
    pub took: Duration,
    /// The role that the server was found in.
    pub role: ServerRole,
    /// True where the server answered, and is a part of its cluster or group, if it has one.
    pub is_well: bool,
    /// The reason for that.
    pub reason: String,
}

/// A time without a primary, or a change from one to another.
#[derive(Clone, Debug)]
pub struct FailoverView {
    /// Time since the former primary was given up.
    pub age: Duration,
    /// Time without a primary; `None` while that lasts.
    pub took: Option<Duration>,
    /// The former primary.
    pub from: Address,
    /// The new one, which may be the same.
    pub to: Option<Address>,
    /// The part of the former primary's known position that the new one lacked, as it was taken.
    pub behind: Behind,
    /// Number of statements that waited and went to the new one.
    pub held: u64,
    /// The longest wait of these.
    pub longest_hold: Duration,
    /// Number of transactions that were rolled back, as their clients were told.
    pub rolled_back: u64,
    /// Number of statements of which nobody knows whether they ran.
    pub unknown: u64,
}

/// Most servers that clients are told of: client libraries keep 512 bytes of an error (MYSQL_ERRMSG_SIZE).
const SERVERS_TOLD: usize = 3;

/// Most letters of each server's reason that clients are told.
const REASON_TOLD: usize = 60;

impl Cluster {
    /// Tells clients the state of each server while there is no primary.
    pub(super) fn tell_clients(&mut self, chosen: &Chosen, addresses: &[Address]) {
        if chosen.get().place.is_none() && std::mem::take(&mut self.has_news) {
            chosen.say_servers(self.in_few_words(addresses).into());
        }
    }

    fn in_few_words(&self, addresses: &[Address]) -> String {
        let word = |(place, address): (usize, &Address)| {
            let reason = foreign::shortened(&self.reason_of(place, addresses), REASON_TOLD);
            format!("{address} is {} ({reason})", self.standings[place].state())
        };
        let mut text =
            addresses.iter().enumerate().take(SERVERS_TOLD).map(word).collect::<Vec<_>>().join(", ");
        if addresses.len() > SERVERS_TOLD {
            text.push_str(&format!(" and {} more", addresses.len() - SERVERS_TOLD));
        }
        text
    }

    /// Returns the views of the servers at these addresses.
    pub(crate) fn views(
        &self,
        now: Instant,
        addresses: &[Address],
        primary: Option<usize>,
    ) -> Vec<ServerView> {
        let servers = addresses.iter().zip(&self.standings).enumerate();
        let view = |(place, (address, standing)): (usize, (&Address, &super::standing::ServerStanding))| {
            ServerView {
                address: address.clone(),
                identity: standing.believed().identity.clone(),
                role: standing.believed().role,
                state: standing.state(),
                is_writable: standing.is_writable(),
                is_primary: primary == Some(place),
                is_drained: self.is_drained(place),
                reason: self.reason_of(place, addresses),
                lag: standing.believed().lag,
                position: standing.believed().position.clone(),
                since: now.since(standing.since()),
                checks: standing
                    .history()
                    .map(|checked| ServerCheckView {
                        age: now.since(checked.at),
                        took: checked.took,
                        role: checked.verdict.role,
                        is_well: checked.verdict.is_well,
                        reason: checked.verdict.reason.clone(),
                    })
                    .collect(),
            }
        };
        servers.map(view).collect()
    }

    /// Returns the views of the changes of the primary.
    pub(crate) fn failover_views(
        &self,
        now: Instant,
        addresses: &[Address],
        chosen: &Chosen,
    ) -> Vec<FailoverView> {
        if self.checks.is_empty() {
            return Vec::new();
        }
        let view = |(failover, counts): (&Failover, FailoverCounts)| FailoverView {
            age: now.since(failover.began),
            took: failover.ended.map(|ended| ended.since(failover.began)),
            from: addresses[failover.from].clone(),
            to: failover.to.map(|to| addresses[to].clone()),
            behind: failover.behind.clone(),
            held: counts.held,
            longest_hold: counts.longest,
            rolled_back: counts.rolled_back,
            unknown: counts.unknown,
        };
        self.failovers.iter(chosen).map(view).collect()
    }
}
