//! Why statements waited, and for how long.
//!
//! Of each statement its whole wait is counted under the queue in which it stood, and the parts of it under what held that
//! queue up meanwhile: the worker notes after each round of dispatching what the first waiting statement lacks.

use std::time::Duration;

use seam::Instant;

use crate::frozen::Distance;

use crate::outside::enum_map::EnumMap;
use crate::outside::histogram::Histogram;
use crate::outside::named::named;
use crate::scheduling::scheduler::lane::Lane;

named! {
    /// The reason that a wait is counted under.
    WaitReason {
        /// The whole wait in the high queue.
        HighQueue = "high_queue",
        /// The whole wait in the low queue, a kick-up included.
        LowQueue = "low_queue",
        /// The whole wait in the long queue.
        LongQueue = "long_queue",
        /// A statement in no queue: a KILL, or the end of a transaction. It may have waited for a backend.
        Urgent = "urgent",
        /// The wait of a login from the client's last packet on: a copy of the accounts was being read.
        Login = "login",
        /// All permits were in use.
        Permit = "permit",
        /// As many long statements ran as may run at a time.
        LongPermits = "long_permits",
        /// The backends for reads that share one had all the statements in flight that they may have.
        StatementsInFlight = "statements_in_flight",
        /// A backend was being opened, or the server could not be reached.
        BackendConnect = "backend_connect",
        /// As many backends were there as may be, and all were held.
        MaxBackends = "max_backends",
        /// An operator had the worker pause.
        Paused = "paused",
        /// The wait on the server for a row lock of another connection, as far as the server was asked (see `lock_wait_interval`).
        RowLock = "row_lock",
        /// A read: no replica had what it had to see yet (see `read_split`).
        Replica = "replica",
    }
}

named! {
    /// The resource that a queue of the scheduler lacks: a part of each wait in a queue is counted under the reason of the same name.
    Lack {
        /// A permit.
        Permit = "permit",
        /// One of the permits of long statements.
        LongPermits = "long_permits",
        /// Room among the statements in flight on the backends for reads that share one.
        StatementsInFlight = "statements_in_flight",
        /// A connection to the server, which is being made.
        BackendConnect = "backend_connect",
        /// A backend: all that may be are there, and are held.
        MaxBackends = "max_backends",
        /// The end of a pause that an operator has ordered.
        Paused = "paused",
    }
}

impl Lack {
    /// The reason that a wait for the resource is counted under.
    pub const fn reason(self) -> WaitReason {
        match self {
            Self::Permit => WaitReason::Permit,
            Self::LongPermits => WaitReason::LongPermits,
            Self::StatementsInFlight => WaitReason::StatementsInFlight,
            Self::BackendConnect => WaitReason::BackendConnect,
            Self::MaxBackends => WaitReason::MaxBackends,
            Self::Paused => WaitReason::Paused,
        }
    }
}

impl WaitReason {
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
    histograms: EnumMap<WaitReason, Histogram>,
}

impl Waits {
    /// The waits for one reason.
    pub fn of(&self, reason: WaitReason) -> &Histogram {
        &self.histograms[reason]
    }

    /// All reasons, each with its waits.
    pub fn iter(&self) -> impl Iterator<Item = (WaitReason, &Histogram)> {
        self.histograms.iter()
    }

    pub(crate) fn record(&mut self, reason: WaitReason, time: Duration) {
        self.histograms[reason].record(time);
    }
}

impl std::ops::AddAssign<&Self> for Waits {
    /// Several workers together.
    fn add_assign(&mut self, other: &Self) {
        self.histograms += &other.histograms;
    }
}

/// The resources that a worker's queues lack at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldUpBy {
    /// The long one.
    pub long: Option<Lack>,
    /// The others.
    pub others: Option<Lack>,
}

/// Microseconds by the lack that held a queue up.
type Totals = EnumMap<Lack, u64>;

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
    /// The lack that holds the queue up now.
    now: Option<Lack>,
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
        Self { at: Distance::of(at, now), long, held_up: holdups.of(long).totals_less(&totals, now) }
    }

    /// Makes the arrival again. A total is cut where the hold-up was longer than anything has been held up here.
    pub(crate) fn thaw(self, holdups: &Holdups, now: Instant) -> Arrival {
        let Self { at, long, held_up } = self;
        Arrival { at: at.from(now), long, totals: holdups.of(long).totals_less(&held_up, now) }
    }
}

impl Holdups {
    fn of(&self, long: bool) -> &Holdup {
        if long { &self.long } else { &self.others }
    }

    /// Notes what holds the long queue up from now on, and what the others; `None` where nothing does.
    pub(crate) fn note(&mut self, now: Instant, others: Option<Lack>, long: Option<Lack>) {
        self.others.note(now, others);
        self.long.note(now, long);
    }

    /// The hold-ups of now: of the long queue, and of the others. `None` where nothing holds a queue up.
    pub(crate) fn now(&self) -> HeldUpBy {
        HeldUpBy { long: self.long.now, others: self.others.now }
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
        let waited = self.of(arrival.long).totals_less(&arrival.totals, now);
        let parts = Lack::ALL.iter().map(move |&lack| (lack, waited[lack])).filter(|&(_, waited)| waited > 0);
        parts.map(|(lack, waited)| (lack.reason(), Duration::from_micros(waited)))
    }
}

impl Holdup {
    fn note(&mut self, now: Instant, lack: Option<Lack>) {
        if self.now != lack {
            self.totals = self.totals(now);
            self.now = lack;
            self.since = now;
        }
    }

    fn totals(&self, now: Instant) -> Totals {
        let mut totals = self.totals;
        if let Some(lack) = self.now {
            totals[lack] += now.as_micros().saturating_sub(self.since.as_micros());
        }
        totals
    }

    /// The totals of now, less these.
    fn totals_less(&self, these: &Totals, now: Instant) -> Totals {
        let all = self.totals(now);
        Totals::from_fn(|lack| all[lack].saturating_sub(these[lack]))
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
        holdups.note(at(0), Some(Lack::Permit), None);
        let first = holdups.arrival(at(10), false);
        holdups.note(at(15), Some(Lack::Permit), Some(Lack::LongPermits));
        let long = holdups.arrival(at(20), true);
        holdups.note(at(30), Some(Lack::MaxBackends), Some(Lack::MaxBackends));
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
        holdups.note(at(10), Some(Lack::Permit), None);
        holdups.note(at(11), None, None);
        let parts: Vec<_> = holdups.parts_since(&arrival, at(100)).collect();
        assert_eq!(parts, [(WaitReason::Permit, Duration::from_millis(1))]);
    }

    #[test]
    fn reasons_are_kept_apart() {
        let mut waits = Waits::default();
        for (n, reason) in (1..).zip(WaitReason::ALL.iter().copied()) {
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
