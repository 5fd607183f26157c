//! Statements that mostly wait, for a disk or a timer or another server, take less than a permit.
//!
//! A permit stands for a thread that the server has to find a core for. In-server pools see that a thread waits and let another one run; from
//! outside it shows in the time that statements of a kind take: where that does not grow with what runs beside them, they wait for nothing
//! that the others use. So the time that a kind takes now is compared with the least that it has taken. What takes twice as long as that
//! counts in full. What takes as long as ever leaves most of its permit to others.
//!
//! A kind that computes is thus taken for one that waits only while nothing else keeps it from its core, and that is when more
//! may run. It corrects itself: as more run, it takes longer. By the rule below half as many more may run as there are permits.
//! The least time only falls while the server is busy, since the time that a kind takes among many others says nothing about what it takes alone.

use std::time::Duration;

use crate::outside::histogram::micros;

/// What a whole permit is, in the unit in which parts of it are counted.
pub(crate) const WHOLE: u32 = 16;

/// Kinds that take less are never taken for such that wait: a thread that has to be woken and to find a core takes as long.
const SHORTEST: Duration = Duration::from_millis(1);

/// With fewer executions behind it, nothing is known of a kind.
const FEWEST: u8 = 32;

/// The usual time is an average over so many executions, about: a change shows within some ten of them.
const AVERAGED: f32 = 32.0;

/// While few statements run, the least time follows what a kind takes then by this part of the difference: its data may have grown.
const RISE: f32 = 64.0;

/// What a kind of statements has taken at the server, without those that have failed, which end early.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    /// Microseconds, as an average of the latest.
    usual: f32,
    /// Microseconds; the least, where that was while many ran, see above.
    least: f32,
    executions: u8,
}

impl Waiting {
    /// An execution has taken `time` microseconds. `few` says that most permits were free meanwhile.
    pub(crate) fn record(&mut self, time: u64, few: bool) {
        let time = time as f32;
        if self.executions == 0 {
            (self.usual, self.least) = (time, time);
        }
        self.executions = self.executions.saturating_add(1);
        self.usual += (time - self.usual) / AVERAGED;
        if time < self.least {
            self.least = time;
        } else if few {
            self.least += (time - self.least) / RISE;
        }
    }

    /// What it takes on average lately, and the least.
    pub(crate) fn usual_and_least(&self) -> (Duration, Duration) {
        let time = |micros: f32| Duration::from_micros(micros as u64);
        (time(self.usual), time(self.least))
    }

    /// What such a statement leaves of its permit to others, in parts of [`WHOLE`]: from none to all but one. The way to the server and back
    /// is neither work nor waiting there.
    pub(crate) fn spares(&self, round_trip: Duration) -> u32 {
        let way = micros(round_trip) as f32;
        let (usual, least) = (self.usual - way, self.least - way);
        if self.executions < FEWEST || usual < micros(SHORTEST) as f32 {
            return 0;
        }
        // The part of its time that it would take alone: from a half, of which it leaves nothing, to all.
        let alone = (least / usual).clamp(0.5, 1.0);
        ((2.0 * alone - 1.0) * (WHOLE - 1) as f32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Duration = Duration::ZERO;

    /// After as many executions as it takes to know the kind.
    fn known<const N: usize>(times: [u64; N]) -> Waiting {
        let mut waiting = Waiting::default();
        times.into_iter().cycle().take(256).for_each(|time| waiting.record(time, false));
        waiting
    }

    #[test]
    fn what_takes_as_long_as_ever_leaves_most_of_its_permit() {
        assert_eq!(known([5_000]).spares(NEAR), WHOLE - 1);
        assert!(known([5_000, 5_100, 5_300]).spares(NEAR) >= WHOLE - 3);
    }

    #[test]
    fn what_takes_twice_as_long_as_alone_leaves_nothing() {
        let mut waiting = known([5_000]);
        let left: Vec<_> = [6_000, 7_500, 10_000, 20_000]
            .map(|time| {
                (0..256).for_each(|_| waiting.record(time, false));
                waiting.spares(NEAR)
            })
            .into();
        assert!(left.is_sorted_by(|more, less| more > less || (*more, *less) == (0, 0)), "{left:?}");
        assert_eq!(left[2..], [0, 0]);
    }

    #[test]
    fn short_ones_and_unknown_ones_leave_nothing() {
        assert_eq!(known([999]).spares(NEAR), 0);
        let mut waiting = Waiting::default();
        for _ in 1..FEWEST {
            waiting.record(5_000, true);
            assert_eq!(waiting.spares(NEAR), 0);
        }
        waiting.record(5_000, true);
        assert_eq!(waiting.spares(NEAR), WHOLE - 1);
    }

    #[test]
    fn the_way_to_the_server_is_no_waiting_there() {
        let way = Duration::from_millis(20);
        assert_eq!(known([20_100]).spares(way), 0, "too short");
        let mut waiting = known([25_000]);
        (0..256).for_each(|_| waiting.record(30_000, false));
        assert_eq!((waiting.spares(way), waiting.spares(NEAR) > 0), (0, true));
        assert_eq!(known([20_000]).spares(Duration::from_secs(1)), 0, "measured while the server was nearer");
    }

    #[test]
    fn the_least_time_rises_only_while_few_run() {
        let mut waiting = known([5_000]);
        (0..10_000).for_each(|_| waiting.record(50_000, false));
        assert_eq!(waiting.spares(NEAR), 0, "among many it may take that long for the others' sake");
        (0..1_000).for_each(|_| waiting.record(50_000, true));
        assert!(waiting.spares(NEAR) >= WHOLE - 2, "its data have grown");
    }
}
