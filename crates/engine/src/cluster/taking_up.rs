//! A worker takes up the choice of a primary: the server on which it opens backends from now on, and the backends that it leaves.

use std::rc::Rc;

use seam::{Address, Instant};

use super::chosen::Choice;
use super::following::Following;
use crate::backend::{InFlight, Owner};
use crate::ids::BackendKey;
use crate::pool::Pool;
use crate::scheduling::Scheduling;
use crate::servers::Servers;
use crate::settings::Settings;

/// The news that a worker takes up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TakenUp {
    /// Nothing that anybody has to hear of.
    Nothing,
    /// The server at this place is the primary. `moves` where the service account is not there yet, or does not know the server yet.
    Primary { place: usize, moves: bool },
    /// The primary was doubted, and holds.
    Holds,
}

/// The backends that a worker leaves, and the work that goes on there meanwhile.
pub(crate) struct Leaving {
    /// Backends on servers that are not the primary.
    pub(crate) backends: Vec<BackendKey>,
    since: Instant,
    /// True where statements there may come to their end.
    may_end: bool,
    /// Place where open transactions may go on.
    goes_on: Option<usize>,
}

/// The way in which a backend is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// Not yet: once its work has come to its end.
    Later,
    /// In the orderly way.
    InOrder,
    /// Given up: it is down, or its requests in flight have had their time.
    GivenUp,
}

/// A worker's backends, and the choice that all workers follow.
pub(crate) struct TakingUp<'a> {
    pub(crate) now: Instant,
    pub(crate) settings: &'a Settings,
    pub(crate) pool: &'a Pool,
    pub(crate) scheduling: &'a mut Scheduling,
    pub(crate) servers: &'a mut Servers,
    pub(crate) following: &'a mut Following,
}

impl TakingUp<'_> {
    /// Takes up the present choice.
    pub(crate) fn choice(&mut self) -> TakenUp {
        let chosen = &self.pool.workers.chosen;
        self.following.proved = chosen.proof.proved();
        let choice = chosen.get();
        if choice != self.following.choice {
            return self.follow(choice);
        }
        let holds = !self.following.refused.is_empty() && chosen.is_settled(choice);
        if holds { TakenUp::Holds } else { TakenUp::Nothing }
    }

    fn follow(&mut self, choice: Choice) -> TakenUp {
        self.following.choice = choice;
        // Statements that were refused go to the new primary.
        self.following.refused.clear();
        self.following.leaves = (self.servers.backend_count() > 0).then_some(self.now);
        let Some(place) = choice.place else {
            self.following.held_since.get_or_insert(self.now);
            return TakenUp::Nothing;
        };
        if let Some(since) = self.following.held_since.take() {
            let scheduler = &self.scheduling.scheduler;
            let oldest = scheduler.oldest_in_need().map_or(self.now, |(_, queued)| queued.max(since));
            self.pool.workers.chosen.tally.held(scheduler.waiting() as u64, self.now.since(oldest));
        }
        let moves = self.servers.primary().reachability.address != place || !self.following.is_known;
        TakenUp::Primary { place, moves }
    }

    /// Moves to the server at this place. Backends are opened there once the service account has found out what it is. `for_all`: this worker
    /// speaks for all of them.
    pub(crate) fn move_to(&mut self, place: usize, for_all: bool) {
        let primary = self.servers.primary_mut();
        if for_all && primary.reachability.address != place {
            self.pool.workers.begin_elsewhere(self.now);
        }
        self.following.is_known = false;
        primary.reachability.move_to(place);
        primary.full = None;
        primary.pending_facts = None;
        primary.control.code.is_elsewhere();
        self.pool.workers.way.forget();
    }

    /// Returns the backends that are to be left, where there may be some.
    pub(crate) fn leaving(&mut self) -> Option<Leaving> {
        let since = self.following.leaves.take()?;
        let in_time = self.now.since(since) < self.settings.cluster.hold;
        let several = self.settings.cluster.several;
        let is_former = |place| self.following.is_former(several, place);
        let left = self.servers.backends().filter(|(_, backend)| is_former(backend.place()));
        Some(Leaving {
            backends: left.map(|(key, _)| key).collect(),
            since,
            may_end: in_time && self.pool.workers.chosen.may_end(),
            goes_on: self.pool.workers.chosen.transactions_go_on().filter(|_| in_time),
        })
    }

    /// Returns the way in which one of them is left. Its requests in flight come to their end, where the server is up. Nothing more is sent.
    pub(crate) fn leave(&mut self, key: BackendKey, leaving: &Leaving) -> Departure {
        let Some(backend) = self.servers.get_mut(key) else { return Departure::Later };
        backend.is_left();
        if backend.holder().is_some() && leaving.goes_on.is_some_and(|former| backend.place().is(former)) {
            self.following.leaves = Some(leaving.since);
            return Departure::Later;
        }
        if backend.is_idle() || !(backend.is_ready() || backend.is_changing()) {
            return Departure::InOrder;
        }
        let ends = !backend.in_flight.is_empty() && backend.in_flight.iter().all(ends_by_itself);
        self.servers.of_mut(key).sharing.remove(key);
        if leaving.may_end && ends {
            self.following.leaves = Some(leaving.since);
            return Departure::Later;
        }
        Departure::GivenUp
    }

    /// Returns the way in which a backend is left that leads to the former address of its server: it ends its work.
    pub(crate) fn leave_former(&mut self, key: BackendKey, from: &Rc<Address>) -> Departure {
        let backend = &mut self.servers[key];
        // Permits are for what stands at the new address. The former one may be dead, and what was sent there hang for long.
        backend.lend_permit(&mut self.scheduling.scheduler);
        backend.is_left_at(from);
        if backend.is_changing() {
            return Departure::GivenUp;
        }
        if backend.is_idle() || !backend.is_ready() {
            return Departure::InOrder;
        }
        self.servers.of_mut(key).sharing.remove(key);
        Departure::Later
    }

    /// Notes whether there is a primary that can be reached, and since when.
    pub(crate) fn turn_ends(&mut self) {
        let primary = &self.servers.primary().reachability;
        let fails_over = self.following.fails_over(self.settings.cluster.several, primary);
        if std::mem::replace(&mut self.following.failed_over, fails_over) && !fails_over {
            self.following.found_at = self.now;
        }
    }
}

/// Says whether a request ends without anything more that is sent, and no statement of a client follows by itself.
fn ends_by_itself(statement: &InFlight) -> bool {
    match statement.owner {
        Owner::Client { .. }
        | Owner::Abandoned
        | Owner::SaveDiagnostics { .. }
        | Owner::SaveInsertId { .. }
        | Owner::ReadStatus { .. }
        | Owner::Reset
        | Owner::RestoreWaitTimeout
        | Owner::Closing
        | Owner::SetOption => true,
        // A client's statement would be next.
        Owner::Setup
        | Owner::ApplyState { .. }
        | Owner::ApplyDefinition { .. }
        | Owner::Prepare { .. }
        | Owner::ReadVariables { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::following::tests::with_backends;
    use crate::engine::Engine;
    use crate::ids::client_key;

    #[test]
    fn a_choice_is_taken_up_once() {
        let mut engine = with_backends();
        let mut chosen = |place| {
            engine.pool.workers.chosen.set(place, true);
            let taken_up = engine.taking_up().choice();
            assert_eq!(engine.taking_up().choice(), TakenUp::Nothing, "{place:?} has been taken up");
            if let TakenUp::Primary { place, .. } = taken_up {
                engine.taking_up().move_to(place, true);
                engine.following.found_out();
            }
            taken_up
        };
        assert_eq!(chosen(Some(1)), TakenUp::Primary { place: 1, moves: true });
        assert_eq!(chosen(None), TakenUp::Nothing);
        assert_eq!(chosen(Some(1)), TakenUp::Primary { place: 1, moves: false }, "it is known there");
    }

    #[test]
    fn who_was_refused_something_hears_of_it_once_the_doubt_is_settled() {
        let mut engine = with_backends();
        let choice = engine.following.choice;
        engine.following.refused.push(engine.clients.ref_to(client_key(0)));
        assert!(engine.pool.workers.chosen.doubt(choice));
        assert_eq!(engine.taking_up().choice(), TakenUp::Nothing);
        engine.pool.workers.chosen.settle(engine.now, choice);
        assert_eq!(engine.taking_up().choice(), TakenUp::Holds);
        assert_eq!(engine.following.take_refused().len(), 1);
        assert_eq!(engine.taking_up().choice(), TakenUp::Nothing);
    }

    /// Returns the ways in which two backends are left: one that a client holds, at rest, and one with a command of ours in flight.
    fn left(engine: &mut Engine) -> Vec<Departure> {
        let Some(leaving) = engine.taking_up().leaving() else { return Vec::new() };
        leaving.backends.iter().map(|&key| engine.taking_up().leave(key, &leaving)).collect()
    }

    #[test]
    fn what_is_in_flight_is_waited_for_as_long_as_it_may_end_and_transactions_where_they_go_on() {
        let mut engine = with_backends();
        assert_eq!(left(&mut engine), [], "they stand on the primary");
        engine.pool.workers.chosen.set(Some(1), true);
        engine.taking_up().choice();
        assert_eq!(left(&mut engine), [Departure::GivenUp, Departure::Later]);
        engine.pool.workers.chosen.former_is_lost();
        assert_eq!(left(&mut engine), [Departure::GivenUp; 2]);
        engine.pool.workers.chosen.give_way(0);
        engine.taking_up().choice();
        assert_eq!(left(&mut engine), [Departure::Later; 2]);
        engine.now = engine.now + engine.settings.cluster.hold;
        assert_eq!(left(&mut engine), [Departure::GivenUp; 2], "they have had their time");
    }
}
