//! Kinds of statements: which cost the server most, which waited most, which ended in errors.

use std::collections::{BTreeMap, HashSet};

use engine::{Digest, DigestCost, DigestView};
use serde_json::{Value, json};

use super::crowd::Filter;
use super::top::Top;
use crate::admin_port::values::{digest_name, micros};
use crate::history::{Costly, History, Measure};
use crate::kinds::Kinds;

/// Rows of each list.
const ROWS: usize = 15;

/// The dearest by each measure, of the minutes from `from` to `to`, in milliseconds since 1970; where that is the present, the minute
/// that is under way is among them.
pub(super) fn json(
    kinds: &Kinds,
    history: &History,
    filter: &Filter,
    (from, to): (u64, u64),
    present: bool,
) -> Value {
    let costs: Vec<_> = kinds.iter().map(|kind| cost(&kind.digest)).collect();
    let of = |measure| {
        let mut all: BTreeMap<u64, Costly> = BTreeMap::new();
        let lately = present.then(|| history.costly_now(measure, &costs));
        let kept = history.costly(measure, from, to);
        for costly in lately.into_iter().flatten().chain(kept) {
            let known = all.entry(costly.fingerprint).or_default();
            known.fingerprint = costly.fingerprint;
            known.cost += costly.cost;
            known.count += costly.count;
        }
        let mut top = Top::new(ROWS);
        for costly in all.values().filter(|costly| passes(kinds, costly.fingerprint, filter)) {
            top.put(costly.cost as u64, || row(kinds, measure, costly));
        }
        top.finish()
    };
    json!({ "time": of(Measure::Time), "wait": of(Measure::Wait), "errors": of(Measure::Errors) })
}

/// The texts of those that are named in other tables.
pub(super) fn texts(kinds: &Kinds, named: &HashSet<String>) -> Value {
    let texts = kinds.iter().filter_map(|kind| {
        let name = digest_name(kind.digest.fingerprint?);
        let text = kind.digest.text.as_deref()?;
        named.contains(&name).then(|| (name, Value::from(text)))
    });
    Value::Object(texts.collect())
}

fn passes(kinds: &Kinds, fingerprint: u64, filter: &Filter) -> bool {
    let text = kinds.get(one(fingerprint)).and_then(|kind| kind.digest.text.as_deref());
    filter.has(text.unwrap_or_default()) || filter.has(&digest_name(fingerprint))
}

fn row(kinds: &Kinds, measure: Measure, costly: &Costly) -> Value {
    let cost = match measure {
        Measure::Time => "time_us",
        Measure::Wait => "wait_us",
        Measure::Errors => "errors",
    };
    let name = one(costly.fingerprint).map(digest_name);
    let mut row = json!({ "digest": name, "count": costly.count as u64, cost: costly.cost as u64 });
    if let Some(DigestView { digest, taken_for, .. }) = kinds.get(one(costly.fingerprint)) {
        row["text"] = json!(digest.text.as_deref());
        row["p50_us"] = json!(micros(digest.quantile(0.5)));
        row["p99_us"] = json!(micros(digest.quantile(0.99)));
        row["max_us"] = json!(micros(digest.execution.max()));
        row["max_wait_us"] = json!(micros(digest.wait.max()));
        row["rows_sent"] = json!(digest.rows_sent);
        row["all"] = json!(digest.count);
        row["taken_for"] = json!(taken_for.names().collect::<Vec<_>>());
    }
    row
}

/// In the history, those that are counted together have the number 0.
fn one(fingerprint: u64) -> Option<u64> {
    (fingerprint != 0).then_some(fingerprint)
}

fn cost(digest: &Digest) -> DigestCost {
    DigestCost {
        fingerprint: digest.fingerprint.unwrap_or(0),
        count: digest.count,
        errors: digest.errors,
        time: micros(digest.execution.sum()),
        wait: micros(digest.wait.sum()),
    }
}
