//! The line of the clients to be asked about: networks take turns, and in each of them its users.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use seam::Peer;

use crate::accounts::failed_logins::{cut_name, network};
use crate::ids::ClientRef;

/// A user's name, as it was given, and the network that it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoginOrigin {
    /// See [`network`].
    pub(super) network: Option<IpAddr>,
    user: Vec<u8>,
}

impl LoginOrigin {
    /// Makes the guest of a client.
    pub(super) fn new(peer: &Peer, user: &[u8]) -> Self {
        Self { network: network(peer), user: cut_name(user).to_vec() }
    }
}

/// Clients that wait for their turn.
#[derive(Default)]
pub(super) struct Line {
    networks: BTreeMap<Option<IpAddr>, Users>,
    /// The order of turns: each network from which somebody waits, once.
    turns: VecDeque<Option<IpAddr>>,
}

/// The clients of one network that wait.
#[derive(Default)]
struct Users {
    waiting: BTreeMap<Vec<u8>, VecDeque<ClientRef>>,
    /// The order of turns: each user who waits, once.
    turns: VecDeque<Vec<u8>>,
}

impl Line {
    /// Puts a client behind the others of its user.
    pub(super) fn push(&mut self, guest: LoginOrigin, client: ClientRef) {
        let LoginOrigin { network, user } = guest;
        let users = self.networks.entry(network).or_default();
        if users.turns.is_empty() {
            self.turns.push_back(network);
        }
        let waiting = users.waiting.entry(user.clone()).or_default();
        if waiting.is_empty() {
            users.turns.push_back(user);
        }
        waiting.push_back(client);
    }

    /// Puts a client back that was taken, where nothing could be done for it. Its turn stays.
    pub(super) fn put_back(&mut self, guest: LoginOrigin, client: ClientRef) {
        let LoginOrigin { network, user } = guest;
        self.turns.retain(|&other| other != network);
        self.turns.push_front(network);
        let users = self.networks.entry(network).or_default();
        users.turns.retain(|other| *other != user);
        users.turns.push_front(user.clone());
        users.waiting.entry(user).or_default().push_front(client);
    }

    /// Takes the next client of a guest for which `may` says yes. Others are passed over, and keep their turn.
    pub(super) fn take(&mut self, may: impl Fn(&LoginOrigin) -> bool) -> Option<(LoginOrigin, ClientRef)> {
        let (turn, network, users_turn) = self.turns.iter().enumerate().find_map(|(turn, &network)| {
            let guest = |user: &Vec<u8>| LoginOrigin { network, user: user.clone() };
            let users_turn = self.networks.get(&network)?.turns.iter().position(|user| may(&guest(user)))?;
            Some((turn, network, users_turn))
        })?;
        let users = self.networks.get_mut(&network)?;
        let user = users.turns.remove(users_turn)?;
        let client = users.waiting.get_mut(&user)?.pop_front()?;
        users.turns.push_back(user.clone());
        self.turns.remove(turn);
        self.turns.push_back(network);
        let guest = LoginOrigin { network, user };
        self.tidy(&guest);
        Some((guest, client))
    }

    /// Takes all clients of a user.
    pub(super) fn take_all(&mut self, guest: &LoginOrigin) -> VecDeque<ClientRef> {
        let users = self.networks.get_mut(&guest.network);
        let taken = users.and_then(|users| users.waiting.get_mut(&guest.user)).map(std::mem::take);
        self.tidy(guest);
        taken.unwrap_or_default()
    }

    /// Takes out a client that waits no more.
    pub(super) fn remove(&mut self, guest: &LoginOrigin, client: ClientRef) {
        let users = self.networks.get_mut(&guest.network);
        if let Some(waiting) = users.and_then(|users| users.waiting.get_mut(&guest.user)) {
            waiting.retain(|&other| other != client);
        }
        self.tidy(guest);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.turns.is_empty()
    }

    /// Takes the turn from a user or network of which nobody waits.
    fn tidy(&mut self, guest: &LoginOrigin) {
        let Some(users) = self.networks.get_mut(&guest.network) else { return };
        if users.waiting.get(&guest.user).is_some_and(VecDeque::is_empty) {
            users.waiting.remove(&guest.user);
            // Whoever has just been taken is the last one.
            if let Some(turn) = users.turns.iter().rposition(|user| *user == guest.user) {
                users.turns.remove(turn);
            }
        }
        if users.waiting.is_empty() {
            self.networks.remove(&guest.network);
            if let Some(turn) = self.turns.iter().rposition(|&network| network == guest.network) {
                self.turns.remove(turn);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::client_key;

    fn guest(last: u8, user: &str) -> LoginOrigin {
        LoginOrigin::new(&Peer::Tcp(([10, 0, 0, last], 1024).into()), user.as_bytes())
    }

    fn client(number: u32) -> ClientRef {
        ClientRef { key: client_key(number), id: 0 }
    }

    fn taken(line: &mut Line) -> Vec<u32> {
        std::iter::from_fn(|| line.take(|_| true)).map(|(_, client)| client.key.number()).collect()
    }

    #[test]
    fn networks_and_their_users_take_turns() {
        let mut line = Line::default();
        for number in 0..3 {
            line.push(guest(1, "one"), client(number));
        }
        line.push(guest(1, "two"), client(3));
        line.push(guest(2, "one"), client(4));
        line.push(guest(2, "one"), client(5));
        assert_eq!(taken(&mut line), [0, 4, 3, 5, 1, 2]);
        assert!(line.is_empty());
    }

    #[test]
    fn who_may_not_is_passed_over_and_keeps_its_turn() {
        let mut line = Line::default();
        line.push(guest(1, "one"), client(0));
        line.push(guest(1, "two"), client(1));
        line.push(guest(2, "one"), client(2));
        let (two, next) = line.take(|guest| guest.user != b"one").unwrap();
        assert_eq!((&two, next), (&guest(1, "two"), client(1)));
        line.put_back(two, next);
        assert!(line.take(|_| false).is_none());
        assert_eq!(taken(&mut line), [1, 2, 0]);
    }

    #[test]
    fn who_has_gone_leaves_nothing() {
        let mut line = Line::default();
        for number in 0..3 {
            line.push(guest(1, "one"), client(number));
        }
        line.remove(&guest(1, "one"), client(1));
        assert_eq!(line.take_all(&guest(1, "one")), [client(0), client(2)]);
        line.remove(&guest(1, "one"), client(1));
        assert!(line.take_all(&guest(2, "one")).is_empty() && line.is_empty());
    }
}
