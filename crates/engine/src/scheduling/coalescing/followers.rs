//! The clients that follow a group.

use super::group::CoalescedGroup;
use crate::client::{Client, Phase};
use crate::ids::{ClientKey, ClientRef, Table};

/// Returns the clients that still follow.
pub(crate) fn followers_of(clients: &Table<ClientKey, Client>, group: &CoalescedGroup) -> Vec<ClientKey> {
    let there = group.followers.iter().filter(|&&follower| is_following(clients, follower, group.number));
    there.map(|follower| follower.key).collect()
}

impl CoalescedGroup {
    /// Takes out the next client that still follows.
    pub(crate) fn next_follower(&mut self, clients: &Table<ClientKey, Client>) -> Option<ClientKey> {
        while let Some(follower) = self.followers.pop_front() {
            if is_following(clients, follower, self.number) {
                return Some(follower.key);
            }
        }
        None
    }
}

/// Says whether a client still waits for the answer to this group.
pub(super) fn is_following(clients: &Table<ClientKey, Client>, follower: ClientRef, number: u64) -> bool {
    let client = clients.find(follower);
    client.is_some_and(|client| matches!(client.phase(), Phase::Following { group } if *group == number))
}
