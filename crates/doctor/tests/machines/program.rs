//! The program: exit codes and what it prints.

use serde_json::Value;

use crate::support::recorded;

fn run(words: &[&str], colours: bool) -> (u8, String) {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let mut out = Vec::new();
    let code = doctor::status(&words, colours, &mut out);
    (code, String::from_utf8(out).unwrap())
}

fn on(name: &str, words: &[&str]) -> (u8, String) {
    let root = format!("--root={}", recorded(name).display());
    run(&[words, &[&root]].concat(), false)
}

#[test]
fn exit_codes() {
    assert_eq!(on("tuned", &[]).0, doctor::FINE);
    assert_eq!(on("squeezed", &[]).0, doctor::SHORT);
    // Hints and what is unknown are no shortage.
    assert_eq!(on("debian", &[]).0, doctor::FINE);
    assert_eq!(on("debian", &["--role", "bench"]).0, doctor::SHORT);
    assert_eq!(on("debian", &["--role", "bench", "--address-pairs", "4"]).0, doctor::FINE);
    for wrong in [
        &["--connections", "0"][..],
        &["--connections", "1000001"],
        &["--conections", "5"],
        &["--driver", "io_uring"],
        &["--role", "proxy"],
        &["--json", "--print-sysctl"],
        &["--backend", "mysql://"],
        &["--backend", "postgres://u:hush@h/"],
        &["stray"],
    ] {
        assert_eq!(on("tuned", wrong).0, doctor::WRONG_OPTIONS, "{wrong:?}");
    }
    assert_eq!(run(&["--help"], false).0, doctor::FINE);
}

#[test]
fn every_exit_code_is_that_of_the_json_too() {
    for name in crate::support::ALL {
        let (code, text) = on(name, &["--json"]);
        let short = serde_json::from_str::<Value>(&text).unwrap()["counts"]["short"].as_u64().unwrap();
        assert_eq!(code == doctor::SHORT, short > 0, "{name}");
    }
}

#[test]
fn json_has_its_keys() {
    let (_, text) = on("squeezed", &["--json", "--driver", "epoll", "--connections", "20000"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["version"], 1);
    assert_eq!(document["request"]["connections"], 20_000);
    assert_eq!(document["request"]["role"], "serve");
    assert_eq!(document["request"]["driver"], "epoll");
    assert_eq!(document["machine"]["kernel"], "6.14.0-51-generic");
    assert_eq!(document["machine"]["cores"], 4);
    let findings = document["findings"].as_array().unwrap();
    let counts: u64 =
        document["counts"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(counts, findings.len() as u64);
    let queue = findings.iter().find(|finding| finding["check"] == "accept_queue").unwrap();
    assert_eq!(queue["verdict"], "short");
    assert_eq!(queue["subject"], "net.core.somaxconn");
    assert_eq!((&queue["found"], &queue["needed"]), (&Value::from(128), &Value::from(4096)));
    assert_eq!(queue["remedies"][0]["kind"], "sysctl");
    assert_eq!(queue["remedies"][0]["key"], "net.core.somaxconn");
    assert_eq!(queue["remedies"][0]["value"], "4096");
    assert_eq!(queue["remedies"][0]["now"], "sysctl -w net.core.somaxconn=4096");
    assert_eq!(queue["remedies"][0]["lasting"], "net.core.somaxconn = 4096");
    for finding in findings {
        for key in ["check", "subject", "verdict", "found", "needed", "why", "line", "remedies"] {
            assert!(finding.get(key).is_some(), "{key} is missing: {finding}");
        }
    }
}

#[test]
fn the_table_says_everything_once_and_what_to_do() {
    let (_, text) = on("squeezed", &["--driver", "epoll"]);
    assert!(
        text.starts_with("Onramp for 100,000 clients\nLinux 6.14.0-51-generic, 4 cores, 494.9 MiB\n"),
        "{text}"
    );
    let line = "  SHORT    accept queue                128  4,096 needed";
    assert_eq!(text.lines().filter(|other| *other == line).count(), 1, "{text}");
    assert!(text.contains("  now      sysctl -w net.core.somaxconn=4096\n"), "{text}");
    assert!(text.contains("  now      sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"\n"), "{text}");
    assert!(text.contains("11 limits are short for 100,000 clients."), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 110 && line.trim_end() == line), "{text}");
    assert!(on("tuned", &[]).1.ends_with("Nothing that can be read here is short for 100,000 clients.\n"));
}

#[test]
fn colours_change_nothing_but_colours() {
    let root = format!("--root={}", recorded("squeezed").display());
    let (_, plain) = run(&[&root], false);
    let (_, coloured) = run(&[&root], true);
    assert!(!plain.contains('\x1b'));
    assert!(coloured.contains("\x1b[1;31mSHORT  \x1b[0m"));
    let mut stripped = String::new();
    for (position, part) in coloured.split('\x1b').enumerate() {
        stripped.push_str(if position == 0 { part } else { part.split_once('m').unwrap().1 });
    }
    assert_eq!(stripped, plain);
}
