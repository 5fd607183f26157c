//! The effect that a number of long statements has on them, and on others: measured, and followed by the next number.

use std::time::Duration;

use seam::Instant;

use super::LongEnd;
use crate::outside::histogram::micros;

/// The time that statements take, and their like with few long ones at a time; microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    pub(crate) time: u64,
    pub(crate) usual: u64,
}

impl Pace {
    pub(crate) fn add(&mut self, time: u64, usual: u64) {
        self.time = self.time.saturating_add(time);
        self.usual = self.usual.saturating_add(usual);
    }

    /// Says whether it is so many per cent of the usual time, or more.
    fn is_from(self, percent: u32) -> bool {
        u128::from(self.time) * 100 > u128::from(self.usual) * u128::from(percent)
    }

    /// The loss in the time `seen`, beyond a quarter of the usual time; microseconds.
    fn lost(self, seen: u64) -> u64 {
        let lost = u128::from(self.time).saturating_sub(u128::from(self.usual) * 5 / 4);
        u64::try_from(lost * u128::from(seen) / u128::from(self.usual.max(1))).unwrap_or(u64::MAX)
    }
}

/// How long statements take compared with what they took when few ran.
#[derive(Debug, PartialEq)]
pub(super) struct Measurement {
    /// The time at which the number was changed: statements that began before that say nothing about it.
    pub(super) changed_at: Instant,
    /// The time at which the measurement began.
    pub(super) begun_at: Instant,
    pub(super) count: u32,
    /// True while none of these has taken a tenth longer than usual.
    pub(super) even: bool,
    pub(super) long: Pace,
    pub(super) others: Pace,
    /// The time of all long ones that have ended, those included that say nothing; microseconds.
    pub(super) all_long: u64,
    /// How many ran beyond the permits before the latest try with more, which is not measured yet.
    pub(super) tried_from: Option<u32>,
    /// How many ran in all when the latest try failed: the next one goes half of the way there.
    pub(super) failed_at: Option<u32>,
    /// How many ran beyond the permits when the others were last seen, where more have been tried since.
    pub(super) in_company: Option<u32>,
    /// No more are tried before this time.
    pub(super) rest_until: Instant,
    /// If the next try fails, the try after it comes so many times the time of a long statement later.
    pub(super) pause: u32,
}

/// A measurement takes so many statements, or as many as run at a time if these are more. The mean of 16 that differ by half
/// either way is off by a tenth at most in four of five cases.
const FEWEST: u32 = 16;

/// Statements that are enough where none of them takes a tenth longer than usual. Where each processor had two of them they would
/// take twice as long, and hardly one would be as short, however much their times differ.
const FEWEST_EVEN: u32 = 4;

/// The part of the long statements' time, in hundredths, below which all others count for nothing: health checks and the like.
const ALONE: u32 = 1;

/// The factor by which more are tried where long statements are alone; twice as many are tried where they are not. From a quarter of 16
/// permits to 64 there are two steps then.
const STEP_ALONE: u32 = 4;

/// A try is over where other statements have lost so much by it, beyond a quarter of their usual time; microseconds. Where they take twice as
/// long, that is after 0.13 seconds.
const ENOUGH: u64 = 100_000;

/// Time of other statements that shows for certain whether they are slowed down by a quarter, where no less of them come in than usual:
/// a pause of the server's disk or the like must not be taken for the long ones' work; microseconds.
const CERTAIN: u64 = 10 * ENOUGH;

/// After a try that failed, the next one comes later and later, from so many times the time that it took on up to this many, since a try
/// costs the others something where statements compute. With 64, less than 3 in 100 of the time goes to trying, though what a try has
/// started runs on for about as long as it took.
const FIRST_PAUSE: u32 = 2;
const LONGEST_PAUSE: u32 = 64;

impl Measurement {
    pub(super) const NONE: Self = Self {
        changed_at: Instant::START,
        begun_at: Instant::START,
        count: 0,
        even: true,
        long: Pace { time: 0, usual: 0 },
        others: Pace { time: 0, usual: 0 },
        all_long: 0,
        tried_from: None,
        failed_at: None,
        in_company: None,
        rest_until: Instant::START,
        pause: FIRST_PAUSE,
    };

    /// Takes one in. True where enough is known: of the others that they are slowed down is known long before it is known of the
    /// long ones.
    pub(super) fn add(&mut self, end: &LongEnd, usual: Duration, limit: u32) -> bool {
        self.others.add(end.others.time, end.others.usual);
        self.all_long = self.all_long.saturating_add(micros(end.time));
        if self.others.usual >= ENOUGH && self.in_company.is_some() && !self.is_alone() {
            return true;
        }
        // Where many come at a time, a moment is much of their time, and all of them see the same moment.
        let seen = self.others.usual.min(micros(end.at.since(self.begun_at)));
        let slow = seen >= CERTAIN && self.others.is_from(125);
        if slow || (self.tried_from.is_some() && self.others.lost(seen) >= ENOUGH) {
            return true;
        }
        if end.at.since(self.changed_at) < end.time {
            return false;
        }
        self.count += 1;
        self.even &= micros(end.time) * 10 <= micros(usual) * 11;
        self.long.add(micros(end.time), micros(usual));
        let fewest = match self.even {
            _ if self.is_alone() => 0,
            true => FEWEST_EVEN,
            false => FEWEST,
        };
        self.count >= limit.max(fewest)
    }

    /// Says whether the others take next to nothing, compared with the long ones.
    fn is_alone(&self) -> bool {
        u128::from(self.others.time) * 100 < u128::from(self.all_long) * u128::from(ALONE)
    }

    /// How many may run beyond the permits, after `more`, where `limit` may run in all. Twice as many in all are tried while they
    /// take a tenth longer than usual at most, and more where they are alone, or half of the way to what has failed. Did they compute,
    /// they would take twice as long: as from a tenth longer on, the try has failed, and as from a quarter on without a try, fewer may run. The
    /// same holds for other statements.
    pub(super) fn next(&mut self, end: &LongEnd, more: u32, limit: u32, crowded: bool) -> u32 {
        let tried_from = self.tried_from.take();
        let alone = self.is_alone();
        let (long, others) = (std::mem::take(&mut self.long), std::mem::take(&mut self.others));
        (self.begun_at, self.count, self.even, self.all_long) = (end.at, 0, true, 0);
        if let Some(before) = self.in_company.take_if(|_| !alone) {
            // Nobody knows what the others usually take but beside few.
            (self.rest_until, self.pause) = (end.at, FIRST_PAUSE);
            return before.min(more);
        }
        let good = !long.is_from(110) && !others.is_from(110);
        // Neither good nor bad is no reason for more, nor for fewer.
        let bad = if tried_from.is_some() { !good } else { long.is_from(125) || others.is_from(125) };
        if bad {
            // Where only those with permits run, something else is to blame.
            self.failed_at = tried_from.map(|_| limit);
            if tried_from.is_some() || more > 0 {
                let usual = end.usual.unwrap_or(end.time);
                let took = tried_from.map_or(usual, |_| end.at.since(self.changed_at).max(usual));
                self.rest_until = end.at + took * self.pause;
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            }
            return tried_from.unwrap_or(more / 2);
        }
        if tried_from.is_some() {
            self.pause = FIRST_PAUSE;
        }
        if !good || !crowded || end.at < self.rest_until {
            return more;
        }
        self.tried_from = Some(more);
        if alone {
            self.in_company.get_or_insert(more);
        }
        let step = limit.saturating_mul(if alone { STEP_ALONE - 1 } else { 1 });
        // Where there is nothing between the two, what failed is tried once more: it may have been chance.
        let half = self.failed_at.map(|failed| failed.saturating_sub(limit) / 2).filter(|&half| half > 0);
        more.saturating_add(step.min(half.unwrap_or(step)))
    }
}
