//! The primary as the first worker finds it, and the record of each change.

use std::collections::VecDeque;
use std::sync::Arc;

use seam::{Address, Instant};

use super::choice::NoPrimary;
use super::chosen::{Choice, Chosen, FailoverCounts};
use super::position::{Behind, compare};
use super::verdict::ServerVerdict;
use super::{Cluster, Doubt};
use crate::outside::event::Event;
use crate::outside::named::ServerState;
use crate::settings::Settings;

/// Most changes that are remembered: nobody looks further back than an incident.
const REMEMBERED: usize = 100;

/// A time without a primary, or a change from one to another.
#[derive(Clone, Debug)]
pub(super) struct Failover {
    /// Time at which the former primary was given up.
    pub(super) began: Instant,
    /// Time at which there was a primary again; `None` while there is none.
    pub(super) ended: Option<Instant>,
    /// Place of the former primary. Below is that of the new one.
    pub(super) from: usize,
    pub(super) to: Option<usize>,
    /// The lack of the new one as it was taken.
    pub(super) behind: Behind,
    /// Counts when the former one was last known to be well: losses with a server come before anybody knows of them.
    before: FailoverCounts,
    /// Counts of clients' fates; `None` for the latest change, where they still grow.
    counts: Option<FailoverCounts>,
}

/// The position that the primary is known to have, by its checks.
#[derive(Debug, Default)]
pub(super) struct Known {
    identity: String,
    /// Position that it has had for a check's interval. The last of its word may be on its way to the others, acknowledged to nobody.
    position: String,
    latest: String,
    /// The part of the position that it had and has no more since it was not used: it has lost that, or has been made anew.
    lost: Behind,
}

impl Known {
    /// Makes the record of a server that is the primary from now on.
    fn of(verdict: &ServerVerdict) -> Self {
        // What it had before its GTIDs ended would do for all that it has written since.
        let position = if verdict.writes_without_gtids { String::new() } else { verdict.position.clone() };
        Self { identity: verdict.identity.clone(), latest: position.clone(), position, lost: Behind::Nothing }
    }

    /// Takes in the verdict of its check. The known position stays where the server comes back with less, since that was acknowledged, and
    /// where another server is in its place.
    pub(super) fn take(&mut self, verdict: &ServerVerdict) {
        // One that its cluster has left says nothing of what that has.
        if !verdict.is_well || self.identity != verdict.identity {
            return;
        }
        if verdict.position.is_empty() {
            // By what it writes now nobody will be told any more what another one lacks.
            if verdict.writes_without_gtids && !matches!(self.lost, Behind::Lacks(_)) {
                *self = Self::of(verdict);
            }
            return;
        }
        // What it had is known by GTIDs, whatever it is to write from now on.
        let lacks = compare(&self.position, &verdict.position);
        if matches!(lacks, Behind::Lacks(_)) {
            self.lost = lacks;
            return;
        }
        if verdict.writes_without_gtids {
            *self = Self::of(verdict);
            return;
        }
        self.lost = Behind::Nothing;
        let before = std::mem::replace(&mut self.latest, verdict.position.clone());
        // One that takes no writes any more comes to its end.
        self.position = if verdict.is_writable { before } else { verdict.position.clone() };
    }
}

/// The changes of the primary.
#[derive(Debug, Default)]
pub(super) struct Failovers(VecDeque<Failover>);

impl Failovers {
    pub(super) fn begin(&mut self, now: Instant, from: usize, before: FailoverCounts, chosen: &Chosen) {
        if let Some(last) = self.0.back_mut() {
            // What was counted behind `before` is the next one's.
            let present = FailoverCounts { longest: chosen.tally.counts().longest, ..before };
            last.counts.get_or_insert(present.since(last.before));
        }
        chosen.tally.begin();
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(Failover {
            began: now,
            ended: None,
            from,
            to: None,
            behind: Behind::Unknown,
            before,
            counts: None,
        });
    }

    /// Returns the time since which there is no primary, where the last one is none any more.
    pub(super) fn under_way_since(&self) -> Option<Instant> {
        self.0.back().filter(|last| last.ended.is_none()).map(|last| last.began)
    }

    fn end(&mut self, now: Instant, to: usize, behind: Behind) {
        if let Some(last) = self.0.back_mut().filter(|last| last.ended.is_none()) {
            (last.ended, last.to, last.behind) = (Some(now), Some(to), behind);
        }
    }

    /// Returns the changes, the latest first, each with the counts of clients' fates.
    pub(super) fn iter(&self, chosen: &Chosen) -> impl Iterator<Item = (&Failover, FailoverCounts)> {
        let latest = chosen.tally.counts();
        self.0
            .iter()
            .rev()
            .map(move |failover| (failover, failover.counts.unwrap_or(latest.since(failover.before))))
    }
}

/// The conclusion from the standings of the servers.
enum Outcome {
    /// The present primary stays the primary.
    Stays,
    /// The server there is to be the primary, with this lack.
    Becomes(usize, Behind),
    /// No server is the primary.
    Without(NoPrimary),
}

impl Cluster {
    /// Chooses anew by the standings of the servers, and tells all workers. Returns the event that is worth a line in the log.
    pub(super) fn choose(&mut self, now: Instant, chosen: &Chosen, settings: &Settings) -> Option<Event> {
        let addresses = settings.server.as_slice();
        let choice = chosen.get();
        // One that is at another address by now is none, whatever the one before it would say, nor is one that may be out of its group, or
        // takes no writes by a check that was under way.
        let is_none = choice.place.map(|place| &self.standings[place]).is_some_and(|standing| {
            standing.has_moved() || standing.may_have_left() || !standing.is_writable()
        });
        if !is_none && chosen.is_in_doubt(choice) && !self.is_doubt_over(now, choice, chosen) {
            return None;
        }
        let present = choice.place;
        self.note_well(present, chosen);
        if let (true, news) = self.gives_way(now, chosen, settings) {
            // Nobody is to be it before that is over.
            self.next = None;
            return news;
        }
        let found = self.choose_undrained(now, settings.cluster.hold, addresses);
        if found.is_err() {
            // Nobody is held against the former one.
            self.behind = None;
        }
        let is_in_use = present.is_some_and(|present| {
            let standing = &self.standings[present];
            standing.is_writable() && !standing.may_have_left()
        });
        let outcome = match found {
            Ok(place) if present == Some(place) && is_in_use => {
                chosen.proof.want(self.standings[place].believed().is_of_group());
                self.follow_known(place);
                Outcome::Stays
            }
            // One that has just come back may have less than it had, and takes no writes, perhaps. The present one has a check more.
            Ok(place) if !self.standings[place].is_certain() => Outcome::Without(NoPrimary::Uncertain(place)),
            Ok(place) => match self.compare(place) {
                // The other one may have been asked a moment before this one.
                Behind::Lacks(_) if is_in_use => Outcome::Stays,
                Behind::Lacks(what) if !settings.cluster.takes_behind && !self.is_known(place) => {
                    Outcome::Without(NoPrimary::Behind(place, what))
                }
                behind => Outcome::Becomes(place, behind),
            },
            Err(why) => Outcome::Without(why),
        };
        let outcome = self.ask_again(now, outcome);
        match outcome {
            Outcome::Stays => None,
            Outcome::Without(NoPrimary::Uncertain(_) | NoPrimary::Unconfirmed(_)) if is_in_use => None,
            Outcome::Becomes(place, behind) => Some(self.take_primary(now, place, behind, chosen, addresses)),
            Outcome::Without(why) => self.go_without(now, &why, chosen, addresses),
        }
    }

    /// Has the next primary asked once more. Its last answers may be as old as its check takes, and it may have been made a replica since, or a
    /// copy of another server.
    fn ask_again(&mut self, now: Instant, outcome: Outcome) -> Outcome {
        let Outcome::Becomes(place, _) = outcome else {
            self.next = None;
            return outcome;
        };
        let since = match self.next {
            Some((next, since)) if next == place => since,
            _ => now,
        };
        self.next = Some((place, since));
        if self.standings[place].last_began() >= since {
            return outcome;
        }
        self.checks[place].hurry(now);
        Outcome::Without(NoPrimary::Unconfirmed(place))
    }

    /// Has the primary asked whether it still is the primary. True once that has been done. It stays where it says so. Where it cannot be
    /// asked, that is judged as always.
    fn is_doubt_over(&mut self, now: Instant, choice: Choice, chosen: &Chosen) -> bool {
        let Some(place) = choice.place else { return true };
        let doubt = self.doubt.take_if(|doubt| doubt.choice != choice || doubt.is_over);
        if doubt.is_some_and(|doubt| doubt.choice == choice) {
            let last = self.standings[place].verdict();
            if last.is_well && last.is_writable {
                chosen.settle(now, choice);
            }
            return true;
        }
        if self.doubt.is_none() {
            self.doubt = Some(Doubt { choice, since: now, is_over: false });
            self.checks[place].hurry(now);
        }
        false
    }

    /// Says whether the server there is the one with the known position. It is used with any position, as one server alone would be.
    fn is_known(&self, place: usize) -> bool {
        self.standings[place].believed().identity == self.known.identity
    }

    /// Takes the position of the server there, which is in use, for the known one. That may be less than before (RESET MASTER), or another
    /// server may have come to its address.
    fn follow_known(&mut self, place: usize) {
        let believed = self.standings[place].believed();
        let has_lost = matches!(self.known.lost, Behind::Lacks(_));
        if believed.is_well && !believed.position.is_empty() && (has_lost || !self.is_known(place)) {
            self.known = Known::of(believed);
        }
    }

    /// Returns the part of the primary's known position that the server there lacks.
    fn compare(&mut self, place: usize) -> Behind {
        let standing = &self.standings[place];
        let own = standing.believed();
        if own.identity == self.known.identity {
            return self.known.lost.clone();
        }
        let asked = standing.history().next_back().map_or(Instant::START, |checked| checked.at);
        if let Some((_, _, behind)) = self.behind.as_ref().filter(|it| (it.0, it.1) == (place, asked)) {
            return behind.clone();
        }
        let behind = compare(&self.known.position, &own.position);
        self.behind = Some((place, asked, behind.clone()));
        behind
    }

    /// Returns the reasons for which the server there is taken for what it is, and is not used.
    pub(super) fn reason_of(&self, place: usize, addresses: &[Address]) -> String {
        let reason = self.standings[place].verdict().reason.clone();
        let reason = match (0..place).find(|&other| self.is_same(place, other)) {
            Some(other) => format!("the same server as {}; {reason}", addresses[other]),
            None => reason,
        };
        match (&self.behind, &self.known.lost) {
            _ if self.standings[place].may_have_left() => format!(
                "{reason}; its check was cut off or failed, so that it may be out of its group: nothing new is sent there before it says \
                 that it is not"
            ),
            _ if self.is_drained(place) => format!("drained by an operator, until UNDRAIN; {reason}"),
            (_, Behind::Lacks(what)) if self.is_known(place) => {
                format!("{reason}; it has no more of what it was known to have as the primary: {what}")
            }
            (Some((other, _, Behind::Lacks(what))), _) if *other == place && self.primary != Some(place) => {
                format!("{reason}; it lacks of what the former primary was known to have: {what}")
            }
            _ => reason,
        }
    }

    /// Notes the counts of the time of the last check that found the primary well.
    fn note_well(&mut self, present: Option<usize>, chosen: &Chosen) {
        let last = present.and_then(|place| self.standings[place].history().next_back());
        if let Some(last) = last.filter(|last| last.verdict.is_writable && last.at > self.known_well) {
            (self.known_well, self.before) = (last.at, chosen.tally.counts());
        }
    }

    fn take_primary(
        &mut self,
        now: Instant,
        place: usize,
        behind: Behind,
        chosen: &Chosen,
        addresses: &[Address],
    ) -> Event {
        let former = self.primary.replace(place);
        self.primary_since = now;
        (self.behind, self.next) = (None, None);
        self.known = Known::of(self.standings[place].believed());
        if let Some(former) = former {
            if chosen.get().place.is_some() {
                self.failovers.begin(now, former, self.before, chosen);
            }
            self.failovers.end(now, place, behind.clone());
        }
        chosen.proof.want(self.standings[place].believed().is_of_group());
        chosen.set(Some(place), former.is_none_or(|former| self.standings[former].may_end()));
        let address = |place: usize| addresses[place].clone();
        Event::PrimaryFound {
            address: address(place),
            former: former.filter(|&former| former != place).map(address),
            behind,
        }
    }

    fn go_without(
        &mut self,
        now: Instant,
        why: &NoPrimary,
        chosen: &Chosen,
        addresses: &[Address],
    ) -> Option<Event> {
        let reason = self.say(why, addresses);
        let is_new = *chosen.why() != *reason;
        let present = chosen.get().place;
        if let Some(former) = present {
            self.failovers.begin(now, former, self.before, chosen);
        }
        if let NoPrimary::Several(places) = why
            && is_new
        {
            // One of them may just have become read-only, or have heard that the others go on without it.
            places.iter().for_each(|&place| self.checks[place].hurry(now));
        }
        if is_new {
            chosen.say(Arc::from(reason.as_str()));
        }
        let is_of_former = match why {
            NoPrimary::Uncertain(place) | NoPrimary::Unconfirmed(place) => self.primary == Some(*place),
            _ => false,
        };
        match present {
            // It may be another process by now, in no group. Who is connected to it is connected to the one that was in it.
            Some(former) if is_of_former => chosen.give_way(former),
            Some(former) => chosen.set(None, self.standings[former].may_end()),
            None if self.primary.is_some_and(|former| !self.standings[former].may_end()) => {
                chosen.former_is_lost();
            }
            None => {}
        }
        // Also where a switchover that is over has led to no primary: who holds a backend goes on no more at the former one.
        if !is_of_former {
            chosen.end_transactions();
        }
        // These are over in a moment, or are followed by another reason.
        let is_brief = is_of_former || matches!(why, NoPrimary::Untried | NoPrimary::Unconfirmed(_));
        ((is_new || present.is_some()) && !is_brief).then_some(Event::NoPrimary { reason })
    }

    fn is_up(&self, place: usize) -> bool {
        self.standings[place].state() == ServerState::Up
    }

    /// Says whether several addresses all lead to one server that is up.
    fn are_all_one_that_is_up(&self) -> bool {
        self.standings.len() > 1
            && (0..self.standings.len()).any(|place| self.is_up(place))
            && (1..self.standings.len()).all(|place| self.is_same(place, 0))
    }

    pub(super) fn say(&self, why: &NoPrimary, addresses: &[Address]) -> String {
        match why {
            NoPrimary::Untried => String::from("not all servers have been asked yet"),
            NoPrimary::None if self.are_all_one_that_is_up() => String::from(
                "all addresses lead to one server, which takes no writes: give backend once to have it used as it is, or name the others",
            ),
            NoPrimary::None => String::from("no server is up and takes writes"),
            NoPrimary::Behind(place, what) => {
                let address = &addresses[*place];
                format!(
                    "{address} takes writes, but lacks of what the former primary was known to have: {what}; let it catch up, or set \
                     failover_behind = allow"
                )
            }
            NoPrimary::Drained(place) => format!(
                "no server that is not drained is up and takes writes; should that go on for half of failover_hold, {} is drained no \
                 more (UNDRAIN it to use it now)",
                addresses[*place]
            ),
            NoPrimary::Outside(place) => format!(
                "{} takes writes, but is in no group any more, and others are: START GROUP_REPLICATION there, or end the group on them",
                addresses[*place]
            ),
            NoPrimary::LeftOut(place) => format!(
                "{} takes writes, but its group has gone on without it, and no member that the group has left takes any: where these \
                 lack a majority, bring members back, or give them one with group_replication_force_members",
                addresses[*place]
            ),
            NoPrimary::Uncertain(place) => format!(
                "{} took writes when it was asked last, and does not answer since: nothing is sent there before it does",
                addresses[*place]
            ),
            NoPrimary::Unconfirmed(place) => {
                format!("{} takes writes, and is asked once more before it is used", addresses[*place])
            }
            NoPrimary::Several(places) => {
                let names: Vec<_> = places.iter().map(|&place| addresses[place].to_string()).collect();
                let names = names.join(" and ");
                format!(
                    "{names} take writes: which of them is the primary is not to be guessed, set read_only on all others"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
