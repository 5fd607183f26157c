//! Knowledge of long statements as plain data ([`crate::frozen`]), and back. Statements that run and wait are counted where they are.

use std::sync::atomic::Ordering::SeqCst;

use seam::Instant;

use super::{LongPermits, Measurement, NOBODY, Pace};
use crate::frozen::Distance;

/// [`LongPermits`] as plain data.
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenLongPermits {
    more: u32,
    /// `None` where more run than have permits.
    few_since: Option<Distance>,
    crowded: bool,
    measurement: FrozenMeasurement,
}

/// See [`Measurement`].
#[derive(Debug, PartialEq)]
struct FrozenMeasurement {
    changed_at: Distance,
    begun_at: Distance,
    count: u32,
    even: bool,
    long: Pace,
    others: Pace,
    all_long: u64,
    tried_from: Option<u32>,
    failed_at: Option<u32>,
    in_company: Option<u32>,
    rest_until: Distance,
    pause: u32,
}

plain!(struct FrozenLongPermits { more, few_since, crowded, measurement });
plain!(struct FrozenMeasurement {
    changed_at, begun_at, count, even, long, others, all_long, tried_from, failed_at, in_company, rest_until, pause,
});
plain!(struct Pace { time, usual });

impl LongPermits {
    /// Takes out what has been found.
    pub(crate) fn freeze(&self, now: Instant) -> FrozenLongPermits {
        let Self {
            set: _,  // a setting of whoever thaws it
            most: _, // likewise
            more,
            few_since,
            running: _, // it goes with the statements that run
            beyond: _,  // likewise
            wants: _,   // and with those that wait
            crowded,
            measurement: _, // taken below
        } = self;
        let few_since = few_since.swap(NOBODY, SeqCst);
        FrozenLongPermits {
            more: more.swap(0, SeqCst),
            few_since: (few_since != NOBODY).then(|| Distance::of_micros(few_since, now)),
            crowded: crowded.swap(false, SeqCst),
            measurement: std::mem::replace(&mut *self.lock(), Measurement::NONE).freeze(now),
        }
    }

    /// Puts it in the place of what is there.
    pub(crate) fn thaw(&self, frozen: FrozenLongPermits, now: Instant) {
        let FrozenLongPermits { more, few_since, crowded, measurement } = frozen;
        self.more.store(more, SeqCst);
        self.few_since.store(few_since.map_or(NOBODY, |since| since.micros_from(now)), SeqCst);
        self.crowded.store(crowded, SeqCst);
        *self.lock() = measurement.thaw(now);
    }
}

impl Measurement {
    fn freeze(self, now: Instant) -> FrozenMeasurement {
        let Self {
            changed_at,
            begun_at,
            count,
            even,
            long,
            others,
            all_long,
            tried_from,
            failed_at,
            in_company,
            rest_until,
            pause,
        } = self;
        FrozenMeasurement {
            changed_at: Distance::of(changed_at, now),
            begun_at: Distance::of(begun_at, now),
            count,
            even,
            long,
            others,
            all_long,
            tried_from,
            failed_at,
            in_company,
            rest_until: Distance::of(rest_until, now),
            pause,
        }
    }
}

impl FrozenMeasurement {
    fn thaw(self, now: Instant) -> Measurement {
        let Self {
            changed_at,
            begun_at,
            count,
            even,
            long,
            others,
            all_long,
            tried_from,
            failed_at,
            in_company,
            rest_until,
            pause,
        } = self;
        Measurement {
            changed_at: changed_at.from(now),
            begun_at: begun_at.from(now),
            count,
            even,
            long,
            others,
            all_long,
            tried_from,
            failed_at,
            in_company,
            rest_until: rest_until.from(now),
            pause,
        }
    }
}
