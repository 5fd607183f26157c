//! How soon a server is likely to answer one more read: by what reads took there lately, and how many are there.

use std::time::Duration;

use seam::Instant;

/// Of the latest times the mean counts; each new one for an eighth.
const WEIGHT: u32 = 8;

/// A mean of which nothing new is heard for so long counts half: a server that was slow once is tried again.
const HALVES: Duration = Duration::from_secs(1);

/// Of the latest times the usual one counts, each new one for a thirty-second: one that took twenty times as long is no other usual.
const USUAL_WEIGHT: u32 = 32;

/// Less than this nothing takes.
pub(super) const QUICKEST: Duration = Duration::from_micros(1);

/// Of reads of one kind, on one server.
#[derive(Debug, Default)]
pub(super) struct Load {
    under_way: u32,
    mean: Duration,
    /// What one takes, single ones that were slow aside; `None` where nothing is known.
    usual: Option<Duration>,
    heard: Instant,
}

impl Load {
    pub(super) fn begin(&mut self) {
        self.under_way += 1;
    }

    /// One has ended, after so long.
    pub(super) fn end(&mut self, now: Instant, took: Duration) {
        self.under_way = self.under_way.saturating_sub(1);
        let mean = self.mean_at(now);
        // What takes longer counts at once, so that a server which begins to be slow gets no more.
        self.mean = if took > mean { took } else { (mean * (WEIGHT - 1) + took) / WEIGHT };
        let usual = self.usual.map_or(took, |usual| (usual * (USUAL_WEIGHT - 1) + took) / USUAL_WEIGHT);
        self.usual = Some(usual.max(QUICKEST));
        self.heard = now;
    }

    fn mean_at(&self, now: Instant) -> Duration {
        self.halved(now, self.mean)
    }

    fn halved(&self, now: Instant, mean: Duration) -> Duration {
        let halvings = now.since(self.heard).as_micros() / HALVES.as_micros();
        u32::try_from(halvings)
            .ok()
            .and_then(|by| 1_u32.checked_shl(by))
            .map_or(Duration::ZERO, |by| mean / by)
    }

    /// How long one more read is likely to take there, for comparing servers.
    pub(super) fn expected(&self, now: Instant) -> Duration {
        // Of a server of which nothing is known yet, the number under way decides.
        self.mean_at(now).max(QUICKEST) * (self.under_way + 1)
    }

    /// What a read took there usually, when last one was heard of; `None` where nothing is known.
    pub(super) fn usual(&self) -> Option<Duration> {
        self.usual
    }

    /// Likewise, and less the longer nothing is heard.
    pub(super) fn usual_by_now(&self, now: Instant) -> Option<Duration> {
        self.usual.map(|usual| self.halved(now, usual).max(QUICKEST))
    }

    /// How many nanoseconds one more read is likely to take there where one takes so long, for comparing servers of unlike weights: what is
    /// under way counts as it would on a server of the heaviest weight.
    pub(super) fn beside(&self, usual: Duration, weight: u32, heaviest: u32) -> u128 {
        let ahead = u128::from(self.under_way) * u128::from(heaviest);
        usual.as_nanos() * (ahead + u128::from(weight)) / u128::from(weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_go_where_they_are_answered_sooner() {
        let now = Instant::from_micros(5_000_000);
        let (mut quick, mut slow) = (Load::default(), Load::default());
        for load in [&mut quick, &mut slow] {
            load.begin();
        }
        quick.end(now, Duration::from_millis(1));
        slow.end(now, Duration::from_millis(3));
        let mut taken = [0, 0];
        for _ in 0..40 {
            let first = quick.expected(now) <= slow.expected(now);
            taken[usize::from(!first)] += 1;
            if first { quick.begin() } else { slow.begin() }
        }
        assert_eq!(taken, [30, 10], "in the measure of what they do");
        let later = now + Duration::from_secs(20);
        assert!(slow.expected(later) < quick.expected(now), "it is tried again");
    }

    #[test]
    fn one_that_begins_to_be_slow_is_known_at_once() {
        let now = Instant::from_micros(1_000_000);
        let mut load = Load::default();
        load.begin();
        load.end(now, Duration::from_millis(1));
        load.begin();
        load.end(now, Duration::from_millis(80));
        assert_eq!(load.expected(now), Duration::from_millis(80));
    }
}
