//! Findings on the server that the workers of a pool share, as plain data ([`crate::frozen`]), and back.
//!
//! The caller is alone while it freezes: no other worker is in a turn. Counts of clients, backends and statements stay here, since
//! these count themselves where they go.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use seam::Instant;

use super::onramps::FrozenOnramps;
use super::permits::FrozenPermits;
use super::places::FrozenPlaces;
use super::{Connections, SharedReads, Workers};
use crate::frozen::Distance;
use crate::frozen::plain::{bytes_of, read};
use crate::scheduling::learned::limit::FrozenMeter;
use crate::scheduling::learned::long_permits::FrozenLongPermits;
use crate::scheduling::learned::way::FrozenWay;
use crate::server::stored_code::frozen::FrozenCode;

/// The findings, and the times until which some of them hold.
#[derive(Debug, PartialEq)]
struct FrozenWorkers {
    permits: FrozenPermits,
    way: FrozenWay,
    long: FrozenLongPermits,
    places: FrozenPlaces,
    onramps: FrozenOnramps,
    stored_code: FrozenCode,
    shared_reads: FrozenSharedReads,
    lock_waits_asked: Distance,
    crowded_until: Distance,
    shut_out_until: Distance,
    /// So many statements have arrived: what waits has its place by that.
    arrivals: u64,
}

plain!(struct FrozenWorkers {
    permits, way, long, places, onramps, stored_code, shared_reads, lock_waits_asked, crowded_until, shut_out_until,
    arrivals,
});

/// See [`SharedReads`].
#[derive(Debug, PartialEq)]
struct FrozenSharedReads {
    backends: u32,
    in_flight: u32,
    meter: FrozenMeter,
}

plain!(struct FrozenSharedReads { backends, in_flight, meter });

impl Workers {
    /// Turns the findings into bytes, and these into findings again.
    ///
    /// # Panics
    ///
    /// If something is not what it was.
    pub(crate) fn freeze_and_thaw(&self, now: Instant) {
        let (before, (_, library, _)) = (format!("{self:?}"), self.stored_code.library());
        let bytes = bytes_of(&self.freeze(now));
        self.thaw(read(&bytes).expect("what was frozen comes out of its bytes"), now);
        assert_eq!(format!("{self:?}"), before, "nothing that has been found is lost");
        assert!(self.stored_code.library().1 == library, "stored code leads to the same");
    }

    fn freeze(&self, now: Instant) -> FrozenWorkers {
        let Self {
            permits,
            way,
            long,
            places,
            users: _,         // by who logs in, and by what waits and runs
            serving: _,       // by the backends
            queue_lengths: _, // by what waits
            passwords: _,     // with the identities, which are secrets
            failed_logins: _, // not yet
            stored_code,
            chosen: _, // the checks find out again which server is the primary
            onramps,
            replicas: _, // each has readers of its own, whose workers' common ground goes with them
            connections: Connections { most: _, clients: _ }, // by the clients
            shared_reads: SharedReads { backends, in_flight, meter },
            lock_waits_asked,
            crowded_until,
            shut_out_until,
            arrivals,
            seats: _, // by what waits and runs
        } = self;
        let distance = |micros: &AtomicU64| Distance::of_micros(micros.swap(0, SeqCst), now);
        FrozenWorkers {
            permits: permits.freeze(now),
            way: way.freeze(now),
            long: long.freeze(now),
            places: places.freeze(now),
            onramps: onramps.freeze(now),
            stored_code: stored_code.freeze(),
            shared_reads: FrozenSharedReads {
                backends: backends.swap(0, SeqCst),
                in_flight: in_flight.swap(0, SeqCst),
                meter: meter.freeze(now),
            },
            lock_waits_asked: distance(lock_waits_asked),
            crowded_until: distance(crowded_until),
            shut_out_until: distance(shut_out_until),
            arrivals: arrivals.swap(0, SeqCst),
        }
    }

    /// Puts the findings in the place of the present ones. Limits follow from the settings of the process that froze
    /// them: [`Self::change_permits`] is due where the settings may be others.
    fn thaw(&self, frozen: FrozenWorkers, now: Instant) {
        let FrozenWorkers {
            permits,
            way,
            long,
            places,
            onramps,
            stored_code,
            shared_reads: FrozenSharedReads { backends, in_flight, meter },
            lock_waits_asked,
            crowded_until,
            shut_out_until,
            arrivals,
        } = frozen;
        self.permits.thaw(permits, now);
        self.way.thaw(&way, now);
        self.long.thaw(long, now);
        self.places.thaw(&places, now);
        self.onramps.thaw(&onramps, now);
        self.stored_code.thaw(stored_code);
        self.shared_reads.backends.store(backends, SeqCst);
        self.shared_reads.in_flight.store(in_flight, SeqCst);
        self.shared_reads.meter.thaw(meter, now);
        self.lock_waits_asked.store(lock_waits_asked.micros_from(now), SeqCst);
        self.crowded_until.store(crowded_until.micros_from(now), SeqCst);
        self.shut_out_until.store(shut_out_until.micros_from(now), SeqCst);
        self.arrivals.store(arrivals, SeqCst);
    }
}

#[cfg(test)]
mod tests;
