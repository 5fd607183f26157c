use clap::CommandFactory as _;

use super::*;

fn parse(line: &str) -> Result<CommandLine, clap::Error> {
    CommandLine::try_parse_from(std::iter::once("onramp bench").chain(line.split_whitespace()))
}

fn run(line: &str) -> RunOptions {
    match parse(&format!("run {line}")).unwrap().action {
        Action::Run(options) => *options,
        other => panic!("{other:?}"),
    }
}

fn message(line: &str) -> String {
    let error = parse(line).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
    error.to_string()
}

#[test]
fn the_declarations_are_consistent() {
    CommandLine::command().debug_assert();
}

#[test]
fn defaults_are_those_of_sysbench() {
    let options = run("");
    assert_eq!(options.tables.tables, 1);
    assert_eq!(options.tables.table_size, 10_000);
    assert_eq!(options.tables.rand_type, RandType::Special);
    assert_eq!(options.connections, 1);
    assert_eq!(options.time, Duration::from_secs(10));
    assert_eq!(options.tables.server.db, "sbtest");
    assert_eq!(options.ignore_errors, IgnoreErrors::Codes(vec![1213, 1020, 1205]));
}

#[test]
fn the_workload_is_a_word_or_an_option() {
    assert_eq!(run("oltp_read_write").tables.workload(), Workload::OltpReadWrite);
    assert_eq!(run("--workload ledger").tables.workload(), Workload::Ledger);
    assert_eq!(run("oltp_point_select").tables.workload(), Workload::PointSelect);
    assert_eq!(run("").tables.workload(), Workload::PointSelect);
    assert!(parse("run echo --workload ledger").is_err());
}

#[test]
fn lists_are_repeated_or_separated() {
    let options = run("--host a,b --host c --local-address 127.0.0.2,127.0.0.3 --threads 7");
    assert_eq!(options.tables.server.host, ["a", "b", "c"]);
    assert_eq!(options.tables.server.local_address.len(), 2);
    assert_eq!(options.connections, 7);
}

#[test]
fn wrong_names_get_the_nearest_one() {
    assert!(message("run --conections 5").contains("--connections"));
    assert!(message("run point_selct").contains("point_select"));
    assert!(message("rum").contains("run"));
    assert!(message("run --rand-type zipf").contains("zipfian"));
}

#[test]
fn values_out_of_range_are_refused() {
    for line in [
        "run --connections 0",
        "run --time -1",
        "run --time nan",
        "run --rate 0",
        "run --rate inf",
        "run --rand-pareto-h 1",
        "run --rand-zipfian-exp -0.5",
        "run --ignore-errors 1213,x",
        "run --port 0",
        "prepare --table-size 0",
    ] {
        assert!(!message(line).is_empty(), "{line}");
    }
    assert_eq!(run("--time 0.5 --think-time 20").time, Duration::from_millis(500));
}

#[test]
fn a_ledger_needs_two_accounts() {
    assert!(run("ledger --table-size 1").tables.check().is_err());
    assert!(run("ledger --table-size 2").tables.check().is_ok());
    assert!(run("read_own_writes --table-size 2 --connections 3").check().is_err());
    assert!(run("read_own_writes --table-size 3 --connections 3").check().is_ok());
}

#[test]
fn help_is_no_error() {
    for line in ["help", "--help", "run --help", "help prepare"] {
        assert_eq!(parse(line).unwrap_err().exit_code(), 0, "{line}");
    }
}

#[test]
fn debug_output_hides_the_password() {
    let options = run("--password hidden");
    assert_eq!(options.tables.server.password.reveal(), "hidden");
    assert!(!format!("{options:?}").contains("hidden"));
}
