//! A planned change of the primary, led by the operators' side. New transactions wait, and open ones go on and end. Then the servers
//! say which of them is the primary.

use std::time::Duration;

use seam::Instant;

use super::Cluster;
use super::chosen::Chosen;
use crate::outside::event::Event;
use crate::settings::Settings;

/// A decision of the operators' side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchStep {
    /// New transactions wait, and open ones go on.
    Begin {
        /// The place of the new primary in the list of addresses.
        to: usize,
        /// Time after which the switchover is over, should no other step follow.
        lasts: Duration,
    },
    /// Open transactions are rolled back: the roles are about to change.
    EndTransactions,
    /// The servers say which one is the primary, as always.
    Over,
}

/// A switchover under way.
#[derive(Debug)]
pub(super) struct Switching {
    pub(super) to: usize,
    /// Time at which the switchover is over by itself.
    pub(super) until: Instant,
    /// Time since which it is over. The former primary's answers from before count no more, since its role may have changed.
    pub(super) over: Option<Instant>,
}

impl Switching {
    /// Returns the time at which the switchover is over by itself, unless it is over.
    pub(super) fn ends(&self) -> Option<Instant> {
        self.over.is_none().then_some(self.until)
    }
}

impl Cluster {
    /// Says whether a switchover is under way, and gives the primary up for it. Returns the event of that, which is worth a line.
    pub(super) fn gives_way(
        &mut self,
        now: Instant,
        chosen: &Chosen,
        settings: &Settings,
    ) -> (bool, Option<Event>) {
        let Some(switching) = &self.switching else { return (false, None) };
        match switching.ends() {
            None => return (true, None),
            Some(until) if until <= now => {
                self.switching_ends(now);
                return (self.switching.is_some(), None);
            }
            Some(_) => {}
        }
        let to = settings.server.get(switching.to).cloned();
        let mut news = None;
        if let (Some(from), Some(to)) = (chosen.get().place, to) {
            self.failovers.begin(now, from, self.before, chosen);
            chosen.say(format!("a switchover to {to} is under way").into());
            chosen.give_way(from);
            news = Some(Event::SwitchoverBegan { from: settings.server[from].clone(), to });
        }
        // Nobody writes where two take writes, whatever has begun before.
        if self.several_take_writes() {
            chosen.end_transactions();
        }
        (true, news)
    }

    /// Ends the switchover: the servers say which one is the primary, as soon as the former one has been asked.
    pub(super) fn switching_ends(&mut self, now: Instant) {
        if self.primary.is_none() {
            self.switching = None;
        }
        if let Some(switching) = &mut self.switching {
            switching.over.get_or_insert(now);
        }
        self.hurry(now);
    }

    /// Notes the end of a check that began at this time. The former primary has been asked, where the check was that one's.
    pub(super) fn switching_asked(&mut self, place: usize, began: Instant) {
        let over = self.switching.as_ref().and_then(|switching| switching.over);
        if self.primary == Some(place) && over.is_some_and(|over| began >= over) {
            self.switching = None;
        }
    }

    /// Has all servers asked at once.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.checks.iter_mut().for_each(|check| check.hurry(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::drain::DrainOrder;
    use crate::cluster::testing::{address, at, two_servers, writes};

    /// Makes two servers. The first takes writes and has been chosen.
    fn two() -> (Cluster, Settings, Chosen) {
        let settings = two_servers();
        let (mut cluster, chosen) = (Cluster::new(&settings, 0), Chosen::default());
        seen(&mut cluster, 1, 0, true);
        seen(&mut cluster, 1, 1, false);
        assert!(cluster.choose_confirmed(at(1), &chosen, &settings).is_some());
        (cluster, settings, chosen)
    }

    /// Takes in a check that has begun and ended at this second.
    fn seen(cluster: &mut Cluster, second: u64, place: usize, writable: bool) {
        cluster.seen(at(second), place, writes(place, writable));
    }

    #[test]
    fn nobody_is_the_primary_until_the_former_one_has_been_asked_again() {
        let (mut cluster, settings, chosen) = two();
        cluster.switching = Some(Switching { to: 1, until: at(60), over: None });
        let news = cluster.choose_confirmed(at(2), &chosen, &settings);
        assert!(matches!(news, Some(Event::SwitchoverBegan { .. })), "{news:?}");
        assert!(chosen.get().place.is_none() && chosen.transactions_go_on().is_some() && chosen.may_end());
        seen(&mut cluster, 3, 0, true);
        assert_eq!(
            cluster.choose_confirmed(at(3), &chosen, &settings),
            None,
            "it takes writes, and gives way"
        );
        chosen.end_transactions();
        assert!(chosen.transactions_go_on().is_none() && chosen.may_end());
        cluster.switching_ends(at(4));
        // Another one's check says nothing of it, and what it has said before may be over.
        seen(&mut cluster, 5, 1, true);
        assert_eq!(cluster.choose_confirmed(at(5), &chosen, &settings), None);
        seen(&mut cluster, 6, 0, false);
        let found = cluster.choose_confirmed(at(6), &chosen, &settings);
        assert!(matches!(found, Some(Event::PrimaryFound { former: Some(_), .. })), "{found:?}");
        assert_eq!(chosen.get().place, Some(1));
    }

    #[test]
    fn it_is_over_by_itself_and_the_former_primary_goes_on() {
        let (mut cluster, settings, chosen) = two();
        cluster.switching = Some(Switching { to: 1, until: at(60), over: None });
        cluster.choose_confirmed(at(2), &chosen, &settings);
        assert_eq!(cluster.choose_confirmed(at(60), &chosen, &settings), None, "it is asked first");
        seen(&mut cluster, 61, 0, true);
        assert!(cluster.choose_confirmed(at(61), &chosen, &settings).is_some());
        assert_eq!(chosen.get().place, Some(0));
        assert!(chosen.transactions_go_on().is_none());
    }

    #[test]
    fn transactions_do_not_go_on_beside_a_third_that_takes_writes() {
        let mut settings = two_servers();
        settings.server.push(address(3));
        for is_drained in [true, false] {
            let (mut cluster, chosen) = (Cluster::new(&settings, 0), Chosen::default());
            (0..3).for_each(|place| seen(&mut cluster, 1, place, place == 0));
            cluster.choose_confirmed(at(1), &chosen, &settings);
            let order = DrainOrder { place: 2, drains: is_drained, is_planned: false };
            cluster.drain(order, Some(0), &settings.server).expect("it is there");
            cluster.switching = Some(Switching { to: 1, until: at(60), over: None });
            cluster.choose_confirmed(at(2), &chosen, &settings);
            assert!(chosen.transactions_go_on().is_some());
            seen(&mut cluster, 3, 2, true);
            cluster.choose_confirmed(at(3), &chosen, &settings);
            assert_eq!(
                chosen.transactions_go_on().is_some(),
                is_drained,
                "a server that is drained does not count"
            );
        }
    }

    #[test]
    fn nor_beside_the_next_primary_before_they_are_to_end() {
        let (mut cluster, settings, chosen) = two();
        cluster.switching = Some(Switching { to: 1, until: at(60), over: None });
        cluster.choose_confirmed(at(2), &chosen, &settings);
        assert!(chosen.transactions_go_on().is_some());
        seen(&mut cluster, 3, 1, true);
        cluster.choose_confirmed(at(3), &chosen, &settings);
        assert!(chosen.transactions_go_on().is_none());
    }

    /// Nobody writes where two take writes, whatever has begun before.
    #[test]
    fn where_it_has_led_to_no_primary_transactions_do_not_go_on() {
        for (former_writes, other_writes) in [(true, true), (false, false)] {
            let (mut cluster, settings, chosen) = two();
            cluster.switching = Some(Switching { to: 1, until: at(60), over: None });
            cluster.choose_confirmed(at(2), &chosen, &settings);
            assert!(chosen.transactions_go_on().is_some());
            cluster.switching_ends(at(3));
            seen(&mut cluster, 4, 1, other_writes);
            seen(&mut cluster, 4, 0, former_writes);
            let news = cluster.choose_confirmed(at(4), &chosen, &settings);
            assert!(matches!(news, Some(Event::NoPrimary { .. })), "{news:?}");
            assert!(chosen.transactions_go_on().is_none());
        }
    }
}
