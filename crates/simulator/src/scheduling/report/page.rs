//! The generated part of docs/SCHEDULING.md, and its pictures.

use std::fmt::Write as _;

use super::super::figures::WINDOW;
use super::super::scenario::Picture;
use super::super::{Run, Scenario};
use super::chart::{self, Bar, Line};
use super::table::{self, Table};

/// What begins and ends the generated part of the page.
pub const BEGIN: &str = "<!-- Written by `make scheduling`: begin -->";
/// See [`BEGIN`].
pub const END: &str = "<!-- Written by `make scheduling`: end -->";

/// The generated part: each scenario with its figures.
pub fn section(seed: u64, runs: &[(Scenario, Vec<Run>)]) -> String {
    let mut out = format!("Seed {seed}.\n");
    for (scenario, results) in runs {
        let _ = write!(
            out,
            "\n## {}\n\n`{}`: {} clients, {}, a server with {} cores, {} seconds.\n\n{}\n\n",
            scenario.title,
            scenario.name,
            table::count(u64::from(scenario.clients())),
            if scenario.workers == 1 {
                "1 worker".to_owned()
            } else {
                format!("{} workers", scenario.workers)
            },
            scenario.server.cores,
            scenario.length.as_secs(),
            wrapped(scenario.story)
        );
        let _ = write!(out, "![{}](scheduling/{}.svg)\n\n", picture_title(scenario, results), scenario.name);
        out.push_str(&Table::of_figures(results).to_markdown());
        let _ = write!(
            out,
            "\n<details><summary>All statements</summary>\n\n{}\n</details>\n",
            Table::of_classes(results).to_markdown()
        );
    }
    out
}

/// A page with its generated part in the place of the former one; `None` where it has no place for it.
pub fn with_section(page: &str, section: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{section}\n{END}{after}"))
}

/// The picture of a scenario.
pub fn picture(scenario: &Scenario, results: &[Run]) -> String {
    let title = picture_title(scenario, results);
    match scenario.picture {
        Picture::FirstFigure => {
            let bars: Vec<_> = results
                .iter()
                .map(|result| Bar {
                    name: result.profile.name(),
                    value: result.figures[0].value,
                    label: table::value(&result.figures[0]),
                })
                .collect();
            chart::bars(&title, &bars)
        }
        Picture::OverTime { class } => {
            let windows =
                usize::try_from(scenario.length.as_micros() / u128::from(WINDOW)).expect("a short run");
            // A value for each second, or as fine as the windows where the whole is short.
            let each = if windows > 300 { 5 } else { 2 };
            let step = each as f64 * WINDOW as f64 / 1e6;
            let line = |result: &Run| {
                let mut counts = result.outcome.class(class).answered.clone();
                counts.resize(windows, 0);
                let values =
                    counts.chunks(each).map(|chunk| f64::from(chunk.iter().sum::<u32>()) / step).collect();
                Line { name: result.profile.name(), values }
            };
            chart::lines(&title, step, &results.iter().map(line).collect::<Vec<_>>())
        }
    }
}

fn picture_title(scenario: &Scenario, results: &[Run]) -> String {
    match scenario.picture {
        Picture::FirstFigure => {
            let name =
                results.first().and_then(|result| result.figures.first()).map_or("", |figure| figure.name);
            format!("{}: {name}", scenario.title)
        }
        Picture::OverTime { class } => format!("{}: answers to \"{class}\" per second", scenario.title),
    }
}

/// Lines of at most 120 characters.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        if length > 0 && length + 1 + word.len() > 120 {
            out.push('\n');
            length = 0;
        } else if length > 0 {
            out.push(' ');
            length += 1;
        }
        out.push_str(word);
        length += word.len();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_generated_part_of_a_page_changes() {
        let page = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        assert_eq!(
            with_section(&page, "new\n").unwrap(),
            format!("before\n{BEGIN}\n\nnew\n\n{END}\nafter\n")
        );
        assert_eq!(with_section("no place", "new"), None);
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        let lines = wrapped(&"word ".repeat(60));
        assert!(lines.lines().all(|line| line.len() <= 120) && lines.lines().count() == 3, "{lines}");
    }
}
