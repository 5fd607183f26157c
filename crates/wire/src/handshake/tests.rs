use super::*;

const SCRAMBLE: [u8; 20] = *b"abcdefghijklmnopqrst";

/// The greeting of a MariaDB 10.11 server, with another scramble.
fn mariadb_greeting() -> Vec<u8> {
    [
        b"\x0a5.5.5-10.11.6-MariaDB-0+deb12u1\0".as_slice(),
        b"\x1f\0\0\0abcdefgh\0",
        b"\xfe\xf7\x2d\x02\0\xff\x81\x15",
        b"\0\0\0\0\0\0\x1d\0\0\0",
        b"ijklmnopqrst\0mysql_native_password\0",
    ]
    .concat()
}

fn login() -> LoginRequest<'static> {
    LoginRequest {
        capabilities: Capabilities::LONG_PASSWORD
            | Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH
            | Capabilities::CONNECT_WITH_DB
            | Capabilities::CONNECT_ATTRS,
        max_packet_size: 16 << 20,
        collation: 45,
        user: b"app",
        auth_response: &[9; 20],
        schema: Some(b"shop"),
        auth_plugin: Some(b"mysql_native_password"),
        attributes: b"\x04_pid\x0242",
    }
}

#[test]
fn mariadb_greeting_comes_apart_and_together() {
    let bytes = mariadb_greeting();
    let greeting = Greeting::parse(&bytes).unwrap();
    assert_eq!(greeting.server_version, b"5.5.5-10.11.6-MariaDB-0+deb12u1");
    assert_eq!(greeting.connection_id, 31);
    assert_eq!(greeting.scramble, SCRAMBLE);
    assert_eq!(greeting.capabilities, Capabilities(0x1d_81ff_f7fe));
    assert_eq!((greeting.collation, greeting.status), (45, StatusFlags::AUTOCOMMIT));
    assert_eq!(greeting.auth_plugin, b"mysql_native_password");
    let mut out = Vec::new();
    greeting.put(&mut out);
    assert_eq!(out, bytes);
}

#[test]
fn the_filler_of_a_mysql_greeting_means_nothing() {
    let mut bytes = mariadb_greeting();
    let capabilities_at = bytes.windows(2).position(|pair| pair == b"\xfe\xf7").unwrap();
    bytes[capabilities_at] = 0xff;
    assert_eq!(Greeting::parse(&bytes).unwrap().capabilities & Capabilities::EXTENDED, Capabilities::NONE);
}

#[test]
fn a_greeting_without_plugins_still_has_its_whole_scramble() {
    let bytes = mariadb_greeting();
    let parsed = Greeting::parse(&bytes).unwrap();
    let plain = Greeting { capabilities: parsed.capabilities.without(Capabilities::PLUGIN_AUTH), ..parsed };
    let mut out = Vec::new();
    plain.put(&mut out);
    assert!(!out.ends_with(b"mysql_native_password\0"));
    assert_eq!(Greeting::parse(&out), Ok(plain));
}

#[test]
fn cut_greetings_are_errors_up_to_the_plugin() {
    let bytes = mariadb_greeting();
    let plugin_at = bytes.len() - b"mysql_native_password\0".len();
    for cut in 0..plugin_at {
        assert!(Greeting::parse(&bytes[..cut]).is_err(), "{cut}");
    }
    // Some old servers leave out the last zero byte.
    assert_eq!(Greeting::parse(&bytes[..bytes.len() - 1]).unwrap().auth_plugin, b"mysql_native_password");
    assert!(matches!(Greeting::parse(b"\x09old"), Err(WireError::Unsupported { .. })));
    assert!(Greeting::parse(b"\xff\x10\x04Too many connections").is_err());
}

#[test]
fn login_request_comes_apart_and_together() {
    let mut bytes = Vec::new();
    login().put(&mut bytes);
    let front = [b"\x09\x82\x18\0\0\0\0\x01\x2d".as_slice(), &[0; 23], b"app\0\x14"].concat();
    assert_eq!(bytes[..front.len()], front);
    assert_eq!(LoginRequest::parse(&bytes), Ok(login()));
    assert!(!is_ssl_request(&bytes));
    let attributes: Vec<_> = parse_attributes(login().attributes).unwrap().collect();
    assert_eq!(attributes, [(&b"_pid"[..], &b"42"[..])]);
}

#[test]
fn capabilities_follow_the_fields() {
    let plain = LoginRequest { schema: None, auth_plugin: None, ..login() };
    let mut bytes = Vec::new();
    plain.put(&mut bytes);
    let parsed = LoginRequest::parse(&bytes).unwrap();
    let absent = Capabilities::CONNECT_WITH_DB | Capabilities::PLUGIN_AUTH;
    assert_eq!(parsed, LoginRequest { capabilities: plain.capabilities.without(absent), ..plain });

    let response = [7; 300];
    bytes.clear();
    LoginRequest { auth_response: &response, ..login() }.put(&mut bytes);
    let parsed = LoginRequest::parse(&bytes).unwrap();
    assert!(parsed.capabilities.contains(Capabilities::PLUGIN_AUTH_LENENC_DATA));
    assert_eq!(parsed.auth_response, response);
}

#[test]
fn a_mariadb_client_sends_extended_capabilities() {
    let extended = Capabilities::EXTENDED_METADATA | Capabilities::CACHE_METADATA;
    let capabilities = login().capabilities.without(Capabilities::LONG_PASSWORD) | extended;
    let request = LoginRequest { capabilities, ..login() };
    let mut bytes = Vec::new();
    request.put(&mut bytes);
    assert_eq!(LoginRequest::parse(&bytes), Ok(request));
}

#[test]
fn an_ssl_request_is_the_front_of_the_login_request() {
    let request = LoginRequest { capabilities: login().capabilities | Capabilities::SSL, ..login() };
    let (mut ssl, mut full) = (Vec::new(), Vec::new());
    request.put_ssl_request(&mut ssl);
    request.put(&mut full);
    assert!(is_ssl_request(&ssl) && !is_ssl_request(&full));
    assert_eq!(ssl, full[..32]);
    assert!(LoginRequest::parse(&ssl).is_err());
}

#[test]
fn an_empty_schema_is_none() {
    let mut bytes = Vec::new();
    LoginRequest { schema: Some(b""), ..login() }.put(&mut bytes);
    assert_eq!(LoginRequest::parse(&bytes).unwrap().schema, None);
}

#[test]
fn clients_before_4_1_are_not_supported() {
    let old = b"\x85\x24\0\0\0app\0";
    assert!(matches!(LoginRequest::parse(old), Err(WireError::Unsupported { .. })));
    assert!(matches!(LoginRequest::parse(b"\x00"), Err(WireError::Truncated { .. })));
}

#[test]
fn broken_attributes_give_none_at_all() {
    assert!(parse_attributes(b"\x01a\x01b\x01c").is_err());
    assert!(parse_attributes(b"\x05a").is_err());
    assert_eq!(parse_attributes(b"").unwrap().count(), 0);
}

#[test]
fn auth_switch_comes_apart_and_together() {
    let switch = AuthSwitch { plugin: b"mysql_native_password", data: &SCRAMBLE };
    let mut bytes = Vec::new();
    switch.put(&mut bytes);
    assert_eq!(bytes, b"\xfemysql_native_password\0abcdefghijklmnopqrst\0");
    let parsed = AuthSwitch::parse(&bytes).unwrap();
    assert_eq!(parsed.plugin, switch.plugin);
    assert_eq!(parsed.scramble(), Some(SCRAMBLE));
    assert_eq!(AuthSwitch { plugin: b"dialog", data: b"\x04Password: " }.scramble(), None);
    assert!(matches!(AuthSwitch::parse(b"\xfe"), Err(WireError::Unsupported { .. })));
    assert!(AuthSwitch::parse(b"\xfeno end").is_err());
    assert!(AuthSwitch::parse(b"\x01data").is_err());
}

#[test]
fn change_user_comes_apart_and_together() {
    let capabilities = login().capabilities;
    let full = ChangeUser {
        user: b"app",
        auth_response: &[9; 20],
        schema: Some(b"shop"),
        collation: Some(224),
        auth_plugin: Some(b"mysql_native_password"),
        attributes: b"\x04_pid\x0242",
    };
    let bare = ChangeUser {
        auth_response: b"",
        schema: None,
        collation: None,
        auth_plugin: None,
        attributes: b"",
        ..full
    };
    for change in [full, ChangeUser { attributes: b"", ..full }, bare] {
        let mut bytes = Vec::new();
        change.put(&mut bytes);
        assert_eq!(bytes[0], 0x11);
        assert_eq!(ChangeUser::parse(&bytes[1..], capabilities), Ok(change));
    }
    assert!(ChangeUser::parse(b"app", capabilities).is_err());
    assert!(ChangeUser::parse(b"app\0\x14short", capabilities).is_err());
}
