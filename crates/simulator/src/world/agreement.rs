//! Whether several Onramps in front of the same servers take the same one for the primary.

use std::time::Duration;

use super::World;
use super::driver::Life;
use super::onramps::NEW;
use crate::clusters::Trouble;
use crate::subject::Subject;

/// A server that was away is asked again after two seconds at most, and once the connection to it stands the first question takes some time.
pub(super) const ASKED_AGAIN: u64 = 3_000_000;

impl<P: Subject> World<P> {
    /// Whether nothing has happened to a server, and to a program's way to it, since then and for as long as it takes to be known before.
    pub(super) fn has_been_steady(&self, program: usize, place: usize, since: u64) -> bool {
        let Some(cluster) = &self.cluster else { return true };
        cluster.disturbed[place] + NEW < since && self.drivers[program].led_to == Some(place)
    }

    /// The same of now.
    pub(super) fn is_steady_for(&self, program: usize, place: usize) -> bool {
        self.has_been_steady(program, place, self.now)
    }

    /// Something has happened to a server, or to somebody's connection to it.
    pub(super) fn note_disturbed(&mut self, place: usize) {
        if let Some(cluster) = &mut self.cluster {
            cluster.disturbed[place] = self.now;
        }
    }

    /// All Onramps that have seen the same servers for a while have the same primary.
    pub(super) fn check_agreement(&mut self) {
        self.note_disturbances();
        let now = self.now;
        let (Some(cluster), Some(onramps)) = (&self.cluster, &self.onramps) else { return };
        let latest = cluster.disturbed.iter().chain([&cluster.changed]).max().copied().unwrap_or(0);
        let time = ASKED_AGAIN + micros(2 * cluster.drawn.check_timeout + 3 * cluster.drawn.check_interval);
        // Each Onramp has drains of its own.
        let drains = cluster.drawn.troubles.contains(&Trouble::Drain) && !self.calm;
        if onramps.ends || drains || latest + time > now {
            return;
        }
        let has_looked = |program: &&usize| {
            let driver = &self.drivers[**program];
            driver.life == Life::Runs && driver.since + time <= now
        };
        let looked: Vec<usize> = onramps.sites.iter().filter(has_looked).copied().collect();
        let primaries = looked.iter().map(|&program| self.drivers[program].program.primary());
        let primaries: Vec<Option<usize>> = primaries.collect();
        let mut known = primaries.iter().flatten();
        let first = known.next();
        let differ = known.any(|other| Some(other) != first);
        // One that was there before may know of transactions that the others' primary lacks.
        let lacks = self.takes_behind() && first.is_some() && primaries.contains(&None);
        if differ || lacks {
            let text = format!(
                "the Onramps {looked:?} have the primaries {primaries:?}, and nothing has happened for long"
            );
            self.checkers.violation(text);
        } else if first.is_some() && primaries.len() > 1 {
            self.checkers.agreed();
        }
    }

    /// Whether all have the primary that operators have named.
    pub(super) fn agree(&self) -> bool {
        let (Some(cluster), Some(onramps)) = (&self.cluster, &self.onramps) else { return true };
        onramps.sites.iter().all(|&program| self.drivers[program].program.primary() == Some(cluster.named))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).expect("seconds")
}
