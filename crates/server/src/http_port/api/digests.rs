//! Kinds of statements: which cost the server most, which waited most, which ended in errors.

use std::collections::{BTreeMap, HashMap, HashSet};

use engine::{Digest, DigestCost, DigestView, TakenFor};
use serde_json::{Value, json};

use super::crowd::Filter;
use super::top::Top;
use crate::admin_port::values::{digest_name, micros};
use crate::http_port::ring::{Costly, Measure, Ring};

/// Rows of each list.
const ROWS: usize = 15;

/// Those of all workers together.
#[derive(Default)]
pub(super) struct Kinds(HashMap<u64, (Digest, TakenFor)>);

impl Kinds {
    /// Takes in what a worker knows of one.
    pub(super) fn put(&mut self, view: DigestView) {
        match self.0.entry(view.digest.fingerprint.unwrap_or(0)) {
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert((view.digest, view.taken_for));
            }
            std::collections::hash_map::Entry::Occupied(mut entry) => {
                let (digest, taken_for) = entry.get_mut();
                *digest += &view.digest;
                *taken_for |= view.taken_for;
            }
        }
    }

    /// The dearest by each measure, of the minutes from `from` to `to`, in milliseconds since 1970; where that is the present, the minute
    /// that is under way is among them.
    pub(super) fn json(&self, ring: &Ring, filter: &Filter, from: u64, to: u64, present: bool) -> Value {
        let costs: Vec<_> = self.0.values().map(|(digest, _)| cost(digest)).collect();
        let of = |measure| {
            let mut all: BTreeMap<u64, Costly> = BTreeMap::new();
            let lately = present.then(|| ring.costly_now(measure, &costs));
            let kept = ring.costly(measure, from, to);
            for costly in lately.into_iter().flatten().chain(kept) {
                let known = all.entry(costly.fingerprint).or_default();
                known.fingerprint = costly.fingerprint;
                known.cost += costly.cost;
                known.count += costly.count;
            }
            let mut top = Top::new(ROWS);
            for costly in all.values().filter(|costly| self.passes(costly.fingerprint, filter)) {
                top.put(costly.cost as u64, || self.row(measure, costly));
            }
            top.finish()
        };
        json!({ "time": of(Measure::Time), "wait": of(Measure::Wait), "errors": of(Measure::Errors) })
    }

    /// The texts of those that are named in other tables.
    pub(super) fn texts(&self, named: &HashSet<String>) -> Value {
        let texts = self.0.values().filter_map(|(digest, _)| {
            let name = digest_name(digest.fingerprint?);
            let text = digest.text.as_deref()?;
            named.contains(&name).then(|| (name, Value::from(text)))
        });
        Value::Object(texts.collect())
    }

    fn passes(&self, fingerprint: u64, filter: &Filter) -> bool {
        let text = self.0.get(&fingerprint).and_then(|(digest, _)| digest.text.as_deref());
        filter.has(text.unwrap_or_default()) || filter.has(&digest_name(fingerprint))
    }

    fn row(&self, measure: Measure, costly: &Costly) -> Value {
        let cost = match measure {
            Measure::Time => "time_us",
            Measure::Wait => "wait_us",
            Measure::Errors => "errors",
        };
        let name = (costly.fingerprint != 0).then(|| digest_name(costly.fingerprint));
        let mut row = json!({ "digest": name, "count": costly.count as u64, cost: costly.cost as u64 });
        if let Some((digest, taken_for)) = self.0.get(&costly.fingerprint) {
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
