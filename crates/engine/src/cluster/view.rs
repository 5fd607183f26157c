//! The servers as they look from outside: plain data.

use std::time::Duration;

use seam::{Address, Instant};

use super::chosen::{Chosen, Counts};
use super::position::Behind;
use super::primary::Failover;
use super::{Cluster, foreign};
use crate::outside::named::{ServerRole, ServerState};

/// A server of several, at one of its addresses.
#[derive(Clone, Debug)]
pub struct ServerView {
    /// Where it is.
    pub address: Address,
    /// What tells it from others: two addresses of one server have the same. Empty as long as it has not said.
    pub identity: String,
    /// What it is to the others.
    pub role: ServerRole,
    /// How it stands by its checks.
    pub state: ServerState,
    /// Whether it takes writes.
    pub is_writable: bool,
    /// Whether it is the one that statements go to.
    pub is_primary: bool,
    /// An operator has taken it out of the choice.
    pub is_drained: bool,
    /// Why it is taken for that.
    pub reason: String,
    /// How far it is behind, where it replicates and says so.
    pub lag: Option<Duration>,
    /// Its GTIDs.
    pub position: String,
    /// How long it has had its state and role.
    pub since: Duration,
    /// The last checks, the oldest first.
    pub checks: Vec<ServerCheckView>,
}

/// A check of it.
#[derive(Clone, Debug)]
pub struct ServerCheckView {
    /// How long ago it ended.
    pub age: Duration,
    /// How long it took.
    pub took: Duration,
    /// The role that the server was found in.
    pub role: ServerRole,
    /// It answered, and is a part of what it belongs to.
    pub is_well: bool,
    /// Why.
    pub reason: String,
}

/// A time without a primary, or a change from one to another.
#[derive(Clone, Debug)]
pub struct FailoverView {
    /// How long ago the former primary was given up.
    pub age: Duration,
    /// How long there was none; `None` while that lasts.
    pub took: Option<Duration>,
    /// The former primary.
    pub from: Address,
    /// The new one, which may be the same.
    pub to: Option<Address>,
    /// What the new one lacked of what the former one was known to have, as it was taken.
    pub behind: Behind,
    /// Statements that waited and went to the new one.
    pub held: u64,
    /// How long the one that waited longest did.
    pub longest_hold: Duration,
    /// Transactions of which the clients were told that they are rolled back.
    pub rolled_back: u64,
    /// Statements of which nobody knows whether they ran.
    pub unknown: u64,
}

/// Clients are told of so many servers: client libraries keep 512 bytes of an error (MYSQL_ERRMSG_SIZE).
const SERVERS_TOLD: usize = 3;

/// And so many letters of the reason of each.
const REASON_TOLD: usize = 60;

impl Cluster {
    /// While there is no primary clients are told what each server is.
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

    /// The servers at these addresses.
    pub(crate) fn views(
        &self,
        now: Instant,
        addresses: &[Address],
        primary: Option<usize>,
    ) -> Vec<ServerView> {
        let servers = addresses.iter().zip(&self.standings).enumerate();
        let view =
            |(place, (address, standing)): (usize, (&Address, &super::standing::Standing))| ServerView {
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
            };
        servers.map(view).collect()
    }

    /// The changes of the primary.
    pub(crate) fn failover_views(
        &self,
        now: Instant,
        addresses: &[Address],
        chosen: &Chosen,
    ) -> Vec<FailoverView> {
        if self.checks.is_empty() {
            return Vec::new();
        }
        let view = |(failover, counts): (&Failover, Counts)| FailoverView {
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
