use std::time::Duration;

use seam::{
    Address, CloseReason, ConnectionId, Input, Instant, ListenerId, Output, Peer, Program, TlsSession,
    TlsVersion,
};
use sql::ServerKind;
use wire::{AuthSwitch, Capabilities, ErrPacket, Greeting, StatusFlags};

use super::claims::{MOST, MOST_OF_NETWORK};
use super::*;
use crate::accounts::{Accounts, Credential};
use crate::client::login::security::Security;
use crate::engine::Engine;
use crate::ids::{ClientKey, client_key};
use crate::server::control::facts::Facts;
use crate::server::login::{ALWAYS, Established};
use crate::settings::Settings;

/// An engine, its clients, and a server that asks for passwords as they are. Clients have connections from 0, backends from 1000.
struct Bench {
    engine: Engine,
    now: Instant,
    /// Messages that were sent and not yet looked at: the connection's index, and payloads with their numbers.
    sent: Vec<(u32, u8, Vec<u8>)>,
    /// Backends that were asked for and have not been connected.
    asked: Vec<u64>,
    closed: Vec<u32>,
    next: u32,
}

const OK: [u8; 7] = [0, 0, 0, 2, 0, 0, 0];

impl Bench {
    fn new() -> Self {
        let server = vec![Address::Unix("/nowhere".into())];
        let mut engine = Engine::new(Settings { server, ..Settings::default() });
        let mut facts = Facts::new(&Established::of_test("10.11-MariaDB", ALWAYS));
        let account = |user: &str| Account::of_test(user, "%", Credential::new(b"pam", b"mariadb"));
        // The last one lets in everybody else whom PAM knows.
        let accounts = ["app", "other", "third", "fourth", "fifth", ""].map(account);
        facts.accounts = Accounts::new(accounts.into(), ServerKind::MariaDb);
        engine.servers.primary_mut().facts = Some(facts);
        let mut bench = Self {
            engine,
            now: Instant::START,
            sent: Vec::new(),
            asked: Vec::new(),
            closed: Vec::new(),
            next: 1000,
        };
        // The service account's connection, of which nothing comes here.
        bench.turn();
        bench.asked.clear();
        bench
    }

    fn turn(&mut self) {
        self.engine.handle(self.now, Input::TurnEnd);
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send { connection, bytes } => {
                    let mut rest = bytes;
                    while !rest.is_empty() {
                        let message = wire::read_message(rest, rest[3], 1 << 20).unwrap().unwrap();
                        self.sent.push((connection.index, message.last_sequence, message.payload.to_vec()));
                        rest = &rest[message.consumed..];
                    }
                }
                Output::Connect { token, .. } => self.asked.push(token),
                Output::Close { connection } => self.closed.push(connection.index),
                _ => {}
            }
        }
    }

    fn told(&mut self, index: u32) -> Vec<Vec<u8>> {
        self.turn();
        let told = self.sent.iter().filter(|sent| sent.0 == index).map(|sent| sent.2.clone()).collect();
        self.sent.retain(|sent| sent.0 != index);
        told
    }

    fn say(&mut self, index: u32, mut sequence: u8, payload: &[u8]) {
        let mut bytes = Vec::new();
        wire::put_message(&mut bytes, &mut sequence, payload);
        let connection = ConnectionId { index, generation: 1 };
        self.engine.handle(self.now, Input::Bytes { connection, bytes: &bytes });
    }

    /// Logs in a client that says who it is. Returns what the client is told.
    fn log_in(&mut self, index: u32, user: &str, peer: Peer) -> Vec<Vec<u8>> {
        self.accepted(index, peer);
        self.say_who(index, user)
    }

    fn accepted(&mut self, index: u32, peer: Peer) {
        let connection = ConnectionId { index, generation: 1 };
        self.engine.handle(self.now, Input::Accepted { connection, listener: ListenerId(0), peer });
        assert_eq!(self.told(index).len(), 1, "a greeting");
    }

    fn say_who(&mut self, index: u32, user: &str) -> Vec<Vec<u8>> {
        let mut payload = Vec::new();
        wire::LoginRequest {
            capabilities: ALWAYS,
            max_packet_size: 1 << 24,
            collation: 45,
            user: user.as_bytes(),
            auth_response: &[7; 20],
            schema: None,
            auth_plugin: Some(b"mysql_native_password"),
            attributes: &[],
        }
        .put(&mut payload);
        self.say(index, 1, &payload);
        self.told(index)
    }

    /// Begins the claim of a client that has sent its password over a Unix socket.
    fn claim(&mut self, index: u32, user: &str, password: &str) {
        let told = self.log_in(index, user, Peer::Unix { uid: 7 });
        self.send_password(index, &told, password);
    }

    /// Begins the claim of a client that has sent its password from an address, by TLS.
    fn claim_from(&mut self, last: u8, index: u32, user: &str, password: &str) {
        self.accepted(index, Peer::Tcp(([10, 0, 0, last], 1024).into()));
        let clients = &mut self.engine.clients;
        let client =
            clients.iter_mut().map(|(_, client)| client).find(|client| client.connection.index == index);
        let session =
            TlsSession { version: TlsVersion::V1_3, cipher: "any", peer: None, own_fingerprint: None };
        client.unwrap().security = Security::Tls(Box::new(session));
        let told = self.say_who(index, user);
        self.send_password(index, &told, password);
    }

    fn hang_up(&mut self, index: u32) {
        let connection = ConnectionId { index, generation: 1 };
        self.engine.handle(self.now, Input::Closed { connection, reason: CloseReason::EndOfStream });
        self.turn();
    }

    /// Lets the server find the password wrong that it was asked about first.
    fn refuse_first(&mut self) -> Vec<u8> {
        let later = self.asked.split_off(1);
        let (backend, password) = self.answer_backend(QUESTION);
        let next = std::mem::replace(&mut self.asked, later);
        self.asked.extend(next);
        self.refuse(backend, 1045);
        password
    }

    fn send_password(&mut self, index: u32, told: &[Vec<u8>], password: &str) {
        let switch = AuthSwitch::parse(&told[0]).unwrap();
        assert_eq!(switch.plugin, b"mysql_clear_password");
        self.say(index, 3, format!("{password}\0").as_bytes());
        self.turn();
    }

    /// Connects the one backend that was asked for. Returns the password that comes on it when the server asks for it.
    fn answer_backend(&mut self, question: &[u8]) -> (u32, Vec<u8>) {
        self.turn();
        assert_eq!(self.asked.len(), 1, "one backend");
        let (token, index) = (self.asked.remove(0), self.next);
        self.next += 1;
        let connection = ConnectionId { index, generation: 1 };
        self.engine.handle(self.now, Input::Connected { token, connection });
        let mut greeting = Vec::new();
        Greeting {
            server_version: b"10.11-MariaDB",
            connection_id: 5,
            scramble: [1; 20],
            capabilities: ALWAYS,
            collation: 45,
            status: StatusFlags::AUTOCOMMIT,
            auth_plugin: b"mysql_native_password",
        }
        .put(&mut greeting);
        self.say(index, 0, &greeting);
        assert_eq!(self.told(index).len(), 1, "its login");
        let mut switch = Vec::new();
        AuthSwitch { plugin: b"dialog", data: question }.put(&mut switch);
        self.say(index, 2, &switch);
        let told = self.told(index);
        (index, told[0].clone())
    }

    /// Lets the server take the password, and say as which user it takes us.
    fn accept(&mut self, index: u32, who: &str) {
        self.say(index, 4, &OK);
        assert_eq!(self.told(index).len(), 1, "the trackers, and who we are");
        let more = [0, 0, 0, 10, 0, 0, 0];
        self.say(index, 1, &more);
        self.say(index, 2, &[1]);
        let column = b"\x03def\0\0\0\x01w\0\x0c\x2d\0\x80\0\0\0\xfd\0\0\0\0\0";
        self.say(index, 3, column);
        let row = [&[u8::try_from(who.len()).unwrap()], who.as_bytes()].concat();
        self.say(index, 4, &row);
        self.say(index, 5, &[0xfe, 0, 0, 2, 0, 0, 0]);
        self.turn();
    }

    fn refuse(&mut self, index: u32, code: u16) {
        let mut payload = Vec::new();
        ErrPacket { code, sql_state: *b"28000", message: b"no" }.put(&mut payload);
        self.say(index, 4, &payload);
        self.turn();
    }

    fn errors(&mut self, index: u32) -> Vec<u16> {
        let told = self.told(index);
        told.iter().map(|error| ErrPacket::parse(error).map_or(0, |error| error.code)).collect()
    }
}

const QUESTION: &[u8] = b"\x04Password: ";

#[test]
fn the_server_judges_the_password() {
    let mut bench = Bench::new();
    bench.claim(0, "app", "secret");
    assert!(bench.told(0).is_empty(), "nothing before the server has judged");
    let (backend, password) = bench.answer_backend(QUESTION);
    assert_eq!(password, b"secret\0");
    bench.accept(backend, "app@%");
    assert_eq!(bench.told(0)[0][0], 0);
    assert_eq!(bench.engine.figures().snapshot().backends, 1, "the backend stays for it");
    let (_, backend) = bench.engine.servers.backends().next().unwrap();
    assert_eq!(Some(backend.account.identity()), bench.engine.clients[client_key(0)].identity());
    assert!(bench.engine.logins.claims.asking.is_empty());
}

#[test]
fn a_wrong_one_is_refused_and_changes_nothing_for_others() {
    let mut bench = Bench::new();
    bench.claim(0, "app", "secret");
    let (backend, _) = bench.answer_backend(QUESTION);
    bench.accept(backend, "app@%");
    bench.claim(1, "app", "wrong");
    let (backend, password) = bench.answer_backend(QUESTION);
    assert_eq!(password, b"wrong\0");
    let identity = bench.engine.clients[client_key(0)].identity().unwrap();
    assert!(bench.engine.logins.identities.identity(identity).secret == Secret::of(b"secret"));
    bench.refuse(backend, 1045);
    assert_eq!(bench.errors(1), [1045]);
    assert!(bench.engine.logins.identities.identity(identity).secret == Secret::of(b"secret"));
    assert_eq!(bench.engine.figures().snapshot().backends, 1);
    assert_eq!(bench.engine.clients.len(), 1);
}

#[test]
fn of_a_crowd_one_asks() {
    let mut bench = Bench::new();
    for index in 0..10 {
        bench.claim(index, "app", "secret");
    }
    let (backend, _) = bench.answer_backend(QUESTION);
    bench.accept(backend, "app@%");
    for index in 0..10 {
        assert_eq!(bench.told(index)[0][0], 0);
    }
    assert!(bench.asked.is_empty());
    // After a while the server is asked again: it may have changed its mind.
    bench.now = bench.now + Duration::from_secs(2);
    bench.claim(10, "app", "secret");
    let (backend, _) = bench.answer_backend(QUESTION);
    bench.accept(backend, "app@%");
    assert_eq!(bench.told(10)[0][0], 0);
    bench.claim(11, "app", "secret");
    assert_eq!(bench.told(11)[0][0], 0, "and then not for a while");
}

#[test]
fn few_ask_at_a_time() {
    let mut bench = Bench::new();
    for (index, user) in (0..).zip(["app", "other", "third", "fourth", "fifth"]) {
        bench.claim_from(u8::try_from(index).unwrap(), index, user, &format!("of {user}"));
    }
    assert_eq!(bench.asked.len(), MOST);
    assert_eq!(bench.refuse_first(), b"of app\0");
    assert_eq!(bench.asked.len(), MOST, "the fifth's turn has come");
    assert_eq!(bench.errors(0), [1045]);
}

#[test]
fn one_network_does_not_hold_up_others() {
    let mut bench = Bench::new();
    for index in 0..20 {
        bench.claim_from(1, index, &format!("user{index}"), "a guess");
    }
    assert_eq!(bench.asked.len(), MOST_OF_NETWORK);
    bench.claim_from(2, 20, "app", "secret");
    assert_eq!(bench.asked.len(), MOST_OF_NETWORK + 1, "another's is asked about at once");
    bench.claim_from(3, 21, "app", "secret");
    bench.claim_from(4, 22, "app", "secret");
    assert_eq!(bench.asked.len(), MOST);
    assert_eq!(bench.refuse_first(), b"a guess\0");
    assert_eq!(bench.refuse_first(), b"a guess\0");
    assert_eq!(bench.refuse_first(), b"secret\0");
    // The fourth network came before the third of the first one's guesses had its turn.
    assert_eq!(bench.refuse_first(), b"secret\0");
    assert!(bench.engine.logins.claims.asking.len() <= MOST);
}

#[test]
fn of_one_user_from_one_network_one_is_asked_about() {
    let mut bench = Bench::new();
    for index in 0..20 {
        bench.claim_from(1, index, "app", &format!("guess {index}"));
    }
    assert_eq!(bench.asked.len(), 1);
    bench.claim_from(1, 20, "other", "secret");
    assert_eq!(bench.asked.len(), 2, "another user of the network");
    for index in 0..20 {
        bench.hang_up(index);
    }
    assert!(bench.engine.logins.claims.line.is_empty());
}

#[test]
fn after_wrong_passwords_the_next_one_waits_before_it_is_asked_about() {
    let mut bench = Bench::new();
    let threshold = bench.engine.settings.failed_logins.threshold;
    let delay = bench.engine.settings.failed_logins.delay;
    for index in 0..threshold {
        bench.claim_from(1, index, "app", "a guess");
        bench.refuse_first();
        assert_eq!(bench.errors(index), [1045]);
    }
    bench.claim_from(1, 10, "app", "another guess");
    bench.claim_from(1, 11, "app", "a third one");
    assert!(bench.asked.is_empty());
    bench.claim_from(1, 12, "other", "secret");
    bench.claim_from(2, 13, "app", "secret");
    assert_eq!(bench.asked.len(), 2, "neither has others given wrong ones");
    bench.asked.clear();
    bench.hang_up(11);
    assert_eq!(bench.engine.logins.claims.held.len(), 1, "who has gone waits no more");
    assert_eq!(bench.engine.logins.claims.next_turn(bench.now), Some(bench.now + delay));
    bench.now = bench.now + delay;
    bench.turn();
    assert_eq!(bench.refuse_first(), b"another guess\0");
    assert_eq!(bench.errors(10), [1045], "it has waited already");
    assert!(bench.engine.logins.claims.held.is_empty());
}

#[test]
fn a_password_lets_in_the_user_whose_it_is_and_no_other_of_the_account() {
    let mut bench = Bench::new();
    bench.claim(0, "alice", "of alice");
    let (backend, _) = bench.answer_backend(QUESTION);
    bench.accept(backend, "@%");
    assert_eq!(bench.told(0)[0][0], 0);
    // Both come by the anonymous account.
    bench.claim(1, "bob", "of alice");
    let (backend, password) = bench.answer_backend(QUESTION);
    assert_eq!(password, b"of alice\0", "the server is asked about bob");
    bench.refuse(backend, 1045);
    assert_eq!(bench.errors(1), [1045]);
    bench.claim(2, "bob", "of bob");
    let (backend, _) = bench.answer_backend(QUESTION);
    bench.accept(backend, "@%");
    assert_eq!(bench.told(2)[0][0], 0);
    bench.claim(3, "alice", "of alice");
    assert_eq!(bench.told(3)[0][0], 0, "each one's own is still known");
    let secret_of = |client: ClientKey| {
        let identity = bench.engine.clients[client].identity().unwrap();
        bench.engine.logins.identities.identity(identity).secret.clone()
    };
    let clients: Vec<_> =
        bench.engine.clients.iter().map(|(key, client)| (client.connection.index, key)).collect();
    for (index, key) in clients {
        let own = if index == 2 { &b"of bob"[..] } else { b"of alice" };
        assert!(secret_of(key) == Secret::of(own));
    }
}

#[test]
fn an_answer_is_for_the_question_alone() {
    let account = |user: &str, service: &[u8]| Account::of_test(user, "%", Credential::new(b"pam", service));
    let anonymous = account("", b"mariadb");
    let question = PasswordQuestion::about(b"alice", &anonymous).unwrap();
    assert!(question.is_about(b"alice", &anonymous, b"mariadb"));
    assert!(!question.is_about(b"bob", &anonymous, b"mariadb"));
    assert!(!question.is_about(b"alice", &account("alice", b"mariadb"), b"mariadb"));
    assert!(!question.is_about(b"alice", &anonymous, b"another"));
    let elsewhere = Account { host: "localhost".into(), ..anonymous };
    assert!(!question.is_about(b"alice", &elsewhere, b"mariadb"));
    assert!(PasswordQuestion::about(b"app", &Account::of_test("app", "%", Credential::Empty)).is_none());
}

#[test]
fn a_proof_holds_for_a_second_however_seldom_accounts_are_read() {
    let mut bench = Bench::new();
    bench.engine.settings.accounts_refresh = Duration::from_secs(3600);
    bench.claim(0, "app", "secret");
    let (backend, _) = bench.answer_backend(QUESTION);
    bench.accept(backend, "app@%");
    bench.now = bench.now + Duration::from_millis(999);
    bench.claim(1, "app", "secret");
    assert_eq!(bench.told(1)[0][0], 0);
    bench.now = bench.now + Duration::from_millis(1);
    bench.claim(2, "app", "secret");
    let (backend, _) = bench.answer_backend(QUESTION);
    bench.refuse(backend, 1045);
    assert_eq!(bench.errors(2), [1045]);
}

#[test]
fn over_tcp_without_tls_nobody_is_asked() {
    let mut bench = Bench::new();
    let told = bench.log_in(0, "app", Peer::Tcp(([10, 0, 0, 1], 1024).into()));
    assert_eq!(told.iter().map(|error| ErrPacket::parse(error).unwrap().code).collect::<Vec<_>>(), [3159]);
    assert!(bench.asked.is_empty());
}

#[test]
fn what_else_the_server_says_the_client_hears() {
    let mut bench = Bench::new();
    bench.claim(0, "app", "secret");
    let (backend, _) = bench.answer_backend(QUESTION);
    bench.refuse(backend, 1862);
    assert_eq!(bench.errors(0), [1862]);
    bench.claim(1, "app", "secret");
    let (backend, _) = bench.answer_backend(QUESTION);
    bench.accept(backend, "app@elsewhere");
    assert_eq!(bench.errors(1), [1045], "another account");
    bench.claim(2, "app", "secret");
    let (backend, _) = bench.answer_backend(QUESTION);
    let connection = ConnectionId { index: backend, generation: 1 };
    bench.engine.handle(bench.now, Input::Closed { connection, reason: CloseReason::EndOfStream });
    assert_eq!(bench.errors(2), [1158]);
    assert!(bench.engine.clients.is_empty() && bench.engine.figures().snapshot().backends == 0);
}

#[test]
fn a_client_that_has_gone_leaves_nothing() {
    let mut bench = Bench::new();
    bench.claim(0, "app", "secret");
    let (backend, _) = bench.answer_backend(QUESTION);
    let connection = ConnectionId { index: 0, generation: 1 };
    bench.engine.handle(bench.now, Input::Closed { connection, reason: CloseReason::EndOfStream });
    bench.accept(backend, "app@%");
    assert_eq!(bench.engine.figures().snapshot().backends, 0);
    assert!(bench.closed.contains(&backend));
    assert!(bench.engine.logins.claims.asking.is_empty() && bench.engine.logins.claims.line.is_empty());
    // Nobody holds the password any more: the next one is asked about.
    bench.claim(1, "app", "secret");
    bench.answer_backend(QUESTION);
    assert_eq!(Capabilities::NONE, bench.engine.clients[client_key(0)].class());
}

/// The server refuses as a member does that its group has left out.
#[test]
fn who_asks_a_server_that_lets_nobody_in_waits_for_the_next_primary() {
    for code in [3032, 1053] {
        let mut bench = Bench::new();
        bench.claim(0, "app", "secret");
        let (backend, _) = bench.answer_backend(QUESTION);
        bench.engine.settings.cluster.several = true;
        bench.refuse(backend, code);
        assert!(bench.errors(0).is_empty() && bench.asked.is_empty(), "{code}");
        // There is a primary again.
        bench.engine.settings.cluster.several = false;
        bench.now = bench.now + Duration::from_secs(2);
        bench.turn();
        let account = bench.asked.pop().expect("it is asked about once more");
        bench.asked = vec![account];
        let (backend, password) = bench.answer_backend(QUESTION);
        assert_eq!(password, b"secret\0");
        bench.accept(backend, "app@%");
        assert_eq!(bench.told(0)[0][0], 0);
    }
}

#[test]
fn who_could_not_be_judged_hears_why_the_server_cannot_be_reached() {
    let mut bench = Bench::new();
    bench.claim(0, "app", "secret");
    let (backend, _) = bench.answer_backend(QUESTION);
    bench.accept(backend, "app@%");
    let mut why = |index: u32, fails: fn(&mut Bench)| {
        bench.now = bench.now + Duration::from_secs(5);
        bench.engine.servers.primary_mut().reachability.answered();
        bench.claim(index, "other", "secret");
        fails(&mut bench);
        let told = bench.told(index);
        String::from_utf8_lossy(ErrPacket::parse(&told[0]).unwrap().message).into_owned()
    };
    let refused = why(1, |bench| {
        let token = bench.asked.remove(0);
        bench.engine.handle(bench.now, Input::ConnectFailed { token, errno: 111 });
    });
    assert!(refused.contains("refused"), "{refused}");
    let closed = why(2, |bench| {
        let (index, _) = bench.answer_backend(QUESTION);
        let connection = ConnectionId { index, generation: 1 };
        bench.engine.handle(bench.now, Input::Closed { connection, reason: CloseReason::EndOfStream });
    });
    assert!(closed.contains("in the middle of a login"), "{closed}");
}

/// Makes a bench whose server takes so many connections of `app` at a time.
fn with_limit(most: u32) -> Bench {
    let mut bench = Bench::new();
    let account = Account {
        max_connections: std::num::NonZeroU32::new(most),
        ..Account::of_test("app", "%", Credential::new(b"pam", b"mariadb"))
    };
    let other = Account::of_test("other", "%", Credential::new(b"pam", b"mariadb"));
    let facts = bench.engine.servers.primary_mut().facts.as_mut().unwrap();
    facts.accounts = Accounts::new([account, other].into(), ServerKind::MariaDb);
    bench
}

#[test]
fn of_an_account_with_few_connections_one_is_asked_about_at_a_time() {
    let mut bench = with_limit(4);
    bench.claim_from(1, 0, "app", "a guess");
    bench.claim_from(2, 1, "app", "secret");
    bench.claim_from(3, 2, "other", "secret");
    assert_eq!(bench.asked.len(), 2, "one of each account");
    assert_eq!(bench.refuse_first(), b"a guess\0");
    bench.now = bench.now + Duration::from_secs(1);
    bench.turn();
    assert_eq!(bench.refuse_first(), b"secret\0", "of the other account");
    let (backend, _) = bench.answer_backend(QUESTION);
    bench.accept(backend, "app@%");
    assert_eq!(bench.told(1)[0][0], 0);
}

#[test]
fn the_last_room_of_an_account_is_for_a_statement_that_waits() {
    let mut bench = with_limit(1);
    let app = Account::of_test("app", "%", Credential::Empty).identity_key(b"app");
    let workers = Arc::clone(&bench.engine.pool.workers);
    workers.users.full_accounts.lacks(bench.now, app.clone(), 1, 0);
    bench.claim(0, "app", "secret");
    assert!(bench.asked.is_empty());
    workers.users.full_accounts.has_one_more(&app, 1);
    bench.now = bench.now + Duration::from_secs(1);
    let (backend, _) = bench.answer_backend(QUESTION);
    bench.accept(backend, "app@%");
    assert_eq!(bench.told(0)[0][0], 0);
}

#[test]
fn a_login_gets_the_room_of_a_backend_of_its_account_that_nobody_needs() {
    let mut bench = with_limit(1);
    bench.claim(0, "app", "secret");
    let (backend, _) = bench.answer_backend(QUESTION);
    bench.accept(backend, "app@%");
    bench.now = bench.now + Duration::from_secs(2);
    bench.claim(1, "app", "secret");
    assert!(bench.asked.is_empty() && bench.closed.contains(&backend), "its room has to be free first");
    bench.now = bench.now + Duration::from_secs(1);
    let (backend, _) = bench.answer_backend(QUESTION);
    bench.accept(backend, "app@%");
    assert_eq!(bench.told(1)[0][0], 0);
}

#[test]
fn an_account_with_many_connections_left_is_asked_about_like_any_other() {
    let mut bench = with_limit(6);
    bench.claim_from(1, 0, "app", "a guess");
    bench.claim_from(2, 1, "app", "secret");
    assert_eq!(bench.asked.len(), 2, "four at a time leave two for statements");
}

/// Statements of other workers are told of the room that a question leaves, and have not asked for it yet.
#[test]
fn the_last_room_goes_to_no_password_right_behind_another_one() {
    let mut bench = with_limit(1);
    bench.claim_from(1, 0, "app", "a guess");
    assert_eq!(bench.refuse_first(), b"a guess\0");
    bench.claim_from(2, 1, "app", "secret");
    assert!(bench.asked.is_empty());
    bench.now = bench.now + Duration::from_secs(1);
    bench.turn();
    assert_eq!(bench.asked.len(), 1);
}
