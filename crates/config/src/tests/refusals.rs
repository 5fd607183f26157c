//! What is said about values that cannot be used.

use super::*;

#[test]
fn http_that_others_reach_needs_a_password() {
    let load = |arguments: &[&str]| {
        let arguments: Vec<_> = arguments.iter().map(|argument| String::from(*argument)).collect();
        load(&arguments, [])
    };
    let refused = load(&["--http-listen", "0.0.0.0:9126"]).err().expect("others could look in").to_string();
    assert!(refused.contains("http_listen (0.0.0.0:9126) is given without http_password"), "{refused}");
    assert!(load(&["--http-listen", "0.0.0.0:9126", "--http-password", "x"]).is_ok());
    assert!(load(&["--http-listen", "localhost:9126"]).is_ok());
    assert_eq!(load(&["--http-listen", "off"]).unwrap().http_listen, None);
}

#[test]
fn what_is_wrong_on_the_command_line_is_said() {
    for (flags, expected) in [
        (&["--max-conections", "5"][..], "--max-conections: unknown option; did you mean --max-connections?"),
        (&["--colour=red"], "--colour: unknown option; `onramp serve --help` lists them all"),
        (
            &["--bind-address=::"],
            "--bind-address: unknown option; --listen says where clients connect, --backend which server is behind and as whom",
        ),
        (
            &["--permits", "5", "mysql://u:hush@h/"],
            "word 3 after serve is no option: options start with --, such as --backend mysql://user@host/",
        ),
        (&["--thread-pool-size", "0"], "--thread-pool-size: 0 is out of range: from 1 to 1024"),
        (&["--permits"], "--permits: no value given, such as --permits 32"),
        (&["--permits", "--listen", "a:1"], "--permits: no value given, such as --permits 32"),
        (&["--permits", "1", "--permits=2"], "--permits: given twice"),
        (&["--permits-min", "0"], "--permits-min: 0 is out of range: from 1 to 4096"),
        (&["--permits", "many"], "--permits: \"many\" is not a whole number"),
        (&["--connect-timeout", "10"], "--connect-timeout: \"10\" has no unit; did you mean 10s?"),
        (&["--connect-timeout", "10ms"], "--connect-timeout: 10ms is out of range: from 1s to 365d"),
        (&["--max-allowed-packet", "64M"], "--max-allowed-packet: \"64M\" is no size; did you mean 64MiB?"),
        (&["--max-allowed-packet", "2GiB"], "--max-allowed-packet: 2GiB is out of range: from 1KiB to 1GiB"),
        (
            &["--thread-handling", "pool-of-thread"],
            "--thread-handling: \"pool-of-thread\" is unknown; did you mean pool-of-threads?",
        ),
        (
            &["--log-level", "loud"],
            "--log-level: \"loud\" is unknown: one of error, warn, info, debug, trace",
        ),
        (&["--listen", "3306"], "--listen: \"3306\" has no host; did you mean 127.0.0.1:3306?"),
        (&["--backend", "mysql://u:hush@h/shop"], "--backend: no schema here: each client brings its own"),
        (
            &["--backend", "mysql://u:a@h/", "--backend", "mysql://u:b@h/"],
            "backend: all addresses carry the same user and password, those of the one service account",
        ),
        (
            &["--statement-memory", "1MiB"],
            "statement_memory (1048576 bytes) is below max_allowed_packet (67108864 bytes): the largest statement would never fit",
        ),
        (&["--permits-min", "9", "--permits-max", "8"], "permits_max (8) is below permits_min (9)"),
        (
            &["--tls-certificate", "a.pem"],
            "tls_certificate is given without tls_key, the file with its private key",
        ),
        (
            &["--backend-tls", "required", "--backend-public-key", "/k"],
            "backend_public_key is given with backend_tls = required: inside TLS servers take no encrypted password; \
             set backend_tls = verify-ca or verify-full, or disabled",
        ),
        (
            &["--backend-tls-key", "a.key"],
            "backend_tls_key is given without backend_tls_certificate, the certificate that it belongs to",
        ),
        (
            &["--backend-tls", "verify-ca"],
            "backend_tls: there is nothing to verify a certificate by; give backend_tls_ca",
        ),
        (
            &["--backend-tls-ca", "a.pem"],
            "backend_tls_ca is given, but nothing is verified by it; set backend_tls = verify-full or verify-ca",
        ),
        (
            &["--config", "/nowhere/onramp.toml"],
            "--config: /nowhere/onramp.toml cannot be read: No such file or directory (os error 2)",
        ),
    ] {
        assert_eq!(message(with_flags(flags)), expected);
    }
}

#[test]
fn localhost_is_no_network_of_a_server() {
    let flags = ["--backend-trusted-networks", "10.0.0.1,localhost"];
    let expected = "backend_trusted_networks: localhost stands for Unix sockets, which need no trust; write 127.0.0.1 for a port \
                    of this machine";
    assert_eq!(message(with_flags(&flags)), expected);
}

#[test]
fn what_is_wrong_in_the_environment_is_said() {
    for (variable, value, expected) in [
        ("ONRAMP_PERMITS", "x", "ONRAMP_PERMITS: \"x\" is not a whole number"),
        ("ONRAMP_PERMIT", "1", "ONRAMP_PERMIT: unknown option; did you mean ONRAMP_PERMITS?"),
        ("ONRAMP_permits", "1", "ONRAMP_permits: unknown option; did you mean ONRAMP_PERMITS?"),
    ] {
        assert_eq!(message(with(&[], &[(variable, value)])), expected);
    }
    assert!(with(&[], &[("ONRAMP_BENCH_PASSWORD", "x"), ("PERMITS", "x")]).is_ok());
}

#[test]
fn a_variable_that_is_no_text_is_not_passed_over() {
    use std::os::unix::ffi::OsStrExt as _;
    let no_text = OsStr::from_bytes(b"p\xe4ss");
    let refused =
        load(&[], [("ONRAMP_HTTP_PASSWORD", no_text)]).err().expect("no password would be asked for");
    assert_eq!(refused.to_string(), "ONRAMP_HTTP_PASSWORD: its value is not UTF-8 text; write it in UTF-8");
    // What is not ours may be anything.
    assert!(load(&[], [("LS_COLORS", no_text), ("ONRAMP_BENCH_PASSWORD", no_text)]).is_ok());
}

#[test]
fn what_is_wrong_in_the_file_is_said_with_its_line() {
    for (text, expected) in [
        (
            "\nmax_conections = 5",
            "onramp.toml:2: unknown option \"max_conections\"; did you mean max_connections?",
        ),
        (
            "port = 3306",
            "onramp.toml:1: unknown option \"port\"; listen says where clients connect, backend which server is behind and as whom",
        ),
        ("colour = 5", "onramp.toml:1: unknown option \"colour\"; `onramp serve --help` lists them all"),
        (
            "[limits]\npermits = 5",
            "onramp.toml:1: [limits]: there are no sections; options stand at the top level",
        ),
        ("config = \"a\"", "onramp.toml:1: config names the file and cannot stand in it"),
        (
            "# a\n# b\npermits = \"16\"",
            "onramp.toml:3: permits: found text where a whole number is wanted; did you mean 16 without the quotes?",
        ),
        ("permits = 1.5", "onramp.toml:1: permits: found a fraction where a whole number is wanted"),
        ("permits = -1", "onramp.toml:1: permits: -1 is out of range: from 0 to 4096"),
        (
            "permits = 99999999999999999999",
            "onramp.toml:1: permits: found a number beyond all ranges where a whole number is wanted",
        ),
        ("permits = [1]", "onramp.toml:1: permits: found a list where a whole number is wanted"),
        ("connect_timeout = 10", "onramp.toml:1: connect_timeout: \"10\" has no unit; did you mean 10s?"),
        (
            "connect_timeout = true",
            "onramp.toml:1: connect_timeout: found true or false where text such as \"10s\" is wanted",
        ),
        ("max_allowed_packet = -5", "onramp.toml:1: max_allowed_packet: -5 is negative"),
        (
            "listen = 3306",
            "onramp.toml:1: listen: found a number where an address in quotes, such as \"127.0.0.1:3306\" is wanted",
        ),
        ("listen = []", "onramp.toml:1: listen: the list is empty"),
        (
            "log_level = 1979-05-27",
            "onramp.toml:1: log_level: found a date where one of its words in quotes is wanted",
        ),
    ] {
        assert_eq!(message(with_file(text)), expected);
    }
}

#[test]
fn a_password_in_a_broken_file_is_not_repeated() {
    for text in [
        "backend = \"mysql://u:hush@h/",
        "backend = \"mysql://u:hush@h/shop\"",
        "backend = mysql://u:hush@h/",
    ] {
        let message = message(with_file(text));
        assert!(message.starts_with("onramp.toml:1: "), "{message}");
        assert!(!message.contains("hush"), "{message}");
    }
}

#[test]
fn a_list_in_one_value_is_no_address() {
    let error = message(with_flags(&["--listen=/tmp/a.sock,127.0.0.1:3306"]));
    assert!(error.contains("one address at a time"), "{error}");
    assert_eq!(with_flags(&["--listen=/tmp/a.sock", "--listen=127.0.0.1:3306"]).unwrap().listen.len(), 2);
}

#[test]
fn each_worker_needs_a_backend() {
    assert!(with_flags(&["--workers=2", "--max-backends=2"]).is_ok());
    let error = message(with_flags(&["--workers=3", "--max-backends=2"]));
    assert!(error.contains("workers (3) is above max_backends (2)"), "{error}");
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let text = "permits = many\nworkers = 0\nmax_conections = 1\n= 5\nwait_timeout = \"5m\"\nlisten = [\n";
    let file = TemporaryFile::new("faults", text);
    let path = file.0.display().to_string();
    let found = faults(
        &["stray", "--nonsense-of-mine", "x", "--config", &path, "--compression", "--back-log=0"],
        &[("ONRAMP_PERMIT", "5"), ("ONRAMP_TLS", "maybe")],
    );
    let expected = [
        String::from("word 1 after serve is no option"),
        String::from("--nonsense-of-mine: unknown option"),
        String::from("--compression: no value given"),
        String::from("ONRAMP_PERMIT: unknown option; did you mean ONRAMP_PERMITS?"),
        format!("{path}:1: "),
        format!("{path}:4: "),
        format!("{path}:6: "),
        format!("{path}:2: workers: 0 is out of range"),
        format!("{path}:3: unknown option \"max_conections\"; did you mean max_connections?"),
        String::from("ONRAMP_TLS: "),
        String::from("--back-log: 0 is out of range"),
    ];
    for beginning in &expected {
        assert!(found.iter().any(|fault| fault.starts_with(beginning)), "{beginning}: {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    let lines: Vec<_> = found.iter().filter_map(|fault| fault.strip_prefix(&format!("{path}:"))).collect();
    assert!(lines.is_sorted(), "{lines:?}");
}

#[test]
fn values_that_do_not_go_together_are_all_said() {
    let flags = ["--permits-min=8", "--permits-max=4", "--tls-key=/k", "--backend-tls=verify-ca"];
    let found = faults(&flags, &[("ONRAMP_PRIVATE_SERVER", "off")]);
    for part in [
        "permits_max (4) is below",
        "private_server = off",
        "tls_key is given without",
        "give backend_tls_ca",
    ] {
        assert!(found.iter().any(|fault| fault.contains(part)), "{part}: {found:#?}");
    }
    assert_eq!(found.len(), 4, "{found:#?}");
}
