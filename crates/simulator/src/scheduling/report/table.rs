//! Tables of figures, for the terminal and for Markdown.

use super::super::figures::{Figure, Histogram, Unit};
use super::super::{Class, Run};

/// A table: a heading for each column, and rows as wide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The headings.
    pub head: Vec<String>,
    /// The rows; the first cell is the row's name.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// The key figures of a scenario: a row for each, a column for each profile.
    pub fn of_figures(results: &[Run]) -> Self {
        let mut head = vec![String::new()];
        head.extend(results.iter().map(|result| result.profile.name()));
        let figures = results.first().map_or(&[][..], |result| &result.figures);
        let row = |(index, figure): (usize, &Figure)| {
            let cells = results.iter().map(|result| value(&result.figures[index]));
            std::iter::once(figure.name.to_owned()).chain(cells).collect()
        };
        Self { head, rows: figures.iter().enumerate().map(row).collect() }
    }

    /// What became of the statements of each class under each profile.
    pub fn of_classes(results: &[Run]) -> Self {
        let head = [
            "statements",
            "profile",
            "per second",
            "wait p50",
            "p99",
            "max",
            "response p50",
            "p99",
            "max",
            "errors",
            "given up",
            "unanswered",
        ];
        let mut rows = Vec::new();
        let classes = results.first().map_or(0, |result| result.outcome.classes.len());
        for class in 0..classes {
            for result in results {
                let seconds = result.outcome.measured as f64 / 1e6;
                rows.push(class_row(&result.outcome.classes[class], &result.profile.name(), seconds));
            }
        }
        Self { head: head.map(str::to_owned).to_vec(), rows }
    }

    /// With columns of equal width.
    pub fn to_text(&self) -> String {
        let all = || std::iter::once(&self.head).chain(&self.rows);
        let width = |column: usize| all().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = (0..self.head.len()).map(width).collect();
        let mut out = String::new();
        for row in all() {
            for (column, cell) in row.iter().enumerate() {
                let blanks = " ".repeat(widths[column] - cell.chars().count());
                let cell = if column == 0 { format!("{cell}{blanks}") } else { format!("  {blanks}{cell}") };
                out.push_str(&cell);
            }
            out.truncate(out.trim_end().len());
            out.push('\n');
        }
        out
    }

    /// As Markdown.
    pub fn to_markdown(&self) -> String {
        let line = |row: &Vec<String>| format!("| {} |\n", row.join(" | "));
        let rule = vec!["---".to_owned(); self.head.len()];
        let rows: String = self.rows.iter().map(line).collect();
        format!("{}{}{rows}", line(&self.head), line(&rule))
    }
}

fn class_row(class: &Class, profile: &str, seconds: f64) -> Vec<String> {
    let times = |histogram: &Histogram| {
        [histogram.per_mille(500), histogram.per_mille(990), histogram.longest()].map(time)
    };
    let mut row = vec![class.name.to_owned(), profile.to_owned(), number(class.done() as f64 / seconds)];
    row.extend(times(&class.waited));
    row.extend(times(&class.response));
    let errors: Vec<_> = class.errors.iter().map(|(code, count)| format!("{count} x {code}")).collect();
    row.push(errors.join(", "));
    row.extend(
        [class.given_up, class.unanswered]
            .map(|count| if count == 0 { String::new() } else { count.to_string() }),
    );
    row
}

/// A figure with its unit.
pub fn value(figure: &Figure) -> String {
    match figure.unit {
        Unit::Seconds => time((figure.value * 1e6).round() as u64),
        Unit::Times => format!("{} x", three_digits(figure.value)),
        Unit::Percent => format!("{} %", three_digits(figure.value)),
        Unit::PerSecond => format!("{}/s", number(figure.value)),
        Unit::Count => number(figure.value),
    }
}

/// A time in the unit in which it is easy to read.
pub fn time(micros: u64) -> String {
    match micros {
        0 => "0".to_owned(),
        1..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{} ms", three_digits(micros as f64 / 1e3)),
        _ => format!("{} s", three_digits(micros as f64 / 1e6)),
    }
}

/// A count.
pub fn count(count: u64) -> String {
    number(count as f64)
}

fn three_digits(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A count, with commas between thousands where it is large.
fn number(value: f64) -> String {
    if value < 100.0 && value.fract() != 0.0 {
        return three_digits(value);
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(
            [0, 950, 1_234, 45_678, 222_000_000].map(time),
            ["0", "950 us", "1.23 ms", "45.7 ms", "222 s"]
        );
        assert_eq!(number(1_234_567.0), "1,234,567");
        assert_eq!(number(0.25), "0.25");
        assert_eq!(value(&Figure::percent("", 1.0, 3.0)), "33.3 %");
    }

    #[test]
    fn columns_stand_below_each_other() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let table = Table { head: row(["", "native"]), rows: vec![row(["waits", "1 s"])] };
        assert_eq!(table.to_text(), "       native\nwaits     1 s\n");
        assert_eq!(table.to_markdown(), "|  | native |\n| --- | --- |\n| waits | 1 s |\n");
    }
}
