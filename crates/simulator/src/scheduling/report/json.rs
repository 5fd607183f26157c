//! The results as JSON, for programs.

use std::fmt::Write as _;

use super::super::figures::Histogram;
use super::super::{Class, Run, Scenario};

/// All scenarios with their results.
pub fn document(seed: u64, runs: &[(Scenario, Vec<Run>)]) -> String {
    let scenarios: Vec<_> =
        runs.iter().map(|(scenario, results)| scenario_object(scenario, results)).collect();
    format!("{{\n\"seed\": {seed},\n\"scenarios\": [\n{}\n]\n}}\n", scenarios.join(",\n"))
}

fn scenario_object(scenario: &Scenario, results: &[Run]) -> String {
    let results: Vec<_> = results.iter().map(result_object).collect();
    format!(
        "{{\"name\": {}, \"title\": {}, \"workers\": {}, \"cores\": {}, \"clients\": {}, \"results\": [\n{}\n]}}",
        text(scenario.name),
        text(scenario.title),
        scenario.workers,
        scenario.server.cores,
        scenario.clients(),
        results.join(",\n")
    )
}

fn result_object(result: &Run) -> String {
    let outcome = &result.outcome;
    let figures: Vec<_> = result
        .figures
        .iter()
        .map(|figure| {
            format!(
                "{{\"name\": {}, \"value\": {}, \"unit\": \"{:?}\"}}",
                text(figure.name),
                figure.value,
                figure.unit
            )
        })
        .collect();
    let classes: Vec<_> = outcome.classes.iter().map(class_object).collect();
    format!(
        "  {{\"profile\": {}, \"measured_seconds\": {}, \"begun\": {}, \"begun_for_nobody\": {}, \"logins\": {}, \
         \"refused_logins\": {}, \"longest_login_microseconds\": {}, \"backends\": {},\n   \"figures\": [{}],\n   \
         \"statements\": [\n{}]}}",
        text(&result.profile.name()),
        outcome.measured as f64 / 1e6,
        outcome.begun,
        outcome.for_nobody,
        outcome.logins,
        outcome.refused_logins,
        outcome.longest_login,
        outcome.backends,
        figures.join(", "),
        classes.join(",\n")
    )
}

fn class_object(class: &Class) -> String {
    let errors: Vec<_> = class.errors.iter().map(|(code, count)| format!("\"{code}\": {count}")).collect();
    format!(
        "    {{\"name\": {}, \"done\": {}, \"waited_microseconds\": {}, \"response_microseconds\": {}, \"errors\": {{{}}}, \
         \"given_up\": {}, \"unanswered\": {}}}",
        text(class.name),
        class.done(),
        times(&class.waited),
        times(&class.response),
        errors.join(", "),
        class.given_up,
        class.unanswered
    )
}

fn times(histogram: &Histogram) -> String {
    let shares = [("p50", 500), ("p95", 950), ("p99", 990), ("p99.9", 999)];
    let mut out = String::from("{");
    for (name, share) in shares {
        let _ = write!(out, "\"{name}\": {}, ", histogram.per_mille(share));
    }
    let _ = write!(out, "\"max\": {}}}", histogram.longest());
    out
}

/// A string. Names here are plain text without control characters.
fn text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
