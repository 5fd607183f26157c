//! The servers behind us. There is one at present: the one that takes writes.

use std::ops::{Index, IndexMut};

use crate::accounts::IdentityId;
use crate::accounts::task::Finding;
use crate::backend::Backend;
use crate::client::Client;
use crate::ids::{BackendKey, ServerKey};
use crate::server::Server;

/// The servers on which this worker has backends.
///
/// Whoever has a backend's key needs to know nothing else: the key says which server it is on. What concerns all servers goes through all
/// of them.
pub(crate) struct Servers {
    /// By their slots; the primary is the first.
    all: Vec<Server>,
}

/// The slot of the server that takes writes.
const PRIMARY: usize = 0;

impl Servers {
    /// One server, of which nothing is known yet.
    pub(crate) fn new() -> Self {
        Self { all: vec![Server::new(ServerKey::at(PRIMARY))] }
    }

    /// The server that takes writes, and in whose name clients are greeted: what it is, its accounts and its defaults are what they
    /// see. To be asked for only where that one is meant.
    pub(crate) fn primary(&self) -> &Server {
        &self.all[PRIMARY]
    }

    /// The same, to change it.
    pub(crate) fn primary_mut(&mut self) -> &mut Server {
        &mut self.all[PRIMARY]
    }

    /// The server to which a client's statements go: that of the backend which it holds, else the one that takes writes.
    pub(crate) fn serving(&self, client: &Client) -> ServerKey {
        client.backend.map_or_else(|| self.primary().key, BackendKey::server)
    }

    /// All servers, by their slots.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Server> + Clone {
        self.all.iter()
    }

    /// The same, to change them.
    pub(crate) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Server> {
        self.all.iter_mut()
    }

    /// Their keys; they stay while the servers are changed.
    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = ServerKey> + use<> {
        (0..self.all.len()).map(ServerKey::at)
    }

    /// The server that a backend is on, or was.
    pub(crate) fn of(&self, backend: BackendKey) -> &Server {
        &self[backend.server()]
    }

    /// The same, to change it.
    pub(crate) fn of_mut(&mut self, backend: BackendKey) -> &mut Server {
        &mut self[backend.server()]
    }

    /// A backend that may have gone since.
    pub(crate) fn get(&self, backend: BackendKey) -> Option<&Backend> {
        self.of(backend).backends.get(backend)
    }

    /// The same, to change it.
    pub(crate) fn get_mut(&mut self, backend: BackendKey) -> Option<&mut Backend> {
        self.of_mut(backend).backends.get_mut(backend)
    }

    pub(crate) fn contains(&self, backend: BackendKey) -> bool {
        self.of(backend).backends.contains(backend)
    }

    /// The backends of all servers.
    pub(crate) fn backends(&self) -> impl DoubleEndedIterator<Item = (BackendKey, &Backend)> + Clone {
        self.all.iter().flat_map(|server| server.backends.iter())
    }

    /// How many these are.
    pub(crate) fn backend_count(&self) -> usize {
        self.all.iter().map(|server| server.backends.len()).sum()
    }

    /// The idle ones of all servers, of each server the longest idle one first.
    pub(crate) fn idle(&self) -> impl Iterator<Item = BackendKey> {
        self.all.iter().flat_map(|server| server.idle.iter().copied())
    }

    /// How many these are.
    pub(crate) fn idle_count(&self) -> usize {
        self.all.iter().map(|server| server.idle.len()).sum()
    }

    /// Which of them has been idle longest.
    pub(crate) fn longest_idle(&self) -> Option<BackendKey> {
        let longest = self.all.iter().filter_map(|server| server.idle.first().copied());
        longest.min_by_key(|&key| self[key].since)
    }

    /// Nobody has this identity any more: no backend comes for it first.
    pub(crate) fn forget_identity(&mut self, identity: IdentityId) {
        for server in &mut self.all {
            server.opening.affinity.forget(identity);
        }
    }

    /// Those of all servers that short reads share.
    pub(crate) fn sharing(&self) -> impl Iterator<Item = BackendKey> {
        self.all.iter().flat_map(|server| server.sharing.iter())
    }

    /// How many these are.
    pub(crate) fn sharing_count(&self) -> usize {
        self.all.iter().map(|server| server.sharing.len()).sum()
    }

    /// The backend with this token.
    pub(crate) fn backend_of(&self, token: u64) -> Option<BackendKey> {
        self.backends().find(|(_, backend)| backend.token == token).map(|(key, _)| key)
    }

    /// The password of the backend with this token has been encrypted for its server.
    pub(crate) fn backend_finding(&mut self, token: u64, finding: Finding) {
        if let Some(key) = self.backend_of(token) {
            self.of_mut(key).backend_finding(key, finding);
        }
    }

    /// The values that sessions begin with may have changed: they are read without waiting for `accounts_refresh`.
    pub(crate) fn defaults_are_wanted(&mut self) {
        self.all.iter_mut().for_each(|server| server.control.defaults.are_wanted());
    }

    /// How many backends there may be is asked without waiting for `accounts_refresh`.
    pub(crate) fn ask_for_room(&mut self) {
        self.all.iter_mut().for_each(|server| server.control.backend_limit.asked_anew());
    }

    /// The server at which the service account's latest attempt to connect has this token.
    pub(crate) fn control_of(&self, token: u64) -> Option<ServerKey> {
        self.all.iter().find(|server| server.control.token == token).map(|server| server.key)
    }

    /// Bytes of answers that are held on this worker.
    pub(crate) fn held_answers(&self) -> usize {
        self.all.iter().map(Server::held_answers).sum()
    }

    /// How many backends are not idle.
    pub(crate) fn backends_in_use(&self) -> u32 {
        u32::try_from(self.backend_count() - self.idle_count()).unwrap_or(u32::MAX)
    }

    /// Slots of all tables of backends, used or not.
    pub(crate) fn backend_slots(&self) -> usize {
        self.all.iter().map(|server| server.backends.capacity()).sum()
    }

    /// The backends in `count` slots from slot `from` on, as if all tables were one.
    pub(crate) fn in_slots(&self, from: usize, count: usize) -> impl Iterator<Item = (BackendKey, &Backend)> {
        let end = from.saturating_add(count);
        let firsts = self.all.iter().scan(0, |first, server| {
            let own = *first;
            *first += server.backends.capacity();
            Some((own, server))
        });
        firsts.flat_map(move |(first, server)| {
            let begin = from.saturating_sub(first);
            server.backends.in_slots(begin, end.saturating_sub(first).saturating_sub(begin))
        })
    }
}

impl Index<ServerKey> for Servers {
    type Output = Server;

    #[track_caller]
    fn index(&self, key: ServerKey) -> &Server {
        &self.all[key.slot()]
    }
}

impl IndexMut<ServerKey> for Servers {
    #[track_caller]
    fn index_mut(&mut self, key: ServerKey) -> &mut Server {
        &mut self.all[key.slot()]
    }
}

impl Index<BackendKey> for Servers {
    type Output = Backend;

    #[track_caller]
    fn index(&self, key: BackendKey) -> &Backend {
        &self.of(key).backends[key]
    }
}

impl IndexMut<BackendKey> for Servers {
    #[track_caller]
    fn index_mut(&mut self, key: BackendKey) -> &mut Backend {
        &mut self.of_mut(key).backends[key]
    }
}

#[cfg(test)]
mod tests {
    use seam::{ConnectionId, Input, Instant, Program};
    use wire::Capabilities;

    use super::*;
    use crate::client::commands::command::tests::{asked_for, connection, engine, open_backends};
    use crate::engine::Engine;
    use crate::ids::client_key;
    use crate::io::Role;
    use crate::server::control::facts::Facts;
    use crate::server::login::Established;
    use crate::settings::Settings;

    /// An engine with a client and two servers, and the keys of these.
    fn two() -> (Engine, [ServerKey; 2]) {
        let mut engine = engine(1, Settings::default());
        let [first, second] = [0, 1].map(ServerKey::at);
        engine.servers.all.push(Server::new(second));
        for server in engine.servers.iter_mut() {
            server.facts = Some(Facts::new(&Established::of_test("11.4-MariaDB", Capabilities(u64::MAX))));
            server.reachability.answered();
        }
        (engine, [first, second])
    }

    #[test]
    fn backends_are_found_on_their_servers() {
        let (mut engine, [first, second]) = two();
        let keys = open_backends(&mut engine, &[second, first, second]);
        let tokens = asked_for(&mut engine);
        assert_eq!(keys.iter().map(|key| key.server()).collect::<Vec<_>>(), [first, second, second]);
        let found: Vec<_> = keys.iter().map(|&key| engine.servers[key].token).collect();
        assert_eq!(found, [tokens[1], tokens[0], tokens[2]], "the first two have the same slot");
        assert!(keys.iter().all(|&key| engine.servers.backend_of(engine.servers[key].token) == Some(key)));
        let into = connection(1);
        engine.handle(Instant::START, Input::Connected { token: tokens[0], connection: into });
        assert_eq!(engine.io.role(into), Role::Backend(keys[1]));
        assert!(engine.servers[keys[0]].connection.is_none());
        engine.quit_backend(keys[1]);
        assert_eq!(engine.servers.backend_count(), 2);
        assert!(!engine.servers.contains(keys[1]) && engine.servers.get(keys[0]).is_some());
    }

    #[test]
    fn a_look_at_all_backends_in_pieces_finds_each_once() {
        let (mut engine, [first, second]) = two();
        let keys = open_backends(&mut engine, &[first, first, second, second, second]);
        let slots = engine.servers.backend_slots();
        for count in 1..=slots {
            let pieces = (0..slots).step_by(count).map(|from| engine.servers.in_slots(from, count));
            let found: Vec<_> = pieces.flatten().map(|(key, _)| key).collect();
            assert_eq!(found, keys, "{count} slots at a time");
        }
    }

    #[test]
    fn a_client_without_a_backend_goes_to_the_primary() {
        let (mut engine, [first, second]) = two();
        let keys = open_backends(&mut engine, &[second]);
        assert_eq!(engine.servers.serving(&engine.clients[client_key(0)]), first);
        engine.clients[client_key(0)].backend = Some(keys[0]);
        assert_eq!(engine.servers.serving(&engine.clients[client_key(0)]), second);
    }

    #[test]
    fn the_service_account_is_on_each_server() {
        let (mut engine, servers) = two();
        engine.control_turn();
        let tokens = asked_for(&mut engine);
        assert_eq!(tokens.len(), 2);
        let connections: [ConnectionId; 2] = [1, 2].map(connection);
        // The answers come in another order.
        for place in [1, 0] {
            let connected = Input::Connected { token: tokens[place], connection: connections[place] };
            engine.handle(Instant::START, connected);
        }
        for place in [0, 1] {
            assert_eq!(engine.io.role(connections[place]), Role::Control(servers[place]));
        }
        engine.handle(
            Instant::START,
            Input::Closed { connection: connections[1], reason: seam::CloseReason::EndOfStream },
        );
        let stand = servers.map(|server| engine.servers[server].control.connection());
        assert_eq!(stand, [Some(connections[0]), None]);
        let up = servers.map(|server| engine.servers[server].reachability.is_up());
        assert_eq!(up, [true, false], "what one has lost says nothing of the other");
    }
}
