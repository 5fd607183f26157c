//! Reports to test with, and the report as a whole.

use super::*;

/// The report of a real run, as it was written.
pub(crate) fn recorded() -> Report {
    serde_json::from_str(include_str!("../../tests/recorded/report.json")).unwrap()
}

/// A report with nothing measured.
pub(crate) fn report() -> Report {
    let mut report = recorded();
    report.steps.clear();
    report.idle = None;
    report.notes.clear();
    report
}

/// The figures of a step of 100 connections.
pub(crate) fn figures(queries_per_second: f64, p95: f64) -> Figures {
    let fair_share = 100.0 / queries_per_second * 1000.0;
    Figures {
        queries_per_second,
        p50: p95 / 2.0,
        p95,
        p99: p95 * 2.0,
        fair_share,
        p95_over_fair_share: p95 / fair_share,
        connecting: 0.5,
        errors: 0,
        error: String::new(),
        starved: 0,
        onramp: None,
        server: None,
        load: None,
        others: None,
    }
}

/// One step through Onramp in which not all clients got answers.
pub(crate) fn with_starved_clients() -> Report {
    let starved = Figures { starved: 1_200, ..figures(1000.0, 100.0) };
    let outcome = Outcome::Measured(Box::new(starved));
    let step = Step { series: Series::Onramp, round: 1, connections: 100_000, outcome };
    Report { steps: vec![step], ..report() }
}

#[test]
fn a_report_comes_back_as_it_was_written() {
    let text = to_json(&recorded());
    let again: Report = serde_json::from_str(&text).unwrap();
    assert_eq!(to_json(&again), text);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["schema"], SCHEMA);
    assert!(value["verdict"]["best"]["queries_per_second"].as_f64().unwrap() > 0.0);
}

#[test]
fn only_a_whole_run_without_errors_through_onramp_is_good() {
    let step = |series, outcome| Step { series, round: 1, connections: 100, outcome };
    let fine = || Outcome::Measured(Box::new(figures(1000.0, 100.0)));
    let mut report = report();
    report.ending = Ending::Complete;
    report.steps = vec![
        step(Series::Onramp, fine()),
        step(Series::DirectThreads, Outcome::Refused(String::from("1040"))),
    ];
    assert!(report.is_good(), "how far the server gets by itself is a result");
    report.ending = Ending::Interrupted;
    assert!(!report.is_good());
    report.ending = Ending::Complete;
    let wrong = Figures { errors: 1, ..figures(1000.0, 100.0) };
    report.steps.push(step(Series::Onramp, Outcome::Measured(Box::new(wrong))));
    assert!(!report.is_good());
    report.steps.pop();
    let starved = Figures { starved: 1, ..figures(1000.0, 100.0) };
    report.steps.push(step(Series::Onramp, Outcome::Measured(Box::new(starved))));
    assert!(!report.is_good());
    report.steps.pop();
    report.steps.push(step(Series::Onramp, Outcome::Skipped(String::from("time"))));
    assert!(!report.is_good());
}
