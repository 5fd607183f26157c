//! /metrics/digests: what the digests of statements cost that the server has had most work with.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::{Digest, DigestView};
use prometheus_client::metrics::MetricType;
use seam::Signal;
use web::{Answer, ContentType};

use super::{Collected, CollectedFamily, Figure, named, owned, text_of};
use crate::admin_port::digest_name;
use crate::ask::{Ask, Look, Sight};
use crate::control::Control;
use crate::kinds::Kinds;

/// So many at most: with five figures each they are 250 series, and what is behind the fiftieth is seldom worth a chart.
const MOST: usize = 50;

/// What was seen serves everybody for so long: a worker has some thousand digests, and copies them for it.
const KEPT: Duration = Duration::from_secs(5);

/// A figure of each digest. All of them only grow.
pub(super) struct PerDigest {
    /// Without what all names begin with, and without `_total`.
    pub(super) name: &'static str,
    /// A sentence.
    pub(super) help: &'static str,
    figure: fn(&Digest) -> Figure,
}

/// All of them.
pub(super) const ALL: &[PerDigest] = &[
    PerDigest {
        name: "digest_statements",
        help: "Statements of a digest that the server has answered.",
        figure: |digest| Figure::Count(digest.count),
    },
    PerDigest {
        name: "digest_errors",
        help: "Those of them that it has answered with an error.",
        figure: |digest| Figure::Count(digest.errors),
    },
    PerDigest {
        name: "digest_seconds",
        help: "What the server has taken for them.",
        figure: |digest| Figure::Number(digest.execution.sum().as_secs_f64()),
    },
    PerDigest {
        name: "digest_wait_seconds",
        help: "How long they have waited before they ran.",
        figure: |digest| Figure::Number(digest.wait.sum().as_secs_f64()),
    },
    PerDigest {
        name: "digest_rows_sent",
        help: "Rows that they have brought.",
        figure: |digest| Figure::Count(digest.rows_sent),
    },
];

/// What each worker knows of digests, by its number.
type Known = BTreeMap<usize, Vec<DigestView>>;

/// Answers with the metrics of digests.
pub(in crate::http_port) struct Digests {
    control: Arc<Control>,
    last: Mutex<Option<Seen>>,
}

struct Seen {
    known: Known,
    text: Arc<str>,
    taken: Instant,
}

impl Digests {
    pub(in crate::http_port) fn new(control: Arc<Control>) -> Self {
        Self { control, last: Mutex::new(None) }
    }

    /// What /metrics/digests answers.
    pub(in crate::http_port) fn answer(&self) -> Answer {
        Answer::of(ContentType::Metrics, self.text().as_bytes().to_vec())
    }

    /// The last one, or one that is taken now. Those who come meanwhile wait for the same.
    fn text(&self) -> Arc<str> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = last.as_ref().filter(|seen| seen.taken.elapsed() < KEPT) {
            return Arc::clone(&seen.text);
        }
        let known = look(&self.control, last.take().map(|seen| seen.known).unwrap_or_default());
        let text: Arc<str> = text_of(collected(&known)).into();
        *last = Some(Seen { known, text: Arc::clone(&text), taken: Instant::now() });
        text
    }
}

/// Of a worker that does not answer, what it said last: what only grows must not shrink in between.
fn look(control: &Control, mut known: Known) -> Known {
    let what = Look { digests: true, ..Look::default() };
    let mut answers = control.ask(Signal::Look, |answer| Ask::Look { what, answer });
    let mut told: Known = Known::new();
    while let Some((worker, sight)) = answers.next() {
        if let Sight::Digests(found) = sight {
            told.entry(worker).or_default().extend(found);
        }
    }
    let missing = answers.missing();
    known.retain(|worker, _| missing.contains(worker));
    told.retain(|worker, _| !missing.contains(worker) || !known.contains_key(worker));
    known.append(&mut told);
    known
}

fn collected(known: &Known) -> Collected {
    let mut kinds = Kinds::default();
    known.values().flatten().for_each(|view| kinds.add(view.clone()));
    // Those that are counted together are no digest.
    let mut most: Vec<_> =
        kinds.iter().filter_map(|kind| Some((kind.digest.fingerprint?, &kind.digest))).collect();
    most.sort_by_key(|(_, digest)| std::cmp::Reverse(digest.execution.sum()));
    most.truncate(MOST);
    let of = |family: &PerDigest| CollectedFamily {
        name: named(family.name),
        help: family.help,
        kind: MetricType::Counter,
        figures: most
            .iter()
            .map(|(fingerprint, digest)| {
                (owned(&[("digest", &digest_name(*fingerprint))]), (family.figure)(digest))
            })
            .collect(),
    };
    Collected(ALL.iter().map(of).collect())
}
