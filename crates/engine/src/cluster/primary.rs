//! Who the primary is, as the first worker finds it, and what is remembered of each change.

use std::collections::VecDeque;
use std::sync::Arc;

use seam::{Address, Instant};

use super::Cluster;
use super::choice::{NoPrimary, choose};
use super::chosen::{Chosen, Counts};
use crate::outside::event::Event;
use crate::outside::named::ServerState;

/// The changes that are remembered: nobody looks further back than an incident.
const REMEMBERED: usize = 100;

/// The time in which there was no primary, or another one than before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failover {
    /// When the former one was given up.
    pub(super) began: Instant,
    /// When there was one again; `None` while there is none.
    pub(super) ended: Option<Instant>,
    /// The places of both.
    pub(super) from: usize,
    pub(super) to: Option<usize>,
    /// What had been counted when the former one was last known to be well: what is lost with a server is lost before anybody knows.
    before: Counts,
    /// What became of clients; `None` of the latest, of which it is still being counted.
    counts: Option<Counts>,
}

/// The changes of the primary.
#[derive(Debug, Default)]
pub(super) struct Failovers(VecDeque<Failover>);

impl Failovers {
    fn begin(&mut self, now: Instant, from: usize, before: Counts, chosen: &Chosen) {
        if let Some(last) = self.0.back_mut() {
            // What was counted behind `before` is the next one's.
            let present = Counts { longest: chosen.tally.counts().longest, ..before };
            last.counts.get_or_insert(present.since(last.before));
        }
        chosen.tally.begin();
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(Failover { began: now, ended: None, from, to: None, before, counts: None });
    }

    fn end(&mut self, now: Instant, to: usize) {
        if let Some(last) = self.0.back_mut().filter(|last| last.ended.is_none()) {
            (last.ended, last.to) = (Some(now), Some(to));
        }
    }

    /// The latest first, with what became of clients.
    pub(super) fn iter(&self, chosen: &Chosen) -> impl Iterator<Item = (Failover, Counts)> {
        let latest = chosen.tally.counts();
        self.0
            .iter()
            .rev()
            .map(move |&failover| (failover, failover.counts.unwrap_or(latest.since(failover.before))))
    }
}

impl Cluster {
    /// Chooses anew by how the servers stand, and tells all workers. Returns what is worth a line in the log.
    pub(super) fn choose(&mut self, now: Instant, chosen: &Chosen, addresses: &[Address]) -> Option<Event> {
        if let Some(at) = chosen.take_doubt()
            && let Some(place) = self.primary
        {
            self.failovers.begin(now, place, self.before, chosen);
            self.doubt = Some((place, at));
            self.checks[place].hurry(now);
            let reason = chosen.why().to_string();
            return Some(Event::NoPrimary { reason });
        }
        let present = chosen.get().place;
        self.note_well(present, chosen);
        let found = match self.doubt {
            Some(_) => return None,
            None => choose(&self.standings, self.primary),
        };
        match found {
            Ok(place) if present == Some(place) => None,
            Ok(place) => Some(self.take_primary(now, place, chosen, addresses)),
            Err(why) => self.go_without(now, &why, chosen, addresses),
        }
    }

    /// Notes what has been counted up to the last check that found the primary well.
    fn note_well(&mut self, present: Option<usize>, chosen: &Chosen) {
        let last = present.and_then(|place| self.standings[place].history().next_back());
        if let Some(last) = last.filter(|last| last.verdict.is_writable && last.at > self.known_well) {
            (self.known_well, self.before) = (last.at, chosen.tally.counts());
        }
    }

    fn take_primary(&mut self, now: Instant, place: usize, chosen: &Chosen, addresses: &[Address]) -> Event {
        let former = self.primary.replace(place);
        if let Some(former) = former {
            if chosen.get().place.is_some() {
                self.failovers.begin(now, former, self.before, chosen);
            }
            self.failovers.end(now, place);
        }
        chosen.set(Some(place), former.is_none_or(|former| self.is_up(former)));
        let address = |place: usize| addresses[place].clone();
        Event::PrimaryFound {
            address: address(place),
            former: former.filter(|&former| former != place).map(address),
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
        if let Some(former) = present {
            chosen.set(None, self.is_up(former));
        }
        ((is_new || present.is_some()) && *why != NoPrimary::Untried).then_some(Event::NoPrimary { reason })
    }

    fn is_up(&self, place: usize) -> bool {
        self.standings[place].state() == ServerState::Up
    }

    fn say(&self, why: &NoPrimary, addresses: &[Address]) -> String {
        match why {
            NoPrimary::Untried => String::from("not all servers have been asked yet"),
            NoPrimary::None => String::from("no server is up and takes writes"),
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
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cluster::standing::Checked;
    use crate::cluster::verdict::Verdict;
    use crate::outside::named::ServerRole;
    use crate::settings::Settings;

    fn address(port: u16) -> Address {
        Address::Tcp { remote: ([127, 0, 0, 1], port).into(), local: None }
    }

    fn two() -> (Cluster, Vec<Address>) {
        let mut settings = Settings { server: vec![address(1), address(2)], ..Settings::default() };
        settings.cluster.several = true;
        (Cluster::new(&settings, 0), settings.server)
    }

    fn seen(cluster: &mut Cluster, at: Instant, place: usize, writable: bool) {
        let verdict = Verdict {
            role: ServerRole::Primary,
            is_well: true,
            is_writable: writable,
            identity: place.to_string(),
            ..Verdict::unreached(String::new())
        };
        cluster.standings[place].take(Checked { at, took: Duration::ZERO, verdict });
    }

    fn at(seconds: u64) -> Instant {
        Instant::START + Duration::from_secs(seconds)
    }

    #[test]
    fn a_change_is_told_to_all_and_remembered_with_what_it_has_cost() {
        let (mut cluster, addresses) = two();
        let chosen = Chosen::default();
        seen(&mut cluster, at(1), 0, true);
        assert_eq!(cluster.choose(at(1), &chosen, &addresses), None, "the other one has not been asked");
        seen(&mut cluster, at(1), 1, false);
        let found = cluster.choose(at(1), &chosen, &addresses);
        assert_eq!(found, Some(Event::PrimaryFound { address: address(1), former: None }));
        assert_eq!((chosen.get().place, cluster.failovers.iter(&chosen).count()), (Some(0), 0));
        cluster.choose(at(2), &chosen, &addresses);
        // Lost with the server, before a check has found out.
        chosen.tally.unknown();
        seen(&mut cluster, at(3), 0, false);
        let news = cluster.choose(at(3), &chosen, &addresses);
        assert!(matches!(news, Some(Event::NoPrimary { .. })), "{news:?}");
        assert_eq!(chosen.get().place, None);
        assert_eq!(cluster.choose(at(4), &chosen, &addresses), None, "once is enough");
        seen(&mut cluster, at(5), 1, true);
        let found = cluster.choose(at(5), &chosen, &addresses);
        assert_eq!(found, Some(Event::PrimaryFound { address: address(2), former: Some(address(1)) }));
        let (failover, counts) = cluster.failovers.iter(&chosen).next().expect("it is remembered");
        assert_eq!((failover.from, failover.to, failover.ended), (0, Some(1), Some(at(5))));
        assert_eq!(counts.unknown, 1);
    }

    #[test]
    fn two_that_take_writes_end_the_choice() {
        let (mut cluster, addresses) = two();
        let chosen = Chosen::default();
        seen(&mut cluster, at(1), 0, true);
        seen(&mut cluster, at(1), 1, false);
        cluster.choose(at(1), &chosen, &addresses);
        seen(&mut cluster, at(2), 1, true);
        let news = cluster.choose(at(2), &chosen, &addresses);
        assert!(matches!(news, Some(Event::NoPrimary { .. })), "{news:?}");
        assert_eq!(chosen.get().place, None);
        assert!(chosen.may_end(), "the former one is up");
        assert!(chosen.why().contains("take writes"), "{}", chosen.why());
    }

    /// Until a check that began later has found the server to take writes after all.
    #[test]
    fn a_doubt_holds_until_the_server_has_been_asked_again() {
        let (mut cluster, addresses) = two();
        let chosen = Chosen::default();
        seen(&mut cluster, at(1), 0, true);
        seen(&mut cluster, at(1), 1, false);
        cluster.choose(at(1), &chosen, &addresses);
        assert!(chosen.doubt(at(2), chosen.get()));
        assert!(cluster.choose(at(2), &chosen, &addresses).is_some());
        seen(&mut cluster, at(2), 0, true);
        assert_eq!(cluster.choose(at(2), &chosen, &addresses), None);
        assert_eq!(chosen.get().place, None);
        cluster.doubt = None;
        assert!(cluster.choose(at(3), &chosen, &addresses).is_some());
        assert_eq!(chosen.get().place, Some(0));
    }
}
