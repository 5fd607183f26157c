//! `wait_timeout`: the time for which a client may be idle, where it has set that for itself.
//!
//! The server has the variable for each of its connections, and would end a backend by it. So a client's value is taken
//! in like other session state, but stands on a backend only as long as the client holds the backend. A backend that
//! nobody holds has the server's default. The value goes ahead of statements that may look at it, and of statements
//! that make a backend the client's own. The server then ends that backend as it would end a connection of the client.

use std::time::Duration;

use seam::Instant;
use sql::{Classification, Reads};

use crate::backend::{Backend, TrackedChange};
use crate::client::{Client, Phase};
use crate::request::{Request, RequestKind};
use crate::servers::Servers;
use crate::session::WAIT_TIMEOUT;
use crate::session::wait_timeout::WaitTimeout;

/// Sets `wait_timeout` to the global value, as a new connection of the backend's kind has it.
pub(crate) const RESTORE: &[u8] = b"SET @@session.wait_timeout=DEFAULT";

/// Reads a value as the servers show and report it.
fn seconds(value: &[u8]) -> WaitTimeout {
    std::str::from_utf8(value).ok()?.parse().ok()
}

impl Client {
    /// Says whether the client has been idle for longer than it may be. Others may be for `usual`.
    pub(crate) fn is_idle_too_long(&self, now: Instant, usual: Duration) -> bool {
        let most =
            self.session.wait_timeout.map_or(usual, |seconds| Duration::from_secs(u64::from(seconds.get())));
        let idle = matches!(self.phase(), Phase::Idle) && self.activity.stalled_since.is_none();
        idle && now.since(self.activity.last_heard) > most
    }
}

impl Client {
    /// Takes in the server's report behind a statement of the client's on its backend. A value that the statement sets
    /// for itself alone has gone back.
    pub(crate) fn note_wait_timeouts(
        &mut self,
        backend: &mut Backend,
        statement: &Classification,
        changes: &[TrackedChange],
    ) {
        for change in changes.iter().filter(|_| !statement.variables.for_its_duration) {
            if let TrackedChange::Variable { name, value } = change {
                self.note_wait_timeout(backend, name, value);
            }
        }
    }

    /// Notes that a variable has this value on the client's backend, because the client has set it.
    pub(crate) fn note_wait_timeout(&mut self, backend: &mut Backend, name: &[u8], value: &[u8]) {
        if name.eq_ignore_ascii_case(WAIT_TIMEOUT) {
            let value = seconds(value);
            self.session.wait_timeout = value;
            backend.session.wait_timeout = value;
        }
    }

    /// Returns the statement that has to go ahead of a request that may look at the variable, or that pins. `None` where the value stands.
    pub(crate) fn wait_timeout_ahead(
        &self,
        backend: &Backend,
        request: &Request,
        pins: bool,
    ) -> Option<Vec<u8>> {
        let executes = matches!(request.command, RequestKind::Query | RequestKind::Execute);
        let reads = executes && request.statement.reads.contains(Reads::WAIT_TIMEOUT);
        let wanted = self.session.wait_timeout;
        if !(reads || pins) || wanted == backend.session.wait_timeout {
            return None;
        }
        Some(
            wanted.map_or(RESTORE.to_vec(), |seconds| {
                format!("SET @@session.wait_timeout={seconds}").into_bytes()
            }),
        )
    }

    /// Says whether the server would end the client's backend for an idleness that only it sees. The server has to hear of a ping then.
    pub(crate) fn server_watches_idleness(&self, servers: &Servers) -> bool {
        self.backend.is_some_and(|backend| servers[backend].session.wait_timeout.is_some())
    }
}

#[cfg(test)]
mod tests {
    use seam::{Address, ConnectionId, Input, Output, Peer, Program};
    use wire::{Capabilities, CommandKind};

    use std::num::NonZeroU32;
    use std::sync::Arc;

    use super::*;
    use crate::accounts::secret::Secret;
    use crate::accounts::{Account, Credential};
    use crate::engine::Engine;
    use crate::ids::client_key;
    use crate::server::control::facts::Facts;
    use crate::server::login::Established;
    use crate::settings::Settings;

    #[test]
    fn values_are_whole_seconds() {
        assert_eq!(seconds(b"28800").map(NonZeroU32::get), Some(28_800));
        assert_eq!(seconds(b"31536000").map(NonZeroU32::get), Some(31_536_000));
        for other in [&b"0"[..], b"", b"DEFAULT", b"-1", b"4294967296", b"\xff"] {
            assert_eq!(seconds(other), None, "{other:?}");
        }
    }

    /// Idle clients with these values, in front of a server of this version.
    fn engine(version: &str, values: &[WaitTimeout]) -> Engine {
        let server = vec![Address::Unix("/nowhere".into())];
        let wait_timeout = Duration::from_secs(100);
        let mut engine = Engine::new(Settings { server, wait_timeout, ..Settings::default() });
        engine.servers.primary_mut().facts =
            Some(Facts::new(&Established::of_test(version, Capabilities(0))));
        for (index, value) in (0..).zip(values) {
            assert!(engine.pool.workers.take_client());
            let id = engine.ids.next(&engine.pool);
            let connection = ConnectionId { index, generation: 1 };
            let mut client =
                Client::new(connection, Peer::Tcp(([10, 0, 0, 1], 1024).into()), id, Instant::START);
            let account = Arc::new(Account::of_test("app", "%", Credential::Empty));
            client.logs_in(engine.logins.identities.hold(&account, b"app", Secret::None));
            client.session.wait_timeout = *value;
            client.set_phase(Phase::Idle);
            let key = engine.clients.insert(client);
            engine.ids.come(id, key);
        }
        engine
    }

    /// Returns the clients that have gone by then, and the bytes that were sent.
    fn gone_after(engine: &mut Engine, seconds: u64) -> (Vec<u32>, Vec<u8>) {
        engine.handle(Instant::from_micros(seconds * 1_000_000), Input::TurnEnd);
        gone(engine)
    }

    fn gone(engine: &mut Engine) -> (Vec<u32>, Vec<u8>) {
        let (mut gone, mut said) = (Vec::new(), Vec::new());
        while let Some(output) = engine.poll_output() {
            match output {
                Output::Close { connection } => gone.push(connection.index),
                Output::Send { bytes, .. } => said.extend_from_slice(bytes),
                _ => {}
            }
        }
        (gone, said)
    }

    #[test]
    fn a_clients_own_value_goes_before_that_of_all() {
        let mut engine = engine("10.11-MariaDB", &[None, NonZeroU32::new(5), NonZeroU32::new(200)]);
        assert_eq!(gone_after(&mut engine, 5).0, [0; 0]);
        assert_eq!(gone_after(&mut engine, 6), (vec![1], Vec::new()));
        assert_eq!(gone_after(&mut engine, 101), (vec![0], Vec::new()));
        assert_eq!(gone_after(&mut engine, 201).0, [2]);
    }

    #[test]
    fn who_comes_too_late_is_not_answered() {
        let mut engine = engine("10.11-MariaDB", &[NonZeroU32::new(5)]);
        assert_eq!(gone_after(&mut engine, 5).0, [0; 0]);
        // All clients are looked at again half a second later.
        engine.now = Instant::from_micros(5_500_000);
        engine.client_bytes(client_key(0), &[1, 0, 0, 0, CommandKind::Ping as u8]);
        assert_eq!(gone(&mut engine), (vec![0], Vec::new()));
    }

    /// Each piece that comes gives the client as long again, as each read does with the servers.
    #[test]
    fn who_stops_inside_a_packet_is_idle() {
        let full = [&[0xff, 0xff, 0xff, 0][..], &vec![3; wire::MAX_PAYLOAD]].concat();
        for (sent, says) in [
            (&[16, 0][..], (0, 4031)),
            (&[16, 0, 0, 0], (1, 1159)),
            (&[16, 0, 0, 0, 3, b'S'], (1, 1159)),
            (&full, (1, 1159)),
            (&[&full[..], &[1, 0, 0, 1]].concat(), (2, 1159)),
        ] {
            for (version, says) in [("9.7.0", Some(says)), ("10.11-MariaDB", None)] {
                let mut engine = engine(version, &[NonZeroU32::new(5)]);
                let (first, second) = sent.split_at(sent.len() - 1);
                engine.client_bytes(client_key(0), first);
                engine.now = Instant::from_micros(4_000_000);
                engine.client_bytes(client_key(0), second);
                assert_eq!(gone_after(&mut engine, 9), (Vec::new(), Vec::new()));
                let (gone, said) = gone_after(&mut engine, 10);
                assert_eq!(gone, [0]);
                let error = (!said.is_empty())
                    .then(|| (said[3], wire::ErrPacket::parse(&said[wire::HEADER_LEN..]).unwrap().code));
                assert_eq!(error, says, "{version}, {} bytes", sent.len());
                assert_eq!(engine.figures().snapshot().buffered, 0);
            }
        }
    }

    #[test]
    fn mysql_says_why() {
        for (version, says) in
            [("9.7.0", true), ("8.0.24-commercial", true), ("8.0.23", false), ("5.7.44", false)]
        {
            let (gone, said) = gone_after(&mut engine(version, &[NonZeroU32::new(1)]), 2);
            assert_eq!(gone, [0]);
            let error = (said.len() > wire::HEADER_LEN)
                .then(|| (said[3], wire::ErrPacket::parse(&said[wire::HEADER_LEN..]).unwrap().code));
            assert_eq!(error, says.then_some((0, 4031)), "{version}");
        }
    }
}
