//! Who has the group's primary keeps it for as long as nothing happens to it, whatever the others say.

use std::time::Duration;

use super::super::World;
use super::super::agreement::ASKED_AGAIN;
use super::super::driver::Life;
use super::number;
use crate::clusters::Trouble;
use crate::subject::Subject;

/// Longer than whatever a failed check has led to takes to be over.
const LATELY: Duration = Duration::from_secs(4);

/// What was seen of that when somebody looked last.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The primary, and since when it has been well, for whoever asks.
    primary: Option<(usize, u64)>,
    /// The programs that had it, by their places.
    had: Vec<usize>,
}

impl Kept {
    /// Whoever has refused the primary for what that lacks has time from now on to take it: operators have allowed that.
    pub(super) fn count_from_now(&mut self) {
        self.primary = None;
    }
}

impl<P: Subject> World<P> {
    /// Whether the primary takes writes and says so, and nobody is about to change that.
    fn primary_that_is_well(&self) -> Option<usize> {
        let (group, cluster) = (self.group.as_ref()?, self.cluster.as_ref()?);
        let at = group.primary()?;
        let seat = self.seat(at);
        let orders = [Trouble::Drain, Trouble::Switchover];
        let is_ordered = !self.calm && orders.iter().any(|order| cluster.drawn.troubles.contains(order));
        let says_so = seat.says_well() && seat.said.view.primary == Some(number(at));
        let is_well = says_so && self.is_reached(at) && !self.member(at).read_only;
        (is_well && !is_ordered && group.next_primary.is_none() && cluster.disturbed[at] < self.now)
            .then_some(at)
    }

    /// A program that has the primary does not turn from it. One that has not comes to have it, where it takes whatever that has.
    pub(super) fn check_kept(&mut self) {
        self.note_disturbances();
        let now = self.now;
        let well = self.primary_that_is_well();
        let Some(cluster) = &self.cluster else { return };
        let since = match (self.group.as_ref().and_then(|group| group.kept.primary), well) {
            (Some((before, since)), Some(at)) if before == at => since.max(cluster.disturbed[at]),
            _ => now,
        };
        let micros = |time: Duration| u64::try_from(time.as_micros()).expect("seconds");
        let (interval, timeout) = (micros(cluster.drawn.check_interval), micros(cluster.drawn.check_timeout));
        // A check that was held up fails after its timeout, and what fails is over after two further ones.
        let is_known = since + timeout + 4 * interval + ASKED_AGAIN / 3 < now;
        let is_known_for_long = since + ASKED_AGAIN + 2 * timeout + 3 * interval < now;
        let runs = |program: &usize| {
            let driver = &self.drivers[*program];
            driver.life == Life::Runs && driver.since + ASKED_AGAIN + 2 * timeout < now
        };
        let running: Vec<usize> = (0..self.drivers.len()).filter(runs).collect();
        let primary = |program: &usize| self.drivers[*program].program.primary();
        let has = |program: &usize| well.is_some() && primary(program) == well;
        let had = self.group.as_ref().map_or(&[][..], |group| &group.kept.had);
        let is_wrong = |program: &&usize| {
            let keeps = is_known && had.contains(program);
            let takes = is_known_for_long && self.takes_behind();
            well.is_some() && (keeps || takes) && !has(program)
        };
        let wrong: Vec<usize> = running.iter().filter(is_wrong).copied().collect();
        let had: Vec<usize> = running.into_iter().filter(|program| has(program)).collect();
        self.group().kept = Kept { primary: well.map(|at| (at, since)), had };
        for (program, at) in wrong.into_iter().zip(well.into_iter().cycle()) {
            if !self.has_answered_all(program, at) {
                continue;
            }
            let primary = self.drivers[program].program.primary();
            let text = format!(
                "server {} is the primary of the group as ever, and Onramp {program} has {:?}",
                at + 1,
                primary.map(|place| place + 1)
            );
            self.checkers.violation(text);
        }
    }

    /// Whether no check of this server has failed lately: a slow one has, where the time for one is short.
    fn has_answered_all(&mut self, program: usize, at: usize) -> bool {
        let views = self.views(program);
        let Some(view) = views.get(at) else { return false };
        let mut lately = view.checks.iter().filter(|check| check.age < LATELY).peekable();
        lately.peek().is_some() && lately.all(|check| check.is_well)
    }
}
