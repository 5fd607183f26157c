use clap::Parser as _;

use super::*;
use crate::errors::{Failure, IgnoreErrors};
use crate::generator::Memory;
use crate::machine::ProcessorTime;
use crate::options::{Action, CommandLine};
use crate::statistics::{Fairness, Statistics};
use crate::workload::statement::Kind;

fn options(line: &str) -> RunOptions {
    let words = ["onramp bench", "run"].into_iter().chain(line.split_whitespace());
    match CommandLine::try_parse_from(words).unwrap().action {
        Action::Run(options) => *options,
        other => panic!("{other:?}"),
    }
}

fn context(options: &RunOptions) -> Context<'_> {
    let machine = Machine { cores: 2, kernel: "Linux 6.18".to_owned(), processor: String::new() };
    Context { options, seed: 42, driver: DriverKind::Epoll, local_addresses: &[], machine, version: "0.1.0" }
}

fn outcome() -> Outcome {
    let mut statistics = Statistics::default();
    for milliseconds in 1..=100 {
        statistics.record_event(Duration::from_millis(milliseconds));
        statistics.record_query(Kind::Read, 1);
    }
    statistics.record_query(Kind::Write, 0);
    statistics.record_error(&Failure { code: 1213, text: "Deadlock found".to_owned() });
    statistics.record_error(&Failure { code: 1213, text: "Deadlock found".to_owned() });
    Outcome {
        statistics,
        measured: Duration::from_secs(2),
        connected: 64,
        memory: Memory { before: 1_000_000, connected: 1_064_000, measured: 2_500_000 },
        processor: ProcessorTime {
            total: Duration::from_micros(1010),
            user: Duration::from_micros(202),
            system: Duration::from_micros(808),
        },
        fairness: Some(Fairness { min: 1, median: 2, max: 3 }),
        server_version: "10.11.6-MariaDB".to_owned(),
        ..Outcome::default()
    }
}

#[test]
fn an_interval_line_is_like_that_of_sysbench() {
    let line = interval_line(&Interval {
        period: &outcome().statistics.interval,
        passed: Duration::from_secs(2),
        elapsed: Duration::from_secs(5),
        up: 64,
        warming_up: false,
    });
    assert_eq!(
        line,
        "[ 5s ] conns: 64 tps: 50.00 qps: 50.50 (r/w/o: 50.00/0.50/0.00) lat (ms,95%): 95.04 err/s: 1.00 reconn/s: 0.00"
    );
}

#[test]
fn the_summary_names_the_figures() {
    let options = options("--connections 64");
    let text = summary(&outcome(), &context(&options));
    for expected in [
        "point_select with 64 connections (text protocol) on 10.11.6-MariaDB, 2.000 s measured, seed 42",
        "total:         101 (50.50 per sec.)",
        "transactions:      100 (50.00 per sec.)",
        "errors:            2",
        "1213: 2, such as \"Deadlock found\"",
        "min 1, median 2, max 3",
        "epoll, 0.001 s of processor time, 10.00 us per query (2.00 user, 8.00 system)",
        "2.5 MB resident, 1000 bytes for each of 64 idle connections, which stood after 0.000 s, from the system's choice",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in:\n{text}");
    }
    assert!(!text.contains("WRONG") && !text.contains("while connecting"));
}

#[test]
fn what_went_wrong_before_the_load_is_told_apart() {
    let mut outcome = outcome();
    outcome.connecting_errors.record(&Failure { code: 2013, text: "reset".to_owned() });
    let options = options("");
    let text = summary(&outcome, &context(&options));
    assert!(
        text.contains("errors while connecting: 1\n    2013: 1, such as \"reset\"\nerrors:            2\n"),
        "{text}"
    );
    assert_eq!(to_json(&outcome, &context(&options))["connecting_errors"][0]["code"], 2013);
}

#[test]
fn storms_of_connects_name_their_rate() {
    let options = options("connect");
    let text = summary(&outcome(), &context(&options));
    assert!(text.contains("connects:          100 (50.00 per sec.)") && !text.contains("idle"), "{text}");
}

#[test]
fn the_addresses_that_were_used_are_named() {
    let options = options("");
    let locals = ["127.0.0.1", "127.0.0.2", "127.0.0.3"].map(|local| local.parse().unwrap());
    let context = Context { local_addresses: &locals, ..context(&options) };
    assert!(summary(&outcome(), &context).contains("from 3 local addresses, 127.0.0.1 to 127.0.0.3"));
    assert_eq!(to_json(&outcome(), &context)["local_addresses"][2], "127.0.0.3");
}

#[test]
fn wrong_answers_stand_out() {
    let mut outcome = outcome();
    outcome.statistics.record_mismatch(|| "connection 3 got 5".to_owned());
    let options = options("echo");
    assert!(
        summary(&outcome, &context(&options))
            .contains("WRONG ANSWERS:     1, such as\n    connection 3 got 5")
    );
    assert_eq!(to_json(&outcome, &context(&options))["wrong_answers"], 1);
}

#[test]
fn starved_connections_stand_out() {
    let options = options("");
    let without = summary(&outcome(), &context(&options));
    assert!(!without.contains("STARVED"), "{without}");
    let outcome = Outcome { starved: 32, ..outcome() };
    let text = summary(&outcome, &context(&options));
    assert!(text.contains("STARVED:           32 connections got no event done\n"), "{text}");
    assert_eq!(to_json(&outcome, &context(&options))["starved"], 32);
}

#[test]
fn json_has_the_figures_and_no_password() {
    let options = options("oltp_read_write --password hidden --rate 5 --rand-type zipfian");
    let json = to_json(&outcome(), &context(&options));
    assert_eq!(json["options"]["workload"], "oltp_read_write");
    assert_eq!(json["options"]["rand_type"], "zipfian");
    assert_eq!(json["options"]["rate"], 5.0);
    assert_eq!(json["queries"]["per_second"], 50.5);
    assert_eq!(json["errors"][0]["count"], 2);
    assert_eq!(json["events_per_connection"]["max"], 3);
    assert_eq!(json["machine"]["cores"], 2);
    assert_eq!(json["driver"], "epoll");
    assert_eq!((&json["connected"], &json["resident_memory"]), (&64.into(), &2_500_000.into()));
    assert_eq!(json["memory_per_connection"], 1000);
    let system = json["processor_system_micros_per_query"].as_f64().unwrap();
    assert!((system - 8.0).abs() < 1e-9, "{system}");
    let p50 = json["latency"]["p50"].as_f64().unwrap();
    assert!((p50 / 50.0 - 1.0).abs() < 0.001, "{p50}");
    assert!(!json.to_string().contains("hidden"));
    assert_eq!(options.ignore_errors, IgnoreErrors::Codes(vec![1213, 1020, 1205]));
}
