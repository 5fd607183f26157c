//! What all workers count together for the limit that finds itself.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use seam::Instant;

use super::{Counts, INTERVAL, Limit};

/// The limit is looked at this often at most: ten times in a measurement.
const LOOK: Duration = Duration::from_millis(10);

/// No statement waits for a permit.
const NEVER: u64 = u64::MAX;

/// The counts of all workers, and the limit that follows from them.
#[derive(Debug)]
pub(crate) struct Meter {
    /// The limit is to be found; otherwise nothing is counted.
    on: AtomicBool,
    statements: AtomicU64,
    work: AtomicU64,
    saturated: AtomicU64,
    /// Since when statements wait for a permit, in microseconds.
    saturated_since: AtomicU64,
    next_look: AtomicU64,
    /// Whoever comes first looks; the others do not wait.
    limit: Mutex<Limit>,
}

/// What one worker has counted in a turn.
#[derive(Debug, Default)]
pub(crate) struct Served {
    statements: u64,
    work: u64,
}

impl Served {
    /// A statement has ended whose like takes so long on average.
    pub(crate) fn add(&mut self, usual: Duration) {
        self.statements += 1;
        // What takes longer than a measurement would count in that in which it happens to end.
        let usual = u64::try_from(usual.min(INTERVAL).as_micros()).expect("not more than an interval");
        self.work += usual.max(1);
    }
}

impl Meter {
    /// For a limit in this range; `None` where it is given.
    pub(crate) fn new(range: Option<(u32, u32)>) -> Self {
        let (least, most) = range.unwrap_or((1, 1));
        Self {
            on: AtomicBool::new(range.is_some()),
            statements: AtomicU64::new(0),
            work: AtomicU64::new(0),
            saturated: AtomicU64::new(0),
            saturated_since: AtomicU64::new(NEVER),
            next_look: AtomicU64::new(0),
            limit: Mutex::new(Limit::new(least, most)),
        }
    }

    /// Takes up another range. What is known of the limit stays where that is as before.
    pub(crate) fn change(&self, range: Option<(u32, u32)>) {
        if let Some((least, most)) = range {
            let mut limit = self.lock();
            if !limit.is_between(least, most) {
                *limit = Limit::new(least, most);
            }
        }
        self.on.store(range.is_some(), SeqCst);
    }

    /// The limit that is in force, where it is to be found.
    pub(crate) fn limit(&self) -> Option<u32> {
        self.is_on().then(|| self.lock().in_force())
    }

    fn is_on(&self) -> bool {
        self.on.load(SeqCst)
    }

    /// Whether statements that end now count.
    pub(crate) fn counts(&self) -> bool {
        self.saturated_since.load(SeqCst) != NEVER
    }

    /// Says whether statements wait for a permit, of any worker, after a turn at `now`.
    pub(crate) fn saturated(&self, now: Instant, saturated: impl FnOnce() -> bool) {
        let saturated = self.is_on() && saturated();
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

    /// Counts what a worker has in its turn, and says which limit is in force from now on, where it has looked.
    pub(crate) fn take(&self, now: Instant, served: &mut Served) -> Option<u32> {
        let Served { statements, work } = std::mem::take(served);
        if statements > 0 {
            self.statements.fetch_add(statements, SeqCst);
            self.work.fetch_add(work, SeqCst);
        }
        if !self.is_on() || now.as_micros() < self.next_look.load(SeqCst) {
            return None;
        }
        let mut limit = self.limit.try_lock().ok()?;
        self.next_look.store((now + LOOK).as_micros(), SeqCst);
        let since = self.saturated_since.load(SeqCst);
        let going_on = if since == NEVER { 0 } else { now.as_micros().saturating_sub(since) };
        let counts = Counts {
            statements: self.statements.load(SeqCst),
            work: self.work.load(SeqCst),
            saturated: self.saturated.load(SeqCst) + going_on,
        };
        Some(limit.look(now, counts))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Limit> {
        self.limit.lock().expect("nothing panics while it holds it")
    }
}
