//! What a statement costs the engine: its turn from the client to the server, and that of the reply. `make micro` runs it.
//!
//! The virtual server of this crate is there for the logins and for the first replies; what is measured has the last of these
//! replies once more, and no server. The clock stands still, so that the engine has nothing else to do.

use divan::{Bencher, Divan, black_box};
use engine::{Engine, Settings};
use seam::{ConnectionId, Input, Instant, ListenerId, Output, Peer, Program};
use simulator::protocol::{command, packet};
use simulator::random::Random;
use simulator::server::database::{Account, Database};
use simulator::server::{Action, SERVICE_USER, Server, Speed};
use wire::{Capabilities, LoginRequest};

const CLIENT: ConnectionId = ConnectionId { index: 0, generation: 0 };

/// Statements before the measured ones: a backend is there, and what they need of session state is on it.
const WARM_UP: usize = 100;

/// So many executions are timed as one: one alone is too short for the clock.
const SAMPLE: u32 = 500;

fn main() {
    Divan::default().sample_size(SAMPLE).config_with_args().main();
}

#[divan::bench]
fn point_select(bencher: Bencher<'_, '_>) {
    measure(bencher, b"SELECT id FROM rows_1 WHERE id = 5000");
}

#[divan::bench]
fn ten_rows(bencher: Bencher<'_, '_>) {
    measure(bencher, b"SELECT id FROM rows_10 WHERE id BETWEEN 1 AND 10");
}

/// The client holds its backend.
#[divan::bench]
fn point_select_in_a_transaction(bencher: Bencher<'_, '_>) {
    let mut world = World::with_a_client();
    world.ask(&query(b"BEGIN"));
    world.measure(bencher, b"SELECT id FROM rows_1 WHERE id = 5000");
}

fn measure(bencher: Bencher<'_, '_>, text: &[u8]) {
    World::with_a_client().measure(bencher, text);
}

fn query(text: &[u8]) -> Vec<u8> {
    packet(0, &[&[command::QUERY], text].concat())
}

/// A client, the engine, and a server whose connections have the same numbers on both sides.
struct World {
    engine: Engine,
    server: Server,
    connections: u32,
    /// What the client has received and not read.
    received: Vec<u8>,
    /// The last bytes from the server.
    reply: Option<(ConnectionId, Vec<u8>)>,
}

impl World {
    /// With a client that has logged in.
    fn with_a_client() -> Self {
        let account = |user: &str| Account {
            user: user.to_owned(),
            password: String::new(),
            may_kill: user == SERVICE_USER,
        };
        let database = Database::new(vec![account(SERVICE_USER), account("bob")]);
        let speed = Speed {
            usual: 1,
            slow_percent: 0,
            switch_percent: 0,
            refused_change_percent: 0,
            keeps_roles: true,
        };
        let settings = Settings {
            server: vec![simulator::faults::server_address(1)],
            service_user: SERVICE_USER.to_owned(),
            ..Settings::default()
        };
        let mut world = Self {
            engine: Engine::new(settings),
            server: Server::new(database, Random::new(1), speed, 100),
            connections: 0,
            received: Vec::new(),
            reply: None,
        };
        world.run();
        let peer = Peer::Tcp(([10, 0, 0, 1], 4000).into());
        world.handle(Input::Accepted { connection: CLIENT, listener: ListenerId(0), peer });
        world.run();
        assert!(!world.received.is_empty(), "the client is greeted");
        world.ask(&login());
        world
    }

    /// What the client is answered, with the engine and the server at work.
    fn ask(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.received.clear();
        self.handle(Input::Bytes { connection: CLIENT, bytes });
        self.run();
        assert!(!self.received.is_empty(), "an answer comes");
        assert_ne!(self.received.get(4), Some(&0xff), "it is no error");
        self.received.clone()
    }

    fn measure(mut self, bencher: Bencher<'_, '_>, text: &[u8]) {
        let query = query(text);
        let mut answer = Vec::new();
        for _ in 0..WARM_UP {
            answer = self.ask(&query);
        }
        let (backend, reply) = self.reply.take().expect("the server has answered");
        bencher.bench_local(|| {
            let to_server = self.turn(Input::Bytes { connection: CLIENT, bytes: black_box(&query) });
            assert!(to_server > 0, "the statement goes to the server");
            let to_client = self.turn(Input::Bytes { connection: backend, bytes: black_box(&reply) });
            assert_eq!(to_client, answer.len(), "the client has its answer");
        });
    }

    /// One turn. Gives how many bytes the engine sends in it.
    fn turn(&mut self, input: Input<'_>) -> usize {
        self.handle(input);
        self.handle(Input::TurnEnd);
        let mut sent = 0;
        while let Some(output) = self.engine.poll_output() {
            let bytes = output.sent().map_or(0, |(_, bytes)| bytes.len());
            sent += black_box(bytes);
        }
        sent
    }

    /// Turns until nothing happens any more.
    fn run(&mut self) {
        loop {
            self.handle(Input::TurnEnd);
            let mut connects = Vec::new();
            let mut idle = true;
            while let Some(output) = self.engine.poll_output() {
                idle = false;
                match (output.sent(), &output) {
                    (Some((CLIENT, bytes)), _) => self.received.extend_from_slice(bytes),
                    (Some((backend, bytes)), _) => self.server.receive(backend.index, bytes),
                    (None, Output::Connect { token, .. }) => connects.push(*token),
                    (None, other) => panic!("not expected here: {other:?}"),
                }
            }
            for token in connects {
                self.connections += 1;
                let connection = ConnectionId { index: self.connections, generation: 0 };
                self.server.accept(connection.index);
                self.handle(Input::Connected { token, connection });
            }
            idle &= !self.serve();
            if idle {
                return;
            }
        }
    }

    /// Does what the server wants done. False where it wants nothing.
    fn serve(&mut self) -> bool {
        let mut busy = false;
        loop {
            let actions = self.server.take_actions();
            if actions.is_empty() {
                return busy;
            }
            busy = true;
            for (link, action) in actions {
                match action {
                    Action::Send(bytes) => {
                        let connection = ConnectionId { index: link, generation: 0 };
                        self.handle(Input::Bytes { connection, bytes: &bytes });
                        self.reply = Some((connection, bytes));
                    }
                    Action::WakeAfter(_) => self.server.wake(link),
                    Action::Close => panic!("the server closes connection {link}"),
                }
            }
        }
    }

    fn handle(&mut self, input: Input<'_>) {
        self.engine.handle(Instant::START, input);
    }
}

/// The answer of a usual client to the greeting.
fn login() -> Vec<u8> {
    let mut payload = Vec::new();
    LoginRequest {
        capabilities: Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::TRANSACTIONS
            | Capabilities::PLUGIN_AUTH
            | Capabilities::DEPRECATE_EOF,
        max_packet_size: 0,
        collation: 45,
        user: b"bob",
        auth_response: b"",
        schema: None,
        auth_plugin: Some(b"mysql_native_password"),
        attributes: b"",
    }
    .put(&mut payload);
    packet(1, &payload)
}
