//! Knowledge that a worker has learned of statements, as plain data ([`crate::frozen`]), and back.
//!
//! Statements that wait, and counts for people who look in, stay where they are.

use seam::Instant;

use super::Scheduling;
use crate::backend::pool::reserved_backends::record::FrozenReserve;
use crate::backend::scheduling::stall::record::FrozenStalls;
use crate::client::frozen::Aside;
use crate::client::{Client, Phase};
use crate::frozen::NotFrozen;
use crate::frozen::plain::{bytes_of, read};
use crate::ids::{ClientKey, Table};
use crate::scheduling::learned::digests::frozen::FrozenDigests;
use crate::scheduling::learned::history::FrozenHistory;
use crate::scheduling::learned::long_permits::Pace;
use crate::scheduling::scheduler::frozen::FrozenWait;

/// Knowledge that has been learned.
#[derive(Debug, PartialEq)]
struct FrozenLearned {
    stalls: FrozenStalls,
    reserve: FrozenReserve,
    history: FrozenHistory,
    digests: FrozenDigests,
    others_pace: Pace,
}

plain!(struct FrozenLearned { stalls, reserve, history, digests, others_pace });

impl Scheduling {
    /// Turns the knowledge into bytes, and these into knowledge again.
    ///
    /// # Panics
    ///
    /// If something is not what it was.
    pub(crate) fn freeze_and_thaw_learned(&mut self, now: Instant) {
        let shown = |learned: &Self| {
            let Self { stalls, reserve, history, digests, others_pace, .. } = learned;
            format!("{:?}", (stalls, reserve, history, digests, others_pace))
        };
        let before = shown(self);
        let bytes = bytes_of(&self.freeze_learned(now));
        self.thaw_learned(read(&bytes).expect("what was frozen comes out of its bytes"), now);
        assert_eq!(shown(self), before, "nothing of what has been learned is lost");
    }

    /// Takes a client's statement, where it has one, out of its queue, without a word to anybody. Returns what it waits for. The group that it
    /// leads, or is in, stays where others are in it.
    ///
    /// # Errors
    ///
    /// Where it waits in front of the queues, counts as a part of its user's share, or follows one that runs.
    pub(crate) fn freeze_place(
        &mut self,
        now: Instant,
        clients: &Table<ClientKey, Client>,
        key: ClientKey,
    ) -> Result<(Option<FrozenWait>, Aside), NotFrozen> {
        let mut aside = Aside::default();
        let Some(request) = clients[key].request.as_ref() else { return Ok((None, aside)) };
        if let Phase::Following { group } = *clients[key].phase() {
            let leader = self.coalescer.leader_of(group).ok_or(NotFrozen::Waits)?;
            return Ok((Some(FrozenWait::Follows { leader: clients[leader].id }), aside));
        }
        if self.shares.counts(key) {
            return Err(NotFrozen::Waits);
        }
        let (place, next) = self.scheduler.freeze(now, key).ok_or(NotFrozen::Waits)?;
        aside.next_in_queue = next;
        aside.group = request.turn.group();
        if let Some(hash) = request.turn.group() {
            self.coalescer.forget_empty(hash);
        }
        Ok((Some(FrozenWait::InQueue { place, leads: request.turn.group().is_some() }), aside))
    }

    fn freeze_learned(&mut self, now: Instant) -> FrozenLearned {
        let Self {
            delayed: _, // a client goes by itself, and not while it waits here; likewise the next ones
            shares: _,
            scheduler: _, // who waits here goes with their places, one by one
            urgent: _,
            lacking_since: _,
            stalls,
            reserve,
            coalescer: _,   // by those that wait
            new_work: _,    // of what waits
            to_be_ended: _, // statements that run
            history,
            digests,
            served: _, // taken in at the end of each turn
            others_pace,
            waits: _, // for those who look in
            holdups: _,
        } = self;
        FrozenLearned {
            stalls: stalls.freeze(now),
            reserve: reserve.freeze(now),
            history: history.freeze(),
            digests: digests.freeze(now),
            others_pace: std::mem::take(others_pace),
        }
    }

    fn thaw_learned(&mut self, frozen: FrozenLearned, now: Instant) {
        let FrozenLearned { stalls, reserve, history, digests, others_pace } = frozen;
        self.stalls.thaw(stalls, now);
        self.reserve.thaw(reserve, now);
        self.history.thaw(history);
        self.digests.thaw(digests, now);
        self.others_pace = others_pace;
    }
}

#[cfg(test)]
mod tests;
