//! What is asked of the pages for operators: their links lead somewhere, each alert has its page, and whatever they name is there.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test stops at the first surprise"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Folders whose pages are for operators alone, and pages that stand by themselves.
const FOLDERS: [&str; 2] = ["docs/bad-days", "docs/moving"];
const PAGES: [&str; 2] = ["docs/FIRST_HOUR.md", "docs/TRIAL.md"];

/// Pages about other programs: only what their tables have under "Onramp" is Onramp's.
const ABOUT_OTHERS: &str = "docs/moving";

/// The servers' own words, and the system's, that these pages name.
const WORDS_OF_OTHERS: [&str; 5] =
    ["auth_socket", "caching_sha2_password", "mysql_native_password", "read_only", "tcp_wmem"];

/// Where names are declared that pages may use beside options, tables and metrics: reasons to pin and to wait, events, queues, members of a
/// trial's report.
const DECLARED_IN: [&str; 6] = [
    "crates/engine/src/session/pins.rs",
    "crates/sql/src/effects.rs",
    "crates/engine/src/outside/waits.rs",
    "crates/engine/src/outside/snapshot.rs",
    "crates/server/src/logging.rs",
    "crates/trial/src/json.rs",
];

#[test]
fn links_lead_somewhere() {
    let (mut followed, mut lost) = (0, Vec::new());
    for path in pages() {
        let text = read(&path);
        for target in links(&text).filter(|target| !target.contains("://")) {
            followed += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let to = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let there = to.exists() && (anchor.is_empty() || anchors(&read(&to)).contains(anchor));
            if !there {
                lost.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(followed > 30, "the links were not found");
    assert!(lost.is_empty(), "links that lead nowhere: {lost:#?}");
}

#[test]
fn each_alert_has_its_page() {
    let rules = read(&root().join("deploy/alerts.yml"));
    let alerts: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    assert!(alerts.len() > 5, "the alerts were not found");
    for alert in alerts {
        let name = alert.lines().next().unwrap().trim();
        let (_, rest) =
            alert.split_once("runbook: \"").unwrap_or_else(|| panic!("{name} has no runbook in alerts.yml"));
        let page = rest.split('"').next().unwrap();
        assert!(root().join(page).exists(), "the page of {name} is not there: {page}");
        let text = read(&root().join(page));
        assert!(text.contains(&format!("`{name}`")), "{page} does not name its alert {name}");
    }
}

#[test]
fn what_they_name_is_there() {
    let known = names();
    let (mut looked_at, mut unknown) = (0, Vec::new());
    for path in pages() {
        let text = read(&path);
        let about_others = path.starts_with(root().join(ABOUT_OTHERS));
        let said = if about_others { column_of_ours(&text) } else { text.clone() };
        for span in quoted(&said).filter(|span| !span.contains(['/', '.'])) {
            for word in words(span) {
                looked_at += 1;
                if !known.contains(word) && !WORDS_OF_OTHERS.contains(&word) {
                    unknown.push(format!("{}: {word}", path.display()));
                }
            }
        }
        // Wherever they stand, in blocks of what was seen too.
        for word in words(&text).filter(|word| word.starts_with("onramp_") || word.starts_with("Onramp_")) {
            let series = ["_bucket", "_count", "_sum"].iter().find_map(|end| word.strip_suffix(end));
            if !known.contains(word) && !series.is_some_and(|metric| known.contains(metric)) {
                unknown.push(format!("{}: {word}", path.display()));
            }
        }
    }
    assert!(looked_at > 100, "the names were not found");
    assert!(unknown.is_empty(), "names that nothing has: {unknown:#?}");
}

/// A series that a page shows has the labels that its metric has.
#[test]
fn series_have_the_labels_of_their_metrics() {
    let page = read(&root().join("docs/METRICS.md"));
    let metrics = page.lines().filter(|line| line.starts_with("| `")).filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        Some((cells.first()?.trim_matches('`'), *cells.get(2)?))
    });
    let metrics: BTreeMap<&str, &str> = metrics.collect();
    let (mut looked_at, mut wrong) = (0, Vec::new());
    for path in pages() {
        let text = read(&path);
        for line in text.lines().filter(|line| line.starts_with("    ")).map(str::trim) {
            let name = line.split([' ', '{']).next().unwrap();
            let plain =
                ["_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            let Some(labels) = metrics.get(name).or_else(|| metrics.get(plain)) else { continue };
            looked_at += 1;
            let has = line[name.len()..].starts_with('{');
            // Buckets have a label of their own.
            let should = !labels.is_empty() || name.ends_with("_bucket");
            let label = line[name.len()..].trim_start_matches('{').split('=').next().unwrap();
            let known = !has || label == "le" || labels.contains(label);
            if has != should || !known {
                wrong.push(format!("{}: {line}", path.display()));
            }
        }
    }
    assert!(looked_at > 30, "the series were not found");
    assert!(wrong.is_empty(), "series with other labels than their metrics have: {wrong:#?}");
}

/// A line of the log that a page shows is one that some source still writes, as far as three words of it and more are the same.
#[test]
fn lines_of_the_log_are_what_is_logged() {
    const FEWEST_WORDS: usize = 3;
    // The words of rustls, and of the system.
    const OF_OTHERS: &str = "received fatal alert\nConnection reset by peer";
    let written = sources() + OF_OTHERS;
    let (mut looked_at, mut unknown) = (0, Vec::new());
    for path in pages() {
        for line in read(&path).lines().map(str::trim) {
            let levels = ["INFO ", "WARN ", "ERROR "];
            let Some(said) = levels.iter().find_map(|level| line.strip_prefix(level)) else { continue };
            // A client's error of that name has a number, and may be the server's.
            if said.starts_with(|sign: char| sign.is_ascii_digit()) {
                continue;
            }
            let of_words = |sign: char| sign.is_ascii_alphabetic() || sign == ' ' || sign == '\'';
            let parts = said.split(|sign: char| !of_words(sign)).map(str::trim);
            let mut parts = parts.filter(|part| part.split(' ').count() >= FEWEST_WORDS).peekable();
            if parts.peek().is_some() {
                looked_at += 1;
                if !parts.any(|part| written.contains(part)) {
                    unknown.push(format!("{}: {line}", path.display()));
                }
            }
        }
    }
    assert!(looked_at > 15, "the lines were not found");
    assert!(unknown.is_empty(), "lines that nothing logs: {unknown:#?}");
}

/// Whoever reads a trial's report is told of each how to avoid it.
#[test]
fn a_trial_has_advice_for_each_reason_to_pin() {
    let mut reasons = Vec::new();
    for path in &DECLARED_IN[..2] {
        let text = read(&root().join(path));
        // The first list of names in each; those of the lexer's requests follow in one of them.
        let (_, list) = text.split_once("NAMES: [").unwrap();
        let (list, _) = list.split_once("];").unwrap();
        reasons.extend(list.split('"').skip(1).step_by(2).map(String::from));
    }
    assert!(reasons.len() > 20, "the reasons were not found");
    reasons.retain(|reason| reason != "thread_handling");
    let without: Vec<_> = reasons.iter().filter(|reason| trial::pins::advice(reason).is_none()).collect();
    assert!(without.is_empty(), "nothing is said of {without:?}");
}

/// Options, metrics, counters, tables of the admin port with their columns, and reasons, by the pages that are written from their
/// declarations, and by the declarations themselves.
fn names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let page = |name: &str| read(&root().join("docs").join(name));
    for line in page("OPTIONS.md").lines().chain(page("ADMIN.md").lines()) {
        names.extend(line.strip_prefix("### ").map(String::from));
    }
    for line in page("ADMIN.md").lines().chain(page("METRICS.md").lines()) {
        let row = line.strip_prefix("| ").filter(|row| row.starts_with('`'));
        names.extend(row.into_iter().flat_map(|row| quoted(row).flat_map(words).map(String::from)));
    }
    for path in DECLARED_IN {
        let text = read(&root().join(path));
        names.extend(text.split('"').skip(1).step_by(2).flat_map(words).map(String::from));
    }
    // Names of options that have two.
    names.insert(String::from("thread_pool_size"));
    assert!(names.len() > 300, "the names were not found");
    names
}

/// What stands under "Onramp" in a page's tables.
fn column_of_ours(text: &str) -> String {
    let mut column = None;
    let mut cells = Vec::new();
    for line in text.lines() {
        let row: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if !line.starts_with('|') {
            column = None;
        } else if let Some(place) = row.iter().position(|cell| *cell == "Onramp") {
            column = Some(place);
        } else if let Some(cell) = column.and_then(|place| row.get(place)) {
            cells.push(*cell);
        }
    }
    cells.join("\n")
}

/// Names with an underline in them, which no word of prose has.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    text.split(move |sign: char| !is_part(sign)).filter(|word| {
        word.trim_matches('_').contains('_') && word.starts_with(|first: char| first.is_ascii_alphabetic())
    })
}

/// What stands in backquotes within a line; blocks of code are left out.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    let mut in_block = false;
    let lines = text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence && !line.starts_with("    ")
    });
    lines.flat_map(|line| line.split('`').skip(1).step_by(2))
}

fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let anchor = |heading: &str| -> String {
        let kept = heading.to_lowercase().replace(' ', "-");
        kept.chars().filter(|sign| sign.is_alphanumeric() || *sign == '-').collect()
    };
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim_start())).collect()
}

/// All our sources, with texts that go on in the next line as one.
fn sources() -> String {
    let mut folders = vec![root().join("crates")];
    let mut all = String::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                all.extend(read(&path).split("\\\n").map(str::trim_start));
            }
        }
    }
    all
}

fn pages() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = PAGES.iter().map(|page| root().join(page)).collect();
    for folder in FOLDERS {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        found.extend(entries.map(|entry| entry.unwrap().path()));
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    found.sort();
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}
