//! Statements that mostly wait, for a disk or a timer or another server, take less than a permit.
//!
//! A permit stands for a thread that the server has to find a core for. In-server pools see that a thread waits and let another one run. From
//! outside this shows in the time that statements of a kind take: where that does not grow with what runs beside them, they wait for nothing
//! that the others use. So the time that a kind takes now is compared with the least that it has taken, both on average. A kind that takes twice
//! as long as that counts in full. A kind that takes as long as ever leaves most of its permit to others.
//!
//! A kind that computes is thus taken for one that waits only while nothing else keeps it from its core, and that is when more may run. This
//! corrects itself: as more run, the kind takes longer. So that this settles, a part grows step by step, each after the effect of the step
//! before can be seen. A part shrinks at once. While the server is busy the least time only falls, since the time that a kind takes among
//! many others says nothing about what it takes alone.

use std::time::Duration;

use seam::Instant;

use crate::frozen::Distance;
use crate::outside::histogram::micros;

/// A whole permit, in the unit in which parts of a permit are counted.
pub(crate) const WHOLE: u32 = 16;

/// Statements that run at most for each permit, whatever part of it they take: a trial of another limit goes as far, too.
pub(crate) const FOR_A_PERMIT: u32 = 4;

/// The most that a statement leaves of its permit.
const MOST: u32 = WHOLE - WHOLE / FOR_A_PERMIT;

/// Kinds that take less are never taken for such that wait: a thread that has to be woken and to find a core takes as long.
const SHORTEST: Duration = Duration::from_millis(1);

/// The least number of executions from which a kind is known.
const FEWEST: u8 = 64;

/// The usual time is an average over so many executions, about: what takes ten times as long shows in the fourth one, and chance moves it
/// by an eighth where single ones differ as much as those of a disk do.
const AVERAGED: u8 = 32;

/// The divisor of the difference by which the least time rises at each execution, while few statements run: the kind's data may have grown.
const RISE: f32 = 64.0;

/// A part grows by a sixteenth of a permit in so many times as long as a statement takes: before that nobody knows what the last one has done.
/// The part shrinks at once.
const GROWTH: f32 = 2.0;

/// Times of a kind of statements at the server, without those that have failed, which end early.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    /// Microseconds, as an average of the latest.
    usual: f32,
    /// The least that this has been, in microseconds; see above.
    least: f32,
    executions: u8,
    /// The part of its permit that such a statement leaves to others.
    part: u8,
    /// The time at which the part last grew.
    grown: Instant,
}

/// [`Waiting`] as plain data ([`crate::frozen`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FrozenWaiting {
    usual: f32,
    least: f32,
    executions: u8,
    part: u8,
    grown: Distance,
}

plain!(struct FrozenWaiting { usual, least, executions, part, grown });

impl Waiting {
    pub(super) fn freeze(self, now: Instant) -> FrozenWaiting {
        let Self { usual, least, executions, part, grown } = self;
        FrozenWaiting { usual, least, executions, part, grown: Distance::of(grown, now) }
    }
}

impl FrozenWaiting {
    pub(super) fn thaw(self, now: Instant) -> Waiting {
        let Self { usual, least, executions, part, grown } = self;
        Waiting { usual, least, executions, part, grown: grown.from(now) }
    }
}

impl Waiting {
    /// An execution has taken `time` microseconds, of which the way to the server and back is neither work nor waiting there. `few` says
    /// that most permits were free meanwhile.
    pub(crate) fn record(&mut self, now: Instant, time: u64, round_trip: Duration, few: bool) {
        let time = time.saturating_sub(micros(round_trip)) as f32;
        self.executions = self.executions.saturating_add(1);
        self.usual += (time - self.usual) / f32::from(self.executions.min(AVERAGED));
        if self.usual < self.least || self.executions <= AVERAGED {
            self.least = self.usual;
        } else if few {
            self.least += (self.usual - self.least) / RISE;
        }
        // What takes longer on its way than at the server is a matter of how many are on the way: parts beside that number swing with it.
        let most = if micros(round_trip) as f32 > self.usual { 0 } else { self.most() };
        if most <= self.part {
            self.part = most;
        } else if (now.since(self.grown).as_micros() as f32)
            >= GROWTH * (self.usual + micros(round_trip) as f32)
        {
            self.part += 1;
            self.grown = now;
        }
    }

    /// The average time of such a statement lately, and the least.
    pub(crate) fn usual_and_least(&self) -> (Duration, Duration) {
        let time = |micros: f32| Duration::from_micros(micros as u64);
        (time(self.usual), time(self.least))
    }

    /// The part of its permit that such a statement leaves to others, in parts of [`WHOLE`].
    pub(crate) fn spares(&self) -> u32 {
        self.part.into()
    }

    /// The most that it may leave, as far as is known.
    fn most(&self) -> u8 {
        if self.executions < FEWEST || self.usual < micros(SHORTEST) as f32 {
            return 0;
        }
        // The part of its time that it would take alone: from a half, of which it leaves nothing, to all.
        let alone = (self.least / self.usual).clamp(0.5, 1.0);
        ((2.0 * alone - 1.0) * MOST as f32).round() as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Duration = Duration::ZERO;

    /// A kind, and the time by which its latest execution has ended.
    #[derive(Default)]
    struct Kind {
        waiting: Waiting,
        now: u64,
    }

    impl Kind {
        /// Runs so many executions, one after the other. Each takes one of these times in turn, the way included.
        fn run(mut self, count: usize, times: &[u64], way: Duration, few: bool) -> Self {
            for &time in times.iter().cycle().take(count) {
                self.now += time;
                self.waiting.record(Instant::from_micros(self.now), time, way, few);
                assert!(self.part() <= MOST);
            }
            self
        }

        /// After as many as it takes to know that it waits.
        fn known(times: &[u64]) -> Self {
            Self::default().run(256, times, NEAR, false)
        }

        fn part(&self) -> u32 {
            self.waiting.spares()
        }
    }

    #[test]
    fn what_takes_as_long_as_ever_counts_for_a_quarter() {
        assert_eq!(Kind::known(&[5_000]).part(), MOST);
        // As a disk has them: half of the time more or less.
        assert!(Kind::known(&[2_500, 6_000, 7_500, 4_000]).part() >= WHOLE / 2);
    }

    #[test]
    fn what_takes_twice_as_long_as_alone_leaves_nothing() {
        let mut kind = Kind::known(&[5_000]);
        let mut left = vec![kind.part()];
        for time in [6_000, 7_500, 10_000, 20_000] {
            kind = kind.run(256, &[time], NEAR, false);
            left.push(kind.part());
        }
        assert!(left[..4].is_sorted_by(|more, less| more > less), "{left:?}");
        assert_eq!(left[3..], [0, 0], "{left:?}");
    }

    #[test]
    fn what_computes_of_a_sudden_loses_its_part_with_the_fourth_execution() {
        let kind = Kind::known(&[5_000]).run(4, &[50_000], NEAR, false);
        assert_eq!(kind.part(), 0);
        // And has to earn it anew, a sixteenth of a permit in twice its time.
        let kind = kind.run(64, &[5_000], NEAR, false);
        assert!((1..MOST).contains(&kind.part()), "{}", kind.part());
    }

    #[test]
    fn texts_of_one_kind_that_cost_little_and_much_by_turns_count_in_full_where_the_others_slow_them_down() {
        let kind = Kind::known(&[2_000, 50_000]);
        assert!(kind.part() > 0, "alone they take as long as ever");
        assert_eq!(kind.run(64, &[2_000, 110_000], NEAR, false).part(), 0);
    }

    #[test]
    fn a_part_grows_no_faster_than_it_can_be_seen() {
        let mut waiting = Waiting::default();
        // Many at a time: their ends are close to each other.
        let parts = (0..10_000).map(|number| {
            waiting.record(Instant::from_micros(5_000 + 10 * number), 5_000, NEAR, false);
            waiting.spares()
        });
        let parts: Vec<_> = parts.collect();
        assert!(parts[..FEWEST as usize - 1].iter().all(|&part| part == 0));
        // In a tenth of a second after that, by one each 10 ms.
        assert_eq!(parts.last(), Some(&(100_000 / 10_000)), "{:?}", parts.last());
    }

    #[test]
    fn short_ones_and_unknown_ones_leave_nothing() {
        assert_eq!(Kind::known(&[999]).part(), 0);
        let kind = Kind::default().run(FEWEST as usize - 1, &[5_000], NEAR, true);
        assert_eq!(kind.part(), 0);
        assert_eq!(kind.run(1, &[5_000], NEAR, true).part(), 1);
    }

    #[test]
    fn the_way_to_the_server_is_no_waiting_there() {
        let way = Duration::from_millis(20);
        let far = |times: &[u64]| Kind::default().run(256, times, way, false);
        assert_eq!(far(&[20_100]).part(), 0, "too short");
        assert_eq!(far(&[39_000]).part(), 0, "longer on its way than at the server");
        assert!(far(&[45_000]).part() > 0);
        assert_eq!(far(&[45_000]).run(256, &[70_000], way, false).part(), 0, "twice as long at the server");
        assert_eq!(far(&[19_000]).part(), 0, "measured while the server was nearer");
    }

    #[test]
    fn the_least_time_rises_only_while_few_run() {
        let kind = Kind::known(&[5_000]).run(10_000, &[50_000], NEAR, false);
        assert_eq!(kind.part(), 0, "among many it may take that long for the others' sake");
        assert!(kind.run(1_000, &[50_000], NEAR, true).part() >= WHOLE / 2, "its data have grown");
    }
}
