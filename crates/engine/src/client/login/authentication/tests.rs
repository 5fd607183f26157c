use seam::{Address, ConnectionId, Input, Instant, ListenerId, Output, Program};
use sql::ServerKind;
use wire::sha2_password::{FAST_AUTHENTICATION, FULL_AUTHENTICATION, MORE_DATA_HEADER, REQUEST_PUBLIC_KEY};

use super::*;
use crate::accounts::Accounts;
use crate::accounts::task::Task;
use crate::engine::Engine;
use crate::server::control::facts::Facts;
use crate::server::login::{ALWAYS, Established};
use crate::settings::Settings;

const TCP: ([u8; 4], u16) = ([10, 0, 0, 1], 1024);
const PEM: &[u8] = b"a public key";
const OK: &[u8] = &[0];
const FAST: &[u8] = &[MORE_DATA_HEADER, FAST_AUTHENTICATION];
const FULL: &[u8] = &[MORE_DATA_HEADER, FULL_AUTHENTICATION];

/// An engine in front of a server with these accounts, and what has been sent to its clients.
struct Bench {
    engine: Engine,
    /// Payloads that were sent and not yet looked at, by connection.
    sent: Vec<(u32, Vec<u8>)>,
}

/// A client, as far as logins go.
struct Visitor {
    connection: ConnectionId,
    scramble: [u8; 20],
    sequence: u8,
}

impl Bench {
    fn new(accounts: Vec<Account>) -> Self {
        let server = vec![Address::Unix("/nowhere".into())];
        let mut engine = Engine::new(Settings { server, ..Settings::default() });
        let mut established = Established::of_test("9.7.0", ALWAYS);
        established.method = Method::CachingSha2;
        let mut facts = Facts::new(&established);
        facts.accounts = Accounts::new(accounts, ServerKind::MySql);
        engine.servers.primary_mut().facts = Some(facts);
        Self { engine, sent: Vec::new() }
    }

    fn collect(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            if let Output::Send { connection, bytes } = output {
                let mut rest = bytes;
                while !rest.is_empty() {
                    let message = wire::read_message(rest, rest[3], 1 << 20).unwrap().unwrap();
                    self.sent.push((connection.index, message.payload.to_vec()));
                    rest = &rest[message.consumed..];
                }
            }
        }
    }

    /// Returns the payloads that this client has been sent, in order.
    fn told(&mut self, visitor: &Visitor) -> Vec<Vec<u8>> {
        self.collect();
        let index = visitor.connection.index;
        let told = self.sent.iter().filter(|(to, _)| *to == index).map(|(_, bytes)| bytes.clone()).collect();
        self.sent.retain(|(to, _)| *to != index);
        told
    }

    fn visit(&mut self, index: u32, peer: Peer) -> Visitor {
        let connection = ConnectionId { index, generation: 1 };
        let accepted = Input::Accepted { connection, listener: ListenerId(0), peer };
        self.engine.handle(Instant::START, accepted);
        let mut visitor = Visitor { connection, scramble: [0; 20], sequence: 1 };
        let told = self.told(&visitor);
        let greeting = wire::Greeting::parse(&told[0]).unwrap();
        assert_eq!(greeting.auth_plugin, b"caching_sha2_password");
        visitor.scramble = greeting.scramble;
        visitor
    }

    fn say(&mut self, visitor: &mut Visitor, payload: &[u8]) {
        let mut bytes = Vec::new();
        wire::put_message(&mut bytes, &mut visitor.sequence, payload);
        visitor.sequence += 1;
        self.engine.handle(Instant::START, Input::Bytes { connection: visitor.connection, bytes: &bytes });
    }

    fn log_in(&mut self, visitor: &mut Visitor, user: &str, token: &[u8]) {
        self.log_in_by(visitor, user, b"caching_sha2_password", token);
    }

    fn log_in_by(&mut self, visitor: &mut Visitor, user: &str, plugin: &[u8], token: &[u8]) {
        let mut payload = Vec::new();
        wire::LoginRequest {
            capabilities: ALWAYS,
            max_packet_size: 1 << 24,
            collation: 45,
            user: user.as_bytes(),
            auth_response: token,
            schema: None,
            auth_plugin: Some(plugin),
            attributes: &[],
        }
        .put(&mut payload);
        self.say(visitor, &payload);
    }

    /// Does the other threads' part. Nothing is really encrypted.
    fn work(&mut self) -> usize {
        let mut done = 0;
        while let Some(Task { number, work, .. }) = self.engine.poll_task().filter(Task::is_wanted) {
            done += 1;
            let finding = match work {
                Work::Check { stored, proof } => {
                    let password = proof.open(|bytes| Some(Zeroizing::new(bytes.to_vec())));
                    Finding::Password(password.map(|password| {
                        let right = password.matches(&stored);
                        (password, right)
                    }))
                }
                Work::PublicKey => Finding::PublicKey(Some(PEM.into())),
                Work::Verify { signature, .. } => Finding::Signature(signature[..] == [b's'; 64]),
                Work::UserName { uid } => Finding::UserName((uid == 7).then(|| b"app".to_vec())),
                Work::Read(text) => Finding::Text(text.read()),
                Work::ReadAccounts(rows) => Finding::Accounts(rows.read()),
                Work::ReadCode(answers) => Finding::Code(answers.read()),
                Work::Encrypt { .. } => panic!("no login on a server here"),
            };
            self.engine.take_finding(number, finding);
        }
        done
    }

    /// Logs in a client that sends the password over a Unix socket.
    fn log_in_in_full(&mut self, index: u32, user: &str, password: &str) -> (Visitor, Vec<Vec<u8>>) {
        let mut visitor = self.visit(index, Peer::Unix { uid: 7 });
        let token = token(password, &visitor.scramble);
        self.log_in(&mut visitor, user, &token);
        assert_eq!(self.told(&visitor), [FULL]);
        self.say(&mut visitor, format!("{password}\0").as_bytes());
        assert_eq!(self.work(), 1, "no hash runs on the worker");
        let told = self.told(&visitor);
        (visitor, told)
    }

    fn leave(&mut self, visitor: &Visitor) {
        let reason = seam::CloseReason::EndOfStream;
        self.engine.handle(Instant::START, Input::Closed { connection: visitor.connection, reason });
    }
}

fn token(password: &str, scramble: &[u8; 20]) -> Vec<u8> {
    sha2_password::token(&sha2_password::digest1(password.as_bytes()), scramble).to_vec()
}

fn account(user: &str, credential: Credential) -> Account {
    Account::of_test(user, "%", credential)
}

fn stored(password: &str) -> Vec<u8> {
    sha2_password::stored_form(password.as_bytes(), b"12345678901234567890")
}

fn app() -> Bench {
    Bench::new(vec![account("app", Credential::CachingSha2(stored("secret")))])
}

fn is_denied(told: &[Vec<u8>]) -> bool {
    matches!(told, [error] if wire::ErrPacket::parse(error).is_ok_and(|error| error.code == 1045))
}

#[test]
fn the_password_is_asked_for_once() {
    let mut bench = app();
    let (first, told) = bench.log_in_in_full(0, "app", "secret");
    assert_eq!(told[0][..1], *OK);
    let mut second = bench.visit(1, Peer::Tcp(TCP.into()));
    let answer = token("secret", &second.scramble);
    bench.log_in(&mut second, "app", &answer);
    let told = bench.told(&second);
    assert_eq!((told[0].as_slice(), &told[1][..1]), (FAST, OK));
    assert_eq!(bench.work(), 0);
    bench.leave(&first);
    bench.leave(&second);
    let (_, told) = bench.log_in_in_full(2, "app", "secret");
    assert_eq!(told[0][..1], *OK, "and again once nobody holds it");
}

#[test]
fn a_wrong_password_is_refused_after_all_that() {
    let mut bench = app();
    let (_, told) = bench.log_in_in_full(0, "app", "wrong");
    assert!(is_denied(&told));
    let (_held, told) = bench.log_in_in_full(1, "app", "secret");
    assert_eq!(told[0][..1], *OK);
    let (_, told) = bench.log_in_in_full(2, "app", "wrong");
    assert!(is_denied(&told), "also where the right one is known");
}

#[test]
fn an_account_that_is_not_there_is_not_told_apart() {
    let mut bench = app();
    let (_, told) = bench.log_in_in_full(0, "nobody", "secret");
    assert!(is_denied(&told));
}

#[test]
fn over_tcp_the_password_comes_encrypted() {
    let mut bench = app();
    let mut visitor = bench.visit(0, Peer::Tcp(TCP.into()));
    let answer = token("secret", &visitor.scramble);
    bench.log_in(&mut visitor, "app", &answer);
    assert_eq!(bench.told(&visitor), [FULL]);
    bench.say(&mut visitor, &[REQUEST_PUBLIC_KEY]);
    assert_eq!(bench.work(), 1);
    assert_eq!(bench.told(&visitor), [[&[MORE_DATA_HEADER], PEM].concat()]);
    let mut mixed = b"secret\0".to_vec();
    sha2_password::mix_with_scramble(&mut mixed, &visitor.scramble);
    bench.say(&mut visitor, &mixed);
    assert_eq!(bench.work(), 1);
    assert_eq!(bench.told(&visitor)[0][..1], *OK);
}

#[test]
fn a_password_in_the_clear_over_tcp_is_no_password() {
    let mut bench = app();
    let mut visitor = bench.visit(0, Peer::Tcp(TCP.into()));
    bench.log_in(&mut visitor, "app", &token("secret", &[1; 20]));
    assert_eq!(bench.told(&visitor), [FULL]);
    bench.say(&mut visitor, b"secret\0");
    bench.work();
    assert!(is_denied(&bench.told(&visitor)));
}

#[test]
fn no_password_is_an_empty_answer() {
    let mut bench = Bench::new(vec![
        account("empty", Credential::CachingSha2(Vec::new())),
        account("app", Credential::CachingSha2(stored("secret"))),
    ]);
    for (index, user, answer, right) in [
        (0, "empty", &b""[..], true),
        (1, "empty", &[0], true),
        (2, "app", &[0], false),
        (3, "empty", &[7; 32], false),
    ] {
        let mut visitor = bench.visit(index, Peer::Tcp(TCP.into()));
        bench.log_in(&mut visitor, user, answer);
        let told = bench.told(&visitor);
        assert_eq!(told[0][0] == 0, right, "{user} {answer:?}");
        assert_eq!(is_denied(&told), !right);
    }
}

#[test]
fn a_changed_password_is_not_the_known_one() {
    let mut bench = app();
    let (_held, _) = bench.log_in_in_full(0, "app", "secret");
    let accounts = vec![account("app", Credential::CachingSha2(stored("other")))];
    let accounts = Accounts::new(accounts, ServerKind::MySql);
    bench.engine.servers.primary_mut().facts.as_mut().unwrap().accounts = accounts;
    let (_, told) = bench.log_in_in_full(1, "app", "secret");
    assert!(is_denied(&told));
    let (_, told) = bench.log_in_in_full(2, "app", "other");
    assert_eq!(told[0][..1], *OK);
}

#[test]
fn the_older_method_takes_nothing_but_the_password() {
    let mut bench = Bench::new(vec![account("old", Credential::Sha256(stored("secret")))]);
    let mut visitor = bench.visit(0, Peer::Unix { uid: 7 });
    bench.log_in(&mut visitor, "old", &token("secret", &[1; 20]));
    let told = bench.told(&visitor);
    let switch = AuthSwitch::parse(&told[0]).unwrap();
    assert_eq!(switch.plugin, b"sha256_password");
    let scramble = switch.scramble().unwrap();
    bench.say(&mut visitor, &[sha2_password::REQUEST_PUBLIC_KEY_SHA256]);
    bench.work();
    assert_eq!(bench.told(&visitor), [[&[MORE_DATA_HEADER], PEM].concat()]);
    let mut mixed = b"secret\0".to_vec();
    sha2_password::mix_with_scramble(&mut mixed, &scramble);
    bench.say(&mut visitor, &mixed);
    bench.work();
    assert_eq!(bench.told(&visitor)[0][..1], *OK);
}

#[test]
fn a_locked_account_says_so_once_the_password_is_right() {
    let locked = Account { locked: true, ..account("app", Credential::CachingSha2(stored("secret"))) };
    let mut bench = Bench::new(vec![locked]);
    let (_, told) = bench.log_in_in_full(0, "app", "secret");
    assert_eq!(wire::ErrPacket::parse(&told[0]).unwrap().code, 3118);
    let (_, told) = bench.log_in_in_full(1, "app", "wrong");
    assert!(is_denied(&told));
}

#[test]
fn a_socket_user_needs_no_password() {
    let by_name = |user: &str| Account {
        socket_users: vec![b"app".to_vec()],
        ..Account::of_test(user, "%", Credential::Socket)
    };
    let mut bench = Bench::new(vec![
        by_name("app"),
        Account { credential: Credential::CachingSha2(stored("secret")), ..by_name("either") },
    ]);
    let unix = |uid| Peer::Unix { uid };
    for (index, user, peer, answer) in [
        (0, "app", unix(7), 0),
        (1, "app", unix(8), 1698),
        (2, "app", Peer::Tcp(TCP.into()), 1698),
        (3, "either", unix(7), 0),
        (4, "either", unix(8), 1045),
    ] {
        let mut visitor = bench.visit(index, peer);
        bench.log_in(&mut visitor, user, b"");
        bench.work();
        let told = bench.told(&visitor);
        let code = wire::ErrPacket::parse(&told[0]).map_or(0, |error| error.code);
        assert_eq!(code, answer, "{user} from {peer}");
    }
}

#[test]
fn a_signature_is_checked_elsewhere() {
    let key = [5; 32];
    for (signature, right, tasks) in
        [([b's'; 64].to_vec(), true, 1), ([b'x'; 64].to_vec(), false, 1), (vec![1], false, 0)]
    {
        let mut bench = Bench::new(vec![Account::of_test("ed", "%", Credential::Ed25519(key))]);
        let mut visitor = bench.visit(0, Peer::Tcp(TCP.into()));
        bench.log_in(&mut visitor, "ed", b"");
        let told = bench.told(&visitor);
        let switch = AuthSwitch::parse(&told[0]).unwrap();
        assert_eq!((switch.plugin, switch.data.len()), (&b"client_ed25519"[..], 32));
        bench.say(&mut visitor, &signature);
        assert_eq!(bench.work(), tasks);
        let told = bench.told(&visitor);
        assert_eq!(told[0][0] == 0, right);
        assert_eq!(is_denied(&told), !right);
    }
}

#[test]
fn who_names_another_plugin_than_the_greeting_is_asked_anew() {
    let native = [b"*".to_vec(), vec![b'A'; 40]].concat();
    for (plugin, credential) in [
        (&b"client_ed25519"[..], Credential::Ed25519([5; 32])),
        (b"sha256_password", Credential::Sha256(stored("secret"))),
        (b"mysql_native_password", Credential::new(b"mysql_native_password", &native)),
    ] {
        for token in [vec![], vec![b's'; 64]] {
            let mut bench = Bench::new(vec![account("ed", credential.clone())]);
            let mut visitor = bench.visit(0, Peer::Tcp(TCP.into()));
            bench.log_in_by(&mut visitor, "ed", plugin, &token);
            let told = bench.told(&visitor);
            let switch = AuthSwitch::parse(&told[0]).expect("a switch");
            assert_eq!(switch.plugin, plugin);
            assert!(switch.data.iter().any(|&byte| byte != 0));
            assert_eq!(bench.work(), 0, "nothing is checked against a nonce that nobody was given");
        }
    }
}

#[test]
fn what_is_sent_behind_a_login_waits_for_its_end() {
    for (password, answered) in [("secret", 2), ("wrong", 1)] {
        let mut bench = app();
        let mut visitor = bench.visit(0, Peer::Unix { uid: 7 });
        let answer = token(password, &visitor.scramble);
        bench.log_in(&mut visitor, "app", &answer);
        assert_eq!(bench.told(&visitor), [FULL]);
        bench.say(&mut visitor, format!("{password}\0").as_bytes());
        visitor.sequence = 0;
        bench.say(&mut visitor, &[wire::CommandKind::Ping as u8]);
        assert!(bench.told(&visitor).is_empty(), "its password is not checked yet");
        bench.work();
        bench.engine.handle(Instant::START, Input::TurnEnd);
        let told = bench.told(&visitor);
        assert_eq!(told.len(), answered);
        assert_eq!(told[0][0] == 0, password == "secret");
    }
}

#[test]
fn the_deadline_of_a_login_ends_with_it() {
    let mut bench = app();
    let (visitor, told) = bench.log_in_in_full(0, "app", "secret");
    assert_eq!(told[0][..1], *OK);
    let limit = bench.engine.settings.connect_timeout;
    let second = std::time::Duration::from_secs(1);
    let body =
        [&[wire::CommandKind::ChangeUser as u8], &b"app\0\0\0\x2d\0caching_sha2_password\0"[..]].concat();
    let mut bytes = Vec::new();
    wire::put_message(&mut bytes, &mut 0, &body);
    let late = Instant::START + (limit - second);
    bench.engine.handle(late, Input::Bytes { connection: visitor.connection, bytes: &bytes });
    bench.engine.handle(Instant::START + limit + second, Input::TurnEnd);
    assert_eq!(bench.engine.clients.len(), 1, "it was asked for its answer two seconds ago");
    bench.engine.handle(late + limit, Input::TurnEnd);
    assert!(bench.engine.clients.is_empty());
}

#[test]
fn our_key_is_given_once() {
    let mut bench = app();
    let mut visitor = bench.visit(0, Peer::Tcp(TCP.into()));
    let answer = token("secret", &visitor.scramble);
    bench.log_in(&mut visitor, "app", &answer);
    assert_eq!(bench.told(&visitor), [FULL]);
    bench.say(&mut visitor, &[REQUEST_PUBLIC_KEY]);
    assert_eq!(bench.work(), 1);
    assert_eq!(bench.told(&visitor).len(), 1);
    bench.say(&mut visitor, &[REQUEST_PUBLIC_KEY]);
    bench.work();
    assert!(is_denied(&bench.told(&visitor)), "it is taken for a password");
}

#[test]
fn a_refusal_that_is_told_later_goes_with_its_client() {
    let mut bench = app();
    for index in 0..5 {
        let (_, told) = bench.log_in_in_full(index, "app", "wrong");
        assert_eq!(told.is_empty(), index >= 3, "the first three are told at once");
    }
    assert_eq!(bench.engine.logins.late_refusals.0.len(), 2);
    let reason = seam::CloseReason::EndOfStream;
    let connection = ConnectionId { index: 3, generation: 1 };
    bench.engine.handle(Instant::START, Input::Closed { connection, reason });
    assert_eq!(bench.engine.logins.late_refusals.0.len(), 1);
    let late = Instant::START + std::time::Duration::from_secs(5);
    bench.engine.handle(late, Input::TurnEnd);
    assert!(bench.engine.logins.late_refusals.0.is_empty());
    assert!(is_denied(&bench.told(&Visitor {
        connection: ConnectionId { index: 4, generation: 1 },
        scramble: [0; 20],
        sequence: 0
    })));
}

#[test]
fn the_password_of_a_client_that_has_gone_is_not_checked() {
    let mut bench = app();
    let mut visitor = bench.visit(0, Peer::Unix { uid: 7 });
    bench.log_in(&mut visitor, "app", &token("secret", &[1; 20]));
    bench.say(&mut visitor, b"secret\0");
    let task = bench.engine.poll_task().expect("its password is to be checked");
    assert!(task.is_wanted());
    bench.leave(&visitor);
    assert!(!task.is_wanted());
    // Somebody had begun already.
    bench.engine.take_finding(task.number, Finding::Password(None));
    assert_eq!(bench.engine.figures().snapshot().clients, 0);
}
