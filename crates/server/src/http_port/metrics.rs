//! /metrics, for Prometheus: encoded when somebody asks, from the glance that serves everybody for a second.
//!
//! Digests of statements are many, and have a path of their own (`digests.rs`).
//!
//! What there is, is declared once: with what SHOW STATUS shows, where that shows it, else in `families.rs`. docs/METRICS.md is
//! written from the same.

mod digests;
mod families;
mod reads;
mod top;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use engine::{Histogram, Holders, Measures, MemoryParts, TalliesByName, Waits};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use web::{Answer, ContentType};

pub(super) use digests::Digests;

use crate::accept_queues::AcceptQueue;
use crate::admin_port::counters::{self, Counter};
use crate::control::Control;
use crate::control::glance::{Glance, Glances};
use crate::reads::ReadServers;
use top::{Shown, Tops};

/// What all names begin with, but for those that every process has.
const PREFIX: &str = "onramp_";

/// The longest times of the buckets of histograms, as powers of two of microseconds: from 128 µs, which is about what the fastest
/// statement takes, to 34 s, each four times the one before. Counts are exact there.
const POWERS: [u32; 10] = [7, 9, 11, 13, 15, 17, 19, 21, 23, 25];

/// A metric with all its labels.
pub(super) struct Family {
    /// Without [`PREFIX`], and without `_total`.
    name: &'static str,
    /// A sentence.
    help: &'static str,
    kind: Kind,
    /// Those that each of its figures has.
    labels: &'static [&'static str],
    figures: fn(&Scene<'_>, &mut Figures),
}

/// What a family counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Times.
    Histogram,
}

/// What figures are taken from.
pub(super) struct Scene<'a> {
    control: &'a Control,
    glance: &'a Glance,
    /// Of all workers together, as what follows.
    waits: Waits,
    measures: Measures,
    holders: Holders,
    memory: MemoryParts,
    /// The servers that reads may go to.
    read_servers: ReadServers,
    /// As they are when somebody asks.
    accept_queues: Vec<AcceptQueue<'a>>,
    /// Those that have had most work done, where they are wanted by name.
    users: Shown,
    schemas: Shown,
}

impl<'a> Scene<'a> {
    fn new(control: &'a Control, glance: &'a Glance, tops: &mut Tops) -> Self {
        let (waits, measures, holders, memory) = Default::default();
        let (users, schemas) = Default::default();
        let accept_queues = control.program.accept_queues.look();
        let read_servers = ReadServers::of(&glance.wholes);
        let mut scene = Self {
            control,
            glance,
            waits,
            measures,
            holders,
            memory,
            read_servers,
            accept_queues,
            users,
            schemas,
        };
        let mut tallies = TalliesByName::default();
        for whole in glance.wholes.values() {
            whole.waits.iter().for_each(|waits| scene.waits += waits);
            whole.memory_parts.iter().for_each(|parts| scene.memory += parts);
            whole.tallies.iter().for_each(|own| tallies += own);
            if let Some((measures, holders)) = &whole.measures {
                scene.measures += measures;
                scene.holders += holders;
            }
        }
        let most = control.configuration().engine.metrics_top;
        (scene.users, scene.schemas) = tops.take(&tallies, most);
        scene
    }
}

/// The figures of a family, as they are found.
#[derive(Debug, Default)]
pub(super) struct Figures(Vec<(Labels, Figure)>);

type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
enum Figure {
    Count(u64),
    Number(f64),
    Times { sum: f64, count: u64, buckets: Vec<(f64, u64)> },
}

impl Figures {
    /// Whether each has these labels, and no others.
    fn have(&self, labels: &[&str]) -> bool {
        self.0.iter().all(|(own, _)| own.iter().map(|(name, _)| *name).eq(labels.iter().copied()))
    }

    fn count(&mut self, labels: &[(&'static str, &str)], count: u64) {
        self.0.push((owned(labels), Figure::Count(count)));
    }

    fn number(&mut self, labels: &[(&'static str, &str)], number: f64) {
        self.0.push((owned(labels), Figure::Number(number)));
    }

    fn times(&mut self, labels: &[(&'static str, &str)], times: &Histogram) {
        let mut below = 0;
        let buckets = POWERS.map(|power| {
            let before = std::mem::replace(&mut below, times.below(power));
            ((1_u64 << power) as f64 / 1e6, below - before)
        });
        let (sum, count) = (times.sum().as_secs_f64(), times.count());
        self.0.push((owned(labels), Figure::Times { sum, count, buckets: buckets.into() }));
    }
}

fn owned(labels: &[(&'static str, &str)]) -> Labels {
    labels.iter().map(|&(name, value)| (name, String::from(value))).collect()
}

/// Answers with metrics.
pub(super) struct Metrics {
    glances: Arc<Glances>,
    last: Mutex<Last>,
}

/// What was answered last.
#[derive(Default)]
struct Last {
    /// The text, and what it was made from.
    text: Option<(Arc<Glance>, Arc<str>)>,
    tops: Tops,
}

impl Metrics {
    pub(super) fn new(glances: Arc<Glances>) -> Self {
        Self { glances, last: Mutex::default() }
    }

    /// What /metrics answers.
    pub(super) fn answer(&self) -> Answer {
        Answer::of(ContentType::Metrics, self.text().as_bytes().to_vec())
    }

    fn text(&self) -> Arc<str> {
        let glance = self.glances.now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match last.text.as_ref().filter(|(of, _)| Arc::ptr_eq(of, &glance)) {
            Some((_, text)) => Arc::clone(text),
            None => {
                let text: Arc<str> = encode(&self.glances.control, &glance, &mut last.tops).into();
                last.text = Some((glance, Arc::clone(&text)));
                text
            }
        }
    }
}

fn encode(control: &Control, glance: &Glance, tops: &mut Tops) -> String {
    text_of(Collected::of(&Scene::new(control, glance, tops)))
}

fn text_of(collected: Collected) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collected));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry).expect("a String takes everything");
    text
}

/// All families with their figures.
#[derive(Debug)]
struct Collected(Vec<CollectedFamily>);

#[derive(Debug)]
struct CollectedFamily {
    name: String,
    help: &'static str,
    kind: MetricType,
    figures: Vec<(Labels, Figure)>,
}

impl Collected {
    fn of(scene: &Scene<'_>) -> Self {
        let mut all = Vec::new();
        for family in families() {
            let mut figures = Figures::default();
            (family.figures)(scene, &mut figures);
            debug_assert!(figures.have(family.labels), "{}: {figures:?}", family.name);
            let name = named(family.name);
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            all.push(CollectedFamily { name, help: family.help, kind, figures: figures.0 });
        }
        for counters in counted() {
            let (first, metric) = &counters[0];
            let of = |(counter, metric): &(Counter, counters::Metric)| {
                (owned(metric.labels), Figure::Count(counter.value(scene.control, &scene.glance.wholes)))
            };
            all.push(CollectedFamily {
                name: named(metric.name),
                help: help_of(first, metric),
                kind: if metric.grows { MetricType::Counter } else { MetricType::Gauge },
                figures: counters.iter().map(of).collect(),
            });
        }
        Self(all)
    }
}

/// All that is more than a counter.
fn families() -> impl Iterator<Item = &'static Family> {
    families::ALL.iter().chain(reads::ALL)
}

/// The counters of SHOW STATUS that are metrics, those of one name together.
fn counted() -> Vec<Vec<(Counter, counters::Metric)>> {
    let mut found: Vec<_> =
        counters::all().into_iter().filter_map(|counter| Some((counter, counter.metric?))).collect();
    found.sort_by_key(|(_, metric)| (metric.name, metric.labels));
    found.chunk_by(|(_, one), (_, other)| one.name == other.name).map(<[_]>::to_vec).collect()
}

/// A counter says what it counts; several of one name need a sentence in common.
fn help_of(counter: &Counter, metric: &counters::Metric) -> &'static str {
    let common = families::IN_COMMON.iter().find(|(name, _)| *name == metric.name);
    common.map_or(counter.help, |(_, help)| help)
}

/// With what all names begin with.
fn named(name: &str) -> String {
    if name.starts_with("process_") { String::from(name) } else { format!("{PREFIX}{name}") }
}

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.0 {
            let mut metric = encoder.encode_descriptor(&family.name, family.help, None, family.kind)?;
            for (labels, figure) in &family.figures {
                let labels = labels.as_slice();
                let one = metric.encode_family(&labels)?;
                put(one, family.kind, figure)?;
            }
        }
        Ok(())
    }
}

fn put(mut metric: MetricEncoder<'_>, kind: MetricType, figure: &Figure) -> fmt::Result {
    match (figure, kind) {
        (Figure::Count(count), MetricType::Counter) => {
            metric.encode_counter::<NoLabelSet, _, u64>(count, None)
        }
        (Figure::Number(number), MetricType::Counter) => {
            metric.encode_counter::<NoLabelSet, _, u64>(number, None)
        }
        (Figure::Count(count), _) => metric.encode_gauge(&i64::try_from(*count).unwrap_or(i64::MAX)),
        (Figure::Number(number), _) => metric.encode_gauge(number),
        (Figure::Times { sum, count, buckets }, _) => {
            metric.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
        }
    }
}

#[cfg(test)]
mod tests;
