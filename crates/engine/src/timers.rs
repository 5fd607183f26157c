//! When the engine has something to do by itself: one closed list.
//!
//! A timer that is forgotten here is a hang, since nobody comes back for it. One that stays in the past is a spin: the next turn
//! comes at once, and finds it there again. So each turn of a debug build looks at its end what it has left there.

pub(crate) mod list;

use seam::Instant;

use self::list::Timer;
use crate::engine::Engine;

impl Engine {
    /// When this is due, if it is going to be.
    pub(crate) fn timer(&self, timer: Timer) -> Option<Instant> {
        if self.orders.paused && timer.rests_while_paused() {
            return None;
        }
        match timer {
            Timer::Sweep => Some(self.next_sweep),
            Timer::ServiceAccount => self.next_control_turn(),
            Timer::ServerCheck => self.next_cluster_turn(),
            Timer::LoginTimeout => self.logins.by_deadline.front().map(|&(deadline, _)| deadline),
            Timer::LateRefusal => self.logins.next_refusal_to_tell(),
            Timer::KickUp => self.scheduling.scheduler.next_kick_up(),
            Timer::EndOfDelay => self.scheduling.delayed.next_end(),
            Timer::GroupTurn => self.scheduling.scheduler.next_group_turn(),
            Timer::LackOfBackends => self.next_giving_up(),
            Timer::Overload => self.scheduling.next_refusal(self.now, &self.settings),
            Timer::Shares => self.scheduling.next_release(self.now),
            Timer::Overdue => self.next_ending(),
            Timer::KillUnderWay => self.orders.kills_under_way.next_end(),
            Timer::Stall => {
                let identities = &self.logins.identities;
                let (settings, servers) = (&self.settings, &self.servers);
                self.scheduling.next_stall(self.now, settings, &self.pool, servers, &self.clients, identities)
            }
            Timer::Rescue => self.servers.next_rescue(self.now, &self.settings, &self.clients),
            Timer::Standing => self.scheduling.next_look_at_standing(self.now),
            Timer::Place => self.servers.iter().filter_map(|server| server.opening.next_look(self.now)).min(),
            Timer::OtherWorkers => self.pool.next_asking(&self.settings),
            Timer::Draining => self.orders.draining,
            // An attempt that was due has been made in this turn, and its answer will come by itself.
            Timer::Reconnect => self
                .servers
                .iter()
                .filter_map(|server| server.reachability.next_attempt())
                .filter(|&retry| retry > self.now && self.scheduling.scheduler.in_need() > 0)
                .min(),
            Timer::ServerFull => {
                let until = self.servers.iter().filter_map(|server| Some(server.full.as_ref()?.until));
                until.filter(|&until| until > self.now).min()
            }
            Timer::Claim => self.next_claim(),
            Timer::Readers => self.readers.next_turn(self.now, self),
            Timer::Resume => (!self.resume.is_empty()).then_some(self.now),
        }
    }

    /// A turn has ended: nothing that was due is still to be done.
    ///
    /// # Panics
    ///
    /// Where that is not so.
    pub(crate) fn check_timers(&self) {
        if self.orders.draining.is_some() && self.clients.is_empty() {
            return; // it has finished, and nobody asks it any more
        }
        let workers = self.pool.workers.count();
        for &timer in Timer::ALL.iter().filter(|timer| !timer.may_stay_due(workers)) {
            let at = self.timer(timer);
            assert!(
                at.is_none_or(|at| at >= self.now),
                "{timer:?} was due at {at:?}, {:?} is over",
                self.now
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::client::commands::tests::engine;
    use crate::ids::client_key;
    use crate::settings::Settings;

    #[test]
    fn what_rests_while_paused_is_not_due() {
        let mut engine = engine(1, Settings::default());
        engine.scheduling.urgent.push((engine.clients.ref_to(client_key(0)), engine.now));
        assert!(engine.timer(Timer::LackOfBackends).is_some());
        engine.orders.paused = true;
        assert_eq!(engine.timer(Timer::LackOfBackends), None);
        assert!(engine.timer(Timer::Sweep).is_some());
    }

    #[test]
    #[should_panic(expected = "Sweep was due")]
    fn a_turn_that_leaves_a_timer_in_the_past_is_found_out() {
        let mut engine = engine(1, Settings::default());
        engine.now = engine.next_sweep + Duration::from_micros(1);
        engine.check_timers();
    }
}
