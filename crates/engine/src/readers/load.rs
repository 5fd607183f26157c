//! How soon a server is likely to answer one more read: by what reads took there lately, and how many are there.

use std::time::Duration;

use seam::Instant;

/// The number of latest times that the mean follows: each new one counts for an eighth.
const WEIGHT: u32 = 8;

/// A mean of which nothing new is heard for so long counts half: a server that was slow once is tried again.
const HALVES: Duration = Duration::from_secs(1);

/// The first ones have connections opened for them: the quickest of so many says what is usual.
const FIRST: u32 = 8;

/// Towards a greater time the usual one goes by a thirty-second, towards a lesser one by a fourth: one that took twenty times as long, as where
/// a connection had to be opened for it, makes no other usual.
const USUAL_UP: u32 = 32;
const USUAL_DOWN: u32 = 4;

/// Less than this nothing takes.
pub(super) const QUICKEST: Duration = Duration::from_micros(1);

/// The load by reads of one kind, on one server.
#[derive(Debug, Default)]
pub(super) struct Load {
    under_way: u32,
    mean: Duration,
    /// The time that a read usually takes, without single slow ones; zero before one has ended.
    usual: Duration,
    /// The number of reads that have ended, up to [`FIRST`].
    ended: u32,
    heard: Instant,
}

impl Load {
    pub(super) fn begin(&mut self) {
        self.under_way += 1;
    }

    /// Notes that a read has ended, after so long.
    pub(super) fn end(&mut self, now: Instant, took: Duration) {
        self.under_way = self.under_way.saturating_sub(1);
        let mean = self.mean_at(now);
        // What takes longer counts at once, so that a server which begins to be slow gets no more.
        self.mean = if took > mean { took } else { (mean * (WEIGHT - 1) + took) / WEIGHT };
        self.usual = self.usual_with(now, took).max(QUICKEST);
        self.ended = FIRST.min(self.ended + 1);
        self.heard = now;
    }

    fn usual_with(&self, now: Instant, took: Duration) -> Duration {
        match self.usual {
            _ if self.ended == 0 => took,
            usual if self.ended < FIRST => usual.min(took),
            usual if took > usual => usual + (took - usual) / USUAL_UP,
            // That it may have become quicker while nothing was heard was no mistake, as far as it has.
            usual => (usual - (usual - took) / USUAL_DOWN).min(self.halved(now, usual)).max(took),
        }
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

    /// The usual time of a read there, as of the last one that ended; `None` where none has.
    pub(super) fn usual(&self) -> Option<Duration> {
        (self.ended > 0).then_some(self.usual)
    }

    /// Likewise, and less the longer nothing is heard; `None` before that is sure.
    pub(super) fn usual_by_now(&self, now: Instant) -> Option<Duration> {
        (self.ended == FIRST).then(|| self.halved(now, self.usual).max(QUICKEST))
    }

    /// How many nanoseconds one more read is likely to take there where one takes so long, for comparing servers of unlike weights: what is
    /// under way counts as on a server of the least weight, which is as busy with less.
    pub(super) fn beside(&self, usual: Duration, weight: u32, least: u32) -> u128 {
        let ahead = u128::from(self.under_way) * u128::from(least);
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
    fn what_is_usual_follows_the_quick_ones() {
        let at = |millis: u64| Instant::from_micros(1_000 * millis);
        let mut load = Load::default();
        let mut end = |at, millis| {
            load.end(at, Duration::from_millis(millis));
            load.usual().map(|usual| usual.as_millis())
        };
        let first = [500, 64, 500, 500, 500, 500, 500, 300].map(|millis| end(at(1), millis));
        assert_eq!(
            (first[0], first[1], first[7]),
            (Some(500), Some(64), Some(64)),
            "the quickest of the first"
        );
        assert_eq!((end(at(2), 96), end(at(3), 25)), (Some(65), Some(55)));
        // For three seconds nobody was sent there.
        assert_eq!((end(at(3_100), 50), end(at(6_200), 10)), (Some(50), Some(10)));
        // Nothing makes it quicker than it is.
        assert_eq!(
            (end(at(90_000), 10), load.usual_by_now(at(92_500))),
            (Some(10), Some(Duration::from_micros(2_500)))
        );
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
