//! The last ten minutes by seconds and the last day by minutes, kept in the process: for whoever looks only once something has happened.
//!
//! A thread of its own takes the glance that metrics and probes are answered from, once a second, whether or not anybody looks. All in
//! all it keeps about 1 MB: 470 kB of samples, 360 kB of what digests have cost, two moments of 60 kB each, and 40 bytes for each digest.

mod changes;
mod columns;
mod costs;
mod lacks;
mod minutes;
pub(crate) mod notes;
pub(crate) mod together;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::DigestCost;

pub(crate) use columns::COLUMNS;
use columns::Step;
pub(crate) use costs::{Costly, Measure};

use crate::control::Control;
use crate::control::glance::{Glance, Glances};
use together::Together;

/// Between two samples: as often as workers are asked at most.
const SECOND: Duration = Duration::from_secs(1);

/// Ten minutes of them: what an operator looks back to who has just been called.
const SECONDS: usize = 600;

/// A day, by minutes.
const MINUTES: usize = 1440;

/// In the order of [`COLUMNS`]; not a number where there is nothing to tell.
type Figures = [f32; COLUMNS.len()];

/// Figures at one moment.
struct Sample {
    /// Since 1970, in milliseconds.
    at: u64,
    figures: Figures,
}

/// How far apart the samples are that somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// Ten minutes by seconds.
    Minutes,
    /// A day by minutes.
    Day,
}

/// See the module.
pub(crate) struct History {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    seconds: VecDeque<Sample>,
    minutes: VecDeque<Sample>,
    /// The moment of the last sample, and that in which the minute began.
    last: Option<Arc<Together>>,
    /// Workers that did not answer then.
    silent: Vec<usize>,
    minute: Option<Arc<Together>>,
    /// The highest of the minute so far, of what stands.
    highest: Option<Figures>,
    costs: costs::Costs,
}

impl History {
    /// Begins to keep.
    ///
    /// # Errors
    /// Where the system has no more threads.
    pub(crate) fn start(glances: Arc<Glances>) -> std::io::Result<Arc<Self>> {
        let history = Arc::new(Self::empty());
        let own = Arc::clone(&history);
        let keep = move || {
            let mut last: Option<Arc<Glance>> = None;
            loop {
                let glance = glances.now();
                // Others may have taken it a moment ago, and a stuck worker takes its time.
                if last.as_ref().is_none_or(|last| !Arc::ptr_eq(last, &glance)) {
                    own.take(&glances, &glance);
                    last = Some(glance);
                }
                std::thread::sleep(SECOND);
            }
        };
        std::thread::Builder::new().name(String::from("history")).spawn(keep)?;
        Ok(history)
    }

    fn empty() -> Self {
        Self { kept: Mutex::new(Kept::default()) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, glances: &Glances, glance: &Glance) {
        let together = Together::of(&glances.control, glance);
        let mut kept = self.kept();
        kept.silent.clone_from(&glance.silent);
        if kept.add(together) {
            glances.want_costs();
        }
        if let Some(costs) = &glance.costs {
            kept.costs.add(glance.at, costs);
        }
    }

    /// What there is to say now, as of the last look; nothing before the first.
    pub(crate) fn notes(&self, control: &Control) -> Vec<notes::Note> {
        // One look, so that all sentences are of one moment.
        let (last, silent, refused, verdict) = {
            let kept = self.kept();
            (kept.last.clone(), kept.silent.clone(), kept.refused(), kept.verdict())
        };
        last.map_or_else(Vec::new, |last| {
            let mut found = notes::of(control, &last, &silent, refused);
            if found.is_empty() {
                found.push(notes::Note::well());
            }
            found.push(notes::Note::says("time", verdict));
            found.push(notes::Note::says("restart", notes::restart(&last)));
            found
        })
    }

    /// How many were refused in the last second; 0 where that is not known.
    pub(crate) fn refused(&self) -> f64 {
        self.kept().refused()
    }

    /// What digests have cost most in the minutes from `from` to `to`, in milliseconds since 1970.
    pub(crate) fn costly(&self, measure: Measure, from: u64, to: u64) -> Vec<Costly> {
        self.kept().costs.top(measure, from, to)
    }

    /// Likewise in the minute that is under way, by what all have cost by now.
    pub(crate) fn costly_now(&self, measure: Measure, costs: &[DigestCost]) -> Vec<Costly> {
        self.kept().costs.since(measure, costs)
    }

    /// Writes the samples later than `since`, in milliseconds since 1970, as JSON: an object with `at`, and a list for each column.
    pub(crate) fn write(&self, span: Span, since: u64, into: &mut String) {
        let kept = self.kept();
        let all = if span == Span::Day { &kept.minutes } else { &kept.seconds };
        let samples = || all.iter().filter(|sample| sample.at > since);
        into.push_str("{\"at\":[");
        list(into, samples(), |sample, into| into.push_str(&sample.at.to_string()));
        for (place, column) in COLUMNS.iter().enumerate() {
            // Writing to a String does not fail.
            let _ = write!(into, "],\"{}\":[", column.name);
            list(into, samples(), |sample, into| number(into, sample.figures[place]));
        }
        into.push_str("]}");
    }
}

impl Kept {
    /// True once a minute.
    fn add(&mut self, after: Together) -> bool {
        let after = Arc::new(after);
        let mut ended = false;
        if let Some(before) = &self.last {
            let figures = figures(&Step::new(before, &after), None);
            let highest = self.highest.get_or_insert(figures);
            for (highest, figure) in highest.iter_mut().zip(figures) {
                *highest = highest.max(figure);
            }
            push(&mut self.seconds, SECONDS, Sample { at: millis(after.at), figures });
        }
        let minute = self.minute.get_or_insert_with(|| Arc::clone(&after));
        if minute_of(after.at) > minute_of(minute.at) {
            let figures = figures(&Step::new(minute, &after), self.highest.take().as_ref());
            push(&mut self.minutes, MINUTES, Sample { at: millis(after.at), figures });
            self.minute = Some(Arc::clone(&after));
            ended = true;
        }
        self.last = Some(after);
        ended
    }

    /// See [`History::refused`].
    fn refused(&self) -> f64 {
        self.last(const { columns::place("refused") })
    }
}

/// What stands is taken from `highest`, where there is one.
fn figures(step: &Step<'_>, highest: Option<&Figures>) -> Figures {
    std::array::from_fn(|place| match (&COLUMNS[place], highest) {
        (column, Some(highest)) if column.stands => highest[place],
        (column, _) => (column.value)(step) as f32,
    })
}

fn push(samples: &mut VecDeque<Sample>, most: usize, sample: Sample) {
    if samples.len() == most {
        samples.pop_front();
    }
    samples.push_back(sample);
}

fn minute_of(at: Duration) -> u64 {
    at.as_secs() / 60
}

/// Since 1970.
pub(crate) fn millis(at: Duration) -> u64 {
    u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
}

fn list<'a>(
    into: &mut String,
    samples: impl Iterator<Item = &'a Sample>,
    put: impl Fn(&Sample, &mut String),
) {
    for (place, sample) in samples.enumerate() {
        if place > 0 {
            into.push(',');
        }
        put(sample, into);
    }
}

/// Small ones with two digits behind the point: more is not seen in a chart.
fn number(into: &mut String, figure: f32) {
    let _ = match figure {
        none if !none.is_finite() => write!(into, "null"),
        whole if whole.fract() == 0.0 || whole.abs() >= 1000.0 => write!(into, "{whole:.0}"),
        fraction => write!(into, "{fraction:.2}"),
    };
}

#[cfg(test)]
mod tests;
