//! The schema that a login names. Only the server can say whether it exists and the user may use it.
//!
//! The server is asked once for all that log in at a time. Thousands of clients that come back together (their
//! application was started again, or the network) would otherwise queue thousands of statements before those of
//! everybody else, all with the same answer.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use seam::Instant;

use crate::accounts::IdentityId;
use crate::client::login::attempt::Login;
use crate::client::{Client, Phase};
use crate::ids::{ClientKey, ClientRef, Table};
use crate::request::{Request, RequestKind};
use crate::session::{Sessions, is_utf8};
use crate::settings::Settings;

/// The next step of a login that names a schema.
pub(crate) enum Asked {
    /// The user was allowed to use that schema a moment ago.
    Known,
    /// The server is to be asked this in the client's name.
    With(Box<Request>),
    /// Another client asks, and this one waits.
    Waits,
}

/// Schema checks that are remembered at most. Each is for one user and one schema.
const KNOWN_SCHEMAS: usize = 4096;

/// Schemas of logins: those of which the server is being asked, and those that are known.
#[derive(Default)]
pub(crate) struct LoginSchemas {
    /// What the server is being asked, and the clients that wait for the answer beside the one that it is asked for.
    checks: BTreeMap<(IdentityId, Vec<u8>), Vec<ClientRef>>,
    /// The same by the client that the server is asked for: each statement that is queued looks here.
    askers: BTreeMap<ClientKey, (IdentityId, Vec<u8>)>,
    /// Schemas that a user was allowed to use, and when.
    known: BTreeMap<(IdentityId, Vec<u8>), Instant>,
}

impl LoginSchemas {
    /// Says whether a client is to ask for its schema and those of others.
    pub(crate) fn is_asked_for(&self, key: ClientKey) -> bool {
        self.askers.contains_key(&key)
    }

    /// Has the client ask about the schema that its login names, or lets it wait for the answer that another one will get. `sequence`
    /// is the number of the packet that will end the login.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        settings: &Settings,
        clients: &mut Table<ClientKey, Client>,
        sessions: &Sessions,
        (key, schema, sequence): (ClientKey, Vec<u8>, u8),
    ) -> Asked {
        // Others may mean the same by a name that is as the server reports it: in UTF-8.
        let session = clients[key].session.id().map(|session| sessions.state(session));
        let is_as_reported = schema.is_ascii() || session.is_some_and(|state| is_utf8(&state.charset.client));
        let Some(identity) = clients[key].identity().filter(|_| is_as_reported) else {
            return Asked::With(Box::new(question(&schema, sequence)));
        };
        let named = (identity, schema);
        let is_recent = |&since: &Instant| now.since(since) < settings.accounts_refresh;
        if self.known.get(&named).is_some_and(is_recent) {
            return Asked::Known;
        }
        let client = clients.ref_to(key);
        match self.checks.entry(named) {
            Entry::Occupied(mut check) => {
                check.get_mut().push(client);
                clients[key].await_schema(sequence);
                Asked::Waits
            }
            Entry::Vacant(check) => {
                let request = question(&check.key().1, sequence);
                self.askers.insert(key, check.key().clone());
                check.insert(Vec::new());
                Asked::With(Box::new(request))
            }
        }
    }

    /// Remembers that the client's schema exists and the client may use it.
    pub(crate) fn is_allowed(&mut self, now: Instant, client: &Client, sessions: &Sessions) {
        let (Some(identity), Some(session)) = (client.identity(), client.session.id()) else { return };
        if self.known.len() >= KNOWN_SCHEMAS {
            self.known.clear();
        }
        if let Some(schema) = &sessions.state(session).schema {
            self.known.insert((identity, schema.to_vec()), now);
        }
    }

    /// Nobody knows any longer which schemas there are.
    pub(crate) fn forget_known(&mut self) {
        self.known.clear();
    }

    /// Nothing more is known of a user here.
    pub(crate) fn forget_user(&mut self, identity: IdentityId) {
        self.known.retain(|(known, _), _| *known != identity);
    }

    /// Takes out a client that has gone. Where the client was to ask, one of those that waited for its answer asks this.
    pub(crate) fn client_left(
        &mut self,
        gone: ClientKey,
        clients: &Table<ClientKey, Client>,
    ) -> Option<(ClientKey, Request)> {
        let known = self.askers.remove(&gone)?;
        let mut waiting = self.checks.remove(&known).unwrap_or_default();
        while let Some(next) = waiting.pop() {
            if let Some(sequence) = awaits_schema(clients, next) {
                let request = question(&known.1, sequence);
                self.askers.insert(next.key, known.clone());
                self.checks.insert(known, waiting);
                return Some((next.key, request));
            }
        }
        None
    }

    /// Takes the check for which a client asked out of the table. Returns the clients that still wait for it, each with the number of
    /// the packet that ends its login.
    pub(crate) fn end_check(
        &mut self,
        asked: ClientKey,
        clients: &Table<ClientKey, Client>,
    ) -> Vec<(ClientKey, u8)> {
        let known = self.askers.remove(&asked);
        let waiting = known.and_then(|known| self.checks.remove(&known)).unwrap_or_default().into_iter();
        waiting.filter_map(|client| Some((client.key, awaits_schema(clients, client)?))).collect()
    }
}

/// Returns the number of the packet that ends this client's login. `None` where the client is gone, or does not wait for the answer
/// that another one will get.
fn awaits_schema(clients: &Table<ClientKey, Client>, client: ClientRef) -> Option<u8> {
    match *clients.find(client)?.phase() {
        Phase::Login(Login::AwaitingSchema { sequence }) => Some(sequence),
        _ => None,
    }
}

/// Makes a COM_INIT_DB. Its answer becomes the login's, in the packet of this number.
fn question(schema: &[u8], sequence: u8) -> Request {
    let mut payload = vec![wire::CommandKind::InitDb as u8];
    payload.extend_from_slice(schema);
    let mut raw = Vec::new();
    wire::put_message(&mut raw, &mut 0, &payload);
    let request = Request::plain(raw, wire::Expect::Simple, RequestKind::LoginSchema);
    Request { answer: sequence, ..request }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seam::{Address, ConnectionId, Input, Instant, Output, Peer, Program, Signal};
    use sql::ServerKind;
    use wire::Capabilities;

    use super::*;
    use crate::Engine;
    use crate::accounts::secret::Secret;
    use crate::accounts::{Account, Credential};
    use crate::errors::MySqlError;
    use crate::ids::client_key;
    use crate::server::login::Established;
    use crate::session::SessionState;
    use crate::settings::Settings;

    fn has_no_checks(engine: &Engine) -> bool {
        engine.logins.schemas.checks.is_empty() && engine.logins.schemas.askers.is_empty()
    }

    /// Clients of one user that all ask for the same schema.
    fn engine(clients: u32) -> Engine {
        let server = vec![Address::Unix("/nowhere".into())];
        let mut engine = Engine::new(Settings { server, max_connections: clients, ..Settings::default() });
        let account = Arc::new(Account::of_test("app", "%", Credential::Empty));
        for index in 0..clients {
            assert!(engine.pool.workers.take_client());
            let id = engine.ids.next(&engine.pool);
            let connection = ConnectionId { index, generation: 1 };
            let mut client =
                Client::new(connection, Peer::Tcp(([10, 0, 0, 1], 1024).into()), id, Instant::START);
            let identity = engine.logins.identities.hold(&account, b"app", Secret::None);
            client.logs_in(identity);
            client.session.begins(engine.sessions.states.hold(SessionState::default()));
            client.set_phase(Phase::Idle);
            let key = engine.clients.insert(client);
            engine.ids.come(id, key);
            let (clients, sessions) = (&mut engine.clients, &engine.sessions.states);
            let (now, settings, named) = (engine.now, &engine.settings, (key, b"shop".to_vec(), 2));
            if let Asked::With(request) = engine.logins.schemas.ask(now, settings, clients, sessions, named) {
                engine.queue_request(key, *request);
            }
        }
        engine
    }

    /// Returns the clients that were sent something, with the first byte of its payload.
    fn told(engine: &mut Engine) -> Vec<(u32, u8)> {
        let mut told = Vec::new();
        while let Some(output) = engine.poll_output() {
            if let Output::Send { connection, bytes } = output {
                told.push((connection.index, bytes[wire::HEADER_LEN]));
            }
        }
        told
    }

    #[test]
    fn one_asks_for_all() {
        let mut engine = engine(1000);
        assert_eq!(engine.figures().snapshot().waiting, 1);
        engine.schema_allowed(client_key(0));
        let told = told(&mut engine);
        assert_eq!(told.len(), 999, "the one that asked is answered apart");
        assert!(told.iter().all(|&(client, head)| client > 0 && head == 0));
        assert!(has_no_checks(&engine));
    }

    #[test]
    fn a_refusal_is_for_all() {
        let mut engine = engine(3);
        engine.cancel_queued(client_key(0), &MySqlError::statement_memory(1));
        assert_eq!(told(&mut engine), [(1, 0xff), (2, 0xff), (0, 0xff)]);
        assert!(engine.clients.is_empty() && has_no_checks(&engine));
    }

    /// A question that waits for a primary may take longer than a login, and so may the clients that wait with it.
    #[test]
    fn who_waits_for_the_answer_of_another_has_as_long_as_that_one() {
        let mut engine = engine(3);
        (0..3).for_each(|number| engine.begin_login(client_key(number)));
        let late = Instant::START + engine.settings.connect_timeout;
        engine.settings.backend_connect_timeout = 2 * engine.settings.connect_timeout;
        engine.handle(late, Input::TurnEnd);
        assert_eq!((engine.clients.len(), told(&mut engine)), (3, Vec::new()));
        engine.schema_allowed(client_key(0));
        assert_eq!(told(&mut engine), [(1, 0), (2, 0)]);
    }

    #[test]
    fn another_asks_where_the_first_has_gone() {
        let mut engine = engine(4);
        engine.client_gone(client_key(1));
        engine.client_gone(client_key(0));
        assert!(matches!(engine.clients[client_key(3)].phase(), Phase::Queued));
        assert_eq!(engine.figures().snapshot().waiting, 1);
        engine.schema_allowed(client_key(3));
        assert_eq!(told(&mut engine), [(2, 0)]);
        engine.client_gone(client_key(2));
        engine.client_gone(client_key(3));
        assert_eq!(engine.figures().snapshot().waiting, 0);
        assert!(has_no_checks(&engine));
    }

    /// The next client cannot ask either, for want of memory. That client and those that wait with it are refused, in the middle of the end.
    #[test]
    fn all_may_end_where_nobody_can_ask() {
        for signal in [Signal::Stop, Signal::Drain] {
            let mut engine = engine(4);
            engine.settings.statement_memory = 1;
            engine.settings.shutdown_timeout = std::time::Duration::ZERO;
            engine.handle(Instant::START, Input::Signal(signal));
            engine.handle(Instant::START, Input::TurnEnd);
            assert!(engine.clients.is_empty() && has_no_checks(&engine), "{signal:?}");
            assert_eq!(engine.figures().snapshot().buffered, 0);
        }
    }

    /// The time of logins with a password beside the system calls, from the accepted connection to the OK. Each second
    /// that this takes is 10 microseconds for each login.
    /// `cargo test --release -p engine -- --ignored a_hundred_thousand_logins`
    #[test]
    #[ignore = "measures; says nothing without optimisation"]
    fn a_hundred_thousand_logins() {
        let mut engine = engine(1);
        engine.settings.max_connections = u32::MAX;
        engine.pool.workers = crate::Workers::new(&engine.settings, 1);
        assert!(engine.pool.workers.take_client());
        let stage1 = wire::native_password::stage1(b"a password");
        let account =
            Account::of_test("app", "%", Credential::Native(wire::native_password::stage2(&stage1)));
        let mut facts = crate::server::control::facts::Facts::new(&Established::of_test(
            "11.4-MariaDB",
            Capabilities(u64::MAX),
        ));
        facts.accounts = crate::accounts::Accounts::new(vec![account], ServerKind::MariaDb);
        engine.servers.primary_mut().facts = Some(facts);
        for index in 1..=100_000 {
            let connection = ConnectionId { index, generation: 1 };
            let peer = Peer::Tcp(([10, 0, 0, 1], 1024).into());
            let accepted = Input::Accepted { connection, listener: seam::ListenerId(0), peer };
            engine.handle(Instant::START, accepted);
            let greeting = sent(&mut engine);
            let scramble = wire::Greeting::parse(&greeting[wire::HEADER_LEN..]).unwrap().scramble;
            let token = wire::native_password::token(&stage1, &scramble);
            let request = wire::LoginRequest {
                capabilities: crate::server::login::ALWAYS,
                max_packet_size: 1 << 24,
                collation: 45,
                user: b"app",
                auth_response: &token,
                schema: None,
                auth_plugin: Some(b"mysql_native_password"),
                attributes: &[],
            };
            let (mut payload, mut bytes) = (Vec::new(), Vec::new());
            request.put(&mut payload);
            wire::put_message(&mut bytes, &mut 1, &payload);
            engine.handle(Instant::START, Input::Bytes { connection, bytes: &bytes });
            assert_eq!(sent(&mut engine)[wire::HEADER_LEN], 0, "an OK");
        }
    }

    fn sent(engine: &mut Engine) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(output) = engine.poll_output() {
            if let Output::Send { bytes, .. } = output {
                all.extend_from_slice(bytes);
            }
        }
        all
    }
}
