//! The memory for what all clients together have set and hold (`session_memory`): session states that differ, user variables,
//! trackers' lists, names of what they hold, and the answers that are known to what sets and shows session state.
//!
//! The size is known when the server has told of it. So a client that has set something more keeps it, and at the end of the turn
//! those go that hold most. A client that has set what everybody sets shares its state with the others, and is none of them.

use crate::client::memory::bytes_held::ClientMemory;
use crate::client::{Client, Phase};
use crate::ids::{ClientKey, ClientRef, Table};
use crate::session::{SessionTables, Sessions};

/// Bytes that one client may have: some thousand names of temporary tables, or all variables of a server sixty times in a tracker's list.
pub(in crate::client) const MOST_OF_ONE: usize = 1 << 20;

/// Bytes for which no client is closed, since little would come of that: 100,000 such clients do not reach the default.
const NOTHING_TO_GAIN: usize = 1 << 10;

/// The reason that the log gives for a client that has to go.
pub(in crate::client) const USED_UP: &str =
    "session_memory is used up, and what it has set and holds takes most of that";
pub(in crate::client) const ONES_SHARE: &str =
    "what it has set and holds takes more than a client's share of session_memory";

impl Client {
    /// Returns the client's bytes on the heap, but for the session state.
    fn session_bytes(&self) -> usize {
        self.session.named_resources.as_ref().map_or(0, |held| held.bytes())
            + self.session.variables.as_ref().map_or(0, |variables| variables.bytes())
            + self.session.trackers.as_ref().map_or(0, |trackers| trackers.bytes())
    }
}

impl ClientMemory {
    /// Counts anew what a client has set or holds, since something of it has changed.
    pub(crate) fn count_session(&mut self, key: ClientKey, client: &mut Client) {
        let bytes = client.session_bytes();
        self.sessions.set(&mut client.memory.session, bytes);
        if bytes > MOST_OF_ONE {
            self.beyond_share.push(ClientRef { key, id: client.id });
        }
    }

    /// Returns the bytes of this worker's clients.
    pub(crate) fn session_memory_held(&self, sessions: &SessionTables) -> usize {
        self.sessions.bytes() + sessions.states.state_bytes() + sessions.known_answers.bytes()
    }
}

impl Sessions {
    /// Returns the idle clients that hold so much that it matters, those that hold most last.
    pub(in crate::client) fn holders(&self, clients: &Table<ClientKey, Client>) -> Vec<(usize, ClientKey)> {
        let idle = clients.iter().filter(|(_, client)| matches!(client.phase(), Phase::Idle));
        let holds = |(key, client): (ClientKey, &Client)| {
            let state = client.session.id().map_or(0, |session| self.share_of_each(session));
            (client.memory.session.bytes() + state, key)
        };
        let mut holders: Vec<_> = idle.map(holds).filter(|&(held, _)| held > NOTHING_TO_GAIN).collect();
        holders.sort_unstable();
        holders
    }
}

#[cfg(test)]
mod tests {
    use seam::{Input, Output, Program as _};

    use super::*;
    use crate::client::commands::command::tests::engine;
    use crate::engine::Engine;
    use crate::ids::client_key;
    use crate::session::SessionState;
    use crate::session::trackers::Trackers;
    use crate::settings::Settings;

    fn track(engine: &mut Engine, key: ClientKey, bytes: usize) {
        let mut trackers = Trackers::default();
        trackers.set(sql::TrackerVariable::SystemVariables, &vec![b'x'; bytes]);
        engine.clients[key].session.trackers = Some(Box::new(trackers));
        engine.client_memory.count_session(key, &mut engine.clients[key]);
    }

    fn set(engine: &mut Engine, key: ClientKey, bytes: usize) {
        let mut state = SessionState::default();
        state.set_variable(b"time_zone", &vec![b'x'; bytes]);
        let held = engine.sessions.states.hold(state);
        engine.clients[key].session.becomes(held, &mut engine.sessions.states);
    }

    /// Returns the clients that are told of it at the end of the turn.
    fn told(engine: &mut Engine) -> Vec<u32> {
        let now = engine.now;
        engine.handle(now, Input::TurnEnd);
        let mut told = Vec::new();
        while let Some(output) = engine.poll_output() {
            match output {
                Output::Send { connection, bytes } if bytes.get(4..7) == Some(&[0xff, 0x11, 0x04]) => {
                    told.push(connection.index);
                }
                _ => {}
            }
        }
        told
    }

    #[test]
    fn who_holds_most_has_to_go_and_who_holds_too_much_alone() {
        let mut engine = engine(8, Settings { session_memory: 1 << 20, ..Settings::default() });
        track(&mut engine, client_key(0), 300_000);
        set(&mut engine, client_key(1), 200_000);
        set(&mut engine, client_key(2), 250_000);
        set(&mut engine, client_key(3), 250_000); // the same
        set(&mut engine, client_key(4), 200_001);
        assert_eq!(told(&mut engine), []);
        track(&mut engine, client_key(5), 120_000);
        assert_eq!(
            told(&mut engine),
            [0],
            "until a quarter is free, and those with a common state have half of it each"
        );
        track(&mut engine, client_key(6), (1 << 20) + 1);
        engine.clients[client_key(6)].set_phase(Phase::Settling);
        assert_eq!(told(&mut engine), [4, 1, 3, 2, 5], "it is about to become idle");
        engine.clients[client_key(6)].set_phase(Phase::Idle);
        assert_eq!(told(&mut engine), [6]);
        assert!(
            engine.client_memory.session_memory_held(&engine.sessions) < 10_000
                && engine.client_memory.beyond_share.is_empty()
        );
        assert!(engine.clients.contains(client_key(7)), "who holds nothing has done nothing");
        assert_eq!(engine.client_memory.sessions.bytes(), 0);
    }
}
