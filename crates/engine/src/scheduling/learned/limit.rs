//! How many statements should execute at a time, found by trying; likewise on how many backends short reads are shared, and how
//! many of them are in flight on each.
//!
//! Too few leave the server's cores or disks idle, too many have it switch between threads and wait for locks; where the
//! best lies depends on the server and on what it is asked, and both change. So the limit is moved a step up or down for a
//! moment, and back, several times over: what is compared is the work done at the one and at the other, each time between
//! two measurements at the present limit, so that what changes by itself meanwhile counts for neither. A step up is taken
//! if it does more, a step down if it hardly does less, as far as that can be told from chance: of limits that are as good the
//! smallest is best, since what waits here can still be put in order. What cannot be told yet is put aside, and goes on after the
//! next rest with what is known. How much the machine's own speed varies is seen at the present limit all the time, and no
//! difference or change below that is taken for plain. After steps that were of no use it rests, longer each time, unless the load or
//! the server has changed.
//!
//! *Work* is the sum of what the ended statements take as a rule, by digest, so that a change of the mix is not taken for
//! one of the server's speed. Only moments count at which statements wait for a permit: a limit that is not reached says
//! nothing, and never moves. But where a larger one is tried, all of its time counts: that nobody waits any more is what it is for.
//! And one that was raised for other kinds of statements goes back to where it was right for these, reached or not.
//!
//! The idea is that of feedback control by hill climbing (H.-U. Heiss and R. Wagner, Adaptive Load Control in Transaction
//! Processing Systems, VLDB 1991).

mod differences;
mod frozen;
mod meter;
mod mix;
mod range;
#[cfg(test)]
mod tests;

use std::time::Duration;

use seam::Instant;

pub(crate) use differences::Worth;
use differences::{AT_A_TIME, Differences, Verdict};
pub(crate) use frozen::FrozenMeter;
pub(crate) use meter::{Meter, Served};
use mix::{Mixes, UsualTimes};
pub use range::{Division, Range};

/// A measurement takes this long at least: some hundred point selects, and some ten of what a disk is asked.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

/// Statements that a measurement takes for each permit at least, of which those at its edges are a quarter then. With
/// more, a server that is drowning would take minutes to be measured.
const ENOUGH: u64 = 4;

/// After a change of the limit, so many times as many statements as ran or run now end before the next measurement: those that began
/// before. Fewer are not enough: what is measured behind a step up and back would have some of those of the other limit.
const SETTLING: f64 = 1.0;

/// Times of the way to the server and back that settling takes at least, where the server is far away: the first brings answers to
/// statements that began before, and the next ones tell how many are on the way.
const SETTLING_TRIPS: u32 = 4;

/// A measurement in which statements waited for a permit for less than a quarter of the time is of no use.
const USED: u32 = 4;

/// Statements in a measurement from which their kinds can be told. Where the limit was raised for other kinds, their kinds are
/// looked at even while the limit is not reached: it may be far above the best limit for these, and they would never show that.
const ENOUGH_FOR_THEIR_KINDS: u64 = 64;

/// The time without the end of a single statement after which there is no load to try a larger limit with.
const IDLE: Duration = Duration::from_secs(2);

/// The first rest after steps that were of no use, and the longest: with about a second of trying at a limit that may be
/// a third worse, the latter costs about a hundredth.
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(32);

/// Where so much more or less is done than usual (a natural logarithm: about a quarter), so many times in a row, the load or
/// the server has changed.
const CHANGE: f64 = 0.25;
const CHANGES: u32 = 5;

/// The change, a natural logarithm, to half or twice as much: two times in a row are enough. A server that drowns takes long for each
/// measurement.
const LARGE_CHANGE: f64 = std::f64::consts::LN_2;

/// The factor by which the change has to exceed the machine's own variation, where its speed varies.
const CHANGE_BEYOND_NOISE: f64 = 5.0;

/// The shortest part of a rest that a change leaves, as a divisor. On a machine with a speed that varies by itself, every
/// change would be followed by trials otherwise, and these cost more than they bring.
const SHORTEST_PART: u32 = 8;

/// The counts so far, while statements waited for a permit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Statements that have ended.
    statements: u64,
    /// The time that these take as a rule.
    work: UsualTimes,
    /// Microseconds for which statements waited.
    saturated: u64,
}

/// The limit that finds itself.
#[derive(Debug)]
pub(crate) struct Limit {
    range: Range,
    /// The best known.
    best: u32,
    /// The best before that.
    former: u32,
    state: State,
    /// The step from the best that is next, see [`STEPS`].
    next_step: usize,
    /// True if the last good step went up.
    upwards: bool,
    rest: Duration,
    usual: Option<Usual>,
    noise: Noise,
    mixes: Mixes,
    /// Trials of other limits that were put aside.
    undecided: Vec<(u32, Differences)>,
    /// True while statements run that began under another limit: too early to measure.
    settling: bool,
    /// The number of statements that ran when the other limit was left.
    ran_before: f64,
    /// The number of statements that run for each permit in use, see [`Limit::look`].
    for_a_permit: f64,
    began: Instant,
    from: Counts,
}

#[derive(Debug)]
enum State {
    /// The best is in force: until the one time if the load changes, until the other if not.
    Resting {
        at_least: Instant,
        until: Instant,
    },
    Trying(Trial),
}

impl State {
    fn resting(now: Instant, time: Duration) -> Self {
        Self::Resting { at_least: now + time / SHORTEST_PART, until: now + time }
    }
}

/// A comparison of the best limit with another.
#[derive(Debug, PartialEq)]
struct Trial {
    other: u32,
    /// The speed at the best, just before.
    before: Speed,
    /// The speed at the other, since then; `None` while that is in force.
    at_other: Option<f64>,
    differences: Differences,
    /// Pairs measured since the trial was taken up.
    pairs: u32,
}

/// The measurements at rest.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Usual {
    speed: Speed,
    /// The number of times in a row that it was another.
    changes: u32,
}

/// A larger difference than this between two measurements is no noise.
const LARGEST_NOISE: f64 = 0.3;

/// The change in statements that run for each permit (a natural logarithm) from which on two measurements are not compared: kinds that
/// mostly wait grow into their parts, a sixteenth of a permit at a time.
const SAME_PARTS: f64 = 0.05;

/// The difference in speed between one measurement at the best limit and the next at the same one: what the machine does by
/// itself, and chance. This is an average over the last twenty, about.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Noise {
    /// The last measurement, and how many statements ran for each permit.
    last: Option<(f64, f64)>,
    average: f64,
    count: u32,
}

impl Noise {
    /// Takes in a measurement at the best limit, while so many statements ran for each permit.
    fn add(&mut self, speed: Speed, for_a_permit: f64) {
        if let Some((last, before)) = self.last.replace((speed.work, for_a_permit))
            && (for_a_permit / before).ln().abs() < SAME_PARTS
        {
            self.count = (self.count + 1).min(20);
            let difference = (speed.work - last).abs().min(LARGEST_NOISE);
            self.average += (difference - self.average) / f64::from(self.count);
        }
    }

    /// Another limit is the best now.
    fn forget_last(&mut self) {
        self.last = None;
    }
}

/// Natural logarithms, so that a difference is a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Speed {
    /// The speed of work, in microseconds a microsecond.
    work: f64,
    /// The speed of statements, likewise.
    statements: f64,
}

/// A step from the best: in the direction of the last good one or against it, and by which factor. Large ones first, to be
/// where it is about right soon.
const STEPS: [(bool, f64); 5] = [
    (true, 4.0),
    (true, 2.0),
    (false, 2.0),
    (true, std::f64::consts::SQRT_2),
    (false, std::f64::consts::SQRT_2),
];

/// The first of all but for one, which is for where each permit more has just counted in full: statements that wait for something else
/// than the server's cores.
const USUAL_STEPS: usize = 1;

/// The first of the small ones, to which it comes back after a rest.
const SMALL_STEPS: usize = 3;

/// A permit counts in full where so much of what it would bring alone is brought.
const IN_FULL: f64 = 0.8;

impl Limit {
    /// Makes a limit in this range.
    pub(crate) fn new(range: Range) -> Self {
        let best = range.clamp(range.start);
        Self {
            range,
            best,
            former: best,
            state: State::resting(Instant::START, Duration::ZERO),
            next_step: USUAL_STEPS,
            upwards: true,
            rest: FIRST_REST,
            usual: None,
            noise: Noise::default(),
            mixes: Mixes::default(),
            undecided: Vec::new(),
            settling: true,
            ran_before: 0.0,
            for_a_permit: 1.0,
            began: Instant::START,
            from: Counts::default(),
        }
    }

    /// Another range from now on. What is known stays, as far as that allows.
    pub(crate) fn change_range(&mut self, range: Range) {
        let before = std::mem::replace(&mut self.range, range);
        if before == range {
            return;
        }
        if before.division.at_work != range.division.at_work {
            return self.divide_anew(before.division.at_work);
        }
        if before.division.saturated != range.division.saturated {
            self.others_have_changed();
        }
        self.former = range.clamp(self.former);
        let best = range.clamp(self.best);
        let tries_beyond =
            matches!(&self.state, State::Trying(trial) if range.clamp(trial.other) != trial.other);
        if std::mem::replace(&mut self.best, best) != best || tries_beyond {
            self.break_off();
        }
        self.undecided.retain(|&(other, _)| range.clamp(other) == other);
    }

    /// The server is shared with more or fewer Onramps than before: what has been found is the same of the server, and another part of it.
    fn divide_anew(&mut self, before: u32) {
        let range = self.range;
        self.mixes.change_each(|best| range.part_of(best, before));
        let best = range.part_of(self.best, before);
        self.begin_again(self.began, best);
        self.settling = true;
    }

    /// Notes that more or fewer of the others send as many statements as they may: the trial at hand was measured beside those before.
    fn others_have_changed(&mut self) {
        self.undecided.clear();
        if self.is_trying() {
            // Its turn comes again: nothing has been learned of it.
            self.next_step -= 1;
        }
        self.break_off();
    }

    /// Says whether the limit is just being compared with another. Of several limits only one should be at a time.
    pub(crate) fn is_trying(&self) -> bool {
        matches!(self.state, State::Trying(_))
    }

    /// Says whether statements count also while none waits: where the limit is above that of the start, for any reason.
    pub(crate) fn counts_always(&self) -> bool {
        self.in_force() > self.range.start || self.is_trying_more()
    }

    /// Says whether more permits are just being tried, so that statements count that wait for none.
    fn is_trying_more(&self) -> bool {
        matches!(&self.state, State::Trying(trial) if trial.at_other.is_none() && trial.other > self.best)
    }

    /// The limit that is in force now.
    pub(crate) fn in_force(&self) -> u32 {
        match &self.state {
            State::Trying(Trial { other, at_other: None, .. }) => *other,
            _ => self.best,
        }
    }

    /// Takes a look at what has been counted so far, as often as one likes, and says which limit is in force from now on. It
    /// begins to try another only if it may. For each permit in use `for_a_permit` statements run, from 1: more where kinds that mostly
    /// wait leave parts of theirs to others.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        counts: Counts,
        round_trip: Duration,
        for_a_permit: f64,
        may_try: bool,
    ) -> u32 {
        self.for_a_permit = for_a_permit;
        let here = self.from;
        // The clocks of workers differ by a turn, so that what is counted may seem to go back.
        let statements = counts.statements.saturating_sub(here.statements);
        let saturated = Duration::from_micros(counts.saturated.saturating_sub(here.saturated));
        let elapsed = now.since(self.began);
        let in_force = u64::from(self.in_force());
        let tries_more = self.is_trying_more();
        let measured = if tries_more { elapsed } else { saturated };
        let idle = tries_more && statements == 0 && elapsed >= IDLE;
        if idle || (elapsed >= INTERVAL && measured < elapsed / USED) {
            self.break_off();
            if statements >= ENOUGH_FOR_THEIR_KINDS
                && let Some(change) = self.mixes.measured(counts.work.since(here.work))
            {
                self.begin_again(now, change.best.unwrap_or(self.range.start));
            }
            self.measure_from(now, counts);
        } else if self.is_hopeless(statements, measured) {
            self.measure_from(now, counts);
            self.try_next(now, None);
            self.settle_from(in_force);
        } else if self.settling {
            if self.is_settled(statements) && elapsed >= SETTLING_TRIPS * round_trip {
                self.settling = false;
                self.measure_from(now, counts);
            }
        } else if measured >= INTERVAL && statements >= ENOUGH * in_force {
            let per_micro = |count: u64| (count.max(1) as f64 / measured.as_micros() as f64).ln();
            let work = counts.work.since(here.work);
            let change = self.mixes.measured(work);
            self.measure_from(now, counts);
            let speed = Speed { work: per_micro(work.sum()), statements: per_micro(statements) };
            match change {
                Some(change) => self.begin_again(now, change.best.unwrap_or(self.range.start)),
                None => {
                    self.mixes.note_best(self.best);
                    self.measured(now, speed, may_try);
                }
            }
            if u64::from(self.in_force()) != in_force {
                self.settle_from(in_force);
            }
        }
        self.in_force()
    }

    /// Another limit is in force now than this.
    fn settle_from(&mut self, before: u64) {
        self.settling = true;
        self.ran_before = before as f64 * self.for_a_permit;
    }

    /// Says whether those statements have ended that began under another limit, where so many have since.
    fn is_settled(&self, statements: u64) -> bool {
        let run = f64::from(self.in_force().max(self.best)) * self.for_a_permit;
        statements as f64 >= SETTLING * run.max(self.ran_before)
    }

    fn measure_from(&mut self, now: Instant, counts: Counts) {
        self.began = now;
        self.from = counts;
    }

    /// Begins again, since the measure is another one: from now on this limit is the best known.
    fn begin_again(&mut self, now: Instant, best: u32) {
        let best = self.range.clamp(best);
        self.former = best;
        self.best = best;
        self.state = State::resting(now, Duration::ZERO);
        self.next_step = USUAL_STEPS;
        self.upwards = true;
        self.rest = FIRST_REST;
        self.usual = None;
        self.noise.forget_last();
        self.undecided.clear();
    }

    /// Begins again with another server, of which nothing is known: with no more than at the start, and no more than before.
    pub(crate) fn begin_elsewhere(&mut self, now: Instant) {
        let start = self.in_force().min(self.range.start);
        self.mixes = Mixes::default();
        self.noise = Noise::default();
        self.begin_again(now, start);
        self.settling = true;
    }

    /// The limit is not reached any more: what was being compared was not the server's.
    fn break_off(&mut self) {
        if matches!(self.state, State::Trying(_)) {
            self.state = State::resting(self.began, Duration::ZERO);
        }
        // Nobody waits, so that no more run than may.
        self.ran_before = 0.0;
        self.settling = true;
    }

    /// Says whether so much less is done with the limit that is tried that the end of the measurement need not be waited for: it
    /// may be far where a server drowns.
    fn is_hopeless(&self, statements: u64, measured: Duration) -> bool {
        let State::Trying(Trial { other, before, at_other: None, .. }) = &self.state else { return false };
        let micros = measured.as_micros() as f64;
        let expected = before.statements.exp() * micros;
        // As many as run at a time, twice over: these may have begun a moment ago.
        measured >= INTERVAL && expected >= 2.0 * f64::from(*other) && (statements as f64) < expected / 4.0
    }

    fn measured(&mut self, now: Instant, speed: Speed, may_try: bool) {
        if self.in_force() == self.best && may_try {
            self.noise.add(speed, self.for_a_permit);
        }
        match &mut self.state {
            &mut State::Resting { at_least, until } => {
                if !may_try {
                    // What is measured now is about another limit.
                } else if self.has_changed(speed) && at_least <= now {
                    // Where less is done, too many are more likely, and too few do less harm.
                    let usual = self.usual.take();
                    self.upwards = usual.is_none_or(|usual| speed.work > usual.speed.work);
                    self.next_step = USUAL_STEPS;
                    self.undecided.clear();
                    self.try_next(now, Some(speed));
                } else if until <= now {
                    self.try_next(now, Some(speed));
                }
            }
            State::Trying(trial) => match trial.at_other {
                None => trial.at_other = Some(speed.work),
                Some(at_other) => {
                    let (range, best, other) = (self.range, self.best, trial.other);
                    let difference = at_other - f64::midpoint(trial.before.work, speed.work);
                    trial.differences.add(range.of_server(best, other, difference));
                    trial.before = speed;
                    trial.at_other = None;
                    trial.pairs += 1;
                    match trial.differences.verdict(
                        range.together(best, best),
                        range.together(other, best),
                        self.noise.average,
                        self.range.worth,
                    ) {
                        Verdict::Better => self.take_step(now),
                        Verdict::NotBetter => self.try_next(now, Some(speed)),
                        // Chance is larger than the difference: the trial goes on after the next rest.
                        Verdict::Open if trial.pairs >= AT_A_TIME => {
                            self.undecided.push((trial.other, trial.differences));
                            self.try_next(now, Some(speed));
                        }
                        Verdict::Open => {}
                    }
                }
            },
        }
    }

    /// The other limit of the trial is the best from now on, and the next goes on from there.
    fn take_step(&mut self, now: Instant) {
        let State::Trying(trial) = &self.state else { return };
        let (best, other) = (self.best, trial.other);
        let large = self.next_step <= SMALL_STEPS;
        let together = |limit| f64::from(self.range.together(limit, best));
        let in_full =
            other > best && trial.differences.mean() > IN_FULL * (together(other) / together(best)).ln();
        self.former = best;
        self.best = other;
        self.upwards = other > best;
        self.next_step = match (in_full, large) {
            (true, _) => 0,
            (false, true) => USUAL_STEPS,
            (false, false) => SMALL_STEPS,
        };
        self.rest = (self.rest / 4).max(FIRST_REST);
        self.usual = None;
        self.undecided.clear();
        self.noise.forget_last();
        // What was measured last was at the former best: the next trial begins with a measurement of its own.
        self.state = State::resting(now, Duration::ZERO);
    }

    /// Begins the next trial, for which the best has just been measured or is to be, or a rest where there is none.
    fn try_next(&mut self, now: Instant, speed: Option<Speed>) {
        match (self.candidate(), speed) {
            (Some(_), None) => self.state = State::resting(now, Duration::ZERO),
            (Some((step, other)), Some(speed)) => {
                self.next_step = step + 1;
                let known = self.undecided.iter().position(|(undecided, _)| *undecided == other);
                let differences = known.map(|place| self.undecided.swap_remove(place).1).unwrap_or_default();
                let trial = Trial { other, before: speed, at_other: None, differences, pairs: 0 };
                self.state = State::Trying(trial);
            }
            (None, _) => {
                self.state = State::resting(now, self.rest);
                self.rest = (self.rest * 2).min(LONGEST_REST);
                self.next_step = SMALL_STEPS;
                self.former = self.best;
            }
        }
    }

    /// The next step that leads to another limit, one that has not just been left.
    fn candidate(&self) -> Option<(usize, u32)> {
        (self.next_step..STEPS.len()).find_map(|step| {
            let (onwards, factor) = STEPS[step];
            let other = self.stepped(onwards == self.upwards, factor);
            (other != self.best && other != self.former).then_some((step, other))
        })
    }

    fn stepped(&self, up: bool, factor: f64) -> u32 {
        let best = f64::from(self.best);
        // Far from the ends of u32, as the options have it; and `as` stops there.
        let other = if up {
            ((best * factor).round() as u32).max(self.best.saturating_add(1))
        } else {
            ((best / factor).round() as u32).min(self.best - 1)
        };
        self.range.clamp(other)
    }

    /// Says whether the speed is another than usual, by work or by statements: a change of the mix may be one of the best limit.
    fn has_changed(&mut self, speed: Speed) -> bool {
        let Some(usual) = &mut self.usual else {
            self.usual = Some(Usual { speed, changes: 0 });
            return false;
        };
        let by = |now: f64, usual: f64| (now - usual).abs();
        let work = by(speed.work, usual.speed.work);
        let change = work.max(by(speed.statements, usual.speed.statements));
        let noise = CHANGE_BEYOND_NOISE * self.noise.average;
        if change > CHANGE.max(noise) {
            usual.changes += if change > LARGE_CHANGE.max(2.0 * noise) { CHANGES / 2 + 1 } else { 1 };
            return usual.changes >= CHANGES;
        }
        usual.changes = 0;
        // An average over about the last ten: slow drifts are followed, jumps are not.
        usual.speed.work += (speed.work - usual.speed.work) / 10.0;
        usual.speed.statements += (speed.statements - usual.speed.statements) / 10.0;
        false
    }
}
