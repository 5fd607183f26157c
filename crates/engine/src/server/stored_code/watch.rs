//! The times at which stored code is read, and what of it is known.

pub(crate) mod reading;
mod schemas;

use std::sync::Arc;
use std::time::Duration;

use seam::Instant;

use super::questions::{CodeQuestion, Rights};
use super::{Known, Library};
use crate::frozen::Distance;
use schemas::Schemas;

/// The servers count a definition before they make it, and the definition may wait for a lock in between. So a server
/// with a changed count is read again after this time, and after four times as long, and so on.
const FIRST_AGAIN: Duration = Duration::from_secs(1);

/// The pause after which the server is not read again for this.
const LAST_AGAIN: Duration = Duration::from_secs(64);

/// A server that gives no answer about a few schemas' code for as long as it may take to connect is not asked again for this time: it may go on to
/// look for the answer that nobody waits for any more. Each time the service account's connection is lost, so that the pause grows.
const PAUSE_OF_SILENCE: Duration = Duration::from_secs(300);

/// The pause of silence that is not made longer: a day, about.
const LONGEST_PAUSE_OF_SILENCE: Duration = Duration::from_secs(300 << 8);

/// Tables are defined more often than code, and hold it seldom.
const PAUSE_OF_TABLES: Duration = Duration::from_secs(5);

/// A worker's knowledge of stored code; one of the workers reads it.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The time at which the server is asked for its counts next.
    next: Instant,
    /// The server's latest counts: of code, and of tables too.
    counts: Option<[Vec<u8>; 2]>,
    /// The time before which the code is not read again.
    not_before: Instant,
    /// Likewise, for a server that took too long, which another login does not change.
    left_alone_until: Instant,
    /// The pause that ends then.
    silence: Duration,
    /// The time of the next reading.
    due: Option<Instant>,
    /// Once more, after how long.
    again: Option<(Instant, Duration)>,
    reading: Option<Reading>,
    /// The rights that the service account was found to have first since its login. Rights on everything that come later do not
    /// hold on its connection (manuals, "When privilege changes take effect").
    rights: Option<Rights>,
    /// True once another question has gone before the next one, which would have been due: that one goes next.
    gave_way: bool,
    /// True once a log line has said that not all can be read.
    said: bool,
    readings: u64,
}

/// The library that all workers know, as of this number, as one of them has it.
#[derive(Default)]
pub(crate) struct KnownCode {
    pub(crate) library: Arc<Library>,
    pub(crate) version: u64,
}

/// Reading that is under way.
#[derive(Debug)]
struct Reading {
    began: Instant,
    question: CodeQuestion,
    rights: Rights,
    known: Known,
    schemas: Schemas,
    /// The answers that the server has given to their end.
    answers: Vec<(CodeQuestion, Vec<u8>)>,
    /// Bytes of those that are of the present kind of code.
    bytes: usize,
    /// The answers are all there, and are looked through.
    task: Option<u64>,
    /// Definitions that went through here and were over when it began.
    covered: Vec<u64>,
    /// The server's reason for a refusal.
    refusal: Option<String>,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            next: Instant::START,
            counts: None,
            not_before: Instant::START,
            left_alone_until: Instant::START,
            silence: Duration::ZERO,
            due: None,
            again: None,
            reading: None,
            rights: None,
            gave_way: false,
            said: false,
            readings: 0,
        }
    }
}

/// [`Watch`] as plain data ([`crate::frozen`]), while nothing is read.
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenWatch {
    next: Distance,
    counts: Option<[Vec<u8>; 2]>,
    not_before: Distance,
    left_alone_until: Distance,
    silence: Duration,
    due: Option<Distance>,
    again: Option<(Distance, Duration)>,
    rights: Option<Rights>,
    gave_way: bool,
    said: bool,
    readings: u64,
}

plain!(struct FrozenWatch {
    next, counts, not_before, left_alone_until, silence, due, again, rights, gave_way, said, readings,
});

impl Watch {
    /// Takes it apart, where nothing [is being read](Self::is_being_read).
    pub(crate) fn freeze(self, now: Instant) -> FrozenWatch {
        let Self {
            next,
            counts,
            not_before,
            left_alone_until,
            silence,
            due,
            again,
            reading: _, // none
            rights,
            gave_way,
            said,
            readings,
        } = self;
        FrozenWatch {
            next: Distance::of(next, now),
            counts,
            not_before: Distance::of(not_before, now),
            left_alone_until: Distance::of(left_alone_until, now),
            silence,
            due: due.map(|due| Distance::of(due, now)),
            again: again.map(|(at, pause)| (Distance::of(at, now), pause)),
            rights,
            gave_way,
            said,
            readings,
        }
    }
}

impl FrozenWatch {
    pub(crate) fn thaw(self, now: Instant) -> Watch {
        let Self {
            next,
            counts,
            not_before,
            left_alone_until,
            silence,
            due,
            again,
            rights,
            gave_way,
            said,
            readings,
        } = self;
        Watch {
            next: next.from(now),
            counts,
            not_before: not_before.from(now),
            left_alone_until: left_alone_until.from(now),
            silence,
            due: due.map(|due| due.from(now)),
            again: again.map(|(at, pause)| (at.from(now), pause)),
            reading: None,
            rights,
            gave_way,
            said,
            readings,
        }
    }
}

impl Watch {
    /// The service account has logged in anew: it may be another server, or see more.
    pub(crate) fn asked_anew(&mut self) {
        let Self { left_alone_until, silence, said, readings, .. } = *self;
        *self = Self { left_alone_until, silence, said, readings, ..Self::default() };
    }

    /// Notes that another question wants to go before one that is due. Returns whether it may: they take turns, so that none is put off for ever.
    pub(crate) fn gives_way(&mut self) -> bool {
        self.gave_way = !self.gave_way;
        self.gave_way
    }

    /// Another server is asked from here on.
    pub(crate) fn is_elsewhere(&mut self) {
        (self.left_alone_until, self.silence) = (Instant::START, Duration::ZERO);
    }

    /// Leaves the server alone, which gives no answer.
    fn leave_alone(&mut self, now: Instant) {
        self.silence = (4 * self.silence).clamp(PAUSE_OF_SILENCE, LONGEST_PAUSE_OF_SILENCE);
        self.left_alone_until = now + self.silence;
    }

    /// Takes in the counts.
    fn take_counts(&mut self, now: Instant, counts: [Vec<u8>; 2], wanted: bool) {
        let before = self.counts.replace(counts);
        let after = self.counts.as_ref().expect("set above");
        let code = before.as_ref().is_none_or(|before| before[0] != after[0]);
        let tables = before.as_ref().is_none_or(|before| before[1] != after[1]);
        let again = self.again.is_some_and(|(at, _)| at <= now);
        if code || wanted || again {
            self.due = Some(now);
        } else if tables {
            self.due = self.due.or(Some(now + PAUSE_OF_TABLES));
        }
        if code && before.is_some() {
            self.again = Some((now + FIRST_AGAIN, FIRST_AGAIN));
        } else if let Some((_, pause)) = self.again.filter(|_| again) {
            self.again = (pause < LAST_AGAIN).then_some((now + 4 * pause, 4 * pause));
        }
    }

    /// Says whether that is under way.
    pub(crate) fn is_being_read(&self) -> bool {
        self.reading.is_some()
    }

    /// The number of times that the code has been read.
    pub(crate) fn readings(&self) -> u64 {
        self.readings
    }

    /// Says whether a reading is due now.
    fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now) && self.not_before.max(self.left_alone_until) <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_server_is_left_alone_for_longer_each_time_and_another_one_is_not() {
        let mut watch = Watch::default();
        let mut pauses = Vec::new();
        let mut now = Instant::from_micros(90_000_000);
        for _ in 0..6 {
            watch.leave_alone(now);
            watch.asked_anew();
            watch.due = Some(now);
            assert!(!watch.is_due(now));
            pauses.push(watch.left_alone_until.since(now).as_secs());
            now = watch.left_alone_until;
            assert!(watch.is_due(now));
        }
        assert_eq!(pauses, [300, 1_200, 4_800, 19_200, 76_800, 76_800]);
        watch.leave_alone(now);
        watch.is_elsewhere();
        assert!(watch.is_due(now));
        watch.leave_alone(now);
        assert_eq!(watch.left_alone_until.since(now), PAUSE_OF_SILENCE);
    }

    #[test]
    fn another_question_goes_before_every_second_one() {
        let mut watch = Watch::default();
        assert_eq!([(); 4].map(|()| watch.gives_way()), [true, false, true, false]);
    }
}
