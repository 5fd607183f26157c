//! What is advised, done: it has to help.

use doctor::{Check, Remedy, Request, Role, Verdict, examine};
use drivers::DriverChoice;

use crate::support::{Copy, finding, keys};

fn requests() -> Vec<Request> {
    let mut requests = Vec::new();
    for connections in [1000, 50_000, 100_000] {
        for role in [Role::Serve, Role::Bench, Role::Both] {
            // Two pairs are enough for the widest range.
            let address_pairs = Some(2);
            let driver = DriverChoice::Epoll;
            requests.push(Request { connections, role, address_pairs, driver, ..Request::default() });
        }
    }
    requests
}

/// The text of `--print-sysctl`.
fn printed(copy: &Copy, request: &Request) -> String {
    let words = [
        "--print-sysctl".to_owned(),
        format!("--root={}", copy.path().display()),
        format!("--connections={}", request.connections),
        format!("--role={}", request.role),
        format!("--driver={}", request.driver),
        "--address-pairs=2".to_owned(),
    ];
    let mut out = Vec::new();
    assert_eq!(doctor::status(&words, false, &mut out), doctor::SHORT);
    String::from_utf8(out).unwrap()
}

#[test]
fn the_printed_file_lifts_every_limit_that_is_a_setting() {
    for request in requests() {
        let copy = Copy::of("squeezed");
        let before = examine(&copy.machine(), &request);
        let mut applied = 0;
        for line in printed(&copy, &request).lines() {
            // As sysctl.d(5) has it: remarks begin with # or ;.
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, value) = line.split_once(" = ").unwrap();
            assert!(key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)), "{line}");
            assert!(value.split(' ').all(|number| number.parse::<u64>().is_ok()), "{line}");
            copy.set(key, value);
            applied += 1;
        }
        assert!(applied > 0, "{request:?}");
        let after = examine(&copy.machine(), &request);
        for (before, after) in before.iter().zip(&after) {
            let is_setting = before.remedies.iter().any(|remedy| remedy.kind() == "sysctl");
            let is_all = before.remedies.iter().all(|remedy| remedy.kind() != "unit");
            if before.verdict == Verdict::Short && is_setting && is_all {
                assert_eq!(after.verdict, Verdict::Ok, "{request:?}: {before:#?} {after:#?}");
            }
        }
    }
}

#[test]
fn what_is_no_setting_stands_in_remarks() {
    let request = Request { driver: DriverChoice::Epoll, ..Request::default() };
    let text = printed(&Copy::of("squeezed"), &request);
    for line in ["#   LimitNOFILE=100215", "#   TasksMax=4096", "# vm.swappiness = 10", "#   [Service]"] {
        assert!(text.lines().any(|other| other == line), "{line} is missing:\n{text}");
    }
    assert!(text.contains("/etc/tmpfiles.d"), "{text}");
}

#[test]
fn on_a_tuned_machine_the_file_sets_nothing_and_says_what_was_looked_at() {
    let copy = Copy::of("tuned");
    let words = ["--print-sysctl".to_owned(), format!("--root={}", copy.path().display())];
    let mut out = Vec::new();
    assert_eq!(doctor::status(&words, false, &mut out), doctor::FINE);
    let text = String::from_utf8(out).unwrap();
    assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')), "{text}");
    assert!(text.contains("#   net.core.somaxconn (65,535, 4,096 needed)"), "{text}");
}

#[test]
fn hints_that_are_settings_help_too() {
    let request = Request::default();
    let copy = Copy::of("squeezed");
    let before = examine(&copy.machine(), &request);
    for finding in &before {
        for remedy in &finding.remedies {
            if let Remedy::Sysctl { key, value } = remedy {
                copy.set(key, value);
            }
        }
    }
    let after = examine(&copy.machine(), &request);
    // What is no setting of the system is left.
    assert_eq!(keys(&after, Verdict::Hint), ["open_files", "huge_pages", "cpu_quota"]);
    assert_eq!(keys(&after, Verdict::Short), ["memory", "threads"]);
}

#[test]
fn the_lines_of_the_unit_help() {
    let request = Request { driver: DriverChoice::Epoll, ..Request::default() };
    let copy = Copy::of("container");
    let value = |check, name: &str| {
        let finding = finding(&copy.machine(), &request, check);
        let line = finding.remedies.iter().filter_map(Remedy::lasting).map(|(line, _)| line);
        let mut values = line.filter_map(|line| line.strip_prefix(name).map(str::to_owned));
        values.next_back().unwrap_or_else(|| panic!("{name} is missing: {finding:#?}"))
    };
    let files = value(Check::OpenFiles, "LimitNOFILE=");
    let threads = value(Check::Threads, "TasksMax=");
    let memory = value(Check::Memory, "MemoryMax=");
    let mebibytes: u64 = memory.strip_suffix('M').unwrap().parse().unwrap();
    copy.write("proc/self/limits", format!("Max open files  {files}  {files}  files\n").as_bytes());
    copy.write("sys/fs/cgroup/pids.max", threads.as_bytes());
    copy.write("sys/fs/cgroup/memory.max", (mebibytes << 20).to_string().as_bytes());
    for check in [Check::OpenFiles, Check::Threads, Check::Memory] {
        assert_eq!(finding(&copy.machine(), &request, check).verdict, Verdict::Ok, "{check:?}");
    }
}
