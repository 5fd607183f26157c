//! How things stand, asked of the workers at most once a second, whoever and however many want to know; more often only for a
//! supervisor whose watchdog waits for less than three.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use engine::DigestCost;
use seam::Signal;

use crate::admin_port::counters::Wholes;
use crate::ask::{Ask, Look, Sight};
use crate::control::Control;

/// What was seen serves everybody for so long. A probe hears of what has stopped a second later; those who look do so every few.
const KEPT: Duration = Duration::from_secs(1);

/// What the workers said of themselves.
pub(crate) struct Glance {
    /// Of one that did not answer, what it said last: what only grows must not shrink in between.
    pub(crate) wholes: Wholes,
    /// Workers that did not answer in time: their loops are stuck.
    pub(crate) silent: Vec<usize>,
    /// What digests have cost, of each worker apart, where that was asked for.
    pub(crate) costs: Option<Vec<DigestCost>>,
    /// When they were asked.
    asked: Instant,
    /// When they had answered, or had been given up on.
    taken: Instant,
    /// The same, since 1970.
    pub(crate) at: Duration,
}

/// Takes glances.
pub(crate) struct Glances {
    pub(crate) control: Arc<Control>,
    last: Mutex<Option<Arc<Glance>>>,
    /// The next one is to tell what digests have cost.
    wants_costs: AtomicBool,
}

impl Glances {
    pub(crate) fn new(control: Arc<Control>) -> Self {
        Self { control, last: Mutex::new(None), wants_costs: AtomicBool::new(false) }
    }

    /// The last one, or one that is taken now. Those who come meanwhile wait for the same.
    pub(crate) fn now(&self) -> Arc<Glance> {
        self.last_if(|glance| glance.taken.elapsed() < KEPT)
    }

    /// One whose question came later than this: whoever answered has turned since.
    pub(crate) fn since(&self, earlier: Instant) -> Arc<Glance> {
        self.last_if(|glance| glance.asked > earlier)
    }

    fn last_if(&self, will_do: impl Fn(&Glance) -> bool) -> Arc<Glance> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(glance) = last.as_ref().filter(|glance| will_do(glance)) {
            return Arc::clone(glance);
        }
        let costs = self.wants_costs.swap(false, Ordering::Relaxed);
        let glance = Arc::new(take(&self.control, last.as_deref(), costs));
        *last = Some(Arc::clone(&glance));
        glance
    }

    /// Has the next one tell what digests have cost.
    pub(crate) fn want_costs(&self) {
        self.wants_costs.store(true, Ordering::Relaxed);
    }
}

fn take(control: &Control, before: Option<&Glance>, costs: bool) -> Glance {
    let asked = Instant::now();
    let what = Look { waits: true, measures: true, servers: true, digest_costs: costs, ..Look::default() };
    let mut answers = control.ask(Signal::Look, |answer| Ask::Look { what, answer });
    let mut wholes = before.map_or_else(Wholes::new, |before| before.wholes.clone());
    let mut found = Vec::new();
    while let Some((worker, sight)) = answers.next() {
        match sight {
            Sight::Whole(whole) => {
                wholes.insert(worker, Arc::from(whole));
            }
            Sight::DigestCosts(more) => found.extend(more),
            _ => {}
        }
    }
    // Where one is missing, its digests would seem to have cost nothing.
    let costs = (costs && answers.missing().is_empty()).then_some(found);
    let at = UNIX_EPOCH.elapsed().unwrap_or_default();
    Glance { wholes, silent: answers.missing(), costs, asked, taken: Instant::now(), at }
}
