//! Rounds brought together, and what follows from them.

use serde::{Deserialize, Serialize};

use super::{Figures, Outcome, Report, Series, Usage, text};

/// One series at one number of connections, over all rounds.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// What the clients were connected to.
    pub(crate) series: Series,
    /// How many there were.
    pub(crate) connections: u32,
    /// Medians of what was measured, or what came in between.
    pub(crate) outcome: Outcome,
    /// Rounds that were not measured where others were, and what came in between.
    pub(crate) missing: Vec<(u32, Outcome)>,
}

impl Row {
    /// The figures, where it was measured.
    pub(crate) fn figures(&self) -> Option<&Figures> {
        match &self.outcome {
            Outcome::Measured(figures) => Some(figures),
            Outcome::Refused(_) | Outcome::Skipped(_) => None,
        }
    }
}

/// All of them, series by series, from few connections to many.
pub(crate) fn rows(report: &Report) -> Vec<Row> {
    let mut keys: Vec<(Series, u32)> =
        report.steps.iter().map(|step| (step.series, step.connections)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().map(|(series, connections)| row(report, series, connections)).collect()
}

fn row(report: &Report, series: Series, connections: u32) -> Row {
    let steps = report.steps.iter().filter(|step| step.series == series && step.connections == connections);
    let mut measured = Vec::new();
    let mut missing = Vec::new();
    for step in steps {
        match &step.outcome {
            Outcome::Measured(figures) => measured.push(&**figures),
            outcome => missing.push((step.round, outcome.clone())),
        }
    }
    if measured.is_empty() && !missing.is_empty() {
        let (_, outcome) = missing.swap_remove(0);
        return Row { series, connections, outcome, missing: Vec::new() };
    }
    Row { series, connections, outcome: Outcome::Measured(Box::new(medians(&measured))), missing }
}

fn medians(rounds: &[&Figures]) -> Figures {
    let of = |field: fn(&Figures) -> f64| median(rounds.iter().map(|figures| field(figures)));
    let usage = |field: fn(&Figures) -> Option<Usage>| {
        let usages: Vec<Usage> = rounds.iter().filter_map(|figures| field(figures)).collect();
        (!usages.is_empty()).then(|| median_usage(&usages))
    };
    Figures {
        queries_per_second: of(|figures| figures.queries_per_second),
        p50: of(|figures| figures.p50),
        p95: of(|figures| figures.p95),
        p99: of(|figures| figures.p99),
        fair_share: of(|figures| figures.fair_share),
        p95_over_fair_share: of(|figures| figures.p95_over_fair_share),
        connecting: of(|figures| figures.connecting),
        errors: rounds.iter().map(|figures| figures.errors).sum(),
        error: rounds
            .iter()
            .map(|figures| &figures.error)
            .find(|error| !error.is_empty())
            .cloned()
            .unwrap_or_default(),
        starved: rounds.iter().map(|figures| figures.starved).max().unwrap_or(0),
        onramp: usage(|figures| figures.onramp),
        server: usage(|figures| figures.server),
        load: usage(|figures| figures.load),
        others: {
            let others: Vec<f64> = rounds.iter().filter_map(|figures| figures.others).collect();
            (!others.is_empty()).then(|| median(others.into_iter()))
        },
    }
}

fn median_usage(usages: &[Usage]) -> Usage {
    let of = |field: fn(&Usage) -> f64| median(usages.iter().map(field));
    Usage {
        resident: of(|usage| usage.resident as f64) as u64,
        resident_peak: of(|usage| usage.resident_peak as f64) as u64,
        user: of(|usage| usage.user),
        system: of(|usage| usage.system),
        over: of(|usage| usage.over),
        user_per_query: of(|usage| usage.user_per_query),
        system_per_query: of(|usage| usage.system_per_query),
    }
}

/// The middle one, or the mean of the two in the middle; 0 of nothing.
fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_unstable_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match (numbers.get(middle), numbers.len() % 2) {
        (None, _) => 0.0,
        (Some(upper), 0) => f64::midpoint(numbers[middle - 1], *upper),
        (Some(number), _) => *number,
    }
}

/// A result of one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Result {
    /// What the clients were connected to.
    pub(crate) series: Series,
    /// How many there were.
    pub(crate) connections: u32,
    /// Queries per second.
    pub(crate) queries_per_second: f64,
    /// p95 in milliseconds.
    pub(crate) p95: f64,
    /// How it compares with the fair share.
    pub(crate) p95_over_fair_share: f64,
    /// The most memory that Onramp had, in bytes.
    pub(crate) onramp_resident: u64,
}

/// What the figures say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// The step through Onramp with the most throughput.
    pub(crate) best: Option<Result>,
    /// The step through Onramp with the most clients.
    pub(crate) largest: Option<Result>,
    /// What share of its best throughput Onramp keeps there, from 0 to 1.
    pub(crate) kept: Option<f64>,
    /// The direct step with the most throughput.
    pub(crate) best_direct: Option<Result>,
    /// Throughput of the largest step through Onramp over that.
    pub(crate) against_best_direct: Option<f64>,
    /// The direct step with the most connections, the faster one where two series have it.
    pub(crate) largest_direct: Option<Result>,
    /// Steps through Onramp with errors, with clients that got no answer, refused, or left out, in any round.
    pub(crate) bad_steps: usize,
}

/// What follows from the rows.
pub(crate) fn verdict(rows: &[Row]) -> Verdict {
    let onramp: Vec<Result> = results(rows, |series| series == Series::Onramp);
    let direct: Vec<Result> = results(rows, |series| series != Series::Onramp);
    let fastest = |results: &[Result]| {
        results.iter().max_by(|a, b| a.queries_per_second.total_cmp(&b.queries_per_second)).cloned()
    };
    let largest = |results: &[Result]| {
        let most = results.iter().map(|result| result.connections).max();
        let widest: Vec<Result> =
            results.iter().filter(|result| Some(result.connections) == most).cloned().collect();
        fastest(&widest)
    };
    let ratio = |result: &Option<Result>, to: &Option<Result>| {
        let (result, to) = (result.as_ref()?, to.as_ref()?);
        (to.queries_per_second > 0.0).then(|| result.queries_per_second / to.queries_per_second)
    };
    let best = fastest(&onramp);
    let widest = largest(&onramp);
    let best_direct = fastest(&direct);
    let is_bad = |row: &&Row| {
        let is_bad = row.figures().is_none_or(|figures| !figures.is_good()) || !row.missing.is_empty();
        row.series == Series::Onramp && is_bad
    };
    Verdict {
        kept: ratio(&widest, &best),
        against_best_direct: ratio(&widest, &best_direct),
        best,
        largest: widest,
        largest_direct: largest(&direct),
        best_direct,
        bad_steps: rows.iter().filter(is_bad).count(),
    }
}

fn results(rows: &[Row], wanted: impl Fn(Series) -> bool) -> Vec<Result> {
    let rows = rows.iter().filter(|row| wanted(row.series));
    rows.filter_map(|row| {
        let figures = row.figures()?;
        Some(Result {
            series: row.series,
            connections: row.connections,
            queries_per_second: figures.queries_per_second,
            p95: figures.p95,
            p95_over_fair_share: figures.p95_over_fair_share,
            onramp_resident: figures.onramp.map_or(0, |usage| usage.resident_peak),
        })
    })
    .collect()
}

/// The verdict in sentences.
pub(crate) fn sentences(report: &Report, verdict: &Verdict) -> Vec<String> {
    if let Some(failover) = &report.failover {
        return failover.sentences();
    }
    let mut sentences = Vec::new();
    if let Some(knee) = &report.knee {
        sentences.push(format!(
            "Useful maximum: {} ({} queries/s, p95 {} ms). {}",
            text::connections(knee.connections),
            text::rounded(knee.throughput),
            text::milliseconds(knee.latency),
            knee.reason
        ));
        return sentences;
    }
    if let (Some(best), Some(largest)) = (&verdict.best, &verdict.largest) {
        sentences.push(at_the_largest(best, largest, verdict.kept.unwrap_or(0.0)));
    }
    if let (Some(best), Some(largest), Some(ratio)) =
        (&verdict.best_direct, &verdict.largest, verdict.against_best_direct)
    {
        sentences.push(format!(
            "Without Onramp the server is at its best with {} connections{}: {} queries/s. Onramp with {} clients \
             answers {ratio:.2} times that.",
            text::grouped(u64::from(best.connections)),
            best.series.threads(),
            text::rounded(best.queries_per_second),
            text::grouped(u64::from(largest.connections)),
        ));
    }
    sentences.extend(ends_of_direct_series(report));
    sentences.extend(others(report));
    sentences
}

/// What went wrong on the way through Onramp, which is what the run is about.
pub(crate) fn failures(report: &Report) -> Vec<String> {
    let onramp = rows(report).into_iter().filter(|row| row.series == Series::Onramp);
    let faults = report.failover.as_ref().map(|failover| failover.faults()).unwrap_or_default();
    onramp.flat_map(|row| failures_of(&row)).chain(faults).collect()
}

fn failures_of(row: &Row) -> Vec<String> {
    let connections = text::grouped(u64::from(row.connections));
    let mut failures = Vec::new();
    match &row.outcome {
        Outcome::Refused(reason) => {
            failures
                .push(format!("{connections} clients were not reached: {}.", reason.trim_end_matches('.')));
        }
        Outcome::Measured(figures) => failures.extend(failures_among(figures, &connections)),
        Outcome::Skipped(_) => {}
    }
    for (round, outcome) in &row.missing {
        if let Outcome::Refused(reason) = outcome {
            failures.push(format!(
                "In round {round} {connections} clients were not reached: {}.",
                reason.trim_end_matches('.')
            ));
        }
    }
    failures
}

fn failures_among(figures: &Figures, connections: &str) -> Vec<String> {
    let mut failures = Vec::new();
    if figures.errors > 0 {
        failures.push(format!(
            "With {connections} clients there were {} errors, such as: {}.",
            text::grouped(figures.errors),
            figures.error.trim_end_matches('.')
        ));
    }
    if figures.starved > 0 {
        failures.push(format!(
            "With {connections} clients {} of them got no answer in all of the measured time, and no latency shows it.",
            text::grouped(figures.starved)
        ));
    }
    failures
}

fn at_the_largest(best: &Result, largest: &Result, kept: f64) -> String {
    let place = if best.connections == largest.connections {
        String::from("its best of all steps")
    } else {
        format!(
            "{:.0} % of its best ({} with {})",
            100.0 * kept,
            text::rounded(best.queries_per_second),
            text::grouped(u64::from(best.connections))
        )
    };
    format!(
        "With {} clients Onramp answers {} queries/s, {place}; p95 is {} ms, {:.2} times the fair share; it takes {} of \
         memory.",
        text::grouped(u64::from(largest.connections)),
        text::rounded(largest.queries_per_second),
        text::milliseconds(largest.p95),
        largest.p95_over_fair_share,
        text::bytes(largest.onramp_resident as f64)
    )
}

/// Whether the machine had other work.
fn others(report: &Report) -> Option<String> {
    /// Of a core: system services, and this program itself, which reads what others use.
    const NEGLIGIBLE: f64 = 0.15;
    let of = |step: &super::Step| match &step.outcome {
        Outcome::Measured(figures) => figures.others,
        Outcome::Refused(_) | Outcome::Skipped(_) => None,
    };
    let most = report.steps.iter().filter_map(of).fold(0.0, f64::max);
    (most > NEGLIGIBLE).then(|| {
        format!(
            "Other programs took up to {most:.1} of the machine's {} cores meanwhile: figures of a quiet machine are better.",
            report.machine.cores
        )
    })
}

/// How far each direct series got.
fn ends_of_direct_series(report: &Report) -> Vec<String> {
    let rows = rows(report);
    let mut sentences = Vec::new();
    for series in Series::ALL.into_iter().filter(|series| *series != Series::Onramp) {
        let last = rows.iter().rfind(|row| row.series == series && row.figures().is_some());
        if let Some((row, figures)) = last.and_then(|row| Some((row, row.figures()?))) {
            let memory = figures.server.map_or_else(String::new, |usage| {
                format!(" and {} of memory", text::bytes(usage.resident_peak as f64))
            });
            sentences.push(format!(
                "With {} connections{} it is at {} queries/s, with p95 at {} ms{memory}.",
                text::grouped(u64::from(row.connections)),
                series.threads(),
                text::rounded(figures.queries_per_second),
                text::milliseconds(figures.p95)
            ));
        }
        let refused = rows.iter().find_map(|row| match &row.outcome {
            Outcome::Refused(reason) if row.series == series => Some((row.connections, reason)),
            _ => None,
        });
        if let Some((connections, reason)) = refused {
            sentences.push(format!(
                "It did not take {} connections{}: {}.",
                text::grouped(u64::from(connections)),
                series.threads(),
                reason.trim_end_matches('.')
            ));
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Step;
    use crate::report::tests::{figures, report};

    fn step(series: Series, connections: u32, round: u32, outcome: Outcome) -> Step {
        Step { series, round, connections, outcome }
    }

    fn measured(throughput: f64) -> Outcome {
        Outcome::Measured(Box::new(figures(throughput, 100.0)))
    }

    #[test]
    fn rounds_become_medians() {
        for (numbers, expected) in
            [(&[][..], 0.0), (&[3.0][..], 3.0), (&[1.0, 9.0][..], 5.0), (&[9.0, 1.0, 2.0][..], 2.0)]
        {
            assert_eq!(median(numbers.iter().copied()), expected);
        }
        let mut report = report();
        report.steps = vec![
            step(Series::Onramp, 10, 1, measured(100.0)),
            step(Series::Onramp, 10, 2, measured(300.0)),
            step(Series::Onramp, 10, 3, Outcome::Refused(String::from("1040"))),
            step(Series::DirectPool, 10, 1, Outcome::Refused(String::from("1040"))),
        ];
        let rows = rows(&report);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].figures().unwrap().queries_per_second, 200.0);
        assert_eq!(rows[0].missing.len(), 1);
        assert!(rows[1].figures().is_none() && rows[1].missing.is_empty());
    }

    #[test]
    fn a_round_that_was_refused_is_said_beside_those_that_were_measured() {
        let mut report = report();
        report.steps = vec![
            step(Series::Onramp, 10, 1, measured(100.0)),
            step(Series::Onramp, 10, 2, Outcome::Refused(String::from("Lost."))),
            step(Series::Onramp, 10, 3, Outcome::Skipped(String::from("refused before"))),
            step(Series::Onramp, 5, 1, measured(100.0)),
            step(Series::Onramp, 5, 2, Outcome::Skipped(String::from("--time-limit"))),
            step(Series::Onramp, 1, 1, measured(100.0)),
            step(Series::Direct, 10, 1, measured(100.0)),
            step(Series::Direct, 10, 2, Outcome::Refused(String::from("1040"))),
        ];
        assert_eq!(failures(&report), ["In round 2 10 clients were not reached: Lost."]);
        assert_eq!(verdict(&rows(&report)).bad_steps, 2);
        assert!(!report.is_good());
    }

    #[test]
    fn the_verdict_compares_the_largest_step_with_the_best_ones() {
        let mut report = report();
        report.steps = vec![
            step(Series::Onramp, 1_000, 1, measured(200.0)),
            step(Series::Onramp, 100_000, 1, measured(150.0)),
            step(Series::DirectThreads, 16, 1, measured(300.0)),
            step(Series::DirectThreads, 4_000, 1, measured(40.0)),
            step(Series::DirectPool, 4_000, 1, measured(60.0)),
            step(Series::DirectPool, 15_000, 1, Outcome::Refused(String::from("too many connections"))),
        ];
        let verdict = verdict(&rows(&report));
        assert_eq!(verdict.kept, Some(0.75));
        assert_eq!(verdict.against_best_direct, Some(0.5));
        let largest_direct = verdict.largest_direct.clone().unwrap();
        assert_eq!((largest_direct.series, largest_direct.connections), (Series::DirectPool, 4_000));
        assert_eq!(verdict.bad_steps, 0);
        let sentences = sentences(&report, &verdict).join("\n");
        assert!(sentences.contains("75 % of its best (200 with 1,000)"), "{sentences}");
        assert!(
            sentences.contains("It did not take 15,000 connections and its own thread pool: too many"),
            "{sentences}"
        );
    }

    #[test]
    fn what_went_wrong_through_onramp_is_said() {
        let mut report = report();
        let wrong = Figures { errors: 2_000, error: String::from("Lost."), ..figures(10.0, 1.0) };
        let starved = Figures { starved: 12, ..figures(10.0, 1.0) };
        report.steps = vec![
            step(Series::Onramp, 10, 1, measured(200.0)),
            step(Series::Onramp, 20, 1, Outcome::Measured(Box::new(wrong))),
            step(Series::Onramp, 25, 1, Outcome::Measured(Box::new(starved))),
            step(Series::Onramp, 30, 1, Outcome::Refused(String::from("1040"))),
            step(Series::Direct, 30, 1, Outcome::Refused(String::from("1040"))),
        ];
        assert_eq!(
            failures(&report),
            [
                "With 20 clients there were 2,000 errors, such as: Lost.",
                "With 25 clients 12 of them got no answer in all of the measured time, and no latency shows it.",
                "30 clients were not reached: 1040."
            ]
        );
        assert_eq!(verdict(&rows(&report)).bad_steps, 3);
    }

    #[test]
    fn nothing_measured_says_nothing() {
        let mut report = report();
        report.steps.clear();
        let verdict = verdict(&rows(&report));
        assert!(verdict.kept.is_none() && verdict.best.is_none());
        assert!(sentences(&report, &verdict).is_empty());
    }
}
