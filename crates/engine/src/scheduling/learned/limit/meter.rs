//! The counts of all workers together for limits that find themselves.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use seam::Instant;

use super::mix::{DRAWERS, UsualTimes};
use super::{Counts, INTERVAL, Limit, Range};
use crate::scheduling::learned::way::Way;

/// The limit is looked at this often at most: ten times in a measurement.
const LOOK: Duration = Duration::from_millis(10);

/// No statement waits for what is limited.
pub(super) const NEVER: u64 = u64::MAX;

/// The counts of all workers while statements wait for the same reason, and the limits that follow from them.
#[derive(Debug)]
pub(crate) struct Meter<const LIMITS: usize> {
    /// True where a limit is to be found; otherwise nothing is counted.
    pub(super) on: AtomicBool,
    pub(super) statements: AtomicU64,
    /// Work by drawer, see [`UsualTimes`].
    pub(super) work: [AtomicU64; DRAWERS],
    pub(super) saturated: AtomicU64,
    /// The time since which statements wait, in microseconds.
    pub(super) saturated_since: AtomicU64,
    /// True if ended statements count also while nobody waits ([`Limit::counts_always`]).
    pub(super) counts_always: AtomicBool,
    pub(super) next_look: AtomicU64,
    /// The first worker to come looks; the others do not wait.
    pub(super) limits: Mutex<[Option<Limit>; LIMITS]>,
}

/// The counts of one worker in a turn.
#[derive(Debug, Default)]
pub(crate) struct Served {
    statements: u64,
    work: UsualTimes,
}

impl Served {
    /// Counts a statement of the kind with this fingerprint that has ended; its like takes so long on average.
    pub(crate) fn add(&mut self, fingerprint: u64, usual: Duration) {
        self.statements += 1;
        // What takes longer than a measurement would count in that in which it happens to end.
        let usual = u64::try_from(usual.min(INTERVAL).as_micros()).expect("not more than an interval");
        self.work.add(fingerprint, usual.max(1));
    }
}

impl<const LIMITS: usize> Meter<LIMITS> {
    /// Makes a meter for limits in these ranges; `None` where a limit is given.
    pub(crate) fn new(ranges: [Option<Range>; LIMITS]) -> Self {
        Self {
            on: AtomicBool::new(ranges.iter().any(Option::is_some)),
            statements: AtomicU64::new(0),
            work: Default::default(),
            saturated: AtomicU64::new(0),
            saturated_since: AtomicU64::new(NEVER),
            counts_always: AtomicBool::new(false),
            next_look: AtomicU64::new(0),
            limits: Mutex::new(ranges.map(|range| range.map(Limit::new))),
        }
    }

    /// Takes up other ranges. What is known of a limit stays, as far as its range allows.
    pub(crate) fn change(&self, ranges: [Option<Range>; LIMITS]) {
        for (limit, range) in self.lock().iter_mut().zip(ranges) {
            match (limit.as_mut(), range) {
                (Some(limit), Some(range)) => limit.change_range(range),
                (_, range) => *limit = range.map(Limit::new),
            }
        }
        self.on.store(ranges.iter().any(Option::is_some), SeqCst);
    }

    /// The limits are another server's from now on, and are to be found anew.
    pub(crate) fn begin_elsewhere(&self, now: Instant) {
        self.lock().iter_mut().flatten().for_each(|limit| limit.begin_elsewhere(now));
    }

    /// The limits that are in force, where they are to be found.
    pub(crate) fn limits(&self) -> [Option<u32>; LIMITS] {
        let limits = self.lock();
        std::array::from_fn(|limit| limits[limit].as_ref().map(Limit::in_force))
    }

    fn is_on(&self) -> bool {
        self.on.load(SeqCst)
    }

    /// Says whether statements that end now count.
    pub(crate) fn counts(&self) -> bool {
        let waits = self.saturated_since.load(SeqCst) != NEVER;
        self.is_on() && (waits || self.counts_always.load(SeqCst))
    }

    /// Says whether statements wait, of any worker, after a turn at `now`; also where the limit is given.
    pub(crate) fn saturated(&self, now: Instant, saturated: bool) {
        let since = self.saturated_since.load(SeqCst);
        match (since, saturated) {
            (NEVER, true) => self.saturated_since.store(now.as_micros(), SeqCst),
            (NEVER, false) | (_, true) => {}
            (since, false) => {
                if self.saturated_since.compare_exchange(since, NEVER, SeqCst, SeqCst).is_ok() {
                    self.saturated.fetch_add(now.as_micros().saturating_sub(since), SeqCst);
                }
            }
        }
    }

    /// Microseconds for which statements have waited until now.
    pub(crate) fn saturated_for(&self, now: Instant) -> u64 {
        let since = self.saturated_since.load(SeqCst);
        let going_on = if since == NEVER { 0 } else { now.as_micros().saturating_sub(since) };
        self.saturated.load(SeqCst) + going_on
    }

    /// Counts what a worker has in its turn, and says which limits are in force from now on, where it has looked. How far away the server
    /// is says how soon that can be seen, and how many statements run `for_a_permit` how many have to end first. Other limits are tried only
    /// where that `may_try`.
    pub(crate) fn take(
        &self,
        now: Instant,
        served: &Served,
        way: &Way,
        for_a_permit: f64,
        may_try: bool,
    ) -> Option<[Option<u32>; LIMITS]> {
        let Served { statements, work } = *served;
        if statements > 0 {
            self.statements.fetch_add(statements, SeqCst);
            for (drawer, work) in work.parts() {
                self.work[drawer].fetch_add(work, SeqCst);
            }
        }
        if !self.is_on() || now.as_micros() < self.next_look.load(SeqCst) {
            return None;
        }
        let mut limits = self.limits.try_lock().ok()?;
        self.next_look.store((now + LOOK).as_micros(), SeqCst);
        let counts = Counts {
            statements: self.statements.load(SeqCst),
            work: std::array::from_fn(|drawer| self.work[drawer].load(SeqCst)).into(),
            saturated: self.saturated_for(now),
        };
        let mut trying = limits.iter().position(|limit| limit.as_ref().is_some_and(Limit::is_trying));
        for (number, limit) in limits.iter_mut().enumerate() {
            let Some(limit) = limit else { continue };
            let may_try = may_try && trying.is_none_or(|trying| trying == number) && way.is_steady();
            limit.look(now, counts, way.round_trip(), for_a_permit, may_try);
            if limit.is_trying() {
                trying = Some(number);
            }
        }
        self.counts_always.store(limits.iter().flatten().any(Limit::counts_always), SeqCst);
        Some(std::array::from_fn(|limit| limits[limit].as_ref().map(Limit::in_force)))
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, [Option<Limit>; LIMITS]> {
        self.limits.lock().expect("nothing panics while it holds it")
    }
}
