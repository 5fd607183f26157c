//! The permits: how many there are, and how many are in use.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use seam::Instant;

use crate::scheduling::learned::limit::{Division, FrozenMeter, Meter};
use crate::scheduling::learned::waiting::{FOR_A_PERMIT, WHOLE};
use crate::settings::Settings;

/// Beside so many permits, one is kept for who holds locks: a quarter more on the server is little where all the others wait
/// for these, and little harm where they do not.
const KEPT: u32 = 4;

/// The permits that a statement may take beyond the usual ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extra {
    None,
    /// Permits that are kept for clients that hold locks.
    Kept,
    /// As many permits as the statement takes: others wait for it. The backends bound this, since each such client holds one.
    Any,
}

/// The permits of all workers.
#[derive(Debug)]
pub(super) struct Permits {
    /// Statements that may execute at the same time.
    all: AtomicU32,
    /// The number of permits before the limit that is to be found was last moved, or the most while so many still run.
    before: AtomicU32,
    running: AtomicU32,
    /// The parts of their permits that the running statements leave to others, since they mostly wait, in parts of [`WHOLE`].
    spared: AtomicU32,
    /// The number beyond which more permits are of no use.
    most: AtomicU32,
    /// How many there should be, where that is to be found.
    pub(super) meter: Meter<1>,
}

/// The findings on [`Permits`] as plain data ([`crate::frozen`]).
#[derive(Debug, PartialEq)]
pub(super) struct FrozenPermits {
    all: u32,
    before: u32,
    meter: FrozenMeter,
}

plain!(struct FrozenPermits { all, before, meter });

impl Permits {
    /// Takes it out. Those in use are counted where the statements are that have them.
    pub(super) fn freeze(&self, now: Instant) -> FrozenPermits {
        let Self { all, before, running: _, spared: _, most: _, meter } = self; // the most is a matter of settings
        FrozenPermits { all: all.swap(0, SeqCst), before: before.swap(0, SeqCst), meter: meter.freeze(now) }
    }

    /// Puts it in the place of what is there.
    pub(super) fn thaw(&self, frozen: FrozenPermits, now: Instant) {
        let FrozenPermits { all, before, meter } = frozen;
        self.all.store(all, SeqCst);
        self.before.store(before, SeqCst);
        self.meter.thaw(meter, now);
    }
}

impl Permits {
    /// Makes the permits of a pool with so many backends.
    pub(super) fn new(settings: &Settings, backends: u32) -> Self {
        Self {
            all: AtomicU32::new(settings.given_permits(backends)),
            before: AtomicU32::new(0),
            running: AtomicU32::new(0),
            spared: AtomicU32::new(0),
            most: AtomicU32::new(settings.most_permits(backends)),
            meter: Meter::new([settings.permits_range(backends, Division::NONE)]),
        }
    }

    /// The number of permits.
    pub(super) fn all(&self) -> u32 {
        self.all.load(SeqCst)
    }

    /// Sets the number of permits.
    pub(super) fn set(&self, all: u32) {
        self.all.store(all, SeqCst);
    }

    /// Sets the number beyond which more permits are of no use.
    pub(super) fn change_most(&self, most: u32) {
        self.most.store(most, SeqCst);
    }

    /// Notes that no statement still runs that began before the last step.
    pub(super) fn forget_before(&self) {
        self.before.store(0, SeqCst);
    }

    /// Takes up the number that was found to be best.
    pub(super) fn take_up(&self, found: u32) {
        let found = found.min(self.most.load(SeqCst));
        let before = self.all();
        if before != found {
            self.set(found);
            let beyond = self.running() > found;
            let before = if beyond { before.max(self.before.load(SeqCst)) } else { before };
            self.before.store(before, SeqCst);
        }
    }

    /// Statements that run with one.
    pub(super) fn running(&self) -> u32 {
        self.running.load(SeqCst)
    }

    /// The parts of their permits that the running statements leave to others, in parts of [`WHOLE`].
    pub(super) fn spared(&self) -> u32 {
        self.spared.load(SeqCst)
    }

    /// A statement that has just taken one leaves so much of it to others.
    pub(super) fn spare(&self, part: u32) {
        if part > 0 {
            self.spared.fetch_add(part, SeqCst);
        }
    }

    /// Takes a permit, if that may be while so many statements run. Returns false where it may not.
    pub(super) fn take_if(&self, may_take: impl Fn(u32) -> bool) -> bool {
        self.running.fetch_update(SeqCst, SeqCst, |running| may_take(running).then(|| running + 1)).is_ok()
    }

    /// Takes one whether or not it is free.
    pub(super) fn force(&self) {
        self.running.fetch_add(1, SeqCst);
    }

    /// Gives one back, of which so much had been left to others.
    pub(super) fn give(&self, spared: u32) {
        if spared > 0 {
            let before = self.spared.fetch_sub(spared, SeqCst);
            debug_assert!(before >= spared, "what is left is counted as long as the permit");
        }
        let before = self.running.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "a permit is given back once");
    }

    /// How many are in use while so many statements run with one: fewer, where some of these mostly wait. For those that are on their way
    /// permits come on top, which follow from how many start: if these were shared out too, each would bring more, and what runs would
    /// swing.
    pub(super) fn in_use(&self, running: u32, on_the_way: u32) -> u32 {
        let at_the_server = self.all().saturating_sub(on_the_way);
        running.saturating_sub((self.spared() / WHOLE).min((FOR_A_PERMIT - 1).saturating_mul(at_the_server)))
    }

    /// How many statements may run with so many permits, however little they count. Some backends are left for those that need no permit.
    pub(super) fn most_running(&self, permits: u32) -> u32 {
        self.most.load(SeqCst).max(permits)
    }

    /// How many may be in use when a statement starts that may take these.
    pub(super) fn with(&self, extra: Extra) -> u32 {
        let permits = self.all();
        match extra {
            Extra::Any => u32::MAX,
            Extra::Kept => {
                // After a step down those beyond the limit may be waiting for the very locks that this one holds.
                let permits = permits.max(self.before.load(SeqCst));
                permits.saturating_add((permits / KEPT).max(1))
            }
            Extra::None => permits,
        }
    }
}
