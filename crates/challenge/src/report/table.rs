//! The report on a terminal.

use super::summary::{Row, failures, rows, sentences, verdict};
use super::{Ending, Figures, Outcome, Report, Usage, text};

const HEAD: [&str; 10] = [
    "",
    "connections",
    "queries/s",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "fair share",
    "p95/fair",
    "memory",
    "us/query",
];

/// All figures as a table, and what follows from them.
pub(crate) fn render(report: &Report) -> String {
    let rows = rows(report);
    let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let mut widths: Vec<usize> = HEAD.iter().map(|name| name.chars().count()).collect();
    // What came in between is a text that may run on: it widens no column.
    for row in cells.iter().filter(|row| row.len() == HEAD.len()) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in &cells {
        widths[0] = widths[0].max(row[0].chars().count());
    }
    let mut out = String::new();
    if !rows.is_empty() {
        out.push_str(&line(&HEAD.map(String::from), &widths));
        for row in &cells {
            out.push_str(&line(row, &widths));
        }
        out.push_str(
            "\nmemory: the most that Onramp had resident, the server itself where it was measured directly;\n\
             us/query: processor time of Onramp + server + load generator for each query\n",
        );
    }
    if let Some(idle) = &report.idle {
        out.push_str(&format!(
            "\n{} silent clients: {}\n",
            text::grouped(u64::from(idle.clients)),
            text::idle(idle)
        ));
    }
    out.push('\n');
    for sentence in failures(report).into_iter().chain(sentences(report, &verdict(&rows))) {
        out.push_str(&format!("{sentence}\n"));
    }
    if let Some(cores) = report.setup.server_cpus {
        out.push_str(&format!(
            "{} held to {cores} cores; Onramp and load generator had the rest.\n",
            if report.setup.servers > 1 { "Each server was" } else { "The server was" }
        ));
    }
    for note in &report.notes {
        out.push_str(&format!("note: {note}\n"));
    }
    if let Some(ending) = ending(&report.ending) {
        out.push_str(&format!("{ending}\n"));
    }
    out
}

/// Why the report is not whole; `None` where it is.
pub(crate) fn ending(ending: &Ending) -> Option<String> {
    match ending {
        Ending::Complete => None,
        Ending::Interrupted => {
            Some(String::from("Interrupted: the report holds what was measured until then."))
        }
        Ending::TimeLimit => Some(String::from(
            "The time limit (--time-limit) left no room for all steps: some were left out.",
        )),
        Ending::Failed(reason) => Some(format!("Ended early: {reason}")),
    }
}

fn cells(row: &Row) -> Vec<String> {
    let name = String::from(row.series.name());
    let connections = text::grouped(u64::from(row.connections));
    match &row.outcome {
        Outcome::Measured(figures) => measured(row, figures, name, connections),
        outcome @ (Outcome::Refused(_) | Outcome::Skipped(_)) => {
            vec![name, connections, text::outcome(outcome)]
        }
    }
}

fn measured(row: &Row, figures: &Figures, name: String, connections: String) -> Vec<String> {
    let mut remarks = String::new();
    if figures.errors > 0 {
        remarks.push_str(&format!(" ({} errors)", text::grouped(figures.errors)));
    }
    if figures.starved > 0 {
        remarks.push_str(&format!(" ({} without an answer)", text::grouped(figures.starved)));
    }
    vec![
        name,
        connections,
        text::rounded(figures.queries_per_second) + &remarks,
        text::milliseconds(figures.p50),
        text::milliseconds(figures.p95),
        text::milliseconds(figures.p99),
        text::milliseconds(figures.fair_share),
        format!("{:.2}", figures.p95_over_fair_share),
        memory(row, figures).map_or_else(|| String::from("-"), |bytes| text::bytes(bytes as f64)),
        processor(figures),
    ]
}

/// The peak of what the series is about: Onramp, or the server itself.
pub(crate) fn memory(row: &Row, figures: &Figures) -> Option<u64> {
    let usage = if row.series == super::Series::Onramp { figures.onramp } else { figures.server };
    usage.map(|usage| usage.resident_peak)
}

fn processor(figures: &Figures) -> String {
    let parts = [figures.onramp, figures.server, figures.load];
    let shown: Vec<String> =
        parts.iter().flatten().map(Usage::per_query).map(|micros| format!("{micros:.1}")).collect();
    if shown.is_empty() { String::from("-") } else { shown.join("+") }
}

/// The first column to the left, the others to the right.
fn line(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    let whole = cells.len() == widths.len();
    for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
        match index {
            0 => line.push_str(&format!("{cell:<width$}")),
            2 if !whole => line.push_str(&format!("  {cell}")),
            _ => line.push_str(&format!("  {cell:>width$}")),
        }
    }
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{recorded, with_starved_clients};

    #[test]
    fn the_table_is_as_it_was() {
        let expected = include_str!("../../tests/recorded/table.txt");
        let table = render(&recorded());
        if std::env::var_os("UPDATE_RECORDED").is_some() {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/table.txt"), &table).unwrap();
            return;
        }
        assert_eq!(table, expected, "UPDATE_RECORDED=1 writes it anew");
    }

    #[test]
    fn clients_without_an_answer_stand_beside_the_throughput() {
        let table = render(&with_starved_clients());
        assert!(table.contains("1,000 (1,200 without an answer)"), "{table}");
    }

    #[test]
    fn an_early_end_is_said() {
        let mut report = recorded();
        report.ending = Ending::Interrupted;
        assert!(render(&report).ends_with("Interrupted: the report holds what was measured until then.\n"));
        report.ending = Ending::Failed(String::from("no disk"));
        assert!(render(&report).ends_with("Ended early: no disk\n"));
    }
}
