//! News of the statements that wait at this Onramp, for the others.

use std::time::Duration;

use seam::Instant;

use crate::frozen::Distance;

/// An Onramp is at work for so long after its statements have waited. Loads come in bursts, and each change of the permits is a new start for
/// Onramps that find their limit.
const AT_WORK_FOR: Duration = Duration::from_secs(10);

/// The divisor of the time: a limit is used where statements wait for a quarter of the time, as measurements of it have it. An Onramp that
/// uses less leaves the server to the others, whatever its own part may be.
const USED: u64 = 4;

/// A piece of news for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The Onramp is at work from now on, or not any more.
    AtWork(bool),
    /// The Onramp's statements wait much of the time from now on, or not any more.
    Saturated(bool),
}

/// Says whether statements wait, and what the others have been told of that.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// The time until which we are at work.
    until: Option<Instant>,
    is_saturated: bool,
    /// The time of the last look, and for how long statements had waited until then at each of the servers, in microseconds.
    seen: Option<(Instant, Vec<u64>)>,
    /// True where the server knows that we are at work.
    says_at_work: bool,
    says_saturated: bool,
}

/// [`Work`] as plain data ([`crate::frozen`]).
#[derive(Debug, PartialEq)]
pub(super) struct FrozenWork {
    until: Option<Distance>,
    is_saturated: bool,
    seen: Option<(Distance, Vec<u64>)>,
    says_at_work: bool,
    says_saturated: bool,
}

plain!(struct FrozenWork { until, is_saturated, seen, says_at_work, says_saturated });

impl Work {
    pub(super) fn freeze(self, now: Instant) -> FrozenWork {
        let Self { until, is_saturated, seen, says_at_work, says_saturated } = self;
        FrozenWork {
            until: until.map(|until| Distance::of(until, now)),
            is_saturated,
            seen: seen.map(|(at, waited)| (Distance::of(at, now), waited)),
            says_at_work,
            says_saturated,
        }
    }
}

impl FrozenWork {
    pub(super) fn thaw(self, now: Instant) -> Work {
        let Self { until, is_saturated, seen, says_at_work, says_saturated } = self;
        Work {
            until: until.map(|until| until.from(now)),
            is_saturated,
            seen: seen.map(|(at, waited)| (at.from(now), waited)),
            says_at_work,
            says_saturated,
        }
    }
}

impl Work {
    pub(super) fn is_at_work(&self) -> bool {
        self.until.is_some()
    }

    /// Notes whether statements have waited since the last look, and for how long until now at each of the servers, in microseconds.
    pub(super) fn look(&mut self, now: Instant, have_waited: bool, saturated_for: &[u64]) {
        if have_waited {
            self.until = Some(now + AT_WORK_FOR);
        } else if self.until.is_some_and(|until| until <= now) {
            self.until = None;
        }
        if let Some((at, before)) = self.seen.replace((now, saturated_for.to_vec())) {
            let elapsed = now.as_micros().saturating_sub(at.as_micros());
            // Each server has limits of its own: some waiting at each of them uses none.
            let waited = saturated_for.iter().zip(before).map(|(now, before)| now.saturating_sub(before));
            let waited = waited.max().unwrap_or_default();
            self.is_saturated = self.is_at_work() && waited.saturating_mul(USED) >= elapsed;
        }
    }

    /// The news that the server is to be told.
    pub(super) fn change(&self) -> Option<Told> {
        let at_work = self.is_at_work();
        let is_known = at_work == self.says_at_work;
        (!is_known).then_some(Told::AtWork(at_work)).or_else(|| self.change_of_saturation())
    }

    fn change_of_saturation(&self) -> Option<Told> {
        (self.is_saturated != self.says_saturated).then_some(Told::Saturated(self.is_saturated))
    }

    /// The server has heard whether we are at work, or has refused to. Returns what it is to be told next.
    pub(super) fn say_at_work(&mut self, is_said: bool) -> Option<Told> {
        self.says_at_work = is_said;
        self.change_of_saturation()
    }

    /// Notes whether the server has heard that we are saturated.
    pub(super) fn say_saturated(&mut self, is_said: bool) {
        self.says_saturated = is_said;
    }

    /// The connection that has said it is gone.
    pub(super) fn is_forgotten(&mut self) {
        self.says_at_work = false;
        self.says_saturated = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks once a second, before each of which statements have waited for so many milliseconds.
    fn looks(work: &mut Work, waits: &[u64]) -> Vec<bool> {
        looks_at(work, &waits.iter().map(|&wait| [wait]).collect::<Vec<_>>())
    }

    /// Does the same at each of several servers.
    fn looks_at<const N: usize>(work: &mut Work, waits: &[[u64; N]]) -> Vec<bool> {
        let (mut now, mut waited) = (Instant::START, [0; N]);
        work.look(now, true, &waited);
        let look = |milliseconds: &[u64; N]| {
            now = now + Duration::from_secs(1);
            waited.iter_mut().zip(milliseconds).for_each(|(waited, more)| *waited += more * 1_000);
            work.look(now, milliseconds.iter().any(|&more| more > 0), &waited);
            work.is_saturated
        };
        waits.iter().map(look).collect()
    }

    #[test]
    fn who_waits_for_a_quarter_of_the_time_is_saturated() {
        let mut work = Work::default();
        assert_eq!(looks(&mut work, &[250, 249, 1_000, 0, 250]), [true, false, true, false, true]);
        assert!(work.is_at_work(), "for ten seconds");
    }

    #[test]
    fn some_waiting_at_each_of_several_servers_is_no_saturation() {
        let seen = looks_at(&mut Work::default(), &[[100, 200, 200], [0, 250, 0], [240, 240, 240]]);
        assert_eq!(seen, [false, true, false]);
    }

    #[test]
    fn each_is_said_once_and_again_on_another_connection() {
        let mut work = Work::default();
        looks(&mut work, &[500]);
        assert_eq!(work.change(), Some(Told::AtWork(true)));
        assert_eq!(work.say_at_work(true), Some(Told::Saturated(true)));
        work.say_saturated(true);
        assert_eq!(work.change(), None);
        work.is_forgotten();
        assert_eq!(work.change(), Some(Told::AtWork(true)));
        assert_eq!(work.say_at_work(false), Some(Told::Saturated(true)), "somebody else holds the one lock");
    }
}
