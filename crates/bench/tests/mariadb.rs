//! The load generator against a real server.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests start servers and wait for them"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod server;

use std::process::Command;

use serde_json::Value;
use server::{PASSWORD, Server, USER};

const CONNECTIONS: u64 = 8;

/// Statements that may have come back after the measured time was over, a probe, and a client's own.
const SLACK: u64 = CONNECTIONS + 10;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// The words with the server's TCP address and account.
fn with_account(server: &Server, line: &str) -> Vec<String> {
    let mut words = words(&format!("{line} --port {} --user {USER} --password", server.port));
    words.push(PASSWORD.to_owned());
    words
}

fn bench(server: &Server, line: &str) -> u8 {
    bench::status(&with_account(server, line))
}

/// Runs and returns the exit code with the JSON report.
fn run(server: &Server, line: &str) -> (u8, Value) {
    let path = server.path("report.json");
    let _ = std::fs::remove_file(&path);
    let code = bench(server, &format!("run {line} --json {}", path.display()));
    let text = std::fs::read_to_string(&path).unwrap();
    (code, serde_json::from_str(&text).unwrap())
}

fn count(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer} in {report:#}"))
}

/// What the server counts, in the same order and grouping as the report.
fn counters(server: &Server) -> [u64; 3] {
    let sum = |names: &[&str]| names.iter().map(|name| server.status(name)).sum();
    [
        sum(&["Com_select"]),
        sum(&["Com_insert", "Com_update", "Com_delete"]),
        sum(&["Com_begin", "Com_commit", "Com_rollback"]),
    ]
}

fn assert_counts(server: &Server, before: [u64; 3], report: &Value, line: &str) {
    let after = counters(server);
    // What a transaction had done before it failed is not reported: 20 statements at most (oltp_read_write).
    let errors: u64 =
        report["errors"].as_array().into_iter().flatten().map(|error| count(error, "/count")).sum();
    let slack = SLACK + 20 * errors;
    for (index, name) in ["read", "write", "other"].iter().enumerate() {
        let reported = count(report, &format!("/queries/{name}"));
        let counted = after[index] - before[index];
        assert!(
            (reported..=reported + slack).contains(&counted),
            "{line}: {name}: the report says {reported}, the server {counted}"
        );
    }
}

fn run_and_compare(server: &Server, line: &str) -> Value {
    let before = counters(server);
    let (code, report) = run(server, &format!("{line} --connections {CONNECTIONS} --time 1"));
    assert_eq!(code, 0, "{line}: {report:#}");
    assert_counts(server, before, &report, line);
    assert!(count(&report, "/events/total") > 0, "{line}");
    assert_eq!(count(&report, "/wrong_answers"), 0, "{line}");
    report
}

#[test]
fn workloads_without_tables() {
    let server = Server::start();
    for protocol in ["", "--prepared"] {
        run_and_compare(&server, &format!("echo {protocol}"));
        let before = server.status("Connections");
        let report = run_and_compare(&server, &format!("connect {protocol}"));
        let connected = server.status("Connections") - before;
        let events = count(&report, "/events/total");
        // Reading the counters before and after takes a connection for each of them.
        let slack = SLACK + 2 * 6;
        assert!((events..=events + slack).contains(&connected), "{events} events, {connected} connections");
    }
    // Over the Unix socket, and as an account without a password.
    let socket = server.socket();
    let code =
        bench::status(&words(&format!("run echo --time 1 --connections 4 --socket {}", socket.display())));
    assert_eq!(code, 0);
}

#[test]
fn hundreds_of_connections_on_each_driver() {
    let server = Server::start();
    assert_eq!(bench(&server, "prepare --table-size 1000"), 0);
    let mut drivers = vec!["epoll"];
    match drivers::probe_uring() {
        Ok(()) => drivers.push("uring"),
        Err(reason) => eprintln!("without io_uring: {reason}"),
    }
    for driver in drivers {
        let before = counters(&server);
        let locals = "--local-address 127.0.0.1,127.0.0.2,127.0.0.3";
        let line =
            format!("point_select --table-size 1000 --connections 300 --time 1 {locals} --driver {driver}");
        let (code, report) = run(&server, &line);
        assert_eq!(code, 0, "{report:#}");
        let read = count(&report, "/queries/read");
        // Those that were out at the end, and the probe.
        let counted = counters(&server)[0] - before[0];
        assert!((read..=read + 300 + SLACK).contains(&counted), "{read} reported, {counted} counted");
        assert_eq!(report["driver"], driver);
        assert_eq!(count(&report, "/connected"), 300);
        assert_eq!(count(&report, "/wrong_answers"), 0);
        assert_eq!(report["errors"], Value::Array(Vec::new()));
        assert_eq!(report["connecting_errors"], Value::Array(Vec::new()));
        assert_eq!(report["local_addresses"].as_array().unwrap().len(), 3);
        assert!(count(&report, "/events_per_connection/min") > 0, "{report:#}");
        assert!(count(&report, "/resident_memory") > 0);

        let (code, report) = run(&server, &format!("connect --connections 300 --time 1 --driver {driver}"));
        assert_eq!(code, 0, "{report:#}");
        assert!(count(&report, "/events/total") > 0);
        assert_eq!(report["errors"], Value::Array(Vec::new()));
    }
    let (code, report) = run(&server, "echo --connections 2 --time 0.2");
    assert_eq!(code, 0);
    let kind = if drivers::probe_uring().is_ok() { "uring" } else { "epoll" };
    assert_eq!((&report["driver"], &report["options"]["driver"]), (&kind.into(), &"auto".into()));
}

#[test]
fn an_account_is_tried_from_each_local_address() {
    let server = Server::start();
    server.query("CREATE USER narrow@'127.0.0.1'; GRANT ALL ON *.* TO narrow@'127.0.0.1'");
    let line = format!("run echo --time 0.2 --user narrow --password= --port {}", server.port);
    assert_eq!(bench::status(&words(&line)), 0);
    assert_eq!(bench::status(&words(&format!("{line} --local-address 127.0.0.1,127.0.0.2"))), 1);
}

#[test]
fn the_ledger_stays_in_balance() {
    let server = Server::start();
    assert_eq!(bench(&server, "prepare ledger --table-size 20"), 0);
    for protocol in ["", "--prepared"] {
        run_and_compare(&server, &format!("ledger --table-size 20 {protocol}"));
    }
    assert_eq!(bench(&server, "check"), 0);
    assert_eq!(server.query("SELECT SUM(balance) FROM sbtest.ledger"), "20000");
    server.query("UPDATE sbtest.ledger SET balance = balance + 1 WHERE id = 7");
    assert_eq!(bench(&server, "check"), 1);
    assert_eq!(bench(&server, "cleanup ledger"), 0);
    assert_eq!(server.query("SHOW TABLES FROM sbtest"), "");
}

#[test]
fn events_and_rates_are_limits() {
    let server = Server::start();
    let (code, report) = run(&server, "echo --connections 5 --events 500 --time 60");
    assert_eq!((code, count(&report, "/events/total")), (0, 500));
    // Random arrivals at 200 a second for 2 seconds: 400, give or take five times the root of it.
    let (code, report) = run(&server, "echo --connections 20 --rate 200 --time 2 --warmup 0.5 --seed 4");
    let events = count(&report, "/events/total") + count(&report, "/not_begun");
    assert_eq!(code, 0);
    assert!((300..=500).contains(&events), "{events}");
}

#[test]
fn errors_end_a_run_with_their_reason() {
    let server = Server::start();
    let port = server.port;
    assert_eq!(bench(&server, "run point_select --tables 3"), 1, "no tables");
    assert_eq!(bench(&server, "run point_select --db nothing_there"), 1, "no schema");
    assert_eq!(bench::status(&words(&format!("run echo --port {port} --user {USER} --password wrong"))), 1);
    assert_eq!(bench::status(&words("run echo --host 127.0.0.1 --port 1")), 1, "nobody listens");
    assert_eq!(bench::status(&words("run echo --conections 5")), 2);
    // One more than the server takes, beside the account with SUPER that may always come in.
    let (code, report) = run(&server, "echo --connections 600 --time 1");
    assert_eq!(code, 1);
    assert!(report["failure"].as_str().unwrap().contains("1040"), "{report:#}");
    assert!(
        report["failure"].as_str().unwrap().contains("of 600 connections could not be made"),
        "{report:#}"
    );
    assert!(count(&report, "/connected") >= 490, "{report:#}");
    assert_eq!(report["connecting_errors"][0]["code"], 1040);
    // A duplicate key is not among the errors that are ignored.
    assert_eq!(bench(&server, "prepare"), 0);
    assert_eq!(bench(&server, "prepare"), 1, "the table is there already");
}

#[test]
fn sysbench_and_this_program_use_each_others_tables() {
    let server = Server::start();
    let definition = || {
        let definition = server.query("SHOW CREATE TABLE sbtest.sbtest1");
        // The next id: sysbench lets the server count, which leaves gaps.
        let (front, rest) = definition.split_once(" AUTO_INCREMENT=").unwrap();
        format!("{front}{}", rest.trim_start_matches(|character: char| character.is_ascii_digit()))
    };
    let shapes = || {
        server.query(
            "SELECT COUNT(*) FROM sbtest.sbtest1 WHERE c REGEXP '^([0-9]{11}-){9}[0-9]{11}$' \
             AND pad REGEXP '^([0-9]{11}-){4}[0-9]{11}$' AND k BETWEEN 1 AND 2000",
        )
    };
    sysbench(&server, "prepare");
    let theirs = definition();
    assert_eq!(shapes(), "2000");
    run_and_compare(&server, "oltp_read_write --table-size 2000 --ignore-errors all");
    assert_eq!(bench(&server, "cleanup"), 0);

    assert_eq!(bench(&server, "prepare --table-size 2000"), 0);
    assert_eq!(definition(), theirs);
    assert_eq!(shapes(), "2000");
    sysbench(&server, "run");
    sysbench(&server, "cleanup");
    assert_eq!(server.query("SHOW TABLES FROM sbtest"), "");
}

fn sysbench(server: &Server, command: &str) {
    let output = Command::new("sysbench")
        .args(["oltp_read_write", "--table-size=2000", "--threads=2", "--time=1", "--mysql-user=root"])
        .arg("--mysql-ignore-errors=all")
        .arg(format!("--mysql-socket={}", server.socket().display()))
        .arg(command)
        .output()
        .expect("this test needs sysbench: apt-get install sysbench");
    assert!(output.status.success(), "sysbench {command}: {}", String::from_utf8_lossy(&output.stdout));
}

/// `make test` leaves these out.
mod at_length {
    use super::*;

    #[test]
    fn every_workload_sends_what_it_reports() {
        let server = Server::start();
        let tables = "--tables 2 --table-size 5000";
        assert_eq!(bench(&server, &format!("prepare {tables}")), 0);
        assert_eq!(
            server
                .query("SELECT COUNT(*), MIN(id), MAX(id), MIN(k) >= 1, MAX(k) <= 5000 FROM sbtest.sbtest2"),
            "5000\t1\t5000\t1\t1"
        );
        for workload in [
            "point_select",
            "select",
            "update_index",
            "update_non_index",
            "update_non_index_trx",
            "oltp_read_only",
            "oltp_read_write",
            "oltp_write_only",
            "insert",
        ] {
            for protocol in ["", "--prepared"] {
                run_and_compare(&server, &format!("{workload} {tables} {protocol} --ignore-errors all"));
            }
        }
        let report = run_and_compare(&server, &format!("point_select {tables} --rand-type uniform"));
        assert_eq!(
            count(&report, "/rows"),
            count(&report, "/queries/read"),
            "each point select finds its row"
        );
        let report = run_and_compare(&server, &format!("oltp_read_only {tables} --rand-type zipfian"));
        let transactions = count(&report, "/events/total");
        assert!(count(&report, "/queries/read") >= 14 * transactions);

        assert_eq!(bench(&server, "cleanup --tables 2"), 0);
        assert_eq!(server.query("SHOW TABLES FROM sbtest"), "");
    }

    #[test]
    fn a_restart_of_the_server_is_survived() {
        let mut server = Server::start();
        let path = server.path("report.json");
        let line = format!(
            "run echo --connections 20 --time 600 --events 20000 --rate 2000 --json {}",
            path.display()
        );
        let arguments = with_account(&server, &line);
        let runner = std::thread::spawn(move || bench::status(&arguments));
        // The load is on, and the 20,000 events take 10 seconds at least.
        while server.status("Com_select") < 500 {
            assert!(!runner.is_finished(), "the load has ended before");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        server.crash_and_restart();
        assert_eq!(runner.join().unwrap(), 0);
        let report: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(count(&report, "/events/total"), 20_000);
        assert_eq!(count(&report, "/reconnects"), 20);
        let lost = report["errors"].as_array().unwrap().iter().find(|error| error["code"] == 2013);
        assert!(count(lost.unwrap(), "/count") >= 20, "{report:#}");
    }
}
