//! Limits that find themselves as plain data ([`crate::frozen`]), and back: also in the middle of a trial, which goes on.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use seam::Instant;

use super::differences::{Differences, Worth};
use super::meter::{Meter, NEVER};
use super::mix::{DRAWERS, Known, Mixes, Shares, UsualTimes};
use super::{Counts, Division, Limit, Noise, Range, Speed, State, Trial, Usual};
use crate::frozen::Distance;

/// [`Meter`] as plain data.
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenMeter {
    statements: u64,
    work: [u64; DRAWERS],
    /// Saturated time, in microseconds.
    saturated: u64,
    saturated_since: Option<Distance>,
    counts_always: bool,
    next_look: Distance,
    /// `None` where one is given.
    limits: Vec<Option<FrozenLimit>>,
}

/// See [`Limit`].
#[derive(Debug, PartialEq)]
struct FrozenLimit {
    range: Range,
    best: u32,
    former: u32,
    state: FrozenState,
    next_step: usize,
    upwards: bool,
    rest: Duration,
    usual: Option<Usual>,
    noise: Noise,
    mixes: Mixes,
    undecided: Vec<(u32, Differences)>,
    settling: bool,
    ran_before: f64,
    for_a_permit: f64,
    began: Distance,
    from: Counts,
}

/// See [`State`].
#[derive(Debug, PartialEq)]
enum FrozenState {
    Resting { at_least: Distance, until: Distance },
    Trying(Trial),
}

plain!(struct FrozenMeter {
    statements, work, saturated, saturated_since, counts_always, next_look, limits,
});
plain!(struct FrozenLimit {
    range, best, former, state, next_step, upwards, rest, usual, noise, mixes, undecided, settling, ran_before,
    for_a_permit, began, from,
});
plain!(enum FrozenState { 0 => Resting { at_least, until }, 1 => Trying(trial) });
plain!(struct Range { least, most, start, worth, division });
plain!(enum Worth { 0 => Little, 1 => Much });
plain!(struct Division { at_work, saturated });
plain!(struct Usual { speed, changes });
plain!(struct Speed { work, statements });
plain!(struct Noise { last, average, count });
plain!(struct Trial { other, before, at_other, differences, pairs });
plain!(struct Differences { count, sum, squares, smallest, largest });
plain!(struct Mixes { known, others });
plain!(struct Known { shares, best });
plain!(struct Shares { 0 });
plain!(struct Counts { statements, work, saturated });
plain!(struct UsualTimes { 0 });

impl<const LIMITS: usize> Meter<LIMITS> {
    /// Takes out what has been counted and found.
    pub(crate) fn freeze(&self, now: Instant) -> FrozenMeter {
        let Self {
            on: _, // follows from the limits
            statements,
            work,
            saturated,
            saturated_since,
            counts_always,
            next_look,
            limits: _, // taken below
        } = self;
        let since = saturated_since.swap(NEVER, SeqCst);
        let mut limits = self.lock();
        FrozenMeter {
            statements: statements.swap(0, SeqCst),
            work: std::array::from_fn(|drawer| work[drawer].swap(0, SeqCst)),
            saturated: saturated.swap(0, SeqCst),
            saturated_since: (since != NEVER).then(|| Distance::of_micros(since, now)),
            counts_always: counts_always.swap(false, SeqCst),
            next_look: Distance::of_micros(next_look.swap(0, SeqCst), now),
            limits: limits.iter_mut().map(|limit| limit.take().map(|limit| limit.freeze(now))).collect(),
        }
    }

    /// Puts the frozen findings in the place of the present ones. Their ranges are those of the freezing side: [`Self::change`] is due where
    /// these may differ.
    pub(crate) fn thaw(&self, frozen: FrozenMeter, now: Instant) {
        let FrozenMeter { statements, work, saturated, saturated_since, counts_always, next_look, limits } =
            frozen;
        self.statements.store(statements, SeqCst);
        self.work.iter().zip(work).for_each(|(drawer, work)| drawer.store(work, SeqCst));
        self.saturated.store(saturated, SeqCst);
        self.saturated_since.store(saturated_since.map_or(NEVER, |since| since.micros_from(now)), SeqCst);
        self.counts_always.store(counts_always, SeqCst);
        self.next_look.store(next_look.micros_from(now), SeqCst);
        self.on.store(limits.iter().any(Option::is_some), SeqCst);
        let mut limits = limits.into_iter().map(|limit| limit.map(|limit| limit.thaw(now)));
        *self.lock() = std::array::from_fn(|_| limits.next().flatten());
    }
}

impl Limit {
    fn freeze(self, now: Instant) -> FrozenLimit {
        let Self {
            range,
            best,
            former,
            state,
            next_step,
            upwards,
            rest,
            usual,
            noise,
            mixes,
            undecided,
            settling,
            ran_before,
            for_a_permit,
            began,
            from,
        } = self;
        let state = match state {
            State::Resting { at_least, until } => FrozenState::Resting {
                at_least: Distance::of(at_least, now),
                until: Distance::of(until, now),
            },
            State::Trying(trial) => FrozenState::Trying(trial),
        };
        FrozenLimit {
            range,
            best,
            former,
            state,
            next_step,
            upwards,
            rest,
            usual,
            noise,
            mixes,
            undecided,
            settling,
            ran_before,
            for_a_permit,
            began: Distance::of(began, now),
            from,
        }
    }
}

impl FrozenLimit {
    fn thaw(self, now: Instant) -> Limit {
        let Self {
            range,
            best,
            former,
            state,
            next_step,
            upwards,
            rest,
            usual,
            noise,
            mixes,
            undecided,
            settling,
            ran_before,
            for_a_permit,
            began,
            from,
        } = self;
        let state = match state {
            FrozenState::Resting { at_least, until } => {
                State::Resting { at_least: at_least.from(now), until: until.from(now) }
            }
            FrozenState::Trying(trial) => State::Trying(trial),
        };
        Limit {
            range,
            best,
            former,
            state,
            next_step,
            upwards,
            rest,
            usual,
            noise,
            mixes,
            undecided,
            settling,
            ran_before,
            for_a_permit,
            began: began.from(now),
            from,
        }
    }
}

#[cfg(test)]
mod tests;
