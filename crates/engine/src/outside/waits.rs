//! Why statements waited, and for how long.
//!
//! Of each statement its whole wait is counted under the queue in which it stood, and the parts of it under what held that
//! queue up meanwhile: the worker notes after each round of dispatching what the first waiting statement lacks.

use std::time::Duration;

use seam::Instant;

use crate::frozen::Distance;

use crate::outside::histogram::Histogram;
use crate::scheduler::lane::Lane;

/// The reason that a wait is counted under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// The whole wait in the high queue.
    HighQueue,
    /// The whole wait in the low queue, a kick-up included.
    LowQueue,
    /// The whole wait in the long queue.
    LongQueue,
    /// A statement in no queue: a KILL, or the end of a transaction. It may have waited for a backend.
    Urgent,
    /// The wait of a login from the client's last packet on: a copy of the accounts was being read.
    Login,
    /// All permits were in use.
    Permit,
    /// As many long statements ran as may run at a time.
    LongPermits,
    /// The backends for reads that share one had all the statements in flight that they may have.
    StatementsInFlight,
    /// A backend was being opened, or the server could not be reached.
    BackendConnect,
    /// As many backends were there as may be, and all were held.
    MaxBackends,
    /// An operator had the worker pause.
    Paused,
    /// The wait on the server for a row lock of another connection, as far as the server was asked (see `lock_wait_interval`).
    RowLock,
    /// A read: no replica had what it had to see yet (see `read_split`).
    Replica,
}

impl WaitReason {
    /// The lacks of the scheduler's queues: a part of each wait in a queue is counted under one of these.
    pub const LACKS: [Self; 6] = [
        Self::Permit,
        Self::LongPermits,
        Self::StatementsInFlight,
        Self::BackendConnect,
        Self::MaxBackends,
        Self::Paused,
    ];

    /// All reasons, in the order of their declaration.
    pub const ALL: [Self; 13] = [
        Self::HighQueue,
        Self::LowQueue,
        Self::LongQueue,
        Self::Urgent,
        Self::Login,
        Self::Permit,
        Self::LongPermits,
        Self::StatementsInFlight,
        Self::BackendConnect,
        Self::MaxBackends,
        Self::Paused,
        Self::RowLock,
        Self::Replica,
    ];

    /// The name of the reason in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HighQueue => "high_queue",
            Self::LowQueue => "low_queue",
            Self::LongQueue => "long_queue",
            Self::Urgent => "urgent",
            Self::Login => "login",
            Self::Permit => "permit",
            Self::LongPermits => "long_permits",
            Self::StatementsInFlight => "statements_in_flight",
            Self::BackendConnect => "backend_connect",
            Self::MaxBackends => "max_backends",
            Self::Paused => "paused",
            Self::RowLock => "row_lock",
            Self::Replica => "replica",
        }
    }

    /// Returns the reason that a whole wait in a lane is counted under.
    pub(crate) const fn of_lane(lane: Lane) -> Self {
        match lane {
            Lane::Blocking | Lane::Holding | Lane::High => Self::HighQueue,
            Lane::Low | Lane::KickedUp | Lane::Contended => Self::LowQueue,
            Lane::Long => Self::LongQueue,
        }
    }
}

/// A histogram for each reason: 26 kB a worker.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    histograms: [Histogram; WaitReason::ALL.len()],
}

impl Waits {
    /// The waits for one reason.
    pub fn of(&self, reason: WaitReason) -> &Histogram {
        &self.histograms[reason as usize]
    }

    /// All reasons, each with its waits.
    pub fn iter(&self) -> impl Iterator<Item = (WaitReason, &Histogram)> {
        WaitReason::ALL.into_iter().zip(&self.histograms)
    }

    pub(crate) fn record(&mut self, reason: WaitReason, time: Duration) {
        self.histograms[reason as usize].record(time);
    }
}

impl std::ops::AddAssign<&Self> for Waits {
    /// Several workers together.
    fn add_assign(&mut self, other: &Self) {
        for (histogram, more) in self.histograms.iter_mut().zip(&other.histograms) {
            *histogram += more;
        }
    }
}

/// The resources that a worker's queues lack at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldUpBy {
    /// The long one.
    pub long: Option<WaitReason>,
    /// The others.
    pub others: Option<WaitReason>,
}

/// Microseconds by what held a queue up, of [`WaitReason::LACKS`].
type Totals = [u64; WaitReason::LACKS.len()];

/// How long a worker's queues have been held up by what: the long one, and the others together.
#[derive(Debug, Default)]
pub(crate) struct Holdups {
    others: Holdup,
    long: Holdup,
}

/// Running totals of a queue: the difference of two readings tells a statement what it waited for in between, whatever
/// happened to those before it.
#[derive(Debug, Default)]
struct Holdup {
    totals: Totals,
    /// The reason that holds the queue up now, as a place in the totals.
    now: Option<usize>,
    since: Instant,
}

/// A reading of the totals at a statement's arrival.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    long: bool,
    totals: Totals,
}

/// [`Arrival`] as plain data ([`crate::frozen`]).
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenArrival {
    at: Distance,
    long: bool,
    /// Totals of what has held the statement up since its arrival.
    held_up: Totals,
}

plain!(struct FrozenArrival { at, long, held_up });

impl FrozenArrival {
    pub(crate) fn of(arrival: Arrival, holdups: &Holdups, now: Instant) -> Self {
        let Arrival { at, long, totals } = arrival;
        let mut held_up = holdups.of(long).totals(now);
        held_up.iter_mut().zip(totals).for_each(|(after, before)| *after = after.saturating_sub(before));
        Self { at: Distance::of(at, now), long, held_up }
    }

    /// Makes the arrival again. A total is cut where the hold-up was longer than anything has been held up here.
    pub(crate) fn thaw(self, holdups: &Holdups, now: Instant) -> Arrival {
        let Self { at, long, held_up } = self;
        let mut totals = holdups.of(long).totals(now);
        totals.iter_mut().zip(held_up).for_each(|(total, held_up)| *total = total.saturating_sub(held_up));
        Arrival { at: at.from(now), long, totals }
    }
}

impl Holdups {
    fn of(&self, long: bool) -> &Holdup {
        if long { &self.long } else { &self.others }
    }

    /// Notes what holds the long queue up from now on, and what the others; `None` where nothing does.
    pub(crate) fn note(&mut self, now: Instant, others: Option<WaitReason>, long: Option<WaitReason>) {
        self.others.note(now, others);
        self.long.note(now, long);
    }

    /// The hold-ups of now: of the long queue, and of the others. `None` where nothing holds a queue up.
    pub(crate) fn now(&self) -> HeldUpBy {
        let of = |holdup: &Holdup| holdup.now.map(|place| WaitReason::LACKS[place]);
        HeldUpBy { long: of(&self.long), others: of(&self.others) }
    }

    /// A statement arrives in the long queue or another.
    pub(crate) fn arrival(&self, now: Instant, long: bool) -> Arrival {
        Arrival { at: now, long, totals: self.of(long).totals(now) }
    }

    /// A statement that arrived then goes on waiting in the long queue, or in another again.
    pub(crate) fn change_queue(&self, arrival: &Arrival, now: Instant, long: bool) -> Arrival {
        Arrival { at: arrival.at, ..self.arrival(now, long) }
    }

    /// Returns the reasons for which a statement that arrived then has waited, where it has.
    pub(crate) fn parts_since(
        &self,
        arrival: &Arrival,
        now: Instant,
    ) -> impl Iterator<Item = (WaitReason, Duration)> + use<> {
        let parts = self.of(arrival.long).totals(now).into_iter().zip(arrival.totals);
        let waited = parts.map(|(after, before)| after.saturating_sub(before));
        let held_up = WaitReason::LACKS.into_iter().zip(waited).filter(|&(_, waited)| waited > 0);
        held_up.map(|(reason, waited)| (reason, Duration::from_micros(waited)))
    }
}

impl Holdup {
    fn note(&mut self, now: Instant, reason: Option<WaitReason>) {
        let reason = reason.and_then(|reason| WaitReason::LACKS.iter().position(|&known| known == reason));
        if self.now != reason {
            self.totals = self.totals(now);
            self.now = reason;
            self.since = now;
        }
    }

    fn totals(&self, now: Instant) -> Totals {
        let mut totals = self.totals;
        if let Some(reason) = self.now {
            totals[reason] += now.as_micros().saturating_sub(self.since.as_micros());
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1000)
    }

    #[test]
    fn a_wait_has_parts() {
        let mut holdups = Holdups::default();
        holdups.note(at(0), Some(WaitReason::Permit), None);
        let first = holdups.arrival(at(10), false);
        holdups.note(at(15), Some(WaitReason::Permit), Some(WaitReason::LongPermits));
        let long = holdups.arrival(at(20), true);
        holdups.note(at(30), Some(WaitReason::MaxBackends), Some(WaitReason::MaxBackends));
        let second = holdups.arrival(at(35), false);
        let parts = |arrival, now| holdups.parts_since(arrival, at(now)).collect::<Vec<_>>();
        let millis = Duration::from_millis;
        assert_eq!(
            parts(&first, 45),
            [(WaitReason::Permit, millis(20)), (WaitReason::MaxBackends, millis(15))]
        );
        assert_eq!(parts(&second, 45), [(WaitReason::MaxBackends, millis(10))]);
        assert_eq!(parts(&second, 35), []);
        assert_eq!(
            parts(&long, 45),
            [(WaitReason::LongPermits, millis(10)), (WaitReason::MaxBackends, millis(15))]
        );
    }

    #[test]
    fn nothing_is_held_up_while_nothing_waits() {
        let mut holdups = Holdups::default();
        let arrival = holdups.arrival(at(0), false);
        holdups.note(at(5), None, None);
        holdups.note(at(10), Some(WaitReason::Permit), None);
        holdups.note(at(11), None, None);
        let parts: Vec<_> = holdups.parts_since(&arrival, at(100)).collect();
        assert_eq!(parts, [(WaitReason::Permit, Duration::from_millis(1))]);
    }

    #[test]
    fn reasons_are_kept_apart() {
        let mut waits = Waits::default();
        for (n, reason) in (1..).zip(WaitReason::ALL) {
            waits.record(reason, Duration::from_micros(n));
        }
        let more = waits.clone();
        waits += &more;
        for (n, (reason, histogram)) in (1..).zip(waits.iter()) {
            assert_eq!(histogram, waits.of(reason), "{}", reason.name());
            assert_eq!((histogram.count(), histogram.max()), (2, Duration::from_micros(n)));
        }
    }
}
