use std::collections::BTreeSet;

use super::*;

#[test]
fn names_are_unique_and_well_formed_and_each_says_what_it_is() {
    let mut seen = BTreeSet::new();
    let of_counters = counted();
    let counters = of_counters.iter().map(|all| (all[0].1.name, help_of(&all[0].0, &all[0].1)));
    let digests = digests::ALL.iter().map(|family| (family.name, family.help));
    let all = families().map(|family| (family.name, family.help));
    for (name, help) in all.chain(counters).chain(digests) {
        assert!(seen.insert(name), "{name} is there twice");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert!(!name.ends_with("_total") && !name.starts_with(PREFIX), "{name}: that is added");
        assert!(help.ends_with('.') && help.len() > 5, "{name}: {help}");
    }
}

#[test]
fn counters_of_one_name_have_a_sentence_in_common_and_are_told_apart() {
    for counters in counted() {
        let name = counters[0].1.name;
        let common = families::IN_COMMON.iter().any(|(known, _)| *known == name);
        assert_eq!(common, counters.len() > 1, "{name}");
        let labels: BTreeSet<_> = counters.iter().map(|(_, metric)| metric.labels).collect();
        assert_eq!(labels.len(), counters.len(), "{name}");
        assert!(counters.iter().all(|(_, metric)| metric.grows == counters[0].1.grows), "{name}");
    }
}

/// Where the list stands.
const BEGIN: &str = "<!-- Written from the metrics' declarations by `make docs-admin`: begin -->\n";
const END: &str = "<!-- Written from the metrics' declarations by `make docs-admin`: end -->";

/// It is written by this test when UPDATE_DOCS is set, and compared with the declarations otherwise.
#[test]
fn the_manual_lists_the_metrics() {
    let path = std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/METRICS.md"));
    let page = std::fs::read_to_string(&path).expect("the manual is there");
    let (front, rest) = page.split_once(BEGIN).expect("the list has a beginning");
    let (_, back) = rest.split_once(END).expect("the list has an end");
    let wanted = format!("{front}{BEGIN}{}{END}{back}", list());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &wanted).expect("the manual can be written");
    }
    let page = std::fs::read_to_string(&path).expect("the manual is there");
    assert!(page == wanted, "docs/METRICS.md is not that of the metrics: run `make docs-admin`");
}

/// By name.
fn list() -> String {
    let mut rows: Vec<_> =
        families().map(of_family).chain(counted().iter().map(|all| of_counters(all))).collect();
    rows.extend(digests::ALL.iter().map(of_digests));
    rows.sort();
    format!(
        "| metric | kind | labels | what it says | in SHOW STATUS |\n|---|---|---|---|---|\n{}",
        rows.concat()
    )
}

fn of_family(family: &Family) -> String {
    let (kind, suffix) = match family.kind {
        Kind::Counter => ("counter", "_total"),
        Kind::Gauge => ("gauge", ""),
        Kind::Histogram => ("histogram", ""),
    };
    let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
    format!("| `{}{suffix}` | {kind} | {} | {} | |\n", named(family.name), labels.join(", "), family.help)
}

fn of_digests(family: &digests::PerDigest) -> String {
    format!(
        "| `{}_total` | counter | `digest` | {} At /metrics/digests. | |\n",
        named(family.name),
        family.help
    )
}

fn of_counters(all: &[(Counter, counters::Metric)]) -> String {
    let (first, metric) = &all[0];
    let (kind, suffix) = if metric.grows { ("counter", "_total") } else { ("gauge", "") };
    let of = |(_, metric): &(Counter, counters::Metric)| {
        metric.labels.iter().map(|(label, value)| format!("`{label}={value}`")).collect::<Vec<_>>().join(", ")
    };
    let labels: Vec<_> = all.iter().map(of).filter(|labels| !labels.is_empty()).collect();
    let names: Vec<_> = all.iter().map(|(counter, _)| format!("`{}`", counter.name)).collect();
    let (name, help) = (named(metric.name), help_of(first, metric));
    format!("| `{name}{suffix}` | {kind} | {} | {help} | {} |\n", labels.join(", "), names.join(", "))
}
