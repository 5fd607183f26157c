use super::*;
use wire::StatusFlags;

const SCRAMBLE: &[u8; 20] = b"abcdefghijklmnopqrst";

fn message(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sequence = sequence;
    wire::put_message(&mut out, &mut sequence, payload);
    out
}

fn greeting(plugin: &[u8], capabilities: Capabilities) -> Vec<u8> {
    let mut payload = Vec::new();
    Greeting {
        server_version: b"5.5.5-10.11.6-MariaDB",
        connection_id: 1,
        scramble: *SCRAMBLE,
        capabilities: capabilities
            | Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH,
        collation: 45,
        status: StatusFlags::AUTOCOMMIT,
        auth_plugin: plugin,
    }
    .put(&mut payload);
    message(0, &payload)
}

fn credentials(password: &str, private_channel: bool) -> Credentials {
    Credentials::new("root", password, Some("sbtest"), private_channel)
}

/// Feeds messages one byte at a time; returns what was sent and the outcome of the last byte.
fn log_in(credentials: &Credentials, messages: &[Vec<u8>]) -> (Vec<u8>, Result<Option<Session>, LoginError>) {
    let mut login = Login::default();
    let mut out = Vec::new();
    let bytes = messages.concat();
    for byte in &bytes[..bytes.len() - 1] {
        assert_eq!(login.read(&[*byte], credentials, &mut out).unwrap(), None);
    }
    let end = login.read(&bytes[bytes.len() - 1..], credentials, &mut out);
    (out, end)
}

#[test]
fn a_native_login() {
    let (sent, end) = log_in(
        &credentials("secret", false),
        &[greeting(NATIVE_PASSWORD, Capabilities::DEPRECATE_EOF), message(2, &[0, 0, 0, 2, 0, 0, 0])],
    );
    assert_eq!(
        end.unwrap(),
        Some(Session { deprecate_eof: true, server_version: "10.11.6-MariaDB".to_owned() })
    );
    let request = LoginRequest::parse(&sent[4..]).unwrap();
    assert_eq!(sent[3], 1, "sequence");
    assert_eq!(request.user, b"root");
    assert_eq!(request.schema, Some(b"sbtest".as_slice()));
    let stage1 = native_password::stage1(b"secret");
    let stored = native_password::stage2(&stage1);
    assert!(native_password::verify(request.auth_response, SCRAMBLE, &stored).is_some());
}

#[test]
fn a_login_asks_for_its_own_class() {
    let offered = Capabilities::DEPRECATE_EOF | Capabilities::MULTI_STATEMENTS;
    let messages = [greeting(NATIVE_PASSWORD, offered), message(2, &[0, 0, 0, 2, 0, 0, 0])];
    let class = |credentials: &Credentials| {
        let (sent, end) = log_in(credentials, &messages);
        let request = LoginRequest::parse(&sent[4..]).unwrap();
        (request.capabilities & offered, end.unwrap().map(|session| session.deprecate_eof))
    };
    let usual = credentials("secret", false);
    assert_eq!(class(&usual), (Capabilities::DEPRECATE_EOF, Some(true)));
    assert_eq!(class(&usual.clone().with_eof_packets()), (Capabilities::NONE, Some(false)));
    assert_eq!(class(&usual.with_multi_statements()), (offered, Some(true)));
}

#[test]
fn an_empty_password_is_an_empty_response() {
    let (sent, end) = log_in(
        &credentials("", false),
        &[greeting(b"some_other_plugin", Capabilities::NONE), message(2, &[0, 0, 0, 2, 0, 0, 0])],
    );
    assert_eq!(end.unwrap().map(|session| session.deprecate_eof), Some(false));
    let request = LoginRequest::parse(&sent[4..]).unwrap();
    assert_eq!(request.auth_response, b"");
    assert!(!request.capabilities.contains(Capabilities::DEPRECATE_EOF));
}

#[test]
fn a_switch_of_method_is_followed() {
    let mut payload = Vec::new();
    AuthSwitch { plugin: NATIVE_PASSWORD, data: b"ABCDEFGHIJKLMNOPQRST" }.put(&mut payload);
    let (sent, end) = log_in(
        &credentials("secret", false),
        &[
            greeting(CACHING_SHA2_PASSWORD, Capabilities::NONE),
            message(2, &payload),
            message(4, &[0, 0, 0, 2, 0, 0, 0]),
        ],
    );
    assert!(end.unwrap().is_some());
    let answer = &sent[sent.len() - 24..];
    assert_eq!(&answer[..4], [20, 0, 0, 3]);
    let stored = native_password::stage2(&native_password::stage1(b"secret"));
    assert!(native_password::verify(&answer[4..], b"ABCDEFGHIJKLMNOPQRST", &stored).is_some());
}

#[test]
fn a_refusal_keeps_the_servers_words() {
    let (_, end) = log_in(
        &credentials("wrong", false),
        &[
            greeting(NATIVE_PASSWORD, Capabilities::NONE),
            message(2, b"\xff\x15\x04#28000Access denied for user"),
        ],
    );
    let refused = |code, message: &str| LoginError::Refused { code, message: message.to_owned() };
    assert_eq!(end.unwrap_err(), refused(1045, "Access denied for user"));
    let full = message(0, b"\xff\x10\x04Too many connections");
    let (_, end) = log_in(&credentials("", false), &[full]);
    assert_eq!(end.unwrap_err(), refused(1040, "Too many connections"));
}

#[test]
fn caching_sha2_sends_the_password_as_it_is_only_over_a_private_channel() {
    let greeting = greeting(CACHING_SHA2_PASSWORD, Capabilities::NONE);
    let full = message(2, &[MORE_DATA_HEADER, FULL_AUTHENTICATION]);
    let ok = [0, 0, 0, 2, 0, 0, 0];
    let (sent, end) =
        log_in(&credentials("secret", true), &[greeting.clone(), full.clone(), message(4, &ok)]);
    assert!(end.unwrap().is_some());
    assert!(sent.ends_with(b"\x07\0\0\x03secret\0"));
    let fast = message(2, &[MORE_DATA_HEADER, FAST_AUTHENTICATION]);
    let (_, end) = log_in(&credentials("secret", false), &[greeting.clone(), fast, message(3, &ok)]);
    assert!(end.unwrap().is_some());

    let pair = keys::KeyPair::generate().unwrap();
    let key = message(4, &[&[MORE_DATA_HEADER], pair.public_key()].concat());
    let (sent, end) = log_in(&credentials("secret", false), &[greeting, full, key, message(6, &ok)]);
    assert!(end.unwrap().is_some());
    assert!(!sent.windows(6).any(|window| window == b"secret"));
    let mut password = pair.decrypt(&sent[sent.len() - 256..]).unwrap();
    sha2_password::mix_with_scramble(&mut password, SCRAMBLE);
    assert_eq!(password.as_slice(), b"secret\0");
}

#[test]
fn who_sends_native_passwords_only_sends_nothing_else() {
    let credentials = credentials("secret", false).with_tls().with_native_password_only();
    let credentials = Credentials { tls: Encryption::Off, ..credentials };
    let mut switch = Vec::new();
    AuthSwitch { plugin: CACHING_SHA2_PASSWORD, data: SCRAMBLE }.put(&mut switch);
    for asked in [switch, vec![MORE_DATA_HEADER, FULL_AUTHENTICATION]] {
        let greeting = greeting(CACHING_SHA2_PASSWORD, Capabilities::NONE);
        let (sent, end) = log_in(&credentials, &[greeting, message(2, &asked)]);
        assert!(end.is_err(), "{end:?}");
        let request = LoginRequest::parse(&sent[4..]).unwrap();
        assert_eq!(request.auth_plugin, Some(NATIVE_PASSWORD));
        assert!(!sent.windows(6).any(|window| window == b"secret"));
    }
}

#[test]
fn tls_is_asked_for_where_it_is_offered() {
    let credentials = credentials("secret", false).with_tls_where_offered().with_native_password_only();
    for offered in [true, false] {
        let ssl = if offered { Capabilities::SSL } else { Capabilities::NONE };
        let (mut login, mut out) = (Login::default(), Vec::new());
        assert_eq!(login.scramble(), None);
        let done = login.read(&greeting(NATIVE_PASSWORD, ssl), &credentials, &mut out).unwrap();
        assert_eq!(login.scramble().as_ref(), Some(SCRAMBLE));
        assert!(done.is_none() && login.starts_tls() == offered);
        assert_eq!(wire::is_ssl_request(&out[4..]), offered);
        assert_eq!(
            out.windows(5).any(|window| window == b"root\0"),
            !offered,
            "no name is sent in front of TLS"
        );
        login.secured(&credentials, &mut out).unwrap();
        assert!(out.windows(5).any(|window| window == b"root\0"));
    }
}
