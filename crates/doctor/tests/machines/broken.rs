//! Machines of which little or nothing can be read.

use doctor::{Machine, Request, Role, Verdict, examine};
use drivers::DriverChoice;

use crate::support::{ALL, Copy, files, keys, recorded};

/// Everything that may be asked of a machine: none of it may panic.
fn judge(machine: &Machine) {
    for role in [Role::Serve, Role::Bench, Role::Both] {
        for driver in [DriverChoice::Auto, DriverChoice::Uring, DriverChoice::Epoll] {
            for connections in [1, 100_000, u32::MAX] {
                let extreme = connections == u32::MAX;
                let request = Request {
                    connections,
                    role,
                    driver,
                    workers: if extreme { u32::MAX } else { 1 },
                    max_backends: if extreme { u32::MAX } else { 0 },
                    back_log: if extreme { u32::MAX } else { 0 },
                    address_pairs: extreme.then_some(u32::MAX),
                };
                for finding in examine(machine, &request) {
                    assert!(!finding.to_string().is_empty());
                }
            }
        }
    }
}

#[test]
fn of_an_empty_folder_nothing_is_known_and_nothing_is_short() {
    let copy = Copy::empty();
    let machine = copy.machine();
    let findings = examine(&machine, &Request { driver: DriverChoice::Epoll, ..Request::default() });
    assert!(keys(&findings, Verdict::Short).is_empty(), "{findings:#?}");
    let unknown = keys(&findings, Verdict::Unknown);
    for key in ["open_files", "accept_queue", "syn_queue", "local_ports", "tcp_memory", "memory", "threads"] {
        assert!(unknown.contains(&key), "{key} is not unknown: {unknown:?}");
    }
    judge(&machine);
}

#[test]
fn any_file_may_be_missing() {
    for name in ALL {
        let copy = Copy::of(name);
        for path in files(&recorded(name)) {
            let text = copy.text(&path);
            copy.remove(&path);
            judge(&copy.machine());
            copy.write(&path, text.as_bytes());
        }
    }
}

#[test]
fn any_file_may_hold_anything() {
    let garbage: [&[u8]; 12] = [
        b"",
        b"\n",
        b"\0\xff\xfe\x80\n\r\t",
        b"-1",
        b"18446744073709551615",
        b"18446744073709551615 18446744073709551615 18446744073709551615",
        b"0 0 0",
        b"99999999999999999999999999",
        b"max max",
        b"0-18446744073709551615,5-3,,-,x",
        b"[",
        "\u{fffd}[\u{1f40c}] kB".as_bytes(),
    ];
    for name in ["squeezed", "tuned"] {
        let copy = Copy::of(name);
        for path in files(&recorded(name)) {
            let text = copy.text(&path);
            for bytes in garbage {
                copy.write(&path, bytes);
                judge(&copy.machine());
            }
            copy.write(&path, text.as_bytes());
        }
    }
}

#[test]
fn numbers_of_any_size_in_the_right_places_do_no_harm() {
    let digits = |text: &str, number: &str| {
        let mut changed = String::new();
        let mut in_number = false;
        for character in text.chars() {
            if !character.is_ascii_digit() {
                changed.push(character);
            } else if !in_number {
                changed.push_str(number);
            }
            in_number = character.is_ascii_digit();
        }
        changed
    };
    for name in ALL {
        let copy = Copy::of(name);
        for path in files(&recorded(name)) {
            let text = copy.text(&path);
            for number in ["0", "1", "9223372036854775807", "18446744073709551615"] {
                copy.write(&path, digits(&text, number).as_bytes());
                judge(&copy.machine());
            }
            copy.write(&path, text.as_bytes());
        }
    }
}

#[test]
fn a_folder_in_place_of_a_file_is_no_file() {
    let copy = Copy::of("tuned");
    copy.remove("proc/sys/net/core/somaxconn");
    copy.write("proc/sys/net/core/somaxconn/inside", b"4096");
    let findings = examine(&copy.machine(), &Request::default());
    assert!(keys(&findings, Verdict::Unknown).contains(&"accept_queue"));
}
