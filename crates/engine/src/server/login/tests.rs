use wire::StatusFlags;

use super::*;

const SCRAMBLE: [u8; 20] = *b"abcdefghijklmnopqrst";
const OK: [u8; 7] = [0, 0, 0, 2, 0, 0, 0];
const FULL: [u8; 2] = [1, 4];

/// A login on a server that greets with a method, and what it sends after the greeting: payloads with their numbers.
struct Server {
    login: ServerLogin,
    sequence: u8,
}

impl Server {
    /// To an account of the method that it greets with.
    fn greet(method: Method, secret: Secret, way: ServerChannel) -> (Self, Vec<u8>) {
        Self::greet_account(method, vec![method], secret, way)
    }

    /// To an account of these methods.
    fn greet_account(
        method: Method,
        methods: Vec<Method>,
        secret: Secret,
        way: ServerChannel,
    ) -> (Self, Vec<u8>) {
        let credentials = Credentials {
            user: b"app".to_vec(),
            secret,
            methods,
            way,
            known_keys: Arc::default(),
            tls: ServerTls::Disabled,
            collation: 45,
            extra: Capabilities(0),
            compression: ServerCompression::Off,
        };
        let mut server = Self { login: ServerLogin::new(credentials), sequence: 0 };
        let mut payload = Vec::new();
        Greeting {
            server_version: b"9.7.0",
            connection_id: 5,
            scramble: SCRAMBLE,
            capabilities: ALWAYS,
            collation: 45,
            status: StatusFlags::AUTOCOMMIT,
            auth_plugin: method.name(),
        }
        .put(&mut payload);
        let (sent, outcome) = server.say(&payload);
        assert!(outcome.is_none());
        (server, sent)
    }

    fn say(&mut self, payload: &[u8]) -> (Vec<u8>, Option<LoginOutcome>) {
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        wire::put_message(&mut bytes, &mut self.sequence, payload);
        let outcome = self.login.read(&bytes, &mut out).unwrap();
        (self.sent(&out), outcome)
    }

    /// The payload of what was sent, which has the next number.
    fn sent(&mut self, out: &[u8]) -> Vec<u8> {
        if out.is_empty() {
            return Vec::new();
        }
        let message = wire::read_message(out, self.sequence, 1 << 20).unwrap().unwrap();
        self.sequence += 1;
        message.payload.to_vec()
    }
}

#[test]
fn a_password_the_server_remembers_is_proved() {
    let (mut server, sent) =
        Server::greet(Method::CachingSha2, Secret::of(b"secret"), ServerChannel::Trusted);
    let request = LoginRequest::parse(&sent).unwrap();
    assert_eq!(request.auth_plugin, Some(Method::CachingSha2.name()));
    let digest2 = sha2_password::digest2(&sha2_password::digest1(b"secret"));
    assert!(sha2_password::verify(request.auth_response, &SCRAMBLE, &digest2));
    assert!(server.say(&[1, 3]).0.is_empty());
    assert!(matches!(server.say(&OK), (_, Some(LoginOutcome::Established(_)))));
}

#[test]
fn a_password_it_does_not_is_sent_where_nobody_listens() {
    let (mut server, _) = Server::greet(Method::CachingSha2, Secret::of(b"secret"), ServerChannel::Socket);
    assert_eq!(server.say(&FULL).0, b"secret\0");
    assert!(matches!(server.say(&OK), (_, Some(LoginOutcome::Established(_)))));
}

#[test]
fn elsewhere_it_is_encrypted() {
    let (mut server, _) = Server::greet(Method::CachingSha2, Secret::of(b"secret"), ServerChannel::Trusted);
    assert_eq!(server.say(&FULL).0, [sha2_password::REQUEST_PUBLIC_KEY]);
    let Some(LoginOutcome::Encrypt { mut bytes, public_key }) = server.say(b"\x01PEM").1 else {
        panic!("nothing to encrypt")
    };
    assert_eq!(public_key, b"PEM");
    sha2_password::mix_with_scramble(&mut bytes, &SCRAMBLE);
    assert_eq!(bytes.as_slice(), b"secret\0");
    let mut out = Vec::new();
    server.login.encrypted(Some(b"encrypted"), &mut out);
    assert_eq!(server.sent(&out), b"encrypted");
    assert!(matches!(server.say(&OK), (_, Some(LoginOutcome::Established(_)))));
}

#[test]
fn the_older_method_begins_with_the_wish_for_the_key() {
    let account = vec![Method::Sha256];
    let (mut server, sent) =
        Server::greet_account(Method::CachingSha2, account, Secret::of(b"secret"), ServerChannel::Socket);
    assert!(LoginRequest::parse(&sent).unwrap().auth_response.is_empty(), "nothing by another method");
    assert_eq!(
        server.say(&switch(Method::Sha256, b"ABCDEFGHIJKLMNOPQRST")).0,
        [sha2_password::REQUEST_PUBLIC_KEY_SHA256]
    );
    let Some(LoginOutcome::Encrypt { mut bytes, .. }) = server.say(b"\x01PEM").1 else {
        panic!("nothing to encrypt")
    };
    sha2_password::mix_with_scramble(&mut bytes, b"ABCDEFGHIJKLMNOPQRST");
    assert_eq!(bytes.as_slice(), b"secret\0", "with the scramble of the switch");
}

#[test]
fn a_hash_alone_answers_the_native_method_only() {
    let stage1 = wire::native_password::stage1(b"secret");
    let secret = Secret::Native(Zeroizing::new(stage1));
    let account = vec![Method::Native];
    let (mut server, sent) =
        Server::greet_account(Method::CachingSha2, account, secret, ServerChannel::Socket);
    let request = LoginRequest::parse(&sent).unwrap();
    assert_eq!(request.auth_plugin, Some(Method::Native.name()));
    let stage2 = wire::native_password::stage2(&stage1);
    assert!(wire::native_password::verify(request.auth_response, &SCRAMBLE, &stage2).is_some());
    let (sent, outcome) = server.say(&switch(Method::CachingSha2, &SCRAMBLE));
    assert!(sent.is_empty() && matches!(outcome, Some(LoginOutcome::Withheld(Withheld::Method))));
}

fn tls_login(tls: ServerTls) -> ServerLogin {
    ServerLogin::new(Credentials {
        user: b"app".to_vec(),
        secret: Secret::None,
        methods: vec![Method::Native],
        way: ServerChannel::Open,
        known_keys: Arc::default(),
        tls,
        collation: 45,
        extra: Capabilities(0),
        compression: ServerCompression::Off,
    })
}

fn greeting(capabilities: Capabilities) -> Vec<u8> {
    let mut payload = Vec::new();
    Greeting {
        server_version: b"8.4.0",
        connection_id: 7,
        scramble: SCRAMBLE,
        capabilities,
        collation: 45,
        status: StatusFlags::AUTOCOMMIT,
        auth_plugin: Method::Native.name(),
    }
    .put(&mut payload);
    let mut packet = Vec::new();
    wire::put_message(&mut packet, &mut 0, &payload);
    packet
}

#[test]
fn tls_comes_before_the_name() {
    for tls in [ServerTls::Preferred, ServerTls::Required, ServerTls::Verified] {
        let mut login = tls_login(tls);
        let mut out = Vec::new();
        let outcome = login.read(&greeting(ALWAYS | Capabilities::SSL), &mut out).unwrap();
        assert!(matches!(outcome, Some(LoginOutcome::StartTls)));
        assert_eq!(out[..4], [32, 0, 0, 1]);
        assert!(wire::is_ssl_request(&out[4..]));
        out.clear();
        login.secured(&mut out).unwrap();
        let message = wire::read_message(&out, 2, 1 << 16).unwrap().unwrap();
        let request = LoginRequest::parse(&message.payload).unwrap();
        assert_eq!(request.user, b"app");
        assert!(request.capabilities.contains(Capabilities::SSL));
        let mut ok = Vec::new();
        wire::put_message(&mut ok, &mut 3, &OK);
        assert!(matches!(login.read(&ok, &mut out).unwrap(), Some(LoginOutcome::Established(_))));
    }
}

#[test]
fn nothing_slips_in_before_tls() {
    let offered = greeting(ALWAYS | Capabilities::SSL);
    let mut ok = Vec::new();
    wire::put_message(&mut ok, &mut 2, &OK);
    let mut login = tls_login(ServerTls::Required);
    assert_eq!(login.read(&[&offered[..], &ok].concat(), &mut Vec::new()).err(), Some(EARLY));
    let mut login = tls_login(ServerTls::Required);
    login.read(&offered, &mut Vec::new()).unwrap();
    assert_eq!(login.read(&ok, &mut Vec::new()).err(), Some(EARLY));
}

#[test]
fn a_server_without_tls_gets_nothing_where_it_is_required() {
    let mut out = Vec::new();
    let outcome = tls_login(ServerTls::Required).read(&greeting(ALWAYS), &mut out).unwrap();
    assert!(matches!(outcome, Some(LoginOutcome::Refused { code: 2026, .. })) && out.is_empty());
    let outcome = tls_login(ServerTls::Preferred).read(&greeting(ALWAYS), &mut out).unwrap();
    assert!(outcome.is_none() && !out.is_empty());
}

fn switch(method: Method, data: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    AuthSwitch { plugin: method.name(), data }.put(&mut payload);
    payload
}

/// What a server gets that asks for the password itself, by every method and way.
#[test]
fn a_password_goes_only_where_nobody_else_can_have_it() {
    use ServerTls::{Disabled, Preferred, Required, Verified};
    for (way, tls, known_key, asked_key, inside_tls) in [
        (ServerChannel::Open, Disabled, false, false, None),
        (ServerChannel::Open, Disabled, true, true, None),
        (ServerChannel::Open, Preferred, true, false, Some(false)),
        (ServerChannel::Open, Required, false, false, Some(false)),
        (ServerChannel::Open, Verified, false, false, Some(true)),
        (ServerChannel::Trusted, Disabled, false, true, None),
        (ServerChannel::Trusted, Preferred, false, false, Some(true)),
        (ServerChannel::Socket, Disabled, false, true, None),
    ] {
        for method in [Method::CachingSha2, Method::Sha256, Method::Clear, Method::Dialog] {
            let methods = vec![method];
            let (mut server, greeted) =
                Server::greet_account(Method::Native, methods, Secret::of(b"secret"), way);
            assert!(!greeted.windows(6).any(|bytes| bytes == b"secret"));
            server.login.credentials.tls = tls;
            if known_key {
                server.login.credentials.known_keys = [b"PEM".to_vec()].into();
            }
            let Phase::Answer(exchange) = &mut server.login.phase else { panic!("not greeted") };
            exchange.established.encrypted = inside_tls.is_some();
            let (mut sent, mut outcome) = server.say(&switch(method, &SCRAMBLE));
            if method == Method::CachingSha2 {
                assert!(outcome.is_none() && sent.len() == 32, "a proof, which tells nothing of it");
                (sent, outcome) = server.say(&FULL);
            }
            let clear = match method {
                Method::CachingSha2 => way == ServerChannel::Socket || inside_tls == Some(true),
                Method::Sha256 => inside_tls == Some(true),
                _ => way != ServerChannel::Open || inside_tls == Some(true),
            };
            let encrypted = method.is_sha2() && asked_key && !clear;
            assert_eq!(sent == b"secret\0", clear, "{method:?} {way:?} {tls:?}");
            assert_eq!(sent.len() == 1, encrypted, "{method:?} {way:?} {tls:?}");
            match outcome {
                Some(LoginOutcome::Withheld(why)) => {
                    assert!(!clear && !encrypted && why == Withheld::Way);
                    assert!(why.message().contains("verify-full") && why.message().len() < 512);
                    assert!(sent.is_empty());
                }
                _ => assert!(outcome.is_none() && (clear || encrypted), "{method:?} {way:?} {tls:?}"),
            }
        }
    }
}

/// Whatever the way: a server that asks for more than the account's method tells is not to be believed.
#[test]
fn a_switch_is_followed_to_the_accounts_method_only() {
    let all = [Method::Native, Method::CachingSha2, Method::Sha256, Method::Clear, Method::Dialog];
    for account in all {
        for asked in all {
            for (tls, way) in
                [(ServerTls::Verified, ServerChannel::Open), (ServerTls::Disabled, ServerChannel::Socket)]
            {
                let (mut server, _) =
                    Server::greet_account(Method::Native, vec![account], Secret::of(b"secret"), way);
                server.login.credentials.tls = tls;
                let Phase::Answer(exchange) = &mut server.login.phase else { panic!("not greeted") };
                exchange.established.encrypted = tls == ServerTls::Verified;
                let (sent, outcome) = server.say(&switch(asked, &SCRAMBLE));
                let withheld = matches!(outcome, Some(LoginOutcome::Withheld(Withheld::Method)));
                assert_eq!(withheld, account != asked, "{account:?} {asked:?}");
                assert_eq!(sent.is_empty(), withheld);
            }
        }
    }
}

/// A greeting is no switch: nothing of the password is told by a method that the account has not.
#[test]
fn a_greeting_by_another_method_is_told_nothing() {
    for (account, greeted, begins) in [
        (Method::CachingSha2, Method::Sha256, 32),
        (Method::CachingSha2, Method::Native, 32),
        (Method::Native, Method::CachingSha2, 20),
        (Method::Sha256, Method::Sha256, 0),
        (Method::Clear, Method::CachingSha2, 0),
    ] {
        let (_, sent) =
            Server::greet_account(greeted, vec![account], Secret::of(b"secret"), ServerChannel::Socket);
        assert_eq!(
            LoginRequest::parse(&sent).unwrap().auth_response.len(),
            begins,
            "{account:?} {greeted:?}"
        );
    }
}

#[test]
fn a_full_check_belongs_to_sha2_alone() {
    let (mut server, _) = Server::greet(Method::Native, Secret::of(b"secret"), ServerChannel::Socket);
    let (sent, outcome) = server.say(&FULL);
    assert!(sent.is_empty() && outcome.is_none());
}

#[test]
fn another_key_than_the_known_ones_gets_nothing() {
    let keys: Arc<[Vec<u8>]> = [b"one key\n".to_vec(), b"another\nkey\n".to_vec()].into();
    for (way, key, right) in [
        (ServerChannel::Open, &b"another\r\nkey"[..], true),
        (ServerChannel::Open, b"a third key", false),
        (ServerChannel::Trusted, b"one key\n", true),
        (ServerChannel::Trusted, b"a third key", false),
    ] {
        let (mut server, _) = Server::greet(Method::CachingSha2, Secret::of(b"secret"), way);
        server.login.credentials.known_keys = Arc::clone(&keys);
        assert_eq!(server.say(&FULL).0, [sha2_password::REQUEST_PUBLIC_KEY]);
        match server.say(&[&[1], key].concat()).1 {
            Some(LoginOutcome::Encrypt { public_key, .. }) => assert!(right && public_key == key),
            Some(LoginOutcome::Withheld(why)) => assert!(!right && why == Withheld::Key),
            _ => panic!("neither encrypted nor withheld"),
        }
    }
}

#[test]
fn a_second_question_gets_no_password() {
    let account = vec![Method::Clear, Method::Dialog];
    let (mut server, _) =
        Server::greet_account(Method::Native, account, Secret::of(b"secret"), ServerChannel::Socket);
    assert_eq!(server.say(&switch(Method::Dialog, b"\x04Password: ")).0, b"secret\0");
    assert_eq!(server.say(b"\x05Code: ").0, [0]);
    assert!(matches!(server.say(&OK), (_, Some(LoginOutcome::Established(_)))));
}

#[test]
fn a_key_that_nobody_asked_for_is_not_used() {
    let (mut server, _) = Server::greet(Method::CachingSha2, Secret::of(b"secret"), ServerChannel::Trusted);
    let (sent, outcome) = server.say(&[&[1], &b"-----BEGIN PUBLIC KEY-----"[..]].concat());
    assert!(sent.is_empty() && outcome.is_none());
}

/// What is asked for is what the server offers, and the level of zstd stands at the end, with and without TLS in front.
#[test]
fn compression_is_asked_for_where_it_is_offered() {
    let both = Capabilities::COMPRESS | Capabilities::ZSTD_COMPRESSION;
    for (wanted, offered, agreed) in [
        (ServerCompression::Off, both, Capabilities::NONE),
        (ServerCompression::Zlib, both, Capabilities::COMPRESS),
        (ServerCompression::Zstd, both, Capabilities::ZSTD_COMPRESSION),
        (ServerCompression::Zstd, Capabilities::COMPRESS, Capabilities::NONE),
        (ServerCompression::Zlib, Capabilities::NONE, Capabilities::NONE),
    ] {
        for encrypted in [Capabilities::NONE, Capabilities::SSL] {
            let mut login = tls_login(ServerTls::Preferred);
            login.credentials.compression = wanted;
            let mut out = Vec::new();
            let outcome = login.read(&greeting(ALWAYS | offered | encrypted), &mut out).unwrap();
            let mut sequence = 1;
            if matches!(outcome, Some(LoginOutcome::StartTls)) {
                let asked = u32::from_le_bytes(*out[4..].first_chunk().unwrap());
                assert_eq!(Capabilities(asked.into()) & both, agreed);
                out.clear();
                login.secured(&mut out).unwrap();
                sequence = 2;
            }
            let message = wire::read_message(&out, sequence, 1 << 16).unwrap().unwrap();
            let request = LoginRequest::parse(&message.payload).unwrap();
            assert_eq!(request.capabilities & both, agreed);
            let plain = b"mysql_native_password\0";
            let end = if agreed == Capabilities::ZSTD_COMPRESSION {
                [&plain[..], &[ZSTD_LEVEL]].concat()
            } else {
                plain.to_vec()
            };
            assert!(message.payload.ends_with(&end));
        }
    }
}
